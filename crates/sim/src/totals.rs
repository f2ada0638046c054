//! Results of a run: the totals of every node, and whether they add up.
//!
//! These equations hold on every node and link at any time (docs/behavior.md, "Invariants"):
//! - frames received by a switch and copies made by it = frames sent, dropped or held;
//! - frames of its memory = frames free or held; cells charged are 0 if no frame is held;
//! - frames sent over a link direction = frames that arrived, are in flight, or were lost by a cut;
//! - frames counted by nodes = frames received over their links, and for hosts also frames sent;
//! - frames that do not arrive ≤ frames dropped by switches, cut, or received by another host, and
//!   the last only if switches flood or have routes of the file.

use std::collections::{BTreeSet, HashMap};
use wire::bitset::Set8;

use endpoint::retransmission::Retransmission;
use switch::Snapshot;
use switch::monitor::counters::PortSnapshot;

use crate::expect;
use crate::flow::Flow;
use crate::link::LinkDirection;
use crate::packet::{CARRIED_BYTES, Content, content, is_control};
use crate::results::{
    Completion, DcbxOutcome, FlowOutcome, GroupOutcome, HopOutcome, HostOutcome, LatencyOutcome, LinkOutcome,
    MessageSpan, PortOutcome, PriorityOutcome, QueueLengthOutcome, QueueOutcome, Results, SwitchOutcome,
    TrafficOutcome,
};
use crate::routes::Routes;
use crate::routes::ideal_path::IdealPath;
use crate::scenario::{FaultKind, Forwarding, LinkEnd, NodeKind, Scenario};
use crate::simulation::{LldpEnd, NodeIndex, Simulation, routes_of};
use crate::switch_node::SimSwitch;
use crate::time::{NS, Picos, instant, of_ns};
use crate::trace::MAX_SPANS;

impl Simulation<'_> {
    /// Ends the run at the current time. Returns its results.
    pub fn finish(mut self) -> Results {
        self.record.end(self.links.now);
        outcome(&mut self)
    }
}

fn outcome(simulation: &mut Simulation) -> Results {
    let mut snapshots = vec![Snapshot::default(); simulation.devices.len()];
    let now = instant(simulation.links.now);
    simulation.devices.iter_mut().for_each(|device| device.measure_lengths(simulation.links.now));
    for (device, snapshot) in simulation.devices.iter_mut().zip(&mut snapshots) {
        device.switch.snapshot(now, snapshot);
    }
    let (in_network, astray) = in_network(simulation);
    let imbalances = imbalances(simulation, &snapshots, (&in_network, astray));
    let scenario = simulation.scenario;
    let routes = routes_of(scenario);
    (simulation.record.series.unfinished, simulation.record.series.unfinished_count) = unfinished(simulation);
    set_message_totals(simulation, &routes);
    let flows = flow_outcomes(simulation, &routes, &in_network);
    let mut outcome = Results {
        title: scenario.title.clone(),
        seed: scenario.seed,
        duration_ns: now.0,
        warmup_ns: scenario.warmup_ns,
        frame_hops: simulation.frame_hops(),
        events: simulation.events,
        traffic: (0..scenario.traffic.len())
            .map(|traffic| traffic_outcome(simulation, traffic, &in_network, &flows))
            .collect(),
        switches: switches(simulation, &snapshots),
        hosts: hosts(simulation),
        links: links(simulation),
        hops: hops(simulation),
        queue_lengths: queue_lengths(simulation),
        dcbx: negotiations(simulation),
        expectations: Vec::new(),
        imbalances,
        flows,
        series: std::mem::take(&mut simulation.record.series),
    };
    // Expectations and balances are of the whole run.
    outcome.expectations = expect::evaluate(scenario, &outcome);
    if !simulation.baseline.is_empty() {
        simulation.baseline.subtract_from(&mut snapshots);
        outcome.switches = switches(simulation, &snapshots);
    }
    outcome
}

