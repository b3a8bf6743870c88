//! `cargo cuda toolkit`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cargo_cuda::exit_code;
use cuda_build::Component;
use cuda_build::internal::{Root, store};

use crate::support::{Finished, Sandbox, Tool, left_out, online, uv};

const BOTH: [Tool; 2] = [Tool::Uv, Tool::Pip];

/// An index that refuses every connection.
const UNREACHABLE: &str = "http://127.0.0.1:9/simple";

#[test]
fn the_search_finds_an_added_toolkit() {
    if !online() {
        return;
    }
    let mut names = Vec::new();
    for tool in BOTH {
        let sandbox = Sandbox::new(tool);
        let added = sandbox
            .run(&["add", "13.4.3", "--only", "cudart", "--json"])
            .json();
        assert_eq!(added["version"], "13.4.3");
        assert_eq!(added["fetched"], serde_json::json!(["nvidia-cuda-runtime"]));
        assert!(
            added["bytes_added"].as_u64().unwrap() > 5_000_000,
            "{added}"
        );

        let found = store::stored_toolkits(&Root::system(), &sandbox.path("cache/toolkits"));
        let toolkit = found.into_iter().map(Result::unwrap).next().unwrap();
        assert_eq!(toolkit.components, [Component::Cudart]);
        assert_eq!(toolkit.path.to_str(), added["path"].as_str());
        let runtime = toolkit.path.join("nvidia/cu13/lib/libcudart.so.13");
        assert!(
            fs::metadata(&runtime).unwrap().len() > 100_000,
            "{}",
            runtime.display()
        );
        assert_eq!(sandbox.stored(), [added["name"].as_str().unwrap()]);
        names.push(added["name"].clone());
    }
    assert_eq!(
        names[0], names[1],
        "uv and pip put the same set in the same place"
    );
}

#[test]
fn a_stored_toolkit_needs_no_program_and_no_network() {
    if !online() {
        return;
    }
    let sandbox = Sandbox::new(Tool::Uv);
    sandbox.run(&["add", "12", "--only", "cudart"]).succeeded();
    let before = (sandbox.calls(), sandbox.stored());
    assert!(before.0 >= 2);
    let mut again = sandbox.toolkit(&["add", "12", "--only", "cudart", "--json"]);
    again
        .env("PATH", "/nonexistent")
        .env("UV_INDEX_URL", UNREACHABLE);
    let started = Instant::now();
    let report = Finished::of(again.output().unwrap()).json();
    let took = started.elapsed();
    assert_eq!(
        (&report["new"], &report["bytes_added"]),
        (&false.into(), &0.into())
    );
    assert_eq!((sandbox.calls(), sandbox.stored()), before);
    assert!(took < Duration::from_millis(500), "{took:?}");
}

#[test]
fn components_are_added_at_the_same_versions() {
    if !online() {
        return;
    }
    let sandbox = Sandbox::new(Tool::Uv);
    let first = sandbox
        .run(&["add", "13", "--only", "cudart", "--json"])
        .json();
    let both = sandbox
        .run(&["add", "13", "--only", "profiler-api", "--json"])
        .json();
    assert_eq!(both["version"], first["version"]);
    assert_eq!(
        both["components"],
        serde_json::json!(["cudart", "profiler-api"])
    );
    assert_eq!(
        both["fetched"],
        serde_json::json!(["nvidia-cuda-profiler-api"])
    );
    let inode = |report: &serde_json::Value| {
        let path =
            Path::new(report["path"].as_str().unwrap()).join("nvidia/cu13/lib/libcudart.so.13");
        fs::metadata(path).unwrap().ino()
    };
    assert_eq!(
        inode(&first),
        inode(&both),
        "what is there is linked, not fetched again"
    );
    assert_eq!(sandbox.stored().len(), 2);
}

