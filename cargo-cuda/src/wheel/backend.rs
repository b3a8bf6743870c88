//! The build backend of PEP 517 and PEP 660: builds a package under its own name, for one CUDA release.
//!
//! `cuda_backend.py` in a project calls it with `cargo cuda pep517`, and it calls maturin, in the target directory of
//! `cargo cuda wheel`. A frontend queries the requirements before anything is compiled. So they follow from the declared
//! components, and a build that needs more fails.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use cuda_build::internal::command::Invocation;
use cuda_build::internal::{Env, RequestedRelease, Root};

use super::archive::Wheel;
use super::archive_writer;
use super::build::{Job, Prepared, built_with};
use super::build_system::BuildSystem;
use super::compile::{maturin_failed, no_output};
use super::dependencies::BuiltWith;
use super::elf::{self, ElfFacts};
use super::filename::FileName;
use super::maturin::Mode;
use super::metadata::Metadata;
use super::needs::Needs;
use super::requirements::Requirements;
use super::runpath::{SearchPathPlan, link_arguments};
use super::sdist;
use super::source::{Choice, Source};
use crate::build;
use crate::commands::pep517::Settings;
use crate::exit_code;
use crate::failure::Failure;
use crate::output;
use crate::process;
use crate::project::BuildOptions;
use crate::toolkits::LockPolicy;

/// The backend for one call of a hook.
#[derive(Debug)]
pub struct Backend<'a> {
    job: Job,
    /// The directory with `pyproject.toml`.
    directory: PathBuf,
    build_system: BuildSystem,
    settings: &'a Settings,
    /// The interpreter that runs the backend.
    python: &'a Path,
}

impl<'a> Backend<'a> {
    /// Opens the project in the current directory, in which a frontend starts the backend. The result goes to `out`.
    pub fn open(
        settings: &'a Settings,
        python: &'a Path,
        out: &Path,
        user: &Env,
        root: &Root,
    ) -> Result<Self, Failure> {
        let choice = Choice {
            build: BuildOptions::new(settings.cuda, false),
            passthrough: &settings.arguments,
            ..Choice::default()
        };
        let mut source = Source::open(&choice, user, root)?;
        if source.project.lock == LockPolicy::Require {
            // A source distribution is also built where the locked toolkit has not been fetched.
            source.project.lock = LockPolicy::Prefer;
        }
        let directory = std::env::current_dir().unwrap_or_default();
        let build_system = BuildSystem::read(root, &directory);
        build_system.check_dynamic()?;
        let python_of_maturin = interpreter(python, &source, root);
        let options = &mut source.arguments.options;
        options.extend(["--interpreter".into(), python_of_maturin.into()]);
        // Such a wheel is not for an index, so it does not get the tag of a manylinux system.
        options.extend(["--compatibility".into(), "linux".into()]);
        Ok(Self {
            job: Job::new(source, out)?,
            directory,
            build_system,
            settings,
            python,
        })
    }

    /// Writes the metadata directory of the wheel, and returns its name.
    pub fn prepare_metadata(&self) -> Result<String, Failure> {
        let project = self.job.source.project.for_release(self.release()?);
        let built_with = built_with(&project.finder().find()?);
        let out = &self.job.out;
        let call = self.job.maturin.hook("write-dist-info");
        let call = call
            .args(["--metadata-directory".as_ref(), out.as_os_str()])
            .args(self.job.source.arguments.options.iter().cloned());
        self.run(&call)?;
        let is_metadata = |path: &PathBuf| path.extension().is_some_and(|e| e == "dist-info");
        let made = output::files(out)?.into_iter().find(is_metadata);
        let made = made.ok_or_else(|| no_output("no metadata directory"))?;
        let file = made.join("METADATA");
        let text = project.root.text(&file);
        let text =
            self.with_requirements(&text.map_err(Failure::io("read", &file))?, &built_with)?;
        output::write(&file, text.as_bytes())?;
        Ok(name(&made))
    }

