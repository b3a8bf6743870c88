//! What belongs to one build of a program: the libraries that it needs, and their licences. Everything is checked
//! before anything is copied.
//!
//! Components of the driver are never requested, so neither its libraries nor stubs of them are copied.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cuda_build::{Component, Plan, Toolkit, ToolkitVersion, config::Config};
use cuda_find_core::{root::Root, select::RequestedRelease};

use crate::failure::{Failure, Result};
use crate::output::{self, file_name};
use crate::package::archive;
use crate::package::elf::ElfFacts;
use crate::package::licence::{Licence, Redistribution};
use crate::package::nvidia::{LibraryOrigin, component_of, origin, with_dependencies};
use crate::project::Project;
use crate::wheel::needs::{BuiltWith, Needs};

/// Component, path and ELF facts of each library, by SONAME, and of the program, which has no component.
pub type BundledFiles = BTreeMap<String, (Option<Component>, PathBuf, ElfFacts)>;

pub type Licences = BTreeMap<Component, Licence>;

/// Where a build lies in a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The directory of the program.
    pub program: String,
    /// Nothing, or `/cu13`: the libraries are in `lib/cu13` then.
    pub below: String,
}

impl Place {
    /// The place of the only build.
    pub fn only() -> Self {
        Self {
            program: "bin".to_owned(),
            below: String::new(),
        }
    }

    /// The place of one of several builds. Those for a CUDA major share their libraries.
    pub fn of(name: &str, major: u32) -> Self {
        Self {
            program: format!("builds/{name}"),
            below: format!("/cu{major}"),
        }
    }

    /// The search path of the program.
    pub fn search_path(&self) -> String {
        let up = "/..".repeat(self.program.split('/').count());
        format!("$ORIGIN{up}/lib{}", self.below)
    }
}

/// One build of the program.
#[derive(Debug, Default)]
pub struct Build {
    /// `cu13`, `cu13-sm90` or `fallback`.
    pub name: String,
    pub place: Place,
    /// The toolkit with which it was built; `None` for the build without CUDA.
    pub release: Option<ToolkitVersion>,
    /// For one of the builds of `--split`: what it was built for.
    pub plan: Option<Plan>,
    /// The file name of the program.
    pub program: String,
    pub files: BundledFiles,
    /// The components that the program opens by the name of their library without a version.
    pub opened: BTreeSet<Component>,
    pub licences: Licences,
}

impl Build {
    /// Finds what the program `file` needs. `release` is the one that it was built with. `permitted` are components that
    /// the user may redistribute, if their licence is not recognised.
    pub fn new(
        name: &str,
        place: Place,
        file: &Path,
        release: RequestedRelease,
        project: &Project,
        config: &Config,
        permitted: &[Component],
    ) -> Result<Self> {
        let root = &project.root;
        let program = ElfFacts::read(archive::open(file)?.0)?;
        let project = project.for_release(release);
        let mut built_with = BuiltWith::newest(release.major);
        if let Some(minor) = release.minor {
            built_with.toolkit = ToolkitVersion::new(release.major, minor);
        }
        let mut needs = Needs::declared(config, built_with);
        let sonames = program.needed.iter();
        let linked: BTreeSet<Component> = sonames.filter_map(|it| component_of(it)).collect();
        let mut opened = BTreeSet::new();
        let guesses = project.finder().guesses().iter();
        for guess in guesses.filter(|guess| guess.is_loaded) {
            if guess.component.facts().libraries.is_empty() {
                let text = format!(
                    "note: {guess} is not copied: it has to be on the systems that run the program"
                );
                output::message(&text);
            } else {
                opened.insert(guess.component);
            }
        }
        needs.required.extend(&opened);
        needs.required.extend(&linked);
        needs.required = with_dependencies(&needs.required, release.major);
        let mut toolkit = None;
        if !needs.required.is_empty() {
            let found = project.finder().find_libraries(&needs.required)?;
            needs.built_with = BuiltWith::of(&found);
            toolkit = Some(found);
        }
        needs.add_module(&program)?;

        let mut files = BundledFiles::new();
        for found in toolkit.iter().flat_map(Toolkit::components) {
            let is_needed = needs.required.contains(&found.component);
            for path in found.libraries.iter().filter(|_| is_needed) {
                let elf = ElfFacts::read_tables(archive::open(path)?.0)?;
                let soname = elf.soname.clone().unwrap_or_else(|| file_name(path));
                files.insert(soname, (Some(found.component), path.clone(), elf));
            }
        }
        let mut files = selected(&program, &linked, files);
        let file_name = file_name(file);
        files.insert(file_name.clone(), (None, file.to_owned(), program));
        check(&file_name, &files, &needs)?;
        let licences = licences(&mut files, root, release.major, permitted)?;
        opened.retain(|it| !linked.contains(it));
        Ok(Self {
            name: name.to_owned(),
            place,
            release: Some(needs.built_with.toolkit),
            program: file_name,
            files,
            opened,
            licences,
            ..Self::default()
        })
    }

