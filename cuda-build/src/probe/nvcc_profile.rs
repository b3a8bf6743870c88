//! `nvcc.profile`: the file beside an nvcc from which it takes its directories.
//!
//! NVIDIA documents neither its grammar nor what the operators mean; both were found by having
//! real nvccs print what they made of a profile (`docs/findings.md`). What is read here is the part
//! that is certain: for anything else there is no value, and the nvcc itself has to be asked.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;

use crate::env::Env;

/// A profile that was understood from its first line to its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvccProfile {
    assignments: Vec<Assignment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Assignment {
    name: String,
    operator: Operator,
    value: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    /// `=`.
    Set,
    /// `+=`, which puts the new before the old.
    Before,
    /// `=+`, which puts it after.
    After,
    /// `?=`, where nothing has set the variable yet.
    Default,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// `$(NAME)`.
    Variable(String),
}

/// What every nvcc from 11.8 to 13.5 sets before it reads its profile, the same each time; the
/// suffix is empty, set or not. `CUDA_ROOT` is set by some releases only, and is none of ours.
const CONSTANTS: [(&str, &str); 4] = [
    ("_SPACE_", " "),
    ("_CUDART_", "cudart"),
    ("_NVVM_BRANCH_", "nvvm"),
    ("_NVVM_BRANCH_SUFFIX_", ""),
];

/// Variables of the process that profiles add to, and that shells differ in.
const PATHS: [&str; 2] = ["PATH", "LD_LIBRARY_PATH"];

impl NvccProfile {
    /// Reads a profile; `None` where a line is none that is certain.
    ///
    /// ```
    /// use cuda_build::Env;
    /// use cuda_build::probe::NvccProfile;
    /// let profile = NvccProfile::parse("TOP = $(_HERE_)/..\nPATH += $(_HERE_):\n").unwrap();
    /// let env = Env::from_pairs([("PATH", "/usr/bin")]);
    /// let lines = profile.evaluate("/opt/cuda/bin", false, &env).unwrap();
    /// assert_eq!(lines, "#$ TOP=/opt/cuda/bin/..\n#$ PATH=/opt/cuda/bin:/usr/bin\n");
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // nvcc takes Windows' ends of lines as well.
        let lines = text
            .split('\n')
            .map(|line| line.trim_matches([' ', '\t', '\r']));
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(assignment)
            .collect::<Option<Vec<_>>>()
            .map(|assignments| Self { assignments })
    }

    /// The lines that a dry run of an nvcc called `<here>/nvcc` prints for this profile, where
    /// `targets` says whether `<here>/../targets` is a directory; `None` where the answer depends
    /// on something that only nvcc knows, or on a variable of the process other than those paths
    /// that profiles prepend to.
    #[must_use]
    pub fn evaluate(&self, here: &str, targets: bool, env: &Env) -> Option<String> {
        // The x86-64 nvcc: others choose among several target directories.
        let (target, size) = if targets {
            ("targets/x86_64-linux", "")
        } else {
            ("", "64")
        };
        let mut known: BTreeMap<&str, String> = CONSTANTS
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        known.extend(
            [("_HERE_", here), ("_THERE_", here)].map(|(name, value)| (name, value.to_owned())),
        );
        known.extend(
            [("_TARGET_DIR_", target), ("_TARGET_SIZE_", size)].map(|(n, v)| (n, v.to_owned())),
        );
        let mut foreign: BTreeSet<&str> = BTreeSet::new();
        let mut lines = String::new();
        for Assignment {
            name,
            operator,
            value,
        } in &self.assignments
        {
            let new = expand(value, &known, &foreign, env)?;
            let outside = variable(env, name).filter(|_| !known.contains_key(name.as_str()));
            let old = match (operator, outside) {
                (Operator::Set, _) => String::new(),
                (_, None) => known.get(name.as_str()).cloned().unwrap_or_default(),
                (_, Some(outside)) if PATHS.contains(&name.as_str()) => {
                    foreign.insert(name);
                    outside.to_str()?.to_owned()
                }
                (_, Some(_)) => return None,
            };
            let value = match operator {
                Operator::Default
                    if known.contains_key(name.as_str()) || foreign.contains(name.as_str()) =>
                {
                    continue;
                }
                Operator::Set => {
                    foreign.remove(name.as_str());
                    new
                }
                Operator::Before | Operator::Default => new + &old,
                Operator::After => old + &new,
            };
            // Writing to a String can't fail.
            let _ = writeln!(lines, "#$ {name}={value}");
            known.insert(name, value);
        }
        Some(lines)
    }

    /// Variables of the process that the answer depends on, if they are set: what the profile adds
    /// to or refers to.
    #[must_use]
    pub fn asks(&self) -> BTreeSet<&str> {
        let added = self
            .assignments
            .iter()
            .filter(|a| a.operator != Operator::Set)
            .map(|a| a.name.as_str());
        let pieces = self
            .assignments
            .iter()
            .flat_map(|assignment| &assignment.value);
        let referred = pieces.filter_map(|piece| match piece {
            Piece::Variable(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        });
        added
            .chain(referred)
            .filter(|name| !name.starts_with('_') && !PATHS.contains(name))
            .collect()
    }
}

