//! The buffer over time: cells of the fullest no-drop groups, with their thresholds.

use anyhow::Result;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use sim::Results;
use sim::results::GroupSeries;

use super::chart::{
    Area, BLUE, DrawResult, GREEN, HEADING, LIGHT_GRAY, LIGHT_SKY, LIGHT_VERMILLION, LegendSymbol,
    MOST_POINTS, TimeScale, VERMILLION, axes, heading, number, picture, piece, pieces, shaded,
};

/// The most groups that are drawn.
const MOST_GROUPS: usize = 6;
/// Height of each in pixels.
const PANEL: u32 = 250;
/// A threshold of more than this many times the group's peak is not drawn, since the curve would be
/// flat.
const MAX_THRESHOLD_RATIO: f64 = 4.0;

/// Draws the fullest groups below each other; `None` if no no-drop group held cells outside its
/// reservation.
pub fn occupancy(outcome: &Results) -> Result<Option<String>> {
    let mut groups: Vec<&GroupSeries> =
        outcome.series.groups.iter().filter(|group| peak(group) > 0).collect();
    // The sort is stable: equally full groups stay in the order of the results.
    groups.sort_by_key(|group| std::cmp::Reverse(peak(group)));
    let left_out = groups.len().saturating_sub(MOST_GROUPS);
    groups.truncate(MOST_GROUPS);
    if groups.is_empty() {
        return Ok(None);
    }
    let about = match left_out {
        0 => "buffer of no-drop priority groups".to_owned(),
        more => format!("buffer of the fullest no-drop priority groups ({more} more are not shown)"),
    };
    let legend = [
        (LegendSymbol::Filled(LIGHT_SKY), "shared cells"),
        (LegendSymbol::Filled(LIGHT_VERMILLION), "headroom cells, on top"),
        (LegendSymbol::Dashes(BLACK), "XOFF threshold"),
        (LegendSymbol::Dashes(GREEN), "XON threshold"),
        (LegendSymbol::Dashes(VERMILLION), "end of headroom"),
        (LegendSymbol::Filled(LIGHT_GRAY), "the sender is paused"),
    ]
    .map(|(look, name)| (look, name.to_owned()));
    let svg = picture(HEADING + PANEL * groups.len() as u32, |area| {
        heading(area, &outcome.title, &about, &legend)?;
        for (number, group) in groups.iter().enumerate() {
            panel(&piece(area, HEADING + PANEL * number as u32, PANEL), outcome, group)?;
        }
        Ok(())
    })?;
    Ok(Some(svg))
}

/// Returns the most cells that a group held.
fn peak(group: &GroupSeries) -> u32 {
    group
        .shared_cells
        .iter()
        .zip(&group.headroom_cells)
        .map(|(shared, headroom)| shared + headroom)
        .max()
        .unwrap_or(0)
}

/// A drawn point: its time, the most cells of the samples that it stands for, and the thresholds at
/// that time.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    at_ns: u64,
    shared: u32,
    headroom: u32,
    xoff: u32,
    xon: u32,
}

fn points(at_ns: &[u64], group: &GroupSeries) -> Vec<Point> {
    let held = |point: &usize| group.shared_cells[*point] + group.headroom_cells[*point];
    let all = at_ns.len().min(group.shared_cells.len());
    let fullest = pieces(all, MOST_POINTS).filter_map(|samples| samples.max_by_key(held));
    let point = |sample: usize| Point {
        at_ns: at_ns[sample],
        shared: group.shared_cells[sample],
        headroom: group.headroom_cells[sample],
        xoff: group.xoff_cells[sample],
        xon: group.xon_cells[sample],
    };
    fullest.map(point).collect()
}

fn panel(area: &Area, outcome: &Results, group: &GroupSeries) -> DrawResult {
    let time = TimeScale::new(outcome.duration_ns);
    let points = points(&outcome.series.at_ns, group);
    let line = |cells: fn(&Point, u32) -> u32| -> Vec<(f64, f64)> {
        points.iter().map(|p| (time.at(p.at_ns), f64::from(cells(p, group.headroom_size_cells)))).collect()
    };
    let shared = line(|point, _| point.shared);
    let held = line(|point, _| point.shared + point.headroom);
    let limits = [
        (GREEN, line(|point, _| point.xon)),
        (BLACK, line(|point, _| point.xoff)),
        (VERMILLION, line(|point, headroom| point.xoff.saturating_add(headroom))),
    ];
    let top = top(f64::from(peak(group)), limits.iter().map(|(_, line)| highest(line)));

    let mut chart = ChartBuilder::on(area)
        .caption(caption(group, &points), ("sans-serif", 16))
        .margin(8)
        .margin_right(24)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..time.end, 0.0..top)?;
    for (from, to, shade) in shaded(pauses(outcome, group), outcome.duration_ns) {
        let corners = [(from * time.end, 0.0), (to * time.end, top)];
        chart.draw_series([Rectangle::new(corners, LIGHT_GRAY.mix(shade).filled())])?;
    }
    axes(&mut chart, (time.name, Some("cells")), &|at| number(*at))?;
    chart.draw_series([Polygon::new(above_zero(&shared), LIGHT_SKY)])?;
    chart.draw_series([Polygon::new(between(&shared, &held), LIGHT_VERMILLION)])?;
    chart.draw_series([PathElement::new(shared, BLUE.stroke_width(1))])?;
    for (color, limit) in limits.into_iter().filter(|(_, line)| highest(line) <= top) {
        chart.draw_series([DashedPathElement::new(limit, 7, 5, color.stroke_width(2))])?;
    }
    Ok(())
}

