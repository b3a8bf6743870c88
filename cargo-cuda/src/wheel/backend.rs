//! The build backend of PEP 517 and PEP 660: builds a package under its own name, for one CUDA release.
//!
//! `cuda_backend.py` in a project calls it with `cargo cuda pep517`, and it calls maturin, in the target directory of
//! `cargo cuda wheel`. A frontend queries the requirements before anything is compiled. So they follow from the
//! declared components, and a build that needs more fails.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cuda_find_core::{command::Invocation, env::Env, root::Root, select::RequestedRelease};

use super::build::{self, Mode, NO_WARNING, Prepared, WheelBuild};
use super::needs::Needs;
use super::runpath::{ModuleSearchPath, link_arguments};
use super::source::WheelSource;
use super::{requirements, sdist};
use crate::failure::{Failure, Result};
use crate::isolated_build::gpus;
use crate::output::{self, file_name, joined};
use crate::package::archive::WheelArchive;
use crate::package::archive_writer;
use crate::package::metadata::Metadata;
use crate::process;
use crate::project::{BuildOptions, WorkspaceOptions};
use crate::toolkits::{LockPolicy, release_of};

/// The settings that a user gives to a frontend, as in `pip install . -C cuda=12`.
#[derive(Debug, Default)]
pub struct BackendSettings {
    pub cuda: Option<RequestedRelease>,
    /// The site-packages of the environment in which an editable module is used.
    pub site_packages: Option<PathBuf>,
    /// Arguments for maturin.
    pub arguments: Vec<OsString>,
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
        // if the path of the interpreter changes. So maturin gets the interpreter from which the environment was made.
        // Other bindings (cffi) need the packages of the environment.
        let python_of_maturin = match source.package.uses_pyo3 {
            true => root.resolve(python),
            false => python.to_owned(),
        };
        let interpreter = ["--interpreter".into(), python_of_maturin.into()];
        // Such a wheel is not for an index, so it does not get the tag of a manylinux system.
        let tag = ["--compatibility".into(), "linux".into()];
        source.options.extend(interpreter.into_iter().chain(tag));
        Ok(Self {
            job: WheelBuild::new(source, out)?,
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
        let made = made
            .first()
            .ok_or_else(|| build::no_output("no metadata directory"))?;
        let file = made.join("METADATA");
        let metadata = project.root.text(&file);
        let metadata = metadata.map_err(Failure::io("read", &file))?;
        let text = self.with_requirements(&metadata, &self.job.needs(&toolkit).0)?;
        output::write(&file, text.as_bytes())?;
        Ok(file_name(made))
    }

    /// Builds a wheel, and returns its name.
    pub fn build(&self, mode: Mode) -> Result<String> {
        let prepared = self.job.prepare(self.release()?, &gpus())?;
        let build = &prepared.build;
        build.print_notes();
        let _lock = build.enter(&self.job.source.project)?;
        let (needs, note) = self.job.needs(&build.toolkit);
        output::messages(&Vec::from_iter(note));
        let mut compiled = match mode {
            Mode::Wheel => self.job.link(&prepared)?,
            Mode::Editable => {
                let entries = self.absolute_search_path(&prepared)?;
                let arguments = link_arguments(self.job.kind, &entries);
                self.job.compile(build, &arguments, mode)?
            }
        };
        let [(file, wheel)] = compiled.wheels.as_mut_slice() else {
            let count = compiled.wheels.len();
            return Err(build::no_output(&format!("{count} wheels instead of one")));
        };
        check(wheel, &needs)?;
        let path = format!("{}/METADATA", wheel.dist_info);
        let metadata = self.with_requirements(&wheel.text(&path)?, &needs)?;
        wheel.set_text(path, metadata)?;
        archive_writer::write(wheel, &self.job.out.join(file_name(file)))?;
        Ok(file_name(file))
    }

    /// Writes the source distribution, and returns its name.
    pub fn build_sdist(&self) -> Result<String> {
        let out = &self.job.out;
        let temporary = output::temporary_directory(out)?;
        let directory = ["--sdist-directory".as_ref(), temporary.path().as_os_str()];
        self.hook("write-sdist", directory, &[])?;
        let files = output::files(temporary.path())?;
        let [file] = files.as_slice() else {
            return Err(build::no_output("no source distribution"));
        };
        let root = &self.job.source.project.root;
        let sdist = root.bytes(file).map_err(Failure::io("read", file))?;
        let pyproject = self.job.source.pyproject.as_ref();
        let backend = pyproject.and_then(|pyproject| pyproject.backend_file(root));
        let sdist = sdist::with_dynamic_requirements(&sdist, backend.as_deref())?;
        output::write(&out.join(file_name(file)), &sdist)?;
        Ok(file_name(file))
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

    /// Metadata with the requirements of the declared components.
    fn with_requirements(&self, metadata: &str, needs: &Needs) -> Result<String> {
        let mut metadata = Metadata::parse(metadata);
        let name = metadata.one("Name")?.to_owned();
        let config = &self.job.source.package.config;
        let dependencies = config.for_major(needs.built_with.major()).dependencies;
        requirements::update(&mut metadata, [&name, &name], needs, dependencies)?;
        Ok(metadata.to_string())
    }

    /// The search path of an editable module, which stays in the source tree, from where no relative path leads to
    /// site-packages: that of the settings, otherwise that of the interpreter. If the interpreter belongs to an
    /// environment that exists only for the build, as with uv, the libraries of the view are used. Such an environment
    /// contains maturin; pip instead adds a directory with maturin to the user's environment.
    fn absolute_search_path(&self, prepared: &Prepared) -> Result<Vec<String>> {
        let project = &self.job.source.project;
        let of_interpreter = || {
            let site = site_packages(self.python, &project.env)?;
            (!project.root.is_dir(&site.join("maturin"))).then_some(site)
        };
        match self.settings.site_packages.clone().or_else(of_interpreter) {
            Some(site) => Ok(ModuleSearchPath::new(&prepared.linked, prepared.major())?
                .below(&site.display().to_string())),
            None => Ok(vec![
                prepared
                    .build
                    .view_directory
                    .join("lib")
                    .display()
                    .to_string(),
            ]),
        }
    }
}

/// Fails if a native module needs more than the manifest declares, because the frontend already knows the
/// requirements. An editable wheel may contain only a `.pth` file with the directory of the module.
fn check(wheel: &WheelArchive, declared: &Needs) -> Result<()> {
    wheel.reject_nvidia_libraries()?;
    let known = declared.requirements()?;
    for (path, facts) in wheel.modules() {
        let mut needs = declared.clone();
        needs.add_module(facts)?;
        let mut lines = needs.requirements()?;
        lines.retain(|line| !known.contains(line));
        if lines.is_empty() {
            continue;
        }
        let undeclared = needs.required.difference(&declared.required);
        let names = joined(undeclared.map(|component| format!("\"{component}\"")), ", ");
        let hint = match names.as_str() {
            "" => "raise the lower bound in `components` of `[package.metadata.cuda]` in Cargo.toml, as in \
                   `{ name = \"cudart\", version = \">=13.2\" }`"
                .to_owned(),
            names => format!("add {names} to `components` in `[package.metadata.cuda]` of Cargo.toml"),
        };
        let text = format!(
            "{path} needs {}, which does not follow from the declared `components`; pip and uv read the \
             requirements before the build",
            lines.join(", ")
        );
        return Err(Failure::wheel(text).hint(hint));
    }
    Ok(())
}

/// The site-packages of an interpreter.
pub fn site_packages(python: &Path, env: &Env) -> Option<PathBuf> {
    let query = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let printed = process::stdout_of(&Invocation::new(python).args(["-c", query]), env)?;
    Some(PathBuf::from(printed.trim_end()))
}
