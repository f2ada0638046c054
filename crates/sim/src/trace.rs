//! Records of a run: arrivals, completions, pauses, and a point of each series at regular
//! intervals.

pub(crate) mod baseline;
pub(crate) mod int_log;
pub(crate) mod latency;
pub(crate) mod occupancy;
pub(crate) mod queue_lengths;

use std::collections::HashMap;
use wire::bitset::Set8;

use switch::settings::{GroupSettings, POOLS, PRIORITIES};
use switch::{Instant, PortSettings, Switch};
use wire::pause::{Control, FRAME_BYTES, Pfc, decode};

use self::occupancy::OccupancyLog;
use crate::flow::ReportedMessage;
use crate::link::{LinkDirection, Links};
use crate::packet::CARRIED_BYTES;
use crate::results::{GroupSeries, MessageSpan, PauseSpan, Series};
use crate::scenario::{LinkEnd, NodeKind, Scenario, Start};
use crate::switch_node::SimSwitch;
use crate::time::{NEVER, NS, Picos, of_ns};
use switch::pfc::rx::quanta_ns;

/// Spans of each kind that are kept for plots; totals cover all of them.
pub(crate) const MAX_SPANS: usize = 1 << 20;

/// All records of a run.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) traffic: Vec<TrafficRecord>,
    pub(crate) pauses: PauseLog,
    pub(crate) series: Series,
    /// The groups of the series, in the order of their first points.
    groups: Vec<(GroupKey, GroupSeries)>,
    /// By traffic: bytes on the wire that arrived until each point of the series.
    point_bytes: Vec<Vec<u64>>,
    /// Times of the points.
    points: Vec<Picos>,
    /// Messages that arrived, in the order of their arrival.
    completions: Vec<(EventKey, MessageSpan)>,
    /// When the measuring window begins.
    measured_from: Picos,
    /// Indices in `groups` by device, port and priority.
    group_series: HashMap<(usize, usize, usize), usize>,
    /// Series of queues and lossy groups, if they are kept.
    pub(crate) occupancy: Option<Box<OccupancyLog>>,
    devices: Vec<KnownDevice>,
}

/// Time and node of an event: of what is noted there, the order in the whole network. What a fault
/// does is noted before the nodes.
type EventKey = (Picos, Option<usize>);

/// The point at which a group first held cells, then switch, port and priority.
type GroupKey = (usize, usize, usize, usize);

/// A switch as named in the series.
#[derive(Debug)]
struct KnownDevice {
    name: String,
    ports: Vec<PortSettings>,
    /// Free cells of the ingress pools, by point.
    free_cells: Vec<[u32; POOLS]>,
}

/// Received frames of one traffic.
#[derive(Debug, Clone, Default)]
pub(crate) struct TrafficRecord {
    pub(crate) begun_at: Option<Picos>,
    /// Bytes without FCS, and bytes on the wire in the measuring window.
    pub(crate) bytes: u64,
    pub(crate) line_bytes: u64,
    /// Bytes on the wire since the last point of the series.
    fresh_line_bytes: u64,
    pub(crate) last_arrival: Option<Picos>,
    /// Completion times of messages that began in the measuring window.
    pub(crate) completions: Vec<Picos>,
    /// Messages that are complete.
    pub(crate) completed: usize,
    /// Total number of messages; `None` if it is not known from the start.
    finite_messages: Option<usize>,
}

impl TrafficRecord {
    /// Adds what arrived in another part of the network.
    fn absorb(&mut self, other: &Self) {
        self.begun_at = self.begun_at.or(other.begun_at);
        self.bytes += other.bytes;
        self.line_bytes += other.line_bytes;
        self.last_arrival = self.last_arrival.max(other.last_arrival);
        self.completions.extend(&other.completions);
        self.completed += other.completed;
    }
}

