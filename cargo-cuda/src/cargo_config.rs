//! What `cargo cuda` needs of Cargo's configuration, from files and `--config`.

use std::env::consts::{ARCH, OS};
use std::path::{Component, Path, PathBuf};

use cargo_metadata::cargo_platform::{Cfg, Platform};
use cuda_find_core::{command::Invocation, env::Env, root::Root};
use toml::{Table, Value};

use crate::cargo_arguments::CargoOptions;
use crate::process;

/// How deep files may include others.
const MAX_INCLUDES: usize = 16;

/// The merged tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CargoConfig(Table);

impl CargoConfig {
    /// Reads the configuration that applies in the current directory.
    pub fn of_current_directory(root: &Root, env: &Env, arguments: &[String]) -> Self {
        let here = std::env::current_dir().unwrap_or_default();
        Self::read(root, env, &here, arguments)
    }

    /// Reads the configuration that applies in `directory`. `arguments` are the values of `--config`.
    ///
    /// The first value of a key wins, in Cargo's order: `--config`, the variable, the files in `directory` and then in
    /// each of its parents, the user's file.
    pub fn read(root: &Root, env: &Env, directory: &Path, arguments: &[String]) -> Self {
        let mut config = Self::default();
        for argument in arguments.iter().rev() {
            if !config.add_file(root, &directory.join(argument), 0) {
                config.add_unset_keys(argument, directory);
            }
        }
        if let Some(target) = env.peek("CARGO_BUILD_TARGET") {
            // Cargo joins it with arrays of files, and prefers it to a single target.
            let target = Value::from(&*target.to_string_lossy());
            config.add_unset_keys(&format!("build.target = [{target}]"), directory);
        }
        let mut places: Vec<PathBuf> = directory.ancestors().map(|d| d.join(".cargo")).collect();
        places.extend(cargo_home(env).filter(|home| !places.contains(home)));
        for place in places {
            // If both files exist, Cargo reads `config` alone.
            let mut files = ["config", "config.toml"].into_iter();
            files.find(|name| config.add_file(root, &place.join(name), 0));
        }
        config
    }

    /// Adds the keys of a file that are not set yet, then those of the files that it includes, the last one first.
    /// Returns whether there is the file. Cargo itself reports a file that includes itself.
    fn add_file(&mut self, root: &Root, file: &Path, depth: usize) -> bool {
        let Ok(text) = root.text(file) else {
            return false;
        };
        let directory = file.parent().unwrap_or(file);
        let included = self.add_unset_keys(&text, directory.parent().unwrap_or(directory));
        for included in included.iter().rev().filter(|_| depth < MAX_INCLUDES) {
            self.add_file(root, &directory.join(included), depth + 1);
        }
        true
    }

    /// Adds the keys in `text` that are not set yet, and returns the files that it includes. Paths are relative to
    /// `base`. An invalid text is ignored here, because cargo itself reports it.
    fn add_unset_keys(&mut self, text: &str, base: &Path) -> Vec<String> {
        let mut table: Table = text.parse().unwrap_or_default();
        let included = table.remove("include");
        let root = table.get_mut("install").and_then(|it| it.get_mut("root"));
        if let Some(Value::String(root)) = root {
            *root = base.join(&*root).to_string_lossy().into_owned();
        }
        let variables = table.get_mut("env").and_then(Value::as_table_mut);
        for (_, variable) in variables.into_iter().flat_map(Table::iter_mut) {
            let is_relative = variable.get("relative").and_then(Value::as_bool);
            if let (Some(true), Some(value)) = (is_relative, variable.get_mut("value")) {
                let path = base.join(value.as_str().unwrap_or_default());
                *value = Value::from(&*path.to_string_lossy());
            }
        }
        merge(&mut self.0, table);
        let included = included.iter().flat_map(|value| match value {
            Value::Array(files) => files.as_slice(),
            file => std::slice::from_ref(file),
        });
        let path = |file: &Value| file.get("path").unwrap_or(file).as_str().map(str::to_owned);
        included.filter_map(path).collect()
    }

    /// A configuration for tests.
    #[cfg(test)]
    pub fn from_text(text: &str) -> Self {
        Self(text.parse().unwrap())
    }

    fn get(&self, table: &str, key: &str) -> Option<&Value> {
        self.0.get(table)?.get(key)
    }

