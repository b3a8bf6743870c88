//! Builds the wheel of one CUDA major, from the search for a toolkit to the finished file.
//!
//! maturin gets the variables that `cargo cuda build --cuda` sets for cargo, so that unmodified
//! crates find the same toolkit. The target directory is separate, because cargo does not rebuild
//! crates that were built without the rustc wrapper.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cuda_build::internal::RequestedRelease;
use cuda_build::internal::command::Invocation;
use cuda_build::internal::component::{EdgeKind, closure};
use cuda_build::internal::config::Cudart;
use cuda_build::{Capability, Component, Plan, Toolkit};

use super::archive::Wheel;
use super::dependencies::{self, BuiltWith, Origin};
use super::maturin::{Maturin, Request};
use super::metadata::{IN_MANIFEST, check_name};
use super::rewrite::{BuiltWheel, Rewrite};
use super::runpath::{SearchPathKind, SearchPathPlan};
use crate::build::{Build, LoaderPath, Purpose};
use crate::exit_code;
use crate::failure::Failure;
use crate::lacking;
use crate::output::{self, TemporaryDirectory};
use crate::process;
use crate::project::Project;
use crate::rustc_wrapper::{self, Scope};
use crate::workspace::Package;

/// What the wheels of all majors have in common.
#[derive(Debug)]
pub struct Job<'a> {
    /// The project, limited to `package`.
    pub project: Project,
    pub package: Package,
    pub profile: &'a str,
    /// The user's own arguments for maturin.
    pub passthrough: &'a [OsString],
    pub out: &'a Path,
    /// The kind of search path.
    pub kind: SearchPathKind,
    pub maturin: Maturin,
}

/// Everything about one major that is decided before anything is compiled.
#[derive(Debug)]
pub struct Prepared {
    major: u32,
    build: Build,
    plan: Plan,
    /// The declared components that are linked as shared libraries.
    linked: BTreeSet<Component>,
}

impl Job<'_> {
    /// Finds the toolkit for a release and creates its view.
    pub fn prepare(
        &self,
        release: RequestedRelease,
        gpus: &[Capability],
    ) -> Result<Prepared, Failure> {
        if let Some(name) = &self.package.config.wheel.name {
            check_name(name, IN_MANIFEST)?;
        }
        let major = release.major;
        let declared = self.package.config.for_major(major);
        let project = self.project.for_release(release);
        let build = Build::prepare(&project, Purpose::Wheel, gpus, None)?;
        if declared.capabilities.is_none() {
            return Err(undeclared());
        }
        let plan = build.plan.clone().ok_or_else(undeclared)?;
        let used: Vec<Component> = declared
            .components
            .iter()
            .map(|wanted| wanted.component)
            .collect();
        build.toolkit.check_plan(&plan, &used)?;
        let linked = used.into_iter();
        let linked = linked
            .filter(|c| *c != Component::Cudart || self.package.config.cudart == Cudart::Shared);
        let linked: BTreeSet<Component> =
            linked.filter(|c| build.toolkit.get(*c).is_some()).collect();
        // Checked before compiling: each linked component must have a library directory in
        // NVIDIA's packages.
        SearchPathPlan::new(&linked, major, self.kind)?;
        Ok(Prepared {
            major,
            build,
            plan,
            linked,
        })
    }

    /// Builds the wheel.
    pub fn build(&self, prepared: &Prepared) -> Result<BuiltWheel, Failure> {
        let Prepared { major, build, .. } = prepared;
        let (major, toolkit) = (*major, &build.toolkit);
        output::message(&format!(
            "building {} {} for CUDA {major}",
            self.package.name, self.package.version
        ));
        output::messages(&build.notes);
        let variables = self.variables(build)?;
        let mut linked = prepared.linked.clone();
        let (runpath, temporary, wheel) = loop {
            let runpath = SearchPathPlan::new(&linked, major, self.kind)?;
            let (temporary, wheel) = self.compile(build, &variables, &runpath)?;
            // Dependencies may link libraries that no manifest declares. In that case only the
            // module is linked again, with a search path that includes those libraries.
            let more = undeclared_components(&wheel, major, &linked, toolkit)?;
            if more.is_empty() {
                break (runpath, temporary, wheel);
            }
            let names: Vec<&str> = more.iter().map(|component| component.id()).collect();
            output::message(&format!(
                "note: the module needs {}, which `components` does not list; linking again with a longer search path",
                names.join(", ")
            ));
            linked.extend(more);
            let used: Vec<Component> = linked.iter().copied().collect();
            toolkit.check_plan(&prepared.plan, &used)?;
        };
        output::make_directory(self.out)?;
        let components = toolkit.components().iter();
        let rewrite = Rewrite {
            name: self.package.config.wheel.name.clone(),
            major,
            runpath,
            built_with: BuiltWith {
                toolkit: toolkit.version(),
                components: components
                    .filter_map(|c| Some((c.found.component, c.found.version.clone()?)))
                    .collect(),
            },
            dlopened: dlopened_components(&linked, toolkit),
        };
        let built = rewrite.apply(&wheel, self.out)?;
        drop(temporary);
        if !built.requires.is_empty() {
            output::message(
                "maturin's warning about external libraries is expected: the wheel requires NVIDIA's packages instead \
                 of copying their libraries",
            );
        }
        Ok(built)
    }

    fn variables(&self, build: &Build) -> Result<Vec<(String, OsString)>, Failure> {
        let target = &build.directory.path;
        // maturin starts no program that loads CUDA's libraries.
        let mut variables = build.variables(LoaderPath::Unset, &self.project.user);
        variables.push(("CARGO_TARGET_DIR".to_owned(), target.into()));
        if self.project.has_separate_build_directory() {
            variables.push(("CARGO_BUILD_BUILD_DIR".to_owned(), target.into()));
        }
        let project = &self.project;
        variables.extend(rustc_wrapper::variables(
            project,
            build,
            Scope::Reproducible,
        )?);
        Ok(variables)
    }

    /// Runs maturin. The wheel is in the returned directory, which is removed on drop.
    fn compile(
        &self,
        build: &Build,
        variables: &[(String, OsString)],
        runpath: &SearchPathPlan,
    ) -> Result<(TemporaryDirectory, PathBuf), Failure> {
        let temporary = TemporaryDirectory::below(&build.directory.path)?;
        let invocation = self.maturin.build(&Request {
            manifest: &self.package.manifest,
            out: temporary.path(),
            profile: self.profile,
            passthrough: self.passthrough,
            // The module is one directory below site-packages.
            rustc_args: &runpath.rustc_arguments(1),
            env: variables,
        });
        let code = process::run(&invocation, &self.project.user)?;
        if code != 0 {
            let mut failure = Failure::wheel(format!(
                "maturin ended with code {code}; its own messages are above\n  command: {invocation}"
            ));
            failure.hints = lacking::hints(build);
            return Err(failure);
        }
        let wheel = one_wheel(&output::files(temporary.path())?, &invocation)?;
        Ok((temporary, wheel))
    }
}

