//! Counters of a port, its priorities, its priority groups and its queues.
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
/// Conservation (docs/behavior.md, "Invariants", 5), over all ports, including removed ones, once
/// idle: Σ received + flood copies = Σ transmitted + Σ drops + Σ lost by the kernel. Frames that
/// the kernel lost are counted at their output port, and so are drops for `PortDown`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PortSnapshot {
    /// The port's name.
    pub name: String,
    /// Number of the port, from 1, for as long as it exists; a later port may reuse it.
    pub number: u16,
    /// True if the port carries frames.
    pub up: bool,
    /// True if its transmission is held (for tests).
    pub held: bool,
    /// Rate limit, in bit/s; 0 if unlimited.
    pub speed_bps: u64,
    /// Bytes on the wire that a frame takes beyond its own.
    pub overhead_bytes: u16,
    /// VLAN mode of the port: access, trunk; empty where ports have no VLANs.
    pub vlan_mode: String,
    /// VLAN of untagged frames.
    pub pvid: Option<u32>,
    /// VLANs of the port, as "1-100,200".
    pub vlans: String,
    /// Data frames taken from the interface; PFC and PAUSE frames are counted separately.
    pub received: FrameCount,
    /// Received frames of drop level 1 (yellow).
    pub received_yellow_frames: u64,
    /// Received frames of drop level 2 (red).
    pub received_red_frames: u64,
    /// Received frames to the broadcast address.
    pub received_broadcast_frames: u64,
    /// Received frames to another group address.
    pub received_multicast_frames: u64,
    /// Received frames to an unknown unicast destination.
    pub received_unknown_unicast_frames: u64,
    /// Data frames that have left.
    pub transmitted: FrameCount,
    /// Transmitted frames to the broadcast address.
    pub transmitted_broadcast_frames: u64,
    /// Transmitted frames to another group address.
    pub transmitted_multicast_frames: u64,
    /// Transmitted frames whose unicast destination was unknown when they were received.
    pub transmitted_unknown_unicast_frames: u64,
    /// Dropped frames by [`DropReason`].
    #[serde(serialize_with = "by_reason")]
    pub drops: [FrameCount; DropReason::ALL.len()],
    /// Dropped frames that were received here and dropped before they were queued.
    pub input_dropped: FrameCount,
    /// Dropped frames that were to leave here: tail drops, WRED, too long ones, and frames for
    /// a port that is down.
    pub output_dropped: FrameCount,
    /// Data frames that the kernel took and lost (`sendto` returned EBUSY).
    pub kernel_lost_frames: u64,
    /// Frames of no-drop priorities that the kernel took and lost: no-drop losses.
    pub kernel_lost_no_drop_frames: u64,
    /// PFC and PAUSE frames that the kernel took and lost. They count as sent, but the peer has not
    /// received them.
    pub kernel_lost_pfc_frames: u64,
    /// Times that no transmission completed for 5 s although the kernel had frames.
    pub tx_stalls: u64,
    /// Peak of the bytes with the kernel.
    pub in_flight_peak_bytes: u64,
    /// Received PFC frames.
    pub pfc_received: PfcCount,
    /// Sent PFC frames.
    pub pfc_sent: PfcCount,
    /// Frames of ethertype 0x8808 that are not PFC or PAUSE (another destination, wrong opcode, too
    /// short).
    pub pfc_malformed_frames: u64,
    /// Received 802.3x PAUSE frames; honored where `flow_control` enables it.
    pub pause_received_frames: u64,
    /// LLDP frames that were consumed, as the port has LLDP; other frames of it are data.
    pub lldp_received_frames: u64,
    /// Frames of `pfc_sent` that were sent as a priority had entered or left XOFF.
    pub pfc_change_frames: u64,
    /// Frames of `pfc_sent` that refreshed an XOFF.
    pub pfc_refresh_frames: u64,
    /// Frames of `pfc_sent` that repeated XON, XOFF for a peer that went on, or what the kernel had
    /// lost.
    pub pfc_repeat_frames: u64,
    /// Frames of `pfc_sent` that the guard sent while the loop was stalled.
    pub pfc_guard_frames: u64,
    /// Sent 802.3x PAUSE frames.
    pub pause_sent_frames: u64,
    /// True if the peer has paused the whole link by 802.3x PAUSE.
    pub link_paused: bool,
    /// Number of pauses of the whole link.
    pub link_pauses: u64,
    /// Total nanoseconds that the whole link was paused.
    pub link_paused_ns: u64,
    /// Times that the RX backlog became long, so that every no-drop priority was in XOFF.
    pub rx_ring_episodes: u64,
    /// Addresses learned on this port.
    pub bridge_entries: u64,
    /// Frames whose source was not learned because the port has reached its limit of addresses.
    pub bridge_limit_frames: u64,
    /// The last storms, oldest first: as many as are kept.
    #[serde(skip)]
    pub storms: Vec<StormSnapshot>,
    /// PFC of each priority.
    #[serde(skip)]
    pub priorities: [PrioritySnapshot; PRIORITIES],
    /// Priority groups. In JSON they are a separate list, and so are the queues.
    #[serde(skip)]
    pub groups: [GroupSnapshot; PRIORITIES],
    /// Egress queues.
    #[serde(skip)]
    pub queues: [QueueSnapshot; PRIORITIES],
    /// Kernel counters; a simulated port has none.
    #[serde(skip)]
    pub kernel: KernelCounters,
}

