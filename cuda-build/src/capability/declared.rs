//! The grammar of a declared capability list.

use std::fmt;

use super::Capability;
use crate::error::Error;
use crate::list::sorted_set;

/// The list of capabilities in a manifest, a variable or an option. It does not depend on a toolkit.
///
/// The list is an array of texts. Each text may contain several entries, separated by `;`, `,` or spaces. An entry is
/// one of
///
/// | entry | SASS | PTX |
/// |---|---|---|
/// | `8.0`, `80`, `sm_80`, `80-real` | yes | no |
/// | `8.0+PTX`, `sm_80+PTX` | yes | yes |
/// | `compute_80`, `80-virtual` | no | yes |
/// | `native` | for the GPUs in this machine | no |
/// | `all` | for every capability | for the first capability of the newest major |
/// | `all-major` | for the first capability of every major | for the first capability of the newest major |
///
/// Any number may be followed by `a` or `f`. A plain `8.0` or `80` means SASS only, as in `TORCH_CUDA_ARCH_LIST`. In
/// CMake, a plain `80` means SASS and PTX.
///
/// ```
/// use cuda_build::internal::Declared;
/// let declared = Declared::parse(["8.0;9.0a", "120-real 120-virtual"])?;
/// assert_eq!(declared, Declared::parse(["8.0", "9.0a", "12.0+PTX"])?);
/// # Ok::<(), cuda_build::Error>(())
/// ```
#[derive(Debug, PartialEq)]
pub struct Declared {
    entries: Vec<Entry>,
}

/// One entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Entry {
    /// SASS for this capability.
    Real(Capability),
    /// PTX for this capability.
    Virtual(Capability),
    /// SASS for the GPUs in this machine.
    Native,
    /// What `nvcc -arch=all` builds.
    All,
    /// What `nvcc -arch=all-major` builds.
    AllMajor,
}

impl Declared {
    /// Parses a list in the syntax of `[package.metadata.cuda]`, which [`Declared`] describes.
    ///
    /// # Errors
    /// [`Error::Capability`] for an entry that does not follow this syntax, and for an empty list.
    pub fn parse(items: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, Error> {
        let mut entries = Vec::new();
        for item in items {
            let separator = |c: char| c == ';' || c == ',' || c.is_whitespace();
            for text in item.as_ref().split(separator).filter(|t| !t.is_empty()) {
                entries.extend(parse_entry(text)?);
            }
        }
        if entries.is_empty() {
            return Err(Error::Capability {
                reason: "the list of capabilities is empty".to_owned(),
                hint: format!("write for example\n{EXAMPLE}"),
            });
        }
        Ok(Self {
            entries: sorted_set(entries),
        })
    }

    /// The list that is used if no capabilities are declared: `native`, the GPUs in this machine.
    pub fn native() -> Self {
        Self {
            entries: vec![Entry::Native],
        }
    }

    /// The entries, sorted and without duplicates.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether the list depends on the GPUs in this machine.
    pub fn is_native(&self) -> bool {
        self.entries.contains(&Entry::Native)
    }
}

/// The entries for one word of the list. `8.0+PTX` has two entries: SASS and PTX.
fn parse_entry(text: &str) -> Result<Vec<Entry>, Error> {
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "native" => return Ok(vec![Entry::Native]),
        "all" => return Ok(vec![Entry::All]),
        "all-major" => return Ok(vec![Entry::AllMajor]),
        _ => {}
    }
    let (name, ending) = ["+ptx", "-real", "-virtual"]
        .into_iter()
        .find_map(|ending| Some((lower.strip_suffix(ending)?, ending)))
        .unwrap_or((&lower, ""));
    let capability: Capability = name.parse().map_err(|error| match error {
        Error::Capability { hint, .. } => Error::Capability {
            reason: format!("`{text}` is not a compute capability"),
            hint: format!(
                "{hint}; or `native`, `all`, `all-major`; `+PTX` adds PTX to a capability"
            ),
        },
        other => other,
    })?;
    let (real, ptx) = (Entry::Real(capability), Entry::Virtual(capability));
    let prefix = name.split_once('_').map_or("", |(prefix, _)| prefix);
    match (prefix, ending) {
        ("" | "sm", "" | "-real") => Ok(vec![real]),
        ("" | "sm", "+ptx") => Ok(vec![real, ptx]),
        ("" | "compute", "-virtual") | ("compute", "") => Ok(vec![ptx]),
        _ => Err(Error::Capability {
            reason: format!("`{text}` contradicts itself"),
            hint: format!(
                "write `{}` for SASS, `{}` for PTX, or `{capability}+PTX` for both",
                capability.sm(),
                capability.compute()
            ),
        }),
    }
}