    fn build_targets(&self) -> impl Iterator<Item = &str> {
        let targets = match self.get("build", "target") {
            Some(Value::Array(targets)) => targets.as_slice(),
            target => target.map_or(&[][..], std::slice::from_ref),
        };
        targets.iter().filter_map(Value::as_str)
    }

    /// The first `[build] target`, or the value of `CARGO_BUILD_TARGET`.
    pub fn build_target(&self) -> Option<&str> {
        self.build_targets().next()
    }

    /// Whether `[alias]` has a command of this name.
    pub fn has_alias(&self, name: &str) -> bool {
        self.get("alias", name).is_some()
    }

    /// Whether the configuration names a target other than `triple`, so that C code may be compiled
    /// for that target.
    pub fn has_other_target(&self, triple: &str) -> bool {
        self.build_targets()
            .any(|target| target_directory_name(target) != triple)
    }

    /// The rustflags of the `target` tables that apply to `triple`, and of its variable.
    pub fn target_rustflags(&self, env: &Env, triple: &str) -> Vec<String> {
        let targets = self.0.get("target").and_then(Value::as_table);
        let tables = targets.into_iter().flatten();
        let tables =
            tables.filter_map(|(key, table)| Some((key, flags_in(table.get("rustflags")?))));
        let (named, others): (Vec<_>, Vec<_>) = tables.partition(|(key, _)| *key == triple);
        let target = format!("TARGET_{}", triple.replace(['-', '.'], "_").to_uppercase());
        let mut of_target: Vec<String> = named.into_iter().flat_map(|(_, flags)| flags).collect();
        of_target.extend(rustflags_of_variable(env, &target));
        if !others.is_empty() {
            let cfg = cfg_of(env, triple);
            let is_met = |key: &str| {
                key.parse()
                    .is_ok_and(|it: Platform| it.matches(triple, &cfg))
            };
            let others = others.into_iter().filter(|(key, _)| is_met(key));
            of_target.extend(others.flat_map(|(_, flags)| flags));
        }
        of_target
    }

    /// The rustflags of the `build` table, and of its variable. Cargo uses them if no `target` table has some.
    pub fn build_rustflags(&self, env: &Env) -> Vec<String> {
        let of_build = self.get("build", "rustflags").map(flags_in);
        let of_build = of_build.into_iter().flatten();
        of_build
            .chain(rustflags_of_variable(env, "BUILD"))
            .collect()
    }

    /// The directories below the target directory in which Cargo puts programs and libraries: `release`, or
    /// `<triple>/release` for each platform that the user names. `default` is the profile of the command.
    pub fn profile_directories(&self, options: &CargoOptions, default: &str) -> Vec<PathBuf> {
        let named = options.value("--profile");
        let is_release = options.has(&["--release", "-r"]);
        let profile = match named.as_deref() {
            Some(named) => named,
            None if is_release => "release",
            None => default,
        };
        let directory = match profile {
            "dev" | "test" => "debug",
            "bench" => "release",
            other => other,
        };
        self.below_platforms(options, directory)
    }

    /// `directory`, or `<triple>/<directory>` for each platform that the user names. A name that is none of a directory is
    /// left out, because Cargo refuses it.
    pub fn below_platforms(&self, options: &CargoOptions, directory: &str) -> Vec<PathBuf> {
        let platforms = self.named_platforms(options);
        let triples: Vec<String> = platforms
            .iter()
            .map(|it| target_directory_name(it))
            .collect();
        let are_names =
            is_directory_name(directory) && triples.iter().all(|it| is_directory_name(it));
        match (are_names, triples.is_empty()) {
            (false, _) => Vec::new(),
            (true, true) => vec![PathBuf::from(directory)],
            (true, false) => {
                let paths = triples
                    .iter()
                    .map(|triple| Path::new(triple).join(directory));
                paths.collect()
            }
        }
    }

    /// The directory below which `cargo install` puts programs, in `bin`.
    pub fn install_root(&self, env: &Env, options: &CargoOptions) -> Option<PathBuf> {
        let of_option = options.value("--root").map(PathBuf::from);
        let of_variable = || env.peek("CARGO_INSTALL_ROOT").map(PathBuf::from);
        let of_file = || Some(PathBuf::from(self.get("install", "root")?.as_str()?));
        of_option
            .or_else(of_variable)
            .or_else(of_file)
            .or_else(|| cargo_home(env))
    }

