//! The ingress half of a port: classifier, priority groups, and the PFC that it sends.
//!
//! It is a struct of its own, apart from [`crate::egress::Egress`], because one day the two ends of a frame's way may
//! belong to different cores. Source: design §2, "Halves".

use crate::classify::Classifier;
use crate::counters::{Count, DropReason};
use crate::group::{Change, Group};
use crate::pfc::PfcSender;
use crate::pool::Pool;
use crate::settings::{PRIORITIES, PortSettings};

/// The ingress half of a port.
#[derive(Debug)]
pub struct Ingress {
    /// Which priority and queue a frame has.
    pub classifier: Classifier,
    /// Cells by 802.1p priority.
    pub groups: [Group; PRIORITIES],
    /// What the neighbour is told.
    pub pfc: PfcSender,
    /// PFC frames are sent.
    sends_pfc: bool,
    /// Bit p: group p of this port must be looked at each turn, as others move its threshold.
    watched: u8,
    received: Count,
    drops: [Count; DropReason::ALL.len()],
}

impl Ingress {
    /// The ingress half of a port with these settings.
    pub fn new(settings: &PortSettings) -> Self {
        let no_drop = settings.pfc.no_drop;
        Self {
            classifier: Classifier::new(settings),
            groups: std::array::from_fn(|p| Group::new(settings.groups[p], no_drop & (1 << p) != 0)),
            pfc: PfcSender::new(settings.pfc.pause_quanta, settings.pause_speed_bps()),
            sends_pfc: settings.pfc.tx,
            watched: 0,
            received: Count::default(),
            drops: Default::default(),
        }
    }

    /// A data frame came in.
    #[inline]
    pub fn count_received(&mut self, len: u16) {
        self.received.add(len);
    }

    /// A frame that came in here (or, for the reasons that say so, was to leave here) was dropped.
    #[inline]
    pub fn count_drop(&mut self, reason: DropReason, len: u16) {
        self.drops[reason as usize].add(len);
    }

    /// Frames received, and drops by reason.
    pub fn counts(&self) -> (Count, &[Count; DropReason::ALL.len()]) {
        (self.received, &self.drops)
    }

    /// Compares a group with its threshold after its use has changed, and notes what the neighbour must be told.
    #[inline]
    pub fn examine(&mut self, priority: usize, shared: &Pool) -> Option<Change> {
        let group = &mut self.groups[priority];
        let change = group.examine(shared);
        if let Some(change) = change
            && self.sends_pfc
        {
            self.pfc.set(priority, change == Change::Xoff);
        }
        self.watched = self.watched & !(1 << priority) | u8::from(group.depends_on_others()) << priority;
        change
    }

    /// Groups that `examine` must look at each turn.
    #[inline]
    pub fn watched(&self) -> u8 {
        self.watched
    }
}
