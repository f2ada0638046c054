//! The report that the daemon prints when it stops: totals of each port, and whether every frame is
//! accounted for.

use std::fmt::Write;

use control::v1::{Port, Snapshot};
use control::{FrameBalance, frames};
use switch::monitor::counters::kernel::RX_LOSSES;

/// Returns the report on a stopped switch.
pub fn totals(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    let width = snapshot.ports.iter().map(|port| port.name.chars().count()).max().unwrap_or(0).max(4);
    let seconds = snapshot.at_ns as f64 / 1e9;
    let _ = writeln!(out, "Totals after {seconds:.1} s, in frames:");
    let _ = writeln!(
        out,
        "  {:<width$}  {:>13}  {:>13}  {:>13}  {:>13}  {:>9}  {:>9}",
        "port", "received", "transmitted", "dropped", "lost", "PFC in", "PFC out"
    );
    for port in &snapshot.ports {
        let pfc = |count: &Option<control::v1::PfcCount>| count.as_ref().map_or(0, |count| count.frames);
        let _ = writeln!(
            out,
            "  {:<width$}  {:>13}  {:>13}  {:>13}  {:>13}  {:>9}  {:>9}",
            port.name,
            frames(port.received),
            frames(port.transmitted),
            port.dropped_frames(),
            port.kernel_lost_frames,
            pfc(&port.pfc_received),
            pfc(&port.pfc_sent),
        );
    }
    for port in &snapshot.ports {
        let losses = losses(port);
        if !losses.is_empty() {
            let _ = writeln!(out, "  {}: {}", port.name, losses.join(", "));
        }
    }
    let balance = FrameBalance::of(snapshot);
    let verdict =
        if balance.holds() { "every frame is accounted for" } else { "FRAMES ARE NOT ACCOUNTED FOR" };
    let _ = writeln!(out, "Conservation: {balance}: {verdict}.");
    let _ =
        write!(out, "Memory: {} of {} frames are free.", snapshot.memory_free_frames, snapshot.memory_frames);
    out
}

/// True if every received frame is accounted for, and all memory is free.
pub fn is_clean(snapshot: &Snapshot) -> bool {
    FrameBalance::of(snapshot).holds() && snapshot.memory_free_frames == snapshot.memory_frames
}

/// Returns the non-zero drops by reason, and the frames that the kernel lost before the switch got
/// them.
fn losses(port: &Port) -> Vec<String> {
    let drops = port.drops.iter().map(|(reason, drops)| (reason.clone(), drops.frames));
    let kernel = port.kernel_counters();
    let received = RX_LOSSES.map(|loss| (format!("kernel {}", loss.name), (loss.frames)(&kernel)));
    drops
        .chain([("kernel_lost".to_owned(), port.kernel_lost_frames)])
        .chain(received)
        .filter(|&(_, frames)| frames > 0)
        .map(|(what, frames)| format!("{what} {frames}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::v1::{Count, Kernel, PfcCount};

    fn snapshot() -> Snapshot {
        let count = |frames| Some(Count { frames, bytes: 100 * frames });
        let drops = |reason: &str, frames| (reason.to_owned(), Count { frames, bytes: 100 * frames });
        Snapshot {
            at_ns: 12_340_000_000,
            flood_copies: 1,
            memory_frames: 4096,
            memory_free_frames: 4096,
            ports: vec![
                Port {
                    name: "server1".into(),
                    received: count(1_000_000),
                    drops: [drops("tail_drop", 399_412), drops("filtered", 0), drops("ingress_lossy", 7)]
                        .into(),
                    pfc_sent: Some(PfcCount { frames: 12, ..Default::default() }),
                    kernel: Some(Kernel { rx_dropped_frames: 3, ..Default::default() }),
                    ..Default::default()
                },
                Port { name: "up".into(), transmitted: count(600_582), ..Default::default() },
            ],
            ..Default::default()
        }
    }

    #[test]
    fn totals_as_printed() {
        assert!(is_clean(&snapshot()));
        insta::assert_snapshot!(totals(&snapshot()));
    }

    #[test]
    fn a_frame_or_memory_that_is_missing_shows() {
        let mut lost = snapshot();
        lost.ports[1].transmitted.as_mut().unwrap().frames -= 1;
        assert!(!is_clean(&lost) && totals(&lost).contains("FRAMES ARE NOT ACCOUNTED FOR"));
        let mut leaked = snapshot();
        leaked.memory_free_frames -= 1;
        assert!(!is_clean(&leaked) && totals(&leaked).contains("4095 of 4096 frames are free"));
    }
}
