//! Side-by-side benchmarks of cuda-build and its neighbours; `README.md` beside this crate has
//! the commands and the figures.

pub mod cold_build;
pub mod fixture;
pub mod measure;
pub mod parts;
pub mod rebuild;
pub mod search;
pub mod search_once;
pub mod view;
