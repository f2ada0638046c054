//! The source of reports: snapshots as clients of the API get them, and events from the journal.
//!
//! Rule: each sensor of a subscription has its own sampling interval; one task reads the journal
//! for all. A switch that does not reply in time costs a sample, which is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use config::{Sensor, SensorPath};
use control::server::{Request, WatermarkReader};
use control::{Journal, v1};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::dial_out::destination::Destination;
use crate::dial_out::event;
use crate::dial_out::message::{Payload, unix_ms};
use crate::dial_out::sample;

/// How long the switch may take to reply.
const PATIENCE: Duration = Duration::from_secs(2);

/// Counters of a sensor group.
#[derive(Debug, Default)]
pub struct Counts {
    /// Samples taken.
    pub samples: AtomicU64,
    /// Samples missed because the switch did not reply in time.
    pub missed: AtomicU64,
    /// Events reported.
    pub events: AtomicU64,
}

/// A sensor group and its destinations.
#[derive(Debug, Clone)]
pub struct Feed {
    /// The sensor group.
    pub sensor: Sensor,
    /// The collectors that it reports to.
    pub destinations: Vec<Arc<Destination>>,
    /// Counters of the sensor group.
    pub counts: Arc<Counts>,
}

impl PartialEq for Feed {
    /// Feeds are equal if they report the same to the same collectors, with the same counters.
    fn eq(&self, other: &Self) -> bool {
        let pairs = self.destinations.iter().zip(&other.destinations);
        self.sensor == other.sensor
            && self.destinations.len() == other.destinations.len()
            && pairs.into_iter().all(|(one, another)| Arc::ptr_eq(one, another))
    }
}

impl Feed {
    fn push(&self, payload: &Payload) {
        self.destinations.iter().for_each(|destination| destination.push(payload.clone()));
    }

    /// Samples as `reader` until the switch stops; returns at once for event paths.
    pub async fn sample(self, reader: WatermarkReader, requests: mpsc::Sender<Request>) {
        let Some(interval_ms) = self.sensor.interval_ms else { return };
        let mut ticks = interval(Duration::from_millis(interval_ms));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let read_watermarks = self.sensor.paths.iter().any(|path| path.reads_watermarks());
        let mut before: Option<v1::Snapshot> = None;
        loop {
            ticks.tick().await;
            let (answer, answered) = oneshot::channel();
            let request = async {
                requests.send(Request::Snapshot { reader, read_watermarks, answer }).await.ok()?;
                answered.await.ok()
            };
            let now = match timeout(PATIENCE, request).await {
                Ok(Some(now)) => now,
                Ok(None) => return,
                Err(_) => {
                    self.counts.missed.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
            };
            let unix_ms = unix_ms();
            for path in &self.sensor.paths {
                if let Some(member) = sample::report(*path, &now, before.as_ref()) {
                    self.push(&Payload { path: path.name(), unix_ms, member, is_event: false });
                }
            }
            self.counts.samples.fetch_add(1, Ordering::Relaxed);
            before = Some(now);
        }
    }

    fn report(&self, event: &v1::Event) {
        for path in self.sensor.paths.iter().copied().filter(|path: &SensorPath| path.is_event()) {
            if let Some(member) = event::report(path, event) {
                let unix_ms = event.unix_ns / 1_000_000;
                self.push(&Payload { path: path.name(), unix_ms, member, is_event: true });
                self.counts.events.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Passes the events after number `last` to the feeds, and sets it; never ends.
pub async fn follow(journal: Journal, feeds: Vec<Feed>, last: Arc<AtomicU64>) {
    loop {
        let since = last.load(Ordering::Relaxed);
        journal.later_than(since).await;
        let batch = journal.read(since);
        for feed in feeds.iter().filter(|_| batch.missed > 0) {
            feed.destinations.iter().for_each(|destination| destination.miss_events(batch.missed));
        }
        for event in &batch.events {
            feeds.iter().for_each(|feed| feed.report(event));
            last.store(event.number, Ordering::Relaxed);
        }
        // Taking all events of a full journal at once would delay the collectors' tasks.
        tokio::task::yield_now().await;
    }
}
