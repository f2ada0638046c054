//! What leaves, and when: seeded simulations of a congested port as tables, each figure within 1 %
//! of theory.

#[path = "../lab/mod.rs"]
mod lab;

use std::fmt::Write;

use lab::{Frame, Lab, mac, queue_of, settings};
use switch::Instant;
use switch::settings::{
    DEFAULT_WEIGHTS, GroupDiscipline, Rate, ScheduleSettings, SwitchSettings, Threshold, WIRE_OVERHEAD_BYTES,
};
use wire::pause::Pfc;

const GBPS: f64 = 1e9;

/// Traffic that a host offers to one queue of the port under test: frames of `len` bytes at `bps`
/// on the line.
#[derive(Debug, Clone, Copy)]
struct Flow {
    queue: usize,
    len: u16,
    bps: f64,
}

/// A rate for an always backlogged queue: it is filled up to [`FULL_FRAMES`] in every iteration.
const ALWAYS: f64 = -1.0;
/// Bytes that the port carries in an iteration of the simulation.
const TURN_BYTES: u32 = 100_000;
/// More frames than any queue sends in an iteration.
const FULL_FRAMES: u64 = 4_000;
/// Limit of the queues under test, in cells.
const QUEUE_CELLS: u32 = 30_000;

/// The port under test: port 0 receives, port 1 sends at `bps` by `schedule`; queue numbers are
/// priorities.
fn port(bps: u64, schedule: ScheduleSettings) -> SwitchSettings {
    let mut settings = settings(2, 0xff, 2_000_000, 0);
    settings.ports.iter_mut().for_each(|port| port.classify.dot1p_to_queue = [0, 1, 2, 3, 4, 5, 6, 7]);
    let out = &mut settings.ports[1];
    (out.speed_bps, out.schedule, out.overhead_bytes) = (Some(bps), schedule, WIRE_OVERHEAD_BYTES);
    out.queues = [queue_of(Threshold::Static(QUEUE_CELLS)); 8];
    // Two iterations, which a loop that is late by as much must be able to catch up with.
    out.burst_bytes = Some(2 * u64::from(TURN_BYTES));
    settings
}

/// Rates that each queue sent and lost, in bit/s on the line.
struct QueueRates {
    sent: [f64; 8],
    lost: [f64; 8],
}

/// Runs the flows: each iteration of some microseconds offers what the rates give. `during` may
/// change settings in every iteration (time in seconds since the start).
fn run(
    settings: &SwitchSettings,
    flows: &[Flow],
    seconds: f64,
    mut during: impl FnMut(&mut Lab, f64),
) -> QueueRates {
    let mut lab = Lab::with_frames(settings, 2048);
    lab.turn();
    let before = lab.snapshot().ports[1].queues;
    let start = lab.now;
    let speed = settings.ports[1].speed_bps.expect("a speed") as f64;
    let turn_ns = (f64::from(TURN_BYTES) * 8.0 / speed * 1e9) as u64;
    let mut offered = vec![0.0; flows.len()];
    while lab.now.since(start) < (seconds * 1e9) as u64 {
        lab.now = lab.now + turn_ns;
        let elapsed = lab.now.since(start) as f64 / 1e9;
        during(&mut lab, elapsed);
        let waiting = lab.snapshot().ports[1].queues;
        for (flow, offered) in flows.iter().zip(&mut offered) {
            let frame_bits = 8.0 * f64::from(flow.len + WIRE_OVERHEAD_BYTES);
            *offered += match flow.bps {
                ALWAYS => FULL_FRAMES.saturating_sub(waiting[flow.queue].waiting_frames) as f64,
                bps => bps * turn_ns as f64 / 1e9 / frame_bits,
            };
            while *offered >= 1.0 {
                *offered -= 1.0;
                lab.arrive(Frame { port: 0, dst: mac(1), priority: flow.queue as u8, len: flow.len });
            }
        }
        lab.transmit(1, usize::MAX);
        lab.complete(1, usize::MAX);
    }
    let after = lab.snapshot().ports[1].queues;
    let bps = |before: switch::monitor::counters::FrameCount,
               after: switch::monitor::counters::FrameCount| {
        let overhead = (after.frames - before.frames) * u64::from(WIRE_OVERHEAD_BYTES);
        (after.bytes - before.bytes + overhead) as f64 * 8.0 / seconds
    };
    QueueRates {
        sent: std::array::from_fn(|q| bps(before[q].transmitted, after[q].transmitted)),
        lost: std::array::from_fn(|q| bps(before[q].dropped, after[q].dropped)),
    }
}

