//! Wheels, installed by pip beside the runtime that they require, from packed files alone.

use std::process::Command;

use crate::support::{pack, run};

pub const SCRIPT: &str = "
import saxpy
print('runtime', saxpy.cuda_runtime_version())
print('result', saxpy.axpy(2.0, [1.0, 2.0, 3.0], [10.0, 20.0, 30.0]))
maps = {line.split()[-1] for line in open('/proc/self/maps') if 'libcudart' in line}
print('loaded', *maps)
";

fn computes(major: u32) {
    let place = tempfile::tempdir().unwrap();
    let site = place.path().join("site");
    let wheels = pack().join("wheels");
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-compile",
        "--no-cache-dir",
    ]);
    pip.arg("--find-links")
        .arg(wheels)
        .arg("--target")
        .arg(&site)
        .arg(format!("saxpy_cu{major}"));
    run(&mut pip).ok();
    let mut python = Command::new("python3");
    python.arg("-c").arg(SCRIPT);
    // The library is found from the module, not from here.
    let ran = run(python
        .env("PYTHONPATH", &site)
        .env_remove("LD_LIBRARY_PATH"))
    .ok();
    assert_eq!(ran.after("result "), "[12.0, 24.0, 36.0]");
    assert_eq!(ran.after("runtime ")[..2], major.to_string());
    let loaded = ran.after("loaded ");
    assert!(
        loaded.starts_with(site.to_str().unwrap()) && !loaded.contains(' '),
        "{loaded}"
    );
}

#[test]
#[ignore = "needs a GPU"]
fn of_12() {
    computes(12);
}

#[test]
#[ignore = "needs a GPU"]
fn of_13() {
    computes(13);
}
