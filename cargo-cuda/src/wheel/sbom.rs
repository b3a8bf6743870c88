//! Makes software bills of materials (`*.dist-info/sboms/*.cyclonedx.json`) reproducible. Three parts of them differ
//! between two builds: a random serial number, the time, and the directories of local packages.

use serde_json::Value;

/// Removes the serial number, the time and the directories from a document of maturin's or auditwheel's. Any other,
/// such as one that the author has signed, is returned unchanged.
pub fn reproducible(text: &[u8]) -> Vec<u8> {
    let mut document: Value = serde_json::from_slice(text).unwrap_or_default();
    let tools = document["metadata"]["tools"].to_string();
    let programs = ["cargo-cyclonedx", "maturin", "auditwheel"];
    if !programs.iter().any(|program| tools.contains(program)) {
        return text.to_owned();
    }
    for (object, key) in [("", "serialNumber"), ("/metadata", "timestamp")] {
        let object = document.pointer_mut(object).and_then(Value::as_object_mut);
        object.and_then(|object| object.remove(key));
    }
    without_directories(&format!("{document:#}\n")).into_bytes()
}

/// Replaces `path+file:///home/me/saxpy#0.1.0` by `path+file:///#saxpy@0.1.0`. Name and version still identify the
/// package, because Cargo's lock file cannot contain two local packages that share both.
fn without_directories(text: &str) -> String {
    let mut pieces = text.split("file:///");
    let mut result = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (directory, rest) = piece.split_at(piece.find(['#', '"']).unwrap_or(piece.len()));
        let is_id = result.ends_with("path+");
        result.push_str("file:///");
        let id = rest.split(['"', ' ']).next().unwrap_or_default();
        match rest.strip_prefix('#') {
            // Cargo omits the package's name if the directory has the same name.
            Some(version) if is_id && !id.contains('@') => {
                let name = directory.rsplit('/').next().unwrap_or_default();
                result.push_str(&format!("#{name}@{version}"));
            }
            _ => result.push_str(rest),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_checkouts_have_the_same_bill() {
        let bill = |serial: &str, directory: &str, id: &str| {
            let text = format!(
                r#"{{"bomFormat":"CycloneDX","serialNumber":"urn:uuid:{serial}",
                "metadata":{{"tools":"maturin","timestamp":"{serial}",
                "component":{{"bom-ref":"path+file://{directory}{id} bin-target-0",
                  "purl":"pkg:cargo/saxpy@0.1.0?download_url=file://{directory}#src/lib.rs"}}}},
                "components":[{{"bom-ref":"registry+https://example.org/index#libc@0.2.1"}}]}}"#
            );
            String::from_utf8(reproducible(text.as_bytes())).unwrap()
        };
        let first = bill("1", "/home/a/saxpy", "#0.1.0");
        assert_eq!(first, bill("22", "/tmp/zz/checkout-2", "#saxpy@0.1.0"));
        for gone in ["/home", "serialNumber", "timestamp"] {
            assert!(!first.contains(gone), "{gone} in {first}");
        }
        for text in [
            "\"path+file:///#saxpy@0.1.0 bin-target-0\"",
            "download_url=file:///#src/lib.rs\"",
            "index#libc@0.2.1",
        ] {
            assert!(first.contains(text), "{text} not in {first}");
        }
    }

    #[test]
    fn other_documents_are_unchanged() {
        let own = "{\"bomFormat\": \"CycloneDX\", \"serialNumber\": 1.10}";
        for text in ["no json", "{\"spdxVersion\": \"SPDX-2.3\"}", own] {
            assert_eq!(reproducible(text.as_bytes()), text.as_bytes());
        }
    }
}
