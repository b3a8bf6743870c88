//! What Cargo's configuration files say, as far as it decides what `cargo cuda` may set.

use std::path::{Path, PathBuf};

use cuda_build::{Env, Root};

/// What Cargo's configuration files say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// `[build] rustflags`
    pub build: bool,
    /// `[target.<triple>] rustflags` of this target
    pub target: bool,
    /// `[target.'cfg(…)'] rustflags` of any
    pub cfg: bool,
    /// `[build] target` with another one, or a compiler or CMake's toolchain file in `[env]`
    pub compilers: bool,
    /// `runner` of any target
    pub runner: bool,
}

impl Configured {
    /// Reads what applies in `directory`, as Cargo does: files above it, and the user's own.
    #[must_use]
    pub fn read(root: &Root, env: &Env, directory: &Path, triple: &str) -> Self {
        let home = env.peek("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| env.peek("HOME").map(|home| Path::new(home).join(".cargo")));
        let above = directory.ancestors().map(|ancestor| ancestor.join(".cargo"));
        let mut configured = Self::default();
        for place in above.chain(home) {
            for name in ["config.toml", "config"] {
                if let Ok(text) = root.text(&place.join(name)) {
                    configured.lay_over(&text, triple);
                }
            }
        }
        configured
    }

    /// Adds what one file says.
    pub(crate) fn lay_over(&mut self, text: &str, triple: &str) {
        // Cargo itself says what is wrong with a file that can't be read.
        let Ok(table) = text.parse::<toml::Table>() else { return };
        let flags = |value: &toml::Value| value.get("rustflags").is_some();
        self.build |= table.get("build").is_some_and(flags);
        let other = match table.get("build").and_then(|build| build.get("target")) {
            Some(toml::Value::Array(all)) => all.iter().any(|one| one.as_str() != Some(triple)),
            Some(one) => one.as_str() != Some(triple),
            None => false,
        };
        let env = table.get("env").and_then(toml::Value::as_table);
        let about = |name: &String| {
            ["CC", "CXX", "HOST_CC", "HOST_CXX"].contains(&name.as_str())
                || ["CC_", "CXX_"].iter().any(|start| name.starts_with(start))
                || name.contains("CMAKE_TOOLCHAIN_FILE")
        };
        self.compilers |= other || env.is_some_and(|env| env.keys().any(about));
        let targets = table.get("target").and_then(toml::Value::as_table);
        for (name, _) in targets.into_iter().flatten().filter(|(_, value)| flags(value)) {
            self.target |= name == triple;
            self.cfg |= name.starts_with("cfg(");
        }
        self.runner |= targets.is_some_and(|all| all.values().any(|value| value.get("runner").is_some()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIPLE: &str = "x86_64-unknown-linux-gnu";

    #[test]
    fn what_says_something_about_compilers_is_seen() {
        for (text, compilers) in [
            ("[build]\ntarget = 'x86_64-unknown-linux-gnu'", false),
            ("[env]\nCUDA_HOME = '/c'", false),
            ("[build]\ntarget = 'x86_64-unknown-linux-musl'", true),
            ("[build]\ntarget = ['x86_64-unknown-linux-gnu', 'aarch64-unknown-linux-gnu']", true),
            ("[env]\nCC_x86_64_unknown_linux_gnu = 'clang'", true),
            ("[env]\nCMAKE_TOOLCHAIN_FILE = { value = 't.cmake', relative = true }", true),
        ] {
            let mut configured = Configured::default();
            configured.lay_over(text, TRIPLE);
            assert_eq!(configured.compilers, compilers, "{text}");
        }
    }

    #[test]
    fn a_runner_of_any_target_is_seen() {
        for (text, runner) in [
            ("[target.x86_64-unknown-linux-gnu]\nrunner = 'qemu'", true),
            ("[target.'cfg(unix)']\nrunner = ['a', 'b']", true),
            ("[target.x86_64-unknown-linux-gnu]\nlinker = 'cc'", false),
            ("", false),
        ] {
            let mut configured = Configured::default();
            configured.lay_over(text, TRIPLE);
            assert_eq!(configured.runner, runner, "{text}");
        }
    }
}
