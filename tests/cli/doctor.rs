//! `cargo cuda doctor` on machines of several kinds. tests/layouts has its text for every layout.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use cargo_cuda::exit_code;
use serde_json::Value;

use crate::project::{Project, checkout, store};
use crate::support::Finished;

/// A machine: variables, and nothing that this one has.
struct Machine {
    work: PathBuf,
    variables: Vec<(&'static str, PathBuf)>,
    /// Outside of this repository, which is a workspace.
    _place: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = fs::canonicalize(directory.path()).unwrap();
        for directory in ["work", "home", "bin"] {
            fs::create_dir(place.join(directory)).unwrap();
        }
        // Cargo for the workspace, if there is one, and a host compiler; nothing else is on `PATH`.
        let search = std::env::var_os("PATH").unwrap();
        let on_path = |name: &str| {
            let mut paths = std::env::split_paths(&search).map(|directory| directory.join(name));
            paths.find(|path| path.is_file()).unwrap()
        };
        let cargo = PathBuf::from(std::env::var_os("CARGO").unwrap());
        for program in [cargo, on_path("gcc"), on_path("g++")] {
            let link = place.join("bin").join(program.file_name().unwrap());
            std::os::unix::fs::symlink(program, link).unwrap();
        }
        Self {
            work: place.join("work"),
            variables: vec![("HOME", place.join("home")), ("PATH", place.join("bin"))],
            _place: directory,
        }
        .with("CUDA_BUILD_SOURCES", "variable,lock,environment,stored")
    }

    fn with(mut self, name: &'static str, value: impl Into<PathBuf>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// A machine with these toolkits in its store.
    fn holding(majors: &[u32]) -> Self {
        let machine = Self::new();
        let cache = machine.work.with_file_name("cache");
        store(&cache, majors);
        machine.with("CUDA_BUILD_CACHE_DIR", cache)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
        command.arg("cuda").args(arguments).current_dir(&self.work);
        command.env_clear().envs(self.variables.iter().cloned());
        command
    }

    fn doctor(&self, arguments: &[&str]) -> Finished {
        let arguments = [&["doctor"], arguments].concat();
        Finished::of(self.command(&arguments).output().unwrap())
    }

    /// Checks the exit code, the verdict, and that each of `words` is in the text. Returns the JSON.
    #[track_caller]
    fn reports(&self, code: u8, verdict: &str, words: &[&str]) -> Value {
        let text = self.doctor(&["-v"]);
        assert_eq!(text.code, i32::from(code), "{text:?}");
        assert_eq!(text.stderr, "", "a report is data");
        for word in [&[verdict], words].concat() {
            assert!(text.stdout.contains(word), "no `{word}` in {}", text.stdout);
        }
        assert_eq!(self.doctor(&[]).stdout.lines().next(), Some(verdict));
        let json = self.doctor(&["--json"]);
        assert_eq!(json.code, i32::from(code), "{json:?}");
        let json: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!(json["format_version"], 1);
        assert_eq!(json["exit_code"], code);
        assert_eq!(json["verdict"], verdict);
        json
    }
}

const NO_CUDA: &str = "Not ready to build: CUDA was not found, or a component is missing.";
const EVERYTHING: &str = "Ready to build.";

#[test]
fn a_bare_machine_is_told_to_fetch() {
    let words = [
        "error CUDA: CUDA component `nvrtc` not found",
        "\n  hint: run `cargo cuda toolkit add 13`",
    ];
    let json = Machine::new().reports(exit_code::NOT_FOUND, NO_CUDA, &words);
    assert!(json["toolkit"].is_null(), "{json}");
}

/// A driver for CUDA 12.2 with one GPU of capability 8.6, for the queries that are made.
const DRIVER: &str = "
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 12020; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = attribute == 75 ? 8 : 6; return 0; }
";

/// A machine whose loader finds such a driver, and the driver's path.
fn with_driver(machine: Machine) -> (Machine, PathBuf) {
    let place = machine.work.with_file_name("driver");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("driver.c"), DRIVER).unwrap();
    let library = place.join("libcuda.so.535.1");
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"])
        .arg(&library)
        .arg(place.join("driver.c"));
    Finished::of(gcc.output().unwrap()).succeeded();
    std::os::unix::fs::symlink("libcuda.so.535.1", place.join("libcuda.so.1")).unwrap();
    (machine.with("LD_LIBRARY_PATH", &place), library)
}

