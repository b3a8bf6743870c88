//! Writes a toolkit to a TOML file, and reads its components back.

use std::fmt::Write;
use std::path::PathBuf;
use std::str::FromStr;

use super::Toolkit;
use crate::component::Component;
use crate::document;
use crate::error::Error;
use crate::probe::Found;
use crate::toml::Table;

const FORMAT_VERSION: i64 = 1;

impl Toolkit {
    /// The components as TOML. If `CUDA_BUILD_TOOLKIT` names a file with this text,
    /// [`Search`](super::Search) reads the components from the file. The output is deterministic.
    ///
    /// # Errors
    /// [`Error::Format`] if a path is not Unicode.
    #[doc(hidden)]
    pub fn to_toml(&self) -> Result<String, Error> {
        let mut lines = vec![
            format!("format_version = {FORMAT_VERSION}"),
            format!("version = {}", quoted(&self.version.to_string())),
        ];
        for chosen in &self.components {
            let found = &chosen.found;
            lines.push("\n[[component]]".to_owned());
            let mut line = |key: &str, value: String| lines.push(format!("{key} = {value}"));
            line("name", quoted(found.component.id()));
            line("major", found.major.to_string());
            if let Some(version) = &found.version {
                line("version", quoted(&version.to_string()));
            }
            if let Some(toolkit) = found.release {
                line("toolkit", quoted(&toolkit.to_string()));
            }
            line("include", list(&found.include)?);
            line("libraries", list(&found.libraries)?);
            line("archives", list(&found.archives)?);
            line("tools", list(&found.tools)?);
            line("evidence", quoted(&found.evidence));
            line("origin", quoted(&chosen.origin));
        }
        Ok(lines.join("\n") + "\n")
    }
}

fn list(paths: &[PathBuf]) -> Result<String, Error> {
    let mut items = Vec::new();
    for path in paths {
        let text = path.to_str().map(quoted);
        items.push(text.ok_or_else(|| format_error(format!("{} is not Unicode", path.display())))?);
    }
    Ok(format!("[{}]", items.join(", ")))
}

/// `text` as a TOML basic string.
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

fn format_error(reason: impl Into<String>) -> Error {
    Error::Format {
        what: "toolkit file",
        reason: reason.into(),
        hint: "run the build through `cargo cuda` again, which writes the file, from a toolkit whose path is UTF-8",
    }
}

/// Reads the components from the output of [`Toolkit::to_toml`]. Unknown components are skipped, because
/// a newer `cargo cuda` may have written the file.
pub(super) fn parse(text: &str) -> Result<Vec<Found>, Error> {
    let table = document::parse(text, FORMAT_VERSION).map_err(format_error)?;
    let mut found: Vec<Found> = Vec::new();
    for entry in document::tables(&table, "component").map_err(format_error)? {
        let name = document::string(entry, "name").map_err(format_error)?;
        let Ok(component) = name.parse::<Component>() else {
            continue;
        };
        if found.iter().any(|known| known.component == component) {
            return Err(format_error(format!("it lists `{component}` twice")));
        }
        let new = read(entry, component);
        found.push(new.map_err(|reason| format_error(format!("`{name}`: {reason}")))?);
    }
    if found.is_empty() {
        return Err(format_error("it lists no component"));
    }
    Ok(found)
}

fn read(entry: &Table, component: Component) -> Result<Found, String> {
    let major = document::number(entry, "major")?;
    let major = u32::try_from(major).map_err(|_| format!("`major` is {major}"))?;
    let paths = |key| -> Result<Vec<PathBuf>, String> {
        let texts = document::strings(entry, key)?.into_iter();
        Ok(texts.map(PathBuf::from).collect())
    };
    Ok(Found {
        version: parsed(entry, "version")?,
        release: parsed(entry, "toolkit")?,
        include: paths("include")?,
        libraries: paths("libraries")?,
        archives: paths("archives")?,
        tools: paths("tools")?,
        evidence: document::string(entry, "evidence")?.to_owned(),
        ..Found::new(component, major)
    })
}

/// The parsed string at `key`; `None` if the key is absent. A string that cannot be parsed is an error.
fn parsed<T: FromStr>(entry: &Table, key: &str) -> Result<Option<T>, String> {
    let text = document::string(entry, key).ok();
    let parse = |text: &str| text.parse().map_err(|_| format!("`{key}` is `{text}`"));
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
            release: Some(ToolkitVersion::new(13, 4)),
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
            notes: Vec::new(),
            warnings: Vec::new(),
            default_search_dirs: Vec::new(),
        }
    }

    #[test]
    fn a_written_toolkit_is_read_back() {
        let toolkit = toolkit();
        let text = toolkit.to_toml().unwrap();
        assert_eq!(
            parse(&text).unwrap(),
            [toolkit.components[0].found.clone()],
            "{text}"
        );
        assert_eq!(text, toolkit.to_toml().unwrap());
    }

    const ENTRY: &str = "[[component]]\nname = 'cudart'\nmajor = 13\nevidence = ''\ninclude = []\n\
                         libraries = []\narchives = []\ntools = []\n";

    #[test]
    fn broken_toolkit_files_are_refused() {
        for (text, expected) in [
            ("", "format_version"),
            ("format_version = 2", "format_version 2"),
            ("format_version = 1", "no component"),
            (
                "format_version = 1\n[[component]]\nmajor = 13",
                "`name` is missing or not a string",
            ),
            (
                "format_version = 1\n[[component]]\nname = 'cudart'",
                "`cudart`: `major` is missing or not a number",
            ),
            ("=", "not a valid toolkit file"),
            (
                "format_version = 1\n[[component]]\nname = 'cudart'\nmajor = 13\ntoolkit = '1-13.4'",
                "`cudart`: `toolkit` is `1-13.4`",
            ),
            (
                &format!(
                    "format_version = 1\n{}",
                    ENTRY.replace("libraries = []", "libraries = [1]")
                ),
                "`cudart`: `libraries` has an item that is not a string",
            ),
            (
                &format!("format_version = 1\n{ENTRY}{ENTRY}"),
                "lists `cudart` twice",
            ),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
