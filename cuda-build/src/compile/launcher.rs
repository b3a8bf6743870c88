//! A launcher: a program that is started in front of nvcc and keeps the objects that nvcc makes, such as
//! ccache and sccache. The object is the same with and without it.
//!
//! Only calls with `-c` go through a launcher: ccache keeps nothing of others, and sccache 0.16 fails for
//! some calls with `-fatbin`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::Step;
use super::execute::execute;
use super::identity::{self, By, Variables};
use super::images::OBJECT;
use super::module::{NvccCall, Settings};
use super::options::Profile;
use super::run_directory::RunDirectory;
use super::step::ReadFiles;
use crate::cached_answer::CachedAnswer;
use crate::command::Invocation;
use crate::component::Component;
use crate::env::Env;
use crate::error::Error;
use crate::freshness::Files;
use crate::hash::Fnv;
use crate::host_compiler::HostCompiler;
use crate::includes::Scan;
use crate::output;
use crate::root::Root;
use crate::store;
use crate::toolkit::Toolkit;

/// Names the launcher; `none` turns every launcher off.
const VARIABLE: &str = "CUDA_BUILD_LAUNCHER";

/// Cargo's variable for a program in front of rustc. The `cc` crate also takes sccache from it.
const WRAPPER: &str = "RUSTC_WRAPPER";

/// A source with code that only the host compiler sees.
const SAMPLE: &str = "\
__global__ void kernel(int *p) { *p = 1; }
#ifndef __CUDA_ARCH__
int run(int *p) { kernel<<<1, 1>>>(p); return NUMBER; }
#endif
";

/// A launcher, and the variable that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// `CUDA_BUILD_LAUNCHER` or `RUSTC_WRAPPER`.
    pub variable: &'static str,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.program.display(), self.variable)
    }
}

/// Whether a program in front of rustc is sccache, which can also be in front of nvcc.
#[must_use]
pub fn is_sccache(program: &OsStr) -> bool {
    Path::new(program).file_stem() == Some(OsStr::new("sccache"))
}

impl Launcher {
    /// The launcher that the variables name.
    ///
    /// # Errors
    /// The reason, in words, if there is no such program.
    pub fn from_env(env: &Env, root: &Root) -> Result<Option<Self>, String> {
        let (variable, name) = match (env.get_or_empty(VARIABLE), env.peek(WRAPPER)) {
            (Some(own), _) if own.is_empty() || own == "none" => return Ok(None),
            (Some(own), _) => (VARIABLE, own),
            (None, Some(wrapper)) if is_sccache(wrapper) => (WRAPPER, wrapper),
            (None, _) => return Ok(None),
        };
        let name = Path::new(name);
        let mut places = match name.components().count() {
            1 => env.search_path(),
            _ => vec![PathBuf::new()],
        };
        places.retain(|place| root.is_file(&place.join(name)));
        let place = places.first().ok_or_else(|| {
            let name = name.display();
            format!("nvcc is started without the launcher `{name}` of {variable}: no such program")
        })?;
        Ok(Some(Self {
            program: place.join(name),
            variable,
        }))
    }
}

/// Whether a launcher works with an nvcc.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Checked {
    Works,
    /// What the launcher printed for a source that nvcc compiles.
    Fails(String),
    /// nvcc fails without the launcher, too.
    NvccFails,
}

/// The launcher of a build. It is checked when the first source is compiled.
#[derive(Debug)]
pub(crate) struct Launching {
    launcher: Launcher,
    /// What an object depends on besides its command line and the contents of files. The text is the same on every
    /// machine, so that machines can share objects.
    key: Vec<String>,
    variables: Vec<(String, OsString)>,
    /// Files of which ccache also reads the content.
    extra_files: OsString,
    answer: Option<CachedAnswer>,
    checked: OnceLock<Checked>,
}

impl Launching {
    pub(crate) fn new(launcher: Launcher, toolkit: &Toolkit, settings: Settings<'_>) -> Self {
        let components = [
            Component::Nvcc,
            Component::Nvvm,
            Component::Crt,
            Component::Cccl,
            Component::Cudart,
        ];
        let found = components.into_iter().filter_map(|name| toolkit.get(name));
        let mut key: Vec<String> = found.map(ToString::to_string).collect();
        key.extend(settings.nvcc.key.iter().cloned());
        if let Some((HostCompiler { compiler, .. }, _)) = settings.host {
            key.push(format!("{} {}", compiler.family, compiler.version));
        }
        let env = settings.env;
        let mut variables = Vec::new();
        if env
            .peek("CCACHE_DEPEND")
            .or(env.peek("CCACHE_NODEPEND"))
            .is_none()
        {
            variables.push(("CCACHE_DEPEND".to_owned(), "1".into()));
        }
        // ccache ignores `--threads`: its value differs between builds, and the object does not depend on it.
        let ignored = after(
            env.peek("CCACHE_IGNOREOPTIONS"),
            " ",
            "--threads=*".as_ref(),
        );
        variables.push(("CCACHE_IGNOREOPTIONS".to_owned(), ignored));
        let question = [
            launcher.program.as_os_str().to_owned(),
            settings.root.identity(&launcher.program).into(),
            settings.toolkit.into(),
            settings.host.map_or("", |(_, identity)| identity).into(),
        ];
        let answer = CachedAnswer::new(env, "launcher", question.iter().map(OsString::as_os_str));
        let known = answer.read(settings.root).is_some();
        let checked = OnceLock::new();
        if known {
            let _ = checked.set(Checked::Works);
        }
        Self {
            launcher,
            key,
            variables,
            extra_files: env.peek("CCACHE_EXTRAFILES").unwrap_or_default().to_owned(),
            answer: Some(answer).filter(|_| !known),
            checked,
        }
    }

