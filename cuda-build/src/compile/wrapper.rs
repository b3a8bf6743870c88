//! Calls of nvcc by build scripts that do not use this crate: their outputs are kept like those of parts.

use std::path::{Path, PathBuf};

use super::Compiled;
use super::call::{Call, KeepableCall};
use super::feature_sets;
use super::identity::{CompilerIdentities, Variables};
use super::job::Tools;
use super::joining::joins_objects;
use super::nvcc::{Nvcc, shown_nvcc};
use super::path_names::PathNames;
use super::progress::Progress;
use super::run::Runner;
use super::step::{ReadFiles, reading_with_profile};
use super::store::OutputStore;
use super::workers::{Workers, jobs_of_cargo};
use crate::error::Error;
use crate::fatbin::{Decompress, MAGIC_BYTES, read_headers};
use crate::freshness::Files;
use crate::host_compiler;
use crate::includes::{Scanner, SearchPath};
use cuda_find_core::capability::Capability;
use cuda_find_core::{command::Invocation, env::Env, hash::of_content, list::Set, output};
use cuda_find_core::{root::Root, target::Target, toolkit::Toolkit};

/// The nvcc that a wrapper starts, the build that it belongs to, and where it is called.
#[derive(Debug)]
pub struct WrappedNvcc<'a> {
    /// The program.
    pub program: PathBuf,
    /// The view that contains it.
    pub view: PathBuf,
    /// Cargo's target directory, whose path changes with the list of capabilities.
    pub build: &'a Path,
    /// A directory for files of calls.
    pub temporary: PathBuf,
    /// The directory in which the call runs.
    pub working: &'a Path,
    /// The toolkit of the view.
    pub toolkit: Toolkit,
    /// The platform to build for.
    pub target: Target,
    /// The variables of this process.
    pub env: &'a Env,
    /// The file system.
    pub root: &'a Root,
    /// Decompresses the relocatable device code that nvcc writes.
    pub decompress: Decompress,
}

/// Where the compilers of a call look for headers.
#[derive(Default)]
struct HeaderSettings {
    search: SearchPath,
    /// Headers that options include.
    headers: Vec<String>,
    /// Options that may make a compiler read other files.
    not_understood: Vec<String>,
}

/// The name for files about an output of a call. Only one call may use them at a time.
pub fn name_of_output(output: &Path) -> String {
    of_content(output.as_os_str().as_encoded_bytes()).short()
}

