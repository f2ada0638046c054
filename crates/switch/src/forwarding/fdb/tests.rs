use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const SECOND: Nanos = 1_000_000_000;
/// The most steps of a random sequence. Miri interprets each of them for milliseconds.
const STEPS: usize = if cfg!(miri) { 100 } else { 2000 };

fn mac(n: u32) -> FdbKey {
    let [a, b, c, d] = n.to_be_bytes();
    FdbKey::of(MacAddr([2, 0, a, b, c, d]))
}

#[test]
fn learns_moves_and_forgets() {
    let mut bridge = Fdb::new(&BridgeSettings::default());
    assert_eq!(bridge.lookup(mac(1), Instant(0)), None);
    bridge.learn(mac(1), 3, Instant(0));
    assert_eq!(bridge.lookup(mac(1), Instant(0)), Some(3));
    bridge.learn(mac(1), 4, Instant(10 * SECOND));
    assert_eq!((bridge.lookup(mac(1), Instant(309 * SECOND)), bridge.counts().2), (Some(4), 1));
    assert_eq!(bridge.lookup(mac(1), Instant(311 * SECOND)), None, "300 s after it was last seen");
    for _ in 0..10_000 {
        bridge.age(Instant(311 * SECOND));
    }
    assert_eq!(bridge.counts().0, 0, "and its slot is free again");
}

/// Addresses of two VLANs and ports, one of them static, are read page by page and forgotten by
/// port and VLAN.
#[test]
fn it_is_read_in_pages_and_flushed_by_port_and_vlan() {
    let mut bridge = Fdb::new(&BridgeSettings::default());
    for (n, port, vid) in [(1, 3, 10), (2, 3, 20), (3, 4, 10)] {
        bridge.learn(mac(n).in_vlan(vid), port, Instant(0));
    }
    bridge.set_static(mac(4).in_vlan(10), 3);
    let read = |bridge: &Fdb| {
        let (mut page, mut all, mut pages) = (FdbPage::default(), Vec::new(), 0);
        while !page.is_last {
            bridge.read_page(&mut page, Instant(5 * SECOND));
            all.append(&mut page.entries.clone());
            pages += 1;
        }
        assert_eq!(pages, 32_768 / FdbPage::SLOTS);
        all.sort_by_key(|entry| entry.mac.number());
        all
    };
    let all = read(&bridge);
    let short: Vec<_> =
        all.iter().map(|entry| (entry.mac.0[5], entry.vid, entry.port, entry.is_static)).collect();
    assert_eq!(short, [(1, 10, 3, false), (2, 20, 3, false), (3, 10, 4, false), (4, 10, 3, true)]);
    assert!((4_900_000_000..=5_000_000_000).contains(&all[0].age_ns) && all[3].age_ns == 0, "{all:?}");
    for (port, vid, left) in
        [(Some(3), Some(10), 3), (None, Some(20), 2), (Some(5), None, 2), (None, None, 1)]
    {
        bridge.forget_of(port, vid);
        assert_eq!(read(&bridge).len(), left, "{port:?} {vid:?}");
    }
}

#[test]
fn static_entries_stay() {
    let mut bridge = Fdb::new(&BridgeSettings::default());
    bridge.learn(mac(1), 3, Instant(0));
    bridge.set_static(mac(1), 5);
    bridge.set_static(mac(2), 5);
    bridge.learn(mac(1), 4, Instant(SECOND));
    bridge.forget_port(5);
    for _ in 0..10_000 {
        bridge.age(Instant(1_000_000 * SECOND));
    }
    assert_eq!([mac(1), mac(2)].map(|mac| bridge.lookup(mac, Instant(1_000_000 * SECOND))), [Some(5); 2]);
    bridge.set_static(mac(1), 6);
    assert_eq!((bridge.lookup(mac(1), Instant(0)), bridge.counts()), (Some(6), (2, 0, 0)));
    bridge.forget_static(mac(1));
    bridge.learn(mac(3), 4, Instant(0));
    bridge.forget_static(mac(3));
    let ports = [mac(1), mac(2), mac(3)].map(|mac| bridge.lookup(mac, Instant(0)));
    assert_eq!((ports, bridge.counts().0), ([None, Some(5), Some(4)], 2), "what was learned is none");
}

