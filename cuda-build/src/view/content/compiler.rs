//! Plans the compiler of a view: nvcc, the programs that it starts, and its configuration.

use std::path::{Path, PathBuf};

use super::Planner;
use crate::component::Component;
use crate::error::Error;
use crate::nvcc;
use crate::root::Root;
use crate::view::plan::Entry;
use crate::view::text;

/// What a view takes from the directory of nvcc: the programs that nvcc starts, NVIDIA's tools for device
/// code, and the directory `crt`, which Debian's packages have there.
const BESIDE_NVCC: [&str; 9] = [
    "cudafe++",
    "ptxas",
    "fatbinary",
    "nvlink",
    "bin2c",
    "nvprune",
    "cuobjdump",
    "__nvcc_device_query",
    "crt",
];

impl Planner<'_, '_> {
    pub(super) fn compiler(&mut self) -> Result<(), Error> {
        for found in self.found {
            for tool in &found.tools {
                let name = tool.file_name().unwrap_or_default();
                if name != "cicc" && Some(tool) != found.tool("nvcc") {
                    let path = format!("bin/{}", name.to_string_lossy());
                    self.add(found.component, path, tool)?;
                }
            }
        }
        let nvcc = self
            .get(Component::Nvcc)
            .and_then(|found| found.tool("nvcc"));
        // nvcc is added separately: it is `bin/nvcc` in the view, even if the user named a compiler
        // such as `nvcc-13`.
        nvcc.map_or(Ok(()), |nvcc| self.nvcc(&real_nvcc(self.root, nvcc)))
    }

    /// Adds nvcc, the files beside it, a configuration file that fits the view, and NVVM.
    fn nvcc(&mut self, nvcc: &Path) -> Result<(), Error> {
        self.add(Component::Nvcc, "bin/nvcc".to_owned(), nvcc)?;
        let real = self.root.resolve(nvcc);
        let places = [nvcc, &real].map(|nvcc| nvcc.parent().unwrap_or(nvcc));
        for name in BESIDE_NVCC {
            let path = format!("bin/{name}");
            let mut files = places.iter().map(|place| place.join(name));
            let file = files.find(|file| self.root.exists(file));
            if let Some(file) = file.filter(|_| !self.plan.has(&path)) {
                self.add(Component::Nvcc, path, &file)?;
            }
        }
        let cccl = Path::new("include/cccl");
        let has_cccl_directory = self.plan.paths().any(|path| path.starts_with(cccl));
        let profile = text::nvcc_profile(has_cccl_directory);
        self.plan.put("bin/nvcc.profile", Entry::Text(profile));
        self.nvvm(places)
    }

    /// Adds `cicc`, `libdevice` and `libnvvm`. Most toolkits have them below `nvvm`; Debian has `cicc`
    /// beside nvcc.
    fn nvvm(&mut self, nvcc_directories: [&Path; 2]) -> Result<(), Error> {
        let found = self.get(Component::Nvvm);
        let mut files = Vec::new();
        files.extend(found.and_then(|found| found.tool("cicc")).cloned());
        for place in nvcc_directories {
            files.push(place.join("cicc"));
            files.push(place.join("../nvvm/bin/cicc"));
        }
        let Some(cicc) = files.iter().find(|path| self.root.is_file(path)) else {
            return Ok(());
        };
        self.add(Component::Nvvm, "nvvm/bin/cicc".to_owned(), cicc)?;
        let programs = [cicc.clone(), self.root.resolve(cicc)];
        let roots = programs
            .iter()
            .filter_map(|program| program.ancestors().nth(2));
        let mut libdevices = roots.map(|root| root.join("libdevice"));
        if let Some(libdevice) = libdevices.find(|path| self.root.is_dir(path)) {
            self.add(Component::Nvvm, "nvvm/libdevice".to_owned(), &libdevice)?;
        }
        if let Some(library) = found.and_then(|found| found.libraries.first()) {
            let name = library.file_name().unwrap_or_default().to_string_lossy();
            // NVIDIA's installers put `libnvvm` here. The view also has it in `lib`.
            self.add(Component::Nvvm, format!("nvvm/lib64/{name}"), library)?;
            self.plan.link("nvvm/lib64/libnvvm.so", &*name);
        }
        if self.plan.has("include/nvvm.h") {
            self.plan
                .link("nvvm/include/nvvm.h", "../../include/nvvm.h");
        }
        Ok(())
    }
}

/// The nvcc that `nvcc` starts, if `nvcc` is a script; otherwise, or if that program is not found, `nvcc`
/// itself. In Debian and Nix, `nvcc` is such a script, and `nvcc.profile` is beside the program it starts.
pub(super) fn real_nvcc(root: &Root, nvcc: &Path) -> PathBuf {
    const SCRIPT_LIMIT: u64 = 64 * 1024;
    let metadata = root.metadata(nvcc).ok();
    let small = metadata.filter(|metadata| metadata.len() < SCRIPT_LIMIT);
    let text = small.and_then(|_| root.text(nvcc).ok());
    let Some(script) = text.filter(|text| text.starts_with("#!")) else {
        return nvcc.to_owned();
    };
    let known = [
        "../lib/nvidia-cuda-toolkit/bin/nvcc",
        "nvcc.bin",
        ".nvcc-wrapped",
    ];
    let known = known.map(|name| nvcc.with_file_name(name));
    let mut places = nvcc::started_by(&script).into_iter().chain(known);
    let program = places.find(|path| root.is_file(path));
    program.unwrap_or_else(|| nvcc.to_owned())
}
