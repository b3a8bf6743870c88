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
use cuda_find_core::command::{Finished, Invocation};
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

/// What has become of a call whose output may be kept.
enum Kept {
    /// The output was taken from the output store, or made and put there.
    Yes(ExitCode),
    /// nvcc has failed, and printed this.
    Refused(String, ExitCode),
    /// Nothing was done.
    No,
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
        match for_list {
            ForList::Stays(reason) => self.as_written(&original, words, reason.as_deref()),
            ForList::Changed(changed) => self.for_list(changed, &original, words),
            ForList::WithoutSuffix(capability, changed) => {
                self.without_suffix(capability, changed, &original, words)
            }
        }
    }

    /// Makes a call as it is written. `reason` is why it is not made for the list, if that could be expected.
    fn as_written(&self, original: &Call, words: &[String], reason: Option<&str>) -> ExitCode {
        if let Some(reason) = reason.filter(|_| !original.inspects()) {
            self.note(self.lacking(original, reason));
        }
        let mut call = original.clone();
        match self.keep(&mut call) {
            Kept::Yes(code) => code,
            Kept::Refused(output, code) => {
                output::of_program(&output);
                code
            }
            Kept::No if call.host_compiler() != original.host_compiler() => {
                self.exec(&call.words())
            }
            Kept::No => self.exec(words),
        }
    }

    /// Makes a call for the list.
    fn for_list(&self, mut changed: Call, original: &Call, words: &[String]) -> ExitCode {
        match self.keep(&mut changed) {
            Kept::Yes(code) => code,
            Kept::Refused(output, code) => {
                output::of_program(&output);
                self.explain_list(&changed);
                code
            }
            // A call that inspects prints, or writes to standard output.
            Kept::No if changed.inspects() => self.exec(&changed.words()),
            Kept::No => self.run_with_list(&changed, original, words),
        }
    }

    /// Makes a call that requests code for a capability with a suffix. If the code needs the suffix, the call stays as it
    /// is written. The scan does not see instructions that macros put together, but nvcc refuses them without the suffix:
    /// then the call is made once more, as it is written.
    fn without_suffix(
        &self,
        capability: Capability,
        mut changed: Call,
        original: &Call,
        words: &[String],
    ) -> ExitCode {
        let list = changed.requested_capabilities();
        let reason = match self.wrapped() {
            Ok(nvcc) => nvcc.needs_suffix(original, capability, &list),
            Err(error) => Some(format!(
                "whether it needs {capability} is not known: {error}"
            )),
        };
        if let Some(reason) = reason {
            return self.as_written(original, words, Some(&reason));
        }
        let ptx = changed.ptx().zip(self.output_of(&changed));
        if changed.ptx().is_some() && ptx.is_none() {
            let reason = "where its PTX is written is not known";
            return self.as_written(original, words, Some(reason));
        }
        let made = match self.keep(&mut changed) {
            Kept::Yes(code) => Ok(code),
            Kept::Refused(output, _) => Err(output),
            Kept::No if changed.inspects() => return self.exec(&changed.words()),
            Kept::No => match self.invocation(&changed.words()).run() {
                Ok(finished) if finished.success => {
                    output::of_program(&finished.output());
                    Ok(ExitCode::SUCCESS)
                }
                Ok(finished) => Err(finished.stderr),
                Err(error) => Err(error.to_string()),
            },
        };
        let refused = match (made, ptx) {
            (Ok(code), None) => return code,
            (Ok(code), Some((plain, file))) => {
                let nvcc = self.wrapped();
                match nvcc.is_ok_and(|nvcc| nvcc.accepts_ptx(&file, plain)) {
                    true => return code,
                    false => format!("the assembler does not accept its PTX for {plain}"),
                }
            }
            (Err(messages), _) => {
                let refusal = messages.lines().next().unwrap_or_default();
                format!("nvcc refuses it without the suffix: {refusal}")
            }
        };
        let (is_made, code) = self.run_as_written(original, words);
        if is_made {
            self.note(self.lacking(original, &refused));
        }
        code
    }

    /// Makes a call as it is written, and returns whether nvcc has succeeded.
    fn run_as_written(&self, original: &Call, words: &[String]) -> (bool, ExitCode) {
        match self.keep(&mut original.clone()) {
            Kept::Yes(code) => (true, code),
            Kept::Refused(output, code) => {
                output::of_program(&output);
                (false, code)
            }
            Kept::No => match self.invocation(words).run() {
                Ok(finished) => {
                    output::of_program(&finished.output());
                    (finished.success, exit_code_of(&finished).into())
                }
                Err(_) => (false, self.exec(words)),
            },
        }
    }

    /// The file that a call writes, if its output can be kept.
    fn output_of(&self, call: &Call) -> Option<PathBuf> {
        let keepable = call.keepable(&self.working, &self.root, self.default_capability())?;
        Some(keepable.output().to_owned())
    }

    /// A call of nvcc, whose messages and those of its host compiler are read if the build fails.
    fn invocation<A: Into<OsString> + Clone>(&self, words: &[A]) -> Invocation {
        let nvcc = Invocation::new(&self.nvcc);
        nvcc.args(words.iter().cloned()).in_english()
    }

    /// Replaces this process with nvcc.
    fn exec<A: Into<OsString> + Clone>(&self, words: &[A]) -> ExitCode {
        match process::replace(&self.invocation(words), &self.env) {
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
        let run = |words: &[String]| self.invocation(words).run();
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
        exit_code_of(&finished).into()
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

    /// What nvcc compiles for without an option.
    fn default_capability(&self) -> Option<Capability> {
        Some(release::facts(self.release?)?.default_capability)
    }

    /// Carries out a call that compiles one source, when fewer compilers run than allowed, if its output can be kept.
    fn keep(&self, call: &mut Call) -> Kept {
        match self.keep_or_fail(call) {
            Ok(kept) => kept,
            Err(Error::Compile {
                output, exit_code, ..
            }) => Kept::Refused(output, exit_code.unwrap_or(exit_code::FAILURE).into()),
            // nvcc itself reports a host compiler that it refuses.
            Err(Error::HostCompiler { .. }) => Kept::No,
            Err(error) => {
                output::message(&format!(
                    "note: what nvcc makes is not kept, and compilers are not limited: {error}"
                ));
                Kept::No
            }
        }
    }

    fn keep_or_fail(&self, call: &mut Call) -> Result<Kept, Error> {
        let default = self.default_capability();
        let Some(keepable) = call.keepable(&self.working, &self.root, default) else {
            return Ok(Kept::No);
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
        let Some(printed) = nvcc.compile(call, &keepable)? else {
            return Ok(Kept::No);
        };
        output::of_program(&printed);
        Ok(Kept::Yes(ExitCode::SUCCESS))
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

fn exit_code_of(finished: &Finished) -> u8 {
    let code = finished.code.and_then(|code| u8::try_from(code).ok());
    code.unwrap_or(exit_code::FAILURE)
}