#[test]
fn a_minor_without_a_metapackage_is_put_together() {
    if !online() {
        return;
    }
    let sandbox = Sandbox::new(Tool::Uv);
    // As on the days when packages of a minor are in the index and its metapackage is not yet.
    let constraints = "cuda-toolkit<13.5\nnvidia-cuda-runtime==13.5.37\nnvidia-cuda-crt==13.5.37\n\
                       nvidia-cuda-cccl==13.3.5.0.6\n";
    fs::write(sandbox.path("constraints.txt"), constraints).unwrap();
    let mut add = sandbox.toolkit(&["add", "13.5", "--only", "cudart,crt,cccl", "--json"]);
    add.env("UV_CONSTRAINT", sandbox.path("constraints.txt"));
    let report = Finished::of(add.output().unwrap()).json();
    assert_eq!(report["version"], "13.5");
    let header = Path::new(report["path"].as_str().unwrap()).join("nvidia/cu13/include/cuda.h");
    assert!(
        fs::read_to_string(header)
            .unwrap()
            .contains("#define CUDA_VERSION 13050")
    );
}

#[test]
fn the_lock_file_decides() {
    if !online() {
        return;
    }
    let sandbox = Sandbox::new(Tool::Uv);
    let lock = sandbox.path("work/cuda-toolkits.lock");
    fs::write(sandbox.path("work/Cargo.toml"), "[workspace]\n").unwrap();
    sandbox
        .run(&["add", "13", "--only", "cudart", "--locked"])
        .failed(exit_code::LOCK, &["does not pin CUDA 13"]);
    assert!(!lock.exists());
    // In this workspace, `13` means an older release.
    sandbox
        .run(&["add", "13.4.2", "--only", "cudart"])
        .succeeded();
    let text = fs::read_to_string(&lock).unwrap();
    assert!(text.contains("sha256-") && !text.contains("://"), "{text}");
    let text = text.replace("request = \"13.4.2\"", "request = \"13\"");
    fs::write(&lock, &text).unwrap();

    for tool in BOTH {
        let other = Sandbox::new(tool);
        fs::copy(&lock, other.path("work/cuda-toolkits.lock")).unwrap();
        fs::write(other.path("work/Cargo.toml"), "[workspace]\n").unwrap();
        let report = other
            .run(&["add", "13", "--only", "cudart", "--locked", "--json"])
            .json();
        assert_eq!(report["version"], "13.4.2");
        let more = other.run(&["add", "13", "--only", "cudart,profiler-api", "--locked"]);
        more.failed(exit_code::LOCK, &["does not pin `profiler-api`"]);
        assert_eq!(
            fs::read_to_string(other.path("work/cuda-toolkits.lock")).unwrap(),
            text
        );
    }
    // `--upgrade` changes it.
    let report = sandbox
        .run(&["add", "13", "--only", "cudart", "--upgrade", "--json"])
        .json();
    assert_ne!(report["version"], "13.4.2");
    assert_ne!(fs::read_to_string(&lock).unwrap(), text);
}

#[test]
fn a_file_that_is_not_the_pinned_one_is_refused() {
    if !online() {
        return;
    }
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
        run.failed(
            exit_code::LOCK,
            &[
                "does not match its pinned hash",
                "nvidia-cuda-runtime",
                "hint:",
            ],
        );
        assert!(sandbox.stored().is_empty(), "{:?}", sandbox.stored());
        assert_eq!(
            fs::read_to_string(sandbox.path("work/cuda-toolkits.lock")).unwrap(),
            lock
        );
    }
}

#[test]
fn without_an_installer() {
    let sandbox = Sandbox::new(Tool::Nothing);
    let run = sandbox.run(&["add", "13"]);
    run.failed(
        exit_code::NO_INSTALLER,
        &["`uv`", "`python3 -m pip`", "hint: install uv"],
    );
    assert!(sandbox.stored().is_empty());
}

#[test]
fn an_unreachable_index() {
    // uv may have to be fetched.
    if !online() {
        return;
    }
    for tool in BOTH {
        let sandbox = Sandbox::new(tool);
        let mut add = sandbox.toolkit(&["add", "13"]);
        add.env("UV_INDEX_URL", UNREACHABLE)
            .env("UV_HTTP_RETRIES", "0")
            .env("UV_CACHE_DIR", sandbox.path("uv"));
        add.env("PIP_INDEX_URL", UNREACHABLE)
            .env("PIP_RETRIES", "0")
            .env("PIP_FIND_LINKS", "");
        let run = Finished::of(add.output().unwrap());
        run.failed(
            exit_code::INDEX,
            &[
                "could not be reached",
                "127.0.0.1:9",
                "hint: check the network",
            ],
        );
        assert!(sandbox.stored().is_empty());
    }
}

