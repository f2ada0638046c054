//! Choice of one of several equal paths, frame by frame.
//!
//! Rule: a switch has for each host all ports at which a shortest path starts. Of several,
//! - `flow` takes the one that a hash of header fields selects, by default of the addresses, the
//!   protocol and the UDP ports, so that the frames of a flow keep their order. Each switch has
//!   another hash function, derived from the scenario's seed, as a fabric that avoids hash
//!   polarization configures them; switches with the same `hash_seed` have the same function;
//! - `spray` takes them in turn;
//! - `adaptive` takes the one whose queues hold the fewest cells, and of equal ones the next in
//!   turn. It takes a port that is down only if all are, before routes have converged, too.
//!
//! `spray` and `adaptive` reorder frames. Sources: ECMP, RFC 2992; packet spraying, A. Dixit et
//! al., "On the impact of packet spraying in data center networks" (INFOCOM 2013); shortest queue,
//! S. Ghorbani et al., "DRILL" (SIGCOMM 2017).
//!
//! The switch looks up addresses, so a received frame is addressed to a port of the switch. It gets
//! its destination back when it arrives at the next node.

use wire::mac::MacAddr;

use super::Routes;
use crate::packet::{
    CARRIED_BYTES, destination_node, host_mac, host_number, missing_tag_bytes, queue_pair, vid_of,
};
use crate::scenario::types::{HashFields, Multipath};

/// First bytes of the addresses that stand for ports.
const PORT_PREFIX: [u8; 2] = [2, 2];

/// The choices of one switch.
#[derive(Debug)]
pub(crate) struct PathChooser {
    kind: Multipath,
    key: u64,
    /// By host, a node: the ports, as a mask.
    choices: Vec<u64>,
    turn: u32,
}

impl PathChooser {
    /// Creates the choices of the switch of node `node`; `None` if it needs none.
    pub(crate) fn new(kind: Multipath, seed: u64, node: usize) -> Option<Self> {
        let own = key_of(seed, node);
        let key = match kind {
            Multipath::Flow(hash) => hash.seed.map_or(own, shared_key),
            _ => own,
        };
        (kind != Multipath::Receiver).then(|| Self { kind, key, choices: Vec::new(), turn: key as u32 })
    }

    /// Sets the ports for all hosts, of `nodes` nodes.
    pub(crate) fn set_routes(&mut self, switch: usize, nodes: usize, routes: &Routes) {
        self.choices = vec![0; nodes];
        routes.hosts().iter().for_each(|&host| self.choices[host] = routes.choices(switch, host));
    }

    /// Sets the port for one host.
    pub(crate) fn set_route(&mut self, host: usize, port: usize) {
        self.choices[host] = 1 << port;
    }

    /// Addresses a received frame to the port by which it is to leave. `queued` returns the cells
    /// that the queues of a port hold; the most for a port that is down.
    #[inline]
    pub(crate) fn direct(&mut self, bytes: &mut [u8; CARRIED_BYTES], queued: impl Fn(usize) -> u32) {
        let Some(host) = host_number(bytes) else { return };
        let ports = self.choices.get(host).copied().unwrap_or(0);
        if ports == 0 {
            return;
        }
        let port = match (ports.count_ones(), self.kind) {
            (1, _) | (_, Multipath::Receiver) => ports.trailing_zeros(),
            (count, Multipath::Flow(hash)) => nth_bit(ports, flow_hash(bytes, hash.fields, self.key, count)),
            (count, Multipath::Spray) => nth_bit(ports, self.next_turn() % count),
            (count, Multipath::Adaptive) => {
                let first = self.next_turn() % count;
                let in_turn = (0..count).map(|number| nth_bit(ports, (first + number) % count));
                in_turn.min_by_key(|port| queued(*port as usize)).unwrap_or(0)
            }
        };
        bytes[..6].copy_from_slice(&port_address(port as usize).0);
    }

    fn next_turn(&mut self) -> u32 {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }
}

/// Returns the address that stands for a port of a switch.
pub(crate) fn port_address(port: usize) -> MacAddr {
    let [a, b] = PORT_PREFIX;
    MacAddr([a, b, 0, 0, 0, port as u8])
}

