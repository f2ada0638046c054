//! Traffic scenarios: the same received frames, iteration by iteration, for any assignment of ports
//! to loops, and all their results.

use dataplane::flight_recorder::replay::difference;
use switch::settings::{
    EcnMarkPoint, RewriteSettings, Threshold, Trust, VlanList, VlanSettings, WredProfile, WredSettings,
};
use switch::{Event, Snapshot, SwitchSettings};
use wire::ethernet::{Header, IPV4, Tag, VLAN, write_header};
use wire::mac::MacAddr;
use wire::pause::{Pfc, decode};

use super::io_loops::Loops;
use super::{PORTS, frame, mac, settings};

/// More than all frames that the loops keep for themselves.
pub const FRAMES: usize = 16_384;
/// Iterations until settings change.
const SETTINGS_ROUNDS: u64 = 500;
/// Iterations after that until no frames that were parsed by the previous settings wait on port
/// channels.
const REPARSED_ROUNDS: u64 = 40;

/// Creates loops whose hosts are in the FDB.
pub fn loops(settings: &SwitchSettings, served_by: &[usize; PORTS]) -> Loops {
    let macs: Vec<_> = (100..100 + PORTS).map(mac).collect();
    let mut loops = Loops::new(settings, &macs, FRAMES, served_by);
    loops.rounds(2); // I/O loops get free frames and receive
    (0..PORTS).for_each(|n| loops.wires[n].inject(frame(MacAddr::BROADCAST, mac(n), 0)));
    loops.rounds(4);
    loops.wires.iter().for_each(|wire| drop(wire.take_sent()));
    loops
}

