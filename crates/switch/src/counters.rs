//! What the switch counts, and the snapshot in which it hands the counts out. Every drop is counted where it happens,
//! with its reason; nothing is sampled.
//!
//! A new counter is a field here, a field of the same name in `proto/sluice/v1/control.proto` with a comment that says what
//! it counts, and wherever people should see it a column of `sluice show`. The conversion between the two, the JSON (of
//! the simulator too), the help and `sluice show counters` follow by themselves; the compiler says if either is missing.

use serde::{Deserialize, Serialize, Serializer};

use crate::settings::{POOLS, PRIORITIES};
use crate::time::Nanos;
use crate::watermark::Level;

/// Why a received frame (or a flooded copy of one) was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum DropReason {
    /// Shorter than an Ethernet header, or with a tag that is cut off.
    Malformed,
    /// The source address is a group address, or all zero.
    BadSource,
    /// For a destination 01-80-C2-00-00-0x, which no bridge forwards, and not for us either.
    Reserved,
    /// The destination is on the port the frame came from, or no other port is up.
    Filtered,
    /// More broadcast frames came in than the port's limit allows.
    BroadcastLimit,
    /// More frames to other group addresses.
    MulticastLimit,
    /// More unicast frames whose destination is not known.
    UnknownUnicastLimit,
    /// Its VLAN, or its tag, is none that the port it came in on takes in.
    VlanFiltered,
    /// A lossy group's ingress threshold, or the shared pool, had no room.
    IngressLossy,
    /// A no-drop group's headroom, or the headroom pool, was exhausted: a broken promise.
    IngressNoDrop,
    /// The egress queue's threshold was reached (tail drop).
    TailDrop,
    /// WRED dropped it from a queue that grows.
    Wred,
    /// Its queue, or its group, was stormed, and the watchdog was told to drop.
    Watchdog,
    /// No memory for the copy of a flooded frame.
    NoCopy,
    /// The port that the frame was queued on went down, or the switch stopped before it could leave.
    PortDown,
    /// With the tag that it would leave with it is longer than the interface can send, or than memory has room for.
    MtuExceeded,
}

impl DropReason {
    /// Every reason, in the order of the arrays.
    pub const ALL: [DropReason; 16] = [
        DropReason::Malformed,
        DropReason::BadSource,
        DropReason::Reserved,
        DropReason::Filtered,
        DropReason::BroadcastLimit,
        DropReason::MulticastLimit,
        DropReason::UnknownUnicastLimit,
        DropReason::VlanFiltered,
        DropReason::IngressLossy,
        DropReason::IngressNoDrop,
        DropReason::TailDrop,
        DropReason::Wred,
        DropReason::Watchdog,
        DropReason::NoCopy,
        DropReason::PortDown,
        DropReason::MtuExceeded,
    ];

    /// The name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Malformed => "malformed",
            DropReason::BadSource => "bad_source",
            DropReason::Reserved => "reserved_address",
            DropReason::Filtered => "filtered",
            DropReason::BroadcastLimit => "broadcast_limit",
            DropReason::MulticastLimit => "multicast_limit",
            DropReason::UnknownUnicastLimit => "unknown_unicast_limit",
            DropReason::VlanFiltered => "vlan_filtered",
            DropReason::IngressLossy => "ingress_lossy",
            DropReason::IngressNoDrop => "ingress_no_drop",
            DropReason::TailDrop => "tail_drop",
            DropReason::Wred => "wred",
            DropReason::Watchdog => "watchdog",
            DropReason::NoCopy => "no_copy",
            DropReason::PortDown => "port_down",
            DropReason::MtuExceeded => "mtu_exceeded",
        }
    }
}

/// Frames and their bytes (without FCS).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Frames.
    pub frames: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    /// One more frame.
    #[inline]
    pub fn add(&mut self, len: u16) {
        self.frames += 1;
        self.bytes += u64::from(len);
    }

    /// All of these together.
    pub fn sum(counts: &[Count]) -> Count {
        counts.iter().fold(Count::default(), |sum, &count| sum + count)
    }
}

impl std::ops::Add for Count {
    type Output = Count;

    fn add(self, other: Count) -> Count {
        Count { frames: self.frames + other.frames, bytes: self.bytes + other.bytes }
    }
}

/// One pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolSnapshot {
    /// Cells in use.
    pub level: Level,
    /// All its cells.
    pub size_cells: u32,
    /// Frames of no-drop queues that took cells beyond its size.
    pub excess_frames: u64,
    /// Those cells.
    pub excess_cells: u64,
    /// Use from which on its no-drop groups are paused; `None`: there is no such use.
    pub pause_threshold_cells: Option<u32>,
}

