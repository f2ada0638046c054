//! Reports of the periodic paths: a snapshot as the JSON that collectors expect, a row for each
//! port.
//!
//! Rule: numbers are those of `sluice show --json` taken at the same instant: cells, except where a
//! name ends in `InBytes`, frames and bytes of frames. Values by priority or queue are a string
//! that holds an array of eight. Source: docs/monitoring/telemetry.md, "Paths".

use std::fmt::Write;
use std::sync::Arc;

use config::SensorPath;
use control::v1::{Count, Group, Level, PfcCount, Pool, Port, Priority, Queue, Snapshot};
use serde::{Serialize, Serializer};

use crate::dial_out::message::member;

/// Eight numbers, by priority or queue, as a string that holds a JSON array.
struct PerPriority(Vec<u64>);

impl Serialize for PerPriority {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::from("[");
        for (index, number) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(text, "{comma}{number}").expect("a string takes all");
        }
        serializer.serialize_str(&(text + "]"))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct BufferUsage<'s> {
    if_index: usize,
    if_name: &'s str,
    ingress_used: PerPriority,
    unicast_used: PerPriority,
    /// Always 0: all queues count as unicast queues.
    multicast_used: PerPriority,
    ingress_total: PerPriority,
    egress_total: PerPriority,
    ingress_threshold: PerPriority,
    egress_threshold: PerPriority,
    ingress_peak: PerPriority,
    unicast_peak: PerPriority,
    multicast_peak: PerPriority,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct HeadroomUsage<'s> {
    if_index: usize,
    if_name: &'s str,
    headroom_used: PerPriority,
    headroom_total: PerPriority,
    headroom_peak: PerPriority,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct CommBufferUsage<'s> {
    if_index: usize,
    if_name: &'s str,
    in_que_len: PerPriority,
    in_que_len_in_bytes: PerPriority,
    out_que_len: PerPriority,
    out_que_len_in_bytes: PerPriority,
    in_interval_peak: PerPriority,
    out_interval_peak: PerPriority,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct CommHeadroomUsage<'s> {
    if_index: usize,
    if_name: &'s str,
    headroom_que_len: PerPriority,
    headroom_que_len_in_bytes: PerPriority,
    headroom_interval_peak: PerPriority,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PfcStatistic<'s> {
    if_index: usize,
    if_name: &'s str,
    pfc_send: PerPriority,
    pfc_recv: PerPriority,
    /// 0 until there is a watchdog that counts them.
    pfc_deadlock_counters: PerPriority,
    pfc_deadlock_recover_counters: PerPriority,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PfcSpeed<'s> {
    if_index: usize,
    if_name: &'s str,
    pfc_in_pps: PerPriority,
    pfc_out_pps: PerPriority,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct EcnAndWredStatistic<'s> {
    if_index: usize,
    if_name: &'s str,
    ecn_marked: PerPriority,
    wred_dropped: PerPriority,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct IngressDrop<'s> {
    if_index: usize,
    if_name: &'s str,
    no_buffer_pkts: PerPriority,
    no_buffer_bytes: PerPriority,
    other_dropped_pkts: u64,
    other_dropped_bytes: u64,
    kernel_dropped_pkts: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct EgressDrop<'s> {
    if_index: usize,
    if_name: &'s str,
    unicast_dropped_pkts: PerPriority,
    unicast_dropped_bytes: PerPriority,
    multicast_dropped_pkts: PerPriority,
    multicast_dropped_bytes: PerPriority,
    dropped_pkts: u64,
    dropped_bytes: u64,
    kernel_lost_pkts: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct OverLimitCounter<'s> {
    if_index: usize,
    if_name: &'s str,
    ingress_over_limit: PerPriority,
    egress_over_limit: PerPriority,
    headroom_over_limit: PerPriority,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct XpeUsage {
    xpe: u8,
    total_cells: u64,
    used_cells: u64,
    used_ratio: f64,
    shared_used_cells: u64,
    headroom_used_cells: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Statistics<'s> {
    if_index: usize,
    if_name: &'s str,
    que_index: usize,
    pass_pkts: u64,
    pass_bytes: u64,
    drop_pkts: u64,
    drop_bytes: u64,
    que_len_in_pkts: u64,
}

