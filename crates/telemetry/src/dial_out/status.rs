//! What is reported where, and the data of `sluice show telemetry`.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use control::v1;

use crate::dial_out::destination::Destination;
use crate::dial_out::message::unix_ms;
use crate::dial_out::source::Feed;
use crate::metrics::server::MetricsServer;
use crate::settings::Settings;

/// The present reports, for the thread that makes them and for those that ask for their status.
#[derive(Debug, Default)]
pub struct Shared(Mutex<Arc<Reports>>);

impl Shared {
    /// Returns the present reports.
    pub fn reports(&self) -> Arc<Reports> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the reports.
    pub fn set(&self, reports: Reports) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(reports);
    }
}

/// All subscriptions and destinations.
#[derive(Debug, Default)]
pub struct Reports {
    /// The collectors, in the order of the configuration.
    pub destinations: Vec<Arc<Destination>>,
    /// Subscriptions: name, and the feed of each of their sensor groups.
    pub subscriptions: Vec<(String, Vec<Feed>)>,
    /// The metrics, if they are served.
    pub metrics: Option<Arc<MetricsServer>>,
}

impl Reports {
    /// Returns the reports that these settings ask for. What is the same in `before` is kept, with
    /// all that waits and was counted.
    pub fn of(settings: &Settings, before: &Reports) -> Self {
        let started = unix_ms();
        let destination = |(index, to): (usize, &config::Destination)| {
            let known = before.destinations.iter().find(|known| known.is(to, &settings.folder));
            let session = format!("{started}.{index}");
            known
                .cloned()
                .unwrap_or_else(|| Arc::new(Destination::new(to.clone(), session, settings.folder.clone())))
        };
        let destinations: Vec<_> =
            settings.telemetry.destinations.iter().enumerate().map(destination).collect();
        let subscription = |subscription: &config::Subscription| {
            let to: Vec<_> =
                subscription.destinations.iter().map(|&index| Arc::clone(&destinations[index])).collect();
            let known = before.subscriptions.iter().find(|(name, _)| *name == subscription.name);
            let feed = |sensor: &config::Sensor| {
                let known = known.and_then(|(_, feeds)| feeds.iter().find(|feed| feed.sensor == *sensor));
                let counts = known.map_or_else(Arc::default, |feed| Arc::clone(&feed.counts));
                Feed { sensor: sensor.clone(), destinations: to.clone(), counts }
            };
            (subscription.name.clone(), subscription.sensors.iter().map(feed).collect())
        };
        let subscriptions = settings.telemetry.subscriptions.iter().map(subscription).collect();
        let metrics = settings.metrics.map(|metrics| {
            let known = before.metrics.as_ref().filter(|known| known.settings == metrics);
            known.cloned().unwrap_or_else(|| Arc::new(MetricsServer::new(metrics)))
        });
        Self { destinations, subscriptions, metrics }
    }

    /// Returns the current status.
    pub fn status(&self) -> v1::Telemetry {
        v1::Telemetry {
            subscriptions: self.subscriptions.iter().map(|(name, feeds)| subscription(name, feeds)).collect(),
            destinations: self.destinations.iter().map(|destination| destination.status()).collect(),
            metrics: self.metrics.as_ref().map(|metrics| metrics.status()),
        }
    }
}

fn subscription(name: &str, feeds: &[Feed]) -> v1::TelemetrySubscription {
    let to = feeds.first().map_or(&[][..], |feed| &feed.destinations);
    v1::TelemetrySubscription {
        name: name.to_owned(),
        sensors: feeds.iter().map(sensor).collect(),
        destinations: to.iter().map(|destination| destination.status().address).collect(),
    }
}

fn sensor(feed: &Feed) -> v1::TelemetrySensor {
    v1::TelemetrySensor {
        group: feed.sensor.group.clone(),
        paths: feed.sensor.paths.iter().map(|path| path.name().to_owned()).collect(),
        interval_ms: feed.sensor.interval_ms,
        samples: feed.counts.samples.load(Ordering::Relaxed),
        missed_samples: feed.counts.missed.load(Ordering::Relaxed),
        events: feed.counts.events.load(Ordering::Relaxed),
    }
}
