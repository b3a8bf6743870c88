//! `cargo cuda doctor` on machines of every kind, as text and as JSON.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_cuda::exit_code;
use serde_json::Value;

use crate::project::{checkout, point_to_checkout, store};
use crate::support::Finished;

/// A machine: variables, and nothing that this one has.
pub(super) struct Machine {
    pub(super) work: PathBuf,
    pub(super) variables: Vec<(&'static str, PathBuf)>,
    /// Outside of this repository, which is a workspace.
    _place: tempfile::TempDir,
}

impl Machine {
    pub(super) fn new(name: &str) -> Self {
        let directory = tempfile::Builder::new().prefix(name).tempdir().unwrap();
        let place = fs::canonicalize(directory.path()).unwrap();
        let machine = Self {
            work: place.join("work"),
            variables: vec![("HOME", place.join("home"))],
            _place: directory,
        };
        for directory in ["work", "home", "bin"] {
            fs::create_dir(place.join(directory)).unwrap();
        }
        // Cargo for the workspace, if there is one, and a host compiler; nothing else is on `PATH`.
        std::os::unix::fs::symlink(cargo(), place.join("bin/cargo")).unwrap();
        for name in ["gcc", "g++"] {
            std::os::unix::fs::symlink(on_path(name), place.join("bin").join(name)).unwrap();
        }
        machine.with("PATH", place.join("bin"))
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<PathBuf>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// With toolkits in its store; `None` where tests of real components are left out.
    pub(super) fn holding(self, majors: &[u32]) -> Option<Self> {
        let cache = self.work.with_file_name("cache");
        store(&cache, majors)?;
        Some(self.with("CUDA_BUILD_CACHE_DIR", cache))
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
        command.arg("cuda").args(arguments).current_dir(&self.work);
        command
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(super) fn doctor(&self, arguments: &[&str]) -> Finished {
        let arguments = [&["doctor"], arguments].concat();
        Finished::of(self.command(&arguments).output().unwrap())
    }

    /// The summary with its verdict, the evidence with every one of `words`, and the JSON with the same verdict.
    #[track_caller]
    pub(super) fn says(&self, code: u8, verdict: &str, words: &[&str]) -> Value {
        let summary = self.doctor(&[]);
        assert_eq!(summary.code, i32::from(code), "{summary:?}");
        let last: Vec<&str> = summary.stdout.lines().rev().take(2).collect();
        assert_eq!(
            last,
            ["`cargo cuda doctor -v` prints the evidence.", verdict],
            "{summary:?}"
        );
        let is_wide = |line: &&str| line.chars().count() > 100 && line.contains("   ");
        assert_eq!(summary.stdout.lines().find(is_wide), None);
        let text = self.doctor(&["-v"]);
        assert_eq!(text.code, i32::from(code), "{text:?}");
        assert_eq!(text.stderr, "", "a report is data");
        assert!(text.stdout.lines().any(|line| line == verdict), "{text:?}");
        for word in words {
            assert!(
                text.stdout.contains(word),
                "`{word}` is missing: {}",
                text.stdout
            );
        }
        let json = self.doctor(&["--json"]);
        assert_eq!(json.code, i32::from(code), "{json:?}");
        let json: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!(json["format_version"], 1);
        assert_eq!(json["build_will_work"], code == 0);
        assert_eq!(json["verdict"], verdict);
        assert_eq!(
            json["toolkit"].is_null(),
            !json["problem"].is_null(),
            "{json}"
        );
        json
    }
}

/// A program of this machine.
fn on_path(name: &str) -> PathBuf {
    let search = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&search)
        .map(|d| d.join(name))
        .find(|path| path.is_file())
        .unwrap()
}

/// The real cargo, past rustup's.
fn cargo() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO").unwrap())
}

pub(super) const NOT_WORKING: &str = "Not ready to build.";

/// Steps and paths of what was looked at.
pub(super) fn steps(json: &Value) -> Vec<&str> {
    json["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| attempt["step"].as_str().unwrap())
        .collect()
}

#[test]
fn a_bare_machine() {
    if Path::new("/usr/local/cuda").exists() {
        return crate::support::left_out("/usr/local/cuda");
    }
    let json = Machine::new("doctor-bare").says(
        exit_code::NOT_FOUND,
        NOT_WORKING,
        &[
            "no CUDA variables are set",
            "nothing to search",
            "uv: not found (fetches toolkits)",
            "CUDA component `nvrtc` not found",
            "nvcc can be used instead",
            "hint: fetch them with `cargo cuda toolkit add 13`",
        ],
    );
    assert_eq!(json["problem"]["hints"].as_array().unwrap().len(), 1);
    assert!(steps(&json).is_empty());
}

#[test]
fn cuda_12_alone_has_no_compiler_for_libraries() {
    let Some(machine) = Machine::new("doctor-12").holding(&[12]) else {
        return;
    };
    let json = machine.says(
        exit_code::SUCCESS,
        "Ready to build: modules with NVRTC; libraries need nvcc, which is missing.",
        &[
            "from `cargo cuda toolkit add`",
            "nvrtc 12.9.86",
            "Toolkit: CUDA 12.9",
        ],
    );
    assert_eq!(json["toolkit"]["version"], "12.9");
    assert_eq!(steps(&json), ["stored"]);

    // A crate that wants 13.
    let template = checkout().join("templates/library");
    for file in ["Cargo.toml", "src/main.rs"] {
        let target = machine.work.join(file);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(template.join(file), target).unwrap();
    }
    let manifest = machine.work.join("Cargo.toml");
    point_to_checkout(&manifest);
    let text = fs::read_to_string(&manifest).unwrap();
    let table = "[package.metadata.cuda]\n";
    fs::write(
        &manifest,
        text.replace(table, &format!("{table}toolkit = \">=13, <14\"\n")),
    )
    .unwrap();
    machine.says(
        exit_code::NOT_FOUND,
        NOT_WORKING,
        &[
            "has CUDA 12.9, but `toolkit = \">=13, <14\"` is requested",
            "cargo cuda toolkit add 13`",
        ],
    );
    // What `build` says is what `doctor` has said.
    let mut build = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    build
        .args(["cuda", "build"])
        .env_clear()
        .envs(machine.variables.iter().map(|(n, v)| (n, v)));
    let build = Finished::of(build.current_dir(&machine.work).output().unwrap());
    build.failed(
        exit_code::NOT_FOUND,
        &[
            "has CUDA 12.9",
            "hint: fetch them with `cargo cuda toolkit add 13`",
        ],
    );
}

#[test]
fn of_12_and_13_the_newest() {
    let Some(machine) = Machine::new("doctor-12-13").holding(&[12, 13]) else {
        return;
    };
    let json = machine.says(
        exit_code::SUCCESS,
        "Ready to build: modules with NVRTC or nvcc, libraries with nvcc.",
        &[
            "note: also found and not used: CUDA 12.9, ",
            "nvcc 13.4.92",
            "nvrtc 12.9.86",
            "Host compiler: ",
        ],
    );
    assert_eq!(steps(&json), ["stored", "stored"]);
    assert!(json["host_compiler"]["version"].is_string(), "{json}");
    let of_12 = machine.doctor(&["--cuda", "12"]);
    assert!(of_12.stdout.starts_with("+ CUDA 12.9 "), "{of_12:?}");
    let refused = machine.with("NVCC_CCBIN", "/nonexistent/g++").doctor(&[]);
    assert!(
        refused
            .stdout
            .contains("nvcc accepts no host compiler on this machine"),
        "{refused:?}"
    );
}

/// A driver of 12.2 with one GPU of capability 8.6, as far as anybody asks.
const DRIVER: &str = "
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 12020; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = attribute == 75 ? 8 : 6; return 0; }
";

/// A machine whose loader finds such a driver, and that driver's real path.
fn with_driver(machine: Machine, source: &str) -> (Machine, String) {
    let place = machine.work.with_file_name("driver");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("driver.c"), source).unwrap();
    let library = place.join("libcuda.so.535.1");
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"])
        .arg(&library)
        .arg(place.join("driver.c"));
    Finished::of(gcc.output().unwrap()).succeeded();
    std::os::unix::fs::symlink("libcuda.so.535.1", place.join("libcuda.so.1")).unwrap();
    let real = library.canonicalize().unwrap().display().to_string();
    (machine.with("LD_LIBRARY_PATH", &place), real)
}

