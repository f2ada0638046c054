//! Databases as those of a leaf with 100G servers, made up for these tests.

use serde_json::json;
use switch::settings::Guaranteed;

use super::*;

/// Two servers and an uplink, priorities 3 and 4 without loss, in the style of current releases.
fn leaf() -> Map<String, Value> {
    let servers = "Ethernet0,Ethernet4";
    let database = json!({
        "DEVICE_METADATA": { "localhost": { "hostname": "leaf_7", "type": "ToRRouter", "mac": "02:11:22:33:44:55" } },
        "PORT": {
            "Ethernet0": { "lanes": "1,2", "alias": "et1", "speed": "100000", "mtu": "9100", "admin_status": "up", "fec": "rs" },
            "Ethernet4": { "lanes": "3,4", "alias": "et2", "speed": "100000", "mtu": "9100", "admin_status": "up" },
            "Ethernet12": { "lanes": "5,6", "speed": "400000", "mtu": "9100", "pfc_asym": "on" },
        },
        "CABLE_LENGTH": { "AZURE": { "Ethernet0": "5m", "Ethernet4": "5m", "Ethernet12": "300m" } },
        "DSCP_TO_TC_MAP": { "AZURE": dscp_map() },
        "TC_TO_QUEUE_MAP": { "AZURE": { "0": "0", "1": "1", "2": "2", "3": "3", "4": "4", "5": "5", "6": "6", "7": "7" } },
        "TC_TO_PRIORITY_GROUP_MAP": { "AZURE": { "0": "0", "1": "0", "2": "0", "3": "3", "4": "4", "5": "0", "6": "0", "7": "7" } },
        "MAP_PFC_PRIORITY_TO_QUEUE": { "AZURE": { "3": "3", "4": "4" } },
        "PORT_QOS_MAP": {
            (servers): {
                "dscp_to_tc_map": "AZURE", "tc_to_queue_map": "AZURE", "tc_to_pg_map": "AZURE", "pfc_to_queue_map": "AZURE",
                "pfc_enable": "3,4", "pfcwd_sw_enable": "3,4"
            },
            "Ethernet12": {
                "dscp_to_tc_map": "[DSCP_TO_TC_MAP|AZURE]", "tc_to_queue_map": "[TC_TO_QUEUE_MAP|AZURE]",
                "tc_to_pg_map": "[TC_TO_PRIORITY_GROUP_MAP|AZURE]", "pfc_enable": "3,4"
            },
        },
        "BUFFER_POOL": {
            "ingress_lossless_pool": { "type": "ingress", "mode": "dynamic", "size": "20000000", "xoff": "6000000" },
            "egress_lossless_pool": { "type": "egress", "mode": "static", "size": "26000000" },
            "egress_lossy_pool": { "type": "egress", "mode": "dynamic", "size": "15000000" },
        },
        "BUFFER_PROFILE": {
            "ingress_lossy_profile": { "pool": "ingress_lossless_pool", "size": "0", "dynamic_th": "3" },
            "pg_lossless_100000_5m": { "pool": "ingress_lossless_pool", "size": "1518", "xon": "2496", "xon_offset": "2496", "xoff": "190000", "dynamic_th": "0" },
            "pg_lossless_400000_300m": { "pool": "ingress_lossless_pool", "size": "1518", "xon_offset": "2496", "xoff": "900000", "dynamic_th": "1" },
            "egress_lossless_profile": { "pool": "egress_lossless_pool", "size": "0", "static_th": "26000000" },
            "egress_lossy_profile": { "pool": "egress_lossy_pool", "size": "1518", "dynamic_th": "1" },
            "spare": { "pool": "egress_lossy_pool", "size": "0", "dynamic_th": "1" },
        },
        "BUFFER_PG": {
            "Ethernet0|0": { "profile": "ingress_lossy_profile" },
            "Ethernet0|3-4": { "profile": "pg_lossless_100000_5m" },
            "Ethernet4|0": { "profile": "[BUFFER_PROFILE|ingress_lossy_profile]" },
            "Ethernet4|3-4": { "profile": "[BUFFER_PROFILE|pg_lossless_100000_5m]" },
            "Ethernet12|3-4": { "profile": "pg_lossless_400000_300m" },
        },
        "BUFFER_QUEUE": {
            "Ethernet0,Ethernet4,Ethernet12|3-4": { "profile": "egress_lossless_profile" },
            "Ethernet0,Ethernet4,Ethernet12|0-2": { "profile": "egress_lossy_profile" },
            "Ethernet12|8-9": { "profile": "egress_lossy_profile" },
        },
        "WRED_PROFILE": {
            "ROCE": {
                "ecn": "ecn_all", "wred_green_enable": "true", "green_min_threshold": "250000", "green_max_threshold": "2000000",
                "green_drop_probability": "5", "yellow_min_threshold": "250000", "yellow_max_threshold": "1000000", "yellow_drop_probability": "5"
            }
        },
        "SCHEDULER": {
            "lossy": { "type": "DWRR", "weight": "14" },
            "roce": { "type": "DWRR", "weight": "35", "meter_type": "bytes", "pir": "1250000000" },
            "control": { "type": "STRICT" },
        },
        "QUEUE": {
            "Ethernet0,Ethernet4,Ethernet12|3-4": { "scheduler": "roce", "wred_profile": "ROCE" },
            "Ethernet0,Ethernet4,Ethernet12|0-2": { "scheduler": "lossy" },
            "Ethernet0,Ethernet4,Ethernet12|6": { "scheduler": "control" },
        },
        "PFC_WD": {
            "GLOBAL": { "POLL_INTERVAL": "200" },
            "Ethernet0": { "action": "drop", "detection_time": "200", "restoration_time": "400" },
            "Ethernet4": { "action": "alert", "detection_time": "200" },
        },
        "VLAN": { "Vlan100": { "vlanid": "100" } },
        "VLAN_MEMBER": {
            "Vlan100|Ethernet0": { "tagging_mode": "untagged" },
            "Vlan100|Ethernet4": { "tagging_mode": "tagged" },
        },
        "BGP_NEIGHBOR": { "10.0.0.1": { "asn": "65100" } },
        "INTERFACE": { "Ethernet12": {} },
    });
    database.as_object().unwrap().clone()
}

