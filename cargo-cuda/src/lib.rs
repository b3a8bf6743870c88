//! `cargo cuda`: the parts behind the subcommand.

pub mod commands;
pub mod store;
