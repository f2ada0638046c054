//! License expressions, as the SPDX specification has them (annex D), and which licenses are
//! allowed.

/// Licenses that a part of Sluice may have.
const ALLOWED: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// True if this license, with its exception, is allowed.
pub fn is_allowed(license: &str) -> bool {
    ALLOWED.contains(&license)
}

/// A license expression.
#[derive(Debug, PartialEq, Eq)]
pub enum Expression {
    /// A license, with its exception.
    License(String),
    /// All of these apply.
    All(Vec<Expression>),
    /// Any of these may be chosen.
    Any(Vec<Expression>),
}

impl Expression {
    /// Reads an expression; a slash is an old form of OR. `None` if the text is none.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
        let mut words: Vec<&str> = text.split_whitespace().rev().collect();
        let expression = Self::any(&mut words)?;
        words.is_empty().then_some(expression)
    }

    /// True if what `holds` allows is enough.
    pub fn holds(&self, is_allowed: &impl Fn(&str) -> bool) -> bool {
        match self {
            Self::License(license) => is_allowed(license),
            Self::All(parts) => parts.iter().all(|part| part.holds(is_allowed)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(is_allowed)),
        }
    }

    fn any(words: &mut Vec<&str>) -> Option<Self> {
        let mut parts = vec![Self::all(words)?];
        while words.pop_if(|word| *word == "OR").is_some() {
            parts.push(Self::all(words)?);
        }
        Some(Self::Any(parts))
    }

    fn all(words: &mut Vec<&str>) -> Option<Self> {
        let mut parts = vec![Self::part(words)?];
        while words.pop_if(|word| *word == "AND").is_some() {
            parts.push(Self::part(words)?);
        }
        Some(Self::All(parts))
    }

    fn part(words: &mut Vec<&str>) -> Option<Self> {
        let license = words.pop()?;
        if license == "(" {
            let inside = Self::any(words);
            return inside.filter(|_| words.pop() == Some(")"));
        }
        if words.pop_if(|word| *word == "WITH").is_some() {
            return Some(Self::License(format!("{license} WITH {}", words.pop()?)));
        }
        Some(Self::License(license.to_owned()))
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn expressions_hold_if_a_choice_is_allowed() {
        for (text, expected) in [
            ("MIT", true),
            ("GPL-2.0", false),
            ("MIT/Apache-2.0", true),
            ("GPL-2.0 OR MIT AND ISC", true),
            ("GPL-2.0 AND MIT OR GPL-3.0", false),
            ("(MIT OR GPL-2.0) AND Unicode-3.0", true),
            ("(MIT OR ISC) AND GPL-2.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("MIT WITH LLVM-exception", false),
        ] {
            let expression = Expression::parse(text).unwrap();
            assert_eq!(expression.holds(&is_allowed), expected, "{text}");
        }
        for text in ["", "MIT OR", "(MIT", "MIT)", "MIT ISC", "MIT WITH"] {
            assert_eq!(Expression::parse(text), None, "{text}");
        }
    }
}
