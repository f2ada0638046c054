//! What happened on a port, for the log.

use crate::lldp::neighbors::NeighborId;
use crate::settings::Version;
use crate::status::{FeatureName, FeatureReason, FeatureState};

/// The most events that an agent keeps until they are taken; further ones are counted.
pub const MAX_EVENTS: usize = 64;

/// What happened on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A neighbor is new.
    NeighborAdded(NeighborId),
    /// A neighbor advertises something else.
    NeighborChanged(NeighborId),
    /// A neighbor is gone.
    NeighborLost(NeighborId, NeighborLoss),
    /// The table has no room for a neighbor.
    TooManyNeighbors(NeighborId),
    /// Another version of DCBX is spoken.
    VersionChanged(Version),
    /// The state, the reason or the operational configuration of a feature changed.
    FeatureChanged {
        /// Which feature.
        feature: FeatureName,
        /// State now.
        state: FeatureState,
        /// Why it is in this state.
        reason: FeatureReason,
        /// Operational configuration now, as text.
        operational: String,
    },
}

/// Why a neighbor is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeighborLoss {
    /// It sent nothing for its time to live.
    Expired,
    /// It sent a shutdown frame.
    Shutdown,
    /// The link came up again, or reception was disabled.
    Restarted,
}
