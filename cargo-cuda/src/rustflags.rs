//! How flags for rustc reach Cargo beside those of the user.
//!
//! Cargo takes rustflags from the first of these places that has some: `CARGO_ENCODED_RUSTFLAGS`, `RUSTFLAGS` (both also
//! if they are empty), the `rustflags` of all `target` tables that apply, with `CARGO_TARGET_<TRIPLE>_RUSTFLAGS`, and
//! `build.rustflags` with `CARGO_BUILD_RUSTFLAGS`.
//!
//! Flags are added where the user's are. A variable is inherited by the programs that cargo starts and by a cargo that
//! they start, so it is set only if the user has set it. Otherwise the flags are an option of the call, a `target` table
//! under a condition that is always met. Cargo refuses a list for a key that has a string elsewhere, so the condition is
//! one that users do not write.
//! Cargo joins this table with the others that apply. Because it switches `build.rustflags` off, those are repeated.

use cuda_find_core::env::Env;

use crate::cargo_config::{CargoConfig, target_directory_name};
use crate::environment::Variable;

const ENCODED: &str = "CARGO_ENCODED_RUSTFLAGS";
const PLAIN: &str = "RUSTFLAGS";

/// A condition that holds for every platform.
const ALWAYS_MET: &str = "'cfg(not(cargo_cuda_never))'";

/// What a call of cargo needs so that rustc gets more flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedRustflags {
    pub variable: Option<Variable>,
    /// Arguments for cargo.
    pub arguments: Vec<String>,
}

/// Adds `flags` to the user's rustflags in a build for `platforms`, each a value of `--target` or of Cargo's
/// configuration.
pub fn add(
    flags: &[String],
    platforms: &[String],
    config: &CargoConfig,
    env: &Env,
) -> AddedRustflags {
    if let Some(users) = env.get_or_empty(ENCODED) {
        let users = users.to_string_lossy().into_owned();
        return in_variable(ENCODED, "\x1f", &users, flags);
    }
    if let Some(users) = env.get_or_empty(PLAIN) {
        let users = users.to_string_lossy().into_owned();
        // Cargo splits this variable at white space.
        let has_space = flags.iter().any(|flag| flag.contains(char::is_whitespace));
        return match has_space {
            true => {
                let users: Vec<&str> = users.split_whitespace().collect();
                in_variable(ENCODED, "\x1f", &users.join("\x1f"), flags)
            }
            false => in_variable(PLAIN, " ", &users, flags),
        };
    }
    let triples: Vec<String> = platforms
        .iter()
        .map(|it| target_directory_name(it))
        .collect();
    let uses_build_table = |triple: &String| config.target_rustflags(env, triple).is_empty();
    let of_build = config.build_rustflags(env);
    let mut in_condition = Vec::new();
    let mut arguments = Vec::new();
    if triples.iter().all(uses_build_table) {
        in_condition.extend(of_build);
    } else if !of_build.is_empty() {
        for triple in triples.iter().filter(|triple| uses_build_table(triple)) {
            arguments.extend(in_table(&format!("{triple:?}"), &of_build));
        }
    }
    in_condition.extend_from_slice(flags);
    arguments.extend(in_table(ALWAYS_MET, &in_condition));
    AddedRustflags {
        variable: None,
        arguments,
    }
}

/// The variable with which rustc gets `flags` and those of the user, wherever they are. maturin needs it, because it
/// does not pass `--config` on to everything that it starts.
pub fn variable(flags: Vec<String>, config: &CargoConfig, env: &Env, triple: &str) -> Variable {
    let mut all = flags;
    all.extend(of_user(config, env, triple));
    (ENCODED.to_owned(), all.join("\x1f").into())
}

/// The user's rustflags for `triple`.
pub fn of_user(config: &CargoConfig, env: &Env, triple: &str) -> Vec<String> {
    let text = |name: &str| Some(env.get_or_empty(name)?.to_string_lossy().into_owned());
    if let Some(flags) = text(ENCODED) {
        let flags = flags.split('\x1f').filter(|flag| !flag.is_empty());
        return flags.map(str::to_owned).collect();
    }
    if let Some(flags) = text(PLAIN) {
        return flags.split_whitespace().map(str::to_owned).collect();
    }
    let of_target = config.target_rustflags(env, triple);
    match of_target.is_empty() {
        true => config.build_rustflags(env),
        false => of_target,
    }
}

/// The variable with which rustc gets, of the user's flags, only those that choose and configure the linker: not those
/// that make code for the user's own processor.
pub fn only_for_linker(config: &CargoConfig, env: &Env, triple: &str) -> Variable {
    const KEPT: [&str; 5] = [
        "linker",
        "linker-flavor",
        "link-arg",
        "link-args",
        "link-self-contained",
    ];
    let is_kept = |option: &str| {
        let name = option.split('=').next().unwrap_or_default();
        KEPT.contains(&name)
    };
    let mut kept = Vec::new();
    let users = of_user(config, env, triple);
    let mut rest = users.iter().map(String::as_str);
    while let Some(flag) = rest.next() {
        let attached = flag
            .strip_prefix("-C")
            .or_else(|| flag.strip_prefix("--codegen="));
        let option = match attached {
            Some("") => rest.next(),
            None if flag == "--codegen" => rest.next(),
            attached => attached,
        };
        if let Some(option) = option.filter(|option| is_kept(option)) {
            kept.push(format!("-C{option}"));
        }
    }
    (ENCODED.to_owned(), kept.join("\x1f").into())
}

fn in_variable(name: &str, separator: &str, users: &str, flags: &[String]) -> AddedRustflags {
    let users = (!users.is_empty()).then(|| users.to_owned());
    let all: Vec<String> = users.into_iter().chain(flags.iter().cloned()).collect();
    AddedRustflags {
        variable: Some((name.to_owned(), all.join(separator).into())),
        arguments: Vec::new(),
    }
}

/// `--config target.<key>.rustflags=[…]`
fn in_table(key: &str, flags: &[String]) -> [String; 2] {
    let flags = toml::Value::from(flags.to_vec());
    [
        "--config".to_owned(),
        format!("target.{key}.rustflags={flags}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_users_flags_the_linkers_are_kept() {
        for (flags, expected) in [
            ("", ""),
            ("-C target-cpu=native", ""),
            ("-Ctarget-feature=+avx512f --cfg x", ""),
            (
                "-Clinker=clang -C link-arg=-fuse-ld=lld",
                "-Clinker=clang -Clink-arg=-fuse-ld=lld",
            ),
            (
                "--codegen link-args=-s --codegen=target-cpu=x86-64-v4",
                "-Clink-args=-s",
            ),
        ] {
            let env = Env::from_pairs([("RUSTFLAGS", flags)]);
            let (_, value) = only_for_linker(&CargoConfig::default(), &env, "x");
            let expected = expected.replace(' ', "\x1f");
            assert_eq!(value.to_str(), Some(expected.as_str()), "{flags}");
        }
    }
}
