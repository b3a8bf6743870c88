//! Python packages of exact versions, side by side in one directory, as `pip install --target`
//! leaves them: also such that do not belong together.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use crate::components::test_cache;
use crate::tools::tool;

/// A site-packages directory with these packages (`nvidia-nvvm==13.0.88`) and nothing they
/// depend on, made once below the user's cache directory; `None` where tests of real components are
/// left out.
pub fn wheels(requirements: &[&str]) -> PathBuf {
    wheels_for("x86_64", requirements)
}

/// The same for another architecture.
pub fn wheels_for(architecture: &str, requirements: &[&str]) -> PathBuf {
    let name = requirements.join("+").replace('=', "-");
    let name = match architecture {
        "x86_64" => name,
        _ => format!("{architecture}+{name}"),
    };
    let place = test_cache().join("wheels");
    let (finished, part) = (place.join(&name), place.join(format!("{name}.part")));
    // Nothing is written if the packages are there.
    if finished.is_dir() {
        return finished;
    }
    fs::create_dir_all(&place).unwrap();
    // Tests of one program run side by side, and so may test programs.
    let lock = File::create(place.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    if finished.is_dir() {
        return finished;
    }
    let mut command = Command::new(tool("uv"));
    command
        .args(["pip", "install", "--quiet", "--no-deps", "--target"])
        .arg(&part);
    let platform = format!("{architecture}-manylinux_2_28");
    command.args(["--python-platform", &platform, "--python-version", "3.11"]);
    let output = command.args(requirements).output().unwrap();
    assert!(
        output.status.success(),
        "{requirements:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    fs::rename(&part, &finished).unwrap();
    finished
}
