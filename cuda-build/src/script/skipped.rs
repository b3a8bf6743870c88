//! A build without CUDA: for docs.rs, for lints and documentation on machines without CUDA, and on platforms that CUDA
//! does not support.

#[cfg(feature = "view")]
use std::ffi::OsString;

use super::{Build, Built};
use crate::directive::{Directive, Directives};
use crate::env::Env;
use crate::error::Error;

/// The variable with which a user skips the build of CUDA code.
const VARIABLE: &str = "CUDA_BUILD_SKIP";

/// Set by docs.rs, where no CUDA is installed.
const DOCS_RS: &str = "DOCS_RS";

/// The `cfg` of a crate that was built without CUDA.
const CFG: &str = "cuda_build_skipped";

/// The name of the variable because of which CUDA code is not built: `CUDA_BUILD_SKIP=1`, or any value of `DOCS_RS`
/// unless `CUDA_BUILD_SKIP` is `0`. `None` if CUDA code is built.
///
/// # Errors
/// [`Error::Manifest`] if `CUDA_BUILD_SKIP` is neither `1` nor `0`. An empty value counts as unset.
pub fn skipped_by(env: &Env) -> Result<Option<&'static str>, Error> {
    // Both variables are read, so that both are declared to Cargo.
    let on_docs_rs = env.get(DOCS_RS).map(|_| DOCS_RS);
    match env.get(VARIABLE).map(|value| value.to_string_lossy()) {
        None => Ok(on_docs_rs),
        Some(value) if value == "1" => Ok(Some(VARIABLE)),
        Some(value) if value == "0" => Ok(None),
        Some(value) => Err(Error::variable(
            VARIABLE,
            format!("`{value}` is neither `1` (build without CUDA) nor `0` (build with CUDA)"),
        )),
    }
}

/// Declares the `cfg` of a skipped build, without setting it.
pub(super) fn declare_cfg(directives: &mut Directives) {
    directives.push(Directive::CheckCfg(CFG.to_owned()));
}

impl Build {
    /// Whether [`Build::run`] builds without CUDA, because `CUDA_BUILD_SKIP` is `1` or `DOCS_RS` is set.
    ///
    /// Then there is no toolkit and no view, and [`Build::toolkit`] and [`Build::view`] return an error. A build script
    /// that calls one of them starts with
    ///
    /// ```no_run
    /// # fn main() -> Result<(), cuda_build::Error> {
    /// let build = cuda_build::Build::new()?;
    /// if build.is_skipped() {
    ///     build.run()?;
    ///     return Ok(());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_skipped(&self) -> bool {
        self.skipped_by.is_some()
    }

    /// An error in a skipped build, for functions that need a toolkit.
    pub(super) fn check_not_skipped(&self) -> Result<(), Error> {
        let Some(variable) = self.skipped_by else {
            return Ok(());
        };
        Err(Error::Usage {
            reason: format!(
                "no CUDA toolkit is searched for, because `{variable}` is set, but the build script needs one"
            ),
            hint: format!(
                "unset `{variable}`; or, in build.rs, call only `Build::run` if `Build::is_skipped` returns true"
            ),
        })
    }

    /// Writes the generated source with empty modules, and prints the directives of a build that links nothing.
    pub(super) fn run_skipped(self, variable: &str) -> Result<Built, Error> {
        let mut directives = Directives::default();
        #[cfg(feature = "compile")]
        self.write_empty_source()?;
        declare_cfg(&mut directives);
        directives.push(Directive::Cfg(CFG.to_owned()));
        self.declare_optional_components(&mut directives);
        #[cfg(feature = "view")]
        if let Some(name) = self.root_variable.clone() {
            let value = OsString::new();
            directives.push(Directive::RustcEnv { name, value });
        }
        directives.push(Directive::Warning(format!(
            "built without CUDA, because `{variable}` is set: modules are empty, and nothing is linked"
        )));
        directives.rerun_if_changed(self.manifests());
        self.declare_variables(&mut directives);
        directives.emit()?;
        Ok(Built {
            toolkit: None,
            #[cfg(feature = "compile")]
            plan: None,
            #[cfg(feature = "compile")]
            compiled: crate::compile::Compiled::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_variable_has_priority() {
        for (skip, docs_rs, expected) in [
            (None, None, None),
            (Some(""), Some(""), None),
            (Some("0"), None, None),
            (Some("1"), None, Some("CUDA_BUILD_SKIP")),
            (None, Some("1"), Some("DOCS_RS")),
            (Some("1"), Some("1"), Some("CUDA_BUILD_SKIP")),
            (Some("0"), Some("1"), None),
            (Some(""), Some("1"), Some("DOCS_RS")),
        ] {
            let pairs = [(VARIABLE, skip), (DOCS_RS, docs_rs)];
            let set = pairs
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)));
            let env = Env::from_pairs(set);
            assert_eq!(skipped_by(&env).unwrap(), expected, "{pairs:?}");
            assert_eq!(env.names_read(), [VARIABLE, DOCS_RS]);
        }
    }

    #[test]
    fn other_values_are_refused() {
        for value in ["maybe", "true", "2", " 1"] {
            let env = Env::from_pairs([(VARIABLE, value)]);
            let error = skipped_by(&env).unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{value}` is neither `1`")),
                "{error}"
            );
        }
    }
}
