//! The live picture: redrawn in place on a terminal, one line a second elsewhere.

use host::units::{grouped, megabits};
use std::io::Write;

use crate::measurements::{Flow, Measurements, Queue};
use crate::result_text::Finding;
use crate::text::{Style, bar};

/// Returns the text that explains the demo before it starts.
pub fn introduction(style: Style, pfc: bool) -> String {
    let title = style.bold("Sluice: a lossless switch in software");
    let flow_control = if pfc {
        "Priority 3 is no-drop: before its buffer is full, the switch pauses it at the senders (PFC)."
    } else {
        "Priority flow control is off: this is what an ordinary switch does."
    };
    format!(
        "\n{title}\n\n  sender1 ──┐\n            ├── sluiced ──── receiver   (500 Mbit/s)\n  sender2 ──┘\n\n\
         Each sender offers 600 Mbit/s on priority 3 and 600 Mbit/s on priority 0: almost five times what fits.\n\
         {flow_control}\n"
    )
}

/// The output for pictures.
#[derive(Debug)]
pub struct Screen {
    style: Style,
    terminal: bool,
    /// Number of lines of the current picture.
    drawn: usize,
}

impl Screen {
    /// Creates a view that redraws in place on a terminal, and prints one line per picture
    /// elsewhere.
    pub fn new(style: Style, terminal: bool) -> Self {
        Self { style, terminal, drawn: 0 }
    }

    /// Shows a picture.
    pub fn show(&mut self, scene: &Measurements) {
        let mut out = std::io::stdout().lock();
        // A closed terminal must not prevent the cleanup.
        let _ = if self.terminal {
            let lines = picture(self.style, scene);
            let up = if self.drawn > 0 { format!("\x1b[{}A", self.drawn) } else { String::new() };
            self.drawn = lines.len();
            let text: String = lines.iter().map(|line| format!("{line}\x1b[K\n")).collect();
            write!(out, "{up}{text}")
        } else {
            writeln!(out, "{}", one_line(scene))
        };
        let _ = out.flush();
    }
}

/// Returns the whole picture, line by line.
fn picture(style: Style, scene: &Measurements) -> Vec<String> {
    let (elapsed, total) = (scene.elapsed.as_millis() as u64, scene.total.as_millis() as u64);
    let mut lines = vec![
        format!(
            "▕{}▏ {:>2} of {} s",
            style.blue(&bar(elapsed, total, 60)),
            elapsed.min(total) / 1000,
            total / 1000
        ),
        String::new(),
        style.bold("host     priority      offered    sent  arrives        lost   pauses  now"),
    ];
    for (number, flow) in scene.flows.iter().enumerate() {
        let first = number == 0 || scene.flows[number - 1].host != flow.host;
        lines.push(flow_line(style, flow, first));
    }
    lines.push(String::new());
    lines.push(style.bold("queue    of the slow port                        now      peak         drops"));
    let full = scene.queues.iter().map(|queue| queue.peak_kb).max().unwrap_or(0);
    lines.extend(scene.queues.iter().map(|queue| queue_line(style, queue, full)));
    lines.push(style.dim("lost: missing at the receiver so far. drops: counted by the switch by now"));
    lines.push(String::new());
    lines.push(format!(
        "carries ▕{}▏ {:>6} of {}bit/s",
        style.green(&bar(scene.carried_bps, scene.speed_bps, 26)),
        megabits(scene.carried_bps),
        megabits(scene.speed_bps)
    ));
    lines
}

