//! What can be set: plain values that the `config` crate fills in and the simulator can write by hand. Defaults are
//! those of the seeds (H3C RDMA technical reference, "Setting PFC thresholds", tables 6 and 7).

use crate::time::Nanos;

/// Ports a switch can have.
pub const MAX_PORTS: usize = 64;
/// 802.1p priorities, and queues of a port.
pub const PRIORITIES: usize = 8;

/// The whole switch.
#[derive(Debug, Clone, PartialEq)]
pub struct SwitchSettings {
    /// The buffer memory.
    pub buffer: BufferSettings,
    /// The bridge table.
    pub bridge: BridgeSettings,
    /// The ports; a port's number is its place here.
    pub ports: Vec<PortSettings>,
}

/// The buffer memory in cells. Shared area = total − fixed − headroom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSettings {
    /// Bytes of one cell; real chips have 208, 254 or 256.
    pub cell_bytes: u32,
    /// All cells.
    pub total_cells: u32,
    /// Cells set aside for what is reserved (ingress) and guaranteed (egress).
    pub fixed_cells: u32,
    /// The headroom pool.
    pub headroom_cells: u32,
}

impl BufferSettings {
    /// Cells that all groups and queues compete for.
    pub fn shared_cells(&self) -> u32 {
        self.total_cells.saturating_sub(self.fixed_cells).saturating_sub(self.headroom_cells)
    }
}

impl Default for BufferSettings {
    /// 128 Ki cells of 256 bytes and a headroom pool of 12288 (H3C S6850), an eighth of the memory fixed.
    fn default() -> Self {
        Self { cell_bytes: 256, total_cells: 131_072, fixed_cells: 131_072 / 8, headroom_cells: 12_288 }
    }
}

/// The bridge table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgeSettings {
    /// Most addresses that are remembered.
    pub max_entries: usize,
    /// An address not seen for this long is forgotten (IEEE 802.1Q-2022 8.8.3: 300 s).
    pub aging_ns: Nanos,
}

impl Default for BridgeSettings {
    fn default() -> Self {
        Self { max_entries: 16_384, aging_ns: 300 * 1_000_000_000 }
    }
}

/// One port.
#[derive(Debug, Clone, PartialEq)]
pub struct PortSettings {
    /// What the port is called everywhere.
    pub name: String,
    /// The line rate that the port keeps, in bit/s; `None`: as fast as the interface takes frames.
    pub speed_bps: Option<u64>,
    /// Which priority of a received frame counts.
    pub trust: Trust,
    /// Priority of untagged frames, and of all frames where `trust` is `None`.
    pub port_priority: u8,
    /// 802.1p priority → local precedence, which is the queue.
    pub dot1p_to_queue: [u8; PRIORITIES],
    /// Priority flow control.
    pub pfc: PfcSettings,
    /// Buffer thresholds of each priority group.
    pub groups: [GroupSettings; PRIORITIES],
    /// The egress queues.
    pub queues: [QueueSettings; PRIORITIES],
    /// Most bytes handed to the kernel and not yet completed: what still leaves after a pause has come.
    pub in_flight_bytes: u32,
}

/// The 802.1p → local precedence map that the seeds give as default (H3C, "Priority map"): 2,0,1,3,4,5,6,7.
pub const DEFAULT_DOT1P_TO_QUEUE: [u8; PRIORITIES] = [2, 0, 1, 3, 4, 5, 6, 7];

/// Default weights of the WRR queues 0–7 (H3C RDMA reference, "Configuring WRR").
pub const DEFAULT_WEIGHTS: [u8; PRIORITIES] = [1, 2, 3, 4, 5, 9, 13, 15];

/// Speed that pause times and default thresholds assume where a port has no `speed` (what a veth reports).
pub const ASSUMED_SPEED_BPS: u64 = 10_000_000_000;

