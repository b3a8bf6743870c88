//! Chooses the host compiler.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::HostCompiler;
use super::judge::{HEADER, Judge, Judged};
use crate::cc_variables::names_for_target;
use crate::error::Error;
use crate::nvcc_options::arguments;
use cuda_find_core::nvcc::{self, locate};
use cuda_find_core::toolkit::Toolkit;
use cuda_find_core::{component::Component, env::Env, root::Root, target::Target};

/// The variables from which nvcc reads flags.
const FLAG_VARIABLES: [&str; 2] = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"];

/// Chooses the host compiler for a toolkit with nvcc.
///
/// # Errors
/// [`Error::HostCompiler`] if the user named a compiler that the toolkit does not accept or that does not compile for
/// `target`, or if no accepted compiler is installed. If `NVCC_PREPEND_FLAGS` or `NVCC_APPEND_FLAGS` contains
/// `-allow-unsupported-compiler`, every compiler is accepted. [`cuda_find_core::error::Error::Program`] if nvcc or the
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
    let include = toolkit.get(Component::Crt).and_then(|crt| {
        let mut include = crt.include.iter();
        include.find(|directory| root.is_file(&directory.join(HEADER)))
    });
    let unchecked = flag(
        env,
        "-allow-unsupported-compiler",
        "--allow-unsupported-compiler",
    );
    let judge = Judge {
        root,
        env,
        toolkit: toolkit.version(),
        target,
        include: include.map(PathBuf::as_path),
        unchecked: unchecked.is_some(),
    };
    // nvcc has read `FLAG_VARIABLES` for this choice. The compiler is one for this machine.
    let chosen_by_nvcc = nvcc::host_compiler(root, env, nvcc, &answer);
    let search_path = env.search_path();
    let searched_by_nvcc = if answer.programs.is_empty() {
        &search_path
    } else {
        &answer.programs
    };
    // A `-ccbin` in `FLAG_VARIABLES` overrides `NVCC_CCBIN`.
    let named_in_flags = flag(env, "-ccbin", "--compiler-bindir");
    let named = if let Some((variable, value)) = &named_in_flags {
        let program = PathBuf::from(value);
        let file = (chosen_by_nvcc.clone()).or_else(|| locate(root, &program, searched_by_nvcc));
        Some(((*variable).to_owned(), program, file))
    } else if let Some(program) = env.path("NVCC_CCBIN") {
        let file = locate(root, &program, searched_by_nvcc);
        Some(("NVCC_CCBIN".to_owned(), program, file))
    } else {
        named_for_target(env, target).map(|(variable, program)| {
            let file = locate(root, &program, &search_path);
            (variable, program, file)
        })
    };
    let judge_file = |file: Option<PathBuf>| match file {
        Some(file) => judge.judge(&file),
        None => Ok(None),
    };
    if let Some((variable, program, file)) = named {
        let Some(judged) = judge_file(file)? else {
            return Err(judge.absent(Some((&variable, &program))));
        };
        if !judge.accepts(&judged) {
            return Err(judge.refused(&judged, Some(&variable), &judge.installed()));
        }
        // An old nvcc does not read `NVCC_CCBIN` and needs the option.
        let is_chosen_by_nvcc = chosen_by_nvcc.as_ref() == Some(&judged.compiler.path);
        let needs_option = named_in_flags.is_none() && !is_chosen_by_nvcc;
        return Ok(judge.chosen(judged, needs_option));
    }
    let default = judge_file(if target.is_native() {
        chosen_by_nvcc
    } else {
        locate(root, &usual_name(target), &search_path)
    })?;
    if let Some(judged) = default.as_ref().filter(|judged| judge.accepts(judged)) {
        return Ok(judge.chosen(judged.clone(), !target.is_native()));
    }
    let installed = judge.installed();
    if let Some(judged) = judge.preferred(&installed) {
        return Ok(judge.chosen(judged.clone(), true));
    }
    Err(match default.as_ref().or(installed.first()) {
        Some(judged) => judge.refused(judged, None, &installed),
        None => judge.absent(None),
    })
}

/// The usual name of the compiler for another platform: `aarch64-linux-gnu-g++`.
fn usual_name(target: &Target) -> PathBuf {
    format!("{}-g++", target.multiarch()).into()
}

/// In a cross build, the compiler that a variable of the `cc` crate names, such as `CXX_aarch64_unknown_linux_gnu`,
/// without a launcher before it. `None` in a native build, because nvcc does not read these variables.
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

/// The variable that contains an option of nvcc, in either spelling, and the option's value: `-ccbin g++`,
/// `--compiler-bindir=g++`. The value is empty for an option without a value.
fn flag(env: &Env, short: &str, long: &str) -> Option<(&'static str, String)> {
    FLAG_VARIABLES.into_iter().find_map(|variable| {
        let flags = env.text(variable)?;
        let mut arguments = arguments(flags.split_whitespace()).into_iter();
        let found = arguments.find(|argument| {
            let name = argument.words[0].split('=').next();
            name == Some(short) || name == Some(long)
        });
        Some((variable, found?.value))
    })
}

