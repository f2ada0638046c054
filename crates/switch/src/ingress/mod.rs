//! The ingress half of a port: where a received frame is charged, and which PFC the peer is sent.
//!
//! Rule: a frame is counted and admitted to its priority group, or dropped here if it has no room.
//! It is then charged, and released when it has left the switch. A no-drop group is examined
//! whenever its use has changed, and a change between XOFF and XON goes into the next PFC frame.
//! Source: docs/architecture.md, "Frame path"; the rules themselves are those of
//! [`priority_group`] and [`crate::pfc::tx`].

pub(crate) mod priority_group;

use crate::buffer::pool::Pools;
use crate::forwarding::classifier::Classifier;
use crate::forwarding::parsed_frame::RxFrame;
use crate::forwarding::storm_control::StormControl;
use crate::frame::meta::FrameMeta;
use crate::ingress::priority_group::{BufferRegion, PriorityGroup, XoffTransition};
use crate::monitor::counters::{DropReason, FrameCount, GroupSnapshot, PfcCount, PortSnapshot};
use crate::monitor::event::{AlarmSource, Event};
use crate::monitor::event_list::Events;
use crate::monitor::watermark::WatermarkReset;
use crate::pfc::link_pause::{FlowControlMode, LINK};
use crate::pfc::rx::ArrivalTimes;
use crate::pfc::rx_backlog::{RxBacklog, TakenFrames};
use crate::pfc::tx::{PauseFrame, PfcSender, PfcTiming};
use crate::settings::{
    AlarmKind, AlarmSettings, DropLevel, GroupSettings, PRIORITIES, PortAlarmSettings, PortSettings,
};
use crate::time::Instant;
use serde::{Deserialize, Serialize};
use wire::bitset::Set8;
use wire::mac::MacAddr;
use wire::pause;

/// The ingress half of a port. Fields of the frame path come first.
#[derive(Debug, Serialize, Deserialize)]
#[repr(C, align(64))]
pub struct Ingress {
    groups: [PriorityGroup; PRIORITIES],
    classifier: Classifier,
    /// Groups that must be examined each iteration, as other groups move their threshold.
    rechecked: Set8,
    /// True if PFC, or PAUSE, frames are sent.
    sends_pfc: bool,
    /// Priorities that are not advertised to the peer: the watchdog drops them, or PFC is off for
    /// them.
    pfc_suppressed: Set8,
    /// Priorities for which PFC is off, since they had too many storms. Their groups are lossy.
    pfc_disabled: Set8,
    rx_rings: RxBacklog,
    pfc: PfcSender,
    /// Source address of PFC frames.
    mac: MacAddr,
    /// Received frames of drop level 1 and 2.
    colored: [u64; 2],
    /// Frames that no bridge forwards. All other frames are counted by their group.
    invalid: FrameCount,
    drops: [FrameCount; DropReason::ALL.len()],
    storm_control: StormControl,
    /// LLDP frames that were consumed for the owner.
    lldp_frames: u64,
    /// Frames of no-drop priorities that were lost, by priority, and that count at this port.
    no_drop_lost: [u64; PRIORITIES],
}

impl Ingress {
    /// Makes the ingress half of a port, which sends PFC from `mac`. Use above `usage_percent` is a
    /// usage violation.
    pub fn new(settings: &PortSettings, usage_percent: u8, mac: MacAddr) -> Self {
        Self {
            groups: std::array::from_fn(|p| {
                let (protection, of_group) = flow_control_of(settings, Set8::EMPTY, p);
                PriorityGroup::new(of_group, protection, usage_percent)
            }),
            classifier: Classifier::of_port(settings),
            rechecked: Set8::EMPTY,
            sends_pfc: settings.pfc.tx || settings.flow_control.sends(),
            pfc_suppressed: Set8::EMPTY,
            pfc_disabled: Set8::EMPTY,
            rx_rings: RxBacklog::default(),
            pfc: PfcSender::new(PfcTiming::from_settings(settings)),
            mac,
            colored: [0; 2],
            invalid: FrameCount::default(),
            drops: Default::default(),
            storm_control: StormControl::new(&settings.flood_limits_pps),
            lldp_frames: 0,
            no_drop_lost: [0; PRIORITIES],
        }
    }