/// Counts the frames of each flow that are in switches and on links and may still arrive. Copies
/// of a flooded frame are one frame. It does not count if it has arrived, and copies for another
/// host do not count: their number is returned beside.
fn in_network(simulation: &Simulation) -> (Vec<u64>, u64) {
    let flows = &simulation.flows;
    let (mut frames, mut astray) = (BTreeSet::new(), 0);
    let mut count_copy = |line: Option<usize>, bytes: &[u8; CARRIED_BYTES]| {
        let (false, Content::Data { flow, number, .. }) = (is_control(bytes), content(bytes)) else { return };
        let is_astray = |line: usize| {
            let to = simulation.links.directions[line].to.node;
            matches!(simulation.node_indices[to], NodeIndex::Host(_)) && to != flows[flow].headers.to
        };
        if line.is_some_and(is_astray) {
            astray += 1;
        } else if flows[flow].receiver.is_missing(number) {
            frames.insert((flow, number));
        }
    };
    simulation
        .devices
        .iter()
        .for_each(|device| device.for_each_held(&simulation.links.frames, &mut count_copy));
    simulation.links.in_flight().for_each(|(line, bytes)| count_copy(Some(line), bytes));
    let mut of_flow = vec![0; flows.len()];
    frames.into_iter().for_each(|(flow, _)| of_flow[flow] += 1);
    (of_flow, astray)
}

fn traffic_outcome(
    simulation: &Simulation,
    number: usize,
    in_network: &[u64],
    flow_outcomes: &[FlowOutcome],
) -> TrafficOutcome {
    let traffic = &simulation.scenario.traffic[number];
    let record = &simulation.record.traffic[number];
    let range = simulation.traffic_flows[number].clone();
    let flows = &simulation.flows[range.clone()];
    let in_network_frames: u64 = in_network[range.clone()].iter().sum();
    let sum = |count: fn(&Flow) -> u64| flows.iter().map(count).sum::<u64>();
    let (sent_frames, received_frames) =
        (sum(|flow| flow.sender.sent_frames), sum(|flow| flow.receiver.received_frames));
    let repeated_frames = sum(|flow| flow.receiver.repeated_frames);
    let messages = sum(|flow| flow.sender.messages);
    let all_came = messages > 0 && record.completed as u64 == messages;
    let until = match record.last_arrival {
        Some(last) if all_came => last,
        _ => of_ns(traffic.stop_ns).min(simulation.links.now),
    };
    let measured_from = of_ns(simulation.scenario.warmup_ns);
    let active = record.begun_at.map_or(0, |begun| until.saturating_sub(begun.max(measured_from)));
    TrafficOutcome {
        name: traffic.name.clone(),
        priority: traffic.priority,
        flows: flows.len() as u64,
        sent_frames,
        received_frames,
        received_bytes: record.bytes,
        in_network_frames,
        lost_frames: sent_frames.saturating_sub(received_frames - repeated_frames + in_network_frames),
        reordered_frames: sum(|flow| flow.receiver.reordered_frames),
        marked_frames: sum(|flow| flow.receiver.marked_frames),
        cnps: sum(Flow::cnps),
        retransmitted_frames: traffic.acks.map(|_| sum(Flow::retransmitted_frames)),
        throughput_bps: if active == 0 { 0.0 } else { record.line_bytes as f64 * 8e12 / active as f64 },
        fairness: fairness(flow_outcomes[range].iter().map(|flow| flow.throughput_bps)),
        messages,
        completed: record.completed as u64,
        completion: completion(&record.completions),
        job_ns: simulation.record.job_ns(number),
        latency: simulation.links.latency.as_ref().and_then(|log| log.of_traffic(number)),
        last_arrival_ns: record.last_arrival.map(|at| at / NS),
    }
}

fn hops(simulation: &Simulation) -> Vec<HopOutcome> {
    let scenario = simulation.scenario;
    let outcome = |(traffic, line, latency): (usize, usize, LatencyOutcome)| HopOutcome {
        traffic: scenario.traffic[traffic].name.clone(),
        port: scenario.end_name(simulation.links.directions[line].from),
        latency,
    };
    simulation.links.latency.iter().flat_map(|log| log.hops()).map(outcome).collect()
}

