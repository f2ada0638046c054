//! Latency of frames: from the start of the transmission at the sender to the last bit at the
//! receiver, and in each switch from the last bit of arrival to the start of the transmission.
//!
//! Rule: values are counted in bins of a sixty-fourth of their power of two, so that percentiles
//! are exact below 128 ns and within 1.6 % above. Minimum, mean and maximum are exact.
//!
//! In a part of a network, the times of transmission of a sender in another part come with the mail
//! of the window. What arrives in that window is measured after it, by the same rule.

use std::collections::{BTreeMap, VecDeque};
use std::mem::take;

use crate::results::LatencyOutcome;
use crate::time::{NEVER, NS, Picos};

/// Log2 of the bins of a power of two.
const BIN_BITS: u32 = 6;
/// A frame is taken to be lost once the frame that is as far behind it has been sent.
const MAX_WAITING: usize = 1 << 16;

/// Latencies of all frames that were sent in the measuring window.
#[derive(Debug)]
pub(crate) struct LatencyLog {
    measured_from: Picos,
    flows: Vec<FlowLog>,
    traffic: Vec<Histogram>,
    /// By traffic and outgoing link direction of a switch.
    hops: BTreeMap<(usize, usize), Histogram>,
    /// Transmissions of this window in other parts, by flow.
    sent_elsewhere: Vec<(usize, Picos)>,
    /// Flow, number and time of the frames that arrived in this window from other parts.
    arrivals: Vec<(usize, u64, Picos)>,
}

/// Where the ends of a flow are, as a part of the network sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlowEnds {
    /// Both are here, or neither is.
    Together,
    /// Its sender is here, and its receiver in this part.
    ReceiverIn(usize),
    /// Its receiver is here, and its sender in another part.
    SenderElsewhere,
}

/// The frames of a flow that have not arrived.
#[derive(Debug, Clone)]
struct FlowLog {
    traffic: usize,
    ends: FlowEnds,
    /// Number of the first frame in `sent_at`.
    first: u64,
    /// When each was sent; [`NEVER`] if it has arrived.
    sent_at: VecDeque<Picos>,
}

impl FlowLog {
    /// Takes a frame that arrives at `now`. Returns when it was sent, if it is measured.
    fn take(&mut self, number: u64, now: Picos) -> Option<Picos> {
        let index = number.checked_sub(self.first)? as usize;
        let later = self.sent_at.get(index + MAX_WAITING);
        if later.is_some_and(|&sent| sent < now || sent == NEVER) {
            return None;
        }
        let sent = std::mem::replace(self.sent_at.get_mut(index)?, NEVER);
        (sent != NEVER).then_some(sent)
    }

    /// Forgets frames that have arrived, or are taken to be lost whenever they arrive.
    fn forget(&mut self) {
        while self.sent_at.front() == Some(&NEVER) || self.sent_at.len() > MAX_WAITING + 1 {
            self.sent_at.pop_front();
            self.first += 1;
        }
    }
}

impl LatencyLog {
    /// Creates an empty log of flows, by their traffic and their ends.
    pub(crate) fn new(
        flows: impl Iterator<Item = (usize, FlowEnds)>,
        traffics: usize,
        measured_from: Picos,
    ) -> Self {
        let empty = |(traffic, ends)| FlowLog { traffic, ends, first: 0, sent_at: VecDeque::new() };
        Self {
            measured_from,
            flows: flows.map(empty).collect(),
            traffic: vec![Histogram::default(); traffics],
            hops: BTreeMap::new(),
            sent_elsewhere: Vec::new(),
            arrivals: Vec::new(),
        }
    }

    /// Records the transmission of a flow's next frame. Returns the part that has to know of it.
    pub(crate) fn sent(&mut self, flow: usize, now: Picos) -> Option<usize> {
        let log = &mut self.flows[flow];
        if let FlowEnds::ReceiverIn(part) = log.ends {
            return Some(part);
        }
        log.sent_at.push_back(now);
        log.forget();
        None
    }

    /// Takes in transmissions in another part, by flow, and leaves an empty list.
    pub(crate) fn take_in(&mut self, sent: &mut Vec<(usize, Picos)>) {
        self.sent_elsewhere.append(sent);
    }

    /// Records the arrival of frame `number` of a flow.
    pub(crate) fn arrived(&mut self, flow: usize, number: u64, now: Picos) {
        if self.flows[flow].ends == FlowEnds::SenderElsewhere {
            self.arrivals.push((flow, number, now));
            return;
        }
        self.measure(flow, number, now);
        self.flows[flow].forget();
    }

    /// Measures what arrived in a window, after the mail of that window was taken in.
    pub(crate) fn end_window(&mut self) {
        let (sent, arrivals) = (take(&mut self.sent_elsewhere), take(&mut self.arrivals));
        sent.iter().for_each(|&(flow, at)| self.flows[flow].sent_at.push_back(at));
        arrivals.iter().for_each(|&(flow, number, at)| self.measure(flow, number, at));
        let flows = sent.iter().map(|(flow, _)| flow).chain(arrivals.iter().map(|(flow, ..)| flow));
        flows.for_each(|&flow| self.flows[flow].forget());
    }

    fn measure(&mut self, flow: usize, number: u64, now: Picos) {
        let log = &mut self.flows[flow];
        if let Some(sent) = log.take(number, now).filter(|sent| *sent >= self.measured_from) {
            self.traffic[log.traffic].add((now - sent) / NS);
        }
    }

    /// Adds the latencies of another part of the network.
    pub(crate) fn absorb(&mut self, other: &Self) {
        for (own, theirs) in self.traffic.iter_mut().zip(&other.traffic) {
            own.absorb(theirs);
        }
        for (hop, theirs) in &other.hops {
            self.hops.entry(*hop).or_default().absorb(theirs);
        }
    }

