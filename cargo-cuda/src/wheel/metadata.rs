//! The `METADATA` file of a wheel: headers in the format of e-mail (RFC 822), followed by a description.
//!
//! Source: the core metadata specification of the Python Packaging Authority, version 2.4.

use crate::failure::Failure;

/// The content of a `METADATA` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    headers: Vec<(String, String)>,
    body: Option<String>,
}

impl Metadata {
    /// Parses a file. A line that is not a header continues the value of the header before it.
    pub fn parse(text: &str) -> Self {
        let text = text.replace("\r\n", "\n");
        let (head, body) = match text.split_once("\n\n") {
            Some((head, body)) => (head, Some(body.to_owned())),
            None => (text.as_str(), None),
        };
        let mut headers: Vec<(String, String)> = Vec::new();
        for line in head.lines() {
            let header = line
                .split_once(':')
                .filter(|_| !line.starts_with([' ', '\t', '|']));
            match (header, headers.last_mut()) {
                (Some((name, value)), _) => {
                    headers.push((name.to_owned(), value.trim().to_owned()));
                }
                (None, Some((_, value))) => {
                    value.push('\n');
                    value.push_str(line);
                }
                (None, None) => {}
            }
        }
        Self { headers, body }
    }

    /// The value of a header that must occur exactly once.
    pub fn one<'a>(&'a self, header: &'a str) -> Result<&'a str, Failure> {
        match self.all(header).collect::<Vec<_>>()[..] {
            [value] => Ok(value),
            [] => Err(Failure::invalid_wheel(format!("METADATA has no {header}"))),
            _ => Err(Failure::invalid_wheel(format!(
                "METADATA has several `{header}` lines"
            ))),
        }
    }

    /// All values of a header. The names of headers are case-insensitive.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers
            .iter()
            .filter(move |(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.as_str())
    }

    /// All values of a header, to be changed in place.
    pub fn all_mut<'a>(&'a mut self, name: &'a str) -> impl Iterator<Item = &'a mut String> {
        self.headers
            .iter_mut()
            .filter(move |(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v)
    }

    /// Replaces all values of a header. New headers are where the first old one was, or at the end.
    pub fn set_all(&mut self, name: &str, values: &[String]) {
        let is_same = |(n, _): &(String, String)| n.eq_ignore_ascii_case(name);
        let index = self.headers.iter().position(is_same);
        self.headers.retain(|header| !is_same(header));
        let index = index.unwrap_or(self.headers.len());
        let new = values.iter().map(|value| (name.to_owned(), value.clone()));
        self.headers.splice(index..index, new);
    }

    /// Removes the headers of this name whose values `remove` accepts.
    pub fn remove(&mut self, name: &str, remove: impl Fn(&str) -> bool) {
        self.headers
            .retain(|(n, value)| !n.eq_ignore_ascii_case(name) || !remove(value));
    }

    /// Adds a header after the last header of the same name, or at the end if there is none. Does nothing if a header
    /// of this name already has this value.
    pub fn add(&mut self, name: &str, value: &str) {
        if self.all(name).any(|old| old == value) {
            return;
        }
        let after = self
            .headers
            .iter()
            .rposition(|(n, _)| n.eq_ignore_ascii_case(name));
        let index = after.map_or(self.headers.len(), |i| i + 1);
        self.headers
            .insert(index, (name.to_owned(), value.to_owned()));
    }
}

impl std::fmt::Display for Metadata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, value) in &self.headers {
            writeln!(f, "{name}: {value}")?;
        }
        match &self.body {
            Some(body) => write!(f, "\n{body}"),
            None => Ok(()),
        }
    }
}

/// The `origin` to pass to [`check_name`] for a name from the manifest.
pub const IN_MANIFEST: &str = "`name` in `[package.metadata.cuda.wheel]`";

/// Checks the name of a distribution (PEP 508). The name becomes part of a file name, so a `/` in it could lead to
/// another directory. The error message begins with `origin`, the place where the name is written.
pub fn check_name(name: &str, origin: &str) -> Result<(), Failure> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_end = |c: char| c.is_ascii_alphanumeric();
    if name.chars().all(is_allowed) && name.starts_with(is_end) && name.ends_with(is_end) {
        return Ok(());
    }
    Err(Failure::wheel(format!(
        "{origin}: {name:?} is not a valid name for a Python distribution"
    ))
    .hint("use ASCII letters, digits, `-`, `_` and `.`, with a letter or digit at both ends"))
}

