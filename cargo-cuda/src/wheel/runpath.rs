//! The search path of native modules. Its entries are the library directories of NVIDIA's packages, relative to the
//! module's directory in site-packages.

use std::collections::BTreeSet;

use cuda_build::Component;

use super::dependencies::{self, Origin};
use super::elf::ElfFacts;
use crate::failure::Failure;

/// The two kinds of search path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchPathKind {
    /// `DT_RUNPATH`: searched after `LD_LIBRARY_PATH`, so that an administrator can override it.
    #[default]
    Runpath,
    /// `DT_RPATH`: searched before `LD_LIBRARY_PATH`.
    Rpath,
}

/// The search path of the native modules of one wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPathPlan {
    major: u32,
    kind: SearchPathKind,
    directories: Vec<String>,
}

impl SearchPathPlan {
    /// The plan for the components that a crate links as shared libraries.
    pub fn new(
        components: &BTreeSet<Component>,
        major: u32,
        kind: SearchPathKind,
    ) -> Result<Self, Failure> {
        dependencies::check_major(major)?;
        let mut directories = Vec::new();
        for &component in components {
            // A component without a shared library needs no search path. The driver's libraries are in no package.
            let facts = component.facts();
            if facts.libraries.is_empty() || facts.is_driver() {
                continue;
            }
            let directory = library_directory(component, major)
                .ok_or_else(|| dependencies::no_package(component, major))?;
            if !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        Ok(Self {
            major,
            kind,
            directories,
        })
    }

    /// The entries of the search path for a module that is `depth` directories below site-packages
    /// (`saxpy/saxpy.abi3.so` has depth 1).
    pub fn entries(&self, depth: usize) -> Vec<String> {
        let up = "/..".repeat(depth);
        self.directories
            .iter()
            .map(|directory| format!("$ORIGIN{up}/{directory}"))
            .collect()
    }

    /// The arguments with which rustc links the module's crate. They must not pass through a shell, because a shell
    /// would expand `$ORIGIN`.
    pub fn rustc_arguments(&self, depth: usize) -> Vec<String> {
        let entries = self.entries(depth);
        if entries.is_empty() {
            return Vec::new();
        }
        let tags = match self.kind {
            SearchPathKind::Runpath => "--enable-new-dtags",
            SearchPathKind::Rpath => "--disable-new-dtags",
        };
        ["-C".to_owned(), format!("link-arg=-Wl,{tags}")]
            .into_iter()
            .chain(
                entries
                    .iter()
                    .flat_map(|e| ["-C".to_owned(), format!("link-arg=-Wl,-rpath,{e}")]),
            )
            .collect()
    }

    /// Checks that a module has exactly the planned entries, of the planned kind, and that the entries include the
    /// directory of each component that the module needs. A module that needs no component may also have no entries.
    pub fn check(&self, module: &str, facts: &ElfFacts) -> Result<(), Failure> {
        let mut needs_component = false;
        for soname in &facts.needed {
            let Origin::Component(component) = dependencies::origin(soname, self.major)? else {
                continue;
            };
            needs_component = true;
            let covered = library_directory(component, self.major)
                .is_some_and(|d| self.directories.contains(&d));
            if !covered {
                return Err(Failure::wheel(format!(
                    "{module} needs `{soname}` of `{component}`, which the planned search path does not cover"
                ))
                .hint(format!(
                    "add \"{component}\" to `components` in `[package.metadata.cuda]`"
                )));
            }
        }
        let has_no_entries = facts.runpath.is_empty() && facts.rpath.is_empty();
        if has_no_entries && !needs_component {
            return Ok(());
        }
        let expected = self.entries(module.matches('/').count());
        let (wanted, other) = match self.kind {
            SearchPathKind::Runpath => (&facts.runpath, &facts.rpath),
            SearchPathKind::Rpath => (&facts.rpath, &facts.runpath),
        };
        if *wanted == expected && other.is_empty() {
            return Ok(());
        }
        let shown = |entries: &[String]| match entries {
            [] => "nothing".to_owned(),
            entries => entries.join(":"),
        };
        let tag = match self.kind {
            SearchPathKind::Runpath => "DT_RUNPATH",
            SearchPathKind::Rpath => "DT_RPATH",
        };
        Err(Failure::wheel(format!(
            "{module} has an unexpected search path\n  \
             expected {tag}: {}\n  has DT_RUNPATH: {}\n  has DT_RPATH: {}",
            shown(&expected),
            shown(&facts.runpath),
            shown(&facts.rpath)
        ))
        .hint(
            "a build script or `.cargo/config.toml` may add search paths (`-rpath`); remove them: \
             `cargo cuda wheel` passes the correct ones to the linker",
        ))
    }
}

/// The directory below site-packages that contains the component's libraries, such as `nvidia/cublas/lib`.
fn library_directory(component: Component, major: u32) -> Option<String> {
    let facts = component.facts();
    let own = facts.package_dir(major);
    // If the table has no entry for a product and this major, use the entry for another major, because most products
    // are installed in the same directory for every CUDA major. Directories such as `nvidia/cu13` are skipped,
    // because they belong to one major.
    let shared = || {
        let directories = facts.package_dirs.iter().flatten();
        facts
            .is_product()
            .then(|| directories.copied().find(|d| !d.starts_with("nvidia/cu1")))
            .flatten()
    };
    own.or_else(shared)
        .map(|directory| format!("{directory}/lib"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(components: &[Component], major: u32, kind: SearchPathKind) -> SearchPathPlan {
        SearchPathPlan::new(&components.iter().copied().collect(), major, kind).unwrap()
    }

    fn module(needed: &[&str], runpath: &[&str], rpath: &[&str]) -> ElfFacts {
        let owned = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect();
        ElfFacts {
            needed: owned(needed),
            runpath: owned(runpath),
            rpath: owned(rpath),
            ..ElfFacts::default()
        }
    }

    #[test]
    fn entries_lead_from_the_module_to_the_packages() {
        let plan = plan(&[Component::Cudart], 12, SearchPathKind::Runpath);
        assert_eq!(plan.entries(1), ["$ORIGIN/../nvidia/cuda_runtime/lib"]);
        assert_eq!(plan.entries(2), ["$ORIGIN/../../nvidia/cuda_runtime/lib"]);
    }

    #[test]
    fn one_directory_per_component_before_13_and_one_for_all_since() {
        let both = [Component::Cublas, Component::Cudart];
        assert_eq!(
            plan(&both, 12, SearchPathKind::Runpath).entries(1),
            [
                "$ORIGIN/../nvidia/cuda_runtime/lib",
                "$ORIGIN/../nvidia/cublas/lib"
            ]
        );
        assert_eq!(
            plan(&both, 13, SearchPathKind::Runpath).entries(1),
            ["$ORIGIN/../nvidia/cu13/lib"]
        );
        assert_eq!(
            plan(&both, 13, SearchPathKind::Runpath).entries(3),
            ["$ORIGIN/../../../nvidia/cu13/lib"]
        );
        assert_eq!(
            plan(&both, 13, SearchPathKind::Runpath).entries(0),
            ["$ORIGIN/nvidia/cu13/lib"]
        );
        assert_eq!(
            plan(&[Component::Cudnn], 12, SearchPathKind::Runpath).entries(1),
            ["$ORIGIN/../nvidia/cudnn/lib"],
        );
    }

    #[test]
    fn compilers_headers_and_the_driver_add_no_directory() {
        let unlinked = [
            Component::Nvcc,
            Component::Cccl,
            Component::Driver,
            Component::Nvml,
        ];
        let plan = plan(&unlinked, 13, SearchPathKind::Runpath);
        assert!(plan.entries(1).is_empty());
        assert!(plan.rustc_arguments(1).is_empty());
    }

    #[test]
    fn arguments_name_the_kind() {
        let arguments = |kind| plan(&[Component::Cudart], 13, kind).rustc_arguments(1);
        assert_eq!(
            arguments(SearchPathKind::Runpath),
            [
                "-C",
                "link-arg=-Wl,--enable-new-dtags",
                "-C",
                "link-arg=-Wl,-rpath,$ORIGIN/../nvidia/cu13/lib"
            ]
        );
        assert_eq!(
            arguments(SearchPathKind::Rpath)[1],
            "link-arg=-Wl,--disable-new-dtags"
        );
    }

    #[test]
    fn a_module_is_held_to_the_plan() {
        let plan13 = plan(&[Component::Cudart], 13, SearchPathKind::Runpath);
        let good = "$ORIGIN/../nvidia/cu13/lib";
        let check = |facts: &ElfFacts| plan13.check("saxpy/saxpy.abi3.so", facts);

        assert!(check(&module(&["libcudart.so.13"], &[good], &[])).is_ok());
        assert!(check(&module(&["libc.so.6"], &[], &[])).is_ok());
        for (runpath, rpath) in [
            (vec![], vec![]),
            (vec![], vec![good]),
            (vec![good], vec!["/usr/local/cuda/lib64"]),
            (vec![good, "/home/me/target/release"], vec![]),
            (vec!["$ORIGIN/../../nvidia/cu13/lib"], vec![]),
            (vec![good, "$ORIGIN/../nvidia/cuda_runtime/lib"], vec![]),
        ] {
            let error = check(&module(&["libcudart.so.13"], &runpath, &rpath)).unwrap_err();
            assert!(error.message.contains("expected DT_RUNPATH"), "{error}");
        }
        let error = check(&module(&["libc.so.6"], &["/build"], &[])).unwrap_err();
        assert!(error.to_string().contains("/build"), "{error}");
    }

    #[test]
    fn rpath_on_request_must_be_rpath() {
        let plan = plan(&[Component::Cudart], 13, SearchPathKind::Rpath);
        let good = "$ORIGIN/../nvidia/cu13/lib";
        assert!(
            plan.check("a/b.so", &module(&["libcudart.so.13"], &[], &[good]))
                .is_ok()
        );
        assert!(
            plan.check("a/b.so", &module(&["libcudart.so.13"], &[good], &[]))
                .is_err()
        );
    }

    #[test]
    fn what_is_needed_must_be_covered() {
        let plan = plan(&[Component::Cudart], 12, SearchPathKind::Runpath);
        let facts = module(
            &["libcublas.so.12"],
            &["$ORIGIN/../nvidia/cuda_runtime/lib"],
            &[],
        );
        let error = plan.check("a/b.so", &facts).unwrap_err();
        assert!(error.message.contains("of `cublas`, which"), "{error}");
        assert!(error.hints[0].contains("\"cublas\""));
    }
}