/// Recounts the table's slots: entries, and learned entries of each port. Every entry is found.
fn recount(fdb: &Fdb) -> (u64, Vec<u64>) {
    let used = || fdb.slots.iter().filter(|entry| !entry.address.is_empty() && entry.is_confirmed());
    for entry in used() {
        assert_eq!(fdb.lookup(entry.address, Instant(0)), Some(entry.port as usize), "{entry:?}");
    }
    let learned =
        |port| used().filter(|entry| entry.seen_tick != STATIC && entry.port == port).count() as u64;
    (used().count() as u64, (0..8).map(learned).collect())
}

#[test]
fn static_entries_displace_learned_ones_in_a_full_table() {
    let mut fdb = Fdb::new(&BridgeSettings { max_entries: 100, ..BridgeSettings::default() });
    for n in 0..150 {
        fdb.learn(mac(n), 0, Instant(0));
    }
    let (_, full, _) = fdb.counts();
    for n in 0..100 {
        fdb.set_static(mac(1000 + n), 1);
        let (entries, learned) = recount(&fdb);
        assert_eq!((entries, learned[0]), (100, 99 - u64::from(n)), "after static entry {n}");
        assert_eq!((fdb.counts(), fdb.port_counts(0).0), ((100, full, 0), learned[0]));
    }
    (0..100).for_each(|n| fdb.forget_static(mac(1000 + n)));
    assert_eq!((fdb.counts().0, fdb.port_counts(0).0), (0, 0));
    fdb.learn(mac(1), 0, Instant(0));
    assert_eq!(fdb.lookup(mac(1), Instant(0)), Some(0), "the port learns again");
}

#[test]
fn a_full_table_learns_no_more_and_counts_it() {
    let mut bridge = Fdb::new(&BridgeSettings { max_entries: 100, ..BridgeSettings::default() });
    for n in 0..150 {
        bridge.learn(mac(n), 0, Instant(0));
    }
    let (entries, full, _) = bridge.counts();
    assert_eq!((entries + full, entries <= 100), (150, true));
    bridge.set_static(mac(1000), 1);
    assert_eq!(
        (bridge.lookup(mac(1000), Instant(0)), bridge.counts().0),
        (Some(1), entries),
        "in place of one"
    );
    assert_eq!(bridge.unreported_full(Instant(0)), Some(full), "an event at once");
    bridge.learn(mac(200), 0, Instant(1));
    assert_eq!(bridge.unreported_full(Instant(SECOND - 1)), None, "no more than one a second");
    assert_eq!(bridge.unreported_full(Instant(SECOND)), Some(1));
    assert_eq!(bridge.unreported_full(Instant(9 * SECOND)), None, "and none that says nothing");
}

/// Addresses that all had one home slot under the constant that hashes were multiplied by before
/// there was a key, and addresses that have one under another key. Under an unknown key nearly all
/// of them are learned.
#[test]
#[cfg_attr(miri, ignore = "statistics of hundreds of thousands of hashes")]
fn addresses_made_up_for_one_key_are_scattered_by_another() {
    let settings = |key| BridgeSettings { max_entries: 1024, key, ..BridgeSettings::default() };
    let table = Fdb::new(&settings(1));
    let mut crafted = (0..).map(mac).filter(|&address| table.slot_of(address) == 7);
    let crafted: Vec<FdbKey> = crafted.by_ref().take(200).collect();
    for (key, learned) in [(1, MAX_PROBES as u64), (2, 200), (0x1234_5678_9abc_def0, 200), (u64::MAX, 200)] {
        let mut bridge = Fdb::new(&settings(key));
        crafted.iter().for_each(|&address| bridge.learn(address, 0, Instant(0)));
        assert_eq!(bridge.counts().0, learned, "with key {key:#x}");
    }
}

