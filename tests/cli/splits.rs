//! Real components in one directory each, as redist archives and Nix have them: found, compiled,
//! linked, run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::components::site_packages;
use crate::project::{Project, checkout, place};
use crate::support::Finished;

/// The wheels of CUDA 13, each package's files in a directory of its own below `place`, named by
/// `name`. `None` where tests of real components are left out.
fn split(place: &Path, name: impl Fn(&str, &str) -> String) -> Option<BTreeMap<String, PathBuf>> {
    let site = site_packages(13)?;
    let mut directories = BTreeMap::new();
    for entry in fs::read_dir(&site).unwrap().map(Result::unwrap) {
        let file_name = entry.file_name().into_string().unwrap();
        let Some((package, version)) = file_name
            .strip_suffix(".dist-info")
            .and_then(|n| n.split_once('-'))
        else {
            continue;
        };
        let component = package.trim_start_matches("nvidia_").to_owned();
        let directory = place.join(name(&component, version));
        for line in fs::read_to_string(entry.path().join("RECORD"))
            .unwrap()
            .lines()
        {
            let path = line.split(',').next().unwrap();
            // What installers add (`__pycache__`, scripts) is no part of CUDA.
            let Some(below) = path.strip_prefix("nvidia/cu13/") else {
                continue;
            };
            let (from, to) = (site.join(path), directory.join(below));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::hard_link(&from, &to)
                .or_else(|_| fs::copy(&from, &to).map(|_| ()))
                .unwrap();
        }
        if directory.is_dir() {
            directories.insert(component, directory);
        }
    }
    for needed in [
        "cuda_nvcc",
        "nvvm",
        "cuda_crt",
        "cuda_runtime",
        "cuda_cccl",
        "cuda_nvrtc",
    ] {
        assert!(
            directories.contains_key(needed),
            "{needed}: {directories:?}"
        );
    }
    Some(directories)
}

/// The native template under a name of its own.
fn native(name: &str) -> Project {
    let template =
        |file: &str| fs::read_to_string(checkout().join("templates/library").join(file)).unwrap();
    let cuda = "toolkit = \">=13, <14\"\ncapabilities = [\"8.0\", \"9.0\", \"12.0+PTX\"]";
    let project = Project::new(
        name,
        &[],
        cuda,
        &template("build.rs"),
        &template("src/main.rs"),
    )
    .unwrap();
    project.write("kernels/saxpy.cu", &template("kernels/saxpy.cu"));
    project
}

/// Builds and runs the native program with `variable` set to a list of directories.
fn runs(project: &Project, variable: &str, directories: &[&PathBuf], separator: &str) {
    let list: Vec<&str> = directories
        .iter()
        .map(|directory| directory.to_str().unwrap())
        .collect();
    let run = Finished::of(
        project
            .command(&["run"])
            .env(variable, list.join(separator))
            .output()
            .unwrap(),
    );
    assert!(
        run.stdout
            .contains("built with CUDA 13.4 for 8.0, 9.0, 12.0+PTX"),
        "{run:?}"
    );
    if run.code != 0 {
        run.ended_with(1, &["error: no CUDA driver is installed on this machine"]);
    }
}

#[test]
fn a_directory_per_component_as_redist_archives_have_it() {
    let place = place("redist-split");
    let Some(split) = split(&place, |component, version| {
        format!("{component}-linux-x86_64-{version}-archive")
    }) else {
        return;
    };
    let project = native("split-redist");
    runs(
        &project,
        "CUDA_BUILD_ROOTS",
        &split.values().collect::<Vec<_>>(),
        ":",
    );
}

#[test]
fn read_only_outputs_as_a_nix_store_has_them() {
    let place = place("nix-split");
    let hash = "0a1b2c3d4f5g6h7i8j9k0l1m2n3p4q5r";
    let Some(split) = split(&place, |component, version| {
        format!("nix/store/{hash}-{component}-{version}")
    }) else {
        return;
    };
    let lock = |mode: u32| {
        for directory in split.values() {
            for below in [
                directory.clone(),
                directory.join("bin"),
                directory.join("lib"),
                directory.join("include"),
            ] {
                if below.is_dir() {
                    fs::set_permissions(below, fs::Permissions::from_mode(mode)).unwrap();
                }
            }
        }
    };
    lock(0o555);
    let project = native("split-nix");
    runs(
        &project,
        "CUDAToolkit_ROOT",
        &split.values().collect::<Vec<_>>(),
        ";",
    );
    lock(0o755);
}

#[test]
fn two_named_sources_are_one_toolkit() {
    let place = place("two-sources");
    let of = |component: &str| {
        let compiler = ["cuda_nvcc", "nvvm", "cuda_crt"].contains(&component);
        if compiler { "compiler" } else { "runtime" }.to_owned()
    };
    let Some(split) = split(&place, |component, _| of(component)) else {
        return;
    };
    let project = native("split-two");
    runs(
        &project,
        "CUDA_BUILD_ROOTS",
        &[&split["cuda_nvcc"], &split["cuda_runtime"]],
        ":",
    );
}
