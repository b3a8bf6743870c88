//! `cargo cuda bundle`: a program that runs where nothing of CUDA is installed.

use std::process::Command;

use cargo_cuda::exit_code;

use crate::support::Finished;

#[test]
fn a_program_without_cuda_needs_no_toolkit() {
    let place = tempfile::tempdir().unwrap();
    let run = |options: &str| {
        let mut bundle = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
        bundle.args("cuda bundle --program /bin/sh".split(' '));
        bundle.args(options.split(' '));
        bundle.env_clear().env("CUDA_BUILD_SOURCES", "environment");
        Finished::of(bundle.current_dir(place.path()).output().unwrap())
    };
    for _replaced in [false, true] {
        let bundled = run("--output app");
        bundled.succeeded();
        assert!(bundled.stdout.contains("needs glibc "), "{bundled:?}");
        assert!(place.path().join("app/bin/sh").is_file());
    }
    let several = run("--output other --cuda 12,13");
    several.failed(exit_code::USAGE, &["`--cuda` names several"]);
    // Files that are not of a bundle are not removed, even if one has the name of ours.
    let page = place.path().join("web/bundle.json");
    std::fs::create_dir(page.parent().unwrap()).unwrap();
    std::fs::write(&page, "{}").unwrap();
    for theirs in ["web", "web/bundle.json"] {
        let text = format!("this command did not write {theirs}");
        run(&format!("--output {theirs}")).failed(exit_code::DISK, &[&text]);
    }
    assert!(page.is_file());
}

mod online {
    use std::fs;

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

        // A finished program, which has another search path.
        project.run(&[&["build"], &build[..]].concat()).succeeded();
        let program = project.program("bundled");
        let finished = ["bundle", "--program", program.to_str().unwrap()];
        let refused = project.run(&[&finished[..], &app].concat());
        refused.failed(
            17,
            &["patchelf --force-rpath --set-rpath '$ORIGIN/../lib' "],
        );
        let kept = project.run(&[&finished[..], &["--output", "src"]].concat());
        kept.failed(16, &["did not write src, which has no `bundle.json`"]);

        // The program as a `cdylib`, which Python opens without a toolkit.
        let run = "\n#[unsafe(no_mangle)]\npub extern \"C\" fn start() {\n    main();\n}\n";
        project.write("src/lib.rs", &(main + run));
        fs::remove_file(project.path.join("src/main.rs")).unwrap();
        let manifest = project.path.join("Cargo.toml");
        let cdylib = fs::read_to_string(&manifest).unwrap()
            + "[lib]\ncrate-type = ['cdylib']\n"
            + "[package.metadata.cuda.bundle.fallback]\nfeatures = []\n";
        fs::write(&manifest, cdylib).unwrap();
        let library = ["bundle", "--output", "dist/library"];
        project.run(&[&library[..], &build].concat()).succeeded();
        let open = "import ctypes; ctypes.CDLL('dist/library/lib/libbundled.so').start()";
        let mut python = Command::new("python3");
        project.prepare(python.args(["-c", open]));
        let run = Finished::of(python.output().unwrap());
        assert!(run.stderr.contains(expected), "{run:?}");
    }
}
