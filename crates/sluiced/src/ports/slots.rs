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
    link: PortLink,
}

/// State of the link of a port, as the kernel reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortLink {
    /// Speed in bit/s, if the driver reports it.
    pub speed_bps: Option<u64>,
    /// MTU of the interface in bytes.
    pub mtu_bytes: Option<u32>,
}

/// Assignment of all ports to slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSlots {
    slots: Vec<Option<PortSlot>>,
    /// The slot of each port of the file, in its order.
    in_config_order_slots: Vec<usize>,
}

impl PortSlots {
    /// Assigns the slots at the start, in the order of the file.
    pub fn new(config: &Config) -> Self {
        let slots = config.switch.ports.iter().zip(&config.interfaces);
        let slots = slots.map(|(port, interface)| Some(PortSlot::new(port, interface))).collect();
        Self { slots, in_config_order_slots: (0..config.switch.ports.len()).collect() }
    }

    /// Returns the slots of the ports of another file, where slots have these cores.
    ///
    /// # Errors
    /// There is no slot for all of them, or an interface is still in use.
    pub fn of(&self, config: &Config, servers: &CoreAssignment) -> Result<Self, CommandError> {
        let mut next = Self { slots: vec![None; self.slots.len()], in_config_order_slots: Vec::new() };
        let ports = config.switch.ports.iter().zip(&config.interfaces).zip(&config.port_cores);
        for ((port, interface), &core) in ports {
            let before = self.of_name(&port.name);
            let slot = match before {
                Some(slot) => slot,
                None => {
                    self.must_be_free(&port.name, interface)?;
                    let serves = |slot: usize| core.is_none_or(|core| servers.core(slot) == core);
                    next.vacant_slot(self, serves).ok_or_else(|| too_many(&port.name, core))?
                }
            };
            next.slots.resize(next.slots.len().max(slot + 1), None);
            next.slots[slot] =
                before.map_or_else(|| Some(PortSlot::new(port, interface)), |slot| self.slots[slot].clone());
            next.in_config_order_slots.push(slot);
        }
        Ok(next)
    }

    /// Returns the first slot that is vacant here and in `before`, and that satisfies `will_do`.
    fn vacant_slot(&self, before: &Self, will_do: impl Fn(usize) -> bool) -> Option<usize> {
        let is_taken = |slots: &Self, slot: usize| matches!(slots.slots.get(slot), Some(Some(_)));
        (0..MAX_PORTS).find(|&slot| !is_taken(self, slot) && !is_taken(before, slot) && will_do(slot))
    }

