//! The cost of a frame from one guest to another: out of a ring, through the switch, into a ring.
//!
//! `cargo bench -p virtio` prints nanoseconds per frame for ports alone (what one received, the
//! other sends) and for a whole loop with no-drop, WRED and ECN on. Once the guests and the loop
//! are on one thread and take turns, so the cache holds everything; once the guests are on a thread
//! of their own, as they are in the daemon. Both guests send what they receive: frames go round in
//! both directions, half as many in each as a ring holds, and the guests never touch their bytes.
//!
//! `cargo bench -p virtio -- loop 256 60 10000` runs one of them (`ports` or `loop`, descriptors of
//! a ring, bytes of a frame, turns), so that callgrind can count its instructions:
//! `valgrind --tool=callgrind --toggle-collect='*switch_turn*'`.

#![allow(missing_docs)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Instant as Wall;

use dataplane::{LoopPort, PollLoop, PollLoopSettings, Port, mailbox};
use switch::settings::{
    BridgeSettings, BufferSettings, PortSettings, SwitchSettings, WredProfile, WredSettings,
};
use switch::{FrameId, FrameMemory, HeapMemory, Instant, RxDesc, Switch, TxDesc};
use tempfile::TempDir;
use virtio::front_end::{FrontEnd, FrontEndSettings};
use virtio::{SocketRole, SocketSettings, UnsealedMemory, VhostUser, VirtioPort};
use wire::mac::MacAddr;

/// Frames of the memory, and the bytes of one.
const FRAMES: usize = 16384;
const FRAME_BYTES: usize = 2048;
/// Frames that a port receives in a turn.
const BATCH: usize = 64;
/// Bytes of the virtio header.
const HEADER: usize = 12;
const TURNS: usize = 20_000;
const REPEATS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|text| text != "--bench").collect();
    if let [what, ring, bytes, turns] = &arguments[..] {
        let number = |text: &String| text.parse().expect("a number");
        let (ring, bytes) = (number(ring) as u16, number(bytes));
        let mut lab = Lab::new(what, ring, bytes);
        let nanos = in_turns(&mut lab, number(turns));
        println!("{} frames, {nanos:.1} ns each", lab.guests.received);
        return;
    }
    println!("{:>6} {:>6} {:>6} {:>14} {:>14}", "what", "bytes", "ring", "in turns, ns", "two cores, ns");
    for what in ["ports", "loop"] {
        for bytes in [60, 1514] {
            for ring in [256, 1024] {
                let best = |run: fn(&mut Lab, usize) -> f64| {
                    let runs = (0..REPEATS).map(|_| run(&mut Lab::new(what, ring, bytes), TURNS));
                    runs.fold(f64::INFINITY, f64::min)
                };
                let (alone, apart) = (best(in_turns), best(on_two_cores));
                println!("{what:>6} {bytes:>6} {ring:>6} {alone:>14.1} {apart:>14.1}");
            }
        }
    }
}

/// Runs guests and loop by turns. Returns the nanoseconds of a frame in the loop.
fn in_turns(lab: &mut Lab, turns: usize) -> f64 {
    let mut frames = 0;
    let mut spent = std::time::Duration::ZERO;
    for turn in 0..turns {
        let start = Wall::now();
        lab.switch.switch_turn(turn);
        spent += start.elapsed();
        frames += lab.guests.turn();
    }
    assert!(frames > turns, "the loop forwarded only {frames} frames");
    spent.as_nanos() as f64 / frames as f64
}

/// Runs the guests on another thread, until they have received a batch for each of `turns`. Returns
/// the nanoseconds of a frame.
fn on_two_cores(lab: &mut Lab, turns: usize) -> f64 {
    let Lab { switch, guests } = lab;
    let wanted = turns * BATCH;
    let ends = AtomicBool::new(false);
    let start = Wall::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while guests.received < wanted {
                guests.turn();
            }
            ends.store(true, Ordering::Relaxed);
        });
        let turns = (0..).take_while(|_| !ends.load(Ordering::Relaxed));
        turns.for_each(|turn| switch.switch_turn(turn));
    });
    start.elapsed().as_nanos() as f64 / wanted as f64
}

