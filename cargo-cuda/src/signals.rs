//! Passes signals that end this process on to the program that it has started.
//!
//! Otherwise a signal to this process alone (`kill`, a CI runner's cancel) would leave cargo, build scripts, nvcc or
//! pip running, with cargo's lock held. So a program gets a process group of its own, and signals are passed on to it.
//! If standard input is a terminal, the program stays in this process's group: it may read from the terminal, and the
//! terminal sends the SIGINT of Ctrl-C to both.
//!
//! The main thread waits for the program, removes temporary files and calls [`finish`], which ends this process by the
//! same signal. A second signal kills the program and ends this process at once.

use std::io::{self, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cuda_find_core::root::Root;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// The last signal that was received, zero for none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// The id of the running program, zero for none.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// Whether a program of the user is running. It may ignore a signal.
static IS_USERS_PROGRAM: AtomicBool = AtomicBool::new(false);

/// Programs of the group that are still running after this time are killed.
const KILL_AFTER: Duration = Duration::from_secs(5);

/// How long the main thread may take to remove temporary files.
const CLEAN_UP_TIME: Duration = Duration::from_secs(2);

/// Starts to pass signals on.
pub fn watch() {
    // `nohup`, and `command &` in a script, start a program with some signals ignored. Those signals must stay ignored.
    let status = Root::system().text(Path::new("/proc/self/status"));
    let status = status.unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let is_ignored = |signal: i32| ignored.unwrap_or(0) >> (signal - 1) & 1 == 1;
    let watched = [SIGINT, SIGTERM, SIGHUP].into_iter();
    let Ok(mut signals) = Signals::new(watched.filter(|signal| !is_ignored(*signal))) else {
        return;
    };
    thread::spawn(move || {
        for signal in signals.forever() {
            let is_first = RECEIVED.swap(signal, Ordering::SeqCst) == 0;
            let is_users_program = IS_USERS_PROGRAM.load(Ordering::SeqCst);
            if !is_first && !is_users_program {
                send(SIGKILL);
                let _ = emulate_default_handler(signal);
            }
            if signal != SIGINT || !io::stdin().is_terminal() {
                send(signal);
            }
            if !is_users_program {
                thread::spawn(move || end_without_child(signal));
            }
        }
    });
}

fn send(signal: i32) {
    let child = Pid::from_raw(CHILD.load(Ordering::SeqCst));
    if let (Some(child), Some(signal)) = (child, Signal::from_named_raw(signal)) {
        let _ = match io::stdin().is_terminal() {
            true => kill_process(child, signal),
            false => kill_process_group(child, signal),
        };
    }
}

/// Ends this process if no program is running and the main thread does not end it.
fn end_without_child(signal: i32) {
    loop {
        thread::sleep(CLEAN_UP_TIME);
        if CHILD.load(Ordering::SeqCst) == 0 {
            let _ = emulate_default_handler(signal);
        }
    }
}

/// Starts a program to which signals are passed on until [`wait`] returns.
pub fn start(command: &mut Command) -> io::Result<Child> {
    if !io::stdin().is_terminal() {
        command.process_group(0);
    }
    let child = command.spawn()?;
    CHILD.store(child.id().cast_signed(), Ordering::SeqCst);
    // The signal may have come before the program was started.
    if let Some(signal) = received() {
        send(signal.into());
    }
    Ok(child)
}

pub fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let status = child.wait();
    let ended = Instant::now();
    let is_ending = || received().is_some() && !IS_USERS_PROGRAM.load(Ordering::SeqCst);
    // After a signal, programs that this one has started may take longer to end, or ignore the signal.
    let group = Pid::from_child(child);
    while is_ending() && test_kill_process_group(group).is_ok() {
        if ended.elapsed() > KILL_AFTER {
            send(SIGKILL);
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    CHILD.store(0, Ordering::SeqCst);
    status
}

/// From now on, a signal neither kills a program nor ends this process.
pub fn leave_to_program() {
    IS_USERS_PROGRAM.store(true, Ordering::SeqCst);
}

/// Call this when the user's program has ended. Unless the received signal ended it, [`finish`] does not end this
/// process by a signal.
pub fn program_ended(signal: Option<i32>) {
    IS_USERS_PROGRAM.store(false, Ordering::SeqCst);
    if signal != Some(RECEIVED.load(Ordering::SeqCst)) {
        RECEIVED.store(0, Ordering::SeqCst);
    }
}

/// The signal that was received, if any.
pub fn received() -> Option<u8> {
    let signal = RECEIVED.load(Ordering::SeqCst);
    u8::try_from(signal).ok().filter(|signal| *signal != 0)
}

/// Must be the last call of the main thread. If a signal was received, it ends this process.
pub fn finish() {
    if let Some(signal) = received() {
        let _ = emulate_default_handler(signal.into());
    }
}
