//! What a SONAME means: the component, the CUDA majors, the driver.

use cuda_build::Component;
use cuda_build::internal::release::{self, NEWEST_MAJOR};

use crate::wheel::dependencies::{self, Origin};

/// The CUDA majors that have a toolkit library with this SONAME.
pub fn majors_of_soname(soname: &str) -> Vec<u32> {
    release::majors()
        .filter(|&major| match dependencies::origin(soname, major) {
            Ok(Origin::Component(component)) => component.facts().is_part_of_toolkit(),
            _ => false,
        })
        .collect()
}

/// The component that a SONAME belongs to, for some CUDA major.
pub fn component_of(soname: &str) -> Option<Component> {
    release::majors().find_map(|major| match dependencies::origin(soname, major) {
        Ok(Origin::Component(component)) => Some(component),
        _ => None,
    })
}

/// Whether a library comes with the GPU driver. The name may have the hash of a repair tool.
pub fn is_driver_library(soname: &str) -> bool {
    let original = without_hash(soname);
    let soname = original.as_deref().unwrap_or(soname);
    matches!(
        dependencies::origin(soname, NEWEST_MAJOR),
        Ok(Origin::Driver)
    )
}

/// `libcuda.so.1` of `libcuda-df60b7cf.so.1`; `None` if the name has no hash.
pub fn without_hash(soname: &str) -> Option<String> {
    let (stem, rest) = soname.split_once(".so")?;
    let (stem, hash) = stem.rsplit_once('-')?;
    let is_hash = hash.len() == 8 && hash.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then(|| format!("{stem}.so{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_repair_tools_are_removed() {
        assert_eq!(
            without_hash("libcuda-df60b7cf.so.1").as_deref(),
            Some("libcuda.so.1")
        );
        assert_eq!(without_hash("libcuda.so.1"), None);
        assert_eq!(without_hash("libnvidia-ml.so.1"), None);
        assert_eq!(without_hash("libnvrtc-builtins.so.12.0"), None);
    }

    #[test]
    fn ambiguous_sonames_have_no_major() {
        assert_eq!(majors_of_soname("libcudart.so.12"), [12]);
        assert_eq!(majors_of_soname("libcusparse.so.12"), [12, 13]);
        assert!(majors_of_soname("libnccl.so.2").is_empty());
        assert!(majors_of_soname("libc.so.6").is_empty());
        assert_eq!(component_of("libnccl.so.2"), Some(Component::Nccl));
    }
}
