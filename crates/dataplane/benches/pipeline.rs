//! The cost of the switch alone, memory to memory: parse, classify, learn, look up, admit, queue,
//! schedule, release.
//!
//! `cargo bench -p dataplane` prints nanoseconds per frame at 2, 8 and 64 ports. Beside them it
//! prints the cost of a loop that only reads the headers of the same frames and passes them on.
//! Quote the ratio too, as the machine may be busy. Times are CPU times of the thread.

#![allow(missing_docs)]

use nix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::hint::black_box;
use switch::settings::{
    BridgeSettings, BufferSettings, Guaranteed, PortSettings, ScheduleSettings, SwitchSettings, WredSettings,
};
use switch::{FrameId, FrameMemory, HeapMemory, Instant, RxDesc, RxFrame, Switch};
use wire::ethernet::{EXPERIMENTAL, Header, Tag, write_header};
use wire::mac::MacAddr;

const BATCH: usize = 64;
/// How many frames ahead the loop prefetches.
const AHEAD: usize = 6;
const ROUNDS: usize = 20_000;
const REPEATS: usize = 7;
/// Speed of ports with ETS: more than the frames need.
const ETS_SPEED_BPS: u64 = 100_000_000_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [what, ports, frames, rounds] = &arguments[..] {
        let number = |text: &String| text.parse().expect("a number");
        let mut lab = Lab::with(number(ports), number(frames), what);
        let run = if what == "bare" { bare } else { whole };
        println!("{:.1}", run(&mut lab, number(rounds)));
        return;
    }
    println!(
        "{:>6} {:>8} {:>16} {:>14} {:>7}",
        "ports", "frames", "switch ns/frame", "bare ns/frame", "ratio"
    );
    for ports in [2, 8, 64] {
        for frames in [256, 4096] {
            let mut switch_ns = Vec::new();
            let mut bare_ns = Vec::new();
            for _ in 0..REPEATS {
                bare_ns.push(bare(&mut Lab::new(ports, frames), ROUNDS));
                switch_ns.push(whole(&mut Lab::new(ports, frames), ROUNDS));
            }
            let (switch_ns, bare_ns) = (median(switch_ns), median(bare_ns));
            println!("{ports:>6} {frames:>8} {switch_ns:>16.1} {bare_ns:>14.1} {:>7.2}", switch_ns / bare_ns);
        }
    }
}

/// Returns the CPU time of this thread, so that other processes do not count.
fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the clock exists");
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Heap memory that prefetches headers like a UMEM.
struct Fetching(HeapMemory);

impl FrameMemory for Fetching {
    fn alloc(&mut self) -> Option<FrameId> {
        self.0.alloc()
    }
    fn free(&mut self, frame: FrameId) {
        self.0.free(frame);
    }
    fn bytes(&self, frame: &FrameId, len: usize) -> &[u8] {
        self.0.bytes(frame, len)
    }
    fn bytes_mut(&mut self, frame: &FrameId, len: usize) -> &mut [u8] {
        self.0.bytes_mut(frame, len)
    }
    fn prefetch(&self, frame: &FrameId) {
        xdp::prefetch(self.0.bytes(frame, 1));
    }
    fn copy(&mut self, from: &FrameId, to: &FrameId, len: usize) {
        self.0.copy(from, to, len);
    }
    fn max_len(&self) -> usize {
        self.0.max_len()
    }
    fn free_frames(&self) -> usize {
        self.0.free_frames()
    }
}

/// A switch, and frames that circulate in a ring as they do through a fill ring.
struct Lab {
    switch: Switch,
    memory: Fetching,
    ring: VecDeque<FrameId>,
    /// The port on which each frame is received.
    port_of: Vec<u8>,
}

impl Lab {
    fn new(ports: usize, frames: usize) -> Self {
        Self::with(ports, frames, "whole")
    }

