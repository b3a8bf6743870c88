//! What a search makes of `nvcc.profile`, beside what real nvccs make of it in a dry run.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_build::probe::{Attempt, NvccAnswer, NvccProfile};
use cuda_build::select::Request;
use cuda_build::{Env, Root, Search, Target};

use crate::layout_files;
use crate::mutate::{Random, mutated};
use crate::support::{output, text};
use crate::wheels::wheels;

const PATH: &str = "/usr/bin:/bin";

/// As NVIDIA's archives and installers of CUDA 11 and 12 have it.
const CLASSIC: &str = "
TOP              = $(_HERE_)/..

NVVMIR_LIBRARY_DIR = $(TOP)/$(_NVVM_BRANCH_)/libdevice

LD_LIBRARY_PATH += $(TOP)/lib:
PATH            += $(TOP)/$(_NVVM_BRANCH_)/bin:$(_HERE_):

INCLUDES        +=  \"-I$(TOP)/$(_TARGET_DIR_)/include\" $(_SPACE_)

LIBRARIES        =+ $(_SPACE_) \"-L$(TOP)/$(_TARGET_DIR_)/lib$(_TARGET_SIZE_)/stubs\" \"-L$(TOP)/$(_TARGET_DIR_)/lib$(_TARGET_SIZE_)\"

CUDAFE_FLAGS    +=
PTXAS_FLAGS     +=
";

/// Debian's names absolute places, and no `TOP`.
const DEBIAN: &str = "
NVVMIR_LIBRARY_DIR = @ROOT@/usr/lib/nvidia-cuda-toolkit/libdevice
PATH\t+= $(_HERE_):$(_HERE_):
LIBRARIES\t=+ $(_SPACE_) -L@ROOT@/usr/lib/x86_64-linux-gnu/stubs -L@ROOT@/usr/lib/x86_64-linux-gnu
";

/// conda's root is in `targets`.
const CONDA: &str = "
TOP              = $(_HERE_)/../targets/x86_64-linux

NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice

LD_LIBRARY_PATH += $(TOP)/lib:
PATH            += $(TOP)/bin:$(TOP)/nvvm/bin:$(TOP)/../../bin:$(TOP)/../../nvvm/bin:

INCLUDES        +=  \"-I$(TOP)/include\" $(_SPACE_)

LIBRARIES        =+ $(_SPACE_) \"-L$(TOP)/lib/stubs\" \"-L$(TOP)/lib\" $(_SPACE_)
";

/// nixpkgs replaces some of NVIDIA's places, and adds at the end.
const NIX: &str = "
TOP              = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = @ROOT@/nix/store/nvcc/nvvm/libdevice
LD_LIBRARY_PATH += $(TOP)/lib:
PATH            += @ROOT@/nix/store/nvcc/nvvm/bin:$(_HERE_):
INCLUDES        +=  \"-I@ROOT@/nix/store/nvcc/include\" $(_SPACE_)
LIBRARIES        =+ $(_SPACE_) \"-L$(TOP)/$(_TARGET_DIR_)/lib/stubs\" \"-L$(TOP)/$(_TARGET_DIR_)/lib\"
CUDAFE_FLAGS    +=
PTXAS_FLAGS     +=

LIBRARIES =+ $(_SPACE_) \"-L@ROOT@/nix/store/nvcc/nvvm/lib\"
INCLUDES =+ $(_SPACE_) \"-I@ROOT@/nix/store/nvcc/nvvm/include\"
";

/// A compiler's own include directory and nothing relative.
const FEDORA: &str = "
CICC_PATH = @ROOT@/usr/bin
NVVMIR_LIBRARY_DIR = @ROOT@/usr/nvvm/libdevice
INCLUDES += \"-I@ROOT@/usr/include/cuda\"
LIBRARIES =+ \"-L@ROOT@/usr/lib64\"
CUDAFE_FLAGS +=
PTXAS_FLAGS +=
";

/// What no packager writes, and nvcc understands all the same.
const ODD: &str = "  # indented
TOP=$(_THERE_)/..\r
OWN ?= $(TOP)/own
OWN ?= never
INCLUDES=+\"-I$(OWN)\" -isystem
SYSTEM_INCLUDES = $(UNSET)\"-isystem\" $(OWN)/system $(_CUDART_)
LIBRARIES += -L$(OWN)/$x/lib$(_TARGET_SIZE_)
LIBRARIES =+ $(_SPACE_)-Lrelative # no comment
PATH =+ :$(OWN)";

