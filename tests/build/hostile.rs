//! Disks that nobody would make on purpose: the search says something and ends, whatever it meets.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cuda_build::Component;
use cuda_find::detail::{
    env::Env,
    root::Root,
    search::{Outcome, SearchContext},
    select::{Need, Part, Request},
    target::Target,
};

/// The search of everything, which must not take longer than a person would wait.
fn search(root: &Path, env: &[(&str, &str)]) -> Outcome {
    let pairs = env.iter().map(|(name, value)| {
        (
            (*name).to_owned(),
            value.replace("@ROOT@", root.to_str().unwrap()),
        )
    });
    let env = Env::from_pairs(pairs);
    let root = Root::below(root);
    let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
    let started = Instant::now();
    let search = SearchContext {
        root: &root,
        env: &env,
        target: &target,
        places: Vec::new(),
    };
    let need = Need::new(Component::Cudart, Part::Shared, "for this test");
    let report = search.report(&[Request {
        needs: vec![need],
        ..Request::default()
    }]);
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
    report
}

fn summaries(report: &Outcome) -> String {
    report
        .attempts
        .iter()
        .map(|attempt| format!("{}: {}\n", attempt.candidate, attempt.summary()))
        .collect()
}

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A whole root whose `cuda.h` says 12.4 and whose library is there.
fn good_root(root: &Path) {
    write(
        &root.join("include/cuda.h"),
        b"#define CUDA_VERSION 12040\n",
    );
    write(&root.join("include/cuda_runtime.h"), b"");
    write(&root.join("lib64/libcudart.so.12"), b"");
}

#[test]
fn link_loops() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    good_root(&root.join("usr/local/cuda-12.4"));
    let local = root.join("usr/local");
    symlink("cuda", local.join("cuda")).unwrap();
    symlink("cuda-12", local.join("cuda-12")).unwrap();
    symlink(".", local.join("cuda-12.4/targets")).unwrap();
    symlink("../lib64", local.join("cuda-12.4/lib64/lib64")).unwrap();
    symlink(
        "libnvrtc.so.12",
        local.join("cuda-12.4/lib64/libnvrtc.so.12"),
    )
    .unwrap();
    let report = search(root, &[("CUDA_PATH", "@ROOT@/usr/local/cuda")]);
    assert!(report.toolkit.is_err());
    assert!(
        summaries(&report).contains("cudart"),
        "{}",
        summaries(&report)
    );
    let report = search(root, &[]);
    assert_eq!(report.toolkit.unwrap().version().to_string(), "12.4");
}

/// For root nothing is closed: then this test runs itself as somebody else.
#[test]
fn directories_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    good_root(&root.join("usr/local/cuda"));
    let closed = root.join("opt/cuda");
    good_root(&closed);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(&closed).is_ok() {
        let program = root.join("tests");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        for open in [root, program.as_path()] {
            fs::set_permissions(open, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let name = "hostile::directories_that_cannot_be_read";
        let nobody = 65534;
        let mut again = Command::new(&program);
        again
            .args([name, "--exact"])
            .uid(nobody)
            .gid(nobody)
            .current_dir("/");
        let output = match again.env("TMPDIR", "/tmp").output() {
            // A root that may not become somebody else, or a place for temporary files that is its own.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                let text = format!(
                    "left out: {name} (for root nothing is closed, and nobody else can be: {error})\n"
                );
                std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes()).unwrap();
                return;
            }
            output => output.unwrap(),
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}"
        );
        return;
    }
    let home = search(root, &[("CUDA_HOME", "@ROOT@/opt/cuda")]);
    let others = [
        ("VIRTUAL_ENV", "@ROOT@/opt/cuda"),
        ("HOME", "@ROOT@/opt/cuda"),
    ];
    let searched = search(root, &others);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(
        home.toolkit
            .unwrap_err()
            .to_string()
            .contains("cannot be read: Permission denied")
    );
    assert!(searched.toolkit.is_ok(), "{}", summaries(&searched));
}

