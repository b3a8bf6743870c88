//! Hostile names of directories and files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use crate::package::{Compiler, Package, kernel, script_outputs, succeeded};

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
    let package = Package::new("paths", compiler);
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
                        || one.contains("that a shell interprets") => {}
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

mod online {
    use super::*;

    #[test]
    #[ignore = "minutes: a build below a directory of each name"]
    fn hostile_paths_give_the_right_code_or_an_error() {
        hostile_paths(Compiler::Nvrtc13);
        hostile_paths(Compiler::Nvcc13);
    }
}
