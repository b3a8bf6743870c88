//! The environment of installers. The user's settings decide where packages come from, but not how
//! and where they are installed.

use std::ffi::{OsStr, OsString};
use std::path::absolute;

use cuda_build::internal::{Env, Root};

/// The absolute directories of `PATH`. Relative directories are omitted, because installers start in
/// another directory.
pub(super) fn search_path(env: &Env) -> OsString {
    let directories = env.search_path().into_iter();
    std::env::join_paths(directories.filter(|directory| directory.is_absolute()))
        .unwrap_or_default()
}

/// pip reads every option from a variable `PIP_<OPTION>`. The variables of these options are kept,
/// because they concern the source and the download of packages. All others, such as `PIP_TARGET`, are
/// removed.
const PIP_KEPT: &str = "CACHE_DIR CERT CLIENT_CERT CONFIG_FILE CONSTRAINT DEFAULT_TIMEOUT EXTRA_INDEX_URL \
     FIND_LINKS INDEX_URL KEYRING_PROVIDER NO_CACHE_DIR NO_INDEX PROXY RESUME_RETRIES RETRIES TIMEOUT \
     TRUSTED_HOST UPLOADED_PRIOR_TO USE_DEPRECATED USE_FEATURE";

/// The variables of uv that are removed, because they change what is installed, how, or where.
const UV_DROPPED: &str = "UV_BREAK_SYSTEM_PACKAGES UV_COMPILE_BYTECODE UV_CUSTOM_COMPILE_COMMAND UV_LINK_MODE \
     UV_NO_BINARY UV_NO_BUILD UV_NO_VERIFY_HASHES UV_ONLY_BINARY UV_OVERRIDE UV_PRERELEASE UV_PROJECT UV_PYTHON \
     UV_REQUIRE_HASHES UV_RESOLUTION UV_SYSTEM_PYTHON UV_TORCH_BACKEND UV_WORKING_DIR UV_WORKING_DIRECTORY";

/// Variables that are set to fixed values. They override the same settings in configuration files.
const OVERRIDES: &str = "NO_COLOR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_DRY_RUN=0 PIP_FORCE_REINSTALL=0 \
     PIP_NO_DEPS=0 PIP_NO_INPUT=1 PIP_PRE=0 PIP_QUIET=0 PIP_REQUIRE_HASHES=0 PIP_REQUIRE_VIRTUALENV=0 \
     PIP_UPGRADE=0 PIP_USER=0 PIP_VERBOSE=0 UV_NO_PROGRESS=1";

/// Variables that contain paths. Some contain several paths or URLs, separated by blanks or commas.
const PATHS: &str = "CURL_CA_BUNDLE NETRC PIP_CACHE_DIR PIP_CERT PIP_CLIENT_CERT PIP_CONFIG_FILE PIP_CONSTRAINT \
     PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_INDEX_URL REQUESTS_CA_BUNDLE SSL_CERT_DIR SSL_CERT_FILE \
     SSL_CLIENT_CERT UV_CACHE_DIR UV_CONFIG_FILE UV_CONSTRAINT UV_CREDENTIALS_DIR UV_DEFAULT_INDEX \
     UV_EXTRA_INDEX_URL UV_FIND_LINKS UV_INDEX UV_INDEX_URL UV_PYTHON_INSTALL_DIR";

/// Whether `name` is one of the `words`.
fn has(words: &str, name: &str) -> bool {
    words.split_whitespace().any(|word| word == name)
}

/// The environment of an installer. Settings of how and where to install are removed. Relative paths
/// are made absolute, because the installer starts in another directory.
pub(super) fn settings(env: &Env) -> Env {
    let is_kept = |name: &str| match name.strip_prefix("PIP_") {
        Some(option) => has(PIP_KEPT, &option.to_ascii_uppercase()),
        None => !has(UV_DROPPED, name),
    };
    let kept = env
        .variables()
        .filter(|(name, _)| name.to_str().is_none_or(is_kept))
        .map(|(name, value)| (name.to_owned(), absolute_value(name, value)));
    let overrides = OVERRIDES.split_whitespace();
    let overrides = overrides.filter_map(|setting| setting.split_once('='));
    Env::from_pairs(kept.chain(overrides.map(|(name, value)| (name.into(), value.into()))))
}

