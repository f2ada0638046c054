//! Completion times of messages: for each traffic, the share of messages that completed within a
//! time.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use sim::Results;

use super::chart::{
    Area, DrawResult, HEADING, MOST_POINTS, TRAFFIC, WIDTH, axes, heading, picture, piece, text,
};
use crate::output::grouped;
use crate::sim::format::time;
use crate::sim::truncate::short;

const PANEL: u32 = 420;
/// Width of the names to the right of the chart, in pixels, and their longest in characters.
const NAMES: u32 = 330;
const NAME_CHARS: usize = 18;
const MOST_TICKS: usize = 12;

/// The messages of a traffic.
struct Messages {
    name: String,
    to_send: u64,
    color: RGBColor,
    /// Completion times of the messages that arrived, shortest first.
    took_ns: Vec<u64>,
}

/// Draws the chart; `None` if no message arrived.
pub fn completion(outcome: &Results) -> Result<Option<String>> {
    let all = messages(outcome);
    if all.is_empty() {
        return Ok(None);
    }
    let svg = picture(HEADING - 24 + PANEL, |area| {
        heading(area, &outcome.title, "completion times of messages", &[])?;
        panel(&piece(area, HEADING - 24, PANEL), &all)
    })?;
    Ok(Some(svg))
}

/// Returns the traffics with most messages, as many as there are colors.
fn messages(outcome: &Results) -> Vec<Messages> {
    let mut took_ns = vec![Vec::new(); outcome.traffic.len()];
    for span in &outcome.series.completions {
        took_ns[span.traffic].push(span.to_ns.saturating_sub(span.from_ns));
    }
    let mut all: Vec<Messages> = Vec::new();
    for (number, (traffic, mut took_ns)) in outcome.traffic.iter().zip(took_ns).enumerate() {
        if took_ns.is_empty() {
            continue;
        }
        took_ns.sort_unstable();
        let (name, color) = (short(&traffic.name, NAME_CHARS), TRAFFIC[number % TRAFFIC.len()]);
        all.push(Messages { name, to_send: traffic.messages, color, took_ns });
    }
    if all.len() > TRAFFIC.len() {
        all.sort_by_key(|messages| std::cmp::Reverse(messages.took_ns.len()));
        all.truncate(TRAFFIC.len());
    }
    // Each has the color of the throughput plot, unless two would have the same.
    if outcome.traffic.len() > TRAFFIC.len() {
        all.iter_mut().zip(TRAFFIC).for_each(|(messages, color)| messages.color = color);
    }
    all
}

fn panel(area: &Area, all: &[Messages]) -> DrawResult {
    let shortest = all.iter().map(|messages| messages.took_ns[0]).min().unwrap_or(1);
    let longest = all.iter().filter_map(|messages| messages.took_ns.last()).max().copied().unwrap_or(1);
    let (from, to) = (round_down(shortest), round_up(longest));
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(NAMES)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (from as f64..to as f64).log_scale().with_key_points(ticks(from, to)),
            0.0..102.0,
        )?;
    let at = |ns: &f64| time(ns.round() as u64);
    axes(&mut chart, ("completion time", Some("messages that arrived within it, %")), &at)?;
    for (row, messages) in all.iter().enumerate() {
        chart
            .draw_series([PathElement::new(steps(&messages.took_ns, to), messages.color.stroke_width(2))])?;
        name(area, row, messages)?;
    }
    Ok(())
}

/// Returns the share in percent that took no longer, as steps from the shortest time to the end of
/// the chart.
fn steps(took_ns: &[u64], end_ns: u64) -> Vec<(f64, f64)> {
    let each = took_ns.len().div_ceil(MOST_POINTS / 2).max(1);
    let last = took_ns.len() - 1;
    let share = |count: usize| count as f64 * 100.0 / took_ns.len() as f64;
    let mut points = vec![(took_ns[0] as f64, 0.0)];
    for rank in (0..last).step_by(each).chain([last]) {
        let at = took_ns[rank] as f64;
        points.push((at, points[points.len() - 1].1));
        points.push((at, share(rank + 1)));
    }
    points.push((end_ns as f64, 100.0));
    points
}

