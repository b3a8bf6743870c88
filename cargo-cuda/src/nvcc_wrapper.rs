//! The nvcc wrapper: what `bin/nvcc` in the view of a build starts. It does two separate things.
//!
//! **The list.** Build scripts that call nvcc themselves request code for one capability, the one in
//! `CUDA_COMPUTE_CAP`, or none. The wrapper gives such a call the declared list. If an output lacks a declared
//! capability, a note says why.
//!
//! **Keeping.** The outputs of calls that compile one source are taken from the output store. Whether that is possible
//! is known from the call alone. Every other call reaches nvcc as it is.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cuda_build::compile::{Call, ForList, PROGRESS_VARIABLE, WrappedNvcc, most_compilers};
use cuda_build::config::capabilities_variable;
use cuda_build::view::WRAPPED_NVCC;
use cuda_build::{Capability, Component, Error, Plan, ToolkitVersion};
use cuda_find_core::capability::Declared;
use cuda_find_core::command::Invocation;
use cuda_find_core::output as files;
use cuda_find_core::{
    env::Env,
    release,
    root::Root,
    search::SearchContext,
    select::{Need, Part, Request},
    target::Target,
};

use crate::exit_code;
use crate::isolated_build::TargetDirectory;
use crate::package::device::decompress;
use crate::{cargo_config, output, process};

/// What the script in the view says, and what this process is given.
struct Wrapper {
    directory: TargetDirectory,
    nvcc: PathBuf,
    /// The number of the capability in `CUDA_COMPUTE_CAP`, as `80`.
    single: u32,
    release: Option<ToolkitVersion>,
    list: Option<Plan>,
    package: String,
    working: PathBuf,
    env: Env,
    root: Root,
}

/// Runs one call. `arguments` are those in the script, then those of the call.
pub fn main(arguments: &[OsString]) -> ExitCode {
    let [directory, single, release, list, words @ ..] = arguments else {
        output::message(
            "error: the nvcc wrapper is started by a script that `cargo cuda build` writes",
        );
        return exit_code::USAGE.into();
    };
    let env = Env::from_process();
    let directory = TargetDirectory::of_parent(directory.into());
    let wrapper = Wrapper {
        nvcc: directory.view().join(WRAPPED_NVCC),
        directory,
        single: single.to_string_lossy().parse().unwrap_or_default(),
        release: release.to_string_lossy().parse().ok(),
        list: declared_list(&env, &list.to_string_lossy()),
        package: env
            .text("CARGO_PKG_NAME")
            .unwrap_or_else(|| "NAME".to_owned()),
        working: std::env::current_dir().unwrap_or_default(),
        env,
        root: Root::system(),
    };
    let texts = words.iter().map(|word| word.to_str().map(str::to_owned));
    match texts.collect::<Option<Vec<String>>>() {
        Some(texts) => wrapper.call(&texts),
        None => wrapper.exec(words),
    }
}

/// The list of the package whose build script runs, otherwise the list of the build. `None` if neither names a
/// capability.
fn declared_list(env: &Env, of_build: &str) -> Option<Plan> {
    let package = env.text("CARGO_PKG_NAME").unwrap_or_default();
    let of_package = env.text(&capabilities_variable(&package));
    let list = of_package.unwrap_or_else(|| of_build.to_owned());
    let list = Declared::parse([list]).ok()?.named_capabilities();
    (!list.all().is_empty()).then_some(list)
}

impl Wrapper {
    fn call(&self, words: &[String]) -> ExitCode {
        let original = Call::parse(words, &self.env, &self.root);
        let for_list = match &self.list {
            Some(list) => original.for_list(self.single, list),
            None => ForList::Stays(None),
        };
        let (with_list, reason) = match for_list {
            ForList::Stays(reason) => (None, reason),
            ForList::Changed(with_list) => (Some(with_list), None),
            ForList::UnlessUsed(letter, with_list) => {
                match self.letter_counts(&original, letter, &with_list) {
                    None => (Some(with_list), None),
                    reason => (None, reason),
                }
            }
        };
        if let Some(reason) = reason.filter(|_| !original.inspects()) {
            self.note(self.lacking(&original, &reason));
        }
        let is_changed = with_list.is_some();
        let mut to_run = with_list.unwrap_or_else(|| original.clone());
        match self.keep(&mut to_run, is_changed) {
            Ok(Some(code)) => return code,
            // nvcc itself reports a host compiler that it refuses.
            Ok(None) | Err(Error::HostCompiler { .. }) => {}
            Err(error) => output::message(&format!(
                "note: what nvcc makes is not kept, and compilers are not limited: {error}"
            )),
        }
        // A call that inspects prints, or writes to standard output.
        if is_changed && !to_run.inspects() {
            return self.run_with_list(&to_run, &original, words);
        }
        if is_changed || to_run.host_compiler() != original.host_compiler() {
            return self.exec(&to_run.words());
        }
        self.exec(words)
    }

    /// Replaces this process with nvcc.
    fn exec<A: Into<OsString> + Clone>(&self, words: &[A]) -> ExitCode {
        let nvcc = Invocation::new(&self.nvcc).args(words.iter().cloned());
        match process::replace(&nvcc, &self.env) {
            Ok(code) => code.into(),
            Err(failure) => {
                output::message(&failure.to_string());
                failure.code.into()
            }
        }
    }

