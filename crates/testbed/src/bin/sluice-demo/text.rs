//! Numbers, bars and colors for people.

/// Text style: with or without color.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    color: bool,
}

impl Style {
    /// Returns a style that is plain text unless `color`.
    pub fn new(color: bool) -> Self {
        Self { color }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// Formats headings.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Formats less important text.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Formats good results.
    pub fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Formats losses.
    pub fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Formats pauses.
    pub fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// Formats bars.
    pub fn blue(self, text: &str) -> String {
        self.paint("36", text)
    }
}

/// Formats a part of a whole in percent with one decimal; never "0.0" or "100.0" for a value that
/// is not exactly that.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0".to_string();
    }
    let tenths = (u128::from(part) * 1000 + u128::from(whole) / 2) / u128::from(whole);
    match tenths {
        0 if part > 0 => "under 0.1".to_string(),
        1000 if part < whole => "over 99.9".to_string(),
        _ if tenths.is_multiple_of(10) => (tenths / 10).to_string(),
        _ => format!("{}.{}", tenths / 10, tenths % 10),
    }
}

/// Returns a bar `width` characters wide, in steps of an eighth of a character.
pub fn bar(value: u64, full: u64, width: usize) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let steps = (width as u64 * 8 * value.min(full)).checked_div(full).unwrap_or(0) as usize;
    // A small value is shown as at least one step.
    let steps = if value > 0 { steps.max(1) } else { 0 };
    let mut text: String = "█".repeat(steps / 8);
    if steps / 8 < width {
        text.push(EIGHTHS[steps % 8]);
        text.push_str(&" ".repeat(width - steps / 8 - 1));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_never_rounds_to_nothing_or_everything() {
        for (part, whole, text) in [
            (0, 10, "0"),
            (1, 100_000, "under 0.1"),
            (99_999, 100_000, "over 99.9"),
            (1, 3, "33.3"),
            (1, 2, "50"),
            (5, 5, "100"),
            (0, 0, "0"),
        ] {
            assert_eq!(percent(part, whole), text, "{part} of {whole}");
        }
    }

    #[test]
    fn bars_have_the_requested_width_and_grow() {
        for (value, text) in
            [(0, "    "), (1, "▏   "), (50, "██  "), (60, "██▍ "), (100, "████"), (200, "████")]
        {
            assert_eq!(bar(value, 100, 4), text, "{value}");
        }
    }
}