#[test]
fn the_driver_decides_what_is_fetched() {
    let rustc = PathBuf::from(std::env::var_os("CARGO").unwrap()).with_file_name("rustc");
    let (machine, _) = with_driver(Machine::new().with("RUSTC", rustc));
    let write = |name: &str, text: &str| fs::write(machine.work.join(name), text).unwrap();
    write("lib.rs", "");
    let package = "name = \"p\"\nversion = \"0.1.0\"\n";
    write(
        "Cargo.lock",
        &format!("version = 4\n[[package]]\n{package}"),
    );
    let fetch = |arguments: &[&str], table: &str| {
        let tables = "[lib]\npath = \"lib.rs\"\n[workspace]\n[package.metadata.cuda]\n";
        write(
            "Cargo.toml",
            &format!("[package]\n{package}{tables}{table}\n"),
        );
        let arguments = [&["fetch", "--locked"], arguments].concat();
        Finished::of(machine.command(&arguments).output().unwrap())
    };
    let note = "note: fetching CUDA 12.2: this machine's driver supports CUDA 12.2 and older";
    let lock = "would have to change: it does not pin CUDA 12.2";
    fetch(&[], "toolkit = \">=11\"").failed(exit_code::LOCK, &[note, lock]);
    // The driver of this machine says nothing about another one.
    let run = fetch(&["--target", "aarch64-unknown-linux-gnu"], "");
    run.failed(exit_code::LOCK, &["it does not pin CUDA"]);
    assert!(!run.stderr.contains("driver"), "{run:?}");
    let run = fetch(&["--target", "x86_64-pc-windows-msvc"], "");
    run.failed(
        exit_code::USAGE,
        &["no view can be made for Windows", "WSL 2"],
    );
    let locks = checkout().join("tests/support/cuda-toolkits.lock");
    for (arguments, table, release) in [
        (&["--cuda", "13"][..], "", "13"),
        (&[], "majors = [13]", "13"),
        (&[], "components = [\"cufft\"]", "13.4"),
    ] {
        if release == "13.4" {
            fs::copy(&locks, machine.work.join("cuda-toolkits.lock")).unwrap();
        }
        let run = fetch(arguments, table);
        run.failed(exit_code::LOCK, &["does not pin"]);
        assert!(run.stderr.contains(&format!("CUDA {release}")), "{run:?}");
        assert!(!run.stderr.contains("driver"), "{run:?}");
    }
}

mod online {
    use super::*;

    #[test]
    fn the_verdict_is_the_exit_code_of_a_build() {
        let machine = Machine::holding(&[12]);
        let json = machine.reports(
            exit_code::SUCCESS,
            "Ready to build, except with nvcc, which is missing.",
            &[
                "ok CUDA 12.9: ",
                "nvrtc 12.9.86: ",
                "warning nvcc: not found",
            ],
        );
        assert_eq!(json["toolkit"]["version"], "12.9");
        let manifest = "[package]\nname = \"wants-13\"\nversion = \"0.1.0\"\n[lib]\npath = \"lib.rs\"\n[workspace]\n\
                        [package.metadata.cuda]\ntoolkit = \">=13, <14\"\n";
        fs::write(machine.work.join("Cargo.toml"), manifest).unwrap();
        fs::write(machine.work.join("lib.rs"), "").unwrap();
        let words = [
            "has CUDA 12.9, but CUDA `>=13, <14` is requested",
            "cargo cuda toolkit add 13`",
        ];
        machine.reports(exit_code::NOT_FOUND, NO_CUDA, &words);
        let build = Finished::of(machine.command(&["build"]).output().unwrap());
        build.failed(exit_code::NOT_FOUND, &words);
    }

    #[test]
    fn of_two_toolkits_the_newest_is_used() {
        let machine = Machine::holding(&[12, 13]);
        let words = [" search: fetched toolkit 12.9", " nvcc 13.4.92: "];
        machine.reports(exit_code::SUCCESS, EVERYTHING, &words);
        let machine = machine.with("NVCC_CCBIN", "/nonexistent/g++");
        let verdict = "Ready to build, except with nvcc, which accepts no host compiler.";
        machine.reports(exit_code::SUCCESS, verdict, &["warning host compiler: "]);
    }

    #[test]
    fn an_old_driver_is_a_warning() {
        let (machine, library) = with_driver(Machine::holding(&[12, 13]));
        let driver = format!("ok driver: for CUDA 12.2, GPU 8.6, {}", library.display());
        let words = [
            &driver,
            "supports only CUDA 12.2 and older: programs built with CUDA 13.4 do not run with it",
            "hint: install driver 580.65.06 or newer, or build with CUDA 12",
        ];
        machine.reports(exit_code::SUCCESS, EVERYTHING, &words);
        let older = "older than CUDA 12.9: it runs SASS, but cannot compile this toolkit's PTX\n  \
                     hint: install driver 575.51.03 or newer";
        let mut doctor = machine.command(&["doctor", "--cuda", "12"]);
        let doctor = doctor.env("CUDA_BUILD_CAPABILITIES", "8.0");
        let doctor = Finished::of(doctor.output().unwrap());
        assert!(doctor.stdout.contains(older), "{doctor:?}");
    }

    #[test]
    fn declarations_that_cannot_be_met_are_reported() {
        let project = Project::bare("declarations", &[13]);
        project.write("src/lib.rs", "");
        let doctor = |table: &str| {
            let manifest = "[package]\nname = \"p\"\nversion = \"0.1.0\"\n[workspace]\n[package.metadata.cuda]\n";
            project.write("Cargo.toml", &format!("{manifest}{table}\n"));
            project.run(&["doctor"])
        };
        let removed = doctor("capabilities = [\"7.0\"]");
        removed.ended_with(exit_code::CAPABILITY, &[]);
        let verdict = "Not ready to build: the capabilities cannot be compiled.\n";
        assert!(removed.stdout.starts_with(verdict), "{removed:?}");
        let reason = "error capabilities: capability 7.0 was removed in CUDA 13.0";
        assert!(removed.stdout.contains(reason), "{removed:?}");
        let text = doctor("capabilities = [\"8.0\"]").stdout;
        assert!(text.contains("ok capabilities: 8.0\n"), "{text}");
    }
}
