//! What can be set: plain values that the `config` crate fills in and the simulator can write by hand. Defaults are
//! those of the seeds (H3C RDMA technical reference, "Setting PFC thresholds", tables 6 and 7).

use crate::time::Nanos;

/// Ports a switch can have.
pub const MAX_PORTS: usize = 64;
/// 802.1p priorities, and queues of a port.
pub const PRIORITIES: usize = 8;
/// Differentiated services code points.
pub const DSCPS: usize = 64;
/// The largest frame, in bytes without FCS.
pub const LARGEST_FRAME_BYTES: u32 = 9216;
/// What a frame takes of an Ethernet line beyond its own bytes: preamble and start delimiter 8, FCS 4, gap 12 (IEEE
/// 802.3-2022 3.1.1, 4.4.2).
pub const WIRE_OVERHEAD_BYTES: u16 = 24;
/// Service pools that the shared area is divided into.
pub const POOLS: usize = 4;

/// The whole switch.
#[derive(Debug, Clone, PartialEq)]
pub struct SwitchSettings {
    /// The buffer memory.
    pub buffer: BufferSettings,
    /// The bridge table.
    pub bridge: BridgeSettings,
    /// A queue or group whose use rises above this share of what it is allowed, in percent, is a violation (1–100).
    pub usage_percent: u8,
    /// Where random numbers (WRED) begin.
    pub seed: u64,
    /// The ports; a port's number is its place here.
    pub ports: Vec<PortSettings>,
}

impl SwitchSettings {
    /// The same with PFC off on every port: what was no-drop is treated as any lossy priority.
    pub fn without_pfc(&self) -> Self {
        let mut settings = self.clone();
        for port in &mut settings.ports {
            for priority in (0..PRIORITIES).filter(|p| port.pfc.no_drop & (1 << p) != 0) {
                let pool = port.groups[priority].pool;
                port.groups[priority] = GroupSettings { pool, ..GroupSettings::lossy() };
            }
            (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (false, false, 0);
        }
        settings
    }
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
    /// Share of each service pool in the shared area as ingress sees it, in percent.
    pub ingress_pool_percent: [u8; POOLS],
    /// … and as egress sees it.
    pub egress_pool_percent: [u8; POOLS],
}

/// All of the shared area in pool 0, as the seeds have it by default.
pub const ALL_IN_POOL_0: [u8; POOLS] = [100, 0, 0, 0];

impl BufferSettings {
    /// Cells that all groups and queues compete for.
    pub fn shared_cells(&self) -> u32 {
        self.total_cells.saturating_sub(self.fixed_cells).saturating_sub(self.headroom_cells)
    }

    /// The shared area divided into pools by `percent`; what rounding leaves over is pool 0's, if it has any.
    pub fn pool_cells(&self, percent: [u8; POOLS]) -> [u32; POOLS] {
        let shared = u64::from(self.shared_cells());
        let part = |percent: u64| (shared * percent / 100) as u32;
        let mut cells = percent.map(|percent| part(u64::from(percent)));
        if percent[0] > 0 {
            let of_all = part(percent.iter().map(|&percent| u64::from(percent)).sum());
            cells[0] = of_all.saturating_sub(cells[1..].iter().sum());
        }
        cells
    }
}

impl Default for BufferSettings {
    /// 128 Ki cells of 256 bytes and a headroom pool of 12288 (H3C S6850), an eighth of the memory fixed.
    fn default() -> Self {
        Self {
            cell_bytes: 256,
            total_cells: 131_072,
            fixed_cells: 131_072 / 8,
            headroom_cells: 12_288,
            ingress_pool_percent: ALL_IN_POOL_0,
            egress_pool_percent: ALL_IN_POOL_0,
        }
    }
}

/// The bridge table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgeSettings {
    /// Most addresses that are remembered.
    pub max_entries: usize,
    /// An address not seen for this long is forgotten (IEEE 802.1Q-2022 8.8.3: 300 s).
    pub aging_ns: Nanos,
    /// 802.1p priority → queue of unicast frames whose destination is unknown; `None`: as all others.
    pub unknown_unicast_to_queue: Option<[u8; PRIORITIES]>,
}

