//! Received traffic over time: per priority, and per traffic if there are few.

use std::ops::Range;

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use sim::Results;

use super::chart::{
    Area, DrawResult, HEADING, PRIORITY, TRAFFIC, TimeScale, WIDTH, axes, heading, number, picture, piece,
    pieces, text,
};
use crate::sim::format::{rate, rate_unit};
use crate::sim::truncate::short;

const PANEL: u32 = 320;
/// Width of the names to the right of a chart, in pixels, and their longest in characters.
const NAMES: u32 = 250;
const NAMES_FROM: i32 = (WIDTH - NAMES) as i32 + 14;
const NAME_CHARS: usize = 18;
/// The most steps of a line: more would show single bursts of frames.
const MOST_STEPS: usize = 200;

/// Arrivals of one color: bit/s in each sample.
struct RateCurve {
    name: String,
    color: RGBColor,
    bps: Vec<f64>,
    mean_bps: f64,
}

/// Lines with axes of their own.
struct Panel {
    /// The period of the lines' means.
    mean_of: &'static str,
    lines: Vec<RateCurve>,
}

/// Draws the chart; `None` if nothing was sent.
pub fn throughput(outcome: &Results) -> Result<Option<String>> {
    let by_priority = by_priority(outcome);
    if outcome.series.at_ns.is_empty() || by_priority.is_empty() {
        return Ok(None);
    }
    let priorities = by_priority.len();
    let mut panels = vec![Panel { mean_of: "mean of the run", lines: by_priority }];
    // One traffic of each priority has been drawn already.
    if outcome.traffic.len() > priorities && outcome.traffic.len() <= TRAFFIC.len() {
        panels.push(Panel { mean_of: "mean while there was traffic", lines: by_traffic(outcome) });
    }
    let svg = picture(HEADING - 24 + PANEL * panels.len() as u32, |area| {
        heading(area, &outcome.title, "throughput, as it arrived", &[])?;
        for (number, panel) in panels.iter().enumerate() {
            draw_panel(&piece(area, HEADING - 24 + PANEL * number as u32, PANEL), outcome, panel)?;
        }
        Ok(())
    })?;
    Ok(Some(svg))
}

fn by_priority(outcome: &Results) -> Vec<RateCurve> {
    let samples = outcome.series.at_ns.len();
    let line = |priority: u8| {
        let mut of_priority = outcome
            .traffic
            .iter()
            .zip(&outcome.series.traffic_bps)
            .filter(|(traffic, _)| traffic.priority == priority)
            .peekable();
        of_priority.peek()?;
        let mut bps = vec![0.0; samples];
        for (_, of_traffic) in of_priority {
            bps.iter_mut().zip(of_traffic).for_each(|(sum, bps)| *sum += bps);
        }
        let mean_bps = mean_over_time(&outcome.series.at_ns, &bps);
        Some(RateCurve {
            name: format!("priority {priority}"),
            color: PRIORITY[usize::from(priority)],
            bps,
            mean_bps,
        })
    };
    (0..8).filter_map(line).collect()
}

fn by_traffic(outcome: &Results) -> Vec<RateCurve> {
    let traffic = outcome.traffic.iter().zip(&outcome.series.traffic_bps).zip(TRAFFIC);
    let line = |((traffic, bps), color): ((&sim::results::TrafficOutcome, &Vec<f64>), RGBColor)| RateCurve {
        name: short(&traffic.name, NAME_CHARS),
        color,
        bps: bps.clone(),
        mean_bps: traffic.throughput_bps,
    };
    traffic.map(line).collect()
}

/// Returns the mean of values that each cover the time since the previous one.
fn mean_over_time(at_ns: &[u64], values: &[f64]) -> f64 {
    let mut before_ns = 0;
    let mut sum = 0.0;
    for (at_ns, value) in at_ns.iter().zip(values) {
        sum += value * at_ns.saturating_sub(before_ns) as f64;
        before_ns = *at_ns;
    }
    sum / before_ns.max(1) as f64
}

