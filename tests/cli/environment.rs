//! Crates and projects that nobody changed, in the environment that `cargo cuda` gives them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::components::site_packages;
use crate::project::{Project, store};
use crate::support::Finished;

/// This program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_cargo-cuda");

/// Crates as they are published, and a program that calls a function of each library.
const MANIFEST: &str = r#"[package]
name = "unchanged"
version = "0.1.0"
edition = "2024"

[dependencies]
cust = "=0.3.2"
[dependencies.cudarc]
version = "=0.19.10"
default-features = false
features = ["std", "driver", "runtime", "nvrtc", "cuda-version-from-build-system", "dynamic-linking"]

[workspace]
"#;

const MAIN: &str = r#"
use cudarc::{driver, nvrtc, runtime};
fn main() {
    let (mut version, mut major, mut minor) = (0, 0, 0);
    unsafe {
        println!("{:?}", driver::sys::cuDriverGetVersion(&mut version));
        println!("{:?}", runtime::sys::cudaRuntimeGetVersion(&mut version));
        println!("{:?}", nvrtc::sys::nvrtcVersion(&mut major, &mut minor));
    }
    println!("{:?}", cust::CudaApiVersion::get());
}
"#;

/// A program that links none of them and tells how it was started.
const LOADER: &str = r#"fn main() { println!("{}", std::env::var("LD_LIBRARY_PATH").unwrap()); }
"#;

fn unchanged(name: &str) -> Project {
    let project = Project::bare(name, &[12, 13]);
    project.write("Cargo.toml", MANIFEST);
    project.write("src/main.rs", MAIN);
    project.write("src/bin/loader.rs", LOADER);
    project
}

/// `NEEDED` without the C library's, and whether there is a search path.
pub(super) fn dynamic(program: &Path) -> (Vec<String>, bool) {
    let output = Command::new("readelf").arg("-d").arg(program).output();
    let output = Finished::of(output.unwrap());
    output.succeeded();
    let lines = output
        .stdout
        .lines()
        .filter(|line| line.contains("(NEEDED)"));
    let names = lines.filter_map(|line| line.split(['[', ']']).nth(1));
    let of_cuda = names.filter(|name| name.contains("cu") || name.contains("nv"));
    let mut needed: Vec<String> = of_cuda.map(str::to_owned).collect();
    needed.sort();
    let has_search_path = ["RPATH", "RUNPATH"].map(|text| output.stdout.contains(text));
    (needed, has_search_path.contains(&true))
}

/// How many packages Cargo compiled or found out of date.
fn compiled(build: &Finished) -> usize {
    build.succeeded();
    let marks = ["Compiling ", "Dirty "];
    build
        .stderr
        .lines()
        .filter(|line| marks.iter().any(|mark| line.trim_start().starts_with(mark)))
        .count()
}

mod online {
    use super::*;

    #[test]
    #[ignore = "minutes: cudarc and cust as published, with two majors"]
    fn published_crates_build_with_each_major_and_no_stub_is_ever_loaded() {
        let project = unchanged("unchanged");
        let program = project.target.join("cargo-cuda/debug/unchanged");
        for major in ["13", "12", "13"] {
            // Python's packages of CUDA 12 contain no nvcc that could report the version to cudarc.
            project.run(&["build", "--cuda", major]).succeeded();
            let again = project.run(&["build", "-v", "--cuda", major]);
            assert_eq!(compiled(&again), 0, "{major}: {again:?}");
            let [cudart, nvrtc] = ["cudart", "nvrtc"].map(|name| format!("lib{name}.so.{major}"));
            let needed = vec!["libcuda.so.1".to_owned(), cudart, nvrtc];
            assert_eq!(dynamic(&program), (needed, false));
        }
        // Named or found, the major is the same.
        assert_eq!(compiled(&project.run(&["build", "-v"])), 0);

        let run = project.run(&["run", "--bin", "loader"]);
        run.succeeded();
        let directories: Vec<_> = std::env::split_paths(run.stdout.trim_end()).collect();
        let is_found = |name: &str| directories.iter().any(|it| it.join(name).exists());
        let found = ["libcudart.so.13", "libcuda.so.1", "libcuda.so"].map(is_found);
        assert_eq!(found, [true, false, false], "{run:?}");
    }