/// PFC frames of a port, in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PfcCount {
    /// PFC frames in all.
    pub frames: u64,
    /// Frames that paused (time not 0) this priority.
    pub xoff_frames: [u64; PRIORITIES],
    /// Frames that released (time 0) this priority.
    pub xon_frames: [u64; PRIORITIES],
}

/// All of the switch at one instant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// When it was taken: the switch's [`crate::Instant`], in nanoseconds.
    pub at_ns: Nanos,
    /// The places of ports, in their order; a vacant one has no name.
    pub ports: Vec<PortSnapshot>,
    /// What ports counted that are there no more.
    pub removed_ports: RemovedPorts,
    /// The service pools of the shared area as ingress sees them.
    pub ingress_pools: [PoolSnapshot; POOLS],
    /// … and as egress sees them.
    pub egress_pools: [PoolSnapshot; POOLS],
    /// The headroom pool.
    pub headroom: PoolSnapshot,
    /// Bytes of a cell.
    pub cell_bytes: u32,
    /// Addresses in the bridge table.
    pub bridge_entries: u64,
    /// Addresses that moved from one port to another.
    pub bridge_moves: u64,
    /// Frames whose source was not learned because the table was full.
    pub bridge_full_frames: u64,
    /// Copies made of flooded frames, beyond the frame itself.
    pub flood_copies: u64,
    /// Frames of the memory, in all.
    pub memory_frames: u64,
    /// Frames of the memory that nobody holds.
    pub memory_free_frames: u64,
    /// Frames of the memory in the ports' rings: fill, received and not taken, with the kernel to be sent.
    pub memory_in_rings_frames: u64,
    /// Events that nobody was told: more than [`crate::event::MAX_PENDING`] in one turn, or more than the daemon took.
    pub events_lost: u64,
    /// Turns of the loop since the start.
    pub loop_turns: u64,
    /// The longest time between two turns of the loop in which the loop was not asleep, since the start.
    pub loop_worst_stall_ns: u64,
    /// The time between turns, sleep apart, in all.
    pub loop_awake_ns: u64,
    /// Turns by the time from the turn before, sleep apart: [`turn_time`] says which.
    pub loop_turns_by_time: [u64; TURN_TIMES],
}

impl Snapshot {
    /// Without what the loop adds of itself, its turns and where memory is: what two loops of one switch agree on.
    pub fn without_loop(self) -> Self {
        Self {
            memory_free_frames: 0,
            memory_in_rings_frames: 0,
            loop_turns: 0,
            loop_worst_stall_ns: 0,
            loop_awake_ns: 0,
            loop_turns_by_time: [0; TURN_TIMES],
            ..self
        }
    }
}

/// Times that turns of a loop are told apart by.
pub const TURN_TIMES: usize = 24;

/// The place of a turn that began so long after the one before: 0 for less than 1 µs, 1 for less than 2 µs, 2 for less than
/// 4 µs, and so on; the last for 4.2 s and more.
#[inline]
pub fn turn_time(nanos: Nanos) -> usize {
    let micros = nanos / 1000;
    ((u64::BITS - micros.leading_zeros()) as usize).min(TURN_TIMES - 1)
}

/// What ports counted that are there no more, so that what passed through them stays in the account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedPorts {
    /// Ports that were removed.
    pub ports: u64,
    /// Data frames taken from their interfaces.
    pub received: Count,
    /// Data frames that left by them.
    pub transmitted: Count,
    /// Dropped frames by [`DropReason`].
    pub drops: [Count; DropReason::ALL.len()],
    /// Data frames that the kernel took and lost.
    pub kernel_lost_frames: u64,
    /// Frames that the kernel had nowhere to put, or that waited in an RX ring when it was closed.
    pub kernel_dropped_frames: u64,
}

