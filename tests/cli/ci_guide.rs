//! The workflow of docs/ci.md: its steps run as scripts on a machine with an empty home directory, and again on another
//! one, which has only what the first one cached.
//!
//! Stand-ins replace what needs root or GitHub: `sudo apt-get`, checking out, the cache, the address of the repository,
//! and `cargo install` from there, which takes minutes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::project::checkout;
use crate::support::{Finished, online, python};
use crate::tools::{launcher, tool};
use crate::workflow::{self, bash};

/// Variables with these beginnings describe the machine of the tests.
const FOREIGN: [&str; 12] = [
    "CARGO",
    "CCACHE",
    "CONDA",
    "CUDA",
    "DOCS_RS",
    "GIT_",
    "LD_",
    "NO_PROXY",
    "NVCC",
    "RUST",
    "VIRTUAL_ENV",
    "XDG_",
];

/// An address that refuses every connection.
const CLOSED: &str = "http://127.0.0.1:9";

/// The only fenced block of docs/ci.md in a language.
fn block(language: &str) -> String {
    let text = fs::read_to_string(checkout().join("docs/ci.md")).unwrap();
    let fence = format!("```{language}\n");
    let blocks: Vec<&str> = text.split(&fence).skip(1).collect();
    assert_eq!(blocks.len(), 1, "{language}");
    blocks[0].split("```").next().unwrap().to_owned()
}

#[track_caller]
fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=test", "-c", "user.email=test@localhost"]);
    command.args(["-c", "commit.gpgSign=false"]).args(arguments);
    let run = Finished::of(command.current_dir(directory).output().unwrap());
    run.succeeded();
    run.stdout
}

/// The text of a key of `actions/cache`, in which a hash of contents replaces `hashFiles`. The files are committed.
fn key(text: &str, package: &Path, commit: &str) -> String {
    let committed = git(package, &["ls-files"]);
    let mut parts = text.split("${{ ");
    let mut key = parts.next().unwrap().to_owned();
    for part in parts {
        let (expression, rest) = part.split_once(" }}").unwrap();
        if let Some(files) = expression.strip_prefix("hashFiles(") {
            for file in files.split('\'').skip(1).step_by(2) {
                assert!(committed.lines().any(|line| line == file), "{file}");
                key += git(package, &["hash-object", file]).trim();
            }
        } else {
            assert_eq!(expression, "github.sha");
            key += commit;
        }
        key += rest;
    }
    key
}

/// A machine that runs the workflow on a package, and the caches, which outlive its home directory.
struct Runner {
    place: TempDir,
    workflow: Value,
    has_network: bool,
    /// The paths below the home directory of each key.
    caches: BTreeMap<String, Vec<PathBuf>>,
}

impl Runner {
    fn new(template: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("workflow.yml");
        fs::write(&file, block("yaml")).unwrap();
        let runner = Self {
            workflow: workflow::read(&file),
            place,
            has_network: true,
            caches: BTreeMap::new(),
        };
        for directory in ["bin", "repository", "home"] {
            fs::create_dir(runner.path(directory)).unwrap();
        }
        runner.write_stand_ins();
        // What a clone of the address would have if the working tree were pushed to it.
        git(&runner.path("repository"), &["init", "--quiet"]);
        let tree = format!("--work-tree={}", checkout().display());
        let directory = format!("--git-dir={}", runner.path("repository/.git").display());
        git(checkout(), &[&directory, &tree, "add", "--all"]);
        git(
            checkout(),
            &[&directory, &tree, "commit", "--quiet", "-m", "x"],
        );
        runner.make_package(template);
        runner
    }

    fn path(&self, below: &str) -> PathBuf {
        self.place.path().join(below)
    }

