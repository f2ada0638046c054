//! The egress half of a port: queues, scheduler, rate, and the pauses that it honors.
//!
//! Rule: a frame is admitted to its queue (or dropped here: tail drop), subjected to WRED, and
//! queued. It leaves when three conditions hold: the link is free, its queue is picked among the
//! queues that hold frames and are not paused, and the bytes with the kernel are below their bound,
//! as a pause cannot recall what the kernel has. It is charged until its transmission is complete.
//! Source: docs/architecture.md, "Frame path"; the bound works the way BQL bounds a driver
//! (docs/kernel/af-xdp.md).

mod dequeue;
pub(crate) mod flood_copies;
pub(crate) mod frame_queue;
pub(crate) mod pause_map;
pub mod queue;
pub mod queue_limits;
mod reconfigure;
mod room_stall;
pub(crate) mod scheduler;
mod snapshot;
pub mod tx_stall;
mod watchdog;
pub mod wred;

use crate::buffer::pool::Pools;
use crate::egress::frame_queue::{FrameList, FrameQueues};
use crate::egress::pause_map::PauseMap;
use crate::egress::queue::Queue;
use crate::egress::queue_limits::EgressLimits;
use crate::egress::room_stall::RoomStalls;
use crate::egress::scheduler::Scheduler;
use crate::egress::tx_stall::TxStall;
use crate::egress::wred::WredAction;
use crate::fifo_set::FifoSet;
use crate::frame::FrameId;
use crate::frame::header_edit::VlanAction;
use crate::frame::meta::EcnMarking;
use crate::frame::meta::FloodType;
use crate::frame::meta::FrameMeta;
use crate::frame::remark;
use crate::monitor::counters::{DropReason, FrameCount, PfcCount};
use crate::monitor::event_list::Events;
use crate::monitor::kernel_tx_loss::KernelTxLoss;
use crate::monitor::throttle::{EVENT_NS, Throttle};
use crate::pfc::link_pause::LinkPause;
use crate::pfc::port_watchdog::PortWatchdog;
use crate::pfc::rx::{ArrivalTimes, PfcRxState};
use crate::settings::{PRIORITIES, PortSettings, Rate, RewriteSettings, ScheduleSettings};
use crate::time::Instant;
use crate::token_bucket::TokenBucket;
use serde::{Deserialize, Serialize};
use wire::bitset::Set8;
use wire::ip::Ecn;
use wire::pause::{self, Control};
use wire::random::Random;

/// Queues that share a rate limit.
#[derive(Debug, Serialize, Deserialize)]
struct ShapedQueues {
    queues: Set8,
    rate: Rate,
    shaper: TokenBucket,
}

/// Frames that were too long for the interface.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct MtuDrops {
    /// Frames not reported yet.
    frames: u64,
    throttle: Throttle,
}

