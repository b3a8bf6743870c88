//! Finds the headers that source text names in `#include`, `__has_include` and similar directives. Comments and
//! raw strings are skipped.

/// One place that names a header.
pub(crate) enum Mention {
    /// `"name"`
    Quoted(String),
    /// `<name>`
    Angled(String),
    /// An `#include` whose file name is unknown: it is a macro, or not valid UTF-8.
    ComputedInclude,
    /// A `__has_include` whose file name is unknown: it is a macro, or not valid UTF-8.
    ComputedQuery,
    /// An instruction to the assembler to read a file, which no depfile lists.
    Assembly,
}

/// All mentions, in the order of the text.
pub(crate) fn mentions(text: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for line in without_comments(text).lines() {
        let line = line.trim_start();
        // `%:` (a digraph) and `??=` (a trigraph) are other spellings of `#`.
        let mut signs = ["#", "%:", "??="].iter();
        let Some(directive) = signs.find_map(|sign| line.strip_prefix(sign)) else {
            continue;
        };
        let directive = directive.trim_start();
        let is_no_word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let word_end = directive.find(is_no_word).unwrap_or(directive.len());
        let (word, rest) = directive.split_at(word_end);
        if ["include", "include_next", "import", "embed"].contains(&word) {
            found.push(parse_header_name(rest).unwrap_or(Mention::ComputedInclude));
            continue;
        }
        for name in ["__has_include", "__has_embed"] {
            for piece in rest.split(name).skip(1) {
                let piece = piece.strip_prefix("_next").unwrap_or(piece).trim_start();
                // `defined(__has_include)` has no argument, so it names no header. After
                // `#define HAS __has_include`, `HAS` can name any header.
                if let Some(argument) = piece.strip_prefix('(') {
                    found.push(parse_header_name(argument).unwrap_or(Mention::ComputedQuery));
                } else if word == "define" {
                    found.push(Mention::ComputedQuery);
                }
            }
        }
    }
    // In a literal, or in a raw string.
    let reads = [".incbin", ".include \"", ".include \\\""];
    if reads.iter().any(|read| text.contains(read)) {
        found.push(Mention::Assembly);
    }
    found
}

/// Parses the header name at the start of `"name" …` or `<name> …`. `None` if there is no valid name.
fn parse_header_name(rest: &str) -> Option<Mention> {
    let rest = rest.trim_start();
    // The text has U+FFFD in place of invalid UTF-8. The real file name cannot be recovered from it.
    let valid =
        |name: &str| (!name.is_empty() && !name.contains('\u{fffd}')).then(|| name.to_owned());
    if let Some(rest) = rest.strip_prefix('"') {
        return valid(rest.split_once('"')?.0).map(Mention::Quoted);
    }
    valid(rest.strip_prefix('<')?.split_once('>')?.0).map(Mention::Angled)
}

/// The text without comments. Continued lines are joined, and the content of raw strings is removed.
pub(crate) fn without_comments(text: &str) -> String {
    let text = joined_lines(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        let taken = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(inside) = rest.strip_prefix("/*") {
            out.push(' ');
            inside.find("*/").map_or(rest.len(), |end| end + 4)
        } else if let Some(len) = raw_string(rest).filter(|_| !ends_in_name(&out)) {
            out.push_str("\"\"");
            len
        } else if c == '"' || (c == '\'' && !ends_in_number(&out)) {
            let len = literal(rest, c);
            out.push_str(&rest[..len]);
            len
        } else {
            out.push(c);
            c.len_utf8()
        };
        rest = &rest[taken..];
    }
    out
}

/// The text with continued lines joined. As in gcc, spaces may follow the backslash at the end of a line.
fn joined_lines(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match line.trim_end().strip_suffix('\\') {
            Some(start) if line.ends_with('\n') => joined.push_str(start),
            _ => joined.push_str(line),
        }
    }
    joined
}

