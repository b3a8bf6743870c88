//! Compares static libraries.

use crate::objects;

/// Whether a file has the expected content. Objects in static libraries may have other names of
/// temporary files.
pub fn same(name: &str, made: Option<&Vec<u8>>, expected: &Vec<u8>) -> bool {
    made.is_some_and(|made| {
        made == expected || name.ends_with(".a") && same_objects(made, expected)
    })
}

fn same_objects(one: &[u8], other: &[u8]) -> bool {
    let objects = |library| members(library).filter(|member| member.starts_with(b"\x7fELF"));
    objects(one).count() > 0
        && objects(one).count() == objects(other).count()
        && objects(one)
            .zip(objects(other))
            .all(|(one, other)| objects::difference(one, other).is_none())
}

/// The members of a static library.
fn members(library: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = library.strip_prefix(b"!<arch>\n").unwrap_or_default();
    std::iter::from_fn(move || {
        let (header, after) = rest.split_at_checked(60)?;
        let length = std::str::from_utf8(&header[48..58]).ok()?.trim();
        let (member, after) = after.split_at_checked(length.parse().ok()?)?;
        rest = &after[after.len().min(member.len() % 2)..];
        Some(member)
    })
}
