//! Whether a header accepts a compiler: its `#if` and `#error` lines, evaluated.
//!
//! The bounds of a toolkit are the conditions in its `crt/host_config.h`, not the messages below
//! them: in 12.2.140 the message names 16 as the first clang that is not accepted, the condition
//! 17.

use std::collections::BTreeMap;

use super::expression::evaluate;

/// The macros that a compiler defines by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Macros {
    values: BTreeMap<String, String>,
}

impl Macros {
    /// Reads what `-dM -E` prints: a `#define` a line. Macros with parameters are left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut macros = Self::default();
        for line in text.lines() {
            if let Some(definition) =
                directive(line).and_then(|(name, rest)| (name == "define").then_some(rest))
            {
                macros.define(definition);
            }
        }
        macros
    }

    /// The value; empty for a macro that is defined as nothing.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The value as a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u32> {
        self.value(name)?.parse().ok()
    }

    fn define(&mut self, definition: &str) {
        let end = definition
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(definition.len());
        let (name, value) = definition.split_at(end);
        if !name.is_empty() && !value.starts_with('(') {
            self.values.insert(name.to_owned(), value.trim().to_owned());
        }
    }

    fn with(mut self, name: &str, value: u32) -> Self {
        self.values.insert(name.to_owned(), value.to_string());
        self
    }

    /// What gcc of a major defines, as far as such headers ask.
    fn gcc(major: u32) -> Self {
        Self::default()
            .with("__GNUC__", major)
            .with("__GNUC_MINOR__", 1)
    }

    /// The same for clang, which says that it is gcc 4.2.
    fn clang(major: u32) -> Self {
        let macros = Self::default()
            .with("__GNUC__", 4)
            .with("__GNUC_MINOR__", 2);
        macros
            .with("__clang__", 1)
            .with("__clang_major__", major)
            .with("__clang_minor__", 1)
    }
}

/// What a header accepts: majors, the last that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The newest gcc.
    pub gcc_max: u32,
    /// The newest clang.
    pub clang_max: u32,
}

/// Beyond any compiler there will be while this matters.
const NO_SUCH_MAJOR: u32 = 100;

/// The newest compilers that the header accepts; `None` where it has no such bound, or is not
/// understood.
#[must_use]
pub fn bounds(header: &str) -> Option<Bounds> {
    let newest = |macros: fn(u32) -> Macros| {
        let accepted = |major: &u32| refusal(header, &macros(*major)) == Ok(None);
        let newest = (3..=NO_SUCH_MAJOR).rev().find(accepted)?;
        (newest < NO_SUCH_MAJOR).then_some(newest)
    };
    Some(Bounds {
        gcc_max: newest(Macros::gcc)?,
        clang_max: newest(Macros::clang)?,
    })
}

/// The `#error` that a compiler with these macros runs into, if any.
///
/// # Errors
/// The condition that is not understood.
pub fn refusal(header: &str, macros: &Macros) -> Result<Option<String>, String> {
    let mut macros = macros.clone();
    // What nvcc and every 64-bit Linux define besides.
    for name in [
        "__CUDACC__",
        "__NVCC__",
        "__linux__",
        "__LP64__",
        "__CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS__",
    ] {
        macros = macros.with(name, 1);
    }
    // A branch of each `#if` that is open: whether it is taken, and whether an earlier one was.
    let mut open: Vec<(bool, bool)> = Vec::new();
    for line in logical_lines(header) {
        let Some((name, rest)) = directive(&line) else {
            continue;
        };
        let active = open.iter().all(|(taken, _)| *taken);
        let holds = |condition: &str| {
            evaluate(condition, &macros)
                .map(|value| value != 0)
                .ok_or_else(|| condition.trim().to_owned())
        };
        match name {
            "if" if active => {
                let taken = holds(rest)?;
                open.push((taken, taken));
            }
            "ifdef" | "ifndef" if active => {
                let taken = macros.value(rest.trim()).is_some() == (name == "ifdef");
                open.push((taken, taken));
            }
            // Below a branch that is not taken nothing counts.
            "if" | "ifdef" | "ifndef" => open.push((false, true)),
            "elif" | "else" => {
                let Some((_, done)) = open.pop() else {
                    return Err(format!("#{name} without #if"));
                };
                let taken = !done && (name == "else" || holds(rest)?);
                open.push((taken, done || taken));
            }
            "endif" => {
                open.pop();
            }
            "error" if active => {
                return Ok(Some(rest.trim().trim_start_matches('-').trim().to_owned()));
            }
            "define" if active => macros.define(rest),
            "undef" if active => {
                macros.values.remove(rest.trim());
            }
            _ => {}
        }
    }
    Ok(None)
}

