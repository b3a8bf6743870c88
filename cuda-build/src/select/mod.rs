//! Chooses, from attempts, the components that meet a request and belong together. Pure: no disk, no programs.
//!
//! - If the user named places, only named places count. Several of them are combined in order, and the first decides
//!   the CUDA major if it has what is needed.
//! - Otherwise the first step of the search that has everything wins; of several toolkits in one step, the newest.
//! - If no step has everything, missing components are added from later steps if they belong to the same CUDA
//!   release, and the selection is reported as combined.

mod choose;
mod consistency;
mod not_found;
mod pool;
mod request;
mod selection;

pub use choose::select;
pub use consistency::{capability_conflicts, conflicts};
pub use not_found::{Missing, NotFound};
pub use request::{Need, Part, Request, Strength};
pub use selection::{Chosen, Note, Selection};

#[cfg(test)]
mod tests;
