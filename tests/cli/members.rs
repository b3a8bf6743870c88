//! Members of a workspace that declare different things: what counts is what Cargo builds.

use std::fs;
use std::path::Path;

use crate::locked::Fetching;
use crate::project::Project;
use crate::support::Finished;

const PACKAGE: &str = "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";

/// Calls nvcc for the one capability that build scripts get.
const CALLS_NVCC: &str = r#"
use std::env::var;
fn main() {
    println!("cargo::rerun-if-changed=k.cu");
    let arch = format!("-arch=sm_{}", var("CUDA_COMPUTE_CAP").unwrap());
    let object = var("OUT_DIR").unwrap() + "/k.o";
    let status = std::process::Command::new("nvcc").args([&arch, "-c", "k.cu", "-o", &object]).status();
    assert!(status.unwrap().success());
}
"#;

const ONLY_FOR_HOPPER: &str = "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900\n#error \"9.0 only\"\n#endif\n\
                               __global__ void f() {}\n";

fn write(project: &Project, members: &[(&str, &str)]) {
    let names: Vec<String> = members
        .iter()
        .map(|(name, _)| format!("{name:?}"))
        .collect();
    let root = format!(
        "[workspace]\nmembers = [{}]\nresolver = \"2\"\n",
        names.join(", ")
    );
    project.write("Cargo.toml", &root);
    for (name, rest) in members {
        let manifest = PACKAGE.replace("NAME", name) + rest;
        project.write(&format!("{name}/Cargo.toml"), &manifest);
        project.write(&format!("{name}/src/main.rs"), "fn main() {}\n");
    }
    let _ = fs::remove_dir_all(project.path.join("src"));
}

/// How many crates were compiled.
fn compiled(build: &Finished) -> usize {
    build.succeeded();
    build.stderr.matches("   Compiling ").count() - build.stderr.matches(".cu for ").count()
}

mod online {
    use super::*;

    #[test]
    fn another_members_declarations_do_not_matter() {
        let project = Project::bare_at("members", "members", &[13]);
        let other = "[dependencies]\n[package.metadata.cuda]\n\
                     toolkit = \"<12\"\nmajors = [11]\ncomponents = [\"cudnn\"]\ncapabilities = [\"7.0\"]\n";
        let hop = "[dependencies]\nhop = { path = \"../hop\" }\n[package.metadata.cuda]\ncapabilities = [\"9.0\"]\n";
        write(&project, &[("a", other), ("b", hop), ("hop", "")]);
        fs::remove_file(project.path.join("hop/src/main.rs")).unwrap();
        project.write("hop/src/lib.rs", "");
        project.write("hop/build.rs", CALLS_NVCC);
        project.write("hop/k.cu", ONLY_FOR_HOPPER);
        let run = |directory: &str, arguments: &[&str]| {
            let mut command = project.command(arguments);
            command.current_dir(project.path.join(directory));
            Finished::of(command.output().unwrap())
        };
        assert_eq!(compiled(&run("", &["build", "-p", "b"])), 2);
        for (directory, arguments) in [
            ("", &["build", "--package=b"][..]),
            ("b", &["build"]),
            ("b/src", &["build"]),
            ("", &["build", "--manifest-path", "b/Cargo.toml"]),
            ("a", &["build", "--manifest-path", "../b/Cargo.toml"]),
            ("", &["run", "--bin", "b"]),
            ("", &["build", "-p", "b", "-p", "hop"]),
            ("", &["build", "--workspace", "--exclude", "a"]),
            ("", &["build", "-p", "b@0.1.0"]),
            ("", &["build", "-p", "[bh]*"]),
        ] {
            let run = run(directory, arguments);
            assert_eq!(compiled(&run), 0, "{directory} {arguments:?}: {run:?}");
        }
        for (directory, arguments) in [
            ("b", &["check"][..]),
            ("b", &["doctor"]),
            ("", &["doctor", "-p", "b"]),
            ("b", &["exec", "--", "true"]),
        ] {
            run(directory, arguments).succeeded();
        }
        // Cargo builds both.
        let both = run("", &["build"]);
        both.failed(10, &["cudnn"]);
    }

    /// With a name of a component as a feature, which `--fetch` takes for a need.
    #[test]
    fn the_lock_is_the_workspaces_and_downloads_are_the_commands() {
        let storage = "[dependencies]\nstorage-sys = { path = \"../sys\" }\n";
        let loads = "[dev-dependencies]\nstorage-sys = { path = \"../sys\" }\n";
        let with_feature = |name: &str| {
            let fetching = Fetching::new(name, "");
            write(&fetching.0, &[("a", storage), ("b", ""), ("c", loads)]);
            let root = "[workspace]\nmembers = [\"a\", \"b\", \"c\", \"sys\"]\nresolver = \"2\"\n";
            fetching.0.write("Cargo.toml", root);
            let manifest = PACKAGE.replace("NAME", "storage-sys")
                + "[features]\ndefault = [\"cufile\"]\ncufile = []\n";
            fetching.0.write("sys/Cargo.toml", &manifest);
            fetching.0.write("sys/src/lib.rs", "");
            fetching
        };
        let has_file = |fetching: &Fetching| contains(&fetching.0.cache, "libcufile.so.0");
        let mut locks = Vec::new();
        for (name, arguments, expected) in [
            ("locked-b", &["build", "-p", "b"][..], false),
            ("locked-c", &["build", "-p", "c"], false),
            ("locked-c-test", &["test", "-p", "c", "--no-run"], true),
            ("locked-all", &["build"], true),
        ] {
            let fetching = with_feature(name);
            let words = [arguments, &["--fetch", "--cuda", "12"]].concat();
            fetching.run(&words).succeeded();
            assert_eq!(has_file(&fetching), expected, "{arguments:?}");
            locks.push(fetching.lock());
            // Once more, and then everything: the lock stays.
            fetching.run(&words).succeeded();
            fetching
                .run(&["build", "--fetch", "--cuda", "12"])
                .succeeded();
            assert!(has_file(&fetching));
            assert_eq!(fetching.lock(), locks[0], "{arguments:?}");
            let locked = [arguments, &["--locked", "--cuda", "12"]].concat();
            fetching.run(&locked).succeeded();
        }
        assert!(locks[0].contains("nvidia-cufile-cu12"), "{}", locks[0]);
        assert!(locks.iter().all(|lock| *lock == locks[0]), "{locks:?}");
    }
}

/// Whether a file of this name lies somewhere below a directory.
fn contains(directory: &Path, name: &str) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    paths.any(|path| {
        let is_directory = path.is_dir() && !path.is_symlink();
        path.file_name().unwrap() == name || is_directory && contains(&path, name)
    })
}
