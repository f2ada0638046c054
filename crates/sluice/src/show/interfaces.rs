//! `sluice show ports --verbose`: properties of the interface of each port, and those that harm
//! frames.

use control::v1::{Caution, Link, Port, Snapshot};

use super::format::{grouped, mbit};

/// Bytes of Ethernet header and a tag, on top of the MTU: docs/behavior.md, "MTUs".
const HEADER_BYTES: u32 = 14 + 4;

/// Formats a paragraph for each port.
pub fn text(now: &Snapshot) -> String {
    now.ports.iter().map(of_port).collect::<Vec<_>>().join("\n\n")
}

/// Returns the settings that harm frames, with their ports.
pub fn warnings(now: &Snapshot) -> impl Iterator<Item = (&str, &Caution)> {
    now.ports.iter().flat_map(|port| {
        let cautions = port.link.iter().flat_map(|link| &link.cautions);
        cautions.map(|caution| (port.name.as_str(), caution))
    })
}

fn of_port(port: &Port) -> String {
    let none = Link::default();
    let link = port.link.as_ref().unwrap_or(&none);
    let mut lines = vec![format!("Port {} on {}", port.name, port.interface)];
    let mut line = |what: &str, is: String| lines.push(format!("  {what:<12} {is}"));
    line("Kind", kind(link));
    line("Queues", format!("{} to receive, {} to send", link.rx_queues, link.tx_queues));
    line("Core", link.core.to_string());
    line("XDP", format!("{}, {}", port.xdp_mode, copies(link)));
    line("MTU", mtu(port.mtu_bytes));
    let speed = match link.link_speed_bps {
        0 => "the driver reports none".to_owned(),
        bps => format!("{} Mbit/s", mbit(bps)),
    };
    line("Link speed", speed);
    let tags = if port.vlan_tags_restored { "put back" } else { "lost" };
    line("VLAN tags", format!("those that the sender holds out of band are {tags}"));
    let takes = if link.promiscuous { "all frames (promiscuous)" } else { "only what is for itself" };
    line("Takes in", takes.to_owned());
    if link.cautions.is_empty() {
        line("Cautions", "none".to_owned());
    }
    for Caution { setting, harm, cure } in &link.cautions {
        line("Caution", format!("{setting}: {harm}"));
        line("", format!("what helps: {cure}"));
    }
    lines.join("\n")
}

fn kind(link: &Link) -> String {
    let kind = if link.kind.is_empty() { "hardware" } else { &link.kind };
    match link.driver.as_str() {
        "" => kind.to_owned(),
        driver => format!("{kind}, driver {driver}"),
    }
}

/// Describes which component copies the frames.
fn copies(link: &Link) -> String {
    let mode = if link.zero_copy { "zero-copy" } else { "the kernel copies each frame" };
    let memory = if link.own_memory {
        "; memory of its own, each frame is copied to the switch's and back"
    } else {
        ""
    };
    format!("{mode}{memory}")
}

fn mtu(bytes: u32) -> String {
    format!(
        "{} bytes: frames of up to {} bytes leave",
        grouped(bytes.into()),
        grouped((bytes + HEADER_BYTES).into())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;

    #[test]
    fn each_port_has_a_paragraph() {
        insta::assert_snapshot!(text(&sample::snapshot()));
    }

    #[test]
    fn copying_ports_are_shown() {
        let message = |zero_copy, own_memory| copies(&Link { zero_copy, own_memory, ..Link::default() });
        assert_eq!(message(false, false), "the kernel copies each frame");
        let own = "; memory of its own, each frame is copied to the switch's and back";
        assert_eq!(message(true, true), format!("zero-copy{own}"));
        assert_eq!(message(false, true), format!("the kernel copies each frame{own}"));
    }

    #[test]
    fn warnings_are_shown_with_the_counters() {
        let now = sample::snapshot();
        let message = super::super::ports::table(&now, None);
        let lines: Vec<_> = message.lines().filter(|line| line.starts_with("Warning: on port")).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        Warning: on port spare received frames are merged: `ethtool -K enp3s0f1 lro off`.
        Warning: on port spare the NIC honors PAUSE frames: `ethtool -A enp3s0f1 rx off`.
        ");
    }
}
