//! Two cores against one: frames a second over ports in memory that cost what a kernel costs (docs/cores.md).
//!
//! `cargo bench -p dataplane --bench cores` (as root: the memory is a UMEM). Each of the ports always has a batch of frames for the next
//! one, and works for [`COST_NS`] at each frame that comes in, and again at each that leaves. One loop serves them all, and then two,
//! half each, in turn. Quote the ratio, from a machine whose first two cores are free: the last column says whether they were.

#![allow(missing_docs)]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::Waker;
use std::time::Instant as Clock;

use dataplane::{Core, CorePort, CoreSettings, Heartbeat, Line, Port, mailbox, remote};
use nix::time::{ClockId, clock_gettime};
use switch::settings::{BridgeSettings, BufferSettings, PortSettings, SwitchSettings};
use switch::{FrameId, Instant, Memory, Outgoing, Received, Switch};
use wire::ethernet::{EXPERIMENTAL, Tag, write_header};
use wire::mac::MacAddr;
use xdp::Umem;

const PORTS: usize = 8;
const FRAMES: usize = 1 << 17;
const BATCH: usize = 64;
/// What a frame's way through the kernel costs at each end (docs/performance.md: some 0.5 µs in all).
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

    fn receive(&mut self, memory: &mut Umem, _now: Instant, max: usize, out: &mut Vec<Received>) {
        for _ in 0..max.min(BATCH) {
            let Some(frame) = memory.alloc() else { return };
            work(self.rounds);
            let (dst, src) = (mac((self.number + 1) % PORTS), mac(self.number));
            write_header(memory.bytes_mut(&frame, 64), dst, src, Some(Tag::priority(3)), EXPERIMENTAL);
            out.push(Received { frame, len: 60 });
        }
    }
    fn transmit_room(&self) -> usize {
        4 * BATCH
    }
    fn transmit(&mut self, frames: &mut Vec<Outgoing>) {
        self.sent.fetch_add(frames.len() as u64, Relaxed);
        for outgoing in frames.drain(..) {
            work(self.rounds);
            self.left.push(outgoing.frame);
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
    println!("{:>12} {:>12} {:>7} {:>22}", "one loop", "two loops", "ratio", "of their cores had");
    for _ in 0..REPEATS {
        let (one, share_one) = frames_a_second(1, rounds);
        let (two, share_two) = frames_a_second(2, rounds);
        println!("{one:>12.0} {two:>12.0} {:>7.2} {share_one:>10.2} {share_two:>10.2}", two / one);
        runs.push(two / one);
    }
    runs.sort_by(f64::total_cmp);
    println!("median ratio {:.2}", runs[runs.len() / 2]);
}

/// Frames a second through a switch of so many loops, and the part of its core that the switching one had.
fn frames_a_second(loops: usize, rounds: u64) -> (f64, f64) {
    let memory = Umem::new(FRAMES, 2048).expect("memory, and the right to register it");
    let of_line = memory.share();
    let sent = Arc::new(AtomicU64::new(0));
    let (bell, line_bell) = (Arc::default(), Arc::default());
    let (mut ports, mut of_lines) = (Vec::new(), Vec::new());
    for number in 0..PORTS {
        let port = Busy { number, left: Vec::with_capacity(FRAMES), rounds, sent: Arc::clone(&sent) };
        ports.push(if number % loops == 0 {
            CorePort::Own(port)
        } else {
            let (port, of_line) = remote(port, &bell, &line_bell);
            of_lines.push(of_line);
            CorePort::Remote(port)
        });
    }
    let mut core = core_of(ports, memory);
    let ends = Arc::new(AtomicBool::new(false));
    let mut line = Line::new(of_lines, line_bell, Arc::new(Heartbeat::default()));
    let line = std::thread::spawn({
        let ends = Arc::clone(&ends);
        move || {
            let mut memory = of_line;
            xdp::set_affinity(1).expect("a second core");
            while loops > 1 && !ends.load(Relaxed) {
                line.turn(&mut memory, Instant(0));
            }
        }
    });
    let core = std::thread::spawn(move || {
        xdp::set_affinity(0).expect("a first core");
        let mut now = Instant(1_000_000);
        let mut turn_until = |frames: u64| {
            while sent.load(Relaxed) < frames {
                now = now + 10_000;
                core.turn(now);
            }
        };
        turn_until(RUN / 10);
        let (start, cpu_start) = (Clock::now(), cpu_ns());
        turn_until(RUN + RUN / 10);
        let ns = start.elapsed().as_nanos() as f64;
        (RUN as f64 * 1e9 / ns, (cpu_ns() - cpu_start) / ns)
    });
    let result = core.join().expect("it does not panic");
    ends.store(true, Relaxed);
    line.join().expect("it does not panic");
    result
}

fn core_of(ports: Vec<CorePort<Busy>>, memory: Umem) -> Core<CorePort<Busy>> {
    let port = |n| {
        let mut port = PortSettings::new(format!("p{n}"), None);
        (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (true, true, 0b0000_1000);
        port.in_flight_bytes = 1 << 20;
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
    let of_core = CoreSettings { finish_checksums: vec![true; PORTS], ..CoreSettings::default() };
    Core::new(Switch::new(&settings, &macs, FRAMES), ports, memory, FRAMES, mailbox, of_core)
}

fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the clock exists");
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}
