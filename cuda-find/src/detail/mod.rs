//! What `cuda-build` and `cargo cuda` use beside the first page: the parts of the search, and the tables.
//!
//! It may change in every release: a crate that uses it requires the exact version, `cuda-find = "=0.1.0"`.
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
pub mod version;
