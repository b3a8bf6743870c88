//! Makes software bills of materials (`*.dist-info/sboms/*.cyclonedx.json`) reproducible. Three parts of them differ
//! between two builds: a random serial number, the time, and absolute paths.

use serde_json::Value;

/// Removes the serial number, the time and the directories of path packages, and sorts the lists of packages. A
/// document that is not CycloneDX is returned unchanged.
pub fn reproducible(text: &[u8]) -> Vec<u8> {
    let Ok(mut document) = serde_json::from_slice::<Value>(text) else {
        return text.to_owned();
    };
    if document.get("bomFormat").and_then(Value::as_str) != Some("CycloneDX") {
        return text.to_owned();
    }
    if let Some(object) = document.as_object_mut() {
        object.remove("serialNumber");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("timestamp");
        }
    }
    remove_directories(&mut document);
    format!("{document:#}\n").into_bytes()
}

fn remove_directories(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(replaced) = without_directory(text) {
                *text = replaced;
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(remove_directories);
            // Sort a list of packages again: its order depends on the absolute paths that were removed, because Cargo
            // sorts path packages by them.
            if items.iter().all(|item| sort_key(item).is_some()) {
                items.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
            }
        }
        Value::Object(object) => object.values_mut().for_each(remove_directories),
        _ => {}
    }
}

fn sort_key(item: &Value) -> Option<&str> {
    item.as_str()
        .or_else(|| item.get("bom-ref").or_else(|| item.get("ref"))?.as_str())
}

/// The package id or package URL of a local package, without its directory; `None` for any other text. Name and
/// version still identify the package, because Cargo's lock file cannot contain two local packages that share both.
fn without_directory(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix("path+file://") {
        let (directory, fragment) = rest.split_once('#')?;
        let name = directory.rsplit('/').next().unwrap_or_default();
        // Cargo omits the package's name if the directory has the same name.
        let package = match fragment.split_once(' ') {
            Some((package, _)) => package,
            None => fragment,
        };
        let named = if package.contains('@') {
            fragment.to_owned()
        } else {
            format!("{name}@{fragment}")
        };
        return Some(format!("path+file:///#{named}"));
    }
    let (package, qualifiers) = text
        .strip_prefix("pkg:")?
        .split_once("?download_url=file:///")?;
    let fragment = qualifiers
        .split_once('#')
        .map(|(_, path)| format!("#{path}"))
        .unwrap_or_default();
    Some(format!("pkg:{package}{fragment}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bill(root: &str, name: &str, serial: &str) -> String {
        let package = |directory: &str, own: &str| {
            let last = directory.rsplit('/').next().unwrap();
            if last == own {
                format!("path+file://{directory}#0.1.0")
            } else {
                format!("path+file://{directory}#{own}@0.1.0")
            }
        };
        let saxpy = package(&format!("{root}/{name}"), "saxpy");
        let helper = package(&format!("{root}/helper"), "helper");
        format!(
            r#"{{"bomFormat":"CycloneDX","specVersion":"1.5","serialNumber":"urn:uuid:{serial}",
            "metadata":{{"timestamp":"2026-01-0{}T00:00:00Z","component":{{"bom-ref":"{saxpy}",
              "components":[{{"bom-ref":"{saxpy} bin-target-0"}}]}}}},
            "components":[{{"bom-ref":"{helper}","purl":"pkg:cargo/helper@0.1.0?download_url=file://{root}/helper"}},
              {{"bom-ref":"registry+https://example.org/index#libc@0.2.1"}}],
            "dependencies":[{{"ref":"{saxpy}","dependsOn":["{helper}","registry+https://example.org/index#libc@0.2.1"]}},
              {{"ref":"{helper}"}}]}}"#,
            serial.len()
        )
    }

    #[test]
    fn two_checkouts_have_the_same_bill() {
        let first = reproducible(bill("/home/a", "saxpy", "1").as_bytes());
        let second = reproducible(bill("/tmp/zz/b", "checkout-2", "22").as_bytes());
        let text = String::from_utf8(first).unwrap();
        assert_eq!(text, String::from_utf8(second).unwrap());
        for gone in ["/home", "serialNumber", "timestamp", "download_url"] {
            assert!(!text.contains(gone), "{gone} in {text}");
        }
        for kept in [
            "path+file:///#saxpy@0.1.0\"",
            "path+file:///#saxpy@0.1.0 bin-target-0",
            "libc@0.2.1",
        ] {
            assert!(text.contains(kept), "{kept} not in {text}");
        }
    }

    #[test]
    fn other_documents_are_unchanged() {
        for text in ["no json", "{\"spdxVersion\": \"SPDX-2.3\"}"] {
            assert_eq!(reproducible(text.as_bytes()), text.as_bytes());
        }
    }
}
