//! The bridge table: which port an address was last seen on, and so where a frame goes.
//!
//! Rule: the source of every good frame is learned, or moved if it came from another port; an address that was not
//! seen for the aging time is forgotten. A frame goes to the port of its destination; to all other ports if that is
//! unknown or a group address; nowhere if it is the port it came from. A full table learns nothing more and counts it. A
//! static entry neither moves nor ages, and stays when its port goes down.
//! Source: IEEE 802.1Q-2022 8.6.1, 8.7, 8.8 (static entries 8.8.1; aging time 300 s).
//!
//! The table is a hash table with linear probing, at most half full and never probed beyond [`MAX_PROBES`], so
//! whatever addresses somebody makes up, a look-up stays cheap.

use crate::settings::BridgeSettings;
use crate::sparse;
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};
use wire::mac::MacAddr;

/// Slots looked at for one address at most.
const MAX_PROBES: usize = 32;
/// Slots that one call of `age` looks at.
const AGED_PER_CALL: usize = 16;
/// Events about a full table are no closer together.
const EVENT_NS: Nanos = 1_000_000_000;

/// Times in the table count units of 2^26 ns (67 ms), which fit 32 bits for nine years.
const TICK_SHIFT: u32 = 26;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    /// The address; the default: empty.
    address: Address,
    seen_tick: u32,
    port: u32,
}

/// Time of static entries: they were seen after every other.
const STATIC: u32 = u32::MAX;

const EMPTY: Entry = Entry { address: Address(0), seen_tick: 0, port: 0 };

impl sparse::Slot for Entry {
    const EMPTY: Self = EMPTY;

    fn is_empty(&self) -> bool {
        self.address.is_empty()
    }
}

/// A MAC address as one number, which is what the table compares and hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Address(u64);

impl Address {
    /// Set in every address, so that none is like an empty slot.
    const VALID: u64 = 1 << 63;
    /// The bit that group addresses have (IEEE 802-2014 8.2).
    const GROUP: u64 = 1 << 40;

    /// The number of an address.
    #[inline]
    pub fn of(mac: MacAddr) -> Self {
        Self::of_number(mac.number())
    }

    /// The same from [`MacAddr::number`].
    #[inline]
    pub fn of_number(number: u64) -> Self {
        Self(number | Self::VALID)
    }

