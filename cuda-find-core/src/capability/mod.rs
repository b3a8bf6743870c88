//! Compute capabilities. One declared list is checked against a toolkit and rendered for every consumer: nvcc, CMake,
//! PyTorch.
//!
//! [`Declared`] is the list in a manifest or a variable. [`Plan`] is what is built with one toolkit:
//! a list of real architectures (SASS) and one of virtual architectures (PTX). Nothing here reads
//! the disk or starts a program.
//!
//! ```
//! use cuda_find_core::capability::Declared;
//! use cuda_find_core::version::ToolkitVersion;
//! let declared = Declared::parse(["8.0", "9.0a", "12.0+PTX"])?;
//! let plan = declared.plan(ToolkitVersion::new(13, 4), &[], None)?;
//! assert_eq!(plan.cmake(), "80-real;90a-real;120-real;120-virtual");
//! # Ok::<(), cuda_find_core::error::Error>(())
//! ```

mod number;
mod part;
mod plan;
mod table;

pub use number::{Capability, Suffix};
pub use part::PartCapabilities;
pub use plan::{Declared, Plan, Single, Spelling, Support, sass_runs_on, spelling, undeclared};
pub use table::{CapabilityFacts, all, facts, observed_from_ptxas_help, supported};
