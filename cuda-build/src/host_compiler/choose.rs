//! Chooses the host compiler.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::HostCompiler;
use super::judge::{Judge, Judged};
use crate::compile::identity::names_for_target;
use crate::component::Component;
use crate::env::Env;
use crate::error::Error;
use crate::nvcc::{self, locate};
use crate::root::Root;
use crate::target::Target;
use crate::toolkit::Toolkit;

/// nvcc's own variables for flags.
const FLAGS: [&str; 2] = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"];

/// Chooses the host compiler for a toolkit with nvcc.
///
/// # Errors
/// [`Error::HostCompiler`] if the user named a compiler that the toolkit does not accept or that does not compile for
/// `target`, or if no accepted compiler is installed. If `NVCC_PREPEND_FLAGS` or `NVCC_APPEND_FLAGS` contains
/// `-allow-unsupported-compiler`, every compiler is accepted. [`Error::Program`] if nvcc or the
/// compiler hangs.
pub fn choose(
    env: &Env,
    root: &Root,
    toolkit: &Toolkit,
    target: &Target,
) -> Result<HostCompiler, Error> {
    let nvcc = toolkit
        .tool(Component::Nvcc, "nvcc")
        .unwrap_or(Path::new("nvcc"));
    let answer = nvcc::query(root, env, nvcc)?;
    let directories = if answer.programs.is_empty() {
        env.search_path()
    } else {
        answer.programs.clone()
    };
    let crt = toolkit.get(Component::Crt);
    let include = crt.and_then(|crt| {
        let mut include = crt.include.iter();
        include.find(|directory| root.is_file(&directory.join("crt/host_config.h")))
    });
    let judge = Judge {
        root,
        env,
        toolkit: toolkit.version(),
        target,
        include: include.map(PathBuf::as_path),
        unchecked: flag(
            env,
            &[
                "-allow-unsupported-compiler",
                "--allow-unsupported-compiler",
            ],
        )
        .is_some(),
    };
    // nvcc's own choice already reflects `FLAGS`. A `-ccbin` in these flags overrides `NVCC_CCBIN`.
    let default = nvcc::host_compiler(root, env, nvcc, &answer);
    if let Some((variable, value)) = flag(env, &["-ccbin", "--compiler-bindir"]) {
        let file = default.or_else(|| locate(root, Path::new(&value), &directories));
        let judged = judge.named(variable, Path::new(&value), file)?;
        return Ok(judge.chosen(judged, None));
    }
    if let Some(program) = env.path("NVCC_CCBIN") {
        let file = locate(root, &program, &directories);
        let judged = judge.named("NVCC_CCBIN", &program, file)?;
        // An old nvcc does not read `NVCC_CCBIN` and needs the option.
        let path = judged.compiler.path.clone();
        let option = (default.as_ref() != Some(&path)).then_some(path);
        return Ok(judge.chosen(judged, option));
    }
    if let Some((variable, program)) = named_for_target(env, target) {
        let file = locate(root, &program, &env.search_path());
        let judged = judge.named(&variable, &program, file)?;
        let option = Some(judged.compiler.path.clone());
        return Ok(judge.chosen(judged, option));
    }
    // nvcc's own choice compiles for this machine.
    let default = match target.is_native() {
        true => default,
        false => locate(root, &usual_name(target), &env.search_path()),
    };
    let default = default
        .map(|path| judge.judge(&path))
        .transpose()?
        .flatten();
    if let Some(judged) = default.as_ref().filter(|judged| judge.accepts(judged)) {
        let option = (!target.is_native()).then(|| judged.compiler.path.clone());
        return Ok(judge.chosen(judged.clone(), option));
    }
    let installed = judge.installed();
    match (preferred(&installed), default) {
        (Some(judged), _) => {
            let option = Some(judged.compiler.path.clone());
            Ok(judge.chosen(judged.clone(), option))
        }
        (None, Some(judged)) => Err(judge.refused(&judged, None, &installed)),
        (None, None) => Err(judge.absent(None)),
    }
}

/// The usual name of the compiler for another platform: `aarch64-linux-gnu-g++`.
fn usual_name(target: &Target) -> PathBuf {
    format!("{}-g++", target.multiarch()).into()
}

