//! Steps for the C and C++ sources of a library. The `cc` crate chooses the compiler and its flags. It
//! reads `CXX`, `CXXFLAGS` and similar variables directly from the environment of the process, not from `Env`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::module::{Places, Settings, depfile_of, step_key};
use super::sources::Language;
use super::step::reading;
use super::{Action, Library, ReadFiles, Sources, Step};
use crate::command::Invocation;
use crate::error::Error;
use crate::includes::options;
use crate::nvcc::locate;
use crate::toolkit::Toolkit;

impl Library {
    /// The steps that compile the C and C++ sources.
    ///
    /// # Errors
    /// [`Error::HostCompiler`] if there is no compiler.
    pub(super) fn host_steps(
        &self,
        sources: &Sources,
        toolkit: &Toolkit,
        places: Places<'_>,
        settings: Settings<'_>,
    ) -> Result<Vec<Step>, Error> {
        let mut steps = Vec::new();
        for language in [Language::Cpp, Language::C] {
            let mut files = sources
                .files
                .iter()
                .filter(|(_, of)| *of == language)
                .peekable();
            if files.peek().is_some() {
                let compiler = self.host_compiler(language, toolkit, places, settings)?;
                steps.extend(
                    files.map(|(file, _)| {
                        self.host_step(file, &compiler, toolkit, places, settings)
                    }),
                );
            }
        }
        Ok(steps)
    }

    /// The step for one source. The compiler runs in the package's directory, as nvcc does.
    fn host_step(
        &self,
        source: &Path,
        (launcher, compiler): &(Option<PathBuf>, Invocation),
        toolkit: &Toolkit,
        places: Places<'_>,
        settings: Settings<'_>,
    ) -> Step {
        let object = places.out.join(self.object_name(source));
        let mut invocation = compiler.clone();
        let tool = invocation.program.display().to_string();
        let variables = &settings.nvcc.key;
        let mut key = step_key(&tool, source, places, settings.toolkit, variables);
        key.push(fingerprint(&invocation.program, settings));
        key.push(format!("{:?}", invocation.arguments));
        key.push(format!("{:?}", invocation.variables));
        let depfile = depfile_of(&object);
        let arguments = invocation.arguments.iter();
        let mut reading = reading(
            options::read_host(arguments.filter_map(|argument| argument.to_str())),
            places.package,
            toolkit.include_dirs(),
            Some(depfile.clone()),
        );
        if let ReadFiles::Headers { search, .. } = &mut reading {
            let more = settings.nvcc.directories.iter();
            let more = more.map(|directory| places.package.join(directory));
            search.directories.extend(more);
        }
        invocation = invocation.args(["-MD", "-MF"]).args([depfile]);
        invocation = invocation
            .args(["-c", "-o"])
            .args([object.as_path(), source]);
        invocation.directory = Some(places.package.to_owned());
        if let Some(launcher) = launcher {
            invocation = invocation.behind(launcher);
        }
        Step {
            tool,
            source: source.to_owned(),
            action: Action::Program(invocation),
            inputs: vec![places.package.join(source)],
            output: object,
            key,
            reading,
        }
    }

    /// The launcher and the compiler with its options, without files.
    fn host_compiler(
        &self,
        language: Language,
        toolkit: &Toolkit,
        places: Places<'_>,
        settings: Settings<'_>,
    ) -> Result<(Option<PathBuf>, Invocation), Error> {
        let (env, profile) = (settings.env, settings.profile);
        let text = |name| env.peek(name).and_then(OsStr::to_str);
        let target = text("TARGET").unwrap_or_default();
        let host = text("HOST").unwrap_or(target);
        let level = self.opt_level_of(profile).unwrap_or_else(|| "0".to_owned());
        let mut build = cc::Build::new();
        build
            .cargo_metadata(false)
            .cargo_warnings(false)
            .cargo_output(false)
            .target(target)
            .host(host)
            .out_dir(places.out)
            .opt_level_str(&level)
            .debug(self.options.debug.unwrap_or(profile.debug));
        if language == Language::Cpp {
            build.cpp(true).std(self.options.std());
        }
        build.includes(&self.options.includes);
        for directory in toolkit.include_dirs() {
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

/// Changes if the compiler is replaced.
fn fingerprint(compiler: &Path, settings: Settings<'_>) -> String {
    let file = locate(settings.root, compiler, &settings.env.search_path());
    file.map_or_else(String::new, |file| settings.root.identity(&file))
}
