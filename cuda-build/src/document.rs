//! Reads typed values from the TOML files that this project writes.

use crate::toml::{Table, Value};

/// Parses the text of a file. It is an error if `format_version` is missing or not between 1 and `newest`.
pub(crate) fn parse(text: &str, newest: i64) -> Result<Table, String> {
    let table = Table::parse(text)?;
    let format = number(&table, "format_version")?;
    if (1..=newest).contains(&format) {
        return Ok(table);
    }
    Err(format!(
        "format_version {format} is not supported: this cuda-build reads up to {newest}"
    ))
}

pub(crate) fn number(table: &Table, key: &str) -> Result<i64, String> {
    match table.get(key) {
        Some(Value::Integer(number)) => Ok(*number),
        _ => Err(format!("`{key}` is missing or not a number")),
    }
}

pub(crate) fn string<'t>(table: &'t Table, key: &str) -> Result<&'t str, String> {
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
pub(crate) fn strings<'t>(table: &'t Table, key: &str) -> Result<Vec<&'t str>, String> {
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
pub(crate) fn tables<'t>(table: &'t Table, key: &str) -> Result<Vec<&'t Table>, String> {
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
