//! Properties of the switch port that an interface is connected to, from a running switch: the two
//! ends of a veth identify each other.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Result, bail};
use control::v1::{Classification, Port, Snapshot};
use nic::{Interface, RtNetlink};

/// The properties of the port that a host needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortFacts {
    /// Name of the port.
    pub port: String,
    /// Speed in bit/s; 0 if none was configured.
    pub speed_bps: u64,
    /// Bit p is set if priority p is no-drop.
    pub no_drop: u8,
    /// How it finds the priority of a frame. `None` if the switch does not say.
    pub classification: Option<Classification>,
}

/// An interface, and the network namespace that it is in.
#[derive(Debug)]
pub struct Device {
    /// The end of the cable that is not the switch's.
    pub interface: Interface,
    /// Where it is, also while this thread is elsewhere.
    pub namespace: File,
}

/// Returns the port `name` of the switch behind `socket`, or the one at the other end of `device`.
pub fn port_facts(socket: &Path, name: Option<&str>, device: &Device) -> Result<PortFacts> {
    let snapshot = control::BlockingClient::connect(socket)?.snapshot()?;
    let port = match name {
        Some(name) => snapshot.ports.iter().find(|port| port.name == name),
        None => {
            // The ports are interfaces of the daemon's namespace, which also contains the other end
            // of the cable.
            let daemon = nic::netns::listener(socket)?;
            let (there, id) = nic::netns::enter(Some(&daemon), || {
                let links = RtNetlink::connect()?;
                let is_here = is_same(&nic::netns::current()?, &device.namespace);
                let id =
                    if is_here { None } else { Some(links.namespace_id(&device.namespace)?.unwrap_or(-1)) };
                Ok((links.all()?, id))
            })?;
            other_end(&snapshot, &there, &device.interface, id)
        }
    };
    match (port, name) {
        (Some(port), _) => Ok(facts(port)),
        (None, Some(name)) => {
            bail!("the switch has no port `{name}`; its ports are {}", names(&snapshot))
        }
        (None, None) => bail!(
            "{} is not the other end of any port of the switch: name the port that it is plugged into with --port, one of {}",
            device.interface.name,
            names(&snapshot)
        ),
    }
}

/// True if both are the same network namespace.
fn is_same(one: &File, other: &File) -> bool {
    let inode = |file: &File| file.metadata().map(|found| (found.dev(), found.ino())).ok();
    inode(one).is_some() && inode(one) == inode(other)
}

/// Returns the port whose interface and `device` identify each other as their other end. `id` is
/// that of the device's namespace in the ports' namespace, `None` if it is the same: interfaces of
/// several namespaces may have the same indexes.
fn other_end<'a>(
    snapshot: &'a Snapshot,
    there: &[Interface],
    device: &Interface,
    id: Option<i32>,
) -> Option<&'a Port> {
    snapshot.ports.iter().find(|port| {
        let interface = there.iter().find(|interface| interface.name == port.interface);
        interface.is_some_and(|end| {
            end.peer == Some(device.index) && end.peer_namespace == id && device.peer == Some(end.index)
        })
    })
}

fn facts(port: &Port) -> PortFacts {
    let no_drop = port.groups.iter().enumerate().filter(|(_, group)| group.no_drop);
    let no_drop = no_drop.fold(0, |mask, (priority, _)| mask | 1 << priority);
    let classification = port.classification.clone();
    PortFacts { port: port.name.clone(), speed_bps: port.speed_bps, no_drop, classification }
}

fn names(snapshot: &Snapshot) -> String {
    let names: Vec<&str> = snapshot.ports.iter().map(|port| port.name.as_str()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::v1::Group;

    fn port(name: &str, interface: &str) -> Port {
        let mut groups = vec![Group::default(); 8];
        (groups[3].no_drop, groups[5].no_drop) = (true, true);
        Port { name: name.into(), interface: interface.into(), speed_bps: 7, groups, ..Port::default() }
    }

    #[test]
    fn ends_of_a_cable_name_each_other() {
        let ports = vec![port("a", "sw-a"), port("b", "sw-b"), port("c", "sw-c")];
        let snapshot = Snapshot { ports, ..Snapshot::default() };
        let end = |name: &str, index, peer| Interface {
            name: name.into(),
            index,
            peer,
            peer_namespace: Some(4),
            is_virtual: true,
            is_up: true,
            mac: [2; 6],
        };
        // sw-a has the index that eth0 refers to, but its other end is another interface of the
        // same index elsewhere.
        let there = [end("sw-a", 5, Some(9)), end("sw-b", 6, Some(2)), end("sw-c", 7, None)];
        let other_end = |device: Interface, id| other_end(&snapshot, &there, &device, id).map(facts);
        let found = other_end(end("eth0", 2, Some(6)), Some(4));
        let b = PortFacts { port: "b".into(), speed_bps: 7, no_drop: 0b10_1000, classification: None };
        assert_eq!(found, Some(b));
        assert_eq!(other_end(end("eth0", 2, Some(5)), Some(4)), None);
        assert_eq!(other_end(end("eth0", 2, None), Some(4)), None);
        // The same indexes in another namespace, or in the switch's own.
        assert_eq!(other_end(end("eth0", 2, Some(6)), Some(5)), None);
        assert_eq!(other_end(end("eth0", 2, Some(6)), None), None);
    }
}
