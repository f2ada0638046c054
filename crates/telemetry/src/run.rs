//! Telemetry of a running switch, on a thread of its own.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use control::server::Request;
use control::{Journal, v1};
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::connect::{self, Namespace};
use crate::destination::{Destination, Timing};
use crate::message::{Device, unix_ms};
use crate::source::{self, Feed};
use crate::status::Shared;

/// How long collectors may take for what is left when the switch stops.
const STOP_PATIENCE: Duration = Duration::from_millis(500);

/// Why it could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// `vpn_instance` names no network namespace.
    #[error(
        "telemetry.destination-group.{group}.vpn_instance: there is no network namespace `{name}` (/run/netns/{name}: \
         {cause}); make it with `ip netns add {name}`, or leave the setting out"
    )]
    Namespace {
        /// The destination group.
        group: String,
        /// The namespace.
        name: String,
        /// What the system said.
        cause: io::Error,
    },
    /// No thread.
    #[error("telemetry: cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// Telemetry that runs; it ends with this.
#[derive(Debug)]
pub struct Telemetry {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Telemetry {
    /// Starts what `settings` say, of a switch that answers `requests`, has these `ports` and writes `journal`.
    ///
    /// # Errors
    /// A network namespace is not there, or no thread can be started.
    pub fn start(
        settings: &config::Telemetry,
        device: Device,
        ports: Vec<String>,
        requests: mpsc::Sender<Request>,
        journal: Journal,
    ) -> Result<Self, StartError> {
        Self::start_with(settings, device, ports, requests, journal, Timing::default())
    }

    pub(crate) fn start_with(
        settings: &config::Telemetry,
        device: Device,
        ports: Vec<String>,
        requests: mpsc::Sender<Request>,
        journal: Journal,
        timing: Timing,
    ) -> Result<Self, StartError> {
        let namespaces = settings.destinations.iter().map(namespace).collect::<Result<Vec<_>, _>>()?;
        let shared = Arc::new(shared(settings));
        let (stop, stopped) = watch::channel(false);
        if settings.subscriptions.is_empty() {
            return Ok(Self { shared, stop, thread: None });
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let work = {
            let shared = Arc::clone(&shared);
            move || {
                runtime.block_on(work(&shared, namespaces, device, ports, requests, journal, timing, stopped))
            }
        };
        let thread = std::thread::Builder::new().name("telemetry".to_owned()).spawn(work)?;
        Ok(Self { shared, stop, thread: Some(thread) })
    }

    /// What it is doing, whenever asked.
    pub fn status(&self) -> impl Fn() -> v1::Telemetry + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.status()
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

/// Whether it could start, as far as that can be told without doing so.
///
/// # Errors
/// A network namespace is not there.
pub fn check(settings: &config::Telemetry) -> Result<(), StartError> {
    settings.destinations.iter().try_for_each(|destination| namespace(destination).map(drop))
}

fn namespace(destination: &config::Destination) -> Result<Option<Namespace>, StartError> {
    let Some(name) = &destination.vpn_instance else { return Ok(None) };
    connect::namespace(name).map(Some).map_err(|cause| StartError::Namespace {
        group: destination.group.clone(),
        name: name.clone(),
        cause,
    })
}

fn shared(settings: &config::Telemetry) -> Shared {
    let started = unix_ms();
    let destination = |(place, to): (usize, &config::Destination)| {
        Arc::new(Destination::new(to.clone(), format!("{started}.{place}")))
    };
    let destinations: Vec<_> = settings.destinations.iter().enumerate().map(destination).collect();
    let subscription = |subscription: &config::Subscription| {
        let to: Vec<_> =
            subscription.destinations.iter().map(|&place| Arc::clone(&destinations[place])).collect();
        let feed = |sensor: &config::Sensor| Feed {
            sensor: sensor.clone(),
            destinations: to.clone(),
            counts: Arc::default(),
        };
        (subscription.name.clone(), subscription.sensors.iter().map(feed).collect())
    };
    let subscriptions = settings.subscriptions.iter().map(subscription).collect();
    Shared { destinations, subscriptions }
}

#[allow(clippy::too_many_arguments, reason = "all that the thread owns")]
async fn work(
    shared: &Shared,
    namespaces: Vec<Option<Namespace>>,
    device: Device,
    ports: Vec<String>,
    requests: mpsc::Sender<Request>,
    journal: Journal,
    timing: Timing,
    mut stop: watch::Receiver<bool>,
) {
    let feeds = || shared.subscriptions.iter().flat_map(|(_, feeds)| feeds).cloned();
    let (periodic, events): (Vec<Feed>, Vec<Feed>) =
        feeds().partition(|feed| feed.sensor.interval_ms.is_some());
    let mut sources = JoinSet::new();
    for feed in periodic {
        sources.spawn(feed.sample(requests.clone()));
    }
    drop(requests);
    if !events.is_empty() {
        sources.spawn(source::follow(journal, events, ports));
    }
    let mut deliveries = JoinSet::new();
    for (destination, namespace) in shared.destinations.iter().zip(namespaces) {
        let destination = Arc::clone(destination);
        deliveries.spawn(destination.deliver(device.clone(), namespace, timing, stop.clone()));
    }
    let _ = stop.wait_for(|&stop| stop).await; // gone is stopped, too
    sources.shutdown().await;
    let _ = tokio::time::timeout(STOP_PATIENCE, deliveries.join_all()).await;
}