    fn must_be_free(&self, name: &str, interface: &str) -> Result<(), CommandError> {
        let slots = self.slots.iter().flatten();
        let Some(owner) = slots.into_iter().find(|port_slot| port_slot.interface == interface) else {
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
        self.slots.len()
    }

    /// The slots of the ports, in the order of the file.
    pub fn in_config_order(&self) -> &[usize] {
        &self.in_config_order_slots
    }

    /// The slot of the port with this name.
    pub fn of_name(&self, name: &str) -> Option<usize> {
        self.slots
            .iter()
            .position(|port_slot| port_slot.as_ref().is_some_and(|port_slot| port_slot.name == name))
    }

    /// The name of the port in this slot.
    pub fn name(&self, slot: usize) -> Option<&str> {
        Some(&self.slots.get(slot)?.as_ref()?.name)
    }

    /// The name of the interface of the port in this slot.
    pub fn interface(&self, slot: usize) -> Option<&str> {
        Some(&self.slots.get(slot)?.as_ref()?.interface)
    }

    /// Returns the occupied slots that are vacant in `before`.
    pub fn added_to(&self, before: &Self) -> Vec<usize> {
        (0..self.count()).filter(|&slot| self.name(slot).is_some() && before.name(slot).is_none()).collect()
    }

    /// Sets the link of the port in this slot.
    pub fn set_link(&mut self, slot: usize, link: PortLink) {
        if let Some(Some(port_slot)) = self.slots.get_mut(slot) {
            port_slot.link = link;
        }
    }

    /// Arranges the ports of the file by slot.
    pub fn arrange(&self, ports: &[PortSettings]) -> Vec<PortSettings> {
        let mut settled = vec![PortSettings::vacant(); self.count()];
        for (port, &slot) in ports.iter().zip(&self.in_config_order_slots) {
            let PortLink { speed_bps, mtu_bytes } =
                self.slots[slot].as_ref().map_or(PortLink::default(), |port_slot| port_slot.link);
            settled[slot] = PortSettings { link_speed_bps: speed_bps, mtu_bytes, ..port.clone() };
        }
        settled
    }
}

impl PortSlot {
    fn new(port: &PortSettings, interface: &str) -> Self {
        Self { name: port.name.clone(), interface: interface.to_owned(), link: PortLink::default() }
    }
}

fn too_many(name: &str, core: Option<usize>) -> CommandError {
    let free = core.map_or("none is free".to_owned(), |core| format!("none that core {core} serves is free"));
    let message = format!(
        "nothing was changed: port.{name}: a switch has {MAX_PORTS} port slots, and {free} until a reload that removes \
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

    fn next(slots: &PortSlots, ports: &[(&str, &str)]) -> Result<PortSlots, CommandError> {
        let config = config(ports);
        slots.of(&config, &CoreAssignment::new(&config, &[]))
    }

    /// Returns the names by slot, "–" for a vacant one.
    fn names(slots: &PortSlots) -> String {
        (0..slots.count()).map(|slot| slots.name(slot).unwrap_or("–")).collect()
    }

    #[test]
    fn ports_keep_their_slots_and_vacant_ones_are_taken_again() {
        let mut slots = PortSlots::new(&config(&[("a", "v0"), ("b", "v1"), ("c", "v2")]));
        slots.set_link(2, PortLink { speed_bps: Some(7), mtu_bytes: Some(1500) });
        for (file, at, order) in [
            (&[("a", "v0"), ("c", "v2")][..], "a–c", &[0, 2][..]),
            (&[("c", "v2"), ("a", "v0")], "a–c", &[2, 0]),
            (&[("d", "v1"), ("c", "v2"), ("a", "v0"), ("e", "v3")], "adce", &[1, 2, 0, 3]),
        ] {
            let before = slots.clone();
            slots = next(&slots, file).unwrap();
            assert_eq!((names(&slots).as_str(), slots.in_config_order()), (at, order), "{file:?}");
            assert!(slots.added_to(&before).iter().all(|&slot| before.name(slot).is_none()));
        }
        // Ports that leave and ports that join in one reload never share a slot.
        let after = next(&slots, &[("c", "v2"), ("f", "v4")]).unwrap();
        assert_eq!((names(&after).as_str(), after.in_config_order()), ("––c–f", &[2, 4][..]));
        assert_eq!(after.added_to(&slots), [4]);
        let ports = after.arrange(&config(&[("c", "v2"), ("f", "v4")]).switch.ports);
        let settled: Vec<_> = ports.iter().map(|port| (port.name.as_str(), port.link_speed_bps)).collect();
        assert_eq!(settled, [("", None), ("", None), ("c", Some(7)), ("", None), ("f", None)]);
    }

    #[test]
    fn an_interface_is_free_once_its_port_is_removed() {
        let slots = PortSlots::new(&config(&[("a", "v0"), ("b", "v1")]));
        let refusal = next(&slots, &[("a", "v0"), ("c", "v1")]).unwrap_err();
        assert!(
            refusal.message.contains("port.c: the interface v1 still is port.b's; remove that port"),
            "{refusal}"
        );
        let slots = next(&slots, &[("a", "v0")]).unwrap();
        assert_eq!(names(&next(&slots, &[("a", "v0"), ("c", "v1")]).unwrap()), "ac");
    }

    #[test]
    fn there_are_as_many_slots_as_a_switch_has_ports() {
        let ports: Vec<_> = (0..MAX_PORTS).map(|n| (format!("p{n}"), format!("v{n}"))).collect();
        let mut ports: Vec<_> = ports.iter().map(|(name, at)| (name.as_str(), at.as_str())).collect();
        let slots = PortSlots::new(&config(&ports));
        ports[3] = ("new", "w");
        let refusal = next(&slots, &ports).unwrap_err();
        assert!(refusal.message.contains("port.new: a switch has 64 port slots"), "{refusal}");
    }

    /// Slots belong to core 0 and core 1 alternately. A port that names a core gets the next slot
    /// of that core.
    #[test]
    fn an_added_port_gets_its_configured_core() {
        let file = |more: &str| {
            let text = "[dataplane]\ncores = [0, 1]\n[port.a]\ninterface = \"v0\"\n".to_owned() + more;
            config::parse("x.toml", &text).unwrap()
        };
        let servers = CoreAssignment::new(&file(""), &[1]);
        let slots = PortSlots::new(&file(""));
        let two = |cores: [&str; 2]| {
            let port = |(name, core)| format!("[port.{name}]\ninterface = \"{name}\"\n{core}\n");
            ["b", "c"].into_iter().zip(cores).map(port).collect::<String>()
        };
        for (cores, at) in [(["", ""], "abc"), (["core = 0", ""], "acb"), (["core = 1", "core = 1"], "ab–c")]
        {
            let slots = slots.of(&file(&two(cores)), &servers).unwrap();
            assert_eq!(names(&slots), at, "{cores:?}");
        }
        let many: String =
            (0..33).map(|n| format!("[port.p{n}]\ninterface = \"w{n}\"\ncore = 1\n")).collect();
        let refusal = slots.of(&file(&many), &servers).unwrap_err();
        assert!(refusal.message.contains("port.p32: a switch has 64 port slots, and none that core 1"));
    }
}
