//! Two cores against one: frames a second over ports in memory that cost what a kernel costs
//! (docs/multi-core.md).
//!
//! `cargo bench -p dataplane --bench cores` (as root: the memory is a UMEM). Each of the ports
//! always has a batch of frames for the next one, as long as few are under way, and works for
//! [`COST_NS`] at each frame that comes in, and again at each that leaves. One loop serves
//! them all, and then two, half each, in turn. The ratio of their rates is of use only where the
//! first two cores are free; how much of its core the switching loop had says whether they were.
//! Beside it, wherever it runs: the CPU time a frame that each loop spends in turns
//! that move something, and the ratio that follows where no loop waits for the other.

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
/// Bytes of one: not those of a PFC frame.
const LEN: u16 = 64;
/// Frames of a port that are under way at most: they never meet a threshold.
const UNDER_WAY: usize = 256;
/// What a frame's way through the kernel costs at each end (docs/performance.md: some 0.5 µs in
/// all).
const COST_NS: f64 = 250.0;
/// Frames of a run.
const RUN: u64 = 2_000_000;
const REPEATS: usize = 5;

/// A port that is never without frames.
struct Busy {
    number: usize,
    left: Vec<FrameId>,
    rounds: u64,
    sent: Arc<AtomicU64>,
    /// Frames that came in on each port and have not left yet.
    under_way: Arc<[AtomicUsize; PORTS]>,
}

/// So many rounds of work that nothing can leave out.
fn work(rounds: u64) {
    let mut value = black_box(1_u64);
    for _ in 0..rounds {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// Rounds that take [`COST_NS`] here.
fn rounds_of_cost() -> u64 {
    const ROUNDS: u64 = 10_000_000;
    let start = cpu_ns();
    work(ROUNDS);
    (COST_NS * ROUNDS as f64 / (cpu_ns() - start)) as u64
}

impl Port for Busy {
    type Memory = Umem;

    fn receive(&mut self, memory: &mut Umem, _now: Instant, max: usize, out: &mut Vec<RxDesc>) {
        let room = UNDER_WAY.saturating_sub(self.under_way[self.number].load(Relaxed));
        for _ in 0..max.min(BATCH).min(room) {
            let Some(frame) = memory.alloc() else { return };
            work(self.rounds);
            let (dst, src) = (mac((self.number + 1) % PORTS), mac(self.number));
            write_header(memory.bytes_mut(&frame, 64), dst, src, Some(Tag::priority(3)), EXPERIMENTAL);
            self.under_way[self.number].fetch_add(1, Relaxed);
            out.push(RxDesc { frame, len: LEN });
        }
    }
    fn transmit_room(&self) -> usize {
        4 * BATCH
    }
    fn transmit(&mut self, frames: &mut Vec<TxDesc>) {
        for outgoing in frames.drain(..) {
            work(self.rounds);
            self.left.push(outgoing.frame);
            if outgoing.len == LEN {
                self.sent.fetch_add(1, Relaxed);
                self.under_way[(self.number + PORTS - 1) % PORTS].fetch_sub(1, Relaxed);
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

/// What a run took.
struct Measured {
    frames_a_second: f64,
    /// The part of its core that the switching loop had.
    share: f64,
    /// CPU time a frame in turns that moved something.
    core_ns: f64,
    line_ns: f64,
}

/// CPU time of the turns that move something.
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

/// Sends frames through a switch of so many loops.
fn measure(loops: usize, rounds: u64) -> Measured {
    let memory = Umem::new(FRAMES, 2048).expect("memory, and the right to register it");
    let of_line = memory.share();
    let sent = Arc::new(AtomicU64::new(0));
    let under_way: Arc<[AtomicUsize; PORTS]> = Arc::default();
    let (bell, line_bell, heartbeat) = (Arc::default(), Arc::default(), Arc::default());
    let (mut ports, mut of_lines) = (Vec::new(), Vec::new());
    for number in 0..PORTS {
        let (sent, under_way) = (Arc::clone(&sent), Arc::clone(&under_way));
        let port = Busy { number, left: Vec::with_capacity(FRAMES), rounds, sent, under_way };
        ports.push(if number % loops == 0 {
            LoopPort::Own(port)
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
                busy.count(|| line.turn(&mut memory, Instant(0)));
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
            busy.count(|| core.turn(now));
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
    std::mem::forget(handle); // nobody gives orders
    let of_core = PollLoopSettings { finish_checksums: vec![true; PORTS], ..PollLoopSettings::default() };
    PollLoop::new(Switch::new(&settings, &macs, FRAMES), ports, memory, FRAMES, mailbox, of_core)
}

fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the clock exists");
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}
