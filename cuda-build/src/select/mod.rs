//! Chooses, from attempts, the components that meet a request and belong together. Pure: no disk, no programs.
//!
//! - If the user named places, only products are taken from other places. Several named places are combined in order.
//!   The CUDA major is that of the first toolkit for whose major everything required is there.
//! - Otherwise the first step of the search that has everything is used. If a step has several toolkits, the newest
//!   that has everything is used.
//! - If no step has everything, a toolkit is completed with components from other steps. They must be for the same
//!   CUDA major and must not conflict. The selection is reported as combined.

mod choose;
mod consistency;
mod not_found;
mod pool;
mod request;
mod selection;

pub use choose::select;
pub use consistency::{capability_conflicts, conflicts};
pub use not_found::{Missing, NotFound, without_nvcc};
pub use request::{DECLARED, Need, Part, Request, Strength};
pub use selection::{Chosen, Note, Selection};

#[cfg(test)]
mod tests;
