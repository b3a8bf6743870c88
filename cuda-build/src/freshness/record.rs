//! The file of records. Each line is an input, a list of inputs, or an output.
//!
//! ```text
//! cuda-build stamps 1
//! i <state> <path>               a file that was read
//! a <path>                       a path that does not exist
//! d <path>                       a directory, or something else that is not a file
//! s <path>                       a directory that was searched for headers
//! l <number of an input> …       a list of inputs
//! o <key> <state> <count of lists> <number of a list> … <path>
//! end
//! ```
//!
//! A state is `<digest> <inode> <length> <modified> <changed>`. It is `<digest> -` if a later change of the file
//! could leave these numbers the same, so that the content has to be read. Outputs share lists: five hundred
//! sources that read the same hundred headers have one list.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::file::Stat;
pub(super) use super::file::State;

const HEAD: &str = "cuda-build stamps 1";

/// One path that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Looked(PathBuf, State),
    /// A directory. It is recorded only so that it can be declared to Cargo.
    Searched(PathBuf),
}

impl Input {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Looked(path, _) | Self::Searched(path) => path,
        }
    }
}

/// The record of one output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) key: u64,
    pub(super) state: State,
    /// Indices into [`Records::lists`].
    pub(super) lists: Vec<u32>,
    /// Whether this run of the build script checked or made the output. It is not written to the file.
    pub(super) used: bool,
}

#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) inputs: Vec<Input>,
    pub(super) lists: Vec<Vec<u32>>,
    /// The key is the path as an `OsString`, because hashing a `Path` takes several times as long.
    pub(super) outputs: HashMap<OsString, Output>,
    /// The number of the newest input for each path; filled by [`Records::input`].
    newest: HashMap<OsString, u32>,
    /// The number of each list; filled by [`Records::list`].
    numbers: HashMap<Vec<u32>, u32>,
}

fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

impl Records {
    /// The number of an input. The input is added unless it equals the newest input for its path.
    pub(super) fn input(&mut self, input: Input) -> u32 {
        if self.newest.is_empty() {
            let numbered = self.inputs.iter().zip(0..);
            self.newest = numbered
                .map(|(input, id)| (input.path().as_os_str().to_owned(), id))
                .collect();
        }
        if let Some(id) = self.newest.get(input.path().as_os_str())
            && self.inputs.get(*id as usize) == Some(&input)
        {
            return *id;
        }
        let id = number(self.inputs.len());
        self.newest.insert(input.path().as_os_str().to_owned(), id);
        self.inputs.push(input);
        id
    }

    /// The number of a list. The list is added unless an equal list is recorded.
    pub(super) fn list(&mut self, ids: Vec<u32>) -> u32 {
        if self.numbers.is_empty() {
            let numbered = self.lists.iter().zip(0..);
            self.numbers = numbered.map(|(list, id)| (list.clone(), id)).collect();
        }
        if let Some(id) = self.numbers.get(&ids) {
            return *id;
        }
        let id = number(self.lists.len());
        self.numbers.insert(ids.clone(), id);
        self.lists.push(ids);
        id
    }

