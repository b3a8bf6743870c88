//! A reader of TOML 1.1. It has no dependencies, because every build script compiles them.
//!
//! Of floats and dates, only the type is read. Nothing here needs their values.
//!
//! A key that is defined twice is an error. A table that is defined twice is not: Cargo refuses such manifests itself.

/// Deeper nesting and longer dotted keys are errors, as in the crate `toml`.
const NESTING_LIMIT: usize = 80;

const DUPLICATE: &str = "duplicate key";

/// The error is the reason.
type Parsed<T> = Result<T, &'static str>;

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

/// A table: its entries, sorted by key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table(Vec<(String, Value)>);

impl Table {
    /// Parses the text of a file. The error starts with the number of the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = text.replace("\r\n", "\n") + "\n";
        let mut reader = Reader { rest: &text };
        reader.document().map_err(|reason| {
            let read = &text[..text.len() - reader.rest.len()];
            format!("line {}: {reason}", read.split('\n').count())
        })
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.place(key).ok().map(|place| &self.0[place].1)
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    /// The place of a key, otherwise the place to insert it at.
    fn place(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|entry| (*entry.0).cmp(key))
    }

    /// The value of a key. An absent key gets the value `new`.
    fn entry(&mut self, key: &str, new: Value) -> &mut Value {
        let place = self.place(key).unwrap_or_else(|place| {
            self.0.insert(place, (key.to_owned(), new));
            place
        });
        &mut self.0[place].1
    }

    /// The table at the path `keys`. Absent tables are created. A key of an array of tables stands for its last table.
    fn descend(&mut self, keys: &[String]) -> Parsed<&mut Self> {
        let mut table = self;
        for key in keys {
            let mut value = table.entry(key, Value::Table(Self::default()));
            if let Value::Array(items) = value {
                value = items.last_mut().ok_or(DUPLICATE)?;
            }
            let Value::Table(inner) = value else {
                return Err(DUPLICATE);
            };
            table = inner;
        }
        Ok(table)
    }
}

