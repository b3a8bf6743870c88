//! What is compiled again after a change, how long it takes, and whether the result is right.

pub(crate) mod project;
mod sccache;
mod table;
pub(crate) mod toolkit;
pub(crate) mod ways;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::measure::{cargo, machine, measured, median};
use project::{Project, Situation};
use sccache::Server;
use toolkit::{Calls, Counted};
use ways::{WAYS, Way};

/// The capabilities of the first builds.
const ONE: &[&str] = &["80"];
const FOUR: &[&str] = &["80", "86", "89", "90"];
const FIVE: &[&str] = &["80", "86", "89", "90", "120"];

/// What is measured, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Cold,
    Nothing,
    OneFile,
    Header,
    Release,
    /// A clean rebuild, with what a launcher has kept.
    Clean,
    /// Four capabilities: the start for the next step.
    Four,
    FourToFive,
    FiveToFour,
}

const STEPS: [Step; 9] = [
    Step::Cold,
    Step::Nothing,
    Step::OneFile,
    Step::Header,
    Step::Release,
    Step::Clean,
    Step::Four,
    Step::FourToFive,
    Step::FiveToFour,
];

impl Step {
    fn title(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Nothing => "nothing to do",
            Self::OneFile => "one file of twelve",
            Self::Header => "the shared header",
            Self::Release => "release after dev",
            Self::Clean => "clean, cache full",
            Self::Four => "capabilities 1 → 4",
            Self::FourToFive => "4 → 5",
            Self::FiveToFour => "5 → 4",
        }
    }

    fn capabilities(self) -> &'static [&'static str] {
        match self {
            Self::Four | Self::FiveToFour => FOUR,
            Self::FourToFive => FIVE,
            _ => ONE,
        }
    }

    /// How often it is done. Where little happens, once says nothing.
    fn repeats(self) -> usize {
        if self == Self::Nothing { 5 } else { 1 }
    }
}

/// What one build came to.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    calls: Calls,
    cpu: f64,
    wall: f64,
    /// Whether the program that was built does what the sources say, for all capabilities.
    right: bool,
}

/// A way to build, and what it came to in each round.
struct Peer {
    way: &'static Way,
    directory: PathBuf,
    project: Project,
    version: String,
    /// For each step, one outcome for each round.
    outcomes: Vec<Vec<Outcome>>,
    failure: Option<String>,
    /// For the way that uses sccache.
    server: Option<Server>,
}

/// # Errors
/// No toolkit with nvcc and cuobjdump, or a project that can't be written. A neighbour that can't build is
/// named below the table.
pub fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let (rounds, names) = match arguments.split_first() {
        Some((first, rest)) if first.parse::<usize>().is_ok() => (first.parse()?, rest),
        _ => (5, arguments),
    };
    let place = tempfile::tempdir()?;
    let toolkit = Counted::new(&place.path().join("cuda"))?;
    let mut peers = Vec::new();
    for way in &WAYS {
        if !names.is_empty() && !names.iter().any(|name| way.name.contains(name.as_str())) {
            continue;
        }
        let directory = place.path().join(way.id());
        let mut peer = Peer {
            way,
            project: Project::write(&directory, way)?,
            directory,
            version: String::new(),
            outcomes: vec![Vec::new(); STEPS.len()],
            failure: None,
            server: None,
        };
        if let Err(error) = peer.prepare(&toolkit) {
            peer.failure = Some(error.to_string());
        }
        peers.push(peer);
    }
    let load = load();
    for round in 0..rounds {
        // Interleaved, so that a slow minute of the machine meets everyone.
        for peer in peers.iter_mut().filter(|peer| peer.failure.is_none()) {
            eprintln!("round {} of {rounds}: {}", round + 1, peer.way.name);
            if let Err(error) = peer.round(&toolkit) {
                peer.failure = Some(error.to_string());
            }
        }
    }
    println!(
        "Twelve `.cu` files, nvcc {}, {}. Median of {rounds} interleaved rounds; load {load} before, {} after.\n",
        toolkit.version,
        machine(),
        self::load()
    );
    table::print(&peers);
    for peer in &peers {
        if let Some(failure) = &peer.failure {
            println!("\n{}: {failure}", peer.way.name);
        }
    }
    Ok(())
}

/// Running and waiting processes, on average over 1, 5 and 15 minutes.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

