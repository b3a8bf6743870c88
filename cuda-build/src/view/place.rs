//! Where views are written.

use std::path::{Path, PathBuf};

use super::View;
use super::content;
use super::write::{self, Destination};
use crate::component::Component;
use crate::env::Env;
use crate::error::Error;
use crate::root::Root;
use crate::store;
use crate::target::Target;
use crate::toolkit::Toolkit;

/// The variable that names the directory of views. `cargo cuda` sets it for build scripts.
const VARIABLE: &str = "CUDA_BUILD_VIEWS";

/// Where a view is written, and what it contains.
///
/// ```no_run
/// # fn main() -> Result<(), cuda_build::Error> {
/// use cuda_build::internal::{Env, Root, Target, ViewPlace};
/// use cuda_build::Build;
/// let target = Target::from_triple("x86_64-unknown-linux-gnu")?;
/// let place = ViewPlace::from_env(&Env::from_process(), &target)?;
/// let view = Build::new()?.toolkit()?.view(&place, &Root::system())?;
/// assert!(view.lib().starts_with(view.root()));
/// # Ok(())
/// # }
/// ```
pub struct ViewPlace {
    /// The directory that was given to [`ViewPlace::at`] or [`ViewPlace::below`].
    pub directory: PathBuf,
    /// Whether `directory` is the view's own path. Otherwise the view is below it.
    exact: bool,
    pub(super) target: Target,
    /// The components that the view must have. Components that these need are added. `None` for the whole toolkit.
    pub components: Option<Vec<Component>>,
    /// Whether the view has the static archives of all libraries. They are several gigabytes, most of the size of
    /// CUDA 13. If false, the view still has `cudart_static`, `cudadevrt` and `culibos`.
    pub archives: bool,
    /// Whether files are copied instead of linked, so that the view works on another machine.
    pub copy: bool,
}

impl ViewPlace {
    /// The usual place: `CUDA_BUILD_VIEWS`, which `cargo cuda` sets, otherwise `views` in the user's
    /// cache directory (see [`store::cache_dir`]).
    ///
    /// # Errors
    /// [`Error::Usage`] if no variable names a cache directory. [`Error::ViewNotCreated`] if the place is below
    /// Cargo's profile directory (`target/debug`): Cargo adds link search paths below that directory
    /// to the loader path of `cargo run`, so programs would load the stub of the driver.
    pub fn from_env(env: &Env, target: &Target) -> Result<Self, Error> {
        let named = env.peek(VARIABLE).map(PathBuf::from);
        let directory = match named {
            Some(named) => named,
            None => store::required_cache_dir(env)?.join("views"),
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
                hint: format!("name another directory with `{VARIABLE}` or `CUDA_BUILD_CACHE_DIR`"),
            }),
            _ => Ok(place),
        }
    }

    /// A directory below `directory`. Its name is the release and a digest of the view's plan, so a
    /// toolkit with changed components gets a new view.
    pub fn below(directory: &Path, target: &Target) -> Self {
        Self {
            directory: std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned()),
            exact: false,
            target: target.clone(),
            components: None,
            archives: false,
            copy: false,
        }
    }

    /// Exactly `directory`. An existing view is replaced. If files in the view were added or changed, or if
    /// the directory contains anything but a view, `Toolkit::view` returns an error.
    pub fn at(directory: &Path, target: &Target) -> Self {
        Self {
            exact: true,
            ..Self::below(directory, target)
        }
    }
}

impl Toolkit {
    /// Writes the view of this toolkit. A complete view is not touched; a damaged view is written again.
    ///
    /// # Errors
    /// [`Error::ViewConflict`] if components have different files of the same name;
    /// [`Error::ViewNotCreated`] if the path contains anything but a view, or if another user may have
    /// changed the view; [`Error::Io`].
    #[doc(hidden)]
    pub fn view(&self, place: &ViewPlace, root: &Root) -> Result<View, Error> {
        let plan = content::plan(self, root, place)?;
        let digest = plan.digest();
        let path = if place.exact {
            place.directory.clone()
        } else {
            place.directory.join(format!("{}-{digest}", self.version()))
        };
        if path.file_name().is_none() {
            return Err(Error::ViewNotCreated {
                path,
                reason: "it is the root of the file system, or ends with `..`".to_owned(),
                hint: "name another directory".to_owned(),
            });
        }
        let destination = Destination {
            path: &path,
            digest: &digest,
            named_by_user: place.exact,
        };
        let made = write::write(&plan, root, &destination)?;
        Ok(View {
            path,
            paths: plan.entries.into_iter().map(|(path, _)| path).collect(),
            made,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target::from_triple("x86_64-unknown-linux-gnu").unwrap()
    }

    #[test]
    fn views_are_never_on_the_loader_path() {
        let out = "/w/target/debug/build/a-0123/out";
        let env = |views: &str| Env::from_pairs([("OUT_DIR", out), ("CUDA_BUILD_VIEWS", views)]);
        let place = |views: &str| ViewPlace::from_env(&env(views), &target());
        for views in [out, "/w/target/debug", "/w/target/debug/cuda/views"] {
            assert!(
                matches!(place(views), Err(Error::ViewNotCreated { .. })),
                "{views}"
            );
        }
        assert!(place("/w/target/cuda/views").is_ok());
    }

    #[test]
    fn the_variable_precedes_the_cache() {
        let place = |pairs: &[(&str, &str)]| {
            ViewPlace::from_env(&Env::from_pairs(pairs.iter().copied()), &target())
                .map(|p| p.directory)
        };
        assert_eq!(
            place(&[("HOME", "/h")]).unwrap(),
            Path::new("/h/.cache/cuda-build/views")
        );
        assert_eq!(
            place(&[("HOME", "/h"), (VARIABLE, "/v")]).unwrap(),
            Path::new("/v")
        );
        assert!(
            place(&[])
                .unwrap_err()
                .to_string()
                .contains("CUDA_BUILD_CACHE_DIR")
        );
    }
}
