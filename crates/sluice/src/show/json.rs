//! The JSON of `sluice show`: the messages of the API, in rows, so that a name is the same in every
//! view and in the proto file. Only values that need two snapshots (rates, utilization) are added
//! here.

use control::v1::{Count, Group, Pool, Port, Priority, Queue, Snapshot, Storm};
use schemars::JsonSchema;
use serde::Serialize;

use super::drops::{self, DropRow, Summary};
use super::format::{earlier, elapsed_ns, per_second, utilization_percent};
use super::view::View;
use super::vlans;

/// Output of a view: the numbers of the whole switch, and the lists of the view.
#[derive(Serialize, JsonSchema)]
pub struct Document<'a> {
    #[serde(flatten)]
    switch: &'a Snapshot,
    /// When this user cleared the counters, as `at_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleared_at_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<PortRow<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<QueueRow<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<GroupRow<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priorities: Option<Vec<PriorityRow<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storms: Option<Vec<StormRow<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pools: Option<Vec<PoolRow<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop_summary: Option<Summary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drops: Option<Vec<DropRow<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlans: Option<Vec<vlans::Row>>,
}

/// Counters and rates of one of the switch's ports.
#[derive(Serialize, JsonSchema)]
pub struct PortRow<'a> {
    #[serde(flatten)]
    counts: &'a Port,
    #[serde(skip_serializing_if = "Option::is_none")]
    utilization_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    received_utilization_percent: Option<f64>,
    #[serde(flatten)]
    rates: Option<Rates>,
}

/// What a port carries each second, from two snapshots.
#[derive(Serialize, JsonSchema)]
pub struct Rates {
    received_pps: u64,
    received_bps: u64,
    transmitted_pps: u64,
    transmitted_bps: u64,
    received_broadcast_pps: u64,
    received_multicast_pps: u64,
    transmitted_broadcast_pps: u64,
    transmitted_multicast_pps: u64,
}

/// Row of an egress queue, with its port.
#[derive(Serialize, JsonSchema)]
pub struct QueueRow<'a> {
    port: &'a str,
    queue: usize,
    held: bool,
    #[serde(flatten)]
    counts: &'a Queue,
    #[serde(skip_serializing_if = "Option::is_none")]
    transmitted_pps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transmitted_bps: Option<u64>,
}

/// Row of a priority group, with its port.
#[derive(Serialize, JsonSchema)]
pub struct GroupRow<'a> {
    port: &'a str,
    priority: usize,
    #[serde(flatten)]
    counts: &'a Group,
}

/// Row of a priority's PFC state, with its port.
#[derive(Serialize, JsonSchema)]
pub struct PriorityRow<'a> {
    port: &'a str,
    priority: usize,
    #[serde(flatten)]
    counts: &'a Priority,
}

/// Row of a PFC storm, with its port.
#[derive(Serialize, JsonSchema)]
pub struct StormRow<'a> {
    port: &'a str,
    #[serde(flatten)]
    storm: &'a Storm,
}

/// Row of a buffer pool, with its name.
#[derive(Serialize, JsonSchema)]
pub struct PoolRow<'a> {
    name: String,
    #[serde(flatten)]
    counts: &'a Pool,
}

impl<'a> Document<'a> {
    /// Returns the output of `view` for a snapshot; rates need the one before.
    pub fn of(view: View, now: &'a Snapshot, before: Option<&Snapshot>) -> Self {
        let everything = view == View::Counters;
        Self {
            switch: now,
            cleared_at_ns: None,
            ports: (everything
                || matches!(view, View::Ports | View::Drops | View::Pfc | View::Cores)
                || view.is_rate())
            .then(|| ports(now, before)),
            vlans: (view == View::Vlan).then(|| vlans::rows(now)),
            queues: (everything
                || matches!(view, View::Queues | View::Congestion | View::Buffers | View::Utilization))
            .then(|| queues(now, before)),
            groups: (everything || matches!(view, View::Buffers | View::Pfc | View::Utilization))
                .then(|| groups(now)),
            priorities: (everything || view == View::Pfc).then(|| priorities(now)),
            storms: (everything || view == View::Pfc).then(|| storms(now)),
            pools: (everything || matches!(view, View::Buffers | View::Utilization)).then(|| {
                let pools = pools(now);
                pools.into_iter().map(|(name, counts)| PoolRow { name, counts }).collect()
            }),
            drop_summary: (view == View::Drops).then(|| drops::summary(now)),
            drops: (view == View::Drops).then(|| drops::rows(now)),
        }
    }
}

