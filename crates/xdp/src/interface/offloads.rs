//! Properties of a port's interface that change or add frames in a way that a switch must not, and
//! the commands that disable them.
//!
//! Rule: a switch forwards received frames one by one and unchanged. So nothing below it may merge
//! received frames (LRO, GRO), strip their tags where XDP does not receive them, pass segments for
//! a device that does not exist (a tap with vnet headers), or honor and send PAUSE frames by
//! itself. And the host's own stack must not send past the switch. Source: docs/behavior.md, "What
//! an interface does to frames", "The host's own stack".

use crate::interface::addresses::Address;
use crate::interface::info::InterfaceInfo;
use crate::interface::program::XdpMode;

/// Features that merge frames, and their names in `ethtool -K`.
const MERGING: [(&str, &str); 3] = [("rx-lro", "lro"), ("rx-gro-hw", "rx-gro-hw"), ("rx-gro", "gro")];
/// The driver of NICs that a hypervisor emulates.
const VIRTIO: &str = "virtio_net";

/// A property of an interface that harms frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffloadWarning {
    /// The cause: a feature by its kernel name, or `vnet_hdr`, `pause`, `macvlan`, `addresses`,
    /// `ipv6`.
    pub setting: String,
    /// The effect on frames.
    pub harm: String,
    /// The remedy, most often a command.
    pub cure: String,
}

impl OffloadWarning {
    fn new(setting: &str, harm: String, cure: String) -> Self {
        Self { setting: setting.to_owned(), harm, cure }
    }
}

/// Returns the properties of this interface that harm frames of the port. `mode` is the mode of its
/// XDP program, `None` before the program runs.
pub fn warnings(interface: &str, facts: &InterfaceInfo, mode: Option<XdpMode>) -> Vec<OffloadWarning> {
    let mut found = Vec::new();
    for (feature, name) in MERGING {
        if facts.features.contains(feature) && is_harmful_here(feature, facts, mode) {
            let cure = if facts.driver == VIRTIO {
                "QEMU's `guest_tso4=off,guest_tso6=off,guest_ufo=off`".to_owned()
            } else {
                format!("`ethtool -K {interface} {name} off`")
            };
            let harm = "received frames are merged into ones that fit no port, and those are lost";
            found.push(OffloadWarning::new(feature, harm.to_owned(), cure));
        }
        if let Some(lower) = facts.lower.as_ref().filter(|lower| lower.features.contains(feature)) {
            let below = &lower.name;
            found.push(OffloadWarning::new(
                feature,
                format!(
                    "{below}, below it, merges received frames into ones that fit no port, and those are lost"
                ),
                format!("`ethtool -K {below} {name} off`"),
            ));
        }
    }
    if facts.kind.is_empty() && facts.features.contains("rx-vlan-hw-parse") && !facts.has_vlan_metadata {
        found.push(OffloadWarning::new(
            "rx-vlan-hw-parse",
            "the NIC takes VLAN tags off received frames, and VLAN and priority are lost with them"
                .to_owned(),
            format!("`ethtool -K {interface} rxvlan off`"),
        ));
    }
    if facts.kind == "macvlan" {
        let below = facts.lower.as_ref().map_or("the interface below it", |lower| &lower.name);
        found.push(OffloadWarning::new(
            "macvlan",
            "the kernel takes the outermost VLAN tag off frames that come to a macvlan, and VLAN and priority are lost with it; \
             IPv4 fragments to group addresses it joins"
                .to_owned(),
            format!("{below} itself as the port's interface, or a veth"),
        ));
    }
    if facts.accepts_gso {
        found.push(OffloadWarning::new(
            "vnet_hdr",
            "a guest may leave segmentation (TSO, USO, UFO) to this tap, and such frames of up to 64 KB are lost".to_owned(),
            "QEMU's `host_tso4=off,host_tso6=off,host_ufo=off,host_uso=off`, or in the guest `ethtool -K eth0 tso off gso off`"
                .to_owned(),
        ));
    }
    if facts.pause.rx || facts.pause.tx {
        found.push(OffloadWarning::new(
            "pause",
            "the NIC itself honors or sends 802.3x PAUSE frames, which stop no-drop and other priorities alike"
                .to_owned(),
            format!("`ethtool -A {interface} autoneg off rx off tx off`"),
        ));
    }
    found.extend(own_stack(interface, facts, mode));
    found
}

/// Returns a warning if the host's own stack may send frames on the interface. A port turns IPv6
/// off where nobody gave the interface an address, so before it is opened IPv6 does no harm.
fn own_stack(interface: &str, facts: &InterfaceInfo, mode: Option<XdpMode>) -> Option<OffloadWarning> {
    let harm = "the host's own stack sends ARP, neighbor discovery and group reports past the switch, in a pause, too";
    if !facts.addresses.is_empty() {
        let addresses: Vec<String> = facts.addresses.iter().map(Address::to_string).collect();
        let harm = format!("{harm}, and receives nothing here ({})", addresses.join(", "));
        return Some(OffloadWarning::new("addresses", harm, format!("`ip addr flush dev {interface}`")));
    }
    let cure = || format!("`sysctl -w net/ipv6/conf/{interface}/disable_ipv6=1`");
    (facts.has_ipv6 && mode.is_some()).then(|| OffloadWarning::new("ipv6", harm.to_owned(), cure()))
}

