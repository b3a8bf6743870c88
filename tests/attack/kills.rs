//! Processes that end at moments nobody chose.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::differential::random::Random;
use crate::package::{Compiler, Package, kernel};

/// How often processes are killed in each test; the long form has more.
pub fn rounds() -> usize {
    let value = std::env::var("CUDA_BUILD_ATTACK_KILLS").ok();
    value.map_or(4, |value| value.parse().unwrap())
}

pub fn signal(name: &str, process: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), "--", process])
        .status();
    assert!(status.unwrap().success(), "kill -{name} -- {process}");
}

/// Starts a command in a process group of its own.
pub fn started(command: &mut Command) -> Child {
    let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
    silent.process_group(0).spawn().unwrap()
}

/// The command lines of the processes in a group.
pub fn group(id: u32) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        // After the name: state, parent, group.
        let Some((_, fields)) = stat.rsplit_once(')') else {
            continue;
        };
        let fields: Vec<&str> = fields.split_whitespace().collect();
        if fields.get(2) == Some(&id.to_string().as_str()) && fields[0] != "Z" {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    found
}

/// Two modules that include one header, or a module and a library.
fn package(name: &str, compiler: Compiler) -> Option<Package> {
    let package = Package::new(name, compiler)?;
    for module in ["a", "b", "c"] {
        let source = format!("#include \"v.cuh\"\n{}", kernel("V"));
        package.write(&format!("kernels/{module}.cu"), source);
    }
    package.write("kernels/v.cuh", "#define V 0\n");
    package.write_modules(compiler, &[("a", ""), ("b", ""), ("c", "")]);
    Some(package)
}

fn killed_builds(compiler: Compiler) {
    let Some(package) = package("killed", compiler) else {
        return;
    };
    package.build().unwrap();
    let mut random = Random::new(3);
    let mut duration = Duration::from_secs(2);
    for round in 1..=rounds() {
        package.write("kernels/v.cuh", format!("#define V {round}\n"));
        let after = duration.mul_f64(random.below(100) as f64 / 100.0);
        let mut cargo = package.command("cargo".as_ref());
        let mut cargo = started(cargo.args(["build", "--quiet", "--offline"]));
        std::thread::sleep(after);
        if cargo.try_wait().unwrap().is_none() {
            signal("KILL", &format!("-{}", cargo.id()));
        }
        cargo.wait().unwrap();
        let start = Instant::now();
        match package.compare() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("round {round}: nothing builds after a kill after {after:?}"),
            Err(error) => panic!("round {round}, killed after {after:?}: {error}"),
        }
        // About half of that is the fresh build.
        duration = start.elapsed() / 2;
    }
}

#[test]
fn nvrtc_a_killed_build_leaves_nothing_wrong() {
    killed_builds(Compiler::Nvrtc13);
}

#[test]
fn nvcc_a_killed_build_leaves_nothing_wrong() {
    killed_builds(Compiler::Nvcc13);
}

/// A signal to `cargo cuda` alone, as `timeout` and service managers send it.
#[test]
fn a_signal_to_cargo_cuda_ends_everything_below_it() {
    let Some(package) = package("signals", Compiler::Nvcc13) else {
        return;
    };
    let command = |arguments: &[&str]| {
        let mut command = package.command(env!("CARGO_BIN_EXE_cargo-cuda").as_ref());
        command.arg("cuda").args(arguments);
        command
    };
    let output = command(&["build"]).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut random = Random::new(5);
    let mut left = Vec::new();
    for round in 0..rounds() {
        let name = ["TERM", "INT", "HUP"][round % 3];
        package.write("kernels/v.cuh", format!("#define V {}\n", 100 + round));
        let arguments: &[&str] = match round % 2 {
            0 => &["build"],
            _ => &["exec", "--", "sleep", "1000"],
        };
        let mut child = started(&mut command(arguments));
        std::thread::sleep(Duration::from_millis(100 + 20 * random.below(60) as u64));
        if child.try_wait().unwrap().is_none() {
            signal(name, &child.id().to_string());
        }
        child.wait().unwrap();
        let end = Instant::now() + Duration::from_secs(10);
        while !group(child.id()).is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
        let processes = group(child.id());
        if !processes.is_empty() {
            signal("KILL", &format!("-{}", child.id()));
            left.push(format!(
                "{name} to `cargo cuda {}`: {processes:?}",
                arguments.join(" ")
            ));
        }
    }
    assert!(left.is_empty(), "left:\n{}", left.join("\n"));
}
