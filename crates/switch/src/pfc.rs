//! Sent PFC: what a port tells its neighbour, and when.
//!
//! Rule: a PFC frame carries every priority now in XOFF with the pause time, and time 0 for those that left XOFF since
//! the last frame; several changes in one turn go in one frame. While anything is in XOFF the frame is repeated after a
//! third of the pause time: before half of it has passed, with room for a loop that comes late.
//! Source: design §4; IEEE 802.1Q-2022 36.1.3.2 (PFC initiation).

use crate::counters::PfcCount;
use crate::pause::quanta_ns;
use crate::settings::PRIORITIES;
use crate::time::{Instant, Nanos};
use wire::pause::Pfc;

/// The PFC that one port sends.
#[derive(Debug)]
pub struct PfcSender {
    pause_quanta: u16,
    refresh_ns: Nanos,
    /// Bit p: priority p is in XOFF.
    wanted: u8,
    /// What the neighbour was last told.
    announced: u8,
    refresh_at: Instant,
    count: PfcCount,
}

impl PfcSender {
    /// Nothing in XOFF.
    pub fn new(pause_quanta: u16, speed_bps: u64) -> Self {
        Self {
            pause_quanta,
            refresh_ns: quanta_ns(pause_quanta, speed_bps) / 3,
            wanted: 0,
            announced: 0,
            refresh_at: Instant::NEVER,
            count: PfcCount::default(),
        }
    }

    /// Another pause time, or speed; the neighbour is told at once if it is pausing.
    pub fn reconfigure(&mut self, pause_quanta: u16, speed_bps: u64) {
        let refresh_ns = quanta_ns(pause_quanta, speed_bps) / 3;
        if (pause_quanta, refresh_ns) != (self.pause_quanta, self.refresh_ns) && self.announced != 0 {
            self.refresh_at = Instant::default();
        }
        (self.pause_quanta, self.refresh_ns) = (pause_quanta, refresh_ns);
    }

    /// A priority enters or leaves XOFF.
    #[inline]
    pub fn set(&mut self, priority: usize, xoff: bool) {
        self.wanted = self.wanted & !(1 << priority) | u8::from(xoff) << priority;
    }

    /// A frame is to be sent now.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        self.wanted != self.announced || self.refresh_at <= now
    }

    /// When the next frame is due if nothing changes; [`Instant::NEVER`] while nothing is in XOFF.
    pub fn next_due(&self) -> Instant {
        if self.wanted != self.announced { Instant::default() } else { self.refresh_at }
    }

    /// The frame that is due: the caller sends it now.
    pub fn send(&mut self, now: Instant) -> Pfc {
        let enable = self.wanted | self.announced;
        let quanta = std::array::from_fn(|p| if self.wanted & (1 << p) != 0 { self.pause_quanta } else { 0 });
        self.count.frames += 1;
        for p in (0..PRIORITIES).filter(|p| enable & (1 << p) != 0) {
            let counter =
                if quanta[p] == 0 { &mut self.count.xon_frames } else { &mut self.count.xoff_frames };
            counter[p] += 1;
        }
        self.announced = self.wanted;
        self.refresh_at = if self.wanted == 0 { Instant::NEVER } else { now + self.refresh_ns };
        Pfc { enable, quanta }
    }

    /// PFC frames sent.
    pub fn count(&self) -> PfcCount {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A life of two priorities: (time, change) → the frame sent at that time, if one is due.
    #[test]
    fn changes_are_told_at_once_and_refreshed_before_half_the_time() {
        let mut sender = PfcSender::new(300, 512_000_000_000); // a quantum is a nanosecond
        let mut at = |now, changes: &[(usize, bool)]| {
            for &(priority, xoff) in changes {
                sender.set(priority, xoff);
            }
            sender.is_due(Instant(now)).then(|| {
                let pfc = sender.send(Instant(now));
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
        assert_eq!(at(260, &[(3, false)]), Some((0b0000_1000, 0, 0)));
        assert_eq!(at(1_000_000, &[]), None, "after XON, silence");
        assert_eq!(
            at(1_000_001, &[(3, true), (3, false)]),
            None,
            "what came and went in one turn is not told"
        );
        assert_eq!(
            (sender.count().frames, sender.count().xoff_frames[3], sender.count().xon_frames[3]),
            (6, 4, 2)
        );
    }
}