impl Judge<'_> {
    fn accepts(&self, judged: &Judged) -> bool {
        judged.is_for(self.target) && (self.unchecked || judged.refusal.is_none())
    }

    /// The best accepted compiler: gcc before clang, because NVIDIA tests its headers with gcc's standard library,
    /// then the newest.
    fn preferred<'a>(&self, installed: &'a [Judged]) -> Option<&'a Judged> {
        let accepted = installed.iter().filter(|judged| self.accepts(judged));
        accepted.min_by_key(|Judged { compiler, .. }| (compiler.family, Reverse(compiler.major)))
    }

    fn chosen(&self, judged: Judged, needs_option: bool) -> HostCompiler {
        HostCompiler {
            option: needs_option.then(|| judged.compiler.path.clone()),
            compiler: judged.compiler,
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
                let is_compiler = (name.to_str()).is_some_and(|name| self.is_compiler_name(name));
                if is_compiler && root.is_file(&path) && !seen.contains(&real) {
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
        let prefix = if self.target.is_native() {
            String::new()
        } else {
            format!("{}-", self.target.multiarch())
        };
        let name = name.strip_prefix(&prefix);
        let version = name
            .and_then(|name| (name.strip_prefix("g++")).or_else(|| name.strip_prefix("clang++")));
        version.is_some_and(|version| {
            let number = version.strip_prefix('-').map(str::parse::<u32>);
            version.is_empty() || number.is_some_and(|number| number.is_ok())
        })
    }

    /// The newest compilers that the toolkit supports, for a message.
    fn bounds(&self) -> String {
        let toolkit = self.toolkit;
        match self.facts() {
            Some(facts) => {
                let (gcc, clang) = (facts.gcc_max, facts.clang_max);
                format!("CUDA {toolkit} supports gcc up to {gcc} and clang up to {clang}")
            }
            None => format!(
                "this version of cuda-build does not know which compilers CUDA {toolkit} supports"
            ),
        }
    }

    /// How to install a compiler that the toolkit accepts. `named_by` is the variable with which the user named the
    /// refused or missing compiler.
    fn install_hint(&self, named_by: Option<&str>) -> String {
        let example = match (self.target.is_native(), self.facts()) {
            (false, _) => {
                let name = usual_name(self.target);
                let package = self.target.multiarch();
                format!("{} (Debian: `apt install g++-{package}`)", name.display())
            }
            (true, Some(facts)) => format!("g++-{}", facts.gcc_max),
            (true, None) => "an older g++".to_owned(),
        };
        let variable = named_by.unwrap_or("NVCC_CCBIN");
        format!("install {example}, and if it is not on `PATH`, name it in `{variable}`")
    }

    /// The error for a compiler that the toolkit does not accept.
    fn refused(&self, judged: &Judged, named_by: Option<&str>, installed: &[Judged]) -> Error {
        let compiler = &judged.compiler;
        let named = named_by.map(|variable| format!(", which `{variable}` names,"));
        let subject = format!("host compiler {compiler}{}", named.unwrap_or_default());
        let mut hints = vec![match (self.preferred(installed), named_by) {
            (Some(other), Some(variable)) => format!(
                "name {} in `{variable}`, or no compiler: the newest installed one that CUDA {} accepts is then used",
                other.compiler.path.display(),
                self.toolkit
            ),
            _ => self.install_hint(named_by),
        }];
        let architecture = judged.architecture.filter(|_| !judged.is_for(self.target));
        let reason = match architecture {
            Some(architecture) => {
                let target = self.target;
                format!("{subject} compiles for {architecture}, but the build is for {target}")
            }
            None => {
                let allowed = "NVCC_APPEND_FLAGS=-allow-unsupported-compiler";
                hints.push(format!(
                    "to use it without NVIDIA's support, set `{allowed}`"
                ));
                let refusal = judged.refusal.as_deref().unwrap_or_default();
                let (toolkit, bounds) = (self.toolkit, self.bounds());
                format!("{subject} is not accepted by CUDA {toolkit}: {refusal} ({bounds})")
            }
        };
        Error::HostCompiler { reason, hints }
    }

    /// The error if there is no compiler at all.
    fn absent(&self, named: Option<(&str, &Path)>) -> Error {
        let bounds = self.bounds();
        let reason = match named {
            Some((variable, path)) => format!(
                "`{variable}` names {}, which is not a C++ compiler that can be run",
                path.display()
            ),
            None if !self.target.is_native() => format!(
                "nvcc needs a C++ compiler for {}, and there is no `{}` on `PATH` ({bounds})",
                self.target,
                usual_name(self.target).display()
            ),
            None => format!("nvcc needs a host compiler, and there is none on `PATH` ({bounds})"),
        };
        Error::HostCompiler {
            reason,
            hints: vec![self.install_hint(named.map(|(variable, _)| variable))],
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
