//! The files that installers read and write: requirements with hashes, and what requirements were resolved to.

use serde_json::Value;

use super::package::{Package, Sha256, normal_name};

/// The lines of a requirements file that admits exactly these packages.
pub(super) fn requirements_file(packages: &[&Package]) -> String {
    let mut text = String::new();
    for package in packages {
        text.push_str(&format!("{}=={}", package.name, package.version));
        for hash in &package.hashes {
            text.push_str(&format!(" --hash=sha256:{}", hash.hex()));
        }
        text.push('\n');
    }
    text
}

/// The output of `uv pip compile --generate-hashes`: `name==version \` and lines of
/// `--hash=sha256:…`. Other lines, such as comments and configured indexes, are ignored.
pub(super) fn parse_compiled(text: &str) -> Result<Vec<Package>, String> {
    let mut packages: Vec<Package> = Vec::new();
    for line in text.lines() {
        let line = line.trim().trim_end_matches('\\').trim_end();
        if let Some(hash) = line.strip_prefix("--hash=sha256:") {
            let hash = Sha256::from_hex(hash).ok_or_else(|| format!("hash `{hash}`"))?;
            let package = packages.last_mut().ok_or("a hash before any package")?;
            package.hashes.push(hash);
        } else if let Some((name, version)) = line.split_once("==")
            && !line.starts_with(['-', '#'])
        {
            let version = version.split(';').next().unwrap_or_default().trim();
            packages.push(Package {
                name: normal_name(name),
                version: version.to_owned(),
                hashes: Vec::new(),
            });
        }
    }
    finish(packages)
}

/// pip's installation report, version 1.
pub(super) fn parse_report(text: &str) -> Result<Vec<Package>, String> {
    let report: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let list = report.get("install").and_then(Value::as_array);
    let mut packages = Vec::new();
    for item in list.ok_or("no `install`")? {
        let field = |path: &str| item.pointer(path).and_then(Value::as_str);
        let name = field("/metadata/name").ok_or("a package without `name`")?;
        let version = field("/metadata/version").ok_or("a package without `version`")?;
        let hash = field("/download_info/archive_info/hashes/sha256")
            .or_else(|| field("/download_info/archive_info/hash")?.strip_prefix("sha256="))
            .and_then(Sha256::from_hex);
        packages.push(Package {
            name: normal_name(name),
            version: version.to_owned(),
            hashes: hash.into_iter().collect(),
        });
    }
    finish(packages)
}

fn finish(mut packages: Vec<Package>) -> Result<Vec<Package>, String> {
    if packages.is_empty() {
        return Err("no packages".to_owned());
    }
    for package in &mut packages {
        let Package {
            name,
            version,
            hashes,
        } = package;
        if hashes.is_empty() {
            return Err(format!("no SHA-256 for {name} {version}"));
        }
        hashes.sort();
        hashes.dedup();
    }
    packages.sort();
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPILED: &str = "\
--index-url https://user:secret@index.invalid/simple
cuda-toolkit==13.4.3 \\
    --hash=sha256:c56be2a9f538653ef5b1aa27787ed046ea08afa10bd55e95335a35fd196ac14e
nvidia-cuda-runtime==13.4.92 \\
    --hash=sha256:9641f797da20ce1dd8e779b6e96d08cf9ba564cec8e8225458811ee26423f3a5 \\
    --hash=sha256:08dca5e4aba480c2fd5b55075c0fa71b84ef9dcf0521f2d58baa14a803a7311c
    # via cuda-toolkit
";

    const REPORT: &str = r#"{"version": "1", "pip_version": "23.0.1", "install": [
        {"download_info": {"url": "https://index.invalid/p/nvidia_cuda_runtime.whl", "archive_info": {"hash": "sha256=9641f797da20ce1dd8e779b6e96d08cf9ba564cec8e8225458811ee26423f3a5"}},
         "requested": true, "metadata": {"name": "nvidia_cuda_runtime", "version": "13.4.92"}},
        {"download_info": {"url": "https://index.invalid/p/cuda_toolkit.whl", "archive_info": {"hashes": {"sha256": "c56be2a9f538653ef5b1aa27787ed046ea08afa10bd55e95335a35fd196ac14e"}}},
         "requested": true, "metadata": {"name": "cuda-toolkit", "version": "13.4.3"}}]}"#;

    #[test]
    fn both_answers_are_equal() {
        let uv = parse_compiled(COMPILED).unwrap();
        let pip = parse_report(REPORT).unwrap();
        assert_eq!(uv.len(), 2);
        for (uv, pip) in uv.iter().zip(&pip) {
            assert!(uv.shares_a_file_with(pip), "{uv:?} {pip:?}");
        }
        assert_eq!(uv[1].hashes.len(), 2);
    }

    #[test]
    fn nothing_of_an_index_is_kept() {
        let packages = parse_compiled(COMPILED).unwrap();
        let file = requirements_file(&packages.iter().collect::<Vec<_>>());
        assert!(
            !file.contains("index") && !file.contains("secret"),
            "{file}"
        );
        assert!(
            file.starts_with("cuda-toolkit==13.4.3 --hash=sha256:c56be2a9"),
            "{file}"
        );
    }

    #[test]
    fn an_answer_without_hashes_is_refused() {
        assert!(parse_compiled("cuda-toolkit==13.4.3\n").is_err());
        assert!(parse_compiled("").is_err());
        assert!(
            parse_report(r#"{"install": [{"metadata": {"name": "a", "version": "1"}}]}"#).is_err()
        );
        assert!(parse_report("pip says no").is_err());
    }
}
