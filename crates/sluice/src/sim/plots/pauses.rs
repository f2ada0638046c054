//! Pauses over time: a row for each paused port and priority, in the order in which their pauses
//! began, so that pauses which propagate upstream look like stairs.

use std::collections::HashMap;

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use sim::Results;
use sim::results::PauseSpan;

use super::chart::{
    Area, DrawResult, HEADING, LegendSymbol, PRIORITY, TimeScale, axes, heading, number, picture, piece,
    shaded, text,
};
use crate::sim::truncate::short;

/// The most rows: those that were paused longest.
const MOST_ROWS: usize = 32;
/// Height of a row, and of the space around all rows, in pixels.
const ROW: u32 = 22;
const AROUND: u32 = 50;
/// Width of the text to the left and to the right of rows.
const LEFT: u32 = 190;
const RIGHT: u32 = 80;
const NAME_CHARS: usize = 20;

/// A row of the chart.
struct Row<'o> {
    port: &'o str,
    priority: u8,
    spans: Vec<(u64, u64)>,
    paused_ns: u64,
}

/// Draws the timeline; `None` if nothing was paused.
///
/// # Errors
/// The library cannot draw it.
pub fn pauses(outcome: &Results) -> Result<Option<String>> {
    let all = rows(&outcome.series.pauses);
    if all.is_empty() {
        return Ok(None);
    }
    let left_out = all.len().saturating_sub(MOST_ROWS);
    let rows = longest(all);
    let mut priorities: Vec<u8> = rows.iter().map(|row| row.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    let color = |priority: u8| PRIORITY[usize::from(priority)];
    let legend: Vec<(LegendSymbol, String)> = priorities
        .iter()
        .map(|priority| (LegendSymbol::Filled(color(*priority)), format!("priority {priority} paused")))
        .collect();
    let about = match left_out {
        0 => "paused ports, first paused first".to_owned(),
        more => format!("ports paused longest, first paused first ({more} more are not shown)"),
    };
    let height = HEADING + AROUND + ROW * rows.len() as u32;
    let svg = picture(height, |area| {
        heading(area, &outcome.title, &about, &legend)?;
        text(area, "paused", (1092, HEADING as i32 - 2), 14, HPos::Right)?;
        timeline(&piece(area, HEADING, height - HEADING), outcome.duration_ns, &rows)
    })?;
    Ok(Some(svg))
}

/// Returns a row for each port and priority, in the order of the first pause.
fn rows(spans: &[PauseSpan]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row> = Vec::new();
    let mut indices: HashMap<(&str, u8), usize> = HashMap::new();
    for span in spans {
        let index = *indices.entry((&span.port, span.priority)).or_insert_with(|| {
            rows.push(Row { port: &span.port, priority: span.priority, spans: Vec::new(), paused_ns: 0 });
            rows.len() - 1
        });
        rows[index].spans.push((span.from_ns, span.to_ns));
        rows[index].paused_ns += span.to_ns.saturating_sub(span.from_ns);
    }
    rows.sort_by_key(|row| row.spans.iter().map(|span| span.0).min());
    rows
}

/// Returns the rows that were paused longest, in their order.
fn longest(mut rows: Vec<Row>) -> Vec<Row> {
    let mut times: Vec<u64> = rows.iter().map(|row| row.paused_ns).collect();
    times.sort_unstable_by(|a, b| b.cmp(a));
    if let Some(least) = times.get(MOST_ROWS - 1) {
        rows.retain(|row| row.paused_ns >= *least);
    }
    rows.truncate(MOST_ROWS);
    rows
}

fn timeline(area: &Area, duration_ns: u64, rows: &[Row]) -> DrawResult {
    let time = TimeScale::new(duration_ns);
    let mut chart = ChartBuilder::on(area)
        .margin_top(6)
        .margin_right(RIGHT)
        .x_label_area_size(44)
        .margin_left(LEFT)
        .build_cartesian_2d(0.0..time.end, 0.0..rows.len() as f64)?;
    axes(&mut chart, (time.name, None), &|at| number(*at))?;
    for (number, row) in rows.iter().enumerate() {
        let top = (rows.len() - number) as f64;
        for (from, to, shade) in shaded(row.spans.iter().copied(), duration_ns) {
            let corners = [(from * time.end, top - 0.85), (to * time.end, top - 0.15)];
            let color = PRIORITY[usize::from(row.priority)].mix(shade);
            chart.draw_series([Rectangle::new(corners, color.filled())])?;
        }
        let y = 6 + (ROW as i32) * number as i32 + ROW as i32 / 2;
        let name = format!("{}  p{}", short(row.port, NAME_CHARS), row.priority);
        text(area, &name, (LEFT as i32 - 8, y), 14, HPos::Right)?;
        let share = row.paused_ns as f64 * 100.0 / duration_ns.max(1) as f64;
        text(area, &format!("{share:.1} %"), (1092, y), 14, HPos::Right)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::svg::texts;
    use super::*;
    use crate::sim::sample;

    #[test]
    fn of_an_incast() {
        let labels = texts(&pauses(&sample::incast()).unwrap().unwrap());
        let rows: Vec<&String> =
            labels.iter().filter(|labels| labels.ends_with("p3") || labels.ends_with(" %")).collect();
        assert_eq!(rows, ["h4  p3", "22.0 %", "h3  p3", "22.0 %", "h2  p3", "22.0 %"]);
        assert!(labels.contains(&"priority 3 paused".to_owned()), "{labels:?}");
    }

    #[test]
    fn nobody_was_paused() {
        assert_eq!(pauses(&sample::nothing()).unwrap(), None);
    }

    /// 40 ports, the later ones paused longer: the first 8 are omitted, and the rest begins with
    /// the first paused.
    #[test]
    fn those_paused_longest_are_shown_in_the_order_of_time() {
        let span = |number: u64| PauseSpan {
            port: format!("h{number}"),
            priority: 3,
            from_ns: 1000 * number,
            to_ns: 1000 * number + 10 * number + 10,
        };
        let spans: Vec<PauseSpan> = (0..40).map(span).collect();
        let names: Vec<&str> = longest(rows(&spans)).iter().map(|row| row.port).collect();
        assert_eq!((names.len(), names[0], names[31]), (32, "h8", "h39"));
    }

    /// A million short pauses still result in a small file.
    #[test]
    fn many_pauses_make_a_small_file() {
        let mut outcome = sample::incast();
        let span = |number: u64| PauseSpan {
            port: format!("h{}", number % 40),
            priority: (number % 8) as u8,
            from_ns: 20 * number,
            to_ns: 20 * number + number % 700,
        };
        outcome.series.pauses = (0..1_000_000).map(span).collect();
        let svg = pauses(&outcome).unwrap().unwrap();
        assert!(svg.len() < 2_000_000, "{} bytes", svg.len());
    }
}
