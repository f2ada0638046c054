//! All ports, one a line.

use std::cmp::Ordering;

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Row, Table, TableState};

use crate::output::grouped;
use crate::top::bar::{bits, percent, trend};
use crate::top::rates::{PortRow, Rates};

/// Column by which ports are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortBy {
    /// As in the configuration.
    Order,
    In,
    Out,
    Cells,
    Queued,
    Xoff,
    Paused,
    Drops,
    Lost,
}

const ALL: [SortBy; 9] = [
    SortBy::Order,
    SortBy::In,
    SortBy::Out,
    SortBy::Cells,
    SortBy::Queued,
    SortBy::Xoff,
    SortBy::Paused,
    SortBy::Drops,
    SortBy::Lost,
];

/// The columns: heading, width, and the sorting that follows it.
const COLUMNS: [(&str, u16, Option<SortBy>); 10] = [
    ("PORT", 12, Some(SortBy::Order)),
    ("IN", 6, Some(SortBy::In)),
    ("OUT", 6, Some(SortBy::Out)),
    ("USE", 5, None),
    ("CELLS", 7, Some(SortBy::Cells)),
    ("QUEUED", 7, Some(SortBy::Queued)),
    ("XOFF", 5, Some(SortBy::Xoff)),
    ("PAUSED", 6, Some(SortBy::Paused)),
    ("DROPS/s", 8, Some(SortBy::Drops)),
    ("LOST", 7, Some(SortBy::Lost)),
];

impl SortBy {
    /// Returns the column after this one.
    pub fn next(self) -> Self {
        let at = ALL.iter().position(|&sort| sort == self).unwrap_or(0);
        ALL[(at + 1) % ALL.len()]
    }
}

/// Sorts ports, the highest number first; ports with the same number stay in their order.
pub fn sorted(mut rows: Vec<PortRow>, by: SortBy, is_reversed: bool) -> Vec<PortRow> {
    let compare = |a: &PortRow, b: &PortRow| match by {
        SortBy::Order => Ordering::Equal,
        SortBy::In => b.received_bps.cmp(&a.received_bps),
        SortBy::Out => b.transmitted_bps.cmp(&a.transmitted_bps),
        SortBy::Cells => b.ingress_cells.cmp(&a.ingress_cells),
        SortBy::Queued => b.egress_cells.cmp(&a.egress_cells),
        SortBy::Xoff => b.xoff_percent.total_cmp(&a.xoff_percent),
        SortBy::Paused => b.paused_percent.total_cmp(&a.paused_percent),
        SortBy::Drops => b.drops_per_second.cmp(&a.drops_per_second),
        SortBy::Lost => b.lost_frames.cmp(&a.lost_frames),
    };
    rows.sort_by(compare);
    if is_reversed {
        rows.reverse();
    }
    rows
}

/// Draws the ports. Where there is room beside the columns, it shows the trend of what they send.
pub fn draw(
    frame: &mut Frame,
    area: Rect,
    rates: &Rates,
    rows: &[PortRow],
    (chosen, sort, is_reversed): (&str, SortBy, bool),
) {
    let fixed: u16 = COLUMNS.iter().map(|&(_, width, _)| width + 1).sum();
    let left = usize::from(area.width.saturating_sub(fixed));
    let mut headings: Vec<Line> = COLUMNS
        .iter()
        .map(|&(name, _, by)| {
            let mark = match by == Some(sort) && sort != SortBy::Order {
                true if is_reversed => "▲",
                true => "▼",
                false => "",
            };
            let heading = Line::from(format!("{mark}{name}"));
            if name == "PORT" { heading } else { heading.right_aligned() }
        })
        .collect();
    let mut widths: Vec<Constraint> =
        COLUMNS.iter().map(|&(_, width, _)| Constraint::Length(width)).collect();
    let has_trend = left >= 8;
    if has_trend {
        headings.push(Line::from("OUT, TREND"));
        widths.push(Constraint::Fill(1));
    }
    let lines = rows.iter().map(|row| {
        let mut cells = cells(row);
        if has_trend {
            cells
                .push(Line::styled(trend(&rates.trend(&row.name, left), left), Style::new().fg(Color::Blue)));
        }
        Row::new(cells)
    });
    let table = Table::new(lines, widths)
        .column_spacing(1)
        .header(Row::new(headings).style(Style::new().bold()))
        .row_highlight_style(Style::new().reversed());
    let at = rows.iter().position(|row| row.name == chosen);
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(at));
}

fn cells(row: &PortRow) -> Vec<Line<'static>> {
    let red = Style::new().fg(Color::Red).bold();
    let number = |text: String, style: Style| Line::from(Span::styled(text, style)).right_aligned();
    let unless_zero = |count: u64| match count {
        0 => number("-".to_owned(), Style::new()),
        count => number(grouped(count), red),
    };
    let plain = |text: String| number(text, Style::new());
    let paused = |part: f64, style: Style| {
        let style = if part > 0.0 { style } else { Style::new() };
        number(percent(part), style)
    };
    let state = match row {
        _ if !row.is_up => format!("{} down", row.name),
        _ if row.is_stormed => format!("{} storm", row.name),
        _ => row.name.clone(),
    };
    let name_style = if row.is_up && !row.is_stormed { Style::new() } else { red };
    let yellow = Style::new().fg(Color::Yellow);
    vec![
        Line::styled(state, name_style),
        plain(bits(row.received_bps)),
        plain(bits(row.transmitted_bps)),
        plain(row.used_percent.map_or("-".to_owned(), percent)),
        plain(grouped(row.ingress_cells)),
        plain(grouped(row.egress_cells)),
        paused(row.xoff_percent, if row.is_xoff { yellow.bold() } else { yellow }),
        paused(row.paused_percent, yellow),
        unless_zero(row.drops_per_second),
        unless_zero(row.lost_frames),
    ]
}