impl Record {
    /// Creates an empty record. `message_count` returns the number of a traffic's messages, if it
    /// is known.
    pub(crate) fn new(
        scenario: &Scenario,
        wires: &Links,
        message_count: impl Fn(usize) -> Option<usize>,
    ) -> Self {
        let traffic = scenario.traffic.iter().enumerate().map(|(number, traffic)| TrafficRecord {
            begun_at: match traffic.start {
                Start::At(at_ns) => Some(of_ns(at_ns)),
                Start::After(_) => None,
            },
            finite_messages: message_count(number),
            ..TrafficRecord::default()
        });
        let devices = scenario.nodes.iter().filter_map(|node| match &node.kind {
            NodeKind::Switch(device) => {
                let ports = device.settings.ports.clone();
                Some(KnownDevice { name: node.name.clone(), ports, free_cells: Vec::new() })
            }
            NodeKind::Host(_) => None,
        });
        Self {
            traffic: traffic.collect(),
            pauses: PauseLog::new(scenario, wires),
            series: Series::default(),
            groups: Vec::new(),
            point_bytes: vec![Vec::new(); scenario.traffic.len()],
            points: Vec::new(),
            completions: Vec::new(),
            measured_from: of_ns(scenario.warmup_ns),
            group_series: HashMap::new(),
            occupancy: None,
            devices: devices.collect(),
        }
    }

    /// Records that a frame of `bytes` bytes, `line_bytes` on the wire, has arrived at its host.
    #[inline]
    pub(crate) fn arrived(&mut self, traffic: usize, bytes: u16, line_bytes: u64, now: Picos) {
        let traffic = &mut self.traffic[traffic];
        traffic.bytes += u64::from(bytes);
        traffic.line_bytes += if now >= self.measured_from { line_bytes } else { 0 };
        traffic.fresh_line_bytes += line_bytes;
        traffic.last_arrival = Some(now);
    }

    /// Records that a message of a flow of `traffic` is complete at its receiver, a node. True if
    /// it was the last of its traffic.
    pub(crate) fn completed(
        &mut self,
        (traffic, flow, node): (usize, usize, usize),
        ReportedMessage { number, bytes, begun_at }: ReportedMessage,
        now: Picos,
    ) -> bool {
        let record = &mut self.traffic[traffic];
        record.completed += 1;
        if begun_at >= self.measured_from {
            record.completions.push(now - begun_at);
            if self.completions.len() < MAX_SPANS {
                let (from_ns, to_ns) = (begun_at / NS, now / NS);
                // The others are known at the end.
                let (ideal_ns, retransmitted_frames) = (0.0, 0);
                let span = MessageSpan {
                    traffic,
                    flow,
                    number,
                    bytes,
                    from_ns,
                    to_ns,
                    ideal_ns,
                    retransmitted_frames,
                };
                self.completions.push(((now, Some(node)), span));
            }
        }
        Some(record.completed) == record.finite_messages
    }

    /// True if all messages of a traffic that ends have arrived.
    pub(crate) fn is_complete(&self, traffic: usize) -> bool {
        let TrafficRecord { completed, finite_messages, .. } = self.traffic[traffic];
        Some(completed) == finite_messages
    }

    /// Returns the time that all messages of a traffic together took.
    pub(crate) fn job_ns(&self, traffic: usize) -> Option<u64> {
        let TrafficRecord { begun_at, last_arrival, .. } = self.traffic[traffic];
        let took = last_arrival?.saturating_sub(begun_at?);
        self.is_complete(traffic).then_some(took / NS)
    }

    /// Records the start of traffic that waited for another.
    pub(crate) fn begun(&mut self, traffic: usize, now: Picos) {
        self.traffic[traffic].begun_at = Some(now);
    }

