//! Joins images into an object.

use crate::fatbin::{Entry, Fatbin, MAGIC_BYTES, elf};
use crate::host_compiler::{Family, HostCompiler};
use cuda_find_core::{release, version::ToolkitVersion};

/// The sections into which nvcc puts device code. The second is used for relocatable device code (`-rdc=true`).
const SECTIONS: [&str; 2] = [".nv_fatbin", "__nv_relfatbin"];

/// Why objects cannot be joined.
pub(super) type Reason = Box<dyn std::error::Error + Send + Sync>;

/// Whether joined objects were compared with those that this nvcc and host compiler make for all architectures at once:
/// those of gcc, for the releases in the tables. `tests/nvcc-versions.sh` repeats this with 11.8, 12.4, 13.0 and 13.5.
pub(crate) fn joins_objects(toolkit: ToolkitVersion, host: &HostCompiler) -> bool {
    toolkit <= release::newest() && host.compiler.family == Family::Gcc
}

/// The object `host` with `device_code` instead of its own.
///
/// # Errors
/// The reason, in words.
pub(super) fn join(host: &[u8], device_code: &Fatbin) -> Result<Vec<u8>, Reason> {
    let (section, _) = self::device_code(host)?;
    let joined = elf::with_section(host, section.as_bytes(), &device_code.write());
    Ok(joined.ok_or_else(|| format!("`{section}` of the object cannot be replaced"))?)
}

/// The images in an object or a fat binary.
pub(super) fn entries(output: &[u8]) -> Result<Vec<Entry>, Reason> {
    let is_alone = output.starts_with(&MAGIC_BYTES);
    let code = if is_alone {
        Fatbin::parse(output)?
    } else {
        device_code(output)?.1
    };
    Ok(code.entries().cloned().collect())
}

/// The device code in an object, and the name of its section.
fn device_code(object: &[u8]) -> Result<(&'static str, Fatbin), Reason> {
    for name in SECTIONS {
        if let Some(bytes) = elf::section(object, name.as_bytes()) {
            return Ok((name, Fatbin::parse(bytes)?));
        }
    }
    Err("the object has no device code".into())
}
