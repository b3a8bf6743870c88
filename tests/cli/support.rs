//! A place of its own for each test: cache directory, working directory, `PATH`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;

/// The package index as it was then, whatever has been published since. CUDA 13.5.0 is in it.
pub const EXCLUDE_NEWER: &str = "2026-11-10T00:00:00Z";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Uv,
    Pip,
    Nothing,
}

/// A cache, a working directory, and a `PATH` with one installer and nothing else.
pub struct Sandbox {
    directory: tempfile::TempDir,
}

impl Sandbox {
    pub fn new(tool: Tool) -> Self {
        let sandbox = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        for directory in ["bin", "work"] {
            fs::create_dir(sandbox.path(directory)).unwrap();
        }
        fs::write(sandbox.path("constraints.txt"), "cuda-toolkit<=13.5.0\n").unwrap();
        match tool {
            Tool::Uv => {
                sandbox.shim("uv", "", uv());
                sandbox.shim("python3", "", python());
            }
            Tool::Pip => sandbox.shim("python3", "", python()),
            Tool::Nothing => {}
        }
        sandbox
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    /// Puts a script on `PATH` that records its arguments, runs `before`, and becomes `program`.
    pub fn shim(&self, name: &str, before: &str, program: &Path) {
        let path = self.path("bin").join(name);
        let log = self.path("calls");
        let script = format!(
            "#!/bin/sh\necho \"{name} $*\" >> '{}'\n{before}\nexec '{}' \"$@\"\n",
            log.display(),
            program.display()
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The installer's calls that fetched packages.
    pub fn fetches(&self) -> usize {
        let calls = self.recorded_calls();
        let fetches = calls
            .lines()
            .filter(|call| call.contains("--require-hashes"));
        fetches.count()
    }

    /// All calls of programs on `PATH`.
    pub fn calls(&self) -> usize {
        self.recorded_calls().lines().count()
    }

    fn recorded_calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }

    /// `cargo cuda toolkit …`, as cargo would start it.
    pub fn toolkit(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
        command
            .args(["cuda", "toolkit"])
            .args(arguments)
            .env("CUDA_BUILD_CACHE_DIR", self.path("cache"))
            .env("PATH", self.path("bin"))
            .env("UV_EXCLUDE_NEWER", EXCLUDE_NEWER)
            .env("PIP_CONSTRAINT", self.path("constraints.txt"))
            .env_remove("VIRTUAL_ENV")
            .current_dir(self.path("work"));
        command
    }

    /// Runs it to its end.
    pub fn run(&self, arguments: &[&str]) -> Finished {
        Finished::of(self.toolkit(arguments).output().unwrap())
    }

    /// Names in the store that are neither its locks nor its index.
    pub fn stored(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("cache/toolkits"))
            .into_iter()
            .flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.retain(|name| name != ".lock" && name != "resolved.toml");
        names.sort();
        names
    }
}

#[derive(Debug)]
pub struct Finished {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    pub fn of(output: Output) -> Self {
        Self {
            code: exit_code(&output.status),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The report of a run that succeeded.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// A run whose report does not matter, only that it succeeded.
    #[track_caller]
    pub fn succeeded(&self) {
        assert_eq!(self.code, 0, "{self:?}");
    }

    /// Checks the exit code, that each of `words` is in the message, and that the message says what to do next;
    /// nothing is on standard output.
    #[track_caller]
    pub fn failed(&self, code: u8, words: &[&str]) {
        assert!(self.stdout.is_empty(), "{self:?}");
        // Cargo indents the messages of build scripts.
        let is_hint = |line: &str| line.trim_start().starts_with("hint: ");
        let has_next_step =
            self.stderr.lines().any(is_hint) || self.stderr.contains("try '--help'.");
        assert!(has_next_step, "no next step: {}", self.stderr);
        self.ended_with(code, words);
    }

    /// The same, whatever is on standard output.
    #[track_caller]
    pub fn ended_with(&self, code: u8, words: &[&str]) {
        assert_eq!(self.code, i32::from(code), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "no `{word}`: {}", self.stderr);
        }
    }
}

/// Makes signals end the command, also if the tests ignore them, and so everything that they start: SIGINT in the
/// background of a shell, SIGHUP below `nohup`.
pub fn interruptible(command: &mut Command) -> &mut Command {
    use std::os::unix::process::CommandExt as _;
    unsafe extern "C" {
        fn signal(signal: i32, handler: usize) -> usize;
    }
    const SIGHUP: i32 = 1;
    const SIGINT: i32 = 2;
    const SIGTERM: i32 = 15;
    const DEFAULT: usize = 0;
    let restore = || {
        for number in [SIGHUP, SIGINT, SIGTERM] {
            // SAFETY: `signal` may be called between `fork` and `exec`.
            unsafe { signal(number, DEFAULT) };
        }
        Ok(())
    };
    // SAFETY: the closure calls nothing else.
    unsafe { command.pre_exec(restore) }
}

/// The exit code, and for a signal what a shell makes of it.
fn exit_code(status: &std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).unwrap()
}

/// A real Python with pip, past the shims that version managers put on `PATH`.
pub fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let script = "import sys, pip; print(sys.executable)";
        let mut python = Command::new("python3");
        let output = python.args(["-c", script]).output().unwrap();
        assert!(output.status.success(), "no Python with pip: {output:?}");
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
    })
}

/// uv, installed once beside the tests.
pub fn uv() -> &'static Path {
    static UV: OnceLock<PathBuf> = OnceLock::new();
    UV.get_or_init(|| crate::tools::tool("uv"))
}

/// `PATH` with the tools of the tests (maturin, CMake, ninja) before all others.
pub fn with_tools() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tools = crate::tools::directory().to_owned();
    let path = [tools].into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(path).unwrap()
}
