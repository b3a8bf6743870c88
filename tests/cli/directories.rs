//! The target directory of a build: which one is used, what stays, what goes.

use std::collections::BTreeSet;
use std::fs;

use crate::project::Project;
use crate::support::Finished;

const MANIFEST: &str =
    "[package]\nname = \"counting\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";

/// Counts its runs, and tells Cargo nothing of what it reads.
const COUNTS: &str = r#"
use std::io::Write;
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let mut runs = std::fs::File::options().create(true).append(true).open("runs").unwrap();
    writeln!(runs, "{}", std::env::var("CUDA_HOME").unwrap_or_default()).unwrap();
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

/// The names of the target directories, without the link to the last one.
fn directories(project: &Project) -> BTreeSet<String> {
    let entries = fs::read_dir(project.target.join("cargo-cuda")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains('-')).collect()
}

fn latest(project: &Project) -> String {
    let link = fs::read_link(project.target.join("cargo-cuda/latest")).unwrap();
    link.to_str().unwrap().to_owned()
}

mod online {
    use super::*;

    #[test]
    fn every_release_has_a_directory_that_stays() {
        let project = counting("releases");
        let build = project.run(&["build"]);
        build.succeeded();
        let thirteen = latest(&project);
        assert!(thirteen.starts_with("13.4-"), "{thirteen}");
        let result = format!("Result in target/cargo-cuda/{thirteen} (CUDA 13.4)");
        assert_eq!(build.stderr.lines().last().unwrap().trim_start(), result);
        let program = project.target.join("cargo-cuda/latest/debug/counting");
        assert!(program.is_file());
        assert_eq!(runs(&project), 1);

        project.run(&["build", "--cuda", "12"]).succeeded();
        let twelve = latest(&project);
        assert!(twelve.starts_with("12.9-"), "{twelve}");
        assert_eq!(runs(&project), 1);

        // The same release by any name, another command, and another profile.
        for arguments in [
            &["build", "--cuda", "13"][..],
            &["build", "--cuda", "13.4"],
            &["test", "--no-run"],
        ] {
            project.run(arguments).succeeded();
            assert_eq!(latest(&project), thirteen, "{arguments:?}");
        }
        let mut variable = project.command(&["build"]);
        variable.env("CUDA_BUILD_RELEASE", "12");
        Finished::of(variable.output().unwrap()).succeeded();
        assert_eq!(latest(&project), twelve);
        assert_eq!(runs(&project), 0);
        assert_eq!(directories(&project), BTreeSet::from([thirteen, twelve]));
    }

    #[test]
    fn what_decides_has_another_directory() {
        let project = counting("decides");
        let built = |arguments: &[&str], variable: Option<(&str, &str)>| {
            let mut build = project.command(&[&["build", "-q"], arguments].concat());
            build.envs(variable);
            let build = Finished::of(build.output().unwrap());
            build.succeeded();
            assert!(!build.stderr.contains("Result in"), "quiet: {build:?}");
            latest(&project)
        };
        let plain = built(&[], None);
        let mut all = vec![plain.clone()];
        all.push(built(&["--capabilities", "8.0"], None));
        all.push(built(&["--capabilities", "9.0"], None));
        for name in ["NVCC_APPEND_FLAGS", "CUDAFLAGS", "CUDA_COMPUTE_CAP"] {
            all.push(built(&[], Some((name, "86"))));
        }
        let unique: BTreeSet<&String> = all.iter().collect();
        assert_eq!(unique.len(), all.len(), "{all:?}");
        assert_eq!(built(&[], None), plain);
        assert_eq!(built(&[], Some(("UNRELATED", "86"))), plain);
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
        other.ended_with(0, &["elsewhere was built with another toolkit"]);
        let list = project.run(&[&named[..], &["--cuda", "12", "--capabilities", "8.0"]].concat());
        list.ended_with(
            0,
            &["elsewhere was built with another toolkit, or for other capabilities"],
        );

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
