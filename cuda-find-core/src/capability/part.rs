//! What a library or a module of a build script is written for, and the part of a plan that it is compiled for.

use super::number::{Capability, Suffix};
use super::plan::{Declared, Plan, sass_runs_on};
use crate::error::Error;
use crate::version::ToolkitVersion;

/// The capabilities that one library or module is written for: `["9.0a"]`, `[">=8.0"]`.
///
/// An entry covers the declared capability of the same number. An entry with `f` covers its family, and `>=8.0` covers
/// every declared capability from 8.0 on. The part is compiled for what is covered: as the entry is spelled (`9.0a` for
/// a declared 9.0), or as it is declared for `>=8.0`. `+PTX` of the declared list is kept, except for an entry with
/// `a`.
///
/// ```
/// use cuda_find_core::version::ToolkitVersion;
/// use cuda_find_core::capability::{Declared, PartCapabilities};
/// let toolkit = ToolkitVersion::new(13, 4);
/// let declared = Declared::parse(["8.0", "9.0", "12.0+PTX"])?.plan(toolkit, &[], None)?;
/// let hopper = PartCapabilities::parse(["9.0a"])?;
/// assert_eq!(hopper.of_plan(&declared, toolkit, None)?.unwrap().to_string(), "9.0a");
/// let newer = PartCapabilities::parse([">=9.0"])?;
/// assert_eq!(newer.of_plan(&declared, toolkit, None)?.unwrap().to_string(), "9.0, 12.0+PTX");
/// let blackwell = PartCapabilities::parse(["10.0f"])?;
/// assert!(blackwell.of_plan(&declared, toolkit, None)?.is_none());
/// # Ok::<(), cuda_find_core::error::Error>(())
/// ```
pub struct PartCapabilities(Vec<PartEntry>);

#[derive(Clone, Copy)]
enum PartEntry {
    /// `9.0a`
    One(Capability),
    /// `>=8.0`
    From(Capability),
}

impl PartEntry {
    fn parse(text: &str) -> Result<Self, Error> {
        let lowest = text.trim().strip_prefix(">=");
        match (lowest, lowest.unwrap_or(text).parse::<Capability>()) {
            (None, Ok(capability)) => Ok(Self::One(capability)),
            (Some(_), Ok(capability)) if capability.suffix.is_none() => Ok(Self::From(capability)),
            _ => Err(Error::capability(
                format!("`{text}` is not an entry of the capabilities of a library or module"),
                "write `9.0`, `9.0a`, `10.0f` or `>=8.0`; the list in Cargo.toml decides about PTX",
            )),
        }
    }

    /// The capability to compile for, if this entry covers the declared one.
    fn covered(self, declared: Capability, toolkit: ToolkitVersion) -> Option<Capability> {
        match self {
            Self::From(lowest) => (declared.base() >= lowest).then_some(declared),
            Self::One(capability) => {
                let is_in_family = capability.suffix == Some(Suffix::Family)
                    && sass_runs_on(capability, declared.base(), toolkit);
                (is_in_family || capability.base() == declared.base()).then_some(capability)
            }
        }
    }

    /// As [`Self::covered`], for PTX. The driver compiles PTX for a newer GPU, which is not possible with `a`.
    fn covered_ptx(self, declared: Capability, toolkit: ToolkitVersion) -> Option<Capability> {
        let is_for_one_gpu = |it: &Capability| {
            matches!(self, Self::One(_)) && it.suffix == Some(Suffix::ArchSpecific)
        };
        self.covered(declared, toolkit)
            .filter(|it| !is_for_one_gpu(it))
    }
}

impl PartCapabilities {
    /// Parses the entries.
    ///
    /// # Errors
    /// [`Error::Capability`] for an invalid entry, and for an empty list.
    pub fn parse(entries: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, Error> {
        let mut parsed = Vec::new();
        for text in entries {
            parsed.push(PartEntry::parse(text.as_ref())?);
        }
        if parsed.is_empty() {
            return Err(Error::capability(
                "a library or module has an empty list of capabilities",
                "name the capabilities, or remove the call of `capabilities`",
            ));
        }
        Ok(Self(parsed))
    }

    /// The plan of this part; `None` if it covers no declared capability. `observed` is as for [`Declared::plan`].
    ///
    /// # Errors
    /// [`Error::Capability`] if the toolkit does not support an entry that covers a declared capability.
    pub fn of_plan(
        &self,
        declared: &Plan,
        toolkit: ToolkitVersion,
        observed: Option<&[Capability]>,
    ) -> Result<Option<Plan>, Error> {
        let mut covered = Plan::default();
        for entry in &self.0 {
            for capability in &declared.real {
                covered.real.extend(entry.covered(*capability, toolkit));
            }
            for capability in &declared.ptx {
                covered.ptx.extend(entry.covered_ptx(*capability, toolkit));
            }
        }
        if covered == Plan::default() {
            return Ok(None);
        }
        let plan = Declared::from(&covered).plan(toolkit, &[], observed);
        plan.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(entries: &[&str], declared: &str, toolkit: ToolkitVersion) -> Result<String, Error> {
        let declared = Declared::parse([declared])?.plan(toolkit, &[], None)?;
        let plan = PartCapabilities::parse(entries)?.of_plan(&declared, toolkit, None)?;
        Ok(plan.map_or_else(|| "left out".to_owned(), |plan| plan.to_string()))
    }

    #[test]
    fn entries_cover_declared_capabilities() {
        let declared = "8.0, 9.0, 10.0, 10.3, 12.0+PTX";
        for (entries, expected) in [
            (&["9.0a"][..], "9.0a"),
            (&["9.0", "12.0"], "9.0, 12.0+PTX"),
            (&["12.0a"], "12.0a"),
            (&["12.0f"], "12.0f+PTX"),
            (&["10.0f"], "10.0f"),
            (&[">=9.0"], "9.0, 10.0, 10.3, 12.0+PTX"),
            (&[">=12.1"], "left out"),
            (&["8.9"], "left out"),
            (&["8.0", "10.3a"], "8.0, 10.3a"),
        ] {
            let toolkit = ToolkitVersion::new(13, 4);
            assert_eq!(
                part(entries, declared, toolkit).unwrap(),
                expected,
                "{entries:?}"
            );
        }
    }

    #[test]
    fn a_declared_spelling_is_kept_from_a_minimum_on() {
        let toolkit = ToolkitVersion::new(13, 4);
        assert_eq!(
            part(&[">=8.0"], "7.5, 8.0, 9.0a", toolkit).unwrap(),
            "8.0, 9.0a"
        );
        assert_eq!(part(&["9.0"], "8.0, 9.0a", toolkit).unwrap(), "9.0");
    }

    #[test]
    fn the_toolkit_must_support_a_covering_entry() {
        let old = ToolkitVersion::new(11, 8);
        let error = part(&["9.0a"], "9.0", old).unwrap_err().to_string();
        assert!(
            error.contains("capability 9.0a needs CUDA 12.0 or newer"),
            "{error}"
        );
        assert_eq!(part(&["10.0a"], "9.0", old).unwrap(), "left out");
    }

    #[test]
    fn other_entries_are_refused() {
        for text in ["native", "9.0+PTX", ">=9.0a", ">8.0", "all", ""] {
            assert!(PartCapabilities::parse([text]).is_err(), "{text}");
        }
        assert!(PartCapabilities::parse([""; 0]).is_err());
    }
}
