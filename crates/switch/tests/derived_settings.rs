//! What follows from settings, as other crates use it: sizes of pools, speeds, and the names of
//! modes.

mod lab;

use lab::settings;
use switch::PortSettings;
use switch::monitor::counters::iteration_time_class;
use switch::settings::{
    Alpha, BridgeSettings, BufferSettings, DownPortAction, DropLevel, EarlyWarningSettings, FlowControl,
    GroupDiscipline, GroupSettings, PfcWdAction, Restoration, ScheduleSettings, SchedulerGroup, VlanList,
    VlanSettings, WatchdogSettings,
};
use switch::{KernelCounters, Snapshot};

/// Returns a buffer of 1000 shared cells.
fn buffer() -> BufferSettings {
    BufferSettings { total_cells: 1500, fixed_cells: 400, headroom_cells: 100, ..BufferSettings::default() }
}

/// A guest's queues are read as far as the least headroom of a protected group holds, in limits.
#[test]
fn batches_of_a_guest_follow_headroom() {
    let cells = |headroom: [u32; 2], no_drop, flow_control| {
        let mut port = PortSettings::new("p0", None);
        port.groups.iter_mut().for_each(|group| group.headroom_cells = 90);
        (port.groups[3].headroom_cells, port.groups[4].headroom_cells) = (headroom[0], headroom[1]);
        (port.pfc.no_drop, port.flow_control) = (no_drop, flow_control);
        port.guest_batch_cells(false)
    };
    let (three, both) = (0b0000_1000, 0b0001_1000);
    assert_eq!(cells([100, 80], three, FlowControl::Off), 100);
    assert_eq!(cells([100, 80], both, FlowControl::Off), 80);
    assert_eq!(cells([63, 80], both, FlowControl::Off), 64);
    assert_eq!(cells([300, 300], both, FlowControl::Off), 256);
    assert_eq!(cells([300, 300], both, FlowControl::Send), 90, "PAUSE protects all groups");
    assert_eq!(cells([300, 300], both, FlowControl::Receive), 256);
    assert_eq!(cells([0, 0], 0, FlowControl::Off), 256, "nothing is protected");
    assert_eq!(PortSettings::new("p0", None).guest_batch_cells(true), 64, "a guest that gets PFC");
}

/// The remainder of the division goes to pool 0, if that has a share.
#[test]
fn pools_divide_the_shared_area() {
    assert_eq!(buffer().shared_cells(), 1000);
    let by_share = |percent, cells| {
        let ingress = BufferSettings {
            total_cells: 1507,
            ingress_pool_percent: percent,
            ingress_pool_cells: cells,
            ..buffer()
        };
        let egress = BufferSettings {
            total_cells: 1507,
            egress_pool_percent: percent,
            egress_pool_cells: cells,
            ..buffer()
        };
        let pools = ingress.ingress_pools();
        assert_eq!(egress.egress_pools(), pools);
        pools
    };
    assert_eq!(by_share([100, 0, 0, 0], [None; 4]), [1007, 0, 0, 0]);
    assert_eq!(by_share([34, 33, 33, 0], [None; 4]), [343, 332, 332, 0]);
    assert_eq!(by_share([30, 33, 33, 0], [None; 4]), [302, 332, 332, 0], "96 % of the area");
    assert_eq!(by_share([0, 50, 33, 0], [None; 4]), [0, 503, 332, 0]);
    assert_eq!(by_share([0, 50, 50, 0], [None; 4]), [0, 503, 503, 0], "the remainder is nobody's");
    assert_eq!(by_share([60, 33, 0, 0], [None, None, Some(10), None]), [604, 332, 10, 0]);
    assert_eq!(by_share([60, 33, 0, 0], [None, None, Some(500), None]), [175, 332, 500, 0], "what is left");
    assert_eq!(by_share([60, 33, 0, 0], [None, None, Some(u32::MAX), Some(9)]), [0, 332, u32::MAX, 9]);
    assert_eq!(by_share([60, 33, 0, 0], [Some(7), None, None, None]), [7, 332, 0, 0]);
}

