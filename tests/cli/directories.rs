//! The target directory of a build: which one is used, what stays, what goes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::components::site_packages;
use crate::project::Project;
use crate::support::Finished;

const PACKAGE: &str = "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

/// Counts its runs, and tells Cargo nothing of what it reads.
const COUNTS: &str = r#"
use std::io::Write;
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let mut runs = std::fs::File::options().create(true).append(true).open("runs").unwrap();
    writeln!(runs, "{}", std::env::var("CUDA_HOME").unwrap_or_default()).unwrap();
}
"#;

fn counting(name: &str) -> Option<Project> {
    let project = Project::bare_at(name, "plain", &[12, 13])?;
    project.write(
        "Cargo.toml",
        &(PACKAGE.replace("NAME", "counting") + "[workspace]\n"),
    );
    project.write("build.rs", COUNTS);
    project.write("src/main.rs", "fn main() {}\n");
    Some(project)
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
    let entries = fs::read_dir(project.target.join("cargo-cuda"))
        .into_iter()
        .flatten()
        .map(Result::unwrap);
    let own = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    own.map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

fn latest(project: &Project) -> String {
    let link = fs::read_link(project.target.join("cargo-cuda/latest")).unwrap();
    link.to_str().unwrap().to_owned()
}

#[test]
fn every_release_has_a_directory_that_stays() {
    let Some(project) = counting("releases") else {
        return;
    };
    let build = project.run(&["build"]);
    build.succeeded();
    let thirteen = latest(&project);
    assert!(thirteen.starts_with("13.4-"), "{thirteen}");
    let result = format!("Result in target/cargo-cuda/{thirteen} (CUDA 13.4)");
    assert_eq!(build.stderr.lines().last().unwrap().trim_start(), result);
    assert!(
        project
            .target
            .join("cargo-cuda/latest/debug/counting")
            .is_file()
    );
    assert_eq!(runs(&project), 1);

    project.run(&["build", "--cuda", "12"]).succeeded();
    let twelve = latest(&project);
    assert!(twelve.starts_with("12.9-"), "{twelve}");
    assert_eq!(runs(&project), 1);

    // The same release by any name, another command, and another profile.
    for arguments in [
        &["build", "--cuda", "13"][..],
        &["build", "--cuda", "13.4"],
        &["check"],
        &["run"],
        &["test", "--no-run"],
    ] {
        project.run(arguments).succeeded();
        assert_eq!(latest(&project), thirteen, "{arguments:?}");
    }
    let mut variable = project.command(&["build"]);
    variable.env("CUDA_BUILD_RELEASE", "12");
    Finished::of(variable.output().unwrap()).succeeded();
    assert_eq!(latest(&project), twelve);
    // `check` has another profile of the script only in Cargo's own terms: it runs no more.
    assert_eq!(runs(&project), 0);
    assert_eq!(directories(&project), BTreeSet::from([thirteen, twelve]));

    project.run(&["build", "--release"]).succeeded();
    assert_eq!(runs(&project), 1);
    project
        .run(&["build", "--cuda", "13.3"])
        .failed(10, &["13.3"]);
}

#[test]
fn what_decides_has_another_directory() {
    let Some(project) = counting("decides") else {
        return;
    };
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
fn plain_cargo_has_a_directory_of_its_own() {
    let Some(project) = counting("beside") else {
        return;
    };
    let plain = || {
        let mut cargo = Command::new("cargo");
        project.prepare(cargo.args(["build", "-q"]));
        Finished::of(cargo.output().unwrap()).succeeded();
        runs(&project)
    };
    let ours = || {
        project.run(&["build", "-q"]).succeeded();
        runs(&project)
    };
    assert_eq!((plain(), ours()), (1, 1));
    assert_eq!((plain(), ours(), plain(), ours()), (0, 0, 0, 0));
}

/// A toolkit like that of CUDA 13, with the libraries that `holds` accepts.
fn toolkit(place: &Path, holds: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let real = site_packages(13)?.join("nvidia/cu13");
    let _ = fs::remove_dir_all(place);
    link_tree(&real, place, &holds);
    Some(place.to_owned())
}

fn link_tree(from: &Path, to: &Path, holds: &impl Fn(&str) -> bool) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        if entry.path().is_dir() {
            link_tree(&entry.path(), &to.join(&name), holds);
        } else if holds(name.to_str().unwrap()) {
            fs::hard_link(entry.path(), to.join(&name)).unwrap();
        }
    }
}