#[test]
fn releases_that_never_were() {
    if !online() {
        return;
    }
    for tool in BOTH {
        let sandbox = Sandbox::new(tool);
        for version in ["14", "12.7", "13.4.99"] {
            let run = sandbox.run(&["add", version]);
            run.failed(
                exit_code::NOT_RELEASED,
                &[&format!("CUDA {version} was never released"), "hint:"],
            );
        }
        assert!(sandbox.stored().is_empty());
    }
}

#[test]
fn a_package_without_its_component_is_named() {
    if !online() {
        return;
    }
    let sandbox = Sandbox::new(Tool::Uv);
    let run = sandbox.run(&["add", "12", "--only", "nvcc"]);
    run.failed(
        exit_code::NOT_IN_PACKAGE,
        &[
            "nvidia-cuda-nvcc-cu12 12.9",
            "does not contain `nvcc`",
            "no nvcc",
        ],
    );
    assert!(sandbox.stored().is_empty());
}

#[test]
fn a_store_that_cannot_be_written() {
    if !online() {
        return;
    }
    let sandbox = Sandbox::new(Tool::Uv);
    let mut add = sandbox.toolkit(&["add", "13", "--only", "cudart"]);
    add.env("CUDA_BUILD_CACHE_DIR", "/dev/null/cache");
    Finished::of(add.output().unwrap()).failed(
        exit_code::NO_STORE,
        &["cannot write /dev/null/cache", "hint:"],
    );
}

/// On a disk of its own, 3 MB small, in a mount namespace that ends with the process.
#[test]
fn no_space_in_the_store() {
    if !online() {
        return;
    }
    if std::env::var_os("CUDA_BUILD_TEST_NO_MOUNT").is_some() {
        left_out("CUDA_BUILD_TEST_NO_MOUNT");
        return;
    }
    for tool in BOTH {
        let sandbox = Sandbox::new(tool);
        fs::create_dir(sandbox.path("cache")).unwrap();
        let inner = sandbox.toolkit(&["add", "13", "--only", "cudart"]);
        // The files on that disk are listed before it goes away.
        let script = "mount -t tmpfs -o size=3m tmpfs \"$CUDA_BUILD_CACHE_DIR\" || exit 99\n\
                      PATH=$INNER_PATH \"$@\"; code=$?\n\
                      ls -A \"$CUDA_BUILD_CACHE_DIR/toolkits\" | grep -v '^[.]lock$' >&2; exit $code";
        let mut outer = Command::new("unshare");
        outer.args(["--mount", "--map-root-user", "sh", "-c", script, "sh"]);
        outer.arg(inner.get_program()).args(inner.get_args());
        outer
            .env("CUDA_BUILD_CACHE_DIR", sandbox.path("cache"))
            .env("INNER_PATH", sandbox.path("bin"));
        outer
            .env_remove("VIRTUAL_ENV")
            .current_dir(sandbox.path("work"));
        let run = Finished::of(outer.output().unwrap());
        assert_ne!(
            run.code, 99,
            "can't mount here; CUDA_BUILD_TEST_NO_MOUNT=1 leaves this out: {run:?}"
        );
        run.failed(
            exit_code::STORE_FULL,
            &[
                "no space left for",
                "No space left on device",
                "hint: free some",
            ],
        );
        assert!(
            !run.stderr
                .lines()
                .any(|line| line.starts_with("13.") || line.starts_with(".part")),
            "{run:?}"
        );
    }
}

