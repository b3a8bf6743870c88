//! Calls of nvcc by build scripts that do not use this crate: their outputs are kept like those of parts.

use std::path::{Path, PathBuf};

use super::call::Call;
use super::identity::{self, Variables};
use super::job::Tools;
use super::joining::Joining;
use super::kept::KeptOutputs;
use super::nvcc_call::NvccCall;
use super::portable::PortableNames;
use super::progress::Progress;
use super::run::Runner;
use super::step::{Image, Settings};
use super::workers::Workers;
use crate::error::Error;
use crate::fatbin::Decompress;
use crate::host_compiler;
use cuda_find_core::capability::Plan;
use cuda_find_core::command::Invocation;
use cuda_find_core::component::Component;
use cuda_find_core::env::Env;
use cuda_find_core::hash::of_content;
use cuda_find_core::output;
use cuda_find_core::release;
use cuda_find_core::root::Root;
use cuda_find_core::target::Target;
use cuda_find_core::toolkit::Toolkit;

/// The nvcc that a wrapper starts, and the build that it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct WrappedNvcc<'a> {
    /// The program.
    pub program: &'a Path,
    /// The view that contains it.
    pub view: &'a Path,
    /// Cargo's target directory, whose path changes with the list of capabilities.
    pub build: &'a Path,
    /// A directory for files of calls.
    pub temporary: &'a Path,
    /// The toolkit of the view.
    pub toolkit: &'a Toolkit,
    /// The platform to build for.
    pub target: &'a Target,
    /// The variables of this process.
    pub env: &'a Env,
    /// The file system.
    pub root: &'a Root,
    /// Decompresses the relocatable device code that nvcc writes.
    pub decompress: Decompress,
}