fn name(area: &Area, row: usize, messages: &Messages) -> DrawResult {
    let Messages { name, to_send, color, took_ns } = messages;
    let (x, y) = ((WIDTH - NAMES) as i32 + 14, 24 + 46 * row as i32);
    let within = |percent: usize| time(took_ns[(took_ns.len() * percent).div_ceil(100).max(1) - 1]);
    area.draw(&PathElement::new([(x, y), (x + 20, y)], color.stroke_width(3)))?;
    let (arrived, to_send) = (grouped(took_ns.len() as u64), grouped(*to_send));
    text(area, &format!("{name}: {arrived} of {to_send} arrived"), (x + 26, y), 15, HPos::Left)?;
    let times = format!("50 % in {}, 99 % in {}, all in {}", within(50), within(99), within(100));
    text(area, &times, (x + 26, y + 19), 14, HPos::Left)
}

/// Returns round times between two, not more than fit below the chart.
fn ticks(from: u64, to: u64) -> Vec<f64> {
    let all = |factors: &'static [u64]| {
        let powers = (0..=to.ilog10()).map(|power| 10_u64.pow(power));
        let times = powers.flat_map(move |power| factors.iter().map(move |factor| factor * power));
        times.filter(|time| (from..=to).contains(time)).map(|time| time as f64).collect::<Vec<f64>>()
    };
    let fine = all(&[1, 2, 5]);
    if fine.len() <= MOST_TICKS { fine } else { all(&[1]) }
}

/// Returns the next smaller number of the form 1, 2 or 5 times a power of ten; a smaller one even
/// if the number has this form.
fn round_down(ns: u64) -> u64 {
    let power = 10_u64.pow(ns.max(1).ilog10());
    match ns {
        0 | 1 => 1,
        ns if ns > 5 * power => 5 * power,
        ns if ns > 2 * power => 2 * power,
        ns if ns > power => power,
        _ => power / 2,
    }
}

/// Returns the next larger number of this form.
fn round_up(ns: u64) -> u64 {
    let power = 10_u64.pow(ns.max(1).ilog10());
    match ns {
        ns if ns < 2 * power => 2 * power,
        ns if ns < 5 * power => 5 * power,
        _ => 10 * power,
    }
}

#[cfg(test)]
mod tests {
    use super::super::svg::texts;
    use super::*;
    use crate::sim::sample;

    #[test]
    fn of_an_incast() {
        let labels = texts(&completion(&sample::incast()).unwrap().unwrap());
        for text in ["completion time", "messages that arrived within it, %", "rdma: 299 of 300 arrived"] {
            assert!(labels.iter().any(|labels| labels == text), "{text}: {labels:?}");
        }
    }

    #[test]
    fn no_message_arrived() {
        assert_eq!(completion(&sample::nothing()).unwrap(), None);
        let mut outcome = sample::incast();
        outcome.series.completions.clear();
        assert_eq!(completion(&outcome).unwrap(), None);
    }

    #[test]
    fn shares_are_stairs() {
        assert_eq!(
            steps(&[10, 30], 50),
            [(10.0, 0.0), (10.0, 0.0), (10.0, 50.0), (30.0, 50.0), (30.0, 100.0), (50.0, 100.0)]
        );
        let many: Vec<u64> = (1..=100_000).collect();
        let points = steps(&many, 200_000);
        assert!(points.len() <= MOST_POINTS + 10, "{}", points.len());
        assert!(points.contains(&(100_000.0, 100.0)), "the slowest is there");
    }

    #[test]
    fn axes_begin_and_end_at_round_times() {
        assert_eq!(ticks(5_000, 50_000), [5e3, 1e4, 2e4, 5e4]);
        assert_eq!(ticks(1, 1_000_000), [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6]);
        for (ns, below, above) in [
            (1, 1, 2),
            (7, 5, 10),
            (10, 5, 20),
            (81_000, 50_000, 100_000),
            (1_912_000, 1_000_000, 2_000_000),
            (5_000, 2_000, 10_000),
        ] {
            assert_eq!((round_down(ns), round_up(ns)), (below, above), "{ns}");
        }
    }
}