    /// Returns the classifier of received frames.
    #[inline]
    pub fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    /// Counts a received data frame. Returns true if it came in spite of XOFF.
    #[inline]
    pub fn receive(&mut self, arrival: &RxFrame) -> bool {
        let priority = arrival.meta.priority();
        let group = &mut self.groups[priority];
        group.count_received(arrival.meta.len);
        let is_xoff = group.is_xoff();
        match arrival.meta.class.drop_level {
            DropLevel::Green => {}
            DropLevel::Yellow => self.colored[0] += 1,
            DropLevel::Red => self.colored[1] += 1,
        }
        is_xoff
    }

    /// Records a frame that came in spite of XOFF. Returns true if XOFF must be sent to the peer
    /// earlier for it.
    pub fn frame_during_xoff(&mut self, priority: usize, arrived: ArrivalTimes) -> bool {
        let priority = if self.pfc.is_link_pause() { LINK } else { priority };
        let after = self.rx_rings.empty_at(arrived.last_served);
        self.pfc.frame_during_xoff(priority, after, arrived.taken_at)
    }

    /// Counts a received frame that no bridge forwards.
    #[cold]
    pub fn count_invalid(&mut self, reason: DropReason, len: u16) {
        self.invalid.add(len);
        self.count_drop(reason, len);
    }

    /// Counts frames that the port did not accept from a guest. Their lengths are unknown.
    #[cold]
    pub(crate) fn count_refused(&mut self, frames: u64) {
        self.invalid.frames += frames;
        self.drops[DropReason::Refused as usize].frames += frames;
    }

    /// Counts a frame of a no-drop priority that was lost at this port, for whatever reason.
    #[cold]
    pub(crate) fn count_no_drop_loss(&mut self, priority: usize) {
        self.count_no_drop_losses(priority, 1);
    }

    /// Counts as many of them.
    #[cold]
    pub(crate) fn count_no_drop_losses(&mut self, priority: usize, frames: u64) {
        self.no_drop_lost[priority & 7] += frames;
    }

    /// Counts an LLDP frame that the switch consumes, which is no data frame.
    #[cold]
    pub fn count_lldp(&mut self) {
        self.lldp_frames += 1;
    }

    /// Counts a frame to be flooded. Returns false if it exceeds a flood limit: it is then counted
    /// as such and must be dropped.
    #[cold]
    pub fn check_storm_control(&mut self, charge: &FrameMeta, now: Instant) -> Option<DropReason> {
        let group = &mut self.groups[charge.priority()];
        let reason = self.storm_control.admit(charge, group.is_no_drop(), now)?;
        group.count_flood_limited(charge.len);
        self.count_drop(reason, charge.len);
        Some(reason)
    }

    /// Reports frames that flood limits dropped. Returns true if more remain to be reported.
    pub(crate) fn report_storm_control(&mut self, port: usize, now: Instant, events: &mut Events) -> bool {
        loop {
            match self.storm_control.take_event(port, now) {
                Ok(Some(event)) => events.push(now, event),
                Ok(None) => return false,
                Err(()) => return true,
            }
        }
    }

    /// Returns where a frame would be charged, or why it must be dropped.
    #[inline]
    pub fn admit(&self, charge: &FrameMeta, pools: &Pools) -> Result<BufferRegion, DropReason> {
        let group = &self.groups[charge.priority()];
        match group.admit(charge.cells(), pools) {
            Some(area) => Ok(area),
            None if group.is_dropping() => Err(DropReason::Watchdog),
            None if group.is_no_drop() => Err(DropReason::IngressNoDrop),
            None => Err(DropReason::IngressLossy),
        }
    }

