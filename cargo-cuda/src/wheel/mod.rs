//! Builds wheels. For each CUDA major, maturin builds a wheel, and `rewrite` turns it into the wheel for that major.
//!
//! ```text
//!  source ─► build ─► rewrite ─► summary
//!              │         ├─ needs: the packages of the needed components, with lower bounds
//!  programs ◄──┤         ├─ requirements: these packages beside the author's requirements
//!  runpath  ◄──┘         └─ index: what lies beside variants
//! ```
//!
//! `backend` builds a package under its own name, for installers. `rewrite` has the finished file audited before the
//! file gets its name.

pub mod backend;
pub mod build;
pub mod index;
pub mod needs;
pub mod programs;
mod requirements;
pub mod rewrite;
pub mod runpath;
mod sdist;
pub mod source;
pub mod summary;
