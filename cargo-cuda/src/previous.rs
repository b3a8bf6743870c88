//! Removes the variables that an outer `cargo cuda` has set, for example `cargo cuda env` or `exec`.
//!
//! If such a variable, for example `CUDA_HOME`, stayed in the environment, it would look like the
//! user's choice of a toolkit. So a command records the variables that it sets in one more variable,
//! and every command starts by removing the recorded variables. A variable whose value has changed
//! since it was recorded is kept.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use cuda_build::internal::{Env, RequestedRelease};

use crate::environment::{Setting, is_path_list};

/// The record: a JSON list of names and values. For a list of directories, the value contains only
/// the added directories.
pub const RECORD: &str = "CUDA_BUILD_ENVIRONMENT";

/// The variables that hold the options `--cuda` and `--capabilities` of `env` and `exec`. They apply
/// to every `cargo cuda` in the shell or program that gets them, until `env` runs again.
const REQUESTS: [&str; 2] = [RequestedRelease::VARIABLE, "CUDA_BUILD_CAPABILITIES"];

/// The variable that records `settings`, which are set on top of `env`. Requests that `env` contains
/// from an earlier record are recorded again.
pub fn record(settings: &[Setting], env: &Env) -> Setting {
    let own = |setting: &Setting| {
        let value = match env.peek(&setting.name) {
            Some(own) if is_path_list(&setting.name) => without_entries(&setting.value, own)?,
            _ => setting.value.clone(),
        };
        Some((setting.name.clone(), value.into_string().ok()?))
    };
    let mut added: Vec<(String, String)> = settings.iter().filter_map(own).collect();
    added.extend(recorded(env).into_iter().filter(|(name, value)| {
        REQUESTS.contains(&name.as_str())
            && env.peek(name) == Some(OsStr::new(value))
            && settings.iter().all(|setting| setting.name != *name)
    }));
    Setting::new(
        RECORD,
        serde_json::to_string(&added).unwrap_or_default(),
        "the variables that cargo cuda has set: cargo cuda",
    )
}

/// The environment without its recorded variables, except `REQUESTS`.
pub fn without(env: &Env) -> Env {
    let mut recorded = recorded(env);
    recorded.retain(|(name, _)| !REQUESTS.contains(&name.as_str()));
    stripped(env, &recorded)
}

/// The environment without any of its recorded variables.
pub fn without_previous_env_and_requests(env: &Env) -> Env {
    stripped(env, &recorded(env))
}

/// The variables of `env` that have another value in `stripped`, each with that value, or `None` if
/// `stripped` does not have the variable.
pub fn removed<'a>(
    env: &'a Env,
    stripped: &'a Env,
) -> impl Iterator<Item = (&'a OsStr, Option<&'a OsStr>)> {
    env.variables().filter_map(|(name, value)| {
        let left = stripped
            .variables()
            .find_map(|(own, value)| (own == name).then_some(value));
        (left != Some(value)).then_some((name, left))
    })
}

fn recorded(env: &Env) -> Vec<(String, String)> {
    let text = env.peek(RECORD).and_then(OsStr::to_str).unwrap_or("[]");
    serde_json::from_str(text).unwrap_or_default()
}

fn stripped(env: &Env, recorded: &[(String, String)]) -> Env {
    Env::from_pairs(env.variables().filter_map(|(name, value)| {
        let added = recorded
            .iter()
            .find_map(|(own, added)| (name == own.as_str()).then_some(added));
        let left = match added {
            None => value.to_owned(),
            Some(added) if name.to_str().is_some_and(is_path_list) => {
                without_entries(value, added.as_ref())?
            }
            Some(added) if value == added.as_str() => return None,
            Some(_) => value.to_owned(),
        };
        Some((name.to_owned(), left))
    }))
}

/// The directories of `list` that are not in `others`; `None` if no directory is left.
fn without_entries(list: &OsStr, others: &OsStr) -> Option<OsString> {
    let others: BTreeSet<PathBuf> = std::env::split_paths(others).collect();
    let left = std::env::split_paths(list).filter(|directory| !others.contains(directory));
    std::env::join_paths(left)
        .ok()
        .filter(|left| !left.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, value: &str) -> Setting {
        Setting {
            name: name.to_owned(),
            value: value.into(),
            meaning: "",
        }
    }

    fn with(env: &Env, settings: &[Setting]) -> Env {
        let record = record(settings, env);
        settings
            .iter()
            .chain([&record])
            .fold(env.clone(), |env, setting| {
                env.with(&setting.name, setting.value.clone())
            })
    }

    fn pairs(env: &Env) -> Vec<(&str, &str)> {
        env.variables()
            .map(|(name, value)| (name.to_str().unwrap(), value.to_str().unwrap()))
            .filter(|(name, _)| *name != RECORD)
            .collect()
    }

    #[test]
    fn what_was_set_before_is_removed() {
        let user = Env::from_pairs([("HOME", "/h"), ("PATH", "/bin:/usr/bin")]);
        let settings = [
            setting("PATH", "/v/bin:/bin:/usr/bin"),
            setting("LIBRARY_PATH", "/v/lib"),
            setting("CUDA_HOME", "/v"),
            setting("CUDA_BUILD_RELEASE", "12"),
        ];
        let set = with(&user, &settings);
        assert_eq!(
            pairs(&without_previous_env_and_requests(&set)),
            pairs(&user)
        );
        assert_eq!(
            pairs(&without(&set)),
            [
                ("CUDA_BUILD_RELEASE", "12"),
                ("HOME", "/h"),
                ("PATH", "/bin:/usr/bin")
            ]
        );
        let stripped = without_previous_env_and_requests(&set);
        let changed: Vec<_> = removed(&set, &stripped).map(|(name, _)| name).collect();
        assert!(changed.contains(&OsStr::new("CUDA_HOME")), "{changed:?}");
        assert!(!changed.contains(&OsStr::new("HOME")), "{changed:?}");
    }

    #[test]
    fn what_the_user_has_changed_since_stays() {
        let set = with(
            &Env::from_pairs([("PATH", "/bin")]),
            &[setting("CUDA_HOME", "/v"), setting("PATH", "/v/bin:/bin")],
        );
        let changed = set.with("CUDA_HOME", "/own").with("PATH", "/mine:/v/bin");
        assert_eq!(
            pairs(&without(&changed)),
            [("CUDA_HOME", "/own"), ("PATH", "/mine")]
        );
    }

    #[test]
    fn a_request_is_recorded_through_several_levels() {
        let first = with(&Env::default(), &[setting("CUDA_BUILD_RELEASE", "12")]);
        let second = with(&without(&first), &[setting("CUDA_HOME", "/v")]);
        assert_eq!(pairs(&without_previous_env_and_requests(&second)), []);
        let own = without(&first).with("CUDA_BUILD_RELEASE", "11");
        let third = with(&own, &[setting("CUDA_HOME", "/v")]);
        assert_eq!(
            pairs(&without_previous_env_and_requests(&third)),
            [("CUDA_BUILD_RELEASE", "11")]
        );
    }
}
