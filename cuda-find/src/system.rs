//! What a search reads.

use std::env::consts::{ARCH, OS};
use std::ffi::OsString;
use std::path::PathBuf;

use cuda_find_core::env::Env;
use cuda_find_core::root::Root;
use cuda_find_core::target::Target;

use crate::Error;

/// What a search reads: variables, disk and platform; and the cache directory, the only place where it writes.
///
/// Every part can be replaced, for a test or for another program's configuration:
///
/// ```
/// # fn main() -> Result<(), cuda_find::Error> {
/// let empty = std::env::temp_dir().join("empty");
/// let system = cuda_find::System::current()
///     .with_variables([("CUDA_HOME", "/nowhere")])
///     .with_disk_root(&empty)
///     .with_target("aarch64-unknown-linux-gnu");
/// let error = cuda_find::Search::on(system).need("cublas").find().unwrap_err();
/// assert!(error.to_string().starts_with("environment variable `CUDA_HOME` (/nowhere): does not exist"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct System {
    pub(crate) env: Env,
    pub(crate) root: Root,
    pub(crate) cache: Option<PathBuf>,
    target: Option<String>,
    is_jetson: bool,
}

impl System {
    /// The variables of this process, and this machine's disk. In a build script, the platform is that of `TARGET`;
    /// otherwise it is this machine. There is no cache directory.
    pub fn current() -> Self {
        Self {
            env: Env::from_process(),
            root: Root::system(),
            cache: None,
            target: None,
            is_jetson: false,
        }
    }

    /// Replaces all variables: names and values.
    ///
    /// ```
    /// let system = cuda_find::System::current().with_variables([("CUDA_HOME", "/opt/cuda")]);
    /// ```
    #[must_use]
    pub fn with_variables<K, V>(mut self, variables: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        self.env = Env::from_pairs(variables);
        self
    }

    /// Looks for built-in places, such as `/usr/local/cuda`, below this directory. Paths in variables stay as they are.
    ///
    /// ```
    /// let system = cuda_find::System::current().with_disk_root("/mnt/image");
    /// ```
    #[must_use]
    pub fn with_disk_root(mut self, path: impl Into<PathBuf>) -> Self {
        self.root = Root::below(path);
        self
    }

    /// The platform to build for, as a Rust target triple.
    ///
    /// ```
    /// let system = cuda_find::System::current().with_target("aarch64-unknown-linux-gnu");
    /// ```
    #[must_use]
    pub fn with_target(mut self, triple: &str) -> Self {
        self.target = Some(triple.to_owned());
        self
    }

    /// Whether an aarch64 target is a Jetson board. Servers have the same target triple, but other libraries.
    ///
    /// ```
    /// let board = std::path::Path::new("/etc/nv_tegra_release").exists();
    /// let system = cuda_find::System::current().with_jetson(board);
    /// ```
    #[must_use]
    pub fn with_jetson(mut self, is_jetson: bool) -> Self {
        self.is_jetson = is_jetson;
        self
    }

    /// Keeps the output of nvcc in this directory, so that the next search does not start nvcc again (about 50 ms).
    /// Without a cache directory, a search writes nothing.
    ///
    /// ```no_run
    /// let kept = std::env::var("OUT_DIR").unwrap();
    /// let system = cuda_find::System::current().with_cache_dir(kept);
    /// ```
    #[must_use]
    pub fn with_cache_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cache = Some(directory.into());
        self
    }

    pub(crate) fn target(&self) -> Result<Target, Error> {
        let variable = |name: &str| {
            let value = self.env.peek(name)?;
            Some(value.to_string_lossy().into_owned())
        };
        let here = || format!("{ARCH}-unknown-{OS}");
        // Outside of a build script, `TARGET` and `HOST` may be anything: the name of the machine.
        let of_script = |name: &str| variable("OUT_DIR").and_then(|_| variable(name));
        let triple = self.target.clone().or_else(|| of_script("TARGET"));
        let mut target = Target::from_triple(&triple.unwrap_or_else(here))?;
        if let Some(host) = of_script("HOST") {
            target = target.built_on(&host);
        }
        Ok(if self.is_jetson {
            target.on_jetson()
        } else {
            target
        })
    }
}
