//! From the switch's own snapshot to the message of the API: the same fields under the same names
//! (build.rs writes the conversion), and what the daemon adds.

use std::collections::BTreeMap;

use switch::monitor::counters::FrameCount;
use switch::{DropReason, Snapshot};

use crate::v1;

/// What the switch does not know of a port, because it belongs to the interface below.
#[derive(Debug, Clone, PartialEq)]
pub struct PortFacts {
    /// Linux interface.
    pub interface: String,
    /// How the XDP program is attached: `native` or `generic`.
    pub xdp_mode: String,
    /// Tags that the host holds out of band are put back into received frames.
    pub vlan_tags_restored: bool,
    /// Its MTU in bytes.
    pub mtu_bytes: u32,
    /// What else there is to know of it.
    pub link: v1::Link,
}

/// What the switch does not know of the daemon around it.
#[derive(Debug, Clone, PartialEq)]
pub struct DaemonFacts {
    /// PFC is not off on all ports.
    pub pfc_enabled: bool,
    /// What its log lacks.
    pub log: LogCounts,
    /// Its poll loops, the switching core's first.
    pub loops: Vec<v1::Loop>,
}

/// Lines of the daemon's log that nobody can read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Lines that could not be written.
    pub lost: u64,
    /// Lines left out because there were many like them.
    pub left_out: u64,
}

/// The message of a snapshot, with all places of ports, vacant ones too.
pub fn snapshot(from: &Snapshot, daemon: &DaemonFacts) -> v1::Snapshot {
    v1::Snapshot {
        pfc_enabled: daemon.pfc_enabled,
        log_lines_lost: daemon.log.lost,
        log_lines_left_out: daemon.log.left_out,
        loops: daemon.loops.clone(),
        ..from.into()
    }
}

/// Leaves the ports at these places in the message, in this order, with what is known of their
/// interfaces.
pub fn list_ports<'f>(message: &mut v1::Snapshot, ports: impl IntoIterator<Item = (usize, &'f PortFacts)>) {
    let mut places = std::mem::take(&mut message.ports);
    for (place, PortFacts { interface, xdp_mode, vlan_tags_restored, mtu_bytes, link }) in ports {
        message.ports.push(v1::Port {
            interface: interface.clone(),
            xdp_mode: xdp_mode.clone(),
            vlan_tags_restored: *vlan_tags_restored,
            mtu_bytes: *mtu_bytes,
            link: Some(link.clone()),
            ..std::mem::take(&mut places[place])
        });
    }
}

/// Drops by the names of their reasons.
fn by_reason(drops: &[FrameCount; DropReason::ALL.len()]) -> BTreeMap<String, v1::Count> {
    let named = |reason: DropReason| (reason.name().to_owned(), (&drops[reason as usize]).into());
    DropReason::ALL.into_iter().map(named).collect()
}

impl From<&[FrameCount; 3]> for v1::ByDropLevel {
    fn from(from: &[FrameCount; 3]) -> Self {
        let [green, yellow, red] = from.each_ref().map(|count| Some(count.into()));
        Self { green, yellow, red }
    }
}

/// `impl From<&struct of the switch> for message`, for all of them.
#[allow(clippy::useless_conversion, reason = "generated: not all fields are of other types there")]
mod written {
    use crate::v1::*;
    include!(concat!(env!("OUT_DIR"), "/from_switch.rs"));
}
