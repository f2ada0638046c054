//! VLANs of ports in the file.

use config::Config;
use switch::settings::{Trust, VlanList, VlanSettings};

#[track_caller]
fn parse(text: &str) -> Config {
    config::parse("test.toml", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// A port's own part of `vlan` wins over the defaults; a trunk has all VLANs by default; a static
/// address is in the VLAN of its port's PVID by default.
#[test]
fn a_port_before_the_defaults() {
    let config = parse(
        r#"
        [port-defaults]
        vlan = { mode = "access", pvid = 10 }
        [port.a]
        interface = "veth0"
        static_addresses = ["02:00:00:00:00:01"]
        [port.b]
        interface = "veth1"
        vlan.pvid = 20
        static_addresses = ["02:00:00:00:00:01"]
        [port.c]
        interface = "veth2"
        vlan = { mode = "trunk", allowed = "200, 1-100,101" }
        static_addresses = [{ address = "02:00:00:00:00:02", vlan = 200 }, "02:00:00:00:00:03"]
        [port.d]
        interface = "veth3"
        [port.d.vlan]
        mode = "trunk"
        pvid = 1
        "#,
    );
    let of = |port: usize| &config.switch.ports[port];
    let access = |pvid| VlanSettings::Access { pvid };
    assert_eq!((&of(0).vlan, &of(1).vlan), (&access(10), &access(20)));
    let allowed = VlanList::of([1..=101, 200..=200]);
    assert_eq!(of(2).vlan, VlanSettings::Trunk { pvid: Some(10), allowed });
    assert_eq!(of(3).vlan, VlanSettings::Trunk { pvid: Some(1), allowed: VlanList::all() });
    let addresses =
        |port: usize| of(port).static_addresses.iter().map(|it| (it.mac.0[5], it.vid)).collect::<Vec<_>>();
    assert_eq!(
        [addresses(0), addresses(1), addresses(2)],
        [vec![(1, 10)], vec![(1, 20)], vec![(2, 200), (3, 10)]]
    );
    assert!(config.warnings.list().is_empty());
}

#[test]
fn a_vlan_of_one_port_alone_is_warned_of() {
    let alone = parse(
        "[port.a]\ninterface = \"veth0\"\nvlan = { mode = \"access\", pvid = 5 }\n\
         [port.b]\ninterface = \"veth1\"\nvlan = { mode = \"trunk\", allowed = \"6\" }",
    );
    let expected = "test.toml:3:34: port.a.vlan.pvid: no other port has VLAN 5: what port a sends goes nowhere; give another \
                    port the VLAN";
    assert_eq!(alone.warnings.to_string(), expected);
}

/// Two customers and a trunk, with flood limits.
#[test]
fn the_vlan_file() {
    let config = parse(include_str!("../../../../config/vlans.toml"));
    assert_eq!(config.warnings.list(), []);
    let ports = &config.switch.ports;
    let access = |pvid| VlanSettings::Access { pvid };
    let trunk = VlanSettings::Trunk { pvid: None, allowed: VlanList::of([10..=10, 20..=20]) };
    assert!(ports.iter().map(|port| &port.vlan).eq(&[access(10), access(10), access(20), trunk]));
    assert!(ports.iter().all(|port| port.classify.trust == Trust::Dscp && port.pfc.no_drop == 0b1000));
    assert_eq!(ports[0].flood_limits_pps, [Some(1000); 3]);
    assert_eq!(ports[3].flood_limits_pps, [Some(1000), None, Some(1000)]);
}
