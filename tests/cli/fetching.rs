//! `cargo cuda toolkit` among hostile repositories, unusual settings, damage and signals.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cargo_cuda::exit_code;
use cuda_build::Component;
use cuda_build::internal::{Root, Target, store};

use crate::support::{EXCLUDE_NEWER, Finished, Sandbox, Tool, left_out, online, python, uv};

const BOTH: [Tool; 2] = [Tool::Uv, Tool::Pip];

/// An index that refuses every connection.
const UNREACHABLE: &str = "http://127.0.0.1:9/simple";

const RUNTIME: &str = "nvidia/cu13/lib/libcudart.so.13";

const ADD: [&str; 5] = ["add", "13.4.3", "--only", "cudart", "--json"];

fn run(command: &mut Command) -> Finished {
    Finished::of(command.output().unwrap())
}

fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A toolkit with cudart in the store of a sandbox.
fn added(sandbox: &Sandbox) -> PathBuf {
    PathBuf::from(sandbox.run(&ADD).json()["path"].as_str().unwrap())
}

/// Whether the search finds cudart in a directory of the store.
fn has_cudart(toolkit: &Path) -> bool {
    let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
    let attempt = store::probe(&Root::system(), &target, toolkit, false);
    let mut sets = attempt.sets.iter();
    sets.any(|set| set.get(Component::Cudart).is_some())
}

#[test]
fn nothing_of_the_current_directory_is_run_or_read() {
    if !online() {
        return;
    }
    for tool in BOTH {
        let sandbox = Sandbox::new(tool);
        let ran = sandbox.path("ran");
        let code = format!(
            "open({:?}, 'w')\nraise SystemExit(1)\n",
            ran.to_str().unwrap()
        );
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

        let mut path = std::ffi::OsString::from("bin:.:");
        path.push(sandbox.path("bin"));
        let mut add = sandbox.toolkit(&ADD);
        run(add.env("PATH", path)).succeeded();
        assert!(!ran.exists(), "{tool:?}");
    }
}

#[test]
fn the_users_configuration_decides_the_index() {
    if !online() {
        return;
    }
    for (tool, file, text) in [
        (
            Tool::Uv,
            "uv/uv.toml",
            format!("index-url = \"{UNREACHABLE}\"\n"),
        ),
        (
            Tool::Pip,
            "pip/pip.conf",
            format!("[global]\nindex-url = {UNREACHABLE}\n"),
        ),
    ] {
        let sandbox = Sandbox::new(tool);
        write(sandbox.path("config").join(file), &text);
        let mut add = sandbox.toolkit(&ADD);
        add.env("XDG_CONFIG_HOME", sandbox.path("config"))
            .env("UV_HTTP_RETRIES", "0")
            .env("UV_CACHE_DIR", sandbox.path("uv-cache"))
            .env("PIP_RETRIES", "0")
            .env("PIP_FIND_LINKS", "");
        run(&mut add).failed(exit_code::INDEX, &["127.0.0.1:9"]);
    }
}

#[test]
fn relative_paths_in_settings_are_of_the_current_directory() {
    if !online() {
        return;
    }
    for tool in BOTH {
        let sandbox = Sandbox::new(tool);
        let mut download = Command::new(python());
        download
            .args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"])
            .arg(sandbox.path("work/wheels"))
            .args(["cuda-toolkit==13.4.3", "nvidia-cuda-runtime==13.4.92"]);
        run(&mut download).succeeded();
        let mut add = sandbox.toolkit(&ADD);
        add.env("UV_NO_INDEX", "1")
            .env("UV_FIND_LINKS", "wheels")
            .env("UV_CACHE_DIR", "uv-cache")
            .env_remove("UV_EXCLUDE_NEWER")
            .env("PIP_NO_INDEX", "1")
            .env("PIP_FIND_LINKS", "wheels")
            .env("PIP_CACHE_DIR", "pip-cache");
        assert_eq!(run(&mut add).json()["version"], "13.4.3", "{tool:?}");
    }
}

