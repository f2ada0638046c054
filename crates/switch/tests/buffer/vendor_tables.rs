//! The vendors' numbers, as tables that a reviewer can compare with the vendor specifications: the
//! behavior of this switch beside the documented one (docs/references.md, "H3C reference", unless
//! another is named).

#[path = "../lab/mod.rs"]
mod lab;

use std::fmt::Write;

use lab::{Frame, Lab, OPEN, mac, settings};
use switch::buffer::cell::CellSize;
use switch::settings::{
    Alpha, BufferSettings, ClassifySettings, DEFAULT_DOT1P_TO_QUEUE, DEFAULT_WEIGHTS, GroupSettings,
    PfcSettings, QueueSettings, RewriteSettings, Threshold, UNKNOWN_UNICAST_TO_QUEUE, WredSettings,
};
use wire::ethernet::{Tag, write_header};

/// 128 Ki cells, as on the S6850, all of them shared.
const TOTAL: u32 = 131_072;

/// Receives one-cell frames for `groups` groups in turn until no group accepts another; returns
/// what each group then holds.
fn settled(percent: u8, groups: usize) -> Vec<u32> {
    let mut settings = settings(groups + 1, 0, TOTAL, 0);
    let xoff = Threshold::Dynamic(Alpha::from_percent(percent));
    settings.ports.iter_mut().for_each(|port| port.groups[3] = GroupSettings { xoff, ..OPEN });
    settings.ports[groups].queues[3] = lab::queue_of(Threshold::Static(u32::MAX));
    let mut lab = Lab::with_frames(&settings, 64);
    lab.switch.hold(groups, true);
    loop {
        for port in 0..groups {
            lab.arrive(Frame { port, dst: mac(groups), priority: 3, len: 64 });
        }
        let groups = lab.snapshot().ports[..groups].iter().map(|port| &port.groups[3]);
        if groups.clone().all(|group| group.dropped.frames > 0) {
            return groups.map(|group| group.shared.cells).collect();
        }
    }
}

#[test]
fn dynamic_thresholds() {
    let mut table = String::from(
        "percent     alpha  proportion to total buffer, %        Used = Total·α/(1+N·α), cells of 131072\n\
         \x20                   seeds   one group settles at   N = 1           2           4           8\n",
    );
    for (percents, alpha, seeds) in [
        (0..=0, "1/128", "0.77"),
        (1..=1, "1/64", "1.53"),
        (2..=3, "1/32", "3.03"),
        (4..=5, "1/16", "5.88"),
        (6..=11, "1/8", "11.11"),
        (12..=20, "1/4", "20.00"),
        (21..=33, "1/2", "33.33"),
        (34..=50, "1", "50.00"),
        (51..=66, "2", "66.66"),
        (67..=80, "4", "80.00"),
        (81..=100, "8", "88.88"),
    ] {
        let (first, last) = (*percents.start(), *percents.end());
        assert!(percents.into_iter().all(|p| Alpha::from_percent(p) == Alpha::from_percent(first)));
        let alone = settled(last, 1)[0];
        let share = f64::from(alone) * 100.0 / f64::from(TOTAL);
        let range = if first == last { format!("{first}") } else { format!("{first}-{last}") };
        let _ = write!(table, "{range:>7}  {alpha:>8}  {seeds:>8}  {share:>21.2}");
        for groups in [1_u32, 2, 4, 8] {
            let reached = settled(last, groups as usize);
            let formula = Alpha::from_percent(last).steady_state_cells(TOTAL, groups);
            let furthest = reached.iter().map(|&cells| cells.abs_diff(formula)).max().unwrap_or(0);
            // Whole cells, and thresholds rounded down: each group is within two cells of the
            // formula.
            assert!(furthest <= 2, "{last} %, {groups} groups: {reached:?}, formula {formula}");
            let _ = write!(table, "  {:>5}/{formula:<5}", reached[0]);
        }
        table.push('\n');
    }
    table.push_str("(cells: reached by the first group / formula)\n");
    insta::assert_snapshot!(table);
}

