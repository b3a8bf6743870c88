//! Reads tables out of `Cargo.toml`, with errors that name the file and the key.

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::Wanted;
use crate::error::Error;
use crate::root::Root;

/// The text of a TOML file. Tables borrow from it.
pub(super) struct Document {
    path: PathBuf,
    text: String,
}

impl Document {
    pub(super) fn read(root: &Root, path: &Path) -> Result<Self, Error> {
        let text = root.text(path).map_err(|source| Error::Io {
            action: "read",
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            text,
        })
    }

    fn parse(&self) -> Result<DeTable<'_>, Error> {
        let table = DeTable::parse(&self.text).map_err(|error| Error::Manifest {
            path: self.path.clone(),
            key: "TOML".to_owned(),
            reason: error.to_string(),
        })?;
        Ok(table.into_inner())
    }

    /// The table at `keys`; empty if the file has none.
    pub(super) fn table(&self, keys: &[&str]) -> Result<Table<'_>, Error> {
        let mut table = self.parse()?;
        for key in keys {
            table = match table.remove(*key).map(toml::Spanned::into_inner) {
                Some(DeValue::Table(inner)) => inner,
                _ => DeTable::new(),
            };
        }
        Ok(Table {
            path: self.path.clone(),
            prefix: keys.join("."),
            table,
        })
    }
}

/// One table of a manifest, and its place.
pub(super) struct Table<'a> {
    path: PathBuf,
    prefix: String,
    table: DeTable<'a>,
}

impl<'a> Table<'a> {
    pub(super) fn wrong(&self, key: &str, reason: impl Into<String>) -> Error {
        Error::Manifest {
            path: self.path.clone(),
            key: format!("{}.{key}", self.prefix),
            reason: reason.into(),
        }
    }

    /// An unknown key is an error, because a misspelt one would be ignored.
    pub(super) fn check_keys(&self, known: &[&str]) -> Result<(), Error> {
        match self
            .table
            .keys()
            .map(|key| key.get_ref())
            .find(|key| !known.contains(&key.as_ref()))
        {
            Some(key) => Err(self.wrong(key, format!("unknown key; known: {}", known.join(", ")))),
            None => Ok(()),
        }
    }

