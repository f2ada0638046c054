//! The ingress half of a port: classifier, priority groups, and the PFC that it sends.
//!
//! It is a struct of its own, apart from [`crate::egress::Egress`], because one day the two ends of a frame's way may
//! belong to different cores. See docs/architecture.md, "The way of a frame".

use crate::classify::Classifier;
use crate::counters::{Count, DropReason};
use crate::group::{Change, Group};
use crate::pfc::PfcSender;
use crate::pool::Pools;
use crate::settings::{DropLevel, PRIORITIES, PortSettings};

/// The ingress half of a port. What the way of a frame touches comes first.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Ingress {
    received: Count,
    /// Bit p: group p of this port must be looked at each turn, as others move its threshold.
    watched: u8,
    /// PFC frames are sent.
    sends_pfc: bool,
    /// Which priority and queue a frame has.
    pub classifier: Classifier,
    /// What the neighbour is told.
    pub pfc: PfcSender,
    /// Cells by 802.1p priority.
    pub groups: [Group; PRIORITIES],
    /// Of the received frames those of drop level 1 and 2.
    coloured: [u64; 2],
    drops: [Count; DropReason::ALL.len()],
}

impl Ingress {
    /// The ingress half of a port with these settings; `usage_percent` counts violations.
    pub fn new(settings: &PortSettings, usage_percent: u8) -> Self {
        let no_drop = settings.pfc.no_drop;
        Self {
            classifier: Classifier::new(&settings.classify),
            groups: std::array::from_fn(|p| {
                Group::new(settings.groups[p], no_drop & (1 << p) != 0, usage_percent)
            }),
            pfc: PfcSender::new(settings.pfc.pause_quanta, settings.pause_speed_bps()),
            sends_pfc: settings.pfc.tx,
            watched: 0,
            received: Count::default(),
            coloured: [0; 2],
            drops: Default::default(),
        }
    }

    /// Other settings. The groups' cells are charged anew: each was withdrawn before, and must be examined after.
    pub(crate) fn reconfigure(&mut self, settings: &PortSettings, usage_percent: u8, pools: &mut Pools) {
        self.classifier = Classifier::new(&settings.classify);
        self.sends_pfc = settings.pfc.tx;
        self.pfc.reconfigure(settings.pfc.pause_quanta, settings.pause_speed_bps());
        for (p, group) in self.groups.iter_mut().enumerate() {
            let no_drop = settings.pfc.no_drop & (1 << p) != 0;
            group.reconfigure(settings.groups[p], no_drop, usage_percent, pools);
        }
    }

    /// Tells the neighbour what the groups are in now, as after `reconfigure`: it may be told by now, or no longer.
    pub(crate) fn retell(&mut self) {
        for (p, group) in self.groups.iter().enumerate() {
            self.pfc.set(p, self.sends_pfc && group.is_xoff());
        }
    }

    /// A data frame of this drop level was classified.
    #[inline]
    pub fn count_colour(&mut self, drop_level: DropLevel) {
        match drop_level {
            DropLevel::Green => {}
            DropLevel::Yellow => self.coloured[0] += 1,
            DropLevel::Red => self.coloured[1] += 1,
        }
    }

    /// Frames received of drop level 1 (yellow) and 2 (red).
    pub fn coloured(&self) -> (u64, u64) {
        (self.coloured[0], self.coloured[1])
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
    pub fn examine(&mut self, priority: usize, pools: &Pools) -> Option<Change> {
        let group = &mut self.groups[priority];
        let change = group.examine(pools);
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
