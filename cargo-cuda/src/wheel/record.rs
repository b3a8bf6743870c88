//! `RECORD`: the list of a wheel's files with their hashes and sizes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// One line of `RECORD`: path, SHA-256 in URL-safe base64 without padding, size in bytes.
pub fn line(path: &str, content: &[u8]) -> String {
    let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(content));
    format!("{},sha256={hash},{}\n", field(path), content.len())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_path_hash_and_size() {
        assert_eq!(
            line("a/b.py", b""),
            "a/b.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n"
        );
    }

    #[test]
    fn separators_are_quoted() {
        assert!(line("a,\"b\".txt", b"x").starts_with("\"a,\"\"b\"\".txt\",sha256="));
        assert_eq!(own_line("x.dist-info/RECORD"), "x.dist-info/RECORD,,\n");
    }
}