/// The egress half of a port. Fields of the frame path come first, so that they share few cache
/// lines.
#[derive(Debug, Serialize, Deserialize)]
#[repr(C, align(64))]
pub struct Egress {
    queues: [Queue; PRIORITIES],
    /// FIFOs that hold queued frames.
    backlogged: FifoSet,
    /// FIFOs whose frames leave as they were queued: those for known addresses, of queues that mark
    /// no departing frame.
    unmarked_fifos: FifoSet,
    /// FIFOs of queues with WRED.
    wred_fifos: FifoSet,
    /// True if only PFC leaves.
    tx_held: bool,
    /// Queues that the peer has no room for.
    no_room: Set8,
    remarks: bool,
    /// Longest frame that may leave here.
    longest_bytes: u16,
    in_flight_bytes: u32,
    in_flight_limit_bytes: u32,
    in_flight_peak_bytes: u32,
    /// Number of queued frames with a pending edit: an ECN mark, or a change of tag.
    edits: u32,
    /// Number of queued copies of flooded frames, which get memory when they are handed out.
    copies: u32,
    /// Rate limit of the port.
    shaper: TokenBucket,
    scheduler: Scheduler,
    /// Groups and queues with a rate limit of their own.
    shaped: Vec<ShapedQueues>,
    /// Pause of the whole link, where 802.3x PAUSE is honored.
    link_pause: Option<Box<LinkPause>>,
    /// Priorities whose pauses are ignored: they are stormed, or PFC is off for them.
    pauses_ignored: Set8,
    /// Priorities that the peer has paused.
    pauses: PfcRxState,
    /// FIFOs of which the watchdog drops every frame.
    dropping: FifoSet,
    /// Queued flooded frames, by queue, and the queues whose flooded FIFO has the next turn.
    flooded: Box<[FrameList; PRIORITIES]>,
    flood_turn: Set8,
    /// Random numbers of WRED: the same on every run for the same port number.
    random: Random,
    /// FIFOs that a pause of each priority stops.
    pause_map: PauseMap,
    remark_maps: RewriteSettings,
    schedule: ScheduleSettings,
    drops: [FrameCount; DropReason::ALL.len()],
    mtu_drops: MtuDrops,
    kernel_losses: KernelTxLoss,
    pfc_malformed: u64,
    pause_received: u64,
    /// Flooded frames that have left, by type.
    flooded_out: [u64; 3],
    watchdog: PortWatchdog,
    /// Copies of flooded frames that are handed out and not completed.
    copies_in_flight: u32,
    /// Whether what the kernel has completes.
    tx_stall: TxStall,
    /// How long queues have had no room at the peer.
    room_stalls: Box<RoomStalls>,
}

impl Egress {
    /// Makes the egress half of a port; `seed` determines its random numbers.
    pub fn new(settings: &PortSettings, limits: &EgressLimits, seed: u64) -> Self {
        let queues = limits.queues.map(|queue| Queue::new(queue, limits.usage_percent));
        Self {
            backlogged: FifoSet::EMPTY,
            unmarked_fifos: unmarked_fifos(&queues),
            wred_fifos: wred_fifos(&queues),
            queues,
            tx_held: false,
            no_room: Set8::EMPTY,
            remarks: settings.rewrite != RewriteSettings::default(),
            longest_bytes: settings.longest_frame_bytes(),
            mtu_drops: MtuDrops::default(),
            in_flight_bytes: 0,
            in_flight_limit_bytes: settings.in_flight_bytes,
            in_flight_peak_bytes: 0,
            edits: 0,
            copies: 0,
            shaper: TokenBucket::new(port_shaper(settings), settings.overhead_bytes),
            scheduler: Scheduler::new(&settings.schedule, settings.overhead_bytes),
            shaped: shaped(settings),
            pauses: PfcRxState::new(honored(settings), settings.pause_speed_bps()),
            link_pause: honors_pause(settings),
            random: Random::new(seed),
            pause_map: PauseMap::new(stopped_by_pauses(settings, limits)),
            remark_maps: settings.rewrite,
            schedule: settings.schedule.clone(),
            drops: Default::default(),
            kernel_losses: KernelTxLoss::default(),
            pfc_malformed: 0,
            pause_received: 0,
            flooded_out: [0; 3],
            pauses_ignored: Set8::EMPTY,
            dropping: FifoSet::EMPTY,
            flooded: Box::default(),
            flood_turn: Set8::EMPTY,
            watchdog: PortWatchdog::new(settings),
            copies_in_flight: 0,
            tx_stall: TxStall::default(),
            room_stalls: Box::default(),
        }
    }

    /// Returns the longest frame that the link takes, in bytes without FCS.
    #[inline]
    pub fn longest_bytes(&self) -> u16 {
        self.longest_bytes
    }

    /// True if a frame fits its queue.
    #[inline]
    pub fn admit(&self, charge: &FrameMeta, pools: &Pools) -> bool {
        self.queues[charge.queue()].admit(charge.cells(), charge.class.flooded, pools)
    }

    /// Returns why a frame does not fit its queue.
    #[cold]
    pub fn drop_reason(&self, charge: &FrameMeta) -> DropReason {
        let dropping = self.queues[charge.queue()].is_dropping(charge.class.flooded);
        if dropping { DropReason::Watchdog } else { DropReason::TailDrop }
    }

