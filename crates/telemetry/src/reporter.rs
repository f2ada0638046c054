//! Telemetry of a running switch, on a separate thread.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use control::server::{Request, WatermarkReader};
use control::{Journal, v1};
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::dial_out::connect::{self, Namespace};
use crate::dial_out::destination::{Destination, Timing};
use crate::dial_out::message::{Device, unix_ms};
use crate::dial_out::source::{self, Feed};
use crate::dial_out::status::Shared;
use crate::dial_out::tls::{self, FileError};
use crate::metrics::server;

/// How long collectors may take for the backlog when the switch stops.
const STOP_PATIENCE: Duration = Duration::from_millis(500);

/// Why telemetry could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// `vpn_instance` names no network namespace.
    #[error(
        "telemetry.destination-group.{group}.vpn_instance: there is no network namespace `{name}` (/run/netns/{name}: \
         {cause}); make it with `ip netns add {name}`, or leave the setting out"
    )]
    Namespace {
        /// Name of the destination group.
        group: String,
        /// Name of the namespace.
        name: String,
        /// The system's error.
        cause: io::Error,
    },
    /// A file of `tls` cannot be used.
    #[error("telemetry.destination-group.{group}.tls.{setting}: {cause}")]
    Tls {
        /// Name of the destination group.
        group: String,
        /// The setting that names it.
        setting: &'static str,
        /// What is wrong with the file.
        cause: FileError,
    },
    /// The address of the metrics is in use, or not of this machine.
    #[error(
        "metrics.listen: cannot listen on {address}: {cause}; write another address or port, or leave [metrics] out"
    )]
    Listen {
        /// The address as configured.
        address: SocketAddr,
        /// The system's error.
        cause: io::Error,
    },
    /// The thread could not be started.
    #[error("telemetry: cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// The telemetry part of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'c> {
    /// Subscriptions and collectors.
    pub telemetry: &'c config::Telemetry,
    /// Where metrics are served.
    pub metrics: Option<config::Metrics>,
    /// Folder of the configuration file, which names other files.
    pub folder: &'c Path,
}

impl<'c> Settings<'c> {
    /// Returns the settings of a configuration in this file.
    pub fn of(config: &'c config::Config, file: &'c Path) -> Self {
        let folder = file.parent().unwrap_or(Path::new("."));
        Self { telemetry: &config.telemetry, metrics: config.metrics, folder }
    }
}

/// Running telemetry; dropping it stops it.
#[derive(Debug)]
pub struct Telemetry {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Telemetry {
    /// Starts the telemetry of a switch that replies to `requests` and writes `journal`.
    ///
    /// # Errors
    /// A network namespace does not exist, the metrics address cannot be used, or the thread cannot
    /// be started.
    pub fn start(
        settings: Settings,
        device: Device,
        requests: mpsc::Sender<Request>,
        journal: Journal,
    ) -> Result<Self, StartError> {
        Self::start_with(settings, device, requests, journal, Timing::default())
    }

    pub(crate) fn start_with(
        settings: Settings,
        device: Device,
        requests: mpsc::Sender<Request>,
        journal: Journal,
        timing: Timing,
    ) -> Result<Self, StartError> {
        files(settings)?;
        let Settings { telemetry: settings, metrics, folder } = settings;
        let namespaces = settings.destinations.iter().map(namespace).collect::<Result<Vec<_>, _>>()?;
        let listener =
            metrics.map(|metrics| Ok::<_, StartError>((listen(metrics)?, metrics.page))).transpose()?;
        // The daemon may change its working directory.
        let folder = std::env::current_dir()?.join(folder);
        let shared = Arc::new(shared(settings, &folder));
        let (stop, stopped) = watch::channel(false);
        if settings.subscriptions.is_empty() && listener.is_none() {
            return Ok(Self { shared, stop, thread: None });
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let work = {
            let shared = Arc::clone(&shared);
            move || {
                runtime
                    .block_on(work(&shared, namespaces, device, requests, journal, timing, listener, stopped))
            }
        };
        let thread = std::thread::Builder::new().name("telemetry".to_owned()).spawn(work)?;
        Ok(Self { shared, stop, thread: Some(thread) })
    }

    /// Returns a function that reports the current state.
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

/// Checks whether the telemetry could start, as far as possible without starting it.
///
/// # Errors
/// A network namespace does not exist, a file of `tls` cannot be used, or the metrics address
/// cannot be used.
pub fn check(settings: Settings) -> Result<(), StartError> {
    files(settings)?;
    settings.telemetry.destinations.iter().try_for_each(|destination| namespace(destination).map(drop))?;
    settings.metrics.map(listen).transpose().map(drop)
}

/// Checks that the files of `tls` can be used.
fn files(settings: Settings) -> Result<(), StartError> {
    for to in &settings.telemetry.destinations {
        if let Some(Err((setting, cause))) =
            to.tls.as_ref().map(|tls| tls::client(tls, &to.host, settings.folder))
        {
            return Err(StartError::Tls { group: to.group.clone(), setting, cause });
        }
    }
    Ok(())
}

fn listen(metrics: config::Metrics) -> Result<std::net::TcpListener, StartError> {
    let address = metrics.listen;
    server::listen(address).map_err(|cause| StartError::Listen { address, cause })
}

fn namespace(destination: &config::Destination) -> Result<Option<Namespace>, StartError> {
    let Some(name) = &destination.vpn_instance else { return Ok(None) };
    connect::namespace(name).map(Some).map_err(|cause| StartError::Namespace {
        group: destination.group.clone(),
        name: name.clone(),
        cause,
    })
}

fn shared(settings: &config::Telemetry, folder: &Path) -> Shared {
    let started = unix_ms();
    let destination = |(place, to): (usize, &config::Destination)| {
        Arc::new(Destination::new(to.clone(), format!("{started}.{place}"), folder.to_path_buf()))
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
    shared: &Arc<Shared>,
    namespaces: Vec<Option<Namespace>>,
    device: Device,
    requests: mpsc::Sender<Request>,
    journal: Journal,
    timing: Timing,
    listener: Option<(std::net::TcpListener, bool)>,
    mut stop: watch::Receiver<bool>,
) {
    let feeds = || shared.subscriptions.iter().flat_map(|(_, feeds)| feeds).cloned();
    let (periodic, events): (Vec<Feed>, Vec<Feed>) =
        feeds().partition(|feed| feed.sensor.interval_ms.is_some());
    let mut sources = JoinSet::new();
    for (place, feed) in periodic.into_iter().enumerate() {
        sources.spawn(feed.sample(WatermarkReader::Sensor(place), requests.clone()));
    }
    if let Some((listener, has_page)) = listener {
        let shared = Arc::clone(shared);
        let telemetry = Box::new(move || shared.status());
        let source = server::Source {
            device: device.clone(),
            requests: requests.clone(),
            telemetry,
            journal: journal.clone(),
            has_page,
        };
        sources.spawn(async { drop(server::serve(listener, source).await) });
    }
    drop(requests);
    if !events.is_empty() {
        sources.spawn(source::follow(journal, events));
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
