//! `cargo cuda toolkit` with real installers: among hostile repositories, unusual settings, damage and signals.

use cuda_find_core::trust::Trust;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cargo_cuda::exit_code;

use crate::support::{Finished, Sandbox, Tool, interruptible};

const RUNTIME: &str = "nvidia/cu13/lib/libcudart.so.13";

const ADD: [&str; 5] = ["add", "13.4.3", "--only", "cudart", "--json"];

fn run(command: &mut Command) -> Finished {
    Finished::of(command.output().unwrap())
}

fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn without_an_installer() {
    let sandbox = Sandbox::new(Tool::Nothing);
    let words = ["`uv`", "`python3 -m pip`", "`pip`", "hint: install uv"];
    sandbox
        .run(&["add", "13"])
        .failed(exit_code::NO_INSTALLER, &words);
    assert!(sandbox.stored().is_empty());
}

mod online {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::ExitStatusExt as _;

    use cuda_build::Component;
    use cuda_find_core::root::Root;
    use cuda_find_core::sources;
    use serde_json::json;

    use super::*;
    use crate::support::uv;

    const BOTH: [Tool; 2] = [Tool::Uv, Tool::Pip];

    /// An index that refuses every connection.
    const UNREACHABLE: &str = "http://127.0.0.1:9/simple";

    #[test]
    fn the_search_finds_an_added_toolkit() {
        let mut names = Vec::new();
        for tool in BOTH {
            let sandbox = Sandbox::new(tool);
            let added = sandbox.run(&ADD).json();
            assert_eq!(added["version"], "13.4.3");
            assert_eq!(added["fetched"], json!(["nvidia-cuda-runtime"]));

            let found = sources::stored_toolkits(
                &Root::system(),
                &Trust::default(),
                &sandbox.path("cache/toolkits"),
            );
            let toolkit = found.into_iter().map(Result::unwrap).next().unwrap();
            assert_eq!(toolkit.components, [Component::Cudart]);
            assert_eq!(toolkit.path.to_str(), added["path"].as_str());
            assert!(fs::metadata(toolkit.path.join(RUNTIME)).unwrap().len() > 100_000);
            assert_eq!(sandbox.stored(), [added["name"].as_str().unwrap()]);
            names.push(added["name"].clone());
        }
        assert_eq!(names[0], names[1], "of uv and of pip");
    }

    #[test]
    fn a_stored_toolkit_needs_no_program_and_no_network() {
        let sandbox = Sandbox::new(Tool::Uv);
        sandbox.run(&["add", "12", "--only", "cudart"]).succeeded();
        let before = (sandbox.calls(), sandbox.stored());
        let mut again = sandbox.toolkit(&["add", "12", "--only", "cudart", "--json"]);
        let report = run(again
            .env("PATH", "/nonexistent")
            .env("UV_INDEX_URL", UNREACHABLE));
        assert_eq!(report.json()["new"], false);
        assert_eq!((sandbox.calls(), sandbox.stored()), before);
    }

    #[test]
    fn components_are_added_at_the_same_versions() {
        let sandbox = Sandbox::new(Tool::Uv);
        let add = |component| {
            let run = sandbox.run(&["add", "13", "--only", component, "--json"]);
            run.json()
        };
        let (first, both) = (add("cudart"), add("profiler-api"));
        assert_eq!(both["version"], first["version"]);
        assert_eq!(both["components"], json!(["cudart", "profiler-api"]));
        let packages = ["nvidia-cuda-profiler-api", "nvidia-cuda-runtime"];
        assert_eq!(both["fetched"], json!(packages));
        let inode = |report: &serde_json::Value| {
            let path = Path::new(report["path"].as_str().unwrap()).join(RUNTIME);
            fs::metadata(path).unwrap().ino()
        };
        assert_eq!(inode(&first), inode(&both), "uv links files of its cache");
    }