/// A list that every toolkit from 11.8 on can build.
pub(super) const EXAMPLE: &str = "[package.metadata.cuda]\ncapabilities = [\"8.0\", \"9.0+PTX\"]";

/// The error for a build that declares no capability, on a machine without a GPU.
pub fn undeclared() -> Error {
    Error::Capability {
        reason: "no compute capability is declared, and this machine has no GPU".to_owned(),
        hint: format!("declare capabilities in Cargo.toml:\n{EXAMPLE}"),
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Real(capability) => write!(f, "{capability}"),
            Self::Virtual(capability) => f.write_str(&capability.compute()),
            Self::Native => f.write_str("native"),
            Self::All => f.write_str("all"),
            Self::AllMajor => f.write_str("all-major"),
        }
    }
}

/// The entries, separated by `, `. [`Declared::parse`] reads them back as the same list.
impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.entries.iter().enumerate() {
            write!(f, "{}{entry}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(items: &[&str], expected: &str) {
        let declared = Declared::parse(items).unwrap();
        assert_eq!(declared.to_string(), expected, "{items:?}");
        assert_eq!(
            Declared::parse([expected]).unwrap(),
            declared,
            "{expected} does not read back"
        );
    }

    #[test]
    fn grammar() {
        check(&["8.0"], "8.0");
        check(&["80"], "8.0");
        check(&["80-real"], "8.0");
        check(&["sm_80"], "8.0");
        check(&["sm_80-real"], "8.0");
        check(&["80-virtual"], "compute_80");
        check(&["compute_80"], "compute_80");
        check(&["compute_80-virtual"], "compute_80");
        check(&["8.6+PTX"], "8.6, compute_86");
        check(&["8.6+ptx"], "8.6, compute_86");
        check(&["sm_86+PTX"], "8.6, compute_86");
        check(&["90a-real"], "9.0a");
        check(&["9.0a-virtual"], "compute_90a");
        check(&["100f+PTX"], "10.0f, compute_100f");
        check(&["native"], "native");
        check(&["Native", "ALL"], "native, all");
        check(&["all-major"], "all-major");
    }

    #[test]
    fn lists_in_lists_and_duplicates() {
        check(&["8.0;8.6;9.0+PTX"], "8.0, 8.6, 9.0, compute_90");
        check(&["8.0 8.6", " 12.0 , 9.0;; "], "8.0, 8.6, 9.0, 12.0");
        check(&["80-real;90a-real;120"], "8.0, 9.0a, 12.0");
        check(
            &["8.0", "80", "sm_80", "8.0+PTX", "compute_80"],
            "8.0, compute_80",
        );
    }

    #[test]
    fn refusals_name_the_entry_and_what_to_write() {
        for (items, reason, hint) in [
            (
                &["8.0;bogus"][..],
                "`bogus` is not a compute capability",
                "`native`, `all`, `all-major`",
            ),
            (
                &["8+PTX"],
                "`8+PTX` is not a compute capability",
                "write both parts: `8.0`",
            ),
            (
                &["8.0-fast"],
                "`8.0-fast` is not a compute capability",
                "write a capability as",
            ),
            (
                &["compute_80-real"],
                "`compute_80-real` contradicts itself",
                "`sm_80` for SASS",
            ),
            (
                &["sm_80-virtual"],
                "`sm_80-virtual` contradicts itself",
                "`compute_80` for PTX",
            ),
            (
                &["compute_80+PTX"],
                "`compute_80+PTX` contradicts itself",
                "`8.0+PTX` for both",
            ),
            (
                &["native+PTX"],
                "`native+PTX` is not a compute capability",
                "or `native`, `all`, `all-major`",
            ),
            (&[], "the list of capabilities is empty", "capabilities = ["),
            (
                &[" ; "],
                "the list of capabilities is empty",
                "capabilities = [",
            ),
        ] {
            let error = Declared::parse(items).unwrap_err();
            assert_eq!(error.to_string(), reason);
            assert!(error.hints()[0].contains(hint), "{error:?}");
        }
    }

    #[test]
    fn undeclared_shows_the_manifest_to_write() {
        let text = format!("{:?}", undeclared());
        assert!(text.contains("no compute capability is declared"), "{text}");
        assert!(
            text.ends_with("[package.metadata.cuda]\ncapabilities = [\"8.0\", \"9.0+PTX\"]"),
            "{text}"
        );
    }
}
