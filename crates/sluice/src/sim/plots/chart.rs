//! Common parts of all plots: the picture, its heading and legend, axes, colors, and the reduction
//! of long series.
//!
//! Colors: Okabe and Ito, "Color Universal Design", which color-blind people can distinguish.

use std::io;
use std::ops::Range;

use anyhow::Result;
use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::sim::format::time_unit;
use crate::sim::truncate::short;

/// Width of every picture in pixels.
pub const WIDTH: u32 = 1100;
/// Pixels above the first chart: title and legend.
pub const HEADING: u32 = 64;
/// The most points of a series that are drawn.
pub const MOST_POINTS: usize = 1000;
/// Time steps in which spans are drawn.
const SPAN_STEPS: usize = 500;
/// Shades of a step by the part of it that spans cover.
const SHADES: usize = 4;
const MARGIN: i32 = 14;
const MOST_TITLE_CHARS: usize = 110;

pub const BLUE: RGBColor = RGBColor(0, 114, 178);
pub const VERMILLION: RGBColor = RGBColor(213, 94, 0);
pub const GREEN: RGBColor = RGBColor(0, 158, 115);
pub const PURPLE: RGBColor = RGBColor(204, 121, 167);
pub const ORANGE: RGBColor = RGBColor(230, 159, 0);
pub const SKY: RGBColor = RGBColor(86, 180, 233);
pub const GRAY: RGBColor = RGBColor(120, 120, 120);
/// Color of areas, opaque so that nothing below is visible.
pub const LIGHT_SKY: RGBColor = RGBColor(154, 210, 242);
pub const LIGHT_VERMILLION: RGBColor = RGBColor(230, 158, 102);
pub const LIGHT_GRAY: RGBColor = RGBColor(222, 222, 222);

/// Colors of traffics, by their number.
pub const TRAFFIC: [RGBColor; 8] = [BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK, GRAY];
/// Colors of priorities, the same in all plots.
pub const PRIORITY: [RGBColor; 8] = [GRAY, SKY, ORANGE, BLUE, GREEN, PURPLE, VERMILLION, BLACK];

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub type DrawResult = Result<(), DrawingAreaErrorKind<io::Error>>;
/// A chart of numbers over numbers, with a scale of its own type for the horizontal axis.
pub type Chart<'a, 'b, X> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, RangedCoordf64>>;

/// Returns a picture that `draw` draws on, as SVG.
pub fn picture(height: u32, draw: impl FnOnce(&Area) -> DrawResult) -> Result<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    draw(&area)?;
    area.present()?;
    drop(area);
    Ok(svg)
}

/// Symbol of an entry in a legend.
#[derive(Clone, Copy)]
pub enum LegendSymbol {
    Dashes(RGBColor),
    Filled(RGBColor),
}

/// Draws title and legend of a picture. Entries that do not fit into a line of the legend are
/// omitted.
pub fn heading(area: &Area, title: &str, about: &str, legend: &[(LegendSymbol, String)]) -> DrawResult {
    let title = format!("{}: {about}", short(title, MOST_TITLE_CHARS - about.len()));
    text(area, &title, (MARGIN, 18), 21, HPos::Left)?;
    let (mut x, y) = (MARGIN, 46);
    for (look, name) in legend {
        let width = 38 + 7 * name.chars().count() as i32;
        if x + width > WIDTH as i32 {
            return text(area, "…", (x, y), 15, HPos::Left);
        }
        swatch(area, *look, (x, y))?;
        text(area, name, (x + 28, y), 15, HPos::Left)?;
        x += width + 8;
    }
    Ok(())
}

fn swatch(area: &Area, look: LegendSymbol, (x, y): (i32, i32)) -> DrawResult {
    let line = [(x, y), (x + 22, y)];
    match look {
        LegendSymbol::Dashes(color) => area.draw(&DashedPathElement::new(line, 6, 4, color.stroke_width(2))),
        LegendSymbol::Filled(color) => {
            area.draw(&Rectangle::new([(x, y - 6), (x + 22, y + 6)], color.filled()))
        }
    }
}

/// Draws a line of text at a position.
pub fn text(area: &Area, text: &str, at: (i32, i32), size: i32, to: HPos) -> DrawResult {
    let style = ("sans-serif", size).into_font().color(&BLACK).pos(Pos::new(to, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))
}

/// Returns a part of the picture: its full width from `top` on.
pub fn piece<'a>(area: &Area<'a>, top: u32, height: u32) -> Area<'a> {
    area.clone().shrink((0, top), (WIDTH, height))
}

/// Draws the axes of a chart and its grid. Without a name the vertical axis has no grid either.
pub fn axes<X: Ranged<ValueType = f64> + ValueFormatter<f64>>(
    chart: &mut Chart<X>,
    (x, y): (&str, Option<&str>),
    x_label: &dyn Fn(&f64) -> String,
) -> DrawResult {
    let mut mesh = chart.configure_mesh();
    if y.is_none() {
        mesh.disable_y_mesh();
    }
    mesh.x_labels(10)
        .y_labels(6)
        .x_desc(x)
        .y_desc(y.unwrap_or_default())
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .axis_style(BLACK.mix(0.6))
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 15))
        .x_label_formatter(x_label)
        .y_label_formatter(&|value| number(*value))
        .draw()
}

