//! The FDB: which port an address was last seen on, and so where a frame goes.
//!
//! Rule: the source of every good frame is learned, or moved if it came from another port. An
//! address that was not seen for the aging time is forgotten. A frame goes to the port of its
//! destination; to all other ports if that is unknown or a group address; to no port if it is the
//! input port. A full table learns nothing more and counts the frames. The number of learned
//! addresses per port is limited, so that one peer that forges addresses leaves room for the
//! addresses of others. Beyond the limit new addresses of the port are not learned, and one that
//! was known on another port is forgotten. That is counted, and is an event once it happens, and
//! again after the port was an eighth below its limit. A static entry neither moves nor ages,
//! counts for no port, and stays when its port goes down. Source: IEEE 802.1Q-2022 8.6.1, 8.7, 8.8
//! (static entries 8.8.1; aging time 300 s).
//!
//! When a port comes up again, another host may be there: its addresses are unconfirmed until they
//! are seen again. A frame to an unconfirmed address is flooded, but while its port is down again
//! the address is still known to be there. It counts for no port, and makes room in a full table.
//!
//! The address of a peer's interface, where the owner knows it, is entered as if learned, so that
//! frames to a peer that never sends are not flooded. It is only for an address that is not known
//! on another port, and only where there is room. It lasts for [`PEER_NS`] at least, so that an
//! owner which renews it more often keeps it, however short the aging time is.
//!
//! The table is a hash table with linear probing, at most half full and never probed beyond
//! [`MAX_PROBES`], so a lookup stays cheap whatever addresses a peer forges.
//!
//! Which addresses share a slot depends on a key that the owner draws at the start: address xor
//! key, times an odd number derived from the key, its upper half xored into the lower, times
//! another odd number. So addresses that all fall into one slot, and keep others out of it, cannot
//! be computed in advance. The hash is not a cipher: a peer that observes for a long time which of
//! its frames are flooded could find some addresses that share a slot. The step between the two
//! multiplications prevents it from deriving further ones from these, as it could with one
//! multiplication alone. That is sufficient: all that an attacker gains is that some addresses are
//! not learned, so that frames to them are flooded, and the limit of a port bounds how many slots
//! can be filled for that. SipHash would cost ten times as much for each frame.

use crate::cow_table::{self, CowTable};
use crate::frame::meta::FdbKey;
use crate::monitor::throttle::{EVENT_NS, Throttle};
use crate::settings::{BridgeSettings, MAX_PORTS};
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};
use wire::bitset::Set64;
use wire::mac::MacAddr;
use wire::random::Random;

/// Maximum number of slots probed for one address.
const MAX_PROBES: usize = 32;
/// Slots that one call of `age` visits.
const AGED_PER_CALL: usize = 16;

/// How long the address of a peer lasts at least.
const PEER_NS: Nanos = 10_000_000_000;

/// Times in the table count units of 2^26 ns (67 ms), which fit 32 bits for nine years.
const TICK_SHIFT: u32 = 26;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The address; the default marks an empty slot.
    address: FdbKey,
    seen_tick: u32,
    /// The port, and [`UNCONFIRMED`].
    port: u32,
}

/// Set in the port of an entry whose port has been down since the address was last seen.
const UNCONFIRMED: u32 = 1 << 31;

impl Entry {
    fn port(&self) -> usize {
        (self.port & !UNCONFIRMED) as usize
    }

    fn is_confirmed(&self) -> bool {
        self.port & UNCONFIRMED == 0
    }
}

/// Time of static entries: later than any other.
const STATIC: u32 = u32::MAX;

const EMPTY: Entry = Entry { address: FdbKey(0), seen_tick: 0, port: 0 };

impl cow_table::Slot for Entry {
    const EMPTY: Self = EMPTY;

    fn is_empty(&self) -> bool {
        self.address.is_empty()
    }
}

/// An address that the FDB knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FdbEntry {
    /// The address.
    pub mac: MacAddr,
    /// Its VLAN; 0 without VLANs.
    pub vid: u16,
    /// The port that it is behind.
    pub port: usize,
    /// True if it is configured; it does not age.
    pub is_static: bool,
    /// Time since it was last seen, in steps of 67 ms; 0 if it is static.
    pub age_ns: Nanos,
}

