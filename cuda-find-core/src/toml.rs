//! A TOML file as a tree of values.
//!
//! The parser is `toml_parser`, which the crate `toml` uses too. The crate `toml` itself is not used: its tree also
//! keeps positions and dates. Nothing here needs them, and every build script would have to compile their code.
//!
//! A key that is defined twice is an error. A table that is defined twice is not: Cargo refuses such manifests itself.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use toml_parser::decoder::ScalarKind;
use toml_parser::parser::{Event, EventKind, RecursionGuard, ValidateWhitespace, parse_document};
use toml_parser::{ErrorSink, ParseError, Source};

/// Deeper nesting is an error, as in the crate `toml`.
const NESTING_LIMIT: u32 = 80;

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

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table(BTreeMap<String, Value>);

impl Table {
    /// Parses the text of a file. The error starts with the number of the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let source = Source::new(text);
        let (mut events, mut error) = (Vec::new(), None);
        let mut checked = ValidateWhitespace::new(&mut events, source);
        let mut limited = RecursionGuard::new(&mut checked, NESTING_LIMIT);
        parse_document(&source.lex().into_vec(), &mut limited, &mut error);
        let mut tree = Tree::default();
        for event in events {
            if error.is_none() && tree.add(event, source, &mut error).is_none() {
                error = Some(ParseError::new("duplicate key").with_unexpected(event.span()));
            }
        }
        match error {
            None => Ok(tree.root),
            Some(error) => {
                let at = error.unexpected().map_or(text.len(), |span| span.start());
                let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
                Err(format!("line {line}: {}", error.description()))
            }
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The table at the path `keys`. Absent tables are created. A key of an array of tables stands for its last table.
    /// `None` if the path leads through another value.
    fn descend(&mut self, keys: &[String]) -> Option<&mut Self> {
        let mut table = self;
        for key in keys {
            let value = table
                .0
                .entry(key.clone())
                .or_insert(Value::Table(Self::default()));
            let value = match value {
                Value::Array(items) => items.last_mut()?,
                value => value,
            };
            let Value::Table(inner) = value else {
                return None;
            };
            table = inner;
        }
        Some(table)
    }

    /// Adds a value at the path `keys`. `None` if that path already has a value.
    fn add(&mut self, keys: &[String], value: Value) -> Option<()> {
        let (key, above) = keys.split_last()?;
        let table = self.descend(above)?;
        table.0.insert(key.clone(), value).is_none().then_some(())
    }
}

/// The tree while it is built from the parser's events.
#[derive(Default)]
struct Tree {
    root: Table,
    /// The keys of the last header, `[table]` or `[[table]]`.
    header: Vec<String>,
    /// The parts of the dotted key whose value has not been read yet.
    keys: Vec<String>,
    /// The arrays and inline tables that are not closed yet, the innermost last, each with the parts of its key.
    unclosed: Vec<(Vec<String>, Value)>,
}

impl Tree {
    /// Adds what an event of the parser contains. `None` if it defines a key again.
    fn add(&mut self, event: Event, source: Source<'_>, error: &mut dyn ErrorSink) -> Option<()> {
        let mut text = Cow::Borrowed("");
        match event.kind() {
            EventKind::SimpleKey => {
                source.get(event)?.decode_key(&mut text, error);
                if self.keys.len() as u32 == NESTING_LIMIT {
                    error.report_error(ParseError::new("a key of too many parts"));
                }
                self.keys.push(text.into_owned());
            }
            EventKind::Scalar => {
                let value = match source.get(event)?.decode_scalar(&mut text, error) {
                    ScalarKind::String => Value::String(text.into_owned()),
                    ScalarKind::Boolean(value) => Value::Boolean(value),
                    ScalarKind::Integer(radix) => i64::from_str_radix(&text, radix.value())
                        .map_or(Value::Other("integer"), Value::Integer),
                    ScalarKind::Float => Value::Other("float"),
                    ScalarKind::DateTime => Value::Other("datetime"),
                };
                self.add_value(value)?;
            }
            EventKind::ArrayOpen => self.open(Value::Array(Vec::new())),
            EventKind::InlineTableOpen => self.open(Value::Table(Table::default())),
            EventKind::ArrayClose | EventKind::InlineTableClose => {
                let (keys, value) = self.unclosed.pop()?;
                self.keys = keys;
                self.add_value(value)?;
            }
            EventKind::StdTableClose => {
                self.header = std::mem::take(&mut self.keys);
                self.root.descend(&self.header)?;
            }
            EventKind::ArrayTableClose => {
                self.header = std::mem::take(&mut self.keys);
                let (key, above) = self.header.split_last()?;
                let above = self.root.descend(above)?;
                let tables = above
                    .0
                    .entry(key.clone())
                    .or_insert(Value::Array(Vec::new()));
                let Value::Array(tables) = tables else {
                    return None;
                };
                tables.push(Value::Table(Table::default()));
            }
            _ => {}
        }
        Some(())
    }

    fn open(&mut self, value: Value) {
        self.unclosed.push((std::mem::take(&mut self.keys), value));
    }

    /// Adds a complete value to the innermost open array or inline table, or else to the table of the last header.
    fn add_value(&mut self, value: Value) -> Option<()> {
        let keys = std::mem::take(&mut self.keys);
        match self.unclosed.last_mut() {
            Some((_, Value::Array(items))) => items.push(value),
            Some((_, Value::Table(table))) => table.add(&keys, value)?,
            _ => self.root.descend(&self.header)?.add(&keys, value)?,
        }
        Some(())
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
                "line 1: a key of too many parts",
            ),
        ] {
            let error = Table::parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }
}
