//! A library by nvcc, linked with the static runtime.

use crate::support::{Gpu, Ran, pair, program, run};

const RESULT: &str = "2 * 999 + 1 = 1999";

/// The CUDA that a program says it was built with.
fn built_with(ran: &Ran) -> (u32, u32) {
    pair(ran.after("built with CUDA ").split_once(' ').unwrap().0).unwrap()
}

#[test]
#[ignore = "needs a GPU"]
fn runs_its_machine_code() {
    let ran = run(&mut program("native-app")).ok();
    assert!(ran.stdout.contains(RESULT), "{ran:?}");
    assert_eq!(ran.stderr, "", "there is nothing to warn of");
    // Machine code it is: the driver's compiler is not let near it.
    let ran = run(program("native-app").env("CUDA_DISABLE_PTX_JIT", "1")).ok();
    assert!(ran.stdout.contains(RESULT), "{ran:?}");
}

#[test]
#[ignore = "needs a GPU"]
fn without_code_for_this_gpu_it_says_what_it_has() {
    let gpu = Gpu::of_this_machine();
    let other = if gpu.capability.starts_with("10.") {
        "12.0"
    } else {
        "10.0"
    };
    let ran = run(&mut program(&format!("native-app-{other}")));
    assert!(!ran.succeeded, "{ran:?}");
    assert_eq!(
        ran.stderr,
        format!(
            "error: this build has no code for your {} GPU; it has {other}\n",
            gpu.capability
        )
    );
}

#[test]
#[ignore = "needs a GPU"]
fn ptx_alone_runs_where_the_driver_is_as_new_as_the_toolkit() {
    let gpu = Gpu::of_this_machine();
    let mut command = program("native-app-ptx");
    // What the driver compiled once it would keep.
    let ran = run(command.env("CUDA_CACHE_DISABLE", "1"));
    let (major, minor) = built_with(&ran);
    assert!(
        ran.stderr.starts_with(
            "warning: this build has only PTX, which the driver compiles on first use"
        ),
        "{ran:?}"
    );
    assert!(
        ran.stderr
            .contains(&format!("a driver for CUDA {major}.{minor} or newer")),
        "{ran:?}"
    );
    if gpu.cuda >= (major, minor) {
        assert!(ran.ok().stdout.contains(RESULT));
    } else {
        // cudaErrorUnsupportedPtxVersion
        assert!(
            !ran.succeeded && ran.stderr.contains("(CUDA error 222)"),
            "{ran:?}"
        );
    }
}
