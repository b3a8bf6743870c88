//! Finds Python code that looks its own distribution up by the name without `-cu12`, such as
//! `importlib.metadata.version("saxpy")`. No distribution of that name is installed, so the call
//! raises `PackageNotFoundError`.
//!
//! Only calls whose first argument is a string literal, `__name__` or `__package__` are found.

use super::metadata::normalized_name;

/// Functions of `importlib.metadata`, `importlib_metadata` and `pkg_resources` that take the name of
/// a distribution.
const FUNCTIONS: &[&str] = &[
    "distribution",
    "get_distribution",
    "metadata",
    "require",
    "requires",
    "version",
];

/// Functions that count only as attributes of one of [`METADATA_MODULES`], because
/// `importlib.resources` has functions of the same names that take a package.
const AMBIGUOUS: &[&str] = &["files"];

const METADATA_MODULES: &[&str] = &["metadata", "importlib_metadata"];

/// One call that fails under another name of the distribution.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lookup {
    /// The Python file, as a path in the wheel.
    pub file: String,
    pub line: usize,
    /// The call, such as `version("saxpy")`.
    pub call: String,
}

/// The calls in one file that look up the distribution `name`.
pub fn find(file: &str, text: &str, name: &str) -> Vec<Lookup> {
    let name = normalized_name(name);
    let tokens = tokens(text);
    let mut found = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let is_own = match &token.kind {
            Kind::String(value) => normalized_name(value) == name,
            Kind::Name("__name__") => is_package_itself(file, &name, true),
            Kind::Name("__package__") => is_package_itself(file, &name, false),
            _ => false,
        };
        if !is_own {
            continue;
        }
        let before = |distance: usize| {
            let index = index.checked_sub(distance)?;
            Some(&tokens[index].kind)
        };
        // `version(distribution_name="saxpy")` or `version("saxpy")`.
        let keyword = matches!(before(1), Some(Kind::Other('=')))
            && matches!(before(2), Some(Kind::Name("distribution_name")));
        let open = if keyword { 3 } else { 1 };
        let (Some(Kind::Other('(')), Some(Kind::Name(function))) = (before(open), before(open + 1))
        else {
            continue;
        };
        let qualifier = match (before(open + 2), before(open + 3)) {
            (Some(Kind::Other('.')), Some(Kind::Name(module))) => Some(*module),
            _ => None,
        };
        let is_lookup = FUNCTIONS.contains(function)
            || (AMBIGUOUS.contains(function)
                && qualifier.is_some_and(|module| METADATA_MODULES.contains(&module)));
        if is_lookup {
            let argument = match &token.kind {
                Kind::String(value) => format!("\"{value}\""),
                Kind::Name(name) => (*name).to_owned(),
                Kind::Other(c) => c.to_string(),
            };
            found.push(Lookup {
                file: file.to_owned(),
                line: token.line,
                call: format!("{function}({argument})"),
            });
        }
    }
    found
}

/// Whether `__name__` or `__package__` in this file is the name of the distribution: `__name__` only
/// in `saxpy/__init__.py`, `__package__` in each file of `saxpy`.
fn is_package_itself(file: &str, name: &str, only_init: bool) -> bool {
    let Some((package, module)) = file.rsplit_once('/') else {
        return false;
    };
    !package.contains('/')
        && normalized_name(package) == name
        && (!only_init || module == "__init__.py")
}

#[derive(Debug)]
struct Token<'a> {
    line: usize,
    kind: Kind<'a>,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind<'a> {
    Name(&'a str),
    /// The text of a string literal between its quotes, with escapes as they are written.
    String(&'a str),
    Other(char),
}

/// Splits Python code into names, string literals and other characters, without comments, spaces and
/// the prefixes of literals (the `r` of `r"…"`).
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let (kind, length) = if c == '#' {
            (None, rest.find('\n').unwrap_or(rest.len()))
        } else if c == '"' || c == '\'' {
            let (value, length) = string(rest);
            (Some(Kind::String(value)), length)
        } else if is_name(c) {
            let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let name = &rest[..length];
            let is_prefix = rest[length..].starts_with(['"', '\''])
                && length <= 2
                && name.chars().all(|c| "rRbBuUfFtT".contains(c));
            ((!is_prefix).then_some(Kind::Name(name)), length)
        } else {
            let kind = (!c.is_whitespace()).then_some(Kind::Other(c));
            (kind, c.len_utf8())
        };
        tokens.extend(kind.map(|kind| Token { line, kind }));
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    tokens
}

/// The text between the quotes of the literal at the start of `rest`, and the length of the literal.
/// A literal without an end reaches to the end of its line, or of the file for triple quotes.
fn string(rest: &str) -> (&str, usize) {
    let quote = &rest[..1];
    let triple = quote.repeat(3);
    let (quotes, is_triple) = if rest.starts_with(&triple) {
        (triple.as_str(), true)
    } else {
        (quote, false)
    };
    let start = quotes.len();
    let mut escaped = false;
    for (at, c) in rest[start..].char_indices() {
        let here = start + at;
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if rest[here..].starts_with(quotes) {
            return (&rest[start..here], here + quotes.len());
        } else if c == '\n' && !is_triple {
            return (&rest[start..here], here);
        }
    }
    (&rest[start..], rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(file: &str, text: &str) -> Vec<String> {
        let found = find(file, text, "My.Saxpy");
        let shown = found.iter().map(|f| format!("{}: {}", f.line, f.call));
        shown.collect()
    }

    #[test]
    fn lookups_by_name_are_found() {
        let text = "import importlib.metadata as md\n\
                    from importlib.metadata import version\n\
                    __version__ = version(\"my-saxpy\")\n\
                    a = md.distribution( # why\n    r'my_saxpy')\n\
                    b = importlib.metadata.files('my.saxpy'), md.requires(distribution_name='my-saxpy')\n\
                    c = pkg_resources.get_distribution('My-Saxpy').version\n";
        assert_eq!(
            calls("my_saxpy/_version.py", text),
            [
                "3: version(\"my-saxpy\")",
                "5: distribution(\"my_saxpy\")",
                "6: files(\"my.saxpy\")",
                "6: requires(\"my-saxpy\")",
                "7: get_distribution(\"My-Saxpy\")",
            ]
        );
    }

    #[test]
    fn the_own_name_of_a_package_is_a_lookup() {
        let text = "v = version(__name__)\nw = metadata.version(__package__)\n";
        assert_eq!(
            calls("my_saxpy/__init__.py", text),
            ["1: version(__name__)", "2: version(__package__)"]
        );
        assert_eq!(calls("my_saxpy/a.py", text), ["2: version(__package__)"]);
        assert!(calls("my_saxpy/sub/__init__.py", text).is_empty());
        assert!(calls("other/__init__.py", text).is_empty());
    }

    #[test]
    fn other_code_is_not_reported() {
        let text = "\"\"\"Call version('my-saxpy').\n\"\"\"\n\
                    # version('my-saxpy')\n\
                    a = 'version(\"my-saxpy\")', 'it\\'s version(\"my-saxpy\")'\n\
                    b = importlib.resources.files('my_saxpy')\n\
                    c = version('numpy'), print('my-saxpy'), version + 'my-saxpy'\n\
                    def version(name='my-saxpy'): pass\n\
                    d = import_module('my_saxpy')\n\
                    e = 'not closed\nf = ('my-saxpy')\n";
        assert_eq!(calls("my_saxpy/__init__.py", text), Vec::<String>::new());
        assert_eq!(calls("a.py", "'\\"), Vec::<String>::new());
        assert_eq!(calls("a.py", "\"\"\"ü"), Vec::<String>::new());
    }
}
