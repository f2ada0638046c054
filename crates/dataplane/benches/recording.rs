//! The cost of the flight recorder: nanoseconds per frame with and without it, alternately, over
//! ports in memory.
//!
//! `cargo bench -p dataplane --bench recording`. Ports in memory cost almost nothing, so the effect
//! on the forwarding rate is the difference divided by the cost of a frame on real ports
//! (docs/performance.md). Times are CPU times of the thread. With two arguments, `with` or
//! `without` and a number of iterations, it runs once, for callgrind to count the instructions.

#![allow(missing_docs)]

use std::sync::Arc;
use std::task::Waker;

use dataplane::flight_recorder::recorder::Recorder;
use dataplane::{ChunkPool, Handle, LoopCommand, PollLoop, PollLoopSettings, Port, mailbox};
use nix::time::{ClockId, clock_gettime};
use switch::settings::{BridgeSettings, BufferSettings, PortSettings, SwitchSettings};
use switch::{FrameId, FrameMemory, HeapMemory, Instant, RxDesc, Switch, TxDesc};
use wire::ethernet::{EXPERIMENTAL, Tag, write_header};
use wire::mac::MacAddr;

const PORTS: usize = 2;
const FRAMES: usize = 4096;
/// Frames received on a port per iteration.
const BATCH: usize = 64;
const TURNS: usize = 20_000;
const REPEATS: usize = 15;
/// The assumed cost of a frame on real ports. Virtual time advances by this per frame, and a
/// recording starts again every second of it.
const FRAME_NS: u64 = 600;

/// A port that always has a batch of frames for the next one, on a link without delay.
struct Busy {
    number: usize,
    left: Vec<FrameId>,
}

impl Port for Busy {
    type Memory = HeapMemory;

    fn receive(&mut self, memory: &mut HeapMemory, _now: Instant, max: usize, out: &mut Vec<RxDesc>) {
        for _ in 0..max.min(BATCH) {
            let Some(frame) = memory.alloc() else { return };
            let (dst, src) = (mac((self.number + 1) % PORTS), mac(self.number));
            write_header(memory.bytes_mut(&frame, 64), dst, src, Some(Tag::priority(3)), EXPERIMENTAL);
            out.push(RxDesc::new(frame, 60));
        }
    }
    fn transmit_room(&self) -> usize {
        4 * BATCH
    }
    fn transmit(&mut self, _memory: &mut Self::Memory, frames: &mut Vec<TxDesc>) {
        self.left.extend(frames.drain(..).map(|outgoing| outgoing.frame));
    }
    fn complete(&mut self, out: &mut Vec<FrameId>) {
        out.append(&mut self.left);
    }
    fn outstanding(&self) -> usize {
        self.left.len()
    }
    fn close(&mut self, _memory: &mut HeapMemory, unsent: &mut Vec<FrameId>) -> bool {
        unsent.append(&mut self.left);
        true
    }
}

fn mac(n: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, n as u8])
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [what, turns] = &arguments[..] {
        let ns = frame_ns(what == "with", turns.parse().expect("a number of turns"));
        return println!("{ns:.1}");
    }
    let (mut without, mut with, mut more) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        without.push(frame_ns(false, TURNS));
        with.push(frame_ns(true, TURNS));
        more.push(with[with.len() - 1] - without[without.len() - 1]);
    }
    let (without, with, more) = (median(without), median(with), median(more));
    println!(
        "without {without:.1} ns a frame, recording {with:.1}, difference {more:.1} (medians of {REPEATS})"
    );
}

/// Returns the CPU time of a frame through the loop.
fn frame_ns(records: bool, turns: usize) -> f64 {
    let (mut core, mut handle) = core();
    let mut now = Instant(1_000_000);
    let chunk_pool = ChunkPool::new(32);
    let recorder = records.then(|| Box::new(Recorder::new(Arc::clone(&chunk_pool), PORTS)));
    handle.send(LoopCommand::Record(recorder)).expect("room for a command");
    let mut turn = |turns: usize| {
        for _ in 0..turns {
            now = now + BATCH as u64 * PORTS as u64 * FRAME_NS;
            core.iterate(now);
            while let Some(chunk) = chunk_pool.pop_full() {
                chunk_pool.recycle(chunk.bytes);
            }
            while handle.receive().is_some() {}
        }
    };
    turn(turns / 10);
    let start = cpu_ns();
    turn(turns);
    (cpu_ns() - start) / (turns * BATCH * PORTS) as f64
}

fn core() -> (PollLoop<Busy>, Handle) {
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
    let ports = (0..PORTS).map(|number| Busy { number, left: Vec::with_capacity(FRAMES) }).collect();
    let (handle, mailbox) = mailbox(Waker::noop().clone());
    let of_core = PollLoopSettings { complete_checksums: vec![true; PORTS], ..PollLoopSettings::default() };
    let switch = Switch::new(&settings, &macs, FRAMES);
    (PollLoop::new(switch, ports, HeapMemory::new(FRAMES, 2048), FRAMES, mailbox, of_core), handle)
}

fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the clock exists");
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
