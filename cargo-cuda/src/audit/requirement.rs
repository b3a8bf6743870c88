//! A `Requires-Dist` line with its bounds.

use std::collections::BTreeSet;

use cuda_build::Component;
use cuda_build::internal::component::{EdgeKind, closure};
use cuda_build::internal::release;
use pep440_rs::{Operator, Version, VersionSpecifiers};

use crate::wheel::requirements;

/// The metapackage that requires NVIDIA's packages of one CUDA release.
const METAPACKAGE: &str = "cuda-toolkit";

/// A requirement of a wheel.
#[derive(Clone, Debug)]
pub struct Requirement {
    /// The line as it is in METADATA.
    pub text: String,
    /// The normalised name.
    pub name: String,
    pub extras: Vec<String>,
    /// Whether it holds only for an extra of the wheel.
    pub optional: bool,
    pub bounds: VersionSpecifiers,
}

impl Requirement {
    /// Parses a line; the error is the reason why it is not valid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parsed = requirements::Requirement::parse(text);
        let (requirement, marker) = match text.split_once(';') {
            Some((requirement, marker)) => (requirement, marker),
            None => (text, ""),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let rest = requirement.trim().trim_start_matches(is_name).trim_start();
        let rest = match rest.strip_prefix('[') {
            Some(rest) => rest
                .split_once(']')
                .ok_or("`[` without `]`")?
                .1
                .trim_start(),
            None => rest,
        };
        // A URL (`name @ https://…`) has no version.
        let bounds = match rest.trim_start().starts_with('@') {
            true => "",
            false => rest.trim().trim_start_matches('(').trim_end_matches(')'),
        };
        let bounds = bounds
            .parse()
            .map_err(|_| format!("`{bounds}` is not a list of versions"))?;
        if parsed.name.is_empty() {
            return Err("no name".to_owned());
        }
        Ok(Self {
            text: text.to_owned(),
            name: parsed.name,
            extras: parsed.extras,
            optional: marker.contains("extra"),
            bounds,
        })
    }

    /// Whether a version satisfies the bounds.
    pub fn accepts(&self, version: &[u64]) -> bool {
        self.bounds.contains(&Version::new(version.iter().copied()))
    }

    /// The lowest version that the bounds name; `None` if there is no lower bound.
    pub fn lowest(&self) -> Option<Vec<u64>> {
        let lower = self.bounds.iter().filter(|bound| {
            !matches!(
                bound.operator(),
                Operator::LessThan
                    | Operator::LessThanEqual
                    | Operator::NotEqual
                    | Operator::NotEqualStar
            )
        });
        lower.map(|bound| bound.version().release().to_vec()).max()
    }

    /// Whether it requires the `cuda-toolkit` metapackage, whose version is that of the toolkit.
    pub fn is_metapackage(&self) -> bool {
        self.name == METAPACKAGE
    }

    /// Whether it is the package of a component for a CUDA major, or has the component's extra.
    pub fn names(&self, component: Component, major: u32) -> bool {
        let facts = component.facts();
        match self.is_metapackage() {
            true => facts
                .extra
                .is_some_and(|extra| self.extras.iter().any(|e| e == extra || e == "all")),
            false => facts.package(major) == Some(self.name.as_str()),
        }
    }

    /// The components that it brings for a CUDA major.
    pub fn components(&self, major: u32) -> BTreeSet<Component> {
        let named: Vec<Component> = Component::all().filter(|c| self.names(*c, major)).collect();
        // NVIDIA's packages require each other. The package of cuTENSOR does not.
        let requires: Vec<Component> = named
            .iter()
            .copied()
            .filter(|c| *c != Component::Cutensor)
            .collect();
        let more = closure(&requires, major).into_iter();
        let more = more.filter(|(_, kind)| matches!(kind, EdgeKind::Link | EdgeKind::Load));
        named
            .into_iter()
            .chain(more.map(|(component, _)| component))
            .collect()
    }

    /// The CUDA major that it is for; `None` if it is not known.
    pub fn major(&self) -> Option<u32> {
        if self.is_metapackage() {
            let first = *self.lowest()?.first()?;
            return (!self.accepts(&[first + 1, 0])).then(|| u32::try_from(first).ok())?;
        }
        let majors: Vec<u32> = release::majors()
            .filter(|&major| {
                Component::all().any(|c| c.facts().package(major) == Some(self.name.as_str()))
            })
            .collect();
        match majors[..] {
            [major] => Some(major),
            _ => None,
        }
    }

