//! Finds the texts of errors in Rust sources: every text that is passed to what makes an error.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::project::checkout;

/// A text that an error can have.
pub(super) struct Text {
    /// The file, and the line, for a message.
    pub file: String,
    pub line: usize,
    /// The longest part of it between two values.
    pub part: String,
}

/// A source without comments, tests and texts, and the texts with their positions.
struct Source {
    file: String,
    code: String,
    texts: Vec<(usize, String)>,
}

/// Calls whose arguments are texts of errors.
const CALLS: [&str; 5] = ["Err", "ok_or", "ok_or_else", "map_err", "hint"];

/// Constructors, which need their type before them.
const CONSTRUCTORS: [&str; 6] = [
    "Failure::new",
    "Failure::wheel",
    "Failure::invalid_wheel",
    "Failure::io",
    "Error::io",
    "Error::variable",
];

/// Variables that hold a part of an error's text.
const VARIABLES: [&str; 8] = [
    "message", "reason", "text", "sentence", "hint", "fix", "advice", "example",
];

/// All texts of errors in both crates.
pub(super) fn texts() -> Vec<Text> {
    let mut sources = Vec::new();
    for directory in ["cuda-build/src", "cargo-cuda/src"] {
        read(directory, &mut sources);
    }
    let makers: BTreeSet<String> = sources.iter().flat_map(Source::functions).collect();
    sources
        .iter()
        .flat_map(|source| source.errors(&makers))
        .collect()
}

/// The files of `cargo-cuda` with a failure that gets no hint where it is made.
pub(super) fn without_hint() -> Vec<String> {
    let mut sources = Vec::new();
    read("cargo-cuda/src", &mut sources);
    let mut files = Vec::new();
    for source in &sources {
        for maker in ["Failure::new(", "Failure::wheel("] {
            for (at, _) in source.code.match_indices(maker) {
                let arguments = at + maker.len() - 1;
                let rest = &source.code[arguments + balanced(&source.code[arguments..])..];
                let rest = rest.trim_start_matches(|c: char| c == ')' || c.is_whitespace());
                if !rest.starts_with(".hint(") {
                    files.push(source.file.clone());
                }
            }
        }
    }
    files
}

fn read(directory: &str, sources: &mut Vec<Source>) {
    let entries = fs::read_dir(checkout().join(directory)).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in names {
        let path = format!("{directory}/{name}");
        if checkout().join(&path).is_dir() {
            if name != "tests" {
                read(&path, sources);
            }
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            sources.push(Source::new(
                path.clone(),
                &fs::read_to_string(checkout().join(path)).unwrap(),
            ));
        }
    }
}

impl Source {
    fn new(file: String, text: &str) -> Self {
        // Tests are at the end of each file.
        let end = text.find("\nmod tests {").map_or(text.len(), |end| end + 1);
        let (code, texts) = masked(&text[..end]);
        Self { file, code, texts }
    }

