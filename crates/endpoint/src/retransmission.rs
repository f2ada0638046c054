//! The frames of a flow that are not acknowledged, and which of them are sent again.
//!
//! Rule: the receiver acknowledges every frame, with the number that it expects next. What is taken
//! to be lost depends on the kind of retransmission:
//!
//! - go-back-N: the receiver discards a frame that does not have the expected number, and reports
//!   the first of them (NAK). The sender repeats everything from the expected number on.
//! - selective: the receiver keeps it, and the sender repeats only what is lost: a frame is, when
//!   one is acknowledged that was sent three or more transmissions after it. A single
//!   acknowledgment is enough, and repetitions count as transmissions, too.
//!
//! An acknowledgment does not tell which transmission of a frame arrived. One that comes sooner
//! after the last than the shortest round-trip time is of an earlier one, and tells nothing about
//! losses. One that comes later is taken to be of the last.
//!
//! If nothing new is acknowledged for the timeout, all that was sent is taken to be lost. Each
//! timeout in a row doubles the time, up to 64 times.
//!
//! Sources: InfiniBand Architecture Specification volume 1, 9.7.5 (acknowledgments, one NAK for
//! each sequence error); M. Mathis, J. Mahdavi, "Forward Acknowledgement: Refining TCP Congestion
//! Control" (SIGCOMM 1996) (the distance to the last one that arrived, not the number of those that
//! did, as RFC 6675 counts); RFC 8985, section 6.2 (in the order of transmission, so that
//! repetitions are recognized as lost, too; the shortest round-trip time, steps 1 and 2. Its
//! threshold is a time, ours a distance); RFC 6298, section 5 (timer).

use std::collections::{BTreeSet, VecDeque};

use switch::{Instant, Nanos};

/// Transmissions from a frame that is taken to be lost to an acknowledged one.
const LATER_FRAMES: u64 = 3;
/// The most doublings of the timeout.
const MAX_BACKOFF: u32 = 6;

/// Which frames are sent again after a loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Retransmission {
    /// The lost frames.
    #[default]
    Selective,
    /// All frames from the first lost one on.
    GoBackN,
}

/// An acknowledgment, as its sender receives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledgment {
    /// The number that the receiver expects next: all frames before it have arrived.
    pub expected: u64,
    /// The frame that is acknowledged.
    pub number: u64,
    /// True if the receiver has discarded that frame, and this is the first since `expected`.
    pub is_nak: bool,
}

/// What an acknowledgment changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AckOutcome {
    /// Bytes of frames that are acknowledged for the first time.
    pub acked_bytes: u64,
    /// Time since the acknowledged frame was sent; `None` if it was sent more than once (Karn's
    /// rule, RFC 6298 section 3), or acknowledged before.
    pub rtt_ns: Option<Nanos>,
    /// The first frame that is taken to be lost since.
    pub lost: Option<u64>,
}

/// The unacknowledged frames of a flow.
#[derive(Debug, Clone)]
pub struct SendWindow {
    retransmission: Retransmission,
    timeout_ns: Nanos,
    /// Number of the first of `frames`: all before it are acknowledged.
    first: u64,
    frames: VecDeque<SentFrame>,
    /// Frames in the order of their transmissions: its number among them, and the frame's.
    transmissions: VecDeque<(u64, u64)>,
    /// Frames that are to be sent again.
    lost: BTreeSet<u64>,
    in_flight_bytes: u64,
    sent: u64,
    /// The shortest round-trip time of frames that were sent once.
    min_rtt_ns: Option<Nanos>,
    expires_at: Instant,
    backoff: u32,
    retransmitted_frames: u64,
    timeouts: u64,
}

#[derive(Debug, Clone, Copy)]
struct SentFrame {
    len: u16,
    /// Number of its last transmission.
    transmission: u64,
    sent_at: Instant,
    /// Times that it was sent again.
    repetitions: u32,
    state: FrameState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameState {
    InFlight,
    Lost,
    Acked,
}

impl SendWindow {
    /// Returns the window of a flow that has not sent anything.
    pub fn new(retransmission: Retransmission, timeout_ns: Nanos) -> Self {
        Self {
            retransmission,
            timeout_ns,
            first: 0,
            frames: VecDeque::new(),
            transmissions: VecDeque::new(),
            lost: BTreeSet::new(),
            in_flight_bytes: 0,
            sent: 0,
            min_rtt_ns: None,
            expires_at: Instant::NEVER,
            backoff: 0,
            retransmitted_frames: 0,
            timeouts: 0,
        }
    }

