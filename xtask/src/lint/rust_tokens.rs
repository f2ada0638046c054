//! A small tokenizer for Rust: comments, words and punctuation, each with its line.

/// A part of a Rust source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'t> {
    /// A line comment or a block comment, with its slashes.
    Comment(&'t str),
    /// An identifier or a keyword, without `r#`; of a lifetime its name.
    Word(&'t str),
    /// A string, character or number, as it is written.
    Literal(&'t str),
    /// Any other character.
    Punctuation(char),
}

/// Splits a source into tokens, each with the line that it begins on, counted from 1.
pub fn tokens(text: &str) -> Vec<(usize, Token<'_>)> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let (token, length) = next_token(rest, first);
        if let Some(token) = token {
            found.push((line, token));
        }
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// The token that a text begins with, none for white space, and its length in bytes.
fn next_token(text: &str, first: char) -> (Option<Token<'_>>, usize) {
    if text.starts_with("//") {
        let length = text.find('\n').unwrap_or(text.len());
        (Some(Token::Comment(&text[..length])), length)
    } else if text.starts_with("/*") {
        let length = block_comment(text);
        (Some(Token::Comment(&text[..length])), length)
    } else if first.is_whitespace() {
        (None, first.len_utf8())
    } else if let Some(length) = literal(text, first) {
        (Some(Token::Literal(&text[..length])), length)
    } else if first == '_' || first.is_alphabetic() {
        let text = text.strip_prefix("r#").unwrap_or(text);
        let length = word(text);
        let prefix = if first == 'r' && !text.starts_with(first) { 2 } else { 0 };
        (Some(Token::Word(&text[..length])), prefix + length)
    } else {
        (Some(Token::Punctuation(first)), first.len_utf8())
    }
}

/// The length of the word that a text begins with.
fn word(text: &str) -> usize {
    text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len())
}

/// The length of a block comment, with those nested in it.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of the literal that a text begins with, if it begins with one.
fn literal(text: &str, first: char) -> Option<usize> {
    if first.is_ascii_digit() {
        return Some(word(text));
    }
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        let opening = text.strip_prefix(prefix).map(|rest| rest.trim_start_matches('#'));
        opening.is_some_and(|rest| rest.starts_with(['"', '\'']))
    })?;
    let rest = &text[prefix.len()..];
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    if prefix.ends_with('r') {
        let body = rest[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let length = body.find(&end).map_or(body.len(), |at| at + end.len());
        return Some(prefix.len() + hashes + 1 + length);
    }
    if hashes > 0 {
        return None;
    }
    let quote = rest.chars().next()?;
    let body = &rest[1..];
    if quote == '\'' && !body.starts_with('\\') {
        // A lifetime has no closing quote.
        let character = body.chars().next()?.len_utf8();
        return body[character..].starts_with('\'').then_some(prefix.len() + character + 2);
    }
    Some(prefix.len() + 1 + quoted(body, quote as u8))
}

/// The length of a string's body up to and with its closing quote.
fn quoted(body: &str, quote: u8) -> usize {
    let mut escaped = false;
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            byte if byte == quote => return at + 1,
            _ => {}
        }
    }
    body.len()
}

#[cfg(test)]
mod unit {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        let word = |(_, token)| if let Token::Word(word) = token { Some(word) } else { None };
        tokens(text).into_iter().filter_map(word).collect()
    }

    #[test]
    fn words_in_literals_and_comments_are_not_identifiers() {
        for text in [
            r#"a "no \" no" b"#,
            r##"a r#"no " no"# b"##,
            "a br\"no\\\" b",
            "a b'n' b'\\'' c\"no\" b",
            "a 'n' '\\'' '\"' '\\u{41}' b",
            "a /* no /* no */ no */ b",
            "a // no\nb",
            "a 0xffu32 1.5e3 b",
            "a 'é' \"…\" b",
        ] {
            assert_eq!(words(text), ["a", "b"], "{text}");
        }
        assert_eq!(words("fn r#type<'told>(x: &'told u8)"), ["fn", "type", "told", "x", "told", "u8"]);
        assert_eq!(words("rest brr c r"), ["rest", "brr", "c", "r"]);
    }

    #[test]
    fn comments_have_their_lines() {
        let text = "a\n/// one\n\"x\ny // no\" // two\n/* three\n*/ b";
        let comments: Vec<_> =
            tokens(text).into_iter().filter(|(_, token)| matches!(token, Token::Comment(_))).collect();
        let expected = [
            (2, Token::Comment("/// one")),
            (4, Token::Comment("// two")),
            (5, Token::Comment("/* three\n*/")),
        ];
        assert_eq!(comments, expected);
        assert_eq!(tokens(text).last(), Some(&(6, Token::Word("b"))));
    }
}
