//! What the wheel of one major needs of CUDA, and the requirements on Python packages that follow from it.
//!
//! There are three sources: the libraries and symbols that the native modules need, the components that the manifest
//! declares (code may open them with `dlopen`), and the components that these need in turn.
//!
//! A component's lower bound is the version that the first release of the CUDA major shipped, because newer releases are
//! compatible with it. It is raised by a symbol that this version lacks, and by `version` in the manifest. The
//! release of the build is no lower bound: PyTorch and others pin older releases.

use std::collections::{BTreeMap, BTreeSet};

use cuda_build::internal::Config;
use cuda_build::internal::component::{Class, EdgeKind, Facts, closure, edges};
use cuda_build::internal::config::Cudart;
use cuda_build::internal::release;
use cuda_build::{Component, ToolkitVersion, Version};

use super::dependencies::{self, BuiltWith, Origin};
use super::elf::ElfFacts;
use super::symbols::{self, Added};
use crate::failure::Failure;

/// What a wheel needs of CUDA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
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
    /// The components that a manifest declares for a major. A component without a shared library is needed only to
    /// build, and the static runtime is part of the module.
    pub fn declared(config: &Config, major: u32) -> Self {
        let mut needs = Self::default();
        for wanted in config.for_major(major).components {
            let component = wanted.component;
            let facts = component.facts();
            let is_static = component == Component::Cudart && config.cudart == Cudart::Static;
            if facts.libraries.is_empty() || facts.is_driver() || is_static {
                continue;
            }
            if wanted.optional {
                needs.optional.insert(component);
            } else {
                needs.required.insert(component);
            }
            if let Some(version) = wanted.lowest_version() {
                needs.raise(component, version);
            }
        }
        needs
    }

    /// Adds what a native module needs.
    pub fn add_module(
        &mut self,
        facts: &ElfFacts,
        major: u32,
        built_with: &BuiltWith,
    ) -> Result<(), Failure> {
        let needed = facts.needed.iter().map(String::as_str);
        self.required
            .extend(dependencies::components(needed, major)?);
        for import in &facts.imports {
            let candidates = match &import.library {
                Some(library) => std::slice::from_ref(library),
                None => &facts.needed,
            };
            for library in candidates {
                if let Origin::Component(component) = dependencies::origin(library, major)?
                    && let Some(bound) =
                        bound_of_symbol(component, major, library, &import.symbol, built_with)
                {
                    self.raise(component, bound);
                }
            }
        }
        self.has_lto_ir |= facts.has_lto_ir();
        Ok(())
    }

    fn raise(&mut self, component: Component, version: Version) {
        let bound = self
            .raised
            .entry(component)
            .or_insert_with(|| version.clone());
        if *bound < version {
            *bound = version;
        }
    }

    /// The values of `Requires-Dist`: first the required components, then those in extras.
    pub fn requirements(&self, major: u32, built_with: &BuiltWith) -> Result<Vec<String>, Failure> {
        dependencies::check_major(major)?;
        let always = with_dependencies(&self.required, major);
        let mut lines = self.lines(&always, &always, major, built_with)?;
        for component in self.extras(major).difference(&self.required) {
            let extra = with_dependencies(&[*component].into(), major);
            let environment = extra.union(&always).copied().collect();
            for line in self.lines(&extra, &environment, major, built_with)? {
                if !lines.contains(&line) {
                    lines.push(format!("{line}; extra == '{component}'"));
                }
            }
        }
        Ok(lines)
    }

    /// The components that have an extra: the optional ones for which the major has a package.
    pub fn extras(&self, major: u32) -> BTreeSet<Component> {
        let optional = self.optional.iter().copied();
        optional
            .filter(|component| component.facts().package(major).is_some())
            .collect()
    }

    /// One line for each package of `components`. `environment` has all components that are installed together.
    fn lines(
        &self,
        components: &BTreeSet<Component>,
        environment: &BTreeSet<Component>,
        major: u32,
        built_with: &BuiltWith,
    ) -> Result<Vec<String>, Failure> {
        let mut lines = Vec::new();
        let mut extras = Vec::new();
        let mut oldest = ToolkitVersion::new(major, 0);
        for &component in components {
            let facts = component.facts();
            let missing = || dependencies::no_package(component, major);
            let package = facts.package(major).ok_or_else(missing)?;
            let bounds = self.bounds(component, environment, major, built_with)?;
            if has_metapackage(facts, major) {
                extras.push(facts.extra.ok_or_else(missing)?);
                oldest = oldest.max(bounds.release(component, major, built_with));
            } else {
                lines.push(format!("{package}>={},<{}", bounds.lower, bounds.upper));
            }
        }
        if !extras.is_empty() {
            let extras = extras.join(",");
            lines.insert(
                0,
                format!("cuda-toolkit[{extras}]>={oldest},<{}", major + 1),
            );
        }
        Ok(lines)
    }

    fn bounds(
        &self,
        component: Component,
        environment: &BTreeSet<Component>,
        major: u32,
        built_with: &BuiltWith,
    ) -> Result<Bounds, Failure> {
        let mut bounds = Bounds::first(component, major, built_with)?;
        if let Some(version) = self.raised.get(&component) {
            bounds.raise(version.clone());
        }
        if component.facts().class == Class::Provider {
            // The packages of the math libraries accept any version of nvJitLink, but a library of CUDA 12.4 needs the
            // symbols of nvJitLink 12.4.
            let users = environment
                .iter()
                .filter(|user| user.facts().is_part_of_toolkit() && uses(**user, component, major));
            for &user in users {
                let of_user = self.bounds(user, environment, major, built_with)?;
                bounds.raise(of_user.release(user, major, built_with).into());
            }
            // nvJitLink reads intermediate code of its own release and older.
            if self.has_lto_ir {
                bounds.raise(built_with.toolkit.into());
            }
        }
        Ok(bounds)
    }
}