    /// Makes it with WRED on every queue (`wred`), with WRED and neither reserved nor guaranteed
    /// cells (`shared`), with ETS and a speed on every port (`ets`), or without.
    fn with(ports: usize, frames: usize, what: &str) -> Self {
        let settings = SwitchSettings {
            buffer: BufferSettings::default(),
            bridge: BridgeSettings::default(),
            usage_percent: 100,
            alarms: Default::default(),
            seed: 0,
            ports: (0..ports).map(|n| port(n, what)).collect(),
        };
        let macs: Vec<_> = (0..ports).map(mac).collect();
        let mut memory = Fetching(HeapMemory::new(frames, 2048));
        let mut ring: Vec<FrameId> = std::iter::from_fn(|| memory.alloc()).collect();
        // Frame n is received on port n mod ports, goes to another, and has one of the eight
        // priorities.
        for frame in &ring {
            let n = frame.index();
            let to = (n % ports + 1 + (n / ports) % (ports - 1)) % ports;
            let tag = Tag::priority((n / 3 % 8) as u8);
            write_header(memory.bytes_mut(frame, 64), mac(to), mac(n % ports), Some(tag), EXPERIMENTAL);
        }
        // Not in the order of their addresses: frames that return from many ports are not either.
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        for i in (1..ring.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ring.swap(i, (random >> 33) as usize % (i + 1));
        }
        let port_of = (0..frames).map(|n| (n % ports) as u8).collect();
        Self { switch: Switch::new(&settings, &macs, frames), memory, ring: ring.into(), port_of }
    }
}

fn port(n: usize, what: &str) -> PortSettings {
    let mut port = PortSettings::new(format!("p{n}"), (what == "ets").then_some(ETS_SPEED_BPS));
    if what == "ets" {
        port.schedule = ScheduleSettings::default_ets();
    }
    if what == "shared" {
        port.groups.iter_mut().for_each(|group| group.reserved_cells = 0);
        port.queues.iter_mut().for_each(|queue| queue.guaranteed = Guaranteed::Cells(0));
    }
    if what == "wred" || what == "shared" {
        port.queues
            .iter_mut()
            .for_each(|queue| queue.wred = Some(WredSettings { ecn: true, ..WredSettings::default() }));
    }
    (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (true, true, 0b0000_1000);
    port.in_flight_bytes = 1 << 20;
    port
}

fn mac(n: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, n as u8])
}

/// Measures the whole switch, in iterations of [`BATCH`] frames that are passed as the daemon's
/// loop does. A batch is parsed, with each header prefetched [`AHEAD`] frames before, then
/// received. The transmitted frames of each port are completed together.
fn whole(lab: &mut Lab, rounds: usize) -> f64 {
    let mut arrivals: Vec<RxFrame> = Vec::with_capacity(BATCH);
    let mut out = Vec::with_capacity(BATCH);
    let mut now = 1_000;
    let start = cpu_ns();
    let mut sent = 0;
    for _ in 0..rounds {
        now += 2_000;
        for _ in 0..BATCH {
            lab.memory.prefetch(&lab.ring[AHEAD.min(lab.ring.len() - 1)]); // like the loop
            let frame = lab.ring.pop_front().expect("the ring holds more than a batch");
            let port = usize::from(lab.port_of[frame.index()]);
            let bytes = lab.memory.bytes(&frame, 64);
            arrivals.push(lab.switch.parse(port, RxDesc::new(frame, 64), bytes));
        }
        lab.switch.receive_all(&mut arrivals, Instant(now), &mut lab.memory);
        lab.switch.tick(Instant(now), &mut lab.memory);
        let mut work = lab.switch.ports_with_work();
        while work != 0 {
            let port = work.trailing_zeros() as usize;
            work &= work - 1;
            lab.switch.transmit(port, BATCH, Instant(now), &mut lab.memory, &mut out);
            sent += out.len();
            let left = out.drain(..).map(|outgoing| outgoing.frame);
            lab.switch.complete_all(port, left, Instant(now), &mut lab.memory);
        }
        // Frames flooded while addresses were unknown, and freed frames, go back to the ring.
        while let Some(frame) = lab.memory.alloc() {
            lab.ring.push_back(frame);
        }
    }
    assert!(sent > rounds * BATCH * 9 / 10, "the switch forwarded only {sent} frames");
    (cpu_ns() - start) / (rounds * BATCH) as f64
}

/// Measures the minimum of a forwarder on the same frames: read the header, pass the frame on.
fn bare(lab: &mut Lab, rounds: usize) -> f64 {
    let mut out = Vec::with_capacity(BATCH);
    let start = cpu_ns();
    for _ in 0..rounds {
        for _ in 0..BATCH {
            lab.memory.prefetch(&lab.ring[AHEAD.min(lab.ring.len() - 1)]);
            let frame = lab.ring.pop_front().expect("the ring holds more than a batch");
            let header = Header::parse(lab.memory.bytes(&frame, 64));
            black_box(&header);
            out.push(frame);
        }
        out.drain(..).for_each(|frame| lab.memory.free(frame));
        while let Some(frame) = lab.memory.alloc() {
            lab.ring.push_back(frame);
        }
    }
    (cpu_ns() - start) / (rounds * BATCH) as f64
}
