//! A priority group: the cells that one port's frames of one 802.1p priority hold at ingress, and
//! when its peer is told to stop.
//!
//! Rule, with reserved R, threshold T, and u cells outside headroom (min(u, R) of them reserved,
//! the rest shared):
//! - a frame of n cells is charged to reserved and shared if max(0, u + n − R) ≤ T and the pool has
//!   room;
//! - otherwise, whole, to headroom, up to the group's limit and the pool's; while headroom is in
//!   use, every frame is;
//! - otherwise it drops. A group whose peer is told nothing (neither PFC nor PAUSE) has no
//!   headroom.
//! - Cells leave in the reverse order: headroom, shared, reserved.
//! - T is static, or alpha × the free cells of the group's service pool before the frame in
//!   question.
//!
//! ```text
//!        shared ≥ T, or headroom in use, or shared > 0 and the use of the pool ≥ its pause threshold, or starved
//!   XON ────────────────────────────────────────────────────────────▶ XOFF
//!     ◀────────────────────────────────────────────────────────────────
//!        headroom empty and shared ≤ max(resume, T − offset) and shared < T
//!        and (shared = 0 or the use of the pool ≤ its pause threshold − offset) and not starved
//! ```
//! A group that holds no shared cell and no headroom is in XOFF only while it is starved: a frame
//! of it was refused, since others hold what it needs. It is starved until such a frame fits and
//! its headroom is free again, so that the pause after XON loses nothing. A frame that would not
//! fit if all were free starves no group, since its XOFF would not end.
//!
//! Source: docs/behavior.md, "Priority groups" and "XOFF and XON"; docs/references.md, "H3C
//! reference" (Setting PFC thresholds, figure 12). Once headroom is in use all goes there, as in
//! docs/references.md, "Simulators".

use crate::buffer::pool::{Pool, Pools};
use crate::buffer::threshold::CompiledThreshold;
use crate::frame::meta::FrameMeta;
use crate::monitor::alarm::{DropAlarm, UsageAlarm};
use crate::monitor::counters::{FrameCount, GroupSnapshot};
use crate::monitor::usage_violation::UsageViolations;
use crate::monitor::watermark::{Peak, WatermarkReset, Watermarks};
use crate::pfc::link_pause::FlowControlMode;
use crate::settings::{GroupSettings, Threshold};
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};

/// Where a frame's cells are charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferRegion {
    /// To what is reserved, then to the shared pool.
    ReservedAndShared,
    /// To the headroom pool.
    Headroom,
}

/// A change that the peer must be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XoffTransition {
    /// Stop.
    Xoff,
    /// Go on.
    Xon,
}

/// One priority group. What the way of a frame touches is one cache line: 64 ports have 512 groups.
#[derive(Debug, Serialize, Deserialize)]
#[repr(C, align(64))]
pub struct PriorityGroup {
    received: FrameCount,
    /// Cells outside headroom.
    used_cells: u32,
    /// Up to this use a frame is charged to what is reserved, and no usage threshold is near: no
    /// pool has a say in it.
    fast_path_cells: u32,
    headroom_cells: u32,
    peaks: Peaks,
    protection: FlowControlMode,
    xoff: bool,
    /// A frame was refused, and there is no room for such a one yet: XOFF lasts.
    starved: bool,
    /// Service pool of the shared cells.
    pool: u8,
    reserved_cells: u32,
    xoff_limit: CompiledThreshold,
    rest: Box<ColdState>,
}

/// What few frames touch.
#[derive(Debug, Serialize, Deserialize)]
struct ColdState {
    usage: UsageViolations,
    alarm: UsageAlarm,
    headroom_alarm: UsageAlarm,
    drop_alarm: DropAlarm,
    settings: GroupSettings,
    /// The watchdog drops whatever comes.
    dropping: bool,
    storm_dropped: FrameCount,
    flood_limited: FrameCount,
    dropped: FrameCount,
    xoff_episodes: u64,
    /// Cells of the largest frame that was refused since the group is starved.
    refused_cells: u32,
    /// The event of this episode of losses has been reported.
    loss_reported: bool,
    /// The next event about frames that can never fit comes no sooner.
    next_event: Instant,
    watermarks: [Watermarks; 3],
}

/// Events about frames that can never fit are no closer together.
const EVENT_NS: Nanos = 1_000_000_000;

/// The most since the last mark.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Peaks {
    shared: Peak,
    headroom: Peak,
    total: Peak,
}