/// The versions of a component that a wheel accepts.
struct Bounds {
    /// The inclusive lower bound.
    lower: Version,
    /// The exclusive upper bound.
    upper: u64,
    /// Whether the lower bound is above the first version for the CUDA major.
    is_raised: bool,
}

impl Bounds {
    /// From the first version for a CUDA major on.
    fn first(component: Component, major: u32, built_with: &BuiltWith) -> Result<Self, Failure> {
        let lower = first_version(component, major, built_with)?;
        Ok(Self {
            upper: lower.part(0) + 1,
            lower,
            is_raised: false,
        })
    }

    /// Ignores a version of another major: the manifest may have one list for several CUDA majors.
    fn raise(&mut self, version: Version) {
        if version > self.lower && version.part(0) < self.upper {
            self.lower = version;
            self.is_raised = true;
        }
    }

    /// The oldest release with these versions of a component.
    fn release(&self, component: Component, major: u32, built_with: &BuiltWith) -> ToolkitVersion {
        if !self.is_raised {
            return ToolkitVersion::new(major, 0);
        }
        release::oldest_release_with(component, &self.lower).unwrap_or(built_with.toolkit)
    }
}

/// The lower bound of a component that an imported symbol requires; `None` if the first version for the CUDA major has
/// the symbol.
pub fn bound_of_symbol(
    component: Component,
    major: u32,
    soname: &str,
    symbol: &str,
    built_with: &BuiltWith,
) -> Option<Version> {
    Some(match symbols::added(component, major, soname, symbol)? {
        Added::In(release) => release,
        Added::UpTo(newest) => {
            // The version that the module was linked with has the symbol.
            let built = built_with.components.get(&component);
            truncated(built.unwrap_or(&newest), 3)
        }
    })
}

/// The oldest version that a wheel may accept.
fn first_version(
    component: Component,
    major: u32,
    built_with: &BuiltWith,
) -> Result<Version, Failure> {
    let compared = symbols::compared(component, major).map(|compared| compared.first);
    if component.facts().follows_toolkit {
        let first = compared.map(|first| truncated(&first, 2));
        return Ok(first.unwrap_or_else(|| ToolkitVersion::new(major, 0).into()));
    }
    // These versions are independent of the toolkit: two CUDA releases can share `10.3` and differ in the third number
    // (cuRAND 10.3.5 is from CUDA 12.4, 10.3.10 from 12.9).
    let built = built_with.components.get(&component);
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

/// The first parts of a version.
fn truncated(version: &Version, parts: usize) -> Version {
    let parts = version.parts().iter().take(parts).map(u64::to_string);
    let text = parts.collect::<Vec<_>>().join(".");
    text.parse().unwrap_or_else(|_| version.clone())
}

/// Components with those that they need when a program runs, and for which the major has packages.
fn with_dependencies(components: &BTreeSet<Component>, major: u32) -> BTreeSet<Component> {
    let list: Vec<Component> = components.iter().copied().collect();
    let needed = closure(&list, major)
        .into_iter()
        .filter(|(component, kind)| {
            matches!(kind, EdgeKind::Link | EdgeKind::Load)
                && component.facts().package(major).is_some()
        });
    list.iter()
        .copied()
        .chain(needed.map(|(component, _)| component))
        .collect()
}

fn uses(user: Component, provider: Component, major: u32) -> bool {
    edges(user, major)
        .iter()
        .any(|(to, kind)| *to == provider && kind.is_run_time())
}

/// Whether a component is required through the metapackage `cuda-toolkit`: the packages of a toolkit whose names do not
/// contain the CUDA major, such as `nvidia-cublas`.
pub fn has_metapackage(facts: &Facts, major: u32) -> bool {
    let suffix = format!("-cu{major}");
    let package = facts.package(major);
    facts.is_part_of_toolkit() && package.is_some_and(|package| !package.ends_with(&suffix))
}

#[cfg(test)]
#[path = "needs_tests.rs"]
mod tests;
