//! `sluice nic show`: sent, held and dropped frames and received pauses of interfaces that honor
//! PFC.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use nic::Status;
use serde_json::{Value, json};

use super::attach::{QueueOrder, Trust, word};
use super::namespace::{Namespace, list, priorities};
use crate::exit::misuse;
use crate::output;
use crate::output::grouped;

/// Show the counters of interfaces that honor PFC.
#[derive(Args)]
#[command(after_long_help = "\
Tables show the priorities that were ever used. Frames are those of the kernel: one of them may
still be cut into several (GSO). Dropped is what came when the limit was reached; held memory is
counted as sockets count it.

JSON: at_ns (CLOCK_MONOTONIC), interfaces[]: device, `obeys` (false: the qdisc is gone, attach again),
speed_bps, no_drop[], trust, port_priority, order, limit_bytes, heard: pfc_frames, pause_frames,
malformed_frames, kicks; priorities[]: priority, no_drop, sent_frames, sent_bytes, held_frames,
held_bytes, held_memory_bytes, held_peak_memory_bytes, dropped_frames, dropped_bytes, paused,
pause_left_ns, paused_ns, episodes, xoff_frames, xon_frames.")]
pub struct Show {
    /// The interface [default: all].
    device: Option<String>,
    #[command(flatten)]
    namespace: Namespace,
    /// Print JSON; with --watch, one object a line.
    #[arg(long)]
    json: bool,
    /// Repeat at this interval in seconds (0.05 at least).
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    watch: Option<f64>,
}

impl Show {
    pub(super) fn run(&self) -> Result<()> {
        let Some(seconds) = self.watch else { return self.print(true) };
        if !(0.05..=3600.0).contains(&seconds) {
            return misuse(format!("--watch takes 0.05 to 3600 seconds, not {seconds}"));
        }
        let clears = std::io::stdout().is_terminal() && !self.json;
        loop {
            if clears {
                print!("\x1b[H\x1b[2J"); // cursor home, clear the screen
            }
            self.print(false)?;
            std::thread::sleep(Duration::from_secs_f64(seconds));
        }
    }

    fn print(&self, pretty: bool) -> Result<()> {
        let all = self.namespace.enter(|| match &self.device {
            Some(device) => Ok(vec![nic::status(device)?]),
            None => nic::attached()?.iter().map(|device| nic::status(device)).collect(),
        })?;
        output::print(&if self.json {
            let interfaces: Vec<Value> = all.iter().map(json).collect();
            let at_ns = all.first().map(|status| status.at_ns);
            output::json(&json!({ "at_ns": at_ns, "interfaces": interfaces }), pretty)?
        } else if all.is_empty() {
            format!(
                "No interface{} honors PFC: `sluice nic attach` makes one do so.",
                self.namespace.suffix()
            )
        } else {
            all.iter().map(table).collect::<Vec<_>>().join("\n\n")
        })
    }
}

fn json(status: &Status) -> Value {
    let settings = &status.settings;
    let priorities = status.priorities.iter().enumerate().map(|(priority, of)| {
        json!({
            "priority": priority,
            "no_drop": settings.no_drop & (1 << priority) != 0,
            "sent_frames": of.sent_frames,
            "sent_bytes": of.sent_bytes,
            "held_frames": of.held_frames,
            "held_bytes": of.held_bytes,
            "held_memory_bytes": of.held_memory_bytes,
            "held_peak_memory_bytes": of.held_peak_memory_bytes,
            "dropped_frames": of.dropped_frames,
            "dropped_bytes": of.dropped_bytes,
            "paused": of.is_paused,
            "pause_left_ns": of.pause_left_ns,
            "paused_ns": of.paused_ns,
            "episodes": of.episodes,
            "xoff_frames": of.xoff_frames,
            "xon_frames": of.xon_frames,
        })
    });
    json!({
        "device": status.device,
        "obeys": status.has_qdisc,
        "speed_bps": settings.speed_bps,
        "no_drop": list(settings.no_drop),
        "trust": word(Trust::of(settings.trust)),
        "port_priority": settings.port_priority,
        "order": word(QueueOrder::of(settings.order)),
        "limit_bytes": settings.limit_bytes,
        "heard": {
            "pfc_frames": status.received.pfc_frames,
            "pause_frames": status.received.pause_frames,
            "malformed_frames": status.received.malformed_frames,
            "kicks": status.received.kicks,
        },
        "priorities": priorities.collect::<Vec<_>>(),
    })
}

