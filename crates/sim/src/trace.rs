//! Records of a run: arrivals, completions, pauses, and a point of each series at regular
//! intervals.

pub(crate) mod int_log;
pub(crate) mod latency;
pub(crate) mod queue_lengths;

use std::collections::HashMap;
use wire::bitset::Set8;

use switch::settings::{GroupSettings, POOLS, PRIORITIES};
use switch::{Instant, PortSettings, Switch};
use wire::pause::{Control, FRAME_BYTES, Pfc, decode};

use crate::flow::CompletedMessage;
use crate::link::{LinkDirection, Links};
use crate::packet::Packet;
use crate::results::{GroupSeries, MessageSpan, PauseSpan, Series};
use crate::scenario::{LinkEnd, NodeKind, Pattern, Scenario, Start};
use crate::switch_node::SimSwitch;
use crate::time::{NEVER, NS, Picos, of_ns};
use switch::pfc::rx::quanta_ns;

/// Spans of each kind that are kept for plots; totals cover all of them.
const MAX_SPANS: usize = 1 << 20;

/// All records of a run.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) traffic: Vec<TrafficRecord>,
    pub(crate) pauses: PauseLog,
    pub(crate) series: Series,
    sampled_at: Picos,
    /// When the measuring window begins.
    measured_from: Picos,
    /// Indices in `series.groups` by device, port and priority.
    group_series: HashMap<(usize, usize, usize), usize>,
    devices: Vec<KnownDevice>,
}

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
    /// Total number of messages; 0 for traffic without end.
    finite_messages: usize,
}

impl Record {
    /// Creates an empty record. `step_count` returns the messages of a collective, by traffic.
    pub(crate) fn new(scenario: &Scenario, wires: &Links, step_count: impl Fn(usize) -> usize) -> Self {
        let traffic = scenario.traffic.iter().enumerate().map(|(number, traffic)| TrafficRecord {
            begun_at: match traffic.start {
                Start::At(at_ns) => Some(of_ns(at_ns)),
                Start::After(_) => None,
            },
            finite_messages: match traffic.pattern {
                Pattern::Finite { .. } => traffic.flows.len(),
                Pattern::Collective { .. } => step_count(number),
                _ => 0,
            },
            ..TrafficRecord::default()
        });
        let devices = scenario.nodes.iter().filter_map(|node| match &node.kind {
            NodeKind::Switch(device) => {
                let ports = device.settings.ports.clone();
                Some(KnownDevice { name: node.name.clone(), ports, free_cells: Vec::new() })
            }
            NodeKind::Host(_) => None,
        });
        let series = Series { traffic_bps: vec![Vec::new(); scenario.traffic.len()], ..Series::default() };
        Self {
            traffic: traffic.collect(),
            pauses: PauseLog::new(scenario, wires),
            series,
            sampled_at: 0,
            measured_from: of_ns(scenario.warmup_ns),
            group_series: HashMap::new(),
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

    /// Records that a message of a flow of `traffic` is complete. True if it was the last of its
    /// traffic.
    pub(crate) fn completed(
        &mut self,
        (traffic, flow): (usize, usize),
        CompletedMessage { number, bytes, begun_at }: CompletedMessage,
        now: Picos,
    ) -> bool {
        let record = &mut self.traffic[traffic];
        record.completed += 1;
        if begun_at >= self.measured_from {
            record.completions.push(now - begun_at);
            if self.series.completions.len() < MAX_SPANS {
                let (from_ns, to_ns) = (begun_at / NS, now / NS);
                let ideal_ns = 0.0; // known at the end
                let span = MessageSpan { traffic, flow, number, bytes, from_ns, to_ns, ideal_ns };
                self.series.completions.push(span);
            }
        }
        record.completed == record.finite_messages
    }

    /// True if all messages of a traffic that ends have arrived.
    pub(crate) fn is_complete(&self, traffic: usize) -> bool {
        let TrafficRecord { completed, finite_messages, .. } = self.traffic[traffic];
        finite_messages > 0 && completed == finite_messages
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
    pub(crate) fn sample(&mut self, now: Picos, devices: &mut [SimSwitch]) {
        let step = (now - self.sampled_at).max(1);
        self.sampled_at = now;
        self.series.at_ns.push(now / NS);
        for (traffic, bps) in self.traffic.iter_mut().zip(&mut self.series.traffic_bps) {
            bps.push(traffic.fresh_line_bytes as f64 * 8e12 / step as f64);
            traffic.fresh_line_bytes = 0;
        }
        for device in devices {
            self.sample_groups(&mut device.switch, device.number, Instant(now / NS));
        }
        // Each group got a point just now, so every series has the same number of points.
        let points = self.series.at_ns.len();
        debug_assert!(self.series.groups.iter().all(|group| group.shared_cells.len() == points));
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
                    self.series.groups.push(GroupSeries {
                        switch: name.clone(),
                        port: port.name.clone(),
                        priority: priority as u8,
                        shared_cells: vec![0; before],
                        headroom_cells: vec![0; before],
                        xon_cells: xoff_cells.iter().map(|&xoff| xon_cells(xoff, settings)).collect(),
                        xoff_cells,
                        headroom_size_cells: group.headroom_size_cells,
                    });
                    self.series.groups.len() - 1
                });
                let series = &mut self.series.groups[series];
                series.shared_cells.push(group.shared.peak_read_cells);
                series.headroom_cells.push(group.headroom.peak_read_cells);
                series.xoff_cells.push(group.threshold_cells);
                series.xon_cells.push(xon_cells(group.threshold_cells, settings));
            }
        }
    }

    /// Ends the record with the run.
    pub(crate) fn end(&mut self, now: Picos) {
        for line in 0..self.pauses.lines.len() {
            self.pauses.forget(line, now);
        }
        self.series.pauses = std::mem::take(&mut self.pauses.spans);
        self.series.pause_count = self.pauses.pauses;
        self.series
            .pauses
            .sort_by(|a, b| (a.from_ns, &a.port, a.priority).cmp(&(b.from_ns, &b.port, b.priority)));
    }
}

