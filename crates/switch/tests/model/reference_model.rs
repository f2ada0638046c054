//! The switch compared with a small reference model (module `reference`). Random arrivals,
//! departures, pauses, reconfigurations, and ports that are removed and added; after every step all
//! cells, thresholds, XOFF states, drops, watermarks, violations and WRED averages of the switch
//! must equal the model's.
//!
//! `MODEL_RUNS=100000 cargo test -p switch --test reference_model` searches for longer. A seed that
//! fails is written to `tests/model-seeds.txt`, which is run first from then on.

#[path = "../lab/mod.rs"]
mod lab;
mod reference;

use std::io::Write;

use lab::{Frame, Lab, OPEN, mac};
use reference::{ArrivingFrame, Model, PORTS, REASONS, everywhere};
use switch::settings::{
    Alpha, BufferSettings, ClassifySettings, EcnMarkPoint, GroupSettings, Guaranteed, PRIORITIES,
    PfcWdAction, PortSettings, QueueSettings, Restoration, SwitchSettings, Threshold, WatchdogSettings,
    WredProfile, WredSettings,
};
use switch::{Event, FrameMemory, TxDesc};
use wire::ethernet::Header;
use wire::mac::MacAddr;
use wire::pause::Pfc;
use wire::random::Random;

const STEPS: usize = 700;
/// 3000 runs of 700 steps are 2.1 million steps.
const RUNS: u64 = 3000;
const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model-seeds.txt");

/// Choices of steps and settings.
struct Choices(Random);

impl Choices {
    /// Returns a number below `end`.
    fn below(&mut self, end: u32) -> u32 {
        self.0.below(u64::from(end)) as u32
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u32) as usize]
    }

    fn threshold(&mut self, cells: u32) -> Threshold {
        if self.below(2) == 0 {
            Threshold::Static(self.below(cells))
        } else {
            Threshold::Dynamic(Alpha::from_percent(self.one_of(&[0, 1, 3, 5, 11, 20, 33, 50, 66, 80, 100])))
        }
    }

    /// Returns WRED settings that average and pick nothing: `wred.rs` tests which frames are
    /// picked.
    fn wred(&mut self) -> Option<WredSettings> {
        let never = WredProfile { low_cells: u32::MAX, high_cells: u32::MAX, probability_percent: 100 };
        let wred = WredSettings {
            exponent: self.one_of(&[0, 1, 4, 9, 12]),
            ecn: self.below(2) == 0,
            mark_at: self.one_of(&[EcnMarkPoint::Enqueue, EcnMarkPoint::Dequeue]),
            curves: [never; 3],
            ..WredSettings::default()
        };
        (self.below(2) == 0).then_some(wred)
    }

    /// Returns watchdog settings with short times, since a run is a second long.
    fn watchdog(&mut self) -> Option<WatchdogSettings> {
        let settings = WatchdogSettings {
            detection_ns: self.one_of(&[1_000, 100_000]),
            action: self.one_of(&[PfcWdAction::Forward, PfcWdAction::Drop, PfcWdAction::Drop]),
            restore: self.one_of(&[
                Restoration::After(500_000),
                Restoration::Quiet(2_000_000),
                Restoration::QuietInterval,
                Restoration::Manual,
            ]),
            limit: None,
        };
        (self.below(3) > 0).then_some(settings)
    }

    fn pool_percent(&mut self) -> [u8; 4] {
        self.one_of(&[[100, 0, 0, 0], [80, 20, 0, 0], [25, 25, 25, 25], [33, 33, 33, 0], [0, 100, 0, 0]])
    }

    /// Returns pool sizes, explicit for some pools.
    fn pool_cells(&mut self, total_cells: u32) -> [Option<u32>; 4] {
        let of = |part: u32| Some(total_cells / part);
        self.one_of(&[
            [None; 4],
            [None; 4],
            [None, of(5), None, of(9)],
            [of(3), None, None, None],
            [of(2); 4],
        ])
    }

    /// Returns settings that differ in everything that may change on a running switch.
    fn settings(&mut self, cell_bytes: u32, total_cells: u32) -> SwitchSettings {
        let mut settings = lab::settings(PORTS, 0, 0, 0);
        settings.usage_percent = self.one_of(&[100, 90, 70, 10]);
        let flooded = [None, None, Some([0, 1, 1, 1, 2, 2, 6, 6]), Some([2, 0, 1, 6, 4, 3, 6, 7])];
        settings.bridge.unknown_unicast_to_queue = self.one_of(&flooded);
        settings.bridge.multicast_to_queue = self.one_of(&flooded);
        settings.buffer = BufferSettings {
            cell_bytes,
            total_cells,
            fixed_cells: self.below(total_cells / 4),
            headroom_cells: self.below(total_cells / 3),
            ingress_pool_percent: self.pool_percent(),
            egress_pool_percent: self.pool_percent(),
            ingress_pool_cells: self.pool_cells(total_cells),
            egress_pool_cells: self.pool_cells(total_cells),
            pause_cells: std::array::from_fn(|_| (self.below(3) == 0).then(|| self.below(total_cells / 3))),
        };
        for port in &mut settings.ports {
            port.pfc.no_drop = self.one_of(&[0, 0b0000_1000, 0b0010_1000, 0b1110_0000, 0xff]);
            (port.pfc.tx, port.pfc.rx) = (self.below(8) != 0, self.below(4) != 0);
            port.classify.dot1p_to_queue =
                self.one_of(&[[2, 0, 1, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7], [1; 8]]);
            port.watchdog = std::array::from_fn(|_| self.watchdog());
            for priority in 0..PRIORITIES {
                port.groups[priority] = GroupSettings {
                    pool: self.below(4) as u8,
                    reserved_cells: self.below(6),
                    xoff: self.threshold(25),
                    xon_offset_cells: self.below(10),
                    resume_cells: self.below(8),
                    headroom_cells: self.below(20),
                };
                port.queues[priority] = QueueSettings {
                    pool: self.below(4) as u8,
                    guaranteed: match self.below(2) {
                        0 => Guaranteed::Percent(self.below(40) as u8),
                        _ => Guaranteed::Cells(self.below(8)),
                    },
                    shared: (self.below(3) > 0).then(|| self.threshold(40)),
                    wred: self.wred(),
                    ..port.queues[priority]
                };
            }
        }
        settings
    }
}