/// The queues of unknown unicast in the seeds (huawei-pfc.txt, table 3-1), by 802.1p priority.
pub const UNKNOWN_UNICAST_TO_QUEUE: [u8; PRIORITIES] = [0, 1, 1, 1, 2, 2, 6, 6];

impl Default for BridgeSettings {
    fn default() -> Self {
        Self { max_entries: 16_384, aging_ns: 300 * 1_000_000_000, unknown_unicast_to_queue: None }
    }
}

/// One port.
#[derive(Debug, Clone, PartialEq)]
pub struct PortSettings {
    /// What the port is called everywhere.
    pub name: String,
    /// The line rate that the port keeps, in bit/s; `None`: as fast as the interface takes frames.
    pub speed_bps: Option<u64>,
    /// What received frames are treated as.
    pub classify: ClassifySettings,
    /// What frames that leave are marked with.
    pub rewrite: RewriteSettings,
    /// Priority flow control.
    pub pfc: PfcSettings,
    /// Buffer thresholds of each priority group.
    pub groups: [GroupSettings; PRIORITIES],
    /// The egress queues.
    pub queues: [QueueSettings; PRIORITIES],
    /// How the queues share the port.
    pub schedule: ScheduleSettings,
    /// Bytes of a line that it may catch up with after it was idle, or its owner late; `None`: 4 ms of line time.
    pub burst_bytes: Option<u64>,
    /// Bytes of the line that each frame takes beyond its own: [`WIRE_OVERHEAD_BYTES`] on an emulated wire.
    pub overhead_bytes: u16,
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
            classify: ClassifySettings::default(),
            rewrite: RewriteSettings::default(),
            pfc: PfcSettings::default(),
            groups: [GroupSettings::default_for(speed); PRIORITIES],
            queues: [QueueSettings::default(); PRIORITIES],
            schedule: ScheduleSettings::default(),
            burst_bytes: None,
            overhead_bytes: if speed_bps.is_some() { WIRE_OVERHEAD_BYTES } else { 0 },
            in_flight_bytes: 65_536,
        }
    }

    /// Speed for pause quanta: the port's own, or what is assumed without one.
    pub fn pause_speed_bps(&self) -> u64 {
        self.speed_bps.unwrap_or(ASSUMED_SPEED_BPS)
    }
}

/// What received frames are treated as: see [`crate::classify`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassifySettings {
    /// Which priority of a frame counts.
    pub trust: Trust,
    /// 802.1p priority of frames without the field that is trusted, and of all frames where nothing is.
    pub port_priority: u8,
    /// 802.1p priority → local precedence, which is the queue.
    pub dot1p_to_queue: [u8; PRIORITIES],
    /// DSCP → 802.1p priority, where DSCP is trusted.
    pub dscp_to_dot1p: [u8; DSCPS],
    /// DSCP → local precedence; `None`: through the 802.1p priority.
    pub dscp_to_queue: [Option<u8>; DSCPS],
    /// 802.1p priority → drop level, where it is trusted.
    pub dot1p_to_drop_level: [DropLevel; PRIORITIES],
    /// DSCP → drop level, where it is trusted.
    pub dscp_to_drop_level: [DropLevel; DSCPS],
    /// Drop level of a tagged frame whose drop eligible indicator is set, if that is higher than the map's.
    pub dei_drop_level: DropLevel,
    /// The policy: 802.1p priority in the frame's tag → local precedence. It wins over the maps.
    pub policy: [Option<u8>; PRIORITIES],
}

impl Default for ClassifySettings {
    /// Trusts dot1p; the seeds' maps; DSCP / 8 is the 802.1p priority (its class selector, RFC 2474 4.2.2); all green.
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
            policy: [None; PRIORITIES],
        }
    }
}

/// Which priority of a received frame counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The 802.1p priority of the outermost tag; the port priority when there is none.
    Dot1p,
    /// The DSCP of IPv4 and IPv6 packets; the port priority for all else.
    Dscp,
    /// Always the port priority.
    None,
}

