//! Compiles modules and libraries: the steps for each, and the runner of these steps.
//!
//! A *module* is device code alone, loaded through the driver API; a *library* is host and
//! device code, linked into the crate. A `Step` only describes what to do; `Runner` does it.

#[cfg(feature = "nvcc-wrapper")]
mod call;
mod depfile;
mod diagnostics;
#[cfg(feature = "nvcc-wrapper")]
mod feature_sets;
pub(crate) mod identity;
mod job;
mod joining;
mod library;
mod module;
mod nvcc;
mod options;
mod path_names;
mod progress;
mod reads;
mod run;
mod run_directory;
mod sources;
mod step;
mod store;
mod workers;
#[cfg(feature = "nvcc-wrapper")]
mod wrapper;

#[cfg(feature = "nvcc-wrapper")]
pub use call::{Advertised, Call, ForList, KeepableCall};
pub(crate) use job::Tools;
pub(crate) use joining::joins_objects;
pub(crate) use library::CppRuntime;
pub use library::Library;
pub use module::{Engine, Format, Module};
pub(crate) use options::Options;
pub(crate) use path_names::PathNames;
pub(crate) use progress::Progress;
pub use progress::VARIABLE as PROGRESS_VARIABLE;
pub(crate) use run::Runner;
pub use run::{Compiled, MadeOutput};
pub(crate) use sources::PATTERN_HINT;
pub use sources::matching_files;
pub(crate) use step::{ReadFiles, Settings, Step};
pub(crate) use store::OutputStore;
pub use store::{VARIABLE as STORE_VARIABLE, output_store};
pub(crate) use workers::Workers;
#[cfg(feature = "nvcc-wrapper")]
pub use wrapper::{WrappedNvcc, most_compilers, name_of_output};
