//! The text files of a wheel's metadata: `METADATA`, `RECORD` and the name of the file.
//!
//! Sources: the core metadata specification, version 2.4, and the binary distribution format of the Python Packaging
//! Authority.

use std::fmt;
use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::failure::{Failure, Result};
use crate::output::joined;

/// The content of a `METADATA` file: headers in the format of e-mail (RFC 822), followed by a description.
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
            let continues = line.starts_with([' ', '\t', '|']);
            if let Some((name, value)) = line.split_once(':').filter(|_| !continues) {
                headers.push((name.to_owned(), value.trim().to_owned()));
            } else if let Some((_, value)) = headers.last_mut() {
                *value += &format!("\n{line}");
            }
        }
        Self { headers, body }
    }

    /// The value of a header that must occur exactly once.
    pub fn one<'a>(&'a self, header: &'a str) -> Result<&'a str> {
        let fault = match self.all(header).collect::<Vec<_>>()[..] {
            [value] => return Ok(value),
            [] => format!("METADATA has no {header}"),
            _ => format!("METADATA has several `{header}` lines"),
        };
        Err(Failure::invalid_wheel(fault))
    }

    /// All values of a header. The names of headers are case-insensitive.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let is_same = move |(n, _): &&(String, String)| n.eq_ignore_ascii_case(name);
        self.headers.iter().filter(is_same).map(|(_, v)| v.as_str())
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

    /// Adds a header after the last header of the same name, or at the end if there is none. Does nothing if a header
    /// of this name already has this value.
    pub fn add(&mut self, name: &str, value: &str) {
        if self.all(name).any(|old| old == value) {
            return;
        }
        let mut headers = self.headers.iter();
        let last = headers.rposition(|(n, _)| n.eq_ignore_ascii_case(name));
        let index = last.map_or(self.headers.len(), |last| last + 1);
        let header = (name.to_owned(), value.to_owned());
        self.headers.insert(index, header);
    }
}

impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.headers {
            writeln!(f, "{name}: {value}")?;
        }
        match &self.body {
            Some(body) => write!(f, "\n{body}"),
            None => Ok(()),
        }
    }
}

/// Checks the name of a distribution (PEP 508). The name becomes part of a file name, so a `/` in it could lead to
/// another directory.
pub fn check_name(name: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_end = |c: char| c.is_ascii_alphanumeric();
    if name.chars().all(is_allowed) && name.starts_with(is_end) && name.ends_with(is_end) {
        return Ok(());
    }
    let text = format!("`Name` in METADATA: {name:?} is not a valid name for a distribution");
    let hint = "use ASCII letters, digits, `-`, `_` and `.`, with a letter or digit at both ends";
    Err(Failure::wheel(text).hint(hint))
}

/// The normalised name of a distribution (PEP 503): lower case, and one `-` for each run of `-`, `_` and `.`.
/// `Nvidia_Cuda.Runtime` becomes `nvidia-cuda-runtime`.
pub fn normalized_name(name: &str) -> String {
    let words = name.trim().split(['-', '_', '.']);
    joined(words.filter(|word| !word.is_empty()), "-").to_ascii_lowercase()
}

/// The name as it is written in a wheel's file name: [`normalized_name`] with `_` instead of `-`.
pub fn file_name_component(name: &str) -> String {
    normalized_name(name).replace('-', "_")
}

/// The parts of a wheel's file name: `name-version(-build)-python-abi-platform(-label).whl`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName {
    /// The distribution's name, escaped.
    pub distribution: String,
    pub version: String,
    /// The build number, if there is one, and the compatibility tags.
    pub rest: String,
    /// The label of a variant.
    pub label: Option<String>,
}

impl FileName {
    /// Parses a file name; `None` if it is not that of a wheel.
    pub fn parse(file_name: &str) -> Option<Self> {
        let mut parts: Vec<&str> = file_name.strip_suffix(".whl")?.split('-').collect();
        let starts_with_digit = |part: &&str| part.starts_with(|c: char| c.is_ascii_digit());
        let tags = 5 + usize::from(parts.get(2).is_some_and(starts_with_digit));
        let has_all = parts.iter().all(|part| !part.is_empty());
        let label = parts.get(tags).map(|label| (*label).to_owned());
        if parts.len() < tags || parts.len() > tags + 1 || !has_all {
            return None;
        }
        parts.truncate(tags);
        Some(Self {
            distribution: parts[0].to_owned(),
            version: parts[1].to_owned(),
            rest: parts[2..].join("-"),
            label,
        })
    }
}

/// A compatibility tag, such as `cp39-abi3-manylinux_2_34_x86_64`, with the platform `linux_x86_64`, which promises
/// nothing about the libraries of a machine.
pub fn with_local_platform(tag: &str) -> String {
    let (start, platform) = tag.rsplit_once('-').unwrap_or(("", tag));
    let mut machines = ["x86_64", "aarch64"].into_iter();
    match machines.find(|machine| platform.ends_with(machine)) {
        Some(machine) => format!("{start}-linux_{machine}"),
        None => tag.to_owned(),
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, version) = (&self.distribution, &self.version);
        write!(f, "{name}-{version}-{}", self.rest)?;
        let mut label = self.label.iter();
        label.try_for_each(|label| write!(f, "-{label}"))?;
        f.write_str(".whl")
    }
}