    /// True if PFC protects the group.
    pub(crate) fn is_no_drop(&self, priority: usize) -> bool {
        self.groups[priority].is_no_drop()
    }

    /// True if the watchdog drops frames received for the group.
    pub fn is_dropping(&self, priority: usize) -> bool {
        self.groups[priority].is_dropping()
    }

    /// Counts a frame that found no room, or that the watchdog dropped. Returns true if an episode
    /// of losses of no-drop frames begins.
    #[cold]
    pub fn count_buffer_drop(
        &mut self,
        reason: DropReason,
        charge: &FrameMeta,
        now: Instant,
        pools: &Pools,
    ) -> bool {
        self.count_drop(reason, charge.len);
        let group = &mut self.groups[charge.priority()];
        if reason == DropReason::Watchdog {
            group.count_storm_drop(charge.len);
            return false;
        }
        group.count_drop(charge, now, pools)
    }

    /// Counts a frame that was received here and dropped.
    #[inline]
    pub fn count_drop(&mut self, reason: DropReason, len: u16) {
        self.drops[reason as usize].add(len);
    }

    /// True if a frame fits the reserved cells of its group, so that no pool or threshold matters.
    #[inline]
    pub fn fits_reserved(&self, charge: &FrameMeta) -> bool {
        self.groups[charge.priority()].fits_reserved(charge.cells())
    }

    /// Charges a frame that fits the reserved cells. The group holds no others, so its state stays
    /// as it is.
    #[inline(always)] // twice in the frame path
    pub fn charge_reserved(&mut self, charge: &FrameMeta) {
        self.groups[charge.priority()].charge_outside_headroom(charge.cells());
    }

    /// Charges a frame to the region that `admit` chose. Returns true if the group must be
    /// examined.
    #[inline(always)] // in the frame path where cells are shared
    pub fn charge(&mut self, charge: &FrameMeta, area: BufferRegion, pools: &mut Pools) -> bool {
        let group = &mut self.groups[charge.priority()];
        let is_beyond_own = group.charge(charge.cells(), area, pools);
        is_beyond_own && group.has_flow_control()
    }

    /// Releases a frame that has left the switch. Returns true if the group must be examined, since
    /// lower use can end an XOFF.
    #[inline]
    pub fn release(&mut self, charge: &FrameMeta, pools: &mut Pools) -> bool {
        let group = &mut self.groups[charge.priority()];
        group.release(charge.cells(), pools);
        group.is_xoff()
    }

    /// Compares a group with its threshold, and makes PFC pending if its state changed.
    #[inline]
    pub fn update_xoff(&mut self, priority: usize, pools: &Pools) -> Option<XoffTransition> {
        let group = &mut self.groups[priority & 7];
        let change = group.update_xoff(self.rx_rings.forces_xoff(), pools);
        self.rechecked.set(priority, group.needs_recheck());
        if let Some(change) = change
            && self.advertises(priority)
        {
            self.queue_pfc(priority, change == XoffTransition::Xoff);
        }
        change
    }

    /// Handles a frame that found no room, and makes PFC pending if the group's state changed.
    #[cold]
    pub fn enter_starvation(&mut self, charge: &FrameMeta, pools: &Pools) -> Option<XoffTransition> {
        let priority = charge.priority();
        let change = self.groups[priority].enter_starvation(charge.cells(), pools)?;
        self.rechecked.set(priority, true);
        if self.advertises(priority) {
            self.queue_pfc(priority, true);
        }
        Some(change)
    }

    /// Counts the time in XOFF from, or up to, a change.
    pub fn record_transition(&mut self, priority: usize, change: XoffTransition, now: Instant) {
        self.groups[priority & 7].record_transition(change, now);
    }

    /// Records that a group has entered or left XOFF. The link is paused while any of its groups is
    /// in XOFF.
    fn queue_pfc(&mut self, priority: usize, xoff: bool) {
        if self.pfc.is_link_pause() {
            self.pfc.set(LINK, self.groups.iter().any(PriorityGroup::is_xoff));
        } else {
            self.pfc.set(priority, xoff);
        }
    }

