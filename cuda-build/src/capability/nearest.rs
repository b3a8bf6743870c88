//! Consumers that take one capability, or have a list of their own.

use super::{Capability, Plan, Suffix};

/// The one capability for a consumer that takes exactly one, and how it came to be this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Single {
    /// What the consumer gets.
    pub capability: Capability,
    /// Why.
    pub chosen: Chosen,
    /// What the plan holds besides.
    pub left_out: Vec<Capability>,
}

/// Why a [`Single`] is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// The plan holds no other.
    Only,
    /// It runs on the GPU in this machine.
    Gpu {
        /// That GPU.
        gpu: Capability,
    },
    /// The lowest: its PTX, if there is any, runs on the most devices.
    Lowest {
        /// The GPU in this machine, where there is one and no SASS in the plan is for it.
        gpu: Option<Capability>,
    },
}

impl Capability {
    /// The closest of a consumer's own list, for code that has to run on a device of this
    /// capability: the same target, else the same number, else the highest of the same major that is
    /// lower, else the highest lower one (which this device runs from PTX alone). `None` where all
    /// are higher.
    ///
    /// ```
    /// use cuda_build::Capability;
    /// let list = ["7.5", "8.0", "9.0"].map(|text| text.parse::<Capability>().unwrap());
    /// let nearest = |text: &str| text.parse::<Capability>().unwrap().nearest(&list);
    /// assert_eq!(nearest("8.6").unwrap().to_string(), "8.0");
    /// assert_eq!(nearest("12.0").unwrap().to_string(), "9.0");
    /// assert_eq!(nearest("7.0"), None);
    /// ```
    #[must_use]
    pub fn nearest(self, supported: &[Capability]) -> Option<Capability> {
        supported
            .iter()
            .copied()
            .filter(|&other| self.may_use(other))
            .max_by_key(|&other| {
                (
                    other == self,
                    other.base() == self.base(),
                    other.major == self.major,
                    other.base(),
                    // Of one number: what asks least of the device.
                    other.suffix.is_none(),
                    other.suffix == Some(Suffix::Family),
                )
            })
    }

    /// Whether a device of this capability may run code built for `other`, in SASS or from PTX.
    fn may_use(self, other: Capability) -> bool {
        match other.suffix {
            Some(Suffix::ArchSpecific) => other.base() == self.base(),
            Some(Suffix::Family) => other.major == self.major && other.minor <= self.minor,
            None => other <= self.base(),
        }
    }
}

impl Plan {
    /// The capability for a consumer that takes exactly one: the nearest that runs in SASS on
    /// `gpu`, the device in this machine, else the lowest. `None` only for an empty plan.
    ///
    /// [`Single::warning`] says what to tell the user about the choice.
    #[must_use]
    pub fn single_for(&self, gpu: Option<Capability>) -> Option<Single> {
        let list = if self.real.is_empty() {
            &self.ptx
        } else {
            &self.real
        };
        let for_gpu = gpu.and_then(|gpu| {
            gpu.base()
                .nearest(list)
                .filter(|c| c.major == gpu.major)
                .map(|c| (c, Chosen::Gpu { gpu }))
        });
        let (capability, chosen) = match (list.as_slice(), for_gpu) {
            (&[only], _) => (only, Chosen::Only),
            (_, Some(found)) => found,
            (_, None) => (*list.first()?, Chosen::Lowest { gpu }),
        };
        let mut left_out: Vec<Capability> = self
            .real
            .iter()
            .chain(&self.ptx)
            .copied()
            .filter(|&c| c != capability)
            .collect();
        left_out.sort_unstable();
        left_out.dedup();
        Some(Single {
            capability,
            chosen,
            left_out,
        })
    }
}

impl Single {
    /// The value of `CUDA_COMPUTE_CAP`: `90`. Without suffix, since consumers read an integer.
    #[must_use]
    pub fn compute_cap(&self) -> String {
        self.capability.number().to_string()
    }