/// Returns the lengths of the queues that held cells.
fn queue_lengths(simulation: &Simulation) -> Vec<QueueLengthOutcome> {
    let scenario = simulation.scenario;
    let mut all = Vec::new();
    for (node, index) in simulation.node_indices.iter().enumerate() {
        let NodeIndex::Switch(device) = *index else { continue };
        let Some(lengths) = &simulation.devices[device].lengths else { continue };
        all.extend(lengths.queues(simulation.links.now).map(|(port, queue, mean_cells, bins)| {
            let port = scenario.end_name(LinkEnd { node, port });
            QueueLengthOutcome { port, queue, mean_cells, bins }
        }));
    }
    all
}

/// Jain's index: (Σx)² / (n · Σx²). Source: R. Jain, D.-M. Chiu and W. Hawe, "A quantitative
/// measure of fairness" (DEC TR-301, 1984).
fn fairness(shares: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let count = shares.len() as f64;
    let (sum, squares) =
        shares.fold((0.0, 0.0), |(sum, squares), share| (sum + share, squares + share * share));
    (count > 1.0 && squares > 0.0).then(|| sum * sum / (count * squares))
}

fn flow_outcomes(simulation: &Simulation, routes: &Routes, in_network: &[u64]) -> Vec<FlowOutcome> {
    let scenario = simulation.scenario;
    let mut slowdowns = vec![(0.0, 0.0); simulation.flows.len()];
    for message in &simulation.record.series.completions {
        let (sum, count) = &mut slowdowns[message.flow];
        if let Some(slowdown) = message.slowdown() {
            (*sum, *count) = (*sum + slowdown, *count + 1.0);
        }
    }
    let flow_outcome = |((flow, &in_network), (sum, count)): ((&Flow, &u64), (f64, f64))| {
        let Flow { sender, receiver, headers, .. } = flow;
        let traffic = &scenario.traffic[flow.traffic];
        let received_frames = receiver.received_frames - receiver.repeated_frames;
        let until = of_ns(traffic.stop_ns).min(simulation.links.now);
        let until = if sender.messages > 0 { receiver.last_arrival.unwrap_or(until) } else { until };
        let from = sender.begun_at.unwrap_or(until).max(of_ns(scenario.warmup_ns));
        let active = until.saturating_sub(from);
        let bits = (receiver.measured_bytes * 8) as f64;
        FlowOutcome {
            traffic: flow.traffic,
            from: scenario.nodes[headers.from].name.clone(),
            to: scenario.nodes[headers.to].name.clone(),
            sent_frames: sender.sent_frames,
            received_frames,
            lost_frames: sender.sent_frames.saturating_sub(received_frames + in_network),
            reordered_frames: receiver.reordered_frames,
            marked_frames: receiver.marked_frames,
            cnps: flow.cnps(),
            retransmitted_frames: flow.retransmitted_frames(),
            received_bytes: receiver.bytes,
            throughput_bps: if active == 0 { 0.0 } else { bits * 1e12 / active as f64 },
            begun_ns: sender.begun_at.filter(|_| sender.sent_frames > 0).map(|at| at / NS),
            last_arrival_ns: receiver.last_arrival.map(|at| at / NS),
            message_bytes: sender.message_bytes,
            ideal_ns: IdealPath::new(scenario, routes, flow)
                .and_then(|path| path.time_ns(sender.message_bytes)),
            slowdown: (count > 0.0).then(|| sum / count),
        }
    };
    simulation.flows.iter().zip(in_network).zip(slowdowns).map(flow_outcome).collect()
}