    /// Accounts the next new frame, of `len` bytes, which is sent now.
    pub fn send_new(&mut self, len: u16, now: Instant) {
        let number = self.first + self.frames.len() as u64;
        let (sent_at, state) = (now, FrameState::InFlight);
        let frame = SentFrame { len, transmission: self.sent, sent_at, repetitions: 0, state };
        self.frames.push_back(frame);
        self.transmitted(number, len, now);
    }

    /// Takes the first lost frame, which is sent again now. Returns its number and length.
    pub fn send_lost(&mut self, now: Instant) -> Option<(u64, u16)> {
        let number = self.lost.pop_first()?;
        let transmission = self.sent;
        let frame = self.frame_mut(number)?;
        *frame = SentFrame {
            transmission,
            sent_at: now,
            repetitions: frame.repetitions + 1,
            state: FrameState::InFlight,
            len: frame.len,
        };
        let len = frame.len;
        self.retransmitted_frames += 1;
        self.transmitted(number, len, now);
        Some((number, len))
    }

    fn transmitted(&mut self, number: u64, len: u16, now: Instant) {
        if self.retransmission == Retransmission::Selective {
            self.transmissions.push_back((self.sent, number));
        }
        self.sent += 1;
        self.in_flight_bytes += u64::from(len);
        if self.expires_at == Instant::NEVER {
            self.restart_timer(now);
        }
    }

    fn restart_timer(&mut self, now: Instant) {
        self.expires_at = now + (self.timeout_ns << self.backoff);
    }

    /// Returns how often an unacknowledged frame was sent again; 0 for any other.
    pub fn repetitions(&self, number: u64) -> u32 {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.frames.get(index)).map_or(0, |frame| frame.repetitions)
    }

    fn frame_mut(&mut self, number: u64) -> Option<&mut SentFrame> {
        self.frames.get_mut(number.checked_sub(self.first)? as usize)
    }