/// Peers number their addresses consecutively, or in their upper bytes, or by a stride: collisions
/// must be no more frequent than by chance. Half of the slots' count in addresses leaves 1 − e^-0.5
/// of the slots as homes (39 %).
#[test]
#[cfg_attr(miri, ignore = "statistics of hundreds of thousands of hashes")]
fn whatever_the_key_regular_addresses_spread_evenly() {
    for key in [0, 1, 0x5555_5555_5555_5555, u64::MAX, 0x0123_4567_89ab_cdef] {
        let bridge = Fdb::new(&BridgeSettings { key, ..BridgeSettings::default() });
        let slots = bridge.slots.len();
        for stride in [1_u64, 2, 3, 256, 257, 65_536, 1 << 24, 0x0001_0101] {
            let mut homes: Vec<usize> = (0..slots as u64 / 2)
                .map(|n| bridge.slot_of(FdbKey::of_number((n * stride) & 0xffff_ffff_ffff)))
                .collect();
            homes.sort_unstable();
            homes.dedup();
            let part = homes.len() as f64 / slots as f64;
            assert!(part > 0.37, "key {key:#x}, stride {stride:#x}: {part}");
        }
    }
}

/// One host that is in every VLAN, and few hosts in many: their entries spread as those of many
/// hosts do.
#[test]
#[cfg_attr(miri, ignore = "statistics of hundreds of thousands of hashes")]
fn the_same_address_in_many_vlans_spreads_evenly() {
    for key in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
        let bridge = Fdb::new(&BridgeSettings { max_entries: 4096, key, ..BridgeSettings::default() });
        let slots = bridge.slots.len();
        for hosts in [1, 4] {
            let vids = slots / 2 / hosts as usize;
            let entries = (0..hosts).flat_map(|n| (0..vids as u16).map(move |vid| mac(n).in_vlan(vid)));
            let mut homes: Vec<usize> = entries.map(|address| bridge.slot_of(address)).collect();
            homes.sort_unstable();
            homes.dedup();
            let part = homes.len() as f64 / slots as f64;
            assert!(part > 0.37, "key {key:#x}, {hosts} hosts: {part}");
        }
    }
}

#[test]
fn a_vlan_is_part_of_an_address() {
    let address = FdbKey::of(MacAddr([2, 0, 0, 0, 0, 1]));
    assert_eq!((address.vid(), address.in_vlan(0), address.in_vlan(4095).vid()), (0, address, 4095));
    assert_eq!(address.in_vlan(5).in_vlan(6), address.in_vlan(6));
    let broadcast = FdbKey::of(MacAddr::BROADCAST).in_vlan(7);
    assert!(broadcast.is_broadcast() && broadcast.is_group() && !address.in_vlan(0xfff).is_group());
}

#[test]
fn a_port_with_all_its_addresses_learns_no_more_and_others_do() {
    let settings = BridgeSettings { max_entries: 64, max_entries_per_port: 16, ..BridgeSettings::default() };
    let mut bridge = Fdb::new(&settings);
    for n in 0..20 {
        bridge.learn(mac(n), 0, Instant(0));
        bridge.learn(mac(100 + n), 1, Instant(0));
    }
    assert_eq!([0, 1, 2].map(|port| bridge.port_counts(port)), [(16, 4), (16, 4), (0, 0)]);
    assert_eq!((bridge.counts(), bridge.take_at_limit()), ((32, 0, 0), Set64::of(0).with(Set64::of(1))));
    // The limit is reported once, until the port had room again.
    bridge.learn(mac(20), 0, Instant(0));
    assert_eq!((bridge.port_counts(0), bridge.take_at_limit()), ((16, 5), Set64::EMPTY));
    // An address that moves to a port at its limit is on neither port afterwards.
    bridge.learn(mac(100), 0, Instant(0));
    assert_eq!(bridge.lookup(mac(100), Instant(0)), None);
    assert_eq!([0, 1].map(|port| bridge.port_counts(port)), [(16, 6), (15, 4)]);
    // An address that moves frees its entry; static entries do not count.
    bridge.learn(mac(0), 1, Instant(0));
    (1..4).for_each(|n| bridge.set_static(mac(n), 0));
    assert_eq!([0, 1].map(|port| bridge.port_counts(port)), [(12, 6), (16, 4)]);
    (20..30).for_each(|n| bridge.learn(mac(n), 0, Instant(0)));
    assert_eq!((bridge.port_counts(0), bridge.take_at_limit()), ((16, 12), Set64::of(0)), "reported again");
    bridge.forget_port(0);
    assert_eq!((bridge.port_counts(0).0, bridge.lookup(mac(1), Instant(0))), (0, Some(0)));
}

