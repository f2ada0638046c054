//! `sluice show fdb`: the addresses that the switch knows, with their VLAN, port and age.

use control::v1::FdbEntry;

use crate::show::format::{self, grouped};

/// Formats the addresses, and how many there are.
pub fn table(entries: &[FdbEntry]) -> String {
    let mut table = format::table(&["VLAN", "Address", "Port", "Type", "Age\ns"], 4);
    for FdbEntry { address, vlan, port, is_static, age_ns } in entries {
        table.add_row([
            if *vlan == 0 { "–".to_owned() } else { vlan.to_string() },
            address.clone(),
            port.clone(),
            if *is_static { "static" } else { "learned" }.to_owned(),
            if *is_static { "–".to_owned() } else { grouped(age_ns / 1_000_000_000) },
        ]);
    }
    if table.is_empty() {
        return "No address is known.".to_owned();
    }
    let of_file = entries.iter().filter(|entry| entry.is_static).count();
    let learned = grouped((entries.len() - of_file) as u64);
    format!("{}\n\n{learned} learned, {} static.", table.trim_fmt(), grouped(of_file as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_each_kind() {
        let entry = |address: &str, vlan, is_static, age_s: u64| FdbEntry {
            address: address.to_owned(),
            vlan,
            port: "uplink".to_owned(),
            is_static,
            age_ns: age_s * 1_000_000_000,
        };
        let entries = [entry("02:00:00:00:00:01", 0, false, 1_234), entry("02:00:00:00:00:02", 20, true, 0)];
        insta::assert_snapshot!(table(&entries));
        assert_eq!(table(&[]), "No address is known.");
    }
}
