//! `[telemetry]`: valid settings and their results, and each error with its cure.

use config::{Config, Destination, Sensor, SensorPath, Subscription, Tls, TlsIdentity};

const PORT: &str = "[port.a]\ninterface = \"veth0\"\n";

fn parse(text: &str) -> Config {
    config::parse("x.toml", &format!("{PORT}{text}")).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn mistakes(text: &str) -> String {
    match config::parse("x.toml", &format!("{PORT}{text}")) {
        Ok(_) => format!("no mistake in\n{text}"),
        Err(mistakes) => mistakes.to_string(),
    }
}

/// The example of the H3C reference ("Device A"), except its alarms, which give a warning.
#[test]
fn sensors_destinations_and_subscriptions() {
    let config = parse(
        r#"
        [telemetry.sensor-group.test1]
        paths = ["buffermonitor/bufferusages", "BufferMonitor/HeadroomUsages"]
        [telemetry.sensor-group.test2]
        paths = ["buffermonitor/portqueoverrunevent", "buffermonitor/portquedropevent"]
        [telemetry.destination-group.collector1]
        collectors = ["192.168.2.1:50050", "[fd00::1]"]
        [telemetry.destination-group.spare]
        collectors = ["collector.example:57400"]
        vpn_instance = "management"
        service = "/grpc_dialout.gRPCDialout/Dialout"
        backlog_messages = 100
        backlog_kib = 64
        message_kib = 8
        [telemetry.subscription.A]
        sensors = [{ group = "test1", interval_s = 10 }, { group = "test2" }]
        destinations = ["collector1"]
        [telemetry.subscription.B]
        sensors = [{ group = "test1", interval_ms = 100 }]
        destinations = ["spare", "collector1"]
        "#,
    );
    let of = |host: &str| Destination {
        group: "collector1".to_owned(),
        host: host.to_owned(),
        port: 50050,
        vpn_instance: None,
        service: "/grpc_dialout.GRPCDialout/Dialout".to_owned(),
        tls: None,
        backlog_messages: 1000,
        backlog_bytes: 16 << 20,
        message_bytes: 4 << 20,
    };
    let spare = Destination {
        group: "spare".to_owned(),
        host: "collector.example".to_owned(),
        port: 57400,
        vpn_instance: Some("management".to_owned()),
        service: "/grpc_dialout.gRPCDialout/Dialout".to_owned(),
        tls: None,
        backlog_messages: 100,
        backlog_bytes: 64 << 10,
        message_bytes: 8 << 10,
    };
    assert_eq!(config.telemetry.destinations, [of("192.168.2.1"), of("fd00::1"), spare]);
    let addresses: Vec<_> = config.telemetry.destinations.iter().map(Destination::address).collect();
    assert_eq!(addresses, ["192.168.2.1:50050", "[fd00::1]:50050", "collector.example:57400"]);
    let usage = |interval_ms| Sensor {
        group: "test1".to_owned(),
        paths: vec![SensorPath::BufferUsages, SensorPath::HeadroomUsages],
        interval_ms: Some(interval_ms),
    };
    let alarms = Sensor {
        group: "test2".to_owned(),
        paths: vec![SensorPath::PortQueOverrunEvent, SensorPath::PortQueDropEvent],
        interval_ms: None,
    };
    let subscription =
        |name: &str, sensors, destinations| Subscription { name: name.to_owned(), sensors, destinations };
    assert_eq!(
        config.telemetry.subscriptions,
        [
            subscription("A", vec![usage(10_000), alarms], vec![0, 1]),
            subscription("B", vec![usage(100)], vec![0, 1, 2])
        ]
    );
    let warnings: Vec<_> = config.warnings.list().iter().map(|warning| warning.what.as_str()).collect();
    assert_eq!(
        warnings,
        [
            "no events for buffermonitor/portqueoverrunevent: the alarm that it reports is off",
            "no events for buffermonitor/portquedropevent: the alarm that it reports is off"
        ]
    );
}

#[test]
fn tls_follows_the_file() {
    let tls = |text: &str| {
        let text = format!("[telemetry.destination-group.c]\ncollectors = [\"h\"]\n{text}");
        parse(&text).telemetry.destinations.remove(0).tls
    };
    assert_eq!(tls(""), None);
    assert_eq!(tls("tls = {}"), Some(Tls::default()));
    let identity = TlsIdentity { certificate: "a.pem".into(), key: "/etc/a.key".into() };
    let all = Tls {
        ca: Some("ca.pem".into()),
        server_name: Some("x.example".to_owned()),
        identity: Some(identity),
    };
    let text = "tls = { ca = \"ca.pem\", server_name = \"x.example\", certificate = \"a.pem\", key = \"/etc/a.key\" }";
    assert_eq!(tls(text), Some(all));
    for (text, expected) in [
        ("tls = true", "tls"),
        ("tls = { ca = \"\" }", "write the path of a PEM file, as in \"ca.pem\""),
        ("tls = { certificate = \"a\" }", "a certificate without its key"),
        ("tls = { key = \"a\" }", "a key without its certificate"),
        ("tls = { server_name = \"a b\" }", "\"a b\" cannot be the name in a certificate"),
        ("tls = { cafile = \"a\" }", "cafile"),
    ] {
        let message = mistakes(&format!("[telemetry.destination-group.c]\ncollectors = [\"h\"]\n{text}"));
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn other_telemetry_is_applied_by_reload() {
    let text = "[telemetry.destination-group.a]\ncollectors = [\"h\"]\n";
    let changes = config::changes(&parse(text), &parse(&text.replace("\"h\"", "\"i\"")));
    assert_eq!((changes.live, changes.restart.len()), (vec!["telemetry".to_owned()], 0));
    assert!(config::changes(&parse(text), &parse(text)).is_empty());
}

/// Valid groups of both kinds.
const GROUPS: &str = "[telemetry.sensor-group.use]\npaths = [\"buffermonitor/bufferusages\"]\n\
                      [telemetry.sensor-group.events]\npaths = [\"sluice/events\"]\n\
                      [telemetry.destination-group.c]\ncollectors = [\"h\"]\n[telemetry.subscription.A]\n";

#[test]
fn each_mistake_has_its_cure() {
    let mut message = String::new();
    for text in [
        "[telemetry]\nsensors = 1",
        "[telemetry.sensor-group.a]\npaths = []",
        "[telemetry.sensor-group.a]",
        "[telemetry.sensor-group.a]\npaths = \"buffermonitor/bufferusages\"",
        "[telemetry.sensor-group.a]\npaths = [1]",
        "[telemetry.sensor-group.a]\npaths = [\"buffermonitor/buferusages\", \"x\"]",
        "[telemetry.sensor-group.a]\npaths = [\"sluice/events\", \"Sluice/events\"]",
        "[telemetry.sensor-group.a]\npaths = [\"sluice/events\", \"qstat/queuestat\"]",
        "[telemetry.sensor-group.\"a b\"]\npaths = [\"sluice/events\"]",
        "[telemetry.destination-group.a]",
        "[telemetry.destination-group.a]\ncollectors = []",
        "[telemetry.destination-group.a]\ncollectors = [\"h\", \"h:50050\", \"http://h\"]",
        "[telemetry.destination-group.a]\ncollectors = [\"h\"]\nvpn_instance = \"a/b\"\nservice = \"Dialout\"\nbacklog_messages = 0",
        "[telemetry.destination-group.a]\ncollectors = [\"h\"]\nvpn-instance = \"a\"",
    ] {
        message += &format!("{text}\n{}\n\n", mistakes(text));
    }
    for text in [
        "",
        "sensors = []\ndestinations = []",
        "sensors = [{ group = \"use\" }]\ndestinations = [\"c\"]",
        "sensors = [{ group = \"events\", interval_s = 10 }]\ndestinations = [\"c\"]",
        "sensors = [{ group = \"use\", interval_s = 1, interval_ms = 100 }]\ndestinations = [\"c\"]",
        "sensors = [{ group = \"use\", interval_ms = 99 }]\ndestinations = [\"c\"]",
        "sensors = [{ group = \"usr\", interval_s = 1 }, { interval_s = 1 }]\ndestinations = [\"d\"]",
        "sensors = [\"use\"]\ndestinations = \"c\"",
    ] {
        message +=
            &format!("[telemetry.subscription.A]\n{text}\n{}\n\n", mistakes(&format!("{GROUPS}{text}")));
    }
    insta::assert_snapshot!(message);
}

#[test]
fn groups_that_no_subscription_uses_are_warned_of() {
    let text = "[telemetry.sensor-group.used]\npaths = [\"buffermonitor/bufferusages\"]\n\
                [telemetry.sensor-group.spare]\npaths = [\"buffermonitor/bufferusages\"]\n\
                [telemetry.destination-group.used]\ncollectors = [\"127.0.0.1:1\"]\n\
                [telemetry.destination-group.spare]\ncollectors = [\"127.0.0.1:2\"]\n\
                [telemetry.subscription.s]\nsensors = [{ group = \"used\", interval_s = 1 }]\ndestinations = [\"used\"]\n";
    let config = parse(text);
    let warnings: Vec<_> = config.warnings.list().iter().map(|warning| warning.what.as_str()).collect();
    let of_spare =
        ["no subscription uses sensor group spare", "no subscription uses destination group spare"];
    for warning in of_spare {
        assert!(warnings.contains(&warning), "{warnings:?}");
    }
    assert_eq!(warnings.iter().filter(|warning| warning.starts_with("no subscription")).count(), 2);
}

#[test]
fn the_33rd_collector_of_a_group_is_refused() {
    let group = |count: usize| {
        let hosts: Vec<String> = (0..count).map(|number| format!("\"h{number}\"")).collect();
        format!("[telemetry.destination-group.a]\ncollectors = [{}]\n", hosts.join(", "))
    };
    assert_eq!(parse(&group(32)).telemetry.destinations.len(), 32);
    let message = mistakes(&group(33));
    assert!(
        message.contains("one collector too many; a group can have 32: put the others into another"),
        "{message}"
    );
}
