//! What programs, tests, build scripts and macros get from `cargo cuda`: flags for rustc, variables, libraries.

use std::fs;

use crate::project::Project;
use crate::support::Finished;

const MANIFEST: &str = "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\nexclude = [\"guest\"]\n";

/// Prints which flags it was compiled with, and the variables that a cargo would read which it started.
const MAIN: &str = r#"
fn main() {
    let unused = 1;
    print!("{} {}", cfg!(user), cfg!(other));
    for name in ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "CUDA_BUILD_PROGRESS"] {
        if let Ok(value) = std::env::var(name) {
            print!(" {name}={}", value.replace('\x1f', "|"));
        }
    }
}

#[test]
fn runs() {
    assert!(std::env::var_os("CARGO_ENCODED_RUSTFLAGS").is_none());
    assert!(std::env::var_os("CUDA_BUILD_PROGRESS").is_none());
}
"#;

fn project(name: &str) -> Project {
    let project = Project::bare_at(name, name, &[13]);
    project.write("Cargo.toml", &MANIFEST.replace("NAME", name));
    project.write("src/main.rs", MAIN);
    project
}

fn triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

mod online {
    use super::*;

    /// Cargo takes rustflags from the first place that has some. Ours are added there, and nowhere else.
    #[test]
    fn rustflags_are_added_to_those_of_the_user() {
        let project = project("rustflags");
        let triple = triple();
        let of_target = format!(
            "CARGO_TARGET_{}_RUSTFLAGS",
            triple.replace('-', "_").to_uppercase()
        );
        let of_target = of_target.as_str();
        let build_list = "build.rustflags = ['--cfg', 'user']\n";
        let build_text = "build.rustflags = '--cfg user'\n";
        let build_other = "build.rustflags = '--cfg other'\n";
        let target_list = format!("target.{triple}.rustflags = ['--cfg', 'user']\n");
        let target_text = format!("target.{triple}.rustflags = '--cfg user'\n");
        let target_both = format!("{build_other}{target_text}");
        let condition = format!("{build_other}target.'cfg(unix)'.rustflags = '--cfg user'\n");
        let linker = format!("{build_text}target.'cfg(unix)'.linker = 'cc'\n");
        let named_list = format!("target.{triple}.rustflags=['--cfg','user']");
        let named_text = "build.rustflags='--cfg user'";
        let view = "-Lnative=VIEW";
        let own = |text: &str| text.to_owned();
        let none: &[(&str, &str)] = &[];
        for (config, variables, arguments, expected) in [
            ("", none, &[][..], own("false false")),
            (build_list, none, &[], own("true false")),
            (build_text, none, &[], own("true false")),
            (&linker, none, &[], own("true false")),
            (build_text, none, &["--target", &triple], own("true false")),
            (&target_list, none, &[], own("true false")),
            (&target_text, none, &[], own("true false")),
            (&target_both, none, &[], own("true false")),
            (&condition, none, &[], own("true false")),
            (
                "target.'cfg(all())'.rustflags = '--cfg user'\n",
                none,
                &[],
                own("true false"),
            ),
            ("", none, &["--config", named_text], own("true false")),
            ("", none, &["--config", &named_list], own("true false")),
            (
                "",
                &[("CARGO_BUILD_RUSTFLAGS", "--cfg user")],
                &[],
                own("true false"),
            ),
            (
                build_other,
                &[("CARGO_BUILD_RUSTFLAGS", "--cfg user")],
                &[],
                own("true true"),
            ),
            ("", &[(of_target, "--cfg user")], &[], own("true false")),
            (
                build_other,
                &[(of_target, "--cfg user")],
                &[],
                own("true false"),
            ),
            (
                &target_text,
                &[(of_target, "--cfg other")],
                &[],
                own("true true"),
            ),
            (
                build_other,
                &[("RUSTFLAGS", "--cfg user")],
                &[],
                format!("true false RUSTFLAGS=--cfg user {view}"),
            ),
            (
                &target_text,
                &[("RUSTFLAGS", "")],
                &[],
                format!("false false RUSTFLAGS={view}"),
            ),
            (
                build_other,
                &[
                    ("CARGO_ENCODED_RUSTFLAGS", "--cfg\x1fuser"),
                    ("RUSTFLAGS", "--cfg other"),
                ],
                &[],
                format!(
                    "true false CARGO_ENCODED_RUSTFLAGS=--cfg|user|{view} RUSTFLAGS=--cfg other"
                ),
            ),
            (
                build_text,
                &[("CARGO_ENCODED_RUSTFLAGS", "")],
                &[],
                format!("false false CARGO_ENCODED_RUSTFLAGS={view}"),
            ),
        ] {
            project.write(".cargo/config.toml", config);
            let words = [&["run", "-v", "--color", "never"], arguments].concat();
            let mut run = project.command(&words);
            let run = Finished::of(run.envs(variables.iter().copied()).output().unwrap());
            run.succeeded();
            let case = format!("{config} {variables:?} {arguments:?}: {run:?}");
            let printed: Vec<&str> = run.stdout.split(' ').collect();
            let named = printed
                .iter()
                .map(|word| match word.rsplit_once("-Lnative=") {
                    Some((before, _)) => format!("{before}{view}"),
                    None => (*word).to_owned(),
                });
            assert_eq!(named.collect::<Vec<_>>().join(" "), expected, "{case}");
            assert_eq!(run.stderr.matches("unused variable").count(), 1, "{case}");
            let again = project
                .command(&words)
                .envs(variables.iter().copied())
                .output();
            let again = Finished::of(again.unwrap());
            assert!(!again.stderr.contains("Compiling"), "{case}: {again:?}");
        }
        project.write(".cargo/config.toml", "");
        for command in ["test", "bench"] {
            project.run(&[command]).succeeded();
        }
    }

