//! Support for a new CUDA major or a new component is a change of the tables alone.

use std::path::Path;
use std::process::Command;

/// Patches a fictitious CUDA major and a fictitious component into a copy of the tables, and searches every layout
/// with it.
#[test]
#[ignore = "minutes: a new CUDA major is a change of the tables alone"]
fn a_new_major_is_found_after_a_change_of_the_tables() {
    let output = Command::new("bash")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/next_major/run.sh"))
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("next-major"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
