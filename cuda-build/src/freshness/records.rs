//! The file of records. Each line is an input, or an output with the numbers of its inputs. Inputs are numbered by
//! line, from 0.
//!
//! ```text
//! cuda-build stamps 4
//! f <digest> <inode> <length> <modified> <changed> <path>     a file that was read
//! a <path>                       a path that does not exist
//! d <path>                       a directory, or something else that is not a file
//! s <path>                       a directory that was searched for headers
//! o <key> <digest> <inode> <length> <modified> <changed> <numbers of inputs, such as 0,1,4> <path>
//! end
//! ```
//!

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::file::{Stat, State};
use cuda_find_core::hash::Digest;
use cuda_find_core::list::{joined, sorted_set};

const HEAD: &[u8] = b"cuda-build stamps 4";

/// A path that a tool looked at, with its state at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InputState {
    pub(super) path: PathBuf,
    pub(super) state: State,
}

/// The record of one output.
#[derive(Debug)]
pub(super) struct OutputRecord {
    pub(super) key: Digest,
    /// Always a file.
    pub(super) state: State,
    /// Indices into [`Records::inputs`].
    pub(super) inputs: Vec<usize>,
    /// Whether this run of the build script checked or made the output. It is not written to the file.
    pub(super) used: bool,
}

#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) inputs: Vec<InputState>,
    /// The key is the path as an `OsString`, because hashing a `Path` takes several times as long.
    pub(super) outputs: HashMap<OsString, OutputRecord>,
    /// The number of the newest input for each path; filled by [`Records::add_inputs`].
    newest: HashMap<OsString, usize>,
}

impl Records {
    /// Adds each input, unless it equals the newest input for its path. Returns the numbers of the inputs, sorted, each
    /// once.
    pub(super) fn add_inputs<'i>(
        &mut self,
        inputs: impl IntoIterator<Item = &'i InputState>,
    ) -> Vec<usize> {
        let key = |input: &InputState| input.path.as_os_str().to_owned();
        if self.newest.is_empty() {
            self.newest = (self.inputs.iter().map(key)).zip(0..).collect();
        }
        let numbers = inputs.into_iter().map(|input| {
            let newest = self.newest.get(input.path.as_os_str()).copied();
            if let Some(number) = newest.filter(|number| self.inputs[*number] == *input) {
                return number;
            }
            self.newest.insert(key(input), self.inputs.len());
            self.inputs.push(input.clone());
            self.inputs.len() - 1
        });
        sorted_set(numbers)
    }

    /// Reads the output of [`Records::to_bytes`]. `None` if a line is missing or malformed.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        // A truncated file lacks the last line.
        let bytes = bytes.strip_suffix(b"\nend\n")?;
        let mut lines = bytes.split(|byte| *byte == b'\n');
        if lines.next()? != HEAD {
            return None;
        }
        let mut records = Self::default();
        for line in lines {
            let Some(fields) = line.strip_prefix(b"o ") else {
                records.inputs.push(InputState::parse(line)?);
                continue;
            };
            let (key, fields) = split_digest(fields)?;
            let (state, fields) = parse_file_state(fields)?;
            let (inputs, path) = split_word(fields)?;
            let record = OutputRecord {
                key,
                state,
                inputs: parse_inputs(inputs, records.inputs.len())?,
                used: false,
            };
            let path = path_from_bytes(path)?;
            records.outputs.insert(path.into(), record);
        }
        Some(records)
    }

    /// The content of the file, without the inputs that no output uses.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [HEAD, b"\n"].concat();
        let used = self.outputs.values().flat_map(|output| &output.inputs);
        let used = sorted_set(used.copied());
        for number in &used {
            self.inputs[*number].write(&mut bytes);
        }
        for (path, output) in &self.outputs {
            let new_numbers = (output.inputs.iter()).map(|number| used.binary_search(number));
            let inputs = joined(new_numbers.flatten(), ",");
            let state = file_state_fields(output.state);
            bytes.extend(format!("o {} {state}{inputs} ", output.key).bytes());
            bytes.extend(path.as_encoded_bytes());
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(b"end\n");
        bytes
    }
}

impl InputState {
    /// Reads a line of [`InputState::write`].
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let (kind, fields) = line.split_first_chunk::<2>()?;
        let (state, path) = match kind {
            b"a " => (State::Absent, fields),
            b"d " => (State::NotAFile, fields),
            b"s " => (State::Searched, fields),
            b"f " => parse_file_state(fields)?,
            _ => return None,
        };
        let path = path_from_bytes(path)?;
        Some(Self { path, state })
    }

    /// Appends the line of this input.
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(match self.state {
            State::Absent => b"a ",
            State::NotAFile => b"d ",
            State::Searched => b"s ",
            State::File { .. } => b"f ",
        });
        bytes.extend(file_state_fields(self.state).bytes());
        bytes.extend_from_slice(self.path.as_os_str().as_encoded_bytes());
        bytes.push(b'\n');
    }
}

/// The digest and the numbers of a file, each with a space after it; empty for other states.
fn file_state_fields(state: State) -> String {
    let State::File { digest, stat } = state else {
        return String::new();
    };
    let numbers = [stat.inode, stat.length, stat.modified, stat.changed];
    format!("{digest} ") + &numbers.map(|number| format!("{number} ")).concat()
}

/// Reads the output of [`file_state_fields`], and returns the state with the rest of the line.
fn parse_file_state(fields: &[u8]) -> Option<(State, &[u8])> {
    let (digest, fields) = split_digest(fields)?;
    let ([inode, length, modified, changed], rest) = split_numbers(fields)?;
    let stat = Stat {
        inode,
        length,
        modified,
        changed,
    };
    Some((State::File { digest, stat }, rest))
}

/// Numbers with a comma between them. `None` if a number is not below `count`.
fn parse_inputs(text: &[u8], count: usize) -> Option<Vec<usize>> {
    let numbers = std::str::from_utf8(text).ok()?.split_terminator(',');
    let number = |text: &str| text.parse().ok().filter(|number| *number < count);
    numbers.map(number).collect()
}

/// Splits a line at the first space.
fn split_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == b' ')?;
    Some((&text[..end], &text[end + 1..]))
}

/// Splits a line after a digest.
fn split_digest(text: &[u8]) -> Option<(Digest, &[u8])> {
    let (digits, rest) = split_word(text)?;
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

/// Splits a line after `N` numbers.
fn split_numbers<const N: usize>(mut text: &[u8]) -> Option<([u64; N], &[u8])> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        let (digits, rest) = split_word(text)?;
        *number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        text = rest;
    }
    Some((numbers, text))
}

/// Whether the file of records cannot contain this path.
pub(super) fn is_unwritable(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().contains(&b'\n')
}

pub(crate) fn path_from_bytes(bytes: &[u8]) -> Option<PathBuf> {
    #[cfg(unix)]
    let path: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(bytes);
    #[cfg(not(unix))]
    let path = std::str::from_utf8(bytes).ok()?;
    Some(path.into())
}
