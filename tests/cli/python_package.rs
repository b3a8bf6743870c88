//! This program as a Python package: wheel and source distribution by maturin, installed by pip and uv.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_cuda::package::archive::WheelArchive;
use tempfile::TempDir;

use crate::project::{checkout, store};
use crate::support::{Finished, python};
use crate::tools::{publisher, tool};
use crate::wheel_template::files;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Both files, in a directory of their own: the wheel, the source distribution.
struct Package {
    place: TempDir,
    wheel: PathBuf,
    source: PathBuf,
}

#[track_caller]
fn run(command: &mut Command) -> Finished {
    let run = Finished::of(command.output().unwrap());
    run.succeeded();
    run
}

impl Package {
    /// Built from the checkout, without optimization.
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        for arguments in [&["build", "--profile", "dev"][..], &["sdist"]] {
            let mut maturin = Command::new(tool("maturin"));
            maturin
                .args(arguments)
                .arg("--out")
                .arg(place.path().join("dist"));
            maturin.current_dir(checkout().join("cargo-cuda"));
            run(maturin.env("CARGO_TARGET_DIR", place.path().join("target")));
        }
        let [wheel, source] = &files(&place.path().join("dist"))[..] else {
            panic!("{:?}", files(&place.path().join("dist")));
        };
        Self {
            wheel: wheel.clone(),
            source: source.clone(),
            place,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn venv(&self, name: &str) -> PathBuf {
        let venv = self.path(name);
        run(Command::new(python()).args(["-m", "venv"]).arg(&venv));
        venv
    }

    /// A command of a user who has installed the program in an environment: `bin` is first on `PATH`.
    fn user(&self, bin: &Path, program: &str) -> Command {
        let path = std::env::var_os("PATH").unwrap();
        let paths = std::iter::once(bin.to_owned()).chain(std::env::split_paths(&path));
        let mut command = Command::new(program);
        command
            .env("PATH", std::env::join_paths(paths).unwrap())
            .env("CUDA_BUILD_CACHE_DIR", self.path("cache"))
            .env_remove("VIRTUAL_ENV")
            .current_dir(self.place.path());
        command
    }

    /// The program in an environment runs, alone and through cargo.
    fn check_installed(&self, bin: &Path) {
        let command = |program: &str, arguments: &[&str]| {
            let mut command = self.user(bin, program);
            // Cargo prefers the programs in its own directory, where another `cargo-cuda` may be.
            command.env("CARGO_HOME", self.path("cargo"));
            run(command.args(arguments))
        };
        let direct = command("cargo-cuda", &["--version"]);
        assert_eq!(direct.stdout, format!("cargo-cuda {VERSION}\n"));
        let by_cargo = command("cargo", &["cuda", "--version"]);
        assert_eq!(by_cargo.stdout, format!("cargo cuda {VERSION}\n"));
        let report = command("cargo", &["cuda", "doctor", "--json"]).json();
        assert_eq!(report["format_version"], 1, "{report}");
    }
}

/// The metadata that indexes show.
fn check_metadata(wheel: &WheelArchive) {
    let info = format!("cargo_cuda-{VERSION}.dist-info");
    let metadata = wheel.text(&format!("{info}/METADATA")).unwrap();
    for line in [
        "Name: cargo-cuda".to_owned(),
        format!("Version: {VERSION}"),
        format!("Summary: {}", env!("CARGO_PKG_DESCRIPTION")),
        format!("License-Expression: {}", env!("CARGO_PKG_LICENSE")),
        "License-File: LICENSE-APACHE".to_owned(),
        "License-File: LICENSE-MIT".to_owned(),
        "Requires-Python: >=3.9".to_owned(),
        format!("Project-URL: Repository, {}", env!("CARGO_PKG_REPOSITORY")),
        "# cargo cuda".to_owned(),
    ] {
        let mut lines = metadata.lines();
        assert!(lines.any(|l| l == line), "`{line}` is missing: {metadata}");
    }
    for file in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let text = wheel.text(&format!("{info}/licenses/{file}")).unwrap();
        let expected = fs::read_to_string(checkout().join(file)).unwrap();
        assert!(text == expected, "{file}");
    }
    assert!(!metadata.contains("Requires-Dist"), "{metadata}");
    let program = format!("cargo_cuda-{VERSION}.data/scripts/cargo-cuda");
    let others = wheel.entries.keys().filter(|name| !name.starts_with(&info));
    assert_eq!(others.collect::<Vec<_>>(), [&program]);
}

#[test]
#[ignore = "minutes: this program as a Python package"]
fn the_program_is_installed_by_pip_and_uv() {
    let package = Package::new();
    store(&package.path("cache"), &[13]);
    let name = package.wheel.file_name().unwrap().to_str().unwrap();
    let expected = format!("cargo_cuda-{VERSION}-py3-none-manylinux_2_");
    assert!(name.starts_with(&expected), "{name}");
    check_metadata(&WheelArchive::open(&package.wheel).unwrap());
    let mut check = Command::new(publisher("twine"));
    run(check
        .args(["check", "--strict"])
        .args([&package.wheel, &package.source]));
    let with_pip = package.venv("with-pip");
    let pip = ["-m", "pip", "install", "--quiet", "--no-index"];
    let mut install = Command::new(with_pip.join("bin/python"));
    run(install.args(pip).arg(&package.wheel));
    package.check_installed(&with_pip.join("bin"));

    let bin = package.path("with-uv");
    let uv = |arguments: &[&str]| {
        let mut uv = package.user(&bin, tool("uv").to_str().unwrap());
        uv.env("UV_TOOL_BIN_DIR", &bin);
        uv.env("UV_TOOL_DIR", package.path("uv-tools"));
        run(uv.arg("tool").args(arguments))
    };
    let wheel = package.wheel.to_str().unwrap();
    uv(&["install", "--quiet", "--no-index", wheel]);
    package.check_installed(&bin);
    for (arguments, usage) in [
        (&["wheel"][..], "Usage: cargo-cuda wheel "),
        (&["cuda", "wheel"], "Usage: cargo cuda wheel "),
    ] {
        let from = [
            "run",
            "--quiet",
            "--no-index",
            "--from",
            wheel,
            "cargo-cuda",
        ];
        let help = uv(&[&from, arguments, &["--help"]].concat());
        assert!(help.stdout.contains(usage), "{help:?}");
    }

    // The same frontend and maturin as everywhere else, on a copy of all sources.
    let from_source = package.venv("from-source");
    let mut install = package.user(&from_source.join("bin"), "python");
    install
        .args(["-m", "pip", "install", "--quiet"])
        .arg(&package.source)
        .env("CARGO_TARGET_DIR", package.path("target"))
        .env("MATURIN_PEP517_ARGS", "--profile dev");
    let maturin = package.path("maturin.txt");
    fs::write(&maturin, "maturin==1.16.0\n").unwrap();
    for name in ["PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"] {
        install.env(name, OsString::from(&maturin));
    }
    run(&mut install);
    package.check_installed(&from_source.join("bin"));
}
