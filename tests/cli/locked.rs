//! `cuda-toolkits.lock` decides which toolkit every command uses; `--locked`, `cargo cuda fetch`.

use std::fs;
use std::process::Command;

use cargo_cuda::exit_code;

use crate::components;
use crate::project::{Project, checkout, store};
use crate::support::{EXCLUDE_NEWER, Finished, with_tools};

const LOCK: &str = "cuda-toolkits.lock";

/// The lock file of the tests, with these releases only.
fn lock(releases: &[&str]) -> String {
    let all = fs::read_to_string(checkout().join("tests/support").join(LOCK)).unwrap();
    let (head, _) = all.split_once("[[toolkit]]\n").unwrap();
    let entries = all.split("[[toolkit]]\n").skip(1);
    let is_wanted = |entry: &&str| {
        let mut releases = releases.iter();
        releases.any(|release| entry.starts_with(&format!("request = \"{release}\"\n")))
    };
    let kept: Vec<String> = entries
        .filter(is_wanted)
        .map(|entry| format!("[[toolkit]]\n{entry}"))
        .collect();
    assert_eq!(kept.len(), releases.len());
    head.to_owned() + &kept.concat()
}

/// The manifest of the package `plain`.
fn plain(declared: &str) -> String {
    format!(
        "[package]\nname = \"plain\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
         [package.metadata.cuda]\ncapabilities = [\"8.0\"]\n{declared}\n"
    )
}

/// Of the package `plain`.
const CARGO_LOCK: &str = "version = 4\n\n[[package]]\nname = \"plain\"\nversion = \"0.1.0\"\n";

/// `cargo cuda …` with uv, in a package with an empty store of its own.
pub struct Fetching(pub Project);

impl Fetching {
    pub fn new(name: &str, declared: &str) -> Self {
        let fetching = Self(Project::bare_at(name, "plain", &[]));
        fetching.declare(declared);
        fetching.0.write("src/lib.rs", "");
        fetching.0.write("Cargo.lock", CARGO_LOCK);
        fetching
    }

    fn declare(&self, declared: &str) {
        self.0.write("Cargo.toml", &plain(declared));
    }

    pub fn run(&self, arguments: &[&str]) -> Finished {
        Finished::of(self.command(arguments).output().unwrap())
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.0.command(arguments);
        command.env("PATH", with_tools());
        command.env("UV_EXCLUDE_NEWER", EXCLUDE_NEWER);
        command
    }

    /// The names of the stored toolkits.
    fn stored(&self) -> Vec<String> {
        let report = self.run(&["toolkit", "list", "--json"]).json();
        let toolkits = report["toolkits"].as_array().unwrap().iter();
        let name = |toolkit: &serde_json::Value| toolkit["name"].as_str().unwrap().to_owned();
        toolkits.map(name).collect()
    }

    pub fn lock(&self) -> String {
        fs::read_to_string(self.0.path.join(LOCK)).unwrap()
    }
}

mod online {
    use super::*;

    #[test]
    fn a_locked_toolkit_that_was_not_fetched() {
        let project = Project::bare_at("lock-not-fetched", "plain", &[13]);
        project.write("Cargo.toml", &plain("majors = [12]"));
        project.write("src/lib.rs", "");
        project.write(LOCK, &lock(&["12.9"]));
        let words = [
            "plain/cuda-toolkits.lock locks CUDA 12.9.2.0, which has not been fetched",
            "run `cargo cuda fetch`",
        ];
        // CUDA 13 is there; the lock says 12.9.
        for arguments in [&["build", "-q"][..], &["env"], &["view"]] {
            let run = project.run(arguments);
            run.ended_with(exit_code::SUCCESS, &[&words[..], &["warning: "]].concat());
        }
        let doctor = project.run(&["doctor", "-v"]);
        assert!(doctor.stdout.contains(words[0]), "{doctor:?}");
        for arguments in [&["build", "-q", "--locked"][..], &["check", "--frozen"]] {
            project.run(arguments).failed(exit_code::LOCK, &words);
        }
        // A named root comes before the lock.
        let mut build = project.command(&["build", "-q", "--locked"]);
        build.env("CUDA_BUILD_ROOTS", components::site_packages(12));
        Finished::of(build.output().unwrap()).succeeded();
        let other = project.run(&["build", "-q", "--locked", "--cuda", "13"]);
        other.failed(exit_code::LOCK, &["does not pin CUDA 13"]);
    }

    #[test]
    fn a_first_lock_needs_the_index_and_a_locked_build_does_not() {
        let project = Project::bare_at("locks-found", "plain", &[12, 13]);
        project.write("Cargo.toml", &plain("majors = [12, 13]"));
        project.write("src/lib.rs", "");
        project.write("Cargo.lock", CARGO_LOCK);
        let file = project.path.join(LOCK);
        let run = |arguments: &[&str]| {
            let mut command = project.command(arguments);
            let index = "http://127.0.0.1:9/simple";
            command
                .env("UV_INDEX_URL", index)
                .env("PIP_INDEX_URL", index);
            command.env("UV_HTTP_RETRIES", "0").env("PIP_RETRIES", "0");
            Finished::of(command.output().unwrap())
        };
        let words = ["does not pin CUDA 13", "cargo cuda fetch"];
        run(&["build", "--locked", "--fetch"]).failed(exit_code::LOCK, &words);
        run(&["build"]).succeeded();
        assert!(!file.exists(), "only `--fetch` writes the lock file");
        run(&["build", "--fetch"]).failed(exit_code::INSTALLER, &["could not resolve"]);
        assert!(!file.exists());
        // Another machine's lock.
        let text = lock(&["12.9", "13.4"]);
        fs::write(&file, &text).unwrap();
        run(&["build", "--locked", "--fetch"]).succeeded();
        run(&["build", "--locked", "--cuda", "12"]).succeeded();
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }

    #[test]
    fn the_lock_does_not_depend_on_the_cache() {
        let declared = "components = [\"nvtx\"]";
        let locks = ["empty", "larger", "older"].map(|cache| {
            let fetching = Fetching::new(&format!("lock-{cache}"), declared);
            let outside = |arguments: &[&str]| {
                let mut add = fetching.command(arguments);
                // Outside of any workspace.
                let place = tempfile::tempdir().unwrap();
                Finished::of(add.current_dir(&place).output().unwrap()).succeeded();
            };
            match cache {
                "larger" => outside(&["toolkit", "add", "12", "--components", "profiler-api,nvml"]),
                "older" => outside(&["toolkit", "add", "12.6", "--only", "cudart,cccl,nvrtc,nvtx"]),
                _ => {}
            }
            fetching
                .run(&["build", "--fetch", "--cuda", "12"])
                .succeeded();
            fetching.lock()
        });
        assert!(locks[0].contains("\"nvidia-nvtx-cu12\""), "{}", locks[0]);
        assert_eq!(locks[0], locks[1]);
        assert_eq!(locks[0], locks[2]);
    }

    #[test]
    fn a_major_without_nvcc_is_not_locked_for_a_package_that_needs_it() {
        let fetching = Fetching::new("lock-nvcc", "components = [\"nvcc\"]");
        let words = [
            "no Python package contains `nvcc` for CUDA 12",
            "`cargo cuda toolkit add 12.9 --components nvcc --from redist`, then build with `--cuda 12`",
        ];
        for arguments in [
            &["build", "--fetch", "--cuda", "12"][..],
            &["fetch", "--cuda", "12"],
        ] {
            let run = fetching.run(arguments);
            run.failed(exit_code::NOT_RELEASED, &words);
            assert!(!run.stderr.contains("Fetching"), "{run:?}");
        }
        assert!(!fetching.0.path.join(LOCK).exists());
    }

    #[test]
    fn fetch_gets_what_is_declared_and_pins_it() {
        let fetching = Fetching::new("fetch", "majors = [12]\ncomponents = [\"cudart\"]");
        let locked = ["fetch", "--locked"];
        let lock = fetching.0.path.join(LOCK);
        let path = lock.to_str().unwrap();
        let words = [path, "would have to change", "does not pin CUDA 12"];
        fetching.run(&locked).failed(exit_code::LOCK, &words);
        assert!(fetching.stored().is_empty() && !lock.exists());

        let first = fetching.run(&["fetch"]);
        first.succeeded();
        assert!(first.stdout.starts_with("added CUDA 12.9"), "{first:?}");
        let [stored] = &fetching.stored()[..] else {
            panic!("{:?}", fetching.stored());
        };
        let pinned = fetching.lock();
        assert!(pinned.contains("request = \"12\"\n"), "{pinned}");
        // Everything is there and pinned.
        let again = fetching.run(&locked);
        again.succeeded();
        assert!(again.stdout.contains("is already fetched"), "{again:?}");
        assert_eq!(
            (fetching.stored(), fetching.lock()),
            (vec![stored.clone()], pinned.clone())
        );

        // A component that the lock file does not pin.
        let declare_cutlass = |version: &str| {
            fetching.declare(&format!(
                "majors = [12]\ncomponents = [\"cudart\", {{ name = \"cutlass\", version = \"{version}\" }}]"
            ));
        };
        declare_cutlass("3.8");
        let words = [path, "does not pin `cutlass` ^3.8"];
        fetching.run(&locked).failed(exit_code::LOCK, &words);
        assert_eq!(fetching.lock(), pinned);
        let version = "#define CUTLASS_MAJOR 3\n#define CUTLASS_MINOR 8\n#define CUTLASS_PATCH 0\n";
        fetching.0.write("own/include/cutlass/version.h", version);
        let mut with_own = fetching.command(&["check", "--fetch", "--locked"]);
        with_own.env("CUTLASS_DIR", fetching.0.path.join("own"));
        Finished::of(with_own.output().unwrap()).succeeded();
        declare_cutlass("4.2");
        let words = ["does not pin `cutlass` ^4.2"];
        Finished::of(with_own.output().unwrap()).failed(exit_code::LOCK, &words);
        declare_cutlass("3.8");
        fetching.run(&["fetch"]).succeeded();
        let grown = fetching.lock();
        assert!(grown.contains("\"nvidia-cutlass\"\nversion = \"3.8.0.0\"\n"));
        let kept = pinned.lines().filter(|line| line.starts_with("version"));
        kept.for_each(|line| assert!(grown.contains(line), "{line}: {grown}"));
        fetching.run(&locked).succeeded();

        // Another version, and then another machine. An unmodified build script finds the headers.
        declare_cutlass("4.2");
        let words = ["`cutlass` ^4.2 not found", "`cargo cuda fetch`"];
        fetching
            .run(&["build"])
            .failed(exit_code::NOT_FOUND, &words);
        fetching.run(&["build", "--fetch"]).succeeded();
        let changed = fetching.lock();
        assert!(changed.contains("\nversion = \"4.2.0.0\"\n") && !changed.contains("numpy"));
        fs::remove_dir_all(&fetching.0.cache).unwrap();
        fetching.run(&locked).succeeded();
        let script = "fn main() { let text = |name| std::fs::read_to_string(std::env::var(\"CUTLASS_DIR\").unwrap() + name); \
                      assert!(text(\"/include/cutlass/version.h\").unwrap().contains(\"CUTLASS_MAJOR 4\")); \
                      text(\"/tools/util/include/cutlass/util/device_memory.h\").unwrap(); }";
        fetching.0.write("build.rs", script);
        fetching.run(&["build", "--locked"]).succeeded();
        assert_eq!(fetching.lock(), changed);
    }

    #[test]
    fn fetch_gets_the_locked_toolkit() {
        let fetching = Fetching::new("fetch-locked", "");
        let lock = lock(&["12.9", "12.0"]);
        fetching.0.write(LOCK, &lock);
        let run = fetching.run(&["fetch", "--locked"]);
        run.succeeded();
        assert!(run.stdout.starts_with("added CUDA 12.9.2.0 ("), "{run:?}");
        assert_eq!(
            fetching.stored().len(),
            1,
            "of one major, the newest is used"
        );
        let used = |run: &Finished| run.stderr.contains("CUDA 12.9)");
        let build = fetching.run(&["build"]);
        assert!(build.code == 0 && used(&build), "{build:?}");

        // `--fetch` gets it as well, though another toolkit is found.
        store(&fetching.0.cache, &[13]);
        for toolkit in fs::read_dir(fetching.0.cache.join("toolkits")).unwrap() {
            let path = toolkit.unwrap().path();
            if path
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("12.9")
            {
                fs::remove_dir_all(path).unwrap();
            }
        }
        let build = fetching.run(&["build", "--fetch", "--locked"]);
        assert!(build.code == 0 && used(&build), "{build:?}");
        assert_eq!(fetching.lock(), lock);
    }
}