    #[test]
    fn a_shell_and_plain_cargo_find_the_same() {
        let project = unchanged("shell");
        let eval = format!("set -eu; eval \"$('{PROGRAM}' cuda env)\";");
        let in_shell = |shell: &str, script: &str| {
            let mut command = Command::new(shell);
            command.args(["-c", &format!("{eval} {script}")]);
            project.prepare(&mut command);
            Finished::of(command.output().unwrap())
        };
        let script = "printf '%s\\n' \"$CUDA_HOME\" \"$(command -v nvcc)\"; cargo build -q";
        let output = in_shell("bash", script);
        output.succeeded();
        let mut builds = fs::read_dir(project.target.join("cargo-cuda/environments"))
            .unwrap()
            .map(Result::unwrap);
        let build = builds.find(|entry| entry.path().is_dir()).unwrap();
        let root = build.path().join(".cuda/view");
        let nvcc = root.join("bin/nvcc");
        let paths: Vec<_> = output.stdout.lines().map(Path::new).collect();
        assert_eq!(paths, [root.as_path(), &nvcc]);
        assert!(project.target.join("debug/unchanged").is_file());

        // `cargo cuda` in that shell takes the variables for the user's: it uses the same toolkit.
        let again = in_shell("sh", &format!("'{PROGRAM}' cuda env"));
        again.succeeded();
        let note = "note: CUDA_HOME stays as you set it";
        assert!(again.stderr.contains(note), "{again:?}");
        let other = in_shell("sh", &format!("'{PROGRAM}' cuda build --cuda 12"));
        assert!(
            other.code != 0 && other.stderr.contains("`CUDA_BUILD_TOOLKIT`"),
            "{other:?}"
        );

        let names = "$CUDA_PATH\" \"$CUDARC_CUDA_VERSION\" \"$LIBRARY_PATH\" \"$LD_LIBRARY_PATH";
        let printed = in_shell("sh", &format!("printf '%s\\n' \"{names}\""));
        let values: Vec<&str> = printed.stdout.lines().collect();
        let [path, "13040", linked, loaded] = values[..] else {
            panic!("{printed:?}");
        };
        assert_eq!(path, root.to_str().unwrap());
        assert!(linked.ends_with("/lib/stubs") && !loaded.contains("stubs"));
        let status = project.run(&["exec", "--", "sh", "-c", "test -x \"$NVCC\" && exit 7"]);
        assert_eq!(status.code, 7, "{status:?}");
    }

    #[test]
    fn the_users_variables_are_kept() {
        let project = unchanged("kept");
        let real = site_packages(13).join("nvidia/cu13");
        let mut command = project.command(&["env", "--capabilities", "8.0,9.0"]);
        command
            .env("CUDA_HOME", &real)
            .env("CUDA_COMPUTE_CAP", "75")
            .env("LIBRARY_PATH", "/own");
        let printed = Finished::of(command.output().unwrap());
        printed.succeeded();
        for name in ["CUDA_HOME", "CUDA_COMPUTE_CAP"] {
            let export = format!("export {name}=");
            assert!(!printed.stdout.contains(&export), "{printed:?}");
            let note = format!("note: {name} stays as you set it, ");
            assert!(printed.stderr.contains(&note), "{printed:?}");
        }
        for line in [
            "export CUDA_PATH='",
            "export CUDAARCHS='80-real;90-real'",
            "export TORCH_CUDA_ARCH_LIST='8.0;9.0'",
        ] {
            assert!(printed.stdout.contains(line), "{printed:?}");
        }
        let mut lines = printed.stdout.lines();
        let list = lines.find_map(|line| line.strip_prefix("export LIBRARY_PATH='"));
        let order: Vec<&str> = list.unwrap().trim_end_matches('\'').split(':').collect();
        assert!(order.contains(&"/own"), "{order:?}");
        assert!(order.last().unwrap().ends_with("/lib/stubs"), "{order:?}");
    }