/// The text that has not been read yet.
struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn take(&mut self, expected: &str) -> bool {
        let rest = self.rest.strip_prefix(expected);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, expected: &str, error: &'static str) -> Parsed<()> {
        self.take(expected).then_some(()).ok_or(error)
    }

    fn take_while(&mut self, is_part: fn(char) -> bool) -> &'t str {
        let rest = self.rest.trim_start_matches(is_part);
        let taken = &self.rest[..self.rest.len() - rest.len()];
        self.rest = rest;
        taken
    }

    fn skip_space(&mut self) {
        self.take_while(|c| matches!(c, ' ' | '\t'));
        if self.take("#") {
            self.take_while(|c| c == '\t' || !c.is_ascii_control());
        }
    }

    fn skip_lines(&mut self) {
        self.skip_space();
        while self.take("\n") {
            self.skip_space();
        }
    }

    fn document(&mut self) -> Parsed<Table> {
        let mut root = Table::default();
        let mut table = &mut root;
        self.skip_lines();
        while !self.rest.is_empty() {
            if self.take("[") {
                let is_array = self.take("[");
                let (above, key) = self.keys()?;
                self.expect(if is_array { "]]" } else { "]" }, "expected `]`")?;
                table = root.descend(&above)?;
                if is_array {
                    let Value::Array(tables) = table.entry(&key, Value::Array(Vec::new())) else {
                        return Err(DUPLICATE);
                    };
                    tables.push(Value::Table(Table::default()));
                }
                table = table.descend(&[key])?;
            } else {
                self.pair(table, 0)?;
            }
            self.skip_space();
            self.expect("\n", "expected the end of the line")?;
            self.skip_lines();
        }
        Ok(root)
    }

    fn pair(&mut self, table: &mut Table, depth: usize) -> Parsed<()> {
        let (above, key) = self.keys()?;
        self.expect("=", "expected `=`")?;
        self.skip_space();
        let table = table.descend(&above)?;
        let place = table.place(&key).err().ok_or(DUPLICATE)?;
        let value = self.value(depth + above.len())?;
        table.0.insert(place, (key, value));
        Ok(())
    }

    /// A dotted key: the parts before the last, and the last.
    fn keys(&mut self) -> Parsed<(Vec<String>, String)> {
        let mut above = Vec::new();
        while above.len() < NESTING_LIMIT {
            self.skip_space();
            let key = match self.take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
                "" => self.string(&["\"", "'"])?.ok_or("expected a key")?,
                bare => bare.to_owned(),
            };
            self.skip_space();
            if !self.take(".") {
                return Ok((above, key));
            }
            above.push(key);
        }
        Err("a key of too many parts")
    }

    /// A value in `depth` others.
    fn value(&mut self, depth: usize) -> Parsed<Value> {
        if depth > NESTING_LIMIT {
            return Err("nested too deeply");
        }
        if self.take("[") {
            let mut items = Vec::new();
            while self.has_item(items.is_empty(), "]")? {
                items.push(self.value(depth + 1)?);
            }
            return Ok(Value::Array(items));
        }
        if self.take("{") {
            let mut table = Table::default();
            while self.has_item(table.0.is_empty(), "}")? {
                self.pair(&mut table, depth + 1)?;
            }
            return Ok(Value::Table(table));
        }
        if let Some(text) = self.string(&["\"\"\"", "'''", "\"", "'"])? {
            return Ok(Value::String(text));
        }
        // A date may contain a space.
        let word = self.take_while(|c| c.is_ascii_alphanumeric() || "+-_.: ".contains(c));
        scalar(word.trim_end_matches(' ')).ok_or("expected a value")
    }

    /// Whether an array or an inline table goes on.
    fn has_item(&mut self, is_first: bool, end: &str) -> Parsed<bool> {
        self.skip_lines();
        let may_go_on = is_first || self.take(",");
        self.skip_lines();
        let ends = self.take(end);
        let goes_on = (ends || may_go_on).then_some(!ends);
        goes_on.ok_or("expected `,` or the closing bracket")
    }

    /// A string, if one in quotes of these kinds follows.
    fn string(&mut self, kinds: &[&str]) -> Parsed<Option<String>> {
        let Some(quotes) = kinds.iter().find(|quotes| self.take(quotes)) else {
            return Ok(None);
        };
        let is_long = quotes.len() == 3;
        // A line break after the opening quotes is not part of the string.
        let _ = is_long && self.take("\n");
        let mut text = String::new();
        while !self.take(quotes) {
            let c = self.rest.chars().next().unwrap_or_default();
            if c.is_ascii_control() && c != '\t' && !(c == '\n' && is_long) {
                return Err("expected the end of the string");
            }
            self.rest = &self.rest[c.len_utf8()..];
            match c {
                '\\' if quotes.starts_with('"') => self.escape(is_long, &mut text)?,
                c => text.push(c),
            }
        }
        // Up to two more quotes are part of a long string.
        for _ in 0..2 {
            if is_long && self.take(&quotes[..1]) {
                text.push_str(&quotes[..1]);
            }
        }
        Ok(Some(text))
    }

    /// Reads what follows a backslash.
    fn escape(&mut self, is_long: bool, text: &mut String) -> Parsed<()> {
        const UNKNOWN: &str = "unknown escape";
        // A backslash at the end of a line: the text goes on at the next character that is not space.
        if is_long && self.rest.trim_start_matches([' ', '\t']).starts_with('\n') {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\n'));
            return Ok(());
        }
        let c = self.rest.chars().next().unwrap_or_default();
        if let Some(place) = "btnfre\"\\".find(c) {
            text.push_str(&"\u{8}\t\n\u{c}\r\u{1b}\"\\"[place..=place]);
            self.rest = &self.rest[1..];
            return Ok(());
        }
        // `\xHH`, `\uHHHH` and `\UHHHHHHHH`.
        let end = 1 + (2 << "xuU".find(c).ok_or(UNKNOWN)?);
        let digits = self.rest.get(1..end).ok_or(UNKNOWN)?;
        match u32::from_str_radix(digits, 16).map(char::from_u32) {
            Ok(Some(c)) if is_digits(digits, 16) => text.push(c),
            _ => return Err(UNKNOWN),
        }
        self.rest = &self.rest[end..];
        Ok(())
    }
}

