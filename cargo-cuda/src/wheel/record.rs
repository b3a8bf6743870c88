//! `RECORD`: the list of a wheel's files with their hashes and sizes.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// What `RECORD` states about the content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// SHA-256 in URL-safe base64 without padding.
    pub sha256: String,
    /// The size in bytes.
    pub size: u64,
}

/// Computes a [`Digest`] from pieces of a file.
#[derive(Default)]
pub struct Hasher {
    sha256: Sha256,
    size: u64,
}

impl Hasher {
    pub fn update(&mut self, piece: &[u8]) {
        self.sha256.update(piece);
        self.size += piece.len() as u64;
    }

    pub fn finish(self) -> Digest {
        Digest {
            sha256: URL_SAFE_NO_PAD.encode(self.sha256.finalize()),
            size: self.size,
        }
    }
}

/// The line of a file.
pub fn line(path: &str, digest: &Digest) -> String {
    format!("{},sha256={},{}\n", field(path), digest.sha256, digest.size)
}

/// The line for the `RECORD` file itself, which has neither hash nor size.
pub fn own_line(path: &str) -> String {
    format!("{},,\n", field(path))
}

/// A path as a CSV field. It is quoted if it contains a character that has a meaning in CSV.
fn field(path: &str) -> String {
    if path.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", path.replace('"', "\"\""))
    } else {
        path.to_owned()
    }
}

/// Checks that a `RECORD` lists exactly the files of a wheel, with their hashes and sizes. `own` is
/// the path of `RECORD` itself.
pub fn check(record: &str, own: &str, files: &BTreeMap<&str, &Digest>) -> Result<(), String> {
    let mut listed = BTreeSet::new();
    for line in record.lines().filter(|line| !line.is_empty()) {
        let mut fields = line.rsplitn(3, ',');
        let (Some(size), Some(hash), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            return Err(format!("RECORD has a line without hash and size: {line:?}"));
        };
        let quoted = path.strip_prefix('"').and_then(|p| p.strip_suffix('"'));
        let path = quoted.map_or_else(|| path.to_owned(), |path| path.replace("\"\"", "\""));
        if !listed.insert(path.clone()) {
            return Err(format!("RECORD lists `{path}` twice"));
        }
        if path == own {
            continue;
        }
        let Some(digest) = files.get(path.as_str()) else {
            return Err(format!(
                "RECORD lists `{path}`, which the wheel does not contain"
            ));
        };
        let Some(sha256) = hash.strip_prefix("sha256=") else {
            return Err(format!("RECORD has no SHA-256 of `{path}`"));
        };
        let same_size = size.is_empty() || size == digest.size.to_string();
        if sha256.trim_end_matches('=') != digest.sha256 || !same_size {
            return Err(format!(
                "`{path}` is not the file that RECORD lists: the hash or the size differs"
            ));
        }
    }
    match files.keys().find(|path| !listed.contains(**path)) {
        Some(missing) => Err(format!("RECORD does not list `{missing}`")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(content: &[u8]) -> Digest {
        let mut hasher = Hasher::default();
        content.chunks(2).for_each(|piece| hasher.update(piece));
        hasher.finish()
    }

    #[test]
    fn a_line_has_path_hash_and_size() {
        assert_eq!(
            line("a/b.py", &digest(b"")),
            "a/b.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n"
        );
        assert_eq!(digest(b"abc").size, 3);
    }

    #[test]
    fn separators_are_quoted() {
        assert!(line("a,\"b\".txt", &digest(b"x")).starts_with("\"a,\"\"b\"\".txt\",sha256="));
        assert_eq!(own_line("x.dist-info/RECORD"), "x.dist-info/RECORD,,\n");
    }

    #[test]
    fn a_record_lists_exactly_the_files() {
        let (a, b) = (digest(b"a"), digest(b"b"));
        let files = BTreeMap::from([("a,x", &a), ("b", &b)]);
        let own = "x.dist-info/RECORD";
        let good = format!("{}{}{}", line("a,x", &a), line("b", &b), own_line(own));
        assert_eq!(check(&good, own, &files), Ok(()));
        assert_eq!(check(&good.replace('\n', "\r\n"), own, &files), Ok(()));
        let padded = good.replace(&b.sha256, &format!("{}=", b.sha256));
        assert_eq!(check(&padded, own, &files), Ok(()));
        for (record, words) in [
            (good.replace(&a.sha256, &b.sha256), "`a,x` is not the file"),
            (good.replace(",1\n", ",2\n"), "is not the file"),
            (line("b", &b), "does not list `a,x`"),
            (good.clone() + &line("c", &a), "lists `c`, which the wheel"),
            (good.clone() + &line("b", &b), "lists `b` twice"),
            (good.replace("sha256=", "md5="), "has no SHA-256"),
            ("b\n".to_owned(), "a line without hash and size"),
        ] {
            let error = check(&record, own, &files).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