    /// Builds a wheel, and returns its name.
    pub fn build(&self, mode: Mode) -> Result<String, Failure> {
        let prepared = self.job.prepare(self.release()?, &build::gpus())?;
        let build = &prepared.build;
        build.print_notes(&self.job.source.project.root)?;
        let built_with = built_with(&build.toolkit);
        let compiled = match mode {
            Mode::Wheel => self.job.link(&prepared)?.0,
            Mode::Editable => {
                let search_path = self.absolute_search_path(&prepared)?;
                let variables = self.job.variables(build)?;
                self.job.compile(build, &variables, &search_path, mode)?
            }
        };
        let [file] = compiled.wheels.as_slice() else {
            let count = compiled.wheels.len();
            return Err(no_output(&format!("{count} wheels instead of one")));
        };
        let mut wheel = Wheel::open(file)?;
        self.check(&wheel, &name(file), &built_with)?;
        let path = format!("{}/METADATA", wheel.dist_info);
        let metadata = self.with_requirements(&wheel.text(&path)?, &built_with)?;
        wheel.set_text(path, metadata)?;
        archive_writer::write(&wheel, &self.job.out.join(name(file)))?;
        Ok(name(file))
    }

    /// Writes the source distribution, and returns its name.
    pub fn build_sdist(&self) -> Result<String, Failure> {
        let out = &self.job.out;
        let temporary = output::temporary_directory(out)?;
        let call = self.job.maturin.hook("write-sdist");
        self.run(&call.args(["--sdist-directory".as_ref(), temporary.path().as_os_str()]))?;
        let files = output::files(temporary.path())?;
        let [file] = files.as_slice() else {
            return Err(no_output("no source distribution"));
        };
        let root = &self.job.source.project.root;
        let sdist = root.bytes(file).map_err(Failure::io("read", file))?;
        let backend = self.build_system.backend_file(root, &self.directory);
        let sdist = sdist::with_dynamic_requirements(&sdist, backend.as_deref())?;
        output::write(&out.join(name(file)), &sdist)?;
        Ok(name(file))
    }

    /// The release to build for: the requested one, otherwise the only declared major, otherwise the one that the search
    /// finds.
    fn release(&self) -> Result<RequestedRelease, Failure> {
        let Source {
            project, package, ..
        } = &self.job.source;
        // Both hooks that concern a wheel come here first. A source distribution can be made without CUDA.
        project.check_not_skipped()?;
        let majors = package.config.majors.as_slice();
        let release = match (RequestedRelease::from_env(&project.env)?, majors) {
            (Some(release), _) => release,
            (None, &[major]) => RequestedRelease { major, minor: None },
            (None, _) => {
                let found = project.finder().find()?.version();
                RequestedRelease {
                    major: found.major,
                    minor: Some(found.minor),
                }
            }
        };
        if majors.is_empty() || majors.contains(&release.major) {
            return Ok(release);
        }
        let declared: Vec<String> = majors.iter().map(u32::to_string).collect();
        let text = format!(
            "the package is not for CUDA {}: `majors` in `[package.metadata.cuda]` lists {}",
            release.major,
            declared.join(", ")
        );
        Err(Failure::new(exit_code::CONFIGURATION, text)
            .hint(format!(
                "name another release with `-C cuda=<release>` or `CUDA_BUILD_RELEASE`, or add {} to `majors`",
                release.major
            )))
    }

    /// What the manifest declares.
    fn declared(&self, major: u32) -> Needs {
        Needs::declared(&self.job.source.package.config, major)
    }

    /// Metadata with the requirements of the declared components.
    fn with_requirements(&self, metadata: &str, built_with: &BuiltWith) -> Result<String, Failure> {
        let mut metadata = Metadata::parse(metadata);
        let major = built_with.toolkit.major;
        let name = metadata.one("Name")?.to_owned();
        let config = &self.job.source.package.config;
        Requirements::update(
            &mut metadata,
            [&name, &name],
            &self.declared(major),
            config.for_major(major).dependencies,
            (major, built_with),
        )?;
        Ok(metadata.to_string())
    }