/// One port.
///
/// Conservation (docs/law.md, "Invariants", 5), over all ports, those that were removed included, once idle: Σ received + flood copies = Σ transmitted + Σ drops
/// + Σ lost by the kernel. Frames that the kernel lost count where they were to leave, and so do drops for `PortDown`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PortSnapshot {
    /// The port's name.
    pub name: String,
    /// Its number, from 1, for as long as it is there; a later port may have it again.
    pub number: u16,
    /// Carries frames.
    pub up: bool,
    /// Its transmission is held (for tests).
    pub held: bool,
    /// The rate it keeps, in bit/s; 0: none.
    pub speed_bps: u64,
    /// What a frame takes of the line beyond its own bytes.
    pub overhead_bytes: u16,
    /// What kind of port it is by its VLANs: access, trunk; empty where ports have none.
    pub vlan_mode: String,
    /// The VLAN of frames without tag.
    pub pvid: Option<u32>,
    /// Its VLANs, as "1-100,200".
    pub vlans: String,
    /// Data frames taken from the interface; PFC and PAUSE frames are counted apart.
    pub received: Count,
    /// … of drop level 1 (yellow).
    pub received_yellow_frames: u64,
    /// … of drop level 2 (red).
    pub received_red_frames: u64,
    /// … to the broadcast address.
    pub received_broadcast_frames: u64,
    /// … to another group address.
    pub received_multicast_frames: u64,
    /// … to a station whose port was not known.
    pub received_unknown_unicast_frames: u64,
    /// Data frames that have left. The bytes of those that the kernel lost are among its bytes.
    pub transmitted: Count,
    /// … to the broadcast address.
    pub transmitted_broadcast_frames: u64,
    /// … to another group address.
    pub transmitted_multicast_frames: u64,
    /// … to a station whose port was not known when they came in.
    pub transmitted_unknown_unicast_frames: u64,
    /// Dropped frames by [`DropReason`].
    #[serde(serialize_with = "by_reason")]
    pub drops: [Count; DropReason::ALL.len()],
    /// Of these the frames that came in here and were dropped before they had a place in any queue.
    pub input_dropped: Count,
    /// … and those that were to leave here: tail drops, WRED, too long ones, and what waited for a port that went down.
    pub output_dropped: Count,
    /// Data frames that the kernel took and lost (`sendto` said EBUSY); it does not say which, nor how long they were.
    pub kernel_lost_frames: u64,
    /// Most bytes that were with the kernel at once.
    pub in_flight_peak_bytes: u64,
    /// PFC frames that came in.
    pub pfc_received: PfcCount,
    /// PFC frames that went out.
    pub pfc_sent: PfcCount,
    /// Frames of ethertype 0x8808 that are no PFC or PAUSE (another destination, wrong opcode, too short).
    pub pfc_malformed_frames: u64,
    /// 802.3x PAUSE frames that came in; obeyed where `flow_control` says so.
    pub pause_received_frames: u64,
    /// Of `pfc_sent`, the frames that the guard sent while the loop stood still.
    pub pfc_guard_frames: u64,
    /// 802.3x PAUSE frames that went out.
    pub pause_sent_frames: u64,
    /// The neighbour has paused the whole link by 802.3x PAUSE.
    pub link_paused: bool,
    /// Times that a pause of the whole link began.
    pub link_pauses: u64,
    /// Nanoseconds that the whole link was paused, in all.
    pub link_paused_ns: u64,
    /// Times that frames piled up in the RX rings, so that every no-drop priority was in XOFF.
    pub rx_ring_episodes: u64,
    /// Addresses learned on this port.
    pub bridge_entries: u64,
    /// Frames whose source was not learned because the port has as many addresses as it may have.
    pub bridge_limit_frames: u64,
    /// The last storms, oldest first: as many as are remembered.
    #[serde(skip)]
    pub storms: Vec<StormSnapshot>,
    /// PFC of each priority.
    #[serde(skip)]
    pub priorities: [PrioritySnapshot; PRIORITIES],
    /// The priority groups. In JSON they are a list of their own, and so are the queues.
    #[serde(skip)]
    pub groups: [GroupSnapshot; PRIORITIES],
    /// The egress queues.
    #[serde(skip)]
    pub queues: [QueueSnapshot; PRIORITIES],
    /// What the kernel counts; a simulated port has none below it.
    #[serde(skip)]
    pub kernel: KernelCounters,
}

/// Drops under the names of their reasons.
fn by_reason<S: Serializer>(
    drops: &[Count; DropReason::ALL.len()],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(DropReason::ALL.map(|reason| (reason.name(), drops[reason as usize])))
}

/// What is counted by drop level, under the names of its colours.
fn by_drop_level<S: Serializer>(counts: &[Count; 3], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(["green", "yellow", "red"].into_iter().zip(counts))
}

