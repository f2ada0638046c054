//! Snapshot, watermarks and alarms of the egress half of a port.

use super::Egress;
use crate::buffer::pool::Pools;
use crate::egress::frame_queue::FrameQueues;
use crate::fifo_set::FifoSet;
use crate::frame::FrameId;
use crate::monitor::counters::{FrameCount, PortSnapshot, QueueSnapshot};
use crate::monitor::event::{AlarmSource, Event};
use crate::monitor::event_list::Events;
use crate::monitor::watermark::WatermarkReset;
use crate::settings::{AlarmKind, AlarmSettings, PRIORITIES, PortAlarmSettings};
use crate::time::Instant;

impl Egress {
    /// Visits the queued frames, of copies the originals. For checks only.
    pub(crate) fn for_each_queued(&self, store: &FrameQueues, look: &mut impl FnMut(&FrameId)) {
        for queue in self.queues.iter().map(|queue| &queue.waiting).chain(&*self.flooded) {
            store.for_each(queue, look);
        }
    }

    /// Returns the cells in use by each queue.
    #[inline]
    pub(crate) fn used_cells(&self) -> [u32; PRIORITIES] {
        std::array::from_fn(|queue| self.queues[queue].used_cells())
    }

    /// Resets one watermark of every queue.
    pub(crate) fn reset_watermarks(&mut self, mark: WatermarkReset) {
        self.queues.iter_mut().for_each(|queue| queue.reset_watermark(mark));
    }

    /// Sets other alarm thresholds.
    pub(crate) fn set_alarms(&mut self, port: &PortAlarmSettings, alarms: &AlarmSettings) {
        for (queue, percent) in self.queues.iter_mut().zip(port.egress_percent) {
            queue.set_alarm(alarms.percent(AlarmKind::Egress, percent));
        }
    }

    /// Reports alarms that have changed.
    pub(crate) fn report_alarms(
        &mut self,
        port: usize,
        alarms: &AlarmSettings,
        now: Instant,
        events: &mut Events,
    ) {
        for (number, queue) in self.queues.iter_mut().enumerate() {
            let source = AlarmSource::Port { port, kind: AlarmKind::Egress, number };
            let (used, drops, dropped) = queue.alarms();
            if let Some(interval_ns) = alarms.interval_ns(AlarmKind::Egress)
                && let Some(report) = used.poll(now, interval_ns)
            {
                events.push(now, Event::Alarm { source, report });
            }
            if let Some(interval_ns) = alarms.interval_ns(AlarmKind::Drop)
                && let Some(dropped) = drops.poll(dropped, now, interval_ns)
            {
                events.push(now, Event::DropAlarm { source, dropped });
            }
        }
    }

    /// Fills in the counters and levels of this half.
    pub(crate) fn snapshot(&mut self, now: Instant, pools: &Pools, out: &mut PortSnapshot) {
        out.held = self.tx_held;
        out.in_flight_peak_bytes = u64::from(self.in_flight_peak_bytes);
        out.pfc_received = self.pauses.count();
        out.pfc_malformed_frames = self.pfc_malformed;
        out.tx_stalls = self.tx_stall.stalls();
        out.pause_received_frames = self.pause_received;
        let paused = self.pauses.paused(now);
        let (episodes, paused_ns) = self.pauses.history(now);
        let (link_episodes, link_paused_ns) =
            self.link_pause.as_ref().map_or((0, 0), |link| link.history(now));
        out.link_paused = self.link_pause.as_mut().is_some_and(|link| link.is_paused(now));
        (out.link_pauses, out.link_paused_ns) = (link_episodes, link_paused_ns);
        for (p, out) in out.priorities.iter_mut().enumerate() {
            out.paused = paused.contains(p);
            (out.pauses, out.paused_ns) = (episodes[p], paused_ns[p]);
            self.watchdog.snapshot(p, out);
        }
        self.watchdog.history(&mut out.storms);
        let paused = if out.link_paused { FifoSet::ALL } else { self.pause_map.of_all(paused) };
        for (q, out) in out.queues.iter_mut().enumerate() {
            let priorities = (0..PRIORITIES).filter(|&p| self.pause_map.of(p).queues().contains(q));
            let flooded_frames = u64::from(self.flooded[q].frames());
            let queue = self.queues[q].snapshot(pools, now);
            *out = QueueSnapshot {
                no_room: self.no_room.contains(q),
                no_room_stalls: self.room_stalls.count(q),
                paused: paused.known().contains(q),
                flooded_paused: paused.flooded().contains(q),
                flooded_frames,
                waiting_frames: queue.waiting_frames + flooded_frames,
                pauses: priorities.clone().map(|p| episodes[p]).sum(),
                paused_ns: priorities.map(|p| paused_ns[p]).sum(),
                ..queue
            };
        }
        out.transmitted = out.queues.iter().fold(FrameCount::default(), |sum, queue| sum + queue.transmitted);
        for (out, drops) in out.drops.iter_mut().zip(&self.drops) {
            *out = *out + *drops;
        }
        out.output_dropped = FrameCount::sum(&self.drops);
        out.kernel_lost_frames = out.queues.iter().map(|queue| queue.kernel_lost.frames).sum();
        out.kernel_lost_no_drop_frames = self.kernel_losses.no_drop_frames();
        out.kernel_lost_pfc_frames = self.kernel_losses.pfc_frames();
        [
            out.transmitted_broadcast_frames,
            out.transmitted_multicast_frames,
            out.transmitted_unknown_unicast_frames,
        ] = self.flooded_out;
    }
}
