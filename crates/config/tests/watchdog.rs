//! `[pfc.watchdog]` and `[pfc.early-warning]`: the resulting settings of each priority of each
//! port.

use config::Config;
use switch::settings::{EarlyWarningSettings, PfcWdAction, Restoration, StormLimit, WatchdogSettings};

const MS: u64 = 1_000_000;

fn parse(text: &str) -> Config {
    config::parse("test.toml", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

const PORTS: &str = "[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3, 4, 5]\n[port.a]\ninterface = \"veth0\"\n\
                     [port.b]\ninterface = \"veth1\"\n[port.c]\ninterface = \"veth2\"\npfc.no_drop = [4]\n";

/// `[pfc.watchdog]` as written → the watchdog of priority 3.
#[test]
fn both_manners() {
    let h3c = |detection_ms: u64, restore| WatchdogSettings {
        detection_ns: detection_ms * MS,
        action: PfcWdAction::Forward,
        restore,
        limit: None,
    };
    let limit = StormLimit { period_ns: 1000 * MS, count: 10 };
    for (text, settings) in [
        ("priority.3.interval = 5", h3c(500, Restoration::After(500 * MS))),
        ("precision = \"normal\"\npriority.3.interval = 15", h3c(1500, Restoration::After(1500 * MS))),
        (
            "precision = \"high\"\npriority.3 = { interval = 5, restore_delay = 6 }",
            h3c(50, Restoration::After(700 * MS)),
        ),
        ("priority.3 = { interval = 1, pause_recover = true }", h3c(100, Restoration::QuietInterval)),
        ("recovery = \"manual\"\npriority.3 = { interval = 1 }", h3c(100, Restoration::Manual)),
        (
            "priority.3 = { interval = 1, limit = { period_s = 1, count = 10 } }",
            WatchdogSettings { limit: Some(limit), ..h3c(100, Restoration::After(100 * MS)) },
        ),
        (
            "priority.3 = { detection_ms = 300, restoration_ms = 500 }",
            WatchdogSettings { action: PfcWdAction::Drop, ..h3c(300, Restoration::Quiet(500 * MS)) },
        ),
        (
            "action = \"forward\"\npriority.3 = { detection_ms = 300, restoration_ms = 500 }",
            h3c(300, Restoration::Quiet(500 * MS)),
        ),
    ] {
        let config = parse(&format!("[pfc.watchdog]\n{text}\n{PORTS}"));
        let of = |port: usize| config.switch.ports[port].watchdog[3];
        assert_eq!([of(0), of(1), of(2)], [Some(settings), Some(settings), None], "{text}");
    }
}

#[test]
fn a_port_wins_over_the_defaults_and_those_over_the_switch() {
    let config = parse(&format!(
        "[pfc.watchdog]\nprecision = \"high\"\npriority.4.interval = 1\npriority.5.interval = 1\n\
         [pfc.early-warning]\npriority.0.in_pps = 9\n{PORTS}\
         [port.c.pfc.watchdog]\nenabled = false\n\
         [port.b.pfc.watchdog]\naction = \"drop\"\npriority.4.interval = 7\n\
         [port.b.pfc.early-warning]\npriority.0.out_pps = 8\n\
         [port-defaults.pfc.watchdog]\npriority.5.interval = 3\n"
    ));
    let detection = |port: usize| {
        let of = config.switch.ports[port].watchdog;
        [3, 4, 5].map(|p: usize| of[p].map(|settings| (settings.detection_ns / MS, settings.action)))
    };
    let forward = |ms| Some((ms, PfcWdAction::Forward));
    assert_eq!(detection(0), [None, forward(10), forward(30)]);
    assert_eq!(detection(1), [None, Some((70, PfcWdAction::Drop)), Some((30, PfcWdAction::Drop))]);
    assert_eq!(detection(2), [None; 3]);
    let warning = |port: usize| config.switch.ports[port].early_warning[0];
    assert_eq!(warning(0), EarlyWarningSettings { in_pps: Some(9), out_pps: None });
    assert_eq!(warning(1), EarlyWarningSettings { in_pps: None, out_pps: Some(8) });
}
