//! A target under libFuzzer, as `cargo xtask fuzz` runs it: `SLUICE_FUZZ_TARGET` names the target,
//! and the arguments are libFuzzer's.
#![no_main]

use std::sync::OnceLock;

use fuzz::Target;

/// The target that was requested.
fn requested() -> Target {
    let name = std::env::var("SLUICE_FUZZ_TARGET").expect("SLUICE_FUZZ_TARGET names a target");
    fuzz::target(&name).unwrap_or_else(|error| panic!("{error}"))
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    static TARGET: OnceLock<Target> = OnceLock::new();
    (TARGET.get_or_init(requested).run)(input);
});
