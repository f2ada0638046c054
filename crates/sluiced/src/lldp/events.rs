//! The events of the agents, for the journal and the log.

use std::time::Duration;

use dcbx::Event;
use dcbx::event::NeighborLoss;
use dcbx::lldp::NeighborId;
use dcbx::status::FeatureState;
use switch::{EventKind, EventRecord};

/// Events of a port and kind at once; one more is allowed each second.
const BURST: u32 = 20;

/// Limits the events of a port, so that no neighbor crowds others out of the journal, and no frames
/// that change crowd out what was negotiated.
#[derive(Debug, Default)]
pub(super) struct EventLimits {
    neighbors: EventLimit,
    dcbx: EventLimit,
}

impl EventLimits {
    /// Returns true if an event may be reported, and counts it.
    pub(super) fn allows(&mut self, now: Duration, event: &Event) -> bool {
        let is_dcbx = matches!(event, Event::VersionChanged(_) | Event::FeatureChanged { .. });
        if is_dcbx { self.dcbx.allows(now) } else { self.neighbors.allows(now) }
    }

    /// Events that were left out.
    pub(super) fn left_out(&self) -> u64 {
        self.neighbors.left_out + self.dcbx.left_out
    }
}

#[derive(Debug, Default)]
struct EventLimit {
    /// Events that were used up, less those that time has given back.
    used: u32,
    /// Second until which time has given back.
    second: u64,
    /// Events that were left out.
    left_out: u64,
}

impl EventLimit {
    fn allows(&mut self, now: Duration) -> bool {
        let passed = u32::try_from(now.as_secs().saturating_sub(self.second)).unwrap_or(u32::MAX);
        (self.used, self.second) = (self.used.saturating_sub(passed), now.as_secs());
        let allowed = self.used < BURST;
        self.used += u32::from(allowed);
        self.left_out += u64::from(!allowed);
        allowed
    }
}

/// Returns the event of an agent as a line of text.
pub(super) fn describe(event: &Event) -> EventRecord {
    let (kind, message) = match event {
        Event::NeighborAdded(id) => (EventKind::LldpNeighborAdded, format!("new neighbor {}", name(id))),
        Event::NeighborChanged(id) => {
            (EventKind::LldpNeighborChanged, format!("neighbor {} advertises something else", name(id)))
        }
        Event::NeighborLost(id, loss) => {
            let why = match loss {
                NeighborLoss::Expired => "its time to live is over",
                NeighborLoss::Shutdown => "it withdrew itself",
                NeighborLoss::Restarted => "the link came up again, or reception was disabled",
            };
            (EventKind::LldpNeighborLost, format!("neighbor {} is gone: {why}", name(id)))
        }
        Event::TooManyNeighbors(id) => {
            let message = format!("no room for neighbor {}: lldp.max_neighbors allows more", name(id));
            (EventKind::LldpTooManyNeighbors, message)
        }
        Event::VersionChanged(version) => (EventKind::DcbxVersion, format!("DCBX speaks {version}")),
        Event::FeatureChanged { feature, state, reason, operational } => {
            let message = format!("DCBX: {feature} is {state} ({reason}), in force: {operational}");
            let is_error = *state == FeatureState::Error;
            (if is_error { EventKind::DcbxError } else { EventKind::DcbxChanged }, message)
        }
    };
    EventRecord::new(kind, message)
}

fn name(id: &NeighborId) -> String {
    format!("{} port {}", id.chassis, id.port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dcbx::settings::Version;
    use wire::lldp::{ChassisId, PortId};
    use wire::mac::MacAddr;

    #[test]
    fn a_neighbor_cannot_fill_the_journal() {
        let mut limit = EventLimit::default();
        let mut allowed = |s: u64, events: u32| {
            let now = Duration::from_secs(s);
            (0..events).filter(|_| limit.allows(now)).count()
        };
        assert_eq!([allowed(1, 100), allowed(2, 100), allowed(2, 1), allowed(12, 100)], [20, 1, 0, 10]);
        assert_eq!(allowed(10_000, 100), 20);
        assert_eq!(limit.left_out, 80 + 99 + 1 + 90 + 80);
    }

    /// Neither kind of event takes the room of the other.
    #[test]
    fn neighbors_do_not_crowd_out_negotiation() {
        let mut limits = EventLimits::default();
        let id = NeighborId { chassis: ChassisId::mac(MacAddr::default()), port: PortId::interface("eth0") };
        let (changed, version) = (Event::NeighborChanged(id), Event::VersionChanged(Version::Cee));
        let mut allowed = |event: &Event| (0..100).filter(|_| limits.allows(Duration::ZERO, event)).count();
        assert_eq!([allowed(&changed), allowed(&version), allowed(&changed)], [20, 20, 0]);
        assert_eq!(limits.left_out(), 260);
    }

    #[test]
    fn events_name_the_neighbor() {
        let chassis = ChassisId::mac(MacAddr([2, 0, 0, 0, 0, 1]));
        let id = NeighborId { chassis, port: PortId::interface("eth0") };
        for event in [
            Event::NeighborAdded(id.clone()),
            Event::NeighborChanged(id.clone()),
            Event::NeighborLost(id.clone(), NeighborLoss::Expired),
            Event::TooManyNeighbors(id.clone()),
        ] {
            let message = describe(&event).message;
            assert!(message.contains("02:00:00:00:00:01 port eth0"), "{message}");
        }
    }
}
