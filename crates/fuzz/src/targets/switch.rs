//! The whole switch: an input is a sequence of operations and frames, and after each of them the
//! invariants of docs/behavior.md, "Invariants", 1, 2, 4 and 5 hold; at the end 2, 3 and 5.

use crate::input::Input;
use crate::targets::switch_bench::Bench;
use crate::targets::switch_settings::{Features, NO_DROP, PORTS};

/// The most operations of an input.
const MAX_STEPS: usize = 400;

/// Runs a switch through the operations of an input, lets it drain, and checks it.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut bench = Bench::new(Features::read(&mut input));
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        step(&mut bench, &mut input);
        bench.check();
    }
    bench.drain();
    bench.check_idle();
}

/// Carries out the next operation of an input.
fn step(bench: &mut Bench, input: &mut Input) {
    let (operation, port) = (input.below(32), input.below(PORTS + 2));
    match operation {
        0..=8 => {
            let (to, numbers) = (input.below(PORTS + 4), input.byte());
            let priority = if numbers & 8 == 0 { NO_DROP as u8 } else { numbers & 7 };
            let len = [60, 64, 65, 208, 209, 500, 1514, 9000][usize::from(numbers >> 5)];
            bench.receive_data(port, to, priority, len);
        }
        9 | 10 => {
            let len = usize::from(input.byte());
            let bytes = input.take(len);
            bench.receive_bytes(port, bytes);
        }
        11 | 12 => {
            let (enable, quanta) = (input.byte(), [0, 1, 100, 65_535][input.below(4)]);
            bench.receive_pfc(port, enable, quanta);
        }
        13 => bench.receive_pause(port, [0, 1, 100, 65_535][input.below(4)]),
        14..=16 => bench.transmit(port, input.below(16)),
        17..=19 => bench.complete(port, input.below(16)),
        20 => bench.lose(port, 1 + input.below(3)),
        21..=23 => bench.wait([100, 5_000, 200_000, 10_000_000, 400_000_000][input.below(5)]),
        24 => bench.set_port(port, input.byte() & 1 != 0),
        25 => bench.reconfigure(input.byte()),
        26 => bench.add_or_remove(port),
        27 => bench.hold(port, input.byte() & 1 != 0),
        28 => bench.observe(port, input.byte()),
        29 => bench.recover(port, input.byte()),
        30 => bench.flush_addresses(port, input.byte()),
        _ => bench.release_peer(port),
    }
}

/// Operations to begin with: an incast, a storm, and a port that goes away during both.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for features in [[0, 0, 0], [1, 16, 0], [2, 1, 0], [0x2c, 0x42, 1], [0xf1, 0x8c, 3]] {
        let mut seed = features.to_vec();
        for round in 0..8 {
            (0..6).for_each(|frame| seed.extend([0, frame % 2, 2, 0xc0 | round]));
            seed.extend([14, 2, 3, 17, 2, 2, 11, 2, 8, 2, 21, 0, 1]);
        }
        seed.extend([24, 2, 0, 26, 1, 24, 2, 1, 25, 0, 3, 20, 0, 1, 27, 0, 1, 29, 0, 0, 30, 1, 1, 31, 0]);
        seeds.push(seed);
    }
    seeds
}
