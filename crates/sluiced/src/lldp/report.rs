//! LLDP of a port as messages of the control API.

use std::time::Duration;

use control::v1;
use dcbx::lldp::Neighbor;
use dcbx::settings::Version;
use wire::lldp::Lldpdu;
use wire::lldp::organization::Standard;

use crate::lldp::port::PortAgent;

/// Returns the state and the counters of a port; `lost_frames` were lost on the way to its agent.
pub(super) fn state(port: &PortAgent, lost_frames: u64) -> v1::Lldp {
    let counters = port.agent.counters();
    v1::Lldp {
        mode: port.mode.name().to_owned(),
        neighbors: port.agent.neighbors().count() as u32,
        too_many_neighbors: port.agent.has_too_many_neighbors(),
        sent_frames: counters.tx_frames.saturating_sub(port.failed_frames),
        failed_frames: port.failed_frames,
        omitted_tlvs: counters.tx_omitted_tlvs,
        lost_frames,
        read_frames: counters.rx_frames,
        malformed_frames: counters.rx_malformed_frames,
        own_frames: counters.rx_own_frames,
        excess_frames: counters.rx_excess_neighbors,
        malformed_tlvs: counters.rx_malformed_tlvs,
        unrecognized_tlvs: counters.rx_unrecognized_tlvs,
        malformed_dcbx: counters.rx_malformed_dcbx,
        neighbors_added: counters.neighbors_added,
        neighbors_shut_down: counters.neighbors_shut_down,
        neighbors_aged_out: counters.neighbors_aged_out,
        events_lost: port.events_lost(),
        last_error: port.agent.last_error().map(|(_, error)| error.to_string()),
    }
}

/// Returns what a port advertises and its neighbors; name and interface are left empty.
pub(super) fn port(port: &PortAgent, now: Duration, lost_frames: u64) -> v1::LldpPort {
    v1::LldpPort {
        state: Some(state(port, lost_frames)),
        local: Some(system(port.agent.advertised())),
        neighbors: port.agent.neighbors().map(|it| neighbor(it, now)).collect(),
        ..v1::LldpPort::default()
    }
}

fn neighbor(neighbor: &Neighbor, now: Duration) -> v1::LldpNeighbor {
    let Neighbor { src, lldpdu, dcbx, since, changed, expires } = neighbor;
    let sent = [Version::Ieee, Version::Cee, Version::Cin].into_iter().filter(|it| dcbx.sends(*it));
    v1::LldpNeighbor {
        system: Some(system(lldpdu)),
        source: src.to_string(),
        known_ns: nanos(now.saturating_sub(*since)),
        unchanged_ns: nanos(now.saturating_sub(*changed)),
        expires_ns: nanos(expires.saturating_sub(now)),
        dcbx: sent.map(|version| version.to_string()).collect(),
    }
}

/// Returns the contents of a frame.
fn system(lldpdu: &Lldpdu) -> v1::LldpSystem {
    let capability = |(name, enabled): (&str, bool)| v1::LldpCapability { name: name.to_owned(), enabled };
    let mut system = v1::LldpSystem {
        chassis_id_type: lldpdu.chassis.type_name().to_owned(),
        chassis_id: lldpdu.chassis.to_string(),
        port_id_type: lldpdu.port.type_name().to_owned(),
        port_id: lldpdu.port.to_string(),
        ttl_s: lldpdu.ttl_s.into(),
        port_description: lldpdu.port_description.clone(),
        system_name: lldpdu.system_name.clone(),
        system_description: lldpdu.system_description.clone(),
        capabilities: lldpdu.capabilities.iter().flat_map(|it| it.names()).map(capability).collect(),
        management_addresses: lldpdu.management.iter().map(ToString::to_string).collect(),
        ..v1::LldpSystem::default()
    };
    for tlv in lldpdu.organization.iter().filter_map(|tlv| tlv.standard()?.ok()) {
        match tlv {
            Standard::PortVlan(vid) => system.port_vlan = Some(vid.into()),
            Standard::MaxFrameSize(bytes) => system.max_frame_bytes = Some(bytes.into()),
            Standard::LinkAggregation { status, .. } => system.link_aggregated = Some(status & 2 != 0),
        }
    }
    system
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
