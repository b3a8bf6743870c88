//! One directory of Python packages, named as a root: `CUDA_HOME=<site-packages>/nvidia/cu13`. Several
//! packages share it, each of a version of its own, and what they are stands two levels above.

use std::path::{Path, PathBuf};

use super::site_packages::{self, Installed};
use super::{Found, Prober};
use crate::component::{Class, Component};

pub(super) struct PackageDirectory {
    site_packages: PathBuf,
    /// `nvidia/cu13`.
    name: String,
    installed: Installed,
}

impl PackageDirectory {
    /// `None` where `path`, or what it leads to, is no such directory, or has no metadata beside it.
    pub(super) fn at(prober: &Prober<'_>, path: &Path) -> Option<Self> {
        Self::beside(prober, path).or_else(|| {
            let path = prober
                .root
                .is_link(path)
                .then(|| prober.root.resolve(path))?;
            Self::beside(prober, &path)
        })
    }

    fn beside(prober: &Prober<'_>, path: &Path) -> Option<Self> {
        let above = path.parent().filter(|above| above.ends_with("nvidia"))?;
        let (name, site_packages) = (path.file_name()?.to_str()?, above.parent()?);
        let installed = site_packages::installed(prober, site_packages);
        (!installed.is_empty()).then(|| Self {
            site_packages: site_packages.to_owned(),
            name: format!("nvidia/{name}"),
            installed,
        })
    }

    /// Gives a component of this directory the version of its package.
    pub(super) fn settle(&self, found: &mut Found) {
        let (component, major) = (found.component, found.major);
        let here =
            site_packages::directory_of(component, major).is_some_and(|name| name == self.name);
        let Some((name, version)) =
            site_packages::claim(&self.installed, component, major).filter(|_| here)
        else {
            return;
        };
        // nvcc, `cuda.h` and the name of NVRTC's builtins say more than a package.
        let tells = matches!(
            component,
            Component::Nvcc | Component::Cudart | Component::Nvrtc
        );
        if component.facts().class != Class::OwnRange && !(tells && found.toolkit.is_some()) {
            found.toolkit = site_packages::claimed_release(found, version);
        }
        site_packages::settle_claim(found, name, version);
    }

    /// See [`site_packages::wrong_profile`].
    pub(super) fn wrong_profile(&self, prober: &Prober<'_>) -> Option<String> {
        site_packages::wrong_profile(prober, &self.site_packages, &self.name)
    }
}
