//! What `doctor` says of a machine with a GPU, against `nvidia-smi`.

use crate::support::{Gpu, cargo_cuda, run};

#[test]
#[ignore = "needs a GPU"]
fn doctor_names_the_driver_and_the_gpus() {
    let gpu = Gpu::of_this_machine();
    let place = tempfile::tempdir().unwrap();
    let text = run(&mut cargo_cuda(&place, &["doctor"])).stdout;
    let gpus = vec![gpu.capability.clone(); gpu.count].join(", ");
    let (major, minor) = gpu.cuda;
    let driver = format!("ok driver: for CUDA {major}.{minor}, GPU {gpus}, /");
    let row = text.lines().find(|line| line.contains(&driver));
    // The library's file name has the driver's version.
    let row = row.unwrap_or_else(|| panic!("no `{driver}` in {text}"));
    assert!(
        row.contains("/libcuda.so") && row.ends_with(&gpu.driver),
        "{row}"
    );
}