/// Returns the report of `now` on `path`; rates are since `before`, without which there are none.
/// `None` if there is nothing to report yet, or if it is an event path.
pub fn report(path: SensorPath, now: &Snapshot, before: Option<&Snapshot>) -> Option<Arc<str>> {
    let cell = u64::from(now.cell_bytes);
    Some(match path {
        SensorPath::BufferUsages => buffer("BufferUsages", "BufferUsage", rows(now, buffer_usage)),
        SensorPath::HeadroomUsages => buffer("HeadroomUsages", "HeadroomUsage", rows(now, headroom_usage)),
        SensorPath::CommBufferUsages => {
            let row = |index, port| comm_buffer_usage(index, port, cell);
            buffer("CommBufferUsages", "CommBufferUsage", rows(now, row))
        }
        SensorPath::CommHeadroomUsages => {
            let row = |index, port| comm_headroom_usage(index, port, cell);
            buffer("CommHeadroomUsages", "CommHeadroomUsage", rows(now, row))
        }
        SensorPath::PfcStatistics => buffer("PFCStatistics", "PFCStatistic", rows(now, pfc_statistic)),
        SensorPath::PfcSpeeds => buffer("PFCSpeeds", "PFCSpeed", pfc_speeds(now, before?)?),
        SensorPath::EcnAndWredStatistics => {
            buffer("EcnAndWredStatistics", "EcnAndWredStatistic", rows(now, ecn_and_wred))
        }
        SensorPath::IngressDrops => buffer("IngressDrops", "IngressDrop", rows(now, ingress_drop)),
        SensorPath::EgressDrops => buffer("EgressDrops", "EgressDrop", rows(now, egress_drop)),
        SensorPath::OverLimitCounters => {
            buffer("OverLimitCounters", "OverLimitCounter", rows(now, over_limit))
        }
        SensorPath::XpeUsages => buffer("XpeUsages", "XpeUsage", vec![xpe_usage(now)]),
        SensorPath::QueueStat => {
            let rows: Vec<_> = rows(now, statistics).into_iter().flatten().collect();
            member("QSTAT", "QueueStat", "Statistics", &rows)
        }
        SensorPath::PortQueOverrunEvent | SensorPath::PortQueDropEvent | SensorPath::Events => return None,
    })
}

fn buffer<T: Serialize>(container: &str, row: &str, rows: Vec<T>) -> Arc<str> {
    member("BufferMonitor", container, row, &rows)
}

/// Returns a row for each port. An interface has the number of its port, which it keeps while it
/// exists.
fn rows<'s, T>(now: &'s Snapshot, row: impl Fn(usize, &'s Port) -> T) -> Vec<T> {
    now.ports.iter().map(|port| row(port.number as usize, port)).collect()
}

fn of_groups(port: &Port, number: impl Fn(&Group) -> u64) -> PerPriority {
    PerPriority(port.groups.iter().map(number).collect())
}

fn of_queues(port: &Port, number: impl Fn(&Queue) -> u64) -> PerPriority {
    PerPriority(port.queues.iter().map(number).collect())
}

/// Zeros for a field that a switch of this kind does not distinguish.
fn none(port: &Port) -> PerPriority {
    of_queues(port, |_| 0)
}

fn of_priorities(port: &Port, number: impl Fn(&Priority) -> u64) -> PerPriority {
    PerPriority(port.priorities.iter().map(number).collect())
}

fn level(level: &Option<Level>) -> Level {
    level.unwrap_or_default()
}

fn count(count: &Option<Count>) -> Count {
    count.unwrap_or_default()
}

