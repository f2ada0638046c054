//! PFC sent: what a port advertises to its peer, and when.
//!
//! Rule: a PFC frame carries every priority now in XOFF with the pause time, and time 0 for
//! priorities that left XOFF since the last frame. Several changes in one iteration go in one
//! frame.
//! - XOFF is repeated, for as long as it lasts, after a third of the pause time: before half of it
//!   has passed, with margin for a loop that is late. The pause time is calculated at the fastest
//!   speed at which the peer may interpret our quanta: that of the link, or of the port, whichever
//!   is higher.
//! - XOFF is repeated where a peer goes on in spite of it, a bounded number of times, and refreshed
//!   earlier where a peer counts quanta faster ([`crate::pfc::peer_response`]).
//! - XON is repeated once, should the first have been lost.
//! - What the kernel is known to have lost ([`crate::monitor::kernel_tx_loss`]) is repeated 50 µs
//!   after it was sent, as the peer has not received it.
//! - A port that sends 802.3x PAUSE in place of PFC keeps the same rules, with one priority that
//!   represents the link ([`crate::pfc::link_pause`]). When settings change one for the other, what
//!   was advertised with the old kind of frame is withdrawn with it first.
//! - A frame is not repeated while it has not left the port yet, so that PFC never fills a slow
//!   port.
//!
//! Source: docs/behavior.md, "PFC sent"; IEEE 802.1Q-2022 36.1.3.2 (PFC initiation).

use crate::monitor::counters::{PfcCount, PfcReasons};
use crate::pfc::link_pause::LINK;
use crate::pfc::peer_response::{ExpectedResponse, SHORTEST_REFRESH_NS, XoffResponse};
use crate::pfc::rx::quanta_ns;
use crate::settings::MAX_IN_FLIGHT;
use crate::settings::{PRIORITIES, PortSettings};
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};
use wire::bitset::Set8;
use wire::pause::{Pause, Pfc};

/// Delay after which XON is repeated.
const XON_REPEAT_NS: Nanos = 1_000_000;

/// Settings of a port that determine its PFC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PfcTiming {
    pause_quanta: u16,
    /// True for PAUSE, false for PFC.
    uses_link_pause: bool,
    expected: ExpectedResponse,
}

/// The shortest refresh interval that the guard of a stalled loop keeps: so long it takes to notice
/// the stall (docs/behavior.md, "A loop that stalls").
pub const GUARD_REFRESH_NS: Nanos = 100_000;

impl PfcTiming {
    /// Returns the timing of a port with these settings.
    pub fn from_settings(settings: &PortSettings) -> Self {
        let fastest_bps = settings.pause_speed_bps().max(settings.link_speed_bps.unwrap_or(0));
        Self {
            pause_quanta: settings.pfc.pause_quanta,
            uses_link_pause: settings.flow_control.sends(),
            expected: ExpectedResponse {
                response_ns: settings.response_ns,
                refresh_ns: quanta_ns(settings.pfc.pause_quanta, fastest_bps) / 3,
            },
        }
    }

    /// Returns how long after a PFC frame the next one is due while any priority is in XOFF.
    pub fn refresh_ns(&self) -> Nanos {
        self.expected.refresh_ns
    }
}

/// Contents of a frame that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseFrame {
    /// Pause of each priority.
    Pfc(Pfc),
    /// Pause of the whole link.
    Pause(Pause),
}

/// Why a frame is sent.
#[derive(Debug, Clone, Copy)]
enum SendReason {
    /// A priority has entered or left XOFF.
    Change,
    /// XOFF lasts, and half of the pause time will have passed soon.
    Refresh,
    /// XON once more, XOFF for a peer that goes on or that may have had XON since the guard paused
    /// it, or what was lost.
    Repeat,
}

/// PFC, or PAUSE, that one port sends.
#[derive(Debug, Serialize, Deserialize)]
pub struct PfcSender {
    timing: PfcTiming,
    /// Priorities that are in XOFF.
    xoff: Set8,
    /// Priorities whose XOFF the peer was last sent.
    advertised: Set8,
    /// True if XOFF was advertised by PAUSE, not PFC.
    advertised_on_link: bool,
    /// Priorities whose XON must be repeated.
    xon_repeat_pending: Set8,
    /// Frames handed out that have not left the port yet.
    in_flight: u8,
    sent_at: Instant,
    /// Time at which XOFF, or XON, is repeated.
    repeat_at: Instant,
    /// What the peer does after XOFF.
    response: XoffResponse,
    count: PfcCount,
    /// Frames of `count` by the reason for which they were sent.
    reasons: PfcReasons,
    pause_frames: u64,
}

