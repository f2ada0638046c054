//! An example of each path's report, for `sluice telemetry paths` and for tests.

use config::SensorPath;
use control::v1::{ByDropLevel, Count, Event, Group, Level, PfcCount, Pool, Port, Priority, Queue, Snapshot};

use crate::dial_out::event;
use crate::dial_out::message::{Device, Payload, SequenceLabel};
use crate::dial_out::sample;

/// Returns `jsonData` as in the path's messages.
pub fn example(path: SensorPath) -> String {
    let alarm = if path == SensorPath::PortQueDropEvent { drop_alarm() } else { use_alarm() };
    let member = event::report(path, &alarm)
        .or_else(|| sample::report(path, &later(), Some(&sample())))
        .expect("each path reports something of these");
    let unix_ms = 1_790_000_000_000;
    let payload = Payload { path: path.name(), unix_ms, member, is_event: path.is_event() };
    let device = Device { name: String::new(), version: String::new() };
    let label = SequenceLabel { session: "1789999000000.0", number: Some(1) };
    payload.messages(&device, label, 4 << 20).remove(0).json_data
}

/// An event of buffer use above its threshold.
pub(crate) fn use_alarm() -> Event {
    alarm(
        "use_alarm",
        &[("alarm_type", 1), ("cells", 930), ("allowed_cells", 1000), ("percent", 90), ("crossings", 4)],
    )
}

/// An event of drops above their threshold.
pub(crate) fn drop_alarm() -> Event {
    alarm("drop_alarm", &[("alarm_type", 1), ("frames", 12), ("bytes", 12_000)])
}

fn alarm(kind: &str, values: &[(&str, u64)]) -> Event {
    Event {
        number: 41,
        at_ns: 2_000_000_000,
        unix_ns: 1_790_000_000_000_000_000,
        kind: kind.to_owned(),
        severity: "warning".to_owned(),
        port: Some("server1".to_owned()),
        port_number: Some(1),
        priority: Some(3),
        queue: None,
        values: values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        message: "an alarm".to_owned(),
    }
}

fn level(cells: u32) -> Option<Level> {
    Some(Level { cells, peak_read_cells: cells + 1, peak_clear_cells: cells + 2, peak_cells: cells + 3 })
}

fn count(frames: u64) -> Option<Count> {
    Some(Count { frames, bytes: frames * 1000 })
}

/// A switch of two ports, with a different number in every field.
pub(crate) fn sample() -> Snapshot {
    let ports = [("server1", 1), ("server2", 2)].map(|(name, number)| port(name, number)).to_vec();
    let pool = |size_cells| Pool { level: level(10), size_cells, ..Pool::default() };
    Snapshot {
        at_ns: 1_000_000_000,
        ports,
        ingress_pools: vec![pool(100_000), pool(0), pool(0), pool(0)],
        egress_pools: vec![pool(100_000), pool(0), pool(0), pool(0)],
        headroom: Some(pool(12_288)),
        cell_bytes: 256,
        ..Snapshot::default()
    }
}

/// The same switch two seconds later: more PFC frames have been counted.
pub(crate) fn later() -> Snapshot {
    let mut now = sample();
    now.at_ns = 3_000_000_000;
    for port in &mut now.ports {
        for counts in [&mut port.pfc_sent, &mut port.pfc_received].into_iter().flatten() {
            counts.xoff_frames[3] += 400;
            counts.xon_frames[3] += 201;
        }
    }
    now
}

fn port(name: &str, number: u32) -> Port {
    let base = (number - 1) * 1000;
    let wide = u64::from(base);
    Port {
        name: name.to_owned(),
        number,
        up: true,
        drops: [
            ("malformed", 1),
            ("filtered", 2),
            ("ingress_lossy", 4),
            ("tail_drop", 8),
            ("wred", 16),
            ("port_down", 32),
            ("mtu_exceeded", 64),
        ]
        .into_iter()
        .map(|(reason, frames)| (reason.to_owned(), Count { frames, bytes: frames * 64 }))
        .collect(),
        input_dropped: Some(Count { frames: 1_000_000, bytes: 64_000_000 }),
        output_dropped: Some(Count { frames: 20_000, bytes: 20_000_000 }),
        pfc_sent: Some(pfc(wide + 100)),
        pfc_received: Some(pfc(wide + 200)),
        groups: (0..8).map(|priority| group(base + priority)).collect(),
        queues: (0..8).map(|number| queue(base + number)).collect(),
        priorities: (0..8).map(|number| priority(wide + number)).collect(),
        ..Port::default()
    }
}

fn pfc(base: u64) -> PfcCount {
    PfcCount {
        frames: base,
        xoff_frames: (0..8).map(|priority| base + priority).collect(),
        xon_frames: (0..8).collect(),
    }
}

fn group(base: u32) -> Group {
    Group {
        reserved_size_cells: 17,
        shared: level(base + 40),
        headroom: level(base + 60),
        headroom_size_cells: 100,
        total: level(base + 100),
        threshold_cells: 1000,
        violations: u64::from(base) + 300,
        dropped: count(u64::from(base) + 400),
        ..Group::default()
    }
}

fn queue(base: u32) -> Queue {
    Queue {
        level: level(base + 500),
        guaranteed_cells: 20,
        waiting_frames: u64::from(base) + 600,
        flooded_frames: u64::from(base) + 30,
        threshold_cells: base.is_multiple_of(2).then_some(2000),
        violations: u64::from(base) + 700,
        transmitted: count(u64::from(base) + 800),
        dropped: count(u64::from(base) + 900),
        marked: count(u64::from(base) + 50),
        wred_dropped: Some(ByDropLevel { green: count(1), yellow: count(2), red: count(4) }),
        ..Queue::default()
    }
}

fn priority(base: u64) -> Priority {
    Priority { storms: base + 700, storms_restored: base + 600, ..Priority::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_an_example_that_is_json() {
        for path in SensorPath::ALL {
            let text = example(path);
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["Notification"]["Timestamp"], "1790000000000", "{text}");
        }
    }
}