    /// Applies WRED to a frame that fits, which may mark it, or drop it.
    #[inline]
    pub fn apply_wred(&mut self, charge: &mut FrameMeta, ecn: Ecn, now: Instant) -> Result<(), DropReason> {
        let queue = &mut self.queues[charge.queue()];
        match queue.wred_decide(charge.cells(), charge.class.drop_level, ecn, &mut self.random, now) {
            WredAction::Pass => Ok(()),
            WredAction::Mark => {
                self.mark(charge);
                Ok(())
            }
            WredAction::Drop => Err(DropReason::Wred),
        }
    }

    /// Counts a frame that its queue, or WRED, dropped.
    #[cold]
    pub fn count_drop_at_queue(&mut self, reason: DropReason, charge: &FrameMeta, now: Instant) {
        self.count_drop(reason, charge.len);
        let queue = &mut self.queues[charge.queue()];
        match reason {
            DropReason::Watchdog => queue.count_storm_drop(charge.len),
            DropReason::MtuExceeded => self.mtu_drops.frames += 1,
            DropReason::Wred => queue.count_wred_drop(charge.len, charge.class.drop_level),
            _ => queue.count_drop(charge.len, charge.cells(), now),
        }
    }

    /// Takes the number of frames that were too long and are not reported yet, if a report is due:
    /// once a second while there are any.
    #[cold]
    pub(crate) fn take_mtu_drops(&mut self, now: Instant) -> Option<u64> {
        let is_due = self.mtu_drops.frames > 0 && self.mtu_drops.throttle.pass(EVENT_NS, now);
        is_due.then(|| std::mem::take(&mut self.mtu_drops.frames))
    }

    /// Counts a frame that was to leave here and was dropped.
    pub fn count_drop(&mut self, reason: DropReason, len: u16) {
        self.drops[reason as usize].add(len);
    }

    /// Sets the ECN mark (CE) of a frame that is about to be queued, or has just left its queue, if
    /// the frame may be marked.
    #[cold]
    pub fn mark(&mut self, charge: &mut FrameMeta) {
        if charge.marking == EcnMarking::Ect {
            charge.marking = EcnMarking::Marked;
            self.edits += 1;
            self.queues[charge.queue()].count_mark(charge.len);
        }
    }

    /// Changes the tag with which queued frame number `index` leaves.
    pub fn change_tag(&mut self, index: usize, tag: VlanAction, store: &mut FrameQueues) {
        self.edits += 1;
        store.set_tag(index, tag);
    }

    /// True if the link takes the frame, it fits the guaranteed cells of its queue, and it is not
    /// flooded.
    #[inline]
    pub fn fits_guaranteed(&self, charge: &FrameMeta) -> bool {
        let queue = &self.queues[charge.queue()];
        queue.fits_reserved(charge.cells()) && !charge.class.flooded && charge.len <= self.longest_bytes
    }

    /// True if WRED decides about the frames of a frame's queue.
    #[inline]
    pub fn has_wred(&self, charge: &FrameMeta) -> bool {
        self.queues[charge.queue()].has_wred()
    }

    /// Charges a frame that fits the guaranteed cells and appends it to its FIFO.
    #[inline(always)] // twice in the frame path
    pub fn enqueue_guaranteed(&mut self, frame: FrameId, charge: &FrameMeta, store: &mut FrameQueues) {
        let queue = &mut self.queues[charge.queue()];
        queue.charge_reserved(charge.cells());
        store.push(&mut queue.waiting, frame, charge);
        self.backlogged = self.backlogged.with(FifoSet::of(charge.queue(), false));
    }

    /// Charges a frame that fits and appends it to its FIFO.
    #[inline(always)] // in the frame path where cells are shared
    pub fn enqueue(
        &mut self,
        frame: FrameId,
        charge: &FrameMeta,
        store: &mut FrameQueues,
        pools: &mut Pools,
    ) {
        let q = charge.queue();
        let queue = &mut self.queues[q];
        queue.charge(charge.cells(), pools);
        self.copies += u32::from(charge.in_port == FrameMeta::COPY);
        if charge.class.flooded {
            return self.enqueue_flooded(frame, charge, store);
        }
        store.push(&mut queue.waiting, frame, charge);
        self.backlogged = self.backlogged.with(FifoSet::of(q, false));
    }

