//! Which TX queues of a guest are not read: the switch's XOFF, without a frame on a wire.
//!
//! Rule: the switch advertises XOFF to the port as it does to any peer, by a PFC frame, and
//! refreshes it. The port itself honors the frame instead of passing it to the guest: it does not
//! read the queues of the paused priorities until the pause time ends or XON comes. So the pause
//! acts before the next batch, in any guest. Where all traffic uses one queue, a pause of any
//! priority stops it. Source: docs/vhost-user.md, "Backpressure"; IEEE 802.1Q-2022 clause 36.

use switch::Instant;
use wire::pause::{Control, Pfc, decode};

/// Bits of a quantum.
const QUANTUM_BITS: u64 = 512;

/// The pauses of a guest's priorities.
#[derive(Debug)]
pub(crate) struct Pauses {
    /// When the last XOFF of each priority was sent, and its quanta.
    sent: [(Instant, u16); 8],
    is_paused: [bool; 8],
    /// The pause time was over at the last iteration: the switch has had no turn to refresh it.
    is_late: [bool; 8],
    speed_bps: u64,
}

impl Pauses {
    /// Makes the open state of a port whose quanta are those of this speed.
    pub(crate) fn new(speed_bps: u64) -> Self {
        Self {
            sent: [(Instant::default(), 0); 8],
            is_paused: [false; 8],
            is_late: [false; 8],
            speed_bps: speed_bps.max(1),
        }
    }

    /// Honors a frame of the switch, if it is a pause. Returns false if it is another frame.
    #[inline]
    pub(crate) fn take(&mut self, frame: &[u8], now: Instant) -> bool {
        match decode(frame) {
            Ok(Control::Pfc(Pfc { enable, quanta })) => {
                let enabled = (0..8).filter(|p| enable & 1 << p != 0);
                enabled.for_each(|p| self.set(p, quanta[p], now));
            }
            Ok(Control::Pause { quanta }) => (0..8).for_each(|p| self.set(p, quanta, now)),
            _ => return false,
        }
        true
    }

    fn set(&mut self, priority: usize, quanta: u16, now: Instant) {
        (self.is_paused[priority], self.is_late[priority]) = (quanta > 0, false);
        self.sent[priority] = (now, quanta);
    }

    /// Sets the speed of quanta, also of those of the pauses in force: the switch refreshes them by
    /// this speed from now on.
    pub(crate) fn set_speed(&mut self, speed_bps: u64) {
        self.speed_bps = speed_bps.max(1);
    }

    /// Returns when the pause time of a priority is over.
    #[inline]
    fn ends_at(&self, priority: usize) -> Instant {
        let (sent_at, quanta) = self.sent[priority];
        sent_at + u64::from(quanta) * QUANTUM_BITS * 1_000_000_000 / self.speed_bps
    }

    /// Ends pauses whose time was over at the last iteration already. A loop that stalled for
    /// longer than a pause refreshes it in its first iteration, and must not read before that.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant) {
        for priority in 0..8 {
            if self.is_paused[priority] && now >= self.ends_at(priority) {
                self.is_paused[priority] = !self.is_late[priority];
                self.is_late[priority] = self.is_paused[priority];
            }
        }
    }

    /// True if a priority is paused.
    #[inline]
    pub(crate) fn is_paused(&self, priority: usize) -> bool {
        self.is_paused[priority & 7]
    }

    /// True if any priority is paused.
    #[inline]
    pub(crate) fn is_any_paused(&self) -> bool {
        self.is_paused.contains(&true)
    }

    /// Ends all pauses: the peer is another one.
    pub(crate) fn reset(&mut self) {
        (self.is_paused, self.is_late) = ([false; 8], [false; 8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::mac::MacAddr;
    use wire::pause::{FRAME_BYTES, Pause};

    fn pfc(enable: u8, quanta: u16) -> [u8; FRAME_BYTES] {
        let mut frame = [0; FRAME_BYTES];
        Pfc { enable, quanta: [quanta; 8] }.encode(MacAddr([2; 6]), &mut frame);
        frame
    }

    /// At 1 Gbit/s a quantum takes 512 ns.
    #[test]
    fn a_pause_lasts_for_its_quanta_or_until_xon() {
        let mut pauses = Pauses::new(1_000_000_000);
        assert!(pauses.take(&pfc(0b1000, 10), Instant(1000)));
        pauses.advance(Instant(6119));
        assert!(pauses.is_paused(3) && !pauses.is_paused(4) && pauses.is_any_paused());
        pauses.advance(Instant(9000));
        assert!(pauses.is_paused(3), "a loop that stalled has yet to refresh it");
        pauses.advance(Instant(9001));
        assert!(!pauses.is_any_paused());
        assert!(pauses.take(&pfc(0b1000, 10), Instant(10_000)));
        assert!(pauses.take(&pfc(0b1000, 0), Instant(10_001)));
        assert!(!pauses.is_any_paused());
    }

    /// A reload of the speed: the switch refreshes by the new one, so the pause lasts by it.
    #[test]
    fn a_pause_in_force_takes_on_another_speed() {
        let mut pauses = Pauses::new(100_000_000_000);
        assert!(pauses.take(&pfc(0b1000, 10), Instant(1000)));
        pauses.set_speed(1_000_000_000);
        for now in [1100, 1200, 6119] {
            pauses.advance(Instant(now));
            assert!(pauses.is_paused(3), "{now}");
        }
        pauses.advance(Instant(6120));
        pauses.advance(Instant(6121));
        assert!(!pauses.is_paused(3));
    }

    #[test]
    fn a_pause_of_the_link_stops_all_and_data_is_no_pause() {
        let mut pauses = Pauses::new(1);
        let mut frame = [0; FRAME_BYTES];
        Pause { quanta: 1 }.encode(MacAddr([2; 6]), &mut frame);
        assert!(pauses.take(&frame, Instant(0)));
        assert!((0..8).all(|p| pauses.is_paused(p)));
        assert!(!pauses.take(&[0; 60], Instant(0)) && !pauses.take(&[], Instant(0)));
        pauses.reset();
        assert!(!pauses.is_any_paused());
    }
}
