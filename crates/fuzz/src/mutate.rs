//! Mutation of inputs with repeatable random numbers: what a run of `cargo test` tries beside the
//! corpus.

use wire::random::Random;

/// Bytes that often decide something.
const EDGES: [u8; 10] = [0, 1, 7, 8, 15, 16, 100, 127, 128, 255];

/// Changes an input in one to four places: bits, bytes, pieces removed, repeated, or taken from
/// `other`. The result has at most `max_bytes` bytes.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], max_bytes: usize, random: &mut Random) {
    for _ in 0..=random.index(4) {
        if input.is_empty() {
            input.push(random.bits() as u8);
        }
        let at = random.index(input.len());
        match random.index(9) {
            0 => input[at] ^= 1 << random.index(8),
            1 => input[at] = random.bits() as u8,
            2 => input[at] = EDGES[random.index(EDGES.len())],
            3 => input.truncate(at),
            4 => drop(input.drain(at..(at + 1 + random.index(16)).min(input.len()))),
            5 => input.insert(at, random.bits() as u8),
            6 => insert_piece(input, at, &input.clone(), at, random),
            7 if !other.is_empty() => insert_piece(input, at, other, random.index(other.len()), random),
            _ => overwrite(input, at, other, random),
        }
    }
    input.truncate(max_bytes);
}

/// Inserts a piece of `source` that begins at `from`.
fn insert_piece(input: &mut Vec<u8>, at: usize, source: &[u8], from: usize, random: &mut Random) {
    let end = (from + 1 + random.index(60)).min(source.len());
    input.splice(at..at, source[from..end].iter().copied());
}

/// Replaces bytes by those that `other` has in the same place.
fn overwrite(input: &mut [u8], at: usize, other: &[u8], random: &mut Random) {
    let end = (at + 1 + random.index(30)).min(input.len()).min(other.len());
    if at < end {
        input[at..end].copy_from_slice(&other[at..end]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same seed gives the same inputs, which stay within their limit and differ.
    #[test]
    fn mutations_are_repeatable_and_bounded() {
        let run = |seed| {
            let (mut random, mut all) = (Random::new(seed), Vec::new());
            let mut input = b"seed".to_vec();
            for _ in 0..1000 {
                mutate(&mut input, b"another input", 64, &mut random);
                assert!(input.len() <= 64);
                all.push(input.clone());
            }
            all
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}