/// Gives a frame that arrives its destination back, if a switch addressed it to one of its ports.
#[inline]
pub(crate) fn restore(bytes: &mut [u8; CARRIED_BYTES]) {
    if bytes[..2] == PORT_PREFIX {
        let host = destination_node(bytes);
        bytes[..6].copy_from_slice(&host_mac(host).0);
    }
}

/// Returns a number below `count`, the same for all frames with the same values of these fields.
pub(crate) fn flow_hash(
    bytes: &[u8; CARRIED_BYTES],
    HashFields(fields): HashFields,
    key: u64,
    count: u32,
) -> u32 {
    const PROTOCOL: usize = 27;
    const ADDRESSES: usize = 30;
    const UDP_PORTS: usize = 38;
    /// Bits of the fields in front of the IP header and behind UDP.
    const OTHERS: u16 = 0b1_1110_0000;
    let [protocol, addresses, ports] =
        [PROTOCOL, ADDRESSES, UDP_PORTS].map(|at| at - missing_tag_bytes(bytes));
    let mask = |field: u32, bits: u64| if fields & 1 << field == 0 { 0 } else { bits };
    let addresses: [u8; 8] = *bytes[addresses..].first_chunk().expect("they are stored");
    let addresses = u64::from_be_bytes(addresses) & (mask(0, u64::MAX << 32) | mask(1, u64::MAX >> 32));
    let ports: [u8; 4] = *bytes[ports..].first_chunk().expect("they are stored");
    let rest = u64::from(bytes[protocol]) << 32 | u64::from(u32::from_be_bytes(ports));
    let rest = rest & (mask(2, 0xff << 32) | mask(3, 0xffff_0000) | mask(4, 0xffff));
    let mut hash = mix(mix(key ^ addresses) ^ rest);
    if fields & OTHERS != 0 {
        let mac = |at: usize| bytes[at..at + 6].iter().fold(0, |mac, byte| mac << 8 | u64::from(*byte));
        let vid = u64::from(vid_of(bytes).unwrap_or(0)) << 24;
        hash = mix(hash ^ mac(6) & mask(5, u64::MAX));
        hash = mix(hash ^ mac(0) & mask(6, u64::MAX));
        hash = mix(hash ^ vid & mask(7, u64::MAX) ^ u64::from(queue_pair(bytes)) & mask(8, u64::MAX));
    }
    (((hash >> 32) * u64::from(count)) >> 32) as u32
}

/// Returns the port that a hash of a flow's number selects, of `count`. Its UDP source port and its
/// queue pair are made of that number.
#[inline]
pub(crate) fn bond_port(flow: u32, key: u64, count: usize) -> usize {
    (((mix(key ^ u64::from(flow)) >> 32) * count as u64) >> 32) as usize
}

/// Returns the key of the hash function of all switches with this `hash_seed`. With the default
/// seed of a run no switch has the same one as its own.
fn shared_key(hash_seed: u64) -> u64 {
    const SHARED: u64 = 1 << 63; // no node has such a number
    mix(mix(hash_seed | SHARED))
}

/// Returns the key of the hash function of a node, in a run with this seed.
pub(crate) fn key_of(seed: u64, node: usize) -> u64 {
    mix(seed ^ mix(node as u64 + 1))
}

