//! The bare forwarder: what the rings cost and nothing else. Moves every frame from each of two interfaces to the other;
//! the switch is measured beside it.
//!
//! `forwarder --interface A --interface B [--seconds 10] [--core N] [--batch 64] [--budget 256] [--send-buffer BYTES]`
//!
//! Prints, every second, the frames forwarded, and the frames forwarded per second of the thread's processor time, which
//! tells the rate even where other processes take turns on the core. At the end: what the kernel lost.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use switch::{FrameId, Memory, Outgoing, Received};
use xdp::{PortIo, Umem, XdpPort};

mod arguments;
use arguments::Arguments;

fn main() {
    let arguments = Arguments::parse();
    if let Some(core) = arguments.number("--core") {
        xdp::set_affinity(core as usize).expect("the core exists");
    }
    let batch = arguments.number("--batch").unwrap_or(64) as usize;
    let mut umem = Umem::new(65536, 2048).unwrap_or_else(|error| panic!("{error}"));
    let setup = arguments.port_setup();
    let mut ports: Vec<XdpPort> = arguments
        .all("--interface")
        .map(|name| XdpPort::open(&mut umem, name, &setup).unwrap_or_else(|error| panic!("{error}")))
        .collect();
    assert_eq!(ports.len(), 2, "two interfaces are needed");

    let start = Instant::now();
    let mut forwarded = 0;
    let mut lists = Lists {
        received: Vec::with_capacity(2048),
        outgoing: Vec::with_capacity(2048),
        done: Vec::with_capacity(2048),
    };
    let mut meter = Meter::new();
    let seconds = arguments.number("--seconds").unwrap_or(10);
    while start.elapsed() < Duration::from_secs(seconds) {
        let now = switch::Instant(start.elapsed().as_nanos() as u64);
        forwarded += forward(&mut ports, &mut umem, now, batch, &mut lists);
        meter.show_each_second(now, forwarded);
    }
    for port in &ports {
        println!("{}: {:?}", port.interface(), port.kernel_counters());
    }
    let mut unsent = Vec::new();
    ports.iter_mut().for_each(|port| port.close(&mut umem, &mut unsent));
    unsent.into_iter().for_each(|frame| umem.free(frame));
    assert_eq!(umem.check().map(|census| census.free), Ok(umem.frames()));
}

/// Lists that are reused from turn to turn.
struct Lists {
    received: Vec<Received>,
    outgoing: Vec<Outgoing>,
    done: Vec<FrameId>,
}

/// One turn, for each port: completions, then the other port's frames, then the kick.
fn forward(
    ports: &mut [XdpPort],
    umem: &mut Umem,
    now: switch::Instant,
    batch: usize,
    lists: &mut Lists,
) -> u64 {
    let mut forwarded = 0;
    for (from, to) in [(0, 1), (1, 0)] {
        ports[to].complete(&mut lists.done);
        lists.done.drain(..).for_each(|frame| umem.free(frame));
        let most = batch.min(ports[to].transmit_room());
        ports[from].receive(umem, now, most, &mut lists.received);
        forwarded += lists.received.len() as u64;
        let frames = lists.received.drain(..);
        lists.outgoing.extend(frames.map(|Received { frame, len }| Outgoing { frame, len }));
        ports[to].transmit(&mut lists.outgoing);
        ports[to].kick();
    }
    forwarded
}

/// Shows rates.
struct Meter {
    shown_at: switch::Instant,
    shown: u64,
    cpu: Duration,
    rates: VecDeque<u64>,
}

impl Meter {
    fn new() -> Meter {
        Meter { shown_at: switch::Instant(0), shown: 0, cpu: cpu_time(), rates: VecDeque::new() }
    }

    fn show_each_second(&mut self, now: switch::Instant, frames: u64) {
        let elapsed = now.since(self.shown_at);
        if elapsed < 1_000_000_000 {
            return;
        }
        let cpu = cpu_time();
        let count = (frames - self.shown) as f64;
        let per_cpu_second = count / (cpu - self.cpu).as_secs_f64();
        self.rates.push_back(per_cpu_second as u64);
        let mut sorted: Vec<u64> = self.rates.iter().copied().collect();
        sorted.sort_unstable();
        println!(
            "{:.3} Mpps; {:.3} Mpps of processor time, median {:.3}",
            count * 1e3 / elapsed as f64,
            per_cpu_second / 1e6,
            sorted[sorted.len() / 2] as f64 / 1e6,
        );
        (self.shown_at, self.shown, self.cpu) = (now, frames, cpu);
    }
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock").into()
}