/// DSCPs 3 and 26 have TC 3, 4 has 4, 48 has 6, all others 1, as usual.
fn dscp_map() -> Value {
    let tc = |dscp| match dscp {
        3 | 26 => "3",
        4 => "4",
        48 => "6",
        _ => "1",
    };
    Value::Object((0..64).map(|dscp: u8| (dscp.to_string(), Value::from(tc(dscp)))).collect())
}

#[test]
fn a_leaf_is_accepted_and_what_is_lost_is_listed() {
    let Imported { text, notes } = import(&leaf(), &[]).unwrap_or_else(|refusal| panic!("{refusal}"));
    let config = config::parse("leaf.toml", &text)
        .unwrap_or_else(|errors| panic!("{text}\n{:?}", miette::Report::new(errors)));
    assert_eq!(config.interfaces.len(), 3);
    let [first, _, uplink] = &config.switch.ports[..] else { panic!("three ports") };
    assert_eq!(
        (first.name.as_str(), first.speed_bps, uplink.speed_bps),
        ("Ethernet0", Some(100_000_000_000), Some(400_000_000_000))
    );
    assert_eq!(first.pfc.no_drop, 0b0001_1000);
    assert_eq!(
        (first.groups[3].headroom_cells, first.groups[3].reserved_cells),
        (190_000_u32.div_ceil(256), 6)
    );
    assert_eq!(config.switch.buffer.headroom_cells, 6_000_000_u32.div_ceil(256));
    assert_eq!(
        (first.classify.dscp_to_dot1p[26], first.classify.dscp_to_dot1p[4], first.classify.dscp_to_dot1p[63]),
        (3, 4, 1)
    );
    assert!(first.watchdog[3].is_some() && uplink.watchdog[3].is_none());
    let listed: String = notes
        .iter()
        .map(|note| format!("{} | {} | {} | {}\n", note.table, note.key, note.field, note.why))
        .collect();
    insta::assert_snapshot!("leaf", text);
    insta::assert_snapshot!("leaf_not_carried", listed);
}