    /// True if the XOFF of a priority is advertised to the peer.
    fn advertises(&self, priority: usize) -> bool {
        self.sends_pfc && !self.pfc_suppressed.contains(priority)
    }

    /// Applies the state of the watchdog: `dropping` groups admit nothing, and PFC is off for
    /// `off`. Returns true if this changed anything, so that the groups must be examined.
    pub(crate) fn apply_watchdog(
        &mut self,
        (dropping, off): (Set8, Set8),
        settings: &PortSettings,
        usage_percent: u8,
        pools: &mut Pools,
    ) -> bool {
        let unreported = dropping.with(off);
        if (unreported, off) == (self.pfc_suppressed, self.pfc_disabled) {
            return false;
        }
        self.pfc_suppressed = unreported;
        for (p, group) in self.groups.iter_mut().enumerate() {
            group.set_dropping(dropping.contains(p));
            if off.contains(p) != self.pfc_disabled.contains(p) {
                group.release_shared(pools);
                let (protection, of_group) = flow_control_of(settings, off, p);
                group.reconfigure(of_group, protection, usage_percent, pools);
            }
        }
        self.pfc_disabled = off;
        true
    }

    /// Updates the RX backlog after a batch was taken: `waiting` frames remain in the RX rings. The
    /// loop served the port at `last_served` before. Returns true if all groups must be examined.
    #[inline]
    pub fn observe_rx_backlog(&mut self, waiting: u32, iterated: Instant) -> bool {
        let Self { groups, invalid: refused, rx_rings, .. } = self;
        rx_rings.record_empty(waiting, iterated);
        rx_rings.observe(waiting, || {
            let mut taken = TakenFrames { frames: refused.frames, no_drop_frames: 0 };
            for group in &*groups {
                taken.frames += group.received_frames();
                taken.no_drop_frames += if group.has_flow_control() { group.received_frames() } else { 0 };
            }
            taken
        })
    }

    /// Returns the RX backlog of this port, with what the kernel dropped there.
    #[inline]
    pub fn rx_backlog(&mut self) -> &mut RxBacklog {
        &mut self.rx_rings
    }

    /// Returns the groups that must be examined each iteration.
    #[inline]
    pub fn needs_recheck(&self) -> Set8 {
        self.rechecked
    }

    /// Returns when the next PFC frame must leave; [`Instant::NEVER`] if none is pending.
    #[inline]
    pub fn pfc_deadline(&self) -> Instant {
        self.pfc.next_deadline()
    }

    /// Puts no-drop groups, or a link that uses PAUSE, in XOFF permanently, as frames are no longer
    /// forwarded.
    pub fn stop(&mut self) {
        if self.sends_pfc && self.pfc.is_link_pause() {
            self.pfc.set(LINK, true);
        } else if self.sends_pfc {
            let no_drop = (0..PRIORITIES).filter(|&p| self.groups[p].is_no_drop());
            no_drop.for_each(|p| self.pfc.set(p, true));
        }
        self.sends_pfc = false; // changes of groups are no longer advertised
    }

    /// True if a PFC frame must leave now.
    #[inline]
    pub fn pfc_is_due(&self, now: Instant) -> bool {
        self.pfc.is_due(now)
    }

    /// Returns when a PFC frame must leave if nothing happens before; [`Instant::NEVER`] if none
    /// must leave before an earlier one has.
    pub fn pfc_wake_at(&self) -> Instant {
        if self.pfc.is_waiting() { Instant::NEVER } else { self.pfc.next_deadline() }
    }

    /// Sets the source address of PFC.
    pub(crate) fn set_mac(&mut self, mac: MacAddr) {
        self.mac = mac;
    }

    /// Takes all priorities out of XOFF for the peer, as the port is about to go down.
    pub(crate) fn release_peer(&mut self) {
        (0..PRIORITIES).for_each(|p| self.pfc.set(p, false));
    }