/// Whether the text ends in a character of a name or number. After such a character, `R"` does not
/// start a raw string.
fn ends_in_name(text: &str) -> bool {
    text.ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Whether the text ends in a number, such as `0xab'cd`. After a number, `'` separates digits; after a name such as the
/// prefix `L`, it starts a character literal.
fn ends_in_number(text: &str) -> bool {
    let before = text.trim_end_matches(|c: char| c.is_alphanumeric() || ['_', '\''].contains(&c));
    text[before.len()..].starts_with(|c: char| c.is_ascii_digit())
}

/// Length of the string or character literal at the start of `rest`. A literal without a closing
/// quote ends at the end of the line.
fn literal(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (index, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => return index,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return index + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// Length of the raw string at the start of `rest`, such as `R"x( … )x"`; `None` if there is none.
fn raw_string(rest: &str) -> Option<usize> {
    let mut prefixes = ["R\"", "u8R\"", "uR\"", "UR\"", "LR\""].iter();
    let after = prefixes.find_map(|prefix| rest.strip_prefix(prefix))?;
    let (delimiter, body) = after.split_once('(')?;
    if delimiter.len() > 16 || delimiter.contains([' ', ')', '\\', '\n', '"']) {
        return None;
    }
    let end = format!("){delimiter}\"");
    let after = body.split_once(&end).map_or("", |(_, after)| after);
    Some(rest.len() - after.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Vec<String> {
        let show = |mention| match mention {
            Mention::Quoted(name) => format!("\"{name}\""),
            Mention::Angled(name) => format!("<{name}>"),
            Mention::ComputedInclude => "include".to_owned(),
            Mention::ComputedQuery => "query".to_owned(),
            Mention::Assembly => "assembly".to_owned(),
        };
        mentions(text).into_iter().map(show).collect()
    }

    #[test]
    fn every_form_of_an_include() {
        let text = "#include \"a.h\"\n  #  include <b/c.h> // why\n#include/**/\"d.h\"\n#include<e.h>\n\
                    #inc\\\nlude \"f g.h\"\n#include_next <g.h>\r\n#include \"é.h\"\n/* x */ #include <h.h>";
        let expected = [
            "\"a.h\"",
            "<b/c.h>",
            "\"d.h\"",
            "<e.h>",
            "\"f g.h\"",
            "<g.h>",
            "\"é.h\"",
            "<h.h>",
        ];
        assert_eq!(listed(text), expected);
    }

    #[test]
    fn comments_and_strings_hold_none() {
        let text = "// #include \"a\"\n/*\n#include \"b\"\n*/\n// continued \\\n#include \"c\"\n\
                    const char* s = \"/*\";\n#include \"yes1\"\nint n = 1'000; char q = '\"';\n#include \"yes2\"\n\
                    f(L'\"', u8'\"', \"/*\"); int m = 0xf'f'f;\n#include \"yes2\"\n\
                    auto r = R\"x(\n#include \"d\"\n /* )\" )x\";\n#include \"yes3\"\nchar e = '\\''; // '\n\
                    #include \"yes4\"\n#define S \"unclosed\n#include \"yes5\"\n#includes \"f\"\n\
                    int include; /* #include \"g\"";
        assert_eq!(
            listed(text),
            [
                "\"yes1\"", "\"yes2\"", "\"yes2\"", "\"yes3\"", "\"yes4\"", "\"yes5\""
            ]
        );
    }

    #[test]
    fn has_include_and_computed() {
        let text = "#if defined(__has_include) && __has_include(<a.h>) || __has_include( \"b.h\" )\n#elif \
                    __has_include_next(<c.h>) && __has_include(MACRO)\n#endif\n#include CONFIG_H\n#include\n\
                    #define HAS __has_include\n";
        assert_eq!(
            listed(text),
            [
                "<a.h>", "\"b.h\"", "<c.h>", "query", "include", "include", "query"
            ]
        );
    }

    #[test]
    fn any_text_comes_to_an_end() {
        let text = "R\"(é\\\"'/*#include <é> __has_include(\"";
        for (index, _) in text.char_indices() {
            for start in (0..=index).filter(|&start| text.is_char_boundary(start)) {
                mentions(&text[start..index]);
            }
        }
    }
}
