//! The transmit half of a host: eight queues, one per priority, their pauses, and the scheduler.
//!
//! Rule: a queue serves its flows in the order in which their frames became due (it is a FIFO).
//! Between the queues, deficit round robin applies: every priority that has frames to send and is
//! not paused gets the same share of the host's speed in bytes, so that no priority can starve
//! another. A paused queue loses its turn and accumulates no credit. Source: IEEE 802.1Q-2022 36
//! (PFC at an end station); M. Shreedhar and G. Varghese, "Efficient fair queueing using deficit
//! round robin" (1995).

use crate::pacer::Pacer;
use endpoint::dcqcn::Dcqcn;
use endpoint::pause::PauseTimer;
use switch::settings::{PRIORITIES, Rate};
use switch::token_bucket::TokenBucket;
use switch::{Instant, Nanos};
use wire::bitset::Set8;

/// Bytes that a queue may send per round; at least the longest frame.
const QUANTUM_BYTES: u32 = 1514;

/// Frames that become due within this time are sent together, so that a host does not wake for
/// each.
pub const GATHER_NS: Nanos = 200_000;

/// The most idle time for which a host with a speed of its own may catch up.
const BURST_NS: Nanos = 1_000_000;

/// A flow in its queue.
#[derive(Debug, Clone)]
pub struct FlowQueue {
    /// Times at which the frames become due.
    pub pace: Pacer,
    /// Rate reduction by congestion; `None` if the flow does not react.
    pub reaction: Option<Dcqcn>,
    /// 802.1p priority, which selects the queue.
    pub priority: u8,
    /// Bytes of each frame, without FCS.
    pub size_bytes: u16,
}

impl FlowQueue {
    /// Returns when the next frame may leave; `None` if none is left.
    #[inline]
    fn next_due(&self) -> Option<Instant> {
        let due = self.pace.next_due()?;
        Some(self.reaction.as_ref().map_or(due, |reaction| due.max(reaction.free_at())))
    }
}

/// A frame that may leave now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Index of the flow in the order given.
    pub flow: usize,
    /// 802.1p priority of the flow.
    pub priority: u8,
    /// Length in bytes, without FCS.
    pub size_bytes: u16,
}

/// The queues of a host.
#[derive(Debug)]
pub struct Egress {
    flows: Vec<FlowQueue>,
    queues: [Queue; PRIORITIES],
    pauses: [PauseTimer; PRIORITIES],
    /// Priorities whose frames the port takes none of: their queue of the device is full.
    blocked: Set8,
    /// The host's own speed.
    shaper: TokenBucket,
    /// The queue that is being served.
    turn: usize,
    /// Bytes that the queue may send per round.
    turn_bytes: u32,
}

#[derive(Debug, Default)]
struct Queue {
    /// Indices of the queue's flows.
    flows: Vec<usize>,
    /// Bytes left of the current round.
    deficit: u32,
}

impl Egress {
    /// Creates empty queues; `speed_bps` is the host's own speed from `now` on, if it has one.
    pub fn new(speed_bps: Option<u64>, reaction_delay_ns: Nanos, now: Instant) -> Self {
        let burst = |bps: u64| bps.saturating_mul(BURST_NS) / 8_000_000_000;
        let rate = |bps| Rate { bps, burst_bytes: Some(burst(bps)) };
        let mut shaper = TokenBucket::new(speed_bps.map(rate), 0);
        shaper.drain(now);
        Self {
            flows: Vec::new(),
            queues: Default::default(),
            pauses: std::array::from_fn(|_| PauseTimer::new(reaction_delay_ns)),
            blocked: Set8::EMPTY,
            shaper,
            turn: 0,
            turn_bytes: QUANTUM_BYTES,
        }
    }

    /// Adds a flow, the last in the order.
    pub fn add(&mut self, flow: FlowQueue) {
        self.queues[usize::from(flow.priority)].flows.push(self.flows.len());
        self.turn_bytes = self.turn_bytes.max(flow.size_bytes.into());
        self.flows.push(flow);
    }

    /// Handles a pause of `time_ns` (0: XON) that was read for `priority`.
    pub fn receive_pause(&mut self, priority: usize, time_ns: Nanos, now: Instant) {
        self.pauses[priority].receive(time_ns, now);
    }