#[test]
fn defaults_are_those_of_the_references() {
    let BufferSettings { cell_bytes, total_cells, fixed_cells, headroom_cells, .. } =
        BufferSettings::default();
    assert_eq!((cell_bytes, total_cells, fixed_cells, headroom_cells), (256, 131_072, 16_384, 12_288));
    let in_turn = GroupDiscipline::WeightedByBytes([1; 8]);
    let ets = [
        SchedulerGroup::new("pg0", 1, 50, in_turn).of(0b0011_0111),
        SchedulerGroup::new("pg1", 1, 50, in_turn).of(0b0000_1000),
        SchedulerGroup::new("pg15", 0, 1, GroupDiscipline::Strict).of(0b1100_0000),
    ];
    assert_eq!(ScheduleSettings::default_ets().groups, ets);
}

#[test]
fn drop_levels_have_numbers() {
    let levels = [Some(DropLevel::Green), Some(DropLevel::Yellow), Some(DropLevel::Red), None];
    assert_eq!([0, 1, 2, 3].map(DropLevel::from_number), levels);
}

/// Each group settles at total · α / (1 + groups · α) cells.
#[test]
fn groups_that_compete_for_a_pool_settle_at_equal_cells() {
    for (exponent, groups, cells) in
        [(0, 1, 500), (0, 3, 250), (3, 1, 888), (3, 2, 470), (-7, 1, 7), (-1, 4, 166)]
    {
        let alpha = Alpha::from_exponent(exponent).expect("in range");
        assert_eq!(alpha.steady_state_cells(1000, groups), cells, "exponent {exponent}, {groups} groups");
    }
}

#[test]
fn exponents_of_alpha() {
    for exponent in -7..=3 {
        let alpha = Alpha::from_exponent(exponent).expect("in range");
        assert_eq!(alpha.exponent(), exponent);
        let cells = (1000.0 * 2_f64.powi(exponent.into())) as u32;
        assert_eq!(alpha.of(1000), cells, "exponent {exponent}");
    }
    assert_eq!([-8, 4].map(Alpha::from_exponent), [None; 2]);
    assert_eq!(Alpha::MAX.of(u32::MAX), u32::MAX);
}

#[test]
fn headroom_by_speed() {
    let gbps = 1_000_000_000;
    for (speeds, cells) in [
        ([1, 10 * gbps], 100),
        ([10 * gbps + 1, 25 * gbps], 125),
        ([25 * gbps + 1, 40 * gbps], 200),
        ([40 * gbps + 1, 100 * gbps], 491),
        ([100 * gbps + 1, 400 * gbps], 1000),
    ] {
        let headroom = speeds.map(|bps| GroupSettings::default_for(bps).headroom_cells);
        assert_eq!(headroom, [cells; 2]);
    }
}

/// Only watchdogs and early warnings need a timer.
#[test]
fn what_needs_a_timer() {
    let mut settings = settings(2, 0b0000_1000, 1000, 100);
    assert!(!settings.needs_timer());
    let watchdog = WatchdogSettings {
        detection_ns: 1,
        action: PfcWdAction::Drop,
        restore: Restoration::Manual,
        limit: None,
    };
    settings.ports[1].watchdog[3] = Some(watchdog);
    assert!(settings.needs_timer());
    settings.ports[1].watchdog[3] = None;
    settings.ports[1].early_warning[3] = EarlyWarningSettings { in_pps: None, out_pps: Some(1) };
    assert!(settings.needs_timer());
}

/// A watchdog observes a no-drop priority whose pauses are honored.
#[test]
fn watchdogs_of_priorities() {
    let mut port = settings(1, 0b0000_1000, 1000, 100).ports.remove(0);
    let watchdog = WatchdogSettings {
        detection_ns: 1,
        action: PfcWdAction::Drop,
        restore: Restoration::Manual,
        limit: None,
    };
    port.watchdog = [Some(watchdog); 8];
    assert_eq!([2, 3, 4].map(|priority| port.watchdog_of(priority)), [None, Some(watchdog), None]);
    port.pfc.rx = false;
    assert_eq!(port.watchdog_of(3), None);
}

