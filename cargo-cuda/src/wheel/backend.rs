//! The build backend of PEP 517 and PEP 660: builds a package under its own name, for one CUDA release.
//!
//! `cuda_backend.py` in a project calls it with `cargo cuda pep517`, and it builds as `cargo cuda wheel` does. A
//! frontend queries the requirements before anything is compiled. So they follow from the declared components, and a
//! build that needs more fails.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cuda_find_core::{command::Invocation, env::Env, root::Root, select::RequestedRelease};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::build::{self, NO_WARNING, WheelBuild};
use super::rewrite::Purpose;
use super::source::WheelSource;
use crate::failure::{Failure, Result};
use crate::isolated_build::gpus;
use crate::output::{self, file_name, joined};
use crate::package::pyproject::Pyproject;
use crate::process;
use crate::project::{BuildOptions, WorkspaceOptions};
use crate::toolkits::{LockPolicy, release_of};

/// The settings that a user gives to a frontend, as in `pip install . -C cuda=12`. Others are for the backends of other
/// packages: frontends give all settings to each package that they build.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct BackendSettings {
    #[serde(deserialize_with = "release")]
    pub cuda: Option<RequestedRelease>,
    /// The site-packages of the environment in which an editable module is used.
    pub site_packages: Option<PathBuf>,
    /// Arguments for maturin.
    #[serde(
        rename = "build-args",
        alias = "maturin.build-args",
        deserialize_with = "words"
    )]
    pub arguments: Vec<OsString>,
    /// The codes of checks whose errors do not count.
    #[serde(deserialize_with = "words")]
    pub allow: Vec<String>,
}

fn release<'de, D: Deserializer<'de>>(value: D) -> Result<Option<RequestedRelease>, D::Error> {
    String::deserialize(value)?
        .parse()
        .map(Some)
        .map_err(D::Error::custom)
}

/// A list, or a line of words as a shell splits them.
fn words<'de, D: Deserializer<'de>, T: From<String>>(value: D) -> Result<Vec<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        Line(String),
        List(Vec<String>),
    }
    match Words::deserialize(value)? {
        Words::List(list) => Ok(list.into_iter().map(T::from).collect()),
        Words::Line(line) => split_words(&line).map_err(D::Error::custom),
    }
}

/// The words of a line, as a shell splits them.
pub fn split_words<T: From<String>>(line: &str) -> Result<Vec<T>, String> {
    let words = shlex::split(line).ok_or_else(|| format!("an open quotation mark: {line}"))?;
    Ok(words.into_iter().map(T::from).collect())
}

/// The backend for one call of a hook.
#[derive(Debug)]
pub struct Backend<'a> {
    job: WheelBuild,
    settings: &'a BackendSettings,
    /// The interpreter that runs the backend.
    python: &'a Path,
}

impl<'a> Backend<'a> {
    /// Opens the project in the current directory, in which a frontend starts the backend. The result goes to `out`.
    pub fn open(
        settings: &'a BackendSettings,
        python: &'a Path,
        out: &Path,
        user: &Env,
        root: &Root,
    ) -> Result<Self> {
        let options = BuildOptions::new(settings.cuda, false);
        let which = WorkspaceOptions::default();
        let mut source = WheelSource::open(&which, &options, &settings.arguments, user, root)?;
        if source.project.lock == LockPolicy::Require {
            // A source distribution is also built where the locked toolkit has not been fetched.
            source.project.lock = LockPolicy::Prefer;
        }
        if let Some(pyproject) = &source.pyproject {
            pyproject.check_dynamic()?;
        }
        // Frontends run the backend in an environment that is new for each build, and pyo3's crates are compiled again
        // if the path of the interpreter changes. So maturin gets the interpreter from which the environment was made,
        // unless build scripts may need packages of the environment.
        let pyproject = source.pyproject.as_ref();
        let needs_environment = pyproject.is_some_and(Pyproject::requires_more_than_maturin);
        let python_of_maturin = match source.package.uses_pyo3 && !needs_environment {
            true => root.resolve(python),
            false => python.to_owned(),
        };
        let interpreter = ["--interpreter".into(), python_of_maturin.into()];
        // Such a wheel is not for an index, so it does not get the tag of a manylinux system.
        let tag = ["--compatibility".into(), "linux".into()];
        source.options.extend(interpreter.into_iter().chain(tag));
        let job = WheelBuild {
            purpose: Purpose::Installation,
            allow: settings.allow.clone(),
            ..WheelBuild::new(source, out)?
        };
        Ok(Self {
            job,
            settings,
            python,
        })
    }