/// How readily a frame is dropped (drop level, or colour). WRED tells them apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropLevel {
    /// Level 0: last.
    #[default]
    Green,
    /// Level 1.
    Yellow,
    /// Level 2: first.
    Red,
}

impl DropLevel {
    /// The level of a number from 0 to 2.
    pub fn from_number(number: u8) -> Option<Self> {
        [DropLevel::Green, DropLevel::Yellow, DropLevel::Red].get(usize::from(number)).copied()
    }
}

/// What frames that leave are marked with; by default they leave as they came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RewriteSettings {
    /// Local precedence → 802.1p priority of the outermost tag; frames without tag get none.
    pub dot1p: Option<[u8; PRIORITIES]>,
    /// Local precedence → DSCP of IPv4 and IPv6 packets.
    pub dscp: Option<[u8; PRIORITIES]>,
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

/// Thresholds of one priority group (port, 802.1p priority), in cells. What every frame needs comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct GroupSettings {
    /// When the neighbour is told to stop; for a lossy group, when frames drop.
    pub xoff: Threshold,
    /// Cells that are the group's own.
    pub reserved_cells: u32,
    /// Service pool of its shared cells.
    pub pool: u8,
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
            pool: 0,
            reserved_cells: 17,
            xoff: Threshold::Dynamic(Alpha::from_percent(5)),
            xon_offset_cells: 12,
            resume_cells: 0,
            headroom_cells,
        }
    }

    /// A group that is not no-drop: nothing reserved, and all that its pool has left.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threshold {
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

    /// 2^`exponent`, from 1/128 to 8 (SONiC's `dynamic_th`); `None`: there is no such alpha.
    pub fn from_exponent(exponent: i8) -> Option<Self> {
        (-7..=3).contains(&exponent).then_some(Self { exponent })
    }

    /// What each of `groups` groups with this alpha settles at when all compete for a pool of `total_cells`, rounded
    /// down: total · α / (1 + groups · α) (H3C RDMA reference, "Back pressure frame triggering threshold").
    pub fn settles_at(self, total_cells: u32, groups: u32) -> u32 {
        // With α = a / 128 the share is a / (128 + groups · a).
        let a = 1_u64 << (self.exponent + 7);
        (u64::from(total_cells) * a / (128 + u64::from(groups) * a)) as u32
    }

    /// The largest alpha: 8.
    pub const MAX: Alpha = Alpha { exponent: 3 };

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

impl Threshold {
    /// The limit in cells, in a pool that has so many free ones.
    #[inline]
    pub fn cells(self, free_cells: u32) -> u32 {
        match self {
            Threshold::Static(cells) => cells,
            Threshold::Dynamic(alpha) => alpha.of(free_cells),
        }
    }
}

/// One egress queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSettings {
    /// Service pool of its shared cells.
    pub pool: u8,
    /// Cells that are the queue's own.
    pub guaranteed: Guaranteed,
    /// Most shared cells; more is tail-dropped. `None`: 20 % through the alpha table for a lossy queue, no limit for a
    /// no-drop queue.
    pub shared: Option<Threshold>,
    /// Early drops and marks; `None`: tail drop only.
    pub wred: Option<WredSettings>,
    /// The rate that it keeps; `None`: no limit of its own.
    pub rate: Option<Rate>,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self { pool: 0, guaranteed: Guaranteed::Percent(13), shared: None, wred: None, rate: None }
    }
}

/// Early drops and marks of one queue: see [`crate::wred`]. Defaults are the seeds' (H3C RDMA reference, "ECN").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WredSettings {
    /// The average moves by 1 / 2^exponent of the way to the length (0–15); 0: it is the length.
    pub exponent: u8,
    /// ECN-capable frames are marked instead of dropped.
    pub ecn: bool,
    /// When they are.
    pub mark_at: MarkAt,
    /// On a no-drop queue with ECN, frames that are not capable drop.
    pub drop_not_ect: bool,
    /// By drop level: green, yellow, red.
    pub curves: [Curve; 3],
}

