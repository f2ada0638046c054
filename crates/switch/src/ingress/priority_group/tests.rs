use super::*;

#[test]
fn hot_fields_fit_one_cache_line() {
    assert_eq!(size_of::<PriorityGroup>(), 64);
}
use crate::settings::{Alpha, BufferSettings};

struct Lab {
    group: PriorityGroup,
    pools: Pools,
}

impl Lab {
    fn new(settings: GroupSettings, no_drop: bool, shared: u32) -> Self {
        let buffer = BufferSettings {
            total_cells: shared + 100,
            fixed_cells: 0,
            headroom_cells: 100,
            ..BufferSettings::default()
        };
        let protection = if no_drop { FlowControlMode::Pfc } else { FlowControlMode::None };
        Self { group: PriorityGroup::new(settings, protection, 100), pools: Pools::new(&buffer) }
    }

    fn arrive(&mut self, cells: u32) -> (Option<BufferRegion>, Option<XoffTransition>) {
        let area = self.group.admit(cells, &self.pools);
        match area {
            Some(area) => self.group.charge(cells, area, &mut self.pools),
            None => {
                let charge = FrameMeta { len: 64, cells: cells as u16, ..FrameMeta::default() };
                let first = self.group.count_drop(&charge, Instant(1), &self.pools);
                let _ = self.group.enter_starvation(cells, &self.pools);
                first
            }
        };
        (area, self.group.update_xoff(false, &self.pools))
    }

    fn leave(&mut self, cells: u32) -> Option<XoffTransition> {
        self.group.release(cells, &mut self.pools);
        self.group.update_xoff(false, &self.pools)
    }
}

const STATIC: GroupSettings = GroupSettings {
    pool: 0,
    reserved_cells: 2,
    xoff: Threshold::Static(3),
    xon_offset_cells: 2,
    resume_cells: 0,
    headroom_cells: 4,
};

/// Fills a no-drop group from empty to its first drop and drains it, one cell per step.
#[test]
fn up_to_the_drop_and_down_again() {
    let mut lab = Lab::new(STATIC, true, 50);
    let normal = Some(BufferRegion::ReservedAndShared);
    let expected = [
        (normal, None),                       // reserved 1
        (normal, None),                       // reserved 2
        (normal, None),                       // shared 1
        (normal, None),                       // shared 2
        (normal, Some(XoffTransition::Xoff)), // shared 3 = T
        (Some(BufferRegion::Headroom), None), // headroom 1
        (Some(BufferRegion::Headroom), None),
        (Some(BufferRegion::Headroom), None),
        (Some(BufferRegion::Headroom), None), // headroom 4 = its limit
        (None, None),                         // no room: a no-drop loss
    ];
    for (step, expected) in expected.into_iter().enumerate() {
        assert_eq!(lab.arrive(1), expected, "arrival {}", step + 1);
    }
    assert_eq!((lab.pools.ingress[0].level().cells, lab.pools.headroom.level().cells), (3, 4));
    // Headroom goes first (4), then shared: XON at T − offset = 1.
    let changes: Vec<_> = (0..9).map(|_| lab.leave(1)).collect();
    let mut expected = [None; 9];
    expected[5] = Some(XoffTransition::Xon);
    assert_eq!(changes, expected);
    assert_eq!(
        (lab.group.cells(), lab.pools.ingress[0].level().cells, lab.pools.headroom.level().cells),
        (0, 0, 0)
    );
    assert_eq!(lab.pools.ingress[0].level().peak_cells, 3);
    assert_eq!(lab.group.snapshot(&lab.pools, Instant::default()).dropped.frames, 1);
}

#[test]
fn while_headroom_is_in_use_every_arrival_goes_there() {
    let mut lab = Lab::new(STATIC, true, 50);
    lab.arrive(5);
    lab.arrive(1); // headroom 1
    lab.group.release(1, &mut lab.pools); // headroom is empty again …
    lab.arrive(1); // … T is reached, so headroom again
    assert_eq!(lab.group.headroom_cells, 1);
    // A larger release would make room for a shared cell, but headroom is released first.
    lab.arrive(2);
    lab.leave(1);
    assert_eq!(lab.group.headroom_cells, 2);
    assert_eq!(lab.arrive(1).0, Some(BufferRegion::Headroom));
}

