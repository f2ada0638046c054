//! VLANs of ordinary Linux hosts: two on access ports, one on a trunk with the kernel's own VLAN devices. What is in one VLAN
//! talks TCP, with no `ethtool` anywhere and tags put on and taken off by the switch; what is in the other never hears of it.

use std::io::ErrorKind;
use std::net::UdpSocket;

use anyhow::{Context, Result};
use testbed::{Bed, PATIENCE, Station, idle, port};
use tests::{Checksums, fetch};

const CONFIG: &str = "
[port.a]
interface = \"a\"
vlan      = { mode = \"access\", pvid = 10 }

[port.b]
interface = \"b\"
vlan      = { mode = \"access\", pvid = 20 }

[port.c]
interface = \"c\"
vlan      = { mode = \"trunk\", allowed = \"10,20\" }

[port.d]
interface = \"d\"
vlan      = { mode = \"trunk\", pvid = 20, allowed = \"20,30\" }
";

const BROADCASTS: usize = 20;
const UDP_PORT: u16 = 9999;

#[test]
fn hosts_talk_inside_their_vlans_and_not_beyond() -> Result<()> {
    let bed = Bed::new()?;
    let switch = bed.switch("switch")?;
    let mut hosts = Vec::new();
    for name in ["a", "b", "c", "d"] {
        hosts.push(bed.bare_host(&switch, name)?);
    }
    let [a, b, c, d] = &hosts[..] else { unreachable!("four were made") };
    for (host, device, address) in [
        (a, None, "10.0.10.1"),
        (b, None, "10.0.20.2"),
        (d, None, "10.0.20.4"),
        (c, Some(10), "10.0.10.3"),
        (c, Some(20), "10.0.20.3"),
    ] {
        give(host, device, address)?;
    }
    let daemon = bed.daemon(&switch, CONFIG)?;

    for (from, to, address) in [
        (a, c, "10.0.10.3"), // untagged in, tagged out
        (c, a, "10.0.10.1"), // tagged in, untagged out
        (b, c, "10.0.20.3"),
        (d, c, "10.0.20.3"), // the native VLAN of one trunk, tagged on the other
        (d, b, "10.0.20.2"), // untagged at both ends
    ] {
        fetch(from, to, address.parse()?).with_context(|| format!("{} from {address}", from.name))?;
        println!("{} fetched from {address}", from.name);
    }

    // Broadcasts of a are for VLAN 10: c hears them there, once, and nobody in VLAN 20.
    let ears = [listen(c)?, listen(b)?, listen(d)?];
    a.namespace.enter(|| -> Result<()> {
        let socket = UdpSocket::bind(("10.0.10.1", 0))?;
        socket.set_broadcast(true)?;
        for number in 0..BROADCASTS {
            socket.send_to(&[number as u8; 100], ("255.255.255.255", UDP_PORT))?;
        }
        Ok(())
    })??;
    ears[0].set_read_timeout(Some(PATIENCE))?;
    let mut bytes = [0; 200];
    for number in 0..BROADCASTS {
        let len = ears[0].recv(&mut bytes).context("c hears what a says")?;
        assert_eq!(bytes[..len], [number as u8; 100]);
    }
    let snapshot = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
    for (ear, host) in ears.iter().zip([c, b, d]) {
        ear.set_nonblocking(true)?;
        let heard = ear.recv(&mut bytes).map_err(|error| error.kind());
        assert_eq!(heard, Err(ErrorKind::WouldBlock), "{} hears more of VLAN 10", host.name);
    }
    assert!(port(&snapshot, "a")?.received_broadcast_frames >= BROADCASTS as u64);

    for host in &hosts {
        assert_eq!(Checksums::of(&host.namespace)?.bad, 0, "bad checksums at {}", host.name);
    }
    let filtered = |name: &str| Ok::<_, anyhow::Error>(port(&snapshot, name)?.drops["vlan_filtered"].frames);
    // The kernel of c speaks untagged, too, as every host with IPv6 does, and its trunk has no VLAN for that.
    println!(
        "filtered at a {}, b {}, c {}, d {}",
        filtered("a")?,
        filtered("b")?,
        filtered("c")?,
        filtered("d")?
    );
    assert_eq!((filtered("a")?, filtered("b")?, filtered("d")?), (0, 0, 0));

    // A VLAN that the trunk does not have is filtered, and counted.
    c.namespace.ip(&format!("link add link {} name vlan30 type vlan id 30", Station::INTERFACE))?;
    c.namespace.ip("addr add 10.0.30.3/24 brd + dev vlan30")?;
    c.namespace.ip("link set vlan30 up")?;
    let before = filtered("c")?;
    c.namespace.enter(|| -> Result<()> {
        let socket = UdpSocket::bind(("10.0.30.3", 0))?;
        socket.set_broadcast(true)?;
        for _ in 0..BROADCASTS {
            socket.send_to(&[7; 100], ("10.0.30.255", UDP_PORT))?;
        }
        Ok(())
    })??;
    daemon.until("frames of VLAN 30 are counted", |now| {
        let now = port(now, "c").ok()?.drops["vlan_filtered"].frames;
        (now >= before + BROADCASTS as u64).then_some(())
    })?;
    let snapshot = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
    testbed::conservation(&snapshot, &[])?;
    daemon.stop()?;
    Ok(())
}

/// An address, on a VLAN device if there is one to be.
fn give(host: &Station, vid: Option<u16>, address: &str) -> Result<()> {
    let device = match vid {
        None => Station::INTERFACE.to_owned(),
        Some(vid) => {
            host.namespace
                .ip(&format!("link add link {} name vlan{vid} type vlan id {vid}", Station::INTERFACE))?;
            host.namespace.ip(&format!("link set vlan{vid} up"))?;
            format!("vlan{vid}")
        }
    };
    host.namespace.ip(&format!("addr add {address}/24 brd + dev {device}")).map(drop)
}

/// A socket that hears broadcasts, whatever device they come in by.
fn listen(host: &Station) -> Result<UdpSocket> {
    Ok(host.namespace.enter(|| UdpSocket::bind(("0.0.0.0", UDP_PORT)))??)
}