    /// As xtasks, and hosts of guest programs do.
    #[test]
    fn a_program_may_start_cargo() {
        let project = project("starts-cargo");
        let config = format!("[target.{}]\nrustflags = ['--cfg', 'own']\n", triple());
        project.write(".cargo/config.toml", &config);
        let manifest = MANIFEST.replace("NAME", "guest");
        project.write("guest/Cargo.toml", &manifest);
        let guest = "fn main() { println!(\"{} {}\", cfg!(guest), cfg!(own)); }\n";
        project.write("guest/src/main.rs", guest);
        let main = r#"
fn main() {
    let program = std::env::args().nth(1).unwrap();
    let words: &[&str] = if program == "cargo" { &["run", "-q"] } else { &["cuda", "run", "-q", "--capabilities", "9.0"] };
    for flags in [None, Some("--cfg guest")] {
        let mut cargo = std::process::Command::new(&program);
        cargo.args(words).args(["--manifest-path", "guest/Cargo.toml"]).env("CARGO_TARGET_DIR", "guest/target");
        cargo.envs(flags.map(|flags| ("RUSTFLAGS", flags)));
        assert!(cargo.status().unwrap().success());
    }
}
"#;
        project.write("src/main.rs", main);
        for program in ["cargo", env!("CARGO_BIN_EXE_cargo-cuda")] {
            let run = project.run(&["run", "-q", "--", program]);
            run.succeeded();
            assert_eq!(run.stdout, "false true\ntrue false\n", "{program}: {run:?}");
        }
    }

    const MACRO: &str = r#"
#[link(name = "nvrtc")]
unsafe extern "C" { fn nvrtcVersion(major: *mut i32, minor: *mut i32) -> i32; }

#[proc_macro]
pub fn version(_: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let (mut major, mut minor) = (0, 0);
    unsafe { nvrtcVersion(&mut major, &mut minor); }
    format!("{major}").parse().unwrap()
}
"#;

