//! The Rust target triple, as CUDA names it.

use std::fmt;

use crate::error::Error;

/// The platform that is built for.
///
/// ```
/// use cuda_build::internal::Target;
/// let target = Target::from_triple("x86_64-unknown-linux-gnu", false).unwrap();
/// assert_eq!(target.directory(), "x86_64-linux");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    triple: String,
    directory: &'static str,
}

impl Target {
    /// Maps a Rust target triple to CUDA's target directory. SBSA servers and Jetson boards
    /// share one Rust triple and differ in the directory, so `jetson` has to say which.
    ///
    /// # Errors
    /// [`Error::UnsupportedTarget`] where CUDA has no toolkit, or this crate no support yet.
    pub fn from_triple(triple: &str, jetson: bool) -> Result<Self, Error> {
        let mut parts = triple.split('-');
        let arch = parts.next().unwrap_or_default();
        let linux = parts.any(|part| part == "linux");
        let directory = match (arch, linux) {
            ("x86_64", true) => "x86_64-linux",
            ("aarch64", true) if jetson => "aarch64-linux",
            ("aarch64", true) => "sbsa-linux",
            _ => {
                return Err(Error::UnsupportedTarget {
                    triple: triple.to_owned(),
                });
            }
        };
        Ok(Self {
            triple: triple.to_owned(),
            directory,
        })
    }

    /// The Rust triple.
    #[must_use]
    pub fn triple(&self) -> &str {
        &self.triple
    }

    /// The name below `targets/` in toolkits that have such a directory.
    #[must_use]
    pub fn directory(&self) -> &'static str {
        self.directory
    }

    /// `e_machine` of its ELF files: `EM_X86_64` or `EM_AARCH64`.
    #[must_use]
    pub fn elf_machine(&self) -> u16 {
        machine(self.triple.split('-').next().unwrap_or_default()).unwrap_or(AARCH64)
    }

    /// Whether what is built for it runs on the machine that builds.
    #[must_use]
    pub fn is_native(&self) -> bool {
        self.triple.split('-').next() == Some(std::env::consts::ARCH)
    }

    /// The multiarch name that Debian puts libraries under (`/usr/lib/<this>`).
    #[must_use]
    pub fn multiarch(&self) -> &'static str {
        if self.directory == "x86_64-linux" {
            "x86_64-linux-gnu"
        } else {
            "aarch64-linux-gnu"
        }
    }
}

/// `EM_X86_64` and `EM_AARCH64` of the ELF specification.
const X86_64: u16 = 62;
const AARCH64: u16 = 183;

/// `e_machine` of an architecture as Rust names it; `None` where CUDA has nothing for it.
pub(crate) fn machine(architecture: &str) -> Option<u16> {
    match architecture {
        "x86_64" => Some(X86_64),
        "aarch64" => Some(AARCH64),
        _ => None,
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.triple)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_triple_two_directories_on_arm() {
        let directory = |triple, jetson| Target::from_triple(triple, jetson).map(|t| t.directory());
        assert_eq!(
            directory("x86_64-unknown-linux-gnu", false).unwrap(),
            "x86_64-linux"
        );
        assert_eq!(
            directory("aarch64-unknown-linux-gnu", false).unwrap(),
            "sbsa-linux"
        );
        assert_eq!(
            directory("aarch64-unknown-linux-gnu", true).unwrap(),
            "aarch64-linux"
        );
    }

    #[test]
    fn other_platforms_are_an_error_not_a_guess() {
        for triple in [
            "x86_64-pc-windows-msvc",
            "aarch64-apple-darwin",
            "wasm32-unknown-unknown",
        ] {
            let error = Target::from_triple(triple, false).unwrap_err().to_string();
            assert!(error.contains(triple), "{error}");
        }
    }
}