fn real_nvccs() -> Option<Vec<PathBuf>> {
    let versions = ["13.0.88", "13.4.92", "13.5.37"];
    let places = versions.map(|version| wheels(&[&format!("nvidia-cuda-nvcc=={version}")]));
    places
        .into_iter()
        .map(|place| Some(place?.join("nvidia/cu13/bin")))
        .collect()
}

/// `bin/nvcc` as a link to a real one, and a profile beside it.
fn root_with(nvcc: &Path, root: &Path, profile: Option<&str>, targets: bool) -> PathBuf {
    fs::create_dir_all(root.join("bin")).unwrap();
    symlink(nvcc.join("nvcc"), root.join("bin/nvcc")).unwrap();
    if let Some(profile) = profile {
        let profile = profile.replace("@ROOT@", root.to_str().unwrap());
        fs::write(root.join("bin/nvcc.profile"), profile).unwrap();
    }
    if targets {
        fs::create_dir(root.join("targets")).unwrap();
    }
    root.join("bin/nvcc")
}

fn dry_run(nvcc: &Path, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(nvcc);
    command
        .env_clear()
        .env("PATH", PATH)
        .envs(variables.iter().copied());
    text(&output(command.args([
        "--dryrun",
        "-E",
        "-x",
        "cu",
        "/dev/null",
    ])))
}

/// What a search keeps of an nvcc's answer, and what it saw.
fn searched(root: &Path, path: &str, variables: &[(&str, &str)]) -> (String, Attempt) {
    let cache = tempfile::tempdir().unwrap();
    let mut env = Env::from_pairs([("PATH", path)]).with("CUDA_BUILD_CACHE_DIR", cache.path());
    for (name, value) in variables {
        env = env.with(name, value);
    }
    let (disk, target) = (
        Root::system(),
        Target::from_triple("x86_64-unknown-linux-gnu", false).unwrap(),
    );
    let search = Search {
        root: &disk,
        env: &env,
        target: &target,
        places: vec![root.to_owned()],
    };
    let attempt = search.report(&[Request::default()]).attempts.remove(0);
    let kept = fs::read_dir(cache.path().join("nvcc-answers")).ok();
    let kept =
        kept.map(|mut kept| fs::read_to_string(kept.next().unwrap().unwrap().path()).unwrap());
    (kept.unwrap_or_default().replace('\u{1}', path), attempt)
}

fn by_dry_run(kept: &str) -> bool {
    kept.contains("#$ _SPACE_=")
}

fn shapes(nvccs: &[PathBuf]) -> Vec<(&'static str, String)> {
    let own = nvccs.iter().map(|nvcc| {
        (
            "own",
            fs::read_to_string(nvcc.join("nvcc.profile")).unwrap(),
        )
    });
    let known = [
        ("classic", CLASSIC),
        ("debian", DEBIAN),
        ("conda", CONDA),
        ("nix", NIX),
        ("fedora", FEDORA),
        ("odd", ODD),
        ("empty", ""),
    ];
    known
        .map(|(name, text)| (name, text.to_owned()))
        .into_iter()
        .chain(own)
        .collect()
}

