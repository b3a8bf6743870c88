//! What Cargo's configuration says, as far as it decides what `cargo cuda` may set.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cuda_build::{Env, Root};

/// What Cargo's configuration says: files, and `--config`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// `[build] rustflags`
    pub build: Option<Flags>,
    /// `[target.<triple>] rustflags` of this target
    pub target: Option<Flags>,
    /// `[target.'cfg(…)'] rustflags` of any
    pub cfg: bool,
    /// `[build] target` with another one, or a compiler or CMake's toolchain file in `[env]`
    pub compilers: bool,
    /// `runner` of any target
    pub runner: bool,
    /// The one `[build] target`, or what its variable says, as it is written there
    pub build_target: Option<String>,
    /// `[build] rustc-wrapper`, where it is a path an absolute one; empty for none
    pub wrapper: Option<PathBuf>,
    /// `[env]`: what the scripts, rustc and programs that cargo starts get.
    pub variables: BTreeMap<String, Variable>,
    /// Files that are included and were not read: anything may be in them.
    pub unknown: bool,
}

/// A variable of `[env]`. Each key may be said in another place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variable {
    value: Option<String>,
    /// Whether it replaces what cargo was started with.
    force: Option<bool>,
    /// Whether it is a path below the directory that `value` was said for.
    relative: Option<bool>,
    below: Option<PathBuf>,
}

/// How `rustflags` are written. Cargo joins lists, takes one string instead of another, and
/// refuses a list with a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flags {
    /// A list.
    List,
    /// A string, in the file that counts.
    Text(String),
    /// A string among cargo's arguments, where it counts more than ours would.
    Given,
}

/// A file that includes itself ends here.
const DEEPEST: usize = 8;

