//! A priority group: the cells that one port's frames of one 802.1p priority hold at ingress, and
//! when its peer is paused.
//!
//! Rule, with reserved R, threshold T, and u cells outside headroom (min(u, R) of them reserved,
//! the rest shared):
//! - a frame of n cells is charged to reserved and shared if max(0, u + n − R) ≤ T and the pool has
//!   room;
//! - otherwise the whole frame is charged to headroom, up to the group's limit and the pool's;
//!   while headroom is in use, every frame is;
//! - otherwise it is dropped. A group without flow control (neither PFC nor PAUSE) has no headroom.
//! - Cells are released in the reverse order: headroom, shared, reserved.
//! - T is static, or alpha × the free cells of the group's service pool before the frame in
//!   question.
//!
//! ```text
//!        shared ≥ T, or headroom in use, or starved,
//!        or shared > 0 and the use of the pool ≥ its pause threshold
//!   XON ────────────────────────────────────────────────────────────▶ XOFF
//!     ◀────────────────────────────────────────────────────────────────
//!        headroom empty and shared ≤ max(resume, T − offset) and shared < T
//!        and (shared = 0 or the use of the pool ≤ its pause threshold − offset) and not starved
//! ```
//! A group that holds no shared cell and no headroom is in XOFF only while it is starved: a frame
//! of it was rejected, since other groups hold the cells that it needs. It is starved until such a
//! frame fits and its headroom is free again, so that the pause after XON loses nothing. A frame
//! that would not fit if all cells were free starves no group, since its XOFF would not end.
//!
//! Source: docs/behavior.md, "Priority groups" and "XOFF and XON"; docs/references.md, "H3C
//! reference" (Setting PFC thresholds, figure 12). That every frame goes to headroom once it is in
//! use is as in docs/references.md, "Simulators".

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

/// Buffer region that a frame's cells are charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferRegion {
    /// Reserved cells first, then the shared pool.
    ReservedAndShared,
    /// The headroom pool.
    Headroom,
}

/// Change of a group's state that must be advertised to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XoffTransition {
    /// The peer must stop.
    Xoff,
    /// The peer may resume.
    Xon,
}

/// One priority group. Fields of the frame path share one cache line: 64 ports have 512 groups.
#[derive(Debug, Serialize, Deserialize)]
#[repr(C, align(64))]
pub struct PriorityGroup {
    received: FrameCount,
    /// Cells outside headroom.
    used_cells: u32,
    /// Use up to which a frame is charged to reserved cells only and is not near the usage
    /// threshold, so that no pool has to be checked.
    fast_path_cells: u32,
    headroom_cells: u32,
    peaks: Peaks,
    flow_control: FlowControlMode,
    xoff: bool,
    /// True while a frame such as one that was rejected has no room: XOFF lasts.
    starved: bool,
    /// Service pool of the shared cells.
    pool: u8,
    reserved_cells: u32,
    xoff_limit: CompiledThreshold,
    cold: Box<ColdState>,
}

/// State that few frames touch.
#[derive(Debug, Serialize, Deserialize)]
struct ColdState {
    usage: UsageViolations,
    alarm: UsageAlarm,
    headroom_alarm: UsageAlarm,
    drop_alarm: DropAlarm,
    settings: GroupSettings,
    /// True while the watchdog drops every frame of the group.
    dropping: bool,
    storm_dropped: FrameCount,
    flood_limited: FrameCount,
    dropped: FrameCount,
    xoff_episodes: u64,
    /// Start of the XOFF that is in force.
    xoff_since: Instant,
    /// Time in XOFF, up to the last XON.
    xoff_ns: Nanos,
    /// Cells of the largest frame that was rejected since the group became starved.
    refused_cells: u32,
    /// True if the event of this episode of losses has been reported.
    loss_reported: bool,
    /// Earliest time of the next event about losses that go on.
    next_event: Instant,
    watermarks: [Watermarks; 3],
}

/// Minimum interval between events of one episode of losses.
const EVENT_NS: Nanos = 1_000_000_000;

/// Peaks since the last reset.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Peaks {
    shared: Peak,
    headroom: Peak,
    total: Peak,
}

