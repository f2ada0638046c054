//! `sluice show lldp`: what the ports do with LLDP, and how many frames they sent and received.

use control::v1::{LldpPort, LldpPorts};

use crate::show::format::{self, grouped};

/// Formats the ports as a table, and the last malformed frame of each.
pub fn table(ports: &LldpPorts) -> String {
    let headings =
        ["Port", "Mode", "Sent", "Read", "Lost", "Mal-\nformed", "Neigh-\nbors", "Gone", "No room"];
    let mut table = format::table(&headings, 2);
    for LldpPort { name, state, .. } in &ports.ports {
        let state = state.clone().unwrap_or_default();
        let numbers = [
            state.sent_frames,
            state.read_frames,
            state.lost_frames,
            state.malformed_frames + state.malformed_tlvs,
            state.neighbors.into(),
            state.neighbors_shut_down + state.neighbors_aged_out,
            state.excess_frames,
        ];
        table.add_row([name.clone(), state.mode].into_iter().chain(numbers.map(grouped)));
    }
    let errors = ports.ports.iter().filter_map(|port| {
        Some(format!("{}: last malformed: {}", port.name, port.state.as_ref()?.last_error.as_ref()?))
    });
    let parts: Vec<String> = std::iter::once(table.trim_fmt()).chain(errors).collect();
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::sample;

    #[test]
    fn table_of_ports() {
        let text = super::table(&sample::ports());
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        insta::assert_snapshot!(text);
    }
}