#[test]
fn a_frame_too_large_for_what_is_left_goes_whole_to_headroom() {
    let mut lab = Lab::new(STATIC, true, 50);
    lab.arrive(4); // reserved 2, shared 2: one short of T
    assert_eq!(lab.arrive(2), (Some(BufferRegion::Headroom), Some(XoffTransition::Xoff)));
    assert_eq!((lab.group.shared_cells(), lab.group.headroom_cells), (2, 2));
}

#[test]
fn a_lossy_group_drops_where_a_no_drop_group_uses_headroom() {
    let mut lab = Lab::new(STATIC, false, 50);
    assert_eq!(lab.arrive(5), (Some(BufferRegion::ReservedAndShared), None));
    assert_eq!(lab.arrive(1), (None, None));
    assert_eq!(lab.pools.headroom.level().peak_cells, 0);
}

/// A lone group settles at α/(1+α) of the pool: docs/references.md, "H3C reference" (table 6:
/// percent of the total).
#[test]
#[cfg_attr(miri, ignore = "statistics of hundreds of thousands of steps")]
fn a_lone_dynamic_group_settles_at_the_documented_share() {
    for (percent, share) in [
        (0, 0.77),
        (1, 1.53),
        (3, 3.03),
        (5, 5.88),
        (11, 11.11),
        (20, 20.00),
        (33, 33.33),
        (50, 50.00),
        (66, 66.66),
        (80, 80.00),
        (100, 88.88),
    ] {
        let pool = 131_072;
        let settings = GroupSettings {
            reserved_cells: 0,
            xoff: Threshold::Dynamic(Alpha::from_percent(percent)),
            ..STATIC
        };
        let mut lab = Lab::new(settings, false, pool);
        while lab.arrive(1).0.is_some() {}
        let settled = f64::from(lab.group.cells()) * 100.0 / f64::from(pool);
        assert!(
            (settled - share).abs() < 0.011,
            "{percent} %: settled at {settled} %, the table says {share} %"
        );
    }
}

#[test]
fn others_can_push_a_dynamic_group_into_xoff_but_never_an_empty_one() {
    let settings =
        GroupSettings { reserved_cells: 0, xoff: Threshold::Dynamic(Alpha::from_percent(50)), ..STATIC };
    let mut lab = Lab::new(settings, true, 100);
    lab.pools.ingress[0].charge(100);
    assert_eq!(lab.group.update_xoff(false, &lab.pools), None, "an empty group has nothing to stop");
    lab.pools.ingress[0].release(20);
    assert_eq!(
        lab.arrive(10),
        (Some(BufferRegion::ReservedAndShared), Some(XoffTransition::Xoff)),
        "10 used, 10 free, alpha 1"
    );
    assert_eq!(lab.leave(1), Some(XoffTransition::Xon), "9 used, 11 free: T − offset = 9");
}

#[test]
fn xon_never_comes_while_xoff_would_come_at_once() {
    let settings = GroupSettings { reserved_cells: 0, resume_cells: 10, xon_offset_cells: 0, ..STATIC };
    let mut lab = Lab::new(settings, true, 100);
    assert_eq!(lab.arrive(3).1, Some(XoffTransition::Xoff));
    assert_eq!(lab.group.update_xoff(false, &lab.pools), None, "resume is above T, yet T rules");
    assert_eq!(lab.leave(1), Some(XoffTransition::Xon));
}

/// A frame that exceeds T goes to headroom, though it leaves reserved cells free; then every frame
/// does, until headroom is empty.
#[test]
fn reserved_cells_stay_free_while_headroom_is_in_use() {
    let mut lab = Lab::new(GroupSettings { xoff: Threshold::Static(0), ..STATIC }, true, 50);
    assert_eq!(lab.arrive(3), (Some(BufferRegion::Headroom), Some(XoffTransition::Xoff)));
    assert_eq!(lab.arrive(1), (Some(BufferRegion::Headroom), None));
    assert_eq!([lab.leave(3), lab.leave(1)], [None, Some(XoffTransition::Xon)]);
    assert_eq!(lab.arrive(1), (Some(BufferRegion::ReservedAndShared), None));
}

