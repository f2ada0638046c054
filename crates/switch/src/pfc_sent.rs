//! PFC sent: what a port tells its neighbour, and when.
//!
//! Rule: a PFC frame carries every priority now in XOFF with the pause time, and time 0 for those that left XOFF since
//! the last frame; several changes in one turn go in one frame.
//! - XOFF is repeated, for as long as it lasts, after a third of the pause time: before half of it has passed, with room for a
//!   loop that comes late. The pause time is reckoned at the fastest speed at which the neighbour may read our quanta: that of the
//!   link, or of the port, whichever is more.
//! - A frame of a priority in XOFF that comes in when the neighbour must have heard long since ([`PortSettings::response_ns`]) says
//!   that it reads our quanta faster still: XOFF is repeated at once, and from then on, until nothing is in XOFF, after half of
//!   the time that the pause seems to have lasted.
//! - XON is repeated once, should the first have been lost.
//! - What has not left the port yet is not repeated, so that PFC never fills a slow port.
//!
//! Source: docs/law.md, "PFC sent"; IEEE 802.1Q-2022 36.1.3.2 (PFC initiation).

use crate::counters::PfcCount;
use crate::pfc_received::quanta_ns;
use crate::settings::PortSettings;
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};
use wire::pause::Pfc;
use wire::set::Set8;

/// XON is repeated so much later.
const XON_AGAIN_NS: Nanos = 1_000_000;
/// Frames of PFC that may be on their way out of a port at once, should its state change again and again meanwhile.
pub const MAX_IN_FLIGHT: u8 = 4;
/// However fast a neighbour reads quanta, XOFF is not repeated more often.
const SHORTEST_REFRESH_NS: Nanos = 50_000;

/// What of a port's settings its PFC goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    pause_quanta: u16,
    refresh_ns: Nanos,
    response_ns: Nanos,
}

impl Timing {
    /// The timing of a port with these settings.
    pub fn of(settings: &PortSettings) -> Self {
        let fastest_bps = settings.pause_speed_bps().max(settings.link_speed_bps.unwrap_or(0));
        Self {
            pause_quanta: settings.pfc.pause_quanta,
            refresh_ns: quanta_ns(settings.pfc.pause_quanta, fastest_bps) / 3,
            response_ns: settings.response_ns,
        }
    }

    /// How long after a PFC frame the next one is due, as long as something is in XOFF.
    pub fn refresh_ns(&self) -> Nanos {
        self.refresh_ns
    }
}

/// The PFC that one port sends.
#[derive(Debug, Serialize, Deserialize)]
pub struct PfcSender {
    timing: Timing,
    /// Priorities that are in XOFF.
    xoff: Set8,
    /// Those that the neighbour was last told of.
    announced: Set8,
    /// Those whose XON is to be repeated.
    xon_again: Set8,
    /// Frames handed out that have not left the port yet.
    in_flight: u8,
    sent_at: Instant,
    /// When XOFF, or XON, is to be repeated.
    repeat_at: Instant,
    /// As in `timing`, or what the neighbour has taught us since something is in XOFF.
    refresh_ns: Nanos,
    count: PfcCount,
}

impl PfcSender {
    /// Nothing in XOFF.
    pub fn new(timing: Timing) -> Self {
        Self {
            timing,
            xoff: Set8::EMPTY,
            announced: Set8::EMPTY,
            xon_again: Set8::EMPTY,
            in_flight: 0,
            sent_at: Instant::default(),
            repeat_at: Instant::NEVER,
            refresh_ns: timing.refresh_ns,
            count: PfcCount::default(),
        }
    }

    /// Another pause time, or speed; the neighbour is told at once if it is pausing.
    pub fn reconfigure(&mut self, timing: Timing) {
        if timing != self.timing && !self.announced.is_empty() {
            self.repeat_at = Instant::default();
        }
        (self.timing, self.refresh_ns) = (timing, timing.refresh_ns);
    }

    /// A priority enters or leaves XOFF.
    #[inline]
    pub fn set(&mut self, priority: usize, xoff: bool) {
        self.xoff.set(priority, xoff);
    }

    /// A frame of a priority that is in XOFF came in.
    /// True: the neighbour must be told again.
    pub fn insist(&mut self, priority: usize, now: Instant) -> bool {
        let pause_ns = now.since(self.sent_at);
        let deaf = self.announced.contains(priority) && pause_ns > self.timing.response_ns;
        if deaf {
            self.refresh_ns = self.refresh_ns.min(pause_ns / 2).max(SHORTEST_REFRESH_NS);
            self.repeat_at = self.repeat_at.min(now);
        }
        deaf
    }

