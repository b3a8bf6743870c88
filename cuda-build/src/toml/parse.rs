//! The parser: one pass over the text of a file.
//!
//! It accepts TOML 1.1. Malformed floats and dates, such as `00.5`, are accepted too, because their values are not kept.

use super::{Definition, Table, Value};

/// Deeper nesting is an error, as in the crate `toml`.
const NESTING_LIMIT: usize = 80;

type Parsed<T> = Result<T, &'static str>;

/// Parses the text of a file. The error starts with the number of the line.
pub(super) fn document(text: &str) -> Result<Table, String> {
    let mut parser = Parser {
        text,
        at: 0,
        nesting: 0,
    };
    parser.document().map_err(|reason| {
        let read = text.as_bytes().iter().take(parser.at);
        let line = read.filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line}: {reason}")
    })
}

struct Parser<'t> {
    text: &'t str,
    /// How many bytes were read.
    at: usize,
    /// How many arrays and inline tables are open.
    nesting: usize,
}

impl Parser<'_> {
    fn document(&mut self) -> Parsed<Table> {
        self.check_characters()?;
        self.take("\u{feff}");
        let mut root = Table::default();
        let mut header = Vec::new();
        loop {
            self.skip_lines();
            let start = self.at;
            let added = if self.rest().is_empty() {
                return Ok(root);
            } else if self.take("[[") {
                header = self.header("]]")?;
                root.append(&header)
            } else if self.take("[") {
                header = self.header("]")?;
                root.define(&header)
            } else {
                let (keys, value) = self.pair()?;
                let table = root.descend(&header, Definition::Implied);
                table.and_then(|table| table.add(&keys, value))
            };
            if added.is_none() {
                self.at = start;
                return Err("duplicate key");
            }
            self.end_of_line()?;
        }
    }

    /// Control characters are allowed nowhere, except for tabs and the ends of lines.
    fn check_characters(&mut self) -> Parsed<()> {
        let bytes = self.text.as_bytes();
        for (at, byte) in bytes.iter().enumerate() {
            let allowed = match byte {
                b'\r' => bytes.get(at + 1) == Some(&b'\n'),
                byte => !byte.is_ascii_control() || b"\t\n".contains(byte),
            };
            if !allowed {
                self.at = at;
                return Err("control character");
            }
        }
        Ok(())
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Reads `expected` if it comes next.
    fn take(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len();
        }
        found
    }

    fn take_char(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Reads the characters before the first that is not `wanted`.
    fn take_while(&mut self, wanted: fn(char) -> bool) -> &str {
        let start = self.at;
        while self.rest().starts_with(wanted) {
            self.take_char();
        }
        &self.text[start..self.at]
    }

    fn skip_spaces(&mut self) {
        self.take_while(|c| matches!(c, ' ' | '\t'));
    }

    /// Skips spaces, comments and ends of lines.
    fn skip_lines(&mut self) {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
            if !self.rest().starts_with('#') {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn end_of_line(&mut self) -> Parsed<()> {
        self.skip_spaces();
        if self.rest().is_empty() || self.rest().starts_with(['#', '\r', '\n']) {
            return Ok(());
        }
        Err("unexpected text after the value or header")
    }

    /// The keys of a header, with its `end`.
    fn header(&mut self, end: &str) -> Parsed<Vec<String>> {
        let keys = self.keys()?;
        if !self.take(end) {
            return Err("the header of a table is not closed");
        }
        Ok(keys)
    }

    fn pair(&mut self) -> Parsed<(Vec<String>, Value)> {
        let keys = self.keys()?;
        if !self.take("=") {
            return Err("expected `=` after a key");
        }
        self.skip_spaces();
        Ok((keys, self.value()?))
    }

    /// The parts of a dotted key, and the spaces around it.
    fn keys(&mut self) -> Parsed<Vec<String>> {
        let mut keys = Vec::new();
        loop {
            self.skip_spaces();
            let key = if self.rest().starts_with(['"', '\'']) {
                self.string(false)?
            } else {
                let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
                match self.take_while(is_bare) {
                    "" => return Err("expected a key"),
                    key => key.to_owned(),
                }
            };
            keys.push(key);
            self.skip_spaces();
            if !self.take(".") {
                return Ok(keys);
            }
        }
    }

    fn value(&mut self) -> Parsed<Value> {
        if self.rest().starts_with(['"', '\'']) {
            return Ok(Value::String(self.string(true)?));
        }
        if self.nesting > NESTING_LIMIT {
            return Err("arrays and tables are nested too deeply");
        }
        self.nesting += 1;
        let value = if self.take("[") {
            self.array()?
        } else if self.take("{") {
            self.inline_table()?
        } else {
            self.scalar()?
        };
        self.nesting -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Parsed<Value> {
        let mut items = Vec::new();
        while self.has_item(items.is_empty(), "]")? {
            items.push(self.value()?);
        }
        Ok(Value::Array(items))
    }

    fn inline_table(&mut self) -> Parsed<Value> {
        let mut table = Table::new(Definition::Inline);
        while self.has_item(table.entries.is_empty(), "}")? {
            let (keys, value) = self.pair()?;
            table.add(&keys, value).ok_or("duplicate key")?;
        }
        Ok(Value::Table(table))
    }

    /// Reads the comma between two items of an array or inline table, or its `end`, after which there is no item.
    fn has_item(&mut self, is_first: bool, end: &str) -> Parsed<bool> {
        self.skip_lines();
        let is_separated = is_first || self.take(",");
        self.skip_lines();
        if self.take(end) {
            return Ok(false);
        }
        if !is_separated {
            return Err("expected a comma, or the end of the array or inline table");
        }
        Ok(true)
    }

    /// A boolean, a number or a date.
    fn scalar(&mut self) -> Parsed<Value> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+-_.:".contains(c);
        let word = self.take_while(is_part).to_owned();
        if word == "true" || word == "false" {
            return Ok(Value::Boolean(word == "true"));
        }
        let plain = word.replace('_', "");
        let (digits, radix) = match plain.get(..2) {
            Some("0x") => (&plain[2..], 16),
            Some("0o") => (&plain[2..], 8),
            Some("0b") => (&plain[2..], 2),
            _ => (plain.trim_start_matches(['+', '-']), 10),
        };
        if !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix)) {
            let signed = if radix == 10 { &plain } else { digits };
            let integer = i64::from_str_radix(signed, radix);
            return Ok(integer.map_or(Value::Other("integer"), Value::Integer));
        }
        if plain.parse::<f64>().is_ok() {
            return Ok(Value::Other("float"));
        }
        let is_date = |c: char| c.is_ascii_digit() || "+-:.TtZz".contains(c);
        if !word.starts_with(|c: char| c.is_ascii_digit()) || !word.chars().all(is_date) {
            return Err("expected a value");
        }
        // A space may stand between a date and a time.
        if word.len() == "1979-05-27".len() && self.take(" ") {
            self.take_while(is_date);
        }
        Ok(Value::Other("datetime"))
    }

    fn string(&mut self, may_have_lines: bool) -> Parsed<String> {
        let (quote, three) = if self.rest().starts_with('"') {
            ("\"", "\"\"\"")
        } else {
            ("'", "'''")
        };
        let has_lines = may_have_lines && self.take(three);
        let end = if has_lines { three } else { quote };
        if has_lines {
            let _ = self.take("\r\n") || self.take("\n");
        } else {
            self.take(quote);
        }
        let mut text = String::new();
        while !self.take(end) {
            match self.take_char() {
                Some('\\') if quote == "\"" => text.extend(self.escaped(has_lines)?),
                Some(c) if has_lines || c != '\n' => text.push(c),
                _ => return Err("a string is not closed"),
            }
        }
        // Directly before `"""`, the text may end with one or two quotes.
        for _ in 0..2 {
            if has_lines && self.take(quote) {
                text.push_str(quote);
            }
        }
        Ok(text)
    }

    /// The character after a backslash; `None` for the end of a line, which continues at the next text.
    fn escaped(&mut self, has_lines: bool) -> Parsed<Option<char>> {
        let digits = match self.take_char() {
            Some('b') => return Ok(Some('\u{8}')),
            Some('t') => return Ok(Some('\t')),
            Some('n') => return Ok(Some('\n')),
            Some('f') => return Ok(Some('\u{c}')),
            Some('r') => return Ok(Some('\r')),
            Some('e') => return Ok(Some('\u{1b}')),
            Some(c @ ('"' | '\\')) => return Ok(Some(c)),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some(c @ (' ' | '\t' | '\r' | '\n')) if has_lines => {
                let mut skipped = c.to_string();
                skipped += self.take_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
                let has_end = skipped.contains('\n');
                return has_end.then_some(None).ok_or("invalid escape in a string");
            }
            _ => return Err("invalid escape in a string"),
        };
        let code = self.text.get(self.at..self.at + digits);
        let code = code.filter(|code| code.chars().all(|digit| digit.is_ascii_hexdigit()));
        let code = code.and_then(|code| u32::from_str_radix(code, 16).ok());
        self.at += digits;
        let character = code.and_then(char::from_u32);
        Ok(Some(character.ok_or("invalid escape in a string")?))
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "tests read files of the repository"
)]
mod tests {
    use super::*;