#[test]
fn ports_and_their_speeds() {
    let mut settings = settings(3, 0, 1000, 0);
    settings.ports[1] = PortSettings::vacant();
    assert_eq!(settings.port_count(), 2);
    assert_eq!([0, 1].map(|port: usize| settings.ports[port].is_vacant()), [false, true]);

    let mut port = PortSettings::new("p", None);
    assert_eq!(port.pause_speed_bps(), switch::settings::ASSUMED_SPEED_BPS);
    port.link_speed_bps = Some(3);
    assert_eq!(port.pause_speed_bps(), 3);
    port.speed_bps = Some(2);
    assert_eq!(port.pause_speed_bps(), 2);
    port.pfc.pause_speed_bps = Some(1);
    assert_eq!(port.pause_speed_bps(), 1);
    assert_eq!(port.longest_frame_bytes(), u16::MAX);
    port.mtu_bytes = Some(1500);
    assert_eq!(port.longest_frame_bytes(), 1518);
    assert_eq!([None, Some(1)].map(|bps| PortSettings::new("p", bps).overhead_bytes > 0), [false, true]);
}

#[test]
fn modes_and_their_names() {
    let modes = FlowControl::ALL.map(|(name, mode)| (name == mode.name(), mode.honors(), mode.sends()));
    let expected = [(true, false, false), (true, true, false), (true, false, true), (true, true, true)];
    assert_eq!(modes, expected);
    assert_eq!([DownPortAction::Drop, DownPortAction::Flood].map(DownPortAction::name), ["drop", "flood"]);
    let (unknown, multicast) = ([1; 8], [2; 8]);
    let mut bridge = BridgeSettings::default();
    assert_eq!(bridge.flood_maps(), [[0; 8]; 0]);
    bridge.multicast_to_queue = Some(multicast);
    assert_eq!(bridge.flood_maps(), [multicast]);
    bridge.unknown_unicast_to_queue = Some(unknown);
    assert_eq!(bridge.flood_maps(), [unknown, multicast]);
}

#[test]
fn vlans_of_ports() {
    let allowed = VlanList::of([7..=9, 3..=3]);
    let of = |vlan: &VlanSettings| (vlan.mode(), vlan.pvid(), vlan.vlans().to_string());
    assert_eq!(of(&VlanSettings::Transparent), ("", None, String::new()));
    assert_eq!(of(&VlanSettings::Access { pvid: 5 }), ("access", Some(5), "5".to_owned()));
    let trunk = VlanSettings::Trunk { pvid: Some(3), allowed: allowed.clone() };
    assert_eq!(of(&trunk), ("trunk", Some(3), "3,7-9".to_owned()));
    assert_eq!(allowed.iter().collect::<Vec<_>>(), [3, 7, 8, 9]);
    assert_eq!([2, 3, 6, 9].map(|vid| allowed.contains(vid)), [false, true, false, true]);
    assert_eq!(VlanList::all().to_string(), "1-4094");
}

#[test]
fn sums_of_kernel_counters() {
    let kernel = KernelCounters {
        rx_fill_ring_empty_frames: 1,
        rx_ring_full_frames: 20,
        rx_dropped_frames: 300,
        rx_missed_frames: 4_000,
        rx_closed_frames: 50_000,
        rx_too_long_frames: 600_000,
        ..KernelCounters::default()
    };
    assert_eq!((kernel.rx_lost_frames(), kernel.rx_unbuffered_frames()), (654_321, 4_321));
}

/// Class n has the iterations of less than 2^n µs.
#[test]
fn classes_of_iteration_time() {
    let classes = [0, 999, 1000, 1999, 2000, 4000, 7999, 8000].map(iteration_time_class);
    assert_eq!(classes, [0, 0, 1, 1, 2, 3, 3, 4]);
    let long = [4_194_303_999, 4_194_304_000, 8_388_608_000, u64::MAX].map(iteration_time_class);
    assert_eq!(long, [22, 23, 23, 23]);
}

#[test]
fn loops_of_one_switch_agree_without_their_own_counters() {
    let with = |turns| Snapshot {
        at_ns: 5,
        memory_free_frames: turns,
        memory_in_rings_frames: turns,
        loop_turns: turns,
        loop_worst_stall_ns: turns,
        loop_awake_ns: turns,
        loop_turns_by_time: [turns; 24],
        ..Snapshot::default()
    };
    let [one, other] = [1, 2].map(|turns| with(turns).without_loop_counters());
    assert_eq!(one, other);
    assert_eq!(one.at_ns, 5);
}
