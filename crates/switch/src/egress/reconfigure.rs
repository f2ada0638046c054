//! Applies the settings of a port to its egress half, at the start and while it runs.
//!
//! Rule: queued frames stay queued. The scheduler begins a new round only if its own settings
//! change, and so does a rate limit. Source: docs/behavior.md, "Reload".

use super::{
    Egress, ShapedQueues, honored, honors_pause, port_shaper, shaped, stopped_by_pauses, unmarked_fifos,
    wred_fifos,
};
use crate::buffer::pool::Pools;
use crate::egress::queue_limits::EgressLimits;
use crate::egress::scheduler::Scheduler;
use crate::settings::{PortSettings, RewriteSettings};
use crate::time::Instant;

impl Egress {
    /// Releases the queues' shared cells before a change of settings; `reconfigure` charges them
    /// again.
    pub(crate) fn release_shared(&self, pools: &mut Pools) {
        self.queues.iter().for_each(|queue| queue.release_shared(pools));
    }

    /// Applies other settings. Queued frames stay queued. The scheduler begins a new round only if
    /// its own settings change, and so does each rate limit.
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
        self.unmarked_fifos = unmarked_fifos(&self.queues);
        self.wred_fifos = wred_fifos(&self.queues);
        self.pauses.reconfigure(honored(settings), settings.pause_speed_bps(), now);
        self.link_pause = match (honors_pause(settings), self.link_pause.take()) {
            (Some(_), Some(mut link)) => {
                link.reconfigure(settings.pause_speed_bps(), now);
                Some(link)
            }
            (new, _) => new,
        };
        self.watchdog.reconfigure(settings);
        self.pause_map.reconfigure(stopped_by_pauses(settings, limits), self.backlogged);
        self.remarks = settings.rewrite != RewriteSettings::default();
        self.remark_maps = settings.rewrite;
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
        self.shaper.set_rate(port_shaper(settings), settings.overhead_bytes);
    }
}
