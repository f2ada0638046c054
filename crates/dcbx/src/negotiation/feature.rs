//! The feature machine of CEE and CIN, once for each feature.
//!
//! Source: DCB Capability Exchange Protocol Base Specification, revision 1.01, section 3.3 (feature
//! state machine).
//!
//! ```text
//!   each frame of the peer, each local change
//!        │
//!        ▼
//!   ┌────────┐ the peer does not send the feature    ┌───────────┐
//!   │ LISTEN │ ────────────────────────────────────▶ │ NOT SENT  │ local, not operational
//!   └────────┘                                       └───────────┘ (CEE: error)
//!        │      SeqNo is not acknowledged            ┌───────────┐
//!        ├─────────────────────────────────────────▶ │ WAIT      │ as before
//!        │      another version in operation         ┌───────────┐
//!        ├─────────────────────────────────────────▶ │ VERSION   │ as before
//!        │      disabled at either end               ┌───────────┐
//!        ├─────────────────────────────────────────▶ │ DISABLED  │ local, not operational
//!        │      willing, the peer is not             ┌───────────┐
//!        ├─────────────────────────────────────────▶ │ USE PEER  │ the peer's, operational
//!        │      not willing, the peer is             ┌───────────┐
//!        ├─────────────────────────────────────────▶ │ USE LOCAL │ local, operational
//!        │      equally willing, and compatible      │           │
//!        ├─────────────────────────────────────────▶ └───────────┘
//!        │      otherwise                            ┌───────────┐
//!        └─────────────────────────────────────────▶ │ CONFLICT  │ local, not operational, error
//!                                                    └───────────┘
//! ```
//! A feature for which the peer reports an error is not operational.

/// State of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegacyState {
    /// The peer does not send the feature.
    NotSent,
    /// The local configuration is not acknowledged.
    Wait,
    /// The peer has another version in operation.
    Version,
    /// Disabled at this end.
    DisabledHere,
    /// Disabled at the other end.
    DisabledByPeer,
    /// The peer's configuration is in force.
    UsePeer,
    /// The local configuration is in force.
    UseLocal,
    /// The configurations do not go together.
    Conflict,
}

/// What the machine looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LegacyConditions {
    /// True if the peer sends the feature.
    pub sent_by_peer: bool,
    /// True if the peer has acknowledged the local configuration.
    pub acknowledged: bool,
    /// True if both ends have the same version in operation.
    pub same_version: bool,
    /// True if the feature is enabled here.
    pub enabled: bool,
    /// True if the peer has the feature enabled.
    pub peer_enabled: bool,
    /// True if the peer's configuration is adopted.
    pub willing: bool,
    /// True if the peer adopts ours.
    pub peer_willing: bool,
    /// True if both configurations go together.
    pub compatible: bool,
}

impl LegacyState {
    /// Returns the state under these conditions.
    pub fn of(on: LegacyConditions) -> Self {
        match on {
            LegacyConditions { sent_by_peer: false, .. } => Self::NotSent,
            LegacyConditions { acknowledged: false, .. } => Self::Wait,
            LegacyConditions { same_version: false, .. } => Self::Version,
            LegacyConditions { enabled: false, .. } => Self::DisabledHere,
            LegacyConditions { peer_enabled: false, .. } => Self::DisabledByPeer,
            LegacyConditions { willing: true, peer_willing: false, .. } => Self::UsePeer,
            LegacyConditions { willing: false, peer_willing: true, .. } => Self::UseLocal,
            LegacyConditions { compatible: true, .. } => Self::UseLocal,
            LegacyConditions { compatible: false, .. } => Self::Conflict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LegacyState::*;
    use super::*;

    /// All 256 combinations, by rules that are written as the arrows of the diagram.
    #[test]
    fn the_diagram() {
        let mut count = [0; 8];
        for bits in 0..=255_u8 {
            let bit = |at: u8| bits >> at & 1 != 0;
            let on = LegacyConditions {
                sent_by_peer: bit(0),
                acknowledged: bit(1),
                same_version: bit(2),
                enabled: bit(3),
                peer_enabled: bit(4),
                willing: bit(5),
                peer_willing: bit(6),
                compatible: bit(7),
            };
            // The first five conditions are asked one after another.
            let expected = match (bits & 0b11111).trailing_ones() {
                0 => NotSent,
                1 => Wait,
                2 => Version,
                3 => DisabledHere,
                4 => DisabledByPeer,
                _ => match (bit(5), bit(6)) {
                    (true, false) => UsePeer,
                    (false, true) => UseLocal,
                    _ if bit(7) => UseLocal,
                    _ => Conflict,
                },
            };
            assert_eq!(LegacyState::of(on), expected, "{on:?}");
            count[expected as usize] += 1;
        }
        assert_eq!(count, [128, 64, 32, 16, 8, 2, 4, 2]);
    }
}
