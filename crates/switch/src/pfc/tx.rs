//! PFC sent: what a port advertises to its peer, and when.
//!
//! Rule: a PFC frame carries every priority now in XOFF with the pause time, and time 0 for
//! priorities that left XOFF since the last frame. Several changes in one iteration go in one
//! frame.
//! - XOFF is repeated, for as long as it lasts, after a third of the pause time: before half of it
//!   has passed, with margin for a loop that is late. The pause time is calculated at the fastest
//!   speed at which the peer may interpret our quanta: that of the link, or of the port, whichever
//!   is higher.
//! - XOFF is repeated at once when a frame of a priority in XOFF arrives although the peer must
//!   have received XOFF long since ([`PortSettings::response_ns`]). If the peer had been silent
//!   before, it interprets our quanta at a still higher speed, and XOFF is repeated from then on
//!   after half of the time that the pause seems to have lasted. This learned interval is reset
//!   with the first XON after ten seconds without such a measurement.
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

use crate::monitor::counters::PfcCount;
use crate::pfc::link_pause::LINK;
use crate::pfc::rx::quanta_ns;
use crate::settings::MAX_IN_FLIGHT;
use crate::settings::{PRIORITIES, PortSettings};
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};
use wire::bitset::Set8;
use wire::pause::{Pause, Pfc};

/// Delay after which XON is repeated.
const XON_AGAIN_NS: Nanos = 1_000_000;
/// How long a refresh interval learned from the peer is kept.
const LESSON_NS: Nanos = 10_000_000_000;
/// Lower bound of the refresh, however fast a peer counts quanta, and whatever is lost.
const SHORTEST_REFRESH_NS: Nanos = 50_000;

/// Settings of a port that determine its PFC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PfcTiming {
    pause_quanta: u16,
    /// True for PAUSE, false for PFC.
    of_link: bool,
    refresh_ns: Nanos,
    response_ns: Nanos,
}

impl PfcTiming {
    /// Returns the timing of a port with these settings.
    pub fn of(settings: &PortSettings) -> Self {
        let fastest_bps = settings.pause_speed_bps().max(settings.link_speed_bps.unwrap_or(0));
        Self {
            pause_quanta: settings.pfc.pause_quanta,
            of_link: settings.flow_control.sends(),
            refresh_ns: quanta_ns(settings.pfc.pause_quanta, fastest_bps) / 3,
            response_ns: settings.response_ns,
        }
    }

