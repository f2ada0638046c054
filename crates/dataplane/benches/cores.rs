//! Two cores against one: frames per second over ports in memory that cost what a kernel costs
//! (docs/multi-core.md).
//!
//! `cargo bench -p dataplane --bench cores` (as root: the memory is a UMEM). Each port always has a
//! batch of frames for the next port, as long as few are in flight. It works for [`COST_NS`] on
//! each received frame, and again on each transmitted one. One loop serves all ports, and
//! alternately two loops serve half of them each. The ratio of the rates is meaningful only if the
//! first two cores are free. The share of its core that the switching loop had shows whether they
//! were. The bench also prints the CPU time per frame that each loop spends in iterations that move
//! something, and the ratio that follows if no loop waits for the other; these figures are
//! meaningful on any machine.

#![allow(missing_docs)]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::Waker;
use std::time::Instant as Clock;

use dataplane::{IoLoop, LoopPort, PollLoop, PollLoopSettings, Port, mailbox, remote};
use nix::time::{ClockId, clock_gettime};
use switch::settings::{BridgeSettings, BufferSettings, PortSettings, SwitchSettings, Threshold};
use switch::{FrameId, FrameMemory, Instant, RxDesc, Switch, TxDesc};
use wire::ethernet::{EXPERIMENTAL, Tag, write_header};
use wire::mac::MacAddr;
use xdp::Umem;

const PORTS: usize = 8;
const FRAMES: usize = 1 << 17;
const BATCH: usize = 64;
/// The length of a frame, which differs from that of a PFC frame.
const LEN: u16 = 64;
/// The limit of a port's frames in flight, which is below every threshold.
const IN_FLIGHT: usize = 256;
/// The kernel's cost of a frame at each end (docs/performance.md: some 0.5 µs in all).
const COST_NS: f64 = 250.0;
/// Frames of a run.
const RUN: u64 = 2_000_000;
const REPEATS: usize = 5;

/// A port that always has received frames.
struct Busy {
    number: usize,
    left: Vec<FrameId>,
    rounds: u64,
    sent: Arc<AtomicU64>,
    /// Frames received on each port and not transmitted yet.
    in_flight: Arc<[AtomicUsize; PORTS]>,
}

/// Works for `rounds` rounds that the compiler cannot remove.
fn work(rounds: u64) {
    let mut value = black_box(1_u64);
    for _ in 0..rounds {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// Returns how many rounds take [`COST_NS`] on this machine.
fn rounds_of_cost() -> u64 {
    const ROUNDS: u64 = 10_000_000;
    let start = cpu_ns();
    work(ROUNDS);
    (COST_NS * ROUNDS as f64 / (cpu_ns() - start)) as u64
}

impl Port for Busy {
    type Memory = Umem;

    fn receive(&mut self, memory: &mut Umem, _now: Instant, max: usize, out: &mut Vec<RxDesc>) {
        let room = IN_FLIGHT.saturating_sub(self.in_flight[self.number].load(Relaxed));
        for _ in 0..max.min(BATCH).min(room) {
            let Some(frame) = memory.alloc() else { return };
            work(self.rounds);
            let (dst, src) = (mac((self.number + 1) % PORTS), mac(self.number));
            write_header(memory.bytes_mut(&frame, 64), dst, src, Some(Tag::priority(3)), EXPERIMENTAL);
            self.in_flight[self.number].fetch_add(1, Relaxed);
            out.push(RxDesc::new(frame, LEN));
        }
    }
    fn transmit_room(&self) -> usize {
        4 * BATCH
    }
    fn transmit(&mut self, _memory: &mut Self::Memory, frames: &mut Vec<TxDesc>) {
        for outgoing in frames.drain(..) {
            work(self.rounds);
            self.left.push(outgoing.frame);
            if outgoing.len == LEN {
                self.sent.fetch_add(1, Relaxed);
                self.in_flight[(self.number + PORTS - 1) % PORTS].fetch_sub(1, Relaxed);
            }
        }
    }
    fn complete(&mut self, out: &mut Vec<FrameId>) {
        out.append(&mut self.left);
    }
    fn outstanding(&self) -> usize {
        self.left.len()
    }
    fn close(&mut self, _memory: &mut Umem, unsent: &mut Vec<FrameId>) -> bool {
        unsent.append(&mut self.left);
        true
    }
}

fn mac(n: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, n as u8])
}

