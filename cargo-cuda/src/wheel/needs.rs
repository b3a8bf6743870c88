//! What the wheel of one major needs of CUDA, and the requirements on Python packages that follow from it.
//!
//! There are four sources: the libraries and symbols that the native modules need, the components that the manifest
//! declares (code may open them with `dlopen`), those that dependencies probably load by name (cudarc's feature
//! `cublas`), and the components that these need in turn.
//!
//! A component's lower bound is the version that the first release of the CUDA major shipped, because newer releases
//! are compatible with it. It is raised by a symbol that this version lacks, and by `version` in the manifest. The
//! release of the build is no lower bound: PyTorch and others pin older releases.

use std::collections::{BTreeMap, BTreeSet};

use cuda_build::config::{Config, Cudart};
use cuda_build::{Component, Toolkit, ToolkitVersion, Version};
use cuda_find_core::component::{Class, edges, oldest_release_with};
use cuda_find_core::release::{self, NEWEST_MAJOR, OLDEST_MAJOR};

use crate::dependencies::Guess;
use crate::failure::{Failure, Result};
use crate::output::joined;
use crate::package::elf::ElfFacts;
use crate::package::nvidia::{self, LibraryOrigin, has_metapackage, with_dependencies};
use crate::package::requirement::METAPACKAGE;
use crate::package::symbols::{self, Added};

/// The versions with which a wheel was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltWith {
    pub toolkit: ToolkitVersion,
    /// The components' own versions, as their packages have them.
    pub components: BTreeMap<Component, Version>,
}

impl BuiltWith {
    pub fn of(toolkit: &Toolkit) -> Self {
        let components = toolkit.components().iter();
        let versions = components.filter_map(|c| Some((c.component, c.version.clone()?)));
        Self {
            toolkit: toolkit.version(),
            components: versions.collect(),
        }
    }

    /// For files of another builder. The newest release of the major has every symbol that they need.
    pub fn newest(major: u32) -> Self {
        Self {
            toolkit: release::newest_of(major).unwrap_or(ToolkitVersion::new(major, 0)),
            components: BTreeMap::new(),
        }
    }

    pub fn major(&self) -> u32 {
        self.toolkit.major
    }

    /// The oldest release with this version of a component.
    fn oldest_release(&self, component: Component, lower: &Version) -> Result<ToolkitVersion> {
        if *lower == self.first_version(component)? {
            return Ok(ToolkitVersion::new(self.major(), 0));
        }
        Ok(oldest_release_with(component, lower).unwrap_or(self.toolkit))
    }

    /// The oldest version that a wheel may accept.
    fn first_version(&self, component: Component) -> Result<Version> {
        let major = self.major();
        let compared = symbols::compared(component, major).map(|compared| compared.first);
        if component.facts().follows_toolkit {
            let first = compared.map(|first| truncated(&first, 2));
            return Ok(first.unwrap_or_else(|| ToolkitVersion::new(major, 0).into()));
        }
        // These versions are independent of the toolkit: two CUDA releases can share `10.3` and differ in the third
        // number (cuRAND 10.3.5 is from CUDA 12.4, 10.3.10 from 12.9).
        let built = self.components.get(&component);
        match (compared, built) {
            // A product of another major than the table has, such as cuDNN 8.
            (Some(first), Some(built)) if first.part(0) != built.part(0) => Ok(truncated(built, 2)),
            (Some(first), _) => Ok(truncated(&first, 3)),
            (None, Some(built)) => Ok(truncated(built, 3)),
            (None, None) => Err(Failure::wheel(format!(
                "the version of `{component}` is not known, so its lower bound cannot be written"
            ))
            .hint(format!(
                "declare it: `components = [{{ name = \"{component}\", version = \">=1.2\" }}]`"
            ))),
        }
    }
}

/// Checks that wheels can be made for a CUDA major.
pub fn check_major(major: u32) -> Result<()> {
    if (OLDEST_MAJOR..=NEWEST_MAJOR).contains(&major) {
        return Ok(());
    }
    let majors = format!("{OLDEST_MAJOR} to {NEWEST_MAJOR}");
    let text = format!("wheels for CUDA {major} are not supported, only for {majors}");
    Err(Failure::wheel(text).hint(format!(
        "give `--cuda {NEWEST_MAJOR}`, or correct `majors` in `[package.metadata.cuda]`"
    )))
}