proptest! {
    /// Random learning, aging and ports going down against a plain map.
    #[test]
    fn agrees_with_a_map(
        steps in proptest::collection::vec((0_u32..200, 0_usize..8, 0_u8..20), 1..STEPS),
        key in any::<u64>(),
    ) {
        let mut bridge = Fdb::new(&BridgeSettings { max_entries: 512, key, ..BridgeSettings::default() });
        let mut model: HashMap<u32, (usize, Nanos)> = HashMap::new();
        let mut now = 0;
        for (n, port, action) in steps {
            match action {
                0 => { bridge.forget_port(port); model.retain(|_, at| at.0 != port); }
                1 => now += 50 * SECOND,
                2 => for _ in 0..64 { bridge.age(Instant(now)) },
                _ => { bridge.learn(mac(n), port, Instant(now)); model.insert(n, (port, now)); }
            }
            if action % 4 == 0 || action < 3 {
                // Times in the table are coarse: leave out what ages within a tick.
                let known = model.get(&n).filter(|at| now - at.1 < 300 * SECOND).map(|at| at.0);
                let near = model.get(&n).is_some_and(|at| (now - at.1).abs_diff(300 * SECOND) < (2 << TICK_SHIFT));
                if !near {
                    prop_assert_eq!(bridge.lookup(mac(n), Instant(now)), known);
                }
            }
        }
    }

    /// Random learning, static entries made, moved and forgotten, and ports going down, in tables
    /// so small that they are full and chains are long: counts are right, and every static entry is
    /// accepted.
    #[test]
    fn counts_are_those_of_the_slots(
        steps in proptest::collection::vec((0_u32..300, 0_usize..8, 0_u8..40), 1..STEPS / 2),
        max_entries in 40_usize..100,
        max_entries_per_port in 4_usize..40,
    ) {
        let mut fdb = Fdb::new(&BridgeSettings { max_entries, max_entries_per_port, ..BridgeSettings::default() });
        let mut fixed = HashMap::<u32, usize>::new();
        for (n, port, action) in steps {
            match action {
                0 => fdb.forget_port(port),
                39 => fdb.unconfirm_port(port),
                1..8 if fixed.len() < 20 || fixed.contains_key(&n) => {
                    fdb.set_static(mac(n), port);
                    fixed.insert(n, port);
                }
                8..12 => {
                    fdb.forget_static(mac(n));
                    fixed.remove(&n);
                }
                _ => fdb.learn(mac(n), port, Instant(0)),
            }
            let (entries, learned) = recount(&fdb);
            prop_assert!(entries <= max_entries as u64);
            prop_assert_eq!(fdb.counts().0, entries);
            for (port, learned) in learned.into_iter().enumerate() {
                prop_assert_eq!(fdb.port_counts(port).0, learned);
            }
            for (&n, &port) in &fixed {
                prop_assert_eq!(fdb.lookup(mac(n), Instant(0)), Some(port));
            }
        }
    }

    /// Random learning, moves and ports going down under a limit per port, against a plain map.
    /// Nothing ages.
    #[test]
    fn agrees_with_a_map_under_a_limit_a_port(
        steps in proptest::collection::vec((0_u32..200, 0_usize..8, 0_u8..40), 1..STEPS),
        max_entries_per_port in 1_usize..40,
    ) {
        let settings =
            BridgeSettings { max_entries: 512, max_entries_per_port, ..BridgeSettings::default() };
        let mut bridge = Fdb::new(&settings);
        let (mut model, mut refused) = (HashMap::<u32, usize>::new(), [0_u64; 8]);
        for (n, port, action) in steps {
            let known = model.values().filter(|&&at| at == port).count();
            if action == 0 {
                bridge.forget_port(port);
                model.retain(|_, at| *at != port);
                continue;
            }
            bridge.learn(mac(n), port, Instant(0));
            if model.get(&n) == Some(&port) {
            } else if known < max_entries_per_port {
                model.insert(n, port);
            } else {
                model.remove(&n);
                refused[port] += 1;
            }
        }
        for n in 0..200 {
            prop_assert_eq!(bridge.lookup(mac(n), Instant(0)), model.get(&n).copied());
        }
        for (port, refused) in refused.into_iter().enumerate() {
            let known = model.values().filter(|&&at| at == port).count() as u64;
            prop_assert_eq!(bridge.port_counts(port), (known, refused));
        }
    }
}