impl Peer {
    /// Compiles the build script and what it depends on, for both profiles: neither is measured here.
    fn prepare(&mut self, toolkit: &Counted) -> Result<(), Box<dyn Error>> {
        for profile in ["dev", "release"] {
            let mut command = self.build(toolkit, ONE, profile);
            measured(command.arg("--lib").env("PEERS_PREPARE", "1"))?;
        }
        for profile in ["debug", "release"] {
            for name in ["build", ".fingerprint"] {
                let from = self.directory.join("target").join(profile).join(name);
                copy(&from, &self.prepared(profile, name))?;
            }
        }
        let lock = fs::read_to_string(self.directory.join("Cargo.lock"))?;
        self.version = project::locked_version(&lock, self.way.package).unwrap_or_default();
        Ok(())
    }

    fn prepared(&self, profile: &str, name: &str) -> PathBuf {
        self.directory.join("prepared").join(profile).join(name)
    }

    /// As if the build script had never run for this profile.
    fn reset(&self, profile: &str) -> Result<(), Box<dyn Error>> {
        for name in ["build", ".fingerprint"] {
            let to = self.directory.join("target").join(profile).join(name);
            fs::remove_dir_all(&to)?;
            copy(&self.prepared(profile, name), &to)?;
        }
        Ok(())
    }

    fn round(&mut self, toolkit: &Counted) -> Result<(), Box<dyn Error>> {
        self.reset("debug")?;
        self.reset("release")?;
        self.server = None;
        let cache = self.directory.join("launcher-cache");
        if cache.exists() {
            fs::remove_dir_all(&cache)?;
        }
        if self.way.env.iter().any(|(_, value)| *value == "sccache") {
            self.server = Some(Server::start(&cache)?);
        }
        for (index, step) in STEPS.into_iter().enumerate() {
            if step == Step::Clean && !self.way.has_launcher() {
                continue;
            }
            let mut repeats = Vec::new();
            for _ in 0..step.repeats() {
                repeats.push(self.step(toolkit, step)?);
            }
            let last = repeats[repeats.len() - 1];
            let middle = |value: fn(&Outcome) -> f64| median(repeats.iter().map(value).collect());
            self.outcomes[index].push(Outcome {
                cpu: middle(|outcome| outcome.cpu),
                wall: middle(|outcome| outcome.wall),
                ..last
            });
        }
        self.server = None;
        Ok(())
    }

    fn step(&mut self, toolkit: &Counted, step: Step) -> Result<Outcome, Box<dyn Error>> {
        // Some of the neighbours compare times of change.
        std::thread::sleep(Duration::from_millis(50));
        match step {
            Step::OneFile => self.project.change(Situation::OneFile)?,
            Step::Header => self.project.change(Situation::Header)?,
            Step::Clean => self.reset("debug")?,
            _ => {}
        }
        let (profile, directory) = match step {
            Step::Release => ("release", "release"),
            _ => ("dev", "debug"),
        };
        toolkit.forget()?;
        let capabilities = step.capabilities();
        let server_cpu = || self.server.as_ref().map_or(0.0, Server::cpu);
        let before = server_cpu();
        let (used, _) = measured(&mut self.build(toolkit, capabilities, profile))?;
        let cpu = used.cpu.as_secs_f64() + server_cpu() - before;
        let calls = toolkit.calls()?;
        let program = self.directory.join("target").join(directory).join("twelve");
        let right = !self.way.compiles()
            || (Command::new(&program).output()?.stdout == self.project.expected().as_bytes()
                && toolkit.has_exactly(&program, capabilities, FIVE)?);
        eprintln!(
            "  {}: {:.2} s CPU, {:.2} s, {}",
            step.title(),
            cpu,
            used.wall.as_secs_f64(),
            if right { "right" } else { "stale" }
        );
        Ok(Outcome {
            calls,
            cpu,
            wall: used.wall.as_secs_f64(),
            right,
        })
    }

    fn build(&self, toolkit: &Counted, capabilities: &[&str], profile: &str) -> Command {
        let mut command = cargo(&self.directory, &self.directory.join("target"));
        command.args(["build", "--profile", profile]);
        toolkit.export(&mut command);
        let declared: Vec<String> = capabilities
            .iter()
            .map(|name| format!("sm_{name}"))
            .collect();
        command
            .env("CAPABILITIES", capabilities.join(" "))
            .env("CUDA_BUILD_CAPABILITIES", declared.join(","))
            .env(
                "CUDA_BUILD_CACHE_DIR",
                self.directory.with_file_name("cache"),
            )
            .env("CCACHE_DIR", self.directory.join("launcher-cache"))
            .env("SCCACHE_SERVER_PORT", sccache::PORT);
        command.envs(self.way.env.iter().copied());
        command
    }
}

/// With the times of change, by which Cargo decides.
fn copy(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    measured(Command::new("cp").arg("-a").arg(from).arg(to))?;
    Ok(())
}
