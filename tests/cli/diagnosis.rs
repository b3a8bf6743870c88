//! After a failed build, a hint names what is missing and the command that adds it; `--fetch` adds it.
//!
//! `tests/diagnosis/cases.py` records the messages of real tools, and carries out what the hints say.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::locked::Fetching;
use crate::project::{Project, checkout};
use crate::support::Finished;

/// A build script that links CUDA's static libraries, as many published ones do.
const STATIC: &str = r#"
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-lib=static=cudart_static");
    if std::env::var_os("CARGO_FEATURE_DYNAMIC_LINK").is_some() {
        println!("cargo:rustc-link-lib=dylib=cudart");
        return;
    }
    println!("cargo:rustc-link-lib=static=cublas_static");
    println!("cargo:rustc-link-lib=static=cublasLt_static");
}
"#;

const PACKAGE: &str = "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

/// A program above a crate with `build.rs`, on Python's packages of CUDA 13.
fn project(name: &str) -> Project {
    let project = Project::bare(name, &[13]);
    let rest = "[dependencies]\nblas-sys = { path = \"sys\" }\n\
                [features]\ndynamic-link = [\"blas-sys/dynamic-link\"]\n[workspace]\n";
    project.write("Cargo.toml", &(PACKAGE.replace("NAME", "app") + rest));
    let main =
        "fn main() { println!(\"{}\", unsafe { blas_sys::cudaRuntimeGetVersion(&mut 0) }); }\n";
    project.write("src/main.rs", main);
    let features = "[features]\ndynamic-link = []\n";
    let manifest = PACKAGE.replace("NAME", "blas-sys") + features;
    project.write("sys/Cargo.toml", &manifest);
    let function =
        "unsafe extern \"C\" { pub fn cudaRuntimeGetVersion(version: *mut i32) -> i32; }\n";
    project.write("sys/src/lib.rs", function);
    project
}

/// A build script that calls nvcc.
const NVCC: &str = r#"
fn main() {
    let nvcc = std::path::Path::new(&std::env::var_os("CUDA_HOME").unwrap()).join("bin/nvcc");
    let arguments = ["-c", "a.cu", "-o", "/dev/null"];
    let status = std::process::Command::new(nvcc).args(arguments).status().unwrap();
    assert!(status.success());
}
"#;

/// A cargo that prints a text instead of a build, and fails.
struct Replay {
    project: Project,
    cargo: PathBuf,
}

impl Replay {
    fn new(name: &str) -> Self {
        let project = Project::bare_at(name, "app", &[12, 13]);
        let cargo = project.path.with_file_name("cargo");
        let real = env!("CARGO");
        let script = format!(
            "#!/bin/sh\ncase $1 in metadata | tree) exec '{real}' \"$@\";; esac\ncat \"$MESSAGES\" >&2\nexit 101\n"
        );
        fs::write(&cargo, script).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        project.write("src/main.rs", "fn main() {}\n");
        Self { project, cargo }
    }

    /// The last hint, with the place of the project as in the recorded messages.
    fn hint(&self, release: &str, capabilities: &str, messages: &str) -> Option<String> {
        let Self { project, cargo } = self;
        let cuda = format!("[workspace]\n[package.metadata.cuda]\n{capabilities}");
        project.write("Cargo.toml", &(PACKAGE.replace("NAME", "app") + &cuda));
        let file = project.path.with_file_name("messages");
        fs::write(&file, messages).unwrap();
        let mut build = project.command(&["build", "--cuda", release]);
        build.env("CARGO", cargo).env("MESSAGES", file);
        let run = Finished::of(build.output().unwrap());
        assert_eq!(run.code, 101, "{run:?}");
        let place = project.path.to_str().unwrap();
        let text = run.stderr.replace(place, "/home/user/app");
        // The recorded messages have no name of a combination.
        let latest = fs::read_link(project.target.join("cargo-cuda/latest")).unwrap();
        let text = text.replace(&format!("/{}/.cuda/", latest.display()), "/.cuda/");
        let mut lines = text.lines().map(str::trim_start);
        let hint = lines.rfind(|line| line.starts_with("hint: "));
        hint.map(|line| line["hint: ".len()..].to_owned())
    }
}

fn diagnosis() -> PathBuf {
    checkout().join("tests/diagnosis")
}

fn texts(directory: &Path) -> Vec<(String, String)> {
    let files = fs::read_dir(directory).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let text = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    files.map(text).collect()
}

mod online {
    use super::*;

