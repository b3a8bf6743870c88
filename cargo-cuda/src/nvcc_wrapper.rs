//! The nvcc wrapper: what `bin/nvcc` in the view of a build starts. It does two separate things.
//!
//! **The list.** Build scripts that call nvcc themselves request code for one capability, the one in
//! `CUDA_COMPUTE_CAP`, or none. The wrapper gives such a call the declared list. If an output lacks a declared
//! capability, a note says why.
//!
//! **Keeping.** The outputs of calls that compile one source are taken from the output store. Whether that is possible
//! is known from the call alone. Every other call reaches nvcc as it is.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cuda_build::compile::{
    Advertised, Call, ForList, PROGRESS_VARIABLE, WrappedNvcc, most_compilers,
};
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
use crate::isolated_build::nvcc_script::END_OF_SCRIPT;
use crate::package::device::decompress;
use crate::{cargo_config, output, process};

/// A program that a signal has ended has this exit code, or a higher one.
const FIRST_CODE_OF_SIGNALS: u8 = 128;

/// One call, with what the script says about the build.
struct Wrapper {
    directory: TargetDirectory,
    nvcc: PathBuf,
    release: Option<ToolkitVersion>,
    /// What the variables for build scripts say.
    advertised: Advertised,
    /// The list to compile for: that of the package, or of the build.
    list: Option<Plan>,
    /// Whether there are lists of single packages, and this package is not known.
    may_have_own_list: bool,
    /// The package whose build script runs, if the script has left its name in the environment.
    package: Option<String>,
    working: PathBuf,
    env: Env,
    root: Root,
}

/// What the script in the view says.
#[derive(Clone, Copy)]
struct OfScript<'a> {
    directory: &'a OsStr,
    single: &'a OsStr,
    release: &'a OsStr,
    list: &'a OsStr,
    /// The lists of single packages: `CUDA_BUILD_CAPABILITIES_NAME=8.0, 9.0`.
    lists_of_packages: &'a [OsString],
}

/// What has become of a call whose output may be kept.
enum Kept {
    /// The output was taken from the output store, or made and put there.
    Yes(ExitCode),
    /// nvcc has failed, and printed this.
    Refused(String, ExitCode),
    /// A signal has ended nvcc, which had printed this.
    Killed(String),
    /// Nothing was done.
    No,
}

/// Runs one call. `arguments` are those in the script, then those of the call.
pub fn main(arguments: &[OsString]) -> ExitCode {
    let Some((of_script, words)) = split_at_end_of_script(arguments) else {
        output::message(
            "error: the nvcc wrapper is started by a script that `cargo cuda build` writes",
        );
        return exit_code::USAGE.into();
    };
    let wrapper = Wrapper::new(of_script);
    let texts = words.iter().map(|word| word.to_str().map(str::to_owned));
    match texts.collect::<Option<Vec<String>>>() {
        Some(texts) => wrapper.call(&texts),
        None => wrapper.exec(words),
    }
}

/// The arguments in the script, and those of the call.
fn split_at_end_of_script(arguments: &[OsString]) -> Option<(OfScript<'_>, &[OsString])> {
    let end = arguments.iter().position(|it| it == END_OF_SCRIPT)?;
    let [directory, single, release, list, lists_of_packages @ ..] = &arguments[..end] else {
        return None;
    };
    let of_script = OfScript {
        directory,
        single,
        release,
        list,
        lists_of_packages,
    };
    Some((of_script, &arguments[end + 1..]))
}

/// A list of capabilities. `None` if it is not valid or names no capability, as `native`.
fn parse_list(text: &str) -> Option<Plan> {
    let list = Declared::parse([text]).ok()?.named_capabilities();
    (!list.all().is_empty()).then_some(list)
}

impl OfScript<'_> {
    /// The list that is declared for a package, if there is one.
    fn list_of_package(&self, package: &str) -> Option<String> {
        let start = format!("{}=", capabilities_variable(package));
        let mut lists = self.lists_of_packages.iter();
        lists.find_map(|it| Some(it.to_string_lossy().strip_prefix(&start)?.to_owned()))
    }
}

impl Wrapper {
    fn new(of_script: OfScript<'_>) -> Self {
        let env = Env::from_process();
        let directory = TargetDirectory::of_parent(of_script.directory.into());
        let package = env.text("CARGO_PKG_NAME");
        let list_of_build = parse_list(&of_script.list.to_string_lossy());
        let list_of_package = package
            .as_deref()
            .and_then(|package| of_script.list_of_package(package));
        let single = of_script.single.to_string_lossy().parse();
        Self {
            nvcc: directory.view().join(WRAPPED_NVCC),
            directory,
            release: of_script.release.to_string_lossy().parse().ok(),
            advertised: Advertised {
                single: single.unwrap_or_default(),
                list: list_of_build.clone().unwrap_or_default(),
            },
            list: match list_of_package {
                Some(list) => parse_list(&list),
                None => list_of_build,
            },
            may_have_own_list: package.is_none() && !of_script.lists_of_packages.is_empty(),
            package,
            working: std::env::current_dir().unwrap_or_default(),
            env,
            root: Root::system(),
        }
    }

