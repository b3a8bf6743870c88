//! Which CUDA releases a driver runs: machine code of its major, and PTX of releases that are not newer; and which
//! releases cudarc knows.

use cuda_build::{Component, ToolkitVersion};
use cuda_find_core::release::{
    self, FIRST_PACKAGED, driver_floor, is_nvcc_packaged, source_of_nvcc,
};
use cuda_find_core::select::{Request, RequestedRelease};

/// A driver that programs have to run with.
#[derive(Clone, Debug)]
pub struct DriverLimit {
    /// The newest CUDA release that the driver supports.
    supports: ToolkitVersion,
    /// `this machine's driver`
    subject: &'static str,
    /// Whether this is about a driver, and not about cudarc.
    is_driver: bool,
}

impl DriverLimit {
    /// The driver of this machine, which supports this release.
    pub fn of_machine(supports: ToolkitVersion) -> Self {
        Self {
            supports,
            subject: "this machine's driver",
            is_driver: true,
        }
    }

    /// The newest release that cudarc knows. Its build fails with a newer one.
    pub fn of_cudarc(knows: ToolkitVersion) -> Self {
        Self {
            supports: knows,
            subject: "the cudarc in Cargo.lock",
            is_driver: false,
        }
    }

    /// The one that supports fewer releases.
    pub fn lower(limits: impl Iterator<Item = Self>) -> Option<Self> {
        limits.min_by_key(|limit| limit.supports)
    }

    /// Which code of a toolkit the driver does not run, and a hint. `None` if it runs all.
    pub fn unmet(&self, toolkit: ToolkitVersion) -> Option<(String, String)> {
        let (supports, subject) = (self.supports, self.subject);
        if !self.is_driver {
            let text = format!("{subject} does not know a release after {supports}");
            let hint = format!(
                "update cudarc, or build with CUDA {supports}{}",
                source_of_nvcc(supports)
            );
            return (supports < toolkit).then_some((text, hint));
        }
        let (text, floor) = if supports.major < toolkit.major {
            let text = format!(
                "{subject} supports only CUDA {supports} and older: programs built with CUDA {toolkit} do not run \
                 with it"
            );
            (text, driver_floor(toolkit.major))
        } else if supports < toolkit {
            let text = format!(
                "{subject} is older than CUDA {toolkit}: it runs SASS, but cannot compile this toolkit's PTX"
            );
            (text, release::facts(toolkit).and_then(|facts| facts.driver))
        } else {
            return None;
        };
        let mut hint = match floor {
            Some(floor) => format!("install driver {floor} or newer"),
            None => "install a newer driver".to_owned(),
        };
        if let Some(older) = release::releases().rfind(|it| *it <= supports) {
            hint += &format!(", or build with CUDA {older}{}", source_of_nvcc(older));
        }
        Some((text, hint))
    }

    /// The release to fetch for a request if nothing but the driver decides, and a message about it: the newest release
    /// that the driver runs, otherwise the newest of a major that it runs, otherwise the newest.
    pub fn choose(&self, request: &Request) -> Option<(RequestedRelease, String)> {
        let limit = self.supports;
        let accepted = release::releases().filter(|it| {
            let mut needs = request.needs_of(it.major).iter();
            let needs_nvcc = needs.any(|need| need.component == Component::Nvcc);
            let has_needed = is_nvcc_packaged(it.major) || !needs_nvcc;
            *it >= FIRST_PACKAGED && request.admits_release(*it) && has_needed
        });
        let toolkit = accepted.max_by_key(|it| (*it <= limit, it.major <= limit.major, *it))?;
        // The index may have newer releases than the tables. A newer driver than the tables probably supports them.
        let ToolkitVersion { major, minor } = toolkit;
        let is_exact = release::newest_of(major) != Some(toolkit)
            || (major == limit.major && limit <= toolkit);
        let minor = is_exact.then_some(minor);
        let release = RequestedRelease { major, minor };
        let text = match self.unmet(toolkit) {
            Some((text, hint)) => {
                format!("warning: fetching CUDA {release}, but {text}\nhint: {hint}")
            }
            None => {
                let (subject, source) = (self.subject, source_of_nvcc(toolkit));
                format!(
                    "note: fetching CUDA {release}: {subject} supports CUDA {limit} and older{source}"
                )
            }
        };
        Some((release, text))
    }
}

#[cfg(test)]
mod tests {
    use cuda_find_core::select::{Need, Part};

    use super::*;

    #[test]
    fn the_driver_decides_the_release() {
        let (note, sass_only) = ("note: fetching CUDA ", "it runs SASS, but");
        let no_start = "supports only CUDA 12.2 and older: ";
        for (driver, toolkit, needs_nvcc, release, text) in [
            (12_020, "*", false, "12.2", note),
            (
                12_070,
                "*",
                false,
                "12.6",
                "12.7 and older (its Python packages",
            ),
            (13_030, "*", true, "13.3", "CUDA 13.3 and older"),
            (13_990, "*", true, "13", note),
            (13_000, "<13", false, "12", note),
            (13_000, "<12.5", false, "12.4", note),
            (12_020, ">=12", false, "12.2", note),
            (12_020, ">=12.5", false, "12.9", sass_only),
            (11_040, "*", false, "11.8", sass_only),
            (12_020, ">=13", false, "13", no_start),
            (12_020, "*", true, "13", no_start),
            (10_020, "*", false, "13", "hint: install driver 580"),
        ] {
            let supports = ToolkitVersion::from_cuda_version(driver).unwrap();
            let nvcc = Need::new(Component::Nvcc, Part::Tools, "");
            let request = Request {
                needs: Vec::from_iter(needs_nvcc.then_some(nvcc)),
                toolkit: toolkit.parse().unwrap(),
                ..Request::default()
            };
            let (chosen, message) = DriverLimit::of_machine(supports).choose(&request).unwrap();
            assert_eq!(chosen.to_string(), release, "{driver} {toolkit}");
            assert!(message.contains(text), "{message}");
        }
    }
}
