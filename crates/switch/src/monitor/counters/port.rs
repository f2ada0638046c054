//! What is counted of a port: of itself, its priorities, its priority groups and its queues.
//!
//! Source: docs/behavior.md, "Invariants", 5, and "Watermarks".

use super::count::{DropReason, FrameCount, PfcCount};
use super::kernel::KernelCounters;
use super::storm::{StormSnapshot, StormTraffic};
use crate::monitor::watermark::Occupancy;
use crate::settings::PRIORITIES;
use serde::{Serialize, Serializer};

/// One port.
///
/// Conservation (docs/behavior.md, "Invariants", 5), over all ports, those that were removed
/// included, once idle: Σ received + flood copies = Σ transmitted + Σ drops
/// + Σ lost by the kernel. Frames that the kernel lost count where they were to leave, and so do
///   drops for `PortDown`.
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
    pub received: FrameCount,
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
    /// Data frames that have left.
    pub transmitted: FrameCount,
    /// … to the broadcast address.
    pub transmitted_broadcast_frames: u64,
    /// … to another group address.
    pub transmitted_multicast_frames: u64,
    /// … to a station whose port was not known when they came in.
    pub transmitted_unknown_unicast_frames: u64,
    /// Dropped frames by [`DropReason`].
    #[serde(serialize_with = "by_reason")]
    pub drops: [FrameCount; DropReason::ALL.len()],
    /// Of these the frames that came in here and were dropped before they had a place in any queue.
    pub input_dropped: FrameCount,
    /// … and those that were to leave here: tail drops, WRED, too long ones, and what waited for a
    /// port that went down.
    pub output_dropped: FrameCount,
    /// Data frames that the kernel took and lost (`sendto` said EBUSY).
    pub kernel_lost_frames: u64,
    /// … of no-drop priorities: a broken promise.
    pub kernel_lost_no_drop_frames: u64,
    /// PFC and PAUSE frames that it took and lost: they count as sent, and the peer has not heard
    /// them.
    pub kernel_lost_pfc_frames: u64,
    /// Most bytes that were with the kernel at once.
    pub in_flight_peak_bytes: u64,
    /// PFC frames that came in.
    pub pfc_received: PfcCount,
    /// PFC frames that went out.
    pub pfc_sent: PfcCount,
    /// Frames of ethertype 0x8808 that are no PFC or PAUSE (another destination, wrong opcode, too
    /// short).
    pub pfc_malformed_frames: u64,
    /// 802.3x PAUSE frames that came in; obeyed where `flow_control` says so.
    pub pause_received_frames: u64,
    /// Of `pfc_sent`, the frames that the guard sent while the loop stood still.
    pub pfc_guard_frames: u64,
    /// 802.3x PAUSE frames that went out.
    pub pause_sent_frames: u64,
    /// The peer has paused the whole link by 802.3x PAUSE.
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
    drops: &[FrameCount; DropReason::ALL.len()],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(DropReason::ALL.map(|reason| (reason.name(), drops[reason as usize])))
}

/// What is counted by drop level, under the names of its colors.
fn by_drop_level<S: Serializer>(counts: &[FrameCount; 3], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(["green", "yellow", "red"].into_iter().zip(counts))
}

/// One priority group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct GroupSnapshot {
    /// PFC protects it.
    pub no_drop: bool,
    /// Service pool of its shared cells.
    pub pool: u8,
    /// Its peer is told to stop.
    pub xoff: bool,
    /// Times that XOFF began.
    pub xoff_episodes: u64,
    /// Cells of its reservation in use.
    pub reserved_cells: u32,
    /// Its reservation.
    pub reserved_size_cells: u32,
    /// Shared cells.
    pub shared: Occupancy,
    /// Headroom cells.
    pub headroom: Occupancy,
    /// The most headroom cells that it may use.
    pub headroom_size_cells: u32,
    /// All cells: reserved, shared, headroom.
    pub total: Occupancy,
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
    pub received: FrameCount,
    /// Frames dropped at ingress (no room).
    pub dropped: FrameCount,
    /// Frames that the watchdog dropped.
    pub storm_dropped: FrameCount,
    /// Frames that a limit of what is flooded dropped.
    pub flood_limited: FrameCount,
}

/// What PFC did to one priority of a port, and its watchdog.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PrioritySnapshot {
    /// The local precedence that it has on this port.
    pub local_precedence: u8,
    /// The peer has paused it.
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

/// One egress queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct QueueSnapshot {
    /// Its peer has paused it; for flooded frames with a map of their own see `flooded_paused`.
    pub paused: bool,
    /// Its peer has paused the flooded frames in it.
    pub flooded_paused: bool,
    /// Times that a pause began.
    pub pauses: u64,
    /// Nanoseconds spent paused, in all.
    pub paused_ns: u64,
    /// Service pool of its shared cells.
    pub pool: u8,
    /// Cells held, frames with the kernel included.
    pub level: Occupancy,
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
    /// What 100 % of its use is: the guaranteed cells and the tail-drop threshold together; without
    /// a threshold, or with a static one that is more than the pool, the guaranteed cells and
    /// the pool.
    pub allowed_cells: u32,
    /// The usage threshold, in percent of `allowed_cells`.
    pub usage_percent: u8,
    /// Times that use rose above the usage threshold.
    pub violations: u64,
    /// Frames that left.
    pub transmitted: FrameCount,
    /// Frames that the kernel took and lost.
    pub kernel_lost: FrameCount,
    /// Frames dropped because the queue was full.
    pub dropped: FrameCount,
    /// Frames that the watchdog dropped.
    pub storm_dropped: FrameCount,
    /// Frames marked as having met congestion (CE).
    pub marked: FrameCount,
    /// Frames that WRED dropped, by drop level.
    #[serde(serialize_with = "by_drop_level")]
    pub wred_dropped: [FrameCount; 3],
    /// The average length that WRED goes by, in cells; `None`: no WRED.
    pub average_cells: Option<u32>,
}
