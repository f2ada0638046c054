//! Lengths of queues: for each of the longest, the share of the time with at least a number of
//! cells.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use sim::Results;
use sim::results::QueueLengthOutcome;

use super::chart::{Area, DrawResult, HEADING, TRAFFIC, WIDTH, axes, heading, number, picture, piece, text};
use crate::sim::truncate::short;

const PANEL: u32 = 420;
/// Width of the names to the right of the chart, in pixels, and their longest in characters.
const NAMES: u32 = 330;
const NAME_CHARS: usize = 24;

/// Draws the chart; `None` if no lengths were measured, or all queues were empty.
pub fn queues(outcome: &Results) -> Result<Option<String>> {
    let longest = longest(outcome);
    if longest.is_empty() {
        return Ok(None);
    }
    let svg = picture(HEADING - 24 + PANEL, |area| {
        heading(area, &outcome.title, "time with queues of at least some length", &[])?;
        panel(&piece(area, HEADING - 24, PANEL), &longest)
    })?;
    Ok(Some(svg))
}

/// Returns the queues that were longest on average, as many as there are colors.
fn longest(outcome: &Results) -> Vec<&QueueLengthOutcome> {
    let mut queues: Vec<&QueueLengthOutcome> = outcome.queue_lengths.iter().collect();
    queues.sort_by(|a, b| b.mean_cells.total_cmp(&a.mean_cells));
    queues.truncate(TRAFFIC.len());
    queues
}

/// Returns the share of the time, in percent, with at least as many cells as a bin begins with, for
/// each bin but that of the empty queue.
fn shares(queue: &QueueLengthOutcome) -> Vec<(f64, f64)> {
    let total: u64 = queue.bins.iter().map(|bin| bin.ns).sum();
    let share = |from: usize| {
        let time: u64 = queue.bins[from..].iter().map(|bin| bin.ns).sum();
        (f64::from(queue.bins[from].least_cells), time as f64 * 100.0 / total.max(1) as f64)
    };
    (1..queue.bins.len()).map(share).collect()
}

fn panel(area: &Area, queues: &[&QueueLengthOutcome]) -> DrawResult {
    let last = queues.iter().filter_map(|queue| queue.bins.last()).map(|bin| bin.least_cells).max();
    let end = 2.0 * f64::from(last.unwrap_or(1));
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(NAMES)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d((1.0..end).log_scale(), 0.0..102.0)?;
    axes(&mut chart, ("cells", Some("time with at least that many, %")), &|cells| number(*cells))?;
    for (row, queue) in queues.iter().enumerate() {
        let color = TRAFFIC[row];
        let mut points = shares(queue);
        points.push((2.0 * points.last().map_or(1.0, |point| point.0), 0.0));
        chart.draw_series([PathElement::new(points, color.stroke_width(2))])?;
        let (x, y) = ((WIDTH - NAMES) as i32 + 14, 24 + 46 * row as i32);
        area.draw(&PathElement::new([(x, y), (x + 20, y)], color.stroke_width(3)))?;
        let name = format!("{}, queue {}", short(&queue.port, NAME_CHARS), queue.queue);
        text(area, &name, (x + 26, y), 15, HPos::Left)?;
        let mean = format!("{} cells on average", number(queue.mean_cells));
        text(area, &mean, (x + 26, y + 19), 14, HPos::Left)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::svg::texts;
    use super::*;
    use crate::sim::sample;

    /// The sample's queue is empty for half of the time, and has 8 to 15 cells for a quarter.
    #[test]
    fn shares_are_those_of_longer_queues() {
        let outcome = sample::incast();
        let expected = [(1.0, 50.0), (2.0, 50.0), (4.0, 50.0), (8.0, 25.0)];
        assert_eq!(shares(&outcome.queue_lengths[0]), expected);
        let labels = texts(&queues(&outcome).unwrap().unwrap());
        assert!(labels.contains(&"leaf1.p1, queue 3".to_owned()), "{labels:?}");
    }

    #[test]
    fn nothing_was_measured() {
        assert_eq!(queues(&sample::nothing()).unwrap(), None);
    }
}
