//! Finished wheels on an index on this machine, the run steps of the template's workflow, and the wheels beside
//! packages that pin CUDA's: PyTorch, vLLM and CuPy.

mod online {
    use std::collections::BTreeMap;
    use std::fs;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use serde_json::Value;

    use crate::project::{place, store};
    use crate::support::{EXCLUDE_NEWER, Finished, python};
    use crate::tools::{self, publisher, tool};
    use crate::wheel_template::{self, clean, clone, constraints, files, loaded, wheel};
    use crate::workflow;

    /// An index server that ends with the test.
    struct Index {
        server: Child,
        port: u16,
    }

    impl Index {
        fn start(packages: &Path) -> Self {
            fs::create_dir_all(packages).unwrap();
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let server = Command::new(publisher("pypi-server"))
                .args([
                    "run",
                    "--interface",
                    "127.0.0.1",
                    "--port",
                    &port.to_string(),
                ])
                // Anyone may upload, and missing packages are not looked up elsewhere.
                .args([
                    "--passwords",
                    ".",
                    "--authenticate",
                    ".",
                    "--disable-fallback",
                ])
                .arg(packages)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let index = Self { server, port };
            for _ in 0..600 {
                if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                    return index;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            panic!("the index server does not accept connections");
        }

        fn url(&self, path: &str) -> String {
            format!("http://127.0.0.1:{}/{path}", self.port)
        }
    }

    impl Drop for Index {
        fn drop(&mut self) {
            let _ = self.server.kill();
            let _ = self.server.wait();
        }
    }

    /// Runs the lines that `wheel` has printed for an uploader.
    fn upload(report: &str, uploader: &str, project: &Path, index: &Index) {
        let lines: Vec<&str> = report
            .lines()
            .filter_map(|line| line.strip_prefix("  "))
            .filter(|line| line.starts_with(uploader))
            .collect();
        assert_eq!(lines.len(), 1, "{report}");
        for line in lines {
            let mut command = Command::new("sh");
            command.args(["-c", line]).current_dir(project);
            command.env("PATH", path_with(&[&publisher("twine")]));
            command.env("UV_PUBLISH_URL", index.url(""));
            command.env("TWINE_REPOSITORY_URL", index.url(""));
            for name in ["UV_PUBLISH_", "TWINE_"] {
                command.env(format!("{name}USERNAME"), "nobody");
                command.env(format!("{name}PASSWORD"), "nothing");
            }
            Finished::of(command.output().unwrap()).succeeded();
        }
    }

    /// `PATH` with the directories of the tools and of more programs.
    fn path_with(programs: &[&Path]) -> std::ffi::OsString {
        let directories = programs.iter().map(|program| program.parent().unwrap());
        let directories = directories.chain([tools::directory()]).map(Path::to_owned);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all: Vec<PathBuf> = directories.chain(std::env::split_paths(&path)).collect();
        std::env::join_paths(all).unwrap()
    }

    /// Runs the steps that build and import the wheel of one major, as a runner would. The options for
    /// the locked toolkits and for zig are left out: the tests have other toolkits, and no zig.
    fn run_workflow(project: &Path, cache: &Path, major: u32) {
        let workflow = workflow::read(&project.join(".github/workflows/wheels.yml"));
        let steps = workflow::steps(&workflow);
        let _ = fs::remove_dir_all(project.join("dist"));
        let cargo_cuda = Path::new(env!("CARGO_BIN_EXE_cargo-cuda"));
        for name in ["Build", "Import"] {
            let step = steps.iter().find(|step| step["name"] == name).unwrap();
            let script = workflow::bash(step["run"].as_str().unwrap());
            let mut command = clean(script, cache);
            command
                .env("PATH", path_with(&[cargo_cuda]))
                .env("CUDA", major.to_string())
                .env("PYTHON", "3")
                .env("UV_CONSTRAINT", constraints(cache))
                .env("WHEEL_OPTIONS", "")
                .env("MATURIN_OPTIONS", "")
                .current_dir(project);
            let run = Finished::of(command.output().unwrap());
            assert_eq!(run.code, 0, "{name}: {run:?}");
            if name == "Import" {
                assert!(run.stdout.starts_with(&major.to_string()), "{run:?}");
            }
        }
    }

