//! What the ports change in the host's settings of their interfaces, and how it is restored.
//!
//! Rule: an interface has the settings of before when it is no longer a port's, however the daemon
//! ended. So a change is written to a file beside the control socket before it is made. When the
//! daemon ends by itself, it restores and removes the file. When it is killed, the
//! [restorer](restorer) does so, and if that was killed, too, the next daemon with this control
//! socket. A port keeps its changes while its interface has no carrier, as the host's stack would
//! send at once when the carrier comes. Source: docs/behavior.md, "The host's own stack".

mod record;
pub mod restorer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tracing::{info, warn};
use xdp::HostSettings;

use record::Record;
use restorer::Restorer;

/// The changed settings of all interfaces, restored on drop.
#[derive(Debug)]
pub struct ChangedSettings {
    record: Record,
    /// By name of the interface.
    changes: BTreeMap<String, HostSettings>,
    /// `None` if the process could not be started.
    restorer: Option<Restorer>,
}

impl ChangedSettings {
    /// Restores what a killed daemon with this control socket left, and starts the restorer.
    ///
    /// # Errors
    /// The file beside the control socket cannot be written.
    pub fn new(control_socket: &Path) -> Result<Self> {
        let path = file_of(control_socket);
        let (record, left) = Record::take_over(&path)
            .with_context(|| format!("the record of changed settings, {}", path.display()))?;
        for (interface, restored) in left {
            match restored {
                Ok(()) => info!(interface, "settings that a killed sluiced left on it are restored"),
                Err(error) => warn!(interface, %error, "a killed sluiced left settings on it that stay"),
            }
        }
        let restorer = Restorer::start(&record)
            .inspect_err(|error| {
                warn!("if this daemon is killed, only the next one restores interfaces: {error:#}")
            })
            .ok();
        Ok(Self { record, changes: BTreeMap::new(), restorer })
    }

    /// Changes what a port has to change on this interface and that is not changed yet. The first
    /// failure on an interface is logged; what harms frames is reported with the port.
    pub fn change(&mut self, interface: &str) {
        let Ok(later) = HostSettings::of_port(interface) else { return }; // the port reports why
        if later.is_empty() {
            return;
        }
        // Another interface of the same name may have been there before.
        let known = self.changes.get(interface).filter(|known| known.index == later.index);
        let mut settings = later.clone();
        known.cloned().into_iter().for_each(|known| settings.merge(known));
        let is_new = known != Some(&settings);
        self.changes.insert(interface.to_owned(), settings);
        if is_new && let Err(error) = self.record.write(self.changes.values()) {
            warn!(interface, %error, "its settings are restored only if this daemon ends by itself");
        }
        if let Err(error) = later.change()
            && is_new
        {
            warn!(interface, %error, "its settings cannot be changed as a port needs them");
        }
    }

    /// Restores the settings of an interface that is no longer a port's.
    pub fn restore(&mut self, interface: &str) {
        let Some(settings) = self.changes.remove(interface) else { return };
        if let Err(error) = settings.restore() {
            warn!(interface, %error, "its settings stay as the port needed them");
        }
        if let Err(error) = self.record.write(self.changes.values()) {
            warn!(interface, %error, "the record of changed settings is not written");
        }
    }
}

impl Drop for ChangedSettings {
    fn drop(&mut self) {
        let interfaces: Vec<String> = self.changes.keys().cloned().collect();
        interfaces.iter().for_each(|interface| self.restore(interface));
        self.record.remove();
        if let Some(restorer) = self.restorer.take() {
            restorer.end();
        }
    }
}

/// The file that records the changes of a daemon with this control socket.
fn file_of(control_socket: &Path) -> PathBuf {
    let mut path = control_socket.as_os_str().to_owned();
    path.push(".restore");
    path.into()
}
