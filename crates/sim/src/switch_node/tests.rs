//! Compares a simulated software switch with the daemon's loop over ports in memory. Both get the
//! same frames at the same times. After each iteration, counters, watermarks, pauses and drops are
//! equal to the cell.

#[path = "../../../dataplane/tests/lab/loopback_port.rs"]
mod loopback_port;

use std::task::Waker;

use self::loopback_port::{LoopbackPort, Wire};
use dataplane::{Handle, LoopCommand, PollLoop, PollLoopSettings, Reply, mailbox};
use switch::{HeapMemory, Snapshot};
use wire::ethernet::{EXPERIMENTAL, Tag, write_header};
use wire::mac::MacAddr;
use wire::pause::Pfc;
use wire::random::Random;

use super::*;
use crate::packet::{Packet, host_mac};
use crate::scenario::{Forwarding, HostNode, Link, LinkEnd, Node, NodeKind};
use crate::time::of_ns;

const PORTS: usize = 4;
const TURN_NS: u64 = 20_000;
const TURNS: u64 = 3_000;

/// XOFF at few cells, so that it occurs often, and little headroom and memory, so that frames are
/// dropped.
const CONFIG: &str = r#"
[buffer]
total_cells = 2048
headroom_cells = 256
[wred.roce.queue.3]
ecn = true
weighting_exponent = 0
green = { low_cells = 20, high_cells = 100, probability_percent = 50 }
[port-defaults]
trust = "dot1p"
wred = "roce"
[port-defaults.pfc]
mode = "on"
no_drop = [3]
[port-defaults.pfc.priority.3]
xoff = { dynamic_percent = 2 }
headroom_cells = 60
"#;

/// A switch with an iteration every 20 µs, and a host at each port.
fn scenario() -> Scenario {
    let port = |n: usize| format!("[port.p{n}]\ninterface = \"i{n}\"\n");
    let text = CONFIG.to_owned() + &(0..PORTS).map(port).collect::<String>();
    let settings = config::parse("device", &text).unwrap_or_else(|mistakes| panic!("{mistakes}")).switch;
    let switch = NodeKind::Switch(Box::new(SwitchNode {
        settings,
        turn_ns: TURN_NS,
        multipath: Default::default(),
        dcbx: vec![],
        lldp: vec![],
        file: String::new(),
        added_ports: String::new(),
        interfaces: vec![],
    }));
    let host = |_| NodeKind::Host(HostNode::DEFAULT);
    let kinds = std::iter::once(switch).chain((0..PORTS).map(host));
    let link = |n| Link {
        name: format!("h{n}"),
        ends: [LinkEnd { node: 0, port: n }, LinkEnd { node: 1 + n, port: 0 }],
        speed_bps: 10_000_000_000,
        cable_m: 0,
        propagation_ns: 0,
        mtu_bytes: 9216,
        response_ns: 0,
        overhead_bytes: 24,
    };
    Scenario {
        title: "two loops".to_owned(),
        duration_ns: TURN_NS * TURNS,
        warmup_ns: 0,
        seed: 1,
        sample_ns: TURN_NS,
        forwarding: Forwarding::Learning,
        convergence_ns: None,
        latency: false,
        queue_lengths: false,
        nodes: kinds.enumerate().map(|(n, kind)| Node { name: format!("n{n}"), kind }).collect(),
        links: (0..PORTS).map(link).collect(),
        traffic: Vec::new(),
        routes: Vec::new(),
        faults: Vec::new(),
        expectations: Vec::new(),
        sweep: Default::default(),
        warnings: config::ConfigErrors::default(),
    }
}

/// The daemon's loop.
struct Daemon {
    core: PollLoop<LoopbackPort>,
    wires: Vec<Wire>,
    handle: Handle,
}

impl Daemon {
    fn new(settings: &SwitchSettings, macs: &[MacAddr], memory_frames: usize) -> Self {
        let switch = Switch::new(settings, macs, memory_frames);
        let memory = HeapMemory::new(memory_frames, 2048);
        let (ports, wires): (Vec<_>, Vec<_>) = (0..PORTS).map(|_| LoopbackPort::new()).unzip();
        wires.iter().for_each(|wire| wire.set_transmit_room(usize::MAX));
        let (handle, mailbox) = mailbox(Waker::noop().clone());
        let settings =
            PollLoopSettings { complete_checksums: vec![false; PORTS], ..PollLoopSettings::default() };
        Self { core: PollLoop::new(switch, ports, memory, memory_frames, mailbox, settings), wires, handle }
    }

    /// Runs an iteration. Returns the switch's counters after it.
    fn turn(&mut self, now: Instant) -> Snapshot {
        let request = LoopCommand::Snapshot { snapshot: Box::default(), read_watermarks: false };
        self.handle.send(request).expect("room for a command");
        self.core.iterate(now);
        self.wires.iter().for_each(|wire| drop(wire.take_sent()));
        let mut replies = std::iter::from_fn(|| self.handle.receive());
        let found =
            replies.find_map(|reply| if let Reply::Snapshot(found) = reply { Some(found) } else { None });
        // Excludes counters of a loop on a real kernel.
        let mut snapshot = found.expect("an answer").without_loop_counters();
        (snapshot.memory_frames, snapshot.events_lost) = (0, 0);
        snapshot.ports.iter_mut().for_each(|port| port.kernel = Default::default());
        snapshot
    }
}