#[test]
fn a_header_of_fifty_megabytes_and_one_of_nul_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    good_root(&root.join("big"));
    // Sparse: what counts is its length.
    fs::File::create(root.join("big/include/cuda.h"))
        .unwrap()
        .set_len(50 << 20)
        .unwrap();
    good_root(&root.join("nul"));
    write(
        &root.join("nul/include/cuda.h"),
        b"\0\0#define CUDA_VERSION\0 12\n\xff\xfe\0#define CUDA_VERSION 99999999999999\n",
    );
    write(&root.join("nul/version.json"), b"{\"cuda\"\0\"version\"");
    for place in ["big", "nul"] {
        let report = search(root, &[("CUDA_HOME", &format!("@ROOT@/{place}"))]);
        let text = summaries(&report);
        // No release is known; the library's name still tells the major.
        assert!(text.contains("cudart for CUDA 12"), "{place}: {text}");
    }
}

#[test]
fn a_fifo_where_files_are_expected() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    good_root(&root.join("usr/local/cuda"));
    fs::remove_file(root.join("usr/local/cuda/include/cuda.h")).unwrap();
    let fifos = [
        "version.json",
        "include/cuda.h",
        "bin/nvcc",
        "lib64/libnvrtc.so.12",
        "bin/nvcc.profile",
    ];
    fs::create_dir_all(root.join("usr/local/cuda/bin")).unwrap();
    for name in fifos {
        let made = Command::new("mkfifo")
            .arg(root.join("usr/local/cuda").join(name))
            .status()
            .unwrap();
        assert!(made.success());
    }
    let report = search(root, &[("PATH", "@ROOT@/usr/local/cuda/bin")]);
    assert!(
        summaries(&report).contains("cudart for CUDA 12"),
        "{}",
        summaries(&report)
    );
}

#[test]
fn ten_thousand_entries_in_site_packages() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let packages = root.join("venv/lib/python3.12/site-packages");
    fs::create_dir_all(packages.join("nvidia")).unwrap();
    for index in 0..10_000 {
        fs::create_dir(packages.join(format!("p{index}-1.{index}.dist-info"))).unwrap();
    }
    for name in [
        "-.dist-info",
        ".dist-info",
        "nvidia_cuda_runtime_cu12-.dist-info",
        "x-1.2.3.4.5.6.7.8.9.dist-info",
    ] {
        fs::create_dir(packages.join(name)).unwrap();
    }
    let started = Instant::now();
    let report = search(root, &[("VIRTUAL_ENV", "@ROOT@/venv")]);
    assert!(report.toolkit.is_err());
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn variables_that_name_nonsense() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("a file"), b"not a directory");
    let long = "x/".repeat(4000);
    for value in [
        "",
        ";;;",
        ":",
        "@ROOT@/a file",
        "relative/path",
        "/dev/null",
        "/proc/self/fd",
        &long,
        "\u{1f980}",
    ] {
        for name in [
            "CUDA_HOME",
            "NVCC",
            "CUDA_BUILD_ROOTS",
            "VIRTUAL_ENV",
            "CONDA_PREFIX",
            "NVHPC_ROOT",
            "NIX_LDFLAGS",
            "SPACK_ENV",
            "PATH",
            "HOME",
        ] {
            let report = search(dir.path(), &[(name, value)]);
            assert!(report.toolkit.is_err(), "{name}={value}");
        }
    }
}

#[test]
fn an_nvcc_that_answers_nonsense() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    good_root(&root.join("opt/odd"));
    let nvcc = root.join("opt/odd/bin/nvcc");
    // No `#!` line and no program: starting it fails.
    write(&nvcc, b"\x7fELFgarbage");
    fs::set_permissions(&nvcc, fs::Permissions::from_mode(0o755)).unwrap();
    let home = [("CUDA_HOME", "@ROOT@/opt/odd")];
    for (mode, said) in [
        (
            0o755,
            "opt/odd/bin/nvcc --dryrun -E -x cu /dev/null`: Exec format error",
        ),
        (0o644, "not executable"),
    ] {
        fs::set_permissions(&nvcc, fs::Permissions::from_mode(mode)).unwrap();
        let report = search(root, &home);
        assert!(summaries(&report).contains(said), "{}", summaries(&report));
        let toolkit = report.toolkit.unwrap();
        assert_eq!(toolkit.version().to_string(), "12.4", "the rest is there");
        assert!(toolkit.get(Component::Nvcc).is_none(), "it is no compiler");
    }
}