    #[cold]
    fn enqueue_flooded(&mut self, frame: FrameId, charge: &FrameMeta, store: &mut FrameQueues) {
        let q = charge.queue();
        store.push(&mut self.flooded[q], frame, charge);
        self.backlogged = self.backlogged.with(FifoSet::of(q, true));
    }

    /// Returns the FIFOs that do not send now: they are stopped, or their queue exceeds its rate.
    /// Returns all FIFOs while the link is busy or on hold.
    #[inline]
    pub fn blocked(&mut self, now: Instant) -> FifoSet {
        if !self.shaper.is_free(now) {
            return FifoSet::ALL;
        }
        self.stopped(now).with(FifoSet::both(self.over_rate(now)))
    }

    /// Returns the FIFOs that do not send at any rate: they are paused, or the peer has no room for
    /// them. Returns all FIFOs while the link is on hold.
    #[inline]
    fn stopped(&mut self, now: Instant) -> FifoSet {
        if self.tx_held {
            return FifoSet::ALL;
        }
        self.paused_fifos(now).with(FifoSet::both(self.no_room))
    }

    /// Releases a frame whose transmission is complete.
    #[inline]
    pub fn complete(&mut self, charge: &FrameMeta, pools: &mut Pools) {
        self.in_flight_bytes -= u32::from(charge.len);
        let queue = &mut self.queues[charge.queue()];
        queue.count_transmitted(charge.len);
        queue.release(charge.cells(), pools);
        if charge.flood_type != FloodType::Known {
            self.count_flooded(charge.flood_type);
        }
    }

    #[cold]
    fn count_flooded(&mut self, cast: FloodType) {
        if let Some(index) = cast.index() {
            self.flooded_out[index] += 1;
        }
    }

    /// Releases a frame that `send` returned and that will never leave.
    pub fn abort_tx(&mut self, charge: &FrameMeta, pools: &mut Pools) {
        self.in_flight_bytes -= u32::from(charge.len);
        self.drop_queued(DropReason::PortDown, charge, pools);
    }

    /// Returns the number of queued copies of flooded frames.
    #[inline]
    pub(crate) fn copies(&self) -> u32 {
        self.copies
    }

    /// Returns how many more copies may be handed out, of `most` that may have memory.
    pub(crate) fn room_for_copies(&self, most: u32) -> usize {
        most.saturating_sub(self.copies_in_flight) as usize
    }

    /// Records that a copy that was taken from its queue got memory.
    pub(crate) fn copy_sent(&mut self) {
        self.copies_in_flight += 1;
    }

    /// Records that a copy that was handed out no longer has memory.
    pub(crate) fn copy_completed(&mut self) {
        self.copies_in_flight -= 1;
    }

    /// Releases a copy that `send` returned and that got no memory. It is counted as dropped at its
    /// input port.
    pub(crate) fn copy_dropped(&mut self, charge: &FrameMeta, pools: &mut Pools) {
        self.in_flight_bytes -= u32::from(charge.len);
        self.queues[charge.queue()].release(charge.cells(), pools);
    }

    /// Takes a frame out of one of `fifos` without sending it, as when the port goes down, and
    /// releases it.
    pub fn flush_head(
        &mut self,
        (fifos, reason): (FifoSet, DropReason),
        store: &mut FrameQueues,
        pools: &mut Pools,
        now: Instant,
    ) -> Option<(FrameId, FrameMeta)> {
        let (q, flooded) = self.backlogged.and(fifos).first()?;
        let queue = &mut self.queues[q];
        let fifo = if flooded { &mut self.flooded[q] } else { &mut queue.waiting };
        let (frame, &mut charge) = store.pop(fifo)?;
        self.copies -= u32::from(charge.in_port == FrameMeta::COPY);
        if fifo.is_empty() {
            self.backlogged = self.backlogged.without(FifoSet::of(q, flooded));
            if self.pause_map.is_lingering() {
                self.pause_map.settle(self.backlogged);
            }
        }
        queue.dequeue(charge.cells(), charge.class.drop_level, &mut self.random, now);
        let backlogged = self.backlogged.queues();
        if !backlogged.contains(q) {
            self.scheduler.emptied(q, backlogged.bits());
        }
        if self.edits > 0 {
            self.pop_edits(&frame, &charge, store);
        }
        self.drop_queued(reason, &charge, pools);
        Some((frame, charge))
    }

