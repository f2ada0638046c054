//! The text of a configuration file.
//!
//! Rule: any text gives a configuration or mistakes, each of which is inside the text and takes a
//! line; a valid configuration can be compared with another, and has a switch.

use config::{ConfigErrors, changes, fix, parse, parse_for_daemon};

/// The longest text that is tried; longer ones are the subject of
/// `crates/config/tests/hostile_input.rs`.
const MAX_BYTES: usize = 8 << 10;

/// Names of what the configurations of the tree do not have, for the mutations.
const TOKENS: &str = "vlan={mode=\"trunk\",allowed=\"10-20\",pvid=10}\nflow_control=\"both\"\n\
    broadcast_limit_pps=1000\n[port.a.pfc]\nmode=\"auto\"\nno_drop=[3]\nwatchdog.priority.3={interval=5}\n\
    [alarm]\nusage_percent=99\n[recorder]\nalways=true\n[lldp]\nmode=\"rx-only\"\n[bridge]\naging_s=0x10\n";

/// Reads a text as the command and as the daemon do.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(&bytes[..bytes.len().min(MAX_BYTES)]) else { return };
    match parse("fuzz.toml", text) {
        Err(mistakes) => check_mistakes(&mistakes, text),
        Ok(config) => {
            if !config.warnings.list().is_empty() {
                check_mistakes(&config.warnings, text);
            }
            assert!(changes(&config, &config).is_empty(), "no change");
            assert!(config.switch.port_count() <= switch::settings::MAX_PORTS);
        }
    }
    if let Err(mistakes) = parse_for_daemon("fuzz.toml", text) {
        check_mistakes(&mistakes, text);
    }
    match fix("fuzz.toml", text, 1_000_000) {
        Ok(fixed) => drop(parse("fuzz.toml", &fixed.text).expect("what was fixed is valid")),
        Err(mistakes) => check_mistakes(&mistakes, text),
    }
}

/// Checks that each mistake is inside the text, and that their list can be printed.
pub(super) fn check_mistakes(mistakes: &ConfigErrors, text: &str) {
    assert!(!mistakes.list().is_empty());
    for mistake in mistakes.list() {
        assert!(text.get(mistake.span.clone()).is_some(), "{mistake:?}");
        assert!(mistake.line >= 1 && mistake.line <= text.matches('\n').count() + 1, "{mistake:?}");
        assert!(mistake.column >= 1 && mistake.column <= text.chars().count() + 1, "{mistake:?}");
    }
    assert_eq!(mistakes.to_string().lines().count(), mistakes.list().len(), "{mistakes}");
}

/// The configurations of the tree.
pub fn seeds() -> Vec<Vec<u8>> {
    let files = [
        include_str!("../../../../config/first.toml"),
        include_str!("../../../../config/ecn.toml"),
        include_str!("../../../../config/incast.toml"),
        include_str!("../../../../config/vlans.toml"),
        include_str!("../../../../config/metrics.toml"),
        include_str!("../../../../config/rdma-device-a.toml"),
        include_str!("../../../../config/pfc-thresholds-device-b.toml"),
        include_str!("../../../../config/inspur-profile.toml"),
        TOKENS,
    ];
    files.iter().map(|text| text.as_bytes().to_vec()).collect()
}
