//! Where views are written, and views that exist.

use std::path::{Path, PathBuf};

use crate::error::Error;
use cuda_find_core::{cache, env::Env, list::Set, target::Target};

/// The variable that names the directory of views. `cargo cuda` sets it for build scripts.
pub const VIEWS_VARIABLE: &str = "CUDA_BUILD_VIEWS";

/// A view that was written.
#[derive(Clone, Debug)]
pub struct View {
    pub(super) path: PathBuf,
    pub(super) paths: Set<PathBuf>,
    pub(super) made: bool,
    pub(super) notes: Vec<String>,
}

impl View {
    /// The view's directory, for `CUDA_HOME` and similar variables.
    pub fn root(&self) -> &Path {
        &self.path
    }

    /// The same view, with all paths below `link`, which is a symbolic link to the view's directory. These
    /// paths stay valid when the link is switched to the view of a changed toolkit.
    #[must_use]
    pub fn through(mut self, link: PathBuf) -> Self {
        self.path = link;
        self
    }

    /// The directory of the shared libraries and archives.
    pub fn lib(&self) -> PathBuf {
        self.path.join("lib")
    }

    /// The directory of the headers. The headers of CCCL may be in `cccl` below this directory.
    pub fn include(&self) -> PathBuf {
        self.path.join("include")
    }

    /// The directory of stubs of the driver's libraries. It is for linking only: no rpath and no
    /// `LD_LIBRARY_PATH` may name it.
    pub fn stubs(&self) -> PathBuf {
        self.path.join("lib/stubs")
    }

    /// A file to declare with `cargo::rerun-if-changed` if the output of a build script depends on the
    /// view. [`Build::run`](crate::Build::run) declares it if the build used a view or if
    /// [`Build::view`](crate::Build::view) was called.
    ///
    /// The file's date is before any build, so writing a view does not make Cargo run the script again.
    pub fn watched_file(&self) -> PathBuf {
        self.path.join("version.json")
    }

    /// The compiler, if the view has one.
    pub fn nvcc(&self) -> Option<PathBuf> {
        let nvcc = "bin/nvcc";
        self.contains(nvcc).then(|| self.path.join(nvcc))
    }

    /// Whether the view has a file or link at this path, relative to its root. The contents of
    /// linked directories are not listed.
    pub fn contains(&self, path: impl AsRef<Path>) -> bool {
        self.paths.contains(path.as_ref())
    }

    /// Whether the view was written; `false` if a complete view already existed.
    pub fn was_made(&self) -> bool {
        self.made
    }

    /// What the view lacks, and why: a stub of the driver's library, if no compiler can make it.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// Where a view is written, and what it contains.
///
/// ```no_run
/// # fn main() -> Result<(), cuda_build::Error> {
/// use cuda_build::view::ViewPlace;
/// use cuda_build::{Build, View};
/// use cuda_find_core::{env::Env, root::Root, target::Target};
/// let (env, target) = (Env::from_process(), Target::from_triple("x86_64-unknown-linux-gnu")?);
/// let place = ViewPlace::from_env(&env, &target)?;
/// let view = View::create(Build::new()?.toolkit()?, &place, &Root::system(), &env)?;
/// assert!(view.lib().starts_with(view.root()));
/// # Ok(())
/// # }
/// ```
pub struct ViewPlace {
    /// The directory that was given to [`ViewPlace::below`].
    pub directory: PathBuf,
    pub(super) target: Target,
    /// A shell script that is `bin/nvcc` of the view. nvcc itself is then [`WRAPPED_NVCC`].
    pub nvcc_wrapper: Option<String>,
}

/// nvcc in a view whose `bin/nvcc` is a script. The directory has a link to each file of `bin`, so that nvcc takes the
/// view for its root here, too.
pub const WRAPPED_NVCC: &str = "nvcc/bin/nvcc";

impl ViewPlace {
    /// The usual place: `CUDA_BUILD_VIEWS`, which `cargo cuda` sets, otherwise `views` in the user's
    /// cache directory (see [`cache::cache_dir`]).
    ///
    /// # Errors
    /// [`cuda_find_core::error::Error::Usage`] if no variable names a cache directory. [`Error::ViewNotCreated`] if
    /// the place is below Cargo's profile directory (`target/debug`): Cargo adds link search paths below that directory
    /// to the loader path of `cargo run`, so programs would load the stub of the driver.
    pub fn from_env(env: &Env, target: &Target) -> Result<Self, Error> {
        if target.is_windows() {
            return Err(Error::usage(
                format!(
                    "no view can be made for {target}: it consists of links, which need a privilege on Windows"
                ),
                "build in WSL 2, which is Linux; or remove `links` from Cargo.toml and calls of `view` from build.rs",
            ));
        }
        let directory = match env.peek(VIEWS_VARIABLE) {
            Some(directory) => PathBuf::from(directory),
            None => cache::required_cache_dir(env)?.join("views"),
        };
        let place = Self::below(&directory, target);
        // <target>/<profile>/build/<package>-<hash>/out
        let out = env.peek("OUT_DIR").map(Path::new);
        match out.and_then(|out| out.ancestors().nth(3)) {
            Some(profile) if place.directory.starts_with(profile) => Err(Error::ViewNotCreated {
                path: directory,
                reason: format!(
                    "Cargo puts libraries below {} on the loader path, and programs would load the stub of the driver",
                    profile.display()
                ),
                hint: format!(
                    "name another directory with `{VIEWS_VARIABLE}` or `CUDA_BUILD_CACHE_DIR`"
                ),
            }),
            _ => Ok(place),
        }
    }

    /// A directory below `directory`. Its name is the release and a digest of the view's plan, so a
    /// toolkit with changed components gets a new view.
    pub fn below(directory: &Path, target: &Target) -> Self {
        Self {
            directory: std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned()),
            target: target.clone(),
            nvcc_wrapper: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(pairs: &[(&str, &str)]) -> Result<PathBuf, Error> {
        let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
        let windows = Target::from_triple("x86_64-pc-windows-msvc").unwrap();
        let refused = ViewPlace::from_env(&Env::default(), &windows)
            .map(drop)
            .unwrap_err();
        assert!(
            refused.to_string().contains("need a privilege"),
            "{refused:?}"
        );
        let env = Env::from_pairs(pairs.iter().copied());
        ViewPlace::from_env(&env, &target).map(|place| place.directory)
    }

    #[test]
    fn views_are_never_on_the_loader_path() {
        let out = "/w/target/debug/build/a-0123/out";
        let place = |views: &str| place(&[("OUT_DIR", out), (VIEWS_VARIABLE, views)]);
        for views in [out, "/w/target/debug", "/w/target/debug/cuda/views"] {
            let error = place(views).unwrap_err();
            assert!(matches!(error, Error::ViewNotCreated { .. }), "{views}");
        }
        assert!(place("/w/target/cuda/views").is_ok());
    }

    #[test]
    fn the_variable_precedes_the_cache() {
        let cache = Path::new("/h/.cache/cuda-build/views");
        assert_eq!(place(&[("HOME", "/h")]).unwrap(), cache);
        let named = place(&[("HOME", "/h"), (VIEWS_VARIABLE, "/v")]);
        assert_eq!(named.unwrap(), Path::new("/v"));
        let error = place(&[]).unwrap_err().to_string();
        assert!(error.contains("CUDA_BUILD_CACHE_DIR"), "{error}");
    }
}
