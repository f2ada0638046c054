//! `[metrics]`: valid settings and their results, and each error with its cure.

use config::{Config, Metrics};

fn parse(text: &str) -> Result<Config, String> {
    let text = format!("{text}\n[port.a]\ninterface = \"veth0\"\n");
    config::parse("x.toml", &text).map_err(|mistakes| mistakes.to_string())
}

fn listens(address: &str) -> Option<Metrics> {
    Some(Metrics { listen: address.parse().unwrap(), page: false })
}

#[test]
fn off_unless_enabled_and_then_on_loopback() {
    for (text, expected) in [
        ("", None),
        ("[metrics]\nenabled = false", None),
        ("[metrics]\nenabled = false\nlisten = \"[::1]:9000\"", None),
        ("[metrics]\nenabled = true", listens("127.0.0.1:9464")),
        ("[metrics]\nenabled = true\nlisten = \"[::1]:9000\"", listens("[::1]:9000")),
    ] {
        let config = parse(text).unwrap();
        assert_eq!((config.metrics, config.warnings.list().len()), (expected, 0), "{text}");
    }
}

#[test]
fn the_page_is_off_unless_it_is_wanted() {
    let config = parse("[metrics]\nenabled = true\npage = true").unwrap();
    assert_eq!(config.metrics, Some(Metrics { page: true, ..listens("127.0.0.1:9464").unwrap() }));
}

#[test]
fn an_address_that_others_reach_is_warned_of() {
    let config = parse("[metrics]\nenabled = true\nlisten = \"0.0.0.0:9464\"").unwrap();
    assert_eq!(config.metrics, listens("0.0.0.0:9464"));
    let [warning] = config.warnings.list() else { panic!("one warning") };
    assert_eq!(
        warning.what,
        "anyone who can reach 0.0.0.0:9464 can read the metrics: access has no password and no encryption"
    );
}

#[test]
fn each_mistake_has_its_cure() {
    for (text, expected) in [
        ("[metrics]", "write enabled = true, too, or leave [metrics] out"),
        ("[metrics]\nlisten = \"127.0.0.1:9464\"", "write enabled = true, too, or leave [metrics] out"),
        (
            "[metrics]\nenabled = true\nlisten = \"localhost:9464\"",
            "\"localhost:9464\" is no address with a port",
        ),
        ("[metrics]\nenabled = true\nlisten = \"127.0.0.1\"", "write an address of this machine and a port"),
        ("[metrics]\nenabled = true\nlisten = \"127.0.0.1:0\"", "port 0 is none"),
        ("[metrics]\nenabled = true\nlisten = 9464", "127.0.0.1:9464"),
        ("[metrics]\nenable = true", "enabled"),
        ("[metrics]\nenabled = true\npage = 1", "write true or false"),
    ] {
        let message = parse(text).unwrap_err();
        assert!(message.contains(expected), "{text}: {message}");
        assert!(message.contains("metrics"), "{message}");
    }
}

#[test]
fn other_metrics_are_applied_by_reload() {
    let [off, on] = ["", "[metrics]\nenabled = true"].map(|text| parse(text).unwrap());
    let changes = config::changes(&off, &on);
    assert_eq!((changes.live, changes.restart.len()), (vec!["metrics".to_owned()], 0));
    assert!(config::changes(&on, &on).is_empty());
}