fn buffer_usage(if_index: usize, port: &Port) -> BufferUsage<'_> {
    // A queue without a limit may take all of its pool, so there is no number to report.
    let limit = |queue: &Queue| queue.threshold_cells.map_or(0, u64::from);
    BufferUsage {
        if_index,
        if_name: &port.name,
        ingress_used: of_groups(port, |group| level(&group.total).cells.into()),
        unicast_used: of_queues(port, |queue| level(&queue.level).cells.into()),
        multicast_used: none(port),
        ingress_total: of_groups(port, |group| {
            [group.reserved_size_cells, group.threshold_cells, group.headroom_size_cells]
                .into_iter()
                .map(u64::from)
                .sum()
        }),
        egress_total: of_queues(port, |queue| u64::from(queue.guaranteed_cells) + limit(queue)),
        ingress_threshold: of_groups(port, |group| group.threshold_cells.into()),
        egress_threshold: of_queues(port, limit),
        ingress_peak: of_groups(port, |group| level(&group.total).peak_clear_cells.into()),
        unicast_peak: of_queues(port, |queue| level(&queue.level).peak_clear_cells.into()),
        multicast_peak: none(port),
    }
}

fn headroom_usage(if_index: usize, port: &Port) -> HeadroomUsage<'_> {
    HeadroomUsage {
        if_index,
        if_name: &port.name,
        headroom_used: of_groups(port, |group| level(&group.headroom).cells.into()),
        headroom_total: of_groups(port, |group| group.headroom_size_cells.into()),
        headroom_peak: of_groups(port, |group| level(&group.headroom).peak_clear_cells.into()),
    }
}

fn comm_buffer_usage(if_index: usize, port: &Port, cell: u64) -> CommBufferUsage<'_> {
    let (inward, outward) =
        (|group: &Group| level(&group.total).cells.into(), |queue: &Queue| level(&queue.level).cells.into());
    CommBufferUsage {
        if_index,
        if_name: &port.name,
        in_que_len: of_groups(port, inward),
        in_que_len_in_bytes: of_groups(port, |group| cell * inward(group)),
        out_que_len: of_queues(port, outward),
        out_que_len_in_bytes: of_queues(port, |queue| cell * outward(queue)),
        in_interval_peak: of_groups(port, |group| level(&group.total).peak_read_cells.into()),
        out_interval_peak: of_queues(port, |queue| level(&queue.level).peak_read_cells.into()),
    }
}

fn comm_headroom_usage(if_index: usize, port: &Port, cell: u64) -> CommHeadroomUsage<'_> {
    CommHeadroomUsage {
        if_index,
        if_name: &port.name,
        headroom_que_len: of_groups(port, |group| level(&group.headroom).cells.into()),
        headroom_que_len_in_bytes: of_groups(port, |group| cell * u64::from(level(&group.headroom).cells)),
        headroom_interval_peak: of_groups(port, |group| level(&group.headroom).peak_read_cells.into()),
    }
}

/// Returns the PFC frames that named each priority, to pause it or to release it.
fn pfc_frames(counts: &Option<PfcCount>) -> Vec<u64> {
    let Some(counts) = counts else { return vec![0; 8] };
    counts.xoff_frames.iter().zip(&counts.xon_frames).map(|(xoff, xon)| xoff + xon).collect()
}

fn pfc_statistic(if_index: usize, port: &Port) -> PfcStatistic<'_> {
    PfcStatistic {
        if_index,
        if_name: &port.name,
        pfc_send: PerPriority(pfc_frames(&port.pfc_sent)),
        pfc_recv: PerPriority(pfc_frames(&port.pfc_received)),
        pfc_deadlock_counters: of_priorities(port, |priority| priority.storms),
        pfc_deadlock_recover_counters: of_priorities(port, |priority| priority.storms_restored),
    }
}

