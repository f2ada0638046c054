//! `sluice show ports`: received, transmitted, flooded and dropped frames, with the reasons.

use control::v1::{Port, Snapshot};
use switch::monitor::counters::kernel::RX_LOSSES;

use super::format::{
    self, earlier, elapsed_ns, frames, grouped, mbit, tenths, utilization_percent, volume, volume_unit,
};
use super::interfaces;

/// Formats the ports, their drops and losses, and flooding. With an earlier snapshot, shows rates
/// instead of MB.
pub fn table(now: &Snapshot, before: Option<&Snapshot>) -> String {
    let elapsed_ns = elapsed_ns(now, before);
    let unit = volume_unit(elapsed_ns);
    let has_vlans = now.ports.iter().any(|port| !port.vlan_mode.is_empty());
    let mut headings = vec!["Port", "Interface", "State"];
    headings.extend(has_vlans.then_some("VLANs"));
    let columns_of_words = headings.len();
    let (received, sent) = (format!("Received\n{unit}"), format!("Sent\n{unit}"));
    headings.extend([
        "Speed\nMbit/s",
        "Received\nframes",
        &received,
        "Sent\nframes",
        &sent,
        "Dropped\nframes",
    ]);
    // The utilization of a port is only known from two snapshots.
    headings.extend((elapsed_ns > 0).then_some("Used\n%"));
    let mut table = format::table(&headings, columns_of_words);
    for port in &now.ports {
        let earlier = earlier(before, &port.name);
        let dropped = port.dropped_frames() + port.kernel_lost_frames;
        let used = utilization_percent(port, earlier, elapsed_ns, |port| port.transmitted);
        let used = (elapsed_ns > 0).then(|| used.map_or("–".to_owned(), tenths));
        let words = [port.name.clone(), port.interface.clone(), state(port).to_owned()];
        let words = words.into_iter().chain(has_vlans.then(|| vlans(port)));
        let row = [
            if port.speed_bps == 0 { "–".to_owned() } else { mbit(port.speed_bps) },
            frames(port.received),
            volume(port.received, earlier.and_then(|port| port.received), elapsed_ns),
            frames(port.transmitted),
            volume(port.transmitted, earlier.and_then(|port| port.transmitted), elapsed_ns),
            grouped(dropped),
        ];
        table.add_row(words.chain(row).chain(used));
    }
    let (losses, flooded, bridge) = (losses(now), flooded(now), bridge(now));
    let parts = [table.trim_fmt(), losses, flooded, bridge];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// Formats the addresses learned on each port, and the flooded frames by type; empty if there were
/// none.
fn flooded(now: &Snapshot) -> String {
    let headings = [
        "Port",
        "Addresses\nlearned",
        "Broadcast\nreceived",
        "Multicast\nreceived",
        "Unknown unicast\nreceived",
        "Broadcast\nsent",
        "Multicast\nsent",
        "Unknown unicast\nsent",
    ];
    let mut table = format::table(&headings, 1);
    for port in &now.ports {
        let numbers = [
            port.bridge_entries,
            port.received_broadcast_frames,
            port.received_multicast_frames,
            port.received_unknown_unicast_frames,
            port.transmitted_broadcast_frames,
            port.transmitted_multicast_frames,
            port.transmitted_unknown_unicast_frames,
        ];
        if numbers.iter().any(|&number| number > 0) {
            table.add_row(std::iter::once(port.name.clone()).chain(numbers.map(grouped)));
        }
    }
    if table.is_empty() { String::new() } else { table.trim_fmt() }
}

/// Describes the FDB and its failures.
fn bridge(now: &Snapshot) -> String {
    let mut text = format!(
        "Addresses known: {}, moved from port to port: {}. Copies made of flooded frames: {}.",
        grouped(now.bridge_entries),
        grouped(now.bridge_moves),
        grouped(now.flood_copies)
    );
    if now.bridge_full_frames > 0 {
        let frames = grouped(now.bridge_full_frames);
        text += &format!("\nThe table of addresses was full for the sources of {frames} frames.");
    }
    for port in now.ports.iter().filter(|port| port.bridge_limit_frames > 0) {
        let frames = grouped(port.bridge_limit_frames);
        text += &format!(
            "\nPort {} had all the addresses it may have: the sources of {frames} frames were not learned.",
            port.name
        );
    }
    for port in now.ports.iter().filter(|port| port.rx_ring_episodes > 0) {
        let times = grouped(port.rx_ring_episodes);
        text += &format!("\nPort {}: the RX backlog was long {times} times.", port.name);
    }
    if let Some(removed) = now.removed_ports.as_ref().filter(|removed| removed.ports > 0) {
        text += &format!(
            "\nPorts that were removed: {}; {} frames had come in on them, {} had left.",
            grouped(removed.ports),
            frames(removed.received),
            frames(removed.transmitted)
        );
    }
    // A port that has had no interface yet has no MTU.
    let known = now.ports.iter().filter(|port| port.mtu_bytes > 0);
    if let Some(warning) = config::mtu_warning(known.map(|port| (port.name.as_str(), port.mtu_bytes))) {
        text += &format!("\nWarning: {warning}.");
    }
    for (port, caution) in interfaces::warnings(now) {
        text += &format!("\nWarning: on port {port} {}: {}.", caution.harm, caution.cure);
    }
    if now.recordings_kept > 0 {
        text += &format!(
            "\nRecordings of losses, kept until they are fetched with `sluice record --last FILE`: {}.",
            grouped(now.recordings_kept)
        );
    }
    if now.recordings_not_kept > 0 {
        text += &format!(
            "\nRecordings of losses that found no room beside those: {}.",
            grouped(now.recordings_not_kept)
        );
    }
    if now.events_lost > 0 {
        text += &format!("\nEvents not recorded, too many at once: {}.", grouped(now.events_lost));
    }
    if now.log_lines_lost > 0 {
        text +=
            &format!("\nLog lines lost, standard error did not take them: {}.", grouped(now.log_lines_lost));
    }
    if now.log_lines_left_out > 0 {
        text += &format!("\nLog lines left out, many were alike: {}.", grouped(now.log_lines_left_out));
    }
    text
}

/// Formats the VLANs of a port; for a trunk also the PVID.
fn vlans(port: &Port) -> String {
    match (port.vlan_mode.as_str(), port.pvid) {
        ("", _) => "–".to_owned(),
        ("trunk", Some(pvid)) => format!("trunk {}, untagged {pvid}", port.vlans),
        (mode, _) => format!("{mode} {}", port.vlans),
    }
}

fn state(port: &Port) -> &'static str {
    match (port.up, port.held, port.xdp_mode.as_str()) {
        (false, ..) if port.admin_down => "admin down",
        (false, ..) => "down",
        (true, true, _) => "up, held",
        (true, false, "generic") => "up, generic XDP",
        (true, false, _) => "up",
    }
}

