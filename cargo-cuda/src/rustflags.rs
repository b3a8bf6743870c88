//! Flags for rustc, without taking anything away from the user's own.
//!
//! A linker finds `-lcudart` through `LIBRARY_PATH`. Static libraries of a library crate are read
//! by rustc itself, which looks in directories that it was given and nowhere else. Cargo takes
//! flags from one of four places and forgets the others, so ours go to the one that counts.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cuda_build::Env;

use crate::cargo_config::{Configured, Flags};
use crate::environment::Setting;

/// What the variable is for.
pub const MEANING: &str = "where rustc looks for static libraries";

/// Beats every other place where flags can be.
pub const ENCODED: &str = "CARGO_ENCODED_RUSTFLAGS";

/// A search directory, as [`flags`] writes it.
const SEARCH: &str = "-Lnative=";

/// Where the flag goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addition {
    /// A variable, with what the user has in it.
    Variable(Setting),
    /// A value for `cargo --config`.
    Config(Added),
    /// Nowhere; the sentence says why.
    Nowhere(String),
}

/// Flags at a key of Cargo's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    key: String,
    flags: Vec<String>,
    /// The user's, where they are a string: Cargo would take ours instead.
    own: Option<String>,
    /// Nobody has any here.
    alone: bool,
}

impl Added {
    /// For `cargo --config`, in the form in which the user's are: Cargo joins nothing else.
    #[must_use]
    pub fn argument(&self) -> String {
        let value = match &self.own {
            Some(own) => {
                toml::Value::String(format!("{own} {}", self.flags.join(" ")).trim().to_owned())
            }
            None => self
                .flags
                .iter()
                .cloned()
                .map(toml::Value::String)
                .collect::<Vec<_>>()
                .into(),
        };
        format!("{}={value}", self.key)
    }

    /// The variable for the same key, after what the user has in it; Cargo joins it with what
    /// files say. `None` for a path with blanks, because they separate flags.
    #[must_use]
    pub fn variable(&self, env: &Env) -> Option<Setting> {
        if !self.can_be_text() {
            return None;
        }
        // A shell goes elsewhere: this key is the one that takes the effect from no other.
        let key = if self.alone {
            "build.rustflags"
        } else {
            &self.key
        };
        let name = format!("CARGO_{}", key.to_uppercase().replace(['-', '.'], "_"));
        let own = env
            .peek(&name)
            .map(|own| own.to_string_lossy().into_owned())
            .unwrap_or_default();
        let own: Vec<&str> = own.split_whitespace().collect();
        let value = joined(&own, &self.flags, " ");
        Some(Setting {
            name,
            value: value.into(),
            meaning: MEANING,
        })
    }

    fn can_be_text(&self) -> bool {
        can_be_text(&self.flags)
    }
}

fn can_be_text(flags: &[String]) -> bool {
    !flags.iter().any(|flag| flag.contains(char::is_whitespace))
}

/// The user's flags, and those of ours that are not among them.
fn joined(own: &[&str], flags: &[String], separator: &str) -> String {
    let ours = flags
        .iter()
        .map(String::as_str)
        .filter(|flag| !own.contains(flag));
    own.iter()
        .copied()
        .chain(ours)
        .collect::<Vec<_>>()
        .join(separator)
}

/// Whether a variable holds flags for rustc.
#[must_use]
pub fn is_variable(name: &str) -> bool {
    ["RUSTFLAGS", ENCODED, "CARGO_BUILD_RUSTFLAGS"].contains(&name)
        || (name.starts_with("CARGO_TARGET_") && name.ends_with("_RUSTFLAGS"))
}

/// The value of a variable without the search directories that are `ours`; `None` where nothing is
/// left of one that is our own doing (`named`).
#[must_use]
pub fn without(
    name: &str,
    value: &OsStr,
    named: bool,
    ours: impl Fn(&Path) -> bool,
) -> Option<OsString> {
    // Set where only `RUSTFLAGS` was, which is still there.
    if named && name == ENCODED {
        return None;
    }
    let Some(text) = value.to_str() else {
        return (!named).then(|| value.to_owned());
    };
    let (separator, flags): (_, Vec<&str>) = match name {
        ENCODED => ("\u{1f}", text.split('\u{1f}').collect()),
        _ => (" ", text.split_whitespace().collect()),
    };
    let is_ours = |flag: &&str| {
        flag.strip_prefix(SEARCH)
            .is_some_and(|directory| ours(Path::new(directory)))
    };
    if !flags.iter().any(is_ours) {
        return Some(value.to_owned());
    }
    let rest: Vec<&str> = flags.into_iter().filter(|flag| !is_ours(flag)).collect();
    (!rest.is_empty() || !named).then(|| rest.join(separator).into())
}