impl PriorityGroup {
    /// Makes an empty group. Use above `usage_percent` of its limit outside headroom is a usage
    /// violation.
    pub fn new(settings: GroupSettings, protection: FlowControlMode, usage_percent: u8) -> Self {
        let mut group = Self {
            received: FrameCount::default(),
            used_cells: 0,
            fast_path_cells: 0,
            headroom_cells: 0,
            peaks: Peaks::default(),
            flow_control: protection,
            xoff: false,
            starved: false,
            pool: settings.pool & 3,
            reserved_cells: settings.reserved_cells,
            xoff_limit: CompiledThreshold::compile(settings.xoff),
            cold: Box::new(ColdState {
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
                xoff_since: Instant::default(),
                xoff_ns: 0,
                refused_cells: 0,
                loss_reported: false,
                next_event: Instant::default(),
                watermarks: Default::default(),
            }),
        };
        group.update_fast_path_cells();
        group
    }

    /// Computes `fast_path_cells` after an input of it has changed. It is 0 while headroom is in
    /// use, since every frame is charged there, and while the watchdog drops, since no frame is
    /// charged.
    fn update_fast_path_cells(&mut self) {
        let none = self.headroom_cells > 0 || self.cold.dropping;
        let ColdState { usage, alarm, .. } = &*self.cold;
        let unnoted = usage.alarm_floor(self.reserved_cells).min(alarm.alarm_floor(self.reserved_cells));
        self.fast_path_cells = if none { 0 } else { unnoted };
    }

    /// Starts or stops the watchdog's dropping of every frame of the group.
    pub fn set_dropping(&mut self, dropping: bool) {
        self.cold.dropping = dropping;
        self.update_fast_path_cells();
    }

    /// True while the watchdog drops every frame of the group.
    pub fn is_dropping(&self) -> bool {
        self.cold.dropping
    }

    /// Counts a frame that the watchdog dropped.
    pub fn count_storm_drop(&mut self, len: u16) {
        self.cold.storm_dropped.add(len);
    }

    /// Counts a frame that a flood limit dropped.
    pub fn count_flood_limited(&mut self, len: u16) {
        self.cold.flood_limited.add(len);
    }

    /// Returns received frames that were admitted, and frames that the watchdog dropped.
    pub fn storm_traffic(&self) -> (u64, u64) {
        let (dropped, by_watchdog) = (self.cold.dropped.frames, self.cold.storm_dropped.frames);
        // Each copy of a flooded frame that found no room counts as a drop.
        (
            self.received.frames.saturating_sub(dropped + by_watchdog + self.cold.flood_limited.frames),
            by_watchdog,
        )
    }

    /// True if PFC protects this group.
    pub fn is_no_drop(&self) -> bool {
        self.flow_control == FlowControlMode::Pfc
    }

    /// True if the peer is paused, by PFC or by PAUSE, when the group fills.
    #[inline]
    pub fn has_flow_control(&self) -> bool {
        self.flow_control != FlowControlMode::None
    }

    /// True if the group is in XOFF.
    pub fn is_xoff(&self) -> bool {
        self.xoff
    }

    /// Returns cells in use beyond the reserved ones, without headroom.
    #[inline]
    pub fn shared_cells(&self) -> u32 {
        self.used_cells.saturating_sub(self.reserved_cells)
    }

    /// Returns all cells in use.
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

    /// Returns the present XOFF threshold, in shared cells.
    #[inline]
    pub fn threshold_cells(&self, pools: &Pools) -> u32 {
        self.xoff_limit.cells(self.pool(pools).free_cells())
    }

    /// Returns the number of received frames.
    pub fn received_frames(&self) -> u64 {
        self.received.frames
    }

    /// Counts a received frame, whether it is admitted or dropped.
    #[inline]
    pub fn count_received(&mut self, len: u16) {
        self.received.add(len);
    }

    /// Returns where a frame of `cells` would be charged; `None` if there is no room.
    #[inline]
    pub fn admit(&self, cells: u32, pools: &Pools) -> Option<BufferRegion> {
        if self.fits_reserved(cells) {
            return Some(BufferRegion::ReservedAndShared);
        }
        self.admit_to_pools(cells, pools)
    }

    /// True if a frame of `cells` fits the reserved cells, so that no pool has to be checked.
    #[inline]
    pub fn fits_reserved(&self, cells: u32) -> bool {
        self.used_cells + cells <= self.fast_path_cells
    }

    /// Charges a frame to reserved cells, and to shared ones beyond them. Headroom is empty.
    #[inline]
    pub fn charge_outside_headroom(&mut self, cells: u32) {
        self.used_cells += cells;
        self.peaks.total.raise(self.used_cells); // headroom is empty
    }