/// Two ports, and their guests.
struct Lab {
    switch: Forwarder,
    guests: Guests,
}

impl Lab {
    fn new(what: &str, ring: u16, bytes: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut memory = Fetching(HeapMemory::with_allocated(FRAMES, FRAME_BYTES, |_| false));
        let mut guests = Guests::default();
        let mut ports = Vec::new();
        for number in 0..2 {
            let path = folder.path().join(format!("{number}"));
            let socket = SocketSettings {
                path: path.clone(),
                role: SocketRole::Server,
                unsealed: UnsealedMemory::Refused,
            };
            let (socket, mut port) =
                VhostUser::open("bench", &socket, port_settings(), drop).expect("a socket");
            let settings = FrontEndSettings { ring_size: ring, ..FrontEndSettings::default() };
            let mut front_end = FrontEnd::connect(&path, settings).expect("a driver");
            front_end.set_interrupts(false);
            while port.reopen(&mut memory) != Some(true) {
                std::thread::yield_now();
            }
            guests.add(front_end, ring, frame(number, bytes));
            guests.sockets.push(socket);
            ports.push(port);
        }
        guests.folders.push(folder);
        let switch = match what {
            "ports" => {
                Forwarder::Ports { ports, memory, received: Vec::new(), out: Vec::new(), done: Vec::new() }
            }
            _ => Forwarder::Loop(Box::new(poll_loop(ports, memory))),
        };
        Self { switch, guests }
    }
}

fn port_settings() -> virtio::PortSettings {
    virtio::PortSettings {
        speed_bps: 400_000_000_000,
        sends_pfc: false,
        queue_pairs: 1,
        cell_bytes: 256,
        batch_cells: 256,
    }
}

fn mac(port: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, port as u8])
}

/// Returns the frame that the guest of a port sends, with its virtio header.
fn frame(port: usize, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; HEADER + bytes];
    frame[HEADER..HEADER + 6].copy_from_slice(&mac(1 - port).0);
    frame[HEADER + 6..HEADER + 12].copy_from_slice(&mac(port).0);
    frame[HEADER + 12..HEADER + 14].copy_from_slice(&0x88b5_u16.to_be_bytes());
    frame
}

type BenchPort = LoopPort<VirtioPort<Fetching>>;

/// Makes a loop with the features of the benchmark of forwarders.
fn poll_loop(ports: Vec<VirtioPort<Fetching>>, memory: Fetching) -> PollLoop<BenchPort> {
    let settings = SwitchSettings {
        buffer: BufferSettings::default(),
        bridge: BridgeSettings::default(),
        usage_percent: 90,
        alarms: Default::default(),
        seed: 0,
        ports: (0..ports.len()).map(switch_port).collect(),
    };
    let macs: Vec<_> = (0..ports.len()).map(|n| mac(0x80 + n)).collect();
    let switch = Switch::new(&settings, &macs, FRAMES);
    let ports: Vec<BenchPort> = ports.into_iter().map(|port| LoopPort::Other(Box::new(port) as _)).collect();
    let settings = PollLoopSettings {
        watches_rings: true,
        complete_checksums: vec![false; ports.len()],
        ..PollLoopSettings::default()
    };
    PollLoop::new(switch, ports, memory, FRAMES, mailbox(Waker::noop().clone()).1, settings)
}

