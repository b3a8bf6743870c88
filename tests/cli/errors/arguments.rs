//! Command lines that are refused before anything is read.

use std::os::unix::ffi::OsStrExt as _;

use super::Snapshot;
use super::machine::Machine;

pub(super) fn add(snapshot: &mut Snapshot) {
    snapshot.area("Arguments");
    let machine = Machine::new();
    for line in [
        "compile",
        "build --cuda 3",
        "build --cuda new",
        "build --capabilites 8.0",
        "build --capabilities=",
        "toolkit add 10",
        "toolkit add new",
        "toolkit add 13 --from apt",
        "toolkit add 13 --components cublass",
        "wheel --max-size 1",
        "wheel --from-wheel a.whl --cuda 12,13",
        "wheel --metapackage -- --sdist",
        "audit --allow W99 a.whl",
        "capabilities --cuda 12.7",
        "toolkit add 13 --components cuda-driver",
        "toolkit add 11 --only tileiras",
        "audit missing.whl",
        "audit /dev/null",
        "exec no-such-program",
        "view --output /",
    ] {
        machine.fails(snapshot, line);
    }
    let line = "capabilities";
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = machine.command(line);
    machine.fails_with(
        snapshot,
        "standard output is /dev/full",
        line,
        command.stdout(full),
    );
    let line = "view --json --output";
    let mut command = machine.command(line);
    command.arg(std::ffi::OsStr::from_bytes(b"view\xff"));
    machine.fails_with(snapshot, "a path that is not UTF-8", line, &mut command);
}