/// Adds a row to the table and checks that the figures are within 1 % of theory (of the line rate
/// where theory is zero).
fn compare(table: &mut String, name: &str, sent: &[f64], theory: &[f64]) {
    let line: f64 = sent.iter().sum();
    let _ = writeln!(table, "{name}");
    for (what, figures) in [("theory", theory), ("measured", sent)] {
        let figures: Vec<String> = figures.iter().map(|bps| format!("{:>8.1}", bps / 1e6)).collect();
        let _ = writeln!(table, "  {what:<9}{}", figures.join(" "));
    }
    for (queue, (&sent, &theory)) in sent.iter().zip(theory).enumerate() {
        let off = (sent - theory).abs() / if theory == 0.0 { line } else { theory };
        assert!(off < 0.01, "{name}: {queue} is off by {:.2} %\n{table}", off * 100.0);
    }
}

fn always(lens: [u16; 8]) -> Vec<Flow> {
    (0..8).map(|queue| Flow { queue, len: lens[queue], bps: ALWAYS }).collect()
}

fn in_proportion(total: f64, weights: [f64; 8]) -> [f64; 8] {
    weights.map(|weight| total * weight / weights.iter().sum::<f64>())
}

#[test]
fn shares_of_a_congested_port() {
    let mut table = String::from("Mbit/s of the line by queue, 0 to 7, unless said otherwise\n");
    let weights = DEFAULT_WEIGHTS.map(f64::from);
    let nothing = |_: &mut Lab, _: f64| {};

    // Byte-count: shares of frame bytes, independent of frame sizes.
    let lens = [64, 1514, 300, 1000, 65, 128, 600, 208];
    let schedule = ScheduleSettings::sp_wrr(0, 0xff, 0, GroupDiscipline::WeightedByBytes(DEFAULT_WEIGHTS));
    let outcome = run(&port(10_000_000_000, schedule), &always(lens), 0.05, nothing);
    let of_frame = |q: usize, bps: f64| bps * f64::from(lens[q]) / f64::from(lens[q] + WIRE_OVERHEAD_BYTES);
    let frame_bps: [f64; 8] = std::array::from_fn(|q| of_frame(q, outcome.sent[q]));
    let theory = in_proportion(frame_bps.iter().sum(), weights);
    compare(
        &mut table,
        "WRR 1,2,3,4,5,9,13,15 by bytes, frames of 64 to 1514 bytes, frame bytes",
        &frame_bps,
        &theory,
    );

    // Packet-count: shares of frames.
    let schedule = ScheduleSettings::sp_wrr(0, 0xff, 0, GroupDiscipline::WeightedByFrames(DEFAULT_WEIGHTS));
    let outcome = run(&port(10_000_000_000, schedule), &always([1000; 8]), 0.05, nothing);
    let theory = in_proportion(10.0 * GBPS, weights);
    compare(&mut table, "WRR 1,2,3,4,5,9,13,15 by frames, equal frames", &outcome.sent, &theory);

    // 50,50,30,30,10,10,10,10 for queues 7 to 0 on 100 Mbit/s: the lowest gets at least 5 Mbit/s.
    let of_100m = [10, 10, 10, 10, 30, 30, 50, 50];
    let schedule = ScheduleSettings::sp_wrr(0, 0xff, 0, GroupDiscipline::WeightedByBytes(of_100m));
    let outcome = run(&port(100_000_000, schedule), &always([1000; 8]), 4.0, nothing);
    let theory = in_proportion(100e6, of_100m.map(f64::from));
    compare(&mut table, "WRR 50,50,30,30,10,10,10,10 (queues 7 to 0) on 100 Mbit/s", &outcome.sent, &theory);
    assert!((0..4).all(|q| outcome.sent[q] > 4.95e6));

    // SP before WRR group 1 before group 2.
    let schedule = ScheduleSettings::sp_wrr(
        0x80,
        0x60,
        0x1f,
        GroupDiscipline::WeightedByBytes([1, 1, 1, 1, 1, 1, 3, 1]),
    );
    let flows = [
        Flow { queue: 7, len: 1000, bps: 3.0 * GBPS },
        Flow { queue: 6, len: 1000, bps: ALWAYS },
        Flow { queue: 5, len: 1000, bps: 1.0 * GBPS },
        Flow { queue: 0, len: 1000, bps: ALWAYS },
    ];
    let outcome = run(&port(10_000_000_000, schedule), &flows, 0.05, nothing);
    let theory = [0.0, 0.0, 0.0, 0.0, 0.0, 1e9, 6e9, 3e9];
    compare(&mut table, "SP 7 (3G), WRR group 1: 6 and 5 (1G), group 2: 0", &outcome.sent, &theory);
    insta::assert_snapshot!(table);
}