fn pfc_speeds<'s>(now: &'s Snapshot, before: &Snapshot) -> Option<Vec<PfcSpeed<'s>>> {
    let passed_ns = now.at_ns.checked_sub(before.at_ns).filter(|&passed| passed > 0)?;
    let speed = |now: &Option<PfcCount>, before: &Option<PfcCount>| {
        let frames = pfc_frames(now).into_iter().zip(pfc_frames(before));
        let pps = |frames: u64| {
            let rounded =
                (u128::from(frames) * 1_000_000_000 + u128::from(passed_ns / 2)) / u128::from(passed_ns);
            u64::try_from(rounded).unwrap_or(u64::MAX)
        };
        PerPriority(frames.map(|(now, before)| pps(now.saturating_sub(before))).collect())
    };
    let row = |if_index: usize, port: &'s Port| {
        let before = before.ports.iter().find(|before| before.name == port.name)?;
        Some(PfcSpeed {
            if_index,
            if_name: &port.name,
            pfc_in_pps: speed(&port.pfc_received, &before.pfc_received),
            pfc_out_pps: speed(&port.pfc_sent, &before.pfc_sent),
        })
    };
    // A port that was added since has no rate yet.
    Some(rows(now, row).into_iter().flatten().collect())
}

fn wred_dropped(queue: &Queue) -> Count {
    let levels = queue.wred_dropped.unwrap_or_default();
    let counts = [&levels.green, &levels.yellow, &levels.red].map(count);
    Count {
        frames: counts.iter().map(|count| count.frames).sum(),
        bytes: counts.iter().map(|count| count.bytes).sum(),
    }
}

fn ecn_and_wred(if_index: usize, port: &Port) -> EcnAndWredStatistic<'_> {
    EcnAndWredStatistic {
        if_index,
        if_name: &port.name,
        ecn_marked: of_queues(port, |queue| count(&queue.marked).frames),
        wred_dropped: of_queues(port, |queue| wred_dropped(queue).frames),
    }
}

fn ingress_drop(if_index: usize, port: &Port) -> IngressDrop<'_> {
    // Drops for want of room are reported by priority.
    let of_groups_all = |part: fn(&Count) -> u64| -> u64 {
        port.groups.iter().map(|group| part(&count(&group.dropped))).sum()
    };
    let all = count(&port.input_dropped);
    IngressDrop {
        if_index,
        if_name: &port.name,
        no_buffer_pkts: of_groups(port, |group| count(&group.dropped).frames),
        no_buffer_bytes: of_groups(port, |group| count(&group.dropped).bytes),
        other_dropped_pkts: all.frames.saturating_sub(of_groups_all(|count| count.frames)),
        other_dropped_bytes: all.bytes.saturating_sub(of_groups_all(|count| count.bytes)),
        kernel_dropped_pkts: port.kernel_counters().rx_lost_frames(),
    }
}

/// Returns the tail drops and WRED drops.
fn queue_dropped(queue: &Queue) -> Count {
    let (tail, wred) = (count(&queue.dropped), wred_dropped(queue));
    Count { frames: tail.frames + wred.frames, bytes: tail.bytes + wred.bytes }
}

fn egress_drop(if_index: usize, port: &Port) -> EgressDrop<'_> {
    let all = count(&port.output_dropped);
    EgressDrop {
        if_index,
        if_name: &port.name,
        unicast_dropped_pkts: of_queues(port, |queue| queue_dropped(queue).frames),
        unicast_dropped_bytes: of_queues(port, |queue| queue_dropped(queue).bytes),
        multicast_dropped_pkts: none(port),
        multicast_dropped_bytes: none(port),
        dropped_pkts: all.frames,
        dropped_bytes: all.bytes,
        kernel_lost_pkts: port.kernel_lost_frames,
    }
}

fn over_limit(if_index: usize, port: &Port) -> OverLimitCounter<'_> {
    OverLimitCounter {
        if_index,
        if_name: &port.name,
        ingress_over_limit: of_groups(port, |group| group.violations),
        egress_over_limit: of_queues(port, |queue| queue.violations),
        headroom_over_limit: of_groups(port, |group| group.headroom_violations),
    }
}