    fn write_stand_in(&self, name: &str, text: &str) {
        let path = self.path("bin").join(name);
        let log = self.path("calls");
        let script = format!(
            "#!/bin/sh\necho \"{name} $*\" >> '{}'\n{text}\n",
            log.display()
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn write_stand_ins(&self) {
        let ccache = launcher("ccache");
        let sudo = format!(
            "case \"$*\" in\n'apt-get update') ;;\n\
             'apt-get install --yes --no-install-recommends ccache') ln -s '{}' '{}' ;;\n\
             *) exit 64 ;;\nesac",
            ccache.display(),
            self.path("bin/ccache").display()
        );
        self.write_stand_in("sudo", &sudo);
        let install = format!("install --locked --git {} cargo-cuda", repository());
        let cargo = format!(
            "[ \"$1\" = install ] || exec '{}' \"$@\"\n[ \"$*\" = '{install}' ] || exit 64\n\
             [ -e ~/.cargo/bin/cargo-cuda ] && exit\n\
             mkdir -p ~/.cargo/bin && cp '{}' ~/.cargo/bin/ && : > ~/.cargo/.crates.toml",
            env!("CARGO"),
            env!("CARGO_BIN_EXE_cargo-cuda")
        );
        self.write_stand_in("cargo", &cargo);
        for (name, program) in [("uv", tool("uv").as_path()), ("python3", python())] {
            self.write_stand_in(name, &format!("exec '{}' \"$@\"", program.display()));
        }
    }

    /// What `cargo cuda new` makes, with both lock files committed.
    fn make_package(&self, template: &str) {
        let mut new = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
        new.args(["cuda", "new", "--template", template, "app"]);
        self.prepare(new.current_dir(self.place.path()));
        Finished::of(new.output().unwrap()).succeeded();
        let package = self.path("app");
        let templates = checkout().join("templates");
        let lock = templates.join(template).join("Cargo.lock");
        fs::copy(lock, package.join("Cargo.lock")).unwrap();
        let locked = checkout().join("tests/support/cuda-toolkits.lock");
        let locked = fs::read_to_string(locked).unwrap();
        let newest = locked.rfind("[[toolkit]]\n").unwrap();
        let lock = format!("format_version = 1\n\n{}", &locked[newest..]);
        fs::write(package.join("cuda-toolkits.lock"), lock).unwrap();
        let mut update = bash("cargo update --quiet --workspace");
        self.prepare(update.current_dir(&package));
        Finished::of(update.output().unwrap()).succeeded();
        self.commit();
    }

    fn commit(&self) {
        let package = self.path("app");
        git(&package, &["add", "--all"]);
        git(&package, &["commit", "--quiet", "-m", "x"]);
    }

    /// Gives a command the variables of the machine, and no others of the workflow or the tests.
    fn prepare(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy().to_uppercase();
            if FOREIGN.iter().any(|foreign| text.starts_with(foreign)) {
                command.env_remove(name);
            }
        }
        let rust = Path::new(env!("CARGO")).parent().unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let own = [
            self.path("bin"),
            self.path("home/.cargo/bin"),
            rust.to_owned(),
        ];
        let paths = own.into_iter().chain(std::env::split_paths(&path));
        command
            .env("HOME", self.path("home"))
            .env("PATH", std::env::join_paths(paths).unwrap())
            .env("CARGO_NET_GIT_FETCH_WITH_CLI", "true");
        let address = if self.has_network {
            // What the tests of fetching have downloaded is not downloaded again.
            let cache = Command::new(tool("uv")).args(["cache", "dir"]).output();
            let cache = Finished::of(cache.unwrap()).stdout;
            command.env("UV_CACHE_DIR", cache.trim());
            format!("file://{}", self.path("repository").display())
        } else {
            for name in ["http_proxy", "https_proxy", "all_proxy"] {
                command.env(name, CLOSED).env(name.to_uppercase(), CLOSED);
            }
            command.env("CARGO_NET_RETRY", "0");
            CLOSED.to_owned()
        };
        command
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", format!("url.{address}.insteadOf"))
            .env("GIT_CONFIG_VALUE_0", repository());
    }

    /// A script with the variables of the workflow, in the checked out package.
    fn run(&self, script: &str) -> Finished {
        let mut command = bash(script);
        self.prepare(command.current_dir(self.path("home/work")));
        for (name, value) in self.workflow["env"].as_object().unwrap() {
            command.env(name, value.as_str().unwrap());
        }
        Finished::of(command.output().unwrap())
    }

    /// Runs all steps in an empty home directory. Returns what is to be cached: keys, with lines of paths.
    fn run_workflow(&mut self) -> Vec<(String, String)> {
        fs::remove_dir_all(self.path("home")).unwrap();
        fs::create_dir(self.path("home")).unwrap();
        let _ = fs::remove_file(self.path("bin/ccache"));
        let _ = fs::remove_file(self.path("calls"));
        let package = self.path("app");
        let commit = git(&package, &["rev-parse", "HEAD"]);
        let mut to_save = Vec::new();
        let workflow = self.workflow.clone();
        for step in workflow::steps(&workflow) {
            match (step["uses"].as_str(), step["run"].as_str()) {
                (Some(uses), None) if uses.starts_with("actions/checkout@") => {
                    git(self.place.path(), &["clone", "--quiet", "app", "home/work"]);
                }
                (Some(uses), None) if uses.starts_with("actions/cache@") => {
                    let with = |name: &str| step["with"][name].as_str().unwrap_or_default();
                    let exact = key(with("key"), &package, commit.trim());
                    let start = key(with("restore-keys"), &package, commit.trim());
                    if !self.restore(&exact, &start) {
                        to_save.push((exact, with("path").to_owned()));
                    }
                }
                (None, Some(script)) => {
                    let run = self.run(script);
                    assert_eq!(run.code, 0, "{}: {run:?}", step["name"]);
                }
                other => panic!("the test does not know this step: {other:?}"),
            }
        }
        to_save
    }

    /// Moves the paths of the key into the home directory, or those of a key that starts with `start`. Returns whether
    /// it was the exact key.
    fn restore(&mut self, exact: &str, start: &str) -> bool {
        let mut keys = self.caches.keys();
        let other = |key: &&String| !start.is_empty() && key.starts_with(start);
        let found = match self.caches.contains_key(exact) {
            true => Some(exact.to_owned()),
            false => keys.find(other).cloned(),
        };
        let Some(found) = found else { return false };
        for path in self.caches.remove(&found).unwrap() {
            let target = self.path("home").join(&path);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::rename(self.path("cached").join(&path), target).unwrap();
        }
        found == exact
    }

    /// Moves paths out of the home directory. Returns the patterns that matched nothing.
    fn save(&mut self, to_save: Vec<(String, String)>) -> Vec<String> {
        let mut without_match = Vec::new();
        for (key, patterns) in to_save {
            let mut paths = Vec::new();
            for pattern in patterns.lines() {
                let path = Path::new(pattern.strip_prefix("~/").unwrap());
                let (parent, name) = (path.parent().unwrap(), path.file_name().unwrap());
                let name = name.to_str().unwrap();
                let entries = fs::read_dir(self.path("home").join(parent));
                let entries = entries
                    .into_iter()
                    .flatten()
                    .map(|e| e.unwrap().file_name());
                let matches = |entry: &str| match name.strip_suffix('*') {
                    Some(start) => entry.starts_with(start),
                    None => entry == name,
                };
                let found: Vec<PathBuf> = entries
                    .filter(|entry| entry.to_str().is_some_and(matches))
                    .map(|entry| parent.join(entry))
                    .collect();
                if found.is_empty() {
                    without_match.push(pattern.to_owned());
                }
                paths.extend(found);
            }
            for path in &paths {
                let target = self.path("cached").join(path);
                fs::create_dir_all(target.parent().unwrap()).unwrap();
                fs::rename(self.path("home").join(path), target).unwrap();
            }
            self.caches.insert(key, paths);
        }
        without_match
    }

    /// The calls of stand-ins that start so.
    fn calls(&self, start: &str) -> Vec<String> {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let calls = calls.lines().filter(|call| call.starts_with(start));
        calls.map(str::to_owned).collect()
    }

    /// How often ccache started a compiler, and how often it had the object.
    fn misses_and_hits(&self) -> [u32; 2] {
        let run = self.run("ccache --print-stats");
        ["cache_miss\t", "direct_cache_hit\t"].map(|counter| {
            let mut lines = run.stdout.lines();
            let value = lines.find_map(|line| line.strip_prefix(counter));
            value.unwrap().parse().unwrap()
        })
    }
}

fn repository() -> &'static str {
    env!("CARGO_PKG_REPOSITORY")
}

