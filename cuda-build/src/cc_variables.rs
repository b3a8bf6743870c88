//! Variables of the `cc` crate, which this crate reads as `cc` does.

use cuda_find_core::env::Env;

/// The library that `CXXSTDLIB` names, as the `cc` crate reads it: its kind and name. `None` if the
/// variable is set and empty.
pub(crate) fn cxx_runtime(env: &Env, triple: &str) -> Option<(&'static str, String)> {
    let names = names_for_target("CXXSTDLIB", env, triple);
    let mut values = names.iter().filter_map(|name| env.get_or_empty(name));
    let Some(value) = values.next() else {
        return Some(("dylib", "stdc++".to_owned()));
    };
    let value = value.to_string_lossy();
    let (kind, name) = match value.split_once('=') {
        Some(("static", name)) => ("static", name),
        Some(("static:-bundle", name)) => ("static:-bundle", name),
        Some((_, name)) => ("dylib", name),
        None => ("dylib", value.as_ref()),
    };
    (!name.is_empty()).then(|| (kind, name.to_owned()))
}

/// The variables from which the `cc` crate reads a setting. The first that is set counts:
/// `CXX_<triple>`, the same with underscores, `HOST_CXX` or `TARGET_CXX`, `CXX`.
pub(crate) fn names_for_target(name: &str, env: &Env, triple: &str) -> [String; 4] {
    // Only build scripts have `HOST`.
    let is_host = match env.peek("HOST") {
        Some(host) => host == triple,
        None => triple.split('-').next() == Some(std::env::consts::ARCH),
    };
    let kind = if is_host { "HOST" } else { "TARGET" };
    [
        format!("{name}_{triple}"),
        format!("{name}_{}", triple.replace(['-', '.'], "_")),
        format!("{kind}_{name}"),
        name.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_of_cxx_is_chosen_as_by_cc() {
        let triple = "x86_64-unknown-linux-gnu";
        let runtime = |pairs: &[(&str, &str)]| {
            let env = Env::from_pairs(pairs.iter().copied());
            let runtime = cxx_runtime(&env, triple);
            let first = "CXXSTDLIB_x86_64-unknown-linux-gnu".to_owned();
            assert!(env.names_read().contains(&first));
            runtime.map(|(kind, name)| format!("{kind}={name}"))
        };
        assert_eq!(runtime(&[]).as_deref(), Some("dylib=stdc++"));
        assert_eq!(
            runtime(&[("CXXSTDLIB", "c++")]).as_deref(),
            Some("dylib=c++")
        );
        assert_eq!(runtime(&[("CXXSTDLIB", "")]), None);
        let both = [
            ("CXXSTDLIB", "c++"),
            ("CXXSTDLIB_x86_64_unknown_linux_gnu", "static=stdc++"),
        ];
        assert_eq!(runtime(&both).as_deref(), Some("static=stdc++"));
    }
}
