//! A port: its ingress and egress halves, what belongs to neither, and how all of it is told.

use crate::counters::{Count, PortSnapshot, QueueSnapshot};
use crate::egress::Egress;
use crate::ingress::Ingress;
use crate::pool::Pools;
use crate::settings::{PRIORITIES, Threshold};
use crate::time::Instant;
use wire::mac::MacAddr;

/// One port.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) mac: MacAddr,
    pub(crate) speed_bps: u64,
    pub(crate) overhead_bytes: u16,
    pub(crate) up: bool,
    pub(crate) ingress: Ingress,
    pub(crate) egress: Egress,
    /// Data frames that completed; those that the kernel lost are among them.
    pub(crate) completed: Count,
    pub(crate) kernel_lost: u64,
    pub(crate) pfc_malformed: u64,
    pub(crate) pause_received: u64,
}

impl Port {
    /// Fills `out` with all that the port counts.
    pub(crate) fn snapshot(&mut self, now: Instant, pools: &Pools, out: &mut PortSnapshot) {
        out.name.clone_from(&self.name);
        out.up = self.up;
        out.held = self.egress.is_held();
        out.speed_bps = self.speed_bps;
        out.overhead_bytes = self.overhead_bytes;
        let (received, drops) = self.ingress.counts();
        (out.received, out.drops) = (received, *drops);
        (out.received_yellow_frames, out.received_red_frames) = self.ingress.coloured();
        out.kernel_lost_frames = self.kernel_lost;
        out.transmitted = self.completed;
        out.transmitted.frames = out.transmitted.frames.saturating_sub(self.kernel_lost);
        out.in_flight_peak_bytes = u64::from(self.egress.in_flight_peak_bytes());
        out.pfc_received = self.egress.pauses.count();
        out.pfc_sent = self.ingress.pfc.count();
        out.pfc_malformed_frames = self.pfc_malformed;
        out.pause_received_frames = self.pause_received;
        for (group, out) in self.ingress.groups.iter().zip(&mut out.groups) {
            *out = group.snapshot(pools);
        }
        let paused = self.egress.paused_queues(now);
        let (episodes, paused_ns) = self.egress.pauses.history(now);
        for (q, out) in out.queues.iter_mut().enumerate() {
            let queue = &self.egress.queues[q];
            let priorities = (0..PRIORITIES).filter(|&p| self.egress.uses_queue(p, q));
            let (transmitted, dropped) = queue.counts();
            let limits = queue.limits();
            let (marked, wred_dropped) = queue.early();
            *out = QueueSnapshot {
                paused: paused & (1 << q) != 0,
                pauses: priorities.clone().map(|p| episodes[p]).sum(),
                paused_ns: priorities.map(|p| paused_ns[p]).sum(),
                pool: limits.pool,
                level: queue.level(),
                guaranteed_cells: limits.guaranteed_cells,
                waiting_frames: u64::from(queue.waiting.frames()),
                threshold_cells: Some(queue.threshold_cells(pools)).filter(|&cells| cells != u32::MAX),
                is_dynamic: matches!(limits.maximum, Some(Threshold::Dynamic(_))),
                usage_percent: queue.usage_percent(),
                violations: queue.violations(),
                transmitted,
                dropped,
                marked,
                wred_dropped,
                average_cells: queue.average_cells(),
            };
        }
    }
}