    /// The arguments for rustc that set the search path of an editable module. The module stays in the source tree, from
    /// where no relative path leads to site-packages.
    fn absolute_search_path(&self, prepared: &Prepared) -> Result<Vec<String>, Failure> {
        let kind = self.job.kind;
        let entries = match self.site_packages() {
            Some(site) => {
                let plan = SearchPathPlan::new(&prepared.linked, prepared.major, kind)?;
                let site = site.display().to_string();
                let entries = plan.entries(0).into_iter();
                entries.map(|e| e.replace("$ORIGIN", &site)).collect()
            }
            None => vec![prepared.build.view.lib().display().to_string()],
        };
        Ok(link_arguments(kind, &entries))
    }

    /// The site-packages in which an editable module searches NVIDIA's packages: from the settings, otherwise those of
    /// the interpreter. `None` if that interpreter belongs to an environment that exists only for the build, as with uv.
    /// Such an environment contains maturin; pip instead adds a directory with maturin to the user's environment.
    fn site_packages(&self) -> Option<PathBuf> {
        if let Some(directory) = &self.settings.site_packages {
            return Some(directory.clone());
        }
        let project = &self.job.source.project;
        let site = site_packages(self.python, &project.user)?;
        let is_for_build = project.root.is_dir(&site.join("maturin"));
        (!is_for_build).then_some(site)
    }

    fn run(&self, call: &Invocation) -> Result<(), Failure> {
        match process::run(call, &self.job.source.project.user)? {
            0 => Ok(()),
            code => Err(maturin_failed(code, call)),
        }
    }

    /// Fails if a native module needs more than the manifest declares, because the frontend already knows the
    /// requirements.
    fn check(&self, wheel: &Wheel, file: &str, built_with: &BuiltWith) -> Result<(), Failure> {
        let major = built_with.toolkit.major;
        let declared = self.declared(major);
        for (path, facts) in self.modules(wheel, file)? {
            let mut needs = declared.clone();
            needs.add_module(&facts, major, built_with)?;
            let known = declared.requirements(major, built_with)?;
            let mut lines = needs.requirements(major, built_with)?;
            lines.retain(|line| !known.contains(line));
            if lines.is_empty() {
                continue;
            }
            let undeclared: Vec<&str> = needs
                .required
                .difference(&declared.required)
                .map(|component| component.id())
                .collect();
            let (text, hint) = match undeclared.as_slice() {
                [] => (
                    format!(
                        "{path} needs {}, a newer release than `components` declares",
                        lines.join(", ")
                    ),
                    "raise the lower bound in `[package.metadata.cuda]` of Cargo.toml, as in \
                     `components = [{ name = \"cudart\", version = \">=13.2\" }]`"
                        .to_owned(),
                ),
                names => (
                    format!(
                        "{path} needs {}, which `components` does not list as required",
                        names.join(", ")
                    ),
                    format!(
                        "add \"{}\" to `components` in `[package.metadata.cuda]` of Cargo.toml, because pip and uv \
                         read the requirements before the build",
                        names.join("\", \"")
                    ),
                ),
            };
            return Err(Failure::wheel(text).hint(hint));
        }
        Ok(())
    }

