//! Several machines compile the files of one build.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::build::cuobjdump;
use crate::components;
use crate::project::Project;
use crate::support::Finished;

/// What every placeholder contains.
const MARK: &str = "cuda-build: another shard compiles this file";

/// Calls nvcc for eight files, of which one is generated, and for one outside of the target directory, links their device
/// code, and has a part for cuda-build.
const SCRIPT: &str = r#"
use std::{env::var, fs, process::Command};
fn nvcc(line: &str) {
    assert!(Command::new(var("NVCC").unwrap()).args(line.split(' ')).status().unwrap().success(), "{line}");
}
fn main() -> Result<(), cuda_build::Error> {
    println!("cargo::rerun-if-changed=src");
    let out = var("OUT_DIR").unwrap();
    fs::write(format!("{out}/generated.cu"), "__global__ void generated() {}\n").unwrap();
    // As CMake's makefiles pass directories.
    let includes = format!("{out}/includes.rsp");
    fs::write(&includes, format!("-I\"{out}\" -isystem \"{out}\"")).unwrap();
    let mut objects = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f", "g", "generated"] {
        let source = if name == "generated" { format!("{out}/generated.cu") } else { format!("src/{name}.cu") };
        nvcc(&format!("-arch=sm_{} --options-file {includes} -dc {source} -o {out}/{name}.o -MD -MF {out}/{name}.d", var("CUDA_COMPUTE_CAP").unwrap()));
        objects.push(format!("{out}/{name}.o"));
    }
    nvcc(&format!("-dlink {} -o {out}/linked.o", objects.join(" ")));
    // Nothing would remove a placeholder in the source tree.
    nvcc(&format!("-arch=sm_{} -c src/a.cu -o outside.o", var("CUDA_COMPUTE_CAP").unwrap()));
    let archive = format!("{out}/libdirect.a");
    assert!(Command::new("ar").args(["crs", &archive]).args(&objects).status().unwrap().success());
    if let Ok(program) = var("RUNS") {
        nvcc(&format!("-x cu src/{program} -o {out}/program.o -c"));
        nvcc(&format!("{out}/program.o -o {out}/program.run"));
        assert!(Command::new(format!("{out}/program.run")).status().unwrap().success());
    }
    let library = cuda_build::Library::new("part").files(["src/part1.cu", "src/part2.cu", "src/part3.cu"]);
    cuda_build::Build::new()?.library(library).module("src/module.cu").run().map(|_| ())
}
"#;

/// A toolkit whose cicc, which nvcc starts for each file and capability, counts its calls in `<root>/calls`.
fn counted_toolkit(root: &Path) {
    let real = components::site_packages(13).join("nvidia/cu13");
    let made = ["bin", "nvvm", "nvvm/bin", "nvvm/bin/cicc"].map(|path| root.join(path));
    for directory in ["", "bin", "nvvm", "nvvm/bin"] {
        fs::create_dir_all(root.join(directory)).unwrap();
        for entry in fs::read_dir(real.join(directory)).unwrap() {
            let entry = entry.unwrap();
            let link = root.join(directory).join(entry.file_name());
            if !made.contains(&link) {
                symlink(entry.path(), link).unwrap();
            }
        }
    }
    let (calls, cicc) = (root.join("calls"), real.join("nvvm/bin/cicc"));
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> '{}'\nexec '{}' \"$@\"\n",
        calls.display(),
        cicc.display()
    );
    fs::write(&made[3], script).unwrap();
    fs::set_permissions(&made[3], fs::Permissions::from_mode(0o755)).unwrap();
}

mod online {
    use super::*;