    /// Returns how long after a PFC frame the next one is due while any priority is in XOFF.
    pub fn refresh_ns(&self) -> Nanos {
        self.refresh_ns
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

/// PFC, or PAUSE, that one port sends.
#[derive(Debug, Serialize, Deserialize)]
pub struct PfcSender {
    timing: PfcTiming,
    /// Priorities that are in XOFF.
    xoff: Set8,
    /// Priorities whose XOFF the peer was last sent.
    announced: Set8,
    /// True if XOFF was advertised by PAUSE, not PFC.
    announced_of_link: bool,
    /// Priorities whose XON must be repeated.
    xon_again: Set8,
    /// Frames handed out that have not left the port yet.
    in_flight: u8,
    sent_at: Instant,
    /// Time at which XOFF, or XON, is repeated.
    repeat_at: Instant,
    /// Refresh interval: as in `timing`, or shorter as learned from the peer.
    refresh_ns: Nanos,
    /// Time at which it was last learned.
    learned_at: Instant,
    /// Time at which a frame last arrived in spite of XOFF.
    received_at: Instant,
    count: PfcCount,
    /// Frames of `count` that a guard sent for this port.
    guard_frames: u64,
    pause_frames: u64,
}

impl PfcSender {
    /// Makes a sender without XOFF.
    pub fn new(timing: PfcTiming) -> Self {
        Self {
            timing,
            xoff: Set8::EMPTY,
            announced: Set8::EMPTY,
            announced_of_link: timing.of_link,
            xon_again: Set8::EMPTY,
            in_flight: 0,
            sent_at: Instant::default(),
            repeat_at: Instant::NEVER,
            refresh_ns: timing.refresh_ns,
            learned_at: Instant::default(),
            received_at: Instant::default(),
            count: PfcCount::default(),
            guard_frames: 0,
            pause_frames: 0,
        }
    }

    /// Applies another pause time, or speed. A peer that is paused is sent it at once.
    pub fn reconfigure(&mut self, timing: PfcTiming) {
        if timing != self.timing && !self.announced.is_empty() {
            self.repeat_at = Instant::default();
        }
        (self.timing, self.refresh_ns) = (timing, timing.refresh_ns);
        if !self.has_transition() {
            self.announced_of_link = timing.of_link;
        }
    }

    /// Forgets the peer. Nothing has been advertised to the next one, so a lasting XOFF is sent at
    /// once.
    pub fn reset_peer(&mut self) {
        (self.announced, self.xon_again) = (Set8::EMPTY, Set8::EMPTY);
        self.announced_of_link = self.timing.of_link;
        (self.repeat_at, self.refresh_ns) = (Instant::NEVER, self.timing.refresh_ns);
    }

    /// True if whole links are paused.
    #[inline]
    pub fn is_of_link(&self) -> bool {
        self.timing.of_link
    }

    /// Sets whether a priority is in XOFF.
    #[inline]
    pub fn set(&mut self, priority: usize, xoff: bool) {
        self.xoff.set(priority, xoff);
    }

    /// Records a frame of a priority in XOFF that arrived at `at` or later. Returns true if XOFF
    /// must be sent to the peer again.
    pub fn insist(&mut self, priority: usize, at: Instant) -> bool {
        if !self.announced.contains(priority) {
            return false;
        }
        let pause_ns = at.since(self.sent_at);
        let silence_ns = pause_ns.min(at.since(self.received_at));
        self.received_at = at;
        let deaf = pause_ns > self.timing.response_ns;
        if deaf {
            self.repeat_at = self.repeat_at.min(at);
        }
        // A peer that is slow to react keeps sending; one whose pause is over resumes after a
        // silence.
        if deaf && silence_ns > self.timing.response_ns / 2 {
            self.refresh_ns = self.refresh_ns.min(pause_ns / 2).max(SHORTEST_REFRESH_NS);
            self.learned_at = at;
        }
        deaf
    }

    /// Records PFC frames that a guard sent for this port, the last one at `at`. The guard may have
    /// used settings that are no longer in force.
    pub fn record_guard_pfc(&mut self, frames: &PfcCount, at: Instant) {
        self.count.add(frames);
        self.guard_frames += frames.frames;
        if self.announced_of_link && self.has_transition() {
            return; // both kinds cannot be withdrawn at once: this pause runs out
        }
        self.announced_of_link = false;
        let paused = (0..PRIORITIES).filter(|&p| frames.xoff_frames[p] > 0).collect();
        self.announced = self.announced.with(paused);
        self.sent_at = self.sent_at.max(at);
        self.repeat_at = self.repeat_at.min(at + self.refresh_ns);
    }

    /// True if the peer is paused, or XON must be repeated.
    fn has_transition(&self) -> bool {
        !self.announced.is_empty() || !self.xon_again.is_empty()
    }

    /// Returns when the next frame must leave: at once if something has changed, else when XOFF or
    /// XON is repeated. [`Instant::NEVER`] if nothing has to be sent.
    #[inline]
    pub fn next_deadline(&self) -> Instant {
        if self.xoff != self.announced { Instant::default() } else { self.repeat_at }
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
        self.in_flight >= if self.xoff != self.announced { MAX_IN_FLIGHT } else { 1 }
    }

    /// Returns the frame that is due. The caller sends it now, and calls `sent` when it has left.
    pub fn send(&mut self, now: Instant) -> PauseFrame {
        if self.announced_of_link != self.timing.of_link {
            return self.take_back(now);
        }
        let pfc = self.next(now);
        self.pause_frame(pfc)
    }

    /// Withdraws what was advertised by the other kind of frame, which is no longer sent from now
    /// on.
    #[cold]
    fn take_back(&mut self, now: Instant) -> PauseFrame {
        let xoff = std::mem::take(&mut self.xoff);
        let pfc = self.next(now);
        let reported = self.pause_frame(pfc);
        (self.xoff, self.xon_again) = (xoff, Set8::EMPTY);
        (self.announced_of_link, self.repeat_at) = (self.timing.of_link, Instant::NEVER);
        reported
    }

    /// Counts a frame, and returns it as the kind of frame in use.
    fn pause_frame(&mut self, pfc: Pfc) -> PauseFrame {
        if self.announced_of_link {
            self.pause_frames += 1;
            return PauseFrame::Pause(Pause { quanta: pfc.quanta[LINK] });
        }
        self.count.frames += 1;
        for p in Set8::from_bits(pfc.enable) {
            let counter =
                if pfc.quanta[p] == 0 { &mut self.count.xon_frames } else { &mut self.count.xoff_frames };
            counter[p] += 1;
        }
        PauseFrame::Pfc(pfc)
    }

    fn next(&mut self, now: Instant) -> Pfc {
        let released = self.announced.without(self.xoff);
        let xon = released.with(self.xon_again).without(self.xoff);
        let enable = self.xoff.with(xon);
        let quanta =
            std::array::from_fn(|p| if self.xoff.contains(p) { self.timing.pause_quanta } else { 0 });
        (self.announced, self.xon_again) = (self.xoff, released);
        (self.sent_at, self.in_flight) = (now, self.in_flight + 1);
        if self.xoff.is_empty() && now.since(self.learned_at) >= LESSON_NS {
            self.refresh_ns = self.timing.refresh_ns;
        }
        let refresh_at = if self.xoff.is_empty() { Instant::NEVER } else { now + self.refresh_ns };
        let xon_at = if released.is_empty() { Instant::NEVER } else { now + XON_AGAIN_NS };
        self.repeat_at = refresh_at.min(xon_at);
        Pfc { enable: enable.bits(), quanta }
    }

    /// Records that a frame returned by `send` has left the port.
    pub fn sent(&mut self) {
        debug_assert!(self.in_flight > 0, "a PFC frame left that was not sent");
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Records that a frame returned by `send` was lost. Its contents are sent again if they still
    /// hold.
    #[cold]
    pub fn lost(&mut self) {
        self.sent();
        if self.has_transition() {
            self.repeat_at = self.repeat_at.min(self.sent_at + SHORTEST_REFRESH_NS);
        }
    }

    /// Returns the PFC frames sent.
    pub fn count(&self) -> PfcCount {
        self.count
    }

    /// Returns how long after an XOFF the next one is due, while it lasts.
    pub fn refresh_ns(&self) -> Nanos {
        self.refresh_ns
    }

    /// Returns the PFC frames that a guard sent; [`count`](Self::count) includes them.
    pub fn guard_frames(&self) -> u64 {
        self.guard_frames
    }

    /// Returns the PAUSE frames sent.
    pub fn pause_frames(&self) -> u64 {
        self.pause_frames
    }
}

#[cfg(test)]
mod tests;
