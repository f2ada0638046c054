//! Telemetry and metrics of the daemon: what of them cannot be reached, as events.
//!
//! Rule: a collector, or the address of the metrics, that cannot be reached stops nothing. It is
//! tried again, and one event says that it began and one that it ended. Source:
//! docs/monitoring/telemetry.md, "Delivery".

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use control::v1;
use switch::{EventKind, EventRecord};
use telemetry::{Settings, Telemetry};

/// Interval of the looks at the state.
const PACE: Duration = Duration::from_millis(500);

/// Running telemetry, and what of it was reported.
#[derive(Debug)]
pub struct TelemetryEvents {
    telemetry: Telemetry,
    problems: Problems,
    next_check: Instant,
}

impl TelemetryEvents {
    /// Takes running telemetry.
    pub fn new(telemetry: Telemetry) -> Self {
        Self { telemetry, problems: Problems::default(), next_check: Instant::now() }
    }

    /// Applies other settings.
    pub fn apply(&mut self, settings: &Settings) -> Result<()> {
        self.telemetry.apply(settings).context("telemetry")
    }

    /// Returns the events since the last call.
    pub fn events(&mut self, now: Instant) -> Vec<EventRecord> {
        if now < self.next_check {
            return Vec::new();
        }
        self.next_check = now + PACE;
        self.problems.compare((self.telemetry.status())())
    }
}

/// What cannot be reached, by its name: a collector with the messages that it had confirmed, or the
/// metrics.
#[derive(Debug, Default)]
struct Problems(BTreeMap<String, u64>);

impl Problems {
    fn compare(&mut self, status: v1::Telemetry) -> Vec<EventRecord> {
        let mut events = Vec::new();
        for to in &status.destinations {
            let name = match &to.vpn_instance {
                Some(namespace) => format!("collector {} in {namespace}", to.address),
                None => format!("collector {}", to.address),
            };
            let failed_at = self.0.get(&name);
            let is_failing = match to.state.as_str() {
                "waiting" => true,
                _ => failed_at.is_some_and(|sent| to.sent == *sent),
            };
            let kinds = [EventKind::CollectorUnreachable, EventKind::CollectorReached];
            events.extend(self.change(name, (is_failing, to.sent), kinds, to.last_error.as_deref()));
        }
        if let Some(metrics) = &status.metrics {
            let is_failing = !metrics.listening && metrics.last_error.is_some();
            let kinds = [EventKind::MetricsUnavailable, EventKind::MetricsAvailable];
            let name = format!("metrics at {}", metrics.address);
            events.extend(self.change(name, (is_failing, 0), kinds, metrics.last_error.as_deref()));
        }
        events
    }

    fn change(
        &mut self,
        name: String,
        (is_failing, sent): (bool, u64),
        [lost, back]: [EventKind; 2],
        why: Option<&str>,
    ) -> Option<EventRecord> {
        let was_failing = self.0.contains_key(&name);
        if is_failing && !was_failing {
            let message = format!("{name}: {}; it is tried again", why.unwrap_or_default());
            self.0.insert(name, sent);
            return Some(EventRecord::new(lost, message));
        }
        if !is_failing && was_failing {
            self.0.remove(&name);
            return Some(EventRecord::new(back, format!("{name}: reached")));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_collector_is_reported_once_and_so_is_its_return() {
        let mut problems = Problems::default();
        let mut kinds = |state: &str, sent, listening| {
            let last_error = Some("refused".to_owned());
            let collector = v1::TelemetryDestination {
                address: "h:1".to_owned(),
                state: state.to_owned(),
                sent,
                last_error: last_error.clone(),
                ..v1::TelemetryDestination::default()
            };
            let metrics = v1::TelemetryMetrics { listening, last_error, ..v1::TelemetryMetrics::default() };
            let status = v1::Telemetry {
                destinations: vec![collector],
                metrics: Some(metrics),
                ..v1::Telemetry::default()
            };
            let events = problems.compare(status);
            events.into_iter().map(|event| format!("{}: {}", event.kind, event.message)).collect::<Vec<_>>()
        };
        assert_eq!(kinds("connecting", 5, true), [""; 0]);
        assert_eq!(
            kinds("waiting", 5, false),
            [
                "collector_unreachable: collector h:1: refused; it is tried again",
                "metrics_unavailable: metrics at : refused; it is tried again"
            ]
        );
        assert_eq!(kinds("connecting", 5, false), [""; 0]);
        assert_eq!(kinds("sending", 5, true), ["metrics_available: metrics at : reached"]);
        assert_eq!(kinds("waiting", 5, true), [""; 0]);
        assert_eq!(kinds("idle", 6, true), ["collector_reached: collector h:1: reached"]);
    }
}
