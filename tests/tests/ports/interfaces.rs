//! What the daemon reports about the interfaces of its ports, on real ones: their kind, settings
//! that harm frames, and whether PFC frames get through.

use anyhow::{Context, Result};
use serde_json::Value;
use testbed::{Daemon, Testbed, eventually};
use tests::{events, sluice};

/// Returns the `link` of a port by name.
fn link(daemon: &Daemon, name: &str) -> Result<Value> {
    let shown: Value = serde_json::from_str(&sluice(daemon, &["show", "ports", "--json"])?)?;
    let ports = shown["ports"].as_array().context("a list of ports")?;
    let port = ports.iter().find(|port| port["name"] == name).with_context(|| format!("port {name}"))?;
    Ok(port["link"].clone())
}

/// Returns the settings reported as harming frames on a port.
fn blamed(daemon: &Daemon, name: &str) -> Result<Vec<String>> {
    let link = link(daemon, name)?;
    let cautions = link["cautions"].as_array().context("a list of cautions")?.clone();
    Ok(cautions.iter().filter_map(|caution| caution["setting"].as_str().map(str::to_owned)).collect())
}

#[test]
fn harmful_settings_are_reported_from_their_beginning() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    bed.sluice_host(&switch, "a")?;
    bed.macvlan_host(&switch, "m")?;
    // A tap whose other end is not open: it is there, up, and without a carrier.
    switch.ip("tuntap add dev t mode tap vnet_hdr")?;
    switch.ip("link set dev t up")?;
    switch.run("ethtool -K low-m gro off")?;
    let ports: String =
        ["a", "m", "t"].map(|name| format!("[port.{name}]\ninterface = \"{name}\"\n")).concat();
    let daemon = bed.daemon(&switch, &ports)?;

    let of_a = link(&daemon, "a")?;
    assert_eq!((&of_a["kind"], &of_a["driver"]), (&"veth".into(), &"veth".into()), "{of_a:#}");
    assert_eq!((&of_a["promiscuous"], &of_a["zero_copy"]), (&true.into(), &false.into()), "{of_a:#}");
    assert!(of_a["rx_queues"].as_u64() >= Some(1), "{of_a:#}");
    assert_eq!(blamed(&daemon, "a")?, [""; 0]);
    assert_eq!(blamed(&daemon, "m")?, ["macvlan"]);
    assert_eq!(blamed(&daemon, "t")?, ["vnet_hdr"]);
    assert_eq!(link(&daemon, "m")?["kind"], "macvlan");

    switch.run("ethtool -K low-m gro on")?;
    eventually("GRO below the macvlan is blamed", || {
        Ok((blamed(&daemon, "m")? == ["rx-gro", "macvlan"]).then_some(()))
    })?;
    let reported = events(&daemon, "interface_harms_frames")?;
    assert_eq!(reported.len(), 1, "what there was at the start is in the log: {reported:#?}");
    assert_eq!(reported[0]["port"], "m");
    assert!(
        reported[0]["message"].as_str().unwrap_or_default().contains("`ethtool -K low-m gro off`"),
        "{reported:#?}"
    );
    let verbose = sluice(&daemon, &["show", "ports", "--verbose"])?;
    println!("{verbose}");
    assert!(verbose.contains("Kind         veth, driver veth"), "{verbose}");
    assert!(verbose.contains("what helps: `ethtool -K low-m gro off`"), "{verbose}");
    let plain = sluice(&daemon, &["show", "ports"])?;
    assert!(plain.contains("Warning: on port m low-m, below it, merges"), "{plain}");

    switch.run("ethtool -K low-m gro off")?;
    eventually("it is blamed no more", || Ok((blamed(&daemon, "m")? == ["macvlan"]).then_some(())))?;
    daemon.stop()?;
    Ok(())
}

/// Two ports of a switch with a cable between them receive each other's test frames; the frames of
/// a third port, to a host, are received by none.
#[test]
fn a_pfc_frame_is_received_over_a_cable_between_two_ports() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    bed.sluice_host(&switch, "a")?;
    bed.cable((&switch, "x"), (&switch, "y"))?;
    let mut config =
        "[dataplane]\npfc_test = \"all\"\n[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n".to_owned();
    for name in ["a", "x", "y"] {
        config += &format!("[port.{name}]\ninterface = \"{name}\"\n");
    }
    let daemon = bed.daemon(&switch, &config)?;
    let proved = eventually("both ends of the cable", || {
        Ok(Some(events(&daemon, "pfc_proved")?).filter(|events| events.len() == 2))
    })?;
    let output: Vec<_> = proved.iter().map(|event| (&event["port"], &event["message"])).collect();
    assert_eq!(
        output,
        [
            (&"x".into(), &"a PFC frame sent by x was received on port y".into()),
            (&"y".into(), &"a PFC frame sent by y was received on port x".into())
        ]
    );
    let unproved = events(&daemon, "pfc_unproved")?;
    assert_eq!((unproved.len(), &unproved[0]["port"]), (1, &"a".into()), "{unproved:#?}");
    let snapshot = daemon.snapshot()?;
    for port in &snapshot.ports {
        let sent = port.pfc_sent.clone().unwrap_or_default();
        // The guard pauses the peers of a loop that stalls, and the loop releases them.
        let (xoff, of_guard): (u64, u64) = (sent.xoff_frames.iter().sum(), port.pfc_guard_frames);
        assert_eq!(xoff, of_guard, "the switch itself has sent no XOFF: {}", port.name);
        assert!(sent.frames == 0 || of_guard > 0, "the switch itself has sent no PFC: {}", port.name);
    }
    daemon.stop()?;
    Ok(())
}
