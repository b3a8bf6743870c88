//! Reads tables of `Cargo.toml`, with errors that name the file and the key.

use std::path::{Path, PathBuf};

use semver::VersionReq;

use super::Wanted;
use crate::error::Error;
use cuda_find_core::root::Root;
use cuda_find_core::toml::{self, Value};

/// One table of a manifest, with the file and the key for messages.
pub(super) struct ManifestTable {
    path: PathBuf,
    text: String,
    /// The dotted key of the table; empty for the whole file.
    key: String,
    table: toml::Table,
}

impl ManifestTable {
    /// Reads a manifest.
    pub(super) fn read(root: &Root, path: &Path) -> Result<Self, Error> {
        let text = root.text(path).map_err(Error::io("read", path))?;
        let table = toml::Table::parse(&text).map_err(|reason| Error::Manifest {
            path: path.to_owned(),
            line: None,
            key: String::new(),
            reason: format!("invalid TOML: {reason}"),
        })?;
        Ok(Self {
            path: path.to_owned(),
            text,
            key: String::new(),
            table,
        })
    }

    /// The table at a dotted key; empty if there is none.
    pub(super) fn table_or_empty(&self, key: &str) -> Self {
        let mut keys = key.split('.');
        let table = keys.try_fold(&self.table, |table, key| match table.get(key) {
            Some(Value::Table(inner)) => Some(inner),
            _ => None,
        });
        self.below(key, table.cloned().unwrap_or_default())
    }

    pub(super) fn wrong(&self, key: &str, reason: impl Into<String>) -> Error {
        Error::Manifest {
            path: self.path.clone(),
            line: self.line(key),
            key: format!("{}.{key}", self.key),
            reason: reason.into(),
        }
    }

    /// The line of a key below the header of this table. `None` for a key of an inline table or a dotted key.
    fn line(&self, key: &str) -> Option<usize> {
        let header = format!("[{}]", self.key);
        let mut lines = self.text.lines().map(str::trim_start).enumerate();
        lines.find(|(_, line)| line.starts_with(&header))?;
        let mut lines_of_table = lines.take_while(|(_, line)| !line.starts_with('['));
        let is_key = |line: &str| {
            let rest = line.strip_prefix(key).map(str::trim_start);
            rest.is_some_and(|rest| rest.starts_with('=') || rest.starts_with('.'))
        };
        let (index, _) = lines_of_table.find(|(_, line)| is_key(line))?;
        Some(index + 1)
    }

    /// An unknown key is an error, because a misspelled key would otherwise be ignored.
    pub(super) fn check_keys(&self, known_keys: &str) -> Result<(), Error> {
        let mut keys = self.table.keys();
        let Some(key) = keys.find(|key| known_keys.split(' ').all(|known| known != *key)) else {
            return Ok(());
        };
        let known_keys = known_keys.replace(' ', ", ");
        Err(self.wrong(key, format!("unknown key; the known keys are {known_keys}")))
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.table.get(key)
    }