/// The toolkit's components that a wheel's modules need, without those in `known`. Other libraries
/// are checked when the wheel is rewritten.
fn undeclared_components(
    wheel: &Path,
    major: u32,
    known: &BTreeSet<Component>,
    toolkit: &Toolkit,
) -> Result<BTreeSet<Component>, Failure> {
    let wheel = Wheel::open(wheel)?;
    let needed = wheel.modules().flat_map(|(_, facts)| &facts.needed);
    let component = |soname: &String| match dependencies::origin(soname, major) {
        Ok(Origin::Component(component)) => Some(component),
        _ => None,
    };
    let has_library = |component: &Component| {
        let found = toolkit.get(*component);
        found.is_some_and(|found| !found.libraries.is_empty())
    };
    Ok(needed
        .filter_map(component)
        .filter(|component| !known.contains(component) && has_library(component))
        .collect())
}

/// Components that the linked libraries open with `dlopen`, so no ELF file lists them. NVIDIA's
/// packages require them too, but without a version.
fn dlopened_components(linked: &BTreeSet<Component>, toolkit: &Toolkit) -> BTreeSet<Component> {
    let linked: Vec<Component> = linked.iter().copied().collect();
    let needed = closure(&linked, toolkit.version().major).into_iter();
    let loaded = needed
        .filter(|(component, kind)| *kind == EdgeKind::Load && toolkit.get(*component).is_some());
    loaded.map(|(component, _)| component).collect()
}

/// The one wheel among the files that maturin wrote.
fn one_wheel(files: &[PathBuf], invocation: &Invocation) -> Result<PathBuf, Failure> {
    let is_wheel = |file: &&PathBuf| file.extension().is_some_and(|e| e == "whl");
    let wheels: Vec<&PathBuf> = files.iter().filter(is_wheel).collect();
    let (text, hint) = match wheels.as_slice() {
        [wheel] => return Ok((*wheel).clone()),
        [] => (
            "maturin succeeded, but built no wheel".to_owned(),
            "remove the maturin options that make it do something else than write a wheel: look after `--`, and in \
             `[tool.maturin]` of pyproject.toml",
        ),
        wheels => (
            format!("maturin built {} wheels instead of one", wheels.len()),
            "build for one interpreter at a time (`-- --interpreter python3.12`), or build an abi3 module",
        ),
    };
    Err(Failure::wheel(format!("{text}\n  command: {invocation}")).hint(hint))
}

fn undeclared() -> Failure {
    let text =
        "no compute capability is declared, and a wheel is built for other machines than this one";
    Failure::new(exit_code::CAPABILITY, text)
        .hint("declare capabilities in Cargo.toml:\n[package.metadata.cuda]\ncapabilities = [\"8.0\", \"9.0+PTX\"]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maturin_must_build_exactly_one_wheel() {
        let result = |names: &[&str]| {
            let files: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
            one_wheel(&files, &Invocation::new("maturin")).map_err(|failure| failure.to_string())
        };
        assert_eq!(result(&["a.whl"]).unwrap(), Path::new("a.whl"));
        let none = result(&[]).unwrap_err();
        assert!(
            none.contains("succeeded, but built no wheel") && none.contains("\nhint: "),
            "{none}"
        );
        assert_eq!(result(&["a.tar.gz"]).unwrap_err(), none);
        let two = result(&["a.whl", "b.whl"]).unwrap_err();
        assert!(two.contains("built 2 wheels instead of one"), "{two}");
    }

    #[test]
    fn undeclared_capabilities_are_an_error_with_or_without_a_gpu() {
        let error = undeclared().to_string();
        assert!(!error.contains("no GPU"), "{error}");
        assert!(error.contains("capabilities = [\"8.0\""), "{error}");
    }
}
