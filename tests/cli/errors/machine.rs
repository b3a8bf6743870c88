//! A machine without CUDA, on which `cargo cuda` is run: a cache, a working directory, and a `PATH` with cargo alone.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;

use super::Snapshot;
use crate::project::checkout;
use crate::support::{Finished, Sandbox, Tool};

pub(super) struct Machine {
    sandbox: Sandbox,
    pub here: PathBuf,
}

impl Machine {
    pub(super) fn new() -> Self {
        let sandbox = Sandbox::new(Tool::Nothing);
        let here = sandbox.path("").canonicalize().unwrap();
        let cargo = PathBuf::from(std::env::var_os("CARGO").unwrap());
        for name in ["cargo", "rustc"] {
            symlink(cargo.with_file_name(name), here.join("bin").join(name)).unwrap();
        }
        for directory in ["home", "project"] {
            fs::create_dir(here.join(directory)).unwrap();
        }
        Self { sandbox, here }
    }

    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.sandbox.path(below)
    }

    /// Writes a file of the working directory, or another one if the path starts with `/here`.
    pub(super) fn write(&self, file: &str, text: impl AsRef<[u8]>) {
        let path = match file.strip_prefix("/here/") {
            Some(below) => self.here.join(below),
            None => self.here.join("project").join(file),
        };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Puts a shell script on `PATH`.
    pub(super) fn program(&self, name: &str, body: &str) {
        self.script(&format!("/here/bin/{name}"), body);
    }

    pub(super) fn script(&self, file: &str, body: &str) {
        self.write(file, format!("#!/bin/sh\n{body}\n"));
        let path = self.here.join(file.trim_start_matches("/here/"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// `NAME=value … cargo cuda …`; `/here` is the machine's directory.
    pub(super) fn command(&self, line: &str) -> Command {
        let line = line.replace("/here", self.here.to_str().unwrap());
        let words = shlex::split(&line).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-cuda"));
        command
            .arg("cuda")
            .current_dir(self.here.join("project"))
            .env_clear()
            .env("PATH", self.here.join("bin"))
            .env("HOME", self.here.join("home"))
            .env("CUDA_BUILD_CACHE_DIR", self.here.join("cache"))
            .env("CUDA_BUILD_SOURCES", "variable,lock,stored");
        let count = words.iter().take_while(|word| is_variable(word)).count();
        for (name, value) in words[..count]
            .iter()
            .filter_map(|word| word.split_once('='))
        {
            match value {
                "" => command.env_remove(name),
                _ => command.env(name, value),
            };
        }
        command.args(&words[count..]);
        command
    }

    /// Runs `cargo cuda`, which must fail, and adds what it prints.
    pub(super) fn fails(&self, snapshot: &mut Snapshot, line: &str) {
        self.fails_as(snapshot, line, line);
    }

    /// The same with a description instead of the command line.
    pub(super) fn fails_as(&self, snapshot: &mut Snapshot, what: &str, line: &str) {
        self.fails_with(snapshot, what, line, &mut self.command(line));
    }

    /// The same for a command that was made from `line`.
    pub(super) fn fails_with(
        &self,
        snapshot: &mut Snapshot,
        what: &str,
        line: &str,
        command: &mut Command,
    ) {
        let run = Finished::of(command.output().unwrap());
        let (variables, arguments) = line.split_at(start_of_arguments(line));
        let mut title = format!("{variables}cargo cuda {arguments}");
        if what != line {
            title.push_str(&format!("   ({what})"));
        }
        if run.code == 0 {
            snapshot
                .problems
                .push(format!("no error: {title}: {run:?}"));
        }
        snapshot.add(&title, &self.portable(&run.stderr));
    }

    /// The text without the paths of this machine.
    fn portable(&self, text: &str) -> String {
        let text = text.replace(self.here.to_str().unwrap(), "/here");
        let text = text.replace(checkout().to_str().unwrap(), "/checkout");
        let names: Vec<String> = text.split('/').map(without_random_end).collect();
        without_sizes(&names.join("/"))
    }
}

/// The text without the sizes of files that this machine's linker made.
fn without_sizes(text: &str) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for index in 1..words.len() {
        if words[index].starts_with("kB") && words[index - 1].parse::<f64>().is_ok() {
            words[index - 1] = "N".to_owned();
        }
    }
    words.join(" ")
}

/// The start of a path's part without the random end of a temporary name.
fn without_random_end(part: &str) -> String {
    for prefix in [".tmp", ".part-", ".cargo-cuda-", "cargo-cuda-"] {
        let rest = part.strip_prefix(prefix);
        if let Some(rest) = rest.filter(|rest| rest.len() >= 6 && rest.is_char_boundary(6))
            && rest[..6].chars().all(|c| c.is_ascii_alphanumeric())
        {
            return format!("{prefix}XXXXXX{}", &rest[6..]);
        }
    }
    // The key of a target directory holds the paths of this machine.
    match part.split_once('-') {
        Some((release, key))
            if key.len() == 16 && release.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            format!("{release}-0123456789abcdef")
        }
        _ => part.to_owned(),
    }
}

/// Whether a word sets a variable.
fn is_variable(word: &str) -> bool {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// The position after the variables of a line.
fn start_of_arguments(line: &str) -> usize {
    let words = line.split_inclusive(' ');
    words
        .take_while(|word| is_variable(word))
        .map(str::len)
        .sum()
}