impl PfcSender {
    /// Makes a sender without XOFF.
    pub fn new(timing: PfcTiming) -> Self {
        Self {
            timing,
            xoff: Set8::EMPTY,
            advertised: Set8::EMPTY,
            advertised_on_link: timing.uses_link_pause,
            xon_repeat_pending: Set8::EMPTY,
            in_flight: 0,
            sent_at: Instant::default(),
            repeat_at: Instant::NEVER,
            response: XoffResponse::new(timing.expected),
            count: PfcCount::default(),
            reasons: PfcReasons::default(),
            pause_frames: 0,
        }
    }

    /// Applies another pause time, or speed. A peer that is paused is sent it at once.
    pub fn reconfigure(&mut self, timing: PfcTiming) {
        if timing != self.timing && !self.advertised.is_empty() {
            self.repeat_at = Instant::default();
        }
        if timing.expected != self.timing.expected {
            self.response = XoffResponse::new(timing.expected);
        }
        self.timing = timing;
        if !self.has_transition() {
            self.advertised_on_link = timing.uses_link_pause;
        }
    }

    /// Forgets the peer. Nothing has been advertised to the next one, so a lasting XOFF is sent at
    /// once.
    pub fn reset_peer(&mut self) {
        (self.advertised, self.xon_repeat_pending) = (Set8::EMPTY, Set8::EMPTY);
        self.advertised_on_link = self.timing.uses_link_pause;
        (self.repeat_at, self.response) = (Instant::NEVER, XoffResponse::new(self.timing.expected));
    }

    /// True if whole links are paused.
    #[inline]
    pub fn is_link_pause(&self) -> bool {
        self.timing.uses_link_pause
    }

    /// Sets whether a priority is in XOFF.
    #[inline]
    pub fn set(&mut self, priority: usize, xoff: bool) {
        self.xoff.set(priority, xoff);
    }

    /// True if nothing is in XOFF for the peer, and every frame has left the port.
    pub fn is_released(&self) -> bool {
        self.advertised.is_empty() && self.in_flight == 0
    }

    /// Records a frame of a priority in XOFF, which arrived between `after`, when the RX rings were
    /// empty, and `by`. Returns true if XOFF must be sent to the peer earlier for it.
    pub fn frame_during_xoff(&mut self, priority: usize, after: Instant, by: Instant) -> bool {
        if !self.advertised.contains(priority) {
            return false;
        }
        if self.response.on_frame(after, by) {
            self.repeat_at = Instant::default();
        }
        let earlier = self.repeat_at.min(self.sent_at + self.response.refresh_ns());
        std::mem::replace(&mut self.repeat_at, earlier) != earlier || earlier == Instant::default()
    }

    /// Returns when the RX rings must be looked at, to judge what arrives later.
    pub fn rx_ring_check_at(&self, now: Instant) -> Instant {
        if self.advertised.is_empty() { Instant::NEVER } else { self.response.rx_ring_check_at(now) }
    }

    /// Records PFC frames that a guard sent for this port, the last one at `at`. The guard may have
    /// used settings that are no longer in force.
    pub fn record_guard_pfc(&mut self, frames: &PfcCount, at: Instant) {
        self.count.add(frames);
        self.reasons.guard_frames += frames.frames;
        if self.advertised_on_link && self.has_transition() {
            return; // both kinds cannot be withdrawn at once: this pause runs out
        }
        self.advertised_on_link = false;
        let paused = (0..PRIORITIES).filter(|&p| frames.xoff_frames[p] > 0).collect();
        // A frame that was handed out earlier may leave after the guard's. An XON that waits for an
        // I/O loop ends its pause, so XOFF that lasts is sent again after it.
        if self.in_flight > 0 {
            self.repeat_at = Instant::default();
        }
        // The guard has refreshed what it paused, so the loop need not when it runs again. Other
        // settings, and XON, are still sent in time.
        let is_refreshed = self.advertised.without(paused).is_empty() && self.xon_repeat_pending.is_empty();
        let needs_sending = !is_refreshed || self.repeat_at == Instant::default();
        self.advertised = self.advertised.with(paused);
        self.sent_at = self.sent_at.max(at);
        self.response.sent(at);
        self.response.left(at);
        let refresh_at = at + self.response.refresh_ns();
        self.repeat_at = if needs_sending { self.repeat_at.min(refresh_at) } else { refresh_at };
    }

    /// True if the peer is paused, or XON must be repeated.
    fn has_transition(&self) -> bool {
        !self.advertised.is_empty() || !self.xon_repeat_pending.is_empty()
    }