/// The component that contains a needed library; `None` for the driver's and third-party libraries. Fails if the
/// library belongs to another CUDA major.
pub fn component_of(soname: &str, major: u32) -> Result<Option<Component>> {
    let LibraryOrigin::Component(component) = nvidia::origin(soname) else {
        return Ok(None);
    };
    // A product's SONAME follows its own versions, whatever the CUDA major.
    let majors = nvidia::majors_of_soname(soname);
    if component.facts().is_product() || majors.contains(&major) {
        return Ok(Some(component));
    }
    let mut belongs_to = joined(majors.iter().map(|it| format!("CUDA {it}")), " or ");
    if belongs_to.is_empty() {
        belongs_to = "a CUDA that cargo-cuda does not support".to_owned();
    }
    let needs = format!("the native module needs `{soname}` of {belongs_to}");
    let text = format!("{needs}, but the package is for CUDA {major}");
    Err(Failure::wheel(text).hint(format!(
        "build with a toolkit of CUDA {major}; if a crate's build script found the other CUDA in an earlier build, use \
         a separate target directory for each major"
    )))
}

/// The error if no Python package is known for a component.
pub fn no_package(component: Component, major: u32) -> Failure {
    let text = format!("no known Python package contains `{component}` for CUDA {major}");
    Failure::wheel(text).hint(format!(
        "remove \"{component}\" from `components` in `[package.metadata.cuda]`, and link its static library"
    ))
}

/// What a wheel needs of CUDA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The versions with which its native modules were built.
    pub built_with: BuiltWith,
    /// The components that it does not work without.
    pub required: BTreeSet<Component>,
    /// The components that it can use. Each has an extra of its name.
    pub optional: BTreeSet<Component>,
    /// Lower bounds that are above the first version for the CUDA major.
    pub raised: BTreeMap<Component, Version>,
    /// Whether a module has intermediate code (LTO-IR) that nvJitLink compiles.
    pub has_lto_ir: bool,
}

impl Needs {
    /// No needs.
    pub fn new(built_with: BuiltWith) -> Self {
        Self {
            built_with,
            required: BTreeSet::new(),
            optional: BTreeSet::new(),
            raised: BTreeMap::new(),
            has_lto_ir: false,
        }
    }

    fn major(&self) -> u32 {
        self.built_with.major()
    }

    /// The components that a manifest declares for a major. A component without a shared library is needed only to
    /// build, and the static runtime is part of the module.
    pub fn declared(config: &Config, built_with: BuiltWith) -> Self {
        let mut needs = Self::new(built_with);
        for wanted in config.for_major(needs.major()).components {
            let component = wanted.component;
            let facts = component.facts();
            let is_static = component == Component::Cudart && config.cudart == Cudart::Static;
            if facts.libraries.is_empty() || facts.is_driver() || is_static {
                continue;
            }
            match wanted.optional {
                true => needs.optional.insert(component),
                false => needs.required.insert(component),
            };
            if let Some(version) = wanted.lowest_version() {
                needs.raise(component, version);
            }
        }
        needs
    }

    /// Adds the components that dependencies probably load by name, unless the manifest lists them, and returns a note.
    /// A component without a package, or without a version that is known, cannot be required.
    pub fn add_loaded(&mut self, guesses: &[Guess], config: &Config) -> Option<String> {
        let declared = config.for_major(self.major()).components;
        let mut added: Vec<&Guess> = guesses.iter().filter(|guess| guess.is_loaded).collect();
        added.retain(|guess| {
            let alone = Self {
                required: [guess.component].into(),
                ..Self::new(self.built_with.clone())
            };
            let is_declared = declared.iter().any(|d| d.component == guess.component);
            !is_declared && alone.requirements().is_ok()
        });
        let components = added.iter().map(|guess| guess.component);
        let names: Vec<&str> = components.clone().map(Component::id).collect();
        self.required.extend(components);
        let guesses = joined(&added, ", ");
        (!added.is_empty()).then(|| {
            format!(
                "note: the wheel requires {guesses}, because programs probably load it by name; to confirm it, write \
                 `components = {names:?}` in `[package.metadata.cuda]`, with `optional = true` for an extra"
            )
        })
    }