    /// The value of a key. `convert` returns `None` for a value of the wrong type.
    fn typed<T>(
        &self,
        key: &str,
        expected: &str,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        (self.value(key))
            .map(|value| convert(value).ok_or_else(|| self.wrong_type(key, expected, value)))
            .transpose()
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, Error> {
        self.typed(key, "a string", |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        self.typed(key, "true or false", |value| match value {
            Value::Boolean(flag) => Some(*flag),
            _ => None,
        })
    }

    /// The value of a key whose text `parse` understands. The error of `parse` is the reason in the message.
    pub(super) fn parsed<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Error> {
        (self.text(key)?)
            .map(|text| parse(&text).map_err(|reason| self.wrong(key, reason)))
            .transpose()
    }

    /// The value of a key as a version requirement, such as `>=9`.
    pub(super) fn requirement(&self, key: &str) -> Result<Option<VersionReq>, Error> {
        self.parsed(key, |text| {
            VersionReq::parse(text)
                .map_err(|error| format!("`{text}` is not a version requirement: {error}"))
        })
    }

    /// The items of a list. `convert` returns `None` for an item of the wrong type.
    fn list<T>(
        &self,
        key: &str,
        expected: &str,
        convert: impl Fn(&Value) -> Result<Option<T>, Error>,
    ) -> Result<Option<Vec<T>>, Error> {
        let wrong_type = |value| self.wrong_type(key, expected, value);
        match self.value(key) {
            None => Ok(None),
            Some(Value::Array(values)) => (values.iter())
                .map(|value| convert(value)?.ok_or_else(|| wrong_type(value)))
                .collect::<Result<_, _>>()
                .map(Some),
            Some(other) => Err(wrong_type(other)),
        }
    }

    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<String>>, Error> {
        self.list(key, "a list of strings", |item| {
            Ok(item.as_str().map(str::to_owned))
        })
    }

    pub(super) fn numbers(&self, key: &str) -> Result<Option<Vec<u32>>, Error> {
        let expected = "a list of CUDA majors such as [12, 13]";
        self.list(key, expected, |item| match item {
            Value::Integer(number) => Ok(u32::try_from(*number).ok()),
            _ => Ok(None),
        })
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<u32>, Error> {
        self.typed(key, "a CUDA major such as 13", |value| match value {
            Value::Integer(number) => u32::try_from(*number).ok(),
            _ => None,
        })
    }

    pub(super) fn table(&self, key: &str) -> Result<Option<Self>, Error> {
        self.typed(key, "a table", |value| match value {
            Value::Table(table) => Some(self.below(key, table.clone())),
            _ => None,
        })
    }

    /// The tables below `key`, by name.
    pub(super) fn tables(&self, key: &str) -> Result<Vec<(String, Self)>, Error> {
        let mut tables = Vec::new();
        if let Some(outer) = self.table(key)? {
            for name in outer.table.keys() {
                tables.extend(outer.table(name)?.map(|table| (name.to_owned(), table)));
            }
        }
        Ok(tables)
    }

    /// The values below `key`, by name.
    pub(super) fn entries<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<(String, T)>, Error> {
        let mut entries = Vec::new();
        if let Some(inner) = self.table(key)? {
            for name in inner.table.keys() {
                let value = inner.parsed(name, &parse)?;
                entries.extend(value.map(|value| (name.to_owned(), value)));
            }
        }
        Ok(entries)
    }

    fn below(&self, key: &str, table: toml::Table) -> Self {
        Self {
            path: self.path.clone(),
            text: self.text.clone(),
            key: match self.key.as_str() {
                "" => key.to_owned(),
                outer => format!("{outer}.{key}"),
            },
            table,
        }
    }

    pub(super) fn components(&self, key: &str) -> Result<Option<Vec<Wanted>>, Error> {
        let parse = |name: &str| {
            name.parse()
                .map_err(|reason: String| self.wrong(key, reason))
        };
        let expected = "a list of component names or tables";
        self.list(key, expected, |item| match item {
            Value::String(name) => Ok(Some(Wanted {
                component: parse(name)?,
                version: None,
                optional: false,
            })),
            Value::Table(table) => {
                let table = self.below(key, table.clone());
                table.check_keys("name version optional")?;
                let missing = || table.wrong("name", "missing");
                let name = table.text("name")?.ok_or_else(missing)?;
                Ok(Some(Wanted {
                    component: parse(&name)?,
                    version: table.requirement("version")?,
                    optional: table.flag("optional")?.unwrap_or(false),
                }))
            }
            _ => Ok(None),
        })
    }

    fn wrong_type(&self, key: &str, expected: &str, found: &Value) -> Error {
        let found = found.type_name();
        self.wrong(
            key,
            format!("expected {expected}, found a value of type {found}"),
        )
    }
}
