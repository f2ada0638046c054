//! The neighbors of a port: a bounded table with expiry.
//!
//! Source: IEEE 802.1AB-2016 9.2.7.7.5 (too many neighbors), 9.2.7.9 (aging).

use crate::negotiation::peer::PeerDcbx;
use core::time::Duration;
use wire::MacAddr;
use wire::lldp::{ChassisId, Lldpdu, PortId};

/// What distinguishes neighbors: chassis and port, the MSAP identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighborId {
    /// Identifier of the system.
    pub chassis: ChassisId,
    /// Identifier of the port.
    pub port: PortId,
}

impl NeighborId {
    /// Returns the identifier of the sender.
    pub fn of(lldpdu: &Lldpdu) -> Self {
        Self { chassis: lldpdu.chassis.clone(), port: lldpdu.port.clone() }
    }
}

/// A neighbor, as of its last frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbor {
    /// Source address of the frame.
    pub src: MacAddr,
    /// Contents of the frame.
    pub lldpdu: Lldpdu,
    /// Its DCBX TLVs.
    pub dcbx: PeerDcbx,
    /// Time at which the neighbor was added.
    pub since: Duration,
    /// Time at which its contents last changed.
    pub changed: Duration,
    /// Time at which it expires unless it sends again.
    pub expires: Duration,
}

/// Effect of a frame on the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableChange {
    /// A neighbor was added.
    Added,
    /// The contents of a neighbor changed.
    Changed,
    /// The neighbor was only refreshed.
    Refreshed,
    /// The table has no room for the neighbor.
    Full,
}

/// Neighbors by their identifiers.
#[derive(Debug, Clone, Default)]
pub struct Neighbors {
    table: Vec<Neighbor>,
    /// Time until which neighbors that the table had no room for may be there,
    /// `tooManyNeighborsTimer`.
    pub(super) excess_until: Option<Duration>,
    /// The same of neighbors with DCBX.
    excess_dcbx_until: Option<Duration>,
}

impl Neighbors {
    /// Iterates over the neighbors, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Neighbor> {
        self.table.iter()
    }

    /// Returns true if a neighbor may be there that the table had no room for.
    pub fn too_many(&self) -> bool {
        self.excess_until.is_some()
    }

    /// Returns true if that neighbor has DCBX.
    pub fn too_many_with_dcbx(&self) -> bool {
        self.excess_dcbx_until.is_some()
    }

    /// Enters what a neighbor sent.
    pub(super) fn update(&mut self, now: Duration, src: MacAddr, lldpdu: Lldpdu, max: usize) -> TableChange {
        let expires = now + Duration::from_secs(lldpdu.ttl_s.into());
        let id = NeighborId::of(&lldpdu);
        if let Some(known) = self.table.iter_mut().find(|it| NeighborId::of(&it.lldpdu) == id) {
            known.expires = expires;
            known.dcbx.update(&lldpdu.organization, expires);
            let is_same = known.lldpdu == lldpdu && known.src == src;
            (known.src, known.lldpdu) = (src, lldpdu);
            if is_same {
                return TableChange::Refreshed;
            }
            known.changed = now;
            return TableChange::Changed;
        }
        let mut dcbx = PeerDcbx::default();
        dcbx.update(&lldpdu.organization, expires);
        if self.table.len() >= max.max(1) {
            let later = |until: Option<Duration>| Some(until.map_or(expires, |it| it.max(expires)));
            self.excess_until = later(self.excess_until);
            if dcbx.is_present() {
                self.excess_dcbx_until = later(self.excess_dcbx_until);
            }
            return TableChange::Full;
        }
        self.table.push(Neighbor { src, lldpdu, dcbx, since: now, changed: now, expires });
        TableChange::Added
    }

    /// Removes the neighbor that sent a shutdown frame.
    pub(super) fn remove(&mut self, id: &NeighborId) -> Option<Neighbor> {
        let at = self.table.iter().position(|it| NeighborId::of(&it.lldpdu) == *id)?;
        Some(self.table.remove(at))
    }

    /// Removes neighbors that have expired.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<Neighbor> {
        for until in [&mut self.excess_until, &mut self.excess_dcbx_until] {
            *until = until.filter(|until| now < *until);
        }
        self.table.iter_mut().for_each(|it| it.dcbx.expire(now));
        let (gone, kept) = core::mem::take(&mut self.table).into_iter().partition(|it| now >= it.expires);
        self.table = kept;
        gone
    }

    /// Forgets what the neighbors advertised of DCBX until they send again.
    pub(super) fn forget_dcbx(&mut self) {
        self.excess_dcbx_until = None;
        self.table.iter_mut().for_each(|it| it.dcbx = PeerDcbx::default());
    }

    pub(super) fn clear(&mut self) -> Vec<Neighbor> {
        (self.excess_until, self.excess_dcbx_until) = (None, None);
        core::mem::take(&mut self.table)
    }

    /// Returns the time at which [`Neighbors::expire`] has something to do.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let of_table = self.table.iter().flat_map(|it| [Some(it.expires), it.dcbx.deadline()]);
        of_table.chain([self.excess_until, self.excess_dcbx_until]).flatten().min()
    }
}
