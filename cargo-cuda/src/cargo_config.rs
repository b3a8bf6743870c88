//! The keys of Cargo's configuration that `cargo cuda` needs, from files, included files and
//! `--config`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cuda_build::internal::{Env, Root};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CargoConfig {
    /// The first `[build] target`, or the value of `CARGO_BUILD_TARGET`.
    pub build_target: Option<String>,
    /// Whether `[build] target` lists several targets.
    several_targets: bool,
    /// `[build] rustc-wrapper`: a program's name or an absolute path. An empty value means that the
    /// configuration turns the wrapper off.
    pub wrapper: Option<PathBuf>,
    /// `[env]`: variables for everything that cargo starts.
    variables: BTreeMap<String, Variable>,
}

/// A variable of `[env]`. Each of its keys may come from a different file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Variable {
    value: Option<String>,
    /// Whether `value` replaces the value in cargo's own environment.
    force: Option<bool>,
    /// Whether `value` is a path relative to `base`.
    relative: Option<bool>,
    base: Option<PathBuf>,
}

/// The maximum depth of includes. The limit ends the recursion if a file includes itself.
const MAX_INCLUDE_DEPTH: usize = 8;

impl CargoConfig {
    /// Reads the configuration that applies in the current directory.
    pub fn here(root: &Root, env: &Env, arguments: &[String]) -> Self {
        let here = std::env::current_dir().unwrap_or_default();
        Self::read(root, env, &here, arguments)
    }

