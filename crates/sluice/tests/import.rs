//! `sluice import` and `sluice init` as processes: what they write is accepted by `sluice check`,
//! and an imported switch carries traffic in the simulator.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn sluice(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(arguments).current_dir(folder).output().unwrap()
}

fn succeeded(folder: &Path, arguments: &[&str]) -> String {
    let output = sluice(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A switch of four ports with priority 3 without loss.
fn database() -> Value {
    let ports = ["Ethernet0", "Ethernet1", "Ethernet2", "Ethernet3"];
    let all = ports.join(",");
    let object =
        |value: Value| Value::Object(ports.iter().map(|port| ((*port).to_owned(), value.clone())).collect());
    json!({
        "DEVICE_METADATA": { "localhost": { "hostname": "lab" } },
        "PORT": object(json!({ "speed": "10000", "mtu": "1500", "lanes": "1" })),
        "CABLE_LENGTH": { "LAB": object(json!("10m")) },
        "PORT_QOS_MAP": { (all.as_str()): { "dot1p_to_tc_map": "SAME", "pfc_enable": "3" } },
        "DOT1P_TO_TC_MAP": { "SAME": { "3": "3" } },
        "BUFFER_POOL": { "ingress": { "type": "ingress", "mode": "dynamic", "size": "16000000", "xoff": "8000000" } },
        "BUFFER_PROFILE": {
            "lossless": { "pool": "ingress", "size": "2048", "xon_offset": "2048", "xoff": "100000", "dynamic_th": "-3" },
            "queue": { "pool": "egress", "size": "0", "static_th": "16000000" },
        },
        "BUFFER_PG": { (format!("{all}|3")): { "profile": "lossless" } },
        "BUFFER_QUEUE": { (format!("{all}|3")): { "profile": "queue" } },
        "PFC_WD": { (all.as_str()): { "action": "drop", "detection_time": "400", "restoration_time": "400" } },
    })
}

const SCENARIO: &str = "
title = \"Incast through an imported switch\"
duration = \"2ms\"
[switch.s]
config = \"lab.toml\"
[host.\"h[0-3]\"]
[[link]]
ends = [\"h[0-3]\", \"s.Ethernet[0-3]\"]
[[traffic]]
name = \"rdma\"
from = \"h[1-3]\"
to = \"h0\"
priority = 3
frame_bytes = 1024
rate = \"10G\"
[[expect]]
lost = 0
";

#[test]
fn an_imported_switch_checks_and_runs_in_the_simulator() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("config_db.json"), database().to_string()).unwrap();
    let printed = succeeded(at, &["import", "sonic", "config_db.json"]);
    let json = succeeded(at, &["import", "sonic", "config_db.json", "--output", "lab.toml", "--json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["config"].as_str().unwrap(), printed, "the same on standard output");
    assert_eq!(fs::read_to_string(at.join("lab.toml")).unwrap(), printed);
    let lost = report["not_carried"].as_array().unwrap();
    assert!(
        lost.iter()
            .any(|note| note["table"] == "PORT" && note["key"] == "Ethernet2" && note["field"] == "lanes")
    );
    let checked = succeeded(at, &["check", "lab.toml"]);
    assert!(checked.contains("lab.toml: ") && checked.contains("4 ports"), "{checked}");

    fs::write(at.join("lab-scenario.toml"), SCENARIO).unwrap();
    let ran = succeeded(at, &["sim", "lab-scenario.toml"]);
    assert!(ran.contains("rdma"), "{ran}");
}

#[test]
fn a_new_configuration_checks_strictly() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let line = [
        "init",
        "nowhere1",
        "nowhere2",
        "--speed",
        "10G",
        "--mtu",
        "9000",
        "--stall-us",
        "300",
        "--output",
        "lab.toml",
    ];
    let wrote = succeeded(at, &line);
    assert_eq!(wrote, "Wrote lab.toml: `sluiced --config lab.toml` starts it.\n");
    let again = sluice(at, &line);
    let errors = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.code() == Some(1) && errors.contains("lab.toml: the file exists"), "{errors}");
    assert_eq!(succeeded(at, &[&line[..], &["--force"]].concat()), wrote);
    let checked = succeeded(at, &["check", "--strict", "lab.toml"]);
    assert!(checked.starts_with("lab.toml: right, 2 ports"), "{checked}");
    let json =
        succeeded(at, &["init", "eth0", "--speed", "1G", "--mtu", "1500", "--stall-us", "7", "--json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&report["stall_ns"], &report["file"]), (&json!(7000), &Value::Null));
    assert_eq!(
        report["ports"],
        json!([{ "name": "eth0", "speed_bps": 1_000_000_000_u64, "mtu_bytes": 1500 }])
    );
}

/// Misuse ends with 2, a file that cannot be read or is no CONFIG_DB with 1.
#[test]
fn wrong_input_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("broken.json"), "{").unwrap();
    fs::write(at.join("empty.json"), "{}").unwrap();
    for (line, code, expected) in [
        (&["import", "sonic", "nowhere.json"][..], 1, "cannot read nowhere.json"),
        (&["import", "sonic", "broken.json"], 1, "broken.json is no JSON: EOF"),
        (&["import", "sonic", "empty.json"], 2, "its table PORT has no port"),
        (&["import", "sonic", "empty.json", "--port", "a"], 2, "as Ethernet0=eth0"),
        (&["init", "a", "a", "--speed", "1G", "--mtu", "1500", "--stall-us", "1"], 2, "a is named twice"),
        (&["init", "a", "--static", "b=02:00:00:00:00:01", "--stall-us", "1"], 2, "--static names b"),
        (&["init", "nowhere7", "--stall-us", "1"], 1, "nowhere7"),
        (&["init", "a", "--no-drop", "6"], 2, "6 is not in 1..=5"),
    ] {
        let output = sluice(at, line);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line:?}: {errors}");
        assert!(errors.contains(expected), "{line:?}: {errors}");
    }
}