fn table(status: &Status) -> String {
    let settings = &status.settings;
    let mut head = format!(
        "{}: {}, no-drop {}, trust {}, {}; received {} PFC frames, {} PAUSE, {} malformed",
        status.device,
        config::spell_speed(settings.speed_bps),
        if settings.no_drop == 0 { "none".to_owned() } else { priorities(settings.no_drop) },
        word(Trust::of(settings.trust)),
        word(QueueOrder::of(settings.order)),
        grouped(status.received.pfc_frames),
        grouped(status.received.pause_frames),
        grouped(status.received.malformed_frames),
    );
    if !status.has_qdisc {
        head += "\nIts qdisc is gone, so it honors no pause: `sluice nic attach` puts it back.";
    }
    let headings = [
        "Priority",
        "State",
        "Sent\nframes",
        "Held\nframes",
        "Held\nkB",
        "Dropped\nframes",
        "Paused\nms",
        "XOFF",
        "XON",
    ];
    let mut table = output::table(&headings, 2);
    for (priority, of) in status.priorities.iter().enumerate() {
        let no_drop = settings.no_drop & (1 << priority) != 0;
        if !no_drop
            && of.sent_frames + of.held_frames + of.dropped_frames + of.xoff_frames + of.xon_frames == 0
        {
            continue;
        }
        table.add_row([
            priority.to_string(),
            match (no_drop, of.is_paused) {
                (_, true) => "paused",
                (true, false) => "no-drop",
                (false, false) => "lossy",
            }
            .to_owned(),
            grouped(of.sent_frames),
            grouped(of.held_frames),
            output::tenths(of.held_memory_bytes as f64 / 1e3),
            grouped(of.dropped_frames),
            output::tenths(of.paused_ns as f64 / 1e6),
            grouped(of.xoff_frames),
            grouped(of.xon_frames),
        ]);
    }
    format!("{head}\n\n{}", table.trim_fmt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nic::{PfcRxCounters, Priority, Settings};

    fn sample() -> Status {
        let mut priorities = [Priority::default(); 8];
        priorities[0].sent_frames = 12;
        priorities[3] = Priority {
            sent_frames: 1_234_567,
            sent_bytes: 1_869_134_438,
            held_frames: 54,
            held_bytes: 81_756,
            held_memory_bytes: 124_416,
            held_peak_memory_bytes: 2_000_000,
            dropped_frames: 1,
            dropped_bytes: 1514,
            is_paused: true,
            pause_left_ns: 1_000_000,
            paused_ns: 2_500_000_000,
            episodes: 99,
            xoff_frames: 410,
            xon_frames: 98,
        };
        Status {
            device: "eth0".into(),
            has_qdisc: true,
            settings: Settings::new(1_000_000_000),
            at_ns: 5,
            received: PfcRxCounters { pfc_frames: 508, pause_frames: 2, malformed_frames: 1, kicks: 98 },
            priorities,
        }
    }

    #[test]
    fn table_of_an_interface() {
        insta::assert_snapshot!(table(&sample()));
    }

    #[test]
    fn a_missing_qdisc_is_reported() {
        let gone = Status { has_qdisc: false, ..sample() };
        assert!(table(&gone).contains("\nIts qdisc is gone, so it honors no pause: `sluice nic attach`"));
        assert_eq!(json(&gone)["obeys"], false);
    }

    #[test]
    fn json_of_an_interface() {
        let value = json(&sample());
        assert_eq!(value["priorities"].as_array().unwrap().len(), 8);
        insta::assert_snapshot!(
            serde_json::to_string_pretty(&json!({
                "speed_bps": value["speed_bps"],
                "no_drop": value["no_drop"],
                "trust": value["trust"],
                "heard": value["heard"],
                "priority 3": value["priorities"][3],
            }))
            .unwrap()
        );
    }
}
