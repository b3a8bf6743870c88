//! Compiler caches in front of nvcc: what they hash has to tell one list from another.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::build::cuobjdump;
use crate::project::Project;

/// A compiler cache that works as ccache does: a call of the same compiler (its path apart, its size and time) with the
/// same arguments and the same source gives the object of the first call.
const CACHE: &str = r#"#!/bin/sh
compiler=$(command -v "$1") || exit 1
for last; do :; done
source=$(cat src/kernel.cu)
key=$({ stat -L -c '%s %Y' "$compiler"; cat "$compiler"; echo "$source"; } | cksum | tr ' ' -)
if [ -f "CACHE/$key" ]; then cp "CACHE/$key" "$last"; exit; fi
"$@" && cp "$last" "CACHE/$key"
"#;

const SCRIPT: &str = r#"
fn main() {
    println!("cargo::rerun-if-changed=src");
    let out = std::env::var("OUT_DIR").unwrap();
    let capability = std::env::var("CUDA_COMPUTE_CAP").unwrap();
    let call = ["nvcc", &format!("-arch=sm_{capability}"), "-c", "src/kernel.cu", "-o", &format!("{out}/kernel.o")];
    let status = std::process::Command::new("../launcher").args(call).status().unwrap();
    assert!(status.success());
}
"#;

fn project(name: &str, lists: &str) -> Project {
    let project = Project::bare_at(name, name, &[13]);
    write_lists(&project, name, lists);
    project.write("build.rs", SCRIPT);
    project.write("src/main.rs", "fn main() {}\n");
    project.write(
        "src/kernel.cu",
        "__global__ void kernel(int *p) { *p = 1; }\n",
    );
    let cache = project.path.with_file_name("launcher");
    let kept = project.path.with_file_name("launched-objects");
    fs::create_dir_all(&kept).unwrap();
    fs::write(&cache, CACHE.replace("CACHE", kept.to_str().unwrap())).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o755)).unwrap();
    project
}

fn write_lists(project: &Project, name: &str, lists: &str) {
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n{lists}\n"
    );
    project.write_later("Cargo.toml", &manifest);
}

mod online {
    use super::*;

    /// The list of the workspace, that of the package in the manifest, and that in a variable; each also with another of
    /// the same length, and back.
    #[test]
    fn a_cache_takes_each_list_for_another_compiler() {
        const WORKSPACE: &str = "[workspace.metadata.cuda]\ncapabilities = [\"8.0\"]\n";
        let of_package = |list: &str| {
            let name = "launched";
            format!(
                "{WORKSPACE}[workspace.metadata.cuda.package.{name}]\ncapabilities = [{list}]\n"
            )
        };
        let project = project("launched", WORKSPACE);
        let built = |lists: &str, variable: Option<&str>| {
            write_lists(&project, "launched", lists);
            // So that the script runs, and the cache answers.
            let _ = fs::remove_dir_all(&project.target);
            let mut build = project.command(&["build"]);
            build.envs(variable.map(|list| ("CUDA_BUILD_CAPABILITIES_LAUNCHED", list)));
            crate::support::Finished::of(build.output().unwrap()).succeeded();
            let script =
                fs::read_to_string(project.target.join("cargo-cuda/latest/.cuda/view/bin/nvcc"));
            let script = script.unwrap();
            let mut code = cuobjdump(&project.made("launched", "kernel.o"));
            code.retain(|name| name.ends_with(".cubin"));
            (code.join(" "), script)
        };
        let sass = |numbers: &[u32]| {
            let names = numbers.iter().map(|number| format!("sm_{number}.cubin"));
            names.collect::<Vec<_>>().join(" ")
        };
        for (lists, variable, expected) in [
            (&of_package("\"8.6\""), None, &[86][..]),
            (&of_package("\"8.9\""), None, &[89]),
            (&of_package("\"8.6\""), None, &[86]),
            (&of_package("\"8.6\", \"8.9\""), None, &[86, 89]),
            (&WORKSPACE.to_owned(), Some("7.5"), &[75]),
            (&WORKSPACE.to_owned(), Some("9.0"), &[90]),
            (&of_package("\"8.6\""), Some("7.5"), &[75]),
        ] {
            let (found, script) = built(lists, variable);
            assert_eq!(found, sass(expected), "{lists} {variable:?}");
            // What a launcher hashes, besides the directory's name.
            let capabilities = expected.iter().map(|it| format!("{}.{}", it / 10, it % 10));
            let list = capabilities.collect::<Vec<_>>().join(", ");
            let named = format!("'CUDA_BUILD_CAPABILITIES_LAUNCHED={list}'");
            let unquoted = named.trim_matches('\'');
            assert!(
                script.contains(&named) || script.contains(unquoted),
                "{script}"
            );
        }
    }
}