impl PriorityGroup {
    /// An empty group; above `usage_percent` of what it may hold outside headroom is a violation.
    pub fn new(settings: GroupSettings, protection: FlowControlMode, usage_percent: u8) -> Self {
        let mut group = Self {
            received: FrameCount::default(),
            used_cells: 0,
            fast_path_cells: 0,
            headroom_cells: 0,
            peaks: Peaks::default(),
            protection,
            xoff: false,
            starved: false,
            pool: settings.pool & 3,
            reserved_cells: settings.reserved_cells,
            xoff_limit: CompiledThreshold::of(settings.xoff),
            rest: Box::new(ColdState {
                usage: UsageViolations::new(usage_percent),
                alarm: UsageAlarm::default(),
                headroom_alarm: UsageAlarm::new(100),
                drop_alarm: DropAlarm::default(),
                settings,
                dropping: false,
                storm_dropped: FrameCount::default(),
                flood_limited: FrameCount::default(),
                dropped: FrameCount::default(),
                xoff_episodes: 0,
                refused_cells: 0,
                loss_reported: false,
                next_event: Instant::default(),
                watermarks: Default::default(),
            }),
        };
        group.set_own_cells();
        group
    }

    /// Works out `own_cells` after what it depends on has changed. While headroom is in use nothing
    /// is charged elsewhere, and while the watchdog drops, nothing at all.
    fn set_own_cells(&mut self) {
        let none = self.headroom_cells > 0 || self.rest.dropping;
        let ColdState { usage, alarm, .. } = &*self.rest;
        let unnoted = usage.alarm_floor(self.reserved_cells).min(alarm.alarm_floor(self.reserved_cells));
        self.fast_path_cells = if none { 0 } else { unnoted };
    }

    /// From now on the watchdog drops whatever comes, or does so no more.
    pub fn set_dropping(&mut self, dropping: bool) {
        self.rest.dropping = dropping;
        self.set_own_cells();
    }

    /// The watchdog drops whatever comes.
    pub fn is_dropping(&self) -> bool {
        self.rest.dropping
    }

    /// The watchdog dropped a frame.
    pub fn count_storm_drop(&mut self, len: u16) {
        self.rest.storm_dropped.add(len);
    }

    /// A limit of what is flooded dropped a frame.
    pub fn count_flood_limited(&mut self, len: u16) {
        self.rest.flood_limited.add(len);
    }

    /// Frames that came in and found room, and those that the watchdog dropped.
    pub fn storm_traffic(&self) -> (u64, u64) {
        let (dropped, by_watchdog) = (self.rest.dropped.frames, self.rest.storm_dropped.frames);
        // Of a flooded frame each copy that found no room is counted.
        (
            self.received.frames.saturating_sub(dropped + by_watchdog + self.rest.flood_limited.frames),
            by_watchdog,
        )
    }

    /// PFC protects this group.
    pub fn is_no_drop(&self) -> bool {
        self.protection == FlowControlMode::Pfc
    }

    /// Its peer is told to stop when it fills, by PFC or by PAUSE.
    #[inline]
    pub fn is_protected(&self) -> bool {
        self.protection != FlowControlMode::None
    }

    /// The peer is told to stop.
    pub fn is_xoff(&self) -> bool {
        self.xoff
    }

    /// Cells in use beyond the reserved ones, headroom not counted.
    #[inline]
    pub fn shared_cells(&self) -> u32 {
        self.used_cells.saturating_sub(self.reserved_cells)
    }

    /// All cells in use.
    #[inline]
    pub fn cells(&self) -> u32 {
        self.used_cells + self.headroom_cells
    }

