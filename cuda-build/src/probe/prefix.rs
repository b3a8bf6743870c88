//! The directories of one place, in the order to look into them.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use super::Prober;
use super::directories::Directories;
use crate::component::{Bundle, Component};
use crate::nvcc::NvccAnswer;
use crate::version::ToolkitVersion;

/// Why a conda prefix's own `include` and `lib` are not used.
const SHARED: &str = "that directory holds every library of the environment";

/// The existing directories of one place, in the order to search them.
pub(super) struct Prefix {
    pub(super) include: Vec<PathBuf>,
    pub(super) lib: Vec<PathBuf>,
    pub(super) bin: Vec<PathBuf>,
    /// The compiler, if the user named it.
    pub(super) nvcc: Option<PathBuf>,
    /// The directories in which nvcc looks for the programs that it starts.
    pub(super) nvcc_programs: Vec<PathBuf>,
    /// What is not used, and why.
    pub(super) remarks: Vec<String>,
    pub(super) directories: Directories,
    /// The roots of the place, links resolved.
    roots: Vec<PathBuf>,
    /// What `cuda.h` says, read once.
    pub(super) release: OnceCell<Option<(ToolkitVersion, PathBuf)>>,
}

/// The prefixes of one site-packages directory. Many components share one, and CUDA 11, 12 and 13
/// are looked for in turn: each is looked into once.
#[derive(Default)]
pub(super) struct Prefixes {
    known: Vec<(PathBuf, Prefix)>,
}

impl Prefixes {
    pub(super) fn at(&mut self, prober: &Prober<'_>, path: PathBuf) -> &Prefix {
        // As text: comparing paths takes them apart, and this is asked for every component.
        let same = |(known, _): &(PathBuf, Prefix)| known.as_os_str() == path.as_os_str();
        let index = self.known.iter().position(same).unwrap_or_else(|| {
            let prefix = Prefix::new(prober, &[&path], &[]);
            self.known.push((path, prefix));
            self.known.len() - 1
        });
        &self.known[index].1
    }
}

impl Prefix {
    /// `targets/<platform>` comes first: where both exist, the top level is a link to it, or
    /// belongs to the machine that compiles and not to the one compiled for. What nvcc names comes
    /// after what is known of a root, and only where it exists.
    pub(super) fn new(prober: &Prober<'_>, roots: &[&Path], answers: &[&NvccAnswer]) -> Self {
        let mut prefix = Self {
            include: Vec::new(),
            lib: Vec::new(),
            bin: Vec::new(),
            nvcc: answers.iter().find_map(|answer| answer.named.clone()),
            nvcc_programs: Vec::new(),
            remarks: Vec::new(),
            directories: Directories::default(),
            roots: Vec::new(),
            release: OnceCell::new(),
        };
        // A wheel has a directory of its own, so most that are looked for are absent.
        for root in roots.iter().filter(|root| prober.root.is_dir(root)) {
            prefix
                .roots
                .push(prefix.directories.resolve(prober.root, root));
            prefix.add_root(prober, root);
        }
        for answer in answers {
            let mut shared = Vec::new();
            let include = prefix.without_shared(prober, &answer.includes, &mut shared);
            let lib = prefix.without_shared(prober, &answer.libraries, &mut shared);
            prefix.add(prober, |p| &mut p.include, include);
            prefix.add(prober, |p| &mut p.lib, lib);
            if !shared.is_empty() {
                let shared = shared.join(" and ");
                prefix.remarks.push(format!(
                    "nvcc names {shared}, and that is not used: {SHARED}"
                ));
            }
            prefix
                .nvcc_programs
                .extend(answer.programs.iter().map(|path| tidy(prober, path)));
        }
        prefix
    }