#[test]
fn a_driver_that_is_older_than_the_toolkit() {
    let Some(machine) = Machine::new("doctor-driver").holding(&[12, 13]) else {
        return;
    };
    let (machine, real) = with_driver(machine, DRIVER);
    let json = machine.says(
        exit_code::SUCCESS,
        "Ready to build: modules with NVRTC or nvcc, libraries with nvcc.",
        &[
            "for CUDA 12.2, compute capabilities: 8.6",
            &format!("  {real}\n"),
            "warning: the driver supports only CUDA 12.2 and older: programs built with CUDA 13.4 do not run here",
            "or build with CUDA 12 (`cargo cuda toolkit add 12`)",
        ],
    );
    assert_eq!(json["driver"]["library"], real);
    let of_12 = machine.doctor(&["--cuda", "12"]);
    assert!(
        of_12
            .stdout
            .contains("the driver is older than CUDA 12.9: it runs SASS, but cannot"),
        "{of_12:?}"
    );
}

#[test]
fn a_driver_that_can_use_no_gpu() {
    // Numbers and texts of cuda.h.
    let errors = "
int cuGetErrorName(int e, const char **t) { if (e != 803) return 1; *t = \"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH\"; return 0; }
int cuGetErrorString(int e, const char **t) { if (e != 803) return 1; *t = \"driver mismatch\"; return 0; }
";
    for (index, (from, to, said)) in [
        ("flags) { return 0; }", "flags) { return 100; }", "driver for CUDA 12.2, compute capabilities: no GPU"),
        (
            "flags) { return 0; }",
            "flags) { return 803; }",
            "cuInit failed with error 803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: driver mismatch (a driver for CUDA 12.2)",
        ),
        ("*version = 12020; return 0;", "return 34;", "a stub library for linking is loaded"),
    ]
    .into_iter()
    .enumerate()
    {
        let source = DRIVER.replace(from, to) + errors;
        assert!(source.contains(to));
        let (machine, _) = with_driver(Machine::new(&format!("doctor-no-gpu-{index}")), &source);
        let text = machine.doctor(&["-v"]);
        assert!(text.stdout.contains(said), "{text:?}");
    }
}

#[test]
fn a_driver_that_cannot_be_loaded() {
    let (machine, real) = with_driver(Machine::new("doctor-broken-driver"), DRIVER);
    fs::write(&real, "not a library").unwrap();
    let text = machine.doctor(&["-v"]).stdout;
    assert!(
        text.contains("the driver's library cannot be loaded: ") && text.contains("libcuda.so.1: "),
        "{text}"
    );
    assert!(!text.contains("no driver"), "{text}");
}

#[test]
fn a_variable_that_points_nowhere() {
    let Some(machine) = Machine::new("doctor-nowhere").holding(&[13]) else {
        return;
    };
    let machine = machine.with("CUDA_HOME", "/opt/cuda-12.6");
    let json = machine.says(
        exit_code::CONFIGURATION,
        NOT_WORKING,
        &[
            "  CUDA_HOME=/opt/cuda-12.6",
            "environment variable `CUDA_HOME` (/opt/cuda-12.6): does not exist",
            "available, not used because environment variable `CUDA_HOME` is set: toolkit 13.4.3",
            "hint: correct environment variable `CUDA_HOME`, or unset it to search the usual places",
        ],
    );
    assert_eq!(steps(&json), ["variable", "stored"]);
    assert_eq!(
        json["attempts"][0]["remarks"],
        serde_json::json!(["does not exist"])
    );
}

#[test]
fn a_target_that_the_configuration_names_and_cuda_has_not() {
    let Some(machine) = Machine::new("doctor-target").holding(&[13]) else {
        return;
    };
    fs::create_dir(machine.work.join(".cargo")).unwrap();
    fs::write(
        machine.work.join(".cargo/config.toml"),
        "[build]\ntarget = 'wasm32-unknown-unknown'\n",
    )
    .unwrap();
    machine.doctor(&[]).failed(
        exit_code::USAGE,
        &[
            "it comes from `[build] target` in Cargo's configuration",
            "`--target` overrides it",
        ],
    );
    let here = machine.doctor(&["--target", "host-tuple"]);
    assert!(
        here.code == 0 && here.stdout.contains("CUDA 13.4 "),
        "{here:?}"
    );
}

/// JSON holds no other bytes than UTF-8; they are replaced, and nothing panics.
#[test]
fn paths_that_are_not_utf8_are_reported() {
    use std::os::unix::ffi::OsStrExt as _;
    let Some(machine) = Machine::new("doctor-bytes").holding(&[13]) else {
        return;
    };
    let path = std::ffi::OsStr::from_bytes(b"/x\xff");
    for name in [
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "SPACK_ENV",
        "CUDA_BUILD_CACHE_DIR",
    ] {
        for arguments in [
            &["doctor", "--json"][..],
            &["toolkit", "list", "--json"],
            &["env", "--json"],
        ] {
            let run = Finished::of(machine.command(arguments).env(name, path).output().unwrap());
            assert!(run.code < 30, "{name} {arguments:?}: {run:?}");
            assert!(
                !run.stderr.contains("panicked"),
                "{name} {arguments:?}: {run:?}"
            );
        }
    }
}

#[test]
fn control_characters_in_variables_are_escaped() {
    let Some(machine) = Machine::new("doctor-escape").holding(&[13]) else {
        return;
    };
    let machine = machine
        .with("NVCC_APPEND_FLAGS", "-DX=\u{1b}[31m\u{9b}1m")
        .with("CUDAFLAGS", "no\nline\u{7}");
    let report = machine.doctor(&["-v"]).stdout;
    assert!(
        report.contains("NVCC_APPEND_FLAGS=-DX=\\u{1b}[31m\\u{9b}1m\n"),
        "{report}"
    );
    for arguments in [&["doctor"][..], &["env"], &["build"]] {
        let run = Finished::of(machine.command(arguments).output().unwrap());
        for text in [run.stdout, run.stderr] {
            let raw = |c: char| c.is_control() && c != '\n';
            assert!(!text.contains(raw), "{arguments:?}: {text:?}");
        }
    }
}
