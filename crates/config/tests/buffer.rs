//! The buffer's areas, pools, profiles and thresholds, and the settings that result.

use config::Config;
use switch::PortSettings;
use switch::settings::{
    ALL_IN_POOL_0, Alpha, BufferSettings, GroupSettings, Guaranteed, QueueSettings, Threshold,
};

#[track_caller]
fn parse(text: &str) -> Config {
    config::parse("test.toml", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// The example of docs/references.md, "Inspur white paper" (5.6): the pool, the profile, and its
/// binding to queues 0-4 of a port with PFC on 3-4.
#[test]
fn the_profile_of_the_vendor_specifications() {
    let config = parse(
        r#"
        [buffer]
        total_bytes = 28500000
        headroom_bytes = 4500000
        [buffer.ingress.profile.profileA]
        reserved_bytes = 2048
        shared = { static_bytes = 19456 }
        xoff_bytes = 196608
        xon_bytes = 15872
        xon_offset_bytes = 3584
        [buffer.egress.profile.egress_lossy_profile]
        shared.dynamic_th = 1
        [buffer.ingress.profile.nobody]
        reserved_cells = 1000000
        shared.dynamic_th = -7
        [port.Ethernet1]
        interface = "veth0"
        pfc = { mode = "on", no_drop = [3, 4] }
        [port.Ethernet1.buffer.ingress]
        priority.0.profile = "profileA"
        priority.1.profile = "profileA"
        priority.2.profile = "profileA"
        priority.3.profile = "profileA"
        priority.4.profile = "profileA"
        [port.Ethernet1.buffer.egress.queue.1]
        profile = "egress_lossy_profile"
        "#,
    );
    let buffer = &config.switch.buffer;
    let areas = (buffer.total_cells, buffer.headroom_cells, buffer.fixed_cells);
    assert_eq!(areas, (111_328, 17_578, 111_328 / 8));
    let [port] = &config.switch.ports[..] else { panic!("one port") };
    let profile = GroupSettings {
        pool: 0,
        reserved_cells: 8,
        xoff: Threshold::Static(76),
        xon_offset_cells: 14,
        resume_cells: 62,
        headroom_cells: 768,
    };
    let lossy = GroupSettings { headroom_cells: 0, ..profile };
    // Row 15: its eighth of the fixed area.
    let none = GroupSettings { reserved_cells: 111_328 / 8 / 8, ..GroupSettings::lossy() };
    assert_eq!(port.groups, [lossy, lossy, lossy, profile, profile, none, none, none]);
    let queue = QueueSettings {
        guaranteed: Guaranteed::Cells(0),
        shared: Alpha::from_exponent(1).map(Threshold::Dynamic),
        ..PortSettings::new("", None).queues[1]
    };
    assert_eq!(port.queues[1], queue);
}

/// A profile sets all thresholds: what it leaves out is 0, not the defaults' value. Single
/// thresholds win one by one.
#[test]
fn profiles_and_thresholds() {
    let config = parse(
        r#"
        [buffer.ingress.profile.small]
        reserved_cells = 4
        shared = { dynamic_percent = 33 }
        [buffer.egress.profile.firm]
        reserved_bytes = 257
        shared = { static_cells = 50 }
        [port-defaults]
        pfc.mode = "on"
        pfc.no_drop = [3, 4]
        pfc.priority.3 = { headroom_cells = 50, xoff = { static_cells = 70 }, resume_cells = 9 }
        buffer.ingress.priority.4.profile = "small"
        buffer.egress.queue.3 = { guaranteed_percent = 20, shared_percent = 100 }
        buffer.egress.queue.4.profile = "firm"
        [port.bound]
        interface = "veth0"
        buffer.ingress.priority.3 = { profile = "small" }
        buffer.egress.queue.3.profile = "firm"
        [port.single]
        interface = "veth1"
        pfc.priority.4 = { headroom_bytes = 513 }
        buffer.egress.queue.4.guaranteed_percent = 5
        "#,
    );
    let [bound, single] = &config.switch.ports[..] else { panic!("two ports") };
    let small = GroupSettings {
        reserved_cells: 4,
        xoff: Threshold::Dynamic(Alpha::from_percent(33)),
        ..GroupSettings::lossy()
    };
    assert_eq!(bound.groups[3..=4], [small, small]);
    assert_eq!(single.groups[4], GroupSettings { headroom_cells: 3, ..small });
    assert_eq!(single.groups[3].resume_cells, 9);
    for (queue, guaranteed, shared) in [
        (bound.queues[3], Guaranteed::Cells(2), Threshold::Static(50)),
        (bound.queues[4], Guaranteed::Cells(2), Threshold::Static(50)),
        (single.queues[3], Guaranteed::Percent(20), Threshold::Dynamic(Alpha::from_percent(100))),
        (single.queues[4], Guaranteed::Percent(5), Threshold::Static(50)),
    ] {
        assert_eq!((queue.guaranteed, queue.shared), (guaranteed, Some(shared)));
    }
}

/// Available bytes are rounded down to whole cells, required bytes up.
#[test]
fn bytes_become_cells() {
    let config = parse(
        r#"
        [buffer]
        cell_bytes = 208
        total_bytes = 2000000
        fixed_bytes = 208000
        headroom_bytes = 207
        [port.a]
        interface = "veth0"
        pfc.priority.0 = { reserved_bytes = 209, xoff = { static_bytes = 1 } }
        "#,
    );
    let buffer = &config.switch.buffer;
    let areas = (buffer.total_cells, buffer.fixed_cells, buffer.headroom_cells);
    assert_eq!(areas, (9615, 1000, 0));
    let group = GroupSettings { reserved_cells: 2, xoff: Threshold::Static(1), ..GroupSettings::lossy() };
    assert_eq!(config.switch.ports[0].groups[0], group);
}

/// Row 157: the default reservation of a no-drop group depends on the chip's cells, for a port
/// without speed, too.
#[test]
fn reserved_goes_by_the_cells() {
    for (cell_bytes, reserved) in [(208, 20), (254, 20), (256, 17)] {
        let config = parse(&format!(
            "[buffer]\ncell_bytes = {cell_bytes}\n[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3, 5]\n\
             [port-defaults.pfc.priority.5]\nreserved_cells = 6\n\
             [port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"\nspeed = \"100G\"\n"
        ));
        for port in &config.switch.ports {
            let found = [0, 3, 5].map(|priority: usize| port.groups[priority].reserved_cells);
            assert_eq!(found, [131_072 / 8 / 2 / 8, reserved, 6], "{} with cells of {cell_bytes}", port.name);
        }
    }
}

/// Every threshold under each of its names.
#[test]
fn thresholds() {
    for (text, expected) in [
        ("static_cells = 7", Threshold::Static(7)),
        ("static_bytes = 1793", Threshold::Static(8)),
        ("dynamic_percent = 0", Threshold::Dynamic(Alpha::from_percent(0))),
        ("dynamic_th = -7", Threshold::Dynamic(Alpha::from_percent(0))),
        ("dynamic_th = 0", Threshold::Dynamic(Alpha::from_percent(50))),
        ("dynamic_th = 3", Threshold::Dynamic(Alpha::from_percent(100))),
    ] {
        let file = format!("[port.a]\ninterface = \"veth0\"\npfc.priority.0.xoff = {{ {text} }}");
        assert_eq!(parse(&file).switch.ports[0].groups[0].xoff, expected, "{text}");
    }
}

/// (pools as they are written, shares of all four)
#[test]
fn pool_0_has_what_the_others_leave() {
    for (written, percent) in [
        ("", ALL_IN_POOL_0),
        ("1.shared_percent = 20", [80, 20, 0, 0]),
        ("0.shared_percent = 50, 1.shared_percent = 20", [50, 20, 0, 0]),
        ("1.shared_percent = 33, 2.shared_percent = 33, 3.shared_percent = 33", [1, 33, 33, 33]),
    ] {
        let buffer = |direction| {
            let text =
                format!("[buffer]\n{direction}.pool = {{ {written} }}\n[port.a]\ninterface = \"veth0\"");
            parse(&text).switch.buffer
        };
        let expected = BufferSettings { ingress_pool_percent: percent, ..BufferSettings::default() };
        assert_eq!(buffer("ingress"), expected);
        let expected = BufferSettings { egress_pool_percent: percent, ..BufferSettings::default() };
        assert_eq!(buffer("egress"), expected);
    }
}

/// By default an eighth of the cells is fixed, or as much as the groups reserve or the queues are
/// guaranteed.
#[test]
fn fixed_cells_hold_what_is_reserved() {
    let fixed_cells = |text: &str| {
        let buffer = "[buffer]\ntotal_cells = 8000\nheadroom_cells = 1000\n";
        parse(&format!("{buffer}[port.a]\ninterface = \"veth0\"\n{text}")).switch.buffer.fixed_cells
    };
    let guaranteed = |cells: u32| {
        fixed_cells(&format!(
            "buffer.egress.queue = {{ 1.profile = \"p\", 2.profile = \"p\" }}
             [buffer.egress.profile.p]\nreserved_cells = {cells}\nshared.dynamic_percent = 20"
        ))
    };
    assert_eq!(fixed_cells("pfc.priority.2.reserved_cells = 999"), 1000);
    assert_eq!(fixed_cells("pfc.priority.2.reserved_cells = 1001"), 1001);
    assert_eq!(guaranteed(500), 1000);
    assert_eq!(guaranteed(501), 1002);
}