    #[test]
    fn each_file_is_compiled_once_and_none_at_the_end() {
        let list = "capabilities = [\"8.0\", \"9.0\"]";
        let project = Project::at("sharded", "sharded", &[13], list, SCRIPT, "fn main() {}\n");
        let project = project.alone(&[13]);
        let root = project.path.with_file_name("toolkit");
        counted_toolkit(&root);
        let names = [
            "a", "b", "c", "d", "e", "f", "g", "part1", "part2", "part3", "module",
        ];
        for name in names {
            project.write(
                &format!("src/{name}.cu"),
                &format!("__global__ void {name}() {{}}\n"),
            );
        }
        let images = project.path.with_file_name("images");
        let run = |arguments: &[&str], variables: &[(&str, &str)]| {
            let before = fs::read_to_string(root.join("calls"))
                .unwrap_or_default()
                .lines()
                .count();
            let mut command = project.command(arguments);
            command
                .env("CUDA_HOME", &root)
                .env("CUDA_BUILD_IMAGES", &images);
            let finished = Finished::of(command.envs(variables.iter().copied()).output().unwrap());
            let after = fs::read_to_string(root.join("calls"))
                .unwrap_or_default()
                .lines()
                .count();
            (finished, after - before)
        };
        let (mut counts, mut messages) = (Vec::new(), Vec::new());
        for shard in ["1/2", "2/2"] {
            let (checked, count) = run(&["check", "--shard", shard], &[]);
            checked.succeeded();
            let outside = fs::read(project.path.join("outside.o")).unwrap();
            assert!(!String::from_utf8_lossy(&outside).contains(MARK));
            messages.push(checked.stderr);
            counts.push(count);
        }
        // Two capabilities of each file; NVRTC compiles the module.
        assert_eq!(
            counts.iter().sum::<usize>(),
            2 * (names.len() - 1 + 2),
            "{counts:?} {messages:#?}"
        );
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        let (built, count) = run(&["build"], &[]);
        built.ended_with(
            0,
            &["Compiled 0 of 13 files, 13 taken from the output store"],
        );
        assert_eq!(count, 0);
        let outs = fs::read_dir(project.target.join("cargo-cuda/debug/build")).unwrap();
        let outs = outs.map(|build| build.unwrap().path().join("out"));
        let out: PathBuf = outs
            .into_iter()
            .find(|out| out.join("libdirect.a").is_file())
            .unwrap();
        for file in fs::read_dir(&out)
            .unwrap()
            .map(|file| file.unwrap().path())
            .filter(|file| file.is_file())
        {
            let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
            assert!(!text.contains(MARK), "{file:?}");
        }
        assert_eq!(
            cuobjdump(&out.join("linked.o")),
            ["sm_80.cubin", "sm_90.cubin"]
        );
        assert_eq!(
            cuobjdump(&out.join("libpart.a")),
            ["sm_80.cubin", "sm_90.cubin"]
        );

        let (refused, _) = run(&["build"], &[("CUDA_BUILD_SHARD", "1/2")]);
        refused.ended_with(
            2,
            &[
                "`cargo cuda build` cannot build a shard",
                "cargo cuda check",
            ],
        );
        let (wrong, _) = run(&["check", "--shard", "3/2"], &[]);
        wrong.ended_with(13, &["`3/2` is not a shard"]);
        // A shard that fails ends with cargo's code, and the next try compiles only what is missing.
        project.write_later("src/g.cu", "__global__ void g() { error }\n");
        let failed = ["1/2", "2/2"].map(|shard| run(&["check", "--shard", shard], &[]).0.code);
        assert!(failed == [101, 0] || failed == [0, 101], "{failed:?}");
        project.write_later("src/g.cu", "__global__ void g() { }\n");
        let counts = ["1/2", "2/2"].map(|shard| run(&["check", "--shard", shard], &[]).1);
        assert_eq!(counts.iter().sum::<usize>(), 2, "{counts:?}");
        // A script that starts what it has compiled needs every file.
        project.write("src/main_program", "int main() { return 0; }\n");
        let runs = [("RUNS", "main_program")];
        let codes = ["1/2", "2/2"].map(|shard| run(&["check", "--shard", shard], &runs).0);
        let refused = codes.iter().find(|finished| finished.code != 0).unwrap();
        refused.ended_with(25, &["some files of sharded are left to other shards"]);
        run(&["build"], &runs).0.succeeded();
    }
}