/// The switch and the model, and the pause state advertised to the peers.
struct Pair {
    lab: Lab,
    model: Model,
    reported: [u8; PORTS],
    cell_bytes: u32,
    /// Classification of each port before it was removed.
    classify: [ClassifySettings; PORTS],
}

impl Pair {
    fn step(&mut self, random: &mut Choices, total_cells: u32) {
        let port = random.below(PORTS as u32) as usize;
        match random.below(100) {
            0..55 => {
                let to = random.below(PORTS as u32 + 1) as usize;
                let priority = random.one_of(&[0, 3, 3, 5, 7]);
                let len = random.one_of(&[60, 64, 65, 208, 209, 254, 256, 257, 1514]);
                self.arrive(port, to, priority, len);
            }
            55..90 => {
                let before = self.lab.with_kernel[port].len();
                self.lab.transmit(port, random.below(6) as usize);
                for outgoing in &self.lab.with_kernel[port][before..] {
                    if let Some(sequence) = sequence(&self.lab, outgoing) {
                        self.model.hand_out(sequence, port, self.lab.now);
                    }
                }
                let frames = random.below(8) as usize;
                for outgoing in self.lab.with_kernel[port].iter().take(frames) {
                    if let Some(sequence) = sequence(&self.lab, outgoing) {
                        self.model.leave(sequence, port);
                    }
                }
                self.lab.complete(port, frames);
            }
            90..94 if !self.is_there(port) => {}
            90..94 => {
                let quanta = random.one_of(&[0, 10, 1000]);
                self.lab.send_pfc(port, Pfc { enable: random.0.bits() as u8, quanta: [quanta; 8] });
            }
            94 => {
                self.lab.switch.recover_storms(port, self.lab.now, &mut self.lab.memory);
            }
            95 => self.remove_or_add(port, random, total_cells),
            96..99 => self.lab.now = self.lab.now + u64::from(random.below(1_000_000)),
            _ => {
                let mut settings = random.settings(self.cell_bytes, total_cells);
                // Another map would let frames overtake frames that wait in the queue of the old
                // map.
                settings.bridge = self.model.settings.bridge;
                for (new, old) in settings.ports.iter_mut().zip(&self.model.settings.ports) {
                    match old.is_vacant() {
                        true => *new = PortSettings::vacant(),
                        false => new.classify = old.classify.clone(),
                    }
                }
                self.apply(settings);
            }
        }
        self.follow_storms(false);
        self.lab.now = self.lab.now + 1_000;
        self.lab.switch.tick(self.lab.now, &mut self.lab.memory);
        self.follow_storms(true);
        self.model.examine();
        self.advertise();
    }

    fn apply(&mut self, settings: SwitchSettings) {
        self.lab.switch.apply(&settings, self.lab.now);
        self.model.reconfigure(settings);
        self.model.examine(); // before a storm that ends or begins at the tick changes what there is
    }

