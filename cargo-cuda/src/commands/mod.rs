//! One file for each subcommand: what it accepts and what it prints.

pub mod audit;
pub mod build;
pub mod bundle;
pub mod doctor;
pub mod env;
pub mod fetch;
pub mod install;
pub mod new;
pub mod pep517;
pub mod toolkit;
pub mod view;
pub mod wheel;