impl Configured {
    /// Reads what applies in `directory`, as Cargo does: `--config`, files above it, and the
    /// user's own. What is read first counts.
    #[must_use]
    pub fn read(
        root: &Root,
        env: &Env,
        directory: &Path,
        triple: &str,
        arguments: &[String],
    ) -> Self {
        let home = env.peek("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| env.peek("HOME").map(|home| Path::new(home).join(".cargo")));
        let above = directory
            .ancestors()
            .map(|ancestor| ancestor.join(".cargo"));
        let mut configured = Self::default();
        for argument in arguments.iter().rev() {
            let file = directory.join(argument);
            if root.is_file(&file) {
                configured.lay_over_file(root, &file, triple, 0);
            } else {
                configured.lay_over(argument, triple);
                configured.resolve(directory);
            }
        }
        for flags in [&mut configured.build, &mut configured.target] {
            if matches!(flags, Some(Flags::Text(_))) {
                *flags = Some(Flags::Given);
            }
        }
        let variable = || {
            env.peek("CARGO_BUILD_TARGET")
                .map(|target| target.to_string_lossy().into_owned())
        };
        configured.build_target = configured.build_target.or_else(variable);
        for place in above.chain(home) {
            for name in ["config.toml", "config"] {
                configured.lay_over_file(root, &place.join(name), triple, 0);
            }
        }
        configured
    }

    /// Adds what a file says, and below it what those say that it includes.
    fn lay_over_file(&mut self, root: &Root, file: &Path, triple: &str, depth: usize) {
        let Ok(text) = root.text(file) else { return };
        let had_wrapper = self.wrapper.is_some();
        let included = self.lay_over(&text, triple);
        let above = file
            .parent()
            .and_then(Path::parent)
            .unwrap_or(Path::new(""));
        self.resolve(above);
        // A bare name is looked for on `PATH`; a path is below the directory that holds `.cargo`.
        if let (false, Some(wrapper)) = (had_wrapper, &mut self.wrapper)
            && wrapper.components().count() > 1
        {
            *wrapper = above.join(&*wrapper);
        }
        if depth == DEEPEST {
            self.unknown |= !included.is_empty();
            return;
        }
        for name in included.iter().rev() {
            let beside = file.parent().unwrap_or(Path::new(""));
            self.lay_over_file(root, &beside.join(name), triple, depth + 1);
        }
    }

    /// What was read last of `[env]` was said for this directory.
    fn resolve(&mut self, directory: &Path) {
        for variable in self
            .variables
            .values_mut()
            .filter(|variable| variable.value.is_some())
        {
            variable.below.get_or_insert_with(|| directory.to_owned());
        }
    }

    /// Adds what one text says that is not said yet, and returns the files that it includes.
    pub(crate) fn lay_over(&mut self, text: &str, triple: &str) -> Vec<String> {
        // Cargo itself says what is wrong with a file that can't be read.
        let Ok(table) = text.parse::<toml::Table>() else {
            return Vec::new();
        };
        let flags = |value: &toml::Value| {
            value.get("rustflags").map(|flags| {
                flags
                    .as_str()
                    .map_or(Flags::List, |t| Flags::Text(t.into()))
            })
        };
        self.build = self
            .build
            .take()
            .or_else(|| table.get("build").and_then(flags));
        let named: Option<Vec<&str>> = table
            .get("build")
            .and_then(|build| build.get("target"))
            .map(|named| match named {
                toml::Value::Array(all) => all
                    .iter()
                    .map(|one| one.as_str().unwrap_or_default())
                    .collect(),
                one => vec![one.as_str().unwrap_or_default()],
            });
        let other = named
            .iter()
            .flatten()
            .any(|one| directory_name(one) != triple);
        if let (None, Some([one])) = (&self.build_target, named.as_deref()) {
            self.build_target = Some((*one).to_owned());
        }
        let wrapper = table
            .get("build")
            .and_then(|build| build.get("rustc-wrapper")?.as_str());
        self.wrapper = self.wrapper.take().or_else(|| wrapper.map(PathBuf::from));
        let env = table.get("env").and_then(toml::Value::as_table);
        let about = |name: &String| {
            ["CC", "CXX", "HOST_CC", "HOST_CXX"].contains(&name.as_str())
                || ["CC_", "CXX_"].iter().any(|start| name.starts_with(start))
                || name.contains("CMAKE_TOOLCHAIN_FILE")
        };
        for (name, value) in env.into_iter().flatten() {
            let plain = value.as_str();
            let text = plain
                .or_else(|| value.get("value")?.as_str())
                .map(str::to_owned);
            let flag = |key| {
                value
                    .get(key)
                    .and_then(toml::Value::as_bool)
                    .or(plain.map(|_| false))
            };
            let variable = self.variables.entry(name.clone()).or_default();
            variable.value = variable.value.take().or(text);
            variable.force = variable.force.or_else(|| flag("force"));
            variable.relative = variable.relative.or_else(|| flag("relative"));
        }
        self.compilers |= other || env.is_some_and(|env| env.keys().any(about));
        let targets = table.get("target").and_then(toml::Value::as_table);
        for (name, value) in targets.into_iter().flatten() {
            self.cfg |= name.starts_with("cfg(") && flags(value).is_some();
            self.runner |= value.get("runner").is_some();
            if name == triple {
                self.target = self.target.take().or_else(|| flags(value));
            }
        }
        let included = match table.get("include") {
            None => Some(Vec::new()),
            Some(toml::Value::Array(all)) => all.iter().map(included).collect(),
            Some(one) => included(one).map(|one| vec![one]),
        };
        self.unknown |= included.is_none();
        included.unwrap_or_default()
    }
}

/// What Cargo's configuration here says that is built for: one `[build] target`, as it is written.
#[must_use]
pub fn build_target(root: &Root, env: &Env, arguments: &[String]) -> Option<String> {
    let here = std::env::current_dir().unwrap_or_default();
    Configured::read(root, env, &here, &host(), arguments).build_target
}

/// What build scripts will see of `env`: with `[env]` of Cargo's configuration below it, and above
/// it what is forced. Both are the user's.
#[must_use]
pub fn with_variables(root: &Root, env: &Env, arguments: &[String]) -> Env {
    let here = std::env::current_dir().unwrap_or_default();
    Configured::read(root, env, &here, &host(), arguments).over(env)
}

impl Configured {
    fn over(&self, env: &Env) -> Env {
        // Cargo and rustup themselves look at what they were started with alone.
        let read_before = |name: &str| {
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
            if read_before(name) || (is_set(name) && variable.force != Some(true)) {
                continue;
            }
            seen = match (&variable.below, variable.relative) {
                (Some(directory), Some(true)) => seen.with(name, directory.join(value)),
                _ => seen.with(name, value),
            };
        }
        seen
    }
}

/// The file that an entry of `include` names.
fn included(value: &toml::Value) -> Option<String> {
    value
        .as_str()
        .or_else(|| value.get("path")?.as_str())
        .map(str::to_owned)
}

/// The triple of this machine, where Rust has glibc: CUDA knows no other.
#[must_use]
pub fn host() -> String {
    format!(
        "{}-unknown-{}-gnu",
        std::env::consts::ARCH,
        std::env::consts::OS
    )
}

/// What Cargo calls a target's directory: the triple, and for one that is described in a file the
/// file's name.
#[must_use]
pub fn directory_name(target: &str) -> String {
    // Cargo's own word for the machine that it runs on.
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

    const TRIPLE: &str = "x86_64-unknown-linux-gnu";

    #[test]
    fn what_says_something_about_compilers_is_seen() {
        for (text, compilers) in [
            ("[build]\ntarget = 'x86_64-unknown-linux-gnu'", false),
            ("[build]\ntarget = 'host-tuple'", host() != TRIPLE),
            ("[env]\nCUDA_HOME = '/c'", false),
            ("[build]\ntarget = 'x86_64-unknown-linux-musl'", true),
            (
                "[build]\ntarget = ['x86_64-unknown-linux-gnu', 'aarch64-unknown-linux-gnu']",
                true,
            ),
            ("[env]\nCC_x86_64_unknown_linux_gnu = 'clang'", true),
            (
                "[env]\nCMAKE_TOOLCHAIN_FILE = { value = 't.cmake', relative = true }",
                true,
            ),
        ] {
            let mut configured = Configured::default();
            configured.lay_over(text, TRIPLE);
            assert_eq!(configured.compilers, compilers, "{text}");
        }
    }

    #[test]
    fn a_runner_of_any_target_is_seen() {
        for (text, runner) in [
            ("[target.x86_64-unknown-linux-gnu]\nrunner = 'qemu'", true),
            ("[target.'cfg(unix)']\nrunner = ['a', 'b']", true),
            ("[target.x86_64-unknown-linux-gnu]\nlinker = 'cc'", false),
            ("", false),
        ] {
            let mut configured = Configured::default();
            configured.lay_over(text, TRIPLE);
            assert_eq!(configured.runner, runner, "{text}");
        }
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
            crate::output::write_if_changed(
                &place.path().join(".cargo/config.toml"),
                text.as_bytes(),
            )
            .unwrap();
            let below = place.path().join("a/b");
            let read = |arguments: &[String]| {
                Configured::read(&Root::system(), &env, &below, TRIPLE, arguments).wrapper
            };
            assert_eq!(read(&[]), Some(wrapper));
            assert_eq!(
                read(&["build.rustc-wrapper=''".to_owned()]),
                Some(PathBuf::new())
            );
        }
    }

