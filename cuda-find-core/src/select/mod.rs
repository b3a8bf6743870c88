//! Chooses a toolkit from attempts: pure functions of values.

mod choose;
mod not_found;
mod request;

pub use choose::select;
pub use not_found::missing_in_toolkit;
#[cfg(test)]
mod tests;

pub use request::{Need, Part, Request, RequestedRelease, Strength};