    fn add_root(&mut self, prober: &Prober<'_>, root: &Path) {
        let target = root.join("targets").join(prober.target.directory());
        // conda's `include` and `lib` hold every library of the environment: giving them to a
        // compiler or linker replaces the system's. CUDA is in `targets` there.
        let shared = is_shared(prober, root);
        let own = |names: &[&str]| -> Vec<PathBuf> {
            names
                .iter()
                .filter(|_| !shared)
                .map(|name| root.join(name))
                .collect()
        };
        let mut include = vec![target.join("include")];
        include.extend(own(&["include"]));
        // NVIDIA's packages of products for Debian.
        include.extend(
            own(&["include"])
                .into_iter()
                .map(|dir| dir.join(prober.target.multiarch())),
        );
        // Fedora: a directory of its own below `/usr/include`. CCCL has a directory of that name.
        include.extend(
            own(&["include/cuda"])
                .into_iter()
                .filter(|dir| prober.root.is_file(&dir.join("cuda.h"))),
        );
        // A directory of CCCL's headers and nothing else.
        include.extend(
            [root]
                .into_iter()
                .filter(|_| !shared)
                .map(Path::to_owned)
                .filter(|dir| prober.root.is_file(&dir.join("cuda/std/version"))),
        );
        include.extend([root.join("nvvm/include"), root.join("extras/CUPTI/include")]);
        let mut lib = vec![target.join("lib")];
        lib.extend(own(&["lib64", "lib"]));
        lib.extend(
            own(&["lib"])
                .into_iter()
                .map(|dir| dir.join(prober.target.multiarch())),
        );
        lib.extend([
            root.join("nvvm/lib64"),
            root.join("nvvm/lib"),
            root.join("extras/CUPTI/lib64"),
        ]);
        let programs = ["bin", "nvvm/bin", "lib/nvidia-cuda-toolkit/bin"];
        let bin = programs.iter().map(|name| root.join(name)).collect();
        self.add(prober, |p| &mut p.include, include);
        self.add(prober, |p| &mut p.lib, lib);
        self.add(prober, |p| &mut p.bin, bin);
        if shared {
            self.remark_shared(prober, root);
        }
    }

    /// Adds directories that exist and are not there yet under another name.
    fn add(
        &mut self,
        prober: &Prober<'_>,
        to: impl Fn(&mut Self) -> &mut Vec<PathBuf>,
        candidates: Vec<PathBuf>,
    ) {
        for candidate in candidates {
            // Most of what an nvcc names is known by then.
            if to(self).contains(&candidate) || !prober.root.is_dir(&candidate) {
                continue;
            }
            let real = self.directories.resolve(prober.root, &candidate);
            let known = to(self).clone();
            if known
                .iter()
                .any(|known| self.directories.resolve(prober.root, known) == real)
            {
                continue;
            }
            // What is above a root says nothing of what is in it.
            let below = self
                .roots
                .iter()
                .find_map(|root| real.strip_prefix(root).ok())
                .unwrap_or(&real);
            match other_target(below, prober.target.directory()) {
                Some(other) => self.remark_target(prober, &other),
                None => to(self).push(candidate),
            }
        }
    }