    /// Handles an acknowledgment.
    pub fn acknowledge(&mut self, ack: Acknowledgment, now: Instant) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        let acked = self.frame_mut(ack.number).filter(|_| !ack.is_nak).copied();
        let is_first = |frame: &SentFrame| frame.state == FrameState::InFlight && frame.repetitions == 0;
        outcome.rtt_ns = acked.filter(is_first).map(|frame| now.0.saturating_sub(frame.sent_at.0));
        self.min_rtt_ns = [self.min_rtt_ns, outcome.rtt_ns].into_iter().flatten().min();
        while self.first < ack.expected && !self.frames.is_empty() {
            outcome.acked_bytes += self.mark_acked(self.first);
            self.frames.pop_front();
            self.first += 1;
        }
        if self.retransmission == Retransmission::Selective {
            outcome.acked_bytes += self.mark_acked(ack.number);
            let acked = acked.filter(|frame| self.is_of_last_transmission(frame, now));
            outcome.lost = acked.and_then(|frame| self.find_lost(frame.transmission));
        } else if ack.is_nak {
            outcome.lost = self.lose_from(ack.expected);
        }
        if outcome.acked_bytes > 0 {
            self.backoff = 0;
            self.restart_timer(now);
        }
        if self.frames.is_empty() {
            (self.expires_at, self.transmissions) = (Instant::NEVER, VecDeque::new());
        }
        outcome
    }

    /// Marks a frame as acknowledged. Returns its bytes, or 0 if it was before.
    fn mark_acked(&mut self, number: u64) -> u64 {
        let Some(frame) = self.frame_mut(number) else { return 0 };
        let (before, len) = (std::mem::replace(&mut frame.state, FrameState::Acked), u64::from(frame.len));
        match before {
            FrameState::Acked => return 0,
            FrameState::InFlight => self.in_flight_bytes -= len,
            FrameState::Lost => {
                self.lost.remove(&number);
            }
        }
        len
    }

    /// False if the acknowledgment of a repeated frame comes too soon for its repetition.
    fn is_of_last_transmission(&self, frame: &SentFrame, now: Instant) -> bool {
        let since_ns = now.0.saturating_sub(frame.sent_at.0);
        frame.repetitions == 0 || self.min_rtt_ns.is_none_or(|min_rtt_ns| since_ns >= min_rtt_ns)
    }

    /// Finds the frames whose last transmission was three or more before an acknowledged one, and
    /// that are in flight still.
    fn find_lost(&mut self, acked_transmission: u64) -> Option<u64> {
        let mut first_lost = None;
        while let Some(&(transmission, number)) = self.transmissions.front()
            && transmission + LATER_FRAMES <= acked_transmission
        {
            self.transmissions.pop_front();
            let is_last = |frame: &mut SentFrame| frame.transmission == transmission;
            if self.frame_mut(number).is_some_and(is_last) && self.lose(number) {
                first_lost = first_lost.or(Some(number));
            }
        }
        first_lost
    }

    /// Takes all frames from `number` on to be lost.
    fn lose_from(&mut self, number: u64) -> Option<u64> {
        let range = number.max(self.first)..self.first + self.frames.len() as u64;
        let mut first_lost = None;
        for number in range {
            if self.lose(number) {
                first_lost = first_lost.or(Some(number));
            }
        }
        first_lost
    }

    /// Takes a frame to be lost if it is in flight.
    fn lose(&mut self, number: u64) -> bool {
        let Some(frame) = self.frame_mut(number).filter(|frame| frame.state == FrameState::InFlight) else {
            return false;
        };
        frame.state = FrameState::Lost;
        let len = u64::from(frame.len);
        self.in_flight_bytes -= len;
        self.lost.insert(number);
        true
    }

    /// Handles the timer, which is due at [`SendWindow::expires_at`]. True if the flow has waited
    /// for the whole timeout: all that is not acknowledged is sent again.
    pub fn expire(&mut self, now: Instant) -> bool {
        if now < self.expires_at {
            return false;
        }
        self.timeouts += 1;
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
        self.transmissions.clear();
        self.lose_from(self.first);
        self.restart_timer(now);
        true
    }

    /// True if a frame is to be sent again.
    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// When the timeout ends; never while everything is acknowledged.
    pub fn expires_at(&self) -> Instant {
        self.expires_at
    }

    /// Bytes of frames that are neither acknowledged nor taken to be lost.
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// Frames from the first unacknowledged one on.
    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// The number of the first frame that is not acknowledged.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Frames that were sent again.
    pub fn retransmitted_frames(&self) -> u64 {
        self.retransmitted_frames
    }

    /// How often nothing new was acknowledged for the timeout.
    pub fn timeouts(&self) -> u64 {
        self.timeouts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Nanos = 1000;
    const TIMEOUT: Nanos = 100 * US;

    fn sent(retransmission: Retransmission, frames: u64) -> SendWindow {
        let mut window = SendWindow::new(retransmission, TIMEOUT);
        (0..frames).for_each(|n| window.send_new(1000, Instant(n * US)));
        window
    }

    fn ack(expected: u64, number: u64) -> Acknowledgment {
        Acknowledgment { expected, number, is_nak: false }
    }

    fn repeated(window: &mut SendWindow, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| window.send_lost(now)).map(|(number, _)| number).collect()
    }

    #[test]
    fn acknowledged_frames_leave_the_window() {
        let mut window = sent(Retransmission::Selective, 4);
        let outcome = window.acknowledge(ack(1, 0), Instant(10 * US));
        assert_eq!(outcome, AckOutcome { acked_bytes: 1000, rtt_ns: Some(10 * US), lost: None });
        assert_eq!((window.in_flight_bytes(), window.frames(), window.first()), (3000, 3, 1));
        assert_eq!(window.expires_at(), Instant(10 * US + TIMEOUT), "progress restarts the timer");
        let outcome = window.acknowledge(ack(4, 3), Instant(20 * US));
        assert_eq!((outcome.acked_bytes, outcome.rtt_ns), (3000, Some(17 * US)));
        assert_eq!((window.in_flight_bytes(), window.expires_at()), (0, Instant::NEVER));
        assert_eq!(window.acknowledge(ack(4, 3), Instant(30 * US)), AckOutcome::default(), "a copy");
    }

    /// Frame 1 of 6 is lost: the acknowledgments of 2 and 3 do not tell, that of 4 does.
    #[test]
    fn selective_repeats_the_lost_frame_once() {
        let mut window = sent(Retransmission::Selective, 6);
        window.acknowledge(ack(1, 0), Instant(10 * US));
        assert_eq!(window.acknowledge(ack(1, 2), Instant(11 * US)).lost, None);
        assert_eq!(window.acknowledge(ack(1, 3), Instant(12 * US)).lost, None);
        assert_eq!(window.acknowledge(ack(1, 4), Instant(13 * US)).lost, Some(1));
        assert_eq!(window.in_flight_bytes(), 1000, "frame 5");
        assert_eq!(repeated(&mut window, Instant(14 * US)), [1]);
        assert_eq!(window.acknowledge(ack(1, 5), Instant(15 * US)).lost, None);
        let last = window.acknowledge(ack(6, 1), Instant(24 * US));
        assert_eq!((last.acked_bytes, last.rtt_ns), (1000, None), "Karn's rule");
        assert_eq!((window.retransmitted_frames(), window.timeouts(), window.frames()), (1, 0, 0));
    }

    /// A single acknowledgment tells, if it is of the third transmission after the lost one.
    #[test]
    fn the_distance_counts() {
        let mut window = sent(Retransmission::Selective, 6);
        assert_eq!(window.acknowledge(ack(0, 2), Instant(10 * US)).lost, None);
        assert_eq!(window.acknowledge(ack(0, 4), Instant(11 * US)).lost, Some(0));
        assert_eq!(repeated(&mut window, Instant(12 * US)), [0, 1]);
    }

    /// Frames 1 to 4 arrive, but their acknowledgments are late, and all are sent again in vain.
    /// That of frame 4 comes 1 us after its repetition, when no round trip takes less than 10: it
    /// is of the original. If it came later, it would show that the repetition of frame 1 is lost.
    #[test]
    fn an_acknowledgment_of_an_original_shows_nothing_about_repetitions() {
        for (after_us, lost) in [(1, None), (10, Some(1))] {
            let mut window = sent(Retransmission::Selective, 1);
            window.acknowledge(ack(1, 0), Instant(10 * US));
            (0..4).for_each(|n| window.send_new(1000, Instant((11 + n) * US)));
            assert!(window.expire(window.expires_at()));
            assert_eq!(repeated(&mut window, Instant(200 * US)), [1, 2, 3, 4]);
            let outcome = window.acknowledge(ack(1, 4), Instant((200 + after_us) * US));
            assert_eq!((outcome.acked_bytes, outcome.lost), (1000, lost), "{after_us}");
        }
    }

    /// The repetition of frame 0 is lost, too: three frames sent after it tell that.
    #[test]
    fn a_lost_repetition_is_repeated() {
        let mut window = sent(Retransmission::Selective, 4);
        window.acknowledge(ack(0, 3), Instant(10 * US));
        assert_eq!(repeated(&mut window, Instant(11 * US)), [0]);
        (4..7).for_each(|n| window.send_new(1000, Instant((8 + n) * US)));
        for number in [1, 2, 4, 5] {
            assert_eq!(window.acknowledge(ack(0, number), Instant(20 * US)).lost, None);
        }
        assert_eq!(window.acknowledge(ack(0, 6), Instant(21 * US)).lost, Some(0));
    }

    #[test]
    fn go_back_n_repeats_everything_from_the_expected_frame_on() {
        let mut window = sent(Retransmission::GoBackN, 6);
        window.acknowledge(ack(1, 0), Instant(10 * US));
        let nak = Acknowledgment { expected: 1, number: 2, is_nak: true };
        assert_eq!(window.acknowledge(nak, Instant(12 * US)).lost, Some(1));
        assert_eq!((window.in_flight_bytes(), window.has_lost()), (0, true));
        assert_eq!(repeated(&mut window, Instant(13 * US)), [1, 2, 3, 4, 5]);
        assert_eq!(window.acknowledge(ack(6, 5), Instant(30 * US)).acked_bytes, 5000);
        assert_eq!(window.retransmitted_frames(), 5);
    }

    #[test]
    fn timeouts_double_until_something_is_acknowledged() {
        let mut window = sent(Retransmission::Selective, 2);
        assert!(!window.expire(Instant(TIMEOUT - 1)));
        assert!(window.expire(Instant(TIMEOUT)));
        assert_eq!(repeated(&mut window, Instant(TIMEOUT)), [0, 1]);
        assert_eq!(window.expires_at(), Instant(3 * TIMEOUT));
        assert!(window.expire(Instant(3 * TIMEOUT)));
        assert_eq!(window.expires_at(), Instant(7 * TIMEOUT));
        assert_eq!(repeated(&mut window, Instant(3 * TIMEOUT)), [0, 1]);
        window.acknowledge(ack(1, 0), Instant(4 * TIMEOUT));
        assert_eq!((window.expires_at(), window.timeouts()), (Instant(5 * TIMEOUT), 2));
    }
}