    fn drop_queued(&mut self, reason: DropReason, charge: &FrameMeta, pools: &mut Pools) {
        self.count_drop(reason, charge.len);
        let queue = &mut self.queues[charge.queue()];
        if reason == DropReason::Watchdog {
            queue.count_storm_drop(charge.len);
        }
        queue.release(charge.cells(), pools);
    }

    /// Releases a frame that the kernel took and lost.
    pub(crate) fn kernel_lost(&mut self, charge: &FrameMeta, is_no_drop: bool, pools: &mut Pools) {
        self.in_flight_bytes -= u32::from(charge.len);
        self.kernel_losses.count(is_no_drop);
        let queue = &mut self.queues[charge.queue()];
        queue.count_kernel_lost(charge.len);
        queue.release(charge.cells(), pools);
    }

    /// Records a PFC or PAUSE frame that the kernel took and lost.
    pub(crate) fn kernel_lost_pfc(&mut self) {
        self.kernel_losses.count_pfc();
    }

    /// Reports frames that the kernel lost. Returns true if more remain to be reported.
    pub(crate) fn report_kernel_losses(&mut self, port: usize, now: Instant, events: &mut Events) -> bool {
        self.kernel_losses.take_event(port, now, events)
    }

    /// Honors a MAC control frame, or counts it as malformed. One for another destination is
    /// neither honored nor bridged. Returns true if queued frames may leave again.
    pub fn receive_mac_control(&mut self, frame: &[u8], arrived: ArrivalTimes) -> bool {
        match pause::decode(frame) {
            Ok(Control::Pfc(pfc)) => {
                self.pauses.apply_late(&pfc, arrived);
                return self.is_backlogged();
            }
            Ok(Control::Pause { quanta }) => {
                self.pause_received += 1;
                if let Some(link) = &mut self.link_pause {
                    link.apply_late(quanta, arrived);
                    return self.is_backlogged();
                }
            }
            Ok(Control::Unknown { .. }) | Err(_) => self.pfc_malformed += 1,
        }
        false
    }

    /// Ends all pauses, as when the port goes down. Whether the next peer has room is unknown.
    pub fn clear_pauses(&mut self, now: Instant) {
        self.no_room = Set8::EMPTY;
        self.pauses.clear(now);
        self.link_pause.iter_mut().for_each(|link| link.clear(now));
    }

    /// Holds transmission, or releases it: a port on hold sends only PFC. For tests.
    pub fn hold(&mut self, on_hold: bool) {
        self.tx_held = on_hold;
    }

    /// Sets the queues that the peer has no room for: their frames wait.
    #[cold]
    pub fn set_no_room(&mut self, queues: Set8, now: Instant) {
        self.room_stalls.begin(queues.without(self.no_room), now);
        self.no_room = queues;
    }

    /// True if some queue holds frames.
    #[inline]
    pub fn is_backlogged(&self) -> bool {
        !self.backlogged.is_empty()
    }

    /// Returns the FIFOs whose priority, or link, is paused.
    #[inline]
    fn paused_fifos(&mut self, now: Instant) -> FifoSet {
        if let Some(link) = &mut self.link_pause
            && link.is_paused(now)
        {
            return FifoSet::ALL;
        }
        let priorities = self.paused_priorities(now);
        self.pause_map.of_all(priorities)
    }

    /// Returns the paused priorities whose pauses are honored.
    #[inline]
    fn paused_priorities(&mut self, now: Instant) -> Set8 {
        self.pauses.paused(now).without(self.pauses_ignored)
    }