/// Libraries that every manylinux system has (PEP 600).
const MANYLINUX: &str = "ld-linux-aarch64.so.1 ld-linux-x86-64.so.2 libGL.so.1 libICE.so.6 libSM.so.6 libX11.so.6 \
     libXext.so.6 libXrender.so.1 libanl.so.1 libatomic.so.1 libc.so.6 libdl.so.2 libexpat.so.1 libgcc_s.so.1 \
     libglib-2.0.so.0 libgobject-2.0.so.0 libgthread-2.0.so.0 libm.so.6 libmvec.so.1 libnsl.so.1 libpthread.so.0 \
     libresolv.so.2 librt.so.1 libstdc++.so.6 libutil.so.1 libz.so.1";

/// Whether every manylinux system has a library.
pub fn is_on_manylinux(soname: &str) -> bool {
    MANYLINUX.split(' ').any(|name| name == soname)
}

/// What `RECORD` states about the content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    pub sha256: [u8; 32],
    /// The size in bytes.
    pub size: u64,
}

impl Digest {
    /// The hash in hexadecimal digits.
    pub fn hex(&self) -> String {
        self.sha256
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// Computes a [`Digest`] from pieces of a file.
#[derive(Default)]
pub struct Hasher {
    sha256: Sha256,
    size: u64,
}

impl Hasher {
    pub fn finish(self) -> Digest {
        Digest {
            sha256: self.sha256.finalize().into(),
            size: self.size,
        }
    }
}

impl Write for Hasher {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.sha256.update(piece);
        self.size += piece.len() as u64;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The line of a file. That of the `RECORD` file itself has neither hash nor size. A path is quoted if it contains a
/// character that has a meaning in CSV.
pub fn record_line(path: &str, digest: Option<&Digest>) -> String {
    let mut line = path.to_owned();
    if path.contains([',', '"', '\n', '\r']) {
        line = format!("\"{}\"", path.replace('"', "\"\""));
    }
    let Some(Digest { sha256, size }) = digest else {
        return line + ",,\n";
    };
    let sha256 = URL_SAFE_NO_PAD.encode(sha256);
    line + &format!(",sha256={sha256},{size}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Metadata-Version: 2.4\nName: saxpy\nVersion: 0.1.0\nRequires-Dist: numpy>=1.2\n\
                        License: MIT\n  and more\nProject-URL: x, https://example.org/a:b\n\n# Title\n\n\
                        Text: not a header\n";

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
            check_name(name).unwrap();
        }
        for name in [
            "", "-a", "a-", "_", "a/b", "/a", "../a", "a b", "ü", "x\ny", "x\n  y", "a\\b", "a\0",
        ] {
            let error = check_name(name).unwrap_err().message;
            assert!(error.contains(&format!("{name:?}")), "{error}");
            assert!(error.contains("METADATA") && !error.contains('\n'));
        }
    }

    #[test]
    fn values_are_set_and_added_in_place() {
        let mut metadata = Metadata::parse(TEXT);
        metadata.set_all("name", &["saxpy-cu13".to_owned()]);
        metadata.add("Requires-Dist", "cuda-toolkit[cudart]>=13.4,<14");
        metadata.add("Requires-Dist", "numpy>=1.2");
        metadata.add("Classifier", "Environment :: GPU :: NVIDIA CUDA :: 13");
        let text = metadata.to_string();
        assert!(text.contains("name: saxpy-cu13\n"), "{text}");
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
    }

    #[test]
    fn names_are_parsed_and_printed() {
        for name in [
            "saxpy-0.1.0-cp39-abi3-linux_x86_64.whl",
            "a_b-1-2x-py2.py3-none-any.whl",
            "a_b-1-2x-py2.py3-none-any-cu13_sm90.whl",
            "a_b-1-py3-none-any-cu13.whl",
        ] {
            assert_eq!(FileName::parse(name).unwrap().to_string(), name);
        }
        let name = "saxpy-0.1.0-cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl";
        let name = FileName::parse(name).unwrap();
        assert_eq!(name.distribution, "saxpy");
    }

    #[test]
    fn a_tag_loses_its_promise() {
        let of = with_local_platform;
        assert_eq!(
            of("cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64"),
            "cp39-abi3-linux_x86_64"
        );
        assert_eq!(
            of("py3-none-manylinux_2_34_aarch64"),
            "py3-none-linux_aarch64"
        );
        assert_eq!(of("py3-none-linux_x86_64"), "py3-none-linux_x86_64");
        assert_eq!(of("py3-none-any"), "py3-none-any");
    }

    #[test]
    fn other_file_names_are_refused() {
        for name in [
            "saxpy-0.1.0.tar.gz",
            "saxpy.whl",
            "a-1-py3-none.whl",
            "a-1-x-py3-none-any-label.whl",
            "a--py3-none-any.whl",
            "a-1-2-3-py3-none-any-label.whl",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }

    fn digest(content: &[u8]) -> Digest {
        let mut hasher = Hasher::default();
        hasher.write_all(content).unwrap();
        hasher.finish()
    }

    #[test]
    fn a_line_has_path_hash_and_size() {
        assert_eq!(
            record_line("a/b.py", Some(&digest(b""))),
            "a/b.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n"
        );
        assert_eq!(digest(b"abc").size, 3);
    }

    #[test]
    fn separators_are_quoted() {
        assert!(
            record_line("a,\"b\".txt", Some(&digest(b"x")))
                .starts_with("\"a,\"\"b\"\".txt\",sha256=")
        );
        assert_eq!(
            record_line("x.dist-info/RECORD", None),
            "x.dist-info/RECORD,,\n"
        );
    }
}
