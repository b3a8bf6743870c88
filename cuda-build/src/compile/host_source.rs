//! Steps for the C and C++ sources of a library. The `cc` crate chooses the compiler and its flags. It
//! reads `CXX`, `CXXFLAGS` and similar variables directly from the environment of the process, not from `Env`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::Library;
use super::sources::{Language, Sources};
use super::step::{Form, ReadFiles, Settings, Step, StepCommand, depfile_of, reading};
use crate::error::Error;
use crate::includes::options;
use cuda_find_core::command::Invocation;
use cuda_find_core::nvcc::locate;

impl Library {
    /// The steps that compile the C and C++ sources.
    ///
    /// # Errors
    /// [`Error::HostCompiler`] if there is no compiler.
    pub(super) fn host_steps(
        &self,
        sources: &Sources,
        settings: &Settings<'_>,
    ) -> Result<Vec<Step>, Error> {
        let mut steps = Vec::new();
        for language in [Language::Cpp, Language::C] {
            let files = sources.files.iter().filter(|(_, of)| *of == language);
            let mut compiler = None;
            for (file, _) in files {
                let compiler = match &compiler {
                    Some(compiler) => compiler,
                    None => compiler.insert(self.host_compiler(language, settings)?),
                };
                steps.push(self.host_step(file, compiler, settings));
            }
        }
        Ok(steps)
    }

    /// The step for one source. The compiler runs in the package's directory, as nvcc does.
    fn host_step(
        &self,
        source: &Path,
        (launcher, compiler): &(Option<PathBuf>, Invocation),
        settings: &Settings<'_>,
    ) -> Step {
        let object = settings.out.join(self.object_name(source));
        let depfile = depfile_of(&object);
        let tool = compiler.program.display().to_string();
        let search_path = settings.env.search_path();
        let file = locate(settings.root, &compiler.program, &search_path);
        let arguments = compiler.arguments.iter().filter_map(|word| word.to_str());
        let mut read = options::read_host(arguments);
        read.directories
            .extend(settings.nvcc.directories.iter().cloned());
        let mut reading = reading(read, settings.package, settings.toolkit.include_dirs());
        if let ReadFiles::Headers { depfile: fixed, .. } = &mut reading {
            *fixed = Some(depfile.clone());
        }
        let mut invocation = compiler.clone().args(["-MD", "-MF"]).args([depfile]);
        invocation = invocation
            .args(["-c", "-o"])
            .args([object.as_path(), source]);
        invocation.directory = Some(settings.package.to_owned());
        if let Some(launcher) = launcher {
            invocation = invocation.behind(launcher);
        }
        Step {
            tool,
            command: StepCommand::Program(invocation),
            identity: file.map_or_else(String::new, |file| settings.root.identity(&file)),
            directory: settings.package.to_owned(),
            source: source.to_owned(),
            options: Vec::new(),
            images: Vec::new(),
            form: Form::Object,
            inputs: vec![settings.package.join(source)],
            output: object,
            variables: settings.nvcc.clone(),
            reading,
            limit: None,
        }
    }

    /// The launcher and the compiler with its options, without files.
    fn host_compiler(
        &self,
        language: Language,
        settings: &Settings<'_>,
    ) -> Result<(Option<PathBuf>, Invocation), Error> {
        let env = settings.env;
        let text = |name| env.peek(name).and_then(OsStr::to_str);
        let target = text("TARGET").unwrap_or_default();
        let host = text("HOST").unwrap_or(target);
        // Cargo's profile: the level is `0` to `3`, `s` or `z`.
        let level = text("OPT_LEVEL").unwrap_or("0");
        let level = (self.opt_level).map_or_else(|| level.to_owned(), |level| level.to_string());
        let debug = text("DEBUG").is_some_and(has_debug_info);
        let mut build = cc::Build::new();
        build
            .cargo_metadata(false)
            .cargo_warnings(false)
            .cargo_output(false)
            .target(target)
            .host(host)
            .out_dir(settings.out)
            .opt_level_str(&level)
            .debug(self.options.debug.unwrap_or(debug));
        if language == Language::Cpp {
            build.cpp(true).std(self.options.std());
        }
        build.includes(&self.options.includes);
        for directory in settings.toolkit.include_dirs() {
            build.flag("-isystem").flag(directory);
        }
        for (name, value) in &self.options.defines {
            build.define(name, value.as_deref());
        }
        for flag in &self.host_flags {
            build.flag(flag);
        }
        let (name, variable, package) = match language {
            Language::Cpp => ("C++", "CXX", "g++"),
            _ => ("C", "CC", "gcc"),
        };
        let failed = |reason: String| Error::HostCompiler {
            reason: format!("no compiler for {name} sources: {reason}"),
            tried: Vec::new(),
            hints: vec![format!(
                "install {package}, or set `{variable}` to a compiler"
            )],
        };
        let tool = build
            .try_get_compiler()
            .map_err(|error| failed(error.to_string()))?;
        if locate(settings.root, tool.path(), &env.search_path()).is_none() {
            let program = tool.path().display();
            return Err(failed(format!("`{program}` is not installed")));
        }
        let command = tool.to_command();
        // If `cc` found a launcher in `RUSTC_WRAPPER` or `CXX`, the program of the command is the launcher, and
        // its first argument is the compiler.
        let program = Path::new(command.get_program());
        let launcher_of_cc = (program != tool.path()).then(|| program.to_owned());
        let arguments = command
            .get_args()
            .skip(usize::from(launcher_of_cc.is_some()));
        let mut invocation = Invocation::new(tool.path()).args(arguments);
        let own = settings.launcher.map(|launcher| launcher.program.clone());
        for (name, value) in command.get_envs() {
            let (Some(name), Some(value)) = (name.to_str(), value) else {
                continue;
            };
            let is_inherited = |own: (&OsStr, &OsStr)| own == (OsStr::new(name), value);
            if !env.variables().any(is_inherited) {
                invocation = invocation.variable(name, value);
            }
        }
        Ok((launcher_of_cc.or(own), invocation))
    }
}

/// Whether a value of `DEBUG` requests debug information.
fn has_debug_info(debug: &str) -> bool {
    !["0", "false", "none"].contains(&debug)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_read_as_cargo_writes_it() {
        assert_eq!(["true", "2", "limited"].map(has_debug_info), [true; 3]);
        assert_eq!(["false", "0", "none"].map(has_debug_info), [false; 3]);
    }
}