/// Returns the first messages of the measuring window that have not arrived completely, and the
/// number of all of them.
fn unfinished(simulation: &Simulation) -> (Vec<MessageSpan>, u64) {
    let measured_from = of_ns(simulation.scenario.warmup_ns);
    let (mut first, mut count) = (Vec::new(), 0);
    for (number, flow) in simulation.flows.iter().enumerate() {
        let open = flow.receiver.open_messages().filter(|message| message.begun_at >= measured_from);
        let open = open.inspect(|_| count += 1);
        let kept = MAX_SPANS - first.len();
        let spans = open.enumerate().filter(|(index, _)| *index < kept).map(|(_, message)| MessageSpan {
            traffic: flow.traffic,
            flow: number,
            number: message.number,
            bytes: message.bytes,
            from_ns: message.begun_at / NS,
            to_ns: simulation.links.now / NS,
            ideal_ns: 0.0,
            retransmitted_frames: 0,
        });
        first.extend(spans);
    }
    (first, count)
}

/// Sets the ideal times of the messages, and their retransmissions.
fn set_message_totals(simulation: &mut Simulation, routes: &Routes) {
    let mut paths: HashMap<usize, Option<IdealPath>> = HashMap::new();
    let series = &mut simulation.record.series;
    for message in series.completions.iter_mut().chain(&mut series.unfinished) {
        let flow = &simulation.flows[message.flow];
        message.retransmitted_frames = flow.sender.retransmissions.of(message.number);
        let path =
            paths.entry(message.flow).or_insert_with(|| IdealPath::new(simulation.scenario, routes, flow));
        message.ideal_ns = path.as_ref().and_then(|path| path.time_ns(message.bytes)).unwrap_or(0.0);
    }
}

fn completion(times: &[Picos]) -> Option<Completion> {
    let mut times = times.to_vec();
    times.sort_unstable();
    let (min, max) = (times.first()?, times.last()?);
    let percentile = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1] / NS;
    let sum: u128 = times.iter().map(|&time| u128::from(time)).sum();
    Some(Completion {
        messages: times.len() as u64,
        min_ns: min / NS,
        mean_ns: (sum / times.len() as u128) as u64 / NS,
        p50_ns: percentile(50),
        p99_ns: percentile(99),
        max_ns: max / NS,
    })
}

fn switches(simulation: &Simulation, snapshots: &[Snapshot]) -> Vec<SwitchOutcome> {
    let scenario = simulation.scenario;
    let nodes = scenario.nodes.iter().enumerate();
    let names = nodes.filter(|(node, _)| matches!(simulation.node_indices[*node], NodeIndex::Switch(_)));
    let with_snapshots = names.zip(snapshots.iter().zip(&simulation.devices));
    let outcome =
        |((node, names), (snapshot, device)): ((usize, &crate::scenario::Node), (&Snapshot, &SimSwitch))| {
            let ports = snapshot.ports.iter().enumerate().filter_map(|(port, counts)| {
                let peer = peer(scenario, LinkEnd { node, port })?;
                Some(port_outcome(counts, peer))
            });
            SwitchOutcome {
                name: names.name.clone(),
                ports: ports.collect(),
                headroom_peak_cells: snapshot.headroom.level.peak_cells,
                shared_peak_cells: snapshot.ingress_pools.iter().map(|pool| pool.level.peak_cells).sum(),
                held_frames: device.frames_held(),
                events: device.reported.clone(),
            }
        };
    with_snapshots.map(outcome).collect()
}

fn port_outcome(counts: &PortSnapshot, peer: String) -> PortOutcome {
    let groups = counts.groups.iter().enumerate().filter(|(_, group)| group.received.frames > 0);
    let queues = counts.queues.iter().enumerate();
    let queues = queues.filter(|(_, queue)| {
        queue.level.peak_cells > 0 || queue.dropped.frames > 0 || queue.paused_ns > 0 || queue.pauses > 0
    });
    let priorities = counts.priorities.iter().enumerate();
    let priorities =
        priorities.filter(|(_, priority)| priority.pauses > 0 || priority.paused_ns > 0 || priority.watched);
    PortOutcome {
        peer,
        priorities: priorities
            .map(|(number, &counts)| PriorityOutcome { priority: number as u8, counts })
            .collect(),
        storms: counts.storms.clone(),
        groups: groups.map(|(priority, &counts)| GroupOutcome { priority: priority as u8, counts }).collect(),
        queues: queues.map(|(number, &counts)| QueueOutcome { queue: number as u8, counts }).collect(),
        counts: counts.clone(),
    }
}

