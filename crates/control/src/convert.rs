//! Conversion of the switch's snapshot to the message of the API: the same fields under the same
//! names (build.rs writes the conversion), and the fields that the daemon adds.

use std::collections::BTreeMap;

use switch::monitor::counters::FrameCount;
use switch::{DropReason, KernelCounters, Snapshot};

use crate::v1;

/// Properties of a port that the switch does not know, because they belong to the interface below.
#[derive(Debug, Clone, PartialEq)]
pub struct PortDetails {
    /// Name of the Linux interface.
    pub interface: String,
    /// How the XDP program is attached: `native` or `generic`.
    pub xdp_mode: String,
    /// True if VLAN tags that the host keeps in metadata are restored in received frames.
    pub vlan_tags_restored: bool,
    /// MTU of the interface in bytes.
    pub mtu_bytes: u32,
    /// Link state of the interface.
    pub link: v1::Link,
}

/// State of the daemon that the switch does not know.
#[derive(Debug, Clone, PartialEq)]
pub struct DaemonState {
    /// False if PFC is disabled on all ports.
    pub pfc_enabled: bool,
    /// Counters of lines missing from its log.
    pub log: LogCounts,
    /// Counters of the recordings of losses.
    pub recordings: RecordingCounts,
    /// The poll loops, the switching core's first.
    pub loops: Vec<v1::Loop>,
}

/// Lines missing from the daemon's log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Lines that could not be written.
    pub lost: u64,
    /// Lines left out by the rate limit of similar lines.
    pub left_out: u64,
}

/// Recordings that the daemon keeps until they are fetched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordingCounts {
    /// Recordings that are kept now.
    pub kept: u64,
    /// Bytes of these recordings.
    pub kept_bytes: u64,
    /// Recordings that were kept since the start, fetched or not.
    pub frozen: u64,
    /// Recordings that found no room beside those that are kept.
    pub not_kept: u64,
}

/// Returns the message of a snapshot, with all port slots, vacant ones too.
pub fn snapshot(from: &Snapshot, daemon: &DaemonState) -> v1::Snapshot {
    v1::Snapshot {
        pfc_enabled: daemon.pfc_enabled,
        log_lines_lost: daemon.log.lost,
        log_lines_left_out: daemon.log.left_out,
        recordings_kept: daemon.recordings.kept,
        recordings_kept_bytes: daemon.recordings.kept_bytes,
        recordings_frozen: daemon.recordings.frozen,
        recordings_not_kept: daemon.recordings.not_kept,
        loops: daemon.loops.clone(),
        ..from.into()
    }
}

/// Keeps only the ports in these slots in the message, in this order, and adds what is known of
/// their interfaces.
pub fn list_ports<'f>(message: &mut v1::Snapshot, ports: impl IntoIterator<Item = (usize, &'f PortDetails)>) {
    let mut parts = std::mem::take(&mut message.ports);
    for (index, PortDetails { interface, xdp_mode, vlan_tags_restored, mtu_bytes, link }) in ports {
        message.ports.push(v1::Port {
            interface: interface.clone(),
            xdp_mode: xdp_mode.clone(),
            vlan_tags_restored: *vlan_tags_restored,
            mtu_bytes: *mtu_bytes,
            link: Some(link.clone()),
            ..std::mem::take(&mut parts[index])
        });
    }
}

/// Drops by the names of their reasons.
fn by_reason(drops: &[FrameCount; DropReason::ALL.len()]) -> BTreeMap<String, v1::Count> {
    let named = |reason: DropReason| (reason.name().to_owned(), (&drops[reason as usize]).into());
    DropReason::ALL.into_iter().map(named).collect()
}

include!(concat!(env!("OUT_DIR"), "/subtract.rs"));

impl v1::Snapshot {
    /// Encodes the snapshot, for a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        prost::Message::encode_to_vec(self)
    }

    /// Decodes what [`v1::Snapshot::to_bytes`] has encoded; `None` if it is damaged.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        prost::Message::decode(bytes).ok()
    }
}

impl v1::Port {
    /// Returns the drops for this reason.
    pub fn dropped(&self, reason: DropReason) -> v1::Count {
        self.drops.get(reason.name()).copied().unwrap_or_default()
    }

    /// Returns the drops for the reasons that `is_counted` names.
    pub fn dropped_where(&self, is_counted: impl Fn(DropReason) -> bool) -> v1::Count {
        DropReason::ALL
            .into_iter()
            .filter(|&reason| is_counted(reason))
            .map(|reason| self.dropped(reason))
            .sum()
    }

    /// Returns the frames dropped for any reason.
    pub fn dropped_frames(&self) -> u64 {
        self.drops.values().map(|drops| drops.frames).sum()
    }

    /// Returns the frames of a no-drop priority, or of all, that were lost at this port: dropped
    /// for any reason, or lost by the kernel. What the kernel lost on receipt has no priority: it
    /// counts where the port protects the priority, as it may have been one of its frames.
    pub fn no_drop_lost_frames(&self, priority: Option<usize>) -> u64 {
        let is_meant = |number: usize| priority.is_none_or(|wanted| wanted == number);
        let lost = self.priorities.iter().enumerate().filter(|(number, _)| is_meant(*number));
        let lost: u64 = lost.map(|(_, priority)| priority.no_drop_lost_frames).sum();
        let mut groups = self.groups.iter().enumerate();
        let protects = groups.any(|(number, group)| is_meant(number) && group.no_drop);
        lost + if protects { self.kernel_counters().rx_lost_frames() } else { 0 }
    }

    /// Returns the kernel's counters; zero without any.
    pub fn kernel_counters(&self) -> KernelCounters {
        self.kernel.as_ref().map(KernelCounters::from).unwrap_or_default()
    }
}

impl v1::RemovedPorts {
    /// Returns the frames that were lost at removed ports, as [`v1::Port::no_drop_lost_frames`] of
    /// all priorities: nothing tells any more whether these ports protected one.
    pub fn lost_frames(&self) -> u64 {
        self.no_drop_lost_frames + self.kernel_dropped_frames
    }
}

/// Returns the frames of a count; 0 without one.
pub fn frames(count: Option<v1::Count>) -> u64 {
    count.map_or(0, |count| count.frames)
}

impl std::ops::Add for v1::Count {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { frames: self.frames + other.frames, bytes: self.bytes + other.bytes }
    }
}

impl std::iter::Sum for v1::Count {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, count| sum + count)
    }
}

impl From<&[FrameCount; 3]> for v1::ByDropLevel {
    fn from(from: &[FrameCount; 3]) -> Self {
        let [green, yellow, red] = from.each_ref().map(|count| Some(count.into()));
        Self { green, yellow, red }
    }
}

/// `impl From<&struct of the switch> for message`, for each of the structs.
#[allow(clippy::useless_conversion, reason = "generated: not all fields are of other types there")]
mod written {
    use crate::v1::*;
    include!(concat!(env!("OUT_DIR"), "/from_switch.rs"));
}
