//! The cost of a dequeue decision: pick the queue, take the frame, keep the rates. It should not
//! depend on the number of ports, and only a little on the number of queues that hold frames.
//!
//! `cargo bench -p dataplane --bench dequeue` prints nanoseconds per frame, without reception and
//! completion. All features are on: weighted queues, a port speed that is never reached, WRED with
//! ECN on every queue.

#![allow(missing_docs)]

use nix::time::{ClockId, clock_gettime};
use switch::settings::{
    BridgeSettings, BufferSettings, PortSettings, ScheduleSettings, SwitchSettings, WredSettings,
};
use switch::{FrameMemory, HeapMemory, Instant, RxDesc, Switch, TxDesc, frames_needed};
use wire::ethernet::{EXPERIMENTAL, Tag, write_header};
use wire::mac::MacAddr;

/// Frames queued on each port when the measurement starts.
const FRAMES: usize = 64;
const ROUNDS: usize = 3_000;
const REPEATS: usize = 5;

fn main() {
    println!("{:>6} {:>12} {:>16} {:>16}", "ports", "busy queues", "SP+WRR ns/frame", "ETS ns/frame");
    for ports in [2, 64] {
        for queues in [1, 2, 4, 8] {
            let cost = |schedule: &ScheduleSettings| {
                let mut costs: Vec<f64> = (0..REPEATS).map(|_| one(ports, queues, schedule)).collect();
                costs.sort_by(f64::total_cmp);
                costs[REPEATS / 2]
            };
            let (wrr, ets) = (cost(&ScheduleSettings::default()), cost(&ScheduleSettings::default_ets()));
            println!("{ports:>6} {queues:>12} {wrr:>16.1} {ets:>16.1}");
        }
    }
}

fn mac(n: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, n as u8])
}

fn one(ports: usize, busy_queues: usize, schedule: &ScheduleSettings) -> f64 {
    let port = |n| {
        let mut port = PortSettings::new(format!("p{n}"), Some(800_000_000_000));
        port.schedule = schedule.clone();
        port.in_flight_bytes = u32::MAX;
        port.queues.iter_mut().for_each(|queue| {
            queue.wred = Some(WredSettings { ecn: true, ..WredSettings::default() });
        });
        port
    };
    let settings = SwitchSettings {
        buffer: BufferSettings { total_cells: 32_768, fixed_cells: 4_096, ..BufferSettings::default() },
        bridge: BridgeSettings::default(),
        usage_percent: 100,
        alarms: Default::default(),
        seed: 0,
        ports: (0..ports).map(port).collect(),
    };
    let frames = frames_needed(&settings, usize::MAX) + 64;
    let macs: Vec<_> = (0..ports).map(mac).collect();
    let mut switch = Switch::new(&settings, &macs, frames);
    let mut memory = HeapMemory::new(frames, 64);
    let mut out: Vec<TxDesc> = Vec::with_capacity(FRAMES);
    for port in 0..ports {
        // To itself: the FDB learns the host and nothing is forwarded.
        let frame = memory.alloc().expect("memory for every cell");
        write_header(memory.bytes_mut(&frame, 64), mac(port), mac(port), None, EXPERIMENTAL);
        switch.receive(port, RxDesc::new(frame, 64), Instant(1_000_000_000), &mut memory);
    }
    let (mut now, mut spent, mut sent) = (1_000_000_000_u64, 0.0, 0);
    for _ in 0..ROUNDS * 2 / ports {
        for to in 0..ports {
            for n in 0..FRAMES {
                let frame = memory.alloc().expect("memory for every cell");
                let tag = Tag::priority((n % busy_queues) as u8);
                let from = (to + 1) % ports;
                write_header(memory.bytes_mut(&frame, 64), mac(to), mac(from), Some(tag), EXPERIMENTAL);
                switch.receive(from, RxDesc::new(frame, 64), Instant(now), &mut memory);
            }
        }
        now += 1_000_000;
        let start = cpu_ns();
        for port in 0..ports {
            switch.transmit(port, FRAMES, Instant(now), &mut memory, &mut out);
        }
        spent += cpu_ns() - start;
        sent += out.len();
        for outgoing in out.drain(..) {
            let port = memory.bytes(&outgoing.frame, 6)[5];
            switch.complete(usize::from(port), outgoing.frame, Instant(now), &mut memory);
        }
        assert_eq!(switch.ports_with_work(), 0, "all that waited has left");
    }
    spent / sent as f64
}

/// Returns the CPU time of this thread, so that other processes do not count.
fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the clock exists");
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}
