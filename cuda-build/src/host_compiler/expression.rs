//! Conditions of `#if`: integers, `defined`, and the operators of C.

use std::cell::Cell;

use super::conditions::Macros;

/// Macros that name macros; a header that goes deeper is not one of NVIDIA's.
const DEPTH: u32 = 16;

/// Parentheses and signs within each other, those of macros included. It keeps the stack small.
const NESTING: u32 = 64;

/// Operands in all: macros that each name another twice would take for ever.
const OPERANDS: u32 = 10_000;

/// What is left of both, for one condition.
struct Budget {
    nesting: Cell<u32>,
    operands: Cell<u32>,
}

/// The value of a condition; `None` where it holds what is not understood.
pub(super) fn evaluate(text: &str, macros: &Macros) -> Option<i128> {
    let budget = Budget {
        nesting: Cell::new(NESTING),
        operands: Cell::new(OPERANDS),
    };
    evaluate_at(text, macros, DEPTH, &budget)
}

fn evaluate_at(text: &str, macros: &Macros, depth: u32, budget: &Budget) -> Option<i128> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        position: 0,
        macros,
        depth: depth.checked_sub(1)?,
        budget,
    };
    let value = parser.binary(0)?;
    (parser.position == parser.tokens.len()).then_some(value)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Number(i128),
    Name(String),
    Operator(&'static str),
}

/// Longer ones first: `<=` is not `<` and `=`.
const OPERATORS: &[&str] = &[
    "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "<", ">", "!", "+", "-", "*", "/", "%", "&",
    "|", "^", "~", "(", ")",
];

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = |keep: fn(char) -> bool| rest.find(|c| !keep(c)).unwrap_or(rest.len());
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = if first.is_ascii_digit() {
            let length = end(word);
            tokens.push(Token::Number(number(&rest[..length])?));
            length
        } else if word(first) {
            let length = end(word);
            tokens.push(Token::Name(rest[..length].to_owned()));
            length
        } else {
            let operator = OPERATORS
                .iter()
                .find(|operator| rest.starts_with(**operator))?;
            tokens.push(Token::Operator(operator));
            operator.len()
        };
        rest = rest[length..].trim_start();
    }
    Some(tokens)
}

/// `201703L`, `0x0d010000`, `017`.
fn number(text: &str) -> Option<i128> {
    let plain = text.trim_end_matches(['u', 'U', 'l', 'L']);
    match plain.strip_prefix("0x").or(plain.strip_prefix("0X")) {
        Some(digits) => i128::from_str_radix(digits, 16).ok(),
        None if plain.len() > 1 && plain.starts_with('0') => {
            i128::from_str_radix(&plain[1..], 8).ok()
        }
        None => plain.parse().ok(),
    }
}

/// Operators by how closely they bind, loosest first.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", ">", "<=", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

struct Parser<'a> {
    tokens: Vec<Token>,
    position: usize,
    macros: &'a Macros,
    depth: u32,
    budget: &'a Budget,
}

