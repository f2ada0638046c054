//! Alarms of a whole switch: their thresholds and the periodic check.
//!
//! The rule of one alarm is in [`crate::monitor::alarm`].

use crate::monitor::alarm::ALARM_INTERVAL_NS;
use crate::monitor::event::{AlarmSource, Event};
use crate::pipeline::Switch;
use crate::settings::AlarmKind;
use crate::time::Instant;

impl Switch {
    /// Sets the alarm thresholds of every port, group and queue. Alarms that are off, or that were
    /// off until now, do not report what happened before.
    pub(crate) fn set_alarms(&mut self) {
        let alarms = &self.settings.alarms;
        for (pools, percents, kind) in [
            (&mut self.pools.ingress, alarms.ingress_pool_percent, AlarmKind::Ingress),
            (&mut self.pools.egress, alarms.egress_pool_percent, AlarmKind::Egress),
        ] {
            for (pool, percent) in pools.iter_mut().zip(percents) {
                pool.set_alarm(alarms.percent(kind, percent));
            }
        }
        let percent = alarms.percent(AlarmKind::Headroom, alarms.headroom_pool_percent);
        self.pools.headroom.set_alarm(percent);
        for (port, settings) in self.settings.ports.iter().enumerate() {
            self.ingress[port].set_alarms(&settings.alarms, alarms);
            self.egress[port].set_alarms(&settings.alarms, alarms);
        }
        let is_on = alarms.interval_ns.iter().any(Option::is_some);
        self.timers.next_alarms = if is_on { Instant(0) } else { Instant::NEVER };
    }

    /// Polls all alarms and reports those that have changed.
    #[cold]
    pub(crate) fn poll_alarms(&mut self, now: Instant) {
        self.timers.next_alarms = now + ALARM_INTERVAL_NS;
        let Self { events, pools, settings, .. } = self;
        let alarms = &settings.alarms;
        for port in 0..self.ingress.len() {
            self.ingress[port].report_alarms(port, alarms, now, events);
            self.egress[port].report_alarms(port, alarms, now, events);
        }
        let ingress = pools.ingress.iter_mut().enumerate().map(|(n, pool)| (AlarmKind::Ingress, n, pool));
        let egress = pools.egress.iter_mut().enumerate().map(|(n, pool)| (AlarmKind::Egress, n, pool));
        let headroom = [(AlarmKind::Headroom, 0, &mut pools.headroom)];
        for (kind, number, pool) in ingress.chain(egress).chain(headroom) {
            if let Some(interval_ns) = alarms.interval_ns(kind)
                && let Some(report) = pool.alarm().poll(now, interval_ns)
            {
                events.push(now, Event::Alarm { source: AlarmSource::Pool { kind, number }, report });
            }
        }
    }
}