    fn call(&self, words: &[String]) -> ExitCode {
        let original = Call::parse(words, &self.env, &self.root);
        let for_list = match &self.list {
            Some(list) => original.for_list(&self.advertised, list),
            None => ForList::Stays(None),
        };
        match for_list {
            ForList::Stays(reason) => self.as_written(&original, words, reason.as_deref()),
            ForList::Refused(reason) => {
                self.note(Some(format!("{reason}; {}", self.how_to_choose())));
                self.exec(words)
            }
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
            Kept::Killed(output) => killed(&output),
            Kept::No if call.host_compiler() != original.host_compiler() => {
                self.exec(&call.words())
            }
            Kept::No => self.exec(words),
        }
    }

    /// Makes a call for the list.
    fn for_list(&self, mut changed: Call, original: &Call, words: &[String]) -> ExitCode {
        if self.may_have_own_list && !changed.inspects() {
            let inputs: Vec<&str> = changed.inputs().collect();
            self.note(Some(format!(
                "{} is compiled for {}, the list of the build: whether its package has another list is not known, \
                 because the build script removes CARGO_PKG_NAME",
                inputs.join(" "),
                changed.capabilities()
            )));
        }
        match self.keep(&mut changed) {
            Kept::Yes(code) => code,
            Kept::Refused(output, code) => {
                output::of_program(&output);
                self.explain_list(&changed, original);
                code
            }
            Kept::Killed(output) => killed(&output),
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
            Kept::Killed(output) => return killed(&output),
            Kept::No if changed.inspects() => return self.exec(&changed.words()),
            Kept::No => match self.invocation(&changed.words()).run() {
                Ok(finished) if finished.success => {
                    let shown = output::print(&finished.stdout);
                    output::of_program(&finished.stderr);
                    Ok(shown.map_or(exit_code::DISK.into(), |()| ExitCode::SUCCESS))
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
            Kept::Killed(output) => (false, killed(&output)),
            Kept::No => match process::run_in_place(&self.invocation(words), &self.env) {
                Ok(code) => (code == 0, code.into()),
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

    /// Runs a call for the list, with the streams of this process.
    fn run_with_list(&self, call: &Call, original: &Call, words: &[String]) -> ExitCode {
        if let Some(refusal) = self.refusal_of_list(call, words) {
            let reason = format!("nvcc refuses the list: {refusal}");
            self.note(self.lacking(original, &reason));
            return self.exec(words);
        }
        match process::run_in_place(&self.invocation(&call.words()), &self.env) {
            Ok(0) => ExitCode::SUCCESS,
            Ok(code) => {
                if code < FIRST_CODE_OF_SIGNALS {
                    self.explain_list(call, original);
                }
                code.into()
            }
            Err(_) => self.exec(words),
        }
    }

    /// nvcc may refuse an option that the table lacks together with several architectures: its error, if it accepts the
    /// call as it is written. With `--dryrun`, it checks the options and starts nothing.
    fn refusal_of_list(&self, call: &Call, words: &[String]) -> Option<String> {
        if !call.has_unknown_option() {
            return None;
        }
        let dry_run = |words: &[String]| {
            let call = self.invocation(words).args(["--dryrun"]);
            call.run().ok()
        };
        let for_list = dry_run(&call.words()).filter(|finished| !finished.success)?;
        dry_run(words).filter(|finished| finished.success)?;
        let refusal = for_list.stderr.lines().next();
        Some(refusal.unwrap_or_default().to_owned())
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
            }) => match exit_code {
                Some(code) => Kept::Refused(output, code.into()),
                None => Kept::Killed(output),
            },
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
        let line = match &self.package {
            Some(package) => format!("{package}: {text}"),
            None => text,
        };
        match self.env.peek(PROGRESS_VARIABLE) {
            Some(progress) => files::append_line(Path::new(progress), &format!("!{line}")),
            None => output::message(&format!("note: {line}")),
        }
    }

    /// What gives the package another list.
    fn how_to_choose(&self) -> String {
        match &self.package {
            Some(package) => format!(
                "`capabilities` below `[workspace.metadata.cuda.package.{package}]` gives this package another list"
            ),
            None => {
                "another list needs CARGO_PKG_NAME, which the build script has removed".to_owned()
            }
        }
    }

    /// A note after a call that has failed for the declared list, if it works for what the script requested.
    fn explain_list(&self, call: &Call, original: &Call) {
        if !self.works_as_written(original) {
            return;
        }
        let inputs: Vec<&str> = call.inputs().collect();
        output::message(&format!(
            "note: {} is compiled for {}; {}",
            inputs.join(" "),
            call.capabilities(),
            self.how_to_choose()
        ));
    }

    /// Whether a call succeeds as it is written. What it makes is thrown away.
    fn works_as_written(&self, call: &Call) -> bool {
        let directory = self.directory.wrapper_files();
        let file = directory.join(format!("as-written.{}", std::process::id()));
        let Some(words) = call.words_for_output(&file) else {
            return false;
        };
        if files::create_directory(&directory).is_err() {
            return false;
        }
        let _slot = self.slot();
        let finished = self.invocation(&words).run();
        let _ = files::remove(&file);
        finished.is_ok_and(|finished| finished.success)
    }
}

/// The end of a call whose compiler a signal has ended, for example because memory was short.
fn killed(output: &str) -> ExitCode {
    output::of_program(output);
    exit_code::FAILURE.into()
}