/// A part of the FDB, read in one iteration: a bounded number of slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FdbPage {
    /// The slot from which the next part is read.
    pub next_slot: usize,
    /// The addresses of this part.
    pub entries: Vec<FdbEntry>,
    /// True if there is no further part.
    pub is_last: bool,
}

impl FdbPage {
    /// Slots visited at once: some microseconds.
    const SLOTS: usize = 2048;
}

impl Default for FdbPage {
    /// Returns a page to be read from the start on, with room for its addresses.
    fn default() -> Self {
        Self { next_slot: 0, entries: Vec::with_capacity(Self::SLOTS), is_last: false }
    }
}

/// Learned addresses of one port.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct PortQuota {
    entries: u32,
    /// Frames whose source was not learned because the port has reached its limit.
    refused: u64,
    /// True if the limit has been reported.
    is_reported: bool,
}

/// The filtering database of a switch: static and learned addresses.
#[derive(Debug, Serialize, Deserialize)]
pub struct Fdb {
    slots: CowTable<Entry>,
    /// 64 − log2(slots): the hash's upper bits select the slot.
    shift: u32,
    key: u64,
    /// Odd factor derived from the key.
    factor: u64,
    max_entries: usize,
    max_entries_per_port: u32,
    quotas: Vec<PortQuota>,
    /// Ports that reached their limit and are not reported yet.
    unreported: Set64,
    aging_ticks: u32,
    /// Entries, unconfirmed ones included.
    entries: usize,
    unconfirmed: usize,
    /// Addresses not learned because the table, or their part of it, was full.
    full_misses: u64,
    /// Number of addresses in `full_misses` that an event has reported.
    reported_full: u64,
    throttle: Throttle,
    /// Addresses seen on another port than before.
    moves: u64,
    next_to_age: usize,
}

impl Fdb {
    /// Makes an empty table.
    pub fn new(settings: &BridgeSettings) -> Self {
        let slots = (settings.max_entries.max(1) * 2).next_power_of_two().max(64);
        Self {
            slots: CowTable::new(slots),
            shift: 64 - slots.trailing_zeros(),
            key: settings.key,
            factor: factor_of(settings.key),
            max_entries: settings.max_entries,
            max_entries_per_port: u32::try_from(settings.max_entries_per_port).unwrap_or(u32::MAX),
            quotas: vec![PortQuota::default(); MAX_PORTS],
            unreported: Set64::EMPTY,
            aging_ticks: tick_of(settings.aging_ns).max(1),
            entries: 0,
            unconfirmed: 0,
            full_misses: 0,
            reported_full: 0,
            throttle: Throttle::default(),
            moves: 0,
            next_to_age: 0,
        }
    }

    /// Applies another aging time and another limit of a port, which forgets nothing; the table
    /// keeps its size and its key.
    pub(crate) fn apply(&mut self, settings: &BridgeSettings) {
        self.aging_ticks = tick_of(settings.aging_ns).max(1);
        self.max_entries_per_port = u32::try_from(settings.max_entries_per_port).unwrap_or(u32::MAX);
    }

    /// Records that `address` was seen on `port`.
    #[inline]
    pub fn learn(&mut self, address: FdbKey, port: usize, now: Instant) {
        let (seen_tick, port) = (tick_of(now.0), port as u32);
        let home = self.slot_of(address);
        // Nearly every frame comes from the port of its sender's last one, less than a tick ago.
        if self.slots[home] != (Entry { address, seen_tick, port }) {
            self.insert_or_refresh(address, seen_tick, port, home);
        }
    }

    /// Enters the address of the peer of a port, as if it had been seen.
    pub(crate) fn learn_peer(&mut self, address: FdbKey, port: usize, now: Instant) {
        let home = self.slot_of(address);
        let is_elsewhere = self.lookup(address, now).is_some_and(|at| at != port);
        let has_room = self.entries - self.unconfirmed < self.max_entries
            && self.quotas[port].entries < self.max_entries_per_port
            && self.chain(home).len() < MAX_PROBES;
        if is_elsewhere || !(has_room || self.find(address, home).is_some()) {
            return;
        }
        let at_least = tick_of(PEER_NS).saturating_sub(self.aging_ticks);
        self.insert_or_refresh(address, tick_of(now.0) + at_least, port as u32, home);
    }