/// `-L native=<directory>` for each directory, and for programs on NixOS the driver's directory as
/// a search path of their own.
#[must_use]
pub fn flags(directories: &[PathBuf], nixos: Option<&str>) -> Vec<String> {
    let search = directories
        .iter()
        .map(|d| format!("{SEARCH}{}", d.display()));
    search
        .chain(nixos.map(|directory| format!("-Clink-arg=-Wl,-rpath,{directory}")))
        .collect()
}

/// Adds flags to what the user has.
#[must_use]
pub fn add(flags: Vec<String>, triple: &str, configured: Configured, env: &Env) -> Addition {
    // Set and empty counts for Cargo, so the snapshot's own reading of that does not do.
    let variable = |name: &str| {
        env.variables()
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value)
    };
    let set = |name: &str, own: &[&str], separator| {
        let value = joined(own, &flags, separator).into();
        Addition::Variable(Setting {
            name: name.to_owned(),
            value,
            meaning: MEANING,
        })
    };
    if let Some(own) = variable(ENCODED) {
        let own = own.to_string_lossy();
        let own: Vec<&str> = own
            .split('\u{1f}')
            .filter(|flag| !flag.is_empty())
            .collect();
        return set(ENCODED, &own, "\u{1f}");
    }
    if let Some(own) = variable("RUSTFLAGS") {
        let own = own.to_string_lossy();
        let own: Vec<&str> = own.split_whitespace().collect();
        return match can_be_text(&flags) {
            true => set("RUSTFLAGS", &own, " "),
            false => set(ENCODED, &own, "\u{1f}"),
        };
    }
    let upper = triple.to_uppercase().replace(['-', '.'], "_");
    let nowhere = |reason: &str| {
        Addition::Nowhere(format!(
            "{reason}: no `-L native=` is added, and static libraries of CUDA may not be found"
        ))
    };
    if configured.unknown {
        return nowhere("Cargo's configuration includes files in a way that is not known here");
    }
    let target = configured.target.is_some()
        || variable(&format!("CARGO_TARGET_{upper}_RUSTFLAGS")).is_some();
    let build = configured.build.is_some() || variable("CARGO_BUILD_RUSTFLAGS").is_some();
    if build && configured.cfg && !target {
        return nowhere(
            "rustflags come from `[build]` and from `[target.'cfg(…)']`, and which of them Cargo takes is not \
             known here",
        );
    }
    let (key, own) = if build && !target {
        ("build.rustflags".to_owned(), configured.build)
    } else {
        (format!("target.{triple}.rustflags"), configured.target)
    };
    if own == Some(Flags::Given) {
        return nowhere(&format!(
            "`--config` has {key} as a string, to which nothing can be added"
        ));
    }
    let own = match own {
        Some(Flags::Text(own)) => Some(own),
        _ => None,
    };
    let alone = !build && !target && !configured.cfg;
    let added = Added {
        key,
        flags,
        own,
        alone,
    };
    if added.own.is_some() && !added.can_be_text() {
        return nowhere(&format!(
            "{} is a string, in which no path with blanks can be; a list can hold it",
            added.key
        ));
    }
    Addition::Config(added)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIPLE: &str = "x86_64-unknown-linux-gnu";

    fn add(files: &[&str], pairs: &[(&str, &str)]) -> Addition {
        let mut configured = Configured::default();
        for text in files {
            configured.lay_over(text, TRIPLE);
        }
        let flags = flags(&[PathBuf::from("/a b")], None);
        super::add(
            flags,
            TRIPLE,
            configured,
            &Env::from_pairs(pairs.iter().copied()),
        )
    }

    #[test]
    fn programs_on_nixos_get_a_search_path() {
        let flags = flags(&[PathBuf::from("/v/lib")], Some("/run/opengl-driver/lib"));
        assert_eq!(
            flags,
            [
                "-Lnative=/v/lib",
                "-Clink-arg=-Wl,-rpath,/run/opengl-driver/lib"
            ]
        );
    }

    fn argument(addition: &Addition) -> String {
        let Addition::Config(added) = addition else {
            panic!("{addition:?}")
        };
        added.argument()
    }

    #[test]
    fn the_flag_goes_where_nothing_is_lost() {
        let target = "target.x86_64-unknown-linux-gnu.rustflags=[\"-Lnative=/a b\"]";
        let build = "build.rustflags=[\"-Lnative=/a b\"]";
        let with_build = "[build]\nrustflags = ['-Cx']";
        let with_target = "[target.x86_64-unknown-linux-gnu]\nrustflags = ['-Cx']";
        for (files, expected) in [
            (&["", "=", "[build]\njobs = 1"][..], target),
            (&[with_build], build),
            (&[with_target], target),
            (&[with_build, with_target], target),
            (&["[build]\nrustflags = '-Cx'", with_target], target),
            (&["[target.'cfg(unix)']\nrustflags = '-Cx'"], target),
            (
                &[
                    "[target.aarch64-unknown-linux-gnu]\nrustflags = '-Cx'",
                    with_build,
                ],
                build,
            ),
        ] {
            assert_eq!(argument(&add(files, &[])), expected, "{files:?}");
        }
        for files in [
            &[with_build, "[target.'cfg(unix)']\nrustflags = '-Cx'"][..],
            &["[target.x86_64-unknown-linux-gnu]\nrustflags = '-Cx'"],
            &["include = 1"],
        ] {
            assert!(matches!(add(files, &[]), Addition::Nowhere(_)), "{files:?}");
        }
    }

    #[test]
    fn a_string_stays_one() {
        let mut configured = Configured::default();
        for text in [
            "[build]\nrustflags = '-Cx -Cy'",
            "[build]\nrustflags = '-Cfarther'",
        ] {
            configured.lay_over(text, TRIPLE);
        }
        let env = Env::from_pairs([("CARGO_BUILD_RUSTFLAGS", "-Cz")]);
        let addition = super::add(vec!["-La".to_owned()], TRIPLE, configured.clone(), &env);
        assert_eq!(argument(&addition), "build.rustflags=\"-Cx -Cy -La\"");
        let Addition::Config(added) = addition else {
            panic!()
        };
        let variable = added.variable(&env).unwrap();
        assert_eq!(variable.name, "CARGO_BUILD_RUSTFLAGS");
        assert_eq!(variable.value, "-Cz -La");
        configured.build = Some(Flags::Given);
        let none = super::add(vec!["-La".to_owned()], TRIPLE, configured, &env);
        assert!(matches!(none, Addition::Nowhere(_)));
    }

    #[test]
    fn flags_become_a_variable_where_they_can() {
        let added = |flag: &str, alone| Added {
            key: "target.x86_64-unknown-linux-gnu.rustflags".to_owned(),
            flags: vec![flag.to_owned()],
            own: None,
            alone,
        };
        let variable = added("-Lnative=/a", false)
            .variable(&Env::default())
            .unwrap();
        assert_eq!(
            variable.name,
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS"
        );
        assert_eq!(variable.value, "-Lnative=/a");
        let alone = added("-Lnative=/a", true)
            .variable(&Env::default())
            .unwrap();
        assert_eq!(
            alone.name, "CARGO_BUILD_RUSTFLAGS",
            "which takes the effect from no other place"
        );
        assert_eq!(
            added("-Lnative=/a b", false).variable(&Env::default()),
            None
        );
    }

    #[test]
    fn flags_that_can_be_text_stay_where_the_user_has_them() {
        let env = Env::from_pairs([("RUSTFLAGS", "--cfg mine -La")]);
        let flags = ["-La", "-Lb"].map(str::to_owned).to_vec();
        let added = super::add(flags, TRIPLE, Configured::default(), &env);
        let value = "--cfg mine -La -Lb".into();
        assert_eq!(
            added,
            Addition::Variable(Setting {
                name: "RUSTFLAGS".to_owned(),
                value,
                meaning: MEANING
            })
        );
    }

    #[test]
    fn variables_win_and_keep_what_they_hold() {
        let name = "CARGO_ENCODED_RUSTFLAGS".to_owned();
        let encoded = |value: &str| {
            Addition::Variable(Setting {
                name: name.clone(),
                value: value.into(),
                meaning: MEANING,
            })
        };
        let files = ["[build]\nrustflags = ['-Cx']"];
        // Empty, it switches the files off: so it does with Cargo.
        assert_eq!(add(&files, &[("RUSTFLAGS", "")]), encoded("-Lnative=/a b"));
        assert_eq!(
            add(&files, &[("RUSTFLAGS", "-Ca -Cb")]),
            encoded("-Ca\u{1f}-Cb\u{1f}-Lnative=/a b")
        );
        let both = [
            ("RUSTFLAGS", "-Ca"),
            ("CARGO_ENCODED_RUSTFLAGS", "-C\u{1f}c d"),
        ];
        assert_eq!(add(&[], &both), encoded("-C\u{1f}c d\u{1f}-Lnative=/a b"));
        assert!(argument(&add(&[], &[("CARGO_BUILD_RUSTFLAGS", "-Ca")])).starts_with("build."));
    }
}