    /// Writes the metadata directory of the wheel, and returns its name.
    pub fn prepare_metadata(&self) -> Result<String> {
        let (project, options) = (&self.job.source.project, &self.job.source.options);
        let toolkit = project.for_release(self.release()?).finder().find()?;
        let out = &self.job.out;
        let directory = ["--metadata-directory".as_ref(), out.as_os_str()];
        self.hook("write-dist-info", directory, options)?;
        let mut made = output::files(out)?;
        made.retain(|path| path.extension().is_some_and(|it| it == "dist-info"));
        let Some(made) = made.first() else {
            return Err(build::no_output("no metadata directory"));
        };
        let file = made.join("METADATA");
        let metadata = project.root.text(&file);
        let metadata = metadata.map_err(Failure::io("read", &file))?;
        let (rewrite, _) = self.job.rewrite(&toolkit);
        let (text, _) = rewrite.metadata(&metadata, &rewrite.needs)?;
        output::write(&file, text.as_bytes())?;
        Ok(file_name(made))
    }

    /// Builds a wheel, and returns its name.
    pub fn build(mut self, is_editable: bool) -> Result<String> {
        if is_editable {
            self.job.purpose = Purpose::Editable(self.site_packages());
        }
        let prepared = self.job.prepare(self.release()?, &gpus())?;
        match &self.job.build(&prepared)?.0[..] {
            [wheel] => Ok(file_name(&wheel.path)),
            _ => Err(build::no_output("several wheels instead of one")),
        }
    }

    /// Writes the source distribution, and returns its name.
    pub fn build_sdist(&self) -> Result<String> {
        let temporary = output::temporary_directory(&self.job.out)?;
        let directory = ["--sdist-directory".as_ref(), temporary.path().as_os_str()];
        self.hook("write-sdist", directory, &[])?;
        match &output::files(temporary.path())?[..] {
            [file] => Ok(file_name(&self.job.sdist(file)?)),
            _ => Err(build::no_output("no source distribution")),
        }
    }

    /// Runs a hook of maturin.
    fn hook(
        &self,
        hook: &str,
        directory: [&std::ffi::OsStr; 2],
        options: &[OsString],
    ) -> Result<()> {
        let call = self.job.maturin.clone().args(["pep517", hook]);
        let call = call.args(directory).args(options.iter().cloned());
        let with_variable = call.clone().variable(NO_WARNING.0, NO_WARNING.1);
        match process::run(&with_variable, &self.job.source.project.env)? {
            0 => Ok(()),
            code => Err(build::failed(code, &call)),
        }
    }

    /// The release to build for: the requested one, otherwise the only declared major, otherwise the one that the
    /// search finds.
    fn release(&self) -> Result<RequestedRelease> {
        let (project, package) = (&self.job.source.project, &self.job.source.package);
        // Both hooks that concern a wheel come here first. A source distribution can be made without CUDA.
        project.check_not_skipped()?;
        let majors = package.config.majors.as_slice();
        let release = match (RequestedRelease::from_env(&project.env)?, majors) {
            (Some(release), _) => release,
            (None, &[major]) => RequestedRelease { major, minor: None },
            (None, _) => release_of(project.finder().find()?.version()),
        };
        if majors.is_empty() || majors.contains(&release.major) {
            return Ok(release);
        }
        let major = release.major;
        let declared = joined(majors, ", ");
        let text = format!(
            "the package is not for CUDA {major}: `majors` in `[package.metadata.cuda]` lists {declared}"
        );
        Err(Failure::configuration(text).hint(format!(
            "name another release with `-C cuda=<release>` or `CUDA_BUILD_RELEASE`, or add {major} to `majors`"
        )))
    }

    /// The site-packages in which an editable module is used: that of the settings, otherwise that of the interpreter.
    /// `None` if the interpreter belongs to an environment that exists only for the build, as with uv. Such an
    /// environment contains maturin; pip instead adds a directory with maturin to the user's environment.
    fn site_packages(&self) -> Option<PathBuf> {
        let project = &self.job.source.project;
        self.settings.site_packages.clone().or_else(|| {
            let site = site_packages(self.python, &project.env)?;
            (!project.root.is_dir(&site.join("maturin"))).then_some(site)
        })
    }
}

/// The site-packages of an interpreter.
pub fn site_packages(python: &Path, env: &Env) -> Option<PathBuf> {
    let query = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let printed = process::stdout_of(&Invocation::new(python).args(["-c", query]), env)?;
    Some(PathBuf::from(printed.trim_end()))
}