    /// Adds a point to each series.
    pub(crate) fn sample<'d>(&mut self, now: Picos, devices: impl Iterator<Item = &'d mut SimSwitch>) {
        self.points.push(now);
        for (traffic, bytes) in self.traffic.iter_mut().zip(&mut self.point_bytes) {
            bytes.push(std::mem::take(&mut traffic.fresh_line_bytes));
        }
        for device in devices {
            let now = Instant(now / NS);
            self.sample_groups(&mut device.switch, device.number, now);
            if let Some(log) = &mut self.occupancy {
                let no_drop = self.devices[device.number].ports.iter().map(|port| port.pfc.no_drop);
                log.sample(&mut device.switch, (device.number, no_drop), self.points.len() - 1, now);
            }
        }
        // Each group got a point just now, so every series has the same number of points.
        let points = self.points.len();
        debug_assert!(self.groups.iter().all(|(_, group)| group.shared_cells.len() == points));
    }

    /// Adds a point for the groups of a switch. A group that holds cells for the first time also
    /// gets the earlier points.
    fn sample_groups(&mut self, switch: &mut Switch, device: usize, now: Instant) {
        let KnownDevice { name, ports, free_cells } = &mut self.devices[device];
        free_cells.push(switch.free_cells());
        for (p, port) in ports.iter().enumerate() {
            for priority in Set8::from_bits(port.pfc.no_drop) {
                let group = switch.read_group(p, priority, now);
                let key = (device, p, priority);
                let is_empty = group.shared.peak_read_cells == 0 && group.headroom.peak_read_cells == 0;
                if is_empty && !self.group_series.contains_key(&key) {
                    continue;
                }
                let settings = &port.groups[priority];
                let threshold = |free: &[u32; POOLS]| settings.xoff.cells(free[usize::from(settings.pool)]);
                let before = free_cells.len() - 1;
                let series = *self.group_series.entry(key).or_insert_with(|| {
                    let xoff_cells: Vec<u32> = free_cells[..before].iter().map(threshold).collect();
                    let group = GroupSeries {
                        switch: name.clone(),
                        port: port.name.clone(),
                        priority: priority as u8,
                        shared_cells: vec![0; before],
                        headroom_cells: vec![0; before],
                        xon_cells: xoff_cells.iter().map(|&xoff| xon_cells(xoff, settings)).collect(),
                        xoff_cells,
                        headroom_size_cells: group.headroom_size_cells,
                    };
                    self.groups.push(((before, device, p, priority), group));
                    self.groups.len() - 1
                });
                let (_, series) = &mut self.groups[series];
                series.shared_cells.push(group.shared.peak_read_cells);
                series.headroom_cells.push(group.headroom.peak_read_cells);
                series.xoff_cells.push(group.threshold_cells);
                series.xon_cells.push(xon_cells(group.threshold_cells, settings));
            }
        }
    }

    /// Sets the series from what was counted at each point.
    fn set_series(&mut self) {
        let since = std::iter::once(0).chain(self.points.iter().copied());
        let steps: Vec<Picos> =
            self.points.iter().zip(since).map(|(now, since)| (now - since).max(1)).collect();
        let bps = |(&bytes, &step): (&u64, &Picos)| bytes as f64 * 8e12 / step as f64;
        let of_traffic = |bytes: &Vec<u64>| bytes.iter().zip(&steps).map(bps).collect();
        self.series.traffic_bps = self.point_bytes.iter().map(of_traffic).collect();
        self.series.at_ns = self.points.iter().map(|at| at / NS).collect();
        self.series.groups = values(&mut self.groups);
        self.series.completions = values(&mut self.completions);
        if let Some(log) = self.occupancy.take() {
            let known = &self.devices;
            let name = |device: usize, port: usize| {
                format!("{}.{}", known[device].name, known[device].ports[port].name)
            };
            self.series.occupancy = log.finish(name);
        }
    }

    /// Adds the record of another part of the network. `is_theirs` returns whether a link direction
    /// ends there.
    pub(crate) fn absorb(&mut self, other: &mut Record, is_theirs: &dyn Fn(usize) -> bool) {
        for (traffic, theirs) in self.traffic.iter_mut().zip(&other.traffic) {
            traffic.absorb(theirs);
        }
        for (own, theirs) in self.point_bytes.iter_mut().zip(&other.point_bytes) {
            own.iter_mut().zip(theirs).for_each(|(bytes, more)| *bytes += more);
        }
        self.groups.append(&mut other.groups);
        self.groups.sort_by_key(|(key, _)| *key);
        if let (Some(own), Some(theirs)) = (&mut self.occupancy, &mut other.occupancy) {
            own.absorb(theirs);
        }
        merge(&mut self.completions, &mut other.completions);
        merge(&mut self.pauses.spans, &mut other.pauses.spans);
        for (count, more) in self.pauses.pauses.iter_mut().zip(other.pauses.pauses) {
            *count += more;
        }
        let lines = self.pauses.lines.iter_mut().zip(&mut other.pauses.lines).enumerate();
        for (_, (own, theirs)) in lines.filter(|(line, _)| is_theirs(*line)) {
            std::mem::swap(own, theirs);
        }
    }

    /// Ends the record with the run.
    pub(crate) fn end(&mut self, now: Picos) {
        for line in 0..self.pauses.lines.len() {
            self.pauses.forget(line, now);
        }
        self.set_series();
        self.series.pauses = values(&mut self.pauses.spans);
        self.series.pause_count = self.pauses.pauses;
        self.series
            .pauses
            .sort_by(|a, b| (a.from_ns, &a.port, a.priority).cmp(&(b.from_ns, &b.port, b.priority)));
    }
}