/// Builds a frame whose last bytes are a number.
pub fn numbered(to: usize, from: usize, priority: u8, number: u64) -> Vec<u8> {
    let mut bytes = frame(mac(to), mac(from), priority);
    let at = bytes.len() - 8;
    bytes[at..].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// A random number generator with the same sequence in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Builds a frame to one port from another, with a priority and a number.
type MakeFrame = fn(&mut Random, (usize, usize), u8, u64) -> Vec<u8>;

/// The events of a scenario: overload, pauses in both directions, floods, losses in the kernel,
/// blocked ports, and changed settings.
pub struct TrafficScenario {
    /// The initial settings, then two that alternate.
    settings: [fn() -> SwitchSettings; 3],
    frame: MakeFrame,
}

/// All that hosts and users see of a run.
pub struct ScenarioResults {
    /// The frames that left each port in each iteration.
    pub left: Vec<Vec<Vec<u8>>>,
    pub events: Vec<Event>,
    pub snapshot: Snapshot,
}

/// The fate of frames that leave.
enum TxFault {
    Lost,
    Blocked(bool),
}

impl TrafficScenario {
    /// Frames that leave unchanged.
    pub const PLAIN: TrafficScenario = TrafficScenario {
        settings: [settings, || changed(true), || changed(false)],
        frame: |_, (to, from), priority, number| numbered(to, from, priority, number),
    };

    /// Frames that are marked, rewritten and tagged, differently after settings have changed.
    pub const EDITED: TrafficScenario =
        TrafficScenario { settings: [|| edited(false), || edited(true), || edited(false)], frame: tagged };

    /// Runs the scenario; port n is served by loop `served_by[n]`. If the switching core serves no
    /// port, it must not touch the bytes of data frames.
    pub fn reported(&self, served_by: &[usize; PORTS]) -> ScenarioResults {
        let mut loops = loops(&(self.settings[0])(), served_by);
        let mut random = Random(7);
        let (mut left, mut leaving) = (Vec::new(), Vec::new());
        for round in 0..3000 {
            let is_settled = round < SETTINGS_ROUNDS || round % SETTINGS_ROUNDS >= REPARSED_ROUNDS;
            loops.core.memory().is_guarded = is_settled && !served_by.contains(&0);
            for port in 0..PORTS {
                for _ in 0..random.below(6) * random.below(6) {
                    let to = [0, 1, 2, 2, 2, 9][random.below(6) as usize];
                    let priority = [0, 3, 3, 5][random.below(4) as usize];
                    let frame = (self.frame)(&mut random, (to, port), priority, round);
                    loops.wires[port].inject(frame);
                }
                disturb(&mut loops, port, &mut random, &mut leaving);
            }
            if round % SETTINGS_ROUNDS == SETTINGS_ROUNDS - 1 {
                // In force from the next iteration on, also for frames that were parsed before.
                loops.core.memory().is_guarded = false;
                let other = round % (2 * SETTINGS_ROUNDS) == SETTINGS_ROUNDS - 1;
                (0..200).for_each(|_| loops.wires[0].inject(numbered(1, 0, 3, round)));
                loops.apply(&(self.settings[if other { 1 } else { 2 }])());
            }
            loops.round(|wires| {
                leaving.drain(..).for_each(|(port, change)| match change {
                    TxFault::Lost => wires[port].lose(2),
                    TxFault::Blocked(is_blocked) => wires[port].block(is_blocked),
                });
            });
            left.extend(loops.wires.iter().map(|wire| wire.take_sent()));
        }
        loops.wires.iter().for_each(|wire| wire.hold_completions(false));
        loops.round(|wires| wires.iter().for_each(|wire| wire.block(false)));
        loops.rounds(600);
        left.extend(loops.wires.iter().map(|wire| wire.take_sent()));
        let snapshot = loops.conserved();
        ScenarioResults { left, events: std::mem::take(&mut loops.events), snapshot: of_the_switch(snapshot) }
    }
}

impl ScenarioResults {
    /// Checks that the results are the same.
    pub fn is_as(&self, there: &ScenarioResults, served_by: [usize; PORTS]) {
        let differs = self.left.iter().zip(&there.left).position(|(here, there)| here != there);
        assert_eq!(differs, None, "of wire and turn, served by {served_by:?}");
        assert_eq!(self.events, there.events);
        assert_eq!(difference(&self.snapshot, &there.snapshot), None, "served by {served_by:?}");
    }

    /// Counts data frames that left a port and satisfy `is`.
    pub fn count(&self, port: usize, is: impl Fn(&[u8], &Header) -> bool) -> usize {
        let of_port = self.left.iter().skip(port).step_by(PORTS).flatten();
        let is = |bytes: &&Vec<u8>| Header::parse(bytes).is_ok_and(|header| is(bytes, &header));
        of_port.filter(|bytes| decode(bytes).is_err()).filter(is).count()
    }
}

/// Simulates what a host does besides sending data, and what happens to its wire.
fn disturb(loops: &mut Loops, port: usize, random: &mut Random, leaving: &mut Vec<(usize, TxFault)>) {
    if random.below(40) == 0 {
        let mut bytes = [0; 60];
        let quanta = [0, 3, 200][random.below(3) as usize];
        Pfc { enable: 0b0000_1000, quanta: [quanta; 8] }.encode(mac(port), &mut bytes);
        loops.wires[port].inject(bytes);
    }
    match random.below(200) {
        0 => leaving.push((port, TxFault::Lost)),
        1..=3 => leaving.push((port, TxFault::Blocked(true))),
        4..=30 => leaving.push((port, TxFault::Blocked(false))),
        31 => loops.wires[port].hold_completions(true),
        32..=60 => loops.wires[port].hold_completions(false),
        61 => loops.wires[port].drop_for_lack_of_chunks(3),
        62 => loops.wires[port].complete_twice(1),
        _ => {}
    }
}

/// Returns settings that change how frames are parsed, and when peers are paused.
fn changed(other: bool) -> SwitchSettings {
    let mut settings = settings();
    settings.ports[0].classify.trust = if other { Trust::None } else { Trust::Dot1p };
    settings.ports[1].classify.port_priority = 3;
    settings.ports[1].groups[3].xoff = Threshold::Static(if other { 6 } else { 4 });
    settings
}

/// Port 0 marks at enqueue, port 2 marks at dequeue and rewrites tags, port 1 rewrites packets.
/// Each has VLANs. Alternately one of them does without.
fn edited(other: bool) -> SwitchSettings {
    let mut settings = changed(other);
    let curve = WredProfile { low_cells: 1, high_cells: 6, probability_percent: 60 };
    let wred =
        |mark_at| WredSettings { exponent: 0, ecn: true, mark_at, curves: [curve; 3], ..Default::default() };
    let trunk = |pvid| VlanSettings::Trunk { pvid, allowed: VlanList::of([10..=10, 20..=20]) };
    let [first, second, third] = &mut settings.ports[..] else { panic!("three ports") };
    first.queues.iter_mut().for_each(|queue| queue.wred = (!other).then(|| wred(EcnMarkPoint::Enqueue)));
    third.queues.iter_mut().for_each(|queue| queue.wred = Some(wred(EcnMarkPoint::Dequeue)));
    second.rewrite =
        RewriteSettings { dot1p: None, dscp: (!other).then_some([40, 41, 42, 43, 44, 45, 46, 47]) };
    third.rewrite = RewriteSettings { dot1p: Some([1, 1, 6, 3, 1, 7, 1, 1]), dscp: None };
    first.vlan = trunk(Some(10));
    second.vlan = VlanSettings::Access { pvid: 10 };
    third.vlan = if other { trunk(None) } else { trunk(Some(20)) };
    settings
}

/// Builds a packet with any of the tags that ports know, and any ECN field.
fn tagged(random: &mut Random, (to, from): (usize, usize), priority: u8, number: u64) -> Vec<u8> {
    let vid = [None, Some(0), Some(10), Some(20)][random.below(4) as usize];
    let tag = vid.map(|vid| Tag { tpid: VLAN, pcp: priority, dei: false, vid });
    let mut bytes = vec![0; 64];
    let at = write_header(&mut bytes, mac(to), mac(from), tag, IPV4);
    bytes[at..at + 2]
        .copy_from_slice(&[0x45, (priority << 5) | [0, 1, 2, 2, 2, 3][random.below(6) as usize]]);
    bytes[56..].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Removes the values that belong to a loop, not to the switch, and the number of system calls.
fn of_the_switch(mut snapshot: Snapshot) -> Snapshot {
    snapshot.ports.iter_mut().for_each(|port| (port.kernel.tx_kicks, port.kernel.tx_again) = (0, 0));
    Snapshot { at_ns: 0, ..snapshot.without_loop_counters() }
}