    #[test]
    fn the_lock_file_decides() {
        let sandbox = Sandbox::new(Tool::Uv);
        let lock = sandbox.path("work/cuda-toolkits.lock");
        fs::write(sandbox.path("work/Cargo.toml"), "[workspace]\n").unwrap();
        let add = ["add", "13", "--only", "cudart"];
        let locked = [&add[..], &["--locked"]].concat();
        sandbox
            .run(&locked)
            .failed(exit_code::LOCK, &["does not pin CUDA 13"]);
        assert!(!lock.exists());
        // In this workspace, `13` means an older release.
        let older = sandbox.run(&["add", "13.4.2", "--only", "cudart"]);
        older.succeeded();
        let text = fs::read_to_string(&lock).unwrap();
        assert!(text.contains("sha256-") && !text.contains("://"), "{text}");
        let text = text.replace("request = \"13.4.2\"", "request = \"13\"");
        fs::write(&lock, &text).unwrap();
        let locked_json = [&locked[..], &["--json"]].concat();
        for tool in BOTH {
            let other = Sandbox::new(tool);
            fs::copy(&lock, other.path("work/cuda-toolkits.lock")).unwrap();
            fs::write(other.path("work/Cargo.toml"), "[workspace]\n").unwrap();
            assert_eq!(other.run(&locked_json).json()["version"], "13.4.2");
            let more = other.run(&["add", "13", "--only", "cudart,profiler-api", "--locked"]);
            more.failed(exit_code::LOCK, &["does not pin `profiler-api`"]);
            let now = fs::read_to_string(other.path("work/cuda-toolkits.lock"));
            assert_eq!(now.unwrap(), text);
        }
        // `--upgrade` looks for newer releases.
        let upgraded = sandbox.run(&[&add[..], &["--upgrade", "--json"]].concat());
        assert_eq!(upgraded.json()["version"], "13.5.0");
        assert_ne!(fs::read_to_string(&lock).unwrap(), text);
    }

    #[test]
    fn a_file_that_is_not_the_pinned_one_is_refused() {
        for tool in BOTH {
            let sandbox = Sandbox::new(tool);
            fs::write(sandbox.path("work/Cargo.toml"), "[workspace]\n").unwrap();
            let hash = "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
            let lock = format!(
                "format_version = 1\n[[toolkit]]\nrequest = \"13\"\nversion = \"13.4.3\"\n[[toolkit.packages]]\n\
                 name = \"nvidia-cuda-runtime\"\nversion = \"13.4.92\"\nhashes = [\"{hash}\"]\n"
            );
            fs::write(sandbox.path("work/cuda-toolkits.lock"), &lock).unwrap();
            let run = sandbox.run(&["add", "13", "--only", "cudart"]);
            let words = ["nvidia-cuda-runtime", " failed: exit status", "--upgrade"];
            run.failed(exit_code::INSTALLER, &words);
            assert!(sandbox.stored().is_empty(), "{:?}", sandbox.stored());
        }
    }

    #[test]
    fn nothing_of_the_current_directory_is_run_or_read() {
        for tool in BOTH {
            let sandbox = Sandbox::new(tool);
            let ran = sandbox.path("ran");
            let code = format!("open({ran:?}, 'w')\nraise SystemExit(1)\n");
            for module in ["pip.py", "pip/__main__.py", "json.py", "sitecustomize.py"] {
                write(sandbox.path("work").join(module), &code);
            }
            let script = format!("#!/bin/sh\n: > '{}'\nexit 1\n", ran.display());
            for program in ["work/.venv/bin/python", "work/bin/uv", "work/bin/python3"] {
                write(sandbox.path(program), &script);
                let mode = fs::Permissions::from_mode(0o755);
                fs::set_permissions(sandbox.path(program), mode).unwrap();
            }
            write(sandbox.path("work/.venv/pyvenv.cfg"), "home = /usr/bin\n");
            let index = format!("[[index]]\nurl = \"{UNREACHABLE}\"\ndefault = true\n");
            write(sandbox.path("work/uv.toml"), &index);
            let project = index.replace("[[index]]", "[[tool.uv.index]]");
            write(sandbox.path("uv.toml"), &project);
            write(sandbox.path("work/pip.conf"), "[global]\nno-index = true\n");
            let path = format!("bin:.:{}", sandbox.path("bin").display());
            run(sandbox.toolkit(&ADD).env("PATH", path)).succeeded();
            assert!(!ran.exists(), "{tool:?}");
        }
    }

