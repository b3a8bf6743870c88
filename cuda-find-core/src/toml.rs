//! A TOML file as a tree of values.
//!
//! The tree of the crate `toml` borrows from the text, and keeps positions and the digits of numbers. Nothing here
//! needs them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use toml::de::{DeTable, DeValue};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    String(String),
    /// An integer.
    Integer(i64),
    /// `true` or `false`.
    Boolean(bool),
    /// An array, also one of tables.
    Array(Vec<Value>),
    /// A table.
    Table(Table),
    /// The type of any other value: a float, a date, or an integer that does not fit `i64`. No file needs one.
    Other(&'static str),
}

impl Value {
    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The name of the type, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Integer(_) => "integer",
            Self::Boolean(_) => "boolean",
            Self::Array(_) => "array",
            Self::Table(_) => "table",
            Self::Other(name) => name,
        }
    }
}

impl From<DeValue<'_>> for Value {
    fn from(value: DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::String(text.into_owned()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or(Self::Other("integer"), Self::Integer),
            DeValue::Boolean(value) => Self::Boolean(value),
            DeValue::Array(items) => Self::Array(
                items
                    .into_iter()
                    .map(|item| item.into_inner().into())
                    .collect(),
            ),
            DeValue::Table(table) => Self::Table(table.into()),
            other => Self::Other(other.type_str()),
        }
    }
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table(BTreeMap<String, Value>);

impl From<DeTable<'_>> for Table {
    fn from(table: DeTable<'_>) -> Self {
        let pairs = table.into_iter();
        Self(
            pairs
                .map(|(key, value)| (key.into_inner().into_owned(), value.into_inner().into()))
                .collect(),
        )
    }
}

impl Table {
    /// Parses the text of a file. The error starts with the number of the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(text.len(), |span| span.start);
            let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
            format!("line {line}: {}", error.message())
        })?;
        Ok(table.into_inner().into())
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// `text` as a TOML basic string.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Parses the text of a file. It is an error if `format_version` is missing or not between 1 and `newest`.
pub fn parse(text: &str, newest: i64) -> Result<Table, String> {
    let table = Table::parse(text)?;
    let format = number(&table, "format_version")?;
    if (1..=newest).contains(&format) {
        return Ok(table);
    }
    Err(format!(
        "format_version {format} is not supported: this version reads up to {newest}"
    ))
}

/// The number at a key.
pub fn number(table: &Table, key: &str) -> Result<i64, String> {
    match table.get(key) {
        Some(Value::Integer(number)) => Ok(*number),
        _ => Err(format!("`{key}` is missing or not a number")),
    }
}

/// The string at a key.
pub fn string<'t>(table: &'t Table, key: &str) -> Result<&'t str, String> {
    let text = table.get(key).and_then(Value::as_str);
    text.ok_or_else(|| format!("`{key}` is missing or not a string"))
}

fn array<'t>(table: &'t Table, key: &str) -> Result<&'t [Value], String> {
    match table.get(key) {
        Some(Value::Array(items)) => Ok(items),
        _ => Err(format!("`{key}` is missing or not an array")),
    }
}

/// The strings of an array.
pub fn strings<'t>(table: &'t Table, key: &str) -> Result<Vec<&'t str>, String> {
    let mut strings = Vec::new();
    for item in array(table, key)? {
        let Value::String(item) = item else {
            return Err(format!("`{key}` has an item that is not a string"));
        };
        strings.push(item.as_str());
    }
    Ok(strings)
}

/// The tables of an array; empty if the key is absent.
pub fn tables<'t>(table: &'t Table, key: &str) -> Result<Vec<&'t Table>, String> {
    let mut tables = Vec::new();
    if table.get(key).is_some() {
        for item in array(table, key)? {
            let Value::Table(item) = item else {
                return Err(format!("`{key}` has an item that is not a table"));
            };
            tables.push(item);
        }
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value at a dotted key, in which numbers are places in arrays.
    fn at(text: &str, path: &str) -> Value {
        let mut value = Value::Table(Table::parse(text).unwrap());
        for key in path.split('.') {
            value = match value {
                Value::Table(table) => table.get(key).unwrap().clone(),
                Value::Array(items) => items[key.parse::<usize>().unwrap()].clone(),
                other => panic!("{other:?}"),
            };
        }
        value
    }

    #[test]
    fn values_are_at_their_keys() {
        let text = "a.b = 'x'\n\"a\".c = [1, [0x1f, true], {d.e = \"\\u00e9\", f = 1.5}]\n\
                    [t.u] # a comment\nv = 1979-05-27\n[t]\nw = \"\"\"\nlong\"\"\"\n\
                    [[l.m]]\nn = 1\n[l.m.o]\np = 2\n[[l.m]]\n[l.m.o]\np = -3\n[l]\nq.r = 4\nq.s = 5\n[l.q.t]\nu = 6\n";
        let string = |text: &str| Value::String(text.to_owned());
        for (path, expected) in [
            ("a.b", string("x")),
            ("a.c.0", Value::Integer(1)),
            ("a.c.1.0", Value::Integer(31)),
            ("a.c.1.1", Value::Boolean(true)),
            ("a.c.2.d.e", string("é")),
            ("a.c.2.f", Value::Other("float")),
            ("t.u.v", Value::Other("datetime")),
            ("t.w", string("long")),
            ("l.m.0.n", Value::Integer(1)),
            ("l.m.0.o.p", Value::Integer(2)),
            ("l.m.1.o.p", Value::Integer(-3)),
            ("l.q.s", Value::Integer(5)),
            ("l.q.t.u", Value::Integer(6)),
        ] {
            assert_eq!(at(text, path), expected, "{path}");
        }
        let keys: Vec<String> = Table::parse(text)
            .unwrap()
            .keys()
            .map(str::to_owned)
            .collect();
        assert_eq!(keys, ["a", "l", "t"]);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, expected) in [
            ("=", "line 1: "),
            ("a = 1\na = 2", "line 2: duplicate key"),
            ("a = 1\n\n[a]", "line 3: duplicate key"),
            ("a = 1\n[[a]]", "line 2: duplicate key"),
            ("a = {b = 1, b = 2}", "line 1: duplicate key"),
            ("[a.b]\n[[a]]", "line 2: duplicate key"),
            ("a = [1\nb = 2", "line "),
            ("a = 'x", "line 1: "),
            (&format!("a = {}", "[".repeat(100)), "line 1: "),
            (
                &format!("a{} = 1", ".a".repeat(10_000)),
                "line 1: recursion limit",
            ),
        ] {
            let error = Table::parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }
}