    /// A multicast address or the broadcast address.
    #[inline]
    pub fn is_group(self) -> bool {
        self.0 & Self::GROUP != 0
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The addresses that a switch knows.
#[derive(Debug, Serialize, Deserialize)]
pub struct Bridge {
    #[serde(with = "sparse")]
    slots: Vec<Entry>,
    /// 64 − log2(slots): the hash's upper bits pick the slot.
    shift: u32,
    max_entries: usize,
    aging_ticks: u32,
    entries: usize,
    /// Addresses not learned because the table, or their part of it, was full.
    full: u64,
    /// … of which an event has told.
    told_full: u64,
    next_event: Instant,
    /// Addresses seen on another port than before.
    moves: u64,
    next_to_age: usize,
}

impl Bridge {
    /// An empty table.
    pub fn new(settings: &BridgeSettings) -> Self {
        let slots = (settings.max_entries.max(1) * 2).next_power_of_two().max(64);
        Self {
            slots: vec![EMPTY; slots],
            shift: 64 - slots.trailing_zeros(),
            max_entries: settings.max_entries,
            aging_ticks: tick_of(settings.aging_ns).max(1),
            entries: 0,
            full: 0,
            told_full: 0,
            next_event: Instant(0),
            moves: 0,
            next_to_age: 0,
        }
    }

    /// Another aging time; the table keeps its size.
    pub(crate) fn set_aging(&mut self, aging_ns: Nanos) {
        self.aging_ticks = tick_of(aging_ns).max(1);
    }

    /// Notes that `address` was seen on `port`.
    #[inline]
    pub fn learn(&mut self, address: Address, port: usize, now: Instant) {
        let entry = Entry { address, seen_tick: tick_of(now.0), port: port as u32 };
        let home = self.slot_of(address);
        // Nearly every frame comes from where the last one of its sender came from, less than a tick ago.
        if self.slots[home] != entry {
            self.note(entry, home);
        }
    }

    /// Makes an entry, or renews it; `home` is its first slot.
    #[inline(never)]
    fn note(&mut self, entry: Entry, home: usize) {
        let mut index = home;
        for _ in 0..MAX_PROBES {
            let slot = &mut self.slots[index];
            if slot.address == entry.address {
                if slot.seen_tick != STATIC {
                    self.moves += u64::from(slot.port != entry.port);
                    *slot = entry;
                }
                return;
            }
            if slot.address.is_empty() {
                if self.entries < self.max_entries {
                    *slot = entry;
                    self.entries += 1;
                    return;
                }
                break;
            }
            index = (index + 1) & (self.slots.len() - 1);
        }
        self.full += 1;
    }

    /// Makes a static entry, or moves one.
    pub fn set_static(&mut self, address: Address, port: usize) {
        let entry = Entry { address, seen_tick: STATIC, port: port as u32 };
        let home = self.slot_of(address);
        let mut chain = (home..home + MAX_PROBES).map(|index| index & (self.slots.len() - 1));
        match chain.find(|&index| self.slots[index].address == address) {
            Some(index) => self.slots[index] = entry,
            None => self.note(entry, home),
        }
    }

    /// The port of `address`, if it is known and was seen within the aging time.
    #[inline]
    pub fn look_up(&self, address: Address, now: Instant) -> Option<usize> {
        let home = self.slot_of(address);
        let mut entry = &self.slots[home];
        if entry.address != address {
            entry = self.find(address, home)?;
        }
        (!self.is_aged(entry, tick_of(now.0))).then_some(entry.port as usize)
    }

    /// The entry of an address that is not in its first slot.
    fn find(&self, address: Address, home: usize) -> Option<&Entry> {
        let mask = self.slots.len() - 1;
        let chain = (home..home + MAX_PROBES).map(|index| &self.slots[index & mask]);
        let mut chain = chain.take_while(|entry| !entry.address.is_empty());
        chain.find(|entry| entry.address == address)
    }

    /// Forgets aged addresses among the next few slots; called each turn, it gets round in the end.
    pub fn age(&mut self, now: Instant) {
        let now = tick_of(now.0);
        for _ in 0..AGED_PER_CALL {
            let index = self.next_to_age;
            let entry = self.slots[index];
            if !entry.address.is_empty() && self.is_aged(&entry, now) {
                self.remove(index); // another entry may have come into this slot: it is looked at next
            } else {
                self.next_to_age = (index + 1) & (self.slots.len() - 1);
            }
        }
    }

    /// Forgets every address learned on a port that went down.
    pub fn forget_port(&mut self, port: usize) {
        let is_there = |entry: &Entry| {
            !entry.address.is_empty() && entry.port == port as u32 && entry.seen_tick != STATIC
        };
        let mut index = 0;
        while index < self.slots.len() {
            if is_there(&self.slots[index]) {
                self.remove(index);
            } else {
                index += 1;
            }
        }
        // A chain that wraps round the end can bring an entry to a slot already passed: once more.
        if self.slots.iter().any(is_there) {
            self.forget_port(port);
        }
    }

    /// Frames whose source was not learned for want of room and of which an event must tell now: at once, and then once a
    /// second at most while it lasts.
    #[inline]
    pub fn untold_full(&mut self, now: Instant) -> Option<u64> {
        if self.full == self.told_full || now < self.next_event {
            return None;
        }
        self.next_event = now + EVENT_NS;
        Some(self.full - std::mem::replace(&mut self.told_full, self.full))
    }

    /// Addresses known, addresses not learned for want of room, and moves.
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.entries as u64, self.full, self.moves)
    }

    fn is_aged(&self, entry: &Entry, now_tick: u32) -> bool {
        now_tick.saturating_sub(entry.seen_tick) >= self.aging_ticks
    }