/// Returns the XON limit for an XOFF threshold, in shared cells.
fn xon_cells(threshold_cells: u32, settings: &GroupSettings) -> u32 {
    threshold_cells.saturating_sub(settings.xon_offset_cells).max(settings.resume_cells)
}

/// The pauses that each port received and honored, as spans.
#[derive(Debug)]
pub(crate) struct PauseLog {
    lines: Vec<PausedPort>,
    spans: Vec<PauseSpan>,
    /// Number of pauses of each priority, beyond the spans that are kept as well.
    pauses: [u64; PRIORITIES],
}

/// The port at the end of a link direction.
#[derive(Debug)]
struct PausedPort {
    name: String,
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
    pub(crate) fn record_pause(&mut self, line: usize, packet: &Packet, now: Picos) {
        let port = &self.lines[line];
        let (pfc, honored) = match decode(&packet.bytes[..FRAME_BYTES]) {
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
                self.end(line, p, now);
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
        (0..PRIORITIES).for_each(|p| self.end(line, p, now));
    }

    fn end(&mut self, line: usize, p: usize, now: Picos) {
        let port = &mut self.lines[line];
        let (since, until) = (std::mem::replace(&mut port.since[p], NEVER), port.until[p].min(now));
        port.until[p] = NEVER;
        if since == NEVER {
            return;
        }
        self.pauses[p] += 1;
        if self.spans.len() < MAX_SPANS {
            let (from_ns, to_ns) = (since / NS, until / NS);
            self.spans.push(PauseSpan { port: port.name.clone(), priority: p as u8, from_ns, to_ns });
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
    use crate::packet::CARRIED_BYTES;
    use wire::mac::MacAddr;

    /// All pauses are counted, however many spans are kept.
    #[test]
    fn pauses_beyond_the_kept_spans_count() {
        let port = PausedPort {
            name: "h1".to_owned(),
            honored: 1 << 3,
            honors_pause: false,
            speed_bps: 10_000_000_000,
            since: [NEVER; PRIORITIES],
            until: [NEVER; PRIORITIES],
        };
        let mut log = PauseLog { lines: vec![port], spans: Vec::new(), pauses: [0; PRIORITIES] };
        let frame = |quanta| {
            let mut packet = Packet { len: FRAME_BYTES as u16, bytes: [0; CARRIED_BYTES] };
            let pfc = Pfc { enable: 1 << 3, quanta: [quanta; PRIORITIES] };
            pfc.encode(MacAddr([2; 6]), packet.bytes.first_chunk_mut().expect("60 bytes"));
            packet
        };
        let (xoff, xon, more) = (frame(1), frame(0), 7);
        for n in 0..(MAX_SPANS as u64 + more) {
            log.record_pause(0, &xoff, 2 * n * NS);
            log.record_pause(0, &xon, (2 * n + 1) * NS);
        }
        assert_eq!((log.spans.len(), log.pauses[3]), (MAX_SPANS, MAX_SPANS as u64 + more));
    }
}