/// The compiler for another platform that a variable of the `cc` crate names: `CXX_aarch64_unknown_linux_gnu` and so
/// on. `None` if this machine is the target: nvcc does not read these variables. A launcher before the compiler is
/// left out.
fn named_for_target(env: &Env, target: &Target) -> Option<(String, PathBuf)> {
    if target.is_native() {
        return None;
    }
    let names = names_for_target("CXX", env, target.triple());
    let (name, value) = (names.into_iter()).find_map(|name| env.path(&name).map(|v| (name, v)))?;
    let words: Vec<&str> = value.to_str().unwrap_or_default().split(' ').collect();
    let program = match words.as_slice() {
        ["ccache" | "sccache", program] => PathBuf::from(program),
        _ => value,
    };
    Some((name, program))
}

/// The variable that contains one of these options of nvcc, and the option's value.
fn flag(env: &Env, names: &[&str]) -> Option<(&'static str, String)> {
    FLAGS.into_iter().find_map(|variable| {
        let value = env.text(variable)?;
        option_value(&value, names).map(|value| (variable, value))
    })
}

/// The value of an option in a list of flags, in either of nvcc's spellings: `-ccbin g++`,
/// `--compiler-bindir=g++`. Empty for an option without a value.
fn option_value(flags: &str, names: &[&str]) -> Option<String> {
    let mut words = flags.split_whitespace();
    while let Some(word) = words.next() {
        let joined = word.split_once('=');
        let name = joined.map_or(word, |(name, _)| name);
        if names.contains(&name) {
            let value = joined.map(|(_, value)| value).or_else(|| words.next());
            return Some(value.unwrap_or_default().to_owned());
        }
    }
    None
}