/// The name of a preprocessor directive and what follows it.
fn directive(line: &str) -> Option<(&str, &str)> {
    let text = line.trim_start().strip_prefix('#')?.trim_start();
    let end = text
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    Some((&text[..end], text[end..].trim_start()))
}

/// Lines as the preprocessor sees them: continued ones joined, comments taken out.
fn logical_lines(text: &str) -> Vec<String> {
    let joined = text.replace("\r\n", "\n").replace("\\\n", " ");
    let mut plain = String::with_capacity(joined.len());
    let mut rest = joined.as_str();
    while let Some(start) = rest.find("/*").into_iter().chain(rest.find("//")).min() {
        plain.push_str(&rest[..start]);
        plain.push(' ');
        let (skip, keep) = if rest[start..].starts_with("/*") {
            ("*/", 2)
        } else {
            ("\n", 0)
        };
        let after = &rest[start + 2..];
        rest = after.find(skip).map_or("", |end| &after[end + keep..]);
    }
    plain.push_str(rest);
    plain.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shape of `crt/host_config.h`, with a message that does not fit its condition.
    const HEADER: &str = r#"
#if !defined(__HOST_CONFIG_H__)
#define __HOST_CONFIG_H__
#if defined(__CUDACC__)
/* check for host compilers */
#if !__NV_NO_HOST_COMPILER_CHECK
#if defined(__GNUC__)
#if __GNUC__ > 12 // later
#error -- unsupported GNU version! gcc versions later than 12 are not supported!
#endif /* __GNUC__ > 12 ||
          a comment over lines */
#if defined(__clang__) && \
    !defined(__HORIZON__)
#if (__clang_major__ >= 17) || (__clang_major__ < 3)
#error -- unsupported clang version! clang version must be less than 16
#endif
#endif
#elif defined(_WIN32)
#error unreachable for them
#endif
#endif
#endif
#endif
"#;

    #[test]
    fn conditions_count_and_messages_do_not() {
        assert_eq!(
            bounds(HEADER),
            Some(Bounds {
                gcc_max: 12,
                clang_max: 16
            })
        );
        let refused = refusal(HEADER, &Macros::gcc(13)).unwrap().unwrap();
        assert!(refused.starts_with("unsupported GNU version!"), "{refused}");
        assert_eq!(refusal(HEADER, &Macros::clang(16)), Ok(None));
    }

    #[test]
    fn the_override_macro_lifts_the_bounds() {
        let macros = Macros::parse("#define __GNUC__ 99\n#define __NV_NO_HOST_COMPILER_CHECK 1\n");
        assert_eq!(refusal(HEADER, &macros), Ok(None));
    }

    #[test]
    fn no_bound_and_no_sense_are_none() {
        assert_eq!(bounds(""), None);
        assert_eq!(bounds("#if __GNUC__ > 12 ? 1 : 0\n#error\n#endif"), None);
        assert_eq!(bounds("#else\n#endif\n"), None);
        assert_eq!(
            refusal("#if 1 +\n", &Macros::default()),
            Err("1 +".to_owned())
        );
        assert_eq!(
            refusal(
                "#if 0\n#if 1 +\n#endif\n#endif\n/* never closed",
                &Macros::default()
            ),
            Ok(None)
        );
    }

    #[test]
    fn macros_of_a_compiler() {
        let macros = Macros::parse(
            "#define __GNUC__ 12\n#define __VERSION__ \"12.2.0\"\n#define F(x) x\n#define E\nnoise\n",
        );
        assert_eq!(macros.number("__GNUC__"), Some(12));
        assert_eq!(macros.value("__VERSION__"), Some("\"12.2.0\""));
        assert_eq!((macros.value("F"), macros.value("E")), (None, Some("")));
    }
}
