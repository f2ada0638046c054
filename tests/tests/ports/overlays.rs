//! Overlays of ordinary Linux hosts: TCP through every tunnel that this kernel supports, over the
//! switch and with no `ethtool` anywhere. Frames leave a host with a partial inner checksum, and an
//! outer one that looks complete.

use anyhow::{Context, Result};
use testbed::{Endpoint, Testbed, idle};
use tests::{Checksums, fetch};

/// The IP version that carries the tunnel.
#[derive(Clone, Copy, PartialEq)]
enum Over {
    V4,
    V6,
}

/// A tunnel in the syntax of `ip link add … type`, and what it can carry.
struct Tunnel {
    kind: &'static str,
    over: Over,
    carries_v4: bool,
    carries_v6: bool,
}

const fn tunnel(kind: &'static str, over: Over) -> Tunnel {
    Tunnel { kind, over, carries_v4: true, carries_v6: true }
}

const TUNNELS: [Tunnel; 14] = [
    tunnel("vxlan id 42 dstport 4789", Over::V4),
    tunnel("vxlan id 42 dstport 4789 udpcsum", Over::V4),
    tunnel("vxlan id 42", Over::V4), // Linux's own port
    tunnel("vxlan id 42 dstport 4789", Over::V6),
    tunnel("geneve id 42", Over::V4),
    tunnel("geneve id 42 udpcsum", Over::V4),
    tunnel("geneve id 42", Over::V6),
    tunnel("gretap", Over::V4),
    tunnel("gretap csum key 7", Over::V4),
    tunnel("gre csum", Over::V4),
    tunnel("ip6gretap csum", Over::V6),
    Tunnel { kind: "ipip", over: Over::V4, carries_v4: true, carries_v6: false },
    Tunnel { kind: "sit", over: Over::V4, carries_v4: false, carries_v6: true },
    tunnel("ip6tnl mode any", Over::V6),
];

/// The tunnels that every kernel for containers supports.
const SURE: [&str; 3] = ["vxlan id 42 dstport 4789", "vxlan id 42 dstport 4789 udpcsum", "vxlan id 42"];

#[test]
fn tcp_crosses_every_overlay_without_a_bad_checksum() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.linux_host(&switch, "a")?, bed.linux_host(&switch, "b")?);
    let daemon = bed.daemon(&switch, "[port.a]\ninterface = \"a\"\n\n[port.b]\ninterface = \"b\"\n")?;
    let mut tried = Vec::new();
    for tunnel in &TUNNELS {
        if !is_known(&a, tunnel)? {
            println!("{}: not in this kernel", tunnel.kind);
            continue;
        }
        tried.push(tunnel.kind);
        for (number, (station, peer)) in [(&a, &b), (&b, &a)].into_iter().enumerate() {
            dig(station, peer, tunnel, number + 1).with_context(|| tunnel.kind)?;
        }
        for (carries, address) in [(tunnel.carries_v4, "192.168.7.2"), (tunnel.carries_v6, "fd00:7::2")] {
            if carries {
                fetch(&a, &b, address.parse()?).with_context(|| format!("{}, {address}", tunnel.kind))?;
                println!("{}: {address} answers", tunnel.kind);
            }
        }
        for station in [&a, &b] {
            station.namespace.ip("link del tunnel")?;
            assert_eq!(Checksums::of(&station.namespace)?.bad, 0, "{}: at {}", tunnel.kind, station.name);
        }
    }
    assert!(SURE.iter().all(|kind| tried.contains(kind)), "{tried:?}");
    let snapshot = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
    testbed::conservation(&snapshot, &[])?;
    daemon.stop()?;
    Ok(())
}

/// Returns whether the kernel supports such an interface.
fn is_known(station: &Endpoint, tunnel: &Tunnel) -> Result<bool> {
    let made = add(station, tunnel, [&station.ipv4(), &station.ipv6()], ["10.0.0.99", "fd00::99"]);
    match made {
        Ok(_) => station.namespace.ip("link del tunnel").map(|_| true),
        Err(error) if format!("{error:#}").contains("Unknown device type") => Ok(false),
        Err(error) => Err(error),
    }
}

fn add(station: &Endpoint, tunnel: &Tunnel, local: [&str; 2], remote: [&str; 2]) -> Result<String> {
    let at = usize::from(tunnel.over == Over::V6);
    let name = tunnel.kind.split(' ').next().unwrap_or_default();
    // GENEVE takes its local address from the route.
    let local = if name == "geneve" { String::new() } else { format!("local {}", local[at]) };
    let carrier = if name == "vxlan" { format!("dev {}", Endpoint::INTERFACE) } else { String::new() };
    station
        .namespace
        .ip(&format!("link add tunnel type {} {local} remote {} {carrier}", tunnel.kind, remote[at]))
}

/// Makes one end of a tunnel, with addresses that end in `number`.
fn dig(station: &Endpoint, peer: &Endpoint, tunnel: &Tunnel, number: usize) -> Result<()> {
    let ends = [station, peer].map(|end| (end.ipv4(), end.ipv6()));
    add(station, tunnel, [&ends[0].0, &ends[0].1], [&ends[1].0, &ends[1].1])?;
    station.namespace.ip("link set tunnel up")?;
    if tunnel.carries_v4 {
        station.namespace.ip(&format!("addr add 192.168.7.{number}/24 dev tunnel"))?;
    }
    if tunnel.carries_v6 {
        station.namespace.ip(&format!("addr add fd00:7::{number}/64 dev tunnel nodad"))?;
    }
    Ok(())
}
