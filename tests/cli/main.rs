//! `cargo cuda` against real tools.