    /// Returns when the next frame must leave: at once if something has changed, else when XOFF or
    /// XON is repeated. [`Instant::NEVER`] if nothing has to be sent.
    #[inline]
    pub fn next_deadline(&self) -> Instant {
        if self.xoff != self.advertised { Instant::default() } else { self.repeat_at }
    }

    /// True if the frame must leave now.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        self.next_deadline() <= now && !self.is_waiting()
    }

    /// True if earlier frames have not left the port yet. A change may follow them at once, a
    /// repetition may not.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.in_flight >= if self.xoff != self.advertised { MAX_IN_FLIGHT } else { 1 }
    }

    /// Returns the frame that is due. The caller sends it now, and calls `sent` when it has left.
    pub fn send(&mut self, now: Instant) -> PauseFrame {
        if self.advertised_on_link != self.timing.uses_link_pause {
            return self.withdraw(now);
        }
        let reason = self.reason(now);
        let pfc = self.next(now);
        self.pause_frame(pfc, reason)
    }

    /// Withdraws what was advertised by the other kind of frame, which is no longer sent from now
    /// on.
    #[cold]
    fn withdraw(&mut self, now: Instant) -> PauseFrame {
        let xoff = std::mem::take(&mut self.xoff);
        let pfc = self.next(now);
        let reported = self.pause_frame(pfc, SendReason::Change);
        (self.xoff, self.xon_repeat_pending) = (xoff, Set8::EMPTY);
        (self.advertised_on_link, self.repeat_at) = (self.timing.uses_link_pause, Instant::NEVER);
        reported
    }

    /// Returns why the next frame is sent.
    fn reason(&self, now: Instant) -> SendReason {
        if self.xoff != self.advertised {
            SendReason::Change
        } else if !self.xoff.is_empty() && now.since(self.sent_at) >= self.response.refresh_ns() {
            SendReason::Refresh
        } else {
            SendReason::Repeat
        }
    }

    /// Counts a frame, and returns it as the kind of frame in use.
    fn pause_frame(&mut self, pfc: Pfc, reason: SendReason) -> PauseFrame {
        if self.advertised_on_link {
            self.pause_frames += 1;
            return PauseFrame::Pause(Pause { quanta: pfc.quanta[LINK] });
        }
        self.count.frames += 1;
        match reason {
            SendReason::Change => self.reasons.change_frames += 1,
            SendReason::Refresh => self.reasons.refresh_frames += 1,
            SendReason::Repeat => self.reasons.repeat_frames += 1,
        }
        for p in Set8::from_bits(pfc.enable) {
            let counter =
                if pfc.quanta[p] == 0 { &mut self.count.xon_frames } else { &mut self.count.xoff_frames };
            counter[p] += 1;
        }
        PauseFrame::Pfc(pfc)
    }

    fn next(&mut self, now: Instant) -> Pfc {
        let released = self.advertised.without(self.xoff);
        let xon = released.with(self.xon_repeat_pending).without(self.xoff);
        let enable = self.xoff.with(xon);
        let quanta =
            std::array::from_fn(|p| if self.xoff.contains(p) { self.timing.pause_quanta } else { 0 });
        (self.advertised, self.xon_repeat_pending) = (self.xoff, released);
        (self.sent_at, self.in_flight) = (now, self.in_flight + 1);
        let refresh_at = if self.xoff.is_empty() {
            self.response.released(now);
            Instant::NEVER
        } else {
            self.response.sent(now);
            now + self.response.refresh_ns()
        };
        let xon_at = if released.is_empty() { Instant::NEVER } else { now + XON_REPEAT_NS };
        self.repeat_at = refresh_at.min(xon_at);
        Pfc { enable: enable.bits(), quanta }
    }

    /// Records that a frame returned by `send` had left the port by `at`.
    pub fn sent(&mut self, at: Instant) {
        debug_assert!(self.in_flight > 0, "a PFC frame left that was not sent");
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.in_flight == 0 && !self.advertised.is_empty() {
            self.response.left(at);
        }
    }

    /// Records that a frame returned by `send` was lost. Its contents are sent again if they still
    /// hold.
    #[cold]
    pub fn lost(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.has_transition() {
            self.repeat_at = self.repeat_at.min(self.sent_at + SHORTEST_REFRESH_NS);
        }
    }

    /// Returns the PFC frames sent.
    pub fn count(&self) -> PfcCount {
        self.count
    }

    /// Returns the frames of [`count`](Self::count) by the reason for which they were sent.
    pub fn reasons(&self) -> PfcReasons {
        self.reasons
    }

    /// Returns the PAUSE frames sent.
    pub fn pause_frames(&self) -> u64 {
        self.pause_frames
    }
}

#[cfg(test)]
mod tests;
