//! The receive half of a host: the frames received of each flow, and their integrity.
//!
//! A flow is (sender's MAC, flow number, run of the sender). Only a frame with a correct check
//! creates a flow, and there are at most [`MAX_FLOWS`], so that no input can grow memory.

use crate::frame::{self, Content, FrameKind, ParseResult};
use crate::report::{FlowReceived, HostReport, Latency};
use crate::sequence_tracker::{ArrivalClass, SequenceTracker};
use hdrhistogram::Histogram;
use std::collections::HashMap;
use switch::{Instant, Nanos};
use wire::MacAddr;
use wire::ethernet::Header;
use wire::ip;

/// The most flows with counters of their own; frames of further flows are counted together. Each
/// flow takes about 200 kB.
pub const MAX_FLOWS: usize = 128;

/// The longest latency that is recorded, in ns; longer ones count as this.
const MAX_LATENCY_NS: u64 = 60_000_000_000;

/// Key of a flow: sender, flow number, run.
type Key = (MacAddr, u32, u32);

/// All received frames.
#[derive(Debug)]
pub struct Receiver {
    mac: MacAddr,
    flows: HashMap<Key, Flow>,
    announcements: u64,
    other: u64,
    corrupted_unattributed: u64,
    flows_refused: u64,
    /// The least time between two CNPs to a flow's sender; `None` if none is sent.
    cnp_interval_ns: Option<Nanos>,
    /// When frames could arrive: a flow that began earlier lost nothing by what came before.
    ready_at: Instant,
}

/// A request of a received frame to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// A frame of this flow arrived marked, and a CNP to its sender is due.
    SendCnp {
        /// The sender of the flow.
        to: MacAddr,
        /// The flow's number at the sender.
        flow: u32,
        /// The sender's run.
        run: u32,
    },
    /// A CNP for this flow of this run arrived.
    Cut {
        /// The flow's number.
        flow: u32,
        /// The run.
        run: u32,
    },
}

#[derive(Debug)]
struct Flow {
    priority: u8,
    sequences: SequenceTracker,
    corrupted: u64,
    bytes: u64,
    /// Bytes of the first frame, which precede the time between first and last arrival.
    first_bytes: u64,
    first_at: Instant,
    last_at: Instant,
    latency: Histogram<u64>,
    worst_latency_ns: u64,
    /// Frames that arrived with a congestion mark (CE).
    ce: u64,
    cnps: u64,
    /// When the next CNP may be sent.
    next_cnp_at: Instant,
}

impl Receiver {
    /// Creates the receiver of the host with address `mac`. It requests at most one CNP per
    /// `cnp_interval_ns` to the sender of a flow (`None`: no CNPs). Its port is open since
    /// `ready_at`.
    pub fn new(mac: MacAddr, cnp_interval_ns: Option<Nanos>, ready_at: Instant) -> Self {
        Self {
            mac,
            flows: HashMap::with_capacity(MAX_FLOWS),
            announcements: 0,
            other: 0,
            corrupted_unattributed: 0,
            flows_refused: 0,
            cnp_interval_ns,
            ready_at,
        }
    }

    /// Handles a received frame other than MAC control; `header` is its header, `None` if it has
    /// none.
    pub fn receive(&mut self, bytes: &[u8], header: Option<&Header>, now: Instant) -> Option<Request> {
        let ours = header.filter(|header| {
            frame::is_ours(bytes, header)
                && (header.dst == self.mac || header.dst.is_group())
                && header.src != self.mac
        });
        let Some(header) = ours else {
            self.other += 1;
            return None;
        };
        match frame::read(bytes, header) {
            ParseResult::Whole(content) if content.kind == FrameKind::Announce => self.announcements += 1,
            ParseResult::Whole(Content { kind: FrameKind::Cnp, flow, run, .. }) => {
                return Some(Request::Cut { flow, run });
            }
            ParseResult::Whole(content) => {
                let marked = ip::ecn(bytes, header) == Some(0b11);
                return self.count(bytes.len() as u64, header, &content, marked, now);
            }
            ParseResult::Corrupted { flow, run } => match self.flows.get_mut(&(header.src, flow, run)) {
                Some(flow) => flow.corrupted += 1,
                None => self.corrupted_unattributed += 1,
            },
        }
        None
    }