    /// Reads what [`Records::to_bytes`] wrote. `None` if a line is missing or malformed.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        // A truncated file lacks the last line.
        let bytes = bytes.strip_suffix(b"\nend\n")?;
        let mut lines = bytes.split(|byte| *byte == b'\n');
        if lines.next()? != HEAD.as_bytes() {
            return None;
        }
        let mut records = Self::default();
        for line in lines {
            let rest = line.get(2..)?;
            match line[0] {
                b'i' => {
                    let (state, path) = file_state(rest)?;
                    records.inputs.push(Input::Looked(path_in(path)?, state));
                }
                b'a' => records
                    .inputs
                    .push(Input::Looked(path_in(rest)?, State::Absent)),
                b'd' => records
                    .inputs
                    .push(Input::Looked(path_in(rest)?, State::NotAFile)),
                b's' => records.inputs.push(Input::Searched(path_in(rest)?)),
                b'l' => records.lists.push(ids(rest)?),
                b'o' => {
                    let (key, rest) = word(rest)?;
                    let (state, rest) = file_state(rest)?;
                    let (count, mut rest) = word(rest)?;
                    let mut lists = Vec::new();
                    for _ in 0..number_in::<usize>(count)? {
                        let (id, after) = word(rest)?;
                        lists.push(number_in(id)?);
                        rest = after;
                    }
                    let output = Output {
                        key: hexadecimal(key)?,
                        state,
                        lists,
                        used: false,
                    };
                    records
                        .outputs
                        .insert(path_in(rest)?.into_os_string(), output);
                }
                _ => return None,
            }
        }
        Some(records)
    }

    /// The content of the file, without the inputs and lists that no output uses.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut used = Self::default();
        let mut text = Vec::new();
        let mut outputs: Vec<_> = self.outputs.iter().collect();
        crate::list::sort_by_key(&mut outputs, |(path, _)| *path);
        for (path, output) in outputs {
            let lists = output
                .lists
                .iter()
                .filter_map(|list| self.lists.get(*list as usize));
            let mut renumbered = Vec::new();
            for list in lists.collect::<Vec<_>>() {
                let inputs = list.iter().filter_map(|id| self.inputs.get(*id as usize));
                let ids = inputs.cloned().map(|input| used.input(input)).collect();
                renumbered.push(used.list(ids));
            }
            let mut line = format!(
                "o {:016x} {} {}",
                output.key,
                shown(output.state),
                renumbered.len()
            );
            renumbered.iter().for_each(|list| {
                let _ = write!(line, " {list}");
            });
            text.extend_from_slice(line.as_bytes());
            text.push(b' ');
            write_path(Path::new(path), &mut text);
        }
        let mut bytes = format!("{HEAD}\n").into_bytes();
        for input in &used.inputs {
            match input {
                Input::Searched(_) => bytes.extend_from_slice(b"s "),
                Input::Looked(_, State::Absent) => bytes.extend_from_slice(b"a "),
                Input::Looked(_, State::NotAFile) => bytes.extend_from_slice(b"d "),
                Input::Looked(_, state) => {
                    bytes.extend_from_slice(format!("i {} ", shown(*state)).as_bytes());
                }
            }
            write_path(input.path(), &mut bytes);
        }
        for list in &used.lists {
            let ids: Vec<String> = list.iter().map(ToString::to_string).collect();
            bytes.extend_from_slice(format!("l {}\n", ids.join(" ")).as_bytes());
        }
        bytes.extend_from_slice(&text);
        bytes.extend_from_slice(b"end\n");
        bytes
    }
}

/// A state as it is written to the file of records.
fn shown(state: State) -> String {
    match state {
        State::File {
            digest,
            stat: Some(stat),
        } => format!(
            "{digest:016x} {} {} {} {}",
            stat.inode, stat.length, stat.modified, stat.changed
        ),
        State::File { digest, stat: None } => format!("{digest:016x} -"),
        State::Absent | State::NotAFile => "0 -".to_owned(),
    }
}

fn file_state(text: &[u8]) -> Option<(State, &[u8])> {
    let (digest, rest) = word(text)?;
    let digest = hexadecimal(digest)?;
    let (first, mut rest) = word(rest)?;
    if first == b"-" {
        return Some((State::File { digest, stat: None }, rest));
    }
    let inode = number_in(first)?;
    let (length, after) = word(rest)?;
    let (modified, after) = word(after)?;
    let (changed, after) = word(after)?;
    rest = after;
    let stat = Stat {
        inode,
        length: number_in(length)?,
        modified: number_in(modified)?,
        changed: number_in(changed)?,
    };
    Some((
        State::File {
            digest,
            stat: Some(stat),
        },
        rest,
    ))
}

fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == b' ')?;
    Some((&text[..end], &text[end + 1..]))
}

fn ids(text: &[u8]) -> Option<Vec<u32>> {
    let words = text
        .split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty());
    words.map(number_in).collect()
}

fn number_in<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// Writes a path, and the end of the line.
fn write_path(path: &Path, into: &mut Vec<u8>) {
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'\n' => into.extend_from_slice(b"\\n"),
            b'\\' => into.extend_from_slice(b"\\\\"),
            byte => into.push(*byte),
        }
    }
    into.push(b'\n');
}

fn path_in(text: &[u8]) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next()? {
                b'n' => b'\n',
                other => *other,
            },
            byte => *byte,
        });
    }
    path_of(bytes)
}

#[cfg(unix)]
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    String::from_utf8(bytes).ok().map(PathBuf::from)
}