    /// The native modules of a wheel. An editable wheel may contain only a `.pth` file with the directory in which
    /// maturin has put the module.
    fn modules(&self, wheel: &Wheel, name: &str) -> Result<Vec<(String, ElfFacts)>, Failure> {
        elf::reject_bundled_libraries(&wheel.entries, &wheel.dist_info)?;
        let owned = wheel.modules();
        let mut modules: Vec<(String, ElfFacts)> = owned
            .map(|(path, facts)| (path.to_owned(), facts.clone()))
            .collect();
        let root = &self.job.source.project.root;
        for path in wheel.entries.keys().filter(|path| path.ends_with(".pth")) {
            let python = PathBuf::from(wheel.text(path)?.trim());
            for file in self.installed_modules(&python, name) {
                let path = file.display().to_string();
                let content = root.bytes(&file).map_err(Failure::io("read", &file))?;
                if elf::is_elf(&content) {
                    let facts = ElfFacts::read(Cursor::new(content));
                    modules.push((
                        path.clone(),
                        facts.map_err(|failure| failure.in_file(&path))?,
                    ));
                }
            }
        }
        Ok(modules)
    }

    /// The native modules below `python` that an interpreter with the tags of the wheel `name` loads.
    fn installed_modules(&self, python: &Path, name: &str) -> Vec<PathBuf> {
        let root = &self.job.source.project.root;
        let package = self
            .build_system
            .import_name(&self.job.source.package.library);
        let mut directories = vec![python.join(package)];
        let mut modules = Vec::new();
        while let Some(directory) = directories.pop() {
            for file in root.names(&directory) {
                let path = directory.join(&file);
                if root.is_dir(&path) && !root.is_link(&path) {
                    directories.push(path);
                } else if is_for_tags(&file.to_string_lossy(), name) {
                    modules.push(path);
                }
            }
        }
        modules
    }
}

/// The interpreter that maturin builds for.
///
/// Frontends run the backend in an environment that is new for each build, and pyo3's crates are compiled again if the
/// path of the interpreter changes. So maturin gets the interpreter from which the environment was made. Other bindings
/// (cffi) need the packages of the environment.
fn interpreter(python: &Path, source: &Source, root: &Root) -> PathBuf {
    match source.package.uses_pyo3 {
        true => root.resolve(python),
        false => python.to_owned(),
    }
}

/// The site-packages of an interpreter.
pub fn site_packages(python: &Path, env: &Env) -> Option<PathBuf> {
    let query = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let printed = process::output(&Invocation::new(python).args(["-c", query]), env)?;
    Some(PathBuf::from(printed.trim_end()))
}

/// Whether the file name of a native module fits the ABI tag of a wheel: `_native.abi3.so` the tag `abi3`,
/// `_native.cpython-312-x86_64-linux-gnu.so` the tag `cp312`.
fn is_for_tags(file: &str, wheel: &str) -> bool {
    let tags = FileName::parse(wheel).map(|name| name.rest);
    let abi = tags.as_deref().and_then(|tags| tags.rsplit('-').nth(1));
    let is_module = file.ends_with(".so");
    match abi.unwrap_or_default().strip_prefix("cp") {
        Some(version) => is_module && file.contains(&format!(".cpython-{version}-")),
        None if abi == Some("abi3") => file.ends_with(".abi3.so"),
        None => is_module,
    }
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_other_interpreters_are_left_out() {
        let abi3 = "saxpy-0.1.0-cp39-abi3-linux_x86_64.whl";
        let cp312 = "saxpy-0.1.0-cp312-cp312-linux_x86_64.whl";
        let none = "saxpy-0.1.0-py3-none-linux_x86_64.whl";
        for (file, wheel, expected) in [
            ("saxpy.abi3.so", abi3, true),
            ("saxpy.cpython-312-x86_64-linux-gnu.so", abi3, false),
            ("saxpy.cpython-312-x86_64-linux-gnu.so", cp312, true),
            ("saxpy.cpython-311-x86_64-linux-gnu.so", cp312, false),
            ("saxpy.cpython-312t-x86_64-linux-gnu.so", cp312, false),
            ("saxpy.so", none, true),
            ("saxpy.py", none, false),
        ] {
            assert_eq!(is_for_tags(file, wheel), expected, "{file} {wheel}");
        }
    }
}
