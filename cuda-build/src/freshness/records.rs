//! The file of records. Each line is an input, or an output with the numbers of its inputs.
//!
//! ```text
//! cuda-build stamps 2
//! f <digest> <inode> <length> <modified> <changed> <path>     a file that was read
//! a <path>                       a path that does not exist
//! d <path>                       a directory, or something else that is not a file
//! s <path>                       a directory that was searched for headers
//! o <key> <digest> <inode> <length> <modified> <changed> <numbers of inputs, such as 0-99,104> <path>
//! end
//! ```
//!
//! Sources that read the same headers have the same numbers, so ranges keep the file short.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::file::{Stat, State};

const HEAD: &[u8] = b"cuda-build stamps 2";

/// One path that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Input {
    pub(super) path: PathBuf,
    pub(super) state: State,
}

/// The record of one output.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) key: u64,
    /// Always a file.
    pub(super) state: State,
    /// Indices into [`Records::inputs`].
    pub(super) inputs: Vec<usize>,
    /// Whether this run of the build script checked or made the output. It is not written to the file.
    pub(super) used: bool,
}

#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) inputs: Vec<Input>,
    /// The key is the path as an `OsString`, because hashing a `Path` takes several times as long.
    pub(super) outputs: HashMap<OsString, Output>,
    /// The number of the newest input for each path; filled by [`Records::number`].
    newest: HashMap<OsString, usize>,
}

impl Records {
    /// The numbers of inputs, sorted, each once. An input is added unless it equals the newest input for its path.
    pub(super) fn number<'i>(&mut self, inputs: impl IntoIterator<Item = &'i Input>) -> Vec<usize> {
        let key = |input: &Input| input.path.as_os_str().to_owned();
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
        crate::list::sorted_set(numbers)
    }

    /// Reads what [`Records::to_bytes`] wrote. `None` if a line is missing or malformed.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        // A truncated file lacks the last line.
        let bytes = bytes.strip_suffix(b"\nend\n")?;
        let mut lines = bytes.split(|byte| *byte == b'\n');
        if lines.next()? != HEAD {
            return None;
        }
        let mut records = Self::default();
        for line in lines {
            let (kind, rest) = line.split_first_chunk::<2>()?;
            let mut output = None;
            let (state, rest) = match kind {
                b"a " => (State::Absent, rest),
                b"d " => (State::NotAFile, rest),
                b"s " => (State::Searched, rest),
                b"f " => file_state(rest)?,
                b"o " => {
                    let ([key], rest) = numbers(rest)?;
                    let (state, rest) = file_state(rest)?;
                    let (inputs, rest) = word(rest)?;
                    output = Some(Output {
                        key,
                        state,
                        inputs: parse_ranges(inputs, records.inputs.len())?,
                        used: false,
                    });
                    (state, rest)
                }
                _ => return None,
            };
            let path = path_from_bytes(rest)?;
            match output {
                Some(output) => drop(records.outputs.insert(path.into(), output)),
                None => records.inputs.push(Input { path, state }),
            }
        }
        Some(records)
    }

    /// The content of the file, without the inputs that no output uses.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [HEAD, b"\n"].concat();
        let mut line = |start: String, path: &std::ffi::OsStr| {
            bytes.extend_from_slice(start.as_bytes());
            bytes.extend_from_slice(path.as_encoded_bytes());
            bytes.push(b'\n');
        };
        let used = self.outputs.values().flat_map(|output| &output.inputs);
        let used = crate::list::sorted_set(used.copied());
        for input in used.iter().map(|number| &self.inputs[*number]) {
            let start = match input.state {
                State::Absent => "a ".to_owned(),
                State::NotAFile => "d ".to_owned(),
                State::Searched => "s ".to_owned(),
                file @ State::File { .. } => format!("f {}", shown(file)),
            };
            line(start, input.path.as_os_str());
        }
        for (path, output) in &self.outputs {
            let numbers = output
                .inputs
                .iter()
                .map(|number| used.binary_search(number));
            let inputs = ranges(numbers.flatten());
            let start = format!("o {} {}{inputs} ", output.key, shown(output.state));
            line(start, path);
        }
        bytes.extend_from_slice(b"end\n");
        bytes
    }
}

/// The state of a file as it is written, with a space at the end.
fn shown(state: State) -> String {
    let State::File { digest, stat } = state else {
        return String::new();
    };
    let numbers = [digest, stat.inode, stat.length, stat.modified, stat.changed];
    numbers.map(|number| format!("{number} ")).concat()
}

fn file_state(text: &[u8]) -> Option<(State, &[u8])> {
    let ([digest, inode, length, modified, changed], rest) = numbers(text)?;
    let stat = Stat {
        inode,
        length,
        modified,
        changed,
    };
    Some((State::File { digest, stat }, rest))
}

/// Ascending numbers as ranges: `0-99,104`.
fn ranges(numbers: impl Iterator<Item = usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let shown = ranges.iter().map(|(first, last)| format!("{first}-{last}"));
    shown.collect::<Vec<_>>().join(",")
}

/// Reads what [`ranges`] wrote. `None` if a number is not below `count`.
fn parse_ranges(text: &[u8], count: usize) -> Option<Vec<usize>> {
    let text = std::str::from_utf8(text).ok()?;
    let mut numbers = Vec::new();
    for range in text.split_terminator(',') {
        let (first, last) = range.split_once('-')?;
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        numbers.extend((last < count).then_some(first..=last)?);
    }
    Some(numbers)
}

fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == b' ')?;
    Some((&text[..end], &text[end + 1..]))
}

fn numbers<const N: usize>(mut text: &[u8]) -> Option<([u64; N], &[u8])> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        let (digits, rest) = word(text)?;
        *number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        text = rest;
    }
    Some((numbers, text))
}

/// Whether the file of records cannot have this path.
pub(super) fn is_unwritable(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().contains(&b'\n')
}

#[cfg(unix)]
pub(crate) fn path_from_bytes(bytes: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Some(Path::new(std::ffi::OsStr::from_bytes(bytes)).to_owned())
}

#[cfg(not(unix))]
pub(crate) fn path_from_bytes(bytes: &[u8]) -> Option<PathBuf> {
    Some(PathBuf::from(std::str::from_utf8(bytes).ok()?))
}