    #[inline]
    fn admit_to_pools(&self, cells: u32, pools: &Pools) -> Option<BufferRegion> {
        if self.cold.dropping { None } else { self.room_for(cells, pools) }
    }

    /// Returns the region that a frame of `cells` fits, if any.
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
        let fits = self.has_flow_control()
            && self.headroom_cells + cells <= self.cold.settings.headroom_cells
            && cells <= pools.headroom.free_cells();
        fits.then_some(BufferRegion::Headroom)
    }

    /// Charges a frame of `cells` to the region that `admit` chose. Returns true if it uses more
    /// than the fast path allows.
    #[inline]
    pub fn charge(&mut self, cells: u32, area: BufferRegion, pools: &mut Pools) -> bool {
        if area == BufferRegion::Headroom {
            self.charge_to_headroom(cells, pools);
            return true;
        }
        self.charge_outside_headroom(cells);
        let is_beyond_own = self.used_cells > self.fast_path_cells;
        if is_beyond_own {
            self.charge_to_pool(cells, pools);
        }
        is_beyond_own
    }

    /// Charges the shared part of `cells`, which are in use, to the pool.
    #[inline]
    fn charge_to_pool(&mut self, cells: u32, pools: &mut Pools) {
        let shared = self.shared_cells();
        self.pool_mut(pools).charge(shared.min(cells));
        self.peaks.shared.raise(shared);
        self.update_usage(pools);
    }

    #[cold]
    fn charge_to_headroom(&mut self, cells: u32, pools: &mut Pools) {
        self.headroom_cells += cells;
        pools.headroom.charge(cells);
        self.peaks.headroom.raise(self.headroom_cells);
        self.peaks.total.raise(self.cells());
        self.cold.headroom_alarm.update(self.headroom_cells, self.cold.settings.headroom_cells);
        self.update_fast_path_cells();
    }

    /// Releases a frame of `cells` that has left the switch: headroom first, then shared, then
    /// reserved cells.
    #[inline]
    pub fn release(&mut self, cells: u32, pools: &mut Pools) {
        // Cells that are not in use outside headroom are in headroom.
        if self.used_cells <= self.fast_path_cells && cells <= self.used_cells {
            self.used_cells -= cells;
        } else {
            self.release_to_pools(cells, pools);
        }
    }

    #[inline]
    fn release_to_pools(&mut self, cells: u32, pools: &mut Pools) {
        let mut cells = cells;
        if self.headroom_cells > 0 {
            cells -= self.release_from_headroom(cells, pools);
        }
        let before = self.shared_cells();
        debug_assert!(cells <= self.used_cells, "released more cells than were charged");
        self.used_cells -= cells;
        self.pool_mut(pools).release(before - self.shared_cells());
        if self.cold.usage.is_above() || self.cold.alarm.is_above() {
            self.update_usage(pools);
        }
    }

    /// Releases at most `cells` of headroom, and returns how many.
    #[cold]
    fn release_from_headroom(&mut self, cells: u32, pools: &mut Pools) -> u32 {
        let from_headroom = cells.min(self.headroom_cells);
        self.headroom_cells -= from_headroom;
        pools.headroom.release(from_headroom);
        self.cold.loss_reported &= self.headroom_cells > 0;
        self.cold.headroom_alarm.update(self.headroom_cells, self.cold.settings.headroom_cells);
        self.update_fast_path_cells();
        from_headroom
    }

    /// Records use that crosses the usage threshold, and all use while the alarm is armed.
    #[inline]
    fn update_usage(&mut self, pools: &Pools) {
        let allowed = self.reserved_cells.saturating_add(self.threshold_cells(pools));
        if self.cold.usage.crosses(self.used_cells, allowed) || self.cold.alarm.is_armed() {
            self.record_usage(allowed);
        }
    }

    #[cold]
    fn record_usage(&mut self, allowed: u32) {
        self.cold.usage.update(self.used_cells, allowed);
        self.cold.alarm.update(self.used_cells, allowed);
        self.update_fast_path_cells();
    }

    /// Counts a frame that found no room. Returns true if an event must report it: an episode of
    /// losses begins (since the last loss the group's headroom was empty, or its XOFF over), or
    /// losses go on a second after the last event.
    pub fn count_drop(&mut self, charge: &FrameMeta, now: Instant, pools: &Pools) -> bool {
        self.cold.dropped.add(charge.len);
        if !self.is_no_drop() {
            return false;
        }
        // Frames that can never fit have no episodes.
        let begins = self.can_ever_fit(charge.cells(), pools)
            && !std::mem::replace(&mut self.cold.loss_reported, true);
        let is_due = begins || now >= self.cold.next_event;
        if is_due {
            self.cold.next_event = now + EVENT_NS;
        }
        is_due
    }

    /// True if a frame of `cells` that found no room would fit if all cells were free.
    fn can_ever_fit(&self, cells: u32, pools: &Pools) -> bool {
        let size_cells = self.pool(pools).size_cells();
        let shared = self.xoff_limit.cells(size_cells).min(size_cells);
        let headroom = self.available_headroom_cells(pools);
        cells <= self.reserved_cells.saturating_add(shared) || (self.has_flow_control() && cells <= headroom)
    }

    /// Returns the headroom that the group may use if no other group uses any.
    fn available_headroom_cells(&self, pools: &Pools) -> u32 {
        self.cold.settings.headroom_cells.min(pools.headroom.size_cells())
    }

    /// Handles a frame of `cells` that found no room: its sender must stop, even if the group holds
    /// nothing. Returns the change to advertise to the peer, if any.
    #[cold]
    pub fn enter_starvation(&mut self, cells: u32, pools: &Pools) -> Option<XoffTransition> {
        if !self.has_flow_control() || !self.can_ever_fit(cells, pools) {
            return None;
        }
        self.starved = true;
        self.cold.refused_cells = self.cold.refused_cells.max(cells);
        if self.xoff {
            return None;
        }
        self.xoff = true;
        self.cold.xoff_episodes += 1;
        Some(XoffTransition::Xoff)
    }

    /// True if there is still no room for a frame such as was rejected, or for frames that arrive
    /// before the next pause takes effect.
    #[cold]
    fn is_still_starved(&mut self, pools: &Pools) -> bool {
        let cells = self.cold.refused_cells;
        let has_room = self.room_for(cells, pools).is_some()
            && pools.headroom.free_cells() >= self.available_headroom_cells(pools);
        // New settings may have removed the room that the group waits for.
        self.starved = self.has_flow_control() && !has_room && self.can_ever_fit(cells, pools);
        if !self.starved {
            (self.cold.refused_cells, self.cold.loss_reported) = (0, false);
        }
        self.starved
    }

    /// Compares use with the thresholds, and returns the change to advertise to the peer, if any.
    /// With a long RX backlog, a protected group is in XOFF whatever it holds.
    #[inline]
    pub fn update_xoff(&mut self, rings_are_long: bool, pools: &Pools) -> Option<XoffTransition> {
        let pool = self.pool(pools);
        let threshold = self.xoff_limit.cells(pool.free_cells());
        let shared = self.shared_cells();
        let full =
            self.headroom_cells > 0 || (shared > 0 && (shared >= threshold || pool.above_pause_threshold()));
        let over = self.has_flow_control() && (full || rings_are_long);
        if over != self.xoff {
            if over {
                self.xoff = true;
                self.cold.xoff_episodes += 1;
                return Some(XoffTransition::Xoff);
            }
            let offset = self.cold.settings.xon_offset_cells;
            let low = shared <= self.cold.settings.resume_cells.max(threshold.saturating_sub(offset));
            let pool_is_low = shared == 0 || pool.below_pause_threshold_by(offset);
            let is_low = (low && pool_is_low) || !self.has_flow_control();
            if is_low && !(self.starved && self.is_still_starved(pools)) {
                self.xoff = false;
                return Some(XoffTransition::Xon);
            }
        }
        None
    }

    /// Counts the time of a change that `update_xoff` or `enter_starvation` has returned.
    pub fn record_transition(&mut self, change: XoffTransition, now: Instant) {
        match change {
            XoffTransition::Xoff => self.cold.xoff_since = now,
            XoffTransition::Xon => self.cold.xoff_ns += now.since(self.cold.xoff_since),
        }
    }

    /// True if `update_xoff` may find a change without this group's own use changing: other groups
    /// move a dynamic T.
    #[inline]
    pub fn needs_recheck(&self) -> bool {
        self.has_flow_control() && (self.xoff || self.shared_cells() > 0)
    }

    /// Takes over the cells that the previous group of this slot still holds; `reconfigure` charges
    /// them to the pool.
    pub(crate) fn inherit_usage(&mut self, earlier: &PriorityGroup) {
        (self.used_cells, self.headroom_cells) = (earlier.used_cells, earlier.headroom_cells);
        self.peaks.total.raise(self.cells());
        self.peaks.headroom.raise(self.headroom_cells);
    }

    /// Releases the shared cells before a change of settings; `reconfigure` charges them again.
    pub(crate) fn release_shared(&self, pools: &mut Pools) {
        self.pool_mut(pools).release(self.shared_cells());
    }

    /// Applies other settings. The group's cells stay charged, even above the new limits, and so do
    /// those in headroom.
    pub(crate) fn reconfigure(
        &mut self,
        settings: GroupSettings,
        protection: FlowControlMode,
        usage_percent: u8,
        pools: &mut Pools,
    ) {
        (self.cold.settings, self.flow_control) = (settings, protection);
        (self.pool, self.reserved_cells) = (settings.pool & 3, settings.reserved_cells);
        self.xoff_limit = CompiledThreshold::compile(settings.xoff);
        self.cold.loss_reported &= self.is_no_drop();
        self.cold.usage.set_percent(usage_percent);
        self.update_fast_path_cells();
        self.pool_mut(pools).charge(self.shared_cells());
        self.peaks.shared.raise(self.shared_cells());
    }

    /// Sets alarm thresholds in percent. A `percent` of 0 disables the alarm of use outside
    /// headroom; the headroom alarm is always armed, since its crossings are counted.
    pub(crate) fn set_alarms(&mut self, percent: u8, headroom_percent: u8) {
        self.cold.alarm.set_percent(percent);
        self.cold.headroom_alarm.set_percent(headroom_percent);
        self.cold.headroom_alarm.reset();
        self.cold.drop_alarm.reset(self.cold.dropped);
        self.update_fast_path_cells();
    }

    /// Returns the alarms of the group's use, of its headroom and of its drops, and the drop count.
    pub(crate) fn alarms(&mut self) -> (&mut UsageAlarm, &mut UsageAlarm, &mut DropAlarm, FrameCount) {
        let ColdState { alarm, headroom_alarm, drop_alarm, dropped, .. } = &mut *self.cold;
        (alarm, headroom_alarm, drop_alarm, *dropped)
    }

    pub(crate) fn reset_watermark(&mut self, mark: WatermarkReset) {
        let (shared, headroom, total) = (self.shared_cells(), self.headroom_cells, self.cells());
        let Peaks { shared: p0, headroom: p1, total: p2 } = &mut self.peaks;
        for (watermarks, (cells, peak)) in
            self.cold.watermarks.iter_mut().zip([(shared, p0), (headroom, p1), (total, p2)])
        {
            watermarks.reset(mark, cells, peak);
        }
    }

    /// Returns the levels and counters of the group.
    pub fn snapshot(&self, pools: &Pools, now: Instant) -> GroupSnapshot {
        let [shared, headroom, total] = self.cold.watermarks;
        GroupSnapshot {
            no_drop: self.is_no_drop(),
            pool: self.cold.settings.pool,
            xoff: self.xoff,
            xoff_episodes: self.cold.xoff_episodes,
            xoff_ns: self.cold.xoff_ns + if self.xoff { now.since(self.cold.xoff_since) } else { 0 },
            reserved_cells: self.used_cells.min(self.cold.settings.reserved_cells),
            reserved_size_cells: self.cold.settings.reserved_cells,
            shared: shared.level(self.shared_cells(), self.peaks.shared),
            headroom: headroom.level(self.headroom_cells, self.peaks.headroom),
            headroom_size_cells: if self.has_flow_control() { self.cold.settings.headroom_cells } else { 0 },
            total: total.level(self.cells(), self.peaks.total),
            threshold_cells: self.threshold_cells(pools),
            is_dynamic: matches!(self.cold.settings.xoff, Threshold::Dynamic(_)),
            usage_percent: self.cold.usage.percent(),
            violations: self.cold.usage.violations(),
            headroom_violations: self.cold.headroom_alarm.crossings(),
            received: self.received,
            dropped: self.cold.dropped,
            storm_dropped: self.cold.storm_dropped,
            flood_limited: self.cold.flood_limited,
        }
    }
}

#[cfg(test)]
mod tests;
