//! The rows of a view that are asked for: of a port, of a priority, only what is not zero.

use anyhow::{Result, bail};
use clap::Args;
use control::command::no_port;
use control::v1::{Count, Group, PfcCount, Port, Priority, Queue, Snapshot};
use serde_json::Value;

/// The rows that are asked for.
#[derive(Args, Debug, Clone, Default, PartialEq, Eq)]
pub struct Select {
    /// Only this port.
    #[arg(long, value_name = "NAME")]
    pub port: Option<String>,
    /// Only this 802.1p priority, and the queue that it has on each port.
    #[arg(long, value_name = "0-7", value_parser = clap::value_parser!(u8).range(0..8))]
    pub priority: Option<u8>,
    /// Leave out ports, and in JSON rows, that counted nothing (also `-nz`).
    #[arg(long)]
    pub nonzero: bool,
}

impl Select {
    /// Returns the snapshot with the ports that are asked for. Groups, queues and priorities that
    /// are not are empty, as their place is their number.
    pub fn apply(&self, snapshot: &Snapshot) -> Result<Snapshot> {
        let mut snapshot = only(snapshot, self.port.as_deref())?;
        if self.nonzero {
            snapshot.ports.retain(has_counted);
        }
        if let Some(priority) = self.priority.map(usize::from) {
            snapshot.ports.iter_mut().for_each(|port| keep_priority(port, priority));
        }
        Ok(snapshot)
    }

    /// Removes the rows of lists in JSON that are not asked for.
    pub fn filter(&self, now: &Snapshot, document: &mut Value) {
        let Value::Object(lists) = document else { return };
        for list in lists.values_mut().filter_map(Value::as_array_mut) {
            list.retain(|row| self.has_priority(now, row) && (!self.nonzero || has_number(row)));
        }
    }

    /// True if a row is of the priority, or of none.
    fn has_priority(&self, now: &Snapshot, row: &Value) -> bool {
        let Some(priority) = self.priority else { return true };
        let number = |field: &str| row.get(field).and_then(Value::as_u64);
        if let Some(queue) = number("queue") {
            let port = now.ports.iter().find(|port| row["port"] == port.name.as_str());
            return port.is_some_and(|port| queue_of(port, priority.into()) as u64 == queue);
        }
        number("priority").is_none_or(|of| of == u64::from(priority))
    }
}

/// Returns the queue of a priority of a port.
pub fn queue_of(port: &Port, priority: usize) -> usize {
    port.priorities.get(priority).map_or(priority, |of| of.local_precedence as usize)
}

/// True for a group that a snapshot has, and that [`Select::apply`] has not emptied.
pub fn is_shown(group: &Group) -> bool {
    *group != Group::default()
}

fn keep_priority(port: &mut Port, priority: usize) {
    let queue = queue_of(port, priority);
    let others = |list: usize, kept: usize| (0..list).filter(move |&index| index != kept);
    others(port.groups.len(), priority).for_each(|index| port.groups[index] = Group::default());
    others(port.priorities.len(), priority).for_each(|index| port.priorities[index] = Priority::default());
    others(port.queues.len(), queue).for_each(|index| port.queues[index] = Queue::default());
    for count in [&mut port.pfc_sent, &mut port.pfc_received].into_iter().flatten() {
        for frames in [&mut count.xoff_frames, &mut count.xon_frames] {
            others(frames.len(), priority).for_each(|index| frames[index] = 0);
        }
    }
    port.storms.retain(|storm| storm.priority as usize == priority);
}

/// True if a port received, sent, dropped or lost anything.
fn has_counted(port: &Port) -> bool {
    let frames = |count: &Option<Count>| count.unwrap_or_default().frames;
    let pfc = |count: &Option<PfcCount>| count.as_ref().map_or(0, |count| count.frames);
    let kernel = port.kernel_counters();
    [
        frames(&port.received),
        frames(&port.transmitted),
        pfc(&port.pfc_received),
        pfc(&port.pfc_sent),
        port.pause_received_frames,
        port.pause_sent_frames,
        port.pfc_malformed_frames,
        port.kernel_lost_frames,
        kernel.rx_lost_frames(),
    ]
    .iter()
    .any(|&number| number > 0)
        || port.drops.values().any(|drops| drops.frames > 0)
}

