//! `sluice show ports`: what came in, what left, what was dropped and why.

use std::collections::BTreeMap;

use control::v1::{Count, Port, Snapshot};
use serde::Serialize;

use super::text::{
    self, earlier, elapsed_ns, frames, grouped, mbit, tenths, utilization_percent, volume, volume_unit,
};

/// For people: the ports, then what was dropped or lost. With a snapshot from before, rates instead of MB.
pub fn table(now: &Snapshot, before: Option<&Snapshot>) -> String {
    let elapsed_ns = elapsed_ns(now, before);
    let unit = volume_unit(elapsed_ns);
    let headings = [
        "Port",
        "Interface",
        "State",
        "Speed\nMbit/s",
        "Received\nframes",
        &format!("Received\n{unit}"),
        "Sent\nframes",
        &format!("Sent\n{unit}"),
        "Dropped\nframes",
        "Used\n%",
    ];
    // How much of its line a port uses is only known from two looks.
    let headings = if elapsed_ns == 0 { &headings[..headings.len() - 1] } else { &headings };
    let mut table = text::table(headings, 3);
    for port in &now.ports {
        let earlier = earlier(before, &port.name);
        let dropped = port.drops.iter().map(|drop| drop.count.unwrap_or_default().frames).sum();
        let used = utilization_percent(port, earlier, elapsed_ns);
        let used = (elapsed_ns > 0).then(|| used.map_or("–".to_owned(), tenths));
        let row = [
            port.name.clone(),
            port.interface.clone(),
            state(port).to_owned(),
            if port.speed_bps == 0 { "–".to_owned() } else { mbit(port.speed_bps) },
            frames(port.received),
            volume(port.received, earlier.and_then(|port| port.received), elapsed_ns),
            frames(port.transmitted),
            volume(port.transmitted, earlier.and_then(|port| port.transmitted), elapsed_ns),
            grouped(dropped),
        ];
        table.add_row(row.into_iter().chain(used));
    }
    let losses = losses(now);
    if losses.is_empty() { table.trim_fmt() } else { format!("{}\n\n{losses}", table.trim_fmt()) }
}

fn state(port: &Port) -> &'static str {
    match (port.up, port.held, port.xdp_mode.as_str()) {
        (false, ..) => "down",
        (true, true, _) => "up, held",
        (true, false, "generic") => "up, generic XDP",
        (true, false, _) => "up",
    }
}

/// The drops that happened, by reason, and what the kernel lost before the switch saw it; empty if there were none.
fn losses(snapshot: &Snapshot) -> String {
    let mut table = text::table(&["Port", "Dropped because", "Frames", "MB"], 2);
    for port in &snapshot.ports {
        for drop in &port.drops {
            let count = drop.count.unwrap_or_default();
            if count.frames > 0 {
                let reason = drop.reason.replace('_', " ");
                table.add_row([
                    port.name.clone(),
                    reason,
                    grouped(count.frames),
                    volume(drop.count, None, 0),
                ]);
            }
        }
        let kernel = port.kernel.unwrap_or_default();
        for (reason, lost) in [
            ("kernel: fill ring empty", kernel.rx_fill_ring_empty),
            ("kernel: RX ring full", kernel.rx_ring_full),
            ("kernel: dropped on receipt", kernel.rx_dropped),
        ] {
            if lost > 0 {
                table.add_row([port.name.clone(), reason.to_owned(), grouped(lost), "–".to_owned()]);
            }
        }
    }
    if table.is_empty() { String::new() } else { table.trim_fmt() }
}

/// For programs; with a snapshot from before, how much of its line each port used.
pub fn json(snapshot: &Snapshot, before: Option<&Snapshot>) -> impl Serialize {
    let elapsed_ns = elapsed_ns(snapshot, before);
    let row = |port: &Port| PortJson::of(port, earlier(before, &port.name), elapsed_ns);
    Ports {
        at_ns: snapshot.at_ns,
        bridge_entries: snapshot.bridge_entries,
        bridge_full_frames: snapshot.bridge_full,
        flood_copies_frames: snapshot.flood_copies,
        memory_frames: snapshot.memory_frames,
        memory_free_frames: snapshot.memory_free,
        memory_in_rings_frames: snapshot.memory_in_rings,
        loop_turns: snapshot.loop_turns,
        loop_worst_stall_ns: snapshot.loop_worst_stall_ns,
        events_lost: snapshot.events_lost,
        ports: snapshot.ports.iter().map(row).collect(),
    }
}