#[test]
fn a_profile_tells_what_a_dry_run_tells() {
    let Some(nvccs) = real_nvccs() else { return };
    let shapes = shapes(&nvccs);
    for (number, nvcc) in nvccs.iter().enumerate() {
        let place = tempfile::tempdir().unwrap();
        for (index, (name, profile)) in shapes.iter().enumerate() {
            for (targets, directory) in [
                (true, "plain"),
                (false, "with blanks é"),
                (false, "dots/../dots"),
            ] {
                let case = format!("{number}-{index}-{name}-{targets}");
                fs::create_dir_all(place.path().join(&case).join("dots")).unwrap();
                let root = place.path().join(&case).join(directory);
                let program = root_with(nvcc, &root, Some(profile), targets);
                let dry = dry_run(&program, &[]);
                let (kept, _) = searched(&root, PATH, &[]);
                // Where the process's `PATH` is not at the end, it can't be told from nvcc's own.
                if *name == "odd" {
                    assert_eq!(kept, "", "{case}");
                } else {
                    assert!(!by_dry_run(&kept), "{case}: {kept}");
                    assert_eq!(
                        NvccAnswer::parse(&kept),
                        NvccAnswer::parse(&dry),
                        "{case}: {kept}\n{dry}"
                    );
                }
                // Line by line: also what no answer needs today.
                let read = NvccProfile::parse(
                    &fs::read_to_string(program.with_extension("profile")).unwrap(),
                );
                let here = program.parent().unwrap().to_str().unwrap();
                let lines = read
                    .unwrap()
                    .evaluate(here, targets, &Env::from_pairs([("PATH", PATH)]))
                    .unwrap();
                let (before, _) = dry.split_once("#$ gcc").unwrap();
                let printed: Vec<&str> = before
                    .lines()
                    .filter(|l| !l.starts_with("#$ _") && !l.starts_with("#$ CUDA_ROOT"))
                    .collect();
                assert_eq!(lines.lines().collect::<Vec<_>>(), printed, "{case}");
            }
        }
    }
}

/// Profiles changed by chance: whatever is read as certain, nvcc prints the same.
#[test]
fn changed_profiles_come_out_as_nvcc_has_them() {
    let Some(nvccs) = real_nvccs() else { return };
    let seeds: Vec<Vec<u8>> = shapes(&nvccs)
        .into_iter()
        .map(|(_, text)| text.into_bytes())
        .collect();
    let tokens: &[&[u8]] = &[
        b"$(_HERE_)",
        b"$(TOP)",
        b" += ",
        b" =+ ",
        b" ?= ",
        b" = ",
        b"\nTOP",
        b"$",
        b"#",
        b"\t",
    ];
    let mut random = Random::new(3);
    let place = tempfile::tempdir().unwrap();
    let program = root_with(&nvccs[1], place.path(), None, false);
    let env = Env::from_pairs([("PATH", PATH)]);
    let mut compared = 0;
    for _ in 0..4000 {
        let input = mutated(&mut random, &seeds, tokens);
        let text = String::from_utf8_lossy(&input);
        let Some(profile) = NvccProfile::parse(&text) else {
            continue;
        };
        let here = program.parent().unwrap().to_str().unwrap();
        let Some(lines) = profile.evaluate(here, false, &env) else {
            continue;
        };
        fs::write(program.with_extension("profile"), &input).unwrap();
        let dry = dry_run(&program, &[]);
        let (_, after) = dry.split_once("#$ _TARGET_SIZE_=64\n").unwrap();
        assert!(
            after.starts_with(&format!("{lines}#$ gcc")),
            "{text}\n--- ours\n{lines}\n--- nvcc\n{after}"
        );
        compared += 1;
        if compared == 150 {
            return;
        }
    }
    panic!("only {compared} of the changed profiles were read");
}

/// Where the profile does not tell all, the nvcc is asked as ever, and its answer counts.
#[test]
fn what_a_profile_does_not_tell_a_dry_run_does() {
    let Some(nvccs) = real_nvccs() else { return };
    let nvcc = &nvccs[1];
    let refers = "TOP = $(_HERE_)/..\nINCLUDES += \"-I$(ELSEWHERE)/include\"\n";
    for (profile, variables) in [
        (None, &[][..]),
        (Some(refers), &[("ELSEWHERE", "/else where")][..]),
        (Some(CLASSIC), &[("INCLUDES", "-I/from/a/shell")][..]),
        (Some(CLASSIC), &[("NVCC_APPEND_FLAGS", "-I/more")][..]),
        (
            Some(CLASSIC),
            &[("NVCC_PREPEND_FLAGS", "--dont-use-profile")][..],
        ),
        (Some(CLASSIC), &[("NVCC_CCBIN", "gcc")][..]),
        (Some("TOP = %PLACE%\n"), &[("PLACE", "/percent")][..]),
        (Some("TOP = $(CUDA_ROOT)\n"), &[][..]),
        (Some("lower = x\nTOP = $(lower)\n"), &[][..]),
    ] {
        let place = tempfile::tempdir().unwrap();
        let program = root_with(nvcc, place.path(), profile, false);
        let (kept, _) = searched(place.path(), PATH, variables);
        assert!(by_dry_run(&kept), "{profile:?} {variables:?}: {kept}");
        let dry = dry_run(&program, variables);
        assert_eq!(
            NvccAnswer::parse(&kept),
            NvccAnswer::parse(&dry),
            "{profile:?} {variables:?}"
        );
    }
    // Variables that the profile does not read are no reason.
    let place = tempfile::tempdir().unwrap();
    root_with(nvcc, place.path(), Some(refers), false);
    let (kept, _) = searched(
        place.path(),
        PATH,
        &[("CUDA_ROOT", "/x"), ("LD_LIBRARY_PATH", "/y")],
    );
    assert!(!by_dry_run(&kept), "{kept}");
    // A script is no nvcc that would read a profile.
    fs::remove_file(place.path().join("bin/nvcc")).unwrap();
    script(
        &place.path().join("bin/nvcc"),
        &format!("exec {}/nvcc \"$@\"", nvcc.display()),
        "bash",
    );
    asked_each_time(place.path());
}

