//! Text from the wire, as it may reach a terminal or a log.
//!
//! Rule: control characters, of ASCII and of Unicode (C1, U+009B begins a terminal's commands as
//! ESC [ does), and characters that reorder text are replaced, and long text ends early.

/// Most characters of a name.
pub const MOST_NAME: usize = 256;

/// Returns the text without characters that a terminal interprets, of at most `most` characters.
pub fn printable(text: &str, most: usize) -> String {
    let is_order =
        |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = |c: char| if c.is_control() || is_order(c) { '\u{fffd}' } else { c };
    let mut shown: String = text.chars().take(most).map(shown).collect();
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_interprets_is_replaced() {
        assert_eq!(printable("sw\u{1b}[2J\u{9b}1m\n\u{202e}x ü", 99), "sw�[2J�1m��x ü");
        assert_eq!((printable("abc", 3), printable("abcd", 3)), ("abc".to_owned(), "abc…".to_owned()));
    }
}
