//! The directories below one or more roots that are searched for the files of components.

use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};

use super::Prober;
use super::versions::number_macro;
use crate::component::Component;
use crate::nvcc::NvccAnswer;
use crate::release;
use crate::version::ToolkitVersion;

/// The existing directories of one or more roots, in the order in which they are searched.
pub(super) struct SearchedDirectories<'p> {
    pub(super) prober: &'p Prober<'p>,
    pub(super) include: Vec<PathBuf>,
    pub(super) lib: Vec<PathBuf>,
    pub(super) bin: Vec<PathBuf>,
    /// The nvcc that the user named, if any.
    pub(super) nvcc: Option<PathBuf>,
    /// The directories in which nvcc looks for the programs that it starts.
    pub(super) nvcc_programs: Vec<PathBuf>,
    /// Which directories and components are not used, and why.
    pub(super) remarks: Vec<String>,
    /// One entry for each reason to skip files: the reason, and the alphabetically first path that was skipped for
    /// it. Sorted by reason.
    pub(super) skipped: RefCell<Vec<(String, PathBuf)>>,
    release: OnceCell<Option<(ToolkitVersion, PathBuf)>>,
}

impl<'p> SearchedDirectories<'p> {
    fn empty(prober: &'p Prober<'p>) -> Self {
        Self {
            prober,
            include: Vec::new(),
            lib: Vec::new(),
            bin: Vec::new(),
            nvcc: None,
            nvcc_programs: Vec::new(),
            remarks: Vec::new(),
            skipped: RefCell::default(),
            release: OnceCell::new(),
        }
    }

    /// Lists the directories below `roots`, then the directories that each nvcc reports (`answers`).
    pub(super) fn new(prober: &'p Prober<'p>, roots: &[&Path], answers: &[&NvccAnswer]) -> Self {
        let mut searched = Self::empty(prober);
        let mut roots = roots.to_vec();
        roots.retain(|root| prober.root.is_dir(root));
        let resolve = |root: &&Path| prober.directories.resolve(root);
        let resolved: Vec<PathBuf> = roots.iter().map(resolve).collect();
        for root in &roots {
            searched.add_root(root, &resolved);
        }
        for root in &roots {
            if searched.is_conda(root) {
                searched.remarks.extend(searched.conda_remark(root));
            }
        }
        searched.nvcc = answers.iter().find_map(|answer| answer.named.clone());
        for answer in answers {
            let tidy = |paths: &[PathBuf]| paths.iter().map(|p| prober.root.tidy(p)).collect();
            searched.add(|p| &mut p.include, tidy(&answer.includes), &resolved);
            searched.add(|p| &mut p.lib, tidy(&answer.libraries), &resolved);
            searched
                .nvcc_programs
                .extend::<Vec<_>>(tidy(&answer.programs));
        }
        searched
    }

    /// Adds the directories of one root. `targets/<platform>` comes first. `include` and `lib` of the same root are
    /// either links into `targets/<platform>`, or for the machine that compiles instead of the target.
    fn add_root(&mut self, root: &Path, resolved: &[PathBuf]) {
        let target = self.prober.target;
        let platform = root.join("targets").join(target.directory());
        let (include, lib) = (root.join("include"), root.join("lib"));
        let has = |file: &str| self.prober.root.is_file(&root.join(file));
        // NVIDIA's Debian packages of products (cuDNN, NCCL …) install into the multiarch directories.
        let mut includes = vec![platform.join("include"), include.clone()];
        includes.push(include.join(target.multiarch()));
        // Fedora installs CUDA's headers in `include/cuda`. CCCL has a directory of this name too, but without
        // `cuda.h`.
        if has("include/cuda/cuda.h") {
            includes.push(include.join("cuda"));
        }
        // The root itself may be an include directory that contains only CCCL's headers.
        if has("cuda/std/version") {
            includes.push(root.to_owned());
        }
        includes.extend(["nvvm/include", "extras/CUPTI/include"].map(|name| root.join(name)));
        let mut libs = vec![platform.join("lib"), root.join("lib64"), lib.clone()];
        libs.push(lib.join(target.multiarch()));
        libs.extend(["nvvm/lib64", "nvvm/lib", "extras/CUPTI/lib64"].map(|name| root.join(name)));
        let bins = ["bin", "nvvm/bin", "lib/nvidia-cuda-toolkit/bin"].map(|name| root.join(name));
        self.add(|p| &mut p.include, includes, resolved);
        self.add(|p| &mut p.lib, libs, resolved);
        self.add(|p| &mut p.bin, bins.into(), resolved);
    }