    /// Removes a port with all frames that wait for it, or adds another one in its slot.
    fn remove_or_add(&mut self, port: usize, random: &mut Choices, total_cells: u32) {
        let mut settings = self.model.settings.clone();
        let now = self.lab.now;
        if self.is_there(port) {
            let with_kernel = self.lab.with_kernel[port].iter();
            let with_kernel: Vec<u64> =
                with_kernel.filter_map(|outgoing| sequence(&self.lab, outgoing)).collect();
            self.lab.switch.port_down(port, now, &mut self.lab.memory);
            for outgoing in self.lab.with_kernel[port].drain(..) {
                self.lab.switch.abort_tx(port, outgoing.frame, now, &mut self.lab.memory);
            }
            self.model.take_down(port, &with_kernel);
            self.model.examine();
            self.reported[port] = 0;
            self.classify[port] = settings.ports[port].classify.clone();
            settings.ports[port] = PortSettings::vacant();
            self.apply(settings);
        } else {
            settings.ports[port] = random.settings(self.cell_bytes, total_cells).ports[port].clone();
            // Its host continues its flows, some frames of which may still wait.
            settings.ports[port].classify = self.classify[port].clone();
            self.model.reset(port);
            self.apply(settings);
            self.lab.switch.port_up(port, None, now);
            self.lab.switch.set_learned(mac(port), port, now);
        }
    }

    fn is_there(&self, port: usize) -> bool {
        !self.model.settings.ports[port].is_vacant()
    }

    /// Receives a frame; a `to` beyond the ports is broadcast. Nothing is received on a slot
    /// without a port, and no frame to a host that the FDB does not know.
    fn arrive(&mut self, port: usize, to: usize, priority: u8, len: u16) {
        if !self.is_there(port) || (to < PORTS && !self.is_there(to)) {
            return;
        }
        let cells = u32::from(len).div_ceil(self.cell_bytes);
        let dst = if to < PORTS { mac(to) } else { MacAddr::BROADCAST };
        self.lab.arrive(Frame { port, dst, priority, len });
        let others = (0..PORTS).filter(|&out| out != port && (to == out || to >= PORTS));
        let outs: Vec<usize> = others.filter(|&out| self.is_there(out)).collect();
        let arrival = ArrivingFrame {
            sequence: self.lab.sequence,
            port,
            priority: usize::from(priority),
            cells,
            multicast: to >= PORTS,
        };
        if !outs.is_empty() {
            self.model.arrive(arrival, &outs, self.lab.now);
        }
    }

    /// Takes over from the switch which priorities are stormed; the model derives the effects.
    /// Other settings take effect at the tick.
    fn follow_storms(&mut self, ticked: bool) {
        let mut began = false;
        for (_, event) in self.lab.switch.drain_events() {
            match event {
                Event::StormBegan { port, priority } => {
                    self.model.stormed[port][priority] = true;
                    began = true;
                }
                Event::StormEnded { port, priority } => self.model.stormed[port][priority] = false,
                _ => {}
            }
        }
        if ticked || began {
            self.model.flush_storms(self.lab.now);
        }
    }

    /// Transmits PFC frames, and nothing else.
    fn advertise(&mut self) {
        for port in 0..PORTS {
            self.lab.switch.hold(port, true);
            self.lab.transmit(port, 1);
            self.lab.complete_pfc(port);
            self.lab.switch.hold(port, false);
            for pfc in self.lab.pfc_sent(port) {
                let paused = (0..8).filter(|&p| pfc.quanta[p] > 0).fold(0, |mask, p| mask | 1 << p);
                self.reported[port] = self.reported[port] & !pfc.enable | paused & pfc.enable;
            }
        }
    }

