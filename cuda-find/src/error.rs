//! The error of a search.

use std::error;
use std::fmt;

use cuda_find_core::error as core;

/// Why a search failed: what is missing or wrong, and what was tried.
///
/// `Display` is the message, of several lines; its first line says what is wrong. `Debug` adds the
/// [hints](Error::hints), because build scripts `unwrap`, or return the error from `main`.
///
/// ```
/// let error = cuda_find::Search::new().need("cublass").find().unwrap_err();
/// assert!(error.to_string().starts_with("`cublass` is not a CUDA component; known: cudart, "));
/// assert_eq!(error.kind(), cuda_find::ErrorKind::Usage);
/// ```
pub struct Error(pub(crate) core::Error);

/// What an [`Error`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A required component was found in none of the searched places.
    NotFound,
    /// The components that were found do not belong together.
    Inconsistent,
    /// A variable, or a place that the caller or a variable names, cannot be used.
    NamedPlace,
    /// A capability that the toolkit does not support, or a list that cannot be read.
    Capability,
    /// CUDA does not exist for the target (macOS, musl, 32 bits), or this crate does not know it.
    UnsupportedTarget,
    /// The caller requests something that does not exist, such as a component of an unknown name.
    Usage,
    /// nvcc cannot be run, or a file cannot be read.
    Other,
}

impl Error {
    /// What the error is about.
    pub fn kind(&self) -> ErrorKind {
        match self.0 {
            core::Error::NotFound { .. } => ErrorKind::NotFound,
            core::Error::Inconsistent { .. } => ErrorKind::Inconsistent,
            core::Error::InvalidSource { .. } | core::Error::Variable { .. } => {
                ErrorKind::NamedPlace
            }
            core::Error::Capability { .. } => ErrorKind::Capability,
            core::Error::UnsupportedTarget { .. } => ErrorKind::UnsupportedTarget,
            core::Error::Usage { .. } => ErrorKind::Usage,
            _ => ErrorKind::Other,
        }
    }

    /// What the user can do, with the most likely fix first. There is at least one hint.
    ///
    /// ```
    /// let error = cuda_find::Search::new().release("new").find().unwrap_err();
    /// assert_eq!(error.hints(), ["write for example `>=12.2, <14`"]);
    /// ```
    pub fn hints(&self) -> Vec<String> {
        self.0.hints()
    }
}

impl From<core::Error> for Error {
    fn from(error: core::Error) -> Self {
        Self(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.source()
    }
}