/// Checks that the metadata and the file name have the same version, as installers require.
pub fn check_version(version: &str, in_file_name: &str) -> Result<(), Failure> {
    let parse = |text: &str| {
        text.parse::<pep440_rs::Version>().map_err(|error| {
            Failure::invalid_wheel(format!("{version:?} is not a Python version: {error}"))
        })
    };
    // File names have `_` where a version has `-`.
    if parse(version)? == parse(&in_file_name.replace('_', "-"))? {
        return Ok(());
    }
    Err(Failure::invalid_wheel(format!(
        "METADATA has version {version}, but the file name has {in_file_name}"
    )))
}

/// The normalised name of a distribution (PEP 503): lower case, and one `-` for each run of `-`, `_`
/// and `.`.
pub fn normalized_name(name: &str) -> String {
    let mut normalized = String::with_capacity(name.len());
    for c in name.trim().chars() {
        if matches!(c, '-' | '_' | '.') {
            if !normalized.ends_with('-') {
                normalized.push('-');
            }
        } else {
            normalized.push(c.to_ascii_lowercase());
        }
    }
    normalized
}

/// The name as it is written in a wheel's file name: [`normalized_name`] with `_` instead of `-`.
pub fn file_name_component(name: &str) -> String {
    normalized_name(name).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Metadata-Version: 2.4\nName: saxpy\nVersion: 0.1.0\nRequires-Dist: numpy>=1.2\n\
                        License: MIT\n  and more\nProject-URL: x, https://example.org/a:b\n\n# Title\n\nText: not a header\n";

    #[test]
    fn names_are_normalized() {
        assert_eq!(normalized_name("My__Saxpy.cu12"), "my-saxpy-cu12");
    }

    #[test]
    fn text_survives_unchanged() {
        assert_eq!(Metadata::parse(TEXT).to_string(), TEXT);
        let short = "Name: saxpy\nVersion: 0.1.0\n";
        assert_eq!(Metadata::parse(short).to_string(), short);
        assert_eq!(
            Metadata::parse(&TEXT.replace('\n', "\r\n")).to_string(),
            TEXT
        );
    }

    #[test]
    fn names_of_distributions_are_checked() {
        for name in ["a", "Saxpy", "my_saxpy.fast-2", "2d"] {
            check_name(name, "x").unwrap();
        }
        for name in [
            "", "-a", "a-", "_", "a/b", "/a", "../a", "a b", "ü", "x\ny", "x\n  y", "a\\b", "a\0",
        ] {
            let error = check_name(name, IN_MANIFEST).unwrap_err().message;
            assert!(error.contains(&format!("{name:?}")), "{error}");
            assert!(error.contains("metadata.cuda.wheel") && !error.contains('\n'));
        }
    }

    #[test]
    fn values_are_set_and_added_in_place() {
        let mut metadata = Metadata::parse(TEXT);
        metadata
            .all_mut("name")
            .for_each(|name| *name = "saxpy-cu13".to_owned());
        metadata.add("Requires-Dist", "cuda-toolkit[cudart]>=13.4,<14");
        metadata.add("Requires-Dist", "numpy>=1.2");
        metadata.add("Classifier", "Environment :: GPU :: NVIDIA CUDA :: 13");
        let text = metadata.to_string();
        assert!(text.contains("Name: saxpy-cu13\n"), "{text}");
        assert!(
            text.contains("numpy>=1.2\nRequires-Dist: cuda-toolkit[cudart]>=13.4,<14\nLicense"),
            "{text}"
        );
        assert_eq!(text.matches("numpy").count(), 1);
        assert!(
            text.contains("a:b\nClassifier: Environment :: GPU :: NVIDIA CUDA :: 13\n\n# Title"),
            "{text}"
        );
        assert!(text.ends_with("Text: not a header\n"));
        assert_eq!(metadata.one("License").unwrap(), "MIT\n  and more");
        metadata.remove("requires-dist", |value| value.starts_with("numpy"));
        let requires: Vec<&str> = metadata.all("Requires-Dist").collect();
        assert_eq!(requires, ["cuda-toolkit[cudart]>=13.4,<14"]);
    }
}