/// A value that is neither a string nor contains others.
fn scalar(word: &str) -> Option<Value> {
    if let Ok(flag) = word.parse() {
        return Some(Value::Boolean(flag));
    }
    let unsigned = word.strip_prefix(['+', '-']).unwrap_or(word);
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2), ("", 10)] {
        let number = word.strip_prefix(prefix).unwrap_or_default();
        let digits = if radix == 10 { unsigned } else { number };
        let is_padded = radix == 10 && digits.starts_with('0') && digits != "0";
        if is_digits(digits, radix) && !is_padded {
            let number = i64::from_str_radix(&number.replace('_', ""), radix);
            return Some(number.map_or(Value::Other("integer"), Value::Integer));
        }
    }
    let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit());
    if is_number && matches!(word.as_bytes(), [_, _, b':', ..] | [_, _, _, _, b'-', ..]) {
        return Some(Value::Other("datetime"));
    }
    let is_float = is_number && word.replace('_', "").parse::<f64>().is_ok();
    let is_float = is_float && word.contains(['.', 'e', 'E']);
    (is_float || matches!(unsigned, "inf" | "nan")).then_some(Value::Other("float"))
}

/// Whether `text` is digits. Single underscores may separate them.
fn is_digits(text: &str, radix: u32) -> bool {
    let mut parts = text.split('_');
    parts.all(|part| !part.is_empty() && part.chars().all(|c| c.is_digit(radix)))
}

/// `text` as a TOML basic string.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    for c in text.chars().filter(|c| c.is_control()) {
        quoted = quoted.replace(c, &format!("\\u{:04X}", u32::from(c)));
    }
    format!("\"{quoted}\"")
}

/// The key of a file with the first version of `cuda-build` and `cargo-cuda` that reads its format.
pub const READABLE_SINCE: &str = "readable_since";

/// Parses the text of a file that releases exchange. Keys that are not known are ignored. It is an error if
/// `format_version` is missing or not between 1 and `newest`: then only newer releases read the file.
pub fn parse(text: &str, newest: i64) -> Result<Table, String> {
    let table = Table::parse(text)?;
    let format = number(&table, "format_version")?;
    if (1..=newest).contains(&format) {
        return Ok(table);
    }
    // The text may come from a repository, and is printed.
    let is_version = |text: &&str| text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let since = string(&table, READABLE_SINCE).ok().filter(is_version);
    let since = since.map_or(String::new(), |since| {
        format!(", and {since} and newer read this format")
    });
    Err(format!(
        "format_version {format} is not supported: this version reads up to {newest}{since}"
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

/// The strings of an array.
pub fn strings<'t>(table: &'t Table, key: &str) -> Result<Vec<&'t str>, String> {
    items(table, key, "a string", Value::as_str)
}

/// The tables of an array; empty if the key is absent.
pub fn tables<'t>(table: &'t Table, key: &str) -> Result<Vec<&'t Table>, String> {
    if table.get(key).is_none() {
        return Ok(Vec::new());
    }
    items(table, key, "a table", |item| match item {
        Value::Table(table) => Some(table),
        _ => None,
    })
}

