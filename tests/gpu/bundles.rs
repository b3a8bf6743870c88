//! A bundle with several builds, and thin wheels: what is chosen for this GPU.

use std::process::Command;
use std::time::Instant;

use crate::support::{Gpu, pack, program, run};
use crate::wheels::SCRIPT;

/// The majors that were packed.
fn newest_major(gpu: &Gpu) -> u32 {
    gpu.cuda.0.min(13)
}

#[test]
#[ignore = "needs a GPU"]
fn the_build_for_this_gpu_is_started() {
    let gpu = Gpu::of_this_machine();
    let start = || program("bundle/bin/driver-api");
    let info = run(start().arg("--bundle-info")).ok();
    let expected = format!("cu{}-sm{}0", newest_major(&gpu), gpu.number() / 10);
    assert_eq!(info.after("build: "), expected);
    let ran = run(start().env("CUDA_CACHE_DISABLE", "1")).ok();
    assert_eq!(ran.after("device "), gpu.number().to_string());
    // What the start program costs beside the program: the driver is initialised twice.
    let direct = format!("bundle/builds/{expected}/driver-api");
    for name in ["bundle/bin/driver-api", &direct] {
        let before = Instant::now();
        run(&mut program(name)).ok();
        println!("{name}: {} ms", before.elapsed().as_millis());
    }
}

#[test]
#[ignore = "needs a GPU"]
fn without_a_visible_gpu_the_reason_is_told() {
    let ran = run(program("bundle/bin/driver-api").env("CUDA_VISIBLE_DEVICES", ""));
    assert!(!ran.succeeded);
    assert!(
        ran.stderr
            .contains("the driver shows no GPU; `CUDA_VISIBLE_DEVICES` is set"),
        "{ran:?}"
    );
}

#[test]
#[ignore = "needs a GPU"]
fn the_thin_wheel_for_this_gpu_computes() {
    let gpu = Gpu::of_this_machine();
    let place = tempfile::tempdir().unwrap();
    let label = format!("-cu{}_sm{}0.whl", newest_major(&gpu), gpu.number() / 10);
    let wheels = std::fs::read_dir(pack().join("variants")).unwrap();
    let mut wheels = wheels.map(|wheel| wheel.unwrap().path());
    let wheel = wheels
        .find(|path| path.to_str().unwrap().ends_with(&label))
        .unwrap();
    // pip refuses the name. What it downloaded for the wheels of each major is beside them.
    let runtimes = std::fs::read_dir(pack().join("wheels")).unwrap();
    let runtimes = runtimes.map(|wheel| wheel.unwrap().path());
    let runtimes = runtimes.filter(|path| path.to_str().unwrap().contains("nvidia_cuda_runtime"));
    for wheel in runtimes.chain([wheel]) {
        let mut unzip = Command::new("python3");
        run(unzip
            .args(["-m", "zipfile", "-e"])
            .arg(wheel)
            .arg(place.path()))
        .ok();
    }
    let mut python = Command::new("python3");
    let ran = run(python.args(["-c", SCRIPT]).env("PYTHONPATH", place.path())).ok();
    assert_eq!(ran.after("result "), "[12.0, 24.0, 36.0]");
}
