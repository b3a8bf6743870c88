//! Maps a Rust target triple to CUDA's platform names.

use std::fmt;

use crate::error::Error;

/// The platform to build for.
///
/// ```
/// use cuda_find_core::target::Target;
/// let target = Target::from_triple("aarch64-unknown-linux-gnu").unwrap();
/// assert_eq!(target.directory(), "sbsa-linux");
/// assert_eq!(target.on_jetson().directory(), "aarch64-linux");
/// ```
#[derive(Clone, Debug)]
pub struct Target {
    triple: String,
    directory: &'static str,
    /// The architecture of the machine that builds, as Rust names it.
    build_architecture: String,
    builds_on_windows: bool,
}

/// The platform directories of ARM servers and of Jetson boards.
const SBSA: &str = "sbsa-linux";
const JETSON: &str = "aarch64-linux";
/// Windows' toolkits have no platform directory. NVIDIA's archives have this name.
const WINDOWS: &str = "x86_64-windows";

impl Target {
    /// Maps a Rust target triple to CUDA's platform directory.
    ///
    /// # Errors
    /// [`Error::UnsupportedTarget`] unless the triple is for Linux with glibc, on x86-64 or on 64-bit ARM, or for
    /// Windows on x86-64 with Microsoft's linker, for which NVIDIA's import libraries are made.
    pub fn from_triple(triple: &str) -> Result<Self, Error> {
        // The second is how `Search` names this machine.
        let is_windows = matches!(triple, "x86_64-pc-windows-msvc" | "x86_64-unknown-windows");
        let mut parts = triple.split('-');
        let architecture = parts.next();
        let is_linux = parts.any(|part| part == "linux");
        // `…-linux-gnu`, `…-linux-gnuasan`, or `…-linux` alone, but not `…-linux-gnux32`, `…-linux-musl` or
        // `…-android`.
        let abi = parts.next().unwrap_or("gnu");
        let has_glibc = is_linux && abi.starts_with("gnu") && !abi.ends_with("32");
        let triple = triple.to_owned();
        let directory = match architecture {
            _ if is_windows => WINDOWS,
            Some("x86_64") if has_glibc => "x86_64-linux",
            Some("aarch64") if has_glibc => SBSA,
            _ => return Err(Error::UnsupportedTarget { triple }),
        };
        Ok(Self {
            triple,
            directory,
            build_architecture: std::env::consts::ARCH.to_owned(),
            builds_on_windows: std::env::consts::OS == "windows",
        })
    }

    /// The same target, built on a machine with this triple. The default is the machine for which this crate was
    /// compiled.
    #[must_use]
    pub fn built_on(mut self, triple: &str) -> Self {
        architecture_of(triple).clone_into(&mut self.build_architecture);
        self.builds_on_windows = triple.contains("-windows");
        self
    }

    /// The same target on a Jetson board. ARM servers have the same Rust triple, but another
    /// platform directory.
    #[must_use]
    pub fn on_jetson(mut self) -> Self {
        if self.directory == SBSA {
            self.directory = JETSON;
        }
        self
    }

    /// A hint to append to a message about files in the platform directory `found`. It is empty unless
    /// the files are for ARM servers instead of Jetson boards, or the other way round.
    pub fn jetson_hint(&self, found: &str) -> &'static str {
        let is_arm = |name: &str| [SBSA, JETSON].contains(&name);
        if !is_arm(self.directory) || !is_arm(found) {
            return "";
        }
        "; ARM servers and Jetson boards need different files: `jetson = true` in `[package.metadata.cuda]` selects \
         Jetson"
    }

    /// The Rust triple.
    pub fn triple(&self) -> &str {
        &self.triple
    }

    /// The name of the platform directory: `x86_64-linux` in `targets/x86_64-linux`.
    pub fn directory(&self) -> &'static str {
        self.directory
    }

    /// The architecture, as Rust names it.
    pub fn architecture(&self) -> &str {
        architecture_of(&self.triple)
    }

    /// The architecture of the machine that builds, as Rust names it.
    pub fn build_architecture(&self) -> &str {
        &self.build_architecture
    }

    /// Whether the target is a Jetson board. NVIDIA's Python packages are for servers.
    pub fn is_jetson(&self) -> bool {
        self.directory == JETSON
    }

    /// Whether files have Windows' names and places.
    pub fn is_windows(&self) -> bool {
        self.directory == WINDOWS
    }

    /// `e_machine` in ELF files for this target: `EM_X86_64` or `EM_AARCH64`.
    pub fn elf_machine(&self) -> u16 {
        elf_machine_of(self.architecture()).unwrap_or(AARCH64)
    }

    /// Whether the machine that builds can run programs for this target.
    pub fn is_native(&self) -> bool {
        self.architecture() == self.build_architecture
            && self.is_windows() == self.builds_on_windows
    }

    /// In a cross build: whether `platform` is that of the build machine. Always false in a native build.
    pub fn runs_in_cross_build(&self, platform: &str) -> bool {
        !self.is_native()
            && match self.build_architecture() {
                "aarch64" => [SBSA, JETSON].contains(&platform),
                _ if self.builds_on_windows => false,
                architecture => platform == format!("{architecture}-linux"),
            }
    }

    /// The name of Debian's directories for this platform: `x86_64-linux-gnu` in `/usr/lib/x86_64-linux-gnu`.
    pub fn multiarch(&self) -> &'static str {
        match self.directory {
            "x86_64-linux" => "x86_64-linux-gnu",
            _ => "aarch64-linux-gnu",
        }
    }
}

fn architecture_of(triple: &str) -> &str {
    triple.split('-').next().unwrap_or_default()
}

/// `EM_X86_64` of the ELF specification.
const X86_64: u16 = 62;
/// `EM_AARCH64` of the ELF specification.
const AARCH64: u16 = 183;

/// `e_machine` for Rust's name of an architecture; `None` if CUDA does not support the architecture.
pub fn elf_machine_of(architecture: &str) -> Option<u16> {
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
    fn other_platforms_are_an_error() {
        for triple in [
            "x86_64-pc-windows-gnu",
            "aarch64-pc-windows-msvc",
            "aarch64-apple-darwin",
            "wasm32-unknown-unknown",
            "x86_64-unknown-linux-musl",
            "x86_64-unknown-linux-gnux32",
            "aarch64-linux-android",
        ] {
            let error = Target::from_triple(triple).unwrap_err();
            assert!(error.to_string().contains(triple), "{error}");
            assert!(
                error.hints()[0].contains("`CUDA_BUILD_SKIP=1`"),
                "{error:?}"
            );
        }
        for triple in ["aarch64-unknown-linux-gnu", "aarch64-poky-linux"] {
            assert!(Target::from_triple(triple).is_ok(), "{triple}");
        }
        let linux = "x86_64-unknown-linux-gnu";
        let target = Target::from_triple(linux).unwrap();
        assert_eq!(target.on_jetson().directory(), "x86_64-linux");
        let windows = Target::from_triple("x86_64-pc-windows-msvc").unwrap();
        assert!(!windows.clone().built_on(linux).is_native());
        assert!(windows.built_on("x86_64-pc-windows-gnu").is_native());
    }
}
