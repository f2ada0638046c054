//! The data of `sluice show telemetry`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use control::v1;

use crate::dial_out::destination::Destination;
use crate::dial_out::source::Feed;

/// All subscriptions and destinations.
#[derive(Debug, Default)]
pub struct Shared {
    /// The collectors, in the order of the configuration.
    pub destinations: Vec<Arc<Destination>>,
    /// Subscriptions: name, and the feed of each of their sensor groups.
    pub subscriptions: Vec<(String, Vec<Feed>)>,
}

impl Shared {
    /// Returns the current status.
    pub fn status(&self) -> v1::Telemetry {
        v1::Telemetry {
            subscriptions: self.subscriptions.iter().map(|(name, feeds)| subscription(name, feeds)).collect(),
            destinations: self.destinations.iter().map(|destination| destination.status()).collect(),
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