    fn count(
        &mut self,
        len: u64,
        header: &Header,
        content: &Content,
        marked: bool,
        now: Instant,
    ) -> Option<Request> {
        let key = (header.src, content.flow, content.run);
        if self.flows.len() >= MAX_FLOWS && !self.flows.contains_key(&key) {
            self.flows_refused += 1;
            return None;
        }
        let ready_at = self.ready_at;
        let flow = self.flows.entry(key).or_insert_with(|| {
            let began_at = content.sent_at.0.saturating_sub(u64::from(content.age_ms) * 1_000_000);
            let missed_frames = if began_at < ready_at.0 { content.sequence } else { 0 };
            Flow::new(len, missed_frames, now)
        });
        flow.priority = header.outer.map_or(0, |tag| tag.pcp);
        flow.last_at = now;
        if flow.sequences.arrive(content.sequence) == ArrivalClass::New {
            flow.bytes += len;
            let latency_ns = now.since(content.sent_at);
            flow.latency.saturating_record(latency_ns);
            flow.worst_latency_ns = flow.worst_latency_ns.max(latency_ns);
        }
        flow.ce += u64::from(marked);
        let interval_ns = self.cnp_interval_ns.filter(|_| marked && now >= flow.next_cnp_at)?;
        flow.next_cnp_at = now + interval_ns;
        flow.cnps += 1;
        Some(Request::SendCnp { to: header.src, flow: content.flow, run: content.run })
    }

    /// Writes the received flows into `report`, in the order of sender, number and run.
    pub fn report(&self, report: &mut HostReport) {
        report.announcements_received = self.announcements;
        report.other_received = self.other;
        report.corrupted_unattributed = self.corrupted_unattributed;
        report.flows_refused = self.flows_refused;
        let mut flows: Vec<_> = self.flows.iter().collect();
        flows.sort_by_key(|(key, _)| **key);
        report.received = flows.into_iter().map(|(key, flow)| flow.report(key)).collect();
    }
}

impl Flow {
    fn new(first_bytes: u64, missed_frames: u64, now: Instant) -> Self {
        Self {
            priority: 0,
            sequences: SequenceTracker::starting_at(missed_frames),
            corrupted: 0,
            bytes: 0,
            first_bytes,
            first_at: now,
            last_at: now,
            latency: Histogram::new_with_max(MAX_LATENCY_NS, 3)
                .expect("3 digits up to 60 s are valid bounds"),
            worst_latency_ns: 0,
            ce: 0,
            cnps: 0,
            next_cnp_at: Instant::default(),
        }
    }

    fn report(&self, &(from, flow, run): &Key) -> FlowReceived {
        let open_ns = u128::from(self.last_at.since(self.first_at));
        let bit_ns = u128::from(self.bytes - self.first_bytes) * 8 * 1_000_000_000;
        FlowReceived {
            from: from.to_string(),
            flow,
            run,
            priority: self.priority,
            received_frames: self.sequences.received(),
            received_bytes: self.bytes,
            lost_frames: self.sequences.lost(),
            missed_before_ready_frames: self.sequences.missed_before_start(),
            duplicated_frames: self.sequences.duplicated(),
            reordered_frames: self.sequences.reordered(),
            corrupted_frames: self.corrupted,
            too_old_frames: self.sequences.too_old(),
            received_ce_frames: self.ce,
            cnps_sent: self.cnps,
            goodput_bps: bit_ns.checked_div(open_ns).unwrap_or(0) as u64,
            latency_ns: self.latencies(),
        }
    }