/// The items of an array, of which `convert` returns `None` for those of another type.
fn items<'t, T>(
    table: &'t Table,
    key: &str,
    expected: &str,
    convert: fn(&'t Value) -> Option<T>,
) -> Result<Vec<T>, String> {
    let Some(Value::Array(items)) = table.get(key) else {
        return Err(format!("`{key}` is missing or not an array"));
    };
    let wrong = || format!("`{key}` has an item that is not {expected}");
    let items = items.iter().map(|item| convert(item).ok_or_else(wrong));
    items.collect()
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
    fn every_kind_of_value_and_key_is_read() {
        let string = |text: &str| Value::String(text.to_owned());
        let float = Value::Other("float");
        let date = Value::Other("datetime");
        for (text, path, expected) in [
            ("a=1", "a", Value::Integer(1)),
            ("\u{feff}# c\r\n\r\n a\t= 1 # c\r\n", "a", Value::Integer(1)),
            (
                "a-_1 . \"b\\t.\" . 'c\"' = 1",
                "a-_1.b\t.",
                Value::Integer(1),
            ),
            ("\"\" = 1", "", Value::Integer(1)),
            ("1.2 = 3", "1.2", Value::Integer(3)),
            ("true = false", "true", Value::Boolean(false)),
            ("a = +1_000", "a", Value::Integer(1000)),
            ("a = -0", "a", Value::Integer(0)),
            ("a = 0xDead_beef", "a", Value::Integer(0xdead_beef)),
            ("a = 0o0755", "a", Value::Integer(0o755)),
            ("a = 0b11", "a", Value::Integer(3)),
            ("a = -9223372036854775808", "a", Value::Integer(i64::MIN)),
            ("a = 9223372036854775808", "a", Value::Other("integer")),
            ("a = 6.02e+2_3", "a", float.clone()),
            ("a = 1E6", "a", float.clone()),
            ("a = -0.0", "a", float.clone()),
            ("a = -inf", "a", float.clone()),
            ("a = nan", "a", float),
            ("a = 1979-05-27 07:32:00.5-07:00 # c", "a", date.clone()),
            ("a = 1979-05-27T07:32:00Z", "a", date.clone()),
            ("a = [07:32:00 , 1]", "a.0", date),
            ("a = \"\"", "a", string("")),
            (
                "a = \"\\b\\t\\n\\f\\r\\e\\\"\\\\\\x41\\u00E9\\U0001F600é#'\"",
                "a",
                string("\u{8}\t\n\u{c}\r\u{1b}\"\\A\u{e9}\u{1f600}é#'"),
            ),
            ("a = 'C:\\n\"' # c", "a", string("C:\\n\"")),
            ("a = \"\"\"\"\"\"", "a", string("")),
            (
                "a = \"\"\"\n\nb\r\n\"\"c\"\"\"\"\"",
                "a",
                string("\nb\n\"\"c\"\""),
            ),
            ("a = \"\"\"b \\  \n\n\t c\\\r\n\"\"\"", "a", string("b c")),
            ("a = \'\'\'\n\\\n''b\'\'\'\'", "a", string("\\\n''b'")),
            (
                "a = [ # c\n 1, # c\n\n [2 ,], # c\n]",
                "a.1.0",
                Value::Integer(2),
            ),
            ("a = []", "a", Value::Array(Vec::new())),
            ("a = {}", "a", Value::Table(Table::default())),
            (
                "a = { b.c = 1, b.\"d\" = [{}], }",
                "a.b.c",
                Value::Integer(1),
            ),
            (
                "a = { # c\n b = 1 # c\n,\n c = 2\n}",
                "a.c",
                Value::Integer(2),
            ),
            ("[ a . 'b' ] # c\n[a]\nc = 1", "a.c", Value::Integer(1)),
            (
                "[[a]]\n[[a.b]]\n[[a.b]]\nc = 1",
                "a.0.b.1.c",
                Value::Integer(1),
            ),
        ] {
            // `at` splits at dots: a key with dots is looked up in the table itself.
            let found = match Table::parse(text).unwrap().get("a-_1") {
                Some(Value::Table(inner)) => match inner.get("b\t.") {
                    Some(Value::Table(inner)) => inner.get("c\"").unwrap().clone(),
                    other => panic!("{other:?}"),
                },
                _ => at(text, path),
            };
            assert_eq!(found, expected, "{text:?}");
        }
        assert_eq!(Table::parse(" \n#").unwrap(), Table::default());
    }

    #[test]
    fn invalid_documents_are_refused() {
        for text in [
            "a",
            "a =",
            "= 1",
            "a = 1 2",
            "a = 1 b = 2",
            "a = 1, b",
            "a = 'x' y",
            "a = [] ]",
            "a\n= 1",
            "a =\n1",
            "a = # c\n1",
            "a.\nb = 1",
            "a. = 1",
            ".a = 1",
            "a..b = 1",
            "a b = 1",
            "é = 1",
            "\"\"\"a\"\"\" = 1",
            "\"a\nb\" = 1",
            "a = b",
            "a = True",
            "a = tru",
            "a = 01",
            "a = -01",
            "a = 0_1",
            "a = 1_",
            "a = _1",
            "a = 1__0",
            "a = +",
            "a = --1",
            "a = 0x",
            "a = 0x_1",
            "a = 0x1_",
            "a = -0x1",
            "a = 0x-1",
            "a = 0b2",
            "a = 0X1",
            "a = 1.2.3",
            "a = 1e",
            "a = .5",
            "a = infinity",
            "a = 1 .5",
            "a = \"b",
            "a = \"b\nc\"",
            "a = 'b\nc'",
            "a = \"\"\"b\"\"",
            "a = \"\"\"b\"\"\"\"\"\"",
            "a = \"\\q\"",
            "a = \"\\u12\"",
            "a = \"\\u+123\"",
            "a = \"\\ud800\"",
            "a = \"\\U00110000\"",
            "a = \"\\x4\"",
            "a = \"\\u00é\"",
            "a = \"\\",
            "a = \"\\\n\"",
            "a = \"\"\"\\ b\"\"\"",
            "a = '\u{0}'",
            "a = \"\u{7f}\"",
            "a = 1 # \u{1}",
            "a = 1\r",
            "\rb = 1",
            "a = \"\"\"\r\"\"\"",
            "a = [1 2]",
            "a = [,]",
            "a = [1,,2]",
            "a = [1",
            "a = [1}",
            "a = {,}",
            "a = {b}",
            "a = {b = 1 c = 2}",
            "a = {b = 1",
            "a = {b\n= 1}",
            "a = {b = 1, b.c = 2}",
            "a = 1\na.b = 2",
            "a.b = 1\na = 2",
            "[a",
            "[a]]",
            "[[a]",
            "[ [a]]",
            "[]",
            "[[]]",
            "[a] b = 1",
            "[a\n]",
            "[a.]",
            "[a]\nb = 1\nb = 2",
            "a = 1\n[a.b]",
            "[[a]]\nb = 1\nb = 2",
            "a = []\n[a.b]",
            "[a]\n[[a]]",
        ] {
            let parsed = Table::parse(text);
            assert!(parsed.is_err(), "{text:?}: {parsed:?}");
        }
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |open: &str, close: &str, times: usize| {
            Table::parse(&format!(
                "a = {}1{}",
                open.repeat(times),
                close.repeat(times)
            ))
        };
        for (open, close) in [("[", "]"), ("{a = ", "}"), ("[{a = ", "}]")] {
            let times = NESTING_LIMIT / open.matches(['[', '{']).count();
            nested(open, close, times).unwrap();
            for times in [times + 1, 100_000] {
                let error = nested(open, close, times).unwrap_err();
                assert_eq!(error, "line 1: nested too deeply");
            }
        }
        // The parts of keys count too.
        let keys = format!("{{{} = ", vec!["a"; NESTING_LIMIT / 2].join("."));
        nested(&keys, "}", 1).unwrap();
        nested(&keys, "}", 3).unwrap_err();
    }

    #[test]
    fn quoted_text_is_read_as_it_was() {
        for text in [
            "",
            "a\"b\\c",
            "\\\"\\",
            "\u{0}\n\r\t\u{1b}\u{7f}\u{85}",
            "é'",
        ] {
            let read = Table::parse(&format!("a = {}", quoted(text))).unwrap();
            assert_eq!(read.get("a"), Some(&Value::String(text.to_owned())));
        }
        assert_eq!(quoted("\"\\\n\n"), r#""\"\\\u000A\u000A""#);
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
            ("a = 'x", "line 1: expected the end of the string"),
            ("a = 'x\ny'", "line 1: expected the end of the string"),
            ("\r\na = 1 2", "line 2: expected a value"),
            (
                "a = \"\"\"\n\n\"\"\" x",
                "line 3: expected the end of the line",
            ),
            (
                "a = [\n1,\n2\n3]",
                "line 4: expected `,` or the closing bracket",
            ),
            ("a = [1,\n2", "line 3: expected"),
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
