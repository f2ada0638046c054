//! What is reported comes from here: snapshots as clients of the API get them, and events from the
//! journal.
//!
//! Rule: each sensor of a subscription samples in its own rhythm; the journal is read from one
//! place for all. A switch that does not answer in time costs a sample, which is counted.

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

/// How long the switch may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was made of a sensor group.
#[derive(Debug, Default)]
pub struct Counts {
    /// Samples taken.
    pub samples: AtomicU64,
    /// Samples that the switch did not answer in time.
    pub missed: AtomicU64,
    /// Events reported.
    pub events: AtomicU64,
}

/// A sensor group and where it reports to.
#[derive(Debug, Clone)]
pub struct Feed {
    /// What.
    pub sensor: Sensor,
    /// To whom.
    pub destinations: Vec<Arc<Destination>>,
    /// What was made of it.
    pub counts: Arc<Counts>,
}

impl Feed {
    fn push(&self, payload: &Payload) {
        self.destinations.iter().for_each(|destination| destination.push(payload.clone()));
    }

    /// Samples as `reader` until the switch stops; nothing if these are event paths.
    pub async fn sample(self, reader: WatermarkReader, requests: mpsc::Sender<Request>) {
        let Some(interval_ms) = self.sensor.interval_ms else { return };
        let mut ticks = interval(Duration::from_millis(interval_ms));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let read_watermarks = self.sensor.paths.iter().any(|path| path.reads_watermarks());
        let mut before: Option<v1::Snapshot> = None;
        loop {
            ticks.tick().await;
            let (answer, answered) = oneshot::channel();
            let ask = async {
                requests.send(Request::Snapshot { reader, read_watermarks, answer }).await.ok()?;
                answered.await.ok()
            };
            let now = match timeout(PATIENCE, ask).await {
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

    fn tell(&self, event: &v1::Event) {
        for path in self.sensor.paths.iter().copied().filter(|path: &SensorPath| path.is_event()) {
            if let Some(member) = event::report(path, event) {
                let unix_ms = event.unix_ns / 1_000_000;
                self.push(&Payload { path: path.name(), unix_ms, member, is_event: true });
                self.counts.events.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Tells the feeds of events what comes, from the first event on; never ends.
pub async fn follow(journal: Journal, feeds: Vec<Feed>) {
    let mut since = 0;
    loop {
        journal.later_than(since).await;
        let batch = journal.read(since);
        for feed in feeds.iter().filter(|_| batch.missed > 0) {
            feed.destinations.iter().for_each(|destination| destination.miss_events(batch.missed));
        }
        for event in &batch.events {
            feeds.iter().for_each(|feed| feed.tell(event));
            since = event.number;
        }
        // What is taken from a full journal at once would keep the collectors' tasks waiting.
        tokio::task::yield_now().await;
    }
}