    /// The value as the crate `toml` reads it.
    fn value_of(value: toml::Value) -> Value {
        match value {
            toml::Value::String(text) => Value::String(text),
            toml::Value::Integer(number) => Value::Integer(number),
            toml::Value::Boolean(value) => Value::Boolean(value),
            toml::Value::Float(_) => Value::Other("float"),
            toml::Value::Datetime(_) => Value::Other("datetime"),
            toml::Value::Array(items) => Value::Array(items.into_iter().map(value_of).collect()),
            toml::Value::Table(table) => {
                let entries = table.into_iter().map(|(key, value)| (key, value_of(value)));
                let mut table = Table::default();
                for (key, value) in entries {
                    table.add(&[key], value).unwrap();
                }
                Value::Table(table)
            }
        }
    }

    /// The same value without how its tables were defined.
    fn plain(value: Value) -> Value {
        match value {
            Value::Array(items) => Value::Array(items.into_iter().map(plain).collect()),
            Value::Table(table) => {
                let mut copy = Table::default();
                for (key, value) in table.entries {
                    copy.add(&[key], plain(value)).unwrap();
                }
                Value::Table(copy)
            }
            value => value,
        }
    }

    /// Parses with both parsers. Returns whether the crate `toml` accepts the text.
    fn compare(text: &str) -> bool {
        let own = document(text);
        let Ok(expected) = toml::from_str::<toml::Table>(text) else {
            return false;
        };
        let own = own.unwrap_or_else(|error| panic!("{error}\n{text}"));
        let expected = value_of(toml::Value::Table(expected));
        assert_eq!(plain(Value::Table(own)), expected, "{text}");
        true
    }

