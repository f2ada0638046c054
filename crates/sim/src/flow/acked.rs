//! The sender's side of acknowledgments: what is not acknowledged, when it is sent again, and how
//! much the congestion control of the flow permits.

use endpoint::feedback::{AckSample, FlowPath, HopRecord};
use endpoint::retransmission::{Acknowledgment, SendWindow};
use endpoint::transport::Transport;

use crate::event_queue::{Event, Queue};
use crate::packet::{AckContent, nearest_number};
use crate::scenario::AckSettings;
use crate::time::{NEVER, Picos, instant, picos};

/// The most frames of a flow from the first unacknowledged one on, far fewer than an
/// acknowledgment's numbers tell apart before and behind it.
pub(crate) const MAX_UNACKED_FRAMES: usize = 1 << 16;

/// The state of a flow whose frames are acknowledged.
#[derive(Debug)]
pub(crate) struct AckedSender {
    pub(crate) window: SendWindow,
    transport: Option<Transport>,
    frame_bytes: u64,
    /// When the next event of the timer is planned; [`NEVER`] if there is none.
    timer_at: Picos,
}

impl AckedSender {
    pub(crate) fn new(settings: &AckSettings, path: &FlowPath) -> Self {
        Self {
            window: SendWindow::new(settings.retransmission, settings.timeout_ns),
            transport: settings.transport.map(|settings| Transport::new(settings, path)),
            frame_bytes: path.frame_bytes.into(),
            timer_at: NEVER,
        }
    }

    /// True if the window has room for a frame.
    pub(crate) fn may_send(&self) -> bool {
        let in_flight = self.window.in_flight_bytes();
        let limit = self.transport.as_ref().map_or(u64::MAX, Transport::window_bytes);
        in_flight == 0 || in_flight + self.frame_bytes <= limit
    }

    /// True if another frame may be unacknowledged.
    pub(crate) fn may_send_new(&self) -> bool {
        self.window.frames() < MAX_UNACKED_FRAMES
    }

    /// The rate at which frames are to be spaced, if the congestion control has one.
    pub(crate) fn pacing_bps(&self) -> Option<u64> {
        let bps = self.transport.as_ref().and_then(Transport::pacing_bps)?;
        Some((bps as u64).max(1))
    }

    /// True if frames that were held back may catch up with the rate: not with a window below one
    /// frame, which permits a frame per spacing and no more.
    pub(crate) fn may_burst(&self) -> bool {
        self.transport.as_ref().is_none_or(|transport| transport.window_bytes() >= self.frame_bytes)
    }

    /// Handles an acknowledgment of a flow whose next new frame is `next_number`.
    pub(crate) fn acknowledge(&mut self, ack: &AckContent, hops: &[HopRecord], next_number: u64, now: Picos) {
        let now = instant(now);
        let limited = !self.may_send();
        let [expected, number] = [ack.expected, ack.number].map(|low| self.expand(low));
        let received = Acknowledgment { expected, number, is_nak: ack.is_nak };
        let outcome = self.window.acknowledge(received, now);
        let Some(transport) = &mut self.transport else { return };
        let (marked, acked_bytes, rtt_ns) = (ack.marked, outcome.acked_bytes, outcome.rtt_ns);
        let sample = AckSample { now, number, next_number, acked_bytes, marked, rtt_ns, limited, hops };
        transport.on_ack(&sample);
        if let Some(lost) = outcome.lost {
            transport.on_loss(lost, next_number, now);
        }
    }

    /// Returns the number nearest to the unacknowledged frames that has these lower bits.
    pub(crate) fn expand(&self, low: u32) -> u64 {
        nearest_number(low, self.window.first())
    }

    /// Plans the timer of flow `flow`, of the host of node `node`, unless its event comes before.
    pub(crate) fn plan_timeout(&mut self, flow: usize, node: usize, queue: &mut Queue) {
        let expires_at = picos(self.window.expires_at());
        if expires_at < self.timer_at {
            self.timer_at = expires_at;
            queue.schedule(expires_at, node, Event::Timeout(flow));
        }
    }

    /// Handles an event of the timer. True if the timeout has ended.
    pub(crate) fn expire(&mut self, now: Picos) -> bool {
        if self.timer_at != now {
            return false;
        }
        self.timer_at = NEVER;
        let is_over = self.window.expire(instant(now));
        if let (true, Some(transport)) = (is_over, &mut self.transport) {
            transport.on_timeout(instant(now));
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use endpoint::retransmission::Retransmission;

    /// Numbers of 24 bits, around their overflow.
    #[test]
    #[cfg_attr(miri, ignore = "sixteen million numbers")]
    fn acknowledgments_have_the_lower_bits() {
        let path = FlowPath { max_bps: 1, base_rtt_ns: 1, hops: 0, frame_bytes: 64 };
        let settings = AckSettings {
            priority: 0,
            dscp: 0,
            retransmission: Retransmission::Selective,
            timeout_ns: 1,
            transport: None,
        };
        const NUMBERS: u64 = 1 << 24;
        let mut sender = AckedSender::new(&settings, &path);
        assert_eq!(sender.expand(5), 5);
        for number in 0..NUMBERS + 10 {
            sender.window.send_new(64, instant(0));
            let ack = AckContent {
                expected: (number + 1) as u32 & 0x00ff_ffff,
                number: number as u32 & 0x00ff_ffff,
                repetition: 0,
                marked: false,
                is_nak: false,
            };
            if number % 1000 == 0 || number + 20 > NUMBERS {
                sender.acknowledge(&ack, &[], number + 1, 0);
                assert_eq!(sender.window.first(), number + 1);
            }
        }
        assert_eq!([3, 0x00ff_fff0].map(|low| sender.expand(low)), [NUMBERS + 3, NUMBERS - 16]);
    }
}
