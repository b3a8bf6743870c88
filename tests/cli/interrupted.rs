//! What is left running when `cargo cuda` is told to end, and output that cannot be written.

use std::fs;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::project::Project;
use crate::support::Finished;
use crate::wheel_template::{files, wheel};

const SIGNALS: [(&str, i32); 3] = [("HUP", 1), ("INT", 2), ("TERM", 15)];

/// A build script that starts a program and waits for it, as one that calls nvcc.
const SLEEPS: &str = r#"
fn main() {
    let mut sleep = std::process::Command::new("sleep").arg("1000.25").spawn().unwrap();
    std::fs::write("sleeping", sleep.id().to_string()).unwrap();
    sleep.wait().unwrap();
}
"#;

fn project(name: &str, script: &str, main: &str) -> Option<Project> {
    let project = Project::bare_at(name, "plain", &[13])?;
    project.write(
        "Cargo.toml",
        "[package]\nname = \"sleeper\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n",
    );
    project.write("build.rs", script);
    project.write("src/main.rs", main);
    Some(project)
}

fn wait_for<T>(what: &str, mut value: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = value() {
            return value;
        }
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The id of a process that was written to a file, once it is there.
fn sleeping(project: &Project) -> u32 {
    let file = project.path.join("sleeping");
    let id = wait_for("the program sleeps", || {
        fs::read_to_string(&file).ok()?.trim().parse().ok()
    });
    fs::remove_file(file).unwrap();
    id
}

fn is_running(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}

fn parent(id: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let rest = stat.rsplit(')').next().unwrap();
    rest.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn start(mut command: Command) -> Child {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Sends a signal to this process alone, and returns the signal that it ends by.
fn signal(child: &mut Child, name: &str) -> Option<i32> {
    let id = child.id().to_string();
    let kill = Command::new("kill").args(["-s", name, &id]).status();
    assert!(kill.unwrap().success());
    let status = wait_for("the command ends", || child.try_wait().unwrap());
    status.signal()
}

#[test]
fn a_build_that_is_told_to_end_leaves_nothing_running() {
    let Some(project) = project("told-build", SLEEPS, "fn main() {}\n") else {
        return;
    };
    for (name, number) in SIGNALS {
        let mut build = start(project.command(&["build", "-q"]));
        let sleeps = sleeping(&project);
        assert!(is_running(sleeps));
        assert_eq!(signal(&mut build, name), Some(number), "{name}");
        assert!(!is_running(sleeps), "{name}");
        // Nothing holds Cargo's lock any more.
        let metadata = project.run(&["clean"]);
        metadata.succeeded();
    }
}

#[test]
fn an_interrupted_wheel_leaves_nothing() {
    let Some(project) = project("terminated-wheel", SLEEPS, "fn main() {}\n") else {
        return;
    };
    let manifest = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
    let cuda = "[package.metadata.cuda]\nmajors = [13]\ncapabilities = [\"8.0\"]\n";
    project.write("Cargo.toml", &(manifest + cuda));
    project.write(
        "pyproject.toml",
        "[build-system]\nrequires = [\"maturin\"]\nbuild-backend = \"maturin\"\n\
         [project]\nname = \"sleeper\"\nversion = \"0.1.0\"\n[tool.maturin]\nbindings = \"bin\"\n",
    );
    let start = || start(wheel(&project.path, &project.cache, &[]));
    let fresh = || {
        let builds = files(&project.path.join("target/cargo-cuda"));
        let all = builds.iter().filter(|path| path.is_dir());
        let all = all.flat_map(|build| files(build));
        let is_fresh = |path: &PathBuf| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with(".cargo-cuda-")
        };
        all.filter(is_fresh).count()
    };
    let mut wheel = start();
    let sleeps = sleeping(&project);
    assert_eq!(fresh(), 1);
    assert_eq!(signal(&mut wheel, "TERM"), Some(15));
    assert!(!is_running(sleeps));
    assert_eq!(fresh(), 0);

    // What a killed command leaves is removed by the next one.
    let mut wheel = start();
    let sleeps = sleeping(&project);
    assert_eq!(signal(&mut wheel, "KILL"), Some(9));
    assert_eq!(fresh(), 1);
    let script = parent(sleeps);
    for id in [script, sleeps] {
        let kill = Command::new("kill").arg(id.to_string()).status();
        assert!(kill.unwrap().success());
    }
    wait_for("the script ends", || (!is_running(script)).then_some(()));
    let mut wheel = start();
    sleeping(&project);
    assert_eq!(fresh(), 1);
    signal(&mut wheel, "TERM");
}

#[test]
fn programs_end_with_the_command_that_starts_them() {
    let main = "fn main() {\n    std::fs::write(\"sleeping\", std::process::id().to_string()).unwrap();\n    \
                std::thread::sleep(std::time::Duration::from_secs(1000));\n}\n";
    let Some(project) = project("told-run", "fn main() {}\n", main) else {
        return;
    };
    for arguments in [
        &["run", "-q"][..],
        &[
            "exec",
            "--",
            "sh",
            "-c",
            "echo $$ > sleeping; exec sleep 1000",
        ],
    ] {
        let mut command = start(project.command(arguments));
        let sleeps = sleeping(&project);
        // `run` waits for the program, to print hints if it cannot start.
        let is_replaced = arguments[0] == "exec";
        assert!(!is_replaced || sleeps == command.id(), "{arguments:?}");
        assert_eq!(signal(&mut command, "TERM"), Some(15));
        wait_for("the program ends", || (!is_running(sleeps)).then_some(()));
    }
}

/// Counts SIGINT for longer than builds have to end.
const COUNTS: &str = r#"
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

static COUNT: AtomicI32 = AtomicI32::new(0);

unsafe extern "C" {
    fn signal(signal: i32, handler: extern "C" fn(i32)) -> usize;
}

extern "C" fn count(_: i32) {
    COUNT.fetch_add(1, Ordering::SeqCst);
}

fn main() {
    unsafe { signal(2, count) };
    std::fs::write("sleeping", std::process::id().to_string()).unwrap();
    while COUNT.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(6));
    std::process::exit(40 + COUNT.load(Ordering::SeqCst));
}
"#;

/// Presses Ctrl-C in a terminal when the program runs, and ends with the code of the command.
const TERMINAL: &str = r"
import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
while not os.path.exists('sleeping'):
    time.sleep(0.02)
os.write(terminal, b'\x03')
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
";

#[test]
fn a_program_gets_one_interrupt_and_decides() {
    let Some(project) = project("counts", "fn main() {}\n", COUNTS) else {
        return;
    };
    project.run(&["build", "-q"]).succeeded();
    let program = env!("CARGO_BIN_EXE_cargo-cuda");
    let mut command = Command::new("python3");
    command.args(["-c", TERMINAL, program, "cuda", "run", "-q"]);
    project.prepare(&mut command);
    let run = Finished::of(command.output().unwrap());
    assert_eq!(run.code, 41, "{run:?}");
}

#[test]
fn ignored_signals_stay_ignored() {
    let Some(project) = project("told-nohup", SLEEPS, "fn main() {}\n") else {
        return;
    };
    let mut nohup = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_cargo-cuda");
    nohup.args([
        "-c",
        &format!("trap '' HUP; exec '{program}' cuda build -q"),
    ]);
    project.prepare(&mut nohup);
    let mut build = start(nohup);
    let sleeps = sleeping(&project);
    let id = build.id().to_string();
    let kill = Command::new("kill").args(["-s", "HUP", &id]).status();
    assert!(kill.unwrap().success());
    std::thread::sleep(Duration::from_millis(300));
    assert!(is_running(sleeps));
    assert_eq!(signal(&mut build, "TERM"), Some(15));
    assert!(!is_running(sleeps));
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let Some(project) = project("full", "fn main() {}\n", "fn main() {}\n") else {
        return;
    };
    for arguments in [
        &["env"][..],
        &["env", "--json"],
        &["view"],
        &["doctor"],
        &["doctor", "--json"],
        &["capabilities"],
        &["toolkit", "list"],
        &["clean"],
        &["--help"],
    ] {
        let mut command = project.command(arguments);
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let run = Finished::of(command.stdout(full).output().unwrap());
        run.failed(
            cargo_cuda::exit_code::DISK,
            &["could not write to standard output", "No space left"],
        );
    }
    // Whoever reads the head alone has what he wanted.
    let mut command = project.command(&["capabilities"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert!(
        child.wait().unwrap().success() && stderr.is_empty(),
        "{stderr}"
    );
}