    fn latencies(&self) -> Latency {
        // A percentile is the upper end of a histogram bucket, which may exceed the largest value.
        let at = |quantile| self.latency.value_at_quantile(quantile).min(self.worst_latency_ns);
        Latency { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: self.worst_latency_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::ethernet::Tag;

    const ME: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const SENDER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn data(flow: u32, sequence: u64, sent_at: u64) -> Content {
        Content { kind: FrameKind::Data, flow, run: 9, sequence, sent_at: Instant(sent_at), age_ms: 0 }
    }

    fn frame(dst: MacAddr, len: usize, content: &Content) -> Vec<u8> {
        let mut frame = vec![0; len];
        frame::write(&mut frame, dst, SENDER, Some(Tag::priority(3)), None, content);
        frame
    }

    fn receive(receiver: &mut Receiver, frame: &[u8], now: u64) -> Option<Request> {
        receiver.receive(frame, Header::parse(frame).ok().as_ref(), Instant(now))
    }

    fn report(receiver: &Receiver) -> HostReport {
        let mut report = HostReport::default();
        receiver.report(&mut report);
        report
    }

    #[test]
    fn goodput_and_latency_are_those_worked_out_by_hand() {
        let mut receiver = Receiver::new(ME, None, Instant::default());
        // 1001 frames of 1000 bytes, one each 8 µs (1 Gbit/s), frame k with a latency of k µs.
        for k in 0..=1000 {
            let now = 10_000_000 + k * 8_000;
            receive(&mut receiver, &frame(ME, 1000, &data(7, k, now - k * 1000)), now);
        }
        let flow = &report(&receiver).received[0];
        assert_eq!((flow.from.as_str(), flow.flow, flow.priority), ("02:00:00:00:00:02", 7, 3));
        assert_eq!((flow.received_frames, flow.received_bytes), (1001, 1_001_000));
        assert_eq!(flow.goodput_bps, 1_000_000_000);
        let Latency { p50, p90, p99, p999, max } = flow.latency_ns;
        for (percentile, exact) in [(p50, 500_000), (p90, 900_000), (p99, 990_000), (p999, 999_000)] {
            assert!(percentile.abs_diff(exact) <= exact / 1000 + 1000, "{percentile} for {exact}");
        }
        assert_eq!(max, 1_000_000);
    }

    /// Frames with another destination or type, our own frames, and invalid frames are counted
    /// separately.
    #[test]
    fn other_frames_are_counted_apart() {
        let mut receiver = Receiver::new(ME, None, Instant::default());
        let stranger = MacAddr([2, 0, 0, 0, 0, 7]);
        let mut own = frame(MacAddr::BROADCAST, 64, &data(0, 0, 0));
        own[6..12].copy_from_slice(&ME.0);
        let mut ip = frame(ME, 64, &data(0, 0, 0));
        ip[16..18].copy_from_slice(&[8, 0]);
        for frame in [frame(stranger, 64, &data(0, 0, 0)), own, ip, vec![0; 13]] {
            receive(&mut receiver, &frame, 0);
        }
        let report = report(&receiver);
        assert_eq!((report.other_received, report.received.len()), (4, 0));
    }

    /// Two flows whose first four frames did not arrive: one is older than the receiver, which is
    /// ready at 5 ms, the other is not.
    #[test]
    fn what_came_before_the_receiver_was_ready_is_not_lost() {
        const MS: u64 = 1_000_000;
        let mut receiver = Receiver::new(ME, None, Instant(5 * MS));
        for (flow, age_ms) in [(0, 6), (1, 4)] {
            for sequence in [4, 6, 3] {
                let content = Content { age_ms, ..data(flow, sequence, 10 * MS) };
                receive(&mut receiver, &frame(ME, 64, &content), 10 * MS);
            }
        }
        let counts = report(&receiver).received.into_iter().map(|flow| {
            (flow.received_frames, flow.missed_before_ready_frames, flow.lost_frames, flow.reordered_frames)
        });
        assert_eq!(counts.collect::<Vec<_>>(), [(3, 3, 1, 1), (3, 0, 4, 1)]);
    }

    #[test]
    fn flows_and_runs_are_counted_apart_and_announcements_are_no_flow() {
        let mut receiver = Receiver::new(ME, None, Instant::default());
        receive(&mut receiver, &frame(ME, 64, &data(2, 0, 0)), 0);
        receive(&mut receiver, &frame(ME, 64, &data(1, 0, 0)), 0);
        receive(&mut receiver, &frame(ME, 64, &Content { run: 10, ..data(1, 0, 0) }), 0);
        receive(&mut receiver, &frame(MacAddr::BROADCAST, 64, &data(1, 1, 0)), 0);
        let announcement = Content { kind: FrameKind::Announce, ..data(0, 0, 0) };
        receive(&mut receiver, &frame(MacAddr::BROADCAST, 64, &announcement), 0);
        let report = report(&receiver);
        let flows: Vec<_> = report.received.iter().map(|f| (f.flow, f.run, f.received_frames)).collect();
        assert_eq!(flows, [(1, 9, 2), (1, 10, 1), (2, 9, 1)]);
        assert_eq!((report.announcements_received, report.other_received), (1, 0));
    }

    /// A packet with this ECN field.
    fn packet(ecn: u8, content: &Content) -> Vec<u8> {
        let mut frame = vec![0; 100];
        frame::write(&mut frame, ME, SENDER, Some(Tag::priority(3)), Some(ecn), content);
        frame
    }

    /// With 1 ms: a CNP at the first mark, then at most one a millisecond for each flow.
    #[test]
    fn cnps_are_sent_at_once_and_rate_limited() {
        let reported = |flow| Some(Request::SendCnp { to: SENDER, flow, run: 9 });
        let mut receiver = Receiver::new(ME, Some(1_000_000), Instant::default());
        let table = [
            // time in µs, flow, ECN field, request
            (0, 1, 0b10, None),
            (10, 1, 0b11, reported(1)),
            (20, 1, 0b11, None),
            (30, 2, 0b11, reported(2)),
            (40, 3, 0b00, None),
            (1009, 1, 0b11, None),
            (1010, 1, 0b01, None),
            (1020, 1, 0b11, reported(1)),
            (2019, 1, 0b11, None),
            (2020, 1, 0b11, reported(1)),
        ];
        let mut silent = Receiver::new(ME, None, Instant::default());
        for (sequence, (at_us, flow, ecn, request)) in table.into_iter().enumerate() {
            let frame = packet(ecn, &data(flow, sequence as u64, 0));
            assert_eq!(receive(&mut receiver, &frame, at_us * 1000), request, "at {at_us} µs");
            assert_eq!(receive(&mut silent, &frame, at_us * 1000), None, "not asked to tell");
        }
        let marks = |receiver| {
            report(receiver).received.iter().map(|f| (f.received_ce_frames, f.cnps_sent)).collect::<Vec<_>>()
        };
        assert_eq!(marks(&receiver), [(6, 3), (1, 1), (0, 0)]);
        assert_eq!(marks(&silent), [(6, 0), (1, 0), (0, 0)]);
    }

    /// Any receiver accepts a CNP, which is not a frame of a flow.
    #[test]
    fn a_cnp_slows_the_sender_down() {
        let mut receiver = Receiver::new(ME, None, Instant::default());
        let cnp = packet(0b01, &Content { kind: FrameKind::Cnp, ..data(4, 0, 0) });
        assert_eq!(receive(&mut receiver, &cnp, 0), Some(Request::Cut { flow: 4, run: 9 }));
        let report = report(&receiver);
        assert_eq!((report.received.len(), report.other_received, report.corrupted_unattributed), (0, 0, 0));
    }

    #[test]
    fn the_number_of_flows_is_bounded_and_damage_opens_none() {
        let mut receiver = Receiver::new(ME, None, Instant::default());
        let mut bad = frame(ME, 64, &data(77, 0, 0));
        bad[60] ^= 1;
        receive(&mut receiver, &bad, 0);
        for flow in 0..MAX_FLOWS as u32 + 5 {
            receive(&mut receiver, &frame(ME, 64, &data(flow, 0, 0)), 0);
        }
        receive(&mut receiver, &frame(ME, 64, &data(0, 1, 0)), 0);
        receive(&mut receiver, &bad, 0);
        let report = report(&receiver);
        assert_eq!((report.received.len(), report.flows_refused), (MAX_FLOWS, 5));
        assert_eq!(report.received[0].received_frames, 2);
        assert_eq!((report.corrupted_unattributed, report.received[77].corrupted_frames), (1, 1));
    }

    /// Faults of one frame in the channel.
    #[derive(Debug, Clone, Copy)]
    enum ChannelFault {
        Arrives,
        Drops,
        Duplicates,
        Corrupts {
            bit: usize,
        },
        /// Is overtaken by this many later ones.
        Delays(usize),
    }

    fn faults() -> impl Strategy<Value = Vec<ChannelFault>> {
        let fault = prop_oneof![
            6 => Just(ChannelFault::Arrives),
            1 => Just(ChannelFault::Drops),
            1 => Just(ChannelFault::Duplicates),
            1 => (0..46 * 8_usize).prop_map(|bit| ChannelFault::Corrupts { bit }),
            1 => (1..20_usize).prop_map(ChannelFault::Delays),
        ];
        prop::collection::vec(fault, 1..300)
    }

    proptest! {
        /// A flow over a channel that drops, duplicates, corrupts and reorders: the report matches
        /// the channel exactly.
        #[test]
        fn the_report_describes_the_channel(faults in faults()) {
            // (position on the wire, sequence, damaged bit); frame 0 arrives first, intact, and
            // creates the flow.
            let mut wire = vec![(0, 0_u64, None)];
            for (index, fault) in faults.iter().enumerate() {
                let (position, sequence) = (index + 1, index as u64 + 1);
                match *fault {
                    ChannelFault::Arrives => wire.push((position, sequence, None)),
                    ChannelFault::Drops => {}
                    ChannelFault::Duplicates => wire.extend([(position, sequence, None); 2]),
                    ChannelFault::Corrupts { bit } => wire.push((position, sequence, Some(bit))),
                    ChannelFault::Delays(by) => wire.push((position + by, sequence, None)),
                }
            }
            wire.sort_by_key(|(position, ..)| *position);

            let mut receiver = Receiver::new(ME, None, Instant::default());
            let (mut whole, mut highest) = (Vec::new(), 0);
            let (mut damaged, mut duplicated, mut reordered) = (0, 0, 0);
            for &(_, sequence, bit) in &wire {
                let mut frame = frame(ME, 64, &data(0, sequence, 0));
                if let Some(bit) = bit {
                    frame[18 + bit / 8] ^= 1 << (bit % 8);
                    damaged += 1;
                } else if whole.contains(&sequence) {
                    duplicated += 1;
                } else {
                    whole.push(sequence);
                    reordered += u64::from(sequence < highest);
                    highest = highest.max(sequence);
                }
                receive(&mut receiver, &frame, 0);
            }

            let report = report(&receiver);
            prop_assert_eq!(report.received.len(), 1);
            let flow = &report.received[0];
            prop_assert_eq!(flow.received_frames, whole.len() as u64);
            prop_assert_eq!(flow.received_bytes, whole.len() as u64 * 64);
            prop_assert_eq!(flow.lost_frames, highest + 1 - whole.len() as u64);
            prop_assert_eq!(flow.duplicated_frames, duplicated);
            prop_assert_eq!(flow.reordered_frames, reordered);
            // A frame with a damaged flow number belongs to no flow, but counts as damaged.
            prop_assert_eq!(flow.corrupted_frames + report.corrupted_unattributed, damaged);
        }
    }
}
