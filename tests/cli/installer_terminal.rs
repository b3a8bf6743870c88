//! Installers on a terminal, which a script in place of uv stands for.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use cargo_cuda::exit_code;

use crate::support::{Finished, Sandbox, Tool, left_out};

const LOCK: &str = "format_version = 1\n[[toolkit]]\nrequest = \"13\"\nversion = \"13.4.3\"\n[[toolkit.packages]]\n\
                    name = \"nvidia-cuda-runtime\"\nversion = \"13.4.92\"\n\
                    hashes = [\"sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\"]\n";

/// As uv prints its downloads, then an error with what its output is.
const UV: &str = "output=pipe\n[ -t 1 ] && [ -t 2 ] && output=terminal\n\
                  echo 'Downloading nvidia-cuda-runtime (2.0MiB)'\n\
                  printf 'nvidia-cuda-runtime ------ 1.00 MiB/2.00 MiB\\r'\n/bin/sleep 1\n\
                  printf '\\nerror: the output is a %s\\n' $output >&2\nexit 1\n";

/// Runs a program on a pseudo-terminal.
const TERMINAL: &str =
    "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";

/// Runs `toolkit add` on a pseudo-terminal, and returns what appears on it.
fn on_terminal(before: &str) -> Finished {
    let sandbox = Sandbox::new(Tool::Nothing);
    fs::write(sandbox.path("work/Cargo.toml"), "[workspace]\n").unwrap();
    fs::write(sandbox.path("work/cuda-toolkits.lock"), LOCK).unwrap();
    sandbox.shim("uv", UV, Path::new("/nonexistent"));
    let add = sandbox.toolkit(&["add", "13", "--only", "cudart"]);
    let script = format!("{before}\nexec \"$@\"");
    let mut command = Command::new("python3");
    command.args(["-c", TERMINAL, "unshare", "--mount", "--map-root-user"]);
    command.args([
        "sh",
        "-c",
        &script,
        "sh",
        "/usr/bin/env",
        "-i",
        "TERM=xterm",
    ]);
    for (name, value) in add
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)))
    {
        command.arg(format!(
            "{}={}",
            name.to_str().unwrap(),
            value.to_str().unwrap()
        ));
    }
    command.arg(add.get_program()).args(add.get_args());
    let run = command
        .current_dir(sandbox.path("work"))
        .stdin(Stdio::null())
        .output();
    Finished::of(run.unwrap())
}

#[test]
fn installers_get_a_terminal_if_there_is_one() {
    if std::env::var_os("CUDA_BUILD_TEST_NO_MOUNT").is_some() {
        left_out("CUDA_BUILD_TEST_NO_MOUNT");
        return;
    }
    for (before, output) in [
        ("", "terminal"),
        ("mount -t tmpfs tmpfs /dev/pts || exit 99", "pipe"),
    ] {
        let run = on_terminal(before);
        assert_eq!(run.code, i32::from(exit_code::INSTALLER), "{run:?}");
        let message = format!("error: the output is a {output}");
        assert!(run.stdout.contains(&message), "{run:?}");
        // The bar is drawn, and is no part of the message.
        let (screen, message) = run.stdout.split_once("the installer failed").unwrap();
        assert!(screen.contains("1.0/2.1 MB"), "{screen:?}");
        assert!(!message.contains("MiB/"), "{message:?}");
    }
}