    #[test]
    fn the_users_configuration_decides_the_index() {
        let uv_toml = format!("index-url = \"{UNREACHABLE}\"\n");
        let pip_conf = format!("[global]\nindex-url = {UNREACHABLE}\n");
        let (uv, pip) = ("uv/uv.toml", "pip/pip.conf");
        for (tool, file, text) in [(Tool::Uv, uv, uv_toml), (Tool::Pip, pip, pip_conf)] {
            let sandbox = Sandbox::new(tool);
            write(sandbox.path("config").join(file), &text);
            let mut add = sandbox.toolkit(&ADD);
            add.env("XDG_CONFIG_HOME", sandbox.path("config"))
                .env("UV_HTTP_RETRIES", "0")
                .env("UV_CACHE_DIR", sandbox.path("uv-cache"))
                .env("PIP_RETRIES", "1")
                .env("PIP_FIND_LINKS", "");
            // The whole text of the installer is shown, with the cause.
            let words = ["could not resolve", "Connection refused"];
            run(&mut add).failed(exit_code::INSTALLER, &words);
            assert!(sandbox.stored().is_empty());
        }
    }

    #[test]
    fn settings_of_how_and_where_to_install_do_not_count() {
        let pip_conf = "[global]\nverbose = 2\nlog = LOG\nrequire-hashes = true\n\
                        [install]\nprefix = ELSEWHERE\nroot = ELSEWHERE\ntarget = ELSEWHERE\nuser = true\n\
                        dry-run = true\nno-deps = true\n";
        for tool in BOTH {
            let sandbox = Sandbox::new(tool);
            let (elsewhere, log) = (sandbox.path("elsewhere"), sandbox.path("log"));
            let conf = pip_conf
                .replace("ELSEWHERE", elsewhere.to_str().unwrap())
                .replace("LOG", log.to_str().unwrap());
            write(sandbox.path("config/pip/pip.conf"), &conf);
            let uv_toml =
                "link-mode = \"symlink\"\ncompile-bytecode = true\n[pip]\nrequire-hashes = true\n";
            write(sandbox.path("config/uv/uv.toml"), uv_toml);
            let mut add = sandbox.toolkit(&ADD);
            add.env("XDG_CONFIG_HOME", sandbox.path("config"));
            let report = run(add.env("PIP_LOG", &log)).json();
            let runtime = Path::new(report["path"].as_str().unwrap()).join(RUNTIME);
            assert!(fs::symlink_metadata(runtime).unwrap().is_file());
            assert!(!elsewhere.exists() && !log.exists(), "{tool:?}");
        }
    }

