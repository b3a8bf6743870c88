//! How an nvcc is asked: by `nvcc --version` and the profile beside it where that tells the same as
//! a dry run, else by a dry run, which starts the host compiler and takes four times longer.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::command::{self, Answer, Invocation};
use crate::env::Env;
use crate::probe::{NvccAnswer, NvccProfile, wrapper};
use crate::root::Root;
use crate::version::Version;

/// nvcc's own variables: flags, and a host compiler that may be for another machine.
const OWN: [&str; 3] = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"];

/// What the usual profiles add to, for a profile that can't be read.
const USUAL: [&str; 5] = [
    "TOP",
    "CICC_PATH",
    "INCLUDES",
    "SYSTEM_INCLUDES",
    "LIBRARIES",
];

/// Debian's wrapper has 66 bytes.
const LARGEST_WRAPPER: u64 = 4096;

/// `e_machine` of x86-64. nvcc for Arm chooses between `sbsa-linux` and `aarch64-linux` by itself.
const X86_64: u16 = 62;

/// Majors of which releases were seen to read profiles alike: 11.8, 12.4, 13.0, 13.4, 13.5. That
/// the others of these majors do is assumed; a new major is asked by a dry run.
const KNOWN_MAJORS: [u64; 3] = [11, 12, 13];

/// An nvcc as it lies on the disk, looked at and not started.
pub(super) struct Nvcc<'a> {
    nvcc: &'a Path,
    /// The same, or what a script in its place starts.
    pub(super) program: PathBuf,
    /// What that script puts before `PATH`.
    before_path: Option<String>,
    profile: Option<NvccProfile>,
}

impl<'a> Nvcc<'a> {
    pub(super) fn new(root: &Root, nvcc: &'a Path) -> Self {
        let small = root
            .metadata(nvcc)
            .is_ok_and(|metadata| metadata.len() < LARGEST_WRAPPER);
        let script = small.then(|| root.text(nvcc).ok()).flatten();
        let (program, before_path) = match script.and_then(|script| wrapper(&script)) {
            Some(wrapper) => (wrapper.program, wrapper.before_path),
            None => (nvcc.to_owned(), None),
        };
        let profile = root
            .text(&profile_of(&program))
            .ok()
            .and_then(|text| NvccProfile::parse(&text));
        Self {
            nvcc,
            program,
            before_path,
            profile,
        }
    }

    /// Variables of the process that the answer depends on.
    pub(super) fn asks(&self) -> BTreeSet<&str> {
        let profile = self
            .profile
            .as_ref()
            .map_or_else(|| USUAL.into(), NvccProfile::asks);
        OWN.into_iter().chain(profile).collect()
    }

    /// Starts it, with the variables of `env`.
    pub(super) fn ask(&self, root: &Root, env: &Env) -> Option<Answer> {
        self.by_profile(root, env)
            .map(Answer::Whole)
            .or_else(|| command::ask_nvcc(self.nvcc, env))
    }

    /// What a dry run would print of variables, and what `--version` prints.
    fn by_profile(&self, root: &Root, env: &Env) -> Option<String> {
        if env
            .variables()
            .any(|(name, _)| OWN.iter().any(|own| name == OsStr::new(own)))
        {
            return None;
        }
        let here = self
            .program
            .parent()
            .filter(|here| here.is_absolute())?
            .to_str()?;
        let targets = root.is_dir(&targets_of(&self.program));
        let with_path;
        let env = match &self.before_path {
            None => env,
            Some(directory) => {
                let path = env.peek("PATH").unwrap_or_default().to_str()?;
                with_path = env.clone().with("PATH", format!("{directory}:{path}"));
                &with_path
            }
        };
        let lines = self.profile.as_ref()?.evaluate(here, targets, env)?;
        // A script may do anything; this one is a program of NVIDIA's.
        if root.elf_machine(&self.program) != Some(X86_64) {
            return None;
        }
        let printed = Invocation::new(self.nvcc)
            .args(["--version"])
            .run_with(env)
            .ok()?;
        let text = lines + &printed.output;
        let answer = NvccAnswer::parse(&text).filter(|_| printed.success)?;
        known(&answer.version).then_some(text)
    }
}

fn known(version: &Version) -> bool {
    KNOWN_MAJORS.contains(&version.part(0))
}

/// The profile lies beside argument zero, links not resolved.
pub(super) fn profile_of(program: &Path) -> PathBuf {
    program.with_file_name("nvcc.profile")
}

/// Whether this is a directory decides where nvcc looks for headers and libraries.
pub(super) fn targets_of(program: &Path) -> PathBuf {
    program.with_file_name("../targets")
}