    fn check(&self, nvcc: &Invocation, directory: &Path) -> &Checked {
        self.checked.get_or_init(|| {
            let checked = self.compile_samples(nvcc, directory);
            let _ = output::remove_directory(directory);
            // A failure may come from a server that does not run now, so it is not kept.
            if let (Ok(Checked::Works), Some(answer)) = (&checked, &self.answer) {
                answer.write("", "works");
            }
            checked.unwrap_or_else(|error| Checked::Fails(error.to_string()))
        })
    }

    /// Compiles a sample through the launcher, and again after an edit of host code. If that fails,
    /// compiles it without the launcher.
    fn compile_samples(&self, nvcc: &Invocation, directory: &Path) -> Result<Checked, Error> {
        output::create_directory(directory)?;
        let file = |name: &str| directory.join(name);
        let (source, object) = (file("sample.cu"), file("sample.o"));
        let mut call = nvcc.clone().args(OBJECT).args(["-MD", "-MF"]);
        call = call.args([
            file("sample.d"),
            "-o".into(),
            object.clone(),
            source.clone(),
        ]);
        let mut objects = Vec::new();
        for number in ["1", "2"] {
            output::write(&source, SAMPLE.replace("NUMBER", number).as_bytes())?;
            output::remove(&object)?;
            let inputs = file("sample.inputs");
            let reason = match self.before(call.clone(), number, &inputs)?.run() {
                Ok(finished) if finished.success && output::is_file(&object) => {
                    objects.push(output::read(&object)?);
                    continue;
                }
                Ok(finished) => finished.output().trim().replace('\n', "; "),
                Err(error) => error.to_string(),
            };
            return Ok(match call.run()?.success {
                true => Checked::Fails(reason),
                false => Checked::NvccFails,
            });
        }
        Ok(match objects[0] == objects[1] {
            true => Checked::Fails("it takes the old object after an edit of host code".to_owned()),
            false => Checked::Works,
        })
    }

    /// The same call with the launcher in front. `inputs` is a digest of everything that the object
    /// depends on, and `file` is the file to write it to.
    ///
    /// By default ccache compares the output of `nvcc -E`, which contains the code for the first architecture only.
    /// So it would return an old object after an edit of code for another architecture or for the host.
    /// `CCACHE_EXTRAFILES` makes it compare `file`, too. With `CCACHE_DEPEND` it does not start `nvcc -E`, but
    /// compares the files that nvcc read.
    fn before(&self, call: Invocation, inputs: &str, file: &Path) -> Result<Invocation, Error> {
        output::write(file, inputs.as_bytes())?;
        let mut call = call.behind(&self.launcher.program);
        call.variables.extend(self.variables.iter().cloned());
        let files = after(Some(&self.extra_files), ":", file.as_os_str());
        Ok(call.variable("CCACHE_EXTRAFILES", files))
    }

    /// Why builds do not use the launcher; `None` if they do.
    pub(crate) fn reason_unused(&self) -> Option<String> {
        match self.checked.get()? {
            Checked::Fails(reason) => Some(format!(
                "nvcc is started without the launcher {}, which fails with this nvcc: {reason}",
                self.launcher
            )),
            Checked::Works | Checked::NvccFails => None,
        }
    }

    /// How one source is compiled through the launcher. `None` if not every file that the source reads is known,
    /// because the launcher could then return an object that was made from other contents of these files.
    pub(super) fn of_source(
        launching: &Arc<Self>,
        files: &mut Files,
        step: &Step,
        scan: &Scan,
    ) -> Option<Launch> {
        let ReadFiles::Headers { not_understood, .. } = &step.reading else {
            return None;
        };
        let is_known = not_understood.is_empty()
            && scan.unknown_include.is_none()
            && scan.unknown_query.is_none();
        // A colon separates paths.
        if !is_known || step.output.to_string_lossy().contains(':') {
            return None;
        }
        let mut digest = Fnv::default();
        launching
            .key
            .iter()
            .for_each(|line| digest.field(line.as_bytes()));
        let read = step.inputs.iter().chain(&scan.files);
        for path in read.chain(&scan.toolkit_files) {
            digest.field(&files.digest(path)?.to_le_bytes());
        }
        Some(Launch {
            launching: Arc::clone(launching),
            digest: digest.hex(),
        })
    }
}