fn highest(line: &[(f64, f64)]) -> f64 {
    line.iter().map(|point| point.1).fold(0.0, f64::max)
}

/// Returns the top of a chart: above the group's peak and the thresholds that are not far above it.
fn top(peak: f64, limits: impl Iterator<Item = f64>) -> f64 {
    1.08 * limits.filter(|limit| *limit <= MAX_THRESHOLD_RATIO * peak).fold(peak.max(1.0), f64::max)
}

fn caption(group: &GroupSeries, points: &[Point]) -> String {
    let most = |cells: &[u32]| cells.iter().copied().max().unwrap_or(0);
    let (least_xoff, most_xoff) = points
        .iter()
        .fold((u32::MAX, 0), |(least, most), point| (least.min(point.xoff), most.max(point.xoff)));
    let xoff =
        if least_xoff == most_xoff { most_xoff.to_string() } else { format!("{least_xoff} to {most_xoff}") };
    format!(
        "{}.{}, priority {}: at most {} shared cells, {} of {} headroom; XOFF at {xoff}",
        group.switch,
        group.port,
        group.priority,
        most(&group.shared_cells),
        most(&group.headroom_cells),
        group.headroom_size_cells,
    )
}

/// Returns the pauses of the port that sends to this group.
fn pauses<'o>(outcome: &'o Results, group: &'o GroupSeries) -> impl Iterator<Item = (u64, u64)> + 'o {
    let switch = outcome.switches.iter().find(|switch| switch.name == group.switch);
    let port = switch.and_then(|switch| switch.ports.iter().find(|port| port.counts.name == group.port));
    let sender = port.map_or("", |port| port.peer.as_str());
    let spans = outcome.series.pauses.iter();
    spans
        .filter(move |span| span.port == sender && span.priority == group.priority)
        .map(|span| (span.from_ns, span.to_ns))
}

fn above_zero(line: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let floor: Vec<(f64, f64)> = line.iter().map(|point| (point.0, 0.0)).collect();
    between(&floor, line)
}

/// Returns the outline of the area between two lines.
fn between(below: &[(f64, f64)], above: &[(f64, f64)]) -> Vec<(f64, f64)> {
    below.iter().chain(above.iter().rev()).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::super::svg::texts;
    use super::*;
    use crate::sim::sample;

    #[test]
    fn of_an_incast() {
        let svg = occupancy(&sample::incast()).unwrap().unwrap();
        let labels = texts(&svg);
        for text in [
            "Incast 3:1 at 100G: buffer of no-drop priority groups",
            "leaf1.p2, priority 3: at most 256 shared cells, 120 of 432 headroom; XOFF at 256",
            "cells",
            "time, ms",
            "XOFF threshold",
        ] {
            assert!(labels.iter().any(|labels| labels == text), "{text}: {labels:?}");
        }
        assert!(svg.len() < 200_000, "{} bytes", svg.len());
    }

    #[test]
    fn nothing_to_draw() {
        assert_eq!(occupancy(&sample::nothing()).unwrap(), None);
    }

    #[test]
    fn the_fullest_are_drawn() {
        let mut outcome = sample::incast();
        let group = outcome.series.groups[0].clone();
        outcome.series.groups = (0..9)
            .map(|number| GroupSeries {
                port: format!("p{number}"),
                shared_cells: group.shared_cells.iter().map(|cells| cells * number).collect(),
                ..group.clone()
            })
            .collect();
        let labels = texts(&occupancy(&outcome).unwrap().unwrap());
        let order: Vec<&str> = labels
            .iter()
            .filter_map(|labels| Some(labels.strip_prefix("leaf1.")?.split_once(',')?.0))
            .collect();
        assert_eq!(order, ["p8", "p7", "p6", "p5", "p4", "p3"]);
        assert!(labels[0].ends_with("(3 more are not shown)"), "{}", labels[0]);
    }

    /// One high sample of 5000 is still visible.
    #[test]
    fn peaks_survive_thinning() {
        let at_ns: Vec<u64> = (1..=5000).collect();
        let mut group = GroupSeries {
            shared_cells: vec![1; 5000],
            headroom_cells: vec![0; 5000],
            xoff_cells: vec![100; 5000],
            xon_cells: vec![90; 5000],
            ..sample::incast().series.groups[0].clone()
        };
        (group.shared_cells[1234], group.headroom_cells[1234], group.xoff_cells[1234]) = (80, 7, 77);
        let points = points(&at_ns, &group);
        assert_eq!(points.len(), 1000);
        assert_eq!(points[246], Point { at_ns: 1235, shared: 80, headroom: 7, xoff: 77, xon: 90 });
    }

    #[test]
    fn lines_far_above_do_not_flatten_the_chart() {
        assert_eq!(top(100.0, [250.0, 90.0].into_iter()), 270.0);
        assert_eq!(top(100.0, [401.0, 400.0].into_iter()), 432.0);
        assert_eq!(top(100.0, [40_000.0].into_iter()), 108.0);
    }
}
