//! What telemetry reports, and where the reports come from.

use std::path::{Path, PathBuf};

use control::Journal;
use control::server::Request;
use tokio::sync::mpsc;

use crate::dial_out::message::Device;

/// The telemetry part of the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Subscriptions and collectors.
    pub telemetry: config::Telemetry,
    /// Where metrics are served.
    pub metrics: Option<config::Metrics>,
    /// Folder of the configuration file, which names other files.
    pub folder: PathBuf,
}

impl Settings {
    /// Returns the settings of a configuration in this file.
    pub fn of(config: &config::Config, file: &Path) -> Self {
        // The daemon may change its working directory.
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
        let folder = file.parent().unwrap_or(Path::new(".")).to_path_buf();
        Self { telemetry: config.telemetry.clone(), metrics: config.metrics, folder }
    }
}

/// What the reports are about, and where they come from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Identity of the switch.
    pub device: Device,
    /// Channel for requests to the switch.
    pub requests: mpsc::Sender<Request>,
    /// The event journal.
    pub journal: Journal,
}