#[test]
fn defaults() {
    let mut table = String::from("PFC thresholds by speed (table 7), cells:\n");
    for (name, gbps) in [("1GE", 1), ("10GE", 10), ("25GE", 25), ("40GE", 40), ("100GE", 100), ("400GE", 400)]
    {
        let GroupSettings { reserved_cells, xoff, xon_offset_cells, resume_cells, headroom_cells, .. } =
            GroupSettings::default_for(gbps * 1_000_000_000);
        assert_eq!(xoff, Threshold::Dynamic(Alpha::from_percent(5)));
        let _ = writeln!(
            table,
            "  {name:>5}  headroom {headroom_cells:>4}  dynamic 5 %  offset {xon_offset_cells}  reserved \
             {reserved_cells}  resume {resume_cells}"
        );
    }
    let buffer = BufferSettings::default();
    let _ = writeln!(
        table,
        "buffer: {} cells of {} bytes, headroom pool {} cells, pools {:?} %",
        buffer.total_cells, buffer.cell_bytes, buffer.headroom_cells, buffer.egress_pool_percent
    );
    let _ = writeln!(
        table,
        "queue: {:?}, 20 % shared through the alpha table",
        QueueSettings::default().guaranteed
    );
    let PfcSettings { rx, tx, no_drop, pause_quanta, .. } = PfcSettings::default();
    let _ = writeln!(
        table,
        "PFC: receive {rx}, send {tx}, no-drop {no_drop:08b}, pause time: {pause_quanta} quanta"
    );
    let _ = writeln!(table, "trust: {:?} (the document: nothing)", ClassifySettings::default().trust);
    let _ = writeln!(table, "priorities in frames: {:?}", RewriteSettings::default());
    let _ = writeln!(table, "dot1p to local precedence (table 11): {DEFAULT_DOT1P_TO_QUEUE:?}");
    let _ = writeln!(table, "WRR weights of queues 0-7: {DEFAULT_WEIGHTS:?}");
    let WredSettings { exponent, ecn, curves, .. } = WredSettings::default();
    let _ = writeln!(table, "WRED: exponent {exponent}, ECN {ecn}, by drop level");
    curves.iter().for_each(|curve| {
        let _ = writeln!(
            table,
            "  low {} cells, high {} cells, {} %",
            curve.low_cells, curve.high_cells, curve.probability_percent
        );
    });
    let _ = writeln!(
        table,
        "unknown unicast, priority to queue (huawei-pfc.txt, table 3-1): {UNKNOWN_UNICAST_TO_QUEUE:?}"
    );
    let cell = CellSize::new(208);
    let _ = writeln!(table, "208-byte cells: 128 bytes take {}, 300 bytes {}", cell.of(128), cell.of(300));
    insta::assert_snapshot!(table);
}

/// Row 1: RoCEv1 has its own ethertype, and is forwarded like any other frame, by the priority of
/// its tag.
#[test]
fn rocev1_goes_by_its_tag() {
    const ROCEV1: u16 = 0x8915;
    let mut lab = Lab::new(&settings(2, 0, 1000, 0));
    for (priority, queue) in DEFAULT_DOT1P_TO_QUEUE.into_iter().enumerate() {
        let mut bytes = vec![0; 128];
        write_header(&mut bytes, mac(1), mac(0), Some(Tag::priority(priority as u8)), ROCEV1);
        let before = lab.snapshot().ports[0].groups[priority].received.frames;
        lab.arrive_bytes(0, &bytes);
        lab.transmit(1, 1);
        assert_eq!(lab.memory_of(1), bytes);
        lab.complete(1, 1);
        let seen = lab.snapshot();
        assert_eq!(seen.ports[0].groups[priority].received.frames, before + 1);
        assert_eq!(seen.ports[1].queues[usize::from(queue)].transmitted.frames, 1);
    }
}
