//! Real components in one directory each, as redist archives and Nix have them: found, compiled, linked, run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::components::site_packages;
use crate::project::{Project, checkout, place};
use crate::support::Finished;

/// The wheels of CUDA 13, each package's files in a directory of its own below `place`, named after `pattern`.
fn split(place: &Path, pattern: &str) -> Vec<PathBuf> {
    let site = site_packages(13);
    let mut directories = Vec::new();
    for entry in fs::read_dir(&site).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let Some(package) = name.strip_suffix(".dist-info") else {
            continue;
        };
        let (component, version) = package.split_once('-').unwrap();
        let component = component.trim_start_matches("nvidia_");
        let name = pattern
            .replace("COMPONENT", component)
            .replace("VERSION", version);
        let directory = place.join(name);
        let record = fs::read_to_string(entry.path().join("RECORD")).unwrap();
        for path in record.lines().map(|line| line.split(',').next().unwrap()) {
            // What installers add (`__pycache__`, scripts) is not a part of CUDA.
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
            directories.push(directory);
        }
    }
    directories
}

fn set_mode(directories: &[PathBuf], mode: u32) {
    for directory in directories {
        for below in ["", "bin", "lib", "include"].map(|name| directory.join(name)) {
            if below.is_dir() {
                fs::set_permissions(below, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
    }
}

mod online {
    use super::*;

    #[test]
    #[ignore = "minutes: one directory per component, as Nix and NVIDIA's archives have it"]
    fn a_toolkit_in_a_directory_per_component_is_used() {
        let template = |file: &str| {
            fs::read_to_string(checkout().join("templates/library").join(file)).unwrap()
        };
        let cuda = "toolkit = \">=13, <14\"\ncapabilities = [\"8.0\", \"9.0\", \"12.0+PTX\"]";
        let (build, main) = (template("build.rs"), template("src/main.rs"));
        let nix = "nix/store/0a1b2c3d4f5g6h7i8j9k0l1m2n3p4q5r-COMPONENT-VERSION";
        let redist = "COMPONENT-linux-x86_64-VERSION-archive";
        for (name, pattern, variable, separator) in [
            ("split-redist", redist, "CUDA_BUILD_ROOTS", ":"),
            ("split-nix", nix, "CUDAToolkit_ROOT", ";"),
        ] {
            let directories = split(&place(&format!("{name} of wheels")), pattern);
            // A Nix store is read-only.
            set_mode(&directories, 0o555);
            let project = Project::new(name, &[], cuda, &build, &main);
            project.write("kernels/saxpy.cu", &template("kernels/saxpy.cu"));
            let list: Vec<&str> = directories
                .iter()
                .map(|path| path.to_str().unwrap())
                .collect();
            let mut run = project.command(&["run"]);
            let run = run.env(variable, list.join(separator)).output();
            set_mode(&directories, 0o755);
            let run = Finished::of(run.unwrap());
            let built = "built with CUDA 13.4 for 8.0, 9.0, 12.0+PTX";
            assert!(run.stdout.contains(built), "{run:?}");
            if run.code != 0 {
                run.ended_with(1, &["error: no CUDA driver is installed on this machine"]);
            }
        }
    }
}