    /// Reads the configuration that applies in `directory`. `arguments` are the values of `--config`.
    ///
    /// The first value of a key wins, in Cargo's order: `--config`, the files in `directory` and then
    /// in each of its parents, the user's file.
    pub fn read(root: &Root, env: &Env, directory: &Path, arguments: &[String]) -> Self {
        let home = env.peek("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| env.peek("HOME").map(|home| Path::new(home).join(".cargo")));
        let above = directory
            .ancestors()
            .map(|ancestor| ancestor.join(".cargo"));
        let mut configured = Self::default();
        for argument in arguments.iter().rev() {
            let file = directory.join(argument);
            if root.is_file(&file) {
                configured.add_file(root, &file, 0);
            } else {
                configured.add(argument, directory);
            }
        }
        let variable = env.peek("CARGO_BUILD_TARGET");
        let variable = variable.map(|target| target.to_string_lossy().into_owned());
        configured.build_target = configured.build_target.or(variable);
        for place in above.chain(home) {
            for name in ["config.toml", "config"] {
                configured.add_file(root, &place.join(name), 0);
            }
        }
        configured
    }

    /// Whether the configuration names a target other than `triple`, so that C code may be compiled
    /// for that target.
    pub fn other_target(&self, triple: &str) -> bool {
        let named = self.build_target.as_deref().map(target_directory_name);
        self.several_targets || named.is_some_and(|named| named != triple)
    }

    /// `env` as build scripts see it, with the variables of `[env]`. If `env` sets a variable too,
    /// the value in `[env]` applies only if it has `force`.
    pub fn over(&self, env: &Env) -> Env {
        // These variables are for cargo and rustup, which `[env]` does not affect: they read only
        // their own environment.
        let is_read_by_cargo = |name: &str| {
            name == "HOME"
                || ["CARGO", "RUST"]
                    .iter()
                    .any(|start| name.starts_with(start))
        };
        let is_set = |name: &str| env.variables().any(|(own, _)| own == name);
        let mut seen = env.clone();
        for (name, variable) in &self.variables {
            let Some(value) = &variable.value else {
                continue;
            };
            if is_read_by_cargo(name) || (is_set(name) && variable.force != Some(true)) {
                continue;
            }
            seen = match (&variable.base, variable.relative) {
                (Some(base), Some(true)) => seen.with(name, base.join(value)),
                _ => seen.with(name, value),
            };
        }
        seen
    }

    /// Adds a file, then the files that it includes, which have lower precedence.
    fn add_file(&mut self, root: &Root, file: &Path, depth: usize) {
        let Ok(text) = root.text(file) else { return };
        // Cargo resolves a path in this file against the directory that contains `.cargo`.
        let base = file.parent().and_then(Path::parent);
        let included = self.add(&text, base.unwrap_or(Path::new("")));
        let beside = file.parent().unwrap_or(Path::new(""));
        for name in included.iter().rev().filter(|_| depth < MAX_INCLUDE_DEPTH) {
            self.add_file(root, &beside.join(name), depth + 1);
        }
    }

    /// Adds the keys in `text` that are not set yet, and returns the files that `text` includes.
    fn add(&mut self, text: &str, base: &Path) -> Vec<String> {
        // An invalid file is ignored here, because cargo itself reports it.
        let Ok(table) = text.parse::<toml::Table>() else {
            return Vec::new();
        };
        let build = table.get("build");
        if let (None, Some(named)) = (
            &self.build_target,
            build.and_then(|build| build.get("target")),
        ) {
            let all = named
                .as_array()
                .map_or(std::slice::from_ref(named), Vec::as_slice);
            self.build_target = all.first().and_then(|one| one.as_str()).map(str::to_owned);
            self.several_targets = all.len() > 1;
        }
        let wrapper = build.and_then(|build| build.get("rustc-wrapper")?.as_str());
        if let (None, Some(wrapper)) = (&self.wrapper, wrapper) {
            // A name without a `/` stays as it is: cargo looks it up on `PATH`.
            let is_path = Path::new(wrapper).components().count() > 1;
            self.wrapper = Some(if is_path {
                base.join(wrapper)
            } else {
                wrapper.into()
            });
        }
        let env = table.get("env").and_then(toml::Value::as_table);
        for (name, value) in env.into_iter().flatten() {
            let plain = value.as_str();
            let flag = |key| {
                let flag = value.get(key).and_then(toml::Value::as_bool);
                flag.or(plain.map(|_| false))
            };
            let variable = self.variables.entry(name.clone()).or_default();
            if let (None, Some(text)) = (
                &variable.value,
                plain.or_else(|| value.get("value")?.as_str()),
            ) {
                variable.value = Some(text.to_owned());
                variable.base = Some(base.to_owned());
            }
            variable.force = variable.force.or_else(|| flag("force"));
            variable.relative = variable.relative.or_else(|| flag("relative"));
        }
        let included = match table.get("include") {
            Some(toml::Value::Array(all)) => all.as_slice(),
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        let file = |value: &toml::Value| {
            let text = value.as_str().or_else(|| value.get("path")?.as_str());
            text.map(str::to_owned)
        };
        included.iter().filter_map(file).collect()
    }
}

/// The triple of this machine. It always ends in `-gnu`, because CUDA supports only glibc.
pub fn host() -> String {
    format!(
        "{}-unknown-{}-gnu",
        std::env::consts::ARCH,
        std::env::consts::OS
    )
}

/// The name of Cargo's directory for a target: the triple, or the name of the target's JSON file
/// without `.json`.
pub fn target_directory_name(target: &str) -> String {
    // `host-tuple` is Cargo's name for the machine that it runs on.
    if target == "host-tuple" {
        return host();
    }
    let described = target
        .strip_suffix(".json")
        .and_then(|path| path.rsplit('/').next());
    described.unwrap_or(target).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(place: &Path, name: &str, text: &str) {
        crate::output::write_if_changed(&place.join(name), text.as_bytes()).unwrap();
    }

    #[test]
    fn a_wrapper_is_found_from_the_file_that_names_it() {
        let place = tempfile::tempdir().unwrap();
        let env = Env::from_pairs([("CARGO_HOME", place.path().join("home"))]);
        for (named, wrapper) in [
            ("sccache", PathBuf::from("sccache")),
            ("bin/own", place.path().join("bin/own")),
            ("/bin/own", PathBuf::from("/bin/own")),
        ] {
            let text = format!("[build]\nrustc-wrapper = '{named}'");
            write(place.path(), ".cargo/config.toml", &text);
            let below = place.path().join("a/b");
            let read =
                |arguments: &[String]| CargoConfig::read(&Root::system(), &env, &below, arguments);
            assert_eq!(read(&[]).wrapper, Some(wrapper));
            let none = ["build.rustc-wrapper=''".to_owned()];
            assert_eq!(read(&none).wrapper, Some(PathBuf::new()));
        }
    }

    #[test]
    fn variables_of_the_configuration_are_the_users() {
        let place = tempfile::tempdir().unwrap();
        write(
            place.path(),
            ".cargo/config.toml",
            "[env]\nA = 'far'\nB = { value = 'b', relative = true }\nHOME = '/x'",
        );
        write(
            place.path(),
            "w/.cargo/config.toml",
            "[env]\nA = 'near'\nC = { value = 'c', force = true }\nD = 'd'\nE = 'e'\nRUSTFLAGS = '-Ca'",
        );
        let home = place.path().join("home").into_os_string();
        let process = [
            ("CARGO_HOME", home),
            ("C", "own".into()),
            ("D", "own".into()),
            ("E", "".into()),
            ("G", "own".into()),
        ];
        let env = Env::from_pairs(process);
        let arguments = [
            "env.F.value = 'f'",
            "env.F.relative = true",
            "env.G.force = true",
            "env.G.value = 'g'",
        ];
        let arguments = arguments.map(str::to_owned);
        let here = place.path().join("w/below");
        let seen = CargoConfig::read(&Root::system(), &env, &here, &arguments).over(&env);
        let b = place.path().join("b");
        let f = here.join("f");
        for (name, expected) in [
            ("A", Some("near")),
            ("B", b.to_str()),
            ("C", Some("c")),
            ("D", Some("own")),
            ("E", None),
            ("F", f.to_str()),
            ("G", Some("g")),
            ("HOME", None),
            ("RUSTFLAGS", None),
        ] {
            let value = seen.peek(name).and_then(std::ffi::OsStr::to_str);
            assert_eq!(value, expected, "{name}");
        }
    }

    #[test]
    fn targets_have_the_names_of_their_directories() {
        assert_eq!(target_directory_name("x/own.json"), "own");
        assert_eq!(target_directory_name("host-tuple"), host());
        let target = |text: &str| {
            let mut configured = CargoConfig::default();
            configured.add(text, Path::new("/"));
            configured.other_target("t")
        };
        assert!(!target(""));
        assert!(!target("build.target = 't'"));
        assert!(target("build.target = 'u'"));
        assert!(target("build.target = ['t', 'u']"));
    }

    #[test]
    fn arguments_and_included_files_are_read() {
        let place = tempfile::tempdir().unwrap();
        let include = "include = ['one.toml', { path = 'more/two.toml', optional = true }]";
        write(place.path(), ".cargo/config.toml", include);
        write(
            place.path(),
            ".cargo/one.toml",
            "env.X = 'one'\nbuild.target = 'x/own.json'",
        );
        write(
            place.path(),
            ".cargo/more/two.toml",
            "include = ['two.toml']\n[env]\nX = 'two'",
        );
        write(place.path(), "given.toml", "env.X = 'given'");
        let env = Env::from_pairs([("CARGO_HOME", place.path().join("home"))]);
        let read = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|&a| a.to_owned()).collect();
            let read = CargoConfig::read(&Root::system(), &env, place.path(), &arguments);
            let x = read.over(&env).peek("X").unwrap().to_owned();
            (x.into_string().unwrap(), read.build_target.unwrap())
        };
        assert_eq!(read(&[]), ("two".to_owned(), "x/own.json".to_owned()));
        let given = read(&["given.toml", "build.target=['t']"]);
        assert_eq!(given, ("given".to_owned(), "t".to_owned()));
    }
}
