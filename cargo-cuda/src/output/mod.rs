//! The output of commands: files and directories, and text on standard output and standard error.

mod files;
mod terminal;

pub use files::*;
pub use terminal::*;
