//! The alerts in `config/prometheus`: Prometheus's own tool runs their tests, and every name in
//! them is one of the metrics.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::dashboard::Known;

const RULES: &str = include_str!("../../../../config/prometheus/rules.yml");
const TESTS: &str = include_str!("../../../../config/prometheus/rules_test.yml");

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/prometheus")
}

/// Runs promtool in a directory. Returns whether it succeeded, and what it printed.
fn promtool(directory: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new("promtool");
    let output = command.args(arguments).current_dir(directory).output();
    let output = output.expect("promtool (cargo xtask setup)");
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), printed.into_owned())
}

/// The name and the expression of each alert.
fn alerts() -> Vec<(&'static str, &'static str)> {
    let each = RULES.split("- alert: ").skip(1);
    each.map(|alert| {
        let (name, rest) = alert.split_once('\n').expect("a name");
        let (_, rest) = rest.split_once("expr: ").expect("an expression");
        let end = ["for: ", "labels: "].into_iter().filter_map(|key| rest.find(key)).min();
        (name, &rest[..end.expect("labels")])
    })
    .collect()
}

#[test]
fn each_alert_fires_when_it_should_and_only_then() {
    for arguments in [["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]] {
        let (is_right, printed) = promtool(&directory(), &arguments);
        assert!(is_right, "{printed}");
    }
    for (name, _) in alerts() {
        assert!(TESTS.contains(&format!("alertname=\"{name}\"")), "no test has {name} fire");
    }
}

/// The tests see an alert that misses what it is for: a storm between two reads, headroom that is
/// compared with another group's, a stall, a new loss.
#[test]
fn a_wrong_alert_fails_its_test() {
    for (right, wrong) in [
        ("or increase(sluice_priority_storms_total[5m]) > 0", ""),
        ("> ignoring(since) 0.8 *", "> 0.8 * ignoring(since)"),
        ("le=\"0.016384\"", "le=\"0.001024\""),
        (
            "increase(sluice_priority_no_drop_lost_frames_total[5m])",
            "sluice_priority_no_drop_lost_frames_total",
        ),
        ("or increase(sluice_removed_ports_no_drop_lost_frames_total[5m]) > 0", ""),
        ("or increase(sluice_queue_no_room_stalls_total[5m]) > 0", ""),
    ] {
        assert!(RULES.contains(right), "{right}");
        let copy = tempfile::tempdir().unwrap();
        std::fs::write(copy.path().join("rules.yml"), RULES.replacen(right, wrong, 1)).unwrap();
        std::fs::write(copy.path().join("rules_test.yml"), TESTS).unwrap();
        let (passes, printed) = promtool(copy.path(), &["test", "rules", "rules_test.yml"]);
        assert!(!passes, "{right} became {wrong}: {printed}");
    }
}

#[test]
fn every_metric_and_label_of_the_alerts_exists() {
    let (known, alerts) = (Known::new(), alerts());
    assert!(alerts.len() >= 16, "{}", alerts.len());
    alerts
        .iter()
        .filter(|(name, _)| *name != "SwitchUnreachable")
        .for_each(|(_, query)| known.check(query, ""));
}
