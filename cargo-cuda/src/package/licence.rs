//! The licence of a component of NVIDIA's, and which of its files may be redistributed.

use std::path::{Path, PathBuf};

use cuda_find_core::component::Component;
use cuda_find_core::root::Root;

/// Named by the licence at <https://docs.nvidia.com/cuda/eula/> (section 2.6), but not by the older copy that CUDA's
/// Python packages contain.
const NAMED_SINCE: [&str; 3] = ["libcufile.so", "libcufile_rdma.so", "libnvJitLink.so"];

/// A phrase near the beginning of each open licence that NVIDIA uses, as for NCCL: BSD, Apache, MIT.
const OPEN_LICENCES: [&str; 3] = [
    "Redistribution and use in source and binary forms",
    "Apache License",
    "Permission is hereby granted, free of charge",
];

/// In how many characters the phrase has to be.
const LENGTH_OF_HEAD: usize = 1500;

/// What a licence says about passing on a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redistribution {
    Permitted,
    /// The licence names other libraries, and not this one.
    NotNamed,
    /// There is no licence, or one that is not known here.
    Unknown,
}

/// The licence files of a component.
#[derive(Debug, Default)]
pub struct Licence {
    pub files: Vec<PathBuf>,
    text: String,
}

impl Licence {
    /// The licence files of the Python package that contains `library`, else those in a directory above the library.
    pub fn of(root: &Root, library: &Path, component: Component, major: u32) -> Self {
        let facts = component.facts();
        let start = facts.package(major).unwrap_or(facts.id).replace('-', "_") + "-";
        // The root is three directories above `targets/x86_64-linux/lib` and `nvidia/cu13/lib`.
        for directory in root.resolve(library).ancestors().skip(1).take(4) {
            let mut names = root.names(directory).into_iter();
            let info = names.find(|name| name.to_string_lossy().starts_with(&start));
            let is_package = info.is_some();
            let place = info.map_or(directory.to_owned(), |info| directory.join(info));
            let mut licence = Self::default();
            for place in [place.join("licenses"), place] {
                for name in root.names(&place) {
                    let file = place.join(&name);
                    let name = name.to_string_lossy().to_lowercase();
                    // `EULA.txt` is the toolkit's, also if a product is in the same root.
                    let is_eula = name.starts_with("eula") && !facts.is_product();
                    let is_licence = name.starts_with("licen") || is_eula;
                    if is_licence && root.is_file(&file) {
                        licence.text += &root.text(&file).unwrap_or_default();
                        licence.files.push(file);
                    }
                }
            }
            // The licence in a conda prefix may be Python's.
            if !licence.files.is_empty() && (is_package || licence.text.contains("NVIDIA")) {
                return licence;
            }
        }
        Self::default()
    }

    /// Whether the library may be redistributed. NVIDIA's agreements name each such library without its version
    /// (`libcublas.so`), or all (`the runtime files .so`, and cuDSS `the binary files`). A text that is not one of these
    /// and not one of the usual open licences permits nothing here, because a person has to read it.
    pub fn redistribution(&self, soname: &str) -> Redistribution {
        let name = soname.split_inclusive(".so").next().unwrap_or(soname);
        let is_separator = |c: char| c.is_whitespace() || ",;()".contains(c);
        let words = self.text.split(is_separator);
        let mut words = words.map(|word| word.strip_suffix('.').unwrap_or(word));
        if self.text.contains("Agreement") {
            let is_named = self.text.contains("Distribute the binary files")
                || NAMED_SINCE.contains(&name)
                || words.any(|word| word == name || word == ".so");
            return match is_named {
                true => Redistribution::Permitted,
                false => Redistribution::NotNamed,
            };
        }
        // NVIDIA's agreements end with the open licences of other people's code.
        let head: String = self.text.chars().take(LENGTH_OF_HEAD).collect();
        match OPEN_LICENCES.iter().any(|phrase| head.contains(phrase)) {
            true => Redistribution::Permitted,
            false => Redistribution::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use Component::{Cudnn, Curand, Nccl};

    use super::*;
    use crate::output;

    #[test]
    fn a_licence_is_that_of_the_package_or_the_root() {
        let place = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = place.path().join(path);
            output::write(&path, text.as_bytes()).unwrap();
            path
        };
        let found = |path: &str, component| {
            Licence::of(&Root::system(), &write(path, ""), component, 13).files
        };
        let licence = write("site/nvidia_curand-10.4.dist-info/licenses/License.txt", "");
        write("site/LICENSE", "NVIDIA");
        assert_eq!(
            found("site/nvidia/cu13/lib/libcurand.so.10", Curand),
            [licence]
        );
        let eula = write("cuda/EULA.txt", "NVIDIA");
        assert_eq!(
            found("cuda/targets/x86_64-linux/lib/libcurand.so.10", Curand),
            [eula]
        );
        assert!(found("cuda/lib64/libnccl.so.2", Nccl).is_empty());
        let archive = write("cudnn-archive/LICENSE", "NVIDIA");
        assert_eq!(found("cudnn-archive/lib/libcudnn.so.9", Cudnn), [archive]);
        write("conda/LICENSE.txt", "the Python Software Foundation");
        assert!(found("conda/lib/libcurand.so.10", Curand).is_empty());
    }

    #[test]
    fn agreements_name_what_may_be_redistributed() {
        let licence = |text: &str| Licence {
            text: text.to_owned(),
            ..Licence::default()
        };
        let toolkit = licence(
            "distributable under the\nAgreement:\nLinux\n\nlibcublas.so,\nlibnvrtc-builtins.so, cuda_fp16.h\n\
             libnppc.so.",
        );
        for (soname, is_permitted) in [
            ("libcublas.so.13", true),
            ("libnvrtc-builtins.so.13.4", true),
            ("libnppc.so.13", true),
            ("libnvJitLink.so.13", true),
            ("libcublasLt.so.13", false),
            ("libnvshmem_host.so.3", false),
        ] {
            let expected = match is_permitted {
                true => Redistribution::Permitted,
                false => Redistribution::NotNamed,
            };
            assert_eq!(toolkit.redistribution(soname), expected, "{soname}");
        }
        for (soname, text) in [
            (
                "libcudnn_ops.so.9",
                "under the Agreement: the runtime files .so and .h, cudnn64_7.dll",
            ),
            (
                "libcutensor.so.2",
                "under the Agreement: the runtimes files ending with .so and .h as",
            ),
            (
                "libcudss.so.1",
                "this Agreement: (ii) Distribute the binary files, files identified",
            ),
            (
                "libnccl.so.2",
                "Redistribution and use in source and binary forms",
            ),
        ] {
            let found = licence(text).redistribution(soname);
            assert_eq!(found, Redistribution::Permitted, "{soname}");
        }
    }

    #[test]
    fn a_licence_that_is_not_recognised_permits_nothing() {
        let agreement = format!(
            "NVIDIA Lizenzvertrag: libcublas.so{}\nRedistribution and use in source and binary forms",
            " x".repeat(LENGTH_OF_HEAD)
        );
        for text in ["", "End User Terms: libcublas.so", &agreement] {
            let licence = Licence {
                text: text.to_owned(),
                ..Licence::default()
            };
            let found = licence.redistribution("libcublas.so.13");
            assert_eq!(found, Redistribution::Unknown, "{text}");
        }
    }
}
