//! Passes SIGINT, SIGTERM and SIGHUP on to every program that this one has started.
//!
//! Otherwise a signal to this process alone (`kill`, a CI runner's cancel, a closed terminal) would
//! leave cargo, build scripts, nvcc or pip running, with cargo's lock held. The main thread waits for
//! the program that it has started, then removes temporary files and calls [`finish`], which ends
//! this process by the same signal.
//!
//! After [`leave_to_program`], a program of the user decides itself what it does with a signal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cuda_build::internal::Root;
use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// The signal that was received, zero for none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// Whether the main thread has nothing left to do.
static FINISHED: AtomicBool = AtomicBool::new(false);

/// Whether a program of the user is running, see [`leave_to_program`].
static LEFT_TO_PROGRAM: AtomicBool = AtomicBool::new(false);

/// Descendants that are still running after this time are killed.
const KILL_AFTER: Duration = Duration::from_secs(5);

/// How long the signal thread waits for the main thread to remove temporary files.
const CLEAN_UP_TIME: Duration = Duration::from_secs(2);

/// The signal that was received, if any.
pub fn received() -> Option<u8> {
    let signal = RECEIVED.load(Ordering::SeqCst);
    u8::try_from(signal).ok().filter(|signal| *signal != 0)
}

/// Starts to pass signals on to descendants.
pub fn watch() {
    let status = Root::system()
        .text(Path::new("/proc/self/status"))
        .unwrap_or_default();
    // `nohup`, and `command &` in a script, start a program with some signals ignored. Those signals
    // must stay ignored.
    let watched = [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(|signal| ignored_signal_mask(&status) >> (signal - 1) & 1 == 0);
    let Ok(mut signals) = Signals::new(watched) else {
        return;
    };
    // Orphans become children of this process, so that `descendants` finds them.
    let _ = set_child_subreaper(Some(getpid()));
    thread::spawn(move || {
        for signal in signals.forever() {
            if !LEFT_TO_PROGRAM.load(Ordering::SeqCst) {
                RECEIVED.store(signal, Ordering::SeqCst);
                terminate_descendants(signal);
            } else if signal != SIGINT || !is_in_foreground() {
                descendants().into_iter().for_each(|it| send(it, signal));
            }
        }
    });
}

/// From now on, no program is killed or adopted, and this process ends only when the main thread ends it. A terminal
/// sends the SIGINT of Ctrl-C to this process and to the program, so that SIGINT is not passed on.
pub fn leave_to_program() {
    release();
    LEFT_TO_PROGRAM.store(true, Ordering::SeqCst);
}

/// Ends this process by the signal that ended the program, if it is one of those that are passed on.
pub fn end_as_program(signal: i32) {
    if [SIGINT, SIGTERM, SIGHUP].contains(&signal) {
        let _ = emulate_default_handler(signal);
    }
}

/// Whether a terminal sends signals to this process and to the programs that it has started.
fn is_in_foreground() -> bool {
    let stat = Root::system().text(Path::new("/proc/self/stat"));
    stat.is_ok_and(|stat| has_terminal(&stat))
}

/// Whether the process of a line of `/proc/<pid>/stat` is in the foreground process group of its terminal.
fn has_terminal(stat: &str) -> bool {
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // The process group, and that of the terminal, which is -1 without a terminal.
    fields.len() > 5 && fields[2] == fields[5]
}

fn send(process: i32, signal: i32) {
    if let (Some(pid), Some(signal)) = (Pid::from_raw(process), Signal::from_named_raw(signal)) {
        let _ = kill_process(pid, signal);
    }
}

/// Stops adopting orphans. Must be called before another program replaces this one (`exec`).
pub fn release() {
    let _ = set_child_subreaper(None);
}

/// Must be the last call of the main thread. If a signal was received, this does not return: the
/// signal thread ends the process by that signal when every descendant has ended.
pub fn finish() {
    if RECEIVED.load(Ordering::SeqCst) == 0 {
        return;
    }
    FINISHED.store(true, Ordering::SeqCst);
    loop {
        thread::park();
    }
}

/// The bit mask of ignored signals in `/proc/<pid>/status`.
fn ignored_signal_mask(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Passes `signal` on to every descendant, waits until all have ended, and ends this process.
fn terminate_descendants(signal: i32) {
    let mut signalled = BTreeSet::new();
    let started = Instant::now();
    let mut idle_since = Instant::now();
    loop {
        let running = descendants();
        if !running.is_empty() {
            idle_since = Instant::now();
        } else if signalled.is_empty()
            || FINISHED.load(Ordering::SeqCst)
            || idle_since.elapsed() > CLEAN_UP_TIME
        {
            break;
        }
        for process in running {
            let kill = started.elapsed() > KILL_AFTER;
            if signalled.insert((process, kill)) {
                send(process, if kill { SIGKILL } else { signal });
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    let _ = emulate_default_handler(signal);
}

const SIGKILL: i32 = signal_hook::consts::SIGKILL;

/// A line of `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: i32,
    session: i32,
    ended: bool,
}

impl Process {
    fn parse(stat: &str) -> Option<Self> {
        // The program's name comes first, in parentheses, and may itself contain parentheses.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        Some(Self {
            parent,
            session,
            ended: matches!(state, "Z" | "X"),
        })
    }
}

/// The running descendants of this process, without those in another session. A process in another
/// session is a daemon, such as sccache's server, which serves other builds too.
fn descendants() -> Vec<i32> {
    let root = Root::system();
    let processes: BTreeMap<i32, Process> = root
        .names(Path::new("/proc"))
        .into_iter()
        .filter_map(|name| {
            let stat = root
                .text(&Path::new("/proc").join(&name).join("stat"))
                .ok()?;
            Some((name.to_str()?.parse().ok()?, Process::parse(&stat)?))
        })
        .collect();
    let own = getpid().as_raw_nonzero().get();
    let Some(session) = processes.get(&own).map(|process| process.session) else {
        return Vec::new();
    };
    let is_below = |process: &Process| {
        let mut parent = process.parent;
        // The loop is bounded, because `processes` may contain a cycle: ids can be reused while `/proc`
        // is read.
        for _ in 0..processes.len() {
            match processes.get(&parent) {
                _ if parent == own => return true,
                Some(above) => parent = above.parent,
                None => return false,
            }
        }
        false
    };
    processes
        .iter()
        .filter(|(_, process)| !process.ended && process.session == session && is_below(process))
        .map(|(pid, _)| *pid)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_contain_parentheses() {
        let process = Process::parse("12 (a) b) S 7 12 5 0 -1").unwrap();
        assert_eq!(
            (process.parent, process.session, process.ended),
            (7, 5, false)
        );
        assert!(Process::parse("12 (a) Z 7 12 5").unwrap().ended);
        assert_eq!(Process::parse("12 (a"), None);
    }

    #[test]
    fn a_process_in_the_foreground_has_its_terminals_group() {
        assert!(has_terminal("12 (a) b) S 7 12 5 34816 12 0"));
        assert!(!has_terminal("12 (a) S 7 12 5 34816 5 0"), "background");
        assert!(!has_terminal("12 (a) S 7 12 5 0 -1 0"), "no terminal");
        assert!(!has_terminal("12 (a"));
    }

    #[test]
    fn ignored_signals_are_read() {
        assert_eq!(
            ignored_signal_mask("Name:\tx\nSigIgn:\t0000000000000001\n"),
            1
        );
        assert_eq!(ignored_signal_mask("Name:\tx\n"), 0);
    }
}