impl WrappedNvcc<'_> {
    /// The directory for files of a call. It is the same for each call with this output.
    pub fn directory_of(&self, keepable: &KeepableCall) -> PathBuf {
        self.temporary.join(name_of_output(&keepable.output))
    }

    /// Carries out a call, and returns what nvcc printed, now or when the kept output was made. `None` if something
    /// keeps this from making what nvcc would make: then nothing was done.
    ///
    /// # Errors
    /// [`Error::Compile`] with nvcc's own messages and exit status. After another error, nvcc itself can be called.
    pub fn compile(&self, call: &Call, keepable: &KeepableCall) -> Result<Option<String>, Error> {
        let out = self.directory_of(keepable);
        let progress = Progress::from_env(self.env, true);
        let Some(compiled) = self.compile_into(call, keepable, &out, progress)? else {
            return Ok(None);
        };
        output::write(&keepable.output, &output::read(&made_in(&out, keepable))?)?;
        if let Some((path, target)) = &keepable.depfile {
            let files = compiled.inputs.iter();
            let files = files.filter(|path| self.root.is_file(path));
            output::write(path, &rule(target, &keepable.source, files))?;
        }
        let _ = output::remove_directory(&out);
        Ok(Some(compiled.warnings.join("\n")))
    }

    /// Why a call needs the suffix of `capability`; `None` if its code is the same for the plain capability. The sources
    /// are scanned with everything that they may include. Objects need it if they have code for the capability with the
    /// suffix, but not for the whole `list`, and so do libraries that the call links.
    pub fn needs_suffix(
        &self,
        call: &Call,
        capability: Capability,
        list: &[Capability],
    ) -> Option<String> {
        let objects = call.inputs().filter(|input| !call.is_cuda(input));
        for path in objects.map(PathBuf::from).chain(call.libraries()) {
            let bytes = self.root.bytes(&self.working.join(&path));
            let mut of_objects = capabilities_in(bytes.as_deref().unwrap_or_default());
            if of_objects
                .any(|has| has.contains(&capability) && list.iter().any(|it| !has.contains(it)))
            {
                return Some(format!(
                    "{} has code for {capability} alone",
                    path.display()
                ));
            }
        }
        let uses = |what: &str, place: &str| {
            let plain = capability.base();
            Some(format!(
                "{place} uses `{what}`, which {capability} has and {plain} may lack"
            ))
        };
        let settings = self.read_settings(call);
        if let Some(option) = settings.not_understood.first() {
            return Some(format!(
                "the option `{option}` may name other files to compile"
            ));
        }
        for text in call
            .words()
            .iter()
            .chain(&Variables::of_nvcc(self.env).options)
        {
            if let Some(found) = feature_sets::mention(text) {
                return uses(&found, "an option");
            }
        }
        let mut files = Files::default();
        let mut scanner = Scanner::default();
        for source in call.inputs().filter(|input| call.is_cuda(input)) {
            let source = self.working.join(source);
            let sources = [source.clone()];
            let (headers, search) = (&settings.headers, &settings.search);
            let scan = scanner.scan(&mut files, sources, headers, [], search);
            if let Some(reason) = scan.unknown_include {
                return Some(format!("what it includes is not known: {reason}"));
            }
            let mut names = scan.user_names.iter().chain(&scan.toolkit_names);
            if let Some(header) = names.find(|name| feature_sets::is_of_kernels(name)) {
                return uses(header, &source.display().to_string());
            }
            for path in [source].iter().chain(&scan.files) {
                let bytes = files.bytes(path).unwrap_or_default();
                if let Some(found) = feature_sets::mention(&String::from_utf8_lossy(&bytes)) {
                    return uses(&found, &path.display().to_string());
                }
            }
        }
        None
    }

    /// Where the compilers of a call look for headers. The directories that gcc searches without an option belong to the
    /// user, too.
    fn read_settings(&self, call: &Call) -> HeaderSettings {
        const VARIABLES_OF_GCC: [&str; 3] = ["CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"];
        let mut toolkit_includes = self.toolkit.include_dirs();
        toolkit_includes.push(self.view.clone());
        let variables = Variables::of_nvcc(self.env);
        let options = call.header_options();
        let reading = reading_with_profile(options, &variables, self.working, toolkit_includes);
        let ReadFiles::Headers {
            mut search,
            headers,
            not_understood,
        } = reading
        else {
            return HeaderSettings {
                not_understood: vec!["nvcc".to_owned()],
                ..HeaderSettings::default()
            };
        };
        for value in VARIABLES_OF_GCC
            .iter()
            .filter_map(|name| self.env.peek(name))
        {
            search.directories.extend(std::env::split_paths(value));
        }
        let default = ["/usr/local/include", "/usr/include"];
        search
            .directories
            .extend(default.map(|path| self.root.locate(path)));
        HeaderSettings {
            search,
            headers,
            not_understood,
        }
    }

    /// Whether the assembler accepts PTX for its own capability. nvcc writes PTX without assembling it.
    pub fn accepts_ptx(&self, ptx: &Path, capability: Capability) -> bool {
        let name = name_of_output(ptx);
        let cubin = self
            .temporary
            .join(format!("{name}.{}.cubin", std::process::id()));
        let architecture = format!("-arch={}", capability.sm());
        let nvcc = Invocation::new(&self.program)
            .args(["-cubin", &architecture, "-o"])
            .args([cubin.as_path(), ptx]);
        let is_accepted = nvcc.run().is_ok_and(|finished| finished.success);
        let _ = output::remove(&cubin);
        is_accepted
    }

    /// Compiles in the directory `out`. `None` if nvcc would call another host compiler than this build expects.
    fn compile_into(
        &self,
        call: &Call,
        keepable: &KeepableCall,
        out: &Path,
        progress: Progress,
    ) -> Result<Option<Compiled>, Error> {
        let (env, root, toolkit) = (self.env, self.root, &self.toolkit);
        let named = call.host_compiler();
        let env_of_choice = named.map(|named| env.clone().with("NVCC_CCBIN", named));
        let env_of_choice = env_of_choice.as_ref().unwrap_or(env);
        let host = host_compiler::choose(env_of_choice, root, toolkit, &self.target)?;
        if named.is_none() && host.option.is_some() {
            // nvcc would call another compiler.
            return Ok(None);
        }
        let mut runner = Runner::new(out);
        let compilers =
            CompilerIdentities::read((env, root), runner.files(), toolkit, Some(&host), false);
        let mut others = vec![(self.view.as_path(), "view")];
        // Both paths change with the list of capabilities. Names of symbols depend on the path of the source, so a
        // source below them is compiled again.
        if !self.working.join(&keepable.source).starts_with(self.build) {
            let out_dir = env.peek("OUT_DIR").map(|out| (Path::new(out), "out"));
            let out_dir = out_dir.filter(|(out, _)| out.starts_with(self.build));
            others.extend(out_dir.into_iter().chain([(self.build, "build")]));
        }
        let names = PathNames::new(toolkit, &others);
        let store = OutputStore::open((env, root), out, Some(self.decompress), names)?;
        let mut shared = Invocation::new(&self.program);
        shared.directory = Some(self.working.to_owned());
        if let Some(named) = named {
            shared = shared.args(["-ccbin", named]);
        }
        let mut toolkit_includes = toolkit.include_dirs();
        toolkit_includes.push(self.view.clone());
        let nvcc = Nvcc {
            shared,
            directory: self.working,
            compilers: &compilers,
            variables: &Variables::of_nvcc(env),
            host: Some(&host.compiler),
            toolkit_includes,
            tool: shown_nvcc(toolkit),
        };
        let tools = Tools {
            joins_objects: joins_objects(toolkit.version(), &host),
            progress,
            store,
        };
        let code = (keepable.images.clone(), keepable.form);
        let made = made_in(out, keepable);
        let step = nvcc.step(&keepable.source, keepable.options.clone(), code, made);
        output::create_directory(out)?;
        // One process, without tokens of the jobserver.
        let one = Workers::of_cargo(&Env::default());
        runner.run(&[step], &one, &tools).map(Some)
    }

    /// Whether the call names a host compiler that the toolkit refuses, while `NVCC_CCBIN` names another one.
    pub fn refuses_host_compiler(&self, call: &Call) -> bool {
        let (Some(named), Some(usual)) = (call.host_compiler(), self.env.peek("NVCC_CCBIN")) else {
            return false;
        };
        let env = self.env.clone().with("NVCC_CCBIN", named);
        let chosen = host_compiler::choose(&env, self.root, &self.toolkit, &self.target);
        usual != named && matches!(chosen, Err(Error::HostCompiler { .. }))
    }
}

