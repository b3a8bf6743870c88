//! What `doctor` says of a machine with a GPU, against `nvidia-smi`.

use serde_json::Value;

use crate::support::{Gpu, cargo_cuda, run};

#[test]
#[ignore = "needs a GPU"]
fn doctor_names_the_driver_and_the_gpus() {
    let gpu = Gpu::of_this_machine();
    let place = tempfile::tempdir().unwrap();
    let ran = run(&mut cargo_cuda(&place, &["doctor", "--json"]));
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    let driver = &json["driver"];
    assert_eq!(
        driver["cuda"],
        format!("{}.{}", gpu.cuda.0, gpu.cuda.1),
        "{driver}"
    );
    assert_eq!(driver["module"], gpu.driver, "{driver}");
    let gpus = driver["capabilities"].as_array().unwrap();
    assert_eq!(gpus.len(), gpu.count, "{driver}");
    assert_eq!(gpus[0], gpu.capability, "{driver}");
    let library = driver["library"].as_str().unwrap();
    assert!(
        library.starts_with('/') && library.contains("/libcuda.so"),
        "{driver}"
    );
    let text = run(&mut cargo_cuda(&place, &["doctor"])).stdout;
    assert!(
        text.contains(&gpu.driver) && text.contains(&gpu.capability),
        "{text}"
    );
}
