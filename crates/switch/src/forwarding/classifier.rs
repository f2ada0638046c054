//! Classification: which 802.1p priority, queue and drop level a received frame has.
//!
//! Rule: the port trusts one field of the frame. A frame without that field has the port priority.
//! - trust dot1p: the PCP of the outermost tag is the priority;
//! - trust DSCP: the map DSCP → dot1p gives the priority from the DSCP of an IPv4 or IPv6 packet
//!   (behind up to two tags);
//! - trust tunnel-dot1p: the PCP of the frame inside a VXLAN packet, if that has a tag; else the
//!   outermost tag's, as with trust dot1p;
//! - no trust: the port priority.
//!
//! A frame of a port whose peer has a queue for each priority has the priority of its queue.
//!
//! The priority selects the priority group, and so what PFC pauses. The map dot1p → local
//! precedence selects the queue, unless the map DSCP → local precedence has an entry for the
//! trusted DSCP. The policy, which matches the PCP of a tagged frame, overrides both. A unicast
//! frame to an unknown destination, and one to a group address, goes to the queue of a separate
//! map, if there is one. The drop level comes from the map of the trusted field, or from the tag's
//! DEI where that is higher.
//!
//! ```text
//!              trust dot1p: PCP ─────────────┐
//! frame ─▶     trust DSCP: DSCP ─▶ dot1p ────┼─▶ priority ─▶ local precedence (queue)
//!              none of it: port priority ────┘               ▲
//!                                                            DSCP → local precedence, then policy
//! ```
//! Source: docs/behavior.md, "Classification"; docs/references.md, "H3C reference" (Packet
//! priority-to-queue mappings), "H3C white paper" (ETS: the policy wins over the map) and "Huawei
//! PFC" (table 3-1, unknown unicast); IEEE 802.1Q-2022 6.9.3, 8.6.6.

use crate::fifo_set::FifoSet;
use crate::frame::meta::QosClass;
use crate::settings::{ClassifySettings, DSCPS, DropLevel, LldpFrames, PRIORITIES, PortSettings, Trust};
use serde::{Deserialize, Serialize};
use serde_big_array::Array;
use wire::bitset::Set8;
use wire::ethernet::NO_TAG;
use wire::ip::DsField;
use wire::tunnel;

/// One port's classifier: a precomputed class for every input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Classifier {
    /// Class by PCP · 2 + DEI of the frame's tag, then of untagged frames ([`NO_TAG`]), then by the
    /// priority of the queue that a frame was received from ([`of_rx_queue`]).
    by_tag: Array<QosClass, TAG_CLASSES>,
    packets: DscpTrust,
    policy: [Option<u8>; PRIORITIES],
    dei_drop_level: DropLevel,
    /// What becomes of LLDP frames.
    lldp: LldpFrames,
}

/// Entries of [`Classifier::by_tag`].
const TAG_CLASSES: usize = NO_TAG as usize + 1 + PRIORITIES;

/// Returns what [`Classifier::by_tag`] has for a frame that was received from the queue of this
/// priority, whatever its tag.
#[inline]
pub fn of_rx_queue(priority: u8) -> u8 {
    NO_TAG + 1 + (priority & 7)
}

/// Field of an IP packet that is trusted.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum DscpTrust {
    /// No field.
    Ignored,
    /// The DSCP.
    Dscp(Box<Array<QosClass, DSCPS>>),
    /// The tag of the inner frame, if the packet is VXLAN.
    Tunnel,
}

