//! What is left running when a signal ends `cargo cuda`, and output that cannot be written.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::project::Project;
use crate::support::{Finished, interruptible};
use crate::wheel_template::{files, wheel};

/// A build script that starts a program and waits for it, as one that calls nvcc.
const SLEEPS: &str = r#"
fn main() {
    let mut sleep = std::process::Command::new("sleep").arg("1000.25").spawn().unwrap();
    std::fs::write("sleeping", sleep.id().to_string()).unwrap();
    sleep.wait().unwrap();
}
"#;

fn project(name: &str, script: &str, main: &str) -> Project {
    let project = Project::bare_at(name, "plain", &[13]);
    let manifest = "[package]\nname = \"sleeper\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
                    [package.metadata.cuda]\nmajors = [13]\ncapabilities = [\"8.0\"]\n[workspace]\n";
    project.write("Cargo.toml", manifest);
    project.write("build.rs", script);
    project.write("src/main.rs", main);
    project
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
    let fields = stat.rsplit(')').next().unwrap();
    let state = fields.split_whitespace().next();
    state.is_some_and(|state| state != "Z" && state != "X")
}

/// Starts a command whose standard input is no terminal, as in CI.
fn start(mut command: Command) -> Child {
    let command = interruptible(&mut command).stdin(Stdio::null());
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn send(child: &Child, name: &str) {
    let id = child.id().to_string();
    let kill = Command::new("kill").args(["-s", name, &id]).status();
    assert!(kill.unwrap().success());
}

/// Sends a signal to the command alone, and returns the signal that it ends by.
fn signal(child: &mut Child, name: &str) -> Option<i32> {
    send(child, name);
    let status = wait_for("the command ends", || child.try_wait().unwrap());
    status.signal()
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
    std::thread::sleep(Duration::from_secs(3));
    std::process::exit(40 + COUNT.load(Ordering::SeqCst));
}
"#;

/// Presses Ctrl-C in a terminal when the program runs, and ends with the code of the command, or minus its signal.
const TERMINAL: &str = r"
import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
while not os.path.exists('sleeping'):
    time.sleep(0.02)
os.write(terminal, b'\x03')
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status))
";

mod online {
    use super::*;

    #[test]
    fn a_signal_ends_everything_that_was_started() {
        let project = project("ended", SLEEPS, "fn main() {}\n");
        for (name, number) in [("HUP", 1), ("INT", 2), ("TERM", 15)] {
            let mut build = start(project.command(&["build", "-q"]));
            let sleeps = sleeping(&project);
            assert!(is_running(sleeps));
            assert_eq!(signal(&mut build, name), Some(number), "{name}");
            wait_for(name, || (!is_running(sleeps)).then_some(()));
        }
    }

    #[test]
    fn an_interrupted_build_has_named_what_it_compiled() {
        let writes = r#"
    let line = "+a.cu for 8.0\n+b.cu for 8.0\n";
    std::fs::write(std::env::var("CUDA_BUILD_PROGRESS").unwrap(), line).unwrap();
    let mut sleep"#;
        let script = SLEEPS.replacen("\n    let mut sleep", writes, 1);
        let project = project("ended-compile", &script, "fn main() {}\n");
        let mut command = project.command(&["build"]);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let build = command.spawn().unwrap();
        sleeping(&project);
        send(&build, "TERM");
        let output = build.wait_with_output().unwrap();
        let printed = String::from_utf8(output.stderr).unwrap();
        let lines = "   Compiling a.cu for 8.0\n   Compiling b.cu";
        assert!(printed.contains(lines), "{printed}");
    }

    #[test]
    fn a_second_signal_kills() {
        let ignores = r#"
fn main() {
    let script = "trap '' TERM; echo $$ > sleeping; while true; do sleep 0.1; done";
    std::process::Command::new("sh").args(["-c", script]).status().unwrap();
}
"#;
        let project = project("killed", ignores, "fn main() {}\n");
        let mut build = start(project.command(&["build", "-q"]));
        let sleeps = sleeping(&project);
        send(&build, "TERM");
        std::thread::sleep(Duration::from_millis(300));
        assert!(is_running(sleeps));
        let began = Instant::now();
        assert_eq!(signal(&mut build, "TERM"), Some(15));
        assert!(began.elapsed() < Duration::from_secs(2));
        wait_for("the program ends", || (!is_running(sleeps)).then_some(()));
    }

    #[test]
    fn an_interrupted_wheel_leaves_nothing() {
        let project = project("ended-wheel", SLEEPS, "fn main() {}\n");
        let pyproject = "[build-system]\nrequires = [\"maturin\"]\nbuild-backend = \"maturin\"\n\
                         [project]\nname = \"sleeper\"\nversion = \"0.1.0\"\n\
                         [tool.maturin]\nbindings = \"bin\"\n";
        project.write("pyproject.toml", pyproject);
        let temporary = || {
            let builds = files(&project.path.join("target/cargo-cuda"));
            let all = builds.iter().filter(|path| path.is_dir());
            let all = all.flat_map(|build| files(build));
            all.filter(|path| path.to_string_lossy().contains("/.cargo-cuda-"))
                .count()
        };
        let mut wheel = start(wheel(&project.path, &project.cache, &[]));
        let sleeps = sleeping(&project);
        assert_eq!(temporary(), 1);
        assert_eq!(signal(&mut wheel, "TERM"), Some(15));
        wait_for("the program ends", || (!is_running(sleeps)).then_some(()));
        assert_eq!(temporary(), 0);
    }

    #[test]
    fn a_program_gets_one_interrupt_and_decides() {
        let program = env!("CARGO_BIN_EXE_cargo-cuda");
        let counting = project("counts", "fn main() {}\n", COUNTS);
        counting.run(&["build", "-q"]).succeeded();
        let mut command = Command::new("python3");
        interruptible(&mut command).args(["-c", TERMINAL, program, "cuda", "run", "-q"]);
        counting.prepare(&mut command);
        let run = Finished::of(command.output().unwrap());
        assert_eq!(run.stdout, "41\n", "{run:?}");
    }

    #[test]
    fn output_that_cannot_be_written_is_an_error() {
        let project = project("full", "fn main() {}\n", "fn main() {}\n");
        for arguments in [&["env"][..], &["--help"]] {
            let mut command = project.command(arguments);
            let full = fs::File::options().write(true).open("/dev/full").unwrap();
            let run = Finished::of(command.stdout(full).output().unwrap());
            let words = ["could not write to standard output", "No space left"];
            run.ended_with(cargo_cuda::exit_code::DISK, &words);
        }
        // A reader of the first lines closes the pipe.
        let mut command = project.command(&["env"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let run = Finished::of(child.wait_with_output().unwrap());
        assert_eq!((run.code, &*run.stderr), (0, ""));
    }
}
