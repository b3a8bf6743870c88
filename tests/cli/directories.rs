//! The target directory of a build: what stays in it, and what is compiled again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_cuda::exit_code;

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

    /// The directories of combinations, without links.
    fn directories(base: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(base).unwrap().map(|it| it.unwrap().path());
        let mut found: Vec<PathBuf> = entries
            .filter(|path| path.join(".cuda/built-with.json").is_file() && !path.is_symlink())
            .collect();
        found.sort();
        found
    }

    #[test]
    fn each_list_and_release_has_a_directory() {
        let project = counting("releases");
        let build = project.run(&["build"]);
        build.succeeded();
        let result = "Result in target/cargo-cuda (CUDA 13.4)";
        assert_eq!(build.stderr.lines().last().unwrap().trim_start(), result);
        let base = project.target.join("cargo-cuda");
        assert!(base.join("latest/debug/counting").is_file());
        assert_eq!(runs(&project), 1);
        for (arguments, expected) in [
            (&["--cuda", "12"][..], 1),
            // Another spelling of the same release, and a profile that has not been built yet.
            (&["--cuda", "12.9"], 0),
            (&["--cuda", "12", "--release"], 1),
            (&["--cuda", "13.4"], 0),
            (&[], 0),
            (&["--capabilities", "8.0,9.0"], 1),
            (&["--capabilities", "90 sm_80"], 0),
            (&[], 0),
            (&["--cuda", "12"], 0),
            (&["--cuda", "12", "--release"], 0),
        ] {
            assert_eq!(
                runs_of(&project, arguments, None),
                expected,
                "{arguments:?}"
            );
        }
        assert_eq!(directories(&base).len(), 3);
        project.run(&["test", "--no-run"]).succeeded();
        assert_eq!(runs(&project), 0);
        for name in ["NVCC_APPEND_FLAGS", "CUDAFLAGS", "CUDA_COMPUTE_CAP"] {
            assert_eq!(runs_of(&project, &[], Some((name, "86"))), 1, "{name}");
        }
        // Of the directories, those of the last three commands stay, and the one that `release` leads to.
        assert_eq!(directories(&base).len(), 4);
        assert_eq!(runs_of(&project, &[], None), 1);
        assert_eq!(runs_of(&project, &[], Some(("UNRELATED", "86"))), 0);
        // A command was killed before it had written the record.
        let latest = base.join(fs::read_link(base.join("latest")).unwrap());
        fs::remove_file(latest.join(".cuda/built-with.json")).unwrap();
        assert_eq!(runs_of(&project, &[], None), 1);
        // The program that cargo has started may build for another list.
        let mut nested = project.command(&["build", "--capabilities", "8.0"]);
        let toolkit = latest.join(".cuda/toolkit.toml");
        let nested = nested.env("CUDA_BUILD_TOOLKIT", toolkit).output().unwrap();
        Finished::of(nested).succeeded();
        // Both tools of Cargo that look at a target directory accept it.
        let clean = |directory: &Path| {
            let mut cargo = Command::new("cargo");
            project.prepare(cargo.args(["clean", "--target-dir"]).arg(directory));
            Finished::of(cargo.output().unwrap()).succeeded();
            assert!(!directory.exists());
        };
        clean(&latest);
        clean(&project.target);
    }

    #[test]
    fn the_number_of_directories_can_be_chosen() {
        let project = counting("kept");
        let variable = "CUDA_BUILD_TARGET_DIRECTORIES";
        let kept = Some((variable, "1"));
        for (list, expected) in [("8.0", 1), ("9.0", 1), ("10.0", 1), ("8.0", 1), ("8.0", 0)] {
            let arguments = ["--capabilities", list];
            assert_eq!(runs_of(&project, &arguments, kept), expected, "{list}");
        }
        assert_eq!(directories(&project.target.join("cargo-cuda")).len(), 1);
        let mut refused = project.command(&["build"]);
        let refused = Finished::of(refused.env(variable, "none").output().unwrap());
        refused.failed(exit_code::CONFIGURATION, &[variable, "\"none\""]);
    }

    /// Scripts and Dockerfiles copy from there.
    #[test]
    fn a_profile_leads_to_what_was_built_last() {
        let project = counting("published");
        let base = project.target.join("cargo-cuda");
        project.write(
            "src/main.rs",
            "fn main() { print!(\"{}\", env!(\"CUDAARCHS\")); }\n",
        );
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let printed = |profile: &str| {
            let program = Command::new(base.join(profile).join("counting")).output();
            String::from_utf8(program.unwrap().stdout).unwrap()
        };
        let of_target = format!("{triple}/release");
        for (list, arguments, profile) in [
            ("8.0", &["build"][..], "debug"),
            ("9.0", &["build", "--release"], "release"),
            ("9.0", &["build"], "debug"),
            ("8.0", &["run"], "debug"),
            (
                "12.0",
                &["build", "-r", "--target", &triple],
                of_target.as_str(),
            ),
        ] {
            project
                .run(&[arguments, &["--capabilities", list]].concat())
                .succeeded();
            let expected = list.replace('.', "") + "-real";
            assert_eq!(printed(profile), expected, "{arguments:?}");
        }
        // What leaves no program keeps the link.
        project
            .run(&["check", "--capabilities", "10.0"])
            .succeeded();
        assert_eq!(
            [printed("debug"), printed("release")],
            ["80-real", "90-real"]
        );
        project.write("src/main.rs", "fn main() { error }\n");
        let failed = project.run(&["build", "--capabilities", "7.5"]);
        failed.ended_with(101, &["cannot find value"]);
        assert_eq!(printed("debug"), "80-real");
        // What an earlier version or plain cargo has left there is not removed, and neither is what a profile's name leads
        // to.
        project.write("src/main.rs", "fn main() {}\n");
        fs::remove_file(base.join("debug")).unwrap();
        project.write("target/cargo-cuda/debug/counting", "old");
        let refused = project.run(&["build"]);
        refused.failed(
            exit_code::USAGE,
            &["cargo-cuda/debug was not written by this `cargo cuda`"],
        );
        for profile in ["..", "../..", "", project.path.to_str().unwrap()] {
            project
                .run(&["build", "--profile", profile])
                .ended_with(101, &["error: "]);
            assert!(base.join("debug/counting").is_file() && project.path.join("src").is_dir());
        }
    }

    /// As on a CI machine with one `CARGO_TARGET_DIR`.
    #[test]
    fn several_workspaces_share_a_target_directory() {
        let [first, second] = ["shares-one", "shares-two"].map(counting);
        let shared = Project::bare_at("shared-crate", "shared", &[13]);
        let manifest = MANIFEST
            .replace("counting", "shared")
            .replace("[workspace]", "");
        shared.write("Cargo.toml", &manifest);
        let lib = "pub const LIST: &str = include_str!(concat!(env!(\"OUT_DIR\"), \"/list\"));\n";
        shared.write("src/lib.rs", lib);
        let _ = fs::remove_file(shared.path.join("src/main.rs"));
        let script = "fn main() {\n    println!(\"cargo::rerun-if-changed=build.rs\");\n    let out = std::env::var(\"OUT_DIR\").unwrap();\n    \
                      std::fs::write(out + \"/list\", std::env::var(\"CUDAARCHS\").unwrap()).unwrap();\n}\n";
        shared.write("build.rs", script);
        let target = shared.path.with_file_name("target");
        for (project, list) in [(&first, "8.0"), (&second, "9.0")] {
            let dependency = format!("[dependencies]\nshared = {{ path = {:?} }}\n", shared.path);
            let declared = format!("[package.metadata.cuda]\ncapabilities = [\"{list}\"]\n");
            project.write("Cargo.toml", &format!("{MANIFEST}{dependency}{declared}"));
            project.write(
                "src/main.rs",
                "fn main() { print!(\"{}\", shared::LIST); }\n",
            );
        }
        for _ in 0..2 {
            for (project, expected) in [(&first, "80-real"), (&second, "90-real")] {
                let mut run = project.command(&["run"]);
                let run = Finished::of(run.env("CARGO_TARGET_DIR", &target).output().unwrap());
                assert_eq!(run.stdout, expected, "{run:?}");
            }
        }
    }

    #[test]
    fn builds_with_different_releases_run_at_once() {
        let project = counting("at-once");
        project.write("wait", "");
        let spawned = |release| {
            let mut build = project.command(&["build", "--cuda", release]);
            build.stderr(Stdio::null()).spawn().unwrap()
        };
        let builds = ["13", "12"].map(spawned);
        let file = project.path.join("runs");
        let both_run = || fs::read_to_string(&file).is_ok_and(|text| text.lines().count() == 2);
        while !both_run() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        fs::remove_file(project.path.join("wait")).unwrap();
        for mut build in builds {
            assert!(build.wait().unwrap().success());
        }
    }

    #[test]
    fn a_named_target_directory_is_respected() {
        let project = counting("named");
        let named = ["build", "--target-dir", "elsewhere"];
        project.run(&named).succeeded();
        assert_eq!(runs(&project), 1);
        let program = project.path.join("elsewhere/debug/counting");
        assert!(program.is_file());
        assert!(!project.target.exists());
        let other = project.run(&[&named[..], &["--cuda", "12"]].concat());
        other.succeeded();
        assert_eq!(runs(&project), 1);
        project.run(&named).succeeded();
        assert_eq!(runs(&project), 0);

        // What plain cargo has built is neither used nor removed.
        let mut plain = Command::new("cargo");
        project.prepare(plain.args(["build", "--target-dir", "plain"]));
        Finished::of(plain.output().unwrap()).succeeded();
        let refused = project.run(&["build", "--target-dir", "plain"]);
        refused.failed(
            exit_code::USAGE,
            &["plain/debug was not written by this `cargo cuda`"],
        );
        assert!(project.path.join("plain/debug/counting").is_file());
        runs(&project);

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