impl Parser<'_> {
    fn take(&mut self, operators: &[&'static str]) -> Option<&'static str> {
        let Some(Token::Operator(next)) = self.tokens.get(self.position) else {
            return None;
        };
        let taken = operators.iter().find(|operator| *operator == next)?;
        self.position += 1;
        Some(taken)
    }

    fn binary(&mut self, level: usize) -> Option<i128> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = self.take(operators) {
            let right = self.binary(level + 1)?;
            left = apply(operator, left, right)?;
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<i128> {
        let Budget { nesting, operands } = self.budget;
        operands.set(operands.get().checked_sub(1)?);
        nesting.set(nesting.get().checked_sub(1)?);
        let value = self.operand();
        nesting.set(nesting.get() + 1);
        value
    }

    fn operand(&mut self) -> Option<i128> {
        match self.take(&["!", "-", "+", "~"]) {
            Some("!") => return self.unary().map(|value| i128::from(value == 0)),
            Some("-") => return self.unary().and_then(i128::checked_neg),
            Some("~") => return self.unary().map(|value| !value),
            Some(_) => return self.unary(),
            None => {}
        }
        if self.take(&["("]).is_some() {
            let value = self.binary(0)?;
            return self.take(&[")"]).map(|_| value);
        }
        let token = self.tokens.get(self.position)?.clone();
        self.position += 1;
        match token {
            Token::Number(value) => Some(value),
            Token::Name(name) if name == "defined" => self.defined(),
            Token::Name(name) => self.value_of(&name),
            Token::Operator(_) => None,
        }
    }

    fn defined(&mut self) -> Option<i128> {
        let parenthesis = self.take(&["("]).is_some();
        let Some(Token::Name(name)) = self.tokens.get(self.position) else {
            return None;
        };
        let defined = self.macros.value(name).is_some();
        self.position += 1;
        if parenthesis {
            self.take(&[")"])?;
        }
        Some(i128::from(defined))
    }

    /// A macro's value; zero where there is none, and for `__has_include(…)` and its like, which
    /// ask for what a header does not depend on.
    fn value_of(&mut self, name: &str) -> Option<i128> {
        if self.take(&["("]).is_some() {
            let mut open = 1;
            while open > 0 {
                match self.tokens.get(self.position)? {
                    Token::Operator("(") => open += 1,
                    Token::Operator(")") => open -= 1,
                    _ => {}
                }
                self.position += 1;
            }
            return Some(0);
        }
        match self.macros.value(name) {
            None => Some(0),
            Some(text) => evaluate_at(text, self.macros, self.depth, self.budget),
        }
    }
}

fn apply(operator: &str, left: i128, right: i128) -> Option<i128> {
    let truth = |value: bool| Some(i128::from(value));
    match operator {
        "||" => truth(left != 0 || right != 0),
        "&&" => truth(left != 0 && right != 0),
        "==" => truth(left == right),
        "!=" => truth(left != right),
        "<" => truth(left < right),
        ">" => truth(left > right),
        "<=" => truth(left <= right),
        ">=" => truth(left >= right),
        "|" => Some(left | right),
        "^" => Some(left ^ right),
        "&" => Some(left & right),
        "<<" => left.checked_shl(u32::try_from(right).ok()?),
        ">>" => left.checked_shr(u32::try_from(right).ok()?),
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "/" => left.checked_div(right),
        "%" => left.checked_rem(right),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<i128> {
        let macros = Macros::parse(
            "#define __GNUC__ 13\n#define __LP64__ 1\n#define A B\n#define B A\n#define E\n",
        );
        evaluate(text, &macros)
    }

    #[test]
    fn conditions_of_real_headers() {
        for (text, expected) in [
            ("__GNUC__ > 12", 1),
            ("__GNUC__ > 13", 0),
            ("!__NV_NO_HOST_COMPILER_CHECK", 1),
            (
                "(__clang_major__ >= 17) || (__clang_major__ < 3) || ((__clang_major__ == 3) &&  (__clang_minor__ < 3))",
                1,
            ),
            ("defined(__GNUC__) && !defined __clang__", 1),
            (
                "(__ICC != 1500 && !(__ICC >= 1900 && __ICC <= 2021)) || !defined(__LP64__)",
                1,
            ),
            (
                "defined(__ibmxl_vrm__) && !(__ibmxl_vrm__ >= 0x0d010000)",
                0,
            ),
            ("__cplusplus >= 201703L", 0),
            ("1 + 2 * 3 == 7 && 010 == 8 && 7 / 2 == 3", 1),
            ("defined(__has_include) || __has_include(<x.h>)", 0),
            ("-1 < 0 && ~0 == -1 && (1 << 3) == 8", 1),
        ] {
            let blind = text.contains("<x.h>");
            assert_eq!(value(text), (!blind).then_some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_not_guessed() {
        for text in [
            "",
            "1 +",
            "(1",
            "1 2",
            "\"a\"",
            "1 / 0",
            "A",
            "E",
            "@",
            "defined",
            "1 ? 2 : 3",
            "9999999999999999999999999999999999999999",
        ] {
            assert_eq!(value(text), None, "{text}");
        }
    }

    #[test]
    fn what_would_take_for_ever_or_fill_the_stack_is_given_up() {
        for deep in ["(", "!", "-", "~", "(-"] {
            assert_eq!(value(&deep.repeat(200_000)), None);
        }
        assert_eq!(
            value(&format!("{}1{}", "(".repeat(40), ")".repeat(40))),
            Some(1)
        );
        assert_eq!(value("-(-1 << 127)"), None);
        let mut text = "#define A15 1\n".to_owned();
        for level in 0..15 {
            let next = format!("A{} ", level + 1);
            text.push_str(&format!("#define A{level} {}\n", vec![next; 100].join("+")));
        }
        assert_eq!(evaluate("A0", &Macros::parse(&text)), None);
    }
}