/// What a script answers that is not read is that of an nvcc elsewhere, and nothing tells when that
/// one changes.
fn asked_each_time(root: &Path) {
    let (kept, attempt) = searched(root, PATH, &[]);
    assert_eq!(kept, "");
    assert!(
        attempt.summary().contains("nvcc 13."),
        "{}",
        attempt.summary()
    );
}

/// Written by another process: one that this process has open can't be started.
fn script(path: &Path, text: &str, shell: &str) {
    let text = format!("#!/bin/{shell}\n{text}\n");
    let mut command = Command::new("sh");
    command
        .args(["-c", "printf %s \"$1\" > \"$2\" && chmod +x \"$2\"", "sh"])
        .arg(text)
        .arg(path);
    assert!(command.status().unwrap().success());
}

#[test]
fn debians_wrapper_leads_to_the_profile_of_its_program() {
    let Some(nvccs) = real_nvccs() else { return };
    let place = tempfile::tempdir().unwrap();
    let (usr, own) = (
        place.path().join("usr"),
        place.path().join("usr/lib/nvidia-cuda-toolkit"),
    );
    let program = root_with(&nvccs[1], &own, Some(CLASSIC), false);
    fs::create_dir(usr.join("bin")).unwrap();
    script(
        &usr.join("bin/nvcc"),
        &format!("exec {} \"$@\"", program.display()),
        "sh",
    );
    let (kept, _) = searched(&usr, PATH, &[]);
    assert!(!by_dry_run(&kept), "{kept}");
    assert_eq!(
        NvccAnswer::parse(&kept),
        NvccAnswer::parse(&dry_run(&usr.join("bin/nvcc"), &[]))
    );
    // Debian 13 puts the directory before `PATH` as well.
    fs::remove_file(usr.join("bin/nvcc")).unwrap();
    let bin = own.join("bin").display().to_string();
    script(
        &usr.join("bin/nvcc"),
        &format!(
            "export PATH=\"{bin}:$PATH\"\nexec {} \"$@\"",
            program.display()
        ),
        "sh",
    );
    let (kept, _) = searched(&usr, PATH, &[]);
    assert!(!by_dry_run(&kept), "{kept}");
    let asked = NvccAnswer::parse(&dry_run(&usr.join("bin/nvcc"), &[])).unwrap();
    assert_eq!(
        asked
            .programs
            .iter()
            .filter(|program| **program == own.join("bin"))
            .count(),
        2
    );
    assert_eq!(NvccAnswer::parse(&kept), Some(asked));
    // One that does more is asked itself.
    fs::remove_file(usr.join("bin/nvcc")).unwrap();
    script(
        &usr.join("bin/nvcc"),
        &format!("exec {} -Xptxas -v \"$@\"", program.display()),
        "sh",
    );
    asked_each_time(&usr);
}