/// A full no-drop group, to which a frame of one cell comes now and then.
#[test]
fn an_episode_of_losses_ends_when_headroom_is_empty() {
    let mut lab = Lab::new(STATIC, true, 50);
    lab.arrive(5);
    lab.arrive(4);
    let one = FrameMeta { len: 64, cells: 1, ..FrameMeta::default() };
    let lose = |lab: &mut Lab, at_ns: u64| lab.group.count_drop(&one, Instant(at_ns), &lab.pools);
    assert_eq!([lose(&mut lab, 1), lose(&mut lab, 1)], [true, false]);
    assert_eq!([lose(&mut lab, EVENT_NS), lose(&mut lab, EVENT_NS + 1)], [false, true], "once a second");
    lab.leave(1);
    lab.arrive(1);
    assert!(!lose(&mut lab, EVENT_NS + 2), "three cells of headroom were left");
    lab.leave(4);
    lab.arrive(4);
    assert_eq!([lose(&mut lab, EVENT_NS + 3), lose(&mut lab, EVENT_NS + 3)], [true, false]);
    // A frame that can never fit does not belong to an episode.
    let large = FrameMeta { len: 9000, cells: 99, ..FrameMeta::default() };
    lab.leave(4);
    assert!(!lab.group.count_drop(&large, Instant(EVENT_NS + 4), &lab.pools));
    assert!(lose(&mut lab, EVENT_NS + 4));
}

/// Without headroom it lasts as long as XOFF.
#[test]
fn an_episode_of_losses_without_headroom_outlasts_what_leaves() {
    let mut lab = Lab::new(GroupSettings { headroom_cells: 0, ..STATIC }, true, 50);
    lab.arrive(5);
    let one = FrameMeta { len: 64, cells: 1, ..FrameMeta::default() };
    assert!(lab.group.count_drop(&one, Instant(1), &lab.pools));
    assert_eq!((lab.leave(1), lab.arrive(1).0), (None, Some(BufferRegion::ReservedAndShared)));
    assert!(!lab.group.count_drop(&one, Instant(2), &lab.pools));
}

/// The same settings once more leave the episodes as they are; a group that was lossy meanwhile has
/// a new one.
#[test]
fn a_group_that_was_lossy_meanwhile_begins_a_new_episode_of_losses() {
    let mut lab = Lab::new(STATIC, true, 50);
    let one = FrameMeta { len: 64, cells: 1, ..FrameMeta::default() };
    let lose = |lab: &mut Lab| lab.group.count_drop(&one, Instant(1), &lab.pools);
    let reconfigure =
        |lab: &mut Lab, protection| lab.group.reconfigure(STATIC, protection, 100, &mut lab.pools);
    assert!(lose(&mut lab));
    reconfigure(&mut lab, FlowControlMode::Pfc);
    assert!(!lose(&mut lab));
    reconfigure(&mut lab, FlowControlMode::Pause);
    reconfigure(&mut lab, FlowControlMode::Pfc);
    assert!(lose(&mut lab));
    // Headroom that becomes empty ends the episode, and settings do not begin one again.
    lab.arrive(5);
    lab.arrive(4);
    lab.leave(4);
    lab.leave(5);
    reconfigure(&mut lab, FlowControlMode::Pfc);
    assert!(lose(&mut lab));
}

/// The longest frame that fits an empty group, if all cells of its pools are free.
#[test]
fn what_can_ever_fit() {
    let of = |xoff, headroom_cells| GroupSettings { xoff: Threshold::Static(xoff), headroom_cells, ..STATIC };
    for (settings, no_drop, longest) in [
        (of(3, 4), true, 5),     // reserved 2 + T
        (of(80, 4), true, 52),   // reserved 2 + the pool
        (of(3, 7), true, 7),     // headroom
        (of(3, 200), true, 100), // the pool of headroom
        (of(3, 7), false, 5),
    ] {
        let lab = Lab::new(settings, no_drop, 50);
        let fits = [longest, longest + 1].map(|cells| lab.group.can_ever_fit(cells, &lab.pools));
        assert_eq!(fits, [true, false], "{settings:?}, no-drop: {no_drop}");
    }
}

