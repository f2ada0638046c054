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

/// Ports of the MSN2700 in SONiC's tests: Ethernet0 to Ethernet124, each with its speed in Mbit/s
/// and the length of its cable.
fn msn2700_ports() -> impl Iterator<Item = (u32, &'static str, &'static str)> {
    (0..32).map(|number| {
        let port = 4 * number;
        let speed = match port {
            0 => "10000",
            4 => "25000",
            8 => "40000",
            12 | 120 | 124 => "50000",
            _ => "100000",
        };
        (port, speed, if port >= 112 { "40m" } else { "5m" })
    })
}

/// The buffers of that switch (sonic-utilities, tests/db_migrator_input,
/// "non-default-config-traditional-acs") with the QoS that SONiC generates (sonic-buildimage,
/// sonic-config-engine's sample "qos-arista7800r3-48cq2-lc"): their numbers and their names.
fn of_public_test_vectors() -> Value {
    let (mut ports, mut cables, mut groups, mut queues, mut qos, mut scheduled) = Default::default();
    let insert = |table: &mut serde_json::Map<String, Value>, key: String, value: Value| {
        assert!(table.insert(key, value).is_none());
    };
    for (port, speed, cable) in msn2700_ports() {
        let profile = |name: &str| json!({ "profile": format!("[BUFFER_PROFILE|{name}]") });
        insert(
            &mut ports,
            format!("Ethernet{port}"),
            json!({ "speed": speed, "mtu": "9100", "fec": "rs", "pfc_asym": "off", "admin_status": "up" }),
        );
        insert(&mut cables, format!("Ethernet{port}"), json!(cable));
        insert(
            &mut groups,
            format!("Ethernet{port}|3-4"),
            profile(&format!("pg_lossless_{speed}_{cable}_profile")),
        );
        let maps = json!({
            "dscp_to_tc_map": "AZURE", "tc_to_queue_map": "AZURE", "tc_to_pg_map": "AZURE", "pfc_to_queue_map": "AZURE",
            "pfc_enable": "3,4", "pfcwd_sw_enable": "3,4",
        });
        insert(&mut qos, format!("Ethernet{port}"), maps);
        for (range, scheduler) in [("0-2", "scheduler.0"), ("3-4", "scheduler.1"), ("5-6", "scheduler.0")] {
            let wred = if range == "3-4" { json!("AZURE_LOSSLESS") } else { Value::Null };
            let mut queue = json!({ "scheduler": scheduler, "wred_profile": wred });
            queue.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            insert(&mut scheduled, format!("Ethernet{port}|{range}"), queue);
        }
        if ![0, 100, 104, 108].contains(&port) {
            insert(&mut groups, format!("Ethernet{port}|0"), profile("ingress_lossy_profile"));
            for (range, name) in
                [("0-2", "q_lossy_profile"), ("3-4", "egress_lossless_profile"), ("5-6", "q_lossy_profile")]
            {
                insert(&mut queues, format!("Ethernet{port}|{range}"), profile(name));
            }
        }
    }
    let identity: Value =
        (0..8).map(|n| (n.to_string(), json!(n.to_string()))).collect::<serde_json::Map<_, _>>().into();
    let tc_of = |dscp: u32| match dscp {
        3 | 4 => dscp,
        5 => 2,
        8 => 0,
        46 => 5,
        48 => 6,
        _ => 1,
    };
    let dscps: Value = (0..64)
        .map(|n| (n.to_string(), json!(tc_of(n).to_string())))
        .collect::<serde_json::Map<_, _>>()
        .into();
    json!({
        "DEVICE_METADATA": { "localhost": { "hwsku": "ACS-MSN2700", "hostname": "sonic", "buffer_model": "traditional" } },
        "PORT": ports,
        "CABLE_LENGTH": { "AZURE": cables },
        "BUFFER_POOL": {
            "ingress_lossless_pool": { "type": "ingress", "mode": "dynamic", "size": "4194304" },
            "ingress_lossy_pool": { "type": "ingress", "mode": "dynamic", "size": "7340032" },
            "egress_lossless_pool": { "type": "egress", "mode": "dynamic", "size": "13000000" },
            "egress_lossy_pool": { "type": "egress", "mode": "dynamic", "size": "7340032" },
        },
        "BUFFER_PROFILE": profiles(),
        "BUFFER_PG": groups,
        "BUFFER_QUEUE": queues,
        "DSCP_TO_TC_MAP": { "AZURE": dscps },
        "TC_TO_QUEUE_MAP": { "AZURE": identity },
        "MAP_PFC_PRIORITY_TO_QUEUE": { "AZURE": identity },
        "TC_TO_PRIORITY_GROUP_MAP": { "AZURE": { "0": "0", "1": "0", "2": "0", "3": "3", "4": "4", "5": "0", "6": "0", "7": "7" } },
        "PORT_QOS_MAP": qos,
        "SCHEDULER": { "scheduler.0": { "type": "DWRR", "weight": "14" }, "scheduler.1": { "type": "DWRR", "weight": "15" } },
        "WRED_PROFILE": { "AZURE_LOSSLESS": {
            "ecn": "ecn_all", "wred_green_enable": "true", "wred_yellow_enable": "true", "wred_red_enable": "true",
            "green_min_threshold": "2000000", "green_max_threshold": "10000000", "green_drop_probability": "5",
            "yellow_min_threshold": "2000000", "yellow_max_threshold": "10000000", "yellow_drop_probability": "5",
            "red_min_threshold": "2000000", "red_max_threshold": "10000000", "red_drop_probability": "5",
        } },
        "QUEUE": scheduled,
    })
}