#[test]
fn a_killed_run_leaves_nothing_in_the_way() {
    if !online() {
        return;
    }
    let sandbox = Sandbox::new(Tool::Uv);
    // An interrupted download: half a target directory, and no end.
    let half = "case \"$*\" in *--require-hashes*)\n\
                while [ \"$1\" != --target ]; do shift; done\n\
                /bin/mkdir -p \"$2/nvidia\"; /bin/touch \"$2/nvidia/half\"; exec /bin/sleep 3;; esac";
    sandbox.shim("uv", half, uv());
    let mut child = sandbox
        .toolkit(&["add", "13", "--only", "cudart"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let part = loop {
        assert!(
            Instant::now() < deadline,
            "it never began: {:?}",
            sandbox.stored()
        );
        let part = sandbox
            .stored()
            .into_iter()
            .find(|name| name.starts_with(".part"));
        let begun = |name: &String| {
            sandbox
                .path("cache/toolkits")
                .join(name)
                .join("site/nvidia/half")
                .exists()
        };
        match part.filter(begun) {
            Some(part) => break part,
            None => sleep(Duration::from_millis(20)),
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(
        sandbox.stored(),
        [part],
        "SIGKILL leaves no time to clean up, and the installer goes on writing"
    );

    sandbox.shim("uv", "", uv());
    let report = sandbox
        .run(&["add", "13", "--only", "cudart", "--json"])
        .json();
    assert_eq!(sandbox.stored(), [report["name"].as_str().unwrap()]);
    assert!(
        !Path::new(report["path"].as_str().unwrap())
            .join("nvidia/half")
            .exists()
    );
}

#[test]
fn an_installer_that_dies_leaves_nothing() {
    if !online() {
        return;
    }
    let sandbox = Sandbox::new(Tool::Uv);
    sandbox.shim(
        "uv",
        "case \"$*\" in *--require-hashes*) kill -9 $$;; esac",
        uv(),
    );
    let run = sandbox.run(&["add", "13", "--only", "cudart"]);
    run.failed(
        exit_code::INSTALLER,
        &["ended by signal 9", "--require-hashes"],
    );
    assert!(sandbox.stored().is_empty());
}

#[test]
fn two_at_once_download_once() {
    if !online() {
        return;
    }
    let sandbox = Sandbox::new(Tool::Uv);
    // Long enough that both have resolved before one is done.
    sandbox.shim(
        "uv",
        "case \"$*\" in *--require-hashes*) /bin/sleep 3;; esac",
        uv(),
    );
    let start = || {
        let mut add = sandbox.toolkit(&["add", "13", "--only", "cudart", "--json"]);
        add.stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let runs = [start(), start()].map(|child| Finished::of(child.wait_with_output().unwrap()));
    assert_eq!(sandbox.fetches(), 1, "{runs:?}");
    assert_eq!(runs[0].json()["path"], runs[1].json()["path"]);
    assert!(
        runs.iter()
            .any(|run| run.stderr.contains("Waiting for another")),
        "{runs:?}"
    );
    assert_eq!(sandbox.stored().len(), 1);
}

#[test]
fn list_and_remove() {
    if !online() {
        return;
    }
    let sandbox = Sandbox::new(Tool::Pip);
    assert_eq!(
        sandbox.run(&["list", "--json"]).json()["toolkits"],
        serde_json::json!([])
    );
    let old = sandbox
        .run(&["add", "13.3.1", "--only", "cudart", "--json"])
        .json();
    let new = sandbox
        .run(&["add", "13.4.3", "--only", "cudart", "--json"])
        .json();
    let listed = sandbox.run(&["list", "--json"]).json();
    assert_eq!(listed["format_version"], 1);
    assert_eq!(listed["toolkits"][1]["name"], new["name"]);
    assert_eq!(
        listed["toolkits"][1]["requests"],
        serde_json::json!(["13.4.3"])
    );
    assert!(sandbox.run(&["list"]).stdout.contains("CUDA 13.3.1"));

    let both = [old["name"].as_str().unwrap(), new["name"].as_str().unwrap()];
    sandbox
        .run(&["remove", "13"])
        .failed(exit_code::USAGE, &[both[0], both[1], "whole name"]);
    sandbox
        .run(&["remove", "12"])
        .failed(exit_code::USAGE, &["no toolkit `12`"]);
    assert_eq!(sandbox.stored(), both);
    sandbox.run(&["remove", "13.3"]).succeeded();
    assert_eq!(sandbox.stored(), [both[1]]);
    // The index of the store has forgotten it too, so that it is fetched again.
    let again = sandbox
        .run(&["add", "13.3.1", "--only", "cudart", "--json"])
        .json();
    assert!(again["bytes_added"].as_u64().unwrap() > 0);
}
