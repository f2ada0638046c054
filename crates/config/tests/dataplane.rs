//! `[dataplane]`, and the time for which peers are paused.

use config::{Config, Dataplane, PfcTest, Scheduling, ZeroCopy};
use switch::pfc::tx::PfcTiming;

#[track_caller]
fn parse(text: &str) -> Config {
    let text = format!("[port.a]\ninterface = \"veth0\"\n{text}");
    config::parse("test.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// docs/behavior.md, "A loop that stalls": short slices, and a loop that falls behind pauses
/// its peers.
#[test]
fn defaults() {
    let defaults = Dataplane {
        cores: vec![0],
        switch_core_serves: true,
        scheduling: Scheduling::ShortSlices,
        pauses_on_overload: true,
        spare_ports: 2,
        pfc_test: PfcTest::Nics,
        zero_copy: ZeroCopy::Auto,
    };
    for text in ["", "[dataplane]", "[dataplane]\nscheduling = \"short-slices\"\noverload = \"pause\""] {
        assert_eq!(parse(text).dataplane, defaults, "{text}");
    }
}

/// docs/multi-core.md: the first core switches, all serve ports; each is named once.
#[test]
fn cores() {
    assert_eq!(parse("[dataplane]\ncores = [2, 0, 1]").dataplane.cores, [2, 0, 1]);
    for (cores, words) in [("[]", "no core"), ("[1, 0, 1]", "a core is named twice")] {
        let text = format!("[dataplane]\ncores = {cores}\n[port.a]\ninterface = \"veth0\"\n");
        let mistakes = config::parse("test.toml", &text).expect_err("a mistake").to_string();
        assert!(mistakes.contains(words), "{mistakes}");
    }
}

/// docs/multi-core.md: a port may be assigned to one of several cores, and the first may be left to
/// switching.
#[test]
fn cores_of_ports() {
    let parse = |dataplane: &str, a: &str, b: &str| {
        let text = format!(
            "[dataplane]\n{dataplane}\n[port.a]\ninterface = \"veth0\"\n{a}\n[port.b]\ninterface = \"veth1\"\n{b}\n"
        );
        config::parse("test.toml", &text).map_err(|mistakes| mistakes.to_string())
    };
    let config = parse("cores = [2, 0, 1]", "", "core = 0").unwrap();
    assert_eq!((config.port_cores, config.dataplane.switch_core_serves), (vec![None, Some(0)], true));
    let config = parse("cores = [2, 0]\nswitch_core_serves = false", "core = 0", "").unwrap();
    assert_eq!((config.port_cores, config.dataplane.switch_core_serves), (vec![Some(0), None], false));
}

#[test]
fn scheduling() {
    for (name, expected) in [
        ("normal", Scheduling::Normal),
        ("short-slices", Scheduling::ShortSlices),
        ("fifo", Scheduling::Fifo),
    ] {
        let dataplane = parse(&format!("[dataplane]\ncores = [1]\nscheduling = \"{name}\"")).dataplane;
        assert_eq!(
            dataplane,
            Dataplane {
                cores: vec![1],
                switch_core_serves: true,
                scheduling: expected,
                pauses_on_overload: true,
                spare_ports: 2,
                pfc_test: PfcTest::Nics,
                zero_copy: ZeroCopy::Auto,
            },
            "{name}"
        );
    }
}

#[test]
fn overload() {
    for (name, pauses_on_overload) in [("pause", true), ("drop", false)] {
        let dataplane = parse(&format!("[dataplane]\noverload = \"{name}\"")).dataplane;
        assert_eq!(dataplane, Dataplane { pauses_on_overload, ..Dataplane::default() }, "{name}");
    }
}

#[test]
fn pfc_test() {
    for (name, pfc_test) in [("off", PfcTest::Off), ("nics", PfcTest::Nics), ("all", PfcTest::All)] {
        let dataplane = parse(&format!("[dataplane]\npfc_test = \"{name}\"")).dataplane;
        assert_eq!(dataplane, Dataplane { pfc_test, ..Dataplane::default() }, "{name}");
    }
}

/// docs/kernel/af-xdp.md, "Zero-copy": used where the driver can, unless the file disables it.
#[test]
fn zero_copy() {
    for (name, zero_copy) in
        [("auto", ZeroCopy::Auto), ("off", ZeroCopy::Off), ("emulate", ZeroCopy::Emulate)]
    {
        let dataplane = parse(&format!("[dataplane]\nzero_copy = \"{name}\"")).dataplane;
        assert_eq!(dataplane, Dataplane { zero_copy, ..Dataplane::default() }, "{name}");
        assert_eq!(zero_copy.name(), name);
    }
}

/// Quanta are bit times of `pause_speed`, else of the port's `speed`, else of 10G; a port's own
/// setting wins over the defaults'.
#[test]
fn pause_speed() {
    let pause_speeds = |text: &str| -> Vec<u64> {
        let config = parse(&format!("{text}\n[port.b]\ninterface = \"veth1\""));
        config.switch.ports.iter().map(switch::PortSettings::pause_speed_bps).collect()
    };
    for (text, expected) in [
        ("", [10_000_000_000, 10_000_000_000]),
        ("speed = \"1G\"", [1_000_000_000, 10_000_000_000]),
        ("pfc.pause_speed = \"40G\"", [40_000_000_000, 10_000_000_000]),
        ("speed = \"1G\"\npfc.pause_speed = 10000000000", [10_000_000_000, 10_000_000_000]),
        ("[port-defaults.pfc]\npause_speed = \"25G\"", [25_000_000_000, 25_000_000_000]),
        (
            "pfc.pause_speed = \"2.5G\"\n[port-defaults.pfc]\npause_speed = \"25G\"",
            [2_500_000_000, 25_000_000_000],
        ),
        ("speed = \"1G\"\n[port-defaults.pfc]\npause_speed = \"100G\"", [100_000_000_000, 100_000_000_000]),
    ] {
        assert_eq!(pause_speeds(text), expected, "{text}");
    }
}

/// A refresh interval of 0 ns is refused, and nothing above it: it is a third of the pause, which
/// is 1.28 ns for a quantum at 400G and 5.12 ns at 100G. It is refused only where PFC is sent at
/// all.
#[test]
fn the_shortest_pause_time() {
    let port = |text: &str| parse(text).switch.ports.remove(0);
    for (text, refresh_ns) in [
        ("speed = \"100G\"\npfc = { mode = \"on\", no_drop = [3], pause_time = 1 }", 2),
        ("speed = \"400G\"\npfc = { mode = \"on\", no_drop = [3], pause_time = 2 }", 1),
        ("speed = \"800G\"\npfc = { mode = \"on\", no_drop = [3], pause_time = 4 }", 1),
        (
            "speed = \"400G\"\npfc = { mode = \"on\", no_drop = [3], pause_time = 1, pause_speed = \"100G\" }",
            2,
        ),
        // No pause is sent here.
        ("speed = \"400G\"\npfc = { mode = \"on\", no_drop = [3], tx = false, pause_time = 1 }", 0),
        ("speed = \"400G\"\npfc = { mode = \"off\", no_drop = [3], pause_time = 1 }", 0),
        ("speed = \"400G\"\npfc = { mode = \"on\", pause_time = 1 }", 0),
    ] {
        assert_eq!(PfcTiming::from_settings(&port(text)).refresh_ns(), refresh_ns, "{text}");
    }
}

/// A daemon's loop cannot keep a pause of less than 0.3 ms, whichever setting makes it so short.
/// The number that the message names is accepted.
#[test]
fn a_daemon_refuses_pauses_that_a_loop_cannot_keep() {
    let errors = |port: &str| {
        let text = format!("[port.a]\ninterface = \"veth0\"\n{port}\n");
        config::parse_for_daemon("lab.toml", &text).map_err(|errors| errors.to_string()).err()
    };
    assert_eq!(
        errors("pfc = { mode = \"on\", no_drop = [3], pause_time = 100 }").as_deref(),
        Some(
            "lab.toml:3:50: port.a.pfc.pause_time: 100 quanta pause a peer for 5.1 µs, and a loop that stalls can \
             keep no pause under 300.0 µs; write pause_time = 5860 or more; 65535 is the default"
        )
    );
    for (port, enough) in [
        ("pfc = { mode = \"on\", no_drop = [3], pause_time = Q }", 5860),
        ("speed = \"100G\"\npfc = { mode = \"on\", no_drop = [3], pause_time = Q }", 58595),
        (
            "speed = \"1G\"\npfc = { mode = \"on\", no_drop = [3], pause_time = Q, pause_speed = \"100G\" }",
            58595,
        ),
        ("flow_control = \"send\"\npfc = { pause_time = Q }", 5860),
    ] {
        let with = |quanta: u16| errors(&port.replace('Q', &quanta.to_string()));
        assert_eq!(with(enough), None, "{port}");
        let refused = with(enough - 3).unwrap_or_default();
        assert!(refused.contains(&format!("pause_time = {enough} or more")), "{port}: {refused}");
    }
    for valid in [
        "pfc = { mode = \"on\", no_drop = [3], tx = false, pause_time = 1 }",
        "pfc = { mode = \"on\", pause_time = 1 }",
        "speed = \"400G\"\npfc = { mode = \"on\", no_drop = [3] }",
    ] {
        assert_eq!(errors(valid), None, "{valid}");
    }
}

/// No number of quanta is enough at 400G, or the speed is known only from the link: a warning.
#[test]
fn short_pauses_that_no_setting_can_mend_are_warned_of() {
    let port = |text: &str| parse(text).switch.ports.remove(0);
    let of_400g = port("speed = \"400G\"\npfc = { mode = \"on\", no_drop = [3] }");
    assert_eq!(
        config::short_pause_warning(&of_400g).as_deref(),
        Some(
            "port a: 65535 quanta pause a peer for 83.9 µs, and a loop that stalls can keep no pause under 300.0 µs; no \
             pause_time is enough at this speed: headroom must hold what comes during a stall"
        )
    );
    let mut port = port("pfc = { mode = \"on\", no_drop = [3], pause_time = 9000 }");
    assert_eq!(config::short_pause_warning(&port), None);
    port.link_speed_bps = Some(100_000_000_000);
    let warning = config::short_pause_warning(&port).unwrap_or_default();
    assert!(warning.ends_with("`pause_time = 58595` in [port.a.pfc] is enough"), "{warning}");
}
