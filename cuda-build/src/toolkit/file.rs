//! A toolkit as a text file.

use std::fmt::Write;
use std::path::PathBuf;
use std::str::FromStr;

use toml::de::{DeTable, DeValue};

use super::Toolkit;
use crate::component::Component;
use crate::error::Error;
use crate::probe::Found;

const FORMAT_VERSION: &str = "1";

impl Toolkit {
    /// The components as a TOML text that [`Search`](super::Search) reads back through
    /// `CUDA_BUILD_TOOLKIT`. The same toolkit gives the same text.
    ///
    /// # Errors
    /// [`Error::Format`] where a path is not Unicode.
    #[doc(hidden)]
    pub fn to_toml(&self) -> Result<String, Error> {
        let mut text = format!(
            "format_version = {FORMAT_VERSION}\nversion = {}\n",
            quoted(&self.version.to_string())
        );
        for chosen in &self.components {
            let found = &chosen.found;
            let mut line = |key: &str, value: String| {
                // Writing to a String can't fail.
                let _ = writeln!(text, "{key} = {value}");
            };
            line("\n[[component]]\nname", quoted(found.component.id()));
            line("major", found.major.to_string());
            if let Some(version) = &found.version {
                line("version", quoted(&version.to_string()));
            }
            if let Some(toolkit) = found.toolkit {
                line("toolkit", quoted(&toolkit.to_string()));
            }
            for (key, paths) in [
                ("include", &found.include),
                ("libraries", &found.libraries),
                ("archives", &found.archives),
                ("tools", &found.tools),
            ] {
                line(key, list(paths)?);
            }
            line("evidence", quoted(&found.evidence));
            line("origin", quoted(&chosen.origin));
        }
        Ok(text)
    }
}

fn list(paths: &[PathBuf]) -> Result<String, Error> {
    let mut items = Vec::new();
    for path in paths {
        let text = path
            .to_str()
            .ok_or_else(|| wrong(format!("{} is not Unicode", path.display())))?;
        items.push(quoted(text));
    }
    Ok(format!("[{}]", items.join(", ")))
}

/// A TOML basic string.
pub(super) fn quoted(text: &str) -> String {
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

fn wrong(reason: impl Into<String>) -> Error {
    Error::Format {
        what: "toolkit file",
        reason: reason.into(),
    }
}

/// The components of a toolkit that was written by [`Toolkit::to_toml`].
pub(super) fn parse(text: &str) -> Result<Vec<Found>, Error> {
    let table = DeTable::parse(text)
        .map_err(|error| wrong(error.message()))?
        .into_inner();
    let format = table
        .get("format_version")
        .and_then(|v| v.get_ref().as_integer());
    if format.is_none_or(|format| format.as_str() != FORMAT_VERSION) {
        return Err(wrong(format!(
            "its `format_version` is not {FORMAT_VERSION}: `cargo cuda` and this cuda-build are of different age"
        )));
    }
    let components = table.get("component").and_then(|v| v.get_ref().as_array());
    let mut found = Vec::new();
    for entry in components.into_iter().flatten() {
        let entry = entry
            .get_ref()
            .as_table()
            .ok_or_else(|| wrong("`component` holds no table"))?;
        let Some(component) = component(entry)? else {
            continue;
        };
        if found
            .iter()
            .any(|known: &Found| known.component == component.component)
        {
            return Err(wrong(format!("it lists `{}` twice", component.component)));
        }
        found.push(component);
    }
    if found.is_empty() {
        return Err(wrong("it lists no component"));
    }
    Ok(found)
}

/// `None` for a component that only a newer `cargo cuda` knows.
fn component(entry: &DeTable<'_>) -> Result<Option<Found>, Error> {
    let text = |key: &str| entry.get(key).and_then(|v| v.get_ref().as_str());
    let name = text("name").ok_or_else(|| wrong("a component has no `name`"))?;
    let Ok(component) = name.parse::<Component>() else {
        return Ok(None);
    };
    let major = entry
        .get("major")
        .and_then(|v| v.get_ref().as_integer())
        .and_then(|n| n.as_str().parse().ok())
        .ok_or_else(|| wrong(format!("`{name}` has no `major`")))?;
    let paths = |key: &str| -> Vec<PathBuf> {
        let items = entry.get(key).and_then(|v| v.get_ref().as_array());
        items
            .into_iter()
            .flatten()
            .filter_map(|v| DeValue::as_str(v.get_ref()).map(PathBuf::from))
            .collect()
    };
    Ok(Some(Found {
        component,
        major,
        version: parsed(name, "version", text("version"))?,
        toolkit: parsed(name, "toolkit", text("toolkit"))?,
        include: paths("include"),
        libraries: paths("libraries"),
        archives: paths("archives"),
        tools: paths("tools"),
        evidence: text("evidence").unwrap_or_default().to_owned(),
    }))
}

/// A value that may be absent, and must be right where it is there.
fn parsed<T: FromStr>(name: &str, key: &str, text: Option<&str>) -> Result<Option<T>, Error> {
    let parse = |text: &str| {
        text.parse()
            .map_err(|_| wrong(format!("`{key}` of `{name}` is `{text}`")))
    };
    text.map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::Chosen;
    use crate::version::ToolkitVersion;

    fn toolkit() -> Toolkit {
        let found = Found {
            component: Component::Cudart,
            major: 13,
            version: Some("13.4.92".parse().unwrap()),
            toolkit: Some(ToolkitVersion::new(13, 4)),
            include: vec![PathBuf::from("/a \"b\"/größe\n/include")],
            libraries: vec![PathBuf::from(r"/a\b/libcudart.so.13")],
            archives: Vec::new(),
            tools: Vec::new(),
            evidence: "nvidia-cuda-runtime 13.4.92".to_owned(),
        };
        Toolkit {
            version: ToolkitVersion::new(13, 4),
            components: vec![Chosen {
                found,
                origin: "somewhere".to_owned(),
            }],
            alternative: None,
            combined: false,
            notes: Vec::new(),
            warnings: Vec::new(),
            default_search_dirs: Vec::new(),
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let toolkit = toolkit();
        let text = toolkit.to_toml().unwrap();
        assert_eq!(
            parse(&text).unwrap(),
            [toolkit.components[0].found.clone()],
            "{text}"
        );
        assert_eq!(text, toolkit.to_toml().unwrap());
    }

    #[test]
    fn what_is_no_toolkit_is_refused() {
        for (text, expected) in [
            ("", "format_version"),
            ("format_version = 2", "different age"),
            ("format_version = 1", "no component"),
            ("format_version = 1\n[[component]]\nmajor = 13", "no `name`"),
            (
                "format_version = 1\n[[component]]\nname = 'cudart'",
                "no `major`",
            ),
            ("=", "not a valid toolkit file"),
            (
                "format_version = 1\n[[component]]\nname = 'cudart'\nmajor = 13\ntoolkit = '1-13.4'",
                "`toolkit` of `cudart` is `1-13.4`",
            ),
            (
                "format_version = 1\n[[component]]\nname = 'cudart'\nmajor = 13\n[[component]]\nname = \
                 'cudart'\nmajor = 12",
                "lists `cudart` twice",
            ),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