/// Others hold all cells: the group is in XOFF, though it is empty, until the frame that was
/// rejected fits and headroom is free.
#[test]
fn a_starved_group_waits_for_room_and_for_headroom() {
    let mut lab = Lab::new(STATIC, true, 50);
    let pools = &mut lab.pools;
    pools.ingress[0].charge(50);
    pools.headroom.charge(100);
    assert_eq!(lab.group.admit(4, pools), None);
    let starves = [4, 4].map(|cells| lab.group.enter_starvation(cells, pools));
    assert_eq!(starves, [Some(XoffTransition::Xoff), None]);
    assert_eq!(lab.group.enter_starvation(99, pools), None, "it would never fit");
    pools.ingress[0].release(1);
    for _ in 0..2 {
        assert_eq!(lab.group.update_xoff(false, pools), None, "three cells fit");
    }
    pools.ingress[0].release(1);
    pools.headroom.release(3);
    assert_eq!(lab.group.update_xoff(false, pools), None, "four fit, but headroom is not free");
    pools.headroom.release(1);
    assert_eq!(lab.group.update_xoff(false, pools), Some(XoffTransition::Xon));
    assert_eq!(lab.group.snapshot(pools, Instant(0)).xoff_episodes, 1);
    let mut lossy = Lab::new(STATIC, false, 50);
    assert_eq!(lossy.group.enter_starvation(4, &lossy.pools), None);
}

/// A frame of five cells, more than headroom has, waits for three shared cells however often the
/// group is examined.
#[test]
fn a_starved_group_waits_for_the_frame_that_was_rejected() {
    let mut lab = Lab::new(STATIC, true, 50);
    let pools = &mut lab.pools;
    pools.ingress[0].charge(50);
    assert_eq!(lab.group.enter_starvation(5, pools), Some(XoffTransition::Xoff));
    pools.ingress[0].release(2);
    for _ in 0..3 {
        assert_eq!(lab.group.update_xoff(false, pools), None);
    }
    pools.ingress[0].release(1);
    assert_eq!(lab.group.update_xoff(false, pools), Some(XoffTransition::Xon));
}

/// Frames of the port that had the slot before may still wait elsewhere.
#[test]
fn a_group_inherits_the_cells_of_the_one_before() {
    let mut lab = Lab::new(STATIC, true, 50);
    lab.arrive(5);
    lab.arrive(1);
    let mut next = PriorityGroup::new(STATIC, FlowControlMode::Pfc, 100);
    next.inherit_usage(&lab.group);
    let [total, headroom] = {
        let group = next.snapshot(&lab.pools, Instant(0));
        [group.total, group.headroom].map(|level| (level.cells, level.peak_cells))
    };
    assert_eq!((total, headroom), ((6, 6), (1, 1)));
}

/// Others move the threshold of a group only if it holds shared cells, or waits for XON.
#[test]
fn which_groups_are_examined_each_iteration() {
    let examined = |no_drop, cells| {
        let mut lab = Lab::new(STATIC, no_drop, 50);
        lab.arrive(cells);
        lab.group.needs_recheck()
    };
    assert_eq!([0, 2, 3, 5].map(|cells| examined(true, cells)), [false, false, true, true]);
    assert_eq!([2, 5].map(|cells| examined(false, cells)), [false, false]);
    let mut lab = Lab::new(STATIC, true, 50);
    lab.group.update_xoff(true, &lab.pools);
    assert!(lab.group.needs_recheck(), "empty, but in XOFF for a long RX backlog");
}

/// Six frames: one found no room, the watchdog dropped one, and a flood limit two.
#[test]
fn storm_traffic_is_what_was_admitted() {
    let mut lab = Lab::new(STATIC, true, 50);
    (0..6).for_each(|_| lab.group.count_received(64));
    let one = FrameMeta { len: 64, cells: 1, ..FrameMeta::default() };
    lab.group.count_drop(&one, Instant(1), &lab.pools);
    lab.group.count_storm_drop(64);
    (0..2).for_each(|_| lab.group.count_flood_limited(64));
    assert_eq!(lab.group.storm_traffic(), (2, 1));
    assert_eq!(lab.group.snapshot(&lab.pools, Instant(1)).flood_limited.frames, 2);
}
