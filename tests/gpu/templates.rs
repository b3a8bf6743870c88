//! The templates that launch a kernel with a crate for the driver API, and their tests.

use crate::support::{program, run};

fn computes(template: &str) {
    let ran = run(&mut program(template)).ok();
    assert!(ran.stdout.ends_with("2 * 999 + 1 = 1999\n"), "{ran:?}");
    assert_eq!(ran.stderr, "", "there is nothing to warn of");
    let tests = run(program(&format!("{template}-tests")).arg("--nocapture")).ok();
    assert!(
        tests.stdout.contains("test result: ok. 2 passed"),
        "{tests:?}"
    );
    assert!(!tests.stderr.contains("skipped"), "{tests:?}");
}

#[test]
#[ignore = "needs a GPU"]
fn with_cust() {
    computes("module-cust");
}

#[test]
#[ignore = "needs a GPU"]
fn with_cudarc() {
    computes("module-cudarc");
}
