//! A package's device code, compiled by several machines and joined by one.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::project::Project;
use crate::support::Finished;

/// Runs `cargo cuda build` with a directory for images.
fn build(project: &Project, images: &std::path::Path, options: &[&str]) -> Finished {
    let mut command = project.command(&["build", "-vv"]);
    command.args(options).env("CUDA_BUILD_IMAGES", images);
    let finished = Finished::of(command.output().unwrap());
    finished.succeeded();
    finished
}

/// The lines in which the build script says what it compiled.
fn compiled(build: &Finished) -> Vec<String> {
    let output = format!("{}{}", build.stdout, build.stderr);
    let lines = output
        .lines()
        .filter(|line| line.contains("made saxpy") && line.contains("for "));
    lines.map(str::to_owned).collect()
}

#[test]
fn jobs_of_a_matrix_are_joined_without_compiling() {
    let own = |project: Project| project.alone(&[13]);
    let Some(project) = Project::template("library", &[13]).and_then(own) else {
        return;
    };
    let listed = project.run(&["matrix", "--json"]);
    let report: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(report["format_version"], 1);
    let jobs = report["matrix"]["include"].as_array().unwrap();
    assert!(jobs.len() > 2, "{listed:?}");
    let lines = project.run(&["matrix"]).stdout;
    assert_eq!(lines.lines().count(), jobs.len());

    let union = project.path.join("union");
    fs::create_dir_all(&union).unwrap();
    for (number, job) in jobs.iter().filter(|job| job["cuda"] == "13").enumerate() {
        let images = project.path.join(format!("images-{number}"));
        let capabilities = job["capabilities"].as_str().unwrap();
        let options = [
            "--cuda",
            "13",
            "--capabilities",
            capabilities,
            "--target-dir",
            "jobs",
        ];
        assert!(!compiled(&build(&project, &images, &options)).is_empty());
        for entry in fs::read_dir(&images).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, union.join(path.file_name().unwrap())).unwrap();
        }
    }
    let last = build(&project, &union, &["--cuda", "13"]);
    assert_eq!(compiled(&last), [""; 0]);
    let name = "CUDA_BUILD_IMAGES";
    let mut relative = project.command(&["build", "--cuda", "13"]);
    let refused = Finished::of(relative.env(name, "images").output().unwrap());
    assert!(
        refused.stderr.contains("is not an absolute path"),
        "{refused:?}"
    );
    // Without shared images everything is compiled here.
    let mut alone = Command::new("cargo");
    alone.args(["build", "-vv"]);
    project.prepare(&mut alone);
    assert!(!compiled(&Finished::of(alone.output().unwrap())).is_empty());
}