/// The example of docs/references.md, "Huawei DCB" (figure 10-53) on 10 Gbit/s: group 15 (IPC)
/// takes its 2 Gbit/s, group 0 (LAN) and group 1 (SAN) have half of the rest each. At t1 and t2
/// everything fits, at t3 LAN exceeds its share, and 1 Gbit/s of it drops.
#[test]
fn ets_of_the_huawei_example() {
    let mut table = String::from("Mbit/s of the line: LAN, SAN, IPC, then LAN lost\n");
    let ets = port(10_000_000_000, ScheduleSettings::default_ets());
    let groups = |by_queue: [f64; 8]| {
        let sum = |queues: &[usize]| queues.iter().map(|&q| by_queue[q]).sum::<f64>();
        [sum(&[0, 1, 2, 4, 5]), sum(&[3]), sum(&[6, 7])]
    };
    for (name, lan, san, ipc, expected) in [
        ("t1: LAN 3G, SAN 3G, IPC 2G", 3.0, 3.0, 2.0, [3.0, 3.0, 2.0, 0.0]),
        ("t2: LAN 4G, SAN 4G, IPC 2G", 4.0, 4.0, 2.0, [4.0, 4.0, 2.0, 0.0]),
        ("t3: LAN 5G, SAN 4G, IPC 2G", 5.0, 4.0, 2.0, [4.0, 4.0, 2.0, 1.0]),
        ("an idle group's bandwidth goes to the others: LAN 9G, IPC 2G", 9.0, 0.0, 2.0, [8.0, 0.0, 2.0, 1.0]),
        ("… and back: LAN 9G, SAN 9G", 9.0, 9.0, 0.0, [5.0, 5.0, 0.0, 4.0]),
    ] {
        let flows = [
            Flow { queue: 0, len: 600, bps: lan / 2.0 * GBPS },
            Flow { queue: 2, len: 1514, bps: lan / 2.0 * GBPS },
            Flow { queue: 3, len: 1000, bps: san * GBPS },
            Flow { queue: 6, len: 128, bps: ipc / 2.0 * GBPS },
            Flow { queue: 7, len: 64, bps: ipc / 2.0 * GBPS },
        ];
        let mut ets = ets.clone();
        // Small compared with what the queues send in that time.
        ets.ports[1].queues = [queue_of(Threshold::Static(1_000)); 8];
        let outcome = run(&ets, &flows, 0.8, |_, _| {});
        let [lan, san, ipc] = groups(outcome.sent);
        let [lost, _, _] = groups(outcome.lost);
        compare(&mut table, name, &[lan, san, ipc, lost], &expected.map(|gbps| gbps * GBPS));
    }
    insta::assert_snapshot!(table);
}