fn ports<'a>(now: &'a Snapshot, before: Option<&Snapshot>) -> Vec<PortRow<'a>> {
    let elapsed_ns = elapsed_ns(now, before);
    let row = |port: &'a Port| {
        let before = earlier(before, &port.name);
        PortRow {
            counts: port,
            utilization_percent: utilization_percent(port, before, elapsed_ns, |port| port.transmitted),
            received_utilization_percent: utilization_percent(port, before, elapsed_ns, |port| port.received),
            rates: before.and_then(|before| rates(port, before, elapsed_ns)),
        }
    };
    now.ports.iter().map(row).collect()
}

fn rates(port: &Port, before: &Port, elapsed_ns: u64) -> Option<Rates> {
    let of = |now: Option<Count>, before: Option<Count>| {
        let [now, before] = [now, before].map(Option::unwrap_or_default);
        let bps = per_second(now.bytes, before.bytes, elapsed_ns)?.saturating_mul(8);
        Some((per_second(now.frames, before.frames, elapsed_ns)?, bps))
    };
    let (received_pps, received_bps) = of(port.received, before.received)?;
    let (transmitted_pps, transmitted_bps) = of(port.transmitted, before.transmitted)?;
    let frames = |of: fn(&Port) -> u64| per_second(of(port), of(before), elapsed_ns);
    Some(Rates {
        received_pps,
        received_bps,
        transmitted_pps,
        transmitted_bps,
        received_broadcast_pps: frames(|port| port.received_broadcast_frames)?,
        received_multicast_pps: frames(|port| port.received_multicast_frames)?,
        transmitted_broadcast_pps: frames(|port| port.transmitted_broadcast_frames)?,
        transmitted_multicast_pps: frames(|port| port.transmitted_multicast_frames)?,
    })
}

fn queues<'a>(now: &'a Snapshot, before: Option<&Snapshot>) -> Vec<QueueRow<'a>> {
    let elapsed_ns = elapsed_ns(now, before);
    let rows = |port: &'a Port| {
        let earlier = earlier(before, &port.name);
        port.queues.iter().enumerate().map(move |(number, queue)| {
            let transmitted =
                |queue: Option<&Queue>| queue.and_then(|queue| queue.transmitted).unwrap_or_default();
            let before: Count = transmitted(earlier.and_then(|port| port.queues.get(number)));
            let now = transmitted(Some(queue));
            QueueRow {
                port: &port.name,
                queue: number,
                held: port.held,
                counts: queue,
                transmitted_pps: per_second(now.frames, before.frames, elapsed_ns),
                transmitted_bps: per_second(8 * now.bytes, 8 * before.bytes, elapsed_ns),
            }
        })
    };
    now.ports.iter().flat_map(rows).collect()
}

fn groups(now: &Snapshot) -> Vec<GroupRow<'_>> {
    let mut rows = Vec::new();
    for port in &now.ports {
        let groups = port.groups.iter().enumerate();
        rows.extend(groups.map(|(priority, counts)| GroupRow { port: &port.name, priority, counts }));
    }
    rows
}

fn priorities(now: &Snapshot) -> Vec<PriorityRow<'_>> {
    let mut rows = Vec::new();
    for port in &now.ports {
        let priorities = port.priorities.iter().enumerate();
        rows.extend(priorities.map(|(priority, counts)| PriorityRow { port: &port.name, priority, counts }));
    }
    rows
}

fn storms(now: &Snapshot) -> Vec<StormRow<'_>> {
    let mut rows = Vec::new();
    for port in &now.ports {
        rows.extend(port.storms.iter().map(|storm| StormRow { port: &port.name, storm }));
    }
    rows
}

