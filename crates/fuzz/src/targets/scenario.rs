//! The text of a scenario, with the sweep that it may describe.
//!
//! Rule: any text gives a scenario or mistakes inside its file, whatever the configurations that it
//! names are.

use sim::scenario::parse;

/// The longest text that is tried; longer ones are the subject of
/// `crates/sim/tests/hostile_input.rs`.
const MAX_BYTES: usize = 8 << 10;

/// A configuration with the ports that the scenarios of the tree link.
const DEVICE: &str = "[port.p1]\ninterface=\"a\"\n[port.p2]\ninterface=\"b\"\n[port.p3]\ninterface=\"c\"\n\
    [port.uplink]\ninterface=\"d\"\npfc={mode=\"on\",no_drop=[3]}\n";

/// Reads a text. Of the configurations that it names, those with a `w` are wrong.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(&bytes[..bytes.len().min(MAX_BYTES)]) else { return };
    let mut load = |path: &str| match path {
        "" => Err("no such file".to_owned()),
        path if path.contains('w') => Ok("[port.p1]\nsped=1\n".to_owned()),
        _ => Ok(DEVICE.to_owned()),
    };
    let Err(all) = parse("fuzz.toml", text, &mut load) else { return };
    assert!(!all.is_empty());
    for mistakes in &all {
        // Those of a configuration are inside that one.
        if mistakes.to_string().starts_with("fuzz.toml:") {
            super::config::check_mistakes(mistakes, text);
        }
    }
}

/// The scenarios of the tree.
pub fn seeds() -> Vec<Vec<u8>> {
    let files = [
        include_str!("../../../../config/scenarios/first.toml"),
        include_str!("../../../../config/scenarios/demo.toml"),
        include_str!("../../../../config/scenarios/sweep.toml"),
        include_str!("../../../../config/scenarios/leaf-spine.toml"),
        include_str!("../../../../config/scenarios/flow-control.toml"),
        include_str!("../../../../config/scenarios/incast-dcqcn.toml"),
        include_str!("../../../../config/scenarios/pfc-queues.toml"),
    ];
    files.iter().map(|text| text.as_bytes().to_vec()).collect()
}