    /// Adds the `directories` that exist and are for the target. A directory is left out if `list` has it already,
    /// under this or another path, or if a conda environment shares it. `roots` are the resolved roots.
    fn add(
        &mut self,
        list: fn(&mut Self) -> &mut Vec<PathBuf>,
        directories: Vec<PathBuf>,
        roots: &[PathBuf],
    ) {
        let prober = self.prober;
        let resolve = |path: &Path| prober.directories.resolve(path);
        for directory in directories {
            // The path is compared first, without resolving it: most directories that an nvcc reports are already
            // in the list.
            if list(self).contains(&directory) || !prober.root.is_dir(&directory) {
                continue;
            }
            let real = resolve(&directory);
            let is_known = list(self).iter().any(|known| resolve(known) == real);
            if is_known || self.is_shared_in_conda(&real) {
                continue;
            }
            // The platform is read only from the part below the root, because the path of the root itself may
            // contain `targets/<platform>` too.
            let mut below = roots.iter().filter_map(|root| real.strip_prefix(root).ok());
            match other_platform(below.next().unwrap_or(&real), prober.target.directory()) {
                Some(other) => self.remark_platform(&other),
                None => list(self).push(directory),
            }
        }
    }

    fn remark_platform(&mut self, other: &str) {
        let target = self.prober.target;
        let remark = format!(
            "files of `targets/{other}` are not for {target} (`{}`){}",
            target.directory(),
            target.jetson_hint(other)
        );
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    fn is_conda(&self, root: &Path) -> bool {
        self.prober.root.is_dir(&root.join("conda-meta"))
    }

    /// Whether this is `include` or `lib` of a conda prefix. Every package of the environment installs into these
    /// directories, so passing them to a compiler or linker would hide the system's headers and libraries. The CUDA
    /// packages of conda-forge do not need them: their files are in `targets`.
    fn is_shared_in_conda(&self, directory: &Path) -> bool {
        ["include", "lib"]
            .iter()
            .any(|name| directory.ends_with(name))
            && directory.parent().is_some_and(|root| self.is_conda(root))
    }

    /// A remark about components that are only in `include` or `lib` of a conda prefix, and therefore not used. Older
    /// packages (`cudatoolkit` 11) and those of NVIDIA's channel install there.
    fn conda_remark(&self, root: &Path) -> Option<String> {
        let top = Self {
            include: vec![root.join("include")],
            lib: vec![root.join("lib")],
            ..Self::empty(self.prober)
        };
        let has = |searched: &Self, component| {
            let mut majors = release::majors().rev();
            majors.find_map(|major| searched.component(component, major).ok())
        };
        let mut unused = Vec::new();
        for component in Component::all() {
            if !component.facts().is_driver() && has(self, component).is_none() {
                unused.extend(has(&top, component));
            }
        }
        // Without a core component, only products are reported: files of other components, such as the OpenCL loader,
        // may come from packages that are not part of CUDA.
        let is_toolkit = unused.iter().any(|found| found.component.is_core());
        let is_product = |component: Component| component.facts().is_product();
        unused.retain(|found| is_toolkit || is_product(found.component));
        let first = unused.first()?;
        let names: Vec<&str> = unused.iter().map(|found| found.component.id()).collect();
        let hint = if is_toolkit {
            "; install the `cuda-*` packages of conda-forge, or name another toolkit with `CUDA_HOME`"
        } else {
            ""
        };
        Some(format!(
            "not used, because they are at the top level of the conda prefix beside every other library of the \
             environment: {} ({}){hint}",
            names.join(", "),
            first.evidence
        ))
    }

    /// The first regular file of this name in a list of directories.
    pub(super) fn first(&self, directories: &[PathBuf], name: &str) -> Option<PathBuf> {
        directories
            .iter()
            .find_map(|directory| self.prober.directories.file(directory, name))
    }

    /// The CUDA release in `cuda.h`, and the path of the header.
    pub(super) fn header_release(&self) -> Option<(ToolkitVersion, PathBuf)> {
        let read = || {
            let path = self.first(&self.include, "cuda.h")?;
            // The header has more than a megabyte, and the macro is near its beginning, so the beginning is read first.
            let root = self.prober.root;
            let number = |text: &str| number_macro(text, "CUDA_VERSION");
            let number =
                number(&root.head(&path).ok()?).or_else(|| number(&root.text(&path).ok()?));
            Some((ToolkitVersion::from_cuda_version(number?)?, path))
        };
        self.release.get_or_init(read).clone()
    }

    /// One remark for each reason to skip files, with one path as an example.
    pub(super) fn skipped_remarks(&self) -> Vec<String> {
        let skipped = self.skipped.borrow();
        let remark = |(reason, path): &(String, PathBuf)| {
            format!("{} and similar files {reason}", path.display())
        };
        skipped.iter().map(remark).collect()
    }
}

/// The platform in a path that contains `targets/<platform>/include` or `targets/<platform>/lib`, if it is a Linux
/// platform other than `wanted`.
fn other_platform(path: &Path, wanted: &str) -> Option<String> {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let platform = parts.windows(3).find_map(|parts| match parts {
        ["targets", platform, "include" | "lib"] => Some(*platform),
        _ => None,
    })?;
    (platform != wanted && platform.contains("-linux")).then(|| platform.to_owned())
}
