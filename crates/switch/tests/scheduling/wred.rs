//! WRED and ECN of a whole switch: the number of frames picked against the configured curve, where
//! marks begin and end, and the bytes of a marked frame.

#[path = "../lab/mod.rs"]
mod lab;

use std::fmt::Write;

use lab::{Lab, mac, queue_of, settings};
use switch::settings::{
    DropLevel, EcnMarkPoint, SwitchSettings, Threshold, Trust, WredProfile, WredSettings,
};
use switch::{DropReason, FrameMemory};
use wire::ethernet::{Header, IPV4, IPV6, Tag, write_header};
use wire::ip;
use wire::ones_complement::Sum;

/// Runs with different random numbers; frames are picked or not in each of them.
const RUNS: u64 = 200;
const FRAMES: u32 = 2_000;

/// Returns two ports where the queue of priority 0 on port 1 has this WRED profile, every port
/// trusts DSCP, and DSCP 10, 12 and 14 are green, yellow and red.
fn with_wred(wred: WredSettings) -> SwitchSettings {
    let mut settings = settings(2, 0, 4_000, 0);
    for port in &mut settings.ports {
        port.classify.trust = Trust::Dscp;
        port.classify.dscp_to_dot1p = [0; 64];
        port.classify.dscp_to_drop_level[12] = DropLevel::Yellow;
        port.classify.dscp_to_drop_level[14] = DropLevel::Red;
    }
    settings.ports[1].queues[QUEUE] = queue_of(Threshold::Static(4_000));
    settings.ports[1].queues[QUEUE].wred = Some(wred);
    settings
}

/// The queue of priority 0.
const QUEUE: usize = 2;
const DSCP: [u8; 3] = [10, 12, 14];