/// One priority group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct GroupSnapshot {
    /// PFC protects it.
    pub no_drop: bool,
    /// Service pool of its shared cells.
    pub pool: u8,
    /// Its neighbour is told to stop.
    pub xoff: bool,
    /// Times that XOFF began.
    pub xoff_episodes: u64,
    /// Cells of its reservation in use.
    pub reserved_cells: u32,
    /// Its reservation.
    pub reserved_size_cells: u32,
    /// Shared cells.
    pub shared: Level,
    /// Headroom cells.
    pub headroom: Level,
    /// The most headroom cells that it may use.
    pub headroom_size_cells: u32,
    /// All cells: reserved, shared, headroom.
    pub total: Level,
    /// The XOFF threshold as it stands now, in shared cells.
    pub threshold_cells: u32,
    /// The threshold moves with the free cells of the pool.
    pub is_dynamic: bool,
    /// The usage threshold, in percent of the reservation and the XOFF threshold together.
    pub usage_percent: u8,
    /// Times that use outside headroom rose above the usage threshold.
    pub violations: u64,
    /// Times that headroom use came to its alarm threshold (100 %: full), be there alarms or not.
    pub headroom_violations: u64,
    /// Received frames.
    pub received: Count,
    /// Frames dropped at ingress (no room).
    pub dropped: Count,
    /// Frames that the watchdog dropped.
    pub storm_dropped: Count,
    /// Frames that a limit of what is flooded dropped.
    pub flood_limited: Count,
}

/// What PFC did to one priority of a port, and its watchdog.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PrioritySnapshot {
    /// The local precedence that it has on this port.
    pub local_precedence: u8,
    /// The neighbour has paused it.
    pub paused: bool,
    /// Times that a pause began.
    pub pauses: u64,
    /// Nanoseconds spent paused, in all.
    pub paused_ns: u64,
    /// PFC frames for it that came in, each second: those of the last whole one.
    pub received_pps: u64,
    /// … that went out.
    pub sent_pps: u64,
    /// More PFC frames come in than its early warning allows.
    pub received_warning: bool,
    /// … go out.
    pub sent_warning: bool,
    /// Storms are looked for.
    pub watched: bool,
    /// It is stormed now.
    pub stormed: bool,
    /// … until somebody restores it.
    pub recovery_pending: bool,
    /// There were too many storms: PFC is off for it.
    pub limit_reached: bool,
    /// Storms that began.
    pub storms: u64,
    /// Storms that ended.
    pub storms_restored: u64,
    /// What passed during all storms.
    pub storm_traffic: StormTraffic,
    /// What passed during the last one.
    pub last_storm_traffic: StormTraffic,
}

/// Frames of a stormed priority.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StormTraffic {
    /// Frames of its queue that left.
    pub tx_frames: u64,
    /// Frames for its queue that the watchdog dropped.
    pub tx_dropped_frames: u64,
    /// Frames of its group that came in and found room.
    pub rx_frames: u64,
    /// Frames of its group that the watchdog dropped.
    pub rx_dropped_frames: u64,
}

impl StormTraffic {
    /// What came since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            tx_frames: self.tx_frames.saturating_sub(earlier.tx_frames),
            tx_dropped_frames: self.tx_dropped_frames.saturating_sub(earlier.tx_dropped_frames),
            rx_frames: self.rx_frames.saturating_sub(earlier.rx_frames),
            rx_dropped_frames: self.rx_dropped_frames.saturating_sub(earlier.rx_dropped_frames),
        }
    }
}

impl std::ops::Add for StormTraffic {
    type Output = StormTraffic;

    fn add(self, other: StormTraffic) -> StormTraffic {
        StormTraffic {
            tx_frames: self.tx_frames + other.tx_frames,
            tx_dropped_frames: self.tx_dropped_frames + other.tx_dropped_frames,
            rx_frames: self.rx_frames + other.rx_frames,
            rx_dropped_frames: self.rx_dropped_frames + other.rx_dropped_frames,
        }
    }
}

/// One storm of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StormSnapshot {
    /// The priority.
    pub priority: u8,
    /// When it was found, in nanoseconds as [`Snapshot::at_ns`].
    pub began_ns: Nanos,
    /// For how long the priority had been stuck then.
    pub stuck_ns: Nanos,
    /// When it was restored; `None`: it is not.
    pub ended_ns: Option<Nanos>,
    /// Its frames were dropped; otherwise its pauses were ignored.
    pub drops: bool,
    /// It was one too many, and PFC was turned off.
    pub limit_reached: bool,
    /// What passed.
    pub traffic: StormTraffic,
}