#[derive(Serialize)]
struct Ports {
    at_ns: u64,
    bridge_entries: u64,
    bridge_full_frames: u64,
    flood_copies_frames: u64,
    memory_frames: u64,
    memory_free_frames: u64,
    memory_in_rings_frames: u64,
    loop_turns: u64,
    loop_worst_stall_ns: u64,
    events_lost: u64,
    ports: Vec<PortJson>,
}

#[derive(Serialize)]
struct PortJson {
    port: String,
    interface: String,
    up: bool,
    held: bool,
    speed_bps: u64,
    xdp_mode: String,
    vlan_tags_restored: bool,
    received_frames: u64,
    received_bytes: u64,
    received_yellow_frames: u64,
    received_red_frames: u64,
    transmitted_frames: u64,
    transmitted_bytes: u64,
    consumed_frames: u64,
    consumed_bytes: u64,
    drops: BTreeMap<String, CountJson>,
    in_flight_peak_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    utilization_percent: Option<f64>,
    kernel: KernelJson,
}

#[derive(Serialize)]
struct CountJson {
    frames: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct KernelJson {
    rx_fill_ring_empty_frames: u64,
    rx_ring_full_frames: u64,
    rx_dropped_frames: u64,
    rx_invalid_frames: u64,
    tx_invalid_frames: u64,
    tx_kicks: u64,
    tx_again: u64,
    tx_busy: u64,
    tx_no_buffers: u64,
    tx_down: u64,
}

impl PortJson {
    fn of(port: &Port, before: Option<&Port>, elapsed_ns: u64) -> Self {
        let count = |count: Option<Count>| count.unwrap_or_default();
        let (received, transmitted, consumed) =
            (count(port.received), count(port.transmitted), count(port.consumed));
        let kernel = port.kernel.unwrap_or_default();
        Self {
            port: port.name.clone(),
            interface: port.interface.clone(),
            up: port.up,
            held: port.held,
            speed_bps: port.speed_bps,
            xdp_mode: port.xdp_mode.clone(),
            vlan_tags_restored: port.vlan_tags_restored,
            received_frames: received.frames,
            received_bytes: received.bytes,
            received_yellow_frames: port.received_yellow_frames,
            received_red_frames: port.received_red_frames,
            transmitted_frames: transmitted.frames,
            transmitted_bytes: transmitted.bytes,
            consumed_frames: consumed.frames,
            consumed_bytes: consumed.bytes,
            drops: port
                .drops
                .iter()
                .map(|drop| {
                    let Count { frames, bytes } = count(drop.count);
                    (drop.reason.clone(), CountJson { frames, bytes })
                })
                .collect(),
            in_flight_peak_bytes: port.in_flight_peak_bytes,
            utilization_percent: utilization_percent(port, before, elapsed_ns),
            kernel: KernelJson {
                rx_fill_ring_empty_frames: kernel.rx_fill_ring_empty,
                rx_ring_full_frames: kernel.rx_ring_full,
                rx_dropped_frames: kernel.rx_dropped,
                rx_invalid_frames: kernel.rx_invalid,
                tx_invalid_frames: kernel.tx_invalid,
                tx_kicks: kernel.tx_kicks,
                tx_again: kernel.tx_again,
                tx_busy: kernel.tx_busy,
                tx_no_buffers: kernel.tx_no_buffers,
                tx_down: kernel.tx_down,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn table_of_totals() {
        insta::assert_snapshot!(table(&sample::snapshot(), None));
    }

    #[test]
    fn table_of_rates() {
        insta::assert_snapshot!(table(&sample::later(), Some(&sample::snapshot())));
    }

    #[test]
    fn json_of_a_port() {
        let mut snapshot = sample::snapshot();
        snapshot.ports.truncate(1);
        insta::assert_snapshot!(serde_json::to_string_pretty(&json(&snapshot, None)).unwrap());
    }
}
