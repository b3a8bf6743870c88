//! Where views are written, and views that exist.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::error::Error;
use cuda_find_core::{cache, env::Env, list::Set, root::Root, target::Target};

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
/// let root = Root::system();
/// let place = ViewPlace::from_env(&env, &target, &root)?;
/// let view = View::create(Build::new()?.toolkit()?, &place, &root, &env)?;
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
    /// [`Error::Find`] if no variable names a cache directory. [`Error::ViewNotCreated`] if the place is below
    /// Cargo's profile directory (`target/debug`): Cargo adds link search paths below that directory
    /// to the loader path of `cargo run`, so programs would load the stub of the driver.
    pub fn from_env(env: &Env, target: &Target, root: &Root) -> Result<Self, Error> {
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
        let profile = profile_directory_above(&place.directory, env, root);
        let Some(profile) = profile else {
            return Ok(place);
        };
        Err(Error::ViewNotCreated {
            path: directory,
            reason: format!(
                "Cargo puts libraries below {} on the loader path, and programs would load the stub of the driver",
                profile.display()
            ),
            hint: format!(
                "name another directory with `{VIEWS_VARIABLE}` or `CUDA_BUILD_CACHE_DIR`"
            ),
        })
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

/// The file by which a target directory of Cargo is known.
const CACHE_TAG: &str = "CACHEDIR.TAG";

/// The profile directory in which `place` lies: `<target>/<profile>` or `<target>/<triple>/<profile>`, in any target
/// directory of Cargo, because `build.build-dir` may put `OUT_DIR` into another one than programs. Cargo's layout below
/// a profile directory is not known here.
fn profile_directory_above(place: &Path, env: &Env, root: &Root) -> Option<PathBuf> {
    let own = own_profile_directory(env, root)?;
    if place.starts_with(&own) {
        return Some(own);
    }
    let profile = own.file_name()?;
    let is_target_directory = |path: &&Path| is_target_directory(path, root);
    let mut targets = place.ancestors().filter(is_target_directory);
    targets.find_map(|target| {
        let mut below = place.strip_prefix(target).unwrap_or(place).iter();
        let (first, second) = (below.next()?, below.next());
        if first == profile {
            return Some(target.join(first));
        }
        let second = second.filter(|second| is_triple(first, env) && *second == profile)?;
        Some(target.join(first).join(second))
    })
}

/// The profile directory in which `OUT_DIR` lies. Its name is the value of `PROFILE`, or that of a profile of the user's,
/// which is the first directory below Cargo's target directory, or below the directory of a platform there.
fn own_profile_directory(env: &Env, root: &Root) -> Option<PathBuf> {
    let out = Path::new(env.peek("OUT_DIR")?);
    let profile = env.peek("PROFILE");
    let has_its_name = |path: &&Path| path.file_name() == profile;
    let Some(target) = out.ancestors().find(|path| is_target_directory(path, root)) else {
        return out.ancestors().find(has_its_name).map(Path::to_owned);
    };
    let below = out.ancestors().take_while(|path| *path != target);
    let mut from_target: Vec<&Path> = below.collect();
    from_target.reverse();
    let is_no_triple = |path: &&Path| path.file_name().is_some_and(|it| !is_triple(it, env));
    let mut directories = from_target.into_iter();
    let named = directories.clone().find(has_its_name);
    named
        .or_else(|| directories.find(is_no_triple))
        .map(Path::to_owned)
}

/// Whether Cargo has created this directory as a target directory. Cargo writes no such file into a directory that existed
/// before.
fn is_target_directory(path: &Path, root: &Root) -> bool {
    root.is_file(&path.join(CACHE_TAG))
}

fn is_triple(name: &OsStr, env: &Env) -> bool {
    let mut triples = ["TARGET", "HOST"].into_iter().filter_map(|it| env.peek(it));
    triples.any(|triple| triple == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(root: &Root, pairs: &[(&str, &str)]) -> Result<PathBuf, Error> {
        let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
        let windows = Target::from_triple("x86_64-pc-windows-msvc").unwrap();
        let refused = ViewPlace::from_env(&Env::default(), &windows, root)
            .map(drop)
            .unwrap_err();
        assert!(
            refused.to_string().contains("need a privilege"),
            "{refused:?}"
        );
        let env = Env::from_pairs(pairs.iter().copied());
        ViewPlace::from_env(&env, &target, root).map(|place| place.directory)
    }

    #[test]
    #[allow(
        clippy::disallowed_methods,
        reason = "the test makes target directories"
    )]
    fn views_are_never_on_the_loader_path() {
        let top = tempfile::tempdir().unwrap();
        let at = |path: &str| top.path().join(path).to_str().unwrap().to_owned();
        for target in ["tagged", "build/tagged", "intermediate"] {
            std::fs::create_dir_all(at(target)).unwrap();
            std::fs::write(at(&format!("{target}/{CACHE_TAG}")), "").unwrap();
        }
        let root = Root::system();
        let triple = "x86_64-unknown-linux-gnu";
        let is_refused = |out: &str, profile: &str, views: &str| {
            let (out, views) = (at(out), at(views));
            let views = (VIEWS_VARIABLE, views.as_str());
            let pairs = [
                ("OUT_DIR", out.as_str()),
                ("PROFILE", profile),
                ("TARGET", triple),
                views,
            ];
            match place(&root, &pairs) {
                Ok(_) => false,
                Err(error) => matches!(error, Error::ViewNotCreated { .. }),
            }
        };
        // Any layout of Cargo's below the profile directory, a profile of the user's, a package below a directory called
        // `build`, a separate directory for intermediate files, and target directories that Cargo has not created.
        for (out, profile, inside) in [
            ("tagged/debug/private/out", "debug", "tagged/debug"),
            ("tagged/debug/some/private/out", "debug", "tagged/debug"),
            ("tagged/dist/build/build/0123/out", "release", "tagged/dist"),
            (
                "build/tagged/debug/some/private/out",
                "debug",
                "build/tagged/debug",
            ),
            (
                "intermediate/release/some/private/out",
                "release",
                "tagged/release",
            ),
            (
                "tagged/x86_64-unknown-linux-gnu/debug/some/private/out",
                "debug",
                "tagged/x86_64-unknown-linux-gnu/debug",
            ),
            (
                "tagged/debug/some/private/out",
                "debug",
                "tagged/x86_64-unknown-linux-gnu/debug",
            ),
            (
                "debug/plain/debug/some/private/out",
                "debug",
                "debug/plain/debug",
            ),
            (
                "tagged/tmp/debug/some/private/out",
                "debug",
                "tagged/tmp/debug",
            ),
        ] {
            for views in ["", "/cuda", "/cuda/views", "/some/private/out"] {
                assert!(
                    is_refused(out, profile, &format!("{inside}{views}")),
                    "{out} {views}"
                );
            }
        }
        for (out, profile, views) in [
            (
                "tagged/debug/some/private/out",
                "debug",
                "tagged/cuda/views",
            ),
            (
                "tagged/debug/some/private/out",
                "debug",
                "tagged/release/views",
            ),
            (
                "tagged/debug/some/private/out",
                "debug",
                "tagged/.cuda/views/debug",
            ),
            (
                "tagged/debug/some/private/out",
                "debug",
                "build/debug/views",
            ),
            ("debug/plain/debug/some/private/out", "debug", "debug/views"),
            (
                "tagged/tmp/debug/some/private/out",
                "debug",
                "tagged/tmp/views",
            ),
        ] {
            assert!(!is_refused(out, profile, views), "{out} {views}");
        }
    }

    #[test]
    fn the_variable_precedes_the_cache() {
        let cache = Path::new("/h/.cache/cuda-build/views");
        assert_eq!(place(&Root::system(), &[("HOME", "/h")]).unwrap(), cache);
        let named = place(&Root::system(), &[("HOME", "/h"), (VIEWS_VARIABLE, "/v")]);
        assert_eq!(named.unwrap(), Path::new("/v"));
        let error = place(&Root::system(), &[]).unwrap_err().to_string();
        assert!(error.contains("CUDA_BUILD_CACHE_DIR"), "{error}");
    }
}