    /// The packages that uv chooses, with their versions. `wheels` has wheels that are not in the index.
    fn with_uv(requirements: &[&str], wheels: &Path) -> BTreeMap<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let input = directory.path().join("requirements.in");
        fs::write(&input, requirements.join("\n")).unwrap();
        let mut command = Command::new(tool("uv"));
        command
            .args(["pip", "compile", "--quiet", "--no-header", "--no-annotate"])
            .args(["--python-version", "3.12"])
            .args(["--python-platform", "x86_64-manylinux_2_34"])
            .args(["--exclude-newer", EXCLUDE_NEWER])
            .arg("--find-links")
            .arg(wheels)
            .arg(&input);
        let run = Finished::of(command.output().unwrap());
        assert_eq!(run.code, 0, "{requirements:?}: {run:?}");
        let pins = run.stdout.lines().filter_map(|line| line.split_once("=="));
        pins.map(|(name, version)| (name.to_owned(), version.trim().to_owned()))
            .collect()
    }

    /// The same with pip. If the index serves no metadata beside the wheels, `fast-deps` reads it from the end of each
    /// wheel instead of downloading gigabytes.
    fn with_pip(requirements: &[&str], wheels: &Path) -> BTreeMap<String, String> {
        let mut command = Command::new(tool("uv"));
        command
            .args(["tool", "run", "--quiet", "--python"])
            .arg(python())
            .args(["pip@26.3", "install", "--quiet", "--use-feature=fast-deps"])
            .args(["--dry-run", "--ignore-installed", "--only-binary", ":all:"])
            .args(["--uploaded-prior-to", EXCLUDE_NEWER])
            .args(["--report", "-", "--find-links"])
            .arg(wheels)
            .args(requirements);
        let run = Finished::of(command.output().unwrap());
        assert_eq!(run.code, 0, "{requirements:?}: {run:?}");
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        let installed = report["install"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_lowercase();
        installed
            .map(|package| &package["metadata"])
            .map(|metadata| (text(&metadata["name"]), text(&metadata["version"])))
            .collect()
    }

    /// The versions of a package alone, and of one that is named before the wheel. uv decides in the order of the
    /// requirements: after any package that accepts the newest CUDA, it may take an older vLLM.
    fn alone_and_beside(
        resolve: impl Fn(&[&str], &Path) -> BTreeMap<String, String>,
        wheel: &Path,
        package: &str,
    ) -> [String; 2] {
        let file_name = wheel.file_name().unwrap().to_str().unwrap();
        let distribution = file_name.split('-').next().unwrap().replace('_', "-");
        let directory = wheel.parent().unwrap();
        let alone = resolve(&[package], directory);
        let beside = resolve(&[package, &distribution], directory);
        assert!(beside.contains_key(&distribution), "{beside:?}");
        let name = package.split("==").next().unwrap();
        [alone, beside].map(|versions| versions[name].clone())
    }

    /// Installs the lowest versions that the wheel accepts, and prints the version of the CUDA runtime that the module
    /// loads.
    fn runs_with_the_lowest_versions(place: &Path, wheel: &Path) -> String {
        let venv = place.join("lowest");
        let _ = fs::remove_dir_all(&venv);
        let run = |command: &mut Command| Finished::of(command.output().unwrap()).succeeded();
        run(Command::new(tool("uv"))
            .args(["venv", "--quiet"])
            .arg(&venv));
        run(Command::new(tool("uv"))
            .args([
                "pip",
                "install",
                "--quiet",
                "--resolution",
                "lowest",
                "--python",
            ])
            .arg(&venv)
            .arg(wheel));
        let run =
            wheel_template::python(&venv, "import saxpy; print(saxpy.cuda_runtime_version())");
        assert_eq!(run.code, 0, "{}", run.stdout);
        let environment = fs::canonicalize(&venv).unwrap();
        let loaded = loaded(&run, "/libcudart.so");
        assert!(loaded.starts_with(environment), "{}", loaded.display());
        run.stdout.trim().to_owned()
    }

    /// Wheels of the template for CUDA 12 and 13, its directory, and what `wheel` has printed.
    fn built(name: &str, cache: &Path) -> (PathBuf, [PathBuf; 2], String) {
        store(cache, &[12, 13]);
        let project = clone(name);
        let run = wheel(&project, cache, &["--cuda", "12,13"]).output();
        let run = Finished::of(run.unwrap());
        run.succeeded();
        let wheels = files(&project.join("dist")).try_into().unwrap();
        (project, wheels, run.stdout)
    }

    #[test]
    #[ignore = "minutes: the printed lines publish the wheels, and they run with the lowest versions that they accept"]
    fn published_wheels_are_installed() {
        let work = place("wheel-publish");
        let (project, wheels, report) = built("wheel-publish-clone", &work.join("cache"));
        for (uploader, major) in [("uv publish ", 12), ("twine upload ", 13)] {
            let packages = work.join(format!("index-{major}"));
            let index = Index::start(&packages);
            upload(&report, uploader, &project, &index);
            assert_eq!(fs::read_dir(&packages).unwrap().count(), 2);
            let venv = wheel_template::venv(&work, &format!("published-{major}"), &[]);
            let mut install = Command::new(venv.join("bin/pip"));
            install
                .args([
                    "install",
                    "--quiet",
                    "--extra-index-url",
                    &index.url("simple/"),
                ])
                .args(["--constraint".into(), constraints(&work)])
                .arg(format!("saxpy-cu{major}==0.1.0"));
            Finished::of(install.output().unwrap()).succeeded();
            let code = "import saxpy; print(saxpy.cuda_runtime_version() // 1000)";
            let run = wheel_template::python(&venv, code);
            assert_eq!(run.stdout, format!("{major}\n"), "{}", run.stderr);
        }
        for (wheel, version) in wheels.iter().zip(["12000", "13000"]) {
            assert_eq!(runs_with_the_lowest_versions(&work, wheel), version);
        }
        run_workflow(&project, &work.join("cache"), 13);
    }

    #[test]
    #[ignore = "minutes: the wheels do not change the versions of packages that pin CUDA"]
    fn wheels_resolve_beside_published_releases() {
        let cache = place("wheel-resolution").join("cache");
        let (project, [cu12, cu13], _) = built("wheel-resolution-clone", &cache);
        for (wheel, package) in [
            (&cu12, "torch==2.8.0"),
            (&cu12, "torch==2.9.1"),
            (&cu12, "torch==2.10.0"),
            (&cu12, "cupy-cuda12x"),
            (&cu13, "torch==2.11.0"),
            (&cu13, "torch==2.14.0"),
            (&cu13, "torch==2.15.0"),
            (&cu13, "torch"),
            (&cu13, "vllm==0.32.0"),
            (&cu13, "vllm"),
            (&cu13, "cupy-cuda13x"),
        ] {
            for resolve in [with_uv, with_pip] {
                let [alone, beside] = alone_and_beside(resolve, wheel, package);
                assert_eq!(alone, beside, "{package}");
            }
        }
        // A wheel that requires the release of its build changes PyTorch.
        let manifest = project.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let raised = r#"components = [{ name = "cudart", version = ">=13.4" }]"#;
        let changed = text.replace(r#"components = ["cudart"]"#, raised);
        assert_ne!(text, changed);
        fs::write(&manifest, changed).unwrap();
        let run = wheel(&project, &cache, &["--cuda", "13", "--out", "raised"])
            .output()
            .unwrap();
        assert_eq!(Finished::of(run).code, 0);
        let [raised] = &files(&project.join("raised"))[..] else {
            panic!("one wheel is expected");
        };
        for resolve in [with_uv, with_pip] {
            let [alone, beside] = alone_and_beside(resolve, raised, "torch");
            assert_ne!(alone, beside);
        }
    }
}
