//! The symbols that NVIDIA's libraries gained within a CUDA major. A module that imports one of them needs a newer
//! library than the one of the major's first release.
//!
//! `tests/symbols/collect.py` writes `symbols.txt` from NVIDIA's packages.

use cuda_build::{Component, Version};

const TABLE: &str = include_str!("symbols.txt");

/// The versions of a component that were compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The first version for the CUDA major. The table lists only symbols that this version lacks.
    pub first: Version,
    /// The newest version at the time. Symbols that were added later are not in the table.
    pub newest: Version,
}

/// The versions that added a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// The CUDA release whose libraries were the first with the symbol.
    In(Version),
    /// The newest version has the symbol, and the versions between the first and the newest were not compared.
    UpTo(Version),
}

/// The compared versions of a component; `None` if the table does not have the component for this major.
pub fn compared(component: Component, major: u32) -> Option<Compared> {
    let (first, newest) = block(component, major)?.lines().next()?.split_once(' ')?;
    Some(Compared {
        first: first.parse().ok()?,
        newest: newest.parse().ok()?,
    })
}

/// Which version of a component added a symbol to its libraries. `None` if the first version for the CUDA major has the
/// symbol, or if the table does not have the symbol.
pub fn added(component: Component, major: u32, symbol: &str) -> Option<Added> {
    let rows = block(component, major)?.lines().skip(1);
    let mut lists = rows.filter_map(|row| row.split_once(' '));
    let (label, _) = lists.find(|(_, symbols)| symbols.split(' ').any(|name| name == symbol))?;
    match label {
        "later" => Some(Added::UpTo(compared(component, major)?.newest)),
        release => Some(Added::In(release.parse().ok()?)),
    }
}

/// The table's lines about a component and a major, from the compared versions on.
fn block(component: Component, major: u32) -> Option<&'static str> {
    let head = format!("\ncomponent {component} {major} ");
    let (_, rest) = TABLE.split_once(&head)?;
    Some(rest.split("\ncomponent ").next().unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_find_core::release::{self, NEWEST_MAJOR};

    #[test]
    fn every_required_package_has_been_compared() {
        for facts in Component::all().map(Component::facts) {
            let has_libraries = !facts.libraries.is_empty() && !facts.is_driver();
            for major in [12, NEWEST_MAJOR] {
                if has_libraries && facts.package_dir(major).is_some() {
                    let compared = compared(facts.component, major);
                    assert!(compared.is_some(), "{} for CUDA {major}", facts.id);
                }
            }
        }
    }

    #[test]
    fn table_is_as_new_as_the_table_of_releases() {
        let newest = compared(Component::Cudart, NEWEST_MAJOR).unwrap().newest;
        let newest = newest.to_string().parse().unwrap();
        assert_eq!(release::newest(), newest, "run tests/symbols/collect.py");
    }
}