/// The simulated switch, the frames that its link directions were given in earlier iterations, and
/// the frames that they have sent.
struct Simulated {
    device: SimSwitch,
    wires: Links,
    given: [[usize; 2]; PORTS],
    sent: [usize; PORTS],
}

impl Simulated {
    fn receive(&mut self, port: usize, packet: &Packet, at: Picos) {
        let frame = self.wires.frames.put(&packet.bytes).expect("memory");
        self.device.receive(port, (frame, packet.len), at, &mut self.wires.frames);
    }

    /// Runs an iteration. Before it, the links send the frames of the iteration before the last, as
    /// a port in memory does.
    fn turn(&mut self, at: Picos) -> Snapshot {
        self.wires.now = at;
        for port in 0..PORTS {
            let line = self.device.ports[port].line.expect("each port has a line");
            for _ in self.sent[port]..self.given[port][0] {
                self.wires.directions[line].end_now();
                self.device.line_free(port, &mut self.wires);
            }
            self.sent[port] = self.given[port][0];
        }
        self.device.turn(&mut self.wires);
        for port in 0..PORTS {
            let of_line = &self.device.ports[port];
            self.given[port] = [self.given[port][1], self.sent[port] + of_line.outstanding()];
        }
        let mut snapshot = Snapshot::default();
        self.device.switch.snapshot(instant(at), &mut snapshot);
        snapshot.events_lost = 0; // nobody reads the events of a simulated switch
        snapshot
    }
}

fn both() -> (Simulated, Daemon) {
    let scenario = scenario();
    let wires = Links::new(&scenario.links, scenario.seed);
    let NodeKind::Switch(node) = &scenario.nodes[0].kind else { panic!("a switch") };
    let device = SimSwitch::new((0, 0), node, &scenario, &[0], &wires);
    let settings = switch_settings(0, node, &scenario, &wires);
    let macs: Vec<_> = (0..PORTS).map(|port| port_mac(0, port)).collect();
    let daemon = Daemon::new(&settings, &macs, device.memory_frames);
    (Simulated { device, wires, given: [[0; 2]; PORTS], sent: [0; PORTS] }, daemon)
}

/// Returns a frame from the host at `port`: data to another host or to an unknown address, a pause,
/// or its end.
fn arrival(port: usize, random: &mut Random) -> Packet {
    let mut below = |n: u64| u64::from(random.draw()) % n;
    let mut bytes = [0; CARRIED_BYTES];
    if below(200) == 0 {
        let quanta = [0, 0, 0, if below(2) == 0 { 0 } else { 4000 }, 0, 0, 0, 0];
        let frame = bytes.first_chunk_mut().expect("PFC is carried whole");
        Pfc { enable: 1 << 3, quanta }.encode(host_mac(1 + port), frame);
        return Packet { len: 60, bytes };
    }
    // Half of the data goes to the first host; one address is unknown.
    let to = if below(2) == 0 { 0 } else { below(PORTS as u64 + 1) as usize };
    let priority = [0, 3, 3, 5][below(4) as usize];
    let tag = Some(Tag::priority(priority));
    write_header(&mut bytes, host_mac(1 + to), host_mac(1 + port), tag, EXPERIMENTAL);
    Packet { len: 64 + below(1400) as u16, bytes }
}

#[test]
#[cfg_attr(miri, ignore = "a hundred thousand frames")]
fn a_simulated_software_switch_counts_what_the_daemon_counts() {
    let (mut simulated, mut daemon) = both();
    let mut random = Random::new(7);
    let mut last = Snapshot::default();
    for turn in 1..=TURNS {
        let at = of_ns(turn * TURN_NS);
        // Some bursts exceed a batch.
        let burst = [0, 2, 10, 100][random.draw() as usize % 4];
        for port in 0..PORTS {
            for _ in 0..burst {
                let packet = arrival(port, &mut random);
                simulated.receive(port, &packet, at);
                let mut bytes = packet.bytes.to_vec();
                bytes.resize(usize::from(packet.len), 0);
                daemon.wires[port].inject(bytes);
            }
        }
        last = daemon.turn(instant(at));
        assert_eq!(simulated.turn(at), last, "turn {turn}");
    }
    // The test has covered all functions of the switch.
    let ports = || last.ports.iter();
    let count = |count: fn(&switch::monitor::counters::PortSnapshot) -> u64| ports().map(count).sum::<u64>();
    for (what, count) in [
        ("transmitted", count(|port| port.transmitted.frames)),
        ("flood copies", last.flood_copies),
        ("drops", count(|port| port.drops.iter().map(|drop| drop.frames).sum())),
        ("PFC sent", count(|port| port.pfc_sent.frames)),
        ("PFC received", count(|port| port.pfc_received.frames)),
        ("pauses", count(|port| port.queues[3].pauses)),
        ("headroom", u64::from(last.headroom.level.peak_cells)),
    ] {
        assert!(count > 0, "no {what}");
    }
}