/// One egress queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct QueueSnapshot {
    /// Its neighbour has paused it; for flooded frames with a map of their own see `flooded_paused`.
    pub paused: bool,
    /// Its neighbour has paused the flooded frames in it.
    pub flooded_paused: bool,
    /// Times that a pause began.
    pub pauses: u64,
    /// Nanoseconds spent paused, in all.
    pub paused_ns: u64,
    /// Service pool of its shared cells.
    pub pool: u8,
    /// Cells held, frames with the kernel included.
    pub level: Level,
    /// Cells that are its own.
    pub guaranteed_cells: u32,
    /// Frames waiting.
    pub waiting_frames: u64,
    /// … of them flooded ones that a map of their own put there.
    pub flooded_frames: u64,
    /// The tail-drop threshold as it stands now, in shared cells; `None`: no limit.
    pub threshold_cells: Option<u32>,
    /// The threshold moves with the free cells of the pool.
    pub is_dynamic: bool,
    /// What 100 % of its use is: the guaranteed cells and the tail-drop threshold together; without a threshold, or with a
    /// static one that is more than the pool, the guaranteed cells and the pool.
    pub allowed_cells: u32,
    /// The usage threshold, in percent of `allowed_cells`.
    pub usage_percent: u8,
    /// Times that use rose above the usage threshold.
    pub violations: u64,
    /// Frames that left.
    pub transmitted: Count,
    /// Frames dropped because the queue was full.
    pub dropped: Count,
    /// Frames that the watchdog dropped.
    pub storm_dropped: Count,
    /// Frames marked as having met congestion (CE).
    pub marked: Count,
    /// Frames that WRED dropped, by drop level.
    #[serde(serialize_with = "by_drop_level")]
    pub wred_dropped: [Count; 3],
    /// The average length that WRED goes by, in cells; `None`: no WRED.
    pub average_cells: Option<u32>,
}

/// What the kernel counts of one interface. All since the start, however often the port was closed and opened since.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelCounters {
    /// Frames that found the fill ring empty.
    pub rx_fill_ring_empty_frames: u64,
    /// Frames that found the RX ring full.
    pub rx_ring_full_frames: u64,
    /// Frames that the kernel dropped on receipt for another reason.
    pub rx_dropped_frames: u64,
    /// Descriptors for receipt that the kernel refused.
    pub rx_invalid_frames: u64,
    /// Descriptors to transmit that the kernel refused.
    pub tx_invalid_frames: u64,
    /// `sendto` calls.
    pub tx_kicks: u64,
    /// … that said EAGAIN: the frames wait.
    pub tx_again: u64,
    /// … that said EBUSY: one frame lost each.
    pub tx_busy: u64,
    /// … that said ENOBUFS: the frames wait.
    pub tx_no_buffers: u64,
    /// … that said ENETDOWN or ENXIO.
    pub tx_down: u64,
    /// Completions of frames that the port had not sent, or that were completed before: ignored.
    pub tx_stray_frames: u64,
    /// Frames received in memory that the port had not posted, or that had been received before: ignored.
    pub rx_stray_frames: u64,
    /// Frames that waited in an RX ring when it was closed, as the port went down.
    pub rx_closed_frames: u64,
    /// Frames longer than 9238 bytes, which no port takes in: several that were merged, or one that was to be segmented.
    pub rx_too_long_frames: u64,
}

impl std::ops::AddAssign for KernelCounters {
    fn add_assign(&mut self, other: Self) {
        let KernelCounters {
            rx_fill_ring_empty_frames,
            rx_ring_full_frames,
            rx_dropped_frames,
            rx_invalid_frames,
            tx_invalid_frames,
            tx_kicks,
            tx_again,
            tx_busy,
            tx_no_buffers,
            tx_down,
            tx_stray_frames,
            rx_stray_frames,
            rx_closed_frames,
            rx_too_long_frames,
        } = other;
        self.rx_fill_ring_empty_frames += rx_fill_ring_empty_frames;
        self.rx_ring_full_frames += rx_ring_full_frames;
        self.rx_dropped_frames += rx_dropped_frames;
        self.rx_invalid_frames += rx_invalid_frames;
        self.tx_invalid_frames += tx_invalid_frames;
        self.tx_kicks += tx_kicks;
        self.tx_again += tx_again;
        self.tx_busy += tx_busy;
        self.tx_no_buffers += tx_no_buffers;
        self.tx_down += tx_down;
        self.tx_stray_frames += tx_stray_frames;
        self.rx_stray_frames += rx_stray_frames;
        self.rx_closed_frames += rx_closed_frames;
        self.rx_too_long_frames += rx_too_long_frames;
    }
}
