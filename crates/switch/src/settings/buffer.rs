//! Buffer settings: areas, service pools, thresholds of groups, and guaranteed cells of queues.

use super::limits::POOLS;
use serde::{Deserialize, Serialize};

/// The buffer memory in cells. Shared area = total − fixed − headroom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferSettings {
    /// Bytes of one cell; real chips have 208, 254 or 256.
    pub cell_bytes: u32,
    /// Size of the whole buffer memory.
    pub total_cells: u32,
    /// Cells set aside for what is reserved (ingress) and guaranteed (egress).
    pub fixed_cells: u32,
    /// Size of the headroom pool.
    pub headroom_cells: u32,
    /// Share of each service pool at ingress in the shared area, in percent.
    pub ingress_pool_percent: [u8; POOLS],
    /// Share of each service pool at egress in the shared area, in percent.
    pub egress_pool_percent: [u8; POOLS],
    /// Sizes in cells of service pools at ingress; they override the share.
    pub ingress_pool_cells: [Option<u32>; POOLS],
    /// Sizes in cells of service pools at egress, which may exceed the shared area: frames that
    /// ingress charged to other areas are also in queues.
    pub egress_pool_cells: [Option<u32>; POOLS],
    /// Pause threshold of each pool at ingress: use at which its no-drop groups are in XOFF.
    pub pause_cells: [Option<u32>; POOLS],
}

/// The whole shared area in pool 0, the default: docs/references.md, "H3C reference" (Managing data
/// buffers).
pub const ALL_IN_POOL_0: [u8; POOLS] = [100, 0, 0, 0];

impl BufferSettings {
    /// Returns the cells that all groups and queues compete for.
    pub fn shared_cells(&self) -> u32 {
        self.total_cells.saturating_sub(self.fixed_cells).saturating_sub(self.headroom_cells)
    }

    /// Returns the sizes of the service pools at ingress.
    pub fn ingress_pools(&self) -> [u32; POOLS] {
        self.pools(self.ingress_pool_percent, self.ingress_pool_cells)
    }

    /// Returns the sizes of the service pools at egress.
    pub fn egress_pools(&self) -> [u32; POOLS] {
        self.pools(self.egress_pool_percent, self.egress_pool_cells)
    }

    /// Divides the shared area into pools by `percent`, except pools with an entry in `sizes`. The
    /// rounding remainder goes to pool 0, if that has a share, and is limited to what the other
    /// pools leave.
    fn pools(&self, percent: [u8; POOLS], sizes: [Option<u32>; POOLS]) -> [u32; POOLS] {
        let shared = u64::from(self.shared_cells());
        let part = |percent: u64| (shared * percent / 100) as u32;
        let mut cells: [u32; POOLS] =
            std::array::from_fn(|pool| sizes[pool].unwrap_or_else(|| part(u64::from(percent[pool]))));
        if percent[0] > 0 && sizes[0].is_none() {
            let by_share = (0..POOLS).filter(|&pool| sizes[pool].is_none());
            let of_shares = part(by_share.clone().map(|pool| u64::from(percent[pool])).sum());
            let others_by_share: u32 = by_share.filter(|&pool| pool > 0).map(|pool| cells[pool]).sum();
            let others = cells[1..].iter().fold(0, |sum: u32, &cells| sum.saturating_add(cells));
            let left = self.shared_cells().saturating_sub(others);
            cells[0] = of_shares.saturating_sub(others_by_share).min(left);
        }
        cells
    }
}

impl Default for BufferSettings {
    /// Returns 128 Ki cells of 256 bytes and a headroom pool of 12288, as in an H3C S6850; an
    /// eighth of the memory is fixed: docs/behavior.md, "Areas and pools".
    fn default() -> Self {
        Self {
            cell_bytes: 256,
            total_cells: 131_072,
            fixed_cells: 131_072 / 8,
            headroom_cells: 12_288,
            ingress_pool_percent: ALL_IN_POOL_0,
            egress_pool_percent: ALL_IN_POOL_0,
            ingress_pool_cells: [None; POOLS],
            egress_pool_cells: [None; POOLS],
            pause_cells: [None; POOLS],
        }
    }
}

