//! LLDP frames: the decoders of LLDP and of DCBX in its three versions, and an agent that has
//! agreed with a peer and is sent such frames.
//!
//! Rule: a malformed frame changes nothing, is counted and shown; what was read can be written and
//! read again; everything that came of a frame ends with the times to live.

use core::time::Duration;
use std::sync::OnceLock;

use dcbx::Agent;
use dcbx::settings::{AgentSettings, DcbxSettings, EtsSettings, LldpSettings, LocalSystem};
use dcbx::settings::{Ets, Version, VersionSetting};
use dcbx::status::FeatureReason;
use wire::MacAddr;
use wire::dcbx::cee::STRICT_GROUP;
use wire::dcbx::ieee::{Application, Selector};
use wire::dcbx::{Cee, Cin, Ieee};
use wire::lldp::{OrgTlv, decode};

const VERSIONS: [VersionSetting; 4] = [
    VersionSetting::Auto,
    VersionSetting::Pinned(Version::Ieee),
    VersionSetting::Pinned(Version::Cee),
    VersionSetting::Pinned(Version::Cin),
];

/// Decodes a frame, and sends it to an agent of each version that has agreed with a peer of each.
pub fn run(frame: &[u8]) {
    decode_all(frame);
    static AGENTS: OnceLock<Vec<Agent>> = OnceLock::new();
    let agents = AGENTS.get_or_init(|| {
        let pairs = (0..VERSIONS.len()).flat_map(|own| (1..VERSIONS.len()).map(move |peer| (own, peer)));
        pairs.map(|(own, peer)| agreed(own, peer).0).collect()
    });
    // One agent for a frame, so that a run has time for more frames.
    let sum = frame.iter().fold(frame.len(), |sum, &byte| sum.wrapping_mul(31) + usize::from(byte));
    receive(&agents[sum % agents.len()], frame);
}

/// The frames of each version, and that of an agent that leaves.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = (1..VERSIONS.len()).map(|version| agreed(0, version).1).collect();
    let mut leaving = agent(2, settings(1, false, 1 << 3));
    leaving.poll(seconds(1));
    let own = leaving.settings().clone();
    leaving.configure(seconds(2), own.withdrawn());
    seeds.extend(leaving.poll(seconds(2)).frames);
    seeds
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Reads TLVs in a version: what is read can be written and read again.
fn read_again<T: PartialEq + std::fmt::Debug, E: std::fmt::Debug>(
    tlvs: &[OrgTlv],
    decode: impl Fn(&[OrgTlv]) -> Result<Option<T>, E>,
    encode: impl Fn(&T) -> Vec<OrgTlv>,
) {
    if let Ok(Some(value)) = decode(tlvs) {
        let again = decode(&encode(&value)).expect("what was written can be read");
        assert_eq!(again.as_ref(), Some(&value));
    }
}

fn decode_all(frame: &[u8]) {
    let Ok((src, lldpdu)) = decode(frame) else { return };
    let again = decode(&lldpdu.encode(src).frame).expect("what was written can be read").1;
    assert_eq!((&again.chassis, &again.port, again.ttl_s), (&lldpdu.chassis, &lldpdu.port, lldpdu.ttl_s));
    let tlvs = &lldpdu.organization;
    read_again(tlvs, Ieee::decode, Ieee::encode);
    read_again(tlvs, Cee::decode, |it| vec![it.encode()]);
    read_again(tlvs, Cin::decode, |it| vec![it.encode()]);
}

