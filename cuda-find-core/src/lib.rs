//! The parts of the search for CUDA, and its tables, for `cuda-find`, `cuda-build` and `cargo cuda`.
//!
//! It has no stable API: every release (0.0.N) is incompatible with the one before, so several can be in one graph of
//! crates. Other build helpers use [`cuda-find`](https://docs.rs/cuda-find), whose first page is stable.
//!
//! - [`sources`] proposes places ([`sources::Candidate`]) in the order of the search, and reads none of them.
//! - [`probe`] reads one and returns a [`found::Attempt`]: the components, with evidence for each, or the reason there
//!   are none.
//! - [`select`] is a pure function from a [`select::Request`] and attempts to a [`toolkit::Toolkit`] or an error.
//!   [`consistency`] has the rules for what belongs together.
//! - [`search`] does all of that, step by step, until one step has everything.

pub mod cache;
pub mod capability;
pub mod command;
pub mod component;
pub mod consistency;
pub mod directive;
pub mod env;
pub mod error;
pub mod found;
pub mod hash;
pub mod link;
pub mod list;
pub mod nvcc;
pub mod output;
pub mod probe;
pub mod release;
pub mod root;
pub mod search;
pub mod select;
pub mod sources;
pub mod target;
pub mod toml;
pub mod toolkit;
pub mod trust;
pub mod version;
