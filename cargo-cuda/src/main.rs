//! `cargo cuda`
fn main() {}