    /// The platforms of `--target`, otherwise of the configuration; none if Cargo builds for its own.
    pub fn named_platforms(&self, options: &CargoOptions) -> Vec<String> {
        let named: Vec<String> = options.values("--target").collect();
        match named.is_empty() {
            true => self.build_targets().map(str::to_owned).collect(),
            false => named,
        }
    }

    /// `env` as build scripts see it, with the variables of `[env]`. If `env` sets a variable too,
    /// the value in `[env]` applies only if it has `force`.
    pub fn env_of_build_scripts(&self, env: &Env) -> Env {
        // Cargo and rustup read these variables from their own environment, and `[env]` does not change it.
        let is_read_by_cargo =
            |name: &str| name == "HOME" || name.starts_with("CARGO") || name.starts_with("RUST");
        let mut merged = env.clone();
        let variables = self.0.get("env").and_then(Value::as_table);
        for (name, variable) in variables.into_iter().flatten() {
            let value = variable.get("value").unwrap_or(variable).as_str();
            let force = variable.get("force").and_then(Value::as_bool);
            let applies = env.get_or_empty(name).is_none() || force == Some(true);
            if let Some(value) = value.filter(|_| applies && !is_read_by_cargo(name)) {
                merged = merged.with(name, value);
            }
        }
        merged
    }
}

/// Whether a text is the name of one directory: not a path, and not `..`.
fn is_directory_name(text: &str) -> bool {
    let mut components = Path::new(text).components();
    let first = components.next();
    matches!(first, Some(Component::Normal(name)) if name == text) && components.next().is_none()
}

/// The rustflags in `CARGO_<table>_RUSTFLAGS`.
fn rustflags_of_variable(env: &Env, table: &str) -> Vec<String> {
    let value = env.get_or_empty(&format!("CARGO_{table}_RUSTFLAGS"));
    let text = value.map(|value| value.to_string_lossy().into_owned());
    flags_in(&Value::from(text.unwrap_or_default()))
}

/// Rustflags as a list, or as words.
fn flags_in(value: &Value) -> Vec<String> {
    let flags: Vec<&str> = match value {
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        Value::String(words) => words.split_whitespace().collect(),
        _ => Vec::new(),
    };
    flags.into_iter().map(str::to_owned).collect()
}

/// What `cfg(…)` may ask for, as rustc prints it.
fn cfg_of(env: &Env, triple: &str) -> Vec<Cfg> {
    let rustc = env.peek("RUSTC").unwrap_or("rustc".as_ref());
    let query = Invocation::new(rustc).args(["--print", "cfg", "--target", triple]);
    let printed = process::stdout_of(&query, env).unwrap_or_default();
    let lines = printed.lines();
    lines.filter_map(|line| line.parse().ok()).collect()
}

/// Adds the keys of `lower` that `table` does not have. Arrays of several files are joined, and those of `table` come
/// last. (Cargo joins no arrays of `runner`, `credential-provider`, `credential-alias` and `doc.browser`, which are not
/// read here.)
fn merge(table: &mut Table, lower: Table) {
    for (key, value) in lower {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(table)), Value::Table(lower)) => merge(table, lower),
            (Some(Value::Array(values)), Value::Array(lower)) => {
                values.splice(0..0, lower);
            }
            (Some(_), _) => {}
            (None, value) => _ = table.insert(key, value),
        }
    }
}

/// The user's directory of Cargo: `CARGO_HOME`, otherwise `~/.cargo`.
pub fn cargo_home(env: &Env) -> Option<PathBuf> {
    let home = || Some(Path::new(env.peek("HOME")?).join(".cargo"));
    env.peek("CARGO_HOME").map(PathBuf::from).or_else(home)
}

/// The triple of this machine. It always ends in `-gnu`, because CUDA supports only glibc.
pub fn host() -> String {
    format!("{ARCH}-unknown-{OS}-gnu")
}