/// Runs the workflow on two machines, the second one without a network. `unused` are the cached paths that a package
/// from this template does not fill. Returns what ccache has missed and found on the second machine.
fn second_machine_fetches_nothing(template: &str, unused: &[&str]) -> Option<(Runner, [u32; 2])> {
    if !online() {
        return None;
    }
    let mut runner = Runner::new(template);
    let to_save = runner.run_workflow();
    let fetches = runner.calls("uv ");
    assert!(
        fetches.iter().any(|call| call.contains("--require-hashes")),
        "{fetches:?}"
    );
    let toolkits = fs::read_dir(runner.path("home/.cache/cuda-build/toolkits")).unwrap();
    assert!(toolkits.count() > 0);
    let before = runner.misses_and_hits();
    assert_eq!(runner.save(to_save), unused);

    let source = runner.path("app/src/main.rs");
    let text = fs::read_to_string(&source).unwrap();
    fs::write(source, text + "// Another commit.\n").unwrap();
    runner.commit();
    runner.has_network = false;
    runner.run_workflow();
    for installer in ["uv ", "python3 "] {
        assert_eq!(runner.calls(installer), [""; 0]);
    }
    // Otherwise nothing has been proved.
    for fetching in ["cargo update cuda-build", "cargo info anyhow"] {
        assert_ne!(runner.run(fetching).code, 0, "{fetching}");
    }
    // The counters are in ccache's directory, which the second machine got from the first one.
    let after = runner.misses_and_hits();
    let counters = [after[0] - before[0], after[1] - before[1]];
    Some((runner, counters))
}

#[test]
#[ignore = "minutes"]
fn a_module_is_tested_twice_and_fetched_once() {
    let unused = ["~/.cache/ccache"];
    let Some((runner, _)) = second_machine_fetches_nothing("module-cudarc", &unused) else {
        return;
    };
    // The commands for other systems, on the same machine.
    let run = runner.run(&block("sh"));
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains("test result: ok. 1 passed"), "{run:?}");
}

#[test]
#[ignore = "minutes"]
fn a_library_is_compiled_once_by_nvcc() {
    let Some((_, counters)) = second_machine_fetches_nothing("library", &[]) else {
        return;
    };
    // clippy and the tests run the build script in a directory each.
    assert_eq!(counters, [0, 2], "misses, hits");
}
