//! Each target runs its corpus and its seeds, and mutations of them that are the same in each run.
//! Longer runs, guided by coverage: `cargo xtask fuzz`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fuzz::corpus::{read, to_hex};
use fuzz::mutate::mutate;
use fuzz::{TARGETS, Target, target};
use wire::random::Random;

/// Runs an input; a failure prints it, as a line of the file of regressions.
fn run(target: &Target, input: &[u8]) {
    if let Err(failure) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        eprintln!("crates/fuzz/corpus/{}.regressions.hex:\n{}", target.name, to_hex(input));
        resume_unwind(failure);
    }
}

fn replay(name: &str) {
    let target = target(name).unwrap();
    let inputs = [(target.seeds)(), read(name)].concat();
    assert!(inputs.iter().any(|input| !input.is_empty()), "there is something to begin with");
    inputs.iter().for_each(|input| run(&target, input));
    let mut random = Random::new(1);
    for _ in 0..target.mutations {
        let mut input = inputs[random.index(inputs.len())].clone();
        mutate(&mut input, &inputs[random.index(inputs.len())], target.max_bytes, &mut random);
        run(&target, &input);
    }
}

#[test]
fn frame() {
    replay("frame");
}

#[test]
fn switch() {
    replay("switch");
}

#[test]
fn lldp() {
    replay("lldp");
}

#[test]
fn config() {
    replay("config");
}

#[test]
fn scenario() {
    replay("scenario");
}

#[test]
fn control() {
    replay("control");
}

#[test]
fn collector() {
    replay("collector");
}

#[test]
fn recording() {
    replay("recording");
}

/// No target is left out above, and no corpus is without a target or too large.
#[test]
fn every_target_has_its_test_and_a_small_corpus() {
    let tests = include_str!("replay.rs");
    for target in TARGETS {
        assert!(tests.contains(&format!("replay(\"{}\");", target.name)), "{}", target.name);
        assert!(read(target.name).iter().all(|input| input.len() <= target.max_bytes), "{}", target.name);
        let bytes = std::fs::metadata(fuzz::corpus::file_of(target.name)).unwrap().len();
        assert!(bytes <= 32 << 10, "{} has a corpus of {bytes} bytes", target.name);
    }
    assert!(target("nothing").is_err());
}