#[test]
fn settings_of_how_and_where_to_install_do_not_count() {
    if !online() {
        return;
    }
    let pip_conf = "[global]\nverbose = 2\nlog = LOG\nrequire-hashes = true\n\
                    [install]\nprefix = ELSEWHERE\nroot = ELSEWHERE\ntarget = ELSEWHERE\nuser = true\n\
                    dry-run = true\nno-deps = true\n";
    for tool in BOTH {
        let sandbox = Sandbox::new(tool);
        let elsewhere = sandbox.path("elsewhere");
        let log = sandbox.path("log");
        let conf = pip_conf
            .replace("ELSEWHERE", elsewhere.to_str().unwrap())
            .replace("LOG", log.to_str().unwrap());
        write(sandbox.path("config/pip/pip.conf"), &conf);
        let uv_toml =
            "link-mode = \"symlink\"\ncompile-bytecode = true\n[pip]\nrequire-hashes = true\n";
        write(sandbox.path("config/uv/uv.toml"), uv_toml);
        let mut add = sandbox.toolkit(&ADD);
        for name in ["PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_SRC"] {
            add.env(name, &elsewhere);
        }
        for name in [
            "PIP_USER",
            "PIP_REQUIRE_VIRTUALENV",
            "PIP_REQUIRE_HASHES",
            "PIP_DRY_RUN",
            "PIP_VERBOSE",
            "PIP_NO_DEPS",
            "PIP_PRE",
            "UV_COMPILE_BYTECODE",
            "UV_REQUIRE_HASHES",
            "UV_NO_BUILD",
            "UV_SYSTEM_PYTHON",
        ] {
            add.env(name, "1");
        }
        add.env("XDG_CONFIG_HOME", sandbox.path("config"))
            .env("PIP_LOG", &log)
            .env("PIP_REPORT", "-")
            .env("PIP_NO_BINARY", ":all:")
            .env("UV_NO_BINARY", ":all:")
            .env("UV_LINK_MODE", "symlink")
            .env("UV_RESOLUTION", "lowest")
            .env("UV_PYTHON", "3.1");
        let report = run(&mut add).json();
        assert_eq!(report["version"], "13.4.3");
        let runtime = Path::new(report["path"].as_str().unwrap()).join(RUNTIME);
        assert!(fs::symlink_metadata(runtime).unwrap().is_file());
        assert!(!elsewhere.exists() && !log.exists(), "{tool:?}");
    }
}

#[test]
fn a_lock_that_names_other_packages_is_refused() {
    let sandbox = Sandbox::new(Tool::Nothing);
    write(sandbox.path("work/Cargo.toml"), "[workspace]\n");
    let good = "format_version = 1\n[[toolkit]]\nrequest = \"13\"\nversion = \"13.4.3\"\n[[toolkit.packages]]\n\
                name = \"nvidia-cuda-runtime\"\nversion = \"13.4.92\"\n\
                hashes = [\"sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\"]\n";
    let lock = sandbox.path("work/cuda-toolkits.lock");
    let refused = |text: &str, word: &str| {
        fs::write(&lock, text).unwrap();
        let run = sandbox.run(&["add", "13", "--only", "cudart"]);
        run.failed(exit_code::LOCK, &["cuda-toolkits.lock", word, "hint:"]);
        assert!(!run.stderr.contains('\u{1b}'), "{run:?}");
        assert!(!sandbox.path("cache").exists() && !sandbox.path("escape").exists());
    };
    for (from, to, word) in [
        (
            "nvidia-cuda-runtime",
            "six",
            "contains no component of CUDA",
        ),
        (
            "nvidia-cuda-runtime",
            "\\u001b[31m",
            "contains no component of CUDA",
        ),
        (
            "\"13.4.3\"",
            "\"13.99.0\"",
            "does not belong to CUDA 13.99.0",
        ),
        (
            "\"13.4.3\"",
            "\"13.4.3\\u001b[31mred\\n\"",
            "is not a CUDA release",
        ),
        (
            "\"13.4.3\"",
            "\"13./../../../escape\"",
            "is not a CUDA release",
        ),
        ("\"13\"", "\"12\"", "does not match version 13.4.3"),
        ("format_version", "\u{1b}[31mversion", "TOML parse error"),
    ] {
        refused(&good.replace(from, to), word);
    }
    fs::remove_file(&lock).unwrap();
    run(Command::new("mkfifo").arg(&lock)).succeeded();
    let run = sandbox.run(&["add", "13"]);
    run.failed(exit_code::LOCK, &["not a regular file"]);
}

