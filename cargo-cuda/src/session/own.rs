//! Which variables are this program's own doing, so that a `cargo cuda` under another one, or in a
//! shell that was given variables, does not take them for the user's wish.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cuda_build::Env;
use sha2::{Digest as _, Sha256};

use crate::environment::{Setting, is_path_list};
use crate::rustflags;

/// Names the variables that are our own doing, each with a digest of its value: another value is
/// the user's, who has set it since.
pub const OWN: &str = "CUDA_BUILD_ENVIRONMENT";

/// Names the view that is in lists and flags which hold more than ours. No variable that a build
/// script reads would do: the user may have set that one.
const VIEW: &str = "CUDA_BUILD_ENVIRONMENT_VIEW";

/// What `--capabilities` and `--major` asked for: wishes of the user's for everything below, until
/// `cargo cuda env` is asked again.
const WISHES: [&str; 2] = ["CUDA_BUILD_CAPABILITIES", "CUDA_BUILD_MAJOR"];

/// Adds the variables that tell which of the others are ours. `env` is the user's: flags that are
/// there already stay the user's, with ours among them.
pub fn name_own(variables: &mut Vec<Setting>, view: &Path, env: &Env) {
    variables.push(Setting {
        name: VIEW.to_owned(),
        value: view.into(),
        meaning: "which entries of lists are not the user's own",
    });
    let users = |name: &str| rustflags::is_variable(name) && is_set(env, name);
    let ours = variables
        .iter()
        .filter(|setting| !is_path_list(&setting.name) && !users(&setting.name));
    let mut own: Vec<String> = ours
        .map(|setting| entry(&setting.name, &setting.value))
        .collect();
    for wish in WISHES.into_iter().filter(|wish| is_wished(env, wish)) {
        if variables.iter().all(|setting| setting.name != wish) {
            own.extend(env.peek(wish).map(|value| entry(wish, value)));
        }
    }
    let value = own.join(" ").into();
    variables.push(Setting {
        name: OWN.to_owned(),
        value,
        meaning: "which of these are not the user's own",
    });
}

/// The user's own environment: without what an earlier `cargo cuda env` or `exec` put there, which
/// would be taken for the user's wish.
#[must_use]
pub fn users_own(env: &Env) -> Env {
    if env.peek(OWN).is_none() {
        return env.clone();
    }
    let own = entries(env);
    let view = env.peek(VIEW).map(PathBuf::from);
    let ours = |path: &Path| view.as_ref().is_some_and(|view| path.starts_with(view));
    Env::from_pairs(env.variables().filter_map(|(name, value)| {
        let text = name.to_str().unwrap_or_default();
        let named = own.contains(&entry(text, value).as_str());
        let left = if is_path_list(text) {
            without(value, ours)
        } else if rustflags::is_variable(text) {
            rustflags::without(text, value, named, ours)
        } else {
            (!named || WISHES.contains(&text)).then(|| value.to_owned())
        };
        Some((name.to_owned(), left?))
    }))
}

/// The same for a `cargo cuda env`, which says everything anew.
#[must_use]
pub fn anew(env: &Env) -> Env {
    let wished: Vec<&str> = WISHES
        .into_iter()
        .filter(|wish| is_wished(env, wish))
        .collect();
    let users = users_own(env);
    let kept = users
        .variables()
        .filter(|(name, _)| !wished.iter().any(|wish| *name == *wish));
    Env::from_pairs(kept.map(|(name, value)| (name.to_owned(), value.to_owned())))
}

/// What has to change in `process` so that it is `users` again: each variable with its value, `None`
/// where it goes away.
pub fn restored<'a>(
    process: &'a Env,
    users: &'a Env,
) -> impl Iterator<Item = (&'a OsStr, Option<&'a OsStr>)> {
    process.variables().filter_map(|(name, value)| {
        let left = users
            .variables()
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value);
        (left != Some(value)).then_some((name, left))
    })
}

/// Whether a variable is there, be it empty.
#[must_use]
pub fn is_set(env: &Env, name: &str) -> bool {
    env.variables().any(|(own, _)| own == name)
}

fn entries(env: &Env) -> Vec<&str> {
    env.peek(OWN)
        .and_then(OsStr::to_str)
        .unwrap_or_default()
        .split(' ')
        .collect()
}

fn entry(name: &str, value: &OsStr) -> String {
    let digest = Sha256::digest(value.as_encoded_bytes());
    let digest: String = digest
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{name}:{digest}")
}

fn is_wished(env: &Env, wish: &str) -> bool {
    env.peek(wish)
        .is_some_and(|value| entries(env).contains(&entry(wish, value).as_str()))
}

