//! A traffic generator and sink: sends as fast as one core can, to measure a forwarder in between.
//!
//! `blast [--interface A] [--sink B] [--seconds 10] [--core N] [--bytes 60] [--batch 64] [--budget
//! 256] [--to N] [--window N] …`
//!
//! Sends from A and counts what arrives at B; either works alone, too. 60 bytes are a minimum-size
//! frame without FCS. Frames have a group address, or with `--to N` go from the station
//! 02:00:00:00:00:N to 02:00:00:00:01:N, for several blasts that share a switch. With `--to`, the
//! sink first sends a frame from its station, and waits for it at the source, so that a bridge has
//! learned the station and does not flood. A sink that is a process of its own sends none.
//!
//! Without a window it uses a whole core. Frames beyond the forwarder's capacity cost that core as
//! much as those that arrive. With `--window N`, at most N frames are in flight to the sink, and it
//! sleeps while the window is full. The rate is then that of the forwarder, and a core that is
//! shared with blasts does not waste time on frames that are dropped.

use std::time::{Duration, Instant};

use dataplane::Port;
use switch::{FrameId, FrameMemory, RxDesc, TxDesc};
use xdp::{Umem, XdpPort};

mod arguments;
use arguments::Arguments;

/// The sleep while a window is full; the forwarder has some hundred frames to process meanwhile.
const REST: Duration = Duration::from_micros(200);
/// Frames of a window that have not arrived by now are lost.
const GONE: Duration = Duration::from_millis(20);

/// A group address that every bridge forwards, and an experimental ethertype.
const HEADER: [u8; 14] = [3, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];

fn main() {
    let arguments = Arguments::parse();
    if let Some(core) = arguments.number("--core") {
        xdp::set_affinity(core as usize).expect("the core exists");
    }
    let batch = arguments.number("--batch").unwrap_or(64) as usize;
    let mut umem = Umem::new(65536, 2048).unwrap_or_else(|error| panic!("{error}"));
    let setup = arguments.port_setup();
    let mut open =
        |name: &str| XdpPort::open(&mut umem, name, &setup).unwrap_or_else(|error| panic!("{error}"));
    let mut source: Option<XdpPort> = arguments.all("--interface").last().map(&mut open);
    let mut sink: Option<XdpPort> = arguments.all("--sink").last().map(&mut open);

    let len = arguments.number("--bytes").unwrap_or(60) as u16;
    let mut header = HEADER;
    if let Some(number) = arguments.number("--to") {
        header[..6].copy_from_slice(&[2, 0, 0, 0, 1, number as u8]);
        header[6..12].copy_from_slice(&[2, 0, 0, 0, 0, number as u8]);
    }
    if let (Some(sink), Some(source), Some(_)) = (&mut sink, &mut source, arguments.number("--to")) {
        let mut answer = header;
        answer[..6].copy_from_slice(&header[6..12]);
        answer[6..12].copy_from_slice(&header[..6]);
        announce(sink, source, &mut umem, answer);
    }
    let mut idle = if source.is_some() { frames(&mut umem, 2048, (header, len)) } else { Vec::new() };
    let (mut sent, mut lost, mut arrived) = (0u64, 0u64, 0u64);
    let mut window = arguments.number("--window").map(Window::new);
    let start = Instant::now();
    let seconds = arguments.number("--seconds").unwrap_or(10);
    while start.elapsed() < Duration::from_secs(seconds) {
        if let Some(source) = &mut source {
            let batch = window.as_ref().map_or(batch, |window| batch.min(window.room()));
            let (given, taken, refused) = send(source, &mut umem, &mut idle, batch, len);
            sent += taken;
            lost += refused;
            window.iter_mut().for_each(|window| window.record_sent(given));
        }
        if let Some(sink) = &mut sink {
            let now = switch::Instant(start.elapsed().as_nanos() as u64);
            let frames = count(sink, &mut umem, now);
            arrived += frames;
            window.iter_mut().for_each(|window| window.record_arrived(frames));
        }
        if window.as_ref().is_some_and(|window| window.room() == 0) {
            std::thread::sleep(REST);
        }
    }
    let rate = |frames: u64| frames as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!(
        "sent {sent} ({:.3} Mpps), of them lost at once {lost}; arrived {arrived} ({:.3} Mpps)",
        rate(sent),
        rate(arrived)
    );
    for port in source.iter().chain(&sink) {
        println!("{}: {:?}", port.interface(), port.kernel_counters());
    }
}

fn frames(umem: &mut Umem, count: usize, (header, len): ([u8; 14], u16)) -> Vec<FrameId> {
    let fill = |umem: &mut Umem| {
        let frame = umem.alloc().expect("memory");
        let bytes = umem.bytes_mut(&frame, len.into());
        bytes.fill(0);
        bytes[..header.len()].copy_from_slice(&header);
        frame
    };
    (0..count).map(|_| fill(umem)).collect()
}

/// Sends a frame from the sink until one arrives at the source.
///
/// # Panics
/// If none arrives within a second.
fn announce(sink: &mut XdpPort, source: &mut XdpPort, umem: &mut Umem, header: [u8; 14]) {
    let start = Instant::now();
    let mut idle = frames(umem, 16, (header, 60));
    while start.elapsed() < Duration::from_secs(1) {
        send(sink, umem, &mut idle, 1, 60);
        std::thread::sleep(Duration::from_millis(10));
        let now = switch::Instant(start.elapsed().as_nanos() as u64);
        if count(source, umem, now) > 0 {
            return;
        }
    }
    panic!("no frame passes from {} to {}", sink.interface(), source.interface());
}

/// The frames in flight to the sink.
struct Window {
    frames: u64,
    on_way: u64,
    moved: Instant,
}

impl Window {
    fn new(frames: u64) -> Self {
        Self { frames, on_way: 0, moved: Instant::now() }
    }

    fn room(&self) -> usize {
        self.frames.saturating_sub(self.on_way) as usize
    }

    fn record_sent(&mut self, frames: u64) {
        self.on_way += frames;
    }

    fn record_arrived(&mut self, frames: u64) {
        if frames > 0 {
            self.on_way = self.on_way.saturating_sub(frames);
            self.moved = Instant::now();
        } else if self.room() == 0 && self.moved.elapsed() > GONE {
            self.on_way = 0;
        }
    }
}

/// Sends up to `batch` frames. Returns how many it passed to the kernel, how many completed, and
/// how many of these were lost.
fn send(
    port: &mut XdpPort,
    umem: &mut Umem,
    idle: &mut Vec<FrameId>,
    batch: usize,
    len: u16,
) -> (u64, u64, u64) {
    let before = idle.len();
    port.complete(idle);
    let completed = (idle.len() - before) as u64;
    port.take_lost(idle);
    let lost = (idle.len() - before) as u64 - completed;
    let count = batch.min(port.transmit_room()).min(idle.len());
    let rest = idle.len() - count;
    let mut outgoing = idle.drain(rest..).map(|frame| TxDesc::new(frame, len)).collect();
    port.transmit(umem, &mut outgoing);
    port.kick();
    (count as u64, completed + lost, lost)
}

fn count(port: &mut XdpPort, umem: &mut Umem, now: switch::Instant) -> u64 {
    let mut received: Vec<RxDesc> = Vec::new();
    port.receive(umem, now, usize::MAX, &mut received);
    let count = received.len() as u64;
    received.into_iter().for_each(|received| umem.free(received.frame));
    count
}
