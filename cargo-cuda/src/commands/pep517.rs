//! The hooks of PEP 517 and PEP 660. A build backend in Python (`cuda_backend.py`) calls them, not a user.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cuda_find_core::{env::Env, root::Root};

use crate::failure::{Failure, Result};
use crate::wheel::backend::{Backend, BackendSettings, split_words};

/// The hooks of PEP 517 and PEP 660, for a build backend in Python
#[derive(Args, Clone, Debug)]
pub struct Pep517Args {
    hook: Hook,
    /// The directory for the result
    directory: PathBuf,
    /// The interpreter that runs the build backend
    #[arg(long)]
    python: PathBuf,
    /// The frontend's `config_settings`, as JSON
    #[arg(long, default_value = "{}")]
    config_settings: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Hook {
    BuildSdist,
    BuildWheel,
    BuildEditable,
    PrepareMetadata,
}

/// The variable of maturin's build backend with arguments, if there are none in the settings.
const ARGUMENTS: &str = "MATURIN_PEP517_ARGS";

const SETTINGS: &str = "the settings are `cuda` (`-C cuda=13`), `build-args` (arguments for maturin, as in \
                        `-C build-args=--locked`), `site-packages` (a directory) and `allow` (codes of checks)";

/// Runs a hook, and returns the name of the file or directory that it made.
pub fn run(arguments: &Pep517Args, user_env: &Env, root: &Root) -> Result<String> {
    let settings = settings(&arguments.config_settings, user_env).map_err(|reason| {
        let text = format!("the config settings are not valid: {reason}");
        Failure::usage(text).hint(SETTINGS)
    })?;
    let (python, out) = (&arguments.python, &arguments.directory);
    let backend = Backend::open(&settings, python, out, user_env, root)?;
    let name = match arguments.hook {
        Hook::BuildSdist => backend.build_sdist(),
        Hook::BuildWheel => backend.build(false),
        Hook::BuildEditable => backend.build(true),
        Hook::PrepareMetadata => backend.prepare_metadata(),
    };
    name.map(|name| name + "\n")
}

fn settings(json: &str, user_env: &Env) -> Result<BackendSettings, String> {
    let mut settings: BackendSettings =
        serde_json::from_str(json).map_err(|error| error.to_string())?;
    if settings.arguments.is_empty() {
        settings.arguments = split_words(&user_env.text(ARGUMENTS).unwrap_or_default())?;
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_frontends_are_understood() {
        let json = r#"{"cuda": "13.4", "build-args": "--features 'a b'", "site-packages": "/s"}"#;
        let settings = |json: &str| settings(json, &Env::default());
        let found = settings(json).unwrap();
        assert_eq!(found.cuda.unwrap().to_string(), "13.4");
        assert_eq!(found.arguments, ["--features", "a b"]);
        assert_eq!(found.site_packages.unwrap(), PathBuf::from("/s"));
        let list = settings(r#"{"maturin.build-args": ["--features", "a b"]}"#).unwrap();
        assert_eq!(list.arguments, ["--features", "a b"]);
        assert!(settings("{}").unwrap().cuda.is_none());
        let of_others = settings(r#"{"editable_mode": "compat", "--x": ["y"], "cuda": "12"}"#);
        assert_eq!(of_others.unwrap().cuda.unwrap().major, 12);
    }

    #[test]
    fn wrong_settings_are_errors() {
        for (json, expected) in [
            ("", "EOF"),
            (r#"{"cuda": "twelve"}"#, "twelve"),
            (r#"{"cuda": ["12", "13"]}"#, "expected a string"),
            (r#"{"build-args": "'open"}"#, "open quotation mark"),
            (r#"{"build-args": [1]}"#, "did not match"),
        ] {
            let error = settings(json, &Env::default()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_variable_of_maturin_has_the_arguments_if_the_settings_have_none() {
        let env = Env::from_pairs([(ARGUMENTS, "--features 'a b'")]);
        let arguments = |json: &str| settings(json, &env).unwrap().arguments;
        assert_eq!(arguments("{}"), ["--features", "a b"]);
        assert_eq!(arguments(r#"{"build-args": "--locked"}"#), ["--locked"]);
    }
}