fn draw_panel(area: &Area, outcome: &Results, panel: &Panel) -> DrawResult {
    let time = TimeScale::new(outcome.duration_ns);
    let at_ns = &outcome.series.at_ns;
    let lines: Vec<Vec<(f64, f64)>> =
        panel.lines.iter().map(|line| stairs(at_ns, &line.bps, &time)).collect();
    let most_bps = lines.iter().flatten().map(|point| point.1).fold(1.0, f64::max);
    let (unit_bps, unit) = rate_unit(most_bps);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(NAMES)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..time.end, 0.0..1.08 * most_bps / unit_bps)?;
    axes(&mut chart, (time.name, Some(unit)), &|at| number(*at))?;
    text(area, panel.mean_of, (NAMES_FROM, 20), 14, HPos::Left)?;
    for (row, (line, points)) in panel.lines.iter().zip(lines).enumerate() {
        let points: Vec<(f64, f64)> = points.into_iter().map(|(at, bps)| (at, bps / unit_bps)).collect();
        // The first lines are wider, so that they are visible below lines that cover them.
        let width = if row < 2 { 4 - row as u32 } else { 2 };
        chart.draw_series([PathElement::new(points, line.color.stroke_width(width))])?;
        let y = 44 + 24 * row as i32;
        area.draw(&PathElement::new([(NAMES_FROM, y), (NAMES_FROM + 20, y)], line.color.stroke_width(3)))?;
        let name = format!("{}: {}", line.name, rate(line.mean_bps));
        text(area, &name, (NAMES_FROM + 26, y), 15, HPos::Left)?;
    }
    Ok(())
}

/// Converts samples to steps, several samples to their mean, since a momentary peak does not
/// describe a rate.
fn stairs(at_ns: &[u64], bps: &[f64], time: &TimeScale) -> Vec<(f64, f64)> {
    let all = at_ns.len().min(bps.len());
    let step = |samples: Range<usize>| {
        let from_ns = if samples.start == 0 { 0 } else { at_ns[samples.start - 1] };
        let (to_ns, count) = (at_ns[samples.end - 1], samples.len() as f64);
        let mean = bps[samples].iter().sum::<f64>() / count;
        [(time.at(from_ns), mean), (time.at(to_ns), mean)]
    };
    pieces(all, MOST_STEPS).flat_map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::super::svg::texts;
    use super::*;
    use crate::sim::sample;

    #[test]
    fn of_an_incast() {
        let labels = texts(&throughput(&sample::incast()).unwrap().unwrap());
        for text in
            ["Incast 3:1 at 100G: throughput, as it arrived", "Gbit/s", "time, ms", "priority 0: 32.8 Gbit/s"]
        {
            assert!(labels.iter().any(|labels| labels == text), "{text}: {labels:?}");
        }
        assert!(
            !labels.iter().any(|labels| labels.starts_with("rdma")),
            "each priority has one traffic: {labels:?}"
        );
    }

    #[test]
    fn several_traffics_of_a_priority_are_drawn_one_by_one_too() {
        let mut outcome = sample::incast();
        outcome.traffic[1].priority = 3;
        let labels = texts(&throughput(&outcome).unwrap().unwrap());
        let named =
            |name: &str| labels.iter().find(|labels| labels.starts_with(name)).cloned().unwrap_or_default();
        assert_eq!(named("rdma"), "rdma: 62.4 Gbit/s");
        assert_eq!(named("bulk"), "bulk: 36.9 Gbit/s");
        assert_eq!(named("priority 3"), "priority 3: 88.4 Gbit/s");
    }

    #[test]
    fn nothing_to_draw() {
        assert_eq!(throughput(&sample::nothing()).unwrap(), None);
    }

    #[test]
    fn means_go_by_time() {
        assert_eq!(mean_over_time(&[10, 20, 40], &[4.0, 8.0, 2.0]), 4.0);
        assert_eq!(mean_over_time(&[], &[]), 0.0);
        let time = TimeScale::new(4000);
        let at_ns: Vec<u64> = (1..=4000).collect();
        let bps: Vec<f64> = (0..4000).map(f64::from).collect();
        let stairs = stairs(&at_ns, &bps, &time);
        assert_eq!(stairs.len(), 400);
        assert_eq!(stairs[..3], [(0.0, 9.5), (0.02, 9.5), (0.02, 29.5)]);
        assert_eq!(stairs[399], (4.0, 3989.5));
    }
}