    #[test]
    fn variables_of_the_configuration_are_the_users() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            crate::output::write_if_changed(&place.path().join(name), text.as_bytes()).unwrap();
        };
        write(
            ".cargo/config.toml",
            "[env]\nA = 'far'\nB = { value = 'b', relative = true }\nHOME = '/x'",
        );
        write(
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
        let seen = Configured::read(&Root::system(), &env, &here, TRIPLE, &arguments).over(&env);
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
            assert_eq!(
                seen.peek(name).and_then(std::ffi::OsStr::to_str),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn a_target_is_called_as_its_directory() {
        assert_eq!(directory_name("x/own.json"), "own");
        assert_eq!(directory_name("host-tuple"), host());
        assert_eq!(directory_name(TRIPLE), TRIPLE);
    }

    #[test]
    fn arguments_and_included_files_are_seen() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            crate::output::write_if_changed(&place.path().join(name), text.as_bytes()).unwrap();
        };
        write(
            ".cargo/config.toml",
            "include = ['one.toml', { path = 'more/two.toml', optional = true }]",
        );
        write(
            ".cargo/one.toml",
            "[build]\nrustflags = '-Ca'\ntarget = 'x/own.json'",
        );
        write(
            ".cargo/more/two.toml",
            "include = ['three.toml']\n[build]\nrustflags = '-Cb'",
        );
        write(
            ".cargo/more/three.toml",
            "[target.'cfg(unix)']\nrunner = 'a'",
        );
        write(
            "given.toml",
            "[target.x86_64-unknown-linux-gnu]\nrustflags = ['-Cc']",
        );
        let env = Env::from_pairs([("CARGO_HOME", place.path().join("home"))]);
        let read = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|&a| a.to_owned()).collect();
            Configured::read(&Root::system(), &env, place.path(), TRIPLE, &arguments)
        };
        let files = read(&[]);
        assert_eq!(
            files.build,
            Some(Flags::Text("-Cb".to_owned())),
            "of two, the later one"
        );
        assert!(files.runner && !files.unknown);
        assert_eq!(files.build_target.as_deref(), Some("x/own.json"));
        let given = read(&["given.toml", "build.rustflags='-Cd'", "build.target=['t']"]);
        assert_eq!(
            (given.target, given.build),
            (Some(Flags::List), Some(Flags::Given))
        );
        assert_eq!(given.build_target.as_deref(), Some("t"));
        write(".cargo/more/three.toml", "include = 3");
        assert!(read(&[]).unknown);
        write(".cargo/more/three.toml", "include = ['three.toml']");
        assert!(read(&[]).unknown, "it includes itself");
    }
}
