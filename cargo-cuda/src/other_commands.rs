//! Commands of cargo that `cargo cuda` does not have: what a user runs instead.

use cuda_find_core::env::Env;

use crate::cargo_config::CargoConfig;
use crate::failure::Failure;
use crate::process;

/// Commands of cargo that neither compile nor run anything.
const WITHOUT_CUDA: [&str; 25] = [
    "add",
    "clean",
    "config",
    "fmt",
    "generate-lockfile",
    "info",
    "init",
    "locate-project",
    "login",
    "logout",
    "metadata",
    "owner",
    "pkgid",
    "read-manifest",
    "remove",
    "report",
    "rm",
    "search",
    "tree",
    "uninstall",
    "update",
    "vendor",
    "verify-project",
    "version",
    "yank",
];

/// Commands of cargo, and of usual programs for it, that compile.
const WITH_CUDA: [&str; 15] = [
    "asm",
    "bloat",
    "expand",
    "fix",
    "flamegraph",
    "hack",
    "llvm-cov",
    "miri",
    "mutants",
    "package",
    "publish",
    "rustc",
    "rustdoc",
    "tarpaulin",
    "watch",
];

/// The error for the name of a command that `cargo cuda` does not have. `None` if cargo does not have it either.
pub fn error(name: &str, env: &Env, config: &CargoConfig) -> Option<Failure> {
    let needs_no_cuda = WITHOUT_CUDA.contains(&name);
    let is_cargos = needs_no_cuda
        || WITH_CUDA.contains(&name)
        || config.has_alias(name)
        || process::on_path(env, &format!("cargo-{name}")).is_some();
    if !is_cargos {
        return None;
    }
    let hint = match needs_no_cuda {
        true => format!("`cargo {name}` needs no CUDA: run it as it is"),
        false => format!(
            "`cargo cuda exec -- cargo {name}` runs it with the same toolkit, and with nvcc itself: code for the \
             capabilities that build scripts request"
        ),
    };
    let text = format!("`cargo cuda` has no command `{name}`");
    Some(Failure::usage(text).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_works_is_named() {
        let path = tempfile::tempdir().unwrap();
        let program = path.path().join("cargo-own");
        crate::output::write(&program, b"#!/bin/sh\n").unwrap();
        let make_executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        #[allow(clippy::disallowed_methods, reason = "prepares a program")]
        std::fs::set_permissions(&program, make_executable).unwrap();
        let env = Env::from_pairs([("PATH", path.path())]);
        let config = CargoConfig::from_text("alias.xtask = 'run -p xtask'");
        let hint = |name: &str| Some(error(name, &env, &config)?.to_string());
        for name in [
            "package", "publish", "rustc", "fix", "llvm-cov", "own", "xtask",
        ] {
            let hint = hint(name).unwrap();
            assert!(
                hint.contains(&format!("`cargo cuda exec -- cargo {name}`")),
                "{hint}"
            );
        }
        for name in ["tree", "metadata", "update"] {
            let hint = hint(name).unwrap();
            assert!(
                hint.contains(&format!("`cargo {name}` needs no CUDA")),
                "{hint}"
            );
        }
        assert_eq!(hint("biuld"), None);
    }
}
