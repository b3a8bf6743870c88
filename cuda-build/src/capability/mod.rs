//! Compute capabilities: one declared list, checked against a toolkit, rendered for every consumer.
//!
//! [`Declared`] is what a manifest or a variable says, [`Plan`] what is built with one toolkit:
//! a list of real architectures (SASS) and one of virtual architectures (PTX). Everything here
//! is computed from values; nothing reads the disk or runs a program.
//!
//! ```
//! use cuda_build::internal::Declared;
//! use cuda_build::ToolkitVersion;
//! let declared = Declared::parse(["8.0", "9.0a", "12.0+PTX"])?;
//! let plan = declared.plan(ToolkitVersion::new(13, 4), &[], None)?;
//! assert_eq!(plan.cmake(), "80-real;90a-real;120-real;120-virtual");
//! assert_eq!(plan.arch_list_define(), "800,900,1200");
//! # Ok::<(), cuda_build::Error>(())
//! ```

mod declared;
mod nearest;
mod observed;
mod parse;
mod plan;
mod refusal;
mod render;
mod rules;
mod runtime;
mod table;

use std::fmt;

pub use declared::{Declared, Entry, undeclared};
pub use nearest::{Chosen, Single};
pub use observed::observed_from_ptxas_help;
pub use plan::Plan;
pub use rules::{ptx_runs_on, sass_runs_on};
pub use runtime::{Support, generated_source};
pub use table::{Facts, all, available, facts, renamed, supported};

/// A compute capability, with the suffix of a target that trades portability for features.
///
/// Ordered by number, then suffix. Reads every spelling in use and prints the dotted one:
///
/// ```
/// use cuda_build::Capability;
/// for spelling in ["9.0a", "90a", "sm_90a", "compute_90a"] {
///     let capability: Capability = spelling.parse()?;
///     assert_eq!(capability.to_string(), "9.0a");
///     assert_eq!(capability.sm(), "sm_90a");
/// }
/// # Ok::<(), cuda_build::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability {
    /// 8 in 8.6: devices of one major share an instruction set.
    pub major: u32,
    /// 6 in 8.6: a single digit.
    pub minor: u32,
    /// `a` or `f`, which only targets have; a device reports none.
    pub suffix: Option<Suffix>,
}

/// What narrows a target to some devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Suffix {
    /// `a`: runs on exactly this capability.
    ArchSpecific,
    /// `f`: runs on the members of the capability's family.
    Family,
}

impl Suffix {
    /// `a` or `f`.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::ArchSpecific => 'a',
            Self::Family => 'f',
        }
    }
}

impl Capability {
    /// A capability without suffix.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Self {
            major,
            minor,
            suffix: None,
        }
    }

    /// The same number with this suffix.
    #[must_use]
    pub const fn with_suffix(self, suffix: Option<Suffix>) -> Self {
        Self { suffix, ..self }
    }

    /// The same number without suffix.
    #[must_use]
    pub const fn base(self) -> Self {
        self.with_suffix(None)
    }

    /// The number in `sm_90a`: 90.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.major * 10 + self.minor
    }

    /// The number with its suffix, as after `sm_`: `90a`.
    #[must_use]
    pub fn digits(self) -> String {
        let mut digits = self.number().to_string();
        digits.extend(self.suffix.map(Suffix::letter));
        digits
    }

    /// The real architecture's name: `sm_90a`.
    #[must_use]
    pub fn sm(self) -> String {
        format!("sm_{}", self.digits())
    }

    /// The virtual architecture's name: `compute_90a`.
    #[must_use]
    pub fn compute(self) -> String {
        format!("compute_{}", self.digits())
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.suffix
            .map_or(Ok(()), |suffix| write!(f, "{}", suffix.letter()))
    }
}