/// Returns all pools by name.
pub fn pools(snapshot: &Snapshot) -> Vec<(String, &Pool)> {
    let ingress = snapshot.ingress_pools.iter().enumerate().map(|(n, pool)| (format!("ingress_{n}"), pool));
    let egress = snapshot.egress_pools.iter().enumerate().map(|(n, pool)| (format!("egress_{n}"), pool));
    let headroom = snapshot.headroom.iter().map(|pool| ("headroom".to_owned(), pool));
    ingress.chain(egress).chain(headroom).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;
    use serde_json::{Value, json, to_value};

    fn document(view: View, now: &Snapshot, before: Option<&Snapshot>) -> Value {
        to_value(Document::of(view, now, before)).unwrap()
    }

    /// All names and their nesting, which are an interface for scripts.
    #[test]
    fn one_of_each() {
        let (before, now) = (sample::snapshot(), sample::later());
        let mut all = document(View::Counters, &now, Some(&before));
        for (list, keep) in
            [("ports", 0), ("queues", 10), ("groups", 3), ("priorities", 11), ("storms", 0), ("pools", 0)]
        {
            all[list] = json!([all[list][keep]]);
        }
        insta::assert_snapshot!(serde_json::to_string_pretty(&all).unwrap());
    }

    #[test]
    fn views_have_their_lists_and_each_a_row_of_everything() {
        let now = sample::snapshot();
        // Two reasons are on both sides, and the kernel loses data and PFC on transmission.
        let on_both = switch::DropReason::ALL
            .iter()
            .filter(|reason| reason.side() == switch::monitor::counters::DropSide::Both)
            .count();
        let reasons =
            switch::DropReason::ALL.len() + on_both + switch::monitor::counters::kernel::RX_LOSSES.len() + 2;
        for (view, lists) in [
            (View::Ports, [3, 0, 0, 0, 0, 0, 0]),
            (View::Drops, [3, 0, 0, 0, 0, 0, 3 * reasons]),
            (View::Congestion, [0, 24, 0, 0, 0, 0, 0]),
            (View::Queues, [0, 24, 0, 0, 0, 0, 0]),
            (View::Buffers, [0, 24, 24, 0, 0, 9, 0]),
            (View::Pfc, [3, 0, 24, 24, 2, 0, 0]),
            (View::Counters, [3, 24, 24, 24, 2, 9, 0]),
        ] {
            let json = document(view, &now, None);
            let names = ["ports", "queues", "groups", "priorities", "storms", "pools", "drops"];
            let found = names.map(|list| json[list].as_array().map_or(0, Vec::len));
            assert_eq!(found, lists, "{view:?}");
            assert_eq!(json["at_ns"], 10_000_000_000_u64);
        }
    }

    /// Rows 189 and 192 of the table of vendor specifications, in JSON.
    #[test]
    fn the_summary_of_drops() {
        let json = document(View::Drops, &sample::snapshot(), None);
        let tail = json!({"frames": 399_412, "bytes": 549_191_500});
        let summary = &json["drop_summary"];
        assert_eq!((&summary["output_dropped"], &summary["output_buffer_dropped"]), (&tail, &tail));
        assert_eq!(
            (&summary["input_dropped"]["frames"], &summary["marked"]["frames"]),
            (&json!(9), &json!(1_212))
        );
        assert_eq!(summary["kernel_lost_frames"], 7);
        let row = json!({
            "port": "server1", "side": "output", "reason": "tail_drop", "frames": 399_412, "bytes": 549_191_500
        });
        assert!(json["drops"].as_array().unwrap().contains(&row), "{}", json["drops"]);
    }

    #[test]
    fn two_samples_give_rates() {
        let json = document(View::Queues, &sample::later(), Some(&sample::snapshot()));
        let queue = &json["queues"][11];
        assert_eq!((&queue["port"], &queue["queue"]), (&json!("uplink"), &json!(3)));
        assert_eq!(queue["transmitted_pps"], (297_500 - 247_917) / 2);
        assert_eq!(queue["transmitted_bps"], (450_000_000_u64 - 375_000_000) * 8 / 2);
        let json = document(View::Rates, &sample::later(), Some(&sample::snapshot()));
        let [server1, uplink] = [0, 1].map(|port| &json["ports"][port]);
        assert_eq!(
            (&server1["received_broadcast_pps"], &server1["received_multicast_pps"]),
            (&json!(250), &json!(4))
        );
        assert_eq!(
            (&uplink["transmitted_broadcast_pps"], &uplink["transmitted_multicast_pps"]),
            (&json!(249), &json!(3))
        );
    }

    #[test]
    fn no_limit_is_null() {
        let json = document(View::Queues, &sample::snapshot(), None);
        assert!(json["queues"][11]["threshold_cells"].is_null());
        assert_eq!(json["queues"][10]["threshold_cells"], 640);
    }
}
