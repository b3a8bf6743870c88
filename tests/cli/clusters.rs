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
    #[ignore = "a minute: four builds in target directories of their own"]
    fn the_last_job_joins_what_the_others_compiled() {
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
        let [compile, join, _submit] = blocks[..] else {
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
        let program = Path::new(env!("CARGO_BIN_EXE_cargo-cuda")).parent();
        let path = std::env::var_os("PATH").unwrap();
        let path = std::env::split_paths(&path);
        let path = program.map(Path::to_owned).into_iter().chain(path);
        let path = std::env::join_paths(path).unwrap();
        let run = |script: &str, task: &str| {
            let mut job = Command::new("bash");
            project.prepare(job.args(["-e", script]));
            job.env("PATH", &path).env("SLURM_CPUS_PER_TASK", "2");
            let job = Finished::of(job.env("SLURM_ARRAY_TASK_ID", task).output().unwrap());
            job.succeeded();
            job.stderr
        };
        for (task, capability) in [("0", "8.0"), ("1", "9.0"), ("2", "12.0+PTX")] {
            let compiled = run("compile.sh", task);
            let lines = compiled.matches(&format!(".cu for {capability}")).count();
            assert_eq!(lines, 10, "{compiled}");
        }
        let joined = run("join.sh", "");
        assert!(joined.contains("Finished"), "{joined}");
        assert!(!joined.contains(".cu for"), "{joined}");
        let summary = "Compiled 0 of 10 files, 10 taken from the output store";
        assert!(joined.contains(summary), "{joined}");
        let out = project.out("cluster", "direct3.o");
        for file in ["direct3.o", "libpart.a"] {
            let all = "sm_120.cubin sm_120.ptx sm_80.cubin sm_90.cubin";
            assert_eq!(cuobjdump(&out.join(file)).join(" "), all, "{file}");
        }
    }
}