    #[test]
    fn scripts_get_one_root_and_the_variables_of_their_packages() {
        let project = Project::bare_at("script-variables", "app", &[13]);
        project.write(
            "Cargo.toml",
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[package.metadata.cuda]\n\
             capabilities = [\"8.0\", \"9.0+PTX\"]\n[workspace]\n[workspace.metadata.cuda.package.app]\n\
             variables = { A = \"list\", B = \"torch\", C = \"cmake\", D = \"lowest\" }\n",
        );
        let script = "fn main() {\n    for name in [\"A\", \"B\", \"C\", \"D\"] {\n        \
                      println!(\"cargo::rustc-env={name}={}\", std::env::var(name).unwrap());\n    }\n    \
                      let home = std::env::var(\"CUDA_HOME\").unwrap();\n    \
                      assert!(std::path::Path::new(&home).join(\"bin/nvcc\").exists(), \"{home}\");\n}\n";
        project.write("build.rs", script);
        let main = "fn main() { println!(\"{}\", [env!(\"A\"), env!(\"B\"), env!(\"C\"), env!(\"D\")].join(\" \")) }\n";
        project.write("src/main.rs", main);
        let list = format!(":{}", site_packages(13).join("nvidia/cu13").display());
        let mut run = project.command(&["run"]);
        let run = Finished::of(
            run.env("CUDA_HOME", &list)
                .env("D", "mine")
                .output()
                .unwrap(),
        );
        run.ended_with(
            0,
            &[
                "note: build scripts get CUDA_HOME=",
                "may not understand the list :",
            ],
        );
        assert_eq!(
            run.stdout,
            "80,90 8.0;9.0+PTX 80-real;90-real;90-virtual mine\n"
        );
    }

    #[test]
    fn packages_that_are_not_built_decide_nothing() {
        let project = Project::bare_at("packages", "app", &[13]);
        project.write(
            "Cargo.toml",
            "[workspace]\nmembers = [\"a\", \"b\"]\nresolver = \"3\"\n",
        );
        for (name, rest) in [
            ("a", "capabilities = [\"8.0\"]\n"),
            (
                "b",
                "capabilities = [\"7.0\"]\njetson = true\ncomponents = [\"cudnn\"]\n",
            ),
        ] {
            let manifest = format!(
                "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
                 [package.metadata.cuda]\n{rest}"
            );
            project.write(&format!("{name}/Cargo.toml"), &manifest);
            project.write(&format!("{name}/src/lib.rs"), "");
        }
        let all = project.run(&["build"]);
        assert!(
            all.code != 0 && all.stderr.contains("`cudnn` not found"),
            "{all:?}"
        );
        project.run(&["build", "-p", "a"]).succeeded();
        let b = project.run(&["build", "--package=b"]);
        assert!(b.code != 0, "{b:?}");
    }

    #[test]
    fn variables_count_outside_a_workspace() {
        let outside = tempfile::tempdir().unwrap();
        let cache = outside.path().join("cache");
        store(&cache, &[12, 13]);
        let project = Project {
            path: outside.path().to_owned(),
            cache,
            target: outside.path().join("target"),
        };
        let run = |arguments: &[&str], name: &str, value: &str| {
            let mut command = project.command(arguments);
            command.env(name, value).env_remove("CUDA_BUILD_VIEWS");
            Finished::of(command.output().unwrap())
        };
        let release = "CUDA_BUILD_RELEASE";
        let capabilities = "CUDA_BUILD_CAPABILITIES";
        for (arguments, name, value, expected) in [
            (&["env"][..], release, "12", "ORT_CUDA_VERSION='12'"),
            (&["view"], release, "12", "/views/12.9-"),
            (&["doctor"], release, "12", " CUDA 12.9: "),
            (
                &["exec", "--", "printenv", "CUDAARCHS"],
                capabilities,
                "8.0,9.0",
                "80-real;90-real\n",
            ),
        ] {
            let run = run(arguments, name, value);
            assert!(run.stdout.contains(expected), "{arguments:?}: {run:?}");
        }
        run(&["env"], release, "x").failed(13, &["`x` is not a CUDA release"]);
        run(&["env"], capabilities, "1.0").failed(12, &["1.0"]);
    }

    #[test]
    fn variables_of_cargos_configuration_are_the_users() {
        let project = Project::bare_at("configured-env", "plain", &[12, 13]);
        let manifest =
            "[package]\nname = \"shells\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
        project.write("Cargo.toml", manifest);
        // The program prints a variable of its build script.
        let script = "fn main() { println!(\"cargo::rerun-if-env-changed=CUDA_HOME\");\n\
            println!(\"cargo::rustc-env=CAPABILITY={}\", std::env::var(\"CUDA_COMPUTE_CAP\").unwrap_or_default()); }\n";
        project.write("build.rs", script);
        let main = "fn main() { println!(\"{}\", env!(\"CAPABILITY\")); }\n";
        project.write("src/main.rs", main);
        let configure =
            |line: &str| project.write(".cargo/config.toml", &format!("[env]\n{line}\n"));
        configure("CUDA_COMPUTE_CAP = '86'");
        let other = "env.CUDA_COMPUTE_CAP='87'";
        for (arguments, expected) in [
            (&["run", "--capabilities", "8.0"][..], "86\n"),
            (&["run", "--capabilities", "8.0", "--config", other], "87\n"),
            (&["exec", "--", "printenv", "CUDA_COMPUTE_CAP"], "86\n"),
        ] {
            let run = project.run(arguments);
            assert_eq!(run.stdout, expected, "{run:?}");
        }
        // Other programs also get variables for nvcc, but no others: Cargo alone sets those.
        configure("NVCC_CCBIN = '/usr/bin/g++'\nOTHER = 'x'");
        let exec = |name: &str| project.run(&["exec", "--", "printenv", name]);
        assert_eq!(exec("NVCC_CCBIN").stdout, "/usr/bin/g++\n");
        assert_eq!(exec("OTHER").code, 1);
        // The search reads the variables, too.
        std::os::unix::fs::symlink(site_packages(12), project.path.join("own")).unwrap();
        configure("CUDA_HOME = { value = 'own', relative = true }");
        let env = project.run(&["env"]);
        assert!(env.stdout.contains("ORT_CUDA_VERSION='12'"), "{env:?}");
    }
}