/// Fields of a row that say what it is, or that are settings or limits.
const NO_COUNTERS: [&str; 22] = [
    "priority",
    "queue",
    "local_precedence",
    "pool",
    "number",
    "speed_bps",
    "overhead_bytes",
    "pvid",
    "mtu_bytes",
    "usage_percent",
    "threshold_cells",
    "allowed_cells",
    "guaranteed_cells",
    "reserved_size_cells",
    "headroom_size_cells",
    "size_cells",
    "pause_threshold_cells",
    "classification",
    "link",
    "dcbx",
    "max_entries",
    "core",
];

/// True if a counter of a row is not zero.
fn has_number(row: &Value) -> bool {
    match row {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| !NO_COUNTERS.contains(&name.as_str()) && has_number(value))
        }
        Value::Array(values) => values.iter().any(has_number),
        Value::Number(number) => number.as_f64() != Some(0.0),
        _ => false,
    }
}

/// Returns the snapshot with the port `name` only.
pub fn only(snapshot: &Snapshot, name: Option<&str>) -> Result<Snapshot> {
    let mut snapshot = snapshot.clone();
    retain_port(&mut snapshot.ports, name, |port| &port.name)?;
    Ok(snapshot)
}

/// Removes all ports except the one that a user named; without a name, none.
pub fn retain_port<P>(ports: &mut Vec<P>, name: Option<&str>, name_of: fn(&P) -> &String) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    if !ports.iter().any(|port| name_of(port) == name) {
        bail!(no_port(name, ports.iter().map(|port| name_of(port).as_str())));
    }
    ports.retain(|port| name_of(port) == name);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::json::Document;
    use crate::show::view::View;
    use crate::show_fixture as sample;

    #[test]
    fn a_port_is_chosen_by_name_and_an_unknown_one_is_answered_with_the_names() {
        let snapshot = sample::snapshot();
        let chosen = only(&snapshot, Some("uplink")).unwrap();
        assert_eq!(chosen.ports.len(), 1);
        assert_eq!(chosen.ports[0].name, "uplink");
        assert_eq!(only(&snapshot, None).unwrap(), snapshot);
        let unknown = only(&snapshot, Some("downlink")).unwrap_err().to_string();
        assert_eq!(unknown, "there is no port `downlink`; the ports are server1, uplink, spare");
    }

    /// Priority 0 has queue 2.
    #[test]
    fn a_priority_has_its_group_and_its_queue() {
        let select = Select { priority: Some(0), ..Select::default() };
        let now = select.apply(&sample::snapshot()).unwrap();
        let mut json = serde_json::to_value(Document::of(View::Counters, &now, None)).unwrap();
        select.filter(&now, &mut json);
        let of = |list: &str, field: &str| -> Vec<u64> {
            json[list].as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).collect()
        };
        assert_eq!((of("groups", "priority"), of("priorities", "priority")), (vec![0; 3], vec![0; 3]));
        assert_eq!((of("queues", "queue"), of("storms", "priority")), (vec![2; 3], vec![]));
        assert_eq!(json["ports"].as_array().unwrap().len(), 3);
    }

    /// Of the ports, "spare" lost frames in its kernel and did nothing else.
    #[test]
    fn rows_without_counts_are_left_out() {
        let select = Select { nonzero: true, ..Select::default() };
        let mut now = sample::snapshot();
        now.ports[2].kernel.as_mut().unwrap().rx_dropped_frames = 0;
        let now = select.apply(&now).unwrap();
        let mut json = serde_json::to_value(Document::of(View::Counters, &now, None)).unwrap();
        select.filter(&now, &mut json);
        let found = |list: &str, field: &str| -> Vec<String> {
            json[list]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| format!("{} {}", row["port"].as_str().unwrap(), row[field]))
                .collect()
        };
        assert_eq!(now.ports.len(), 2);
        assert_eq!(found("queues", "queue"), ["server1 2", "uplink 2", "uplink 3"]);
        assert_eq!(found("groups", "priority"), ["server1 0", "server1 3"]);
    }
}
