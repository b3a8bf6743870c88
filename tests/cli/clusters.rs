//! Several jobs of a cluster share an output store.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::build::cuobjdump;
use crate::project::{Project, checkout};
use crate::support::Finished;

const SCRIPT: &str = r#"
fn main() -> Result<(), cuda_build::Error> {
    let variable = |name: &str| std::env::var(name).unwrap();
    let (out, capability) = (variable("OUT_DIR"), variable("CUDA_COMPUTE_CAP"));
    for name in ["direct0", "direct1", "direct2", "direct3", "direct4"] {
        let line = format!("-arch=sm_{capability} -c src/{name}.cu -o {out}/{name}.o");
        let mut nvcc = std::process::Command::new(variable("NVCC"));
        assert!(nvcc.args(line.split(' ')).status().unwrap().success());
    }
    let library = cuda_build::Library::new("part").glob("src/part*.cu");
    cuda_build::Build::new()?.library(library).run().map(|_| ())
}
"#;

mod online {
    use super::*;

    #[test]
    #[ignore = "minutes: needs slurm-wlm and munge"]
    fn the_last_job_compiles_no_device_code() {
        let list = "capabilities = [\"8.0\", \"9.0\", \"12.0+PTX\"]";
        let project = Project::at("cluster", "cluster", &[13], list, SCRIPT, "fn main() {}\n");
        let project = project.alone(&[13]);
        for name in (0..5).flat_map(|number| [format!("direct{number}"), format!("part{number}")]) {
            let kernel = format!("__global__ void {name}() {{}}\n");
            project.write(&format!("src/{name}.cu"), &kernel);
        }
        // The scripts of the guide; the last block submits them.
        let guide = fs::read_to_string(checkout().join("docs/clusters.md")).unwrap();
        let blocks = guide.split("```sh\n").skip(1);
        let blocks = blocks.map(|block| block.split_once("```").unwrap().0);
        let blocks: Vec<&str> = blocks.collect();
        let [compile, join, submit] = blocks[..] else {
            panic!("{blocks:?}")
        };
        let images = project.path.with_extension("images");
        let local = project.path.join("local");
        let compile = compile.replace("=/tmp/", &format!("={}/", local.display()));
        for (name, text) in [("compile.sh", &*compile), ("join.sh", join)] {
            let shared = text.replace("/shared/images", images.to_str().unwrap());
            assert_ne!(shared, text);
            project.write(name, &shared);
        }

        let lock = checkout().join("tests/support/cuda-toolkits.lock");
        fs::copy(lock, project.path.join("cuda-toolkits.lock")).unwrap();
        let mut cargo = Command::new("cargo");
        project.prepare(cargo.arg("fetch"));
        Finished::of(cargo.output().unwrap()).succeeded();
        let mut slurm = Command::new(checkout().join("tests/support/with-slurm.sh"));
        slurm.arg(project.path.with_extension("slurm"));
        slurm.args(["bash", "-e", "-c", submit]);
        project.prepare(&mut slurm);
        let program = Path::new(env!("CARGO_BIN_EXE_cargo-cuda")).parent();
        let path = std::env::var_os("PATH").unwrap();
        let path = std::env::split_paths(&path);
        let path = std::env::join_paths(program.map(Path::to_owned).into_iter().chain(path));
        slurm.env("PATH", path.unwrap());
        let run = Finished::of(slurm.output().unwrap());
        let printed = |name: &str| fs::read_to_string(project.path.join(name)).unwrap_or_default();
        let tasks = [1, 2, 3].map(|task| printed(&format!("compile-{task}.out")));
        let joined = printed("join.out");
        assert_eq!(run.code, 0, "{run:?}\n{tasks:#?}\n{joined}");

        let compiled = tasks
            .each_ref()
            .map(|task| task.matches(".cu for 8.0, 9.0, 12.0+PTX (").count());
        assert_eq!(compiled.iter().sum::<usize>(), 10, "{tasks:#?}");
        assert!(!compiled.contains(&0), "{compiled:?}");
        assert!(joined.contains("Finished"), "{joined}");
        assert!(!joined.contains(".cu for"), "{joined}");
        let summary =
            "Compiled 0 of 10 files, 10 taken from the output store, 0 left to other shards";
        assert!(joined.contains(summary), "{joined}");
        let builds = project.target.join("cargo-cuda/latest/release/build");
        let outs = fs::read_dir(builds).unwrap();
        let mut outs = outs.map(|build| build.unwrap().path().join("out"));
        let out = outs.find(|out| out.join("direct3.o").is_file()).unwrap();
        for file in ["direct3.o", "libpart.a"] {
            let all = "sm_120.cubin sm_120.ptx sm_80.cubin sm_90.cubin";
            assert_eq!(cuobjdump(&out.join(file)).join(" "), all, "{file}");
        }
    }
}
