//! MAC addresses (IEEE Std 802-2014 clause 8).

use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// A MAC address, in the order of transmission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The broadcast address.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
    /// Destination of PAUSE and PFC frames: the peer on the link (IEEE 802.3 Annex 31B.1).
    pub const PAUSE: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);
    /// Destination of LLDP frames to the nearest bridge (IEEE 802.1AB-2016 table 7-1).
    pub const NEAREST_BRIDGE: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e]);

    /// Returns the address as a 48-bit number, the first byte the most significant.
    #[inline]
    pub const fn number(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// Returns the address of a number; bits above the 48th are cut off.
    #[inline]
    pub const fn from_number(number: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = number.to_be_bytes();
        MacAddr([a, b, c, d, e, f])
    }

    /// Returns true for a multicast or the broadcast address, which is never a valid source.
    #[inline]
    pub fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Returns true for the all-zero address, which is never assigned.
    #[inline]
    pub fn is_zero(self) -> bool {
        self.0 == [0; 6]
    }

    /// Returns true for 01-80-C2-00-00-00 to -0F, which no bridge forwards (IEEE 802.1Q-2022 table
    /// 8-1).
    #[inline]
    pub fn is_link_local(self) -> bool {
        let [a, b, c, d, e, last] = self.0;
        [a, b, c, d, e] == [0x01, 0x80, 0xc2, 0x00, 0x00] && last & 0xf0 == 0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, last] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{last:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseMacError;

impl fmt::Display for ParseMacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a MAC address; write six pairs of hexadecimal digits, as in 02:00:00:00:00:01")
    }
}

impl core::error::Error for ParseMacError {}

impl FromStr for MacAddr {
    type Err = ParseMacError;

    /// Parses six pairs of hexadecimal digits with colons between them.
    fn from_str(text: &str) -> Result<Self, ParseMacError> {
        let mut pairs = text.split(':');
        let mut bytes = [0; 6];
        for byte in &mut bytes {
            let pair = pairs.next().filter(|pair| pair.len() == 2).ok_or(ParseMacError)?;
            // `from_str_radix` would take a sign too.
            if !pair.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(ParseMacError);
            }
            *byte = u8::from_str_radix(pair, 16).map_err(|_| ParseMacError)?;
        }
        if pairs.next().is_some() { Err(ParseMacError) } else { Ok(MacAddr(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_and_read_as_text() {
        let address = MacAddr([0x02, 0, 0xab, 0xcd, 0, 0x01]);
        assert_eq!(address.to_string(), "02:00:ab:cd:00:01");
        assert_eq!("02:00:AB:cd:00:01".parse(), Ok(address));
    }

    #[test]
    fn text_that_is_no_address_is_refused() {
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "2:0:0:0:0:1",
            "02:00:00:00:00:+1",
            "02:00:00:00:00:0g",
            "02-00-00-00-00-01",
            "02:00:00:00:00:é",
        ] {
            assert_eq!(text.parse::<MacAddr>(), Err(ParseMacError), "{text}");
        }
    }

    #[test]
    fn group_zero_and_link_local_addresses_are_distinguished() {
        //                                      group, zero, link-local
        for (address, expected) in [
            ("00:00:00:00:00:00", (false, true, false)),
            ("02:00:00:00:00:01", (false, false, false)),
            ("ff:ff:ff:ff:ff:ff", (true, false, false)),
            ("01:80:c2:00:00:00", (true, false, true)),
            ("01:80:c2:00:00:01", (true, false, true)),
            ("01:80:c2:00:00:0f", (true, false, true)),
            ("01:80:c2:00:00:10", (true, false, false)),
            ("01:80:c2:00:01:00", (true, false, false)),
            ("33:33:00:00:00:01", (true, false, false)),
        ] {
            let mac: MacAddr = address.parse().unwrap();
            assert_eq!((mac.is_group(), mac.is_zero(), mac.is_link_local()), expected, "{address}");
        }
    }
}