/// One queue is paused for a third of the time: it gets its share of the remaining time. The other
/// queues keep theirs exactly, and share what the paused queue leaves.
#[test]
fn a_pause_leaves_the_other_shares_exact() {
    let weights = [1, 1, 1, 1, 2, 2, 4, 4];
    let schedule = ScheduleSettings::sp_wrr(0, 0xff, 0, GroupDiscipline::WeightedByBytes(weights));
    let mut paused = false;
    let outcome = run(&port(1_000_000_000, schedule), &always([1000; 8]), 0.6, |lab, elapsed| {
        let pause = (0.2..0.4).contains(&elapsed);
        if pause != paused {
            paused = pause;
            lab.switch.apply(&long_pauses(), lab.now);
        }
        let quanta = if pause { u16::MAX } else { 0 };
        lab.send_pfc(1, Pfc { enable: 1 << 7, quanta: [quanta; 8] });
    });
    let all = in_proportion(1e9 * 2.0 / 3.0, weights.map(f64::from));
    let mut without = weights.map(f64::from);
    without[7] = 0.0;
    let rest = in_proportion(1e9 / 3.0, without);
    let theory: [f64; 8] = std::array::from_fn(|q| all[q] + rest[q]);
    let mut table = String::from("Mbit/s by queue\n");
    compare(
        &mut table,
        "queue 7 (of 1,1,1,1,2,2,4,4 on 1 Gbit/s) is paused for a third of the time",
        &outcome.sent,
        &theory,
    );
    insta::assert_snapshot!(table);

    fn long_pauses() -> SwitchSettings {
        let weights = [1, 1, 1, 1, 2, 2, 4, 4];
        port(1_000_000_000, ScheduleSettings::sp_wrr(0, 0xff, 0, GroupDiscipline::WeightedByBytes(weights)))
    }
}

/// Rates of a queue and of a group, and how the other queues share the rest.
#[test]
fn rates_of_queues_and_groups() {
    let mut table = String::from("Mbit/s of the line by queue\n");
    let rate = |bps| Some(Rate { bps, burst_bytes: Some(u64::from(TURN_BYTES)) });
    let mut queue_rate = port(
        10_000_000_000,
        ScheduleSettings::sp_wrr(0x80, 0x7f, 0, GroupDiscipline::WeightedByBytes([1; 8])),
    );
    queue_rate.ports[1].queues[7].rate = rate(1_000_000_000);
    queue_rate.ports[1].queues[6].rate = rate(500_000_000);
    let flows = [7, 6, 5].map(|queue| Flow { queue, len: 1000, bps: ALWAYS });
    let outcome = run(&queue_rate, &flows, 0.4, |_, _| {});
    let theory = [0.0, 0.0, 0.0, 0.0, 0.0, 8.5e9, 0.5e9, 1e9];
    compare(&mut table, "SP 7 at 1G, WRR 6 at 500M, WRR 5 takes the rest", &outcome.sent, &theory);

    let mut schedule = ScheduleSettings::default_ets();
    schedule.groups[0].rate = rate(2_000_000_000);
    let flows = [0, 2, 3].map(|queue| Flow { queue, len: 1000, bps: ALWAYS });
    let outcome = run(&port(10_000_000_000, schedule), &flows, 0.05, |_, _| {});
    let theory = [1e9, 0.0, 1e9, 8e9, 0.0, 0.0, 0.0, 0.0];
    compare(
        &mut table,
        "group 0 (queues 0 and 2) at 2G, group 1 (queue 3) takes the rest",
        &outcome.sent,
        &theory,
    );
    insta::assert_snapshot!(table);
}

/// A loop that sleeps until `next_deadline` sends a shaped queue at its rate: the deadline is not
/// late and does not make the loop spin.
#[test]
fn deadlines_of_rates() {
    let mut settings = port(1_000_000_000, ScheduleSettings::default());
    settings.ports[1].queues[3].rate = Some(Rate { bps: 8_000_000, burst_bytes: Some(0) }); // a byte a microsecond
    let mut lab = Lab::with_frames(&settings, 2048);
    lab.turn();
    lab.now = Instant(1_000_000_000);
    (0..10).for_each(|_| lab.arrive(Frame { port: 0, dst: mac(1), priority: 3, len: 976 }));
    for sent in 1..=10 {
        lab.transmit(1, usize::MAX);
        lab.complete(1, usize::MAX);
        assert_eq!(lab.snapshot().ports[1].queues[3].transmitted.frames, sent);
        let next = lab.switch.next_deadline(lab.now);
        let expected = if sent < 10 { Instant(1_000_000_000 + sent * 1_000_000) } else { Instant::NEVER };
        assert_eq!(next, expected, "after {sent} frames of 1000 bytes with the overhead");
        lab.now = next.min(Instant(2_000_000_000));
    }
}