/// The value of a variable. If the variable contains paths, those that exist are made absolute: in
/// `wheels name=../index https://…`, the paths `wheels` and `../index`. The path in a `…_DIR`
/// variable, such as a cache, need not exist.
fn absolute_value(name: &OsStr, value: &OsStr) -> OsString {
    const SEPARATORS: [char; 4] = [' ', '\t', '\n', ','];
    let name = name.to_str().unwrap_or_default();
    let Some(text) = value.to_str().filter(|_| has(PATHS, name)) else {
        return value.to_owned();
    };
    let absolute = |path: &str| {
        let path = absolute(path).ok().filter(|_| !path.contains("://"))?;
        (name.ends_with("_DIR") || Root::system().exists(&path)).then_some(path)
    };
    if let Some(path) = absolute(text) {
        return path.into();
    }
    let item = |item: &str| {
        let end = item.trim_end_matches(SEPARATORS);
        // A uv index may have a name: `name=../index`.
        let start = end.find('=').map_or(0, |equals| equals + 1);
        match absolute(&end[start..]) {
            Some(path) => format!("{}{}{}", &end[..start], path.display(), &item[end.len()..]),
            None => item.to_owned(),
        }
    };
    let items = text.split_inclusive(SEPARATORS).map(item);
    items.collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)], name: &str) -> Option<String> {
        let env = settings(&Env::from_pairs(pairs.iter().copied()));
        env.peek(name)
            .map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn where_packages_come_from_is_kept() {
        for (name, value) in [
            ("PIP_INDEX_URL", "https://a:b@index.invalid/simple?a=b"),
            ("PIP_NO_INDEX", "1"),
            ("PIP_PROXY", "http://proxy.invalid"),
            ("PIP_CERT", "/etc/ca.pem"),
            ("UV_DEFAULT_INDEX", "https://index.invalid/simple"),
            ("UV_INDEX_CORP_PASSWORD", "secret"),
            ("UV_EXCLUDE_NEWER", "2026-11-10"),
            ("HTTPS_PROXY", "http://proxy.invalid"),
            ("HOME", "/home/a"),
        ] {
            assert_eq!(of(&[(name, value)], name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn how_and_where_to_install_is_not_kept() {
        for name in [
            "PIP_TARGET",
            "PIP_PREFIX",
            "PIP_ROOT",
            "PIP_LOG",
            "PIP_REPORT",
            "PIP_PLATFORM",
            "PIP_target",
            "UV_LINK_MODE",
            "UV_COMPILE_BYTECODE",
            "UV_PYTHON",
        ] {
            assert_eq!(of(&[(name, "1")], name), None, "{name}");
        }
        for name in [
            "PIP_USER",
            "PIP_DRY_RUN",
            "PIP_VERBOSE",
            "PIP_REQUIRE_HASHES",
        ] {
            assert_eq!(of(&[(name, "1")], name).as_deref(), Some("0"), "{name}");
        }
    }

    #[test]
    fn a_relative_path_keeps_its_meaning() {
        // A directory of this package: tests start in the package.
        let here = absolute("src").unwrap();
        let here = here.to_str().unwrap();
        for (name, given, expected) in [
            (
                "PIP_FIND_LINKS",
                "src https://a.invalid/b",
                format!("{here} https://a.invalid/b"),
            ),
            (
                "UV_FIND_LINKS",
                "https://a.invalid/b,src",
                format!("https://a.invalid/b,{here}"),
            ),
            ("UV_INDEX", "corp=src", format!("corp={here}")),
            ("UV_INDEX_URL", "absent", "absent".to_owned()),
            ("PIP_CERT", "src", here.to_owned()),
            ("UV_CACHE_DIR", "src/cache", format!("{here}/cache")),
        ] {
            assert_eq!(of(&[(name, given)], name), Some(expected), "{name}");
        }
    }

    #[test]
    fn programs_are_searched_in_absolute_directories() {
        let env = Env::from_pairs([("PATH", "bin:/usr/bin:.::/bin")]);
        assert_eq!(search_path(&env), "/usr/bin:/bin");
    }
}
