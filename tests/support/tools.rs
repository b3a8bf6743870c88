//! Programs that tests run beside the project's own: uv, maturin, CMake, Meson, ninja.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::components::test_cache;

/// Versions that the tests were written with.
const PACKAGES: [&str; 5] = [
    "uv==0.13.8",
    "maturin==1.16.0",
    "cmake==4.4.4",
    "ninja==1.13.2",
    "meson==1.12.1",
];

/// A directory with the programs, made once below the user's cache directory.
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let place = test_cache().join("tools");
        let bin = place.join("bin");
        fs::create_dir_all(&place).unwrap();
        // Another test program may be making it.
        let lock = File::create(place.join("lock")).unwrap();
        fs4::FileExt::lock(&lock).unwrap();
        let done = place.join("done");
        let wanted = PACKAGES.join(" ");
        if fs::read_to_string(&done).is_ok_and(|made| made == wanted) {
            return bin;
        }
        run(Command::new("python3").args(["-m", "venv"]).arg(&place));
        let pip = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--retries",
            "5",
        ];
        run(Command::new(bin.join("python")).args(pip).args(PACKAGES));
        fs::write(done, wanted).unwrap();
        bin
    })
}

/// One of the programs.
pub fn tool(name: &str) -> PathBuf {
    let program = directory().join(name);
    assert!(program.is_file(), "{} is not there", program.display());
    program
}

fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
