//! Source distributions. maturin makes them, and declares all their metadata as static.
//!
//! The requirements on NVIDIA's packages depend on the CUDA release, so they have to be dynamic: if they are static, uv
//! reads them from `PKG-INFO`, where there are none, and does not call the build backend.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::failure::{Failure, Result};
use crate::package::metadata::Metadata;

/// The metadata fields that the build backend computes.
const DYNAMIC: [&str; 2] = ["Requires-Dist", "Provides-Extra"];

/// Returns the source distribution with dynamic requirements. Fails if `backend`, the path of the file with the build
/// backend, is not in it.
pub fn with_dynamic_requirements(sdist: &[u8], backend: &Path) -> Result<Vec<u8>> {
    let (sdist, paths) = rewritten(sdist).map_err(|error| {
        let text = format!("could not read the source distribution that maturin made: {error}");
        Failure::wheel(text)
            .hint("build it with `maturin sdist`, and check the file that it writes")
    })?;
    let mut paths = paths.iter().map(|path| path.components().skip(1));
    if paths.any(|path| path.eq(backend.components())) {
        return Ok(sdist);
    }
    let backend = backend.display();
    let text = format!("the source distribution does not contain the build backend `{backend}`");
    Err(Failure::wheel(text).hint(format!(
        "write `include = [{{ path = \"{backend}\", format = \"sdist\" }}]` below `[tool.maturin]` in \
         pyproject.toml"
    )))
}

/// The new archive, and the paths of its files. The first directory of each path is `<name>-<version>`.
fn rewritten(sdist: &[u8]) -> io::Result<(Vec<u8>, Vec<PathBuf>)> {
    let mut archive = tar::Archive::new(GzDecoder::new(sdist));
    let mut writer = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    let mut paths = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let mut header = entry.header().clone();
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        if path.components().count() == 2 && path.ends_with("PKG-INFO") {
            let mut metadata = Metadata::parse(&String::from_utf8_lossy(&content));
            for field in DYNAMIC {
                metadata.add("Dynamic", field);
            }
            content = metadata.to_string().into_bytes();
            header.set_size(content.len() as u64);
        }
        writer.append_data(&mut header, &path, content.as_slice())?;
        paths.push(path);
    }
    Ok((writer.into_inner()?.finish()?, paths))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sdist(files: &[(&str, &str)]) -> Vec<u8> {
        let mut writer = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            let content = content.as_bytes();
            writer.append_data(&mut header, path, content).unwrap();
        }
        writer.into_inner().unwrap().finish().unwrap()
    }

    fn content(sdist: &[u8], wanted: &str) -> String {
        let mut archive = tar::Archive::new(GzDecoder::new(sdist));
        let mut entries = archive.entries().unwrap().map(Result::unwrap);
        let mut entry = entries
            .find(|entry| entry.path().unwrap() == Path::new(wanted))
            .unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn requirements_become_dynamic_and_files_stay() {
        let long = format!("a-1/{}/x.rs", "directory/".repeat(20));
        let info = "Metadata-Version: 2.4\nName: a\nVersion: 1\n\ntext\n";
        let nested = "a-1/vendor/b/PKG-INFO";
        let backend = Path::new("b.py");
        let files = [
            ("a-1/PKG-INFO", info),
            (&long, "fn"),
            (nested, info),
            ("a-1/b.py", ""),
        ];
        let made = with_dynamic_requirements(&sdist(&files), backend).unwrap();
        assert_eq!(
            content(&made, "a-1/PKG-INFO"),
            "Metadata-Version: 2.4\nName: a\nVersion: 1\nDynamic: Requires-Dist\nDynamic: Provides-Extra\n\ntext\n"
        );
        assert_eq!(content(&made, &long), "fn");
        assert_eq!(content(&made, nested), info);
        let again = with_dynamic_requirements(&made, backend).unwrap();
        assert!(made == again, "it is complete already");
    }

    #[test]
    fn a_missing_backend_is_an_error() {
        let made = |file: &str| {
            let sdist = sdist(&[(file, "")]);
            with_dynamic_requirements(&sdist, Path::new("cuda_backend.py"))
        };
        assert!(made("a-1/cuda_backend.py").is_ok());
        let error = made("a-1/crates/py/cuda_backend.py").unwrap_err();
        assert!(
            error.hints[0].contains("path = \"cuda_backend.py\""),
            "{error}"
        );
        assert!(with_dynamic_requirements(b"no archive", Path::new("x")).is_err());
    }
}
