//! Which variables are this program's own doing, so that a `cargo cuda` under another one does not
//! take them for the user's wish.

use std::path::PathBuf;

use cuda_build::Env;

use crate::environment::Setting;

/// Adds the variable that names the others, so that another `cargo cuda` under this one does not
/// take them for the user's wish. Capabilities are the user's.
pub fn name_own(variables: &mut Vec<Setting>) {
    let names = variables.iter().map(|setting| setting.name.as_str());
    let own: Vec<&str> =
        names.filter(|name| !LISTS.contains(name) && *name != "CUDA_BUILD_CAPABILITIES").collect();
    let value = own.join(" ").into();
    variables.push(Setting { name: OWN.to_owned(), value, meaning: "which of these are not the user's own" });
}

/// Names the variables that are our own doing.
pub const OWN: &str = "CUDA_BUILD_ENVIRONMENT";

/// Variables that hold more than ours.
const LISTS: [&str; 3] = ["PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH"];

/// The user's own environment: without what an earlier `cargo cuda env` or `exec` put there, which
/// would be taken for the user's wish.
#[must_use]
pub fn users_own(env: &Env) -> Env {
    let Some(own) = env.peek(OWN).map(|own| own.to_string_lossy().into_owned()) else { return env.clone() };
    let own: Vec<&str> = own.split(' ').collect();
    let view = own.contains(&"CUDA_ROOT").then(|| env.peek("CUDA_ROOT")).flatten().map(PathBuf::from);
    let kept = env.variables().filter(|(name, _)| !own.iter().any(|own| name == own));
    Env::from_pairs(kept.map(|(name, value)| {
        let list = LISTS.iter().any(|list| name == *list);
        if !list {
            return (name.to_owned(), value.to_owned());
        }
        let ours = |path: &PathBuf| view.as_ref().is_some_and(|view| path.starts_with(view));
        let rest = std::env::split_paths(value).filter(|path| !ours(path));
        (name.to_owned(), std::env::join_paths(rest).unwrap_or_else(|_| value.to_owned()))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_there_before_is_not_the_users() {
        let env = Env::from_pairs([
            ("CUDA_BUILD_ENVIRONMENT", "CUDA_ROOT NVCC"),
            ("CUDA_ROOT", "/v"),
            ("NVCC", "/v/bin/nvcc"),
            ("CUDA_HOME", "/own"),
            ("PATH", "/v/bin:/bin"),
            ("CUDA_PATH", "/v:/x"),
        ]);
        let own = users_own(&env);
        let left: Vec<_> = own.variables().map(|(n, v)| (n.to_str().unwrap(), v.to_str().unwrap())).collect();
        assert_eq!(left[0], ("CUDA_BUILD_ENVIRONMENT", "CUDA_ROOT NVCC"));
        assert_eq!(left[1..], [("CUDA_HOME", "/own"), ("CUDA_PATH", "/v:/x"), ("PATH", "/bin")]);
    }
}
