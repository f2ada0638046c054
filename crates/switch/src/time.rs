//! Time of the switch: nanoseconds since an epoch that the owner chose. The owner reads the clock
//! (or, in the simulator, advances it); the switch never does.

use serde::{Deserialize, Serialize};
use std::ops::{Add, Sub};

/// A duration in nanoseconds.
pub type Nanos = u64;

/// A point in time: nanoseconds since the owner's epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Instant(pub Nanos);

impl Instant {
    /// The latest point in time, which represents "never".
    pub const NEVER: Instant = Instant(Nanos::MAX);

    /// Returns the nanoseconds from `earlier` to `self`; 0 if `earlier` is later.
    pub fn since(self, earlier: Instant) -> Nanos {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Nanos> for Instant {
    type Output = Instant;
    fn add(self, nanos: Nanos) -> Instant {
        Instant(self.0.saturating_add(nanos))
    }
}

impl Sub<Nanos> for Instant {
    type Output = Instant;
    fn sub(self, nanos: Nanos) -> Instant {
        Instant(self.0.saturating_sub(nanos))
    }
}
