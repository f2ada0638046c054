//! The names in JSON, as `sluice show --help` lists them.

/// Lines of at most 99 characters: clap would break longer ones at 100.
pub const FIELDS: &str = "\
Counters count since the daemon started; lengths are without FCS. A table leaves out what is all
zero, JSON never does.

Peaks are the most there ever was, to the cell: since the last read (peak_read), since `sluice
clear watermarks` (peak_clear), and since the start (peak). Tables have the first. `show buffers`
reads all of them, of every port, queue and pool; the other views only look.

Names in JSON are snake_case with the unit last and stay what they are:

ports    at_ns, bridge_entries, bridge_full_frames, flood_copies_frames, memory_frames,
         memory_free_frames, memory_in_rings_frames, loop_turns, loop_worst_stall_ns, events_lost,
         ports[]: port, interface, up, held, speed_bps (0: none), xdp_mode, vlan_tags_restored,
           received_frames, received_bytes, received_yellow_frames, received_red_frames,
           transmitted_frames, transmitted_bytes, consumed_frames, consumed_bytes,
           drops.REASON.frames, drops.REASON.bytes, in_flight_peak_bytes,
           utilization_percent (with --watch or --rates, of a port with a speed),
           kernel: rx_fill_ring_empty_frames, rx_ring_full_frames, rx_dropped_frames,
           rx_invalid_frames, tx_invalid_frames, tx_kicks, tx_again, tx_busy, tx_no_buffers,
           tx_down
         REASON: malformed, bad_source, reserved_address, filtered, ingress_lossy,
           ingress_no_drop, tail_drop, wred, no_copy, port_down, kernel_lost
congestion  at_ns, cell_bytes, queues[]: port, queue, waiting_frames, average_cells,
           forwarded_frames, forwarded_bytes, forwarded_pps, forwarded_bps (both with --watch or
           --rates), marked_frames, marked_bytes, tail_dropped_frames, tail_dropped_bytes,
           wred_dropped[]: level (green, yellow, red), frames, bytes
queues   at_ns, cell_bytes, queues[]: port, queue, held (the port), paused, pauses, paused_ns,
           pool, held_cells, held_peak_read_cells, held_peak_clear_cells, held_peak_cells,
           guaranteed_cells, threshold_cells (null: none), is_dynamic, violations,
           waiting_frames, transmitted_frames, transmitted_bytes, dropped_frames, dropped_bytes
buffers  at_ns, cell_bytes, pools[]: pool (ingress_0 to ingress_3, egress_0 to egress_3,
           headroom), used_cells, used_peak_read_cells, used_peak_clear_cells, used_peak_cells,
           size_cells
         groups[]: port, priority, no_drop, pool, xoff, xoff_episodes, reserved_cells,
           reserved_size_cells, shared_cells, shared_peak_read_cells, shared_peak_clear_cells,
           shared_peak_cells, threshold_cells, is_dynamic, headroom_cells,
           headroom_peak_read_cells, headroom_peak_clear_cells, headroom_peak_cells,
           headroom_size_cells, total_cells, total_peak_read_cells, total_peak_clear_cells,
           total_peak_cells, violations, received_frames, received_bytes, dropped_frames,
           dropped_bytes
pfc      at_ns, pfc_enabled, ports[]: port, received_frames, sent_frames, malformed_frames,
           pause_received_frames, priorities[]: priority, no_drop, xoff, xoff_episodes,
           sent_xoff_frames, sent_xon_frames, received_xoff_frames, received_xon_frames

A threshold is the limit of shared cells as it stands; a dynamic one moves with the free cells of
its pool. Violations count how often use rose above the usage threshold.

Once a switch is idle, over all its ports: received + flood copies = transmitted + consumed +
drops.";

#[cfg(test)]
mod tests {
    use super::super::{View, json, sample};
    use super::*;
    use clap::ValueEnum;

    /// The names in JSON are an interface: nothing disappears or changes its name unnoticed.
    #[test]
    fn every_field_of_the_json_is_named() {
        fn names(value: &serde_json::Value, found: &mut Vec<String>) {
            match value {
                serde_json::Value::Object(map) => {
                    for (name, value) in map {
                        found.push(name.clone());
                        names(value, found);
                    }
                }
                serde_json::Value::Array(values) => values.iter().for_each(|value| names(value, found)),
                _ => {}
            }
        }
        assert!(FIELDS.lines().all(|line| line.chars().count() <= 99), "wrapped lines are hard to read");
        let words: Vec<&str> = FIELDS.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        for view in View::value_variants() {
            let mut found = Vec::new();
            let text = json(*view, &sample::later(), Some(&sample::snapshot()), false).unwrap();
            names(&serde_json::from_str(&text).unwrap(), &mut found);
            for name in found {
                assert!(words.contains(&name.as_str()), "{view:?}: {name} is not in the help");
            }
        }
    }
}