    #[test]
    fn a_damaged_toolkit_is_repaired() {
        for tool in BOTH {
            let sandbox = Sandbox::new(tool);
            let toolkit = sandbox.run(&ADD).json();
            let toolkit = Path::new(toolkit["path"].as_str().unwrap());
            let (runtime, manifest) = (toolkit.join(RUNTIME), toolkit.join(sources::MANIFEST));
            type Damage<'a> = &'a dyn Fn();
            let damages: [(&str, Damage<'_>); 3] = [
                ("is missing", &|| fs::remove_file(&runtime).unwrap()),
                // Also in the cache of uv, to which the file is a hard link.
                ("is damaged", &|| fs::write(&runtime, "").unwrap()),
                ("toolkit.toml", &|| {
                    fs::write(&manifest, "\u{1b}[31m").unwrap();
                }),
            ];
            for (word, damage) in damages {
                damage();
                let list = sandbox.run(&["list"]).stdout;
                assert!(list.contains(word) && !list.contains('\u{1b}'), "{list}");
                assert!(list.contains("cannot be used"), "{list}");
                let report = sandbox.run(&ADD).json();
                assert_eq!(
                    (&report["new"], report["path"].as_str()),
                    (&json!(true), toolkit.to_str())
                );
                assert!(fs::metadata(&runtime).unwrap().len() > 100_000, "{word}");
                assert_eq!(sandbox.run(&ADD).json()["new"], false);
            }
        }
    }

    /// `toolkit add` with an installer that sleeps while it fetches, and the installer's process.
    fn started(sandbox: &Sandbox) -> (Child, PathBuf) {
        let pid = sandbox.path("pid");
        let wait = format!(
            "case \"$*\" in *--require-hashes*) echo $$ > '{0}.new'; /bin/mv '{0}.new' '{0}'; exec /bin/sleep 60;; esac",
            pid.display()
        );
        sandbox.shim("uv", &wait, uv());
        let mut add = sandbox.toolkit(&ADD);
        let child = interruptible(&mut add)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !pid.exists() {
            assert!(Instant::now() < deadline, "it never began");
            sleep(Duration::from_millis(20));
        }
        let pid = fs::read_to_string(pid).unwrap();
        (child.unwrap(), Path::new("/proc").join(pid.trim()))
    }

    #[test]
    fn a_signal_ends_the_installer_and_removes_its_files() {
        for (signal, number) in [("INT", 2), ("TERM", 15)] {
            let sandbox = Sandbox::new(Tool::Uv);
            let (child, installer) = started(&sandbox);
            let kill = ["-c", &format!("kill -{signal} {}", child.id())];
            run(Command::new("sh").args(kill)).succeeded();
            let output = child.wait_with_output().unwrap();
            // It ends by the signal, as a program without a handler.
            assert_eq!(output.status.signal(), Some(number), "{output:?}");
            assert!(!installer.exists(), "{signal}: it goes on");
            assert!(sandbox.stored().is_empty(), "{:?}", sandbox.stored());
        }
    }

    #[test]
    fn a_killed_command_leaves_nothing_in_the_way() {
        let sandbox = Sandbox::new(Tool::Uv);
        let (mut child, installer) = started(&sandbox);
        child.kill().unwrap();
        child.wait().unwrap();
        // SIGKILL leaves no time to clean up, and the installer still writes there, with the lock.
        assert!(installer.exists());
        let part = sandbox.stored();
        assert!(part[0].starts_with(".part-"), "{part:?}");
        let pid = installer.file_name().unwrap();
        run(Command::new("kill").arg("-9").arg(pid)).succeeded();
        while installer.exists() {
            sleep(Duration::from_millis(20));
        }
        sandbox.shim("uv", "", uv());
        sandbox.run(&ADD).succeeded();
        assert!(!sandbox.stored().contains(&part[0]));
    }

    #[test]
    fn two_at_once_download_once() {
        let sandbox = Sandbox::new(Tool::Uv);
        // Long enough that both have resolved before one is done.
        let slow = "case \"$*\" in *--require-hashes*) /bin/sleep 3;; esac";
        sandbox.shim("uv", slow, uv());
        let start = || {
            let mut add = sandbox.toolkit(&["add", "13", "--only", "cudart", "--json"]);
            let add = add.stdout(Stdio::piped()).stderr(Stdio::piped());
            add.spawn().unwrap()
        };
        let runs = [start(), start()].map(|child| Finished::of(child.wait_with_output().unwrap()));
        assert_eq!(sandbox.fetches(), 1, "{runs:?}");
        assert_eq!(runs[0].json()["path"], runs[1].json()["path"]);
        let waits = |run: &Finished| run.stderr.contains("Blocking waiting for another");
        assert!(runs.iter().any(waits), "{runs:?}");
        assert_eq!(sandbox.stored().len(), 1);
    }

    /// Headers and libraries for cross compilation. nvcc of that platform would not run here.
    #[test]
    fn libraries_of_another_platform_are_fetched_by_uv() {
        const TARGET: [&str; 2] = ["--target", "aarch64-unknown-linux-gnu"];
        let sandbox = Sandbox::new(Tool::Uv);
        let add = || sandbox.run(&[&ADD[..], &TARGET].concat()).json();
        let other = add();
        assert_eq!(other["components"], json!(["cudart"]));
        let library = Path::new(other["path"].as_str().unwrap()).join(RUNTIME);
        let aarch64 = 183;
        assert_eq!(Root::system().elf_machine(&library), Some(aarch64));
        assert_eq!(add()["new"], false);
        assert_ne!(sandbox.run(&ADD).json()["name"], other["name"]);
        let words = ["only uv fetches for another platform", "hint: install uv"];
        let pip = Sandbox::new(Tool::Pip).run(&[&ADD[..], &TARGET].concat());
        pip.failed(exit_code::NO_INSTALLER, &words);
    }
}
