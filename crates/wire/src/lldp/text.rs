//! Bytes from the network as text that is safe to print.

/// Returns bytes as text that is safe to print: what is not UTF-8 and what is a control character
/// is replaced by U+FFFD.
pub(super) fn text(bytes: &[u8]) -> String {
    let decoded = String::from_utf8_lossy(bytes);
    decoded.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Returns an address of a family of the IANA's list (1 is IPv4, 2 is IPv6) as text; one of another
/// family, such as a MAC address, as its bytes.
pub(super) fn address_text(family: u8, address: &[u8]) -> String {
    match (family, address.len()) {
        (1, 4) => <[u8; 4]>::try_from(address).map(core::net::Ipv4Addr::from).map(|ip| ip.to_string()),
        (2, 16) => <[u8; 16]>::try_from(address).map(core::net::Ipv6Addr::from).map(|ip| ip.to_string()),
        _ => Ok(address.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")),
    }
    .unwrap_or_default()
}