/// Serializes drops under the names of their reasons.
fn by_reason<S: Serializer>(
    drops: &[FrameCount; DropReason::ALL.len()],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(DropReason::ALL.map(|reason| (reason.name(), drops[reason as usize])))
}

/// Serializes counts by drop level under the names of the colors.
fn by_drop_level<S: Serializer>(counts: &[FrameCount; 3], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(["green", "yellow", "red"].into_iter().zip(counts))
}

/// One priority group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct GroupSnapshot {
    /// True if PFC protects the group.
    pub no_drop: bool,
    /// Service pool of its shared cells.
    pub pool: u8,
    /// True if the peer is paused for the group.
    pub xoff: bool,
    /// Times that XOFF began.
    pub xoff_episodes: u64,
    /// Reserved cells in use.
    pub reserved_cells: u32,
    /// Size of the reservation.
    pub reserved_size_cells: u32,
    /// Shared cells.
    pub shared: Occupancy,
    /// Headroom cells.
    pub headroom: Occupancy,
    /// Maximum of headroom cells.
    pub headroom_size_cells: u32,
    /// All cells: reserved, shared, headroom.
    pub total: Occupancy,
    /// Present XOFF threshold, in shared cells.
    pub threshold_cells: u32,
    /// True if the threshold moves with the free cells of the pool.
    pub is_dynamic: bool,
    /// The usage threshold, in percent of the reservation and the XOFF threshold together.
    pub usage_percent: u8,
    /// Times that use outside headroom rose above the usage threshold.
    pub violations: u64,
    /// Times that headroom use reached its alarm threshold (100 %: full), with or without alarms.
    pub headroom_violations: u64,
    /// Received frames.
    pub received: FrameCount,
    /// Frames dropped at ingress (no room).
    pub dropped: FrameCount,
    /// Frames that the watchdog dropped.
    pub storm_dropped: FrameCount,
    /// Frames that a flood limit dropped.
    pub flood_limited: FrameCount,
}

/// PFC and watchdog state of one priority of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PrioritySnapshot {
    /// Local precedence of the priority on this port.
    pub local_precedence: u8,
    /// True if the peer has paused the priority.
    pub paused: bool,
    /// Times that a pause began.
    pub pauses: u64,
    /// Total nanoseconds spent paused.
    pub paused_ns: u64,
    /// Received PFC frames per second for the priority, over the last whole second.
    pub received_pps: u64,
    /// Sent PFC frames per second for the priority, over the last whole second.
    pub sent_pps: u64,
    /// True if received PFC frames exceed the early warning.
    pub received_warning: bool,
    /// True if sent PFC frames exceed the early warning.
    pub sent_warning: bool,
    /// True if the watchdog looks for storms.
    pub watched: bool,
    /// True if the priority is stormed now.
    pub stormed: bool,
    /// True if the priority is stormed until it is restored by hand.
    pub recovery_pending: bool,
    /// True if there were too many storms: PFC is off for the priority.
    pub limit_reached: bool,
    /// Storms that began.
    pub storms: u64,
    /// Storms that ended.
    pub storms_restored: u64,
    /// Traffic during all storms.
    pub storm_traffic: StormTraffic,
    /// Traffic during the last storm.
    pub last_storm_traffic: StormTraffic,
}

/// One egress queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct QueueSnapshot {
    /// True if the peer has paused the queue; for flooded frames with a separate map see
    /// `flooded_paused`.
    pub paused: bool,
    /// True if the peer has paused the flooded frames in the queue.
    pub flooded_paused: bool,
    /// Times that a pause began.
    pub pauses: u64,
    /// Total nanoseconds spent paused.
    pub paused_ns: u64,
    /// Service pool of its shared cells.
    pub pool: u8,
    /// Cells in use, including frames with the kernel.
    pub level: Occupancy,
    /// Cells guaranteed to the queue.
    pub guaranteed_cells: u32,
    /// Queued frames.
    pub waiting_frames: u64,
    /// Queued flooded frames that a separate map put there.
    pub flooded_frames: u64,
    /// Present tail-drop threshold, in shared cells; `None` if unlimited.
    pub threshold_cells: Option<u32>,
    /// True if the threshold moves with the free cells of the pool.
    pub is_dynamic: bool,
    /// Cells that are 100 % of the queue's use: the guaranteed cells plus the tail-drop threshold.
    /// Without a threshold, or with a static one above the pool's size: the guaranteed cells plus
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
    /// Frames with an ECN mark (CE).
    pub marked: FrameCount,
    /// Frames that WRED dropped, by drop level.
    #[serde(serialize_with = "by_drop_level")]
    pub wred_dropped: [FrameCount; 3],
    /// Average length used by WRED, in cells; `None` without WRED.
    pub average_cells: Option<u32>,
}