/// Sends a frame to an agent that has agreed with a peer.
fn receive(agent: &Agent, frame: &[u8]) {
    let mut agent = agent.clone();
    let before = agent.status().expect("it has DCBX").clone();
    let counters = *agent.counters();
    let now = seconds(10);
    agent.receive(now, frame);
    let polled = agent.poll(now);
    assert!(polled.frames.len() <= 1 && polled.next.is_none_or(|next| next > now), "{polled:?}");
    let after = *agent.counters();
    assert_eq!(after.rx_frames, counters.rx_frames + 1);
    if decode(frame).is_err() {
        assert_eq!(after.rx_malformed_frames, counters.rx_malformed_frames + 1, "counted");
        assert_eq!(agent.status(), Some(&before), "changes nothing");
        assert!(agent.last_error().is_some(), "shown");
    }
    // A frame with the agent's own identity is counted and ignored.
    let is_own = after.rx_own_frames > counters.rx_own_frames;
    let is_of_peer = |ttl_s: u16| ttl_s > 0 && agent.neighbors().count() == 1 && !is_own;
    if let Ok((_, lldpdu)) = decode(frame)
        && is_of_peer(lldpdu.ttl_s)
        && is_malformed(before.version, &lldpdu.organization)
    {
        let status = agent.status().expect("it has DCBX");
        assert!(after.rx_malformed_dcbx > counters.rx_malformed_dcbx, "counted");
        assert_eq!(status.operational, before.operational, "changes nothing");
        assert!(matches!(status.pfc.reason, FeatureReason::Malformed(_)), "shown");
    }
    agent.poll(now + seconds(65_536));
    assert_eq!(agent.neighbors().count(), 0, "forgotten");
    assert_eq!(agent.operational().map(|operational| operational.no_drop), Some(0), "forgotten");
}

/// True if the TLVs of a version are malformed.
fn is_malformed(version: Version, tlvs: &[OrgTlv]) -> bool {
    match version {
        Version::Ieee => Ieee::decode(tlvs).is_err(),
        Version::Cee => Cee::decode(tlvs).is_err(),
        Version::Cin => Cin::decode(tlvs).is_err(),
    }
}

/// An end that wants these priorities no-drop.
fn settings(version: usize, willing: bool, no_drop: u8) -> DcbxSettings {
    let mut settings = DcbxSettings { version: VERSIONS[version], ..DcbxSettings::default() };
    (settings.pfc.willing, settings.pfc.no_drop) = (willing, no_drop);
    let ets = Ets {
        group_of_priority: [0, 0, 0, 1, 0, 0, STRICT_GROUP, STRICT_GROUP],
        percent: [50, 50, 0, 0, 0, 0, 0, 0],
    };
    settings.ets = Some(EtsSettings { willing, ets, recommends: true });
    settings.applications.willing = willing;
    let priority = no_drop.trailing_zeros() as u8;
    let roce = Application { selector: Selector::Port, protocol: 4791, priority };
    let fcoe = Application { selector: Selector::Ethertype, protocol: 0x8906, priority };
    settings.applications.entries = vec![fcoe, roce];
    settings
}

fn agent(number: u8, dcbx: DcbxSettings) -> Agent {
    let mac = MacAddr([2, 0, 0, 0, 0, number]);
    let mut agent = Agent::new(AgentSettings {
        system: LocalSystem::bridge(&format!("sw{number}"), mac, "p1"),
        lldp: LldpSettings::default(),
        dcbx: Some(dcbx),
    });
    agent.set_link(seconds(1), true);
    agent
}

/// An agent that has agreed with a peer, and the peer's last frame.
fn agreed(own: usize, version: usize) -> (Agent, Vec<u8>) {
    let mut agent = agent(1, settings(own, true, 1 << 3));
    let mut peer = self::agent(2, settings(version, false, 1 << 4));
    let mut last = Vec::new();
    for step in 0..20 {
        let now = seconds(1) + Duration::from_millis(step * 300);
        for frame in agent.poll(now).frames {
            peer.receive(now, &frame);
        }
        for frame in peer.poll(now).frames {
            agent.receive(now, &frame);
            last = frame;
        }
    }
    (agent, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The corpus has the frames of each version, one of both ends, and one of an agent that
    /// leaves.
    #[test]
    fn the_corpus_has_every_version() {
        let mut versions = [0; 4];
        for frame in crate::corpus::read("lldp") {
            let Ok((_, lldpdu)) = decode(&frame) else { continue };
            let tlvs = &lldpdu.organization;
            versions[0] += usize::from(matches!(Ieee::decode(tlvs), Ok(Some(_))));
            versions[1] += usize::from(matches!(Cee::decode(tlvs), Ok(Some(_))));
            versions[2] += usize::from(matches!(Cin::decode(tlvs), Ok(Some(_))));
            versions[3] += usize::from(lldpdu.ttl_s == 0);
        }
        assert!(versions.iter().all(|&count| count > 0), "{versions:?}");
    }
}
