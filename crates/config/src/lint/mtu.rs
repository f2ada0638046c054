//! Checks whether the frames received on one port fit the others.
//!
//! Rule: the ports of one switch have one MTU. A frame longer than its egress interface can send is
//! dropped there (`mtu_exceeded`), whatever its priority. So MTUs are compared, and a warning names
//! those that differ.
//!
//! Headroom is sized for frames as long as the port's `mtu`: a frame that has begun when XOFF is
//! sent is transmitted whole. So there is a warning about an interface with no-drop priorities that
//! carries longer frames, too. Source: docs/behavior.md, "MTUs", "Headroom needed".

use std::collections::BTreeMap;

use switch::PortSettings;

use crate::lint::lossless::DEFAULT_MTU_BYTES;
use crate::tables::ports::{Link, MTU_BYTES};

/// Ethernet header and a tag, which are added to an interface's MTU.
const LINK_BYTES: u32 = 14 + 4;

/// Returns a warning about ports with these names and MTUs in bytes; `None` if all MTUs are the
/// same.
pub fn mtu_warning<'a>(ports: impl IntoIterator<Item = (&'a str, u32)>) -> Option<String> {
    let mut by_mtu: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for (port, mtu) in ports {
        by_mtu.entry(mtu).or_default().push(port);
    }
    let (&smallest, _) = by_mtu.first_key_value().filter(|_| by_mtu.len() > 1)?;
    let groups: Vec<String> =
        by_mtu.iter().map(|(mtu, ports)| format!("{mtu} ({})", ports.join(", "))).collect();
    let larger: Vec<&str> = by_mtu.iter().skip(1).flat_map(|(_, ports)| ports.iter().copied()).collect();
    Some(format!(
        "the MTUs of the ports differ: {}. Frames that are too long for the port that they leave by are dropped there, no-drop or not \
         (mtu_exceeded): `ip link set dev INTERFACE mtu {smallest}` at both ends of {}, or a larger one at all others",
        groups.join(", "),
        larger.join(", ")
    ))
}

/// Returns a warning about a no-drop port whose interface has this MTU in bytes; `None` if headroom
/// is sized for its frames.
pub fn headroom_mtu_warning(port: &PortSettings, link: &Link, interface_mtu_bytes: u32) -> Option<String> {
    let reckoned = link.mtu_bytes.unwrap_or(DEFAULT_MTU_BYTES);
    let longest = interface_mtu_bytes.saturating_add(LINK_BYTES).min(*MTU_BYTES.end());
    (port.pfc.no_drop != 0 && longest > reckoned).then(|| {
        format!(
            "the interface of port {} carries frames of {longest} bytes, and its headroom is sized for {reckoned}: a peer may \
             have begun one when XOFF goes out. `mtu = {longest}` in [port.{}] has headroom checked for them, and \
             `sluice headroom --fix` writes a sufficient value",
            port.name, port.name
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_drop_ports_with_longer_frames_than_headroom_is_for_are_named() {
        let mut port = PortSettings::new("a", None);
        let message = |port: &PortSettings, mtu_bytes, mtu| {
            headroom_mtu_warning(port, &Link { mtu_bytes, cable_m: None }, mtu)
        };
        assert_eq!(message(&port, None, 9000), None, "lossy");
        port.pfc.no_drop = 0b1000;
        assert_eq!((message(&port, None, 1500), message(&port, Some(3018), 3000)), (None, None));
        assert_eq!(message(&port, Some(9238), 65_535), None, "no longer frame is possible");
        let text = message(&port, None, 3000).unwrap();
        assert!(text.contains("frames of 3018 bytes, and its headroom is sized for 1518:"), "{text}");
        assert!(text.contains("`mtu = 3018` in [port.a]"), "{text}");
        assert!(message(&port, Some(3000), 3000).unwrap().contains("sized for 3000:"));
    }

    #[test]
    fn other_mtus_are_named_with_the_cure() {
        assert_eq!(mtu_warning([]), None);
        assert_eq!(mtu_warning([("a", 1500), ("b", 1500)]), None);
        let message = mtu_warning([("a", 1500), ("c", 3000), ("b", 1500)]).unwrap();
        assert!(message.starts_with("the MTUs of the ports differ: 1500 (a, b), 3000 (c). "), "{message}");
        assert!(message.contains("mtu 1500` at both ends of c, or a larger"), "{message}");
        let message = mtu_warning([("a", 9000), ("b", 1400), ("c", 1500)]).unwrap();
        assert!(
            message.contains("1400 (b), 1500 (c), 9000 (a)") && message.contains("both ends of c, a,"),
            "{message}"
        );
    }
}
