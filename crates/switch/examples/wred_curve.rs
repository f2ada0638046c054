//! Draws what WRED does against its settings: `cargo run -p switch --example wred_curve --
//! FILE.svg`.
//!
//! Lines are the configured curves of the three drop levels; each point is the share of frames that
//! a switch marked while its queue stayed at that length, over 200,000 frames.

#![allow(missing_docs)]

#[path = "../tests/lab/mod.rs"]
mod lab;

use std::error::Error;

use lab::{Lab, mac, queue_of, settings};
use plotters::prelude::*;
use switch::settings::{DropLevel, SwitchSettings, Threshold, Trust, WredProfile, WredSettings};
use wire::ethernet::{IPV4, write_header};

const CURVES: [WredProfile; 3] = [
    WredProfile { low_cells: 100, high_cells: 300, probability_percent: 40 },
    WredProfile { low_cells: 60, high_cells: 180, probability_percent: 60 },
    WredProfile { low_cells: 20, high_cells: 100, probability_percent: 100 },
];
/// DSCPs that are green, yellow and red here.
const DSCPS: [u8; 3] = [10, 12, 14];
const NAMES: [&str; 3] = ["green", "yellow", "red"];
const COLORS: [RGBColor; 3] = [RGBColor(0, 130, 60), RGBColor(200, 150, 0), RGBColor(200, 30, 30)];
const FRAMES: u32 = 200_000;
const LONGEST_CELLS: u32 = 320;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: wred_curve FILE.svg")?;
    let area = SVGBackend::new(&file, (900, 540)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("WRED with ECN: frames marked, by queue length", ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(52)
        .build_cartesian_2d(0..LONGEST_CELLS, 0.0..104.0)?;
    chart
        .configure_mesh()
        .x_desc("queue length, cells")
        .y_desc("marked, %")
        .light_line_style(WHITE)
        .draw()?;
    for level in 0..3 {
        let color = COLORS[level];
        let line = (0..=LONGEST_CELLS).map(|cells| (cells, configured(CURVES[level], cells)));
        let name = format!("{}: configured, and measured ({FRAMES} frames a point)", NAMES[level]);
        chart
            .draw_series(LineSeries::new(line, color.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        let points = (10..LONGEST_CELLS).step_by(10).map(|cells| (cells, measured(level, cells)));
        chart.draw_series(points.map(|point| Circle::new(point, 4, color.filled())))?;
        eprintln!("{} done", NAMES[level]);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE)
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    println!("{file}");
    Ok(())
}

/// The configured share in percent.
fn configured(curve: WredProfile, cells: u32) -> f64 {
    let WredProfile { low_cells, high_cells, probability_percent } = curve;
    match cells {
        cells if cells <= low_cells => 0.0,
        cells if cells > high_cells => 100.0,
        cells => {
            f64::from(probability_percent) * f64::from(cells - low_cells) / f64::from(high_cells - low_cells)
        }
    }
}

/// The share that a switch marks while its queue stays at `cells`, in percent.
fn measured(level: usize, cells: u32) -> f64 {
    let mut lab = Lab::with_frames(&with_wred(), 128);
    lab.switch.hold(1, true);
    // CE passes as it is, so it fills the queue to one cell short.
    (1..cells).for_each(|_| lab.arrive_bytes(0, &packet(DSCPS[0], 0b11)));
    let candidate = packet(DSCPS[level], 0b10);
    for _ in 0..FRAMES {
        lab.arrive_bytes(0, &candidate);
        lab.switch.hold(1, false);
        lab.transmit(1, 1);
        lab.switch.hold(1, true);
        lab.complete(1, 1);
    }
    lab.snapshot().ports[1].queues[2].marked.frames as f64 * 100.0 / f64::from(FRAMES)
}

fn with_wred() -> SwitchSettings {
    let mut settings = settings(2, 0, 4_000, 0);
    for port in &mut settings.ports {
        port.classify.trust = Trust::Dscp;
        port.classify.dscp_to_dot1p = [0; 64];
        port.classify.dscp_to_drop_level[12] = DropLevel::Yellow;
        port.classify.dscp_to_drop_level[14] = DropLevel::Red;
    }
    settings.ports[1].queues[2] = queue_of(Threshold::Static(4_000));
    settings.ports[1].queues[2].wred =
        Some(WredSettings { exponent: 0, ecn: true, curves: CURVES, ..WredSettings::default() });
    settings
}

fn packet(dscp: u8, ecn: u8) -> Vec<u8> {
    let mut bytes = vec![0; 100];
    let at = write_header(&mut bytes, mac(1), mac(0), None, IPV4);
    bytes[at..at + 4].copy_from_slice(&[0x45, dscp << 2 | ecn, 0, 82]);
    bytes
}