    fn compare(&mut self) {
        let Self { lab, model, reported, .. } = self;
        let held = lab.memory.free_frames() + lab.switch.frames_held();
        assert_eq!(held, lab.frames, "one owner a frame (§7.1)");
        let cells = lab.switch.cells_held();
        let now = lab.now;
        let seen = lab.snapshot();
        for (port, n) in everywhere() {
            let (group, expected) = (&seen.ports[port].groups[n], &model.groups[port][n]);
            let context =
                || format!("group {n} of port {port}: {group:?} {:?}", model.group_settings(port, n));
            let outside = group.reserved_cells + group.shared.cells;
            assert_eq!((outside, group.headroom.cells), (expected.used, expected.headroom), "{}", context());
            assert_eq!(group.shared.cells, model.shared(port, n), "{}", context());
            assert_eq!(group.threshold_cells, model.threshold(port, n), "{}", context());
            assert_eq!(group.xoff, expected.xoff, "{}", context());
            let peaks = (group.shared.peak_cells, group.headroom.peak_cells);
            assert_eq!(peaks, (expected.peak_shared, expected.peak_headroom), "{}", context());
            let counts = (group.dropped.frames, group.storm_dropped.frames, group.violations);
            let expected = (expected.dropped, expected.storm_dropped, expected.violations);
            assert_eq!(counts, expected, "{}", context());
            let (queue, expected) = (&seen.ports[port].queues[n], &model.queues[port][n]);
            let context = || format!("queue {n} of port {port}: {queue:?}");
            assert_eq!(queue.level.cells, model.queue_cells(port, n), "{}", context());
            assert_eq!(queue.threshold_cells, model.queue_threshold(port, n), "{}", context());
            assert_eq!(queue.level.peak_cells, expected.peak, "{}", context());
            assert_eq!(queue.allowed_cells, model.queue_allowed(port, n), "{}", context());
            let average = model.average(port, n, now);
            assert_eq!(queue.average_cells.is_some(), average.is_some(), "{}", context());
            // Fixed point, rounded down.
            let (found, average) = (f64::from(queue.average_cells.unwrap_or(0)), average.unwrap_or(0.0));
            assert!((-0.001..1.001).contains(&(average - found)), "{average}: {}", context());
            let counts = (queue.dropped.frames, queue.storm_dropped.frames, queue.violations);
            let expected = (expected.dropped, expected.storm_dropped, expected.violations);
            assert_eq!(counts, expected, "{}", context());
        }
        for (port, &reported) in reported.iter().enumerate() {
            let drops = REASONS.map(|reason| seen.ports[port].drops[reason as usize].frames);
            assert_eq!(drops, model.drops[port], "drops of port {port}");
            let xoffs = |p: &usize| model.groups[port][*p].xoff && !model.drops_storm(port, *p);
            let xoff = (0..8).filter(xoffs).fold(0, |mask, p| mask | 1 << p);
            let expected = if model.settings.ports[port].pfc.tx { xoff } else { 0 };
            assert_eq!(reported, expected, "PFC to the peer of port {port} within the iteration");
        }
        for pool in 0..4_u8 {
            let (ingress, egress) =
                (seen.ingress_pools[usize::from(pool)], seen.egress_pools[usize::from(pool)]);
            assert_eq!(ingress.size_cells.saturating_sub(ingress.level.cells), model.ingress_free(pool));
            assert_eq!(egress.size_cells.saturating_sub(egress.level.cells), model.egress_free(pool));
            let excess = (egress.excess_frames, egress.excess_cells);
            assert_eq!(excess, model.excess[usize::from(pool)], "beyond pool {pool} (row 18)");
        }
        let ports = || seen.ports.iter();
        let ingress: u32 = ports().flat_map(|port| &port.groups).map(|group| group.total.cells).sum();
        let egress: u32 = ports().flat_map(|port| &port.queues).map(|queue| queue.level.cells).sum();
        assert_eq!([ingress, egress], cells, "cells charged = cells of the frames held (§7.2)");
        let headroom = seen.headroom;
        assert_eq!(headroom.size_cells.saturating_sub(headroom.level.cells), model.headroom_free());
    }
}

/// Returns the number of a frame in flight, or `None` for PFC.
fn sequence(lab: &Lab, outgoing: &TxDesc) -> Option<u64> {
    let bytes = lab.memory.all(&outgoing.frame, usize::from(outgoing.len));
    let header = Header::parse(bytes).expect("a whole header");
    let at = header.payload_offset;
    header.outer.map(|_| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes")))
}

/// Writes the seed to the file if its run panics.
struct Keep(u64);

impl Drop for Keep {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed {} fails: kept in {SEEDS}", self.0);
            let file = std::fs::OpenOptions::new().create(true).append(true).open(SEEDS);
            let _ = file.and_then(|mut file| writeln!(file, "{}", self.0));
        }
    }
}

fn run(seed: u64) {
    let keep = Keep(seed);
    let mut random = Choices(Random::new(seed));
    let cell_bytes = random.one_of(&[64, 208, 254, 256]);
    let total_cells = random.one_of(&[60, 150, 400]);
    let settings = random.settings(cell_bytes, total_cells);
    // Memory for anything that a reconfiguration may allow.
    let mut roomy = settings.clone();
    roomy.buffer.total_cells = 4 * total_cells;
    roomy.ports.iter_mut().for_each(|port| port.groups = [OPEN; PRIORITIES]);
    let mut lab = Lab::new(&roomy);
    lab.switch.apply(&settings, lab.now);
    let mut pair = Pair {
        lab,
        model: Model::new(settings),
        reported: [0; PORTS],
        cell_bytes,
        classify: Default::default(),
    };
    for _ in 0..STEPS {
        pair.step(&mut random, total_cells);
        pair.compare();
    }
    drop(keep);
}

#[test]
fn the_switch_does_what_the_model_does() {
    let kept = std::fs::read_to_string(SEEDS).unwrap_or_default();
    kept.lines().filter_map(|line| line.parse().ok()).for_each(run);
    let runs = std::env::var("MODEL_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    (0..runs).for_each(run);
}