/// One core switches: collectors see it as processing engine 0, with the whole buffer.
fn xpe_usage(now: &Snapshot) -> XpeUsage {
    let sum = |cells: fn(&Group) -> u32| -> u64 {
        now.ports.iter().flat_map(|port| &port.groups).map(|group| u64::from(cells(group))).sum()
    };
    let size = |pool: &Pool| u64::from(pool.size_cells);
    let shared_size: u64 = now.ingress_pools.iter().map(size).sum();
    let reserved: u64 = sum(|group| group.reserved_size_cells);
    let total_cells = shared_size + reserved + now.headroom.as_ref().map_or(0, size);
    let used_cells = sum(|group| level(&group.total).cells);
    let thousandths = (used_cells * 100_000).checked_div(total_cells).unwrap_or(0);
    XpeUsage {
        xpe: 0,
        total_cells,
        used_cells,
        used_ratio: thousandths as f64 / 1000.0,
        shared_used_cells: sum(|group| level(&group.shared).cells),
        headroom_used_cells: sum(|group| level(&group.headroom).cells),
    }
}

fn statistics(if_index: usize, port: &Port) -> Vec<Statistics<'_>> {
    let row = |(que_index, queue): (usize, &Queue)| Statistics {
        if_index,
        if_name: &port.name,
        que_index,
        pass_pkts: count(&queue.transmitted).frames,
        pass_bytes: count(&queue.transmitted).bytes,
        drop_pkts: queue_dropped(queue).frames,
        drop_bytes: queue_dropped(queue).bytes,
        que_len_in_pkts: queue.waiting_frames,
    };
    port.queues.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example_reports::{later, sample};

    fn pretty(member: &str) -> String {
        let value: serde_json::Value = serde_json::from_str(&format!("{{{member}}}")).unwrap();
        serde_json::to_string(&value).unwrap().replace("],", "],\n").replace("\",", "\",\n  ")
    }

    /// Every periodic path, for a port on which every counter has counted.
    #[test]
    fn each_path_in_full() {
        let (before, now) = (sample(), later());
        for path in SensorPath::ALL.into_iter().filter(|path| !path.is_event()) {
            let member = report(path, &now, Some(&before)).unwrap();
            insta::assert_snapshot!(path.name().replace('/', "-"), pretty(&member));
        }
    }

    /// Every drop is in one of the two reports, whatever its reason, and so are losses in the
    /// kernel.
    #[test]
    fn every_drop_is_reported() {
        let mut now = sample();
        let port = &mut now.ports[0];
        (port.input_dropped, port.output_dropped) = (Some(counted(50_000)), Some(counted(30_000)));
        port.kernel_lost_frames = 7;
        port.kernel = Some(control::v1::Kernel {
            rx_closed_frames: 2,
            rx_ring_full_frames: 3,
            ..control::v1::Kernel::default()
        });
        let (ingress, egress) = (ingress_drop(1, port), egress_drop(1, port));
        let by_priority: u64 = ingress.no_buffer_pkts.0.iter().sum();
        assert_eq!(by_priority + ingress.other_dropped_pkts + egress.dropped_pkts, 80_000);
        assert_eq!((ingress.kernel_dropped_pkts, egress.kernel_lost_pkts), (5, 7));
    }

    fn counted(frames: u64) -> Count {
        Count { frames, bytes: 64 * frames }
    }

    #[test]
    fn rates_need_a_sample_before() {
        let now = sample();
        assert_eq!(report(SensorPath::PfcSpeeds, &now, None), None);
        assert_eq!(report(SensorPath::PfcSpeeds, &now, Some(&now)), None, "no time has passed");
    }

    #[test]
    fn event_paths_are_not_sampled() {
        for path in SensorPath::ALL.into_iter().filter(|path| path.is_event()) {
            assert_eq!(report(path, &sample(), None), None);
        }
    }
}