/// True if a feature merges frames on the port's own interface. The kernel merges none where an XDP
/// program runs. The virtio driver accepts a native program only after it has turned merging off,
/// though its features still report that merging is on.
fn is_harmful_here(feature: &str, facts: &InterfaceInfo, mode: Option<XdpMode>) -> bool {
    feature != "rx-gro" && (facts.driver != VIRTIO || mode == Some(XdpMode::Generic))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::interface::ethtool::Pause;
    use crate::interface::info::LowerDevice;

    fn on(features: &[&str]) -> BTreeSet<String> {
        features.iter().map(|&feature| feature.to_owned()).collect()
    }

    fn nic(features: &[&str]) -> InterfaceInfo {
        InterfaceInfo { driver: "ice".to_owned(), features: on(features), ..InterfaceInfo::default() }
    }

    fn macvlan(below: &[&str]) -> InterfaceInfo {
        let lower = Some(LowerDevice { name: "eth7".to_owned(), features: on(below) });
        InterfaceInfo { kind: "macvlan".to_owned(), lower, ..InterfaceInfo::default() }
    }

    const NO_MACVLAN: &str = "macvlan: eth7 itself as the port's interface, or a veth";

    /// Returns the reported settings and remedies.
    fn message(facts: &InterfaceInfo) -> Vec<String> {
        let text = |caution: OffloadWarning| format!("{}: {}", caution.setting, caution.cure);
        warnings("eth0", facts, Some(XdpMode::Generic)).into_iter().map(text).collect()
    }

    #[test]
    fn harmful_offloads_are_named_with_the_cure() {
        let quiet = [
            nic(&["rx-gro", "rx-checksum", "tx-tcp-segmentation"]),
            InterfaceInfo { has_vlan_metadata: true, ..nic(&["rx-vlan-hw-parse"]) },
            InterfaceInfo { kind: "veth".to_owned(), ..nic(&["rx-vlan-hw-parse", "rx-gro"]) },
            InterfaceInfo { kind: "tun".to_owned(), ..InterfaceInfo::default() },
        ];
        for facts in &quiet {
            assert_eq!(message(facts), [""; 0], "{facts:?}");
        }
        let (rx, tx) = (Pause { rx: true, tx: false }, Pause { rx: false, tx: true });
        for (facts, expected) in [
            (nic(&["rx-lro"]), vec!["rx-lro: `ethtool -K eth0 lro off`"]),
            (nic(&["rx-gro-hw"]), vec!["rx-gro-hw: `ethtool -K eth0 rx-gro-hw off`"]),
            (nic(&["rx-vlan-hw-parse"]), vec!["rx-vlan-hw-parse: `ethtool -K eth0 rxvlan off`"]),
            (
                InterfaceInfo { pause: rx, ..nic(&[]) },
                vec!["pause: `ethtool -A eth0 autoneg off rx off tx off`"],
            ),
            (
                InterfaceInfo { pause: tx, ..nic(&[]) },
                vec!["pause: `ethtool -A eth0 autoneg off rx off tx off`"],
            ),
            (macvlan(&["rx-vlan-hw-parse"]), vec![NO_MACVLAN]),
            (macvlan(&["rx-gro"]), vec!["rx-gro: `ethtool -K eth7 gro off`", NO_MACVLAN]),
            (
                macvlan(&["rx-gro-hw", "rx-lro"]),
                vec![
                    "rx-lro: `ethtool -K eth7 lro off`",
                    "rx-gro-hw: `ethtool -K eth7 rx-gro-hw off`",
                    NO_MACVLAN,
                ],
            ),
        ] {
            assert_eq!(message(&facts), expected, "{facts:?}");
        }
        let virtio = InterfaceInfo { driver: VIRTIO.to_owned(), ..nic(&["rx-gro-hw"]) };
        assert_eq!(message(&virtio), ["rx-gro-hw: QEMU's `guest_tso4=off,guest_tso6=off,guest_ufo=off`"]);
        for mode in [None, Some(XdpMode::Native)] {
            assert_eq!(warnings("eth0", &virtio, mode), []);
        }
        let tap = InterfaceInfo { kind: "tun".to_owned(), accepts_gso: true, ..InterfaceInfo::default() };
        let found = warnings("tap0", &tap, None);
        assert_eq!((found.len(), found[0].setting.as_str()), (1, "vnet_hdr"));
        assert!(found[0].cure.contains("host_ufo=off"), "{found:?}");
    }

    #[test]
    fn addresses_and_ipv6_that_is_on_are_reported() {
        let addresses = ["10.0.0.1/24", "2001:db8::1/64"].map(|text| text.parse().unwrap()).to_vec();
        let facts = InterfaceInfo { addresses, has_ipv6: true, ..InterfaceInfo::default() };
        for mode in [None, Some(XdpMode::Native)] {
            let found = warnings("eth0", &facts, mode);
            let OffloadWarning { setting, harm, cure } = &found[0];
            assert_eq!(
                (found.len(), setting.as_str(), cure.as_str()),
                (1, "addresses", "`ip addr flush dev eth0`")
            );
            assert!(harm.ends_with("(10.0.0.1/24, 2001:db8::1/64)"), "{harm}");
        }
        let facts = InterfaceInfo { has_ipv6: true, ..InterfaceInfo::default() };
        assert_eq!(warnings("eth0", &facts, None), [], "a port turns it off");
        assert_eq!(message(&facts), ["ipv6: `sysctl -w net/ipv6/conf/eth0/disable_ipv6=1`"]);
    }
}