    /// The names of functions that return an error, so that their arguments are texts of it.
    fn functions(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (at, _) in self.code.match_indices("fn ") {
            if let Some((name, signature, _)) = self.function(at)
                && ["Failure", "Error", "crate::Error"]
                    .iter()
                    .any(|it| signature.ends_with(&format!("-> {it}")))
                && !["new", "from", "hint", "io", "in_file"].contains(&name)
            {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// The name, the signature and the position of the body of the function at `at`.
    fn function(&self, at: usize) -> Option<(&str, &str, usize)> {
        let rest = &self.code[at + 3..];
        let name = &rest[..rest.find(|c: char| !is_word(c))?];
        let body = rest.find(['{', ';'])?;
        let signature = rest[..body].trim_end();
        (&rest[body..=body] == "{").then_some((name, signature, at + 3 + body))
    }

    /// Closures that make an error: `let refused = |reason| Error::…`.
    fn closures(&self, makers: &BTreeSet<String>) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for (at, _) in self.code.match_indices("let ") {
            let rest = &self.code[at + 4..];
            let Some((name, value)) = rest.split_once('=') else {
                continue;
            };
            let value = value.trim_start().trim_start_matches("move ");
            if value.starts_with('|') && name.trim().chars().all(is_word) {
                let body = &value[..statement(value)];
                let makes = |maker: &str| body.contains(maker);
                if makes("Failure::")
                    || makes("Error::")
                    || makers.iter().any(|maker| makes(&format!("{maker}(")))
                {
                    names.insert(name.trim().to_owned());
                }
            }
        }
        names
    }

    fn errors(&self, makers: &BTreeSet<String>) -> Vec<Text> {
        let closures = self.closures(makers);
        let mut places: Vec<(usize, usize)> = Vec::new();
        let mut words = Words::new(&self.code);
        while let Some((start, word)) = words.next() {
            let (before, after) = (&self.code[..start], &self.code[start + word.len()..]);
            let from = start + word.len() + (after.len() - after.trim_start().len());
            let path = path_before(before);
            let named = format!("{path}{word}");
            let is_call = after.starts_with('(') && !before.ends_with("fn ");
            let makes = CALLS.contains(&word)
                || CONSTRUCTORS.contains(&named.as_str())
                || makers.contains(word)
                || closures.contains(word);
            let is_variant = path.ends_with("Error::") && after.trim_start().starts_with('{');
            if (is_call && makes) || is_variant {
                let end = from + balanced(&self.code[from..]);
                // `Err(error) =>` is a pattern.
                let next = self.code[end..].trim_start();
                let is_pattern = next.starts_with("=>")
                    || next.starts_with("if ")
                    || (next.starts_with('=') && !next.starts_with("=="));
                if !is_pattern {
                    places.push((from, end));
                }
            }
        }
        for (at, _) in self.code.match_indices("fn ") {
            if let Some((name, _, body)) = self.function(at)
                && makers.contains(name)
            {
                places.push((body, body + balanced(&self.code[body..])));
            }
        }
        let values: Vec<(usize, usize)> = places
            .iter()
            .filter(|(start, end)| end - start < 3000)
            .flat_map(|&(start, end)| self.values(start, end))
            .collect();
        places.extend(values);
        let is_error = |at: usize| places.iter().any(|&(start, end)| start <= at && at < end);
        self.texts
            .iter()
            .filter(|(at, _)| is_error(*at))
            .filter_map(|(at, text)| {
                Some(Text {
                    file: self.file.clone(),
                    line: self.code[..*at].lines().count(),
                    part: longest_part(text)?,
                })
            })
            .collect()
    }

    /// Where the variables in an expression get their values.
    fn values(&self, start: usize, end: usize) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        for variable in VARIABLES {
            let mut words = Words::new(&self.code[start..end]);
            if !std::iter::from_fn(|| words.next()).any(|(_, word)| word == variable) {
                continue;
            }
            let value = ["let ", "let mut "]
                .iter()
                .filter_map(|it| self.code[..start].rfind(&format!("{it}{variable} =")))
                .max();
            if let Some(value) = value.filter(|value| start - value < 1500) {
                found.push((value, value + statement(&self.code[value..])));
            }
        }
        found
    }
}

/// The words of a text, with their positions.
struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn next(&mut self) -> Option<(usize, &'a str)> {
        let start = self.at + self.text[self.at..].find(is_word)?;
        let rest = &self.text[start..];
        let end = start + rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        self.at = end;
        Some((start, &self.text[start..end]))
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// `Failure::` before a word.
fn path_before(before: &str) -> &str {
    let start = before
        .rfind(|c: char| !is_word(c) && c != ':')
        .map_or(0, |at| at + 1);
    let path = &before[start..];
    if path.ends_with("::") { path } else { "" }
}

/// The length of the brackets that `code` starts with.
fn balanced(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// The length of a statement.
fn statement(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ';' if depth == 0 => return at,
            _ => {}
        }
        if depth < 0 {
            return at;
        }
    }
    code.len()
}

/// Replaces comments, characters and texts by spaces, and returns the texts.
fn masked(source: &str) -> (String, Vec<(usize, String)>) {
    let bytes = source.as_bytes();
    let (mut code, mut texts) = (bytes.to_vec(), Vec::new());
    let blank = |code: &mut Vec<u8>, start: usize, end: usize| {
        code[start..end]
            .iter_mut()
            .filter(|byte| **byte != b'\n')
            .for_each(|byte| *byte = b' ');
    };
    let mut at = 0;
    while at < bytes.len() {
        let rest = &source[at..];
        let is_start = at == 0 || !is_word(char::from(bytes[at - 1]));
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if is_start && rest.starts_with("r\"") {
            text_end(rest, 2, "\"", &mut texts, at)
        } else if is_start && rest.starts_with("r#\"") {
            text_end(rest, 3, "\"#", &mut texts, at)
        } else if rest.starts_with('"') {
            let mut end = 1;
            while bytes[at + end] != b'"' {
                end += if bytes[at + end] == b'\\' { 2 } else { 1 };
            }
            texts.push((at, unescaped(&rest[1..end])));
            end + 1
        } else if rest.starts_with("'\\") {
            // `'\''`: the end is searched after the escaped character.
            rest[3..].find('\'').map_or(1, |end| end + 4)
        } else if rest.starts_with('\'') {
            let mut characters = rest.char_indices().skip(2);
            match characters.next() {
                Some((end, '\'')) => end + 1,
                _ => 0,
            }
        } else {
            0
        };
        blank(&mut code, at, at + length);
        at += length.max(rest.chars().next().map_or(1, char::len_utf8));
    }
    // Only ASCII has been replaced by ASCII, or whole characters by spaces.
    (String::from_utf8(code).unwrap(), texts)
}

fn text_end(
    rest: &str,
    start: usize,
    end: &str,
    texts: &mut Vec<(usize, String)>,
    at: usize,
) -> usize {
    let length = rest[start..].find(end).unwrap();
    texts.push((at, rest[start..start + length].to_owned()));
    start + length + end.len()
}

fn unescaped(text: &str) -> String {
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let joined = lines.fold(first, |all, line| all + line.trim_start());
    joined
        .replace("\\n", "\n")
        .replace("\\\"", "\"")
        .replace("\\\\", "\\")
}

/// The longest part of a text between values and line breaks; `None` for texts that are no sentence.
fn longest_part(text: &str) -> Option<String> {
    // In a format, `{{` is a brace.
    let text = text.replace("{{", "\u{1}").replace("}}", "\u{2}");
    let mut parts = Vec::new();
    for line in text.lines() {
        for piece in line.split('{') {
            parts.push(piece.split_once('}').map_or(piece, |(_, rest)| rest).trim());
        }
    }
    let longest = parts.into_iter().max_by_key(|part| part.len())?;
    let letters = longest.chars().filter(char::is_ascii_alphabetic).count();
    (letters >= 6 && longest.contains(' '))
        .then(|| longest.replace('\u{1}', "{").replace('\u{2}', "}"))
}

#[test]
fn texts_of_errors_are_found() {
    let code = "fn f() -> Result<(), Failure> {\n// Err(\"in a comment, not found\")\nlet text = format!(\"{x} is the message\");\n\
                let refused = |reason: &str| Failure::new(1, reason.to_owned());\n\
                let other = \"not an error at all\";\nErr(refused(\"first reason here\").hint(\"do this \\\n   and that\"));\n\
                Err(Failure::new(2, text))\n}\nmod tests {\nErr(\"in a test, not found\")\n}\n";
    let source = Source::new("f.rs".to_owned(), code);
    let found: Vec<String> = source
        .errors(&BTreeSet::new())
        .into_iter()
        .map(|text| text.part)
        .collect();
    assert_eq!(
        found,
        ["is the message", "first reason here", "do this and that"]
    );
    assert!(Path::new(&source.file).is_relative());
}