impl Default for WredSettings {
    fn default() -> Self {
        let curve = Curve { low_cells: 100, high_cells: 1000, probability_percent: 10 };
        Self { exponent: 9, ecn: false, mark_at: MarkAt::Enqueue, drop_not_ect: false, curves: [curve; 3] }
    }
}

/// When a frame is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkAt {
    /// When it joins the queue.
    Enqueue,
    /// When it leaves it.
    Dequeue,
}

/// The line by which frames of one drop level are picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Curve {
    /// Up to here none.
    pub low_cells: u32,
    /// Above this all; at least `low_cells`.
    pub high_cells: u32,
    /// Share that is picked at `high_cells`.
    pub probability_percent: u8,
}

/// The cells of the fixed area that are a queue's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guaranteed {
    /// This share of the fixed area, which all ports' queues of this number divide evenly, in percent (13 by default).
    Percent(u8),
    /// So many.
    Cells(u32),
}

/// A rate that a queue or a scheduler group keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Bit/s of the line.
    pub bps: u64,
    /// Bytes that may leave at once after idle time; `None`: what the rate carries in 4 ms.
    pub burst_bytes: Option<u64>,
}

/// How the queues of a port share it: see [`crate::schedule`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleSettings {
    /// At most eight groups; every queue is in exactly one.
    pub groups: Vec<SchedulerGroup>,
}

/// Queues that are scheduled together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerGroup {
    /// What the group is called.
    pub name: String,
    /// Bit q: queue q.
    pub queues: u8,
    /// Groups of a lower number go first.
    pub rank: u8,
    /// Share among the groups of the rank; at least 1.
    pub weight: u32,
    /// How its queues share what it gets.
    pub inside: Inside,
    /// The rate that it keeps; `None`: no limit of its own.
    pub rate: Option<Rate>,
}

/// How the queues of a group share what it gets; weights are by queue and at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inside {
    /// The highest number first.
    Strict,
    /// In proportion to the weights, counted in bytes.
    WeightedByBytes([u8; PRIORITIES]),
    /// … counted in frames.
    WeightedByFrames([u8; PRIORITIES]),
}

impl SchedulerGroup {
    /// A group without queues yet, and without a rate.
    pub fn new(name: impl Into<String>, rank: u8, weight: u32, inside: Inside) -> Self {
        Self { name: name.into(), queues: 0, rank, weight, inside, rate: None }
    }

    /// … with these queues.
    pub fn of(self, queues: u8) -> Self {
        Self { queues, ..self }
    }
}

impl ScheduleSettings {
    /// The SP group before WRR group 1 before WRR group 2, by masks of queues; a group without queues is left out.
    pub fn sp_wrr(sp: u8, wrr1: u8, wrr2: u8, weighted: Inside) -> Self {
        let groups = [
            SchedulerGroup::new("sp", 0, 1, Inside::Strict).of(sp),
            SchedulerGroup::new("wrr1", 1, 1, weighted).of(wrr1),
            SchedulerGroup::new("wrr2", 2, 1, weighted).of(wrr2),
        ];
        Self { groups: groups.into_iter().filter(|group| group.queues != 0).collect() }
    }

    /// The ETS of the seeds (huawei-dcb-principles.txt, table 10-12): group 0 (LAN) of queues 0, 1, 2, 4, 5 and group 1 (SAN)
    /// of queue 3 with half of the bandwidth each; group 15 (IPC) of queues 6 and 7 before both.
    pub fn default_ets() -> Self {
        let weighted = Inside::WeightedByBytes([1; PRIORITIES]);
        Self {
            groups: vec![
                SchedulerGroup::new("pg0", 1, 50, weighted).of(0b0011_0111),
                SchedulerGroup::new("pg1", 1, 50, weighted).of(0b0000_1000),
                SchedulerGroup::new("pg15", 0, 1, Inside::Strict).of(0b1100_0000),
            ],
        }
    }
}

impl Default for ScheduleSettings {
    /// All queues in WRR group 1, by bytes, with the seeds' weights.
    fn default() -> Self {
        Self::sp_wrr(0, 0xff, 0, Inside::WeightedByBytes(DEFAULT_WEIGHTS))
    }
}