impl Classifier {
    /// Makes the classifier of a port with these settings.
    pub fn new(settings: &ClassifySettings) -> Self {
        let of_port = priority_only(settings, settings.port_priority, DropLevel::Green);
        #[expect(clippy::indexing_slicing, reason = "tables of the settings, by their own positions")]
        let by_tag = std::array::from_fn(|n| {
            if n == usize::from(NO_TAG) {
                return of_port;
            }
            if n > usize::from(NO_TAG) {
                return priority_only(settings, (n - usize::from(of_rx_queue(0))) as u8, DropLevel::Green);
            }
            let (pcp, dei) = (n / 2, n % 2 == 1);
            let class = match settings.trust {
                Trust::Dot1p | Trust::TunnelDot1p => {
                    priority_only(settings, pcp as u8, settings.dot1p_to_drop_level[pcp])
                }
                Trust::Dscp | Trust::None => of_port,
            };
            with_tag(class, (pcp, dei), &settings.policy, settings.dei_drop_level)
        });
        #[expect(clippy::indexing_slicing, reason = "tables of the settings, by their own positions")]
        let by_dscp = |dscp: usize| {
            let priority = settings.dscp_to_dot1p[dscp];
            let class = priority_only(settings, priority, settings.dscp_to_drop_level[dscp]);
            QosClass { queue: settings.dscp_to_queue[dscp].unwrap_or(class.queue) & 7, ..class }
        };
        let packets = match settings.trust {
            _ if settings.queue_is_priority => DscpTrust::Ignored,
            Trust::Dscp => DscpTrust::Dscp(Box::new(Array(std::array::from_fn(by_dscp)))),
            Trust::TunnelDot1p => DscpTrust::Tunnel,
            Trust::Dot1p | Trust::None => DscpTrust::Ignored,
        };
        let (policy, dei_drop_level) = (settings.policy, settings.dei_drop_level);
        Self { by_tag: Array(by_tag), packets, policy, dei_drop_level, lldp: LldpFrames::Drop }
    }

    /// Makes the classifier of a port.
    pub fn of_port(settings: &PortSettings) -> Self {
        Self { lldp: settings.lldp, ..Self::new(&settings.classify) }
    }

    /// Returns what becomes of LLDP frames.
    pub fn lldp(&self) -> LldpFrames {
        self.lldp
    }

    /// Returns the class of a frame whose outer tag has this PCP · 2 + DEI; [`NO_TAG`] if it is
    /// untagged, [`of_rx_queue`] if it was received from the queue of a priority.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "the tag is at most the last class")]
    pub fn by_tag(&self, pcp_and_dei: u8) -> QosClass {
        self.by_tag[usize::from(pcp_and_dei).min(TAG_CLASSES - 1)]
    }

    /// Returns the class of an IP packet in such a frame, where a packet field is trusted: by this
    /// DSCP, or by the tag inside a tunnel. `field` is the offset of the packet's DSCP in the
    /// frame's `bytes`.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "six bits, 64 classes")]
    pub fn by_packet(&self, dscp: u8, pcp_and_dei: u8, bytes: &[u8], field: DsField) -> Option<QosClass> {
        let class = match &self.packets {
            DscpTrust::Ignored => return None,
            DscpTrust::Tunnel => return self.by_tunnel(bytes, field),
            DscpTrust::Dscp(classes) => classes[usize::from(dscp & 0x3f)],
        };
        Some(match pcp_and_dei {
            NO_TAG => class,
            tag => {
                let tag = (usize::from(tag >> 1), tag & 1 != 0);
                with_tag(class, tag, &self.policy, self.dei_drop_level)
            }
        })
    }

    #[cold]
    fn by_tunnel(&self, bytes: &[u8], field: DsField) -> Option<QosClass> {
        let tag = tunnel::vxlan_inner_tag(bytes.get(field.packet_at()..)?, field.version())?;
        Some(self.by_tag(tag))
    }
}

/// Returns the class that follows from a priority alone.
#[expect(clippy::indexing_slicing, reason = "three bits, eight queues")]
fn priority_only(settings: &ClassifySettings, priority: u8, drop_level: DropLevel) -> QosClass {
    let priority = priority & 7;
    let queue = settings.dot1p_to_queue[usize::from(priority)] & 7;
    QosClass { priority, queue, drop_level, flooded: false }
}

