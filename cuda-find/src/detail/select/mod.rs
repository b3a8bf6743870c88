//! Chooses a toolkit from attempts: pure functions of values.

mod choose;
mod not_found;
mod request;

pub use choose::select;
pub use not_found::{missing_in_toolkit, without_nvcc};
#[cfg(test)]
mod tests;

pub use request::{DECLARED, Need, Part, Request, RequestedRelease, Strength};
