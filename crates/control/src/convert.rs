//! From the switch's own snapshot to the message of the API: the same fields under the same names (build.rs writes the
//! conversion), and what the daemon adds.

use std::collections::BTreeMap;

use switch::counters::Count;
use switch::{DropReason, Snapshot};

use crate::v1;

/// What the switch does not know of a port, because it belongs to the interface below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortFacts {
    /// Linux interface.
    pub interface: String,
    /// How the XDP program is attached: `native` or `generic`.
    pub xdp_mode: String,
    /// Tags that the host holds out of band are put back into received frames.
    pub vlan_tags_restored: bool,
}

/// What the switch does not know of the daemon around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DaemonFacts {
    /// PFC is not off on all ports.
    pub pfc_enabled: bool,
    /// What its log lacks.
    pub log: LogCounts,
}

/// Lines of the daemon's log that nobody can read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Lines that could not be written.
    pub lost: u64,
    /// Lines left out because there were many like them.
    pub left_out: u64,
}

/// The message of a snapshot. `facts` are the ports' in their order.
pub fn snapshot(from: &Snapshot, facts: &[PortFacts], daemon: &DaemonFacts) -> v1::Snapshot {
    assert_eq!(from.ports.len(), facts.len(), "every port of the switch has an interface");
    let mut message = v1::Snapshot {
        pfc_enabled: daemon.pfc_enabled,
        log_lines_lost: daemon.log.lost,
        log_lines_left_out: daemon.log.left_out,
        ..from.into()
    };
    for (port, facts) in message.ports.iter_mut().zip(facts) {
        port.interface.clone_from(&facts.interface);
        port.xdp_mode.clone_from(&facts.xdp_mode);
        port.vlan_tags_restored = facts.vlan_tags_restored;
    }
    message
}

/// Drops by the names of their reasons.
fn by_reason(drops: &[Count; DropReason::ALL.len()]) -> BTreeMap<String, v1::Count> {
    let named = |reason: DropReason| (reason.name().to_owned(), (&drops[reason as usize]).into());
    DropReason::ALL.into_iter().map(named).collect()
}

impl From<&[Count; 3]> for v1::ByDropLevel {
    fn from(from: &[Count; 3]) -> Self {
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