    #[inline]
    fn slot_of(&self, address: Address) -> usize {
        // Fibonacci hashing: the golden ratio spreads addresses that differ in any part over the upper bits.
        (address.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// Empties a slot and moves later entries of the chain up, so that no look-up stops short.
    fn remove(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        let mut index = hole;
        loop {
            index = (index + 1) & mask;
            let entry = self.slots[index];
            if entry.address.is_empty() {
                break;
            }
            let home = self.slot_of(entry.address);
            let may_move = (index.wrapping_sub(home) & mask) >= (index.wrapping_sub(hole) & mask);
            if may_move {
                self.slots[hole] = entry;
                hole = index;
            }
        }
        self.slots[hole] = EMPTY;
        self.entries -= 1;
    }
}

#[inline]
fn tick_of(nanos: Nanos) -> u32 {
    (nanos >> TICK_SHIFT) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const SECOND: Nanos = 1_000_000_000;

    fn mac(n: u32) -> Address {
        let [a, b, c, d] = n.to_be_bytes();
        Address::of(MacAddr([2, 0, a, b, c, d]))
    }

    #[test]
    fn learns_moves_and_forgets() {
        let mut bridge = Bridge::new(&BridgeSettings::default());
        assert_eq!(bridge.look_up(mac(1), Instant(0)), None);
        bridge.learn(mac(1), 3, Instant(0));
        assert_eq!(bridge.look_up(mac(1), Instant(0)), Some(3));
        bridge.learn(mac(1), 4, Instant(10 * SECOND));
        assert_eq!((bridge.look_up(mac(1), Instant(309 * SECOND)), bridge.counts().2), (Some(4), 1));
        assert_eq!(bridge.look_up(mac(1), Instant(311 * SECOND)), None, "300 s after it was last seen");
        for _ in 0..10_000 {
            bridge.age(Instant(311 * SECOND));
        }
        assert_eq!(bridge.counts().0, 0, "and its slot is free again");
    }

    #[test]
    fn static_entries_stay() {
        let mut bridge = Bridge::new(&BridgeSettings::default());
        bridge.learn(mac(1), 3, Instant(0));
        bridge.set_static(mac(1), 5);
        bridge.set_static(mac(2), 5);
        bridge.learn(mac(1), 4, Instant(SECOND));
        bridge.forget_port(5);
        for _ in 0..10_000 {
            bridge.age(Instant(1_000_000 * SECOND));
        }
        assert_eq!(
            [mac(1), mac(2)].map(|mac| bridge.look_up(mac, Instant(1_000_000 * SECOND))),
            [Some(5); 2]
        );
        bridge.set_static(mac(1), 6);
        assert_eq!((bridge.look_up(mac(1), Instant(0)), bridge.counts()), (Some(6), (2, 0, 0)));
    }

    #[test]
    fn a_full_table_learns_no_more_and_counts_it() {
        let mut bridge = Bridge::new(&BridgeSettings { max_entries: 100, ..BridgeSettings::default() });
        for n in 0..150 {
            bridge.learn(mac(n), 0, Instant(0));
        }
        let (entries, full, _) = bridge.counts();
        assert_eq!((entries + full, entries <= 100), (150, true));
        assert_eq!(bridge.untold_full(Instant(0)), Some(full), "an event at once");
        bridge.learn(mac(200), 0, Instant(1));
        assert_eq!(bridge.untold_full(Instant(SECOND - 1)), None, "no more than one a second");
        assert_eq!(bridge.untold_full(Instant(SECOND)), Some(1));
        assert_eq!(bridge.untold_full(Instant(9 * SECOND)), None, "and none that says nothing");
    }

    proptest! {
        /// Random learning, aging and ports going down against a plain map.
        #[test]
        fn agrees_with_a_map(steps in proptest::collection::vec((0_u32..200, 0_usize..8, 0_u8..20), 1..2000)) {
            let mut bridge = Bridge::new(&BridgeSettings { max_entries: 512, ..BridgeSettings::default() });
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
                        prop_assert_eq!(bridge.look_up(mac(n), Instant(now)), known);
                    }
                }
            }
        }
    }
}