fn hosts(simulation: &Simulation) -> Vec<HostOutcome> {
    let scenario = simulation.scenario;
    let now = instant(simulation.links.now);
    let hosts = simulation.hosts.iter().enumerate().map(|(number, host)| {
        let (pauses, paused_ns) = simulation.baseline.pauses_since(number, host.pause_history(now));
        HostOutcome {
            name: scenario.nodes[host.node].name.clone(),
            peer: peer(scenario, LinkEnd { node: host.node, port: 0 }).unwrap_or_default(),
            sent_frames: host.sent_frames,
            received_frames: host.received_frames,
            foreign_frames: host.foreign_frames,
            pauses,
            paused_ns,
        }
    });
    hosts.collect()
}

fn negotiations(simulation: &Simulation) -> Vec<DcbxOutcome> {
    let outcome = |end: &LldpEnd| {
        let status = end.status();
        let no_drop = status.operational.no_drop;
        DcbxOutcome {
            port: simulation.scenario.end_name(simulation.links.directions[end.line].from),
            version: status.version.to_string(),
            state: status.pfc.state.to_string(),
            reason: status.pfc.reason.to_string(),
            no_drop: Set8::from_bits(no_drop).into_iter().map(|priority| priority as u8).collect(),
            settled_ns: end.settled / NS,
        }
    };
    simulation.negotiation.ends.iter().map(outcome).collect()
}

fn links(simulation: &Simulation) -> Vec<LinkOutcome> {
    let now = simulation.links.now.max(1);
    let baseline = &simulation.baseline;
    let from = if baseline.is_empty() { 0 } else { of_ns(simulation.scenario.warmup_ns) };
    let busy = |line: &LinkDirection| {
        let before = baseline.busy.get(line.number).copied().unwrap_or(0);
        (line.busy_until(now) - before) as f64 * 100.0 / (now - from).max(1) as f64
    };
    let both = simulation.links.directions.chunks_exact(2);
    let links = simulation.scenario.links.iter().zip(both).map(|(link, lines)| LinkOutcome {
        name: link.name.clone(),
        cut_frames: lines.iter().map(|line| line.counts.cut).sum(),
        busy_percent: [0, 1].map(|end| busy(&lines[end])),
    });
    links.collect()
}

/// Lists what does not add up.
fn imbalances(simulation: &mut Simulation, snapshots: &[Snapshot], in_network: (&[u64], u64)) -> Vec<String> {
    let mut found = Vec::new();
    let names = simulation.scenario.nodes.iter().filter(|node| matches!(node.kind, NodeKind::Switch(_)));
    for ((node, device), snapshot) in names.zip(&mut simulation.devices).zip(snapshots) {
        let of_device = device_imbalances(device, snapshot);
        found.extend(of_device.into_iter().map(|what| format!("{}: {what}", node.name)));
    }
    for (number, line) in simulation.links.directions.iter().enumerate() {
        let (counts, flying) = (line.counts, line.in_flight());
        if counts.sent != counts.arrived + counts.cut + flying {
            let name = &simulation.scenario.links[number / 2].name;
            found.push(format!("{name}: {counts:?}, {flying} on the way"));
        }
    }
    let lines = simulation.links.directions.iter();
    let on_links: u64 = lines.map(|line| line.in_flight() + line.pending_control()).sum();
    let in_switches: u64 = simulation.devices.iter().map(SimSwitch::stored_frames).sum();
    let stored = simulation.links.frames.stored() as u64;
    if stored != on_links + in_switches {
        found.push(format!("{stored} frames are stored: {on_links} on links and {in_switches} in switches"));
    }
    found.extend(ends_imbalances(simulation));
    found.extend(unexplained_losses(simulation, snapshots, in_network));
    found
}