    /// Sets the priorities that the port takes no frames of.
    pub fn set_blocked(&mut self, priorities: Set8) {
        self.blocked = priorities;
    }

    /// Advances the time to `now`: pauses begin and end, and flows that are too far behind discard
    /// their oldest frames.
    pub fn advance(&mut self, now: Instant) {
        for pause in &mut self.pauses {
            pause.expire(now);
        }
        for flow in &mut self.flows {
            flow.pace.limit_backlog(now);
            // A flow that has ended keeps its last rate, for the report.
            if let Some(reaction) = flow.reaction.as_mut().filter(|_| flow.pace.next_due().is_some()) {
                reaction.advance(now);
            }
        }
    }

    /// Takes the next frame, if one may leave. State as of the last `advance`, which was at `now`.
    #[inline]
    pub fn next(&mut self, now: Instant) -> Option<Departure> {
        if self.shaper.has_rate() && !self.shaper.is_free(now) {
            return None;
        }
        // One round, and back to the queue that was short of bytes for its head.
        for _ in 0..=PRIORITIES {
            if let Some(departure) = self.take_from(self.turn, now) {
                return Some(departure);
            }
            self.turn = (self.turn + 1) % PRIORITIES;
            self.queues[self.turn].deficit += self.turn_bytes;
        }
        None
    }

    #[inline]
    fn take_from(&mut self, queue: usize, now: Instant) -> Option<Departure> {
        let is_held = self.pauses[queue].is_paused() || self.blocked.contains(queue);
        let head = if is_held { None } else { self.head(queue) };
        let Some((due, flow)) = head.filter(|(due, _)| *due <= now) else {
            self.queues[queue].deficit = 0;
            return None;
        };
        debug_assert!(due <= now);
        let FlowQueue { pace, reaction, priority, size_bytes } = &mut self.flows[flow];
        let left = self.queues[queue].deficit.checked_sub(u32::from(*size_bytes))?;
        self.queues[queue].deficit = left;
        pace.take();
        if let Some(reaction) = reaction {
            reaction.take(*size_bytes, now);
        }
        self.shaper.take(*size_bytes, now);
        Some(Departure { flow, priority: *priority, size_bytes: *size_bytes })
    }

    /// Handles a CNP for a flow.
    pub fn cut(&mut self, flow: usize, now: Instant) {
        if let Some(reaction) = self.flows.get_mut(flow).and_then(|flow| flow.reaction.as_mut()) {
            reaction.cut(now);
        }
    }

    /// The reaction of a flow to congestion, if it reacts.
    pub fn reaction(&self, flow: usize) -> Option<&Dcqcn> {
        self.flows.get(flow)?.reaction.as_ref()
    }

    /// Returns the queue's first frame: when it is due, and its flow.
    #[inline]
    fn head(&self, queue: usize) -> Option<(Instant, usize)> {
        let heads = self.queues[queue].flows.iter();
        heads.filter_map(|&flow| Some((self.flows[flow].next_due()?, flow))).min()
    }

    /// Returns when the host should next send, gathering the frames of `GATHER_NS`; `None` if
    /// nothing will ever be due, or only for full queues. State as of the last `advance`, which was
    /// at `now`.
    pub fn next_send(&self, now: Instant) -> Option<Instant> {
        let due = (0..PRIORITIES).filter(|&queue| !self.blocked.contains(queue)).filter_map(|queue| {
            let (due, flow) = self.head(queue)?;
            let gather = GATHER_NS.saturating_sub(self.flows[flow].pace.interval_ns());
            let open = self.pauses[queue].ends_at().unwrap_or_default();
            Some((due + gather).max(open))
        });
        let is_shut = self.shaper.has_rate() && !self.shaper.is_free(now);
        let open = if is_shut { self.shaper.free_at() + GATHER_NS } else { Instant::default() };
        Some(due.min()?.max(open))
    }

    /// True if every offered frame has been sent or discarded.
    pub fn is_finished(&self) -> bool {
        self.flows.iter().all(|flow| flow.pace.next_due().is_none())
    }

    /// The frames that the rate of `flow` has offered so far; 0 if the flow has not been added yet.
    pub fn offered(&self, flow: usize, now: Instant) -> u64 {
        self.flows.get(flow).map_or(0, |flow| flow.pace.offered(now))
    }