    /// What is wrong with the bound on the CUDA major; `None` if it is bounded, or not one of NVIDIA's packages.
    pub fn unbounded(&self) -> Option<String> {
        if let Some(unsuffixed) = self.placeholder() {
            return Some(format!(
                "requires `{}`, a placeholder without files; the package is `{unsuffixed}`",
                self.text
            ));
        }
        let next = match self.is_metapackage() {
            true => self.major().unwrap_or(release::NEWEST_MAJOR) + 1,
            false => self.unsuffixed_major()? + 1,
        };
        // The versions of some components are independent of the toolkit, so any upper bound is accepted for them.
        let next = match self.follows_toolkit() {
            true => u64::from(next),
            false => 999,
        };
        self.accepts(&[next, 0])
            .then(|| match self.follows_toolkit() {
                true => format!("requires `{}`, which CUDA {next} satisfies too", self.text),
                false => format!("requires `{}`, which has no upper bound", self.text),
            })
    }

    fn follows_toolkit(&self) -> bool {
        let follows = |c: Component| {
            let facts = c.facts();
            facts.follows_toolkit
                && release::majors().any(|m| facts.package(m) == Some(self.name.as_str()))
        };
        self.is_metapackage() || Component::all().any(follows)
    }

    /// The first CUDA major for which this package has no major in its name.
    fn unsuffixed_major(&self) -> Option<u32> {
        release::majors().find(|&major| {
            !self.name.ends_with(&format!("-cu{major}"))
                && Component::all().any(|component| {
                    let facts = component.facts();
                    facts.is_part_of_toolkit() && facts.package(major) == Some(self.name.as_str())
                })
        })
    }

    /// The real package, if this is one of the placeholders (`nvidia-cublas-cu13`) that only reserve a name.
    fn placeholder(&self) -> Option<&'static str> {
        let (base, major) = self.name.rsplit_once("-cu")?;
        let major: u32 = major.parse().ok()?;
        let mut packages = Component::all().filter_map(|c| c.facts().package(major));
        packages.find(|package| *package == base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(text: &str) -> Requirement {
        Requirement::parse(text).unwrap()
    }

    #[test]
    fn lines_are_parsed() {
        let parsed = requirement("CUDA_Toolkit[cudart, cublas] (>=13.0,<14) ; extra == \"cu13\"");
        assert_eq!(parsed.name, "cuda-toolkit");
        assert_eq!(parsed.extras, ["cublas", "cudart"]);
        assert!(parsed.optional);
        assert!(parsed.accepts(&[13, 4]) && !parsed.accepts(&[14, 0]));
        assert_eq!(parsed.lowest(), Some(vec![13, 0]));
        assert!(requirement("x @ https://example.org/x.whl").accepts(&[1]));
        assert!(Requirement::parse("x >== 1").is_err());
        assert!(Requirement::parse("x[a>=1").is_err());
    }

    #[test]
    fn majors_follow_from_names_and_bounds() {
        for (text, major) in [
            ("cuda-toolkit[cudart]>=13.0,<14", Some(13)),
            ("cuda-toolkit[cudart]==12.*", Some(12)),
            ("cuda-toolkit[cudart]==13.2.2", Some(13)),
            ("cuda-toolkit", None),
            ("cuda-toolkit>=12", None),
            ("nvidia-cublas-cu12>=12.1", Some(12)),
            ("nvidia-cublas", Some(13)),
            ("numpy", None),
        ] {
            assert_eq!(requirement(text).major(), major, "{text}");
        }
    }

    #[test]
    fn unbounded_majors_are_found() {
        for text in [
            "cuda-toolkit[cudart]",
            "cuda-toolkit[cudart]>=13.0",
            "nvidia-cublas>=13.0.0.19",
            "nvidia-cuda-runtime>=13.0.48",
            "nvidia-curand>=10.4",
            "nvidia-cuda-runtime-cu13",
        ] {
            assert!(requirement(text).unbounded().is_some(), "{text}");
        }
        for text in [
            "cuda-toolkit[cudart]>=13.0,<14",
            "cuda-toolkit[cudart]==13.*",
            "nvidia-nvjitlink<14,>=13.3",
            "nvidia-curand~=10.0",
            "nvidia-cublas-cu12>=12.1",
            "nvidia-nccl-cu13",
            "numpy",
        ] {
            assert_eq!(requirement(text).unbounded(), None, "{text}");
        }
    }

    #[test]
    fn packages_bring_what_they_require() {
        let brought = requirement("nvidia-cusolver-cu12").components(12);
        assert!(brought.contains(&Component::Cusolver) && brought.contains(&Component::Cublas));
        let brought = requirement("cutensor-cu13").components(13);
        assert_eq!(brought, BTreeSet::from([Component::Cutensor]));
        let brought = requirement("cuda-toolkit[cudart,cublas]==13.*").components(13);
        assert!(brought.contains(&Component::Cudart) && brought.contains(&Component::Cublas));
    }
}
