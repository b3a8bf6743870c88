//! A TOML file as a tree of values.
//!
//! The parser is `toml_parser`, which the crate `toml` uses too. The crate `toml` itself is not used: its tree also
//! keeps positions and dates. Nothing here needs them, and every build script would have to compile their code.

use std::borrow::Cow;
use std::slice;

use toml_parser::decoder::ScalarKind;
use toml_parser::parser::{Event, EventKind, RecursionGuard, ValidateWhitespace, parse_document};
use toml_parser::{ErrorSink, ParseError, Source};

/// Deeper nesting is an error, as in the crate `toml`.
const NESTING_LIMIT: u32 = 80;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    String(String),
    Integer(i64),
    Boolean(bool),
    Array(Vec<Value>),
    Table(Table),
    /// The type of any other value: a float, a date, or an integer that does not fit `i64`. No file needs one.
    Other(&'static str),
}

impl Value {
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The tables that `[[…]]` headers define; `None` for any other value, also for an array in brackets.
    fn as_array_of_tables(&mut self) -> Option<&mut Vec<Value>> {
        let Self::Array(items) = self else {
            return None;
        };
        let last = items.last();
        let has_header = |item: &Self| matches!(item, Self::Table(table) if table.definition == Definition::Header);
        last.is_some_and(has_header).then_some(items)
    }

    pub(crate) fn type_name(&self) -> &'static str {
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

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    /// Sorted by key.
    entries: Vec<(String, Value)>,
    definition: Definition,
}

/// How a file defines a table. A table may be defined only once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Definition {
    /// Not itself: only a table below it has a header.
    #[default]
    Implied,
    /// By its header, `[a]` or `[[a]]`.
    Header,
    /// By a key with dots, `a.b = 1`.
    DottedKey,
    /// By `a = {}`. Nothing can be added to it.
    Inline,
}

impl Table {
    fn new(definition: Definition) -> Self {
        Self {
            entries: Vec::new(),
            definition,
        }
    }

    /// Parses the text of a file. The error starts with the number of the line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
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

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        let at = self.position(key).ok()?;
        Some(&self.entries[at].1)
    }

    /// The keys, sorted.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(key, _)| key.as_str())
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.entries
            .binary_search_by(|(known, _)| known.as_str().cmp(key))
    }

    /// The value of `key`. If the table lacks the key, the value `new` is inserted first.
    fn entry(&mut self, key: &str, new: Value) -> &mut Value {
        let at = self.position(key).unwrap_or_else(|at| {
            self.entries.insert(at, (key.to_owned(), new));
            at
        });
        &mut self.entries[at].1
    }

    /// The table at the path `keys`, which are the parts of a header (`Implied`) or of a key (`DottedKey`). Absent tables
    /// are created. In a header, a key of an array of tables stands for the last table of the array. `None` if the path
    /// leads through another value, or through a table to which nothing can be added in this way.
    fn descend(&mut self, keys: &[String], by: Definition) -> Option<&mut Self> {
        let mut table = self;
        for key in keys {
            table = match table.entry(key, Value::Table(Self::new(by))) {
                Value::Table(inner) => inner,
                Value::Array(tables) if by == Definition::Implied => match tables.last_mut()? {
                    Value::Table(last) => last,
                    _ => return None,
                },
                _ => return None,
            };
            match (by, table.definition) {
                (_, Definition::Inline) | (Definition::DottedKey, Definition::Header) => {
                    return None;
                }
                (Definition::DottedKey, _) => table.definition = by,
                _ => {}
            }
        }
        Some(table)
    }

    /// Adds a value at the path `keys`. `None` if that path already has a value, or if the path leads through a
    /// value to which nothing can be added.
    fn add(&mut self, keys: &[String], value: Value) -> Option<()> {
        let (key, above) = keys.split_last()?;
        let table = self.descend(above, Definition::DottedKey)?;
        let at = table.position(key).err()?;
        table.entries.insert(at, (key.clone(), value));
        Some(())
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
    open: Vec<(Vec<String>, Value)>,
}

impl Tree {
    /// Adds what an event of the parser contains. `None` if it defines a key or a table again.
    fn add(&mut self, event: Event, source: Source<'_>, error: &mut dyn ErrorSink) -> Option<()> {
        let mut text = Cow::Borrowed("");
        match event.kind() {
            EventKind::SimpleKey => {
                source.get(event)?.decode_key(&mut text, error);
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
                self.close(value)?;
            }
            EventKind::ArrayOpen => self.open(Value::Array(Vec::new())),
            EventKind::InlineTableOpen => self.open(Value::Table(Table::new(Definition::Inline))),
            EventKind::ArrayClose | EventKind::InlineTableClose => {
                let (keys, value) = self.open.pop()?;
                self.keys = keys;
                self.close(value)?;
            }
            EventKind::StdTableClose => {
                self.header = std::mem::take(&mut self.keys);
                let table = self.root.descend(&self.header, Definition::Implied)?;
                if table.definition != Definition::Implied {
                    return None;
                }
                table.definition = Definition::Header;
            }
            EventKind::ArrayTableClose => {
                self.header = std::mem::take(&mut self.keys);
                let (key, above) = self.header.split_last()?;
                let above = self.root.descend(above, Definition::Implied)?;
                let table = Table::new(Definition::Header);
                match above.position(key) {
                    Ok(at) => above.entries[at]
                        .1
                        .as_array_of_tables()?
                        .push(Value::Table(table)),
                    Err(_) => above.add(
                        slice::from_ref(key),
                        Value::Array(vec![Value::Table(table)]),
                    )?,
                }
            }
            _ => {}
        }
        Some(())
    }

    fn open(&mut self, value: Value) {
        self.open.push((std::mem::take(&mut self.keys), value));
    }

    /// Adds a complete value to the innermost open array or inline table, or else to the table of the last header.
    fn close(&mut self, value: Value) -> Option<()> {
        let keys = std::mem::take(&mut self.keys);
        match self.open.last_mut() {
            Some((_, Value::Array(items))) => items.push(value),
            Some((_, Value::Table(table))) => table.add(&keys, value)?,
            _ => {
                let table = self.root.descend(&self.header, Definition::Implied)?;
                table.add(&keys, value)?;
            }
        }
        Some(())
    }
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
            ("[a]\n[a]", "line 2: duplicate key"),
            ("[[a]]\n[a.b]\n[a.b]", "line 3: duplicate key"),
            ("a = 1\n[[a]]", "line 2: duplicate key"),
            ("a = {b = 1, b = 2}", "line 1: duplicate key"),
            ("a = {}\n[a]", "line 2: duplicate key"),
            ("a = {}\n[a.b]", "line 2: duplicate key"),
            ("a = {}\na.b = 1", "line 2: duplicate key"),
            ("a = {b = {}, b.c = 1}", "line 1: duplicate key"),
            ("a = []\n[[a]]", "line 2: duplicate key"),
            ("a = [{}]\n[[a]]", "line 2: duplicate key"),
            ("a = [{}]\n[a.b]", "line 2: duplicate key"),
            ("[[a]]\n[a]", "line 2: duplicate key"),
            ("[a.b]\n[[a]]", "line 2: duplicate key"),
            ("a.b = 1\n[a]", "line 2: duplicate key"),
            ("[a.b]\n[a]\nb.c = 1", "line 3: duplicate key"),
            ("[[a.b]]\n[a]\nb.c = 1", "line 3: duplicate key"),
            ("a = [1\nb = 2", "line "),
            ("a = 'x", "line 1: "),
            (&format!("a = {}", "[".repeat(100)), "line 1: "),
        ] {
            let error = Table::parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }
}