    /// Makes an entry, or renews it; `home` is its first slot.
    #[inline(never)]
    fn insert_or_refresh(&mut self, address: FdbKey, seen_tick: u32, port: u32, home: usize) {
        let entry = Entry { address, seen_tick, port };
        let mut index = home;
        for _ in 0..MAX_PROBES {
            let slot = &self.slots[index];
            if slot.address == entry.address {
                if slot.seen_tick != STATIC {
                    self.renew(entry, index);
                }
                return;
            }
            if slot.address.is_empty() {
                if self.entries >= self.max_entries {
                    if self.unconfirmed == 0 {
                        break;
                    }
                    self.forget(|entry| !entry.is_confirmed());
                    return self.insert_or_refresh(address, seen_tick, port, home);
                }
                if entry.seen_tick == STATIC || self.add_to_quota(entry.port()) {
                    *self.slots.write(index) = entry;
                    self.entries += 1;
                }
                return;
            }
            index = (index + 1) & (self.slots.len() - 1);
        }
        self.full_misses += 1;
    }

    /// Renews an entry that was seen again, perhaps on another port.
    fn renew(&mut self, mut entry: Entry, index: usize) {
        let before = self.slots[index];
        if before.port != entry.port {
            if !self.add_to_quota(entry.port()) {
                return self.remove(index);
            }
            self.moves += u64::from(before.port() != entry.port());
            self.uncount(before);
        } else {
            entry.seen_tick = entry.seen_tick.max(before.seen_tick); // later, if it is the peer's
        }
        *self.slots.write(index) = entry;
    }

    /// Counts one more learned address for a port. Returns false if its limit is reached.
    fn add_to_quota(&mut self, port: usize) -> bool {
        let share = &mut self.quotas[port];
        let has_room = share.entries < self.max_entries_per_port;
        if has_room {
            share.entries += 1;
        } else {
            share.refused += 1;
            self.unreported.set(port, self.unreported.contains(port) || !share.is_reported);
            share.is_reported = true;
        }
        has_room
    }

    /// Counts a learned address less.
    fn uncount(&mut self, entry: Entry) {
        if entry.is_confirmed() {
            self.remove_from_quota(entry.port());
        } else {
            self.unconfirmed -= 1;
        }
    }

    /// Counts one learned address less for a port.
    fn remove_from_quota(&mut self, port: usize) {
        let share = &mut self.quotas[port];
        share.entries -= 1;
        share.is_reported &= share.entries > self.max_entries_per_port - self.max_entries_per_port / 8;
    }

    /// Takes the ports that have reached their limit since the last call.
    #[inline]
    pub(crate) fn take_at_limit(&mut self) -> Set64 {
        std::mem::replace(&mut self.unreported, Set64::EMPTY)
    }

    /// Returns the learned addresses of a port, and the frames whose source was not learned because
    /// the port has reached its limit.
    pub fn port_counts(&self, port: usize) -> (u64, u64) {
        (self.quotas[port].entries.into(), self.quotas[port].refused)
    }

    /// Makes a static entry, or moves one. It replaces a learned entry where there is no room, as
    /// it has precedence over all of these.
    pub fn set_static(&mut self, address: FdbKey, port: usize) {
        let entry = Entry { address, seen_tick: STATIC, port: port as u32 };
        let home = self.slot_of(address);
        let chain = self.chain(home);
        let is_full = self.entries >= self.max_entries || chain.len() == MAX_PROBES;
        let is_learned = |index: &usize| self.slots[*index].seen_tick != STATIC;
        let known = chain.iter().copied().find(|&index| self.slots[index].address == address);
        let replaced = known.or_else(|| chain.iter().copied().find(|index| is_full && is_learned(index)));
        if let Some(index) = replaced {
            let before = self.slots[index];
            if before.seen_tick != STATIC {
                self.uncount(before);
            }
            *self.slots.write(index) = entry;
            return;
        }
        // The chain has an empty slot, but the table has reached its limit of entries.
        let is_learned = |entry: &Entry| !entry.address.is_empty() && entry.seen_tick != STATIC;
        if is_full && let Some(index) = self.slots.iter().position(is_learned) {
            self.remove(index);
        }
        self.insert_or_refresh(address, STATIC, port as u32, home);
    }

