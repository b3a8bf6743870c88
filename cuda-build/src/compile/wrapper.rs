//! Calls of nvcc by build scripts that do not use this crate: their outputs are kept like those of parts.

use std::path::{Path, PathBuf};

use super::Compiled;
use super::call::{Call, KeepableCall};
use super::identity::{CompilerIdentities, Variables};
use super::job::Tools;
use super::joining::joins_objects;
use super::nvcc::{Nvcc, shown_nvcc};
use super::path_names::PathNames;
use super::progress::Progress;
use super::run::Runner;
use super::step::Image;
use super::store::OutputStore;
use super::workers::Workers;
use crate::error::Error;
use crate::fatbin::{Decompress, MAGIC_BYTES, read_headers};
use crate::host_compiler;
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

/// The name for files about an output of a call. Only one call may use them at a time.
pub fn name_of_output(output: &Path) -> String {
    format!("{:016x}", of_content(output.as_os_str().as_encoded_bytes()))
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

    /// Whether a source of the call uses what the letter of a capability stands for: its PTX is another without the
    /// letter, or nvcc refuses the source then. Both answers are kept as outputs are. An object does so if it has
    /// code for the capability with the letter, but not for the whole `list`, and so may libraries that it links.
    ///
    /// # Errors
    /// Those of [`Self::compile`], except [`Error::Compile`].
    pub fn uses_letter(
        &self,
        call: &Call,
        letter: Capability,
        list: &[Capability],
    ) -> Result<bool, Error> {
        let objects = call.inputs().filter(|input| !call.is_cuda(input));
        for path in objects.map(PathBuf::from).chain(call.libraries()) {
            let bytes = self.root.bytes(&self.working.join(path));
            let mut of_objects = capabilities_in(bytes.as_deref().unwrap_or_default());
            if of_objects
                .any(|has| has.contains(&letter) && list.iter().any(|it| !has.contains(it)))
            {
                return Ok(true);
            }
        }
        for source in call.inputs().filter(|input| call.is_cuda(input)) {
            let mut texts = Vec::new();
            for capability in [letter, letter.base()] {
                let output = PathBuf::from(format!("{source}.{}.ptx", capability.sm()));
                match self.single(call, &call.single(source, Image::Ptx(capability), output)) {
                    Ok(ptx) => texts.push(ptx),
                    Err(Error::Compile { .. }) => return Ok(true),
                    Err(error) => return Err(error),
                }
            }
            if without_target(&texts[0]) != without_target(&texts[1]) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What a call makes that compiles for one image.
    fn single(&self, call: &Call, keepable: &KeepableCall) -> Result<String, Error> {
        let name = name_of_output(&self.working.join(&keepable.output));
        let out = self
            .temporary
            .join(format!("{name}.{}", std::process::id()));
        let made = self.compile_into(call, keepable, &out, Progress::default());
        let made = made.and_then(|compiled| match compiled {
            Some(_) => Ok(output::read(&made_in(&out, keepable))?),
            None => Err(Error::usage(
                "nvcc calls another host compiler",
                "set `NVCC_CCBIN`",
            )),
        });
        let _ = output::remove_directory(&out);
        made.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
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
        let compilers = CompilerIdentities::read((env, root), runner.files(), toolkit, Some(&host));
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

/// PTX without the line that names its architecture, and without comments.
fn without_target(ptx: &str) -> Vec<&str> {
    let lines = ptx.lines();
    lines
        .filter(|line| !line.starts_with(".target") && !line.starts_with("//"))
        .collect()
}

/// The number of compilers that may run at once: the jobs of Cargo.
pub fn most_compilers(env: &Env) -> usize {
    Workers::of_cargo(env).limit()
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
