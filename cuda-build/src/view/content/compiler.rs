//! nvcc, the programs that it starts, and its configuration.

use std::path::{Path, PathBuf};

use super::Planner;
use crate::component::Component;
use crate::error::Error;
use crate::nvcc;
use crate::root::Root;
use crate::view::plan::Entry;
use crate::view::text;

/// The programs in the directory of nvcc that it starts. In Debian's packages, `crt` is a directory
/// there.
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

impl Planner<'_> {
    pub(super) fn compiler(&mut self) -> Result<(), Error> {
        for found in self.found.clone() {
            for tool in found
                .tools
                .iter()
                .filter(|tool| tool.file_name().is_some_and(|n| n != "cicc"))
            {
                // The user may have named a compiler such as `nvcc-13`.
                let is_nvcc =
                    found.component == Component::Nvcc && found.tool("nvcc") == Some(tool);
                let name = if is_nvcc {
                    "nvcc".as_ref()
                } else {
                    tool.file_name().unwrap_or_default()
                };
                let tool = if name == "nvcc" {
                    real_nvcc(self.root, tool)
                } else {
                    tool.clone()
                };
                self.link(found.component, Path::new("bin").join(name), tool)?;
            }
        }
        let Some(nvcc) = self
            .get(Component::Nvcc)
            .and_then(|found| found.tool("nvcc"))
            .cloned()
        else {
            return Ok(());
        };
        let nvcc = real_nvcc(self.root, &nvcc);
        let mut places: Vec<PathBuf> = Vec::new();
        for path in [nvcc.clone(), self.root.resolve(&nvcc)] {
            places.extend(path.parent().map(Path::to_owned));
        }
        places.dedup();
        for name in BESIDE_NVCC {
            let path = format!("bin/{name}");
            let found = places
                .iter()
                .map(|place| place.join(name))
                .find(|file| self.root.exists(file));
            if let Some(file) = found.filter(|_| !self.plan.has(&path)) {
                self.tree(Component::Nvcc, &path, &file)?;
            }
        }
        self.plan.put(
            "bin/nvcc.profile",
            Entry::Text(text::nvcc_profile(self.has_cccl_directory())),
        );
        self.nvvm(&places)
    }

    fn has_cccl_directory(&self) -> bool {
        let inside = Path::new("include/cccl");
        self.plan
            .entries
            .keys()
            .any(|path| path.starts_with(inside))
    }

    /// Adds `cicc`, `libdevice` and `libnvvm`. Most layouts have them below `nvvm`, Debian's beside
    /// nvcc.
    fn nvvm(&mut self, beside_nvcc: &[PathBuf]) -> Result<(), Error> {
        let own = self
            .get(Component::Nvvm)
            .and_then(|found| found.tool("cicc"))
            .cloned();
        let near = beside_nvcc
            .iter()
            .flat_map(|place| [place.join("cicc"), place.join("../nvvm/bin/cicc")]);
        let Some(cicc) = own.or_else(|| near.into_iter().find(|path| self.root.is_file(path)))
        else {
            return Ok(());
        };
        let component = Component::Nvvm;
        let real = self.root.resolve(&cicc);
        self.link(component, "nvvm/bin/cicc", cicc.clone())?;
        for cicc in [&cicc, &real] {
            let Some(nvvm) = cicc.parent().and_then(Path::parent) else {
                continue;
            };
            let libdevice = nvvm.join("libdevice");
            if self.root.is_dir(&libdevice) && !self.plan.has("nvvm/libdevice") {
                self.tree(component, "nvvm/libdevice", &libdevice)?;
                break;
            }
        }
        if let Some(library) = self
            .get(component)
            .and_then(|found| found.libraries.first())
            .cloned()
        {
            let name = library
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            // It is in `lib` too. NVIDIA's installers have it here.
            self.link(component, Path::new("nvvm/lib64").join(&name), library)?;
            self.plan
                .put("nvvm/lib64/libnvvm.so", Entry::Link(name.into()));
        }
        if self.plan.has("include/nvvm.h") {
            self.plan.put(
                "nvvm/include/nvvm.h",
                Entry::Link("../../include/nvvm.h".into()),
            );
        }
        Ok(())
    }
}

/// The program behind nvcc: Debian's and Nix's nvcc is a script that starts another one, which has
/// a profile of its own.
pub(super) fn real_nvcc(root: &Root, nvcc: &Path) -> PathBuf {
    const SCRIPT_LIMIT: u64 = 64 * 1024;
    let small = root
        .metadata(nvcc)
        .is_ok_and(|metadata| metadata.len() < SCRIPT_LIMIT);
    let text = small.then(|| root.text(nvcc).ok()).flatten();
    let Some(script) = text.filter(|text| text.starts_with("#!")) else {
        return nvcc.to_owned();
    };
    let named = nvcc::started_by(&script);
    let bin = nvcc.parent().unwrap_or(Path::new("."));
    let known = [
        "../lib/nvidia-cuda-toolkit/bin/nvcc",
        "nvcc.bin",
        ".nvcc-wrapped",
    ];
    let mut places = named
        .into_iter()
        .chain(known.iter().map(|name| bin.join(name)));
    places
        .find(|path| root.is_file(path))
        .unwrap_or_else(|| nvcc.to_owned())
}
