//! Bars, and numbers in the width of a column.

use ratatui::style::{Color, Style};
use ratatui::text::Span;

/// Use of a whole that has a threshold.
#[derive(Debug, Clone, Copy, Default)]
pub struct Use {
    /// What is in use.
    pub used: u64,
    /// The threshold; `None` for none.
    pub mark: Option<u64>,
    /// The whole, of which the bar is a picture.
    pub whole: u64,
}

/// Blocks of an eighth to eight eighths of a cell.
const EIGHTHS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Draws a bar of `width` columns. What is in use beyond the threshold is red, and so is the mark
/// once it is reached.
pub fn bar(width: usize, of: Use) -> Vec<Span<'static>> {
    let whole = of.whole.max(of.used).max(1);
    let eighths = |amount: u64| (amount as u128 * 8 * width as u128).div_ceil(whole.into()) as usize;
    let (full, mark) =
        (eighths(of.used), of.mark.map(|mark| (eighths(mark) / 8).min(width.saturating_sub(1))));
    let is_over = of.mark.is_some_and(|mark| of.used > mark);
    (0..width)
        .map(|column| {
            let is_beyond = mark.is_some_and(|mark| column >= mark);
            let filled = full.saturating_sub(8 * column).min(8);
            let color = if is_over && is_beyond { Color::Red } else { Color::Green };
            match mark {
                Some(mark) if mark == column => {
                    Span::styled("┃", Style::new().fg(if is_over { Color::Red } else { Color::Yellow }))
                }
                _ => {
                    Span::styled(EIGHTHS[filled].to_string(), Style::new().fg(color).bg(Color::Indexed(236)))
                }
            }
        })
        .collect()
}

/// Formats bit/s in at most six columns: 950K, 12.5M, 1.00G.
pub fn bits(bps: u64) -> String {
    scaled(bps, &["", "K", "M", "G", "T"])
}

fn scaled(number: u64, units: &[&str]) -> String {
    let (mut scaled, mut unit) = (number as f64, 0);
    while scaled >= 999.5 && unit + 1 < units.len() {
        (scaled, unit) = (scaled / 1000.0, unit + 1);
    }
    match scaled {
        _ if unit == 0 => format!("{number}"),
        scaled if scaled < 9.995 => format!("{scaled:.2}{}", units[unit]),
        scaled if scaled < 99.95 => format!("{scaled:.1}{}", units[unit]),
        scaled => format!("{scaled:.0}{}", units[unit]),
    }
}

/// Formats a percentage in at most five columns; a dash for none.
pub fn percent(part: f64) -> String {
    match part {
        0.0 => "-".to_owned(),
        part if part < 0.05 => "<0.1".to_owned(),
        part if part < 99.95 => format!("{part:.1}"),
        part => format!("{part:.0}"),
    }
}

/// Draws rates as a line of blocks, the latest last, scaled to the highest.
pub fn trend(rates: &[u64], width: usize) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &rates[rates.len().saturating_sub(width)..];
    let highest = shown.iter().copied().max().unwrap_or(0).max(1);
    let level = |rate: u64| match rate {
        0 => ' ',
        rate => LEVELS[(u128::from(rate) * 7).div_ceil(highest.into()) as usize],
    };
    shown.iter().map(|&rate| level(rate)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(width: usize, used: u64, mark: Option<u64>, whole: u64) -> String {
        bar(width, Use { used, mark, whole }).iter().map(|span| span.content.as_ref()).collect()
    }

    #[test]
    fn bars_have_a_mark_and_show_a_single_cell() {
        assert_eq!(text(8, 0, None, 100), "        ");
        assert_eq!(text(8, 1, None, 100_000), "▏       ");
        assert_eq!(text(8, 50, Some(75), 100), "████  ┃ ");
        assert_eq!(text(8, 100, Some(75), 100), "██████┃█");
        assert_eq!(text(8, 300, Some(75), 100), "██┃█████", "more than the whole widens it");
        assert_eq!(text(8, 0, Some(100), 100), "       ┃");
        assert_eq!(text(8, 0, None, 0), "        ");
        let over = bar(8, Use { used: 100, mark: Some(75), whole: 100 });
        let colors: Vec<_> = over.iter().filter_map(|span| span.style.fg).collect();
        assert_eq!((colors[0], colors[6], colors[7]), (Color::Green, Color::Red, Color::Red));
    }

    #[test]
    fn numbers_fit_their_columns() {
        let shown: Vec<_> =
            [0, 999, 1000, 9_994_000, 12_500_000, 999_400_000, 999_600_000, 400_000_000_000].map(bits).into();
        assert_eq!(shown, ["0", "999", "1.00K", "9.99M", "12.5M", "999M", "1.00G", "400G"]);
        assert_eq!([0.0, 0.01, 42.0, 99.96, 100.0].map(percent), ["-", "<0.1", "42.0", "100", "100"]);
        assert_eq!(trend(&[9, 0, 1, 50, 100], 4), " ▂▅█");
        assert_eq!(trend(&[], 4), "");
    }
}
