//! The names of the kernels in a compiled module.

use super::{Fatbin, Kind, MAGIC_BYTES, elf};

/// The names of the kernels in a fat binary, a cubin or PTX, sorted. `None` if they cannot be read, because the code is
/// compressed.
pub(crate) fn kernels(module: &[u8]) -> Option<Vec<String>> {
    if !module.starts_with(&MAGIC_BYTES) {
        return in_image(module);
    }
    let fatbin = Fatbin::parse(module).ok()?;
    fatbin
        .entries()
        .find_map(|entry| match entry.header().kind {
            Kind::Elf | Kind::Ptx => in_image(entry.image()?),
            _ => None,
        })
}

fn in_image(image: &[u8]) -> Option<Vec<String>> {
    let mut names = if image.starts_with(b"\x7fELF") {
        elf::kernels(image)?
    } else {
        in_ptx(std::str::from_utf8(image).ok()?)
    };
    names.sort();
    names.dedup();
    Some(names)
}

/// The names after `.entry`: `.visible .entry saxpy(`.
fn in_ptx(text: &str) -> Vec<String> {
    let after_entry = text.split(".entry").skip(1).map(str::trim_start);
    let is_in_name = |c: char| c.is_ascii_alphanumeric() || ['_', '$', '%'].contains(&c);
    let names = after_entry.map(|rest| rest.split(|c| !is_in_name(c)).next().unwrap_or_default());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_ptx() {
        let text =
            ".version 8.0\n.visible .entry b(\n.param .u64 p)\n{ret;}\n.func f()\n.entry _Z1av()\n";
        assert_eq!(kernels(text.as_bytes()).unwrap(), ["_Z1av", "b"]);
        assert!(kernels(b"\x7fELF").is_none());
    }
}
