//! Hostile names of directories, files and variables, across commands.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::package::{Compiler, Package, kernel, place, script_outputs, succeeded};

/// Directory names that a shell, a makefile, Cargo or nvcc could read as something else.
const NAMES: [&[u8]; 22] = [
    b"a b",
    b"a=b",
    b"a:b",
    b"it's",
    b"say \"x\"",
    b"$HOME",
    b"$(touch pwned)",
    b"`touch pwned`",
    b"; touch pwned;",
    b"#x",
    b"{}",
    b"a,b",
    b"100%s",
    b"*",
    b"-x",
    b"&",
    b"(x)",
    b"@file",
    b"a$$b",
    b"\xc3\xa9",
    b"tab\there",
    b"back\\slash",
];

/// Names that no directive of Cargo can hold.
const REFUSED: [&[u8]; 2] = [b"inj\ncargo::rustc-env=EVIL=injected\nz", b"byte\xff"];

fn no_file_was_made(package: &Package) {
    let found = Command::new("find")
        .arg(&package.place)
        .args(["-name", "pwned*"])
        .output()
        .unwrap();
    assert!(
        found.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&found.stdout)
    );
}

/// A package below a directory of each name, with a header of that name: the right code, or an
/// error; after an edit of the header, the new code.
fn hostile_paths(compiler: Compiler) {
    let Some(package) = Package::new("paths", compiler) else {
        return;
    };
    package.write("kernels/m.cu", kernel("1"));
    package.write_modules(compiler, &[("m", ".include(\"kernels\")")]);
    package.build().unwrap();
    let mut wrong = Vec::new();
    for (number, name) in NAMES.iter().chain(&REFUSED).enumerate() {
        let directory = package
            .place
            .join(format!("p{number}"))
            .join(OsStr::from_bytes(name));
        let headers = directory.join("kernels");
        fs::create_dir_all(&headers).unwrap();
        fs::copy(
            package.path.join("Cargo.toml"),
            directory.join("Cargo.toml"),
        )
        .unwrap();
        let mut source = b"#include <".to_vec();
        let header = [name, b".cuh".as_slice()].concat();
        source.extend_from_slice(&header);
        source.extend_from_slice(b">\n");
        source.extend_from_slice(kernel("V").as_bytes());
        // The C preprocessor has no spelling for a line's end in a name.
        let header = headers.join(if name.contains(&b'\n') {
            source = [b"#include <v.cuh>\n".as_slice(), kernel("V").as_bytes()].concat();
            OsStr::new("v.cuh")
        } else {
            OsStr::from_bytes(&header)
        });
        fs::write(headers.join("m.cu"), source).unwrap();
        let build = |out: &str| {
            let out = package.place.join(out);
            let _ = fs::create_dir_all(&out);
            let run = succeeded(package.script_in(&directory, &out).output().unwrap())?;
            if run
                .stdout
                .split(|byte| *byte == b'\n')
                .any(|line| line.starts_with(b"cargo::rustc-env=EVIL"))
            {
                wrong_directive(name);
            }
            Ok::<_, String>(script_outputs(&out))
        };
        let mut last = None;
        for value in ["1", "2"] {
            fs::write(&header, format!("#define V {value}\n")).unwrap();
            let _ = fs::remove_dir_all(package.place.join("fresh"));
            let shown = String::from_utf8_lossy(name).into_owned();
            match (build(&format!("out{number}")), build("fresh")) {
                (Ok(made), Ok(fresh)) => {
                    if made != fresh || last.as_ref() == Some(&made) {
                        wrong.push(format!("{shown:?}: stale"));
                    }
                    if REFUSED.contains(name) && name.contains(&b'\n') {
                        wrong.push(format!("{shown:?}: not refused"));
                    }
                    last = Some(made);
                }
                (Err(one), Err(_))
                    if REFUSED.contains(name)
                        || one.contains("could not compile")
                        || one.contains("as a shell command") => {}
                (one, other) => wrong.push(format!("{shown:?}: {one:?}, fresh {other:?}")),
            }
        }
    }
    no_file_was_made(&package);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn wrong_directive(name: &[u8]) -> ! {
    panic!("{:?} became a directive", String::from_utf8_lossy(name))
}

#[test]
fn nvrtc_hostile_paths_give_the_right_code() {
    hostile_paths(Compiler::Nvrtc13);
}

#[test]
fn nvcc_hostile_paths_give_the_right_code() {
    hostile_paths(Compiler::Nvcc13);
}

const VARIABLES: [&str; 24] = [
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDAToolkit_ROOT",
    "CUDA_BUILD_ROOTS",
    "CUDA_BUILD_CACHE_DIR",
    "CUDA_BUILD_TOOLKIT",
    "CUDA_BUILD_SOURCES",
    "CUDA_BUILD_CAPABILITIES",
    "CUDA_BUILD_RELEASE",
    "CUDA_BUILD_LOCK",
    "NVCC",
    "CUDACXX",
    "CUDNN_PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "SPACK_ENV",
    "NIX_CFLAGS_COMPILE",
    "HOME",
    "XDG_CACHE_HOME",
    "PATH",
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "CARGO_ENCODED_RUSTFLAGS",
    "LD_LIBRARY_PATH",
];

const COMMANDS: [&[&str]; 7] = [
    &["doctor"],
    &["doctor", "--json"],
    &["env"],
    &["toolkit", "list"],
    &["toolkit", "list", "--json"],
    &["capabilities"],
    &["capabilities", "--json"],
];

/// `cargo cuda …` with a time limit, in an empty directory and with a store of its own.
fn limited(place: &Path, arguments: &[&str]) -> Command {
    // By its path, because `PATH` is one of the variables.
    let mut command = Command::new(which::which("timeout").unwrap());
    command.args([
        "--kill-after=5",
        "30",
        env!("CARGO_BIN_EXE_cargo-cuda"),
        "cuda",
    ]);
    command
        .args(arguments)
        .current_dir(place.join("work"))
        .env("CUDA_BUILD_CACHE_DIR", place.join("cache"))
        .stdin(Stdio::null());
    command
}

/// What no command may do, whatever it is given.
fn judge(output: &Output, arguments: &[&str]) -> Option<String> {
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        None => return Some(format!("ended by a signal: {}", output.status)),
        Some(124 | 137) => return Some("hangs".to_owned()),
        Some(101) if !errors.contains("cargo") => return Some(format!("panics: {errors}")),
        Some(_) => {}
    }
    if errors.contains("panicked at") {
        return Some(format!("panics: {errors}"));
    }
    if arguments.contains(&"--json") && output.status.success() {
        let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&output.stdout);
        return parsed.err().map(|error| format!("no JSON: {error}"));
    }
    None
}