    /// Returns the PFC frames received.
    pub(crate) fn pfc_count(&self) -> PfcCount {
        self.pauses.count()
    }

    /// Returns the queues that exceed their own rate, or that of their group.
    #[inline]
    fn over_rate(&self, now: Instant) -> Set8 {
        let busy = self.shaped.iter().filter(|shaped| !shaped.shaper.is_free(now));
        busy.fold(Set8::EMPTY, |set, shaped| set.with(shaped.queues))
    }

    /// Returns when `send` may return a frame if nothing happens before: the link and the rates of
    /// some queue are free, or a pause ends. [`Instant::NEVER`] if no frame is queued.
    pub fn next_deadline(&mut self, now: Instant) -> Instant {
        if self.backlogged.is_empty() || self.tx_held {
            return Instant::NEVER;
        }
        let unpaused = self.backlogged.without(self.paused_fifos(now)).queues().without(self.no_room);
        let free_at = |q: usize| {
            let rates = self.shaped.iter().filter(|shaped| shaped.queues.contains(q));
            rates.map(|shaped| shaped.shaper.free_at()).max().unwrap_or_default()
        };
        let some_queue = unpaused.into_iter().map(free_at).min().unwrap_or(Instant::NEVER);
        let link_free = self.link_pause.as_ref().map_or(Instant::NEVER, |link| link.ends_at());
        some_queue.min(self.pauses.next_end()).min(link_free).max(self.shaper.free_at()).max(now)
    }

    /// True if no frame is queued or being transmitted.
    pub(crate) fn is_empty(&self) -> bool {
        self.backlogged.is_empty() && self.in_flight_bytes == 0
    }
}

/// Returns the FIFOs whose frames are not marked when they leave.
fn unmarked_fifos(queues: &[Queue; PRIORITIES]) -> FifoSet {
    FifoSet::known_of((0..PRIORITIES).filter(|&q| queues[q].leaves_unmarked()).collect())
}

/// Returns the FIFOs of queues with WRED.
fn wred_fifos(queues: &[Queue; PRIORITIES]) -> FifoSet {
    FifoSet::known_of((0..PRIORITIES).filter(|&q| queues[q].has_wred()).collect())
}

/// Returns the rate of the whole port.
fn port_shaper(settings: &PortSettings) -> Option<Rate> {
    let speed_bps = settings.speed_bps.filter(|_| settings.rate_limited);
    speed_bps.map(|bps| Rate { bps, burst_bytes: settings.burst_bytes })
}

/// Returns the queues and groups that have a rate limit of their own.
fn shaped(settings: &PortSettings) -> Vec<ShapedQueues> {
    let groups = settings.schedule.groups.iter().map(|group| (Set8::from_bits(group.queues), group.rate));
    let queues = settings.queues.iter().enumerate().map(|(q, queue)| (Set8::of(q), queue.rate));
    let with_rate = groups.chain(queues).filter_map(|(queues, rate)| Some((queues, rate?)));
    let shaper = |rate| TokenBucket::new(Some(rate), settings.overhead_bytes);
    with_rate.map(|(queues, rate)| ShapedQueues { queues, rate, shaper: shaper(rate) }).collect()
}

/// Returns the priorities whose pauses are honored.
fn honored(settings: &PortSettings) -> Set8 {
    if settings.pfc.rx { Set8::from_bits(settings.pfc.no_drop) } else { Set8::EMPTY }
}

/// Returns the pause state of the whole link, where PAUSE is honored.
fn honors_pause(settings: &PortSettings) -> Option<Box<LinkPause>> {
    settings.flow_control.honors().then(|| Box::new(LinkPause::new(settings.pause_speed_bps())))
}

/// Returns the FIFOs that a pause of each priority stops: the peer refers to priorities as it
/// receives them.
fn stopped_by_pauses(settings: &PortSettings, limits: &EgressLimits) -> [FifoSet; PRIORITIES] {
    let rewritten = remark::queues_by_priority(&settings.rewrite);
    rewritten.map_or(limits.fifos_of_priorities, |queues| queues.map(FifoSet::both))
}
