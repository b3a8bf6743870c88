//! The hooks of PEP 517 and PEP 660. A build backend in Python (`cuda_backend.py`) calls them, not a user.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cuda_find_core::{env::Env, root::Root};
use serde::Deserialize;

use crate::failure::{Failure, Result};
use crate::wheel::backend::{Backend, BackendSettings};
use crate::wheel::build::Mode;

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

/// The frontend's `config_settings`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct ConfigSettings {
    cuda: Option<String>,
    site_packages: Option<PathBuf>,
    #[serde(alias = "maturin.build-args")]
    build_args: Option<Words>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    /// Words as a shell splits them.
    Line(String),
    List(Vec<String>),
}

/// Runs a hook, and returns the name of the file or directory that it made.
pub fn run(arguments: &Pep517Args, user_env: &Env, root: &Root) -> Result<String> {
    let settings = settings(&arguments.config_settings).map_err(|reason| {
        let text = format!("the config settings are not valid: {reason}");
        Failure::usage(text).hint(
            "the settings are `cuda` (`-C cuda=13`), `build-args` (arguments for maturin, as in \
             `-C build-args=--locked`) and `site-packages` (a directory)",
        )
    })?;
    let (python, out) = (&arguments.python, &arguments.directory);
    let backend = Backend::open(&settings, python, out, user_env, root)?;
    let name = match arguments.hook {
        Hook::BuildSdist => backend.build_sdist(),
        Hook::BuildWheel => backend.build(Mode::Wheel),
        Hook::BuildEditable => backend.build(Mode::Editable),
        Hook::PrepareMetadata => backend.prepare_metadata(),
    };
    name.map(|name| name + "\n")
}

fn settings(json: &str) -> Result<BackendSettings, String> {
    let settings: ConfigSettings = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let arguments = match settings.build_args {
        None => Vec::new(),
        Some(Words::List(list)) => list,
        Some(Words::Line(line)) => shlex::split(&line)
            .ok_or_else(|| format!("`build-args` has an open quotation mark: {line}"))?,
    };
    Ok(BackendSettings {
        cuda: settings.cuda.map(|cuda| cuda.parse()).transpose()?,
        site_packages: settings.site_packages,
        arguments: arguments.into_iter().map(OsString::from).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_frontends_are_understood() {
        let json = r#"{"cuda": "13.4", "build-args": "--features 'a b'", "site-packages": "/s"}"#;
        let found = settings(json).unwrap();
        assert_eq!(found.cuda.unwrap().to_string(), "13.4");
        assert_eq!(found.arguments, ["--features", "a b"]);
        assert_eq!(found.site_packages.unwrap(), PathBuf::from("/s"));
        let list = settings(r#"{"maturin.build-args": ["--features", "a b"]}"#).unwrap();
        assert_eq!(list.arguments, ["--features", "a b"]);
        assert!(settings("{}").unwrap().cuda.is_none());
    }

    #[test]
    fn wrong_settings_are_errors() {
        for (json, expected) in [
            ("", "EOF"),
            (r#"{"cuad": "12"}"#, "unknown field `cuad`"),
            (r#"{"cuda": "twelve"}"#, "twelve"),
            (r#"{"cuda": ["12", "13"]}"#, "expected a string"),
            (r#"{"build-args": "'open"}"#, "open quotation mark"),
            (r#"{"build-args": [1]}"#, "did not match"),
        ] {
            let error = settings(json).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
