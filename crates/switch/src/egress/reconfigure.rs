//! What the settings of a port make of its egress half, at the start and while it runs.
//!
//! Rule: what waits goes on waiting. The scheduler begins a new round only if its own settings are others, and so does a rate.
//! Source: docs/behavior.md, "Reload".

use super::{Egress, ShapedQueues};
use crate::buffer::pool::Pools;
use crate::egress::queue_limits::EgressLimits;
use crate::egress::scheduler::Scheduler;
use crate::fifo_set::FifoSet;
use crate::frame::remark;
use crate::pfc::link_pause::LinkPause;
use crate::settings::{PRIORITIES, PortSettings, Rate, RewriteSettings};
use crate::time::Instant;
use crate::token_bucket::TokenBucket;
use wire::bitset::Set8;

impl Egress {
    /// Other settings are coming: gives the queues' shared cells back until `reconfigure` takes them again.
    pub(crate) fn withdraw(&self, pools: &mut Pools) {
        self.queues.iter().for_each(|queue| queue.release_shared(pools));
    }

    /// Other settings. What waits goes on waiting; the scheduler begins a new round only if its own settings are others,
    /// and so does the rate of what is shaped.
    pub(crate) fn reconfigure(
        &mut self,
        settings: &PortSettings,
        limits: &EgressLimits,
        pools: &mut Pools,
        now: Instant,
    ) {
        for (queue, queue_limits) in self.queues.iter_mut().zip(limits.queues) {
            queue.reconfigure(queue_limits, limits.usage_percent, pools);
        }
        self.pauses.reconfigure(honored(settings), settings.pause_speed_bps(), now);
        self.link_pause = match (obeys_pause(settings), self.link_pause.take()) {
            (Some(_), Some(mut link)) => {
                link.reconfigure(settings.pause_speed_bps(), now);
                Some(link)
            }
            (new, _) => new,
        };
        self.watchdog.reconfigure(settings);
        self.fifos_of_priorities = stopped_by_pauses(settings, limits);
        self.rewrites = settings.rewrite != RewriteSettings::default();
        self.rewrite = settings.rewrite;
        self.longest_bytes = settings.longest_frame_bytes();
        self.in_flight_limit_bytes = settings.in_flight_bytes;
        let overhead_changes = self.shaper.overhead_bytes() != settings.overhead_bytes;
        if overhead_changes || self.schedule != settings.schedule {
            self.schedule.clone_from(&settings.schedule);
            self.scheduler = Scheduler::new(&settings.schedule, settings.overhead_bytes);
        }
        let new = shaped(settings);
        let same =
            |(old, new): (&ShapedQueues, &ShapedQueues)| (old.queues, old.rate) == (new.queues, new.rate);
        if overhead_changes || self.shaped.len() != new.len() || !self.shaped.iter().zip(&new).all(same) {
            self.shaped = new;
        }
        self.shaper.set_rate(line(settings), settings.overhead_bytes);
    }
}

/// The rate of the whole port.
pub(super) fn line(settings: &PortSettings) -> Option<Rate> {
    let speed_bps = settings.speed_bps.filter(|_| settings.keeps_rate);
    speed_bps.map(|bps| Rate { bps, burst_bytes: settings.burst_bytes })
}

/// What has a rate of its own.
pub(super) fn shaped(settings: &PortSettings) -> Vec<ShapedQueues> {
    let groups = settings.schedule.groups.iter().map(|group| (Set8::from_bits(group.queues), group.rate));
    let queues = settings.queues.iter().enumerate().map(|(q, queue)| (Set8::of(q), queue.rate));
    let with_rate = groups.chain(queues).filter_map(|(queues, rate)| Some((queues, rate?)));
    let shaper = |rate| TokenBucket::new(Some(rate), settings.overhead_bytes);
    with_rate.map(|(queues, rate)| ShapedQueues { queues, rate, shaper: shaper(rate) }).collect()
}

/// Priorities whose pauses are obeyed.
pub(super) fn honored(settings: &PortSettings) -> Set8 {
    if settings.pfc.rx { Set8::from_bits(settings.pfc.no_drop) } else { Set8::EMPTY }
}

/// The pause of the whole link, where it is obeyed.
pub(super) fn obeys_pause(settings: &PortSettings) -> Option<Box<LinkPause>> {
    settings.flow_control.obeys().then(|| Box::new(LinkPause::new(settings.pause_speed_bps())))
}

/// What a pause of each priority stops: the peer means the priorities that it sees.
pub(super) fn stopped_by_pauses(settings: &PortSettings, limits: &EgressLimits) -> [FifoSet; PRIORITIES] {
    let rewritten = remark::queues_by_priority(&settings.rewrite);
    rewritten.map_or(limits.fifos_of_priorities, |queues| queues.map(FifoSet::both))
}
