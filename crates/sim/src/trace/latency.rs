//! Latency of frames: from the start of the transmission at the sender to the last bit at the
//! receiver, and in each switch from the last bit of arrival to the start of the transmission.
//!
//! Rule: values are counted in bins of a sixty-fourth of their power of two, so that percentiles
//! are exact below 128 ns and within 1.6 % above. Minimum, mean and maximum are exact.

use std::collections::{BTreeMap, VecDeque};

use crate::results::LatencyOutcome;
use crate::time::{NEVER, NS, Picos};

/// Log2 of the bins of a power of two.
const BIN_BITS: u32 = 6;
/// Frames behind one that has not arrived, which is taken to be lost then.
const MAX_WAITING: usize = 1 << 16;

/// Latencies of all frames that were sent in the measuring window.
#[derive(Debug)]
pub(crate) struct LatencyLog {
    measured_from: Picos,
    /// By flow.
    traffic_of: Vec<usize>,
    flows: Vec<SentFrames>,
    traffic: Vec<Histogram>,
    /// By traffic and outgoing link direction of a switch.
    hops: BTreeMap<(usize, usize), Histogram>,
}

/// When the frames of a flow that have not arrived were sent.
#[derive(Debug, Clone, Default)]
struct SentFrames {
    first: u64,
    sent_at: VecDeque<Picos>,
}

impl LatencyLog {
    /// Creates an empty log of flows, by their traffic.
    pub(crate) fn new(traffic_of: Vec<usize>, traffics: usize, measured_from: Picos) -> Self {
        let flows = vec![SentFrames::default(); traffic_of.len()];
        let traffic = vec![Histogram::default(); traffics];
        Self { measured_from, traffic_of, flows, traffic, hops: BTreeMap::new() }
    }

    /// Records the transmission of a flow's next frame.
    pub(crate) fn sent(&mut self, flow: usize, now: Picos) {
        let SentFrames { first, sent_at } = &mut self.flows[flow];
        if sent_at.len() == MAX_WAITING {
            sent_at.pop_front();
            *first += 1;
        }
        sent_at.push_back(now);
    }

    /// Records the arrival of frame `number` of a flow.
    pub(crate) fn arrived(&mut self, flow: usize, number: u64, now: Picos) {
        let SentFrames { first, sent_at } = &mut self.flows[flow];
        let Some(at) = number.checked_sub(*first).and_then(|index| sent_at.get_mut(index as usize)) else {
            return;
        };
        let sent = std::mem::replace(at, NEVER);
        while sent_at.front() == Some(&NEVER) {
            sent_at.pop_front();
            *first += 1;
        }
        if sent != NEVER && sent >= self.measured_from {
            self.traffic[self.traffic_of[flow]].add((now - sent) / NS);
        }
    }

    /// Records that a frame of a flow leaves a switch after it waited there.
    pub(crate) fn left(&mut self, flow: usize, line: usize, arrived: Picos, now: Picos) {
        if arrived >= self.measured_from
            && let Some(&traffic) = self.traffic_of.get(flow)
        {
            self.hops.entry((traffic, line)).or_default().add((now - arrived) / NS);
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
