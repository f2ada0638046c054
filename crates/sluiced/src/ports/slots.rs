//! Slots of the ports. The switch identifies ports by their slots; the file and all other
//! interfaces identify them by their names.
//!
//! Rule: a port keeps its slot until it is removed, wherever it is in the file. A port that is
//! added takes the first vacant slot, or the first one of its core if the file names a core. An
//! interface belongs to one port at a time, and a slot is only reassigned once its former port has
//! left it. So what a reload removes is available to the next reload. Source: docs/behavior.md,
//! "Ports that are added and removed".

use config::Config;
use control::{CommandError, ErrorKind};
use switch::PortSettings;
use switch::settings::MAX_PORTS;

use crate::ports::core_assignment::CoreAssignment;

/// A port in its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PortSlot {
    name: String,
    interface: String,
    link: Link,
}

/// State of the link of a port, as the kernel reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Link {
    /// Speed in bit/s, if the driver reports it.
    pub speed_bps: Option<u64>,
    /// MTU of the interface in bytes.
    pub mtu_bytes: Option<u32>,
}

/// Assignment of all ports to slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSlots {
    tenants: Vec<Option<PortSlot>>,
    /// The slot of each port of the file, in its order.
    of_file: Vec<usize>,
}

impl PortSlots {
    /// Assigns the slots at the start, in the order of the file.
    pub fn new(config: &Config) -> Self {
        let tenants = config.switch.ports.iter().zip(&config.interfaces);
        let tenants = tenants.map(|(port, interface)| Some(PortSlot::new(port, interface))).collect();
        Self { tenants, of_file: (0..config.switch.ports.len()).collect() }
    }

    /// Returns the slots of the ports of another file, where slots have these cores.
    ///
    /// # Errors
    /// There is no slot for all of them, or an interface is still in use.
    pub fn of(&self, config: &Config, servers: &CoreAssignment) -> Result<Self, CommandError> {
        let mut next = Self { tenants: vec![None; self.tenants.len()], of_file: Vec::new() };
        let ports = config.switch.ports.iter().zip(&config.interfaces).zip(&config.port_cores);
        for ((port, interface), &core) in ports {
            let before = self.of_name(&port.name);
            let place = match before {
                Some(place) => place,
                None => {
                    self.must_be_free(&port.name, interface)?;
                    let serves = |place: usize| core.is_none_or(|core| servers.core(place) == core);
                    next.vacant_in(self, serves).ok_or_else(|| too_many(&port.name, core))?
                }
            };
            next.tenants.resize(next.tenants.len().max(place + 1), None);
            next.tenants[place] = before
                .map_or_else(|| Some(PortSlot::new(port, interface)), |place| self.tenants[place].clone());
            next.of_file.push(place);
        }
        Ok(next)
    }

    /// Returns the first slot that is vacant here and in `before`, and that satisfies `will_do`.
    fn vacant_in(&self, before: &Self, will_do: impl Fn(usize) -> bool) -> Option<usize> {
        let is_taken = |places: &Self, place: usize| matches!(places.tenants.get(place), Some(Some(_)));
        (0..MAX_PORTS).find(|&place| !is_taken(self, place) && !is_taken(before, place) && will_do(place))
    }

    fn must_be_free(&self, name: &str, interface: &str) -> Result<(), CommandError> {
        let tenants = self.tenants.iter().flatten();
        let Some(owner) = tenants.into_iter().find(|port_slot| port_slot.interface == interface) else {
            return Ok(());
        };
        let message = format!(
            "nothing was changed: port.{name}: the interface {interface} still is port.{}'s; remove that port and reload, then \
             add port.{name} and reload again",
            owner.name
        );
        Err(CommandError { reason: ErrorKind::Precondition, message })
    }

    /// The number of slots, including vacant ones.
    pub fn count(&self) -> usize {
        self.tenants.len()
    }

    /// The slots of the ports, in the order of the file.
    pub fn in_config_order(&self) -> &[usize] {
        &self.of_file
    }

    /// The slot of the port with this name.
    pub fn of_name(&self, name: &str) -> Option<usize> {
        self.tenants
            .iter()
            .position(|port_slot| port_slot.as_ref().is_some_and(|port_slot| port_slot.name == name))
    }

    /// The name of the port in this slot.
    pub fn name(&self, place: usize) -> Option<&str> {
        Some(&self.tenants.get(place)?.as_ref()?.name)
    }

    /// The name of the interface of the port in this slot.
    pub fn interface(&self, place: usize) -> Option<&str> {
        Some(&self.tenants.get(place)?.as_ref()?.interface)
    }

    /// Returns the occupied slots that are vacant in `before`.
    pub fn added_to(&self, before: &Self) -> Vec<usize> {
        (0..self.count())
            .filter(|&place| self.name(place).is_some() && before.name(place).is_none())
            .collect()
    }

    /// Sets the link of the port in this slot.
    pub fn set_link(&mut self, place: usize, link: Link) {
        if let Some(Some(port_slot)) = self.tenants.get_mut(place) {
            port_slot.link = link;
        }
    }

    /// Arranges the ports of the file by slot.
    pub fn settle(&self, ports: &[PortSettings]) -> Vec<PortSettings> {
        let mut settled = vec![PortSettings::vacant(); self.count()];
        for (port, &place) in ports.iter().zip(&self.of_file) {
            let Link { speed_bps, mtu_bytes } =
                self.tenants[place].as_ref().map_or(Link::default(), |port_slot| port_slot.link);
            settled[place] = PortSettings { link_speed_bps: speed_bps, mtu_bytes, ..port.clone() };
        }
        settled
    }
}

