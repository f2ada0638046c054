//! A bare forwarder, to measure the cost of the rings alone: moves every frame from each of two
//! interfaces to the other. The switch is measured in comparison with it.
//!
//! `forwarder --interface A --interface B [--seconds 10] [--core N] [--batch 64] [--budget 256]
//! [--posted 8192] [--send-buffer BYTES] [--zero-copy auto|off|emulate]`
//!
//! Prints the forwarded frames every second, and at the end the cost of a frame in iterations that
//! moved a full batch. The median is what the forwarder can do, even if the generator or other
//! processes slow it down at times.

use std::time::Instant;

use dataplane::Port;
use switch::{FrameId, FrameMemory, RxDesc, TxDesc};
use xdp::{Umem, XdpPort};

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
    let now = || switch::Instant(start.elapsed().as_nanos() as u64);
    let end = switch::Instant(arguments.number("--seconds").unwrap_or(10) * 1_000_000_000);
    let mut lists = Lists::default();
    let mut meter = Meter::default();
    let mut turn_start = now();
    while turn_start < end {
        let forwarded = forward(&mut ports, &mut umem, turn_start, batch, &mut lists);
        let turn_end = now();
        meter.add(turn_start, turn_end, forwarded, forwarded >= batch as u64);
        turn_start = turn_end;
    }
    meter.show_costs();
    for port in &ports {
        println!("{}: {} frames held, {:?}", port.interface(), port.frames_held(), port.kernel_counters());
    }
    let mut unsent = Vec::new();
    ports.iter_mut().for_each(|port| _ = port.close(&mut umem, &mut unsent));
    unsent.into_iter().for_each(|frame| umem.free(frame));
    assert_eq!(umem.check().map(|accounting| accounting.free), Ok(umem.frames()));
}

/// Lists that are reused in each iteration.
#[derive(Default)]
struct Lists {
    received: Vec<RxDesc>,
    outgoing: Vec<TxDesc>,
    done: Vec<FrameId>,
}

/// Runs one iteration, for each port: completions, then the other port's frames, then the kick.
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
        ports[to].take_lost(&mut lists.done);
        lists.done.drain(..).for_each(|frame| umem.free(frame));
        let most = batch.min(ports[to].transmit_room());
        ports[from].receive(umem, now, most, &mut lists.received);
        forwarded += lists.received.len() as u64;
        let frames = lists.received.drain(..);
        lists.outgoing.extend(frames.map(|RxDesc { frame, len, .. }| TxDesc::new(frame, len)));
        ports[to].transmit(umem, &mut lists.outgoing);
        ports[to].kick();
    }
    forwarded
}

/// Iterations whose cost is kept.
const MAX_SAMPLES: usize = 1 << 20;

/// Measures rates and costs.
#[derive(Default)]
struct Meter {
    second_start: switch::Instant,
    frames: u64,
    /// Nanoseconds per frame, in iterations with a full batch.
    costs: Vec<f64>,
}

impl Meter {
    fn add(&mut self, start: switch::Instant, end: switch::Instant, frames: u64, full: bool) {
        if full && self.costs.len() < MAX_SAMPLES {
            self.costs.push(end.since(start) as f64 / frames as f64);
        }
        self.frames += frames;
        let elapsed = end.since(self.second_start);
        if elapsed >= 1_000_000_000 {
            println!("{:.3} Mpps", self.frames as f64 * 1e3 / elapsed as f64);
            (self.second_start, self.frames) = (end, 0);
        }
    }

    fn show_costs(&mut self) {
        self.costs.sort_by(f64::total_cmp);
        let Some(&median) = self.costs.get(self.costs.len() / 2) else { return };
        println!(
            "a frame costs {median:.0} ns ({:.3} Mpps; {} full batches)",
            1e3 / median,
            self.costs.len()
        );
    }
}