    /// True if the peer has been sent XON for all, and every PFC frame has left.
    pub(crate) fn is_peer_released(&self) -> bool {
        self.pfc.is_released()
    }

    /// Forgets the peer: nothing has been advertised to the next one. A group that still is in XOFF
    /// will be.
    pub(crate) fn reset_peer(&mut self) {
        self.pfc.reset_peer();
        self.readvertise();
    }

    /// Records that a PFC frame had left by `at`.
    pub fn pfc_sent(&mut self, at: Instant) {
        self.pfc.sent(at);
    }

    /// Records that a PFC frame was lost.
    pub(crate) fn pfc_lost(&mut self) {
        self.pfc.lost();
    }

    /// Records PFC frames that a guard sent for this port, the last one at `at`.
    pub fn record_guard_pfc(&mut self, frames: &PfcCount, at: Instant) {
        self.pfc.record_guard_pfc(frames, at);
    }

    /// Returns when the RX rings must be looked at, to judge what arrives later.
    pub fn rx_ring_check_at(&self, now: Instant) -> Instant {
        self.pfc.rx_ring_check_at(now)
    }

    /// Writes the PFC, or PAUSE, frame that is due.
    pub fn send_pfc(&mut self, frame: &mut [u8; pause::FRAME_BYTES], now: Instant) {
        match self.pfc.send(now) {
            PauseFrame::Pfc(pfc) => pfc.encode(self.mac, frame),
            PauseFrame::Pause(pause) => pause.encode(self.mac, frame),
        }
    }

    /// Inherits the cells of the previous port of this slot, some frames of which may still wait
    /// elsewhere.
    pub(crate) fn inherit_usage(&mut self, earlier: &Ingress) {
        self.groups.iter_mut().zip(&earlier.groups).for_each(|(group, earlier)| group.inherit_usage(earlier));
    }

    /// Releases the groups' shared cells before a change of settings; `reconfigure` charges them
    /// again.
    pub(crate) fn release_shared(&self, pools: &mut Pools) {
        self.groups.iter().for_each(|group| group.release_shared(pools));
    }

    /// Applies other settings; the groups must be examined afterwards.
    pub(crate) fn reconfigure(&mut self, settings: &PortSettings, usage_percent: u8, pools: &mut Pools) {
        self.classifier = Classifier::of_port(settings);
        self.sends_pfc = settings.pfc.tx || settings.flow_control.sends();
        self.pfc.reconfigure(PfcTiming::from_settings(settings));
        self.storm_control.reconfigure(&settings.flood_limits_pps);
        for (p, group) in self.groups.iter_mut().enumerate() {
            let (protection, of_group) = flow_control_of(settings, self.pfc_disabled, p);
            group.reconfigure(of_group, protection, usage_percent, pools);
        }
    }

    /// Advertises the present state of the groups to the peer, as after `reconfigure`: PFC may have
    /// been turned on or off.
    pub(crate) fn readvertise(&mut self) {
        let is_xoff: [bool; PRIORITIES] =
            std::array::from_fn(|p| self.advertises(p) && self.groups[p].is_xoff());
        let of_link = self.pfc.is_link_pause();
        let any = is_xoff.contains(&true);
        for (p, is_xoff) in is_xoff.into_iter().enumerate() {
            self.pfc.set(p, if of_link { p == LINK && any } else { is_xoff });
        }
    }

    /// Sets other alarm thresholds.
    pub(crate) fn set_alarms(&mut self, port: &PortAlarmSettings, alarms: &AlarmSettings) {
        for (p, group) in self.groups.iter_mut().enumerate() {
            let percent = alarms.percent(AlarmKind::Ingress, port.ingress_percent[p]);
            group.set_alarms(percent, port.headroom_percent[p]);
        }
    }