/// One line: a name, an operator, a value. Blanks around the value do not belong to it.
fn assignment(line: &str) -> Option<Assignment> {
    let end = line.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))?;
    let (name, rest) = line.split_at(end);
    // What nvcc sets by itself, its flags, and its options (`compiler-bindir`) do more than name
    // directories.
    if !name.starts_with(|c: char| c.is_ascii_uppercase())
        || name.starts_with("NVCC_")
        || name == "CUDA_ROOT"
    {
        return None;
    }
    let operators = [
        ("+=", Operator::Before),
        ("=+", Operator::After),
        ("?=", Operator::Default),
        ("=", Operator::Set),
    ];
    let after_blanks = rest.trim_start_matches([' ', '\t']);
    let (value, operator) = operators.into_iter().find_map(|(sign, operator)| {
        after_blanks
            .strip_prefix(sign)
            .map(|value| (value, operator))
    })?;
    // `A?=` names a variable `A?`.
    if operator == Operator::Default && rest.starts_with('?') {
        return None;
    }
    let value = value.trim_matches([' ', '\t', '\r']);
    let unclear = |c: char| c == '%' || c == '\u{fffd}' || (c.is_control() && c != '\t');
    if value.starts_with(['=', '+']) || value.contains(unclear) {
        return None;
    }
    Some(Assignment {
        name: name.to_owned(),
        operator,
        value: pieces(value)?,
    })
}

/// Text and `$(NAME)`; a `$` before anything but a parenthesis is itself.
fn pieces(value: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = value;
    while let Some((text, after)) = rest.split_once("$(") {
        let (name, after) = after.split_once(')')?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        pieces.extend([
            Piece::Text(text.to_owned()),
            Piece::Variable(name.to_owned()),
        ]);
        rest = after;
    }
    pieces.push(Piece::Text(rest.to_owned()));
    Some(pieces)
}

fn expand(
    value: &[Piece],
    known: &BTreeMap<&str, String>,
    foreign: &BTreeSet<&str>,
    env: &Env,
) -> Option<String> {
    let mut text = String::new();
    for piece in value {
        match piece {
            Piece::Text(piece) => text.push_str(piece),
            Piece::Variable(name) if foreign.contains(name.as_str()) => return None,
            Piece::Variable(name) => match known.get(name.as_str()) {
                Some(value) => text.push_str(value),
                None if name.starts_with('_')
                    || name == "CUDA_ROOT"
                    || variable(env, name).is_some() =>
                {
                    return None;
                }
                // Nothing has set it: nvcc takes it as empty.
                None => {}
            },
        }
    }
    Some(text)
}

