//! What was chosen, and what to report about the choice.

use std::fmt;
use std::path::PathBuf;

use super::request::{Need, Request, Strength};
use crate::error::Conflict;
use crate::probe::Found;
use crate::sources::SearchStep;
use crate::version::ToolkitVersion;

/// A chosen component and the place it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The component with its files.
    pub found: Found,
    /// The place's label and path, for use in a sentence.
    pub origin: String,
}

/// Something to report about a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Other toolkits that were found and are not used. Each text has the release, or the major if the release is
    /// unknown, and the place.
    OtherToolkits(Vec<String>),
    /// The components come from several steps of the search.
    Combined {
        /// The places that the components come from.
        origins: Vec<String>,
    },
    /// The locked toolkit that the request admits has not been fetched, so it is not used.
    LockNotFetched {
        /// The lock file.
        file: PathBuf,
        /// The locked version.
        version: String,
    },
    /// A component that was found but not requested is not used, because it does not fit.
    Incompatible {
        /// The component.
        found: Box<Found>,
        /// Why the component does not fit.
        conflict: Conflict,
    },
}

impl Note {
    pub(crate) fn is_combined(&self) -> bool {
        matches!(self, Self::Combined { .. })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherToolkits(others) => {
                write!(f, "also found and not used: {}", others.join("; "))
            }
            Self::Combined { origins } => write!(f, "combined from {}", origins.join(" and ")),
            Self::LockNotFetched { file, version } => write!(
                f,
                "{} locks CUDA {version}, which has not been fetched, so another toolkit is used: run `cargo cuda fetch`",
                file.display()
            ),
            Self::Incompatible { found, conflict } => {
                let Conflict { reason, fix } = conflict;
                write!(f, "{found} is not used: {reason}; {fix}")
            }
        }
    }
}

/// What was chosen.
#[derive(Debug)]
pub struct Selection {
    /// The step of the search that proposed the first place. Components are taken from this place first, and from
    /// other places if it does not have them.
    pub step: SearchStep,
    /// The CUDA major of all components.
    pub major: u32,
    /// The CUDA release: that of the first of nvcc, NVRTC and cudart that is chosen and shows a release. If there is
    /// no such component, the newest release that any chosen component shows. If no chosen component shows a
    /// release, the release of the place that `step` proposed. `None` if that is unknown too.
    pub release: Option<ToolkitVersion>,
    /// The chosen components, in the order of the component table.
    pub chosen: Vec<Chosen>,
    /// What to report about the choice.
    pub notes: Vec<Note>,
}

impl Selection {
    /// Whether the components come from more than one step of the search.
    pub fn is_combined(&self) -> bool {
        self.notes.iter().any(Note::is_combined)
    }

    /// Whether a product that is needed with this strength was not chosen. If the request takes everything, this is
    /// always true for extras, because another place may have one more product.
    pub(crate) fn lacks_product(&self, request: &Request, strength: Strength) -> bool {
        let is_chosen = |need: &Need| self.chosen.iter().any(|c| need.is_met_by(&c.found));
        let lacks =
            |need: &Need| need.is_product() && need.strength == strength && !is_chosen(need);
        (request.take_everything && strength == Strength::Extra) || request.needs.iter().any(lacks)
    }

    pub(crate) fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}