    /// Runs a call for the list. nvcc may refuse an option that the table lacks together with several architectures, so
    /// such a call is made as it is written if it fails.
    fn run_with_list(&self, call: &Call, original: &Call, words: &[String]) -> ExitCode {
        let run = |words: &[String]| Invocation::new(&self.nvcc).args(words).run();
        let Ok(finished) = run(&call.words()) else {
            return self.exec(words);
        };
        let may_refuse_list = !finished.success && call.has_unknown_option();
        let again = may_refuse_list.then(|| run(words).ok()).flatten();
        if let Some(again) = again.filter(|again| again.success) {
            let refusal = finished.stderr.lines().next().unwrap_or_default();
            let reason = format!("nvcc refuses the list: {refusal}");
            self.note(self.lacking(original, &reason));
            output::of_program(&again.output());
            return ExitCode::SUCCESS;
        }
        output::of_program(&finished.output());
        if !finished.success {
            self.explain_list(call);
        }
        let code = finished.code.and_then(|code| u8::try_from(code).ok());
        code.unwrap_or(exit_code::FAILURE).into()
    }

    fn wrapped(&self) -> Result<WrappedNvcc<'_>, Error> {
        let env = self.env.clone();
        let env = env.with("CUDA_BUILD_TOOLKIT", self.directory.toolkit_file());
        let triple = self.env.text("TARGET").unwrap_or_else(cargo_config::host);
        let target = Target::from_triple(&triple)?;
        let toolkit = SearchContext::new(&self.root, &env, &target).find(&Request {
            alternatives: vec![vec![Need::new(Component::Nvcc, Part::Tools, "")]],
            take_everything: true,
            ..Request::default()
        })?;
        Ok(WrappedNvcc {
            program: self.nvcc.clone(),
            view: self.directory.view(),
            build: &self.directory.path,
            temporary: self.directory.wrapper_files(),
            working: &self.working,
            toolkit,
            target,
            env: &self.env,
            root: &self.root,
            decompress,
        })
    }

    /// Waits until fewer compilers run than allowed.
    fn slot(&self) -> Result<Option<File>, Error> {
        let most = most_compilers(&self.env);
        Ok(output::lock_one_of(&self.directory.wrapper_files(), most))
    }

    /// Why a call for a capability with a letter stays as it is; `None` if its code does not need the letter.
    fn letter_counts(&self, call: &Call, letter: Capability, changed: &Call) -> Option<String> {
        let uses_letter = || {
            let _slot = self.slot()?;
            let list = changed.requested_capabilities();
            self.wrapped()?.uses_letter(call, letter, &list)
        };
        match uses_letter() {
            Ok(false) => None,
            Ok(true) => Some(format!(
                "it uses what {letter} has and {} lacks",
                letter.base()
            )),
            Err(error) => Some(format!("whether it needs {letter} is not known: {error}")),
        }
    }

    /// What nvcc compiles for without an option.
    fn default_capability(&self) -> Option<Capability> {
        Some(release::facts(self.release?)?.default_capability)
    }

    /// Carries out a call that compiles one source, when fewer compilers run than allowed. `None` if the output of such
    /// a call is not kept.
    fn keep(&self, call: &mut Call, is_changed: bool) -> Result<Option<ExitCode>, Error> {
        let default = self.default_capability();
        let Some(keepable) = call.keepable(&self.working, &self.root, default) else {
            return Ok(None);
        };
        let nvcc = self.wrapped()?;
        if self.env.peek("CXX").is_none() && nvcc.refuses_host_compiler(call) {
            let name = call.host_compiler().unwrap_or_default();
            output::message(&format!(
                "note: -ccbin {name} is left out, because CUDA {} does not accept this compiler",
                nvcc.toolkit.version()
            ));
            call.remove_host_compiler();
        }
        let _slot = self.slot()?;
        let own = nvcc.directory_of(&keepable).with_extension("lock");
        let _own = output::lock_one_of(&own, 1);
        match nvcc.compile(call, &keepable) {
            Err(Error::Compile {
                output, exit_code, ..
            }) => {
                output::of_program(&output);
                if is_changed {
                    self.explain_list(call);
                }
                Ok(Some(exit_code.unwrap_or(exit_code::FAILURE).into()))
            }
            compiled => Ok(compiled?.map(|printed| {
                output::of_program(&printed);
                ExitCode::SUCCESS
            })),
        }
    }

    /// What an output lacks of the declared list, if anything.
    fn lacking(&self, call: &Call, reason: &str) -> Option<String> {
        call.note(self.list.as_ref()?, self.default_capability(), reason)
    }

    /// Prints a note about a call, as a status line of the build if there is one.
    fn note(&self, text: Option<String>) {
        let Some(text) = text else {
            return;
        };
        let line = format!("{}: {text}", self.package);
        match self.env.peek(PROGRESS_VARIABLE) {
            Some(progress) => files::append_line(Path::new(progress), &format!("!{line}")),
            None => output::message(&format!("note: {line}")),
        }
    }

    /// A note after a call that has failed with the declared list instead of the capability that the script requested.
    fn explain_list(&self, call: &Call) {
        let inputs: Vec<&str> = call.inputs().collect();
        output::message(&format!(
            "note: {} is compiled for {}; `capabilities` below `[workspace.metadata.cuda.package.{}]` gives this \
             package another list",
            inputs.join(" "),
            call.capabilities(),
            self.package
        ));
    }
}