#[test]
fn hostile_variables_end_in_a_result_or_an_error() {
    let place = place("variables");
    fs::create_dir(place.join("work")).unwrap();
    let fifo = place.join("fifo");
    succeeded(Command::new("mkfifo").arg(&fifo).output().unwrap()).unwrap();
    let long = "x/".repeat(5000);
    let values: [&OsStr; 9] = [
        OsStr::new(""),
        OsStr::new("relative/path"),
        OsStr::from_bytes(b"/x\xff\xfe"),
        OsStr::new("/tmp/line\nbreak"),
        OsStr::new("$(touch pwned)"),
        OsStr::new("'; touch pwned; '"),
        OsStr::new("/dev/zero"),
        fifo.as_os_str(),
        OsStr::new(&long),
    ];
    let mut wrong = Vec::new();
    let mut turn = 0;
    for variable in VARIABLES {
        for value in values {
            // Each pair with two commands, in turn.
            for _ in 0..2 {
                turn += 1;
                let arguments = COMMANDS[turn % COMMANDS.len()];
                let output = limited(&place, arguments)
                    .env(variable, value)
                    .output()
                    .unwrap();
                let shown = || format!("{variable}={value:?} cargo cuda {}", arguments.join(" "));
                wrong.extend(
                    judge(&output, arguments).map(|problem| format!("{}: {problem}", shown())),
                );
                if arguments == ["env"] && output.status.success() {
                    wrong.extend(
                        evaluated(&place, &output).map(|problem| format!("{}: {problem}", shown())),
                    );
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a shell does with the output of `cargo cuda env`: nothing but to set variables.
fn evaluated(place: &Path, output: &Output) -> Option<String> {
    let script = place.join("script");
    fs::write(&script, &output.stdout).unwrap();
    let work = place.join("work");
    let mut shell = Command::new("/bin/bash");
    shell
        .args(["-eu", "-c", ". \"$1\"", "bash"])
        .arg(script)
        .current_dir(&work);
    let run = shell.output().unwrap();
    let made: Vec<OsString> = fs::read_dir(&work)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    if !made.is_empty() {
        made.iter()
            .for_each(|file| fs::remove_file(work.join(file)).unwrap());
        return Some(format!("a shell made {made:?}"));
    }
    if !run.status.success() || !run.stdout.is_empty() {
        return Some(format!("a shell fails: {run:?}"));
    }
    None
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let place = place("full");
    fs::create_dir(place.join("work")).unwrap();
    let mut wrong = Vec::new();
    for arguments in COMMANDS
        .into_iter()
        .chain([&["--help"][..], &["--version"][..]])
    {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let to_full = limited(&place, arguments)
            .stdout(full)
            .stderr(Stdio::null())
            .status()
            .unwrap();
        let prints = !limited(&place, arguments)
            .output()
            .unwrap()
            .stdout
            .is_empty();
        if prints && to_full.success() {
            wrong.push(arguments.join(" "));
        }
    }
    assert!(
        wrong.is_empty(),
        "succeed although nothing was written: {wrong:?}"
    );
}