/// Lists losses without a counted cause. Receivers of go-back-N discard frames that arrived; these
/// are not counted, so runs with it are not checked.
fn unexplained_losses(
    simulation: &Simulation,
    snapshots: &[Snapshot],
    (in_network, astray): (&[u64], u64),
) -> Vec<String> {
    let Scenario { traffic, forwarding, routes, faults, nodes, .. } = simulation.scenario;
    let mut found = Vec::new();
    let has_own_route = !routes.is_empty() || faults.iter().any(|fault| is_route(&fault.kind));
    if *forwarding == Forwarding::ShortestPath && !has_own_route {
        for host in simulation.hosts.iter().filter(|host| host.foreign_frames > 0) {
            let (name, frames) = (&nodes[host.node].name, host.foreign_frames);
            found.push(format!("{name}: {frames} frames of other hosts came, and no route leads here"));
        }
    }
    if traffic.iter().any(|it| it.acks.is_some_and(|acks| acks.retransmission == Retransmission::GoBackN)) {
        return found;
    }
    let lost = |(flow, in_network): (&Flow, &u64)| {
        let Flow { sender, receiver, .. } = flow;
        let arrived = receiver.received_frames - receiver.repeated_frames;
        sender.sent_frames.saturating_sub(arrived + in_network)
    };
    let lost: u64 = simulation.flows.iter().zip(in_network).map(lost).sum();
    let ports = snapshots.iter().flat_map(|snapshot| &snapshot.ports);
    let dropped: u64 = ports.flat_map(|port| &port.drops).map(|count| count.frames).sum();
    let cut: u64 = simulation.links.directions.iter().map(|line| line.counts.cut).sum();
    let astray = astray + simulation.hosts.iter().map(|host| host.foreign_frames).sum::<u64>();
    if lost > dropped + cut + astray {
        found.push(format!("{lost} lost > {dropped} dropped + {cut} cut + {astray} for other hosts"));
    }
    found
}

fn is_route(fault: &FaultKind) -> bool {
    matches!(fault, FaultKind::Route(_))
}

/// Lists the nodes that have counted other frames than their links.
fn ends_imbalances(simulation: &Simulation) -> Vec<String> {
    let (nodes, lines) = (&simulation.scenario.nodes, &simulation.links.directions);
    let came_to = |node: usize| {
        let lines = lines.iter().filter(|line| line.to.node == node);
        lines.map(|line| line.counts.arrived - line.pending_control()).sum::<u64>()
    };
    let mut found = Vec::new();
    for (node, index) in simulation.node_indices.iter().enumerate() {
        let received = match *index {
            NodeIndex::Switch(device) => simulation.devices[device].received,
            NodeIndex::Host(host) => {
                let host = &simulation.hosts[host];
                let sent = host.sent_frames + host.sent_control;
                let line_sent = host.ports.iter().map(|port| lines[port.line].counts.sent).sum::<u64>();
                if sent != line_sent {
                    found.push(format!("{}: {sent} sent, {line_sent} on its line", nodes[node].name));
                }
                host.received_frames + host.foreign_frames + host.received_control
            }
        };
        let came = came_to(node);
        if received != came {
            found.push(format!("{}: {received} received, {came} came", nodes[node].name));
        }
    }
    found
}

fn device_imbalances(device: &mut SimSwitch, snapshot: &Snapshot) -> Vec<String> {
    let mut found = Vec::new();
    let ports = || snapshot.ports.iter();
    let received: u64 = ports().map(|port| port.received.frames).sum();
    let transmitted: u64 = ports().map(|port| port.transmitted.frames).sum();
    let dropped: u64 = ports().flat_map(|port| &port.drops).map(|count| count.frames).sum();
    let held = device.data_frames_held();
    if received + snapshot.flood_copies != transmitted + dropped + held {
        let copies = snapshot.flood_copies;
        found.push(format!(
            "{received} received + {copies} copies ≠ {transmitted} transmitted + {dropped} dropped + {held} held"
        ));
    }
    let astray = device.unaccounted_frames();
    if astray != 0 {
        found.push(format!("{astray} frames of memory are neither free nor held"));
    }
    let groups = ports().flat_map(|port| &port.groups).map(|group| group.total.cells);
    let queues = ports().flat_map(|port| &port.queues).map(|queue| queue.level.cells);
    let charged = [groups.sum::<u32>(), queues.sum::<u32>()];
    let cells = device.switch.cells_held();
    if charged != cells || (held == 0) != (charged == [0; 2]) {
        let what = format!("{held} frames of {cells:?} cells held, {charged:?} charged");
        found.push(format!("{what} (at ingress, at egress)"));
    }
    found
}