/// Formats the drops that happened, by reason, and the frames that the kernel lost before the
/// switch had them; empty if there were none.
fn losses(snapshot: &Snapshot) -> String {
    let mut table = format::table(&["Port", "Dropped because", "Frames", "MB"], 2);
    let removed = snapshot.removed_ports.clone().unwrap_or_default();
    let kernel = [
        ("kernel: lost on sending", removed.kernel_lost_frames),
        ("kernel: dropped on receipt", removed.kernel_dropped_frames),
    ];
    let drops =
        removed.drops.iter().map(|(reason, drops)| (reason.replace('_', " "), drops.frames, Some(*drops)));
    let kernel = kernel.map(|(reason, frames)| (reason.to_owned(), frames, None));
    for (reason, frames, drops) in drops.chain(kernel).filter(|(_, frames, _)| *frames > 0) {
        let volume = drops.map_or("–".to_owned(), |drops| volume(Some(drops), None, 0));
        table.add_row(["(removed)".to_owned(), reason, grouped(frames), volume]);
    }
    for port in &snapshot.ports {
        for (reason, &drops) in port.drops.iter().filter(|(_, drops)| drops.frames > 0) {
            table.add_row([
                port.name.clone(),
                reason.replace('_', " "),
                grouped(drops.frames),
                volume(Some(drops), None, 0),
            ]);
        }
        let kernel = port.kernel_counters();
        let sent = [
            ("kernel: lost on sending", port.kernel_lost_frames),
            ("kernel: PFC lost on sending", port.kernel_lost_pfc_frames),
        ];
        let received = RX_LOSSES.map(|loss| (loss.words, (loss.frames)(&kernel)));
        let stray = [
            ("kernel: completed twice, ignored", kernel.tx_stray_frames),
            ("kernel: received twice, ignored", kernel.rx_stray_frames),
        ];
        for (reason, lost) in sent.into_iter().chain(received).chain(stray) {
            if lost > 0 {
                table.add_row([port.name.clone(), reason.to_owned(), grouped(lost), "–".to_owned()]);
            }
        }
    }
    if table.is_empty() { String::new() } else { table.trim_fmt() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;

    #[test]
    fn table_of_totals() {
        insta::assert_snapshot!(table(&sample::snapshot(), None));
    }

    #[test]
    fn what_removed_ports_counted_is_there() {
        let mut now = sample::snapshot();
        let count = |frames| Some(control::v1::Count { frames, bytes: 1_000_000 * frames });
        now.removed_ports = Some(control::v1::RemovedPorts {
            ports: 2,
            received: count(1000),
            transmitted: count(900),
            drops: [("ingress_no_drop".to_owned(), control::v1::Count { frames: 7, bytes: 7_000_000 })]
                .into(),
            kernel_lost_frames: 0,
            kernel_dropped_frames: 3,
            no_drop_lost_frames: 7,
        });
        let table = table(&now, None);
        let rows: Vec<_> = table.lines().filter(|line| line.contains("removed")).collect();
        insta::assert_snapshot!(rows.join("\n"), @r"
        (removed)  ingress no drop                   7    7.0
        (removed)  kernel: dropped on receipt        3      –
        Ports that were removed: 2; 1,000 frames had come in on them, 900 had left.
        ");
    }

    #[test]
    fn a_port_without_an_interface_has_no_mtu_that_differs() {
        let mut now = sample::snapshot();
        now.ports.iter_mut().for_each(|port| port.mtu_bytes = 1500);
        now.ports[0].mtu_bytes = 0;
        assert!(!table(&now, None).contains("MTU"));
        now.ports[1].mtu_bytes = 9000;
        assert!(table(&now, None).contains("the MTUs of the ports differ: 1500"));
    }

    #[test]
    fn table_with_vlans() {
        insta::assert_snapshot!(table(&sample::with_vlans(), None));
    }

    #[test]
    fn table_of_rates() {
        insta::assert_snapshot!(table(&sample::later(), Some(&sample::snapshot())));
    }
}