    /// The build without CUDA.
    pub fn fallback(file: &Path) -> Result<Self> {
        let name = "fallback".to_owned();
        let program = ElfFacts::read(archive::open(file)?.0)?;
        let mut needed = program.needed.iter();
        if let Some(soname) = needed.find(|soname| origin(soname) != LibraryOrigin::Foreign) {
            let text = format!("the build with the features of `fallback` needs {soname}");
            return Err(Failure::audit(text).hint(
                "name features that do not use CUDA; `default-features = false` leaves the default ones out",
            ));
        }
        let file_name = file_name(file);
        Ok(Self {
            place: Place {
                program: format!("builds/{name}"),
                ..Place::default()
            },
            name,
            files: BTreeMap::from([(file_name.clone(), (None, file.to_owned(), program))]),
            program: file_name,
            ..Self::default()
        })
    }

    /// The program itself.
    pub fn elf(&self) -> &ElfFacts {
        &self.files[&self.program].2
    }
}

/// Of the libraries of needed components, those that the program or another library links, and every library of a
/// component that is opened by name. cuDNN opens its engines by name, and NVRTC its builtins.
fn selected(
    program: &ElfFacts,
    linked: &BTreeSet<Component>,
    mut all: BundledFiles,
) -> BundledFiles {
    let mut open = program.needed.clone();
    for (soname, (component, ..)) in &all {
        let Some(component) = *component else {
            continue;
        };
        let facts = component.facts();
        let opens_siblings = facts.is_product() || facts.library_with_release.is_some();
        if opens_siblings || !linked.contains(&component) {
            open.push(soname.clone());
        }
    }
    let mut selected = BundledFiles::new();
    while let Some(soname) = open.pop() {
        if let Some(library) = all.remove(&soname) {
            open.extend(library.2.needed.iter().cloned());
            selected.insert(soname, library);
        }
    }
    selected
}

/// The SONAMEs that files need.
pub fn sonames(files: &BundledFiles) -> BTreeSet<&String> {
    files.values().flat_map(|(.., elf)| &elf.needed).collect()
}

/// Fails if the loader would not find a library for the program `name`, or a symbol in it.
fn check(name: &str, files: &BundledFiles, needs: &Needs) -> Result<()> {
    let mut missing = sonames(files);
    missing.retain(|soname| matches!(origin(soname), LibraryOrigin::Component(_)));
    missing.retain(|soname| !files.contains_key(*soname));
    let mut missing: Vec<String> = missing.into_iter().cloned().collect();
    for (component, oldest) in &needs.raised {
        let version = needs.built_with.components.get(component);
        if version.is_some_and(|version| version < oldest) {
            missing.push(format!("{component} {oldest}"));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let (version, missing) = (needs.built_with.toolkit, missing.join(", "));
    let text = format!("{name} needs {missing}, which CUDA {version} does not have");
    Err(Failure::audit(text).hint("name a release that has it, as in `--cuda 13.4`"))
}

/// The licence of each component. A library that may not be redistributed is an error if the program needs it.
/// Otherwise it is left out, such as `libcusolverMg.so` beside `libcusolver.so`. `permitted` are components whose licence
/// is not recognised, and that the user may redistribute.
fn licences(
    files: &mut BundledFiles,
    root: &Root,
    major: u32,
    permitted: &[Component],
) -> Result<Licences> {
    let mut messages = Vec::new();
    let mut licences = Licences::new();
    let mut left_out = Vec::new();
    let linked = sonames(files);
    for (name, (component, path, _)) in &*files {
        let Some(component) = *component else {
            continue;
        };
        let read = || Licence::of(root, path, component, major);
        let licence = licences.entry(component).or_insert_with(read);
        let file = licence.files.first();
        let reason = match (licence.redistribution(name), file) {
            (Redistribution::Permitted, _) => continue,
            (Redistribution::Unknown, _) if permitted.contains(&component) => continue,
            (Redistribution::NotNamed, Some(file)) => {
                format!("its licence does not name it ({})", file.display())
            }
            (_, Some(file)) => format!("its licence is not recognised ({})", file.display()),
            (_, None) => format!(
                "no licence of {component} was found near {}",
                path.display()
            ),
        };
        let main = format!("lib{}.so", component.facts().libraries[0]);
        if linked.contains(name) || name.starts_with(&main) {
            return Err(not_redistributable(name, component, &reason, licence));
        }
        messages.push(format!("note: {name} is left out: {reason}"));
        left_out.push(name.clone());
    }
    files.retain(|name, _| !left_out.contains(name));
    output::messages(&messages);
    Ok(licences)
}

fn not_redistributable(
    name: &str,
    component: Component,
    reason: &str,
    licence: &Licence,
) -> Failure {
    if licence.redistribution(name) == Redistribution::NotNamed {
        let text = format!("{name} must not be redistributed: {reason}");
        let hint = "let users install it, and write the program without a bundle";
        return Failure::audit(text).hint(hint);
    }
    let text = format!("whether {name} may be redistributed is not known: {reason}");
    Failure::audit(text).hint(format!(
        "read its licence; if it permits that, add `--redistribute {component}`"
    ))
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
