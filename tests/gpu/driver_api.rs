//! Modules for the driver API, loaded by an unchanged crate (cust).

use crate::support::{Gpu, Ran, program, run};

/// 0² + 1² + … + 6² is 91, 14285 times, then 0, 1, 4, 9, 16.
const SUM: &str = "1299965";

fn sums(name: &str) -> Ran {
    let ran = run(program(name).env("CUDA_CACHE_DISABLE", "1")).ok();
    assert_eq!(ran.after("sum "), format!("{SUM}, on the processor {SUM}"));
    assert_eq!(
        ran.after("device "),
        Gpu::of_this_machine().number().to_string()
    );
    ran
}

fn machine_code_from_its_own_major(name: &str, cuda: &str) {
    let ran = sums(name);
    assert!(ran.after("CUDA ").starts_with(cuda), "{ran:?}");
    // Code of 8.0 runs on 8.6 as it is; none of another major does.
    let [code, device]: [u32; 2] =
        ["machine code ", "device "].map(|line| ran.after(line).parse().unwrap());
    assert!(code / 10 == device / 10 && code <= device, "{ran:?}");
    assert_eq!(ran.stderr, "", "nothing was compiled by the driver");
}

#[test]
#[ignore = "needs a GPU"]
fn nvrtc_11() {
    if Gpu::of_this_machine().number() < 100 {
        return machine_code_from_its_own_major("driver-api-11", "11.8");
    }
    // CUDA 11 knows no newer GPUs: its PTX of 9.0 is what they get.
    let ran = sums("driver-api-11");
    assert_eq!(ran.after("made from PTX "), "90");
    assert!(
        ran.stderr
            .contains("PTX, which the driver compiles on first use"),
        "{ran:?}"
    );
}

#[test]
#[ignore = "needs a GPU"]
fn nvrtc_12() {
    machine_code_from_its_own_major("driver-api-12", "12.9");
}

#[test]
#[ignore = "needs a GPU"]
fn nvrtc_13() {
    machine_code_from_its_own_major("driver-api-13", "13.");
}

#[test]
#[ignore = "needs a GPU"]
fn nvcc_13() {
    machine_code_from_its_own_major("driver-api-nvcc", "13.");
}

#[test]
#[ignore = "needs a GPU"]
fn ptx_of_12_is_compiled_by_the_driver() {
    let gpu = Gpu::of_this_machine();
    let ran = sums("driver-api-12-ptx");
    assert!(gpu.number() > 80, "8.0 has machine code in this program");
    assert_eq!(ran.after("made from PTX "), "80");
    assert_eq!(ran.after("machine code "), gpu.number().to_string());
    assert!(
        ran.stderr
            .contains("PTX, which the driver compiles on first use"),
        "{ran:?}"
    );
}