/// The name of Cargo's directory for a target: the triple, or the name of the target's JSON file
/// without `.json`.
pub fn target_directory_name(target: &str) -> String {
    match target.strip_suffix(".json") {
        Some(path) => path.rsplit('/').next().unwrap_or(path).to_owned(),
        // `host-tuple` is Cargo's name for the machine that it runs on.
        None if target == "host-tuple" => host(),
        None => target.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rustflags::of_user;

    const TRIPLE: &str = "x86_64-unknown-linux-gnu";

    fn write(place: &Path, name: &str, text: &str) {
        crate::output::write_if_changed(&place.join(name), text.as_bytes()).unwrap();
    }

    #[test]
    fn the_first_value_wins_in_cargos_order() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        write(
            &at("home"),
            "config.toml",
            "build.rustflags = ['--home']\nenv.A = 'home'",
        );
        write(
            &at(""),
            ".cargo/config.toml",
            "[env]\nA = 'far'\nB = { value = 'b', relative = true }\nHOME = '/x'",
        );
        let near = "env = { A = 'near', C = { value = 'c', force = true }, D = 'd', E = 'e', RUSTFLAGS = '-Ca' }\n\
                    build = { target = ['x/own.json', 't'], rustflags = ['--near'] }";
        write(&at("w"), ".cargo/config", near);
        // Cargo reads `config` alone.
        write(
            &at("w"),
            ".cargo/config.toml",
            "env.A = 'unread'\nbuild.target = 'unread'",
        );
        write(
            &at("w"),
            "given.toml",
            "env.G = { value = 'g', force = true }",
        );
        let process = [("C", "own"), ("D", "own"), ("E", ""), ("G", "own")];
        let home = at("home").into_os_string().into_string().unwrap();
        let env = Env::from_pairs(process.into_iter().chain([("CARGO_HOME", home.as_str())]));
        let arguments = ["given.toml", "env.F = 'f'"].map(str::to_owned);
        let config = CargoConfig::read(&Root::system(), &env, &at("w"), &arguments);
        let env_of_scripts = config.env_of_build_scripts(&env);
        let b = at("b");
        for (name, expected) in [
            ("A", Some("near")),
            ("B", b.to_str()),
            ("C", Some("c")),
            ("D", Some("own")),
            ("E", None),
            ("F", Some("f")),
            ("G", Some("g")),
            ("HOME", None),
            ("RUSTFLAGS", None),
        ] {
            let value = env_of_scripts.peek(name).and_then(std::ffi::OsStr::to_str);
            assert_eq!(value, expected, "{name}");
        }
        assert_eq!(config.build_target(), Some("x/own.json"));
        assert_eq!(of_user(&config, &env, TRIPLE), ["--home", "--near"]);
        let arguments = ["build.target=['u']".to_owned()];
        let named = |env| CargoConfig::read(&Root::system(), env, &at("w"), &arguments);
        let variable = env.with("CARGO_BUILD_TARGET", "v");
        let named = named(&variable);
        let targets: Vec<&str> = named.build_targets().collect();
        assert_eq!(targets, ["x/own.json", "t", "v", "u"]);
    }

    /// As `cargo config get` of Cargo 1.95 prints it.
    #[test]
    fn arrays_of_several_files_are_joined() {
        let place = tempfile::tempdir().unwrap();
        let [far, near] = [place.path().join("far"), place.path().join("far/near")];
        write(
            &far,
            ".cargo/config.toml",
            "build.target = ['far']\nbuild.x = ['far']",
        );
        write(
            &near,
            ".cargo/config.toml",
            "build.target = ['near']\nbuild.x = 'near'",
        );
        let targets = |env: &Env, arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
            let config = CargoConfig::read(&Root::system(), env, &near, &arguments);
            let targets = config.build_targets().map(str::to_owned);
            targets.collect::<Vec<_>>()
        };
        let none = Env::default();
        assert_eq!(targets(&none, &[]), ["far", "near"]);
        assert_eq!(
            targets(&none, &["build.target = ['one']", "build.target = ['two']"]),
            ["far", "near", "one", "two"]
        );
        let variable = none.with("CARGO_BUILD_TARGET", "variable");
        assert_eq!(targets(&variable, &[]), ["far", "near", "variable"]);
        write(&far, ".cargo/config.toml", "");
        write(&near, ".cargo/config.toml", "build.target = 'near'");
        assert_eq!(targets(&variable, &[]), ["variable"]);
    }

    fn config(text: &str) -> CargoConfig {
        CargoConfig::from_text(text)
    }

    #[test]
    fn targets_have_the_names_of_their_directories() {
        assert_eq!(target_directory_name("x/own.json"), "own");
        assert_eq!(target_directory_name("host-tuple"), host());
        for (text, expected) in [
            ("", false),
            ("build.target = 't'", false),
            ("build.target = 'u'", true),
            ("build.target = ['t', 'u']", true),
        ] {
            assert_eq!(config(text).has_other_target("t"), expected, "{text}");
        }
    }

    #[test]
    fn artifacts_lie_where_cargo_puts_them() {
        let of_one = "build.target = 't'";
        for (text, options, expected) in [
            ("", "", "debug"),
            ("", "-r", "release"),
            ("", "--profile bench", "release"),
            ("", "--profile=test", "debug"),
            ("", "--profile dist --target a/own.json", "own/dist"),
            (of_one, "--release", "t/release"),
            (of_one, "--target u --target v", "u/debug v/debug"),
            ("build.target = ['t', 'u']", "", "t/debug u/debug"),
            // Nothing that leads elsewhere.
            ("", "--profile ..", ""),
            ("", "--profile ../../x", ""),
            ("", "--profile=", ""),
            ("", "--profile /tmp/x", ""),
            ("", "--target t --target /tmp/x", ""),
            ("", "--target ../own.json", "own/debug"),
        ] {
            let words: Vec<_> = options.split_whitespace().map(Into::into).collect();
            let options = CargoOptions::parse(&words);
            let directories = config(text).profile_directories(&options, "dev");
            let shown = directories.iter().map(|it| it.display());
            assert_eq!(
                crate::output::joined(shown, " "),
                expected,
                "{text} {words:?}"
            );
        }
    }

    #[test]
    fn rustflags_come_from_one_place() {
        let build = "build.rustflags = '--a --b'\n";
        let both = format!("{build}target.{TRIPLE}.rustflags = ['--c d']\n");
        let condition = format!("{both}target.'cfg(unix)'.rustflags = ['--e']\n");
        let linker = format!("{build}target.'cfg(unix)'.linker = 'clang'\n");
        let of_target = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS";
        for (text, variable, expected) in [
            ("", ("A", ""), &[][..]),
            (build, ("A", ""), &["--a", "--b"]),
            (&linker, ("A", ""), &["--a", "--b"]),
            (
                build,
                ("CARGO_BUILD_RUSTFLAGS", "--v"),
                &["--a", "--b", "--v"],
            ),
            (&both, ("A", ""), &["--c d"]),
            (build, (of_target, "--v"), &["--v"]),
            (&condition, ("A", ""), &["--c d", "--e"]),
            (&condition, (of_target, "--v"), &["--c d", "--v", "--e"]),
            (&condition, ("RUSTFLAGS", "--v w"), &["--v", "w"]),
            (&condition, ("RUSTFLAGS", ""), &[]),
            (
                &both,
                ("CARGO_ENCODED_RUSTFLAGS", "--v w\x1f--x"),
                &["--v w", "--x"],
            ),
        ] {
            let path = Env::from_process().text("PATH").unwrap();
            let env = Env::from_pairs([variable, ("PATH", &path)]);
            assert_eq!(
                of_user(&config(text), &env, TRIPLE),
                expected,
                "{text} {variable:?}"
            );
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes files")]
    fn a_file_precedes_those_that_it_includes_and_the_last_of_them_the_others() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let own = "include = ['first.toml', { path = '../more/last.toml', optional = true }]\nenv.A = 'own'\n";
        write(".cargo/config.toml", own);
        write(
            ".cargo/first.toml",
            "env.A = 'first'\nenv.B = 'first'\nenv.C = 'first'\n",
        );
        let last = "include = 'again.toml'\nenv.B = { value = 'x', relative = true }\n";
        write("more/last.toml", last);
        write(
            "more/again.toml",
            "include = 'last.toml'\nenv.D = 'again'\n",
        );
        let config = CargoConfig::read(&Root::system(), &Env::default(), place.path(), &[]);
        let env = config.env_of_build_scripts(&Env::default());
        let expected = ["own", "first", "again"];
        assert_eq!(
            ["A", "C", "D"].map(|name| env.text(name).unwrap()),
            expected
        );
        assert!(env.text("B").unwrap().ends_with("/x"));
    }
}
