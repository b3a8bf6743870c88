//! Directories with the names of a whole toolkit, made from the component table: every
//! component, nothing in the files but what the search reads.

use std::fs;
use std::io;
use std::path::Path;

use cuda_build::Component;

/// Bytes before `#define CUDA_VERSION` in the `cuda.h` of CUDA 13.4, and in all of it.
const CUDA_H: (usize, usize) = (14_946, 1_280_649);

/// What pip leaves of the wheels of one CUDA major, each component in the directory of its wheel.
///
/// # Errors
/// The directory can't be written.
pub fn site_packages(place: &Path, major: u32) -> io::Result<()> {
    for component in Component::all() {
        let facts = component.facts();
        let (Some(directory), Some(package)) = (facts.package_dir(major), facts.package(major))
        else {
            continue;
        };
        let root = place.join(directory);
        write_component(component, major, &root, "lib")?;
        // The toolkit's own packages carry its version, the products theirs; any will do here.
        let version = if facts.follows_toolkit {
            format!("{major}.4.92")
        } else {
            "9.1.0".to_owned()
        };
        let name = package.replace('-', "_");
        fs::create_dir_all(place.join(format!("{name}-{version}.dist-info")))?;
    }
    // What else lies in the site-packages of somebody who uses PyTorch.
    for index in 0..150 {
        fs::create_dir_all(place.join(format!("package_{index}")))?;
        fs::create_dir_all(place.join(format!("package_{index}-1.{index}.0.dist-info")))?;
    }
    Ok(())
}

/// What NVIDIA's installer leaves: `bin`, `nvvm`, `targets/x86_64-linux`, and links to it.
///
/// # Errors
/// The directory can't be written.
pub fn plain_root(place: &Path, major: u32) -> io::Result<()> {
    let target = place.join("targets/x86_64-linux");
    for component in Component::all() {
        write_component(component, major, &target, "lib")?;
    }
    for (link, to) in [
        ("include", "targets/x86_64-linux/include"),
        ("lib64", "targets/x86_64-linux/lib"),
    ] {
        std::os::unix::fs::symlink(to, place.join(link))?;
    }
    fs::rename(target.join("bin"), place.join("bin"))?;
    let json = format!("{{\"cuda\": {{\"name\": \"CUDA SDK\", \"version\": \"{major}.4.0\"}}}}\n");
    fs::write(place.join("version.json"), json)
}

fn write_component(component: Component, major: u32, root: &Path, lib: &str) -> io::Result<()> {
    let facts = component.facts();
    let write = |path: &Path, bytes: &[u8]| -> io::Result<()> {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, bytes)
    };
    for tool in facts.tools {
        write(&root.join("bin").join(tool), b"")?;
    }
    for archive in facts.archives {
        write(&root.join(lib).join(archive), b"")?;
    }
    for index in 0..facts.libraries.len() {
        if let Some(soname) = facts.soname(index, major) {
            write(&root.join(lib).join(soname), b"")?;
        }
    }
    if let Some(header) = facts.header {
        write(&root.join("include").join(header), b"")?;
    }
    if component == Component::Cudart {
        write(&root.join("include/cuda.h"), cuda_h(major).as_bytes())?;
    }
    Ok(())
}

/// As long as the real one, the version at the same place.
fn cuda_h(major: u32) -> String {
    let filler = "/* Device and context management, and what else the driver offers. */\n";
    let mut text = filler.repeat(CUDA_H.0 / filler.len());
    text.push_str(&format!("#define CUDA_VERSION {major}040\n"));
    text.push_str(&filler.repeat((CUDA_H.1 - CUDA_H.0) / filler.len()));
    text
}
