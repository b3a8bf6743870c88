//! Flags for rustc, without taking anything away from the user's own.
//!
//! A linker finds `-lcudart` through `LIBRARY_PATH`. Static libraries of a library crate are read
//! by rustc itself, which looks in directories that it was given and nowhere else. Cargo takes
//! flags from one of four places and forgets the others, so ours go to the one that counts.

use std::path::PathBuf;

use cuda_build::Env;

use crate::cargo_config::Configured;
use crate::environment::Setting;

/// What the variable is for.
pub const MEANING: &str = "where rustc looks for static libraries";

/// Where the flag goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addition {
    /// A variable, with what the user has in it.
    Variable(Setting),
    /// A value for `cargo --config`, which Cargo joins with what files say.
    Config(String),
    /// Nowhere; the sentence says why.
    Nowhere(String),
}

/// `-L native=<directory>` for each directory, and for programs on NixOS the driver's directory as
/// a search path of their own.
#[must_use]
pub fn flags(directories: &[PathBuf], nixos: Option<&str>) -> Vec<String> {
    let search = directories.iter().map(|d| format!("-Lnative={}", d.display()));
    search.chain(nixos.map(|directory| format!("-Clink-arg=-Wl,-rpath,{directory}"))).collect()
}

/// Adds flags to what the user has.
#[must_use]
pub fn add(flags: Vec<String>, triple: &str, configured: Configured, env: &Env) -> Addition {
    // Set and empty counts for Cargo, so the snapshot's own reading of that does not do.
    let variable = |name: &str| env.variables().find(|(own, _)| *own == name).map(|(_, value)| value);
    let encoded = |own: Vec<String>| {
        let all: Vec<String> = own.into_iter().chain(flags.clone()).collect();
        let name = "CARGO_ENCODED_RUSTFLAGS".to_owned();
        Addition::Variable(Setting { name, value: all.join("\u{1f}").into(), meaning: MEANING })
    };
    if let Some(own) = variable("CARGO_ENCODED_RUSTFLAGS") {
        let own = own.to_string_lossy();
        return encoded(own.split('\u{1f}').filter(|flag| !flag.is_empty()).map(str::to_owned).collect());
    }
    if let Some(own) = variable("RUSTFLAGS") {
        let own = own.to_string_lossy();
        return encoded(own.split_whitespace().map(str::to_owned).collect());
    }
    let upper = triple.to_uppercase().replace(['-', '.'], "_");
    let target = configured.target || variable(&format!("CARGO_TARGET_{upper}_RUSTFLAGS")).is_some();
    let build = configured.build || variable("CARGO_BUILD_RUSTFLAGS").is_some();
    if build && configured.cfg && !target {
        return Addition::Nowhere(
            "rustflags come from `[build]` and from `[target.'cfg(…)']`, and which of them Cargo takes is not \
             known here: no `-L native=` is added, and static libraries of CUDA may not be found"
                .to_owned(),
        );
    }
    let list = toml::Value::Array(flags.into_iter().map(toml::Value::String).collect());
    Addition::Config(if build && !target {
        format!("build.rustflags={list}")
    } else {
        format!("target.{triple}.rustflags={list}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIPLE: &str = "x86_64-unknown-linux-gnu";

    fn add(files: &[&str], pairs: &[(&str, &str)]) -> Addition {
        let mut configured = Configured::default();
        files.iter().for_each(|text| configured.lay_over(text, TRIPLE));
        let flags = flags(&[PathBuf::from("/a b")], None);
        super::add(flags, TRIPLE, configured, &Env::from_pairs(pairs.iter().copied()))
    }

    #[test]
    fn programs_on_nixos_get_a_search_path() {
        let flags = flags(&[PathBuf::from("/v/lib")], Some("/run/opengl-driver/lib"));
        assert_eq!(flags, ["-Lnative=/v/lib", "-Clink-arg=-Wl,-rpath,/run/opengl-driver/lib"]);
    }

    #[test]
    fn the_flag_goes_where_nothing_is_lost() {
        let target = "target.x86_64-unknown-linux-gnu.rustflags=[\"-Lnative=/a b\"]".to_owned();
        let build = "build.rustflags=[\"-Lnative=/a b\"]".to_owned();
        let with_build = "[build]\nrustflags = ['-Cx']";
        let with_target = "[target.x86_64-unknown-linux-gnu]\nrustflags = '-Cx'";
        for (files, expected) in [
            (&["", "=", "[build]\njobs = 1"][..], &target),
            (&[with_build], &build),
            (&[with_target], &target),
            (&[with_build, with_target], &target),
            (&["[target.'cfg(unix)']\nrustflags = '-Cx'"], &target),
            (&["[target.aarch64-unknown-linux-gnu]\nrustflags = '-Cx'", with_build], &build),
        ] {
            assert_eq!(add(files, &[]), Addition::Config(expected.clone()), "{files:?}");
        }
        let unclear = add(&[with_build, "[target.'cfg(unix)']\nrustflags = '-Cx'"], &[]);
        assert!(matches!(unclear, Addition::Nowhere(_)));
    }

    #[test]
    fn variables_win_and_keep_what_they_hold() {
        let name = "CARGO_ENCODED_RUSTFLAGS".to_owned();
        let encoded = |value: &str| {
            Addition::Variable(Setting { name: name.clone(), value: value.into(), meaning: MEANING })
        };
        let files = ["[build]\nrustflags = ['-Cx']"];
        // Empty, it switches the files off: so it does with Cargo.
        assert_eq!(add(&files, &[("RUSTFLAGS", "")]), encoded("-Lnative=/a b"));
        assert_eq!(add(&files, &[("RUSTFLAGS", "-Ca -Cb")]), encoded("-Ca\u{1f}-Cb\u{1f}-Lnative=/a b"));
        let both = [("RUSTFLAGS", "-Ca"), ("CARGO_ENCODED_RUSTFLAGS", "-C\u{1f}c d")];
        assert_eq!(add(&[], &both), encoded("-C\u{1f}c d\u{1f}-Lnative=/a b"));
        let Addition::Config(config) = add(&[], &[("CARGO_BUILD_RUSTFLAGS", "-Ca")]) else { panic!() };
        assert!(config.starts_with("build."));
    }
}