#[test]
fn locks_of_the_repository_are_accepted() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (lock, releases) in [
        ("templates/python", &["12", "13"][..]),
        ("tests/support", &["11.8", "12.0", "12.9", "13.4"]),
    ] {
        let sandbox = Sandbox::new(Tool::Nothing);
        write(sandbox.path("work/Cargo.toml"), "[workspace]\n");
        let lock = repository.join(lock).join("cuda-toolkits.lock");
        fs::copy(lock, sandbox.path("work/cuda-toolkits.lock")).unwrap();
        for release in releases {
            let run = sandbox.run(&["add", release, "--locked"]);
            run.failed(
                exit_code::NO_INSTALLER,
                &["found no program that can fetch"],
            );
        }
    }
}

#[test]
fn a_lock_counts_in_its_workspace_only() {
    if !online() {
        return;
    }
    let sandbox = Sandbox::new(Tool::Uv);
    write(sandbox.path("work/Cargo.toml"), "[workspace]\n");
    let lock = sandbox.path("work/cuda-toolkits.lock");
    sandbox
        .run(&["add", "13.4.2", "--only", "cudart"])
        .succeeded();
    let text = fs::read_to_string(&lock).unwrap();
    fs::write(
        &lock,
        text.replace("\"13.4.2\"\nversion", "\"13\"\nversion"),
    )
    .unwrap();
    let add = ["add", "13", "--only", "cudart", "--json"];
    assert_eq!(sandbox.run(&add).json()["version"], "13.4.2");
    fs::create_dir(sandbox.path("elsewhere")).unwrap();
    let mut other = sandbox.toolkit(&add);
    let report = run(other.current_dir(sandbox.path("elsewhere"))).json();
    assert_eq!(report["version"], "13.5.0");
}