impl PortSettings {
    /// A port with every default: no PFC, all queues in the WRR group.
    pub fn new(name: impl Into<String>, speed_bps: Option<u64>) -> Self {
        let speed = speed_bps.unwrap_or(ASSUMED_SPEED_BPS);
        Self {
            name: name.into(),
            speed_bps,
            trust: Trust::Dot1p,
            port_priority: 0,
            dot1p_to_queue: DEFAULT_DOT1P_TO_QUEUE,
            pfc: PfcSettings::default(),
            groups: [GroupSettings::default_for(speed); PRIORITIES],
            queues: std::array::from_fn(|q| QueueSettings {
                schedule: Schedule::Wrr { weight: DEFAULT_WEIGHTS[q] },
                ..QueueSettings::default()
            }),
            in_flight_bytes: 65_536,
        }
    }

    /// Speed for pause quanta: the port's own, or what is assumed without one.
    pub fn pause_speed_bps(&self) -> u64 {
        self.speed_bps.unwrap_or(ASSUMED_SPEED_BPS)
    }
}

/// Which priority of a received frame counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The 802.1p priority of the tag; the port priority when there is none.
    Dot1p,
    /// Always the port priority.
    None,
}

/// Priority flow control of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PfcSettings {
    /// Received PFC frames are honoured.
    pub rx: bool,
    /// PFC frames are sent.
    pub tx: bool,
    /// Bit i: priority i is no-drop.
    pub no_drop: u8,
    /// Pause time in PFC frames, in quanta of 512 bit times.
    pub pause_quanta: u16,
}

impl Default for PfcSettings {
    fn default() -> Self {
        Self { rx: false, tx: false, no_drop: 0, pause_quanta: 65_535 }
    }
}

/// Thresholds of one priority group (port, 802.1p priority), in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupSettings {
    /// Cells that are the group's own.
    pub reserved_cells: u32,
    /// When the neighbour is told to stop; for a lossy group, when frames drop.
    pub xoff: Xoff,
    /// XON once shared use has come down by this much below the XOFF threshold …
    pub xon_offset_cells: u32,
    /// … or to this, whichever is more.
    pub resume_cells: u32,
    /// Most cells of the headroom pool; only no-drop groups use them.
    pub headroom_cells: u32,
}

impl GroupSettings {
    /// The defaults by speed (H3C RDMA reference, table 7, R6616 and later).
    pub fn default_for(speed_bps: u64) -> Self {
        let headroom_cells = match speed_bps {
            0..=10_000_000_000 => 100,
            10_000_000_001..=25_000_000_000 => 125,
            25_000_000_001..=40_000_000_000 => 200,
            40_000_000_001..=100_000_000_000 => 491,
            _ => 1000,
        };
        Self {
            reserved_cells: 17,
            xoff: Xoff::Dynamic(Alpha::from_percent(5)),
            xon_offset_cells: 12,
            resume_cells: 0,
            headroom_cells,
        }
    }
}

/// The threshold on a group's shared cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Xoff {
    /// So many cells.
    Static(u32),
    /// alpha × the free cells of the shared pool.
    Dynamic(Alpha),
}

/// The ratio of a dynamic threshold: 2^exponent, from 1/128 to 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alpha {
    exponent: i8,
}

impl Alpha {
    /// The alpha of a percentage (H3C RDMA reference, table 6). Above 100 counts as 100.
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

    /// alpha × `free_cells`, rounded down.
    #[inline]
    pub fn of(self, free_cells: u32) -> u32 {
        if self.exponent >= 0 {
            free_cells.saturating_mul(1 << self.exponent)
        } else {
            free_cells >> -self.exponent
        }
    }
}

/// One egress queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSettings {
    /// Share of the fixed area that all ports' queues of this number divide evenly, in percent (13 by default).
    pub guaranteed_percent: u8,
    /// Most shared cells; more is tail-dropped. `None`: 20 % through the alpha table for a lossy queue, no limit for a
    /// no-drop queue.
    pub shared: Option<Xoff>,
    /// How the queue is scheduled.
    pub schedule: Schedule,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self { guaranteed_percent: 13, shared: None, schedule: Schedule::Wrr { weight: 1 } }
    }
}

/// How a queue is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// Strict priority: before all weighted queues, the highest number first.
    Sp,
    /// Weighted round robin by bytes.
    Wrr {
        /// Share in proportion to the other weights; at least 1.
        weight: u8,
    },
}