/// Takes the values of a log.
fn values<K, V>(log: &mut Vec<(K, V)>) -> Vec<V> {
    std::mem::take(log).into_iter().map(|(_, value)| value).collect()
}

/// Adds a log of another part of the network, and keeps what is first of both together.
fn merge<V>(log: &mut Vec<(EventKey, V)>, other: &mut Vec<(EventKey, V)>) {
    log.append(other);
    log.sort_by_key(|(key, _)| *key);
    log.truncate(MAX_SPANS);
}

/// Returns the XON limit for an XOFF threshold, in shared cells.
fn xon_cells(threshold_cells: u32, settings: &GroupSettings) -> u32 {
    threshold_cells.saturating_sub(settings.xon_offset_cells).max(settings.resume_cells)
}

/// The pauses that each port received and honored, as spans.
#[derive(Debug)]
pub(crate) struct PauseLog {
    lines: Vec<PausedPort>,
    spans: Vec<(EventKey, PauseSpan)>,
    /// Number of pauses of each priority, beyond the spans that are kept as well.
    pauses: [u64; PRIORITIES],
}

/// The port at the end of a link direction.
#[derive(Debug)]
struct PausedPort {
    name: String,
    node: usize,
    honored: u8,
    honors_pause: bool,
    speed_bps: u64,
    /// Start of each priority's pause, and `until` its end; [`NEVER`] if there is none.
    since: [Picos; PRIORITIES],
    until: [Picos; PRIORITIES],
}

impl PauseLog {
    fn new(scenario: &Scenario, wires: &Links) -> Self {
        let port = |line: &LinkDirection| PausedPort {
            name: scenario.end_name(line.to),
            node: line.to.node,
            honored: honored(scenario, line.to),
            honors_pause: honors_pause(scenario, line.to),
            speed_bps: pause_speed_bps(scenario, line),
            since: [NEVER; PRIORITIES],
            until: [NEVER; PRIORITIES],
        };
        Self {
            lines: wires.directions.iter().map(port).collect(),
            spans: Vec::new(),
            pauses: [0; PRIORITIES],
        }
    }

