//! For how long each queue of a switch had which length.
//!
//! Rule: bins are powers of two in cells, after one for the empty queue, and weighted by time. They
//! begin with the warm-up's end.

use switch::settings::PRIORITIES;

use crate::results::LengthBin;
use crate::scenario::Scenario;
use crate::time::{NS, Picos, of_ns};

/// One bin for 0, and one for each power of two of a `u32`.
const BINS: usize = 33;

/// The queues of one switch.
#[derive(Debug)]
pub(crate) struct QueueLengths {
    measured_from: Picos,
    /// By port.
    ports: Vec<[QueueLength; PRIORITIES]>,
}

/// One queue.
#[derive(Debug, Clone, Copy)]
struct QueueLength {
    cells: u32,
    since: Picos,
    time: [Picos; BINS],
    cell_time: u128,
}

impl QueueLength {
    const EMPTY: Self = Self { cells: 0, since: 0, time: [0; BINS], cell_time: 0 };

    /// Accounts for the length since the last change.
    fn advance(&mut self, measured_from: Picos, now: Picos) {
        let time = now.saturating_sub(self.since.max(measured_from));
        self.time[bin_of(self.cells)] += time;
        self.cell_time += u128::from(self.cells) * u128::from(time);
        self.since = now;
    }
}

/// Returns the bin of a length: 0, or one more than its binary logarithm.
fn bin_of(cells: u32) -> usize {
    (u32::BITS - cells.leading_zeros()) as usize
}

impl QueueLengths {
    /// Creates the queues of a switch, all of them empty.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self { measured_from: of_ns(scenario.warmup_ns), ports: Vec::new() }
    }

    /// Sets the lengths of a port's queues from now on.
    #[inline]
    pub(crate) fn set(&mut self, port: usize, cells: [u32; PRIORITIES], now: Picos) {
        if port >= self.ports.len() {
            self.ports.resize(port + 1, [QueueLength::EMPTY; PRIORITIES]);
        }
        for (queue, cells) in self.ports[port].iter_mut().zip(cells) {
            if queue.cells != cells {
                queue.advance(self.measured_from, now);
                queue.cells = cells;
            }
        }
    }

    /// Returns the queues that held cells until `now`: port, queue, mean and bins.
    pub(crate) fn queues(&self, now: Picos) -> impl Iterator<Item = (usize, u8, f64, Vec<LengthBin>)> + '_ {
        let all = self.ports.iter().enumerate().flat_map(|(port, queues)| {
            queues.iter().enumerate().map(move |(number, queue)| (port, number, *queue))
        });
        all.filter_map(move |(port, number, mut queue)| {
            queue.advance(self.measured_from, now);
            let longest = queue.time.iter().rposition(|&time| time > 0).filter(|&bin| bin > 0)?;
            let total: Picos = queue.time.iter().sum();
            let bin = |bin: usize| LengthBin {
                least_cells: if bin == 0 { 0 } else { 1 << (bin - 1) },
                ns: queue.time[bin] / NS,
            };
            let mean_cells = queue.cell_time as f64 / total as f64;
            Some((port, number as u8, mean_cells, (0..=longest).map(bin).collect()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_powers_of_two() {
        let bins = [0, 1, 2, 3, 4, 7, 8, 1 << 31, u32::MAX].map(bin_of);
        assert_eq!(bins, [0, 1, 2, 2, 3, 3, 4, 32, 32]);
    }

    /// 3 cells for 2 us, 8 for 1 us, then none for 5 us; the first us is warm-up.
    #[test]
    fn lengths_are_weighted_by_time() {
        let mut lengths = QueueLengths { measured_from: 1000 * NS, ports: Vec::new() };
        let cells = |cells: u32| [0, 0, 0, cells, 0, 0, 0, 0];
        for (length, at_us) in [(3, 0), (8, 2), (0, 3)] {
            lengths.set(1, cells(length), at_us * 1000 * NS);
        }
        let found: Vec<_> = lengths.queues(8000 * NS).collect();
        let [(1, 3, mean_cells, bins)] = &found[..] else { panic!("one queue: {found:?}") };
        let bin = |least_cells, ns| LengthBin { least_cells, ns };
        assert_eq!(bins[..], [bin(0, 5000), bin(1, 0), bin(2, 1000), bin(4, 0), bin(8, 1000)]);
        assert!((mean_cells - 11.0 / 7.0).abs() < 1e-9, "{mean_cells}");
    }
}