/// The finalizer of SplitMix64, a permutation of 64 bits. Source: G. Steele, D. Lea and C. Flood,
/// "Fast splittable pseudorandom number generators" (OOPSLA 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// Returns the position of bit number `number`, from 0, of those that are set.
fn nth_bit(mut mask: u64, number: u32) -> u32 {
    (0..number).for_each(|_| mask &= mask - 1);
    mask.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Packet, PacketHeaders, destination};

    fn frame(flow: usize, from: usize, dscp: u8) -> Packet {
        Packet::data(&PacketHeaders {
            flow,
            from,
            to: 99,
            vids: [0, 0],
            priority: 3,
            dscp,
            ecn: 2,
            len: 1000,
        })
    }

    /// Balls into bins: n flows on k ports use k (1 − (1 − 1/k)ⁿ) of them on average.
    #[test]
    #[cfg_attr(miri, ignore = "statistics of hundreds of thousands of hashes")]
    fn flows_fall_on_ports_as_balls_into_bins() {
        for (flows, ports) in [(4u32, 4u32), (8, 4), (16, 16), (64, 32)] {
            let runs = 4000;
            let used: u32 = (0..runs)
                .map(|seed| {
                    let of = |flow: u32| {
                        flow_hash(
                            &frame(flow as usize, flow as usize, 0).bytes,
                            HashFields::DEFAULT,
                            mix(seed),
                            ports,
                        )
                    };
                    (0..flows).fold(0u64, |mask, flow| mask | 1 << of(flow)).count_ones()
                })
                .sum();
            let (n, k) = (f64::from(flows), f64::from(ports));
            let expected = k * (1.0 - (1.0 - 1.0 / k).powf(n));
            let mean = f64::from(used) / runs as f64;
            // Four standard errors of the mean; the variance is below k / 4.
            assert!((mean - expected).abs() < 4.0 * (k / 4.0 / runs as f64).sqrt(), "{mean}, {expected}");
        }
    }

    #[test]
    fn a_flow_keeps_its_port_whatever_its_number_dscp_and_marks() {
        let mut one = frame(7, 3, 0);
        let port = flow_hash(&one.bytes, HashFields::DEFAULT, 1, 16);
        one.set_number(12345, 1);
        let mut other = frame(7, 3, 46);
        other.bytes[19] |= 3;
        assert_eq!([one, other].map(|frame| flow_hash(&frame.bytes, HashFields::DEFAULT, 1, 16)), [port; 2]);
        let mut untagged = frame(7, 3, 0);
        wire::ethernet::pop_tag(&mut untagged.bytes);
        assert_eq!(flow_hash(&untagged.bytes, HashFields::DEFAULT, 1, 16), port);
        let ports: Vec<u32> =
            (0..32).map(|flow| flow_hash(&frame(flow, 3, 0).bytes, HashFields::DEFAULT, 1, 16)).collect();
        assert!(ports.iter().any(|other| *other != ports[0]), "flows of two hosts spread too: {ports:?}");
    }

    /// With the default seed of a run, no `hash_seed` gives the function of a switch's own.
    #[test]
    fn a_shared_hash_function_is_no_switch_s_own() {
        let own: Vec<u64> = (0..4096).map(|node| key_of(0, node)).collect();
        assert!((0..4200).all(|seed| !own.contains(&shared_key(seed))));
    }

    /// A hash of one field depends on that field and on no other.
    #[test]
    fn each_field_is_hashed_alone() {
        use crate::scenario::types::HASH_FIELDS;
        let last_bytes = [33, 37, 27, 39, 41, 11, 5, 15, 53];
        assert_eq!(last_bytes.len(), HASH_FIELDS.len());
        let frame = frame(7, 3, 0);
        let hash = |bytes: &[u8; CARRIED_BYTES], field: usize| {
            flow_hash(bytes, HashFields(1 << field), mix(1), u32::MAX)
        };
        for (field, name) in HASH_FIELDS.iter().enumerate() {
            for (other, at) in last_bytes.into_iter().enumerate() {
                let mut bytes = frame.bytes;
                bytes[at] ^= 1;
                assert_eq!(
                    hash(&bytes, field) != hash(&frame.bytes, field),
                    field == other,
                    "{name}, byte {at}"
                );
            }
        }
    }

    #[test]
    fn a_frame_gets_its_destination_back() {
        let mut chooser = PathChooser::new(Multipath::Adaptive, 1, 0).expect("it chooses");
        chooser.choices = vec![0; 100];
        chooser.choices[99] = 0b1011_0000;
        let mut packet = frame(0, 3, 0);
        let queued = |port: usize| if port == 5 { 1 } else { 2 };
        chooser.direct(&mut packet.bytes, queued);
        assert_eq!(packet.bytes[..6], port_address(5).0);
        restore(&mut packet.bytes);
        assert_eq!(destination(&packet.bytes), host_mac(99));
        let used = (0..6).map(|_| {
            chooser.direct(&mut packet.bytes, |_| 0);
            let port = packet.bytes[5];
            restore(&mut packet.bytes);
            port
        });
        let mut used: Vec<u8> = used.collect();
        used.sort_unstable();
        assert_eq!(used, [4, 4, 5, 5, 7, 7], "equal ones take turns");
    }
}
