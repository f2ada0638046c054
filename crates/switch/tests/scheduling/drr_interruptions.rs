//! Queues and groups whose DRR turns are cut short, by a rate or by pauses, beside one that is
//! always backlogged: in every 100 ms each gets its theoretical share, however long this lasts.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, mac, queue_of, settings};
use switch::settings::{
    GroupDiscipline, Rate, ScheduleSettings, SwitchSettings, Threshold, WIRE_OVERHEAD_BYTES,
};
use wire::pause::Pfc;

const LINE_BPS: u64 = 10_000_000_000;
/// Time that an iteration of the loop covers on the port.
const TURN_NS: u64 = 4_000;
/// Frames that each queue under test holds at the start of an iteration: more than it can send in
/// one.
const FULL_FRAMES: usize = 64;
const WINDOW_NS: u64 = 100_000_000;

/// Two backlogged queues of a 10G port: one whose turns are cut short, and its rival.
#[derive(Debug, Clone, Copy)]
struct Pair {
    interrupted: usize,
    rival: usize,
    /// Share of the line rate that the interrupted queue has while both send.
    share: f64,
}

/// Schedules in which two queues share as queues or as groups, with quanta shorter and longer than
/// the time between two pauses.
fn pairs() -> [(ScheduleSettings, Pair); 6] {
    let weighted = |weight: u8| {
        let weights = [1, 1, 1, 1, 1, 1, 1, weight];
        let share = f64::from(weight) / (f64::from(weight) + 1.0);
        let inside = GroupDiscipline::WeightedByBytes(weights);
        (ScheduleSettings::sp_wrr(0, 0xff, 0, inside), Pair { interrupted: 7, rival: 0, share })
    };
    let groups = |weight: u8| {
        let mut schedule = ScheduleSettings::default_ets();
        (schedule.groups[0].weight, schedule.groups[1].weight) = (1, weight.into());
        let share = f64::from(weight) / (f64::from(weight) + 1.0);
        (schedule, Pair { interrupted: 3, rival: 0, share })
    };
    [weighted(1), weighted(15), weighted(255), groups(1), groups(15), groups(99)]
}

fn port(schedule: ScheduleSettings) -> SwitchSettings {
    let mut settings = settings(2, 0xff, 2_000_000, 0);
    settings.ports.iter_mut().for_each(|port| port.classify.dot1p_to_queue = [0, 1, 2, 3, 4, 5, 6, 7]);
    let out = &mut settings.ports[1];
    (out.speed_bps, out.schedule, out.overhead_bytes) = (Some(LINE_BPS), schedule, WIRE_OVERHEAD_BYTES);
    out.queues = [queue_of(Threshold::Static(10_000)); 8];
    // Two iterations, which a loop that is late by as much must be able to catch up with.
    out.burst_bytes = Some(2 * TURN_NS * LINE_BPS / 8_000_000_000);
    settings
}

/// Returns what both queues of a pair sent in each window, the interrupted one first, in bit/s on
/// the line. `is_paused` returns whether the peer pauses the interrupted queue at a time in
/// nanoseconds since the start.
fn run(
    settings: &SwitchSettings,
    pair: Pair,
    windows: u64,
    is_paused: impl Fn(u64) -> bool,
) -> Vec<[f64; 2]> {
    let queues = [pair.interrupted, pair.rival];
    let mut lab = Lab::with_frames(settings, 2048);
    lab.turn();
    let arrive = |lab: &mut Lab, queue: usize| {
        // The length identifies the queue when a frame leaves.
        let len = if queue == pair.interrupted { 1000 } else { 1001 };
        lab.arrive(Frame { port: 0, dst: mac(1), priority: queue as u8, len });
    };
    for queue in queues {
        (0..FULL_FRAMES).for_each(|_| arrive(&mut lab, queue));
    }
    let (start, mut paused, mut sent) = (lab.now, false, Vec::new());
    for window in 0..windows {
        let mut frames = [0; 2];
        while lab.now.since(start) < (window + 1) * WINDOW_NS {
            lab.now = lab.now + TURN_NS;
            let pauses = is_paused(lab.now.since(start));
            if pauses != paused {
                let quanta = if pauses { u16::MAX } else { 0 };
                lab.send_pfc(1, Pfc { enable: 1 << pair.interrupted, quanta: [quanta; 8] });
                paused = pauses;
            }
            lab.transmit(1, usize::MAX);
            for at in 0..lab.with_kernel[1].len() {
                let which = usize::from(lab.with_kernel[1][at].len == 1001);
                frames[which] += 1;
                arrive(&mut lab, queues[which]);
            }
            lab.complete(1, usize::MAX);
        }
        let bits = frames.map(|frames| f64::from(frames) * 8.0 * f64::from(1000 + WIRE_OVERHEAD_BYTES));
        sent.push(bits.map(|bits| bits * 1e9 / WINDOW_NS as f64));
    }
    sent
}