/// Formats a number on an axis: 12, 0.5, 40k.
pub fn number(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e4 => (value / 1e3, "k"),
        value => (value, ""),
    };
    let text = format!("{value:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Time axis.
#[derive(Clone, Copy)]
pub struct TimeScale {
    unit_ns: f64,
    /// Label of the axis.
    pub name: &'static str,
    /// End of the run.
    pub end: f64,
}

impl TimeScale {
    /// Creates the axis of a run of `duration_ns`.
    pub fn new(duration_ns: u64) -> Self {
        let (unit_ns, unit) = time_unit(duration_ns);
        let name = match unit {
            "s" => "time, s",
            "ms" => "time, ms",
            "us" => "time, us",
            _ => "time, ns",
        };
        Self { unit_ns, name, end: duration_ns.max(1) as f64 / unit_ns }
    }

    /// Returns the position of a time on the axis.
    pub fn at(&self, ns: u64) -> f64 {
        ns as f64 / self.unit_ns
    }
}

/// Divides `len` points into at most `most` pieces of the same length, each to become one point.
pub fn pieces(len: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let step = len.div_ceil(most).max(1);
    (0..len).step_by(step).map(move |from| from..(from + step).min(len))
}

/// A span of the drawing: from, to (fractions of the whole time), and its darkness up to 1.
pub type Shaded = (f64, f64, f64);

/// Converts any number of spans of time to steps, each as dark as the part of it that the spans
/// cover. Any covered part is visible.
pub fn shaded(spans: impl Iterator<Item = (u64, u64)>, duration_ns: u64) -> Vec<Shaded> {
    let step_ns = duration_ns.max(1) as f64 / SPAN_STEPS as f64;
    let mut covered = vec![0.0; SPAN_STEPS];
    for (from_ns, to_ns) in spans {
        let (from, to) = (from_ns as f64 / step_ns, to_ns.min(duration_ns) as f64 / step_ns);
        let steps = from as usize..(to.ceil() as usize).min(SPAN_STEPS);
        for step in steps {
            covered[step] += (to.min(step as f64 + 1.0) - from.max(step as f64)).max(0.0);
        }
    }
    let shades = covered.iter().map(|share: &f64| (share.min(1.0) * SHADES as f64).ceil() as usize);
    let mut drawn: Vec<(usize, usize, usize)> = Vec::new();
    for (step, shade) in shades.enumerate().filter(|(_, shade)| *shade > 0) {
        match drawn.last_mut() {
            Some(last) if last.1 == step && last.2 == shade => last.1 = step + 1,
            _ => drawn.push((step, step + 1, shade)),
        }
    }
    let share = |step: usize| step as f64 / SPAN_STEPS as f64;
    drawn
        .into_iter()
        .map(|(from, to, shade)| (share(from), share(to), shade as f64 / SHADES as f64))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_series_become_short() {
        for (len, points, last) in [
            (0, 0, None),
            (1, 1, Some(0..1)),
            (1000, 1000, Some(999..1000)),
            (1001, 501, Some(1000..1001)),
            (10_000, 1000, Some(9990..10_000)),
        ] {
            assert_eq!(pieces(len, 1000).count(), points, "{len}");
            assert_eq!(pieces(len, 1000).last(), last, "{len}");
            assert_eq!(pieces(len, 1000).flatten().count(), len);
        }
    }

    /// Steps are 2 ns here.
    #[test]
    fn spans_are_drawn_in_steps_and_shades() {
        let of = |spans: &[(u64, u64)]| shaded(spans.iter().copied(), 1000);
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[(100, 300)]), [(0.1, 0.3, 1.0)]);
        assert_eq!(of(&[(0, 1)]), [(0.0, 0.002, 0.5)], "half of a step");
        assert_eq!(of(&[(990, 5000)]), [(0.99, 1.0, 1.0)], "longer than the run");
        assert_eq!(of(&[(7, 9)]), [(0.006, 0.01, 0.5)]);
        let fast: Vec<(u64, u64)> = (0..500_000).map(|n| (10 * n, 10 * n + 3)).collect();
        assert_eq!(shaded(fast.into_iter(), 5_000_000), [(0.0, 1.0, 0.5)], "30 % paused, very fast");
    }

    #[test]
    fn numbers_on_axes() {
        for (value, text) in
            [(0.0, "0"), (0.25, "0.25"), (9_500.0, "9500"), (40_000.0, "40k"), (1.5e6, "1.5M")]
        {
            assert_eq!(number(value), text);
        }
        let scale = TimeScale::new(20_000_000);
        assert_eq!((scale.name, scale.end, scale.at(500_000)), ("time, ms", 20.0, 0.5));
    }
}