/// A variable of the process, also an empty one: `?=` tells that from none.
fn variable<'a>(env: &'a Env, name: &str) -> Option<&'a OsStr> {
    env.variables()
        .find(|(known, _)| *known == OsStr::new(name))
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluated(text: &str, targets: bool) -> Option<String> {
        let env = Env::from_pairs([("PATH", "/usr/bin:/bin"), ("HOME", "/h"), ("EMPTY", "")]);
        NvccProfile::parse(text)?.evaluate("/opt/cuda/bin", targets, &env)
    }

    /// Every line of this was printed by nvcc 13.0, 13.4 and 13.5 for the same profile.
    #[test]
    fn operators_and_references_mean_what_nvcc_makes_of_them() {
        for (profile, printed) in [
            ("A=1\nA += two\nA =+ zero x  ", "A=1|A=two1|A=two1zero x"),
            ("B =  2  3  \r\n\r\n  C\t=\ttab\tx", "B=2  3|C=tab\tx"),
            ("B+=tight\nC=+tight\nD+=\nE =", "B=tight|C=tight|D=|E="),
            (
                "F ?= default\nF ?= no\nE =\nE ?= x\nG += 1\nG ?= z",
                "F=default|E=|G=1",
            ),
            (
                "G = $(NOPE)x\nH2 = ${HOME} $HOME $$",
                "G=x|H2=${HOME} $HOME $$",
            ),
            (
                "I = \"quoted value\"  # no comment\n # a comment",
                "I=\"quoted value\"  # no comment",
            ),
            ("A = x\nK = $(A)$(A)\nA = new", "A=x|K=xx|A=new"),
            ("O = a=b\nP = a == b\nL = a\\", "O=a=b|P=a == b|L=a\\"),
            (
                "A = $(_HERE_)|$(_THERE_)|$(_SPACE_)|$(_CUDART_)",
                "A=/opt/cuda/bin|/opt/cuda/bin| |cudart",
            ),
            ("A = $(_NVVM_BRANCH_)$(_NVVM_BRANCH_SUFFIX_)", "A=nvvm"),
            (
                "PATH += $(_HERE_):\nPATH =+ :/last",
                "PATH=/opt/cuda/bin:/usr/bin:/bin|PATH=/opt/cuda/bin:/usr/bin:/bin:/last",
            ),
            ("PATH ?= x\nPATH = y", "PATH=y"),
        ] {
            let lines = evaluated(profile, false).unwrap_or_else(|| panic!("{profile:?}"));
            let lines: Vec<&str> = lines
                .lines()
                .filter_map(|line| line.strip_prefix("#$ "))
                .collect();
            assert_eq!(lines.join("|"), printed, "{profile:?}");
        }
    }

    #[test]
    fn a_directory_of_targets_decides_the_target_directory() {
        let profile = "A = $(_TARGET_DIR_)/lib$(_TARGET_SIZE_)";
        assert_eq!(
            evaluated(profile, true).unwrap(),
            "#$ A=targets/x86_64-linux/lib\n"
        );
        assert_eq!(evaluated(profile, false).unwrap(), "#$ A=/lib64\n");
    }

    #[test]
    fn what_is_not_certain_is_left_to_nvcc() {
        for profile in [
            "noequals",
            "a b = x",
            "lower = x",
            "compiler-bindir = /usr/bin",
            "A B = x",
            "A := x",
            "A ? = x",
            "A?= x",
            "A== x",
            "A =+= x",
            "A += = x",
            "A = $(",
            "A = $(B",
            "A = $()",
            "A = $(A B)",
            "A = $($(B))",
            "A = 100%",
            "A = %HOME%",
            "A = x\0y",
            "A = \u{fffd}",
            "= x",
            "[section]",
            "_HERE_ = /other",
            "_OTHER_ = x",
            "CUDA_ROOT = x",
            "NVCC_APPEND_FLAGS = -g",
            "$(A) = x",
        ] {
            assert_eq!(NvccProfile::parse(profile), None, "{profile:?}");
        }
    }

    #[test]
    fn variables_of_the_process_are_left_to_nvcc_but_for_the_paths_that_are_added_to() {
        for profile in [
            "A = $(HOME)",
            "HOME += x",
            "HOME ?= x",
            "EMPTY ?= x",
            "A = $(PATH)",
            "PATH += x\nA = $(PATH)",
            "A = $(CUDA_ROOT)",
            "A = $(_OTHER_)",
        ] {
            assert!(NvccProfile::parse(profile).is_some(), "{profile:?}");
            assert_eq!(evaluated(profile, false), None, "{profile:?}");
        }
        assert_eq!(
            evaluated("HOME = x\nA = $(HOME)", false).unwrap(),
            "#$ HOME=x\n#$ A=x\n"
        );
        let profile =
            NvccProfile::parse("A = $(HOME)$(_HERE_)\nINCLUDES += $(A)\nPATH += x").unwrap();
        assert_eq!(
            profile.asks().into_iter().collect::<Vec<_>>(),
            ["A", "HOME", "INCLUDES"]
        );
    }

    #[test]
    fn no_profile_at_all_is_an_empty_one() {
        assert_eq!(evaluated("", false).as_deref(), Some(""));
        assert_eq!(evaluated("\n\r\n# nothing\n", true).as_deref(), Some(""));
    }
}