    /// Records a PFC or PAUSE frame that is honored. A PAUSE pauses every priority.
    pub(crate) fn record_pause(&mut self, line: usize, bytes: &[u8; CARRIED_BYTES], now: Picos) {
        let port = &self.lines[line];
        let (pfc, honored) = match decode(&bytes[..FRAME_BYTES]) {
            Ok(Control::Pfc(pfc)) => (pfc, pfc.enable & port.honored),
            Ok(Control::Pause { quanta }) if port.honors_pause => {
                (Pfc { enable: 0xff, quanta: [quanta; PRIORITIES] }, 0xff)
            }
            _ => return,
        };
        for p in Set8::from_bits(honored) {
            let port = &self.lines[line];
            let ends = pfc.quanta[p] == 0 || port.until[p] <= now; // by XON, or by its timer before
            let time = of_ns(quanta_ns(pfc.quanta[p], port.speed_bps));
            if ends {
                let node = Some(port.node);
                self.end(line, p, (now, node));
            }
            if pfc.quanta[p] != 0 {
                let port = &mut self.lines[line];
                port.since[p] = port.since[p].min(now);
                port.until[p] = now + time;
            }
        }
    }

    /// Ends all pauses received over a link direction.
    pub(crate) fn forget(&mut self, line: usize, now: Picos) {
        (0..PRIORITIES).for_each(|p| self.end(line, p, (now, None)));
    }

    fn end(&mut self, line: usize, p: usize, at: EventKey) {
        let now = at.0;
        let port = &mut self.lines[line];
        let (since, until) = (std::mem::replace(&mut port.since[p], NEVER), port.until[p].min(now));
        port.until[p] = NEVER;
        if since == NEVER {
            return;
        }
        self.pauses[p] += 1;
        if self.spans.len() < MAX_SPANS {
            let (from_ns, to_ns) = (since / NS, until / NS);
            let span = PauseSpan { port: port.name.clone(), priority: p as u8, from_ns, to_ns };
            self.spans.push((at, span));
        }
    }
}

/// Returns the priorities whose pauses a port honors.
fn honored(scenario: &Scenario, end: LinkEnd) -> u8 {
    match &scenario.nodes[end.node].kind {
        NodeKind::Switch(device) => {
            let pfc = device.settings.ports[end.port].pfc;
            if pfc.rx { pfc.no_drop } else { 0 }
        }
        NodeKind::Host(host) => host.no_drop,
    }
}

/// True if a port honors PAUSE.
fn honors_pause(scenario: &Scenario, end: LinkEnd) -> bool {
    match &scenario.nodes[end.node].kind {
        NodeKind::Switch(device) => device.settings.ports[end.port].flow_control.honors(),
        NodeKind::Host(host) => host.honors_pause,
    }
}

/// Returns the speed at which the port at the end of a link direction counts quanta.
fn pause_speed_bps(scenario: &Scenario, line: &LinkDirection) -> u64 {
    let own = match &scenario.nodes[line.to.node].kind {
        NodeKind::Switch(device) => device.settings.ports[line.to.port].speed_bps,
        NodeKind::Host(_) => None,
    };
    own.unwrap_or(line.speed_bps())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::mac::MacAddr;

    /// All pauses are counted, however many spans are kept.
    #[test]
    #[cfg_attr(miri, ignore = "hundreds of thousands of pauses")]
    fn pauses_beyond_the_kept_spans_count() {
        let port = PausedPort {
            name: "h1".to_owned(),
            node: 0,
            honored: 1 << 3,
            honors_pause: false,
            speed_bps: 10_000_000_000,
            since: [NEVER; PRIORITIES],
            until: [NEVER; PRIORITIES],
        };
        let mut log = PauseLog { lines: vec![port], spans: Vec::new(), pauses: [0; PRIORITIES] };
        let frame = |quanta| {
            let mut bytes = [0; CARRIED_BYTES];
            let pfc = Pfc { enable: 1 << 3, quanta: [quanta; PRIORITIES] };
            pfc.encode(MacAddr([2; 6]), bytes.first_chunk_mut().expect("60 bytes"));
            bytes
        };
        let (xoff, xon, more) = (frame(1), frame(0), 7);
        for n in 0..(MAX_SPANS as u64 + more) {
            log.record_pause(0, &xoff, 2 * n * NS);
            log.record_pause(0, &xon, (2 * n + 1) * NS);
        }
        assert_eq!((log.spans.len(), log.pauses[3]), (MAX_SPANS, MAX_SPANS as u64 + more));
    }
}
