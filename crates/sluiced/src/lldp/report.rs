//! LLDP of a port as messages of the control API.

use std::time::Duration;

use control::v1;
use dcbx::lldp::Neighbor;
use dcbx::settings::Version;
use dcbx::status::{Feature, FeatureName, PeerState, Status, priorities_text};
use wire::dcbx::ieee::{Application, Selector};
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

/// Returns a negotiation, with its configurations as text.
pub(super) fn dcbx(status: &Status) -> v1::Dcbx {
    let pfc = |mask: &u8| priorities_text(*mask);
    let mut features = vec![feature(FeatureName::Pfc, &status.pfc, pfc)];
    features.extend(status.ets.as_ref().map(|ets| feature(FeatureName::Ets, ets, ToString::to_string)));
    features.push(feature(FeatureName::Applications, &status.applications, |list| applications(list)));
    let peer = match status.peer {
        PeerState::Absent => "absent",
        PeerState::One => "present",
        PeerState::Several => "several",
    };
    v1::Dcbx {
        version: status.version.to_string(),
        peer: peer.to_owned(),
        features,
        warnings: Vec::new(), // the control loop knows them
    }
}

fn feature<T>(name: FeatureName, feature: &Feature<T>, text: impl Fn(&T) -> String) -> v1::DcbxFeature {
    v1::DcbxFeature {
        name: name.to_string(),
        state: feature.state.to_string(),
        reason: feature.reason.to_string(),
        willing: feature.local_willing,
        peer_willing: feature.peer_willing,
        local: text(&feature.local),
        peer: feature.peer.as_ref().map(&text),
        operational: text(&feature.operational),
    }
}

/// Formats priorities of applications, as `udp 4791:3`.
fn applications(list: &[Application]) -> String {
    let entry = |it: &Application| match it.selector {
        Selector::Ethertype => format!("0x{:04x}:{}", it.protocol, it.priority),
        Selector::TcpPort => format!("tcp {}:{}", it.protocol, it.priority),
        Selector::UdpPort => format!("udp {}:{}", it.protocol, it.priority),
        Selector::Port => format!("port {}:{}", it.protocol, it.priority),
        Selector::Dscp => format!("dscp {}:{}", it.protocol, it.priority),
        Selector::Reserved(selector) => format!("selector {selector} {}:{}", it.protocol, it.priority),
    };
    let entries: Vec<String> = list.iter().map(entry).collect();
    if entries.is_empty() { "-".to_owned() } else { entries.join(" ") }
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
