//! Classification of received frames, and remarking of frames that leave.

use super::limits::{DSCPS, PRIORITIES};
use serde::{Deserialize, Serialize};

/// The default map 802.1p → local precedence: docs/references.md, "H3C reference" (table 11).
pub const DEFAULT_DOT1P_TO_QUEUE: [u8; PRIORITIES] = [2, 0, 1, 3, 4, 5, 6, 7];

/// The map of docs/references.md, "Huawei DCB" (table 10-10): one to one.
pub const HUAWEI_DOT1P_TO_QUEUE: [u8; PRIORITIES] = [0, 1, 2, 3, 4, 5, 6, 7];

/// Classification of received frames: see [`crate::forwarding::classifier`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassifySettings {
    /// Field of a frame that gives its priority.
    pub trust: Trust,
    /// 802.1p priority of frames without the trusted field, and of all frames without trust.
    pub port_priority: u8,
    /// 802.1p priority → local precedence, which is the queue.
    pub dot1p_to_queue: [u8; PRIORITIES],
    /// DSCP → 802.1p priority, where DSCP is trusted.
    #[serde(with = "serde_big_array::BigArray")]
    pub dscp_to_dot1p: [u8; DSCPS],
    /// DSCP → local precedence; `None`: through the 802.1p priority.
    #[serde(with = "serde_big_array::BigArray")]
    pub dscp_to_queue: [Option<u8>; DSCPS],
    /// 802.1p priority → drop level, where it is trusted.
    pub dot1p_to_drop_level: [DropLevel; PRIORITIES],
    /// DSCP → drop level, where it is trusted.
    #[serde(with = "serde_big_array::BigArray")]
    pub dscp_to_drop_level: [DropLevel; DSCPS],
    /// Drop level of a tagged frame whose drop eligible indicator is set, if that is higher than
    /// the map's.
    pub dei_drop_level: DropLevel,
    /// Frames come with a priority from where they were received: a queue of a virtio driver for
    /// each priority. It overrides their headers.
    pub queue_is_priority: bool,
    /// The policy: 802.1p priority in the frame's tag → local precedence. It overrides the maps.
    pub policy: [Option<u8>; PRIORITIES],
}

impl Default for ClassifySettings {
    /// Trusts dot1p; [`DEFAULT_DOT1P_TO_QUEUE`]; DSCP / 8 is the 802.1p priority (its class
    /// selector, RFC 2474 4.2.2); all green.
    fn default() -> Self {
        Self {
            trust: Trust::Dot1p,
            port_priority: 0,
            dot1p_to_queue: DEFAULT_DOT1P_TO_QUEUE,
            dscp_to_dot1p: std::array::from_fn(|dscp| (dscp / 8) as u8),
            dscp_to_queue: [None; DSCPS],
            dot1p_to_drop_level: [DropLevel::Green; PRIORITIES],
            dscp_to_drop_level: [DropLevel::Green; DSCPS],
            dei_drop_level: DropLevel::Green,
            queue_is_priority: false,
            policy: [None; PRIORITIES],
        }
    }
}

/// Field of a received frame that gives its priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trust {
    /// The 802.1p priority of the outermost tag; the port priority for untagged frames.
    Dot1p,
    /// The DSCP of IPv4 and IPv6 packets; the port priority for all other frames.
    Dscp,
    /// The 802.1p priority of the frame inside a VXLAN packet, where that has a tag; else as
    /// `Dot1p`.
    TunnelDot1p,
    /// Always the port priority.
    None,
}

/// Drop level, or color: the precedence of drops, which selects the WRED curve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum DropLevel {
    /// Level 0, dropped last.
    #[default]
    Green,
    /// Level 1.
    Yellow,
    /// Level 2, dropped first.
    Red,
}

impl DropLevel {
    /// Returns the level of a number from 0 to 2.
    pub fn from_number(number: u8) -> Option<Self> {
        [DropLevel::Green, DropLevel::Yellow, DropLevel::Red].get(usize::from(number)).copied()
    }
}

/// Remarking of frames that leave; by default they leave unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewriteSettings {
    /// Local precedence → 802.1p priority of the outermost tag; untagged frames stay untagged.
    pub dot1p: Option<[u8; PRIORITIES]>,
    /// Local precedence → DSCP of IPv4 and IPv6 packets.
    pub dscp: Option<[u8; PRIORITIES]>,
}