/// Returns a packet of one cell from the host of port 0 to the host of port 1, with this ECN field.
fn packet(ethertype: u16, dscp: u8, ecn: u8, tag: Option<Tag>) -> Vec<u8> {
    let mut bytes = vec![0; 100];
    let at = write_header(&mut bytes, mac(1), mac(0), tag, ethertype);
    if ethertype == IPV6 {
        bytes[at..at + 2].copy_from_slice(&[0x60 | dscp >> 2, dscp << 6 | ecn << 4]);
    } else {
        bytes[at..at + 4].copy_from_slice(&[0x45, dscp << 2 | ecn, 0, 82]);
        bytes[at + 8..at + 10].copy_from_slice(&[64, 17]);
        let sum = !Sum::default().bytes(&bytes[at..at + 20]).fold();
        bytes[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

/// Returns how many frames a run of [`FRAMES`] arrivals of one drop level picks while the queue is
/// `cells` long.
fn picked(wred: WredSettings, seed: u64, cells: u32, level: usize) -> u32 {
    let mut settings = with_wred(wred);
    settings.seed = seed;
    let mut lab = Lab::with_frames(&settings, 128);
    lab.switch.hold(1, true);
    // CE frames are never picked, so they fill the queue to one cell short.
    let filler = packet(IPV4, DSCP[0], 0b11, None);
    let candidate = packet(IPV4, DSCP[level], 0b10, None);
    (1..cells).for_each(|_| lab.arrive_bytes(0, &filler));
    // The average approaches from below and never quite arrives: wait until it is within a
    // thousandth of a cell.
    let settle = if wred.exponent == 0 { 0 } else { 16 << wred.exponent };
    for _ in 0..settle {
        lab.arrive_bytes(0, &filler);
        let removed = take_one(&mut lab);
        assert_eq!(removed[15] & 3, 0b11);
    }
    let before = lab.snapshot().ports[1].queues[QUEUE].marked.frames;
    for _ in 0..FRAMES {
        lab.arrive_bytes(0, &candidate);
        take_one(&mut lab);
    }
    let queue = lab.snapshot().ports[1].queues[QUEUE];
    assert_eq!(queue.waiting_frames, u64::from(cells - 1), "ECT frames are marked, never dropped");
    (queue.marked.frames - before) as u32
}

/// Lets one frame leave the held port and returns its bytes.
fn take_one(lab: &mut Lab) -> Vec<u8> {
    lab.switch.hold(1, false);
    lab.transmit(1, 1);
    lab.switch.hold(1, true);
    let bytes = lab.memory_of(1).to_vec();
    lab.complete(1, 1);
    bytes
}

/// RED accuracy of the conformance list: over 200 seeded runs the share of marked frames is within
/// 2 % of (avg − low)/(high − low)·p. Nothing is picked at low, everything above high; with
/// instantaneous and averaged lengths; each drop level by its own curve.
#[test]
fn marked_shares_follow_the_line() {
    let curve = |low_cells, high_cells, probability_percent| WredProfile {
        low_cells,
        high_cells,
        probability_percent,
    };
    let curves = [curve(100, 300, 40), curve(60, 180, 60), curve(20, 100, 100)];
    let wred = WredSettings { exponent: 0, ecn: true, curves, ..WredSettings::default() };
    let mut table = String::from("length  green  (line)  yellow  (line)     red  (line), % marked\n");
    for cells in [20, 21, 40, 60, 80, 100, 101, 150, 180, 181, 250, 300, 301] {
        let _ = write!(table, "{cells:>6}");
        for (level, WredProfile { low_cells, high_cells, probability_percent }) in
            curves.into_iter().enumerate()
        {
            let line = match cells {
                cells if cells <= low_cells => 0.0,
                cells if cells > high_cells => 100.0,
                cells => {
                    f64::from(probability_percent) * f64::from(cells - low_cells)
                        / f64::from(high_cells - low_cells)
                }
            };
            let total: u32 = (0..RUNS).map(|seed| picked(wred, seed, cells, level)).sum();
            let share = f64::from(total) * 100.0 / (RUNS as f64 * f64::from(FRAMES));
            let _ = write!(table, " {share:>7.2} {line:>7.2}");
            // 2 % of the curve, or three standard deviations where so few frames are picked that
            // chance is larger.
            let chance =
                300.0 * (line / 100.0 * (1.0 - line / 100.0) / (RUNS as f64 * f64::from(FRAMES))).sqrt();
            let exact = line == 0.0 || line == 100.0;
            let most = if exact { 0.0 } else { (line * 0.02).max(chance) };
            assert!(
                (share - line).abs() <= most,
                "{cells} cells, level {level}: {share} %, the line says {line} %"
            );
        }
        table.push('\n');
    }
    insta::assert_snapshot!(table);
}

/// The same by the average: with the default exponent, at a constant length.
#[test]
fn averaged_marked_shares_follow_the_line() {
    let curve = WredProfile { low_cells: 100, high_cells: 300, probability_percent: 50 };
    let wred = WredSettings { exponent: 9, ecn: true, curves: [curve; 3], ..WredSettings::default() };
    for (cells, line) in [(100, 0.0), (200, 25.0), (280, 45.0), (310, 100.0)] {
        let total: u32 = (0..RUNS).map(|seed| picked(wred, seed, cells, 0)).sum();
        let share = f64::from(total) * 100.0 / (RUNS as f64 * f64::from(FRAMES));
        assert!((share - line).abs() <= line * 0.02, "{cells} cells: {share} %, the line says {line} %");
    }
}

/// Without ECN the same shares drop, counted by drop level and in the switch's drops.
#[test]
fn dropped_shares_follow_the_line() {
    let curve = WredProfile { low_cells: 10, high_cells: 110, probability_percent: 50 };
    let wred = WredSettings { exponent: 0, ecn: false, curves: [curve; 3], ..WredSettings::default() };
    let (mut dropped, mut arrived) = (0, 0);
    for seed in 0..RUNS {
        let mut settings = with_wred(wred);
        settings.seed = seed;
        let mut lab = Lab::with_frames(&settings, 128);
        lab.switch.hold(1, true);
        let yellow = packet(IPV4, DSCP[1], 0b10, None);
        let waiting = |lab: &mut Lab| lab.snapshot().ports[1].queues[QUEUE].waiting_frames;
        while waiting(&mut lab) < 59 {
            lab.arrive_bytes(0, &yellow);
        }
        let before = lab.snapshot().clone();
        for _ in 0..FRAMES {
            lab.arrive_bytes(0, &yellow); // the 60th cell: half way, so a quarter drops
            if waiting(&mut lab) == 60 {
                take_one(&mut lab);
            }
        }
        let after = lab.snapshot();
        let of = |snapshot: &switch::Snapshot| {
            snapshot.ports[1].queues[QUEUE].wred_dropped.map(|count| count.frames)
        };
        let by_level = [0, 1, 2].map(|level: usize| of(after)[level] - of(&before)[level]);
        let reason = DropReason::Wred as usize;
        let as_drops = after.ports[1].drops[reason].frames - before.ports[1].drops[reason].frames;
        assert_eq!(by_level, [0, as_drops, 0]);
        assert_eq!(after.ports[1].queues[QUEUE].dropped.frames, 0, "no tail drop");
        dropped += as_drops;
        arrived += u64::from(FRAMES);
    }
    let share = dropped as f64 / arrived as f64;
    assert!((share - 0.25).abs() <= 0.25 * 0.02, "{share}");
}

/// Marked at dequeue: fill 2N with low = high = N, drain: the first N are marked, the rest are not.
/// Marked at enqueue: the other way round. On IPv4 and IPv6, tagged and untagged; checksums verify.
#[test]
fn where_marks_begin_and_end() {
    const N: usize = 50;
    let curve = WredProfile { low_cells: N as u32, high_cells: N as u32, probability_percent: 100 };
    for (mark_at, first_half) in [(EcnMarkPoint::Dequeue, true), (EcnMarkPoint::Enqueue, false)] {
        let wred =
            WredSettings { exponent: 0, ecn: true, mark_at, curves: [curve; 3], ..WredSettings::default() };
        for ethertype in [IPV4, IPV6] {
            for tag in [None, Some(Tag { vid: 5, ..Tag::priority(3) })] {
                let mut lab = Lab::with_frames(&with_wred(wred), 128);
                lab.switch.hold(1, true);
                let came = packet(ethertype, DSCP[0], 0b01, tag);
                (0..2 * N).for_each(|_| lab.arrive_bytes(0, &came));
                for at in 0..2 * N {
                    let left = take_one(&mut lab);
                    let header = Header::parse(&left).expect("a whole header");
                    let marked = (at < N) == first_half;
                    let context = format!("frame {at}, {mark_at:?}, {ethertype:#x}, {tag:?}");
                    assert_eq!(ip::ecn(&left, &header), Some(if marked { 0b11 } else { 0b01 }), "{context}");
                    assert_eq!((header.outer, ip::dscp(&left, &header)), (tag, Some(DSCP[0])), "{context}");
                    if ethertype == IPV4 {
                        let at = header.payload_offset;
                        assert_eq!(Sum::default().bytes(&left[at..at + 20]).fold(), 0xffff, "{context}");
                    }
                }
                let queue = lab.snapshot().ports[1].queues[QUEUE];
                assert_eq!((queue.marked.frames, queue.wred_dropped[0].frames), (N as u64, 0));
            }
        }
    }
}

/// Row 204: a queue that was idle for a second after a burst neither drops nor marks the next
/// frames. Without the idle time it does, whether the frames of the burst were queued or
/// tail-dropped: dropped frames are arrivals, too.
#[test]
fn an_idle_second_forgets_a_burst() {
    let curve = WredProfile { low_cells: 20, high_cells: 100, probability_percent: 100 };
    for (exponent, burst) in [(9, 12_000), (12, 40_000), (15, 400_000)] {
        for (ecn, mark_at) in
            [(false, EcnMarkPoint::Enqueue), (true, EcnMarkPoint::Enqueue), (true, EcnMarkPoint::Dequeue)]
        {
            let wred = WredSettings { exponent, ecn, mark_at, curves: [curve; 3], ..WredSettings::default() };
            for (idle_ns, picked) in [(0, true), (1_000_000_000, false)] {
                let mut settings = with_wred(wred);
                // With ECN, frames that are already marked pass and fill the queue.
                settings.ports[1].queues[QUEUE].shared = Some(Threshold::Static(2_000));
                let mut lab = Lab::with_frames(&settings, 128);
                let filler = packet(IPV4, DSCP[0], if ecn { 0b11 } else { 0b10 }, None);
                lab.switch.hold(1, true);
                (0..burst).for_each(|_| lab.arrive_bytes(0, &filler));
                lab.now = lab.now + 1_000_000_000; // frames wait, so the queue is not idle
                lab.switch.hold(1, false);
                while lab.snapshot().ports[1].queues[QUEUE].waiting_frames > 0 {
                    lab.transmit(1, usize::MAX);
                    lab.complete(1, usize::MAX);
                }
                lab.now = lab.now + idle_ns;
                let counts = |lab: &mut Lab| {
                    let queue = lab.snapshot().ports[1].queues[QUEUE];
                    queue.marked.frames + queue.wred_dropped[0].frames
                };
                let before = counts(&mut lab);
                for _ in 0..20 {
                    lab.arrive_bytes(0, &packet(IPV4, DSCP[0], 0b10, None));
                    lab.transmit(1, usize::MAX);
                    lab.complete(1, usize::MAX);
                }
                let found = counts(&mut lab) - before;
                let context = format!("exponent {exponent}, ECN {ecn}, {mark_at:?}, idle for {idle_ns} ns");
                assert_eq!(found > 0, picked, "{context}: {found} picked");
            }
        }
    }
}

/// The average is updated by every arrival (RED), not only by accepted frames: with those alone it
/// would stay where the last one left it.
#[test]
fn the_average_counts_every_arrival() {
    let curve = WredProfile { low_cells: 3_000, high_cells: 4_000, probability_percent: 100 };
    let wred = WredSettings { exponent: 9, curves: [curve; 3], ..WredSettings::default() };
    let mut settings = with_wred(wred);
    settings.ports[1].queues[QUEUE].guaranteed = switch::settings::Guaranteed::Cells(0);
    settings.ports[1].queues[QUEUE].shared = Some(Threshold::Static(100));
    let mut lab = Lab::with_frames(&settings, 128);
    lab.switch.hold(1, true);
    let mut expected = 0.0;
    for arrival in 1..=1_000 {
        lab.arrive_bytes(0, &packet(IPV4, DSCP[0], 0b10, None));
        expected += (f64::from(arrival.min(101)) - expected) / 512.0;
        let queue = lab.snapshot().ports[1].queues[QUEUE];
        assert_eq!(queue.average_cells, Some(expected as u32), "after {arrival} arrivals");
    }
    assert_eq!(lab.snapshot().ports[1].queues[QUEUE].dropped.frames, 900);
}

/// On a no-drop queue Not-ECT frames pass, unless the settings ask to drop them. Such drops count
/// as WRED's, not as no-drop losses.
#[test]
fn not_ect_on_a_no_drop_queue() {
    let curve = WredProfile { low_cells: 0, high_cells: 0, probability_percent: 100 };
    for (drop_not_ect, dropped) in [(false, 0), (true, 10)] {
        let wred = WredSettings {
            exponent: 0,
            ecn: true,
            drop_not_ect,
            curves: [curve; 3],
            ..WredSettings::default()
        };
        let mut settings = with_wred(wred);
        settings.ports.iter_mut().for_each(|port| port.pfc.no_drop = 1);
        let mut lab = Lab::with_frames(&settings, 128);
        lab.switch.hold(1, true);
        (0..10).for_each(|_| lab.arrive_bytes(0, &packet(IPV4, DSCP[0], 0b00, None)));
        let seen = lab.snapshot();
        assert_eq!(seen.ports[1].queues[QUEUE].wred_dropped[0].frames, dropped);
        assert_eq!(seen.ports[1].drops[DropReason::Wred as usize].frames, dropped);
        assert_eq!(seen.ports[0].groups[0].dropped.frames, 0);
        assert_eq!(lab.memory.free_frames() + lab.switch.frames_held(), lab.frames);
    }
}
