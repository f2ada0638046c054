//! The network of the demo: built, observed, stopped.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use control::frames;
use host::report::{FlowReceived, HostReport};
use sim::Scenario;
use testbed::scenario::{flow_argument, flows, host_arguments, hosts, with_duration};
use testbed::{
    Daemon, Endpoint, Host, Port, Snapshot, Testbed, conservation, idle, line_bytes, lost_by_kernels,
    pauses_sent, port,
};

use crate::collector::{self, Collector};
use crate::measurements::{DemoResults, Flow, Measurements, Queue, Total};

/// The network, which `sluice lab` and `sluice sim` run, too, and the configuration of its switch.
const SCENARIO: &str = include_str!("../../../../../config/scenarios/demo.toml");
const SWITCH: &str = include_str!("../../../../../config/scenarios/devices/demo.toml");
/// Bytes of each frame, without FCS.
const FRAME_BYTES: u64 = 1000;
/// Rate of the congested port, in bit/s.
const SLOW_BPS: u64 = 500_000_000;
/// The priorities, with their queues (the default map of 802.1p priority to local precedence), in
/// the order of the scenario: the no-drop one first.
const PRIORITIES: [(u8, usize); 2] = [(3, 3), (0, 2)];
const SENDERS: [&str; 2] = ["sender1", "sender2"];
const RECEIVER: &str = "receiver";

/// Returns the scenario, with another duration.
fn scenario(seconds: u32) -> Result<Scenario> {
    let read = sim::scenario::parse("demo.toml", SCENARIO, &mut |_| Ok(SWITCH.to_owned()));
    let scenario = read.map_err(|mistakes| anyhow!("{}", mistakes[0]))?;
    Ok(with_duration(scenario, u64::from(seconds) * 1_000_000_000))
}

/// Returns the configuration of the switch.
fn config(pfc: bool) -> String {
    let text = if pfc { SWITCH.to_owned() } else { SWITCH.replace("mode    = \"on\"", "mode    = \"off\"") };
    text + collector::CONFIG
}

/// The running demo. On drop it removes all that it made, in the order of its fields.
#[derive(Debug)]
pub struct Demo {
    senders: Vec<Host>,
    receiver: Host,
    daemon: Daemon,
    collector: Collector,
    macs: Vec<String>,
    pfc: bool,
    total: Duration,
    /// The first and the latest snapshot while all senders certainly sent.
    sending: Option<(Snapshot, Snapshot)>,
    last: Sample,
    _bed: Testbed,
}

#[derive(Debug, Default)]
struct Sample {
    snapshot: Snapshot,
    sent: Vec<HostReport>,
    received: HostReport,
}

impl Demo {
    /// Builds the network and starts everything; the senders wait.
    pub fn build(seconds: u32, pfc: bool) -> Result<Self> {
        let scenario = scenario(seconds)?;
        let bed = Testbed::new()?;
        let switch = bed.switch("switch")?;
        let plug = |name: &str| bed.sluice_host(&switch, name);
        let stations: Vec<Endpoint> = SENDERS.into_iter().map(plug).collect::<Result<_>>()?;
        let receiver_at = plug(RECEIVER)?;
        let collector = Collector::start(&switch, bed.dir())?;
        let daemon = bed.daemon(&switch, &config(pfc))?;
        let start = |station: &Endpoint| {
            let mut hosts = hosts(&scenario);
            let (number, _, host) = hosts.find(|(_, node, _)| node.name == station.name).context("a host")?;
            let flows = flows(&scenario).into_iter().filter(|flow| flow.from == number);
            let flows: Vec<String> =
                flows.map(|flow| flow_argument(&scenario, &flow, &receiver_at.mac())).collect();
            let arguments = host_arguments(&scenario, number, host);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            // A receiver receives until it is stopped.
            let arguments = if flows.is_empty() { &arguments[2..] } else { &arguments[..] };
            bed.host(station, &flows, arguments)
        };
        let receiver = start(&receiver_at)?;
        let senders = stations.iter().map(start).collect::<Result<_>>()?;
        daemon.until_announced(3)?;
        Ok(Self {
            senders,
            receiver,
            daemon,
            collector,
            macs: stations.iter().map(Endpoint::mac).collect(),
            pfc,
            total: Duration::from_secs(seconds.into()),
            sending: None,
            last: Sample::default(),
            _bed: bed,
        })
    }

