//! Fetching with installers that are scripts, and from archives that are made here.

use super::Snapshot;
use super::machine::Machine;
use crate::project::copy;
use crate::redist::{Mirror, file, hostile};

/// Sets `$out`, the file in which uv writes what it resolved, and `$target`, the directory in which it installs.
const READ_ARGUMENTS: &str = "all=\"$*\"; while [ $# -gt 0 ]; do case \"$1\" in --output-file) out=$2;; --target) target=$2;; esac; shift; done";

const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

pub(super) fn add(snapshot: &mut Snapshot) {
    snapshot.area("Installers");
    let machine = Machine::new();
    machine.fails(snapshot, "toolkit add 13");
    machine.program("python3", "echo pip 21.0 from here");
    machine.program("pip", "echo no module");
    machine.fails_as(snapshot, "pip is too old", "toolkit add 13");
    for (what, report) in [
        ("pip reports nothing", "{}"),
        ("pip reports no name", "{\"install\": [{}]}"),
        (
            "pip reports no version",
            "{\"install\": [{\"metadata\": {\"name\": \"six\"}}]}",
        ),
    ] {
        let body = format!(
            "case \"$*\" in *--version*) echo pip 24.0 from here; exit;; esac\nwhile [ $1 != --report ]; do shift; done\necho '{report}' > $2"
        );
        machine.program("python3", &body);
        machine.fails_as(snapshot, what, "toolkit add 13");
    }
    let machine = Machine::new();
    for (what, printed) in [
        (
            "the index has no such package",
            "error: No solution found: cuda-toolkit was not found in the package registry",
        ),
        (
            "the index has no such release",
            "error: No solution found when resolving dependencies",
        ),
        (
            "no network",
            "error: Failed to fetch: `https://index.invalid/simple/cuda-toolkit/`\\ntcp connect error",
        ),
        (
            "a full disk",
            "error: failed to write\\nNo space left on device (os error 28)",
        ),
        (
            "a file that is not the pinned one",
            "error: Hash mismatch for nvidia-cuda-runtime==13.4.92",
        ),
        (
            "a directory that cannot be written",
            "error: failed to create directory: Permission denied (os error 13)",
        ),
        ("another error", "error: something else"),
    ] {
        machine.program("uv", &format!("printf '{printed}\\n' >&2; exit 2"));
        machine.fails_as(snapshot, what, "toolkit add 13");
    }
    let resolved = |packages: &[&str]| {
        let lines: Vec<String> = packages
            .iter()
            .map(|package| format!("{package} \\\\\\n    --hash=sha256:{DIGEST}\\n"))
            .collect();
        lines.concat()
    };
    let answers = |answer: &str, install: &str| {
        let body = format!(
            "{READ_ARGUMENTS}\nif [ -n \"$out\" ]; then printf '{answer}' > \"$out\"; else :; {install}\nfi"
        );
        machine.program("uv", &body);
    };
    for (what, answer) in [
        ("uv resolves nothing", String::new()),
        (
            "uv prints a hash first",
            format!("a\\n--hash=sha256:{DIGEST}\\n"),
        ),
        ("uv prints no hash", "cuda-toolkit==13.4.3\\n".to_owned()),
        ("the index lacks the metapackage", resolved(&["six==1.0"])),
        (
            "packages of two releases",
            resolved(&["cuda-toolkit==13.4.3", "nvidia-cuda-runtime==13.5.37"]),
        ),
    ] {
        answers(&answer, "");
        machine.fails_as(snapshot, what, "toolkit add 13 --only cudart");
    }
    let good = resolved(&["cuda-toolkit==13.4.3", "nvidia-cuda-runtime==13.4.92"]);
    answers(&good, "");
    machine.fails_as(
        snapshot,
        "uv installs nothing",
        "toolkit add 13 --only cudart",
    );
    let record = "d=\"$target/nvidia_cuda_runtime-13.4.92.dist-info\"; /bin/mkdir -p \"$d\"; echo 'a.h,,2' > \"$d/RECORD\"; echo a > \"$target/a.h\"";
    machine.fails(
        snapshot,
        "CUDA_BUILD_CACHE_DIR=/dev/null/cache toolkit add 13 --only cudart",
    );
    answers(&good, record);
    machine.fails_as(
        snapshot,
        "a package without its files",
        "toolkit add 13 --only cudart",
    );
    answers(&good, "echo 'error: No solution found' >&2; exit 1");
    machine.fails_as(
        snapshot,
        "a resolved package is gone",
        "toolkit add 13 --only cudart",
    );
    answers(&good, "kill -INT $PPID; /bin/sleep 1; exit 1");
    machine.fails_as(snapshot, "Ctrl-C", "toolkit add 13 --only cudart");
    // The metapackage exists, and the second call, with the components, finds nothing.
    let second = "case \"$(/bin/cat requirements.in)\" in *'['*) echo 'error: No solution found' >&2; exit 1;; esac";
    machine.program(
        "uv",
        &format!("{second}\n{READ_ARGUMENTS}\nprintf '{good}' > \"$out\""),
    );
    machine.fails_as(
        snapshot,
        "the release lacks a component",
        "toolkit add 13 --only cublas",
    );
    answers(&resolved(&["maturin==1.16.0"]), "");
    machine.write("Cargo.toml", "[package]\nname = \"p\"\nversion = \"0.1.0\"\n[lib]\ncrate-type = [\"cdylib\"]\n[package.metadata.cuda]\nmajors = [13]\ncapabilities = [\"8.0\"]\n[workspace]\n");
    machine.write("src/lib.rs", "");
    machine.fails_as(snapshot, "uv installs no maturin", "wheel --fetch");
    archives(snapshot);
}

fn archives(snapshot: &mut Snapshot) {
    snapshot.area("NVIDIA's archives");
    let machine = Machine::new();
    let line = "toolkit add 12 --only cudart --from redist";
    let at = |place: &str| format!("CUDA_BUILD_REDIST={place} {line}");
    machine.fails(snapshot, "toolkit add 12 --only nccl --from redist");
    machine.fails(
        snapshot,
        &format!("{line} --target aarch64-unknown-linux-gnu"),
    );
    machine.fails(snapshot, &at("ftp://mirror.invalid"));
    machine.fails(snapshot, &at("nowhere"));
    machine.fails(snapshot, &at("https://mirror.invalid"));
    machine.program("curl", "exit 6");
    machine.fails_as(snapshot, "curl fails", &at("https://mirror.invalid"));
    machine.write("empty/file", "");
    machine.fails(snapshot, &at("empty"));
    machine.write("broken/redistrib_12.9.1.json", "{");
    machine.fails(snapshot, &at("broken"));
    machine.write("lacking/redistrib_12.9.1.json", "{}");
    machine.fails(snapshot, &at("lacking"));
    let mut seen = Vec::new();
    for (what, fill) in hostile() {
        if seen.contains(&what) {
            continue;
        }
        seen.push(what);
        let mut mirror = Mirror::new("12.9.1");
        mirror.add("cuda_cudart", "12.9.79", fill);
        copy(&mirror.path(""), &machine.path("project/mirror"));
        machine.fails_as(snapshot, what, &at("mirror"));
        std::fs::remove_dir_all(machine.path("project/mirror")).unwrap();
    }
    let mut mirror = Mirror::new("12.9.1");
    let archive = mirror.add("cuda_cudart", "12.9.79", |archive| {
        file(archive, "top/a", b"");
    });
    copy(&mirror.path(""), &machine.path("project/mirror"));
    machine.write(&format!("mirror/{archive}"), "changed");
    machine.fails_as(snapshot, "a changed archive", &at("mirror"));
}
