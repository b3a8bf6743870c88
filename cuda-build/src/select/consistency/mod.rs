//! Which components belong together: pure functions over a set.
//!
//! The class of each component ([`Class`](crate::component::Class)) decides what is asked of it:
//!
//! | class | must |
//! |---|---|
//! | exact minor | be of the compiler's CUDA release, and so must the runtime's headers |
//! | major | be for the same CUDA major |
//! | provider | be of the release of its newest user, or newer |
//! | own range | let the compiler's CUDA release through in its own headers |
//! | independent | be for the same CUDA major, and have code for the declared capabilities |
//! | driver | nothing here: the machine that runs decides |

mod own_range;
mod product;
mod provider;
mod toolkit;

pub use product::capability_conflicts;
pub use toolkit::conflicts;
pub(super) use toolkit::major_conflict;

#[cfg(test)]
mod tests;
