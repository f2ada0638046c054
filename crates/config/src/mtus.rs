//! Whether what comes in on one port fits the others.
//!
//! Rule: ports of one switch have one MTU. A frame that is longer than the interface can send that it is to leave by is dropped there
//! (`mtu_exceeded`), whatever its priority. So MTUs are compared, and a warning names those that differ.
//! Source: docs/law.md, "MTUs".

use std::collections::BTreeMap;

/// What is to be said of ports with these names and MTUs in bytes; nothing if all are the same.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_mtus_are_named_with_the_cure() {
        assert_eq!(mtu_warning([]), None);
        assert_eq!(mtu_warning([("a", 1500), ("b", 1500)]), None);
        let said = mtu_warning([("a", 1500), ("c", 3000), ("b", 1500)]).unwrap();
        assert!(said.starts_with("the MTUs of the ports differ: 1500 (a, b), 3000 (c). "), "{said}");
        assert!(said.contains("mtu 1500` at both ends of c, or a larger"), "{said}");
        let said = mtu_warning([("a", 9000), ("b", 1400), ("c", 1500)]).unwrap();
        assert!(
            said.contains("1400 (b), 1500 (c), 9000 (a)") && said.contains("both ends of c, a,"),
            "{said}"
        );
    }
}
