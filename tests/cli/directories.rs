//! The target directory of a build: what stays in it, and what is compiled again.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::project::Project;
use crate::support::Finished;

const MANIFEST: &str =
    "[package]\nname = \"counting\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";

/// Counts its runs, and tells Cargo nothing of what it reads. It waits as long as there is a file `wait`.
const COUNTS: &str = r#"
use std::io::Write;
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let mut runs = std::fs::File::options().create(true).append(true).open("runs").unwrap();
    writeln!(runs, "{}", std::env::var("CUDA_HOME").unwrap_or_default()).unwrap();
    while std::path::Path::new("wait").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
"#;

fn counting(name: &str) -> Project {
    let project = Project::bare_at(name, "plain", &[12, 13]);
    project.write("Cargo.toml", MANIFEST);
    project.write("build.rs", COUNTS);
    project.write("src/main.rs", "fn main() {}\n");
    project
}

/// How often the script has run since the last question.
fn runs(project: &Project) -> usize {
    let file = project.path.join("runs");
    let count = fs::read_to_string(&file)
        .unwrap_or_default()
        .lines()
        .count();
    let _ = fs::remove_file(file);
    count
}

mod online {
    use super::*;

    /// Builds with these arguments and this variable, and returns how often the script has run.
    fn runs_of(project: &Project, arguments: &[&str], variable: Option<(&str, &str)>) -> usize {
        let mut build = project.command(&[&["build", "-q"], arguments].concat());
        let build = Finished::of(build.envs(variable).output().unwrap());
        build.succeeded();
        assert!(!build.stderr.contains("Result in"), "quiet: {build:?}");
        runs(project)
    }

    #[test]
    fn lists_and_releases_share_a_directory() {
        let project = counting("releases");
        let build = project.run(&["build"]);
        build.succeeded();
        let result = "Result in target/cargo-cuda (CUDA 13.4)";
        assert_eq!(build.stderr.lines().last().unwrap().trim_start(), result);
        let program = project.target.join("cargo-cuda/latest/debug/counting");
        assert!(program.is_file());
        assert_eq!(runs(&project), 1);
        for (arguments, expected) in [
            (&["--cuda", "12"][..], 1),
            // Another spelling of the same release, and a profile that has not been built yet.
            (&["--cuda", "12.9"], 0),
            (&["--cuda", "12", "--release"], 1),
            (&["--cuda", "13.4"], 1),
            (&[], 0),
            (&["--capabilities", "8.0,9.0"], 1),
            (&["--capabilities", "90 sm_80"], 0),
            (&["--capabilities", "9.0"], 1),
            // A change removes the outputs of every profile.
            (&["--capabilities", "9.0", "--release"], 1),
            (&[], 1),
        ] {
            assert_eq!(
                runs_of(&project, arguments, None),
                expected,
                "{arguments:?}"
            );
        }
        project.run(&["test", "--no-run"]).succeeded();
        assert_eq!(runs(&project), 0);
        for name in ["NVCC_APPEND_FLAGS", "CUDAFLAGS", "CUDA_COMPUTE_CAP"] {
            assert_eq!(runs_of(&project, &[], Some((name, "86"))), 1, "{name}");
        }
        assert_eq!(runs_of(&project, &[], None), 1);
        assert_eq!(runs_of(&project, &[], Some(("UNRELATED", "86"))), 0);
        // A build was killed before it had removed everything.
        fs::remove_file(project.target.join("cargo-cuda/.cuda/built-with.json")).unwrap();
        assert_eq!(runs_of(&project, &[], None), 1);
        // The program that cargo has started cannot wait for itself.
        let toolkit = project.target.join("cargo-cuda/.cuda/toolkit.toml");
        let mut nested = project.command(&["build", "--capabilities", "8.0"]);
        let nested = nested.env("CUDA_BUILD_TOOLKIT", toolkit).output().unwrap();
        Finished::of(nested).ended_with(2, &["is in use by the build that has started this one"]);
    }

    #[test]
    fn separate_directories_stay_on_request() {
        let project = counting("separate");
        let separate = Some(("CUDA_BUILD_SEPARATE", "1"));
        for (release, expected) in [("13", 1), ("12", 1), ("13", 0), ("12", 0)] {
            assert_eq!(runs_of(&project, &["--cuda", release], separate), expected);
        }
        let latest = fs::read_link(project.target.join("cargo-cuda/latest")).unwrap();
        assert!(
            latest.to_str().unwrap().starts_with(".separate/12.9-"),
            "{latest:?}"
        );
    }

    #[test]
    fn another_release_waits_for_the_build() {
        let project = counting("waits");
        project.write("wait", "");
        let spawned = |release| {
            let mut build = project.command(&["build", "--cuda", release]);
            build.stderr(Stdio::piped()).spawn().unwrap()
        };
        let first = spawned("13");
        while runs(&project) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let mut second = spawned("12");
        let mut lines = BufReader::new(second.stderr.take().unwrap()).lines();
        let is_waiting = |line: String| line.contains("Blocking waiting for another `cargo cuda`");
        assert!(lines.by_ref().map_while(Result::ok).any(is_waiting));
        assert_eq!(runs(&project), 0);
        fs::remove_file(project.path.join("wait")).unwrap();
        Finished::of(first.wait_with_output().unwrap()).succeeded();
        assert!(
            lines
                .map_while(Result::ok)
                .any(|line| line.contains("Result in"))
        );
        assert!(second.wait().unwrap().success());
        assert_eq!(runs(&project), 1);
    }

    #[test]
    fn a_named_target_directory_is_respected() {
        let project = counting("named");
        let named = ["build", "--target-dir", "elsewhere"];
        project.run(&named).succeeded();
        assert_eq!(runs(&project), 1);
        assert!(project.path.join("elsewhere/debug/counting").is_file());
        assert!(!project.target.exists());
        let other = project.run(&[&named[..], &["--cuda", "12"]].concat());
        other.succeeded();
        assert_eq!(runs(&project), 1);

        // Cargo's configuration names the directory that ours is in; Cargo takes the variable first.
        let elsewhere = project.path.with_file_name("configured");
        let config = format!("build.target-dir={elsewhere:?}");
        let mut command = project.command(&["build", "--config", &config]);
        Finished::of(command.env_remove("CARGO_TARGET_DIR").output().unwrap()).succeeded();
        assert!(elsewhere.join("cargo-cuda/latest/debug/counting").is_file());
        // Intermediate files of several toolkits in one directory would disturb each other.
        let build = format!("build.build-dir={:?}", project.path.join("intermediate"));
        project.run(&["build", "--config", &build]).succeeded();
        assert!(!project.path.join("intermediate").exists());
    }

    #[test]
    fn an_installed_program_needs_no_workspace() {
        let project = counting("installed");
        let root = project.path.with_file_name("root");
        let mut install = project.command(&["install", "--path", "plain", "--root"]);
        install
            .arg(&root)
            .current_dir(project.path.parent().unwrap());
        Finished::of(install.output().unwrap()).succeeded();
        assert!(root.join("bin/counting").is_file());
        let home = fs::read_to_string(project.path.join("runs")).unwrap();
        assert!(home.contains("/.cuda/view"), "{home}");
    }
}