    /// True if no frame of `priority` may leave. State as of the last `advance`.
    pub fn is_paused(&self, priority: usize) -> bool {
        self.pauses[priority].is_paused()
    }

    /// Nanoseconds for which `priority` has been paused.
    pub fn paused_ns(&self, priority: usize, now: Instant) -> Nanos {
        self.pauses[priority].paused_ns(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use endpoint::dcqcn::DcqcnSettings;

    const SECOND: Nanos = 1_000_000_000;
    const MILLISECOND: Nanos = 1_000_000;

    fn flow(priority: u8, size_bytes: u16, rate_bps: u64) -> FlowQueue {
        let pace = Pacer::new(size_bytes, rate_bps, Instant(0), Instant(SECOND), None, 1000);
        FlowQueue { pace, reaction: None, priority, size_bytes }
    }

    fn egress(flows: Vec<FlowQueue>, speed_bps: Option<u64>, reaction_delay_ns: Nanos) -> Egress {
        let mut egress = Egress::new(speed_bps, reaction_delay_ns, Instant(0));
        flows.into_iter().for_each(|flow| egress.add(flow));
        egress
    }

    /// Sends all that may leave in iterations of `turn_ns` until `stop`. Returns the bytes of each
    /// flow.
    fn run(egress: &mut Egress, from: Instant, stop: Instant, turn_ns: Nanos) -> Vec<u64> {
        let mut bytes = vec![0; egress.flows.len()];
        let mut now = from;
        while now < stop {
            egress.advance(now);
            while let Some(departure) = egress.next(now) {
                assert!(!egress.is_paused(usize::from(departure.priority)));
                bytes[departure.flow] += u64::from(departure.size_bytes);
            }
            now = now + turn_ns;
        }
        bytes
    }

    #[test]
    fn priorities_share_the_speed_by_bytes_whatever_their_sizes() {
        let flows =
            vec![flow(0, 64, 1_000_000_000), flow(3, 1514, 1_000_000_000), flow(7, 700, 1_000_000_000)];
        let mut egress = egress(flows, Some(300_000_000), 0);
        let bytes = run(&mut egress, Instant(0), Instant(SECOND), 10_000);
        let share = 300_000_000 / 8 / 3;
        for (flow, bytes) in bytes.iter().enumerate() {
            // The difference is at most one round of the queue and one iteration of the loop.
            assert!(bytes.abs_diff(share) <= 3 * 1514, "flow {flow}: {bytes} of {share}");
        }
    }

    /// The share that one priority does not use goes to the others.
    #[test]
    fn a_slow_flow_leaves_the_rest_to_the_others() {
        let flows = vec![flow(1, 1000, 10_000_000), flow(2, 1000, 1_000_000_000)];
        let mut egress = egress(flows, Some(100_000_000), 0);
        let bytes = run(&mut egress, Instant(0), Instant(SECOND), 10_000);
        assert_eq!(bytes[0], 10_000_000 / 8);
        assert!(bytes[1].abs_diff(90_000_000 / 8) <= 2000, "{bytes:?}");
    }

    /// Two flows of one priority leave in the order in which their frames became due.
    #[test]
    fn a_queue_is_first_in_first_out() {
        let flows = vec![flow(3, 100, 1_000_000), flow(3, 100, 4_000_000)];
        let mut egress = egress(flows, None, 0);
        let now = Instant(2 * 800_000); // 3 frames of flow 0 are due, 9 of flow 1
        egress.advance(now);
        let order: Vec<usize> = std::iter::from_fn(|| egress.next(now)).map(|d| d.flow).collect();
        assert_eq!(order, [0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1]);
    }

    /// A pause stops its priority and no other. Frames that waited leave at once when it ends.
    #[test]
    fn a_pause_stops_its_priority_alone() {
        let flows = vec![flow(3, 1000, 8_000_000), flow(5, 1000, 8_000_000)]; // a frame a millisecond
        let mut egress = egress(flows, None, 0);
        let at = |ms| Instant(ms * MILLISECOND);
        egress.receive_pause(3, 50 * MILLISECOND, at(0));
        assert_eq!(run(&mut egress, at(0), at(50), 100_000), [0, 50_000]);
        assert_eq!(run(&mut egress, at(50), at(51), 100_000), [51_000, 1_000]);
        egress.receive_pause(3, 1000 * MILLISECOND, at(51));
        assert_eq!(run(&mut egress, at(51), at(60), 100_000), [0, 9_000]);
        egress.receive_pause(3, 0, at(60));
        assert_eq!(run(&mut egress, at(60), at(61), 100_000), [10_000, 1_000]);
        assert_eq!(egress.paused_ns(3, at(61)), 59 * MILLISECOND);
        assert_eq!(egress.paused_ns(5, at(61)), 0);
    }

    /// With a reaction delay, frames leave until the instant before the delay has passed, and none
    /// after that.
    #[test]
    fn the_reaction_delay_lets_frames_leave_until_it_has_passed() {
        let mut egress = egress(vec![flow(3, 125, 1_000_000_000)], None, 10_000); // 1 a µs
        egress.receive_pause(3, SECOND, Instant(0));
        let bytes = run(&mut egress, Instant(0), Instant(100_000), 1);
        assert_eq!(bytes, [10 * 125], "frames due at 0 to 9 µs; the one at 10 µs is paused");
    }

    /// After a long pause, at most the backlog leaves, and all offered frames are counted anyway.
    #[test]
    fn a_long_pause_gives_up_the_oldest_frames() {
        let mut egress = egress(vec![flow(3, 125, 1_000_000_000)], None, 0);
        egress.receive_pause(3, 500 * MILLISECOND, Instant(0));
        let paused = run(&mut egress, Instant(0), Instant(500 * MILLISECOND), MILLISECOND);
        assert_eq!(paused, [0]);
        let now = Instant(500 * MILLISECOND);
        assert_eq!(run(&mut egress, now, now + 1, 1), [1000 * 125]);
        assert_eq!(egress.offered(0, now), 500_001);
    }

    /// A flow that received a CNP sends at its reduced rate; the flow beside it is unaffected.
    #[test]
    fn a_cut_slows_its_flow_alone() {
        let mut reacting = flow(3, 1000, 80_000_000); // one each 100 µs
        reacting.reaction = Some(Dcqcn::new(DcqcnSettings::SOFTWARE_LOOP, 80_000_000, Instant(0)));
        let mut egress = egress(vec![reacting, flow(3, 1000, 80_000_000)], None, 0);
        let at = |ms| Instant(ms * MILLISECOND);
        assert_eq!(run(&mut egress, at(0), at(10), 10_000), [100_000; 2]);
        egress.cut(0, at(10));
        egress.cut(1, at(10)); // does not react
        egress.cut(2, at(10)); // an unknown flow
        assert_eq!(egress.reaction(0).map(Dcqcn::rate_bps), Some(40_000_000));
        assert_eq!(run(&mut egress, at(10), at(11), 10_000), [5_000, 10_000], "one each 200 µs");
        assert!(egress.reaction(1).is_none() && egress.reaction(2).is_none());
    }

    /// Frames are gathered over 200 µs at high rates, and leave at their own time at low rates.
    #[test]
    fn the_next_send_gathers_frames_and_waits_for_pauses_and_the_shaper() {
        let table = [
            (flow(3, 1000, 8_000_000), None, 1_000_000),  // one a millisecond
            (flow(3, 1000, 80_000_000), None, 200_000),   // one each 100 µs
            (flow(3, 125, 1_000_000_000), None, 200_000), // one a µs
            (flow(3, 1000, 8_000_000), Some(100_000), 80_200_000), // shut for 80 ms after 1000 bytes
        ];
        for (flow, speed_bps, wake) in table {
            let what = format!("{flow:?} at {speed_bps:?}");
            let mut egress = egress(vec![flow], speed_bps, 0);
            egress.advance(Instant(0));
            while egress.next(Instant(0)).is_some() {}
            assert_eq!(egress.next_send(Instant(0)), Some(Instant(wake)), "{what}");
        }
        let mut paused = egress(vec![flow(3, 1000, 8_000_000)], None, 0);
        paused.receive_pause(3, 70_000_000, Instant(0));
        assert_eq!(paused.next_send(Instant(0)), Some(Instant(70_000_000)));
        assert_eq!(egress(vec![], None, 0).next_send(Instant(0)), None);
    }
}
