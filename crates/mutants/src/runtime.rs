//! Appended to the mutated crate: which mutant is active, and which ones were reached.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The environment's choice is not read yet.
const UNREAD: usize = usize::MAX;
/// No mutant is active, and those reached are written down.
const RECORD: usize = usize::MAX - 1;
const NONE: usize = usize::MAX - 2;

static ACTIVE: AtomicUsize = AtomicUsize::new(UNREAD);
static REACHED: [AtomicUsize; 16_384] = [const { AtomicUsize::new(0) }; 16_384];

/// Whether a mutant is the active one.
#[inline]
pub fn active(mutant: usize) -> bool {
    let active = ACTIVE.load(Ordering::Relaxed);
    active == mutant || active >= RECORD && first(active, mutant)
}

#[cold]
fn first(mut active: usize, mutant: usize) -> bool {
    if active == UNREAD {
        active = match std::env::var("SLUICE_MUTANT") {
            Ok(number) => number.parse().unwrap(),
            Err(_) => NONE,
        };
        if active == NONE && std::env::var("SLUICE_MUTANTS_REACHED").is_ok() {
            active = RECORD;
        }
        ACTIVE.store(active, Ordering::Relaxed);
    }
    if active == RECORD && REACHED[mutant].swap(1, Ordering::Relaxed) == 0 {
        let path = std::env::var("SLUICE_MUTANTS_REACHED").unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(format!("{mutant}\n").as_bytes()).unwrap();
    }
    active == mutant
}