#[test]
fn a_damaged_toolkit_is_repaired() {
    if !online() {
        return;
    }
    for tool in BOTH {
        let sandbox = Sandbox::new(tool);
        let toolkit = added(&sandbox);
        let problem = || {
            let list = sandbox.run(&["list", "--json"]).json();
            list["toolkits"][0]["problem"].as_str().map(str::to_owned)
        };
        assert_eq!(problem(), None);
        let runtime = toolkit.join(RUNTIME);
        let header = toolkit.join("nvidia/cu13/include/cuda.h");
        let manifest = toolkit.join(store::MANIFEST);
        type Damage<'a> = &'a dyn Fn();
        let damages: [(&str, Damage<'_>); 6] = [
            ("is missing", &|| fs::remove_file(&runtime).unwrap()),
            // Not through the file: it may be a link to the user's cache of the installer.
            ("is damaged", &|| {
                fs::remove_file(&header).unwrap();
                fs::write(&header, "").unwrap();
            }),
            ("is missing", &|| {
                fs::remove_file(&runtime).unwrap();
                std::os::unix::fs::symlink("absent", &runtime).unwrap();
            }),
            ("is missing", &|| {
                fs::remove_dir_all(toolkit.join("nvidia")).unwrap();
                assert!(!has_cudart(&toolkit), "the search notices it too");
            }),
            ("toolkit.toml", &|| {
                fs::write(&manifest, "\u{1b}[31m").unwrap();
            }),
            ("not a regular file", &|| {
                fs::remove_file(&manifest).unwrap();
                run(Command::new("mkfifo").arg(&manifest)).succeeded();
            }),
        ];
        let count = if tool == Tool::Uv { damages.len() } else { 2 };
        for (word, damage) in &damages[..count] {
            damage();
            let found = problem().unwrap();
            assert!(found.contains(word) && !found.contains('\u{1b}'), "{found}");
            assert!(
                sandbox
                    .run(&["list"])
                    .stdout
                    .contains("toolkit add 13.4.3` repairs it")
            );
            let report = sandbox.run(&ADD).json();
            assert_eq!(report["new"], true, "{word}");
            assert_eq!(report["path"].as_str(), toolkit.to_str());
            assert_eq!(problem(), None, "{word}");
            assert!(has_cudart(&toolkit) && fs::metadata(&header).unwrap().len() > 500_000);
            assert_eq!(sandbox.run(&ADD).json()["new"], false);
        }
        fs::write(&manifest, "").unwrap();
        sandbox.run(&["remove", "13.4.3"]).succeeded();
        assert!(sandbox.stored().is_empty());
    }
}

#[test]
fn a_toolkit_that_others_can_change_is_not_used() {
    if !online() {
        return;
    }
    let sandbox = Sandbox::new(Tool::Uv);
    let toolkit = added(&sandbox);
    let refused = |word: &str| {
        sandbox
            .run(&ADD)
            .failed(exit_code::NO_STORE, &[word, "hint:"]);
        let stored = store::stored_toolkits(&Root::system(), &sandbox.path("cache/toolkits"));
        let reason = stored[0].as_ref().unwrap_err().to_string();
        assert!(reason.contains(word), "{reason}");
    };
    fs::set_permissions(&toolkit, fs::Permissions::from_mode(0o777)).unwrap();
    refused("can be written by every user");
    let list = sandbox.run(&["list"]).stdout;
    assert!(list.contains("can be written by every user"), "{list}");
    fs::set_permissions(&toolkit, fs::Permissions::from_mode(0o755)).unwrap();
    sandbox.run(&ADD).succeeded();

    let root = run(Command::new("id").arg("-u")).stdout.trim() == "0";
    if root {
        run(Command::new("chown").arg("65534").arg(&toolkit)).succeeded();
        refused("belongs to user 65534");
    } else {
        left_out("a user other than root");
    }
}

/// `toolkit add` with an installer that sleeps while it fetches, and the installer's process.
fn started(sandbox: &Sandbox) -> (std::process::Child, PathBuf) {
    let pid = sandbox.path("pid");
    let wait = format!(
        "case \"$*\" in *--require-hashes*) echo $$ > '{0}.new'; /bin/mv '{0}.new' '{0}'; exec /bin/sleep 60;; esac",
        pid.display()
    );
    sandbox.shim("uv", &wait, uv());
    let mut add = sandbox.toolkit(&ADD);
    let child = add
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !pid.exists() {
        assert!(Instant::now() < deadline, "it never began");
        sleep(Duration::from_millis(20));
    }
    let pid = fs::read_to_string(pid).unwrap();
    (child, Path::new("/proc").join(pid.trim()))
}

#[test]
fn a_signal_ends_the_installer_and_removes_its_files() {
    if !online() {
        return;
    }
    for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let sandbox = Sandbox::new(Tool::Uv);
        let (child, installer) = started(&sandbox);
        assert!(installer.exists());
        let kill = ["-c", &format!("kill -{signal} {}", child.id())];
        run(Command::new("sh").args(kill)).succeeded();
        let output = child.wait_with_output().unwrap();
        // It ends by the signal, as a program without a handler.
        assert_eq!(output.status.signal(), Some(number), "{output:?}");
        assert!(!installer.exists(), "{signal}: it goes on");
        assert!(
            sandbox.stored().is_empty(),
            "{signal}: {:?}",
            sandbox.stored()
        );
    }
}

#[test]
fn list_removes_what_a_killed_command_left() {
    if !online() {
        return;
    }
    let sandbox = Sandbox::new(Tool::Uv);
    let (mut child, installer) = started(&sandbox);
    child.kill().unwrap();
    child.wait().unwrap();
    // The installer still writes there.
    sandbox.run(&["list"]).succeeded();
    assert_eq!(sandbox.stored().len(), 1);
    let pid = installer.file_name().unwrap();
    run(Command::new("kill").arg("-9").arg(pid)).succeeded();
    while installer.exists() {
        sleep(Duration::from_millis(20));
    }
    sandbox.run(&["list"]).succeeded();
    assert!(sandbox.stored().is_empty());
}

/// The tests of this file resolve nothing that was published after it was written.
#[test]
fn the_newest_release_is_that_of_a_fixed_day() {
    if !online() {
        return;
    }
    assert!(EXCLUDE_NEWER.starts_with("2026-11"));
    let sandbox = Sandbox::new(Tool::Uv);
    let report = sandbox
        .run(&["add", "13", "--only", "cudart", "--json"])
        .json();
    assert_eq!(report["version"], "13.5.0");
}