    fn value(&self, key: &str) -> Option<&DeValue<'a>> {
        self.table.get(key).map(|value| value.get_ref())
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(DeValue::String(text)) => Ok(Some(text.to_string())),
            Some(other) => Err(self.kind(key, "a string", other)),
        }
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(DeValue::Boolean(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.kind(key, "true or false", other)),
        }
    }

    fn array(&self, key: &str) -> Result<Option<Vec<&DeValue<'a>>>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(DeValue::Array(items)) => {
                Ok(Some(items.iter().map(|item| item.get_ref()).collect()))
            }
            Some(other) => Err(self.kind(key, "a list", other)),
        }
    }

    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<String>>, Error> {
        let Some(items) = self.array(key)? else {
            return Ok(None);
        };
        let text = |item: &DeValue<'a>| match item {
            DeValue::String(text) => Ok(text.to_string()),
            other => Err(self.kind(
                key,
                "a list of strings such as [\"8.0\", \"12.0+PTX\"]",
                other,
            )),
        };
        items
            .into_iter()
            .map(text)
            .collect::<Result<_, _>>()
            .map(Some)
    }

    pub(super) fn numbers(&self, key: &str) -> Result<Option<Vec<u32>>, Error> {
        let Some(items) = self.array(key)? else {
            return Ok(None);
        };
        let number = |item: &DeValue<'a>| {
            item.as_integer()
                .and_then(|n| n.as_str().parse().ok())
                .ok_or_else(|| self.kind(key, "a list of CUDA majors such as [12, 13]", item))
        };
        items
            .into_iter()
            .map(number)
            .collect::<Result<_, _>>()
            .map(Some)
    }

    pub(super) fn table(&self, key: &str) -> Result<Option<Self>, Error> {
        match self.value(key) {
            None => Ok(None),
            Some(DeValue::Table(inner)) => Ok(Some(self.below(key, inner))),
            Some(other) => Err(self.kind(key, "a table", other)),
        }
    }

    /// The tables below `key`, by name.
    pub(super) fn tables(&self, key: &str) -> Result<Vec<(String, Self)>, Error> {
        let Some(outer) = self.table(key)? else {
            return Ok(Vec::new());
        };
        let names = outer.table.keys().map(|name| name.get_ref().to_string());
        let inner = |name: String| match outer.value(&name) {
            Some(DeValue::Table(table)) => Ok((name.clone(), outer.below(&name, table))),
            Some(other) => Err(outer.kind(&name, "a table", other)),
            None => Ok((name.clone(), outer.below(&name, &DeTable::new()))),
        };
        names.map(inner).collect()
    }

    fn below(&self, key: &str, table: &DeTable<'a>) -> Self {
        Self {
            path: self.path.clone(),
            prefix: format!("{}.{key}", self.prefix),
            table: table.clone(),
        }
    }

    pub(super) fn components(&self, key: &str) -> Result<Option<Vec<Wanted>>, Error> {
        let Some(items) = self.array(key)? else {
            return Ok(None);
        };
        items
            .into_iter()
            .map(|item| self.component(key, item))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn component(&self, key: &str, item: &DeValue<'a>) -> Result<Wanted, Error> {
        let parse = |name: &str| {
            name.parse()
                .map_err(|reason: String| self.wrong(key, reason))
        };
        match item {
            DeValue::String(name) => Ok(Wanted {
                component: parse(name)?,
                version: None,
                optional: false,
            }),
            DeValue::Table(table) => {
                let table = self.below(key, table);
                table.check_keys(&["name", "version", "optional"])?;
                let name = table
                    .text("name")?
                    .ok_or_else(|| table.wrong("name", "missing"))?;
                let version = match table.text("version")? {
                    None => None,
                    Some(text) => Some(semver::VersionReq::parse(&text).map_err(|e| {
                        table.wrong(
                            "version",
                            format!("`{text}` is no version requirement: {e}"),
                        )
                    })?),
                };
                let optional = table.flag("optional")?.unwrap_or(false);
                Ok(Wanted {
                    component: parse(&name)?,
                    version,
                    optional,
                })
            }
            other => Err(self.kind(key, "a list of component names or tables", other)),
        }
    }

    fn kind(&self, key: &str, expected: &str, found: &DeValue<'a>) -> Error {
        self.wrong(
            key,
            format!(
                "expected {expected}, found a value of type {}",
                found.type_str()
            ),
        )
    }
}

/// The manifest of the workspace that the package in `directory` belongs to: the one it names
/// (`package.workspace`), otherwise the nearest one above, itself included, with a `[workspace]`
/// that does not exclude it. As for Cargo, a package of `cargo vendor` belongs to none (it has the
/// file `.cargo-checksum.json`), and one from a registry neither (`.cargo-ok`).
pub(super) fn workspace_manifest(root: &Root, directory: &Path) -> Result<Option<PathBuf>, Error> {
    let published = [".cargo-checksum.json", ".cargo-ok"];
    if published
        .iter()
        .any(|name| root.is_file(&directory.join(name)))
    {
        return Ok(None);
    }
    let own = directory.join("Cargo.toml");
    let package = Document::read(root, &own)?;
    if let Some(named) = package.table(&["package"])?.text("workspace")? {
        return Ok(Some(directory.join(named).join("Cargo.toml")));
    }
    for ancestor in directory.ancestors() {
        let path = ancestor.join("Cargo.toml");
        if !root.is_file(&path) {
            continue;
        }
        let document = Document::read(root, &path)?;
        if !document.parse()?.contains_key("workspace") {
            continue;
        }
        let excluded = document
            .table(&["workspace"])?
            .texts("exclude")?
            .unwrap_or_default();
        let excluded = excluded
            .iter()
            .any(|e| directory.starts_with(ancestor.join(e)));
        return Ok((!excluded).then_some(path));
    }
    Ok(None)
}
