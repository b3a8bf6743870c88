//! The static CUDA runtime inside native modules. NVIDIA's licence permits to distribute it, so a
//! wheel with it has a notice among its licence files and an entry in a bill of materials.

use cuda_build::{Component, Version};
use serde_json::json;

use super::archive::Wheel;
use super::metadata::Metadata;
use crate::failure::Failure;

/// The name of the notice in the directory `licenses`.
pub const NOTICE: &str = "NVIDIA-CUDA-runtime.txt";

const LICENSE: &str = "https://docs.nvidia.com/cuda/eula/index.html";

/// An error text that every program with the static runtime contains, also after `strip` and
/// `--gc-sections` (measured with CUDA 12.9 and 13.4). This program must not contain it in one piece.
pub fn marker() -> Vec<u8> {
    let text = "CUDA driver version is # for CUDA runtime version";
    text.replace('#', "insufficient").into_bytes()
}

/// Adds notice and bill of materials to a wheel whose modules contain the static runtime, and
/// returns whether they do. `version` is that of the runtime, if it is known.
pub fn add_notice(
    wheel: &mut Wheel,
    metadata: &mut Metadata,
    major: u32,
    version: Option<&Version>,
) -> Result<bool, Failure> {
    let entries = wheel.entries.iter();
    let files: Vec<String> = entries
        .filter(|(_, entry)| entry.static_runtime)
        .map(|(path, _)| path.clone())
        .collect();
    if files.is_empty() {
        return Ok(false);
    }
    let dist_info = wheel.dist_info.clone();
    let notice = notice(&files, major, version);
    wheel.set_text(format!("{dist_info}/licenses/{NOTICE}"), notice)?;
    metadata.add("License-File", NOTICE);
    let bill = bill(metadata.one("Name")?, metadata.one("Version")?, version);
    wheel.set_text(format!("{dist_info}/sboms/nvidia.cyclonedx.json"), bill)?;
    Ok(true)
}

fn notice(files: &[String], major: u32, version: Option<&Version>) -> String {
    let version = version.map_or_else(
        || format!("of CUDA {major}"),
        |version| format!("{version}"),
    );
    let package = Component::Cudart.facts().package(major);
    let package = package.map_or_else(String::new, |package| {
        format!(" NVIDIA's Python package {package} contains it as License.txt.")
    });
    format!(
        "These files contain NVIDIA's CUDA runtime library {version}, linked from libcudart_static.a:\n\n  {}\n\n\
         The library belongs to NVIDIA Corporation. NVIDIA's end user license agreement of the CUDA Toolkit applies\n\
         to it, whatever the licence of this package is. The text of the agreement is at\n{LICENSE}.{package}\n",
        files.join("\n  ")
    )
}

/// A CycloneDX document with the runtime as the only component. Other components of the wheel are in
/// the documents that its builder wrote.
fn bill(name: &str, version: &str, runtime: Option<&Version>) -> String {
    let wheel = format!("pkg:pypi/{name}@{version}");
    let mut library = json!({
        "type": "library",
        "bom-ref": "cudart_static",
        "name": "cudart_static",
        "supplier": { "name": "NVIDIA Corporation" },
        "licenses": [{ "license": { "name": "NVIDIA CUDA Toolkit End User License Agreement", "url": LICENSE } }],
    });
    if let Some(version) = runtime {
        library["version"] = version.to_string().into();
    }
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "library", "bom-ref": wheel, "name": name, "version": version, "purl": wheel,
        }},
        "components": [library],
        "dependencies": [{ "ref": wheel, "dependsOn": ["cudart_static"] }],
    });
    format!("{bill:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notice_names_files_and_version() {
        let files = ["a/b.so".to_owned(), "c.so".to_owned()];
        let version = "13.4.92".parse().unwrap();
        let text = notice(&files, 13, Some(&version));
        assert!(text.contains("library 13.4.92, linked"), "{text}");
        assert!(text.contains("  a/b.so\n  c.so\n"), "{text}");
        assert!(text.contains("package nvidia-cuda-runtime "), "{text}");
        let text = notice(&files, 12, None);
        assert!(text.contains("library of CUDA 12, linked"), "{text}");
        let bill: serde_json::Value =
            serde_json::from_str(&bill("a", "1", Some(&version))).unwrap();
        assert_eq!(bill["components"][0]["version"], "13.4.92");
    }
}