    /// Starts the senders.
    pub fn start(&mut self) -> Result<()> {
        self.last.snapshot = self.daemon.snapshot()?;
        self.senders.iter_mut().try_for_each(Host::start_sending)
    }

    /// True until the last sender has sent everything.
    pub fn is_sending(&mut self) -> Result<bool> {
        for sender in &mut self.senders {
            if !sender.has_sent_all()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Collects the numbers of one picture.
    pub fn sample(&mut self) -> Result<Measurements> {
        let now = Sample {
            snapshot: self.daemon.snapshot()?,
            sent: self.senders.iter().map(|sender| sender.report().unwrap_or_default()).collect(),
            received: self.receiver.report().unwrap_or_default(),
        };
        let before = std::mem::replace(&mut self.last, now);
        let now = &self.last;
        let slow = port(&now.snapshot, RECEIVER)?;
        let mut scene = Measurements {
            elapsed: Duration::from_nanos(now.sent.iter().map(|report| report.elapsed_ns).max().unwrap_or(0)),
            total: self.total,
            speed_bps: SLOW_BPS,
            carried_bps: carried_bps(&before.snapshot, &now.snapshot)?,
            queues: PRIORITIES.map(|(p, q)| queue(&now.snapshot, slow, p, q)).to_vec(),
            ..Measurements::default()
        };
        for (sender, name) in SENDERS.iter().enumerate() {
            for (number, (priority, _)) in PRIORITIES.into_iter().enumerate() {
                scene.flows.push(self.flow(&before, sender, name, number, priority)?);
            }
        }
        if self.senders.iter().all(|sender| sender.is_sending(self.total)) {
            let snapshot = self.last.snapshot.clone();
            let first = self.sending.take().map_or_else(|| snapshot.clone(), |(first, _)| first);
            self.sending = Some((first, snapshot));
        }
        Ok(scene)
    }

    fn flow(&self, before: &Sample, sender: usize, name: &str, number: usize, priority: u8) -> Result<Flow> {
        let now = &self.last;
        let ingress = port(&now.snapshot, name)?.groups.get(usize::from(priority)).context("eight groups")?;
        let sending = |moment: &Sample| {
            let report = moment.sent.get(sender).cloned().unwrap_or_default();
            let flow = report.sent.get(number).cloned().unwrap_or_default();
            (report.elapsed_ns, flow.offered_frames, flow.sent_frames)
        };
        let arriving = |moment: &Sample| -> (u64, FlowReceived) {
            let found = moment
                .received
                .received
                .iter()
                .find(|flow| flow.from == self.macs[sender] && flow.priority == priority);
            (moment.received.elapsed_ns, found.cloned().unwrap_or_default())
        };
        let ((t0, offered0, sent0), (t1, offered1, sent1)) = (sending(before), sending(now));
        let ((u0, received0), (u1, received1)) = (arriving(before), arriving(now));
        Ok(Flow {
            host: name.to_string(),
            priority,
            no_drop: self.pfc && ingress.no_drop,
            offered_bps: rate_bps(offered1.saturating_sub(offered0), t1.saturating_sub(t0)),
            sent_bps: rate_bps(sent1.saturating_sub(sent0), t1.saturating_sub(t0)),
            received_bps: rate_bps(
                received1.received_frames.saturating_sub(received0.received_frames),
                u1.saturating_sub(u0),
            ),
            lost_frames: received1.lost_frames,
            pauses: ingress.xoff_episodes,
            xoff: ingress.xoff,
        })
    }

    /// Waits until the network is idle, stops everything, and adds up.
    pub fn end(self) -> Result<DemoResults> {
        let carried_bps = match &self.sending {
            Some((first, last)) => carried_bps(first, last)?,
            None => 0,
        };
        let at_rest = |s: &Snapshot| idle(s).then(|| s.clone());
        let reported = self.daemon.until("the switch has sent all it held", at_rest)?;
        for host in self.senders.iter().chain([&self.receiver]) {
            let _ = host.until_reported(pauses_sent(port(&reported, &host.port)?)); // what it never hears the balance below says
        }
        // The receiver announces itself as long as it runs: the senders must be there to receive
        // that.
        let received = self.receiver.stop()?;
        let snapshot = self.daemon.until("the switch has sent all it held", at_rest)?;
        let sent: Vec<HostReport> =
            Host::stop_all(self.senders)?.into_iter().map(|(_, report)| report).collect();
        let mut hosts: Vec<(&str, &HostReport)> = SENDERS.into_iter().zip(&sent).collect();
        hosts.push((RECEIVER, &received));
        let imbalance = conservation(&snapshot, &hosts).err().map(|error| error.to_string());
        let pauses = |of: fn(&host::report::Pause) -> u64| -> u64 {
            sent.iter().flat_map(|report| &report.pauses).filter(|pause| pause.priority == 3).map(of).sum()
        };
        let episodes = SENDERS.iter().map(|name| Ok(port(&snapshot, name)?.groups[3].xoff_episodes));
        let lost_by_kernels = lost_by_kernels(&snapshot, sent.iter().chain([&received]));
        let [no_drop, best_effort] =
            PRIORITIES.map(|(priority, queue)| total(&snapshot, &sent, &received, priority, queue));
        let collected = self.collector.received(unix_ms())?;
        self.daemon.stop()?;
        Ok(DemoResults {
            received: collected,
            pfc: self.pfc,
            no_drop,
            best_effort,
            pauses: episodes.sum::<Result<u64>>()?,
            xons: pauses(|pause| pause.xon),
            paused: Duration::from_nanos(pauses(|pause| pause.paused_ns)),
            sent_while_paused: pauses(|pause| pause.sent_while_paused),
            carried_bps,
            speed_bps: SLOW_BPS,
            lost_by_kernels,
            worst_stall: Duration::from_nanos(snapshot.loop_worst_stall_ns),
            imbalance,
        })
    }
}

/// Returns the current time, in ms since 1970.
fn unix_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.as_millis() as u64
}

/// Returns the totals of one priority, from the counters of both ends and of the switch.
fn total(
    snapshot: &Snapshot,
    sent: &[HostReport],
    received: &HostReport,
    priority: u8,
    queue: usize,
) -> Total {
    let sent = sent.iter().flat_map(|report| &report.sent).filter(|flow| flow.priority == priority);
    let arrived = || received.received.iter().filter(|flow| flow.priority == priority);
    Total {
        sent: sent.map(|flow| flow.sent_frames).sum(),
        received: arrived().map(|flow| flow.received_frames).sum(),
        dropped: dropped(snapshot, priority, queue),
        disordered: arrived().map(|flow| flow.reordered_frames + flow.duplicated_frames).sum(),
        corrupted: arrived().map(|flow| flow.corrupted_frames).sum(),
    }
}

/// Returns the frames of a priority that the switch dropped: at ingress for lack of room, or at
/// their queue.
fn dropped(snapshot: &Snapshot, priority: u8, queue: usize) -> u64 {
    let by =
        |port: &Port| frames(port.groups[usize::from(priority)].dropped) + frames(port.queues[queue].dropped);
    snapshot.ports.iter().map(by).sum()
}

fn queue(snapshot: &Snapshot, slow: &Port, priority: u8, number: usize) -> Queue {
    let level = slow.queues.get(number).and_then(|queue| queue.level).unwrap_or_default();
    let kilobytes = |cells: u32| u64::from(cells) * u64::from(snapshot.cell_bytes) / 1000;
    Queue {
        number,
        priority,
        level_kb: kilobytes(level.cells),
        peak_kb: kilobytes(level.peak_cells),
        dropped_frames: dropped(snapshot, priority, number),
    }
}

/// Returns the rate on the slow port's line between two snapshots.
fn carried_bps(before: &Snapshot, now: &Snapshot) -> Result<u64> {
    let bytes = |snapshot| Ok::<u64, anyhow::Error>(line_bytes(port(snapshot, RECEIVER)?));
    let ns = now.at_ns.saturating_sub(before.at_ns);
    Ok((u128::from(bytes(now)?.saturating_sub(bytes(before)?)) * 8_000_000_000)
        .checked_div(u128::from(ns))
        .map_or(0, |bps| bps as u64))
}

/// Returns the rate of `frames` frames of the demo's size in `ns` nanoseconds, in bit/s.
fn rate_bps(frames: u64, ns: u64) -> u64 {
    (u128::from(frames * FRAME_BYTES) * 8_000_000_000).checked_div(u128::from(ns)).map_or(0, |bps| bps as u64)
}