    #[inline]
    fn pool<'p>(&self, pools: &'p Pools) -> &'p Pool {
        &pools.ingress[usize::from(self.pool & 3)]
    }

    #[inline]
    fn pool_mut<'p>(&self, pools: &'p mut Pools) -> &'p mut Pool {
        &mut pools.ingress[usize::from(self.pool & 3)]
    }

    /// The XOFF threshold as it stands, in shared cells.
    #[inline]
    pub fn threshold_cells(&self, pools: &Pools) -> u32 {
        self.xoff_limit.cells(self.pool(pools).free_cells())
    }

    /// Frames that came in.
    pub fn received_frames(&self) -> u64 {
        self.received.frames
    }

    /// A frame came in, whatever becomes of it.
    #[inline]
    pub fn count_received(&mut self, len: u16) {
        self.received.add(len);
    }

    /// Where a frame of `cells` would be charged; `None`: there is no room.
    #[inline]
    pub fn admit(&self, cells: u32, pools: &Pools) -> Option<BufferRegion> {
        if self.fits_reserved(cells) {
            return Some(BufferRegion::ReservedAndShared);
        }
        self.admit_to_pools(cells, pools)
    }

    /// A frame of `cells` fits what is reserved, and nothing else has a say in it.
    #[inline]
    pub fn fits_reserved(&self, cells: u32) -> bool {
        self.used_cells + cells <= self.fast_path_cells
    }

    /// Charges such a frame.
    #[inline]
    pub fn charge_reserved(&mut self, cells: u32) {
        self.used_cells += cells;
        self.peaks.total.lift(self.used_cells); // nothing is in headroom
    }

    fn admit_to_pools(&self, cells: u32, pools: &Pools) -> Option<BufferRegion> {
        if self.rest.dropping { None } else { self.room_for(cells, pools) }
    }

    /// Where a frame of `cells` fits, if anywhere.
    #[inline]
    fn room_for(&self, cells: u32, pools: &Pools) -> Option<BufferRegion> {
        if self.headroom_cells == 0 {
            let after = (self.used_cells + cells).saturating_sub(self.reserved_cells);
            let free_cells = self.pool(pools).free_cells();
            let fits = after - self.shared_cells() <= free_cells;
            if fits && after <= self.xoff_limit.cells(free_cells) {
                return Some(BufferRegion::ReservedAndShared);
            }
        }
        let fits = self.is_protected()
            && self.headroom_cells + cells <= self.rest.settings.headroom_cells
            && cells <= pools.headroom.free_cells();
        fits.then_some(BufferRegion::Headroom)
    }

    /// Charges a frame of `cells` where `admit` said. True: not to what is reserved alone.
    #[inline]
    pub fn charge(&mut self, cells: u32, area: BufferRegion, pools: &mut Pools) -> bool {
        match area {
            BufferRegion::ReservedAndShared if self.fits_reserved(cells) => {
                self.charge_reserved(cells);
                return false;
            }
            BufferRegion::ReservedAndShared => self.charge_to_shared(cells, pools),
            BufferRegion::Headroom => self.charge_to_headroom(cells, pools),
        }
        true
    }

    fn charge_to_shared(&mut self, cells: u32, pools: &mut Pools) {
        let before = self.shared_cells();
        self.used_cells += cells;
        let after = self.shared_cells();
        self.pool_mut(pools).take(after - before);
        self.peaks.shared.lift(after);
        self.peaks.total.lift(self.cells());
        self.note_usage(pools);
    }

    #[cold]
    fn charge_to_headroom(&mut self, cells: u32, pools: &mut Pools) {
        self.headroom_cells += cells;
        pools.headroom.take(cells);
        self.peaks.headroom.lift(self.headroom_cells);
        self.peaks.total.lift(self.cells());
        self.rest.headroom_alarm.update(self.headroom_cells, self.rest.settings.headroom_cells);
        self.set_own_cells();
    }

    /// Releases a frame of `cells`, which has left the switch: headroom first, then shared, then
    /// reserved cells.
    #[inline]
    pub fn release(&mut self, cells: u32, pools: &mut Pools) {
        // What is not in use outside headroom is in it.
        if self.used_cells <= self.fast_path_cells && cells <= self.used_cells {
            self.used_cells -= cells;
        } else {
            self.release_to_pools(cells, pools);
        }
    }

    fn release_to_pools(&mut self, cells: u32, pools: &mut Pools) {
        let mut cells = cells;
        if self.headroom_cells > 0 {
            cells -= self.release_from_headroom(cells, pools);
        }
        let before = self.shared_cells();
        debug_assert!(cells <= self.used_cells, "released more cells than were charged");
        self.used_cells -= cells;
        self.pool_mut(pools).give(before - self.shared_cells());
        if self.rest.usage.is_above() || self.rest.alarm.is_above() {
            self.note_usage(pools);
        }
    }

    /// Releases at most `cells` of headroom, and says how many.
    #[cold]
    fn release_from_headroom(&mut self, cells: u32, pools: &mut Pools) -> u32 {
        let from_headroom = cells.min(self.headroom_cells);
        self.headroom_cells -= from_headroom;
        pools.headroom.give(from_headroom);
        self.rest.loss_reported &= self.headroom_cells > 0;
        self.rest.headroom_alarm.update(self.headroom_cells, self.rest.settings.headroom_cells);
        self.set_own_cells();
        from_headroom
    }

    fn note_usage(&mut self, pools: &Pools) {
        let allowed = self.reserved_cells.saturating_add(self.threshold_cells(pools));
        self.rest.usage.note(self.used_cells, allowed);
        self.rest.alarm.update(self.used_cells, allowed);
        self.set_own_cells();
    }

    /// A frame found no room. True if an episode of losses begins: the group's headroom was empty,
    /// or its XOFF over, since the last one. For frames that can never fit there are no
    /// episodes, but an event a second.
    pub fn count_drop(&mut self, charge: &FrameMeta, now: Instant, pools: &Pools) -> bool {
        self.rest.dropped.add(charge.len);
        if !self.is_no_drop() {
            return false;
        }
        if self.can_ever_fit(charge.cells(), pools) {
            return !std::mem::replace(&mut self.rest.loss_reported, true);
        }
        let is_due = now >= self.rest.next_event;
        if is_due {
            self.rest.next_event = now + EVENT_NS;
        }
        is_due
    }

    /// A frame of `cells` that found no room would have it if all cells were free.
    fn can_ever_fit(&self, cells: u32, pools: &Pools) -> bool {
        let size_cells = self.pool(pools).size_cells();
        let shared = self.xoff_limit.cells(size_cells).min(size_cells);
        let headroom = self.full_headroom_cells(pools);
        cells <= self.reserved_cells.saturating_add(shared) || (self.is_protected() && cells <= headroom)
    }

    /// The headroom that the group may use if no other group uses any.
    fn full_headroom_cells(&self, pools: &Pools) -> u32 {
        self.rest.settings.headroom_cells.min(pools.headroom.size_cells())
    }

    /// A frame of `cells` found no room: its sender must stop, though the group may hold nothing.
    /// What the peer must be told, if anything.
    #[cold]
    pub fn starve(&mut self, cells: u32, pools: &Pools) -> Option<XoffTransition> {
        if !self.is_protected() || !self.can_ever_fit(cells, pools) {
            return None;
        }
        self.starved = true;
        self.rest.refused_cells = self.rest.refused_cells.max(cells);
        if self.xoff {
            return None;
        }
        self.xoff = true;
        self.rest.xoff_episodes += 1;
        Some(XoffTransition::Xoff)
    }

    /// Whether there is still no room for a frame such as was refused, or for what comes while the
    /// next pause is on its way.
    #[cold]
    fn is_still_starved(&mut self, pools: &Pools) -> bool {
        let cells = self.rest.refused_cells;
        let has_room = self.room_for(cells, pools).is_some()
            && pools.headroom.free_cells() >= self.full_headroom_cells(pools);
        // Other settings may have taken away what it waits for.
        self.starved = self.is_protected() && !has_room && self.can_ever_fit(cells, pools);
        if !self.starved {
            (self.rest.refused_cells, self.rest.loss_reported) = (0, false);
        }
        self.starved
    }

    /// Compares use with the thresholds, and says what, if anything, the peer must be told. Where
    /// RX rings are long, a protected group is in XOFF whatever it holds.
    #[inline]
    pub fn examine(&mut self, rings_are_long: bool, pools: &Pools) -> Option<XoffTransition> {
        let pool = self.pool(pools);
        let threshold = self.xoff_limit.cells(pool.free_cells());
        let shared = self.shared_cells();
        let full = self.headroom_cells > 0 || (shared > 0 && (shared >= threshold || pool.wants_pause()));
        let over = self.is_protected() && (full || rings_are_long);
        if over != self.xoff {
            if over {
                self.xoff = true;
                self.rest.xoff_episodes += 1;
                return Some(XoffTransition::Xoff);
            }
            let offset = self.rest.settings.xon_offset_cells;
            let low = shared <= self.rest.settings.resume_cells.max(threshold.saturating_sub(offset));
            let pool_is_low = shared == 0 || pool.has_come_down_by(offset);
            let is_low = (low && pool_is_low) || !self.is_protected();
            if is_low && !(self.starved && self.is_still_starved(pools)) {
                self.xoff = false;
                return Some(XoffTransition::Xon);
            }
        }
        None
    }

    /// Whether `examine` may find something though this group itself does not move: other groups
    /// move a dynamic T.
    #[inline]
    pub fn depends_on_others(&self) -> bool {
        self.is_protected() && (self.xoff || self.shared_cells() > 0)
    }

    /// Takes the place of an earlier group, and what that still holds with it; `reconfigure`
    /// charges it to the pool.
    pub(crate) fn succeed(&mut self, earlier: &PriorityGroup) {
        (self.used_cells, self.headroom_cells) = (earlier.used_cells, earlier.headroom_cells);
        self.peaks.total.lift(self.cells());
        self.peaks.headroom.lift(self.headroom_cells);
    }

    /// Other settings are coming: gives the shared cells back until `reconfigure` takes them again.
    pub(crate) fn release_shared(&self, pools: &mut Pools) {
        self.pool_mut(pools).give(self.shared_cells());
    }

    /// Other settings; what the group holds stays, even if it is more, and so does what is in
    /// headroom.
    pub(crate) fn reconfigure(
        &mut self,
        settings: GroupSettings,
        protection: FlowControlMode,
        usage_percent: u8,
        pools: &mut Pools,
    ) {
        (self.rest.settings, self.protection) = (settings, protection);
        (self.pool, self.reserved_cells) = (settings.pool & 3, settings.reserved_cells);
        self.xoff_limit = CompiledThreshold::of(settings.xoff);
        self.rest.loss_reported &= self.is_no_drop();
        self.rest.usage.set_percent(usage_percent);
        self.set_own_cells();
        self.pool_mut(pools).take(self.shared_cells());
        self.peaks.shared.lift(self.shared_cells());
    }

    /// Other alarm thresholds, in percent; 0 for use outside headroom: none. Headroom has one
    /// always, since crossings count.
    pub(crate) fn set_alarms(&mut self, percent: u8, headroom_percent: u8) {
        self.rest.alarm.set_percent(percent);
        self.rest.headroom_alarm.set_percent(headroom_percent);
        self.rest.headroom_alarm.reset();
        self.rest.drop_alarm.reset(self.rest.dropped);
        self.set_own_cells();
    }

    /// The alarms of its use, of its headroom, and of what it drops, of which there has been so
    /// much.
    pub(crate) fn alarms(&mut self) -> (&mut UsageAlarm, &mut UsageAlarm, &mut DropAlarm, FrameCount) {
        let ColdState { alarm, headroom_alarm, drop_alarm, dropped, .. } = &mut *self.rest;
        (alarm, headroom_alarm, drop_alarm, *dropped)
    }

    /// One watermark begins again.
    pub(crate) fn mark(&mut self, mark: WatermarkReset) {
        let (shared, headroom, total) = (self.shared_cells(), self.headroom_cells, self.cells());
        let Peaks { shared: p0, headroom: p1, total: p2 } = &mut self.peaks;
        for (watermarks, (cells, peak)) in
            self.rest.watermarks.iter_mut().zip([(shared, p0), (headroom, p1), (total, p2)])
        {
            watermarks.mark(mark, cells, peak);
        }
    }

    /// What it holds and has counted.
    pub fn snapshot(&self, pools: &Pools) -> GroupSnapshot {
        let [shared, headroom, total] = self.rest.watermarks;
        GroupSnapshot {
            no_drop: self.is_no_drop(),
            pool: self.rest.settings.pool,
            xoff: self.xoff,
            xoff_episodes: self.rest.xoff_episodes,
            reserved_cells: self.used_cells.min(self.rest.settings.reserved_cells),
            reserved_size_cells: self.rest.settings.reserved_cells,
            shared: shared.level(self.shared_cells(), self.peaks.shared),
            headroom: headroom.level(self.headroom_cells, self.peaks.headroom),
            headroom_size_cells: if self.is_protected() { self.rest.settings.headroom_cells } else { 0 },
            total: total.level(self.cells(), self.peaks.total),
            threshold_cells: self.threshold_cells(pools),
            is_dynamic: matches!(self.rest.settings.xoff, Threshold::Dynamic(_)),
            usage_percent: self.rest.usage.percent(),
            violations: self.rest.usage.violations(),
            headroom_violations: self.rest.headroom_alarm.crossings(),
            received: self.received,
            dropped: self.rest.dropped,
            storm_dropped: self.rest.storm_dropped,
            flood_limited: self.rest.flood_limited,
        }
    }
}

#[cfg(test)]
mod tests;