    /// Adds what a native module needs.
    pub fn add_module(&mut self, facts: &ElfFacts) -> Result<()> {
        let major = self.major();
        for soname in &facts.needed {
            self.required.extend(component_of(soname, major)?);
        }
        for import in &facts.imports {
            let libraries = match &import.library {
                Some(library) => std::slice::from_ref(library),
                None => &facts.needed,
            };
            for library in libraries {
                let Some(component) = component_of(library, major)? else {
                    continue;
                };
                match symbols::added(component, major, &import.symbol) {
                    Some(Added::In(release)) => self.raise(component, release),
                    // The version that the module was linked with has the symbol.
                    Some(Added::UpTo(newest)) => {
                        let built = self.built_with.components.get(&component);
                        let version = truncated(built.unwrap_or(&newest), 3);
                        self.raise(component, version);
                    }
                    None => {}
                }
            }
        }
        self.has_lto_ir |= facts.has_lto_ir();
        Ok(())
    }

    fn raise(&mut self, component: Component, version: Version) {
        let bound = self.raised.entry(component).or_insert(version.clone());
        *bound = version.max(bound.clone());
    }

    /// Whether the wheel requires packages of NVIDIA's, perhaps in an extra.
    pub fn requires_packages(&self) -> bool {
        !self.required.is_empty() || !self.extras().is_empty()
    }

    /// The values of `Requires-Dist`: first the required components, then those in extras.
    pub fn requirements(&self) -> Result<Vec<String>> {
        let major = self.major();
        let always = with_dependencies(&self.required, major);
        let mut lines = self.lines(&always, &always)?;
        for component in self.extras().difference(&self.required) {
            let extra = with_dependencies(&[*component].into(), major);
            let environment = extra.union(&always).copied().collect();
            for line in self.lines(&extra, &environment)? {
                if !lines.contains(&line) {
                    lines.push(format!("{line}; extra == '{component}'"));
                }
            }
        }
        Ok(lines)
    }

    /// The components that have an extra: the optional ones for which the major has a package.
    pub fn extras(&self) -> BTreeSet<Component> {
        let major = self.major();
        let mut extras = self.optional.clone();
        extras.retain(|component| component.facts().package(major).is_some());
        extras
    }

    /// One line for each package of `components`. `environment` has all components that are installed together.
    fn lines(
        &self,
        components: &BTreeSet<Component>,
        environment: &BTreeSet<Component>,
    ) -> Result<Vec<String>> {
        let major = self.major();
        let mut lines = Vec::new();
        let mut extras = Vec::new();
        let mut oldest = ToolkitVersion::new(major, 0);
        for &component in components {
            let facts = component.facts();
            let missing = || no_package(component, major);
            let package = facts.package(major).ok_or_else(missing)?;
            let lower = self.lower_bound(component, environment)?;
            if has_metapackage(facts, major) {
                extras.push(facts.extra.ok_or_else(missing)?);
                oldest = oldest.max(self.built_with.oldest_release(component, &lower)?);
            } else {
                lines.push(format!("{package}>={lower},<{}", lower.part(0) + 1));
            }
        }
        if !extras.is_empty() {
            let extras = extras.join(",");
            let line = format!("{METAPACKAGE}[{extras}]>={oldest},<{}", major + 1);
            lines.insert(0, line);
        }
        Ok(lines)
    }

    fn lower_bound(
        &self,
        component: Component,
        environment: &BTreeSet<Component>,
    ) -> Result<Version> {
        let (built_with, major) = (&self.built_with, self.major());
        let mut lower = built_with.first_version(component)?;
        // A version of another major does not count: the manifest may have one list for several CUDA majors.
        let mut raise = |version: Version| {
            if version > lower && version.part(0) == lower.part(0) {
                lower = version;
            }
        };
        if let Some(version) = self.raised.get(&component) {
            raise(version.clone());
        }
        if component.facts().class == Class::Provider {
            // The packages of the math libraries accept any version of nvJitLink, but a library of CUDA 12.4 needs the
            // symbols of nvJitLink 12.4.
            for &user in environment {
                if !user.facts().is_part_of_toolkit() || !uses(user, component, major) {
                    continue;
                }
                let of_user = self.lower_bound(user, environment)?;
                raise(built_with.oldest_release(user, &of_user)?.into());
            }
            // nvJitLink reads intermediate code of its own release and older.
            if self.has_lto_ir {
                raise(built_with.toolkit.into());
            }
        }
        Ok(lower)
    }
}

/// The first parts of a version.
fn truncated(version: &Version, parts: usize) -> Version {
    let text = joined(version.parts().iter().take(parts), ".");
    text.parse().unwrap_or_else(|_| version.clone())
}

fn uses(user: Component, provider: Component, major: u32) -> bool {
    edges(user, major)
        .iter()
        .any(|(to, kind)| *to == provider && kind.is_run_time())
}

#[cfg(test)]
#[path = "needs_tests.rs"]
mod tests;