/// A list of a variable with one more item.
fn after(list: Option<&OsStr>, separator: &str, item: &OsStr) -> OsString {
    let mut joined = list.unwrap_or_default().to_owned();
    if !joined.is_empty() {
        joined.push(separator);
    }
    joined.push(item);
    joined
}

/// How one source is compiled through a launcher.
pub(super) struct Launch {
    launching: Arc<Launching>,
    digest: String,
}

impl Launch {
    /// Whether the launcher works. `nvcc` is nvcc with the options that every source has.
    pub(super) fn works(&self, step: &Step, nvcc: &Invocation, run: &RunDirectory) -> bool {
        let directory = run.place_of(&step.output.with_extension("launcher-check"));
        !matches!(self.launching.check(nvcc, &directory), Checked::Fails(_))
    }

    /// Runs nvcc with `-c` behind the launcher, and returns what it printed.
    pub(super) fn execute(
        &self,
        step: &Step,
        call: Invocation,
        output: &Path,
        run: &RunDirectory,
    ) -> Result<String, Error> {
        let mut inputs = run.place_of(output).into_os_string();
        inputs.push(".inputs");
        let inputs = PathBuf::from(inputs);
        let call = self.launching.before(call, &self.digest, &inputs)?;
        let result = execute(step, &call, output, run);
        let _ = output::remove(&inputs);
        result
    }
}

/// The launcher that builds with this toolkit use, for reports, and why it is left out.
///
/// # Errors
/// The reason, in words, if a variable names a program that does not exist.
pub fn report(
    env: &Env,
    root: &Root,
    toolkit: &Toolkit,
    host: &HostCompiler,
) -> Result<Option<(Launcher, Option<String>)>, String> {
    let Some(launcher) = Launcher::from_env(env, root)? else {
        return Ok(None);
    };
    let identity = identity::of_toolkit(&mut Files::default(), toolkit, By::Time);
    let settings = Settings {
        toolkit: &identity,
        nvcc: &Variables::of_nvcc(env),
        nvrtc: &Variables::default(),
        host: Some((host, &host.identity())),
        view: None,
        profile: &Profile::default(),
        env,
        root,
        #[cfg(feature = "host-sources")]
        launcher: None,
    };
    let launching = Launching::new(launcher.clone(), toolkit, settings);
    let nvcc = NvccCall::new(toolkit, "a sample", settings).map(NvccCall::plain);
    if let (Ok(nvcc), Some(cache)) = (nvcc, store::cache_dir(env)) {
        let name = format!("launcher-check-{}", std::process::id());
        launching.check(&nvcc, &cache.join(name));
    }
    Ok(Some((launcher, launching.reason_unused())))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "prepares real files")]
mod tests {
    use super::*;

    #[test]
    fn the_variables_that_name_a_launcher() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().to_str().unwrap();
        for name in ["ccache", "sccache", "other"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let named = |own: Option<&str>, wrapper: Option<&str>| {
            let own = own.map(|own| (VARIABLE, own.replace("PLACE", place)));
            let wrapper = wrapper.map(|wrapper| (WRAPPER, wrapper.replace("PLACE", place)));
            let path = Some(("PATH", format!("/nowhere:{place}")));
            let env = Env::from_pairs(path.into_iter().chain(own).chain(wrapper));
            Launcher::from_env(&env, &Root::system()).map(|launcher| {
                launcher.map(|launcher| launcher.to_string().replace(place, "PLACE"))
            })
        };
        let found = |text: &str| Ok(Some(text.to_owned()));
        let own = "PLACE/ccache (CUDA_BUILD_LAUNCHER)";
        assert_eq!(named(None, None), Ok(None));
        assert_eq!(named(Some("ccache"), None), found(own));
        assert_eq!(named(Some("PLACE/ccache"), Some("sccache")), found(own));
        let wrapper = found("PLACE/sccache (RUSTC_WRAPPER)");
        assert_eq!(named(None, Some("sccache")), wrapper);
        assert_eq!(named(None, Some("PLACE/sccache")), wrapper);
        assert_eq!(named(None, Some("other")), Ok(None));
        for off in ["", "none"] {
            assert_eq!(named(Some(off), Some("sccache")), Ok(None));
        }
        for absent in ["absent", "/absent/ccache"] {
            let reason = named(Some(absent), None).unwrap_err();
            assert!(reason.contains("no such program"), "{reason}");
        }
    }
}