/// Some ports only, by other interfaces.
#[test]
fn ports_are_chosen_and_named() {
    let pair = |port: &str, interface: &str| (port.to_owned(), interface.to_owned());
    let imported = import(&leaf(), &[pair("Ethernet12", "ens1f0"), pair("Ethernet0", "ens1f1")])
        .unwrap_or_else(|refusal| panic!("{refusal}"));
    let config = config::parse("leaf.toml", &imported.text).unwrap();
    assert_eq!(config.interfaces, ["ens1f1", "ens1f0"]);
    let refusal = import(&leaf(), &[pair("Ethernet3", "x")]).err().unwrap();
    assert_eq!(
        refusal,
        "there is no port `Ethernet3` in its table PORT, which has Ethernet0, Ethernet4, Ethernet12"
    );
}

/// What is wrong or unusual is named, and the rest imported.
#[test]
fn odd_entries_are_named() {
    let database = json!({
        "PORT": { "Ethernet0": { "speed": "fast" }, "Ethernet1": { "speed": "25000" } },
        "PORT_QOS_MAP": {
            "global": { "dscp_to_tc_map": "NONE" },
            "Ethernet0,Ethernet1": { "dot1p_to_tc_map": "SWAP", "pfc_enable": "3", "tc_to_queue_map": "Q", "pfc_to_queue_map": "P" },
        },
        "DOT1P_TO_TC_MAP": { "SWAP": { "0": "1", "3": "3" } },
        "TC_TO_QUEUE_MAP": { "Q": { "3": "4", "5": "12" } },
        "MAP_PFC_PRIORITY_TO_QUEUE": { "P": { "3": "3" } },
        "BUFFER_PG": { "Ethernet0|3": { "profile": "NULL" }, "Ethernet1|3": { "profile": "gone" } },
        "QUEUE": { "Ethernet0|4": { "wred_profile": "DROPS", "scheduler": "slow" } },
        "WRED_PROFILE": { "DROPS": { "ecn": "ecn_none", "green_min_threshold": "1", "green_max_threshold": "2" } },
        "SCHEDULER": { "slow": { "type": "WRR", "weight": "0", "pir": "10" } },
    });
    let Imported { text, notes } =
        import(database.as_object().unwrap(), &[]).unwrap_or_else(|refusal| panic!("{refusal}"));
    config::parse("odd.toml", &text)
        .unwrap_or_else(|errors| panic!("{text}\n{:?}", miette::Report::new(errors)));
    let listed: String = notes
        .iter()
        .map(|note| format!("{} | {} | {} | {}\n", note.table, note.key, note.field, note.why))
        .collect();
    insta::assert_snapshot!("odd_not_carried", listed);
}

/// Returns the text, which is accepted, and the notes as `table | key | field | why`.
fn imported(database: &Value) -> (String, Vec<String>) {
    let Imported { text, notes } =
        import(database.as_object().unwrap(), &[]).unwrap_or_else(|refusal| panic!("{refusal}"));
    config::parse("odd.toml", &text)
        .unwrap_or_else(|errors| panic!("{text}\n{:?}", miette::Report::new(errors)));
    let line = |note: Note| format!("{} | {} | {} | {}", note.table, note.key, note.field, note.why);
    (text, notes.into_iter().map(line).collect())
}

#[test]
fn a_priority_without_pfc_has_no_watchdog() {
    let (text, notes) = imported(&json!({
        "PORT": { "Ethernet0": { "speed": "25000" } },
        "PORT_QOS_MAP": { "Ethernet0": { "pfc_enable": "3", "pfcwd_sw_enable": "3,4" } },
        "PFC_WD": { "Ethernet0": { "action": "drop", "detection_time": "200", "restoration_time": "400" } },
    }));
    assert!(text.contains("pfc.watchdog.priority.3 = "), "{text}");
    assert!(!text.contains("pfc.watchdog.priority.4"), "{text}");
    let expected = "PORT_QOS_MAP | Ethernet0 | pfcwd_sw_enable | priority 4 has no PFC (pfc_enable), so it has no watchdog";
    assert!(notes.iter().any(|note| note == expected), "{notes:#?}");
}