fn main() {
    let rounds = rounds_of_cost();
    let mut runs = Vec::new();
    println!("frames a second        ratio  of its core    CPU ns a frame: one, two (and line)  ratio");
    for _ in 0..REPEATS {
        let (one, two) = (measure(1, rounds), measure(2, rounds));
        let rates = two.frames_a_second / one.frames_a_second;
        let costs = one.core_ns / two.core_ns.max(two.line_ns);
        println!(
            "{:>9.0} {:>9.0} {rates:>8.2}    {:.2} {:.2} {:>16.0} {:>5.0} {:>5.0} {costs:>14.2}",
            one.frames_a_second,
            two.frames_a_second,
            one.share,
            two.share,
            one.core_ns,
            two.core_ns,
            two.line_ns
        );
        runs.push((rates, costs));
    }
    let median = |of: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!("median ratios {:.2} (rates), {:.2} (CPU time)", median(|run| run.0), median(|run| run.1));
}

/// The results of a run.
struct Measured {
    frames_a_second: f64,
    /// The share of its core that the switching loop had.
    share: f64,
    /// CPU time per frame in iterations that moved something.
    core_ns: f64,
    line_ns: f64,
}

/// CPU time of the iterations that move something.
#[derive(Default)]
struct Busyness(f64);

impl Busyness {
    fn count(&mut self, turn: impl FnOnce() -> bool) {
        let start = cpu_ns();
        if turn() {
            self.0 += cpu_ns() - start;
        }
    }
}

/// Sends frames through a switch of `loops` loops.
fn measure(loops: usize, rounds: u64) -> Measured {
    let memory = Umem::new(FRAMES, 2048).expect("memory, and the right to register it");
    let of_line = memory.share();
    let sent = Arc::new(AtomicU64::new(0));
    let in_flight: Arc<[AtomicUsize; PORTS]> = Arc::default();
    let (bell, line_bell, heartbeat) = (Arc::default(), Arc::default(), Arc::default());
    let (mut ports, mut of_lines) = (Vec::new(), Vec::new());
    for number in 0..PORTS {
        let (sent, in_flight) = (Arc::clone(&sent), Arc::clone(&in_flight));
        let port = Busy { number, left: Vec::with_capacity(FRAMES), rounds, sent, in_flight };
        ports.push(if number % loops == 0 {
            LoopPort::Local(port)
        } else {
            let (port, of_line) = remote(port, &bell, &line_bell, &heartbeat);
            of_lines.push(of_line);
            LoopPort::Remote(port)
        });
    }
    let mut core = core_of(ports, memory);
    let ends = Arc::new(AtomicBool::new(false));
    let mut line = IoLoop::new(of_lines, line_bell, heartbeat);
    let line = std::thread::spawn({
        let ends = Arc::clone(&ends);
        move || {
            let mut memory = of_line;
            xdp::set_affinity(1).expect("a second core");
            let mut busy = Busyness::default();
            while loops > 1 && !ends.load(Relaxed) {
                busy.count(|| line.iterate(&mut memory, Instant(0)));
            }
            busy.0
        }
    });
    let core = std::thread::spawn(move || {
        xdp::set_affinity(0).expect("a first core");
        let mut now = Instant(1_000_000);
        let mut busy = Busyness::default();
        let (start, cpu_start) = (Clock::now(), cpu_ns());
        while sent.load(Relaxed) < RUN {
            now = now + 10_000;
            busy.count(|| core.iterate(now));
        }
        (start.elapsed().as_nanos() as f64, cpu_ns() - cpu_start, busy.0)
    });
    let (ns, cpu, core_busy) = core.join().expect("it does not panic");
    ends.store(true, Relaxed);
    let line_busy = line.join().expect("it does not panic");
    let frames = RUN as f64;
    Measured {
        frames_a_second: frames * 1e9 / ns,
        share: cpu / ns,
        core_ns: core_busy / frames,
        line_ns: line_busy / frames,
    }
}

fn core_of(ports: Vec<LoopPort<Busy>>, memory: Umem) -> PollLoop<LoopPort<Busy>> {
    let port = |n| {
        let mut port = PortSettings::new(format!("p{n}"), None);
        (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (true, true, 0b0000_1000);
        port.in_flight_bytes = 1 << 20;
        port.groups[3].xoff = Threshold::Static(4096);
        port.static_addresses.push(mac(n).into()); // nothing is flooded
        port
    };
    let settings = SwitchSettings {
        buffer: BufferSettings::default(),
        bridge: BridgeSettings::default(),
        usage_percent: 100,
        alarms: Default::default(),
        seed: 0,
        ports: (0..PORTS).map(port).collect(),
    };
    let macs: Vec<_> = (0..PORTS).map(mac).collect();
    let (handle, mailbox) = mailbox(Waker::noop().clone());
    std::mem::forget(handle); // no commands are sent
    let of_core = PollLoopSettings { complete_checksums: vec![true; PORTS], ..PollLoopSettings::default() };
    PollLoop::new(Switch::new(&settings, &macs, FRAMES), ports, memory, FRAMES, mailbox, of_core)
}

fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the clock exists");
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}
