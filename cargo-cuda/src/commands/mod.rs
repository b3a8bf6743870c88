//! One file a subcommand: what it accepts and what it prints.

pub mod toolkit;