    /// Records that a frame of a flow leaves a switch after it waited there.
    pub(crate) fn left(&mut self, flow: usize, line: usize, arrived: Picos, now: Picos) {
        if arrived >= self.measured_from
            && let Some(log) = self.flows.get(flow)
        {
            self.hops.entry((log.traffic, line)).or_default().add((now - arrived) / NS);
        }
    }

    /// Returns the latency of a traffic; `None` without frames.
    pub(crate) fn of_traffic(&self, traffic: usize) -> Option<LatencyOutcome> {
        self.traffic[traffic].outcome()
    }

    /// Returns the latencies in switches: traffic, link direction, and latency.
    pub(crate) fn hops(&self) -> impl Iterator<Item = (usize, usize, LatencyOutcome)> + '_ {
        self.hops.iter().filter_map(|(&(traffic, line), found)| Some((traffic, line, found.outcome()?)))
    }
}

/// Number of values by bin.
#[derive(Debug, Clone, Default)]
struct Histogram {
    bins: Vec<u64>,
    frames: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Histogram {
    fn add(&mut self, ns: u64) {
        let bin = bin_of(ns);
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
        self.min = if self.frames == 0 { ns } else { self.min.min(ns) };
        self.max = self.max.max(ns);
        self.frames += 1;
        self.sum += u128::from(ns);
    }

    /// Adds the values of another.
    fn absorb(&mut self, other: &Self) {
        if other.frames == 0 {
            return;
        }
        self.bins.resize(self.bins.len().max(other.bins.len()), 0);
        for (own, theirs) in self.bins.iter_mut().zip(&other.bins) {
            *own += theirs;
        }
        self.min = if self.frames == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.frames += other.frames;
        self.sum += other.sum;
    }

    /// Returns the value below or at which `permille` of the values are.
    fn quantile(&self, permille: u64) -> u64 {
        let rank = (self.frames * permille).div_ceil(1000).max(1);
        let mut below = 0;
        for (bin, count) in self.bins.iter().enumerate() {
            below += count;
            if below >= rank {
                return upper_end(bin).clamp(self.min, self.max);
            }
        }
        self.max
    }

    fn outcome(&self) -> Option<LatencyOutcome> {
        (self.frames > 0).then(|| LatencyOutcome {
            frames: self.frames,
            min_ns: self.min,
            mean_ns: (self.sum / u128::from(self.frames)) as u64,
            p50_ns: self.quantile(500),
            p90_ns: self.quantile(900),
            p99_ns: self.quantile(990),
            p999_ns: self.quantile(999),
            max_ns: self.max,
        })
    }
}

fn bin_of(ns: u64) -> usize {
    let shift = (ns | 1).ilog2().saturating_sub(BIN_BITS);
    ((u64::from(shift) << BIN_BITS) + (ns >> shift)) as usize
}

/// Returns the largest value of a bin.
fn upper_end(bin: usize) -> u64 {
    let bin = bin as u64;
    let shift = (bin >> BIN_BITS).saturating_sub(1);
    ((bin - (shift << BIN_BITS) + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_follow_each_other() {
        for ns in (0..5000).chain((0..50).map(|bit| (1 << bit) + 3)) {
            let bin = bin_of(ns);
            let below = if bin == 0 { None } else { Some(upper_end(bin - 1)) };
            assert!(ns <= upper_end(bin) && below.is_none_or(|below| below < ns), "{ns} in bin {bin}");
            assert!((upper_end(bin) - ns) as f64 <= ns as f64 / 64.0 + 0.1);
        }
    }

    /// Creates the log of one flow.
    fn log(ends: FlowEnds) -> LatencyLog {
        LatencyLog::new(std::iter::once((0, ends)), 1, 0)
    }

    /// Frame 0 arrives when the frame that is [`MAX_WAITING`] behind it is sent, or later. Whether
    /// the sender is here, or its times come after the window, the same is measured.
    #[test]
    #[cfg_attr(miri, ignore = "hundreds of thousands of frames")]
    fn a_frame_that_is_far_behind_is_lost_in_parts_too() {
        for (late, measured) in [(0, 2), (1, 1)] {
            let sent = |number: u64| number * 10;
            let all = MAX_WAITING as u64 + 8;
            let arrivals = [(1, sent(5)), (0, sent(MAX_WAITING as u64) + late)];
            let mut whole = log(FlowEnds::Together);
            for number in 0..all {
                for (of, at) in arrivals
                    .iter()
                    .filter(|(_, at)| number > 0 && (sent(number - 1)..sent(number)).contains(at))
                {
                    whole.arrived(0, *of, *at);
                }
                assert_eq!(whole.sent(0, sent(number)), None);
            }
            let mut part = log(FlowEnds::SenderElsewhere);
            arrivals.iter().for_each(|(of, at)| part.arrived(0, *of, *at));
            part.take_in(&mut (0..all).map(|number| (0, sent(number))).collect());
            part.end_window();
            for log in [whole, part] {
                assert_eq!(log.traffic[0].frames, measured, "{late} late");
                assert!(log.flows[0].sent_at.len() <= MAX_WAITING + 1);
            }
        }
        let mut sender = log(FlowEnds::ReceiverIn(2));
        assert_eq!((sender.sent(0, 7), sender.flows[0].sent_at.len()), (Some(2), 0));
    }

    #[test]
    fn percentiles_of_a_thousand() {
        let mut found = Histogram::default();
        (1..=100).for_each(|ns| found.add(ns));
        let outcome = found.outcome().expect("there are some");
        let LatencyOutcome { frames, min_ns, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns } = outcome;
        assert_eq!(
            [frames, min_ns, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns],
            [100, 1, 50, 50, 90, 99, 100, 100]
        );
    }
}