/// A queue or group exceeds its rate in the middle of its turn, a hundred thousand times: it gets
/// its rate, and the rival the rest.
#[test]
fn a_rate_that_cuts_turns_short_is_kept() {
    for (schedule, pair) in pairs() {
        let mut settings = port(schedule);
        settings.ports[1].queues[pair.interrupted].rate =
            Some(Rate { bps: 1_000_000_000, burst_bytes: None });
        // The burst that accumulated at the start falls into the first window.
        for (window, [limited, rival]) in run(&settings, pair, 12, |_| false).into_iter().enumerate().skip(1)
        {
            assert!(
                (limited / 1e9 - 1.0).abs() < 0.01,
                "{pair:?}, {window}: {limited} bit/s at a rate of 1G"
            );
            assert!((rival / 9e9 - 1.0).abs() < 0.01, "{pair:?}, {window}: {rival} bit/s of 9G");
        }
    }
}

/// Pauses the interrupted queue for 20 µs of every 80 µs.
fn pauses_often(ns: u64) -> bool {
    ns % 80_000 < 20_000
}

/// Checks both shares of an interrupted queue and its rival in a window in which the former is
/// paused for a quarter of the time. In addition, the paused queue waits after each pause for the
/// rest of the rival's turn, at most two quanta.
fn assert_shares(pair: Pair, window: usize, [paused, rival]: [f64; 2]) {
    let line = LINE_BPS as f64;
    let most = line * 0.75 * pair.share;
    let waits = 2.0 * 9240.0 * 8.0 / 80e-6;
    let total = paused + rival;
    assert!((total / line - 1.0).abs() < 0.01, "{pair:?}, {window}: {total} bit/s of the line");
    assert!(paused > most - waits, "{pair:?}, {window}: {paused} bit/s of {most}");
    assert!(paused < most + waits, "{pair:?}, {window}: {paused} bit/s of {most}");
}

#[test]
fn pauses_that_cut_turns_short_cost_a_queue_no_more_than_their_time() {
    for (schedule, pair) in pairs() {
        for (window, sent) in run(&port(schedule), pair, 20, pauses_often).into_iter().enumerate() {
            assert_shares(pair, window, sent);
        }
    }
}

/// Once the pauses stop, the rival has its share at once: no credit accumulated meanwhile.
#[test]
fn pauses_that_end_leave_nothing_saved_up() {
    for (schedule, pair) in pairs() {
        let is_paused = |ns| ns < 14 * WINDOW_NS && pauses_often(ns);
        for (window, sent) in run(&port(schedule), pair, 17, is_paused).into_iter().enumerate() {
            if window < 14 {
                assert_shares(pair, window, sent);
            } else {
                let theory = [pair.share, 1.0 - pair.share].map(|share| LINE_BPS as f64 * share);
                for (sent, theory) in sent.into_iter().zip(theory) {
                    assert!(
                        (sent / theory - 1.0).abs() < 0.02,
                        "{pair:?}, {window}: {sent} of {theory} bit/s"
                    );
                }
            }
        }
    }
}