    const SCRIPT: &str = r#"
use std::io::Write;
#[link(name = "nvrtc")]
unsafe extern "C" { fn nvrtcVersion(major: *mut i32, minor: *mut i32) -> i32; }
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LD_LIBRARY_PATH");
    unsafe { nvrtcVersion(&mut 0, &mut 0); }
    let path = std::env::var("LD_LIBRARY_PATH").unwrap();
    assert!(!path.contains("stubs"), "{path}");
    let mut runs = std::fs::File::options().create(true).append(true).open("runs").unwrap();
    writeln!(runs, "{path}").unwrap();
}
"#;

    /// A build script or a macro may compile with NVRTC.
    #[test]
    fn code_that_runs_during_a_build_finds_libraries() {
        let project = project("loads-libraries");
        let dependency = "[dependencies]\nmacros = { path = \"macros\" }\n";
        let manifest = MANIFEST.replace("NAME", "loads-libraries") + dependency;
        project.write("Cargo.toml", &manifest);
        let manifest = "[package]\nname = \"macros\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[lib]\nproc-macro = true\n";
        project.write("macros/Cargo.toml", manifest);
        project.write("macros/src/lib.rs", MACRO);
        project.write("build.rs", SCRIPT);
        project.write(
            "src/main.rs",
            "fn main() { print!(\"{}\", macros::version!()); }\n",
        );
        for command in ["build", "check", "doc", "test", "run", "build"] {
            let run = project.run(&[command]);
            run.succeeded();
            assert!(command != "run" || run.stdout == "13", "{run:?}");
        }
        let root = project.path.with_file_name("root");
        let mut install = project.command(&["install", "--path", ".", "--root"]);
        Finished::of(install.arg(&root).output().unwrap()).succeeded();
        let runs = fs::read_to_string(project.path.join("runs")).unwrap();
        let lines: Vec<&str> = runs.lines().collect();
        // `cargo install` builds another profile.
        assert_eq!(lines.len(), 2, "{runs}");
        // rustup adds directories of its own for clippy.
        project.run(&["clippy"]).succeeded();
        let first: Vec<_> = std::env::split_paths(lines[0]).collect();
        let is_of_view = |path: &std::path::PathBuf| path.ends_with(".cuda/view/lib");
        assert!(first.iter().any(is_of_view), "{runs}");
    }

    /// Its messages are read the first time.
    #[test]
    fn a_failed_build_is_not_repeated() {
        let project = project("fails-once");
        let script = r#"
use std::io::Write;
fn main() {
    let mut runs = std::fs::File::options().create(true).append(true).open("runs").unwrap();
    writeln!(runs, "").unwrap();
    eprintln!("k.cu:1:10: fatal error: curand.h: No such file or directory");
    std::process::exit(1);
}
"#;
        project.write("build.rs", script);
        let runs = || {
            let runs = fs::read_to_string(project.path.join("runs")).unwrap_or_default();
            let _ = fs::remove_file(project.path.join("runs"));
            runs.lines().count()
        };
        for command in ["build", "run", "test", "bench"] {
            let run = project.run(&[command]);
            run.failed(
                101,
                &[
                    "`curand.h` is missing",
                    &format!("cargo cuda {command} --fetch"),
                ],
            );
            assert_eq!(runs(), 1, "{command}");
        }
        // A program that fails is no failed build.
        project.write("build.rs", "fn main() {}\n");
        let main = "fn main() { eprintln!(\"fatal error: curand.h: No such file or directory\"); std::process::exit(101); }\n";
        project.write("src/main.rs", main);
        let run = project.run(&["run"]);
        assert_eq!(run.code, 101);
        assert!(!run.stderr.contains("hint:"), "{run:?}");
        // An error of the compiler is shown at once, a warning when the build has failed.
        project.write(
            "src/main.rs",
            "fn main() { let unused = 1; }\nfn other() -> u8 { \"\" }\n",
        );
        let run = project.run(&["run"]);
        run.ended_with(101, &["error[E0308]: mismatched types"]);
        for text in ["mismatched types", "unused variable"] {
            assert_eq!(run.stderr.matches(text).count(), 1, "{text}: {run:?}");
        }
    }

    /// What they report is read: in another language, no hint would be found.
    #[test]
    fn compilers_report_in_english() {
        use std::os::unix::fs::PermissionsExt as _;
        let project = project("language");
        let log = project.path.join("languages");
        for name in ["gcc", "g++"] {
            let script = format!(
                "#!/bin/sh\necho \"$LC_ALL|$LANGUAGE\" >> {:?}\nexec /usr/bin/{name} \"$@\"\n",
                log.display()
            );
            project.write(&format!("bin/{name}"), &script);
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(project.path.join("bin").join(name), mode).unwrap();
        }
        let path = format!(
            "{}:{}",
            project.path.join("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let calls_nvcc = "fn main() {\n    let out = std::env::var(\"OUT_DIR\").unwrap() + \"/k.o\";\n    \
                          let nvcc = std::process::Command::new(\"nvcc\").args([\"ARCH\", \"-c\", \"k.cu\", \"-o\", &out]).status();\n    \
                          assert!(nvcc.unwrap().success());\n}\n";
        project.write("k.cu", "__global__ void k() {}\n");
        // A call whose output is kept, one that is passed on, one for the list, one with a suffix.
        for arch in [
            "-arch=sm_80",
            "-arch=sm_75",
            "-Xcompiler=--coverage",
            "-gencode=arch=compute_80,code=sm_80",
        ] {
            let _ = fs::remove_file(&log);
            project.write_later("build.rs", &calls_nvcc.replace("ARCH", arch));
            let mut build = project.command(&["build", "--capabilities", "8.0,9.0"]);
            build
                .env("PATH", &path)
                .env("LC_ALL", "de_DE.UTF-8")
                .env("LANGUAGE", "de");
            Finished::of(build.output().unwrap()).succeeded();
            let languages = fs::read_to_string(&log).unwrap();
            let of_compilers: Vec<&str> =
                languages.lines().filter(|it| *it == "C.UTF-8|").collect();
            // Cargo's linker has a language of its own.
            let others = languages
                .lines()
                .filter(|it| *it != "C.UTF-8|" && !it.starts_with("C|"));
            assert!(!of_compilers.is_empty(), "{arch}: {languages}");
            assert_eq!(others.collect::<Vec<_>>(), [""; 0], "{arch}: {languages}");
        }
    }

    /// A nextest that prints its arguments.
    #[test]
    fn nextest_builds_first_where_it_can() {
        use std::os::unix::fs::PermissionsExt as _;
        let project = project("nextest");
        let log = project.path.join("calls");
        let script = format!("#!/bin/sh\necho \"$@\" >> {:?}\n", log.display());
        project.write("bin/cargo-nextest", &script);
        let program = project.path.join("bin/cargo-nextest");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!(
            "{}:{}",
            project.path.join("bin").display(),
            std::env::var("PATH").unwrap()
        );
        for (arguments, expected) in [
            (
                &["run"][..],
                &["run --no-run OURS", "run --cargo-quiet --cargo-quiet OURS"][..],
            ),
            (
                &["run", "-r", "--no-fail-fast", "--", "--skip", "x"],
                &[
                    "run -r --no-run OURS",
                    "run -r --no-fail-fast --cargo-quiet --cargo-quiet OURS -- --skip x",
                ],
            ),
            (
                &["run", "--max-fail", "2", "--cargo-verbose"],
                &[
                    "run --cargo-verbose --no-run OURS",
                    "run --max-fail 2 --cargo-verbose OURS",
                ],
            ),
            (&["run", "--no-run"], &["run --no-run OURS"]),
            (&["run", "--archive-file", "x"], &["run --archive-file x"]),
            (&["list"], &["list OURS"]),
            (&["show-config", "version"], &["show-config version"]),
        ] {
            let _ = fs::remove_file(&log);
            let mut run = project.command(&[&["nextest"], arguments].concat());
            Finished::of(run.env("PATH", &path).output().unwrap()).succeeded();
            let calls = fs::read_to_string(&log).unwrap();
            let call = |line: &str| {
                let words = line.strip_prefix("nextest ").unwrap_or(line);
                let Some((users, ours)) = words.split_once(" --config target.") else {
                    return words.to_owned();
                };
                let after = ours
                    .split_once(" -- ")
                    .map_or(String::new(), |(_, it)| format!(" -- {it}"));
                format!("{users} OURS{after}")
            };
            let calls: Vec<String> = calls.lines().map(call).collect();
            assert_eq!(calls, expected, "{arguments:?}");
        }
    }
}
