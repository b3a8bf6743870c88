//! Launchers in front of nvcc: a real one, and scripts that fail as real ones have failed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::project::Project;
use crate::support::Finished;
use crate::tools::launcher;
use crate::wheels::wheels;

const SCRIPT: &str = "
use cuda_build::{Build, Library};
fn main() -> Result<(), cuda_build::Error> {
    let library = Library::new(\"gpu\").files([\"a.cu\", \"b.cu\", \"host.cpp\"]);
    Build::new()?.library(library).run().map(drop)
}
";

/// A crate with two CUDA sources and one of C++, and variables of its builds.
struct Sources {
    project: Project,
    name: &'static str,
    variables: Vec<(&'static str, PathBuf)>,
}

impl Sources {
    fn new(name: &'static str) -> Self {
        let declared = "capabilities = [\"8.0\", \"9.0\"]";
        let project = Project::new(name, &[13], declared, SCRIPT, "fn main() {}\n");
        for name in ["a", "b"] {
            let kernel = format!("__global__ void {name}(int *p) {{ *p = 1; }}\n");
            project.write(&format!("{name}.cu"), &kernel);
        }
        project.write("host.cpp", "int host() { return 1; }\n");
        Self {
            project,
            name,
            variables: Vec::new(),
        }
    }

    fn set(&mut self, name: &'static str, value: PathBuf) {
        self.variables.retain(|(other, _)| *other != name);
        self.variables.push((name, value));
    }

    /// Builds from nothing.
    fn build(&self) -> Finished {
        self.project.forget(self.name);
        let _ = fs::remove_dir_all(self.project.path.with_extension("images"));
        let mut command = self.project.command(&["build"]);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Finished::of(command.output().unwrap())
    }

    /// Uses a script that logs its first argument as the launcher.
    fn use_script(&mut self, name: &str, text: &str) -> PathBuf {
        let directory = self.project.path.with_file_name("launchers");
        let (script, log) = (directory.join(name), directory.join("log"));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        let text = format!("#!/bin/sh\necho \"$1\" >> '{}'\n{text}\n", log.display());
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        self.set("CUDA_BUILD_LAUNCHER", script);
        log
    }
}

mod online {
    use super::*;

    #[test]
    fn compilers_are_started_by_a_launcher_that_works() {
        let mut sources = Sources::new("launched");
        let log = sources.use_script("launcher", "exec \"$@\"");
        let build = sources.build();
        build.succeeded();
        assert!(!build.stderr.contains("warning:"), "{build:?}");
        let log = fs::read_to_string(log).unwrap();
        assert_eq!(log.matches("nvcc\n").count(), 3, "{log}");

        let fails = "case $1 in *nvcc) echo 'fatbinary fatal: no input' >&2; exit 1;; *) exec \"$@\";; esac";
        sources.use_script("launcher", fails);
        let reason = "(CUDA_BUILD_LAUNCHER): fatbinary fatal: no input";
        let build = sources.build();
        build.ended_with(0, &["nvcc was started without ", reason]);
        assert_eq!(build.stderr.matches(reason).count(), 1, "{build:?}");

        let log = sources.use_script("ccache", "exec \"$@\"");
        sources
            .build()
            .ended_with(0, &["nvcc is started without ccache"]);
        assert!(!fs::read_to_string(log).unwrap_or_default().contains("nvcc"));

        // A source that nvcc does not compile is no fault of the launcher.
        sources.use_script("launcher", "exec \"$@\"");
        sources.project.write("a.cu", "int x = no_such_name;\n");
        let build = sources.build();
        build.ended_with(101, &["\"no_such_name\" is undefined"]);
        assert!(!build.stderr.contains("was started without"), "{build:?}");
    }

    #[test]
    #[ignore = "minutes: a server of sccache, and nvcc 13.0, which sccache 0.16 knows"]
    fn a_clean_rebuild_takes_objects_from_sccache() {
        let mut sources = Sources::new("sccached");
        let toolkit = wheels(&[
            "nvidia-cuda-nvcc==13.0.88",
            "nvidia-nvvm==13.0.88",
            "nvidia-cuda-crt==13.0.88",
            "nvidia-cuda-runtime==13.0.96",
            "nvidia-cuda-cccl==13.0.85",
        ]);
        let directory = sources.project.path.with_file_name("sccache");
        let _ = fs::remove_dir_all(&directory);
        let socket = tempfile::tempdir().unwrap();
        for (name, value) in [
            ("CUDA_BUILD_ROOTS", toolkit),
            ("CUDA_BUILD_RELEASE", "13.0".into()),
            ("RUSTC_WRAPPER", launcher("sccache")),
            ("SCCACHE_DIR", directory),
            ("SCCACHE_SERVER_UDS", socket.path().join("socket")),
        ] {
            sources.set(name, value);
        }
        let sccache = |argument: &str| {
            let mut command = Command::new(launcher("sccache"));
            command.args([argument, "--stats-format=json"]);
            command.envs(sources.variables.iter().cloned());
            Finished::of(command.output().unwrap())
        };
        let builds = [sources.build(), sources.build()];
        let stats = sccache("--show-stats");
        sccache("--stop-server");
        for build in builds {
            build.succeeded();
            assert!(!build.stderr.contains("was started without"), "{build:?}");
        }
        let stats = stats.json();
        let hits = stats["stats"]["cache_hits"]["counts"].as_object().unwrap();
        let is_cuda = |language: &String| language.starts_with("CUDA");
        assert!(hits.keys().any(is_cuda), "{stats}");
    }
}