/// Another host takes the place of the one that was behind a port with room for one address, and in
/// a table that is full.
#[test]
fn unconfirmed_addresses_take_no_room() {
    let settings = BridgeSettings { max_entries: 2, max_entries_per_port: 1, ..BridgeSettings::default() };
    let mut fdb = Fdb::new(&settings);
    fdb.learn(mac(1), 0, Instant(0));
    fdb.learn(mac(2), 1, Instant(0));
    fdb.unconfirm_port(0);
    assert_eq!(fdb.lookup_unconfirmed(mac(2), Instant(0)), None, "confirmed");
    assert_eq!(fdb.lookup_unconfirmed(mac(1), Instant(301 * SECOND)), None, "aged");
    assert_eq!((fdb.counts().0, fdb.port_counts(0)), (1, (0, 0)));
    assert_eq!((fdb.lookup(mac(1), Instant(0)), fdb.lookup_unconfirmed(mac(1), Instant(0))), (None, Some(0)));
    fdb.learn(mac(3), 0, Instant(0));
    assert_eq!((fdb.lookup(mac(3), Instant(0)), fdb.lookup_unconfirmed(mac(1), Instant(0))), (Some(0), None));
    assert_eq!((fdb.counts(), fdb.port_counts(0)), ((2, 0, 0), (1, 0)));

    fdb.unconfirm_port(0);
    fdb.learn(mac(3), 0, Instant(0));
    assert_eq!((fdb.lookup(mac(3), Instant(0)), fdb.counts()), (Some(0), (2, 0, 0)), "seen again: no move");
    fdb.unconfirm_port(0);
    fdb.learn(mac(3), 1, Instant(0));
    assert_eq!(fdb.lookup(mac(3), Instant(0)), None, "port 1 has its one address");
    assert_eq!((fdb.counts().0, fdb.port_counts(1)), (1, (1, 1)));
}

/// Frames to a peer that never sends find it, also beyond the aging time, for as long as the owner
/// renews it. It takes no address from another port, and no room beyond a limit.
#[test]
fn the_address_of_a_peer_is_known_without_a_frame() {
    let settings =
        BridgeSettings { max_entries_per_port: 2, aging_ns: 1_000_000_000, ..BridgeSettings::default() };
    let mut bridge = Fdb::new(&settings);
    let at = |seconds: u64| Instant(seconds * 1_000_000_000);
    bridge.learn_peer(mac(1), 4, at(0));
    assert_eq!((bridge.lookup(mac(1), at(9)), bridge.lookup(mac(1), at(11))), (Some(4), None));
    bridge.learn_peer(mac(1), 4, at(9));
    // A frame does not shorten its life.
    bridge.learn(mac(1), 4, at(10));
    assert_eq!((bridge.lookup(mac(1), at(18)), bridge.lookup(mac(1), at(20))), (Some(4), None));
    bridge.learn_peer(mac(1), 4, at(20));

    // An address that is known elsewhere stays there until it has aged out; one that moves moves.
    bridge.learn(mac(2), 5, at(20));
    bridge.learn_peer(mac(2), 4, at(20));
    assert_eq!(bridge.lookup(mac(2), at(20)), Some(5));
    bridge.learn(mac(1), 5, at(21));
    assert_eq!(bridge.lookup(mac(1), at(21)), Some(5));
    bridge.learn_peer(mac(2), 4, at(23));
    assert_eq!((bridge.lookup(mac(2), at(23)), bridge.lookup(mac(1), at(23))), (Some(4), None));

    // The limit of the port holds, and is no event.
    bridge.learn(mac(3), 4, at(23));
    bridge.learn_peer(mac(4), 4, at(23));
    assert_eq!((bridge.lookup(mac(4), at(23)), bridge.port_counts(4)), (None, (2, 0)));
    assert!(bridge.take_at_limit().is_empty());
    bridge.set_static(mac(5), 6);
    bridge.learn_peer(mac(5), 4, at(23));
    assert_eq!(bridge.lookup(mac(5), at(1000)), Some(6));
}