/// Thresholds of one priority group (port, 802.1p priority), in cells. Fields that every frame
/// needs come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct GroupSettings {
    /// XOFF threshold of a no-drop group; drop threshold of a lossy group.
    pub xoff: Threshold,
    /// Cells reserved for the group.
    pub reserved_cells: u32,
    /// Service pool of its shared cells.
    pub pool: u8,
    /// XON once shared use is this much below the XOFF threshold, or down to `resume_cells`.
    pub xon_offset_cells: u32,
    /// Shared use that also permits XON; the higher of the two limits counts.
    pub resume_cells: u32,
    /// Maximum cells of the headroom pool; only no-drop groups use them.
    pub headroom_cells: u32,
}

impl GroupSettings {
    /// Returns the defaults by speed of docs/references.md, "H3C reference" (table 7, R6616 and
    /// later).
    pub fn default_for(speed_bps: u64) -> Self {
        let headroom_cells = match speed_bps {
            0..=10_000_000_000 => 100,
            10_000_000_001..=25_000_000_000 => 125,
            25_000_000_001..=40_000_000_000 => 200,
            40_000_000_001..=100_000_000_000 => 491,
            _ => 1000,
        };
        Self {
            pool: 0,
            reserved_cells: 17,
            xoff: Threshold::Dynamic(Alpha::from_percent(5)),
            xon_offset_cells: 12,
            resume_cells: 0,
            headroom_cells,
        }
    }

    /// Returns the thresholds of a lossy group: nothing reserved, and all free cells of its pool.
    pub fn lossy() -> Self {
        Self {
            pool: 0,
            reserved_cells: 0,
            xoff: Threshold::Dynamic(Alpha::from_percent(100)),
            xon_offset_cells: 0,
            resume_cells: 0,
            headroom_cells: 0,
        }
    }
}

/// A limit on the shared cells of a group or a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Threshold {
    /// A fixed number of cells.
    Static(u32),
    /// A ratio, alpha, of the free cells of the shared pool.
    Dynamic(Alpha),
}

/// Ratio of a dynamic threshold: 2^exponent, from 1/128 to 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alpha {
    exponent: i8,
}

impl Alpha {
    /// Returns the alpha of a percentage of docs/references.md, "H3C reference" (table 6). Values
    /// above 100 count as 100.
    pub fn from_percent(percent: u8) -> Self {
        let exponent = match percent {
            0 => -7,
            1 => -6,
            2..=3 => -5,
            4..=5 => -4,
            6..=11 => -3,
            12..=20 => -2,
            21..=33 => -1,
            34..=50 => 0,
            51..=66 => 1,
            67..=80 => 2,
            _ => 3,
        };
        Self { exponent }
    }

    /// Returns 2^`exponent`, from 1/128 to 8 (SONiC's `dynamic_th`); `None` out of range.
    pub fn from_exponent(exponent: i8) -> Option<Self> {
        (-7..=3).contains(&exponent).then_some(Self { exponent })
    }

    /// Returns n of 2^n (SONiC's `dynamic_th`).
    pub fn exponent(self) -> i8 {
        self.exponent
    }

    /// Returns the cells at which each of `groups` groups with this alpha settles when all compete
    /// for a pool of `total_cells`, rounded down: total · α / (1 + groups · α); docs/references.md,
    /// "H3C reference" (Back pressure frame triggering threshold).
    pub fn steady_state_cells(self, total_cells: u32, groups: u32) -> u32 {
        // With α = a / 128 the share is a / (128 + groups · a).
        let a = 1_u64 << (self.exponent + 7);
        (u64::from(total_cells) * a / (128 + u64::from(groups) * a)) as u32
    }

    /// The largest alpha: 8.
    pub const MAX: Alpha = Alpha { exponent: 3 };

    /// Returns alpha × `free_cells`, rounded down.
    #[inline]
    pub fn of(self, free_cells: u32) -> u32 {
        if self.exponent >= 0 {
            free_cells.saturating_mul(1 << self.exponent)
        } else {
            free_cells >> -self.exponent
        }
    }
}

impl Threshold {
    /// Returns the limit in cells, in a pool with `free_cells` free.
    #[inline]
    pub fn cells(self, free_cells: u32) -> u32 {
        match self {
            Threshold::Static(cells) => cells,
            Threshold::Dynamic(alpha) => alpha.of(free_cells),
        }
    }
}

/// Cells of the fixed area that are guaranteed to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Guaranteed {
    /// Share of the fixed area, which all ports' queues of this number divide evenly, in percent
    /// (13 by default).
    Percent(u8),
    /// A number of cells.
    Cells(u32),
}