impl Judge<'_> {
    fn accepts(&self, judged: &Judged) -> bool {
        judged.is_for(self.target) && (self.unchecked || judged.refusal.is_none())
    }

    /// The compiler that a variable names.
    fn named(
        &self,
        variable: &str,
        program: &Path,
        file: Option<PathBuf>,
    ) -> Result<Judged, Error> {
        let judged = file.map(|file| self.judge(&file)).transpose()?.flatten();
        let judged = judged.ok_or_else(|| self.absent(Some((variable, program))))?;
        if self.accepts(&judged) {
            Ok(judged)
        } else {
            Err(self.refused(&judged, Some(variable), &self.installed()))
        }
    }

    fn chosen(&self, judged: Judged, option: Option<PathBuf>) -> HostCompiler {
        HostCompiler {
            compiler: judged.compiler,
            option,
            is_cross: !self.target.is_native(),
        }
    }

    /// Every C++ compiler for the target on `PATH` that has a usual name, each once. A program that cannot
    /// be queried is skipped.
    fn installed(&self) -> Vec<Judged> {
        let root = self.root;
        let mut seen: Vec<PathBuf> = Vec::new();
        let mut compilers = Vec::new();
        for directory in self.env.search_path() {
            for name in root.names(&directory) {
                let path = directory.join(&name);
                let real = root.resolve(&path);
                if name
                    .to_str()
                    .is_some_and(|name| self.is_compiler_name(name))
                    && root.is_file(&path)
                    && !seen.contains(&real)
                {
                    seen.push(real);
                    compilers.extend(self.judge(&path).ok().flatten());
                }
            }
        }
        compilers.retain(|judged| judged.is_for(self.target));
        compilers
    }

    /// A C++ compiler for the target by its file name: `g++`, `g++-12`, `clang++-18`, and in a cross build
    /// `aarch64-linux-gnu-g++-12`.
    fn is_compiler_name(&self, name: &str) -> bool {
        match self.target.is_native() {
            true => is_compiler_name(name),
            false => {
                let prefix = name.strip_prefix(self.target.multiarch());
                let name = prefix.and_then(|rest| rest.strip_prefix('-'));
                name.is_some_and(is_compiler_name)
            }
        }
    }

    /// The newest compilers that the toolkit supports, for a message.
    fn bounds(&self) -> String {
        match self.facts() {
            Some(facts) => format!(
                "CUDA {} supports gcc up to {} and clang up to {}",
                self.toolkit, facts.gcc_max, facts.clang_max
            ),
            None => format!(
                "this version of cuda-build does not know which compilers CUDA {} supports",
                self.toolkit
            ),
        }
    }

    /// How to install a compiler that the toolkit accepts. `named_by` is the variable with which the user named the
    /// refused or missing compiler.
    fn install_hint(&self, named_by: Option<&str>) -> String {
        let example = match self.facts() {
            Some(facts) => format!("g++-{}", facts.gcc_max),
            None => "an older g++".to_owned(),
        };
        let setting = setting(named_by.unwrap_or("NVCC_CCBIN"), "<its path>");
        if !self.target.is_native() {
            let (name, package) = (usual_name(self.target), self.target.multiarch());
            return format!(
                "install {} (Debian: `apt install g++-{package}`), and if it is not on `PATH`, {setting}",
                name.display()
            );
        }
        format!("install {example}, and if it is not on `PATH`, {setting}")
    }

    /// The error for a compiler that the toolkit does not accept.
    fn refused(&self, judged: &Judged, named_by: Option<&str>, installed: &[Judged]) -> Error {
        let compiler = &judged.compiler;
        let named = named_by.map(|variable| format!(", which `{variable}` names,"));
        let hint = match (preferred(installed), named_by) {
            (Some(other), Some(variable)) => format!(
                "{}; or {}: the newest installed compiler that CUDA {} accepts is then used",
                setting(variable, &other.compiler.path.display().to_string()),
                match FLAGS.contains(&variable) {
                    true => format!("remove `-ccbin` from `{variable}`"),
                    false => format!("unset `{variable}`"),
                },
                self.toolkit
            ),
            _ => self.install_hint(named_by),
        };
        if let Some(architecture) = judged.architecture.filter(|_| !judged.is_for(self.target)) {
            return Error::HostCompiler {
                reason: format!(
                    "host compiler {compiler}{} compiles for {architecture}, but the build is for {}",
                    named.unwrap_or_default(),
                    self.target
                ),
                tried: installed.iter().map(|j| j.compiler.to_string()).collect(),
                hints: vec![hint],
            };
        }
        Error::HostCompiler {
            reason: format!(
                "host compiler {compiler}{} is not accepted by CUDA {}: {} ({})",
                named.unwrap_or_default(),
                self.toolkit,
                judged.refusal.as_deref().unwrap_or_default(),
                self.bounds()
            ),
            tried: installed
                .iter()
                .filter(|other| other.compiler.path != compiler.path)
                .map(|other| other.compiler.to_string())
                .collect(),
            hints: vec![
                hint,
                "to use it without NVIDIA's support, set `NVCC_APPEND_FLAGS=-allow-unsupported-compiler`"
                    .to_owned(),
            ],
        }
    }

    /// The error if there is no compiler at all.
    fn absent(&self, named: Option<(&str, &Path)>) -> Error {
        let reason = match named {
            Some((variable, path)) => format!(
                "`{variable}` names {}, which is not a C++ compiler that can be run",
                path.display()
            ),
            None if !self.target.is_native() => format!(
                "nvcc needs a C++ compiler for {}, and there is no `{}` on `PATH` ({})",
                self.target,
                usual_name(self.target).display(),
                self.bounds()
            ),
            None => format!(
                "nvcc needs a host compiler, and there is none on `PATH` ({})",
                self.bounds()
            ),
        };
        Error::HostCompiler {
            reason,
            tried: Vec::new(),
            hints: vec![self.install_hint(named.map(|(variable, _)| variable))],
        }
    }
}

/// How to name a compiler in a variable.
fn setting(variable: &str, program: &str) -> String {
    match FLAGS.contains(&variable) {
        true => format!("write `-ccbin {program}` in `{variable}`"),
        false => format!("set `{variable}={program}`"),
    }
}

/// The best compiler that the toolkit accepts: gcc before clang, because NVIDIA tests its headers
/// with gcc's standard library, then the newest.
fn preferred(installed: &[Judged]) -> Option<&Judged> {
    let accepted = installed.iter().filter(|judged| judged.refusal.is_none());
    accepted.min_by_key(|Judged { compiler, .. }| (compiler.family, Reverse(compiler.major)))
}

/// A C++ compiler by its file name: `g++`, `g++-12`, `clang++-18`.
fn is_compiler_name(name: &str) -> bool {
    let families = ["g++", "clang++"].into_iter();
    let mut rest = families.filter_map(|family| name.strip_prefix(family));
    rest.next().is_some_and(|rest| {
        let version = rest.strip_prefix('-').map(str::parse::<u32>);
        rest.is_empty() || version.is_some_and(|version| version.is_ok())
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