/// A list of directories without ours; `None` where nothing else is in it.
fn without(value: &OsStr, ours: impl Fn(&Path) -> bool) -> Option<OsString> {
    let all: Vec<PathBuf> = std::env::split_paths(value).collect();
    let rest: Vec<&PathBuf> = all.iter().filter(|path| !ours(path)).collect();
    if rest.len() == all.len() {
        return Some(value.to_owned());
    }
    std::env::join_paths(rest)
        .ok()
        .filter(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISH: &str = WISHES[0];

    fn all(env: &Env) -> Vec<(&str, &str)> {
        env.variables()
            .map(|(n, v)| (n.to_str().unwrap(), v.to_str().unwrap()))
            .collect()
    }

    #[test]
    fn what_was_put_there_before_is_not_the_users() {
        let own = [
            ("NVCC", "/v/bin/nvcc"),
            ("CUDACXX", "/v/bin/nvcc"),
            ("CARGO_TARGET_T_RUSTFLAGS", "-Lnative=/v/lib"),
            (WISH, "8.0"),
            (VIEW, "/v"),
        ];
        let own = own
            .map(|(name, value)| entry(name, value.as_ref()))
            .join(" ");
        let own = own.as_str();
        let env = Env::from_pairs([
            ("CARGO_BUILD_RUSTFLAGS", "--cfg mine -Lnative=/v/lib"),
            (
                "CARGO_ENCODED_RUSTFLAGS",
                "--cfg\u{1f}mine\u{1f}-Lnative=/v/lib\u{1f}-Lnative=/w",
            ),
            ("CARGO_TARGET_T_RUSTFLAGS", "-Lnative=/v/lib"),
            ("CUDA_BUILD_CAPABILITIES", "8.0"),
            ("CUDA_BUILD_ENVIRONMENT", own),
            ("CUDA_BUILD_ENVIRONMENT_VIEW", "/v"),
            ("CUDACXX", "/set/since/nvcc"),
            ("CUDA_HOME", "/own"),
            ("CUDA_PATH", "/v:/x"),
            ("CUDA_ROOT", "/own"),
            ("LIBRARY_PATH", "/v/lib:/v/lib/stubs"),
            ("NVCC", "/v/bin/nvcc"),
            ("PATH", "/v/bin:/bin"),
            ("RUSTFLAGS", "-Lnative=/v/lib"),
        ]);
        let users = users_own(&env);
        let left = [
            ("CARGO_BUILD_RUSTFLAGS", "--cfg mine"),
            (
                "CARGO_ENCODED_RUSTFLAGS",
                "--cfg\u{1f}mine\u{1f}-Lnative=/w",
            ),
            ("CUDACXX", "/set/since/nvcc"),
            ("CUDA_BUILD_CAPABILITIES", "8.0"),
            ("CUDA_BUILD_ENVIRONMENT", own),
            ("CUDA_HOME", "/own"),
            ("CUDA_PATH", "/v:/x"),
            ("CUDA_ROOT", "/own"),
            ("PATH", "/bin"),
            ("RUSTFLAGS", ""),
        ];
        assert_eq!(all(&users), left);
        assert_eq!(
            all(&anew(&env)),
            left.into_iter()
                .filter(|(n, _)| *n != WISH)
                .collect::<Vec<_>>()
        );
        let changes: Vec<_> = restored(&env, &users)
            .map(|(n, v)| (n.to_str().unwrap(), v))
            .collect();
        assert_eq!(changes.len(), 8, "{changes:?}");
        assert!(
            changes.contains(&("PATH", Some("/bin".as_ref()))) && changes.contains(&("NVCC", None))
        );
    }

    #[test]
    fn flags_that_the_user_has_are_not_ours_and_a_wish_stays_named() {
        let setting = |name: &str| Setting {
            name: name.to_owned(),
            value: "x".into(),
            meaning: "",
        };
        let named = |env: &[(&str, &str)], names: &[&str]| {
            let mut variables: Vec<_> = names.iter().map(|name| setting(name)).collect();
            name_own(
                &mut variables,
                Path::new("/v"),
                &Env::from_pairs(env.iter().copied()),
            );
            let value = variables.pop().unwrap().value.into_string().unwrap();
            value
                .split(' ')
                .map(|entry| entry.split(':').next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let names = ["PATH", "NVCC", "RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"];
        assert_eq!(
            named(&[("RUSTFLAGS", "")], &names),
            ["NVCC", "CARGO_BUILD_RUSTFLAGS", VIEW]
        );
        let above = entry(WISH, "8.0".as_ref());
        assert_eq!(
            named(&[(OWN, &above), (WISH, "8.0")], &["NVCC"]),
            ["NVCC", VIEW, WISH]
        );
        assert_eq!(
            named(&[(OWN, &above), (WISH, "9.0")], &["NVCC"]),
            ["NVCC", VIEW],
            "set since"
        );
        assert_eq!(named(&[(WISH, "8.0")], &["NVCC"]), ["NVCC", VIEW]);
    }
}
