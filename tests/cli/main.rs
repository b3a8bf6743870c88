//! `cargo cuda` from outside.
mod toolkit;
