//! The host compiler, with a real nvcc and real compilers.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_build::host_compiler::{Family, HostCompiler, choose};
use cuda_build::select::{Need, Part, Request};
use cuda_build::{Component, Env, Error, Root, Search, Target, Toolkit};

use crate::support::{output, text};
use crate::wheels::wheels;

fn toolkit() -> Option<Toolkit> {
    let place = wheels(&[
        "nvidia-cuda-nvcc==13.4.92",
        "nvidia-nvvm==13.4.92",
        "nvidia-cuda-crt==13.4.92",
        "nvidia-cuda-runtime==13.4.92",
    ])?;
    let need = |component, part| Need::new(component, part, "a test");
    let needs = vec![
        need(Component::Nvcc, Part::Tools),
        need(Component::Nvvm, Part::Tools),
        need(Component::Crt, Part::Headers),
        need(Component::Cudart, Part::Headers),
    ];
    let (root, env) = (Root::system(), Env::from_pairs::<&str, &str>([]));
    let target = Target::from_triple("x86_64-unknown-linux-gnu", false).unwrap();
    let search = Search {
        root: &root,
        env: &env,
        target: &target,
        places: vec![place],
    };
    Some(
        search
            .find(&Request {
                needs,
                ..Request::default()
            })
            .unwrap(),
    )
}

/// A directory with a `gcc` and a `g++` that are the machine's own and say that they are 99.
fn impostors() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in ["gcc", "g++"] {
        let path = directory.path().join(name);
        let script = "#!/bin/sh\n/usr/bin/g++ \"$@\" | /bin/sed 's/^#define __GNUC__ .*/#define __GNUC__ 99/'\n";
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    directory
}

fn chosen(toolkit: &Toolkit, path: &[&Path], more: &[(&str, &str)]) -> Result<HostCompiler, Error> {
    let mut env = Env::from_pairs([("PATH", std::env::join_paths(path).unwrap())]);
    for (name, value) in more {
        env = env.with(name, value);
    }
    choose(&env, &Root::system(), toolkit)
}

const SYSTEM: &str = "/usr/bin";

#[test]
fn nvccs_own_choice_is_kept_where_the_toolkit_accepts_it() {
    let Some(toolkit) = toolkit() else { return };
    let host = chosen(&toolkit, &[Path::new(SYSTEM)], &[]).unwrap();
    assert_eq!(host.option, None);
    assert_eq!(host.warnings, [""; 0]);
    assert_eq!(host.compiler.family, Family::Gcc);
    let version = text(&output(
        Command::new(&host.compiler.path).arg("-dumpfullversion"),
    ));
    assert_eq!(host.compiler.version, version.trim());
}

#[test]
fn one_that_is_too_new_is_passed_over_and_nvcc_compiles_with_the_other() {
    let Some(toolkit) = toolkit() else { return };
    let new = impostors();
    let host = chosen(&toolkit, &[new.path(), Path::new(SYSTEM)], &[]).unwrap();
    let option = host.option.unwrap();
    assert!(option.starts_with(SYSTEM), "{}", option.display());
    assert!(host.compiler.major < 99);
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("k.cu");
    std::fs::write(
        &source,
        "#include <vector>\nint f() { return int(std::vector<int>(3).size()); }\n",
    )
    .unwrap();
    let nvcc = toolkit.tool(Component::Nvcc, "nvcc").unwrap();
    let mut command = Command::new(nvcc);
    command
        .current_dir(directory.path())
        .args(["-c", "--dryrun", "k.cu", "-ccbin"])
        .arg(&option);
    command.env(
        "PATH",
        std::env::join_paths([new.path(), Path::new(SYSTEM)]).unwrap(),
    );
    let dry_run = text(&output(&mut command));
    assert!(
        dry_run.contains(&format!(
            "/{} ",
            option.file_name().unwrap().to_str().unwrap()
        )),
        "{dry_run}"
    );
}

#[test]
fn a_named_one_is_used_or_refused() {
    let Some(toolkit) = toolkit() else { return };
    let system = [Path::new(SYSTEM)];
    let named = chosen(&toolkit, &system, &[("NVCC_CCBIN", "/usr/bin/g++")]).unwrap();
    assert_eq!(named.compiler.path, PathBuf::from("/usr/bin/g++"));
    assert_eq!(named.option, None, "this nvcc reads the variable itself");

    let new = impostors();
    let too_new = new.path().join("g++");
    let too_new = too_new.to_str().unwrap();
    let error = chosen(&toolkit, &system, &[("NVCC_CCBIN", too_new)]).unwrap_err();
    let shown = format!("{error:?}");
    for wanted in [
        "host compiler gcc 99.",
        too_new,
        "which `NVCC_CCBIN` names",
        "not accepted by CUDA 13.4, whose headers take gcc up to 16 and clang up to 22",
        "hint: set `NVCC_CCBIN=/usr/bin/",
        "NVCC_APPEND_FLAGS=-allow-unsupported-compiler",
    ] {
        assert!(shown.contains(wanted), "no {wanted:?} in\n{shown}");
    }
    let flags = [
        ("NVCC_CCBIN", too_new),
        ("NVCC_APPEND_FLAGS", "-allow-unsupported-compiler"),
    ];
    assert_eq!(
        chosen(&toolkit, &system, &flags).unwrap().compiler.major,
        99
    );

    let error = chosen(
        &toolkit,
        &system,
        &[("NVCC_APPEND_FLAGS", &format!("-ccbin {too_new}"))],
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("which `NVCC_APPEND_FLAGS` names"),
        "{error}"
    );
    let error = chosen(&toolkit, &system, &[("NVCC_CCBIN", "/nonexistent/g++")]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`NVCC_CCBIN` names /nonexistent/g++"),
        "{error}"
    );
}

#[test]
fn without_any_that_fits_there_is_an_error() {
    let Some(toolkit) = toolkit() else { return };
    let new = impostors();
    let error = chosen(&toolkit, &[new.path()], &[]).unwrap_err();
    assert!(error.to_string().contains("gcc 99."), "{error}");
    assert!(error.hints()[0].contains("install g++-16"), "{error:?}");
    let empty = tempfile::tempdir().unwrap();
    let error = chosen(&toolkit, &[empty.path()], &[]).unwrap_err();
    assert!(
        error.to_string().contains("there is none on `PATH`"),
        "{error}"
    );
}
