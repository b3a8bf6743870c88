//! The hooks of PEP 517 and PEP 660. A build backend in Python (`cuda_backend.py`) calls them, not a user.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cuda_build::internal::{Env, RequestedRelease, Root};
use serde_json::Value;

use crate::exit_code;
use crate::failure::Failure;
use crate::wheel::backend::Backend;
use crate::wheel::maturin::Mode;

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

/// The settings that a user gives to a frontend, as in `pip install . -C cuda=12`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub cuda: Option<RequestedRelease>,
    /// The site-packages of the environment in which an editable module is used.
    pub site_packages: Option<PathBuf>,
    /// Arguments for maturin.
    pub arguments: Vec<OsString>,
}

/// Runs a hook, and returns the name of the file or directory that it made.
pub fn run(arguments: &Pep517Args, user: &Env, root: &Root) -> Result<String, Failure> {
    let settings = Settings::parse(&arguments.config_settings)?;
    let (python, out) = (&arguments.python, &arguments.directory);
    let backend = Backend::open(&settings, python, out, user, root)?;
    let name = match arguments.hook {
        Hook::BuildSdist => backend.build_sdist(),
        Hook::BuildWheel => backend.build(Mode::Wheel),
        Hook::BuildEditable => backend.build(Mode::Editable),
        Hook::PrepareMetadata => backend.prepare_metadata(),
    };
    name.map(|name| name + "\n")
}

const SETTINGS_HINT: &str = "the settings are `cuda` (`-C cuda=13`), `build-args` (arguments for maturin, as in \
                            `-C build-args=--locked`) and `site-packages` (a directory)";

impl Settings {
    fn parse(json: &str) -> Result<Self, Failure> {
        let invalid = |reason: String| Failure::new(exit_code::USAGE, reason).hint(SETTINGS_HINT);
        let all: BTreeMap<String, Value> = serde_json::from_str(json)
            .map_err(|error| invalid(format!("the config settings are not valid JSON: {error}")))?;
        let mut settings = Self::default();
        for (name, value) in all {
            let text = || {
                let text = value.as_str().map(str::to_owned);
                text.ok_or_else(|| {
                    invalid(format!(
                        "the config setting `{name}` is {value}, not one text"
                    ))
                })
            };
            match name.as_str() {
                "cuda" => {
                    let release = text()?.parse();
                    let release = release.map_err(|reason| {
                        invalid(format!("the config setting `cuda`: {reason}"))
                    })?;
                    settings.cuda = Some(release);
                }
                "site-packages" => settings.site_packages = Some(text()?.into()),
                "build-args" | "maturin.build-args" => settings.arguments = words(&name, &value)?,
                _ => {
                    return Err(invalid(format!("unknown config setting `{name}`")));
                }
            }
        }
        Ok(settings)
    }
}

/// The words of a text, as a shell splits it, or the texts of a list.
fn words(name: &str, value: &Value) -> Result<Vec<OsString>, Failure> {
    let words = match value {
        Value::String(text) => shlex::split(text),
        Value::Array(list) => list
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect(),
        _ => None,
    };
    let words = words.ok_or_else(|| {
        let text = format!("the config setting `{name}` is {value}, not a list of arguments");
        Failure::new(exit_code::USAGE, text).hint(SETTINGS_HINT)
    })?;
    Ok(words.into_iter().map(OsString::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_frontends_are_understood() {
        assert_eq!(Settings::parse("{}").unwrap(), Settings::default());
        let json = r#"{"cuda": "13.4", "build-args": "--features 'a b'", "site-packages": "/s"}"#;
        let settings = Settings::parse(json).unwrap();
        assert_eq!(settings.cuda.unwrap().to_string(), "13.4");
        assert_eq!(settings.arguments, ["--features", "a b"]);
        assert_eq!(settings.site_packages.unwrap(), PathBuf::from("/s"));
        let list = Settings::parse(r#"{"maturin.build-args": ["--features", "a b"]}"#).unwrap();
        assert_eq!(list.arguments, ["--features", "a b"]);
    }

    #[test]
    fn wrong_settings_are_errors() {
        for (json, expected) in [
            ("", "not valid JSON"),
            (r#"{"cuad": "12"}"#, "unknown config setting `cuad`"),
            (r#"{"cuda": "twelve"}"#, "config setting `cuda`"),
            (r#"{"cuda": ["12", "13"]}"#, "not one text"),
            (r#"{"build-args": "'open"}"#, "not a list of arguments"),
            (r#"{"build-args": [1]}"#, "not a list of arguments"),
        ] {
            let error = Settings::parse(json).unwrap_err();
            assert_eq!(error.code, exit_code::USAGE);
            assert!(error.message.contains(expected), "{error}");
        }
    }
}