/// Applies the tag of a frame to its class: the policy, and the drop eligible indicator.
#[inline]
#[expect(clippy::indexing_slicing, reason = "three bits, eight priorities")]
fn with_tag(
    class: QosClass,
    (pcp, dei): (usize, bool),
    policy: &[Option<u8>; PRIORITIES],
    dei_drop_level: DropLevel,
) -> QosClass {
    let queue = policy[pcp & 7].map_or(class.queue, |queue| queue & 7);
    let drop_level = if dei { class.drop_level.max(dei_drop_level) } else { class.drop_level };
    QosClass { queue, drop_level, ..class }
}

/// Returns the FIFOs that frames of each priority may be in on a port with these settings, if
/// flooded frames have queues by these maps. A pause of the priority stops these FIFOs.
#[expect(clippy::indexing_slicing, reason = "by priority, 0 to 7")]
pub fn fifos_of_priorities(
    settings: &ClassifySettings,
    flood_maps: &[[u8; PRIORITIES]],
) -> [FifoSet; PRIORITIES] {
    let mut queues = [Set8::EMPTY; PRIORITIES];
    let classifier = Classifier::new(settings);
    let by_dscp = match &classifier.packets {
        DscpTrust::Dscp(classes) => &classes[..],
        DscpTrust::Ignored | DscpTrust::Tunnel => &[],
    };
    let tags = if settings.queue_is_priority { TAG_CLASSES } else { usize::from(of_rx_queue(0)) };
    for class in classifier.by_tag.iter().take(tags).chain(by_dscp) {
        queues[usize::from(class.priority)].set(class.queue.into(), true);
    }
    std::array::from_fn(|priority| {
        // A priority that no frame can have here still refers to its queue.
        if queues[priority].is_empty() {
            queues[priority].set(settings.dot1p_to_queue[priority].into(), true);
        }
        let known = queues[priority].into_iter().map(|queue| FifoSet::of(queue, false));
        let flooded = flood_maps.iter().map(|map| FifoSet::of(map[priority].into(), true));
        known.chain(flooded).fold(FifoSet::EMPTY, FifoSet::with)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use DropLevel::{Green, Red, Yellow};
    use wire::ethernet::{
        EXPERIMENTAL, Header, IPV4, IPV6, SERVICE_VLAN, TAG_BYTES, Tag, VLAN, write_header,
    };
    use wire::mac::MacAddr;

    /// Makes a frame with these tags (outermost first) around an IPv4 or IPv6 packet of this DSCP,
    /// or around neither.
    fn frame(tags: &[Tag], ethertype: u16, dscp: u8) -> Vec<u8> {
        let mut frame = vec![0; 80];
        let (first, rest) = match tags {
            [] => (None, &[][..]),
            [first, rest @ ..] => (Some(*first), rest),
        };
        let type_of = rest.first().map_or(ethertype, |tag| tag.tpid);
        let mut at = write_header(&mut frame, MacAddr([2; 6]), MacAddr([4; 6]), first, type_of);
        for (n, tag) in rest.iter().enumerate() {
            let next = rest.get(n + 1).map_or(ethertype, |tag| tag.tpid);
            let tci = u16::from(tag.pcp) << 13 | u16::from(tag.dei) << 12 | tag.vid;
            frame[at..at + 2].copy_from_slice(&tci.to_be_bytes());
            frame[at + 2..at + 4].copy_from_slice(&next.to_be_bytes());
            at += TAG_BYTES;
        }
        match ethertype {
            IPV4 => frame[at..at + 2].copy_from_slice(&[0x45, dscp << 2 | 2]),
            IPV6 => frame[at..at + 2].copy_from_slice(&[0x60 | dscp >> 2, dscp << 6 | 0x20]),
            _ => {}
        }
        frame
    }

    fn tag(tpid: u16, pcp: u8, dei: bool) -> Tag {
        Tag { tpid, pcp, dei, vid: 7 }
    }

    fn classify(settings: &ClassifySettings, frame: &[u8]) -> (u8, u8, DropLevel) {
        let header = Header::parse(frame).expect("a whole header");
        let tag = header.outer.map_or(NO_TAG, |tag| tag.pcp * 2 + u8::from(tag.dei));
        let classifier = Classifier::new(settings);
        let field = DsField::find_at(frame, header.ethertype, header.payload_offset as u8);
        let by_packet =
            field.and_then(|field| classifier.by_packet(field.octet(frame) >> 2, tag, frame, field));
        let class = by_packet.unwrap_or(classifier.by_tag(tag));
        (class.priority, class.queue, class.drop_level)
    }

    /// A port with a queue for each priority trusts that alone: no tag, DSCP or policy changes it.
    #[test]
    fn the_rx_queue_overrides_the_headers() {
        let settings = ClassifySettings {
            trust: Trust::Dscp,
            queue_is_priority: true,
            port_priority: 6,
            policy: [Some(5); PRIORITIES],
            ..ClassifySettings::default()
        };
        let packet = frame(&[tag(VLAN, 1, true)], IPV4, 46);
        let field = DsField::find_at(&packet, IPV4, 18).expect("an IPv4 packet");
        let classifier = Classifier::new(&settings);
        assert_eq!(classifier.by_packet(46, 3, &packet, field), None);
        for (priority, queue) in [2, 0, 1, 3, 4, 5, 6, 7].into_iter().enumerate() {
            let class = classifier.by_tag(of_rx_queue(priority as u8));
            assert_eq!((class.priority, class.queue, class.drop_level), (priority as u8, queue, Green));
        }
    }

    /// The default map 2,0,1,3,4,5,6,7 for every PCP, single and double tagged, IP or not; the port
    /// priority for all untagged frames, and for all frames where nothing is trusted.
    #[test]
    fn trust_dot1p_and_no_trust() {
        let queues = [2, 0, 1, 3, 4, 5, 6, 7];
        for pcp in 0..8 {
            let dot1p = ClassifySettings { port_priority: 6, ..ClassifySettings::default() };
            let none = ClassifySettings { trust: Trust::None, ..dot1p.clone() };
            let single = [tag(VLAN, pcp, false)];
            let double = [tag(SERVICE_VLAN, pcp, false), tag(VLAN, 7 - pcp, false)];
            for ethertype in [EXPERIMENTAL, IPV4, IPV6] {
                for tags in [&single[..], &double] {
                    let expected = (pcp, queues[usize::from(pcp)], Green);
                    assert_eq!(
                        classify(&dot1p, &frame(tags, ethertype, 46)),
                        expected,
                        "the outer tag counts"
                    );
                    assert_eq!(classify(&none, &frame(tags, ethertype, 46)), (6, 6, Green));
                }
                assert_eq!(classify(&dot1p, &frame(&[], ethertype, 46)), (6, 6, Green));
                assert_eq!(classify(&none, &frame(&[], ethertype, 46)), (6, 6, Green));
            }
        }
    }

    /// Every DSCP, IPv4 and IPv6, without tag, with one and with two: DSCP / 8 is the priority by
    /// default.
    #[test]
    fn trust_dscp() {
        let settings =
            ClassifySettings { trust: Trust::Dscp, port_priority: 4, ..ClassifySettings::default() };
        let queues = [2, 0, 1, 3, 4, 5, 6, 7];
        let tags = [tag(SERVICE_VLAN, 1, false), tag(VLAN, 2, false)];
        for dscp in 0..64 {
            let expected = (dscp / 8, queues[usize::from(dscp / 8)], Green);
            for ethertype in [IPV4, IPV6] {
                for count in 0..=2 {
                    let frame = frame(&tags[..count], ethertype, dscp);
                    assert_eq!(classify(&settings, &frame), expected, "DSCP {dscp}, {count} tags");
                }
            }
        }
        assert_eq!(
            classify(&settings, &frame(&tags, EXPERIMENTAL, 0)),
            (4, 4, Green),
            "no IP: port priority"
        );
        let mut truncated = frame(&[], IPV4, 46);
        truncated.truncate(15);
        assert_eq!(classify(&settings, &truncated), (4, 4, Green), "no whole DSCP field");
        let mut wrong = frame(&[], IPV4, 46);
        wrong[14] = 0x65; // IPv6 version field under the ethertype of IPv4
        assert_eq!(classify(&settings, &wrong), (4, 4, Green));
    }

    #[test]
    fn own_maps_of_dscp() {
        let mut settings = ClassifySettings { trust: Trust::Dscp, ..ClassifySettings::default() };
        settings.dscp_to_dot1p[26] = 5;
        settings.dscp_to_queue[48] = Some(2);
        settings.dscp_to_drop_level[28] = Yellow;
        for (dscp, expected) in [
            (26, (5, 5, Green)),  // through the priority to its queue
            (48, (6, 2, Green)),  // priority and queue by separate maps
            (28, (3, 3, Yellow)), // drop level
            (27, (3, 3, Green)),  // untouched
        ] {
            assert_eq!(classify(&settings, &frame(&[], IPV4, dscp)), expected, "DSCP {dscp}");
        }
    }

    /// Tagged with PCP 5: the policy sets the queue whatever is trusted, and does not change the
    /// priority.
    #[test]
    fn the_policy_wins_over_the_maps() {
        let mut settings = ClassifySettings { port_priority: 3, ..ClassifySettings::default() };
        settings.policy[5] = Some(1);
        settings.dscp_to_queue[46] = Some(7);
        for (trust, priority) in [(Trust::Dot1p, 5), (Trust::Dscp, 5), (Trust::None, 3)] {
            settings.trust = trust;
            let tagged = frame(&[tag(VLAN, 5, false)], IPV4, 46);
            assert_eq!(classify(&settings, &tagged), (priority, 1, Green), "{trust:?}");
        }
        settings.trust = Trust::Dscp;
        assert_eq!(classify(&settings, &frame(&[], IPV4, 46)), (5, 7, Green), "no tag, no policy");
    }

    /// (map's level, DEI's level, DEI set) → drop level.
    #[test]
    fn drop_levels() {
        for (map, dei_level, dei, expected) in [
            (Green, Green, true, Green),
            (Yellow, Green, false, Yellow),
            (Yellow, Green, true, Yellow),
            (Green, Red, true, Red),
            (Green, Red, false, Green),
            (Red, Yellow, true, Red),
        ] {
            let mut settings = ClassifySettings { dei_drop_level: dei_level, ..ClassifySettings::default() };
            settings.dot1p_to_drop_level[3] = map;
            settings.dscp_to_drop_level[10] = map;
            let tagged = frame(&[tag(VLAN, 3, dei)], IPV4, 10);
            assert_eq!(classify(&settings, &tagged).2, expected, "dot1p {map:?} {dei_level:?} {dei}");
            settings.trust = Trust::Dscp;
            assert_eq!(classify(&settings, &tagged).2, expected, "DSCP {map:?} {dei_level:?} {dei}");
        }
    }

    #[test]
    fn a_pause_stops_every_fifo_that_the_priority_may_be_in() {
        let mut settings = ClassifySettings::default();
        let by_map = [0b100, 0b1, 0b10, 0b1000, 0b1_0000, 0b10_0000, 0b100_0000, 0b1000_0000];
        let known = |settings: &ClassifySettings| {
            fifos_of_priorities(settings, &[]).map(|fifos| {
                assert!(fifos.flooded().is_empty());
                fifos.known().bits()
            })
        };
        assert_eq!(known(&settings), by_map);
        settings.policy[3] = Some(6);
        assert_eq!(known(&settings)[3], 0b100_0000);
        settings.policy[3] = None;
        (settings.trust, settings.dscp_to_queue[46]) = (Trust::Dscp, Some(0));
        assert_eq!(known(&settings)[5], 0b10_0001);
        let unknown = &[crate::settings::UNKNOWN_UNICAST_TO_QUEUE];
        let expected = FifoSet::of(3, false).with(FifoSet::of(1, true));
        assert_eq!(fifos_of_priorities(&settings, unknown)[3], expected);
    }
}
