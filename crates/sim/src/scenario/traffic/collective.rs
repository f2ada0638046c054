//! Collectives as steps: who sends how much to whom, and which arrivals that needs.
//!
//! Rule, with n ranks and B bytes:
//! - ring all-reduce: 2 (n − 1) rounds, in each of which every rank sends a share of B/n to the
//!   next rank once the share of the round before has arrived;
//! - tree: B travels up a binomial tree, where a rank sends once all its children's have arrived,
//!   and down again;
//! - halving-doubling: log2 n rounds with partners at half the distance and half the bytes each
//!   time, and the same backwards;
//! - all-to-all: in phase p every rank sends B to the rank p further on; a rank enters a phase when
//!   what it sent in the phase before has arrived, and what it was to receive.
//!
//! Source: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication
//! operations in MPICH" (IJHPCA 2005).

use super::super::types::Collective;

/// A message of a collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// Sender and receiver, as ranks.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) bytes: u64,
    /// Indices of the steps that must have arrived.
    pub(crate) needs: Vec<usize>,
}

/// Returns the steps of a collective. Those that a step needs are before it.
pub(crate) fn steps(collective: Collective, ranks: usize, bytes: u64) -> Vec<Step> {
    match collective {
        Collective::Ring => ring(ranks, bytes),
        Collective::Tree => tree(ranks, bytes),
        Collective::HalvingDoubling => halving_doubling(ranks, bytes),
        Collective::AllToAll => all_to_all(ranks, bytes),
    }
}

fn ring(n: usize, bytes: u64) -> Vec<Step> {
    let share = |number: usize| {
        let bound = |number: usize| bytes * number as u64 / n as u64;
        (bound(number + 1) - bound(number)).max(1)
    };
    let step = |(round, from): (usize, usize)| Step {
        from,
        to: (from + 1) % n,
        bytes: share((from + 2 * n - round) % n),
        needs: if round == 0 { Vec::new() } else { vec![(round - 1) * n + (from + n - 1) % n] },
    };
    (0..2 * (n - 1)).flat_map(|round| (0..n).map(move |from| (round, from))).map(step).collect()
}

fn tree(n: usize, bytes: u64) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    // By rank: the steps that have brought it something.
    let mut received: Vec<Vec<usize>> = vec![Vec::new(); n];
    let levels = usize::BITS - (n - 1).leading_zeros();
    let mut send = |from: usize, to: usize, received: &mut Vec<Vec<usize>>, needs: Vec<usize>| {
        received[to].push(steps.len());
        steps.push(Step { from, to, bytes, needs });
    };
    for distance in (0..levels).map(|level| 1 << level) {
        for from in (distance..n).step_by(2 * distance) {
            let needs = received[from].clone();
            send(from, from - distance, &mut received, needs);
        }
    }
    // A rank sends down one after the other, the farthest first.
    let mut sent: Vec<Option<usize>> = vec![None; n];
    let mut number = n - 1;
    for distance in (0..levels).rev().map(|level| 1 << level) {
        for from in (0..n - distance).step_by(2 * distance) {
            // The root needs all that it received, another rank what came down.
            let needs = match (sent[from], from) {
                (Some(before), _) => vec![before],
                (None, 0) => received[0].clone(),
                (None, _) => received[from].last().copied().into_iter().collect(),
            };
            send(from, from + distance, &mut received, needs);
            sent[from] = Some(number);
            number += 1;
        }
    }
    steps
}

fn halving_doubling(n: usize, bytes: u64) -> Vec<Step> {
    let halving = (1..=n.ilog2()).map(|level| (n >> level, (bytes >> level).max(1)));
    let rounds: Vec<(usize, u64)> = halving.clone().chain(halving.rev()).collect();
    let mut steps = Vec::new();
    for (round, &(distance, bytes)) in rounds.iter().enumerate() {
        for from in 0..n {
            let before = round.checked_sub(1).map(|before| before * n + (from ^ rounds[before].0));
            steps.push(Step { from, to: from ^ distance, bytes, needs: before.into_iter().collect() });
        }
    }
    steps
}

fn all_to_all(n: usize, bytes: u64) -> Vec<Step> {
    let step = |(phase, from): (usize, usize)| {
        let index = |rank: usize| (phase - 2) * n + rank % n;
        let needs = if phase == 1 { Vec::new() } else { vec![index(from), index(from + n - (phase - 1))] };
        Step { from, to: (from + phase) % n, bytes, needs }
    };
    (1..n).flat_map(|phase| (0..n).map(move |from| (phase, from))).map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums the bytes that each rank sends, and checks that steps only need earlier ones, which
    /// brought the sender something or were its own.
    fn sent(collective: Collective, ranks: usize, bytes: u64) -> Vec<u64> {
        let steps = steps(collective, ranks, bytes);
        let mut sent = vec![0; ranks];
        for (number, step) in steps.iter().enumerate() {
            assert!(step.from != step.to && step.from < ranks && step.to < ranks);
            for &before in &step.needs {
                assert!(before < number);
                assert!(steps[before].to == step.from || steps[before].from == step.from);
            }
            sent[step.from] += step.bytes;
        }
        sent
    }

    #[test]
    fn each_rank_sends_the_bytes_of_theory() {
        for n in [2, 4, 8, 16] {
            let bytes = 16_000;
            let optimal = 2 * bytes * (n as u64 - 1) / n as u64;
            assert_eq!(sent(Collective::Ring, n, bytes), vec![optimal; n]);
            assert_eq!(sent(Collective::HalvingDoubling, n, bytes), vec![optimal; n]);
            assert_eq!(sent(Collective::AllToAll, n, bytes), vec![bytes * (n as u64 - 1); n]);
        }
        for n in [2, 3, 5, 8, 13] {
            // Each rank but the root sends up once, and each but the root receives once.
            let all: u64 = sent(Collective::Tree, n, 1000).iter().sum();
            assert_eq!(all, 2 * 1000 * (n as u64 - 1));
        }
    }

    /// The longest chain of steps.
    #[test]
    fn rounds_are_those_of_theory() {
        let depth = |collective, ranks| {
            let steps = steps(collective, ranks, 1 << 20);
            let mut depths: Vec<usize> = Vec::new();
            for step in &steps {
                depths.push(1 + step.needs.iter().map(|&before| depths[before]).max().unwrap_or(0));
            }
            depths.into_iter().max()
        };
        assert_eq!(depth(Collective::Ring, 8), Some(14));
        assert_eq!(depth(Collective::HalvingDoubling, 8), Some(6));
        assert_eq!(depth(Collective::Tree, 8), Some(6));
        assert_eq!(depth(Collective::AllToAll, 8), Some(7));
    }
}