    /// Returns the used slots from `home` on that a lookup reads. It stops at the first empty one,
    /// so no entry is stored behind that.
    fn chain(&self, home: usize) -> Vec<usize> {
        let chain = (home..home + MAX_PROBES).map(|index| index & (self.slots.len() - 1));
        chain.take_while(|&index| !self.slots[index].address.is_empty()).collect()
    }

    /// Removes a static entry.
    pub fn forget_static(&mut self, address: FdbKey) {
        let home = self.slot_of(address);
        let mut chain = (home..home + MAX_PROBES).map(|index| index & (self.slots.len() - 1));
        let is_it = |index: &usize| {
            let Entry { address: other, seen_tick, .. } = self.slots[*index];
            other == address && seen_tick == STATIC
        };
        if let Some(index) = chain.find(is_it) {
            self.remove(index);
        }
    }

    /// Returns the port of `address`, if it is known and was seen within the aging time.
    #[inline]
    pub fn lookup(&self, address: FdbKey, now: Instant) -> Option<usize> {
        let home = self.slot_of(address);
        let mut entry = &self.slots[home];
        if entry.address != address {
            entry = self.find(address, home)?;
        }
        (!self.is_aged(entry, tick_of(now.0)) && entry.is_confirmed()).then_some(entry.port as usize)
    }

    /// Returns the port of `address` if it is unconfirmed, and not aged.
    pub(crate) fn lookup_unconfirmed(&self, address: FdbKey, now: Instant) -> Option<usize> {
        let entry = self.find(address, self.slot_of(address))?;
        (!self.is_aged(entry, tick_of(now.0)) && !entry.is_confirmed()).then_some(entry.port())
    }

    /// True if `address` has a static entry.
    pub fn is_static(&self, address: FdbKey) -> bool {
        self.find(address, self.slot_of(address)).is_some_and(|entry| entry.seen_tick == STATIC)
    }

    /// Returns the entry of an address that is not in its first slot.
    fn find(&self, address: FdbKey, home: usize) -> Option<&Entry> {
        let mask = self.slots.len() - 1;
        let chain = (home..home + MAX_PROBES).map(|index| &self.slots[index & mask]);
        let mut chain = chain.take_while(|entry| !entry.address.is_empty());
        chain.find(|entry| entry.address == address)
    }

    /// Forgets aged addresses among the next few slots. Called each iteration, it visits all slots
    /// in turn.
    pub fn age(&mut self, now: Instant) {
        let now = tick_of(now.0);
        for _ in 0..AGED_PER_CALL {
            let index = self.next_to_age;
            let entry = self.slots[index];
            if !entry.address.is_empty() && self.is_aged(&entry, now) {
                self.remove(index); // another entry may have moved into this slot: visit it next
            } else {
                self.next_to_age = (index + 1) & (self.slots.len() - 1);
            }
        }
    }

    /// Resets a slot of ports that another port takes.
    pub(crate) fn reset_port(&mut self, port: usize) {
        debug_assert_eq!(self.quotas[port].entries, 0, "those of the one before were forgotten");
        self.quotas[port].refused = 0;
    }

    /// Makes every address learned on a port unconfirmed.
    pub(crate) fn unconfirm_port(&mut self, port: usize) {
        for index in 0..self.slots.len() {
            let entry = self.slots[index];
            if !entry.address.is_empty() && entry.seen_tick != STATIC && entry.port == port as u32 {
                self.remove_from_quota(port);
                self.unconfirmed += 1;
                *self.slots.write(index) = Entry { port: entry.port | UNCONFIRMED, ..entry };
            }
        }
    }

    /// Forgets every address learned on a port.
    pub fn forget_port(&mut self, port: usize) {
        self.forget(|entry| entry.port() == port);
    }

