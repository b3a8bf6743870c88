//! One file a subcommand: what it accepts and what it prints.

pub mod capabilities;
pub mod cargo;
pub mod doctor;
pub mod env;
pub mod toolkit;
pub mod view;
pub mod wheel;