/// The profiles of the MSN2700: those of lossless groups by speed and cable.
fn profiles() -> Value {
    let mut profiles = json!({
        "ingress_lossless_profile": { "pool": "[BUFFER_POOL|ingress_lossless_pool]", "size": "0", "dynamic_th": "0" },
        "ingress_lossy_profile": { "pool": "[BUFFER_POOL|ingress_lossy_pool]", "size": "0", "dynamic_th": "3" },
        "egress_lossless_profile": { "pool": "[BUFFER_POOL|egress_lossless_pool]", "size": "0", "dynamic_th": "7" },
        "egress_lossy_profile": { "pool": "[BUFFER_POOL|egress_lossy_pool]", "size": "4096", "dynamic_th": "3" },
        "q_lossy_profile": { "pool": "[BUFFER_POOL|egress_lossy_pool]", "size": "0", "dynamic_th": "3" },
    });
    for (name, xoff) in [
        ("10000_5m", 16_384),
        ("25000_5m", 16_384),
        ("40000_5m", 16_384),
        ("50000_5m", 16_384),
        ("50000_40m", 23_552),
        ("100000_5m", 18_432),
        ("100000_40m", 35_840),
    ] {
        profiles[format!("pg_lossless_{name}_profile")] = json!({
            "pool": "[BUFFER_POOL|ingress_lossless_pool]", "xon": "18432", "xoff": xoff.to_string(),
            "size": (18_432 + xoff).to_string(), "dynamic_th": "0",
        });
    }
    profiles
}

/// Three of its 100G ports send to a fourth.
const MSN2700: &str = "
title = \"Incast through an imported MSN2700\"
duration = \"2ms\"
[switch.s]
config = \"lab.toml\"
[host.h16]
[host.h20]
[host.h24]
[host.h28]
[[link]]
ends = [\"h16\", \"s.Ethernet16\"]
[[link]]
ends = [\"h20\", \"s.Ethernet20\"]
[[link]]
ends = [\"h24\", \"s.Ethernet24\"]
[[link]]
ends = [\"h28\", \"s.Ethernet28\"]
[[traffic]]
name = \"rdma\"
from = [\"h16\", \"h20\", \"h24\"]
to = \"h28\"
priority = 3
dscp = 3
frame_bytes = 1024
rate = \"100G\"
[[expect]]
lost = 0
";

#[test]
fn numbers_of_public_test_vectors_import_check_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("config_db.json"), of_public_test_vectors().to_string()).unwrap();
    let json = succeeded(at, &["import", "sonic", "config_db.json", "--output", "lab.toml", "--json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    let notes: std::collections::BTreeSet<String> = report["not_carried"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| format!("{} {} {}", note["table"], note["field"], note["why"]))
        .collect();
    insta::assert_snapshot!(
        "not_carried_of_public_test_vectors",
        notes.into_iter().collect::<Vec<_>>().join("\n")
    );
    let checked = succeeded(at, &["check", "lab.toml"]);
    assert!(checked.contains("32 ports"), "{checked}");
    fs::write(at.join("incast.toml"), MSN2700).unwrap();
    succeeded(at, &["sim", "incast.toml"]);
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
