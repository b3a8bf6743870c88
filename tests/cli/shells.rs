//! Shells that were given the variables, once and again, and plain cargo in them.

use std::path::Path;

use crate::project::{Project, store};
use crate::support::Finished;

/// A program of its own that the build is apart for, because its script speaks of CUDA_HOME.
const MANIFEST: &str = "[package]\nname = \"shells\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
const SCRIPT: &str = "fn main() { println!(\"cargo::rerun-if-env-changed=CUDA_HOME\"); }\n";

fn project(name: &str, main: &str) -> Option<Project> {
    let project = Project::bare_at(name, "plain", &[12, 13])?;
    project.write("Cargo.toml", MANIFEST);
    project.write("build.rs", SCRIPT);
    project.write("src/main.rs", main);
    Some(project)
}

#[test]
fn variables_count_outside_a_workspace() {
    let outside = tempfile::tempdir().unwrap();
    let cache = outside.path().join("cache");
    let Some(()) = store(&cache, &[12, 13]) else { return };
    let project = Project { path: outside.path().to_owned(), cache, target: outside.path().join("target") };
    let run = |arguments: &[&str], name: &str, value: &str| {
        let mut command = project.command(arguments);
        Finished::of(command.env(name, value).env_remove("CUDA_BUILD_VIEWS").output().unwrap())
    };
    let twelve = run(&["env"], "CUDA_BUILD_MAJOR", "12");
    assert!(twelve.stdout.contains("ORT_CUDA_VERSION='12'"), "{twelve:?}");
    let view = run(&["view"], "CUDA_BUILD_MAJOR", "12");
    assert!(view.stdout.contains("/views/12.9-"), "{view:?}");
    assert!(run(&["doctor"], "CUDA_BUILD_MAJOR", "12").stdout.contains("A build will work with CUDA 12.9"));
    let exec = run(&["exec", "--", "printenv", "CUDAARCHS"], "CUDA_BUILD_CAPABILITIES", "8.0,9.0");
    assert_eq!(exec.stdout, "80-real;90-real\n", "{exec:?}");
    let doctor = run(&["doctor"], "CUDA_BUILD_CAPABILITIES", "8.0");
    assert!(doctor.stdout.contains("CUDA_BUILD_CAPABILITIES: capabilities 8.0"), "{doctor:?}");

    for command in ["env", "view", "doctor"] {
        run(&[command], "CUDA_BUILD_MAJOR", "x").failed(13, &["`x` is no CUDA major"]);
    }
    run(&["env"], "CUDA_BUILD_CAPABILITIES", "1.0").failed(12, &["1.0"]);
    assert_eq!(run(&["doctor"], "CUDA_BUILD_CAPABILITIES", "1.0").code, 12);
}

#[test]
fn views_stay_where_the_user_wants_them() {
    let Some(project) = project("own-views", "fn main() {}\n") else { return };
    let views = project.path.with_file_name("views");
    let run = |arguments: &[&str]| {
        let run = Finished::of(project.command(arguments).env("CUDA_BUILD_VIEWS", &views).output().unwrap());
        run.succeeded();
        run.stdout
    };
    let env = run(&["env"]);
    assert!(env.contains(&format!("export CUDA_HOME='{}/13.4-", views.display())), "{env}");
    assert!(!env.contains("export CUDA_BUILD_VIEWS"), "{env}");
    assert!(Path::new(run(&["view"]).trim_end()).starts_with(&views));
    assert_eq!(run(&["exec", "--", "printenv", "CUDA_BUILD_VIEWS"]).trim_end(), views.to_str().unwrap());
    run(&["build", "-q"]);
    assert!(!project.target.join("cuda/views").exists());
}