fn flow_line(style: Style, flow: &Flow, first: bool) -> String {
    let kind = if flow.no_drop { "no-drop" } else { "best effort" };
    let lost = format!("{:>12}", grouped(flow.lost_frames));
    let lost = if flow.lost_frames == 0 { style.green(&lost) } else { style.red(&lost) };
    let (pauses, lamp) = match (flow.no_drop, flow.xoff) {
        (true, true) => (grouped(flow.pauses), style.yellow("● paused")),
        (true, false) => (grouped(flow.pauses), style.green("○ sends ")),
        (false, _) => ("–".to_string(), style.dim("  sends ")),
    };
    format!(
        "{:8} {} {:11} {:>7} {:>7} {:>8}{lost} {pauses:>8}  {lamp}",
        if first { &flow.host } else { "" },
        flow.priority,
        kind,
        megabits(flow.offered_bps),
        megabits(flow.sent_bps),
        megabits(flow.received_bps),
    )
}

fn queue_line(style: Style, queue: &Queue, full: u64) -> String {
    let drops = format!("{:>12}", grouped(queue.dropped_frames));
    let drops = if queue.dropped_frames == 0 { style.green(&drops) } else { style.red(&drops) };
    format!(
        "{:<7} ▕{}▏ {:>6} kB {:>6} kB  {drops}",
        format!("{} (p{})", queue.number, queue.priority),
        style.blue(&bar(queue.level_kb, full, 26)),
        grouped(queue.level_kb),
        grouped(queue.peak_kb),
    )
}

/// Returns the picture as one line, for logs.
fn one_line(scene: &Measurements) -> String {
    let of = |priority: u8| scene.flows.iter().filter(move |flow| flow.priority == priority);
    let total = |priority: u8, value: fn(&Flow) -> u64| of(priority).map(value).sum::<u64>();
    format!(
        "{:>4.1} s  priority 3: {}bit/s, {} lost, {} pauses;  priority 0: {}bit/s, {} lost;  port: {}bit/s",
        scene.elapsed.as_secs_f64(),
        megabits(total(3, |flow| flow.received_bps)),
        grouped(total(3, |flow| flow.lost_frames)),
        grouped(total(3, |flow| flow.pauses)),
        megabits(total(0, |flow| flow.received_bps)),
        grouped(total(0, |flow| flow.lost_frames)),
        megabits(scene.carried_bps),
    )
}

/// Returns the verdict, one sentence a line.
pub fn verdict(style: Style, findings: &[Finding]) -> String {
    let mut text = format!("\n{}\n", style.bold("Verdict"));
    for finding in findings {
        let mark = if finding.good { style.green("✔") } else { style.red("✘") };
        text.push_str(&format!("  {mark} {}\n", finding.text));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn busy_scene() -> Measurements {
        let flow = |host: &str, priority, no_drop| Flow {
            host: host.to_string(),
            priority,
            no_drop,
            offered_bps: 600_000_000,
            sent_bps: 142_000_000,
            received_bps: 107_000_000,
            lost_frames: if no_drop { 0 } else { 123_456_789 },
            pauses: 4812,
            xoff: no_drop,
        };
        let queue = |number, priority, dropped_frames| Queue {
            number,
            priority,
            level_kb: 1024,
            peak_kb: 1100,
            dropped_frames,
        };
        Measurements {
            elapsed: Duration::from_millis(9_800),
            total: Duration::from_secs(15),
            flows: vec![
                flow("sender1", 3, true),
                flow("sender1", 0, false),
                flow("sender2", 3, true),
                flow("sender2", 0, false),
            ],
            queues: vec![queue(3, 3, 0), queue(2, 0, 246_913_578)],
            carried_bps: 499_000_000,
            speed_bps: 500_000_000,
        }
    }

    #[test]
    fn the_picture_fits_a_small_terminal_and_names_each_host_once() {
        let lines = picture(Style::new(false), &busy_scene());
        println!("{}", lines.join("\n"));
        for line in &lines {
            assert!(line.chars().count() <= 80, "{} characters: {line}", line.chars().count());
        }
        assert!(lines.len() <= 24, "{} lines", lines.len());
        assert_eq!(lines.iter().filter(|line| line.contains("sender1")).count(), 1);
        println!("{}", one_line(&busy_scene()));
    }
}
