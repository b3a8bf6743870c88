//! `cargo cuda bundle`: a program that runs where nothing of CUDA is installed.

use std::fs;
use std::process::Command;

use cargo_cuda::exit_code;

use crate::support::Finished;

#[test]
fn files_that_are_not_of_a_bundle_are_not_removed() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = place.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
    };
    let manifest = "[package]\nname = 'app'\nversion = '0.1.0'\n[workspace]\n";
    write("Cargo.toml", manifest);
    write("src/main.rs", "fn main() {}\n");
    // Not even if one has the name of ours.
    write("web/bundle.json", "{}");
    for theirs in ["web", "web/bundle.json", "src"] {
        let mut bundle = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
        bundle.args(["cuda", "bundle", "--output", theirs]);
        bundle.env("CUDA_BUILD_SOURCES", "environment");
        let run = Finished::of(bundle.current_dir(place.path()).output().unwrap());
        let text = format!("this command did not write {theirs}");
        run.failed(exit_code::DISK, &[&text]);
    }
    assert!(place.path().join("web/bundle.json").is_file());
}

mod online {
    use super::*;
    use crate::project::{Project, checkout};

    /// Starts the program in a root that has the bundle, glibc and the compiler's libraries alone. The root has no
    /// `/proc`, so `LD_ORIGIN_PATH` gives the loader the value of `$ORIGIN`. Other users than root need a user
    /// namespace for `chroot`, which containers do not allow.
    const IN_ROOT: &str = r#"
mkdir root
cp -a dist/app root/app
for file in $(ldd dist/app/bin/bundled | grep -o '/[^ ]*' | grep -v dist/app); do
    mkdir -p "root$(dirname "$file")"
    cp -L "$file" "root$file"
done
[ "$(id -u)" = 0 ] || as_root='unshare --map-root-user'
LD_ORIGIN_PATH=/app/bin exec $as_root chroot root /app/bin/bundled
"#;

    #[test]
    fn a_bundle_runs_until_it_needs_the_driver() {
        let template = |file: &str| {
            fs::read_to_string(checkout().join("templates/library").join(file)).unwrap()
        };
        let (build, main) = (template("build.rs"), template("src/main.rs"));
        let project = Project::new(
            "bundled",
            &[13],
            "cudart = \"shared\"\ncomponents = [\"nvrtc\"]",
            &build,
            &main,
        );
        project.write("kernels/saxpy.cu", &template("kernels/saxpy.cu"));
        let build = ["--profile", "dev", "--capabilities", "9.0"];
        let app = ["--output", "dist/app"];
        let bundled = project.run(&[&["bundle"], &build[..], &app].concat());
        bundled.succeeded();
        for text in [
            "lib/libcudart.so.13 ",
            "lib/libnvrtc-builtins.so.13.",
            "needs glibc 2.",
        ] {
            assert!(bundled.stdout.contains(text), "{text}: {bundled:?}");
        }
        let licence = "dist/app/licenses/cudart/License.txt";
        assert!(project.path.join(licence).is_file());
        let mut in_root = Command::new("sh");
        project.prepare(in_root.args(["-ec", IN_ROOT]));
        let started = Finished::of(in_root.output().unwrap());
        let expected = "error: no CUDA driver is installed on this machine";
        assert!(started.stderr.contains(expected), "{started:?}");

        // The program as a `cdylib`, which Python opens without a toolkit.
        let run = "\n#[unsafe(no_mangle)]\npub extern \"C\" fn start() {\n    main();\n}\n";
        project.write("src/lib.rs", &(main + run));
        fs::remove_file(project.path.join("src/main.rs")).unwrap();
        let manifest = project.path.join("Cargo.toml");
        let cdylib = fs::read_to_string(&manifest).unwrap()
            + "[lib]\ncrate-type = ['cdylib']\n"
            + "[package.metadata.cuda.bundle.fallback]\nfeatures = []\n";
        fs::write(&manifest, cdylib).unwrap();
        let replaced = project.run(&[&["bundle"], &build[..], &app].concat());
        replaced.succeeded();
        let open = "import ctypes; ctypes.CDLL('dist/app/lib/libbundled.so').start()";
        let mut python = Command::new("python3");
        project.prepare(python.args(["-c", open]));
        let run = Finished::of(python.output().unwrap());
        assert!(run.stderr.contains(expected), "{run:?}");
    }

    /// The program that chooses a build runs on every machine, the builds on those that the user's flags are for.
    #[test]
    fn the_start_program_is_for_the_oldest_machine() {
        let project = Project::bare_at("bundle-start", "start-app", &[12, 13]);
        project.write(
            "Cargo.toml",
            "[package]\nname = \"start-app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n",
        );
        project.write("src/main.rs", "fn main() {}\n");
        let wrapper = project.path.join("wrapper");
        let log = format!(
            "#!/bin/sh\necho \"$@\" >> {:?}\nexec \"$@\"\n",
            project.path.join("calls")
        );
        project.write("wrapper", &log);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&wrapper, mode).unwrap();
        let flags = "-Ctarget-cpu=x86-64-v2 -C link-arg=-Wl,--as-needed";
        let configured = format!("[build]\nrustflags = {flags:?}\n");
        for (config, variable) in [
            ("", Some(("RUSTFLAGS", flags))),
            (configured.as_str(), None),
        ] {
            project.write(".cargo/config.toml", config);
            let _ = fs::remove_file(project.path.join("calls"));
            // Equal flags from another place compile nothing.
            let _ = fs::remove_dir_all(&project.target);
            let words = [
                "bundle",
                "--cuda",
                "12,13",
                "--capabilities",
                "8.0",
                "--output",
                "dist/app",
            ];
            let mut bundle = project.command(&words);
            bundle.envs(variable).env("RUSTC_WRAPPER", &wrapper);
            Finished::of(bundle.output().unwrap()).succeeded();
            let calls = fs::read_to_string(project.path.join("calls")).unwrap();
            let of_crate = |name: &str| {
                let name = format!("--crate-name {name} ");
                let mut lines = calls.lines().filter(|line| line.contains(&name));
                lines
                    .next_back()
                    .unwrap_or_else(|| panic!("{name}: {calls}"))
                    .to_owned()
            };
            let (start, app) = (of_crate("start"), of_crate("start_app"));
            assert!(app.contains("target-cpu=x86-64-v2"), "{app}");
            assert!(!start.contains("target-cpu"), "{start}");
            assert!(start.contains("--as-needed"), "{start}");
        }
    }
}
