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