    #[test]
    fn recorded_messages_have_their_hints() {
        let replay = Replay::new("replay-recorded");
        let mut wrong = Vec::new();
        let all = texts(&diagnosis().join("messages"));
        assert!(all.len() >= 55, "{}", all.len());
        for (name, text) in all {
            let (head, messages) = text.split_once("\n\n").unwrap();
            let value = |key: &str| {
                let mut lines = head.lines();
                let line = lines.find_map(|line| line.strip_prefix(key));
                line.unwrap_or_else(|| panic!("{name}: {key}"))
            };
            let release = value("cuda: ");
            // The tests have no other release. `cases.py` builds these.
            if !["12.9", "13.4"].contains(&release) {
                continue;
            }
            let capabilities = match value("capabilities: ") {
                "none" => "",
                "of a project with dependencies" => continue,
                _ => "capabilities = [\"8.0\"]\n",
            };
            let hint = replay.hint(release, capabilities, messages);
            let hint = hint.unwrap_or_else(|| "none".to_owned());
            if hint != value("hint: ") {
                wrong.push(format!("{name}\n  {hint}\n  {}", value("hint: ")));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn messages_about_other_things_have_no_hint() {
        let replay = Replay::new("replay-other");
        let text = fs::read_to_string(diagnosis().join("other.txt")).unwrap();
        let all = text.split("=== ").skip(1);
        assert!(all.clone().count() >= 60);
        for entry in all {
            let (name, messages) = entry.split_once('\n').unwrap();
            let hint = replay.hint("13.4", "capabilities = [\"8.0\"]\n", messages);
            assert_eq!(hint, None, "{name}");
        }
    }

    #[test]
    fn a_missing_header_is_fetched_once() {
        let fetching = Fetching(Project::bare_at("missing-header", "plain", &[13]));
        let project = &fetching.0;
        project.write(
            "Cargo.toml",
            &(PACKAGE.replace("NAME", "app") + "[workspace]\n"),
        );
        project.write("build.rs", NVCC);
        project.write("a.cu", "#include <curand.h>\n");
        project.write(
            "src/main.rs",
            "fn main() { println!(\"started\"); std::process::exit(101) }\n",
        );
        let build = fetching.run(&["build"]);
        let error = "a.cu:1:10: fatal error: curand.h: No such file or directory";
        let hint = "hint: `curand.h` is missing: this CUDA 13.4 has no curand; run `cargo cuda build --fetch`, or declare \
                    `components = [\"curand\"]` in `[package.metadata.cuda]`\n";
        build.failed(101, &[error]);
        assert!(build.stderr.ends_with(hint), "{build:?}");

        let run = fetching.run(&["run", "--fetch"]);
        let steps = [
            "     Guessed curand (`curand.h` is missing)\n",
            "    Retrying `cargo run` with curand\n",
        ];
        run.ended_with(101, &steps);
        assert_eq!(run.stdout, "started\n", "{run:?}");
        assert!(!run.stderr.contains("hint: "), "{run:?}");
        assert!(fetching.lock().contains("\"nvidia-curand\""));
        // Another machine's store does not have it, so the lock names it, also if this store has it already.
        fs::remove_file(project.path.join("cuda-toolkits.lock")).unwrap();
        project.forget("app");
        fetching.run(&["run", "--fetch"]).ended_with(101, &[]);
        assert!(fetching.lock().contains("\"nvidia-curand\""));
        // A type error is not the fault of CUDA, and nothing is tried twice.
        project.write(
            "build.rs",
            "fn main() { println!(\"cargo:rustc-link-lib=cufft\") }\n",
        );
        project.write("src/main.rs", "fn main() { 1 }\n");
        let build = fetching.run(&["build", "--fetch"]);
        build.ended_with(101, &["mismatched types"]);
        assert!(
            !build.stderr.contains("hint: ") && !build.stderr.contains("Retrying"),
            "{build:?}"
        );
    }

    #[test]
    fn libraries_that_the_toolkit_lacks_are_named() {
        let project = project("missing-libraries");
        let panics = "fn main() { panic!(\"no libnvjpeg\") }\n";
        project.write("sys/build.rs", panics);
        let run = project.run(&["build"]);
        run.ended_with(101, &["no libnvjpeg"]);
        assert!(!run.stderr.contains("hint: "), "{run:?}");

        project.write("sys/build.rs", STATIC);
        let hint = "hint: this CUDA 13.4 has no libcublas";
        let words = [
            // rustc names one of them.
            "could not find native static library `",
            hint,
            "feature for dynamic linking",
            "`CUDA_BUILD_ROOTS`",
        ];
        project.run(&["build"]).failed(101, &words);
        // The advice helps.
        let advice = ["build", "--features", "dynamic-link"];
        project.run(&advice).succeeded();

        let script = "fn main() { for name in [\"cudart\", \"cufft\", \"cudnn\"] { \
                      println!(\"cargo:rustc-link-lib=dylib={name}\") } }\n";
        project.write("sys/build.rs", script);
        let hint = "declare `components = [\"cufft\", \"cudnn\"]` in `[package.metadata.cuda]`";
        for arguments in [&["build", "--profile", "test"][..], &["run"]] {
            let run = project.run(arguments);
            run.failed(101, &[hint]);
            assert_eq!(run.stderr.matches("hint: ").count(), 1, "{run:?}");
        }
    }
}