    /// Somebody else sent `frames` PFC frames for us, the last one at `at`, with the pause time for `priorities`.
    pub fn told_by_guard(&mut self, priorities: Set8, frames: u64, at: Instant) {
        self.count.frames += frames;
        priorities.into_iter().for_each(|p| self.count.xoff_frames[p] += frames);
        self.announced = self.announced.with(priorities);
        self.sent_at = self.sent_at.max(at);
        self.repeat_at = self.repeat_at.min(at + self.refresh_ns);
    }

    /// When the next frame must leave: at once if something has changed, else when XOFF or XON is to be repeated;
    /// [`Instant::NEVER`]: there is nothing to tell.
    #[inline]
    pub fn next_deadline(&self) -> Instant {
        if self.xoff != self.announced { Instant::default() } else { self.repeat_at }
    }

    /// The frame must leave now.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        self.next_deadline() <= now && !self.is_held_up()
    }

    /// Earlier frames have not left the port yet: a change may follow them at once, a repetition may not.
    #[inline]
    pub fn is_held_up(&self) -> bool {
        self.in_flight >= if self.xoff != self.announced { MAX_IN_FLIGHT } else { 1 }
    }

    /// The frame that is due: the caller sends it now, and says when it has left.
    pub fn send(&mut self, now: Instant) -> Pfc {
        let released = self.announced.without(self.xoff);
        let xon = released.with(self.xon_again).without(self.xoff);
        let enable = self.xoff.with(xon);
        let quanta =
            std::array::from_fn(|p| if self.xoff.contains(p) { self.timing.pause_quanta } else { 0 });
        self.count.frames += 1;
        self.xoff.into_iter().for_each(|p| self.count.xoff_frames[p] += 1);
        xon.into_iter().for_each(|p| self.count.xon_frames[p] += 1);
        (self.announced, self.xon_again) = (self.xoff, released);
        (self.sent_at, self.in_flight) = (now, self.in_flight + 1);
        if self.xoff.is_empty() {
            self.refresh_ns = self.timing.refresh_ns;
        }
        let refresh_at = if self.xoff.is_empty() { Instant::NEVER } else { now + self.refresh_ns };
        let xon_at = if released.is_empty() { Instant::NEVER } else { now + XON_AGAIN_NS };
        self.repeat_at = refresh_at.min(xon_at);
        Pfc { enable: enable.bits(), quanta }
    }

    /// A frame that `send` gave has left the port.
    pub fn sent(&mut self) {
        debug_assert!(self.in_flight > 0, "a PFC frame left that was not sent");
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// PFC frames sent.
    pub fn count(&self) -> PfcCount {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pause time of 300 quanta.
    fn timing(refresh_ns: Nanos) -> Timing {
        Timing { pause_quanta: 300, refresh_ns, response_ns: 300_000 }
    }

    /// (port's speed, link's speed) in Gbit/s → the refresh of 65535 quanta, in µs.
    #[test]
    fn refreshed_for_the_fastest_reading() {
        for (speed, link, refresh_us) in [
            (None, None, 1118), // 10G is assumed
            (Some(1), None, 11_184),
            (Some(1), Some(10), 1118), // the neighbour may go by its link
            (None, Some(40), 279),
            (None, Some(100), 111),
            (Some(100), Some(10), 111),
        ] {
            let mut settings = PortSettings::new("p", speed.map(|speed: u64| speed * 1_000_000_000));
            settings.link_speed_bps = link.map(|link: u64| link * 1_000_000_000);
            assert_eq!(Timing::of(&settings).refresh_ns() / 1000, refresh_us, "{speed:?} on {link:?}");
        }
    }

    /// The neighbour reads our quanta faster than we: its frames come back in the middle of a pause.
    #[test]
    fn frames_that_come_in_spite_of_xoff_are_answered_with_xoff() {
        let mut sender = PfcSender::new(timing(10_000_000));
        let send = |sender: &mut PfcSender, now: u64| {
            let due = sender.is_due(Instant(now));
            if due {
                sender.send(Instant(now));
                sender.sent();
            }
            due
        };
        sender.set(3, true);
        assert!(send(&mut sender, 0));
        assert!(!sender.insist(3, Instant(300_000)), "what was on its way");
        assert!(!sender.insist(5, Instant(900_000)), "another priority");
        assert!(!send(&mut sender, 900_000));
        assert!(sender.insist(3, Instant(1_000_000)) && send(&mut sender, 1_000_000));
        assert!(
            !send(&mut sender, 1_499_999) && send(&mut sender, 1_500_000),
            "half of the time that it lasted"
        );
        sender.set(3, false);
        assert!(send(&mut sender, 1_600_000) && send(&mut sender, 2_600_000), "XON, twice");
        sender.set(3, true);
        assert!(send(&mut sender, 3_000_000) && !send(&mut sender, 12_999_999), "and all begins anew");
        assert!(send(&mut sender, 13_000_000));
    }

    #[test]
    fn what_has_not_left_is_not_repeated() {
        let mut sender = PfcSender::new(timing(100));
        sender.set(3, true);
        sender.send(Instant(0));
        assert!(!sender.is_due(Instant(1000)), "the first is still on its way out");
        for n in 1..MAX_IN_FLIGHT {
            sender.set(5, n % 2 == 1);
            assert!(sender.is_due(Instant(1000)), "but a change is told");
            sender.send(Instant(1000));
        }
        sender.set(5, MAX_IN_FLIGHT % 2 == 1);
        assert!(!sender.is_due(Instant(2000)), "as long as there is room");
        sender.sent();
        assert!(sender.is_due(Instant(2000)));
    }

    /// A guard has paused the neighbour while nobody was at home; now XON is due, or XOFF goes on being refreshed.
    #[test]
    fn what_a_guard_told_counts_as_told() {
        let priorities: Set8 = [3, 4].into_iter().collect();
        let mut sender = PfcSender::new(timing(100));
        sender.told_by_guard(priorities, 5, Instant(1000));
        sender.set(4, true);
        assert!(sender.is_due(Instant(1001)));
        let pfc = sender.send(Instant(1001));
        assert_eq!((pfc.enable, pfc.quanta[3], pfc.quanta[4]), (0b1_1000, 0, 300));
        assert_eq!(
            (sender.count().frames, sender.count().xoff_frames[3], sender.count().xoff_frames[4]),
            (6, 5, 6)
        );
    }

    /// A life of two priorities: (time, change) → the frame sent at that time, if one is due.
    #[test]
    fn changes_are_told_at_once_and_refreshed_before_half_the_time() {
        let mut sender = PfcSender::new(timing(100));
        let mut at = |now, changes: &[(usize, bool)]| {
            for &(priority, xoff) in changes {
                sender.set(priority, xoff);
            }
            sender.is_due(Instant(now)).then(|| {
                let pfc = sender.send(Instant(now));
                sender.sent();
                (pfc.enable, pfc.quanta[3], pfc.quanta[5])
            })
        };
        assert_eq!(at(0, &[]), None);
        assert_eq!(at(10, &[(3, true)]), Some((0b0000_1000, 300, 0)));
        assert_eq!(at(109, &[]), None);
        assert_eq!(at(110, &[]), Some((0b0000_1000, 300, 0)), "refreshed after a third of the pause time");
        assert_eq!(
            at(120, &[(5, true)]),
            Some((0b0010_1000, 300, 300)),
            "one frame carries all that is in XOFF"
        );
        assert_eq!(at(150, &[(3, false)]), Some((0b0010_1000, 0, 300)), "XON is time 0, the other goes on");
        assert_eq!(at(151, &[]), None);
        assert_eq!(at(250, &[(3, true), (5, false)]), Some((0b0010_1000, 300, 0)), "two changes, one frame");
        assert_eq!(at(260, &[(3, false)]), Some((0b0010_1000, 0, 0)), "and the XON of 5 once more");
        assert_eq!(at(1_000_000, &[]), None, "after XON, silence");
        assert_eq!(
            at(1_000_001, &[(3, true), (3, false)]),
            None,
            "what came and went in one turn is not told"
        );
        assert_eq!(at(1_000_260, &[]), Some((0b0000_1000, 0, 0)), "XON is repeated once");
        assert_eq!(at(1_000_000_000, &[]), None, "and then never again");
        assert_eq!(
            (sender.count().frames, sender.count().xoff_frames[3], sender.count().xon_frames[3]),
            (7, 4, 3)
        );
    }
}