/// The capabilities for which an object, or each object of a library, has device code.
fn capabilities_in(bytes: &[u8]) -> impl Iterator<Item = Set<Capability>> {
    let read = |at: u64, length: usize| {
        let start = usize::try_from(at).ok()?;
        Some(bytes.get(start..start.checked_add(length)?)?.to_vec())
    };
    let starts = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&MAGIC_BYTES));
    let containers = starts.filter_map(move |at| read_headers(at as u64, read).ok());
    containers.map(|(headers, _)| headers.iter().map(|header| header.capability).collect())
}

/// Where a step of a call writes.
fn made_in(out: &Path, keepable: &KeepableCall) -> PathBuf {
    out.join(keepable.output.file_name().unwrap_or_default())
}

/// The number of compilers that may run at once in the whole build: the jobs of Cargo.
pub fn most_compilers(env: &Env) -> usize {
    jobs_of_cargo(env)
}

/// The rule of a depfile for `target`, which is written as it is. The source comes first.
fn rule<'p>(target: &str, source: &'p Path, files: impl Iterator<Item = &'p PathBuf>) -> Vec<u8> {
    let mut rule = format!("{target} :").into_bytes();
    for path in [source].into_iter().chain(files.map(PathBuf::as_path)) {
        rule.extend_from_slice(b" \\\n    ");
        for byte in path.as_os_str().as_encoded_bytes() {
            match byte {
                b' ' | b'#' => rule.push(b'\\'),
                b'$' => rule.push(b'$'),
                _ => {}
            }
            rule.push(*byte);
        }
    }
    rule.push(b'\n');
    rule
}

#[cfg(test)]
mod tests {
    use super::super::depfile::inputs;
    use super::*;

    #[test]
    fn a_written_rule_is_read_again() {
        let paths = ["/a b/c$d.h", "/e#f.h"].map(PathBuf::from);
        let rule = rule("x.o", Path::new("k.cu"), paths.iter());
        let expected = ["k.cu", "/a b/c$d.h", "/e#f.h"].map(PathBuf::from);
        assert_eq!(inputs(&rule), expected);
    }
}
