//! Telemetry of a running switch, on a separate thread.
//!
//! Rule: nothing that telemetry lacks stops the switch. A collector, its network namespace, a file
//! of its TLS, or the address of the metrics that is not there is tried again, and its status says
//! why. New settings are applied while it runs: collectors that stay the same keep their
//! connections, backlogs and numbers. Source: docs/monitoring/telemetry.md, "Delivery".

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use control::server::WatermarkReader;
use control::v1;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::dial_out::destination::{Destination, Timing};
use crate::dial_out::source::{self, Feed};
use crate::dial_out::status::{Reports, Shared};
use crate::metrics::server;
use crate::settings::{Settings, Sources};

/// How long collectors may take for the backlog when the switch stops.
const STOP_PATIENCE: Duration = Duration::from_millis(500);

/// Running telemetry; dropping it stops it.
#[derive(Debug)]
pub struct Telemetry {
    sources: Sources,
    timing: Timing,
    shared: Arc<Shared>,
    /// Signals the thread to apply what is shared, or (true) to stop.
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Telemetry {
    /// Starts the telemetry of a switch.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(settings: &Settings, sources: Sources) -> io::Result<Self> {
        Self::start_with(settings, sources, Timing::default())
    }

    pub(crate) fn start_with(settings: &Settings, sources: Sources, timing: Timing) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut telemetry = Self { sources, timing, shared, stop: watch::Sender::new(false), thread: None };
        telemetry.apply(settings)?;
        Ok(telemetry)
    }

    /// Applies other settings.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn apply(&mut self, settings: &Settings) -> io::Result<()> {
        self.shared.set(Reports::of(settings, &self.shared.reports()));
        self.stop.send_replace(false);
        if self.thread.is_some()
            || (settings.telemetry.subscriptions.is_empty() && settings.metrics.is_none())
        {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (shared, sources, timing) = (Arc::clone(&self.shared), self.sources.clone(), self.timing);
        let stop = self.stop.subscribe();
        let work = move || runtime.block_on(work(&shared, &sources, timing, stop));
        self.thread = Some(std::thread::Builder::new().name("telemetry".to_owned()).spawn(work)?);
        Ok(())
    }

    /// Returns a function that reports the current state.
    pub fn status(&self) -> impl Fn() -> v1::Telemetry + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.reports().status()
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic there has been reported
        }
    }
}

/// The tasks of the thread.
#[derive(Default)]
struct Tasks {
    /// Takes samples and follows the journal.
    feeds: JoinSet<()>,
    /// Serves metrics.
    metrics: JoinSet<()>,
    /// The collectors, and how to stop each delivery.
    collectors: Vec<(Arc<Destination>, watch::Sender<bool>)>,
    deliveries: JoinSet<()>,
    /// The last event that was passed to the feeds.
    last_event: Arc<AtomicU64>,
}

/// Runs what is shared until it stops.
async fn work(shared: &Arc<Shared>, sources: &Sources, timing: Timing, mut stop: watch::Receiver<bool>) {
    let mut tasks = Tasks::default();
    let mut running = Arc::new(Reports::default());
    // The end of the sender is a stop, too.
    while !*stop.borrow_and_update() {
        let reports = shared.reports();
        if reports.subscriptions != running.subscriptions {
            tasks.restart_feeds(&reports, sources).await;
        }
        let server = |reports: &Reports| reports.metrics.as_ref().map(Arc::as_ptr);
        if server(&reports) != server(&running) {
            tasks.restart_metrics(shared, &reports, sources).await;
        }
        tasks.update_collectors(&reports, sources, timing);
        running = reports;
        if stop.changed().await.is_err() {
            break;
        }
    }
    tasks.feeds.shutdown().await;
    tasks.metrics.shutdown().await;
    for (_, stop) in &tasks.collectors {
        stop.send_replace(true);
    }
    let _ = tokio::time::timeout(STOP_PATIENCE, tasks.deliveries.join_all()).await;
}

impl Tasks {
    async fn restart_feeds(&mut self, reports: &Reports, sources: &Sources) {
        self.feeds.shutdown().await;
        let feeds = reports.subscriptions.iter().flat_map(|(_, feeds)| feeds).cloned();
        let (periodic, events): (Vec<Feed>, Vec<Feed>) =
            feeds.partition(|feed| feed.sensor.interval_ms.is_some());
        for (index, feed) in periodic.into_iter().enumerate() {
            self.feeds.spawn(feed.sample(WatermarkReader::Sensor(index), sources.requests.clone()));
        }
        if !events.is_empty() {
            self.feeds.spawn(source::follow(sources.journal.clone(), events, Arc::clone(&self.last_event)));
        }
    }

    async fn restart_metrics(&mut self, shared: &Arc<Shared>, reports: &Reports, sources: &Sources) {
        self.metrics.shutdown().await; // the address is free now
        if let Some(server) = &reports.metrics {
            let shared = Arc::clone(shared);
            let telemetry = Box::new(move || shared.reports().status());
            let source =
                server::Source { sources: sources.clone(), telemetry, has_page: server.settings.page };
            self.metrics.spawn(server::run(Arc::clone(server), source));
        }
    }

    /// Starts the deliveries of new collectors, and ends those of removed ones.
    fn update_collectors(&mut self, reports: &Reports, sources: &Sources, timing: Timing) {
        let is_in =
            |list: &[Arc<Destination>], one: &Arc<Destination>| list.iter().any(|to| Arc::ptr_eq(to, one));
        self.collectors.retain(|(to, stop)| {
            let stays = is_in(&reports.destinations, to);
            if !stays {
                stop.send_replace(true);
            }
            stays
        });
        while self.deliveries.try_join_next().is_some() {}
        for to in &reports.destinations {
            if !self.collectors.iter().any(|(known, _)| Arc::ptr_eq(known, to)) {
                let (stop, stopped) = watch::channel(false);
                self.deliveries.spawn(Arc::clone(to).deliver(sources.device.clone(), timing, stopped));
                self.collectors.push((Arc::clone(to), stop));
            }
        }
    }
}