    /// Reports alarms that have changed.
    pub(crate) fn report_alarms(
        &mut self,
        port: usize,
        alarms: &AlarmSettings,
        now: Instant,
        events: &mut Events,
    ) {
        for (number, group) in self.groups.iter_mut().enumerate() {
            let (used, headroom, drops, dropped) = group.alarms();
            for (kind, watch) in [(AlarmKind::Ingress, used), (AlarmKind::Headroom, headroom)] {
                if let Some(interval_ns) = alarms.interval_ns(kind)
                    && let Some(report) = watch.poll(now, interval_ns)
                {
                    events
                        .push(now, Event::Alarm { source: AlarmSource::Port { port, kind, number }, report });
                }
            }
            if let Some(interval_ns) = alarms.interval_ns(AlarmKind::Drop)
                && let Some(dropped) = drops.poll(dropped, now, interval_ns)
            {
                let source = AlarmSource::Port { port, kind: AlarmKind::Ingress, number };
                events.push(now, Event::DropAlarm { source, dropped });
            }
        }
    }

    /// Resets one watermark of every group.
    pub(crate) fn reset_watermarks(&mut self, mark: WatermarkReset) {
        self.groups.iter_mut().for_each(|group| group.reset_watermark(mark));
    }

    /// Returns the levels and counters of a group.
    pub(crate) fn group(&self, priority: usize, pools: &Pools, now: Instant) -> GroupSnapshot {
        self.groups[priority].snapshot(pools, now)
    }

    /// Returns frames of a group that were admitted, and frames that the watchdog dropped.
    pub(crate) fn storm_traffic(&self, priority: usize) -> (u64, u64) {
        self.groups[priority].storm_traffic()
    }

    /// Returns the PFC frames sent.
    pub(crate) fn pfc_count(&self) -> PfcCount {
        self.pfc.count()
    }

    /// Resets a group's watermarks since the last read.
    pub(crate) fn reset_group_watermarks(&mut self, priority: usize) {
        self.groups[priority].reset_watermark(WatermarkReset::Read);
    }

    /// Fills in the counters of this half.
    pub(crate) fn snapshot(&self, now: Instant, pools: &Pools, out: &mut PortSnapshot) {
        for (group, out) in self.groups.iter().zip(&mut out.groups) {
            *out = group.snapshot(pools, now);
        }
        out.received = out.groups.iter().fold(self.invalid, |sum, group| sum + group.received);
        [out.received_yellow_frames, out.received_red_frames] = self.colored;
        for (out, drops) in out.drops.iter_mut().zip(&self.drops) {
            *out = *out + *drops;
        }
        out.input_dropped = FrameCount::sum(&self.drops);
        self.storm_control.snapshot(out);
        out.pfc_sent = self.pfc.count();
        let reasons = self.pfc.reasons();
        out.pfc_change_frames = reasons.change_frames;
        out.pfc_refresh_frames = reasons.refresh_frames;
        out.pfc_repeat_frames = reasons.repeat_frames;
        out.pfc_guard_frames = reasons.guard_frames;
        out.pause_sent_frames = self.pfc.pause_frames();
        out.rx_ring_episodes = self.rx_rings.episodes();
        out.lldp_received_frames = self.lldp_frames;
        for (out, lost) in out.priorities.iter_mut().zip(self.no_drop_lost) {
            out.no_drop_lost_frames = lost;
        }
    }
}

/// Returns how a priority is paused at the peer, and the thresholds of its group: the lossy ones,
/// where PFC is off for it.
fn flow_control_of(settings: &PortSettings, off: Set8, priority: usize) -> (FlowControlMode, GroupSettings) {
    let group = settings.groups[priority];
    if off.contains(priority) {
        return (
            FlowControlMode::None,
            GroupSettings {
                pool: group.pool,
                reserved_cells: group.reserved_cells,
                ..GroupSettings::lossy()
            },
        );
    }
    let protection = if settings.pfc.no_drop & (1 << priority) != 0 {
        FlowControlMode::Pfc
    } else if settings.flow_control.sends() {
        FlowControlMode::Pause
    } else {
        FlowControlMode::None
    };
    (protection, group)
}