impl WrappedNvcc<'_> {
    /// The directory for files of a call, which only one call may use at a time. It is the same for each call with this
    /// output, because debug information contains it. `None` if the output of such a call is not kept.
    pub fn directory_of(&self, call: &Call, working: &Path) -> Option<PathBuf> {
        let compile = call.compile(working, self.default_image())?;
        Some(self.directory_for(&compile.output))
    }

    fn directory_for(&self, output: &Path) -> PathBuf {
        let digest = of_content(output.as_os_str().as_encoded_bytes());
        self.temporary.join(format!("{digest:016x}"))
    }

    /// What nvcc compiles for without an option.
    fn default_image(&self) -> Option<Image> {
        let facts = release::facts(self.toolkit.version());
        facts.map(|facts| Image::Real(facts.default_capability))
    }

    /// Carries out a call in the directory `working`, and returns what nvcc printed, now or when the kept output was made.
    /// `None` if the output of such a call is not kept: then nothing was done.
    ///
    /// # Errors
    /// [`Error::Compile`] with nvcc's own messages and exit status. After another error, nvcc itself can be called.
    pub fn compile(&self, call: &Call, working: &Path) -> Result<Option<String>, Error> {
        let (env, root, toolkit) = (self.env, self.root, self.toolkit);
        let Some(compile) = call.compile(working, self.default_image()) else {
            return Ok(None);
        };
        let output = &compile.output;
        let is_writable = output.parent().is_some_and(|parent| root.is_dir(parent));
        let is_other = root.is_link(output) || (root.exists(output) && !root.is_file(output));
        let Some(name) = output.file_name().filter(|_| is_writable && !is_other) else {
            return Ok(None);
        };
        let named = compile.host_compiler.as_deref();
        let env_of_choice = named.map(|named| env.clone().with("NVCC_CCBIN", named));
        let env_of_choice = env_of_choice.as_ref().unwrap_or(env);
        let host = host_compiler::choose(env_of_choice, root, toolkit, self.target)?;
        if named.is_none() && host.option.is_some() {
            // nvcc would call another compiler.
            return Ok(None);
        }
        let out = self.directory_for(output);
        let mut runner = Runner::new(&out);
        let toolkit_identity = identity::of_toolkit(runner.files(), toolkit);
        let host_identity = host.identity();
        let mut others = vec![(self.view, "view")];
        // Both paths change with the list of capabilities. Names of symbols depend on the path of the source, so a source
        // below them is compiled again.
        if !working.join(&compile.source).starts_with(self.build) {
            let out_dir = env.peek("OUT_DIR").map(|out| (Path::new(out), "out"));
            let out_dir = out_dir.filter(|(out, _)| out.starts_with(self.build));
            others.extend(out_dir.into_iter().chain([(self.build, "build")]));
        }
        let names = || {
            let of_toolkit = (toolkit, toolkit_identity.as_str());
            let host = Some((&host, host_identity.as_str()));
            PortableNames::read((env, root), runner.files(), of_toolkit, host, &others)
        };
        let Some(kept) = KeptOutputs::of_user((env, root), Some(self.decompress), names)? else {
            return Ok(None);
        };
        runner.kept = kept;
        let mut nvcc = Invocation::new(self.program);
        if let Some(named) = named {
            nvcc = nvcc.args(["-ccbin", named]);
        }
        let mut toolkit_includes = toolkit.include_dirs();
        toolkit_includes.push(self.view.to_owned());
        let found = toolkit.get(Component::Nvcc);
        let version = found.map(cuda_find_core::found::Found::shown_version);
        let nvcc = NvccCall {
            tool: format!("nvcc {}", version.unwrap_or_default()),
            nvcc,
            toolkit_includes,
        };
        let (variables, plan) = (Variables::of_nvcc(env), Plan::default());
        let settings = Settings {
            toolkit,
            plan: &plan,
            package: working,
            out: &out,
            working,
            toolkit_identity: &toolkit_identity,
            nvcc: &variables,
            nvrtc: &Variables::default(),
            host: Some((&host, &host_identity)),
            view: None,
            env,
            root,
            launcher: None,
        };
        let images = (compile.images, compile.form);
        let made = out.join(name);
        let step = nvcc.step(
            &compile.source,
            compile.options,
            images,
            made.clone(),
            &settings,
        );
        if step.flags_choose_images() {
            return Ok(None);
        }
        let package = env.text("CARGO_PKG_NAME").unwrap_or_default();
        let tools = Tools {
            joining: Joining::new(
                env,
                root,
                [&toolkit_identity, &host_identity],
                &plan,
                toolkit.version(),
            ),
            launcher: None,
            progress: Progress::of_call(env, package),
            decompress: Some(self.decompress),
        };
        output::create_directory(&out)?;
        let compiled = runner.run(&[step], &Workers::one(), &tools);
        let placed = compiled.and_then(|compiled| {
            output::write(output, &output::read(&made)?)?;
            if let Some((path, target)) = &compile.depfile {
                let files = compiled.inputs.iter().filter(|path| root.is_file(path));
                output::write(path, &rule(target, &compile.source, files))?;
            }
            Ok(compiled.warnings.join("\n"))
        });
        let _ = output::remove_directory(&out);
        placed.map(Some)
    }

    /// Whether the call names a host compiler that the toolkit refuses, while `NVCC_CCBIN` names another one.
    pub fn refuses_host_compiler(&self, call: &Call) -> bool {
        let (Some(named), Some(usual)) = (call.host_compiler(), self.env.peek("NVCC_CCBIN")) else {
            return false;
        };
        let env = self.env.clone().with("NVCC_CCBIN", named);
        let chosen = host_compiler::choose(&env, self.root, self.toolkit, self.target);
        usual != named && matches!(chosen, Err(Error::HostCompiler { .. }))
    }

    /// After a call for several capabilities has failed: the capability that the source does not compile for, if it
    /// compiles for another one.
    pub fn failing_capability(&self, call: &Call, working: &Path) -> Option<String> {
        let compile = call.compile(working, None)?;
        let (mut failed, mut compiles) = (None, false);
        for image in compile.images {
            let arguments = call.for_image(image);
            let tried = Invocation::new(self.program).args(arguments).run().ok()?;
            match tried.success {
                true => compiles = true,
                false => failed = failed.or(Some(image)),
            }
            if let Some(failed) = failed.filter(|_| compiles) {
                return Some(failed.capability().to_string());
            }
        }
        None
    }
}

/// The number of compilers that may run at once: the jobs of Cargo, or less if `CUDA_BUILD_COMPILER_MEMORY` is set.
///
/// # Errors
/// [`cuda_find_core::error::Error::Variable`] if the variable is not a size.
pub fn most_compilers(env: &Env, root: &Root) -> Result<usize, Error> {
    Ok(Workers::within_memory(env, root)?.limit())
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