/// A port of 16 addresses that has reported its limit reports it again after it had 14.
#[test]
fn the_limit_is_reported_again_from_an_eighth_below() {
    for (moved, reported) in [(1, Set64::EMPTY), (2, Set64::of(0))] {
        let settings = BridgeSettings { max_entries_per_port: 16, ..BridgeSettings::default() };
        let mut bridge = Fdb::new(&settings);
        (0..17).for_each(|n| bridge.learn(mac(n), 0, Instant(0)));
        assert_eq!((bridge.port_counts(0), bridge.take_at_limit()), ((16, 1), Set64::of(0)));
        (0..moved).for_each(|n| bridge.learn(mac(n), 1, Instant(0)));
        assert_eq!(bridge.port_counts(0).0, 16 - u64::from(moved));
        (20..23).for_each(|n| bridge.learn(mac(n), 0, Instant(0)));
        assert_eq!((bridge.port_counts(0).0, bridge.take_at_limit()), (16, reported), "{moved} moved");
    }
}

/// Twice as many slots as entries, a power of two, and 64 at least.
#[test]
fn the_table_is_at_most_half_full() {
    for (max_entries, slots) in [(0, 64), (32, 64), (33, 128), (100, 256), (16_384, 32_768)] {
        let bridge = Fdb::new(&BridgeSettings { max_entries, ..BridgeSettings::default() });
        assert_eq!(bridge.slots.len(), slots, "of {max_entries}");
    }
}

/// A peer takes the room of an unconfirmed address, and none that others need. It is not counted
/// as refused.
#[test]
fn a_peer_is_entered_only_where_there_is_room() {
    let mut fdb = Fdb::new(&BridgeSettings { max_entries: 2, ..BridgeSettings::default() });
    (0..2).for_each(|n| fdb.learn(mac(n), n as usize, Instant(0)));
    fdb.learn_peer(mac(2), 2, Instant(0));
    assert_eq!((fdb.lookup(mac(2), Instant(0)), fdb.counts()), (None, (2, 0, 0)));
    fdb.unconfirm_port(0);
    fdb.learn_peer(mac(2), 2, Instant(0));
    assert_eq!((fdb.lookup(mac(2), Instant(0)), fdb.counts()), (Some(2), (2, 0, 0)));

    // All slots that are read for its address are taken.
    let mut fdb = Fdb::new(&BridgeSettings { max_entries: 1024, key: 1, ..BridgeSettings::default() });
    let mut of_one_slot = (0..).map(mac).filter(|&address| fdb.slot_of(address) == 7);
    let addresses: Vec<FdbKey> = of_one_slot.by_ref().take(MAX_PROBES + 1).collect();
    addresses[..MAX_PROBES].iter().for_each(|&address| fdb.learn(address, 0, Instant(0)));
    fdb.learn_peer(addresses[MAX_PROBES], 2, Instant(0));
    assert_eq!(fdb.counts(), (MAX_PROBES as u64, 0, 0));
    fdb.learn_peer(addresses[0], 0, Instant(5 * SECOND));
    assert_eq!(fdb.lookup(addresses[0], Instant(304 * SECOND)), Some(0), "one that is known is renewed");

    // A static entry is stored in one of these, however many slots behind them are taken.
    let behind = (0..).map(mac).find(|&address| fdb.slot_of(address) == 7 + MAX_PROBES);
    fdb.learn(behind.expect("an address"), 0, Instant(0));
    fdb.set_static(addresses[MAX_PROBES], 1);
    assert_eq!(fdb.lookup(addresses[MAX_PROBES], Instant(0)), Some(1));
    assert_eq!(fdb.counts(), (MAX_PROBES as u64 + 1, 0, 0));
}