    #[test]
    fn reads_what_the_crate_toml_reads() {
        let parts = [
            "\n",
            "\n",
            "\r\n",
            " ",
            "\t",
            " = ",
            "=",
            ".",
            ",",
            ", ",
            "# comment\n",
            "a",
            "b",
            "a-b",
            "1",
            "\"é\"",
            "'k'",
            "\"\"",
            "[a]\n",
            "\n[a.b]\n",
            "\n[[a]]\n",
            "\n[[b]]\n",
            "\n[b.\"c d\"]\n",
            "[",
            "]",
            "{",
            "}",
            "[1, 2,]",
            "[ # in an array\n 'x',\n]",
            "{b = 1}",
            "{ a.b = [ ] , c = {} }",
            "{}",
            "a = 1\n",
            "b = 2\n",
            "a.c = 'x'\n",
            "b.c = [{}]\n",
            "k = ",
            "key = ",
            "m=",
            "true",
            "false",
            "0",
            "-17",
            "+99",
            "1_000",
            "0xdead_BEEF",
            "0o755",
            "0b1101",
            "9223372036854775807",
            "1.5",
            "-0.0",
            "6.626e-34",
            "5e+22",
            "inf",
            "-nan",
            "1979-05-27",
            "07:32:00",
            "1979-05-27T07:32:00Z",
            "1979-05-27 07:32:00.5",
            "1979-05-27T00:32:00-07:00",
            "\"text\"",
            "\"\\t\\u00e9\\U0001F600 \\\\ \\\" \"",
            "'C:\\x'",
            "\"\"\"\nlines\n\"quoted\"\"\"\"",
            "'''\n''two\n'''''",
            "\"\"\"a \\\n   \n  b \\  \n c\"\"\"",
            "\"\"\"\"\"\"",
            "\"\\x41\\e\"",
            "\u{feff}",
        ];
        let mut state: u64 = 1;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        let mut accepted = 0;
        for _ in 0..20_000 {
            let count = 1 + random(8);
            let text: String = (0..count).map(|_| parts[random(parts.len())]).collect();
            accepted += usize::from(compare(&text));
            let value = parts[random(parts.len())];
            accepted += usize::from(compare(&format!("k = {value}\n{text}")));
        }
        assert!(accepted > 1000, "{accepted}");
    }

    #[test]
    fn reads_manifests_and_lock_files() {
        let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        for file in [
            "Cargo.toml",
            "Cargo.lock",
            "cuda-build/Cargo.toml",
            "cargo-cuda/Cargo.toml",
            "deny.toml",
            "clippy.toml",
        ] {
            let text = std::fs::read_to_string(format!("{workspace}/{file}")).unwrap();
            assert!(compare(&text), "{file}");
        }
    }
}
