//! The parts of a generated network, by name: kinds of switches with their ports, switches, hosts,
//! and cables.

/// A network to be built.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) roles: Vec<Role>,
    /// Name of each switch, and the index of its role.
    pub(super) switches: Vec<(String, usize)>,
    pub(super) hosts: Vec<String>,
    /// Both ends of each cable: HOST, or SWITCH.PORT.
    pub(super) links: Vec<[String; 2]>,
}

/// A kind of switch. All switches of a role have the same ports.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) name: &'static str,
    /// Prefix of the ports' names, their number, and the kind of their cables.
    pub(super) ports: Vec<(&'static str, usize, Cable)>,
}

/// Kind of a cable, which has its speed and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cable {
    /// Between a host and a switch.
    Host,
    /// Between two switches.
    Fabric,
    /// Between two groups of a dragonfly.
    Global,
}

impl Role {
    /// The number of ports.
    pub(super) fn port_count(&self) -> usize {
        self.ports.iter().map(|(_, count, _)| count).sum()
    }
}

impl Plan {
    /// Adds `count` switches of a role, `PREFIX1` and so on.
    pub(super) fn add_switches(&mut self, role: usize, prefix: &str, count: usize) {
        self.switches.extend((1..=count).map(|number| (format!("{prefix}{number}"), role)));
    }

    /// Connects two ends.
    pub(super) fn join(&mut self, first: String, second: String) {
        self.links.push([first, second]);
    }
}