#[test]
fn the_first_of_two_cable_lengths_is_taken() {
    let (text, notes) = imported(&json!({
        "PORT": { "Ethernet0": { "speed": "25000" } },
        "CABLE_LENGTH": { "A": { "Ethernet0": "5m" }, "B": { "Ethernet0": "40m" } },
    }));
    assert!(text.contains("cable_m = 5\n") && !text.contains("cable_m = 40"), "{text}");
    let expected = "CABLE_LENGTH | B | Ethernet0 | a port has one length: that in A is taken";
    assert!(notes.iter().any(|note| note == expected), "{notes:#?}");
}

/// Numbers with which nothing can be computed are noted.
#[test]
fn huge_numbers_are_named() {
    let (text, notes) = imported(&json!({
        "PORT": {
            "Ethernet0": { "speed": "9223372036854775807", "mtu": "9223372036854775807" },
            "Ethernet1": { "speed": "999999999999", "mtu": "70000" },
        },
        "PORT_QOS_MAP": { "Ethernet0,Ethernet1": { "pfc_enable": "3" } },
        "PFC_WD": { "Ethernet0": { "action": "drop", "detection_time": "9223372036854775807" } },
        "QUEUE": { "Ethernet0|4": { "scheduler": "fast" } },
        "SCHEDULER": { "fast": { "type": "DWRR", "weight": "1", "pir": "9223372036854775807" } },
    }));
    for line in ["speed =", "mtu =", "rate =", "watchdog"] {
        assert!(!text.contains(line), "{line}: {text}");
    }
    for expected in [
        "PORT | Ethernet0 | speed | 9223372036854775807 is not in 0 to 1000000000000",
        "PORT | Ethernet0 | mtu | 9223372036854775807 is not in 0 to 1000000000000",
        "PORT | Ethernet1 | speed | 999999999999 Mbit/s is no speed of a port",
        "PFC_WD | Ethernet0 | detection_time | 9223372036854775807 is not in 0 to 1000000000000",
        "SCHEDULER | fast | pir | 9223372036854775807 is not in 0 to 1000000000000",
    ] {
        assert!(notes.iter().any(|note| note == expected), "{expected}: {notes:#?}");
    }
    assert!(notes.iter().any(|note| note.starts_with("PORT | Ethernet1 | mtu | an MTU is ")), "{notes:#?}");
}

/// A profile of lossless queues limits no queue, but what it guarantees stays, also where a lossy
/// queue shares the profile.
#[test]
fn a_queue_without_maximum_keeps_what_it_is_guaranteed() {
    let import_with = |size: &str| {
        imported(&json!({
            "PORT": { "Ethernet0": { "speed": "25000" } },
            "PORT_QOS_MAP": { "Ethernet0": { "pfc_enable": "3" } },
            "BUFFER_POOL": { "out": { "type": "egress", "mode": "dynamic", "size": "1000000" } },
            "BUFFER_PROFILE": { "roce": { "pool": "out", "size": size, "dynamic_th": "7" } },
            "BUFFER_QUEUE": { "Ethernet0|2-3": { "profile": "roce" } },
        }))
    };
    let (text, notes) = import_with("9216");
    let config = config::parse("queues.toml", &text).unwrap();
    let queues = &config.switch.ports[0].queues;
    assert_eq!([2, 3].map(|queue| queues[queue].guaranteed), [Guaranteed::Cells(36); 2], "{text}");
    assert!(text.contains("[buffer.egress.profile.roce_no_maximum]\nreserved_bytes = 9216\nshared = { static_cells = 16777216 }\n"), "{text}");
    assert!(
        text.contains("[buffer.egress.profile.roce]\nreserved_bytes = 9216\nshared = { dynamic_th = 3 }\n"),
        "{text}"
    );
    assert!(notes.iter().any(|note| note.starts_with("BUFFER_PROFILE | roce | dynamic_th | ")), "{notes:#?}");
    let (text, _) = import_with("0");
    assert!(
        text.contains("buffer.egress.queue.2 = ") && !text.contains("buffer.egress.queue.3 = "),
        "{text}"
    );
}
