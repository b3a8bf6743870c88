//! Reads typed values from the TOML files that this project writes.

use toml::de::{DeArray, DeTable, DeValue};

/// Parses a file. A `format_version` above `newest` is an error.
pub(crate) fn parse(text: &str, newest: i64) -> Result<DeTable<'_>, String> {
    let table = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    let table = table.into_inner();
    let format = number(&table, "format_version")?;
    if (1..=newest).contains(&format) {
        return Ok(table);
    }
    Err(format!(
        "format_version {format}, this cuda-build reads up to {newest}"
    ))
}

fn value<'t>(table: &'t DeTable<'_>, key: &str) -> Option<&'t DeValue<'t>> {
    table.get(key).map(|value| value.get_ref())
}

pub(crate) fn number(table: &DeTable<'_>, key: &str) -> Result<i64, String> {
    value(table, key)
        .and_then(DeValue::as_integer)
        .and_then(|number| number.as_str().parse().ok())
        .ok_or_else(|| format!("no number `{key}`"))
}

pub(crate) fn string<'t>(table: &'t DeTable<'_>, key: &str) -> Result<&'t str, String> {
    value(table, key)
        .and_then(DeValue::as_str)
        .ok_or_else(|| format!("no string `{key}`"))
}

fn array<'t>(table: &'t DeTable<'_>, key: &str) -> Result<&'t DeArray<'t>, String> {
    value(table, key)
        .and_then(DeValue::as_array)
        .ok_or_else(|| format!("no array `{key}`"))
}

/// The strings of an array.
pub(crate) fn strings<'t>(table: &'t DeTable<'_>, key: &str) -> Result<Vec<&'t str>, String> {
    let items = array(table, key)?.iter();
    Ok(items.filter_map(|item| item.get_ref().as_str()).collect())
}

/// The tables of an array; none if the key is absent.
pub(crate) fn tables<'t>(
    table: &'t DeTable<'_>,
    key: &str,
) -> Result<Vec<&'t DeTable<'t>>, String> {
    if value(table, key).is_none() {
        return Ok(Vec::new());
    }
    array(table, key)?
        .iter()
        .map(|item| {
            item.get_ref()
                .as_table()
                .ok_or_else(|| format!("no table in `{key}`"))
        })
        .collect()
}