#[test]
fn a_toolkit_that_gains_a_component_keeps_the_directory() {
    let Some(project) = counting("gained") else {
        return;
    };
    let place = project.path.with_file_name("toolkits");
    let without = |name: &str| !name.contains("nvrtc") && !name.contains("culibos");
    let (first, second) = (place.join("first"), place.join("second"));
    let (Some(_), Some(_)) = (toolkit(&first, without), toolkit(&second, |_| true)) else {
        return;
    };
    let build = |root: &Path| {
        let mut build = project.command(&["build"]);
        build.env("CUDA_BUILD_ROOTS", root);
        Finished::of(build.output().unwrap()).succeeded();
        (latest(&project), runs(&project))
    };
    let view = |name: &str| {
        let view = project
            .target
            .join("cargo-cuda")
            .join(name)
            .join(".cuda/view");
        fs::read_link(view).unwrap()
    };
    let (name, count) = build(&first);
    assert_eq!(count, 1);
    let before = view(&name);
    // As `toolkit add --components` leaves it: another place, hard links to the same files.
    assert_eq!(build(&second), (name.clone(), 0));
    assert_ne!(view(&name), before, "the view has what was gained");
    assert!(view(&name).join("lib/libnvrtc.so").exists());
    // What was recorded and is gone is another toolkit, and so is a changed file.
    let (lost, count) = build(&first);
    assert_eq!((lost.as_str(), count), (&*format!("{name}-2"), 1));
    let nvrtc = fs::read_dir(second.join("lib"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_str().unwrap().contains("libnvrtc.so"))
        .unwrap();
    let content = fs::read(&nvrtc).unwrap();
    fs::remove_file(&nvrtc).unwrap();
    fs::write(&nvrtc, content).unwrap();
    // The directory of the smaller toolkit holds for every component that it has recorded.
    assert_eq!(build(&second), (lost, 0));
    fs::remove_dir_all(&second).unwrap();
    toolkit(&second, |_| true).unwrap();
    assert_eq!(build(&second), (name, 0), "the first one still fits");
}

#[test]
fn a_named_target_directory_is_respected() {
    let Some(project) = counting("named") else {
        return;
    };
    for arguments in [
        &["build", "--target-dir", "elsewhere"][..],
        &["build", "--target-dir=elsewhere"],
    ] {
        project.run(arguments).succeeded();
    }
    assert_eq!(runs(&project), 1);
    assert!(project.path.join("elsewhere/debug/counting").is_file());
    assert!(!project.target.exists());
    let other = project.run(&["build", "--target-dir", "elsewhere", "--cuda", "12"]);
    other.succeeded();
    assert!(
        other
            .stderr
            .contains("elsewhere was built with another toolkit"),
        "{other:?}"
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
fn clean_removes_what_is_unused() {
    let Some(project) = counting("cleaned") else {
        return;
    };
    project.run(&["build"]).succeeded();
    let kept = latest(&project);
    project.run(&["build", "--cuda", "12"]).succeeded();
    let old = latest(&project);
    let nothing = project.run(&["clean"]);
    nothing.succeeded();
    assert!(
        nothing.stdout.starts_with("no directory below "),
        "{nothing:?}"
    );
    let day = Duration::from_secs(24 * 60 * 60);
    for (name, days) in [(&kept, 29), (&old, 31)] {
        let used = project
            .target
            .join("cargo-cuda")
            .join(name)
            .join(".cuda/components.json");
        let file = fs::File::options().append(true).open(used).unwrap();
        file.set_modified(SystemTime::now() - day * days).unwrap();
    }
    let clean = project.run(&["clean"]);
    clean.succeeded();
    assert!(
        clean.stdout.contains(&old) && !clean.stdout.contains(&kept),
        "{clean:?}"
    );
    assert_eq!(directories(&project), BTreeSet::from([kept]));
}

#[test]
fn features_are_those_of_the_package_that_one_is_in() {
    let Some(project) = counting("outer") else {
        return;
    };
    // An older edition's resolver gives features to the package in the current directory alone.
    let manifest = fs::read_to_string(project.path.join("Cargo.toml"))
        .unwrap()
        .replace("2024", "2018");
    project.write("Cargo.toml", &(manifest + "members = [\"inner\"]\n"));
    let inner = PACKAGE.replace("NAME", "inner") + "[features]\ngpu = []\n";
    project.write("inner/Cargo.toml", &inner);
    project.write(
        "inner/src/lib.rs",
        "#[cfg(not(feature = \"gpu\"))]\ncompile_error!(\"no feature\");\n",
    );
    let inside = |arguments: &[&str], directory: &str| {
        let mut command = project.command(arguments);
        command.current_dir(project.path.join(directory));
        Finished::of(command.output().unwrap())
    };
    let build = ["build", "--features", "gpu"];
    inside(&build, "inner").succeeded();
    inside(&build, "inner/src").succeeded();
    let named = ["--manifest-path", "inner/Cargo.toml"];
    inside(&[&build[..], &named].concat(), "").succeeded();
    inside(&build, "").failed(101, &["gpu"]);
}

#[test]
fn an_installed_program_needs_no_workspace() {
    let Some(project) = counting("installed") else {
        return;
    };
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