impl PortSlot {
    fn new(port: &PortSettings, interface: &str) -> Self {
        Self { name: port.name.clone(), interface: interface.to_owned(), link: Link::default() }
    }
}

fn too_many(name: &str, core: Option<usize>) -> CommandError {
    let free = core.map_or("none is free".to_owned(), |core| format!("none that core {core} serves is free"));
    let message = format!(
        "nothing was changed: port.{name}: a switch has {MAX_PORTS} places for ports, and {free} until a reload that removes \
         some has been done"
    );
    CommandError { reason: ErrorKind::Precondition, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(ports: &[(&str, &str)]) -> Config {
        let port = |(name, interface): &(&str, &str)| format!("[port.{name}]\ninterface = \"{interface}\"\n");
        config::parse("x.toml", &ports.iter().map(port).collect::<String>()).unwrap()
    }

    fn next(places: &PortSlots, ports: &[(&str, &str)]) -> Result<PortSlots, CommandError> {
        let config = config(ports);
        places.of(&config, &CoreAssignment::new(&config, &[]))
    }

    /// Returns the names by slot, "–" for a vacant one.
    fn names(places: &PortSlots) -> String {
        (0..places.count()).map(|place| places.name(place).unwrap_or("–")).collect()
    }

    #[test]
    fn ports_keep_their_places_and_vacant_ones_are_taken_again() {
        let mut places = PortSlots::new(&config(&[("a", "v0"), ("b", "v1"), ("c", "v2")]));
        places.set_link(2, Link { speed_bps: Some(7), mtu_bytes: Some(1500) });
        for (file, at, order) in [
            (&[("a", "v0"), ("c", "v2")][..], "a–c", &[0, 2][..]),
            (&[("c", "v2"), ("a", "v0")], "a–c", &[2, 0]),
            (&[("d", "v1"), ("c", "v2"), ("a", "v0"), ("e", "v3")], "adce", &[1, 2, 0, 3]),
        ] {
            let before = places.clone();
            places = next(&places, file).unwrap();
            assert_eq!((names(&places).as_str(), places.in_config_order()), (at, order), "{file:?}");
            assert!(places.added_to(&before).iter().all(|&place| before.name(place).is_none()));
        }
        // Ports that leave and ports that join in one reload never share a slot.
        let after = next(&places, &[("c", "v2"), ("f", "v4")]).unwrap();
        assert_eq!((names(&after).as_str(), after.in_config_order()), ("––c–f", &[2, 4][..]));
        assert_eq!(after.added_to(&places), [4]);
        let ports = after.settle(&config(&[("c", "v2"), ("f", "v4")]).switch.ports);
        let settled: Vec<_> = ports.iter().map(|port| (port.name.as_str(), port.link_speed_bps)).collect();
        assert_eq!(settled, [("", None), ("", None), ("c", Some(7)), ("", None), ("f", None)]);
    }

    #[test]
    fn an_interface_is_free_once_its_port_is_removed() {
        let places = PortSlots::new(&config(&[("a", "v0"), ("b", "v1")]));
        let refusal = next(&places, &[("a", "v0"), ("c", "v1")]).unwrap_err();
        assert!(
            refusal.message.contains("port.c: the interface v1 still is port.b's; remove that port"),
            "{refusal}"
        );
        let places = next(&places, &[("a", "v0")]).unwrap();
        assert_eq!(names(&next(&places, &[("a", "v0"), ("c", "v1")]).unwrap()), "ac");
    }

    #[test]
    fn there_are_as_many_places_as_a_switch_has_ports() {
        let ports: Vec<_> = (0..MAX_PORTS).map(|n| (format!("p{n}"), format!("v{n}"))).collect();
        let mut ports: Vec<_> = ports.iter().map(|(name, at)| (name.as_str(), at.as_str())).collect();
        let places = PortSlots::new(&config(&ports));
        ports[3] = ("new", "w");
        let refusal = next(&places, &ports).unwrap_err();
        assert!(refusal.message.contains("port.new: a switch has 64 places"), "{refusal}");
    }

    /// Slots belong to core 0 and core 1 alternately. A port that names a core gets the next slot
    /// of that core.
    #[test]
    fn a_port_that_is_added_has_the_core_that_it_asks_for() {
        let file = |more: &str| {
            let text = "[dataplane]\ncores = [0, 1]\n[port.a]\ninterface = \"v0\"\n".to_owned() + more;
            config::parse("x.toml", &text).unwrap()
        };
        let servers = CoreAssignment::new(&file(""), &[1]);
        let places = PortSlots::new(&file(""));
        let two = |cores: [&str; 2]| {
            let port = |(name, core)| format!("[port.{name}]\ninterface = \"{name}\"\n{core}\n");
            ["b", "c"].into_iter().zip(cores).map(port).collect::<String>()
        };
        for (cores, at) in [(["", ""], "abc"), (["core = 0", ""], "acb"), (["core = 1", "core = 1"], "ab–c")]
        {
            let places = places.of(&file(&two(cores)), &servers).unwrap();
            assert_eq!(names(&places), at, "{cores:?}");
        }
        let many: String =
            (0..33).map(|n| format!("[port.p{n}]\ninterface = \"w{n}\"\ncore = 1\n")).collect();
        let refusal = places.of(&file(&many), &servers).unwrap_err();
        assert!(refusal.message.contains("port.p32: a switch has 64 places for ports, and none that core 1"));
    }
}