    /// Forgets the addresses learned on a port, in a VLAN; `None` for any.
    pub(crate) fn forget_of(&mut self, port: Option<usize>, vid: Option<u16>) {
        self.forget(|entry| {
            port.is_none_or(|port| entry.port() == port) && vid.is_none_or(|vid| entry.address.vid() == vid)
        });
    }

    /// Adds the addresses in the next slots to a page, as many as it visits at once. They may move
    /// between two pages, so an address can be missed, or be there twice.
    pub(crate) fn read_page(&self, page: &mut FdbPage, now: Instant) {
        let now = tick_of(now.0);
        let end = (page.next_slot + FdbPage::SLOTS).min(self.slots.len());
        page.entries.clear();
        for index in page.next_slot..end {
            let entry = self.slots[index];
            if entry.address.is_empty() || self.is_aged(&entry, now) || !entry.is_confirmed() {
                continue;
            }
            let is_static = entry.seen_tick == STATIC;
            let ticks = if is_static { 0 } else { now.saturating_sub(entry.seen_tick) };
            let age_ns = u64::from(ticks) << TICK_SHIFT;
            let (mac, vid) = (entry.address.mac(), entry.address.vid());
            page.entries.push(FdbEntry { mac, vid, port: entry.port as usize, is_static, age_ns });
        }
        page.next_slot = end;
        page.is_last = end == self.slots.len();
    }

    /// Forgets every learned address, as when the VLANs of ports change.
    pub fn forget_learned(&mut self) {
        self.forget(|_| true);
    }

    fn forget(&mut self, is_meant: impl Fn(&Entry) -> bool) {
        let is_there =
            |entry: &Entry| !entry.address.is_empty() && entry.seen_tick != STATIC && is_meant(entry);
        let mut index = 0;
        while index < self.slots.len() {
            if is_there(&self.slots[index]) {
                self.remove(index);
            } else {
                index += 1;
            }
        }
        // A chain that wraps around the end can move an entry to a slot already visited: repeat.
        if self.slots.iter().any(is_there) {
            self.forget(is_meant);
        }
    }

    /// Returns the frames whose source was not learned for want of room, if an event must report
    /// them now: at once, and then at most once a second while it lasts.
    #[inline]
    pub fn unreported_full(&mut self, now: Instant) -> Option<u64> {
        if self.full_misses == self.reported_full || !self.throttle.pass(EVENT_NS, now) {
            return None;
        }
        Some(self.full_misses - std::mem::replace(&mut self.reported_full, self.full_misses))
    }

    /// Returns the addresses known, the addresses not learned for want of room, and the moves.
    pub fn counts(&self) -> (u64, u64, u64) {
        ((self.entries - self.unconfirmed) as u64, self.full_misses, self.moves)
    }

    /// Returns the table, for a copy of it.
    pub(crate) fn table(&mut self) -> &mut CowTable<Entry> {
        &mut self.slots
    }

    fn is_aged(&self, entry: &Entry, now_tick: u32) -> bool {
        now_tick.saturating_sub(entry.seen_tick) >= self.aging_ticks
    }

    #[inline]
    fn slot_of(&self, address: FdbKey) -> usize {
        let product = (address.0 ^ self.key).wrapping_mul(self.factor);
        // The upper half decides, with the lower xored into it: without the second step addresses
        // with a regular stride can collide.
        ((product ^ (product >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// Empties a slot and moves later entries of the chain up, so that no lookup stops short.
    fn remove(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        let entry = self.slots[hole];
        if entry.seen_tick != STATIC {
            self.uncount(entry);
        }
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
                *self.slots.write(hole) = entry;
                hole = index;
            }
        }
        *self.slots.write(hole) = EMPTY;
        self.entries -= 1;
    }
}

/// Returns an odd factor with about as many ones as zeros, whatever the key.
fn factor_of(key: u64) -> u64 {
    Random::new(key).bits() | 1
}

#[inline]
fn tick_of(nanos: Nanos) -> u32 {
    (nanos >> TICK_SHIFT) as u32
}

#[cfg(test)]
mod tests;