/// Two static addresses whose first slot is the first of all.
#[test]
fn static_entries_of_the_first_slot() {
    let mut fdb = Fdb::new(&BridgeSettings { max_entries: 32, key: 1, ..BridgeSettings::default() });
    let of_slot_0: Vec<FdbKey> =
        (0..).map(mac).filter(|&address| fdb.slot_of(address) == 0).take(2).collect();
    let ports = |fdb: &Fdb| [0, 1].map(|n: usize| fdb.lookup(of_slot_0[n], Instant(0)));
    let are_static = |fdb: &Fdb| [0, 1].map(|n: usize| fdb.is_static(of_slot_0[n]));
    (0..2).for_each(|n| fdb.learn(of_slot_0[n], n, Instant(0)));
    assert_eq!((ports(&fdb), are_static(&fdb)), ([Some(0), Some(1)], [false; 2]));
    (0..2).for_each(|n| fdb.set_static(of_slot_0[n], 4 + n));
    assert_eq!((ports(&fdb), are_static(&fdb)), ([Some(4), Some(5)], [true; 2]));
    fdb.forget_static(of_slot_0[1]);
    assert_eq!((ports(&fdb), are_static(&fdb)), ([Some(4), None], [true, false]));
    fdb.forget_static(of_slot_0[0]);
    assert_eq!((ports(&fdb), fdb.counts()), ([None; 2], (0, 0, 0)));
}

/// The port that takes the slot of another begins without its counts.
#[test]
fn another_port_in_a_slot_begins_without_counts() {
    let mut fdb = Fdb::new(&BridgeSettings { max_entries_per_port: 1, ..BridgeSettings::default() });
    (0..3).for_each(|n| fdb.learn(mac(n), 5, Instant(0)));
    assert_eq!(fdb.port_counts(5), (1, 2));
    fdb.forget_port(5);
    fdb.reset_port(5);
    assert_eq!(fdb.port_counts(5), (0, 0));
}

/// A page leaves out what a lookup does not find.
#[test]
fn aged_and_unconfirmed_addresses_are_not_read() {
    let mut bridge = Fdb::new(&BridgeSettings { max_entries: 32, ..BridgeSettings::default() });
    bridge.learn(mac(1), 1, Instant(0));
    bridge.learn(mac(2), 2, Instant(200 * SECOND));
    bridge.learn(mac(3), 3, Instant(200 * SECOND));
    bridge.unconfirm_port(3);
    let mut page = FdbPage::default();
    bridge.read_page(&mut page, Instant(301 * SECOND));
    assert_eq!(page.entries.iter().map(|entry| entry.port).collect::<Vec<_>>(), [2]);
    assert_eq!((page.is_last, page.next_slot), (true, 64));
}

/// Another aging time and limit hold from then on.
#[test]
fn a_reload_changes_aging_and_limit() {
    let mut bridge = Fdb::new(&BridgeSettings::default());
    (0..3).for_each(|n| bridge.learn(mac(n), 0, Instant(0)));
    let (aging_ns, max_entries_per_port) = (10 * SECOND, 2);
    bridge.apply(&BridgeSettings { aging_ns, max_entries_per_port, ..BridgeSettings::default() });
    assert_eq!([9, 11].map(|at_s| bridge.lookup(mac(0), Instant(at_s * SECOND))), [Some(0), None]);
    bridge.learn(mac(3), 0, Instant(0));
    assert_eq!(bridge.port_counts(0), (3, 1));
}