/// Without a host compiler a dry run fails, so an nvcc that was asked that way told no directory.
#[test]
fn directories_are_known_on_a_machine_without_a_host_compiler() {
    let Some(nvccs) = real_nvccs() else { return };
    let place = tempfile::tempdir().unwrap();
    let (root, elsewhere) = (place.path().join("cuda"), place.path().join("elsewhere"));
    let profile = format!(
        "TOP = $(_HERE_)/..\nINCLUDES += -I{}\n",
        elsewhere.display()
    );
    let program = root_with(&nvccs[1], &root, Some(&profile), false);
    fs::create_dir_all(elsewhere.join("crt")).unwrap();
    fs::write(elsewhere.join("crt/host_config.h"), "").unwrap();
    fs::write(elsewhere.join("cuda.h"), "#define CUDA_VERSION 13040\n").unwrap();
    let empty = place.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let mut command = Command::new(&program);
    command
        .env_clear()
        .env("PATH", &empty)
        .args(["--dryrun", "-E", "-x", "cu", "/dev/null"]);
    assert!(!output(&mut command).status.success());
    let (_, attempt) = searched(&root, empty.to_str().unwrap(), &[]);
    assert!(
        attempt.sets[0]
            .found
            .iter()
            .any(|found| found.include == [elsewhere.clone()]),
        "{attempt:?}"
    );
}

/// The host compiler takes most of the time of a dry run, and a search does not need it.
#[test]
fn no_host_compiler_is_started() {
    let Some(nvccs) = real_nvccs() else { return };
    let place = tempfile::tempdir().unwrap();
    let (root, bin, log) = (
        place.path().join("cuda"),
        place.path().join("bin"),
        place.path().join("log"),
    );
    fs::create_dir(&bin).unwrap();
    script(
        &bin.join("gcc"),
        &format!("echo x >> {}; exec /usr/bin/gcc \"$@\"", log.display()),
        "sh",
    );
    let path = format!("{}:{PATH}", bin.display());
    let program = root_with(&nvccs[1], &root, Some(CLASSIC), true);
    let (kept, _) = searched(&root, &path, &[]);
    assert!(kept.contains("release 13.4") && !log.exists(), "{kept}");
    // That the script would have been started is shown by a dry run.
    let mut command = Command::new(&program);
    command
        .env_clear()
        .env("PATH", &path)
        .args(["--dryrun", "-E", "-x", "cu", "/dev/null"]);
    assert!(output(&mut command).status.success() && log.exists());
}

/// Dry runs of nvccs that no package index has, as they were recorded, with their profiles.
#[test]
fn older_nvccs_read_profiles_alike() {
    for (name, profile, path, targets) in [
        ("classic-12.4", CLASSIC.to_owned(), PATH, true),
        ("conda-12.4", CONDA.to_owned(), PATH, true),
        (
            "debian-12.4",
            DEBIAN.to_owned(),
            "@ROOT@/usr/bin:/bin",
            false,
        ),
        (
            "debian-11.8",
            DEBIAN.replace("$(_HERE_):$(_HERE_):", "$(_HERE_):"),
            "@ROOT@/usr/bin:/bin",
            false,
        ),
        (
            "nix-12.4",
            NIX.replace(
                "/nvcc/",
                "/7a0l8c9k1w2n3p4q5r6s7v8x9y0z1a2b-cuda_nvcc-12.4.131/",
            ),
            PATH,
            false,
        ),
        ("fedora-12.4", FEDORA.to_owned(), PATH, false),
    ] {
        let file = layout_files::directory()
            .join("answers")
            .join(format!("{name}.txt"));
        let recorded = fs::read_to_string(file).unwrap();
        let env = Env::from_pairs([("PATH", path)]);
        let lines = NvccProfile::parse(&profile)
            .unwrap()
            .evaluate("@HERE@", targets, &env)
            .unwrap();
        let (_, dry) = recorded.split_once("--- dryrun\n").unwrap();
        let relevant = |line: &&str| {
            [
                "TOP",
                "CICC_PATH",
                "PATH",
                "INCLUDES",
                "LIBRARIES",
                "NVVMIR_LIBRARY_DIR",
                "LD_LIBRARY_PATH",
            ]
            .iter()
            .any(|name| {
                line.strip_prefix("#$ ")
                    .and_then(|l| l.strip_prefix(name))
                    .is_some_and(|l| l.starts_with('='))
            })
        };
        let of = |text: &str| -> Vec<String> {
            text.lines()
                .filter(relevant)
                .map(|line| line.trim_end().to_owned())
                .collect()
        };
        assert_eq!(of(&lines), of(dry), "{name}");
    }
}
