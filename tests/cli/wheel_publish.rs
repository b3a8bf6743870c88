//! Finished wheels on an index on this machine, and the run steps of the template's workflow.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::Finished;
use crate::tools::{self, publisher, tool};
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
    assert_eq!(lines.len(), 2, "{report}");
    assert!(lines[1].ends_with("-py3-none-any.whl"), "{report}");
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

/// Publishes the wheels with each uploader, as the report states it, and installs them through the
/// metapackage.
pub fn publish_and_install(report: &str, project: &Path, work: &Path) {
    for (uploader, major, installer) in [("uv publish ", 12, "uv"), ("twine upload ", 13, "pip")] {
        let packages = work.join(format!("index-{major}"));
        let index = Index::start(&packages);
        upload(report, uploader, project, &index);
        assert_eq!(fs::read_dir(&packages).unwrap().count(), 3);

        let venv = work.join(format!("published-{major}"));
        let run = |command: &mut Command| Finished::of(command.output().unwrap()).succeeded();
        run(Command::new(tool("uv"))
            .args(["venv", "--seed", "--quiet"])
            .arg(&venv));
        let mut install = match installer {
            "uv" => {
                let mut uv = Command::new(tool("uv"));
                uv.args([
                    "pip",
                    "install",
                    "--quiet",
                    "--index-strategy",
                    "unsafe-best-match",
                ]);
                uv.arg("--python").arg(&venv);
                uv
            }
            _ => {
                let mut pip = Command::new(venv.join("bin/pip"));
                pip.args(["install", "--quiet", "--disable-pip-version-check"]);
                pip
            }
        };
        run(install
            .args(["--extra-index-url", &index.url("simple/")])
            .args([
                "--constraint".into(),
                crate::wheel_template::constraints(work),
            ])
            .arg(format!("saxpy[cu{major}]==0.1.0")));
        let code = "import importlib.metadata as m, saxpy\n\
                    print(m.version('saxpy'), saxpy.cuda_runtime_version() // 1000)";
        let run = crate::wheel_template::python(&venv, code);
        assert_eq!(run.stdout, format!("0.1.0 {major}\n"), "{}", run.stderr);
    }
}

/// Runs the steps that build and import the wheel of one major, as a runner would. The options for
/// the locked toolkits and for zig are left out: the tests have other toolkits, and no zig.
pub fn run_workflow(project: &Path, cache: &Path, major: u32) {
    let workflow = workflow::read(&project.join(".github/workflows/wheels.yml"));
    let steps = workflow::steps(&workflow);
    let _ = fs::remove_dir_all(project.join("dist"));
    let cargo_cuda = Path::new(env!("CARGO_BIN_EXE_cargo-cuda"));
    for name in ["Build", "Import"] {
        let step = steps.iter().find(|step| step["name"] == name).unwrap();
        let script = workflow::bash(step["run"].as_str().unwrap());
        let mut command = crate::wheel_template::clean(script, cache);
        command
            .env("PATH", path_with(&[cargo_cuda]))
            .env("CUDA", major.to_string())
            .env("PYTHON", "3")
            .env("UV_CONSTRAINT", crate::wheel_template::constraints(cache))
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
