//! Which components a toolkit is made of when the user does not say, and what theirs need.

use std::collections::BTreeSet;

use cuda_build::Component;
use cuda_build::component::{EdgeKind, closure};
use cuda_build::release::is_nvcc_packaged;

use super::package::package_of;
use super::{AddRequest, StoreError};

/// What every toolkit gets: enough to compile device code. CUDA 11 and 12 have no compiler
/// driver as a Python package (`nvidia-cuda-nvcc-cu12` holds `ptxas` and libNVVM only), so there
/// NVRTC is the compiler. CCCL is named because no package pulls it in.
fn default_set(major: u32) -> impl Iterator<Item = Component> {
    let compiler = [Component::Nvcc, Component::Nvvm, Component::Crt];
    Component::all()
        .filter(|component| component.facts().in_every_toolkit)
        .filter(move |component| is_nvcc_packaged(major) || !compiler.contains(component))
}

/// The components asked for: the default set, those named, and what they need; or `only`.
///
/// # Errors
/// [`StoreError::NoPackage`] where a component that was named has no package for this major.
pub(super) fn wanted(request: &AddRequest) -> Result<BTreeSet<Component>, StoreError> {
    let major = request.version.major();
    let named = request.only.as_ref().unwrap_or(&request.components);
    if let Some(&component) = named
        .iter()
        .find(|&&component| package_of(component, major).is_none())
    {
        return Err(StoreError::NoPackage { component, major });
    }
    if let Some(only) = &request.only {
        return Ok(only.clone());
    }
    let mut all: BTreeSet<Component> = named.iter().copied().chain(default_set(major)).collect();
    let named: Vec<Component> = all.iter().copied().collect();
    for (needed, kind) in closure(&named, major) {
        // In CUDA 11 and 12 some come inside another package.
        if kind != EdgeKind::LoadIfThere && package_of(needed, major).is_some() {
            all.insert(needed);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(version: &str, components: &[Component]) -> Vec<&'static str> {
        let mut request = AddRequest::new(version.parse().unwrap());
        request.components = components.iter().copied().collect();
        wanted(&request)
            .unwrap()
            .into_iter()
            .map(Component::id)
            .collect()
    }

    #[test]
    fn the_default_set_can_compile() {
        assert_eq!(
            ids("13", &[]),
            ["cudart", "nvcc", "nvvm", "crt", "cccl", "nvrtc"]
        );
        assert_eq!(ids("12", &[]), ["cudart", "cccl", "nvrtc"]);
        assert_eq!(ids("11.8", &[]), ["cudart", "cccl", "nvrtc"]);
    }

    #[test]
    fn named_ones_bring_what_they_need() {
        assert_eq!(
            ids("12", &[Component::Cusolver]),
            [
                "cudart",
                "cccl",
                "nvrtc",
                "nvjitlink",
                "cublas",
                "cusolver",
                "cusparse"
            ]
        );
        // CUDA 11 has no nvJitLink, and needs none.
        assert_eq!(
            ids("11", &[Component::Cufft]),
            ["cudart", "cccl", "nvrtc", "cufft"]
        );
    }

    #[test]
    fn only_means_only() {
        let mut request = AddRequest::new("13".parse().unwrap());
        request.only = Some(BTreeSet::from([Component::Cufft]));
        assert_eq!(
            wanted(&request).unwrap(),
            BTreeSet::from([Component::Cufft])
        );
    }

    #[test]
    fn what_has_no_package_is_named() {
        let mut request = AddRequest::new("12".parse().unwrap());
        request.components = BTreeSet::from([Component::Nvvm]);
        let error = wanted(&request).unwrap_err().to_string();
        assert!(
            error.contains("`nvvm`") && error.contains("CUDA 12"),
            "{error}"
        );
    }
}