fn switch_port(number: usize) -> PortSettings {
    let mut port = PortSettings::new(format!("p{number}"), Some(400_000_000_000));
    let profile = WredProfile { low_cells: 4000, high_cells: 8000, probability_percent: 20 };
    port.queues[3].wred = Some(WredSettings { ecn: true, curves: [profile; 3], ..WredSettings::default() });
    (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (true, true, 0b0000_1000);
    port.classify.port_priority = 3;
    port
}

/// What forwards between the guests.
enum Forwarder {
    /// Each port sends what the other received.
    Ports {
        ports: Vec<VirtioPort<Fetching>>,
        memory: Fetching,
        received: Vec<RxDesc>,
        out: Vec<TxDesc>,
        done: Vec<FrameId>,
    },
    Loop(Box<PollLoop<BenchPort>>),
}

impl Forwarder {
    #[inline(never)]
    fn switch_turn(&mut self, turn: usize) {
        let now = Instant(1_000_000 + turn as u64 * 5_000);
        match self {
            Forwarder::Loop(poll_loop) => {
                poll_loop.iterate(now);
            }
            Forwarder::Ports { ports, memory, received, out, done } => {
                for from in 0..2 {
                    let max = BATCH.min(ports[1 - from].transmit_room() - 1);
                    ports[from].receive(memory, now, max, received);
                    out.extend(received.drain(..).map(|RxDesc { frame, len, .. }| TxDesc::new(frame, len)));
                    ports[1 - from].transmit(memory, out);
                    ports[1 - from].complete(done);
                    done.drain(..).for_each(|frame| memory.free(frame));
                }
            }
        }
    }
}

/// The guests of both ports. What one receives, it sends.
#[derive(Default)]
struct Guests {
    front_ends: Vec<FrontEnd>,
    /// Descriptors with a frame that are not with the switch, by guest.
    free: Vec<Vec<u16>>,
    /// Frames that each may send.
    credit: Vec<usize>,
    received: usize,
    sockets: Vec<VhostUser>,
    folders: Vec<TempDir>,
}

impl Guests {
    fn add(&mut self, mut front_end: FrontEnd, ring: u16, frame: Vec<u8>) {
        for index in 0..ring {
            let addr = front_end.buffer_addr(1, index);
            front_end.write_buffer(0, index, &frame);
            front_end.rings(0)[1].write_descriptor(index, addr, (frame.len() as u32, 0, 0));
        }
        self.front_ends.push(front_end);
        self.free.push((0..ring).collect());
        self.credit.push(usize::from(ring) / 2);
    }

    /// Takes and sends. Returns the number of received frames.
    fn turn(&mut self) -> usize {
        let mut frames = 0;
        for (guest, front_end) in self.front_ends.iter_mut().enumerate() {
            let [rx, tx] = front_end.rings(0);
            let mut received = 0;
            while received < BATCH
                && let Some((head, _)) = rx.pop_used()
            {
                rx.push(head as u16);
                received += 1;
            }
            if received > 0 {
                rx.publish();
            }
            while let Some((head, _)) = tx.pop_used() {
                self.free[guest].push(head as u16);
            }
            let credit = self.credit[guest] + received;
            let sent = credit.min(self.free[guest].len());
            let from = self.free[guest].len() - sent;
            self.free[guest].drain(from..).for_each(|head| tx.push(head));
            if sent > 0 {
                tx.publish();
            }
            self.credit[guest] = credit - sent;
            frames += received;
        }
        self.received += frames;
        frames
    }
}

/// Heap memory that prefetches headers like a UMEM.
struct Fetching(HeapMemory);

impl FrameMemory for Fetching {
    #[inline]
    fn alloc(&mut self) -> Option<FrameId> {
        self.0.alloc()
    }
    #[inline]
    fn free(&mut self, frame: FrameId) {
        self.0.free(frame);
    }
    #[inline]
    fn bytes(&self, frame: &FrameId, len: usize) -> &[u8] {
        self.0.bytes(frame, len)
    }
    #[inline]
    fn bytes_mut(&mut self, frame: &FrameId, len: usize) -> &mut [u8] {
        self.0.bytes_mut(frame, len)
    }
    #[inline]
    fn prefetch(&self, frame: &FrameId) {
        xdp::prefetch(self.0.bytes(frame, 1));
    }
    fn copy(&mut self, from: &FrameId, to: &FrameId, len: usize) {
        self.0.copy(from, to, len);
    }
    #[inline]
    fn max_len(&self) -> usize {
        self.0.max_len()
    }
    #[inline]
    fn free_frames(&self) -> usize {
        self.0.free_frames()
    }
}