    fn remark_target(&mut self, prober: &Prober<'_>, other: &str) {
        let wanted = prober.target.directory();
        let arm = ["aarch64-linux", "sbsa-linux"];
        let hint = if arm.contains(&other) && arm.contains(&wanted) {
            "; SBSA servers and Jetson boards differ: `jetson = true` in `[package.metadata.cuda]` says which"
        } else {
            ""
        };
        let remark = format!(
            "files of `targets/{other}` are not for {} (`{wanted}`){hint}",
            prober.target
        );
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// What nvcc names, without a conda prefix's own `include` and `lib`.
    fn without_shared(
        &self,
        prober: &Prober<'_>,
        named: &[PathBuf],
        shared: &mut Vec<String>,
    ) -> Vec<PathBuf> {
        let named = named.iter().map(|path| tidy(prober, path));
        let (left_out, own): (Vec<PathBuf>, Vec<PathBuf>) = named.partition(|path| {
            // Most of it was added with the root, which has been asked.
            if self.include.contains(path) || self.lib.contains(path) {
                return false;
            }
            let real = self.directories.resolve(prober.root, path);
            let elsewhere = real.parent().filter(|above| Some(*above) != path.parent());
            path.parent()
                .into_iter()
                .chain(elsewhere)
                .any(|above| is_shared(prober, above))
        });
        let there = left_out.iter().filter(|path| prober.root.is_dir(path));
        shared.extend(there.map(|path| path.display().to_string()));
        own
    }

    /// Older packages (`cudatoolkit` 11, those of NVIDIA's channel) put CUDA beside everything else.
    fn remark_top_level(&mut self, prober: &Prober<'_>, root: &Path) {
        let targets = self.directories.resolve(prober.root, &root.join("targets"));
        let there = |component: Component| -> Option<PathBuf> {
            let facts = component.facts();
            let sonames = facts.sonames.iter().flat_map(|names| names.first());
            let libraries = sonames.map(|name| (&self.lib, root.join("lib"), *name));
            let headers = facts
                .header
                .map(|name| (&self.include, root.join("include"), name));
            let main = (component == Component::Cudart)
                .then(|| (&self.include, root.join("include"), "cuda.h"));
            let mut files = libraries.chain(main).chain(headers);
            let (_, directory, name) = files.find(|(used, directory, name)| {
                // conda-forge links `lib` into `targets`.
                let own = |path: PathBuf| {
                    prober.root.is_file(&path) && !prober.root.resolve(&path).starts_with(&targets)
                };
                self.first(prober, used, name).is_none() && own(directory.join(name))
            })?;
            Some(directory.join(name))
        };
        let toolkit = Component::all().filter(|c| c.facts().bundle == Bundle::Toolkit);
        // The environment's OpenCL loader need not be CUDA's.
        let found: Vec<(Component, PathBuf)> = toolkit
            .filter(|component| *component != Component::Opencl)
            .filter_map(|component| Some((component, there(component)?)))
            .collect();
        let telling = [Component::Cudart, Component::Nvrtc, Component::Cublas];
        let Some((_, example)) = found
            .first()
            .filter(|_| found.iter().any(|(c, _)| telling.contains(c)))
        else {
            return;
        };
        let names: Vec<&str> = found.iter().map(|(component, _)| component.id()).collect();
        self.remarks.push(format!(
            "at the top level of the conda prefix and not used: {} ({}): {SHARED}; install the `cuda-*` packages of \
             conda-forge, or name another toolkit with `CUDA_HOME`",
            names.join(", "),
            example.display()
        ));
    }

    fn remark_shared(&mut self, prober: &Prober<'_>, root: &Path) {
        for component in Component::all().filter(|c| c.facts().bundle == Bundle::Product) {
            let facts = component.facts();
            let names = facts.sonames.iter().flat_map(|names| names.first());
            if let Some(library) = names
                .map(|name| root.join("lib").join(name))
                .find(|path| prober.root.is_file(path))
            {
                self.remarks.push(format!(
                    "{component} is there ({}) and not used: {SHARED}",
                    library.display()
                ));
            }
        }
        self.remark_top_level(prober, root);
    }

    pub(super) fn first(
        &self,
        prober: &Prober<'_>,
        directories: &[PathBuf],
        name: &str,
    ) -> Option<PathBuf> {
        directories
            .iter()
            .find_map(|directory| self.directories.file(prober.root, directory, name))
    }
}

/// Whether a directory is a conda prefix, whose `include` and `lib` are everybody's.
fn is_shared(prober: &Prober<'_>, directory: &Path) -> bool {
    prober.root.is_dir(&directory.join("conda-meta"))
}

/// The path without `bin/..`, where that is the same directory.
pub(super) fn tidy(prober: &Prober<'_>, path: &Path) -> PathBuf {
    let mut tidied = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                tidied.pop();
            }
            part => tidied.push(part),
        }
    }
    let same = tidied == path || prober.root.place(&tidied) == prober.root.place(path);
    if same { tidied } else { path.to_owned() }
}

/// The platform of a directory `targets/<platform>/include` or `lib`, where it is another one.
fn other_target(path: &Path, wanted: &str) -> Option<String> {
    let parts: Vec<&str> = path
        .components()
        .filter_map(|part| part.as_os_str().to_str())
        .collect();
    let platform = parts.windows(3).find_map(|parts| match parts {
        ["targets", platform, "include" | "lib"] => Some(*platform),
        _ => None,
    })?;
    (platform != wanted && platform.contains("-linux")).then(|| platform.to_owned())
}