/// Returns the other end of a port's link.
fn peer(scenario: &Scenario, end: LinkEnd) -> Option<String> {
    let link = scenario.links.iter().find(|link| link.ends.contains(&end))?;
    let other = if link.ends[0] == end { link.ends[1] } else { link.ends[0] };
    Some(scenario.end_name(other))
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use crate::packet::{CARRIED_BYTES, host_mac};

    const CONFIG: &str = "[port.p1]\ninterface = \"i1\"\nspeed = \"10G\"\n\
                          [port.p2]\ninterface = \"i2\"\nspeed = \"10G\"\n\
                          [port.p3]\ninterface = \"i3\"\nspeed = \"10G\"\n";
    const SCENARIO: &str = "duration = \"100us\"\n[switch.s]\nconfig = \"s.toml\"\n[host.\"h[1-3]\"]\n\
                            [[link]]\nends = [\"h[1-3]\", \"s.p[1-3]\"]\n\
                            [[traffic]]\nname = \"t\"\nfrom = \"h1\"\nto = \"h2\"\nrate = \"1G\"\n";

    /// A switch that sends frames to a host that is not their receiver: no switch counts a drop.
    #[test]
    fn frames_that_only_another_host_receives_do_not_add_up() {
        for (route, is_fault) in
            [("", true), ("[[route]]\nswitch = \"s\"\nto = \"h1\"\nport = \"p1\"\n", false)]
        {
            let text = format!("{SCENARIO}{route}");
            let scenario = crate::scenario::parse("t.toml", &text, &mut |_| Ok(CONFIG.to_owned()));
            let scenario = scenario.unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
            let mut simulation = Simulation::new(&scenario);
            simulation.devices[0].switch.set_static(host_mac(2), 2);
            simulation.run_until(scenario.duration_ns, &mut |_| {});
            let results = simulation.finish();
            let frames = results.hosts[2].foreign_frames;
            assert_eq!((frames, results.traffic[0].lost_frames), (8, 9), "one is on its way to h3");
            let what = format!("h3: {frames} frames of other hosts came, and no route leads here");
            assert_eq!(results.imbalances, if is_fault { vec![what] } else { vec![] });
        }
    }

    /// Losses that nothing has counted.
    #[test]
    fn losses_have_a_cause() {
        let scenario =
            crate::scenario::parse("t.toml", SCENARIO, &mut |_| Ok(CONFIG.to_owned())).expect("valid");
        let mut simulation = Simulation::new(&scenario);
        simulation.run_until(scenario.duration_ns, &mut |_| {});
        simulation.flows[0].sender.sent_frames += 5;
        let imbalances = simulation.finish().imbalances;
        assert_eq!(imbalances, ["5 lost > 0 dropped + 0 cut + 0 for other hosts"]);
    }

    /// A frame that is stored and is nowhere in the network.
    #[test]
    fn stored_frames_are_somewhere() {
        let scenario =
            crate::scenario::parse("t.toml", SCENARIO, &mut |_| Ok(CONFIG.to_owned())).expect("valid");
        let mut simulation = Simulation::new(&scenario);
        simulation.run_until(scenario.duration_ns, &mut |_| {});
        let stored = simulation.links.frames.stored() + 1;
        simulation.links.frames.put(&[0; CARRIED_BYTES]).expect("memory");
        let imbalances = simulation.finish().imbalances;
        assert_eq!(imbalances.len(), 1, "{imbalances:?}");
        assert!(imbalances[0].starts_with(&format!("{stored} frames are stored: ")), "{imbalances:?}");
    }
}