    /// What to warn of, with the consumer's name (`CUDA_COMPUTE_CAP`, a crate): that it builds for
    /// less than was declared. `None` where nothing was lost.
    #[must_use]
    pub fn warning(&self, consumer: &str) -> Option<String> {
        let Chosen::Lowest { gpu } = self.chosen else {
            return None;
        };
        let others: Vec<String> = self.left_out.iter().map(ToString::to_string).collect();
        let gpu = gpu.map_or(String::new(), |gpu| {
            format!(", and none runs on the {gpu} GPU here")
        });
        Some(format!(
            "{consumer} takes one capability: it gets the lowest declared, {}, and not {}{gpu}; \
             set `single-capability` in [package.metadata.cuda] to choose",
            self.capability,
            others.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::{all, supported};
    use crate::version::ToolkitVersion;

    fn list(text: &str) -> Vec<Capability> {
        text.split_whitespace()
            .map(|digits| digits.parse().unwrap())
            .collect()
    }

    fn plan(real: &str, ptx: &str) -> Plan {
        Plan {
            real: list(real),
            ptx: list(ptx),
        }
    }

    #[test]
    fn nearest() {
        for (from, supported, expected) in [
            ("8.6", "75 80 86 90", "8.6"),
            ("8.9", "75 80 86 90", "8.6"),
            ("9.0a", "80 90 90a", "9.0a"),
            ("9.0", "80 90a", "9.0a"),
            ("9.0a", "80 90", "9.0"),
            ("10.3", "90 100a 100f", "10.0f"),
            ("10.3", "90 100a", "9.0"),
            ("12.1", "50 61 80", "8.0"),
        ] {
            let nearest = from
                .parse::<Capability>()
                .unwrap()
                .nearest(&list(supported))
                .unwrap();
            assert_eq!(nearest.to_string(), expected, "{from} of {supported}");
        }
        assert_eq!(Capability::new(5, 0).nearest(&list("75 80")), None);
        assert_eq!(Capability::new(9, 0).nearest(&[]), None);
    }

    #[test]
    fn nearest_never_asks_for_more_than_the_device_has() {
        let targets = supported(ToolkitVersion::new(13, 5));
        for device in all().map(|row| row.capability) {
            match device.nearest(&targets) {
                Some(nearest) => assert!(nearest.base() <= device, "{device}: {nearest}"),
                None => assert!(targets.iter().all(|t| t.base() > device), "{device}"),
            }
        }
        for &target in &targets {
            assert_eq!(target.nearest(&targets), Some(target));
        }
    }

    #[test]
    fn one_for_those_who_take_one() {
        let declared = plan("80 90a 120", "120");
        let single = declared.single_for(Some(Capability::new(9, 0))).unwrap();
        assert_eq!(
            (single.compute_cap().as_str(), single.warning("x")),
            ("90", None)
        );
        let single = declared.single_for(Some(Capability::new(8, 6))).unwrap();
        assert_eq!(single.compute_cap(), "80");
        let single = declared.single_for(None).unwrap();
        assert_eq!(
            single.warning("CUDA_COMPUTE_CAP").unwrap(),
            "CUDA_COMPUTE_CAP takes one capability: it gets the lowest declared, 8.0, and not 9.0a, 12.0; \
             set `single-capability` in [package.metadata.cuda] to choose"
        );
        let single = declared.single_for(Some(Capability::new(7, 5))).unwrap();
        assert_eq!(
            single.chosen,
            Chosen::Lowest {
                gpu: Some(Capability::new(7, 5))
            }
        );
        assert!(
            single
                .warning("x")
                .unwrap()
                .contains("none runs on the 7.5 GPU here")
        );
    }

    #[test]
    fn nothing_to_choose() {
        let single = plan("80", "80")
            .single_for(Some(Capability::new(9, 0)))
            .unwrap();
        assert_eq!((single.chosen, single.warning("x")), (Chosen::Only, None));
        assert_eq!(plan("", "90").single_for(None).unwrap().compute_cap(), "90");
        assert_eq!(plan("", "").single_for(None), None);
    }
}
