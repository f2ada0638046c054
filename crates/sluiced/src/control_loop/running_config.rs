//! The configuration that a running switch has, and how it comes to another.
//!
//! Rule: a configuration is applied whole or not at all. The file is read again, checked whole and
//! compared with what runs; where anything differs that only a restart changes, nothing is applied.
//! Each port has a place in the switch ([`PortSlots`]), which it keeps for as long as it is there.

use std::path::{Path, PathBuf};

use config::{Changes, Config};
use control::{CommandError, ErrorKind};
use dataplane::Settings;
use switch::{SwitchSettings, frames_needed};

use crate::config_file::{self, ConfigFileError};
use crate::ports::core_assignment::CoreAssignment;
use crate::ports::link_monitor::Interface;
use crate::ports::open_ports;
use crate::ports::slots::{Link, PortSlots};

/// What runs.
#[derive(Debug, Clone)]
pub struct RunningConfig {
    file: PathBuf,
    config: Config,
    /// Frames of memory that were set aside for the switch at the start.
    frames: usize,
    /// Which port is where.
    places: PortSlots,
    /// Who serves which place.
    servers: CoreAssignment,
    /// RX queues that memory was set aside for at the start.
    queues: usize,
}

impl RunningConfig {
    /// A switch that starts with `config`, which was read from `file`.
    pub fn new(config: Config, file: &Path) -> Self {
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
        let places = PortSlots::new(&config);
        let servers = CoreAssignment::new(&config, &[]);
        Self { frames: open_ports::switch_frames(&config), file, config, places, servers, queues: 0 }
    }

    /// The same with memory for so many RX queues, and ports that have so many of them each.
    pub fn with_queues(self, queues: usize, of_ports: &[u32]) -> Self {
        Self { queues, servers: CoreAssignment::new(&self.config, of_ports), ..self }
    }

    /// Who serves which place.
    pub fn servers(&self) -> &CoreAssignment {
        &self.servers
    }

    /// RX queues that memory was set aside for, of all ports together.
    pub fn queues_set_aside(&self) -> usize {
        self.queues
    }

    /// Which port is where.
    pub fn places(&self) -> &PortSlots {
        &self.places
    }

    /// The port at this place is on this interface.
    pub fn set_interface(&mut self, place: usize, interface: &Interface) {
        let link = Link { speed_bps: interface.speed_bps, mtu_bytes: Some(interface.mtu) };
        self.places.set_link(place, link);
    }

    /// The file that a reload reads.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The configuration, as it was read, but for [`RunningConfig::with_pfc`].
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What the loop is given.
    pub fn settings(&self) -> Settings {
        let Config { switch, pfc_enabled, .. } = &self.config;
        let settings = if *pfc_enabled { switch.clone() } else { switch.without_pfc() };
        Settings {
            // Also while PFC is off, so that it can be turned on at any time.
            min_posted: self.places.settle(&switch.ports).iter().map(open_ports::min_posted).collect(),
            switch: SwitchSettings { ports: self.places.settle(&settings.ports), ..settings },
        }
    }

    /// The same with PFC on as configured, or off on all ports.
    pub fn with_pfc(&self, enabled: bool) -> Self {
        let mut live = self.clone();
        live.config.pfc_enabled = enabled;
        live
    }

    /// What the file says now, and what of it is different.
    pub fn reloaded(&self) -> Result<(Self, Vec<String>), CommandError> {
        let file = self.file.display();
        // Whatever else may take the file's place could keep its readers waiting.
        if self.file.metadata().is_ok_and(|found| !found.is_file()) {
            let what =
                format!("nothing was changed: {file} is no file that could be read again; restart sluiced");
            return Err(CommandError { reason: ErrorKind::Precondition, message: what });
        }
        let config = config_file::read(&self.file).map_err(|wrong| CommandError {
            reason: match wrong {
                ConfigFileError::Unreadable(_) => ErrorKind::Precondition,
                ConfigFileError::Mistakes(_) => ErrorKind::Invalid,
            },
            message: match wrong {
                ConfigFileError::Unreadable(why) => format!("nothing was changed: {why}"),
                ConfigFileError::Mistakes(mistakes) => {
                    format!("nothing was changed: there are mistakes in the file\n{mistakes}")
                }
            },
        })?;
        self.changed_to(config)
    }

    fn changed_to(&self, config: Config) -> Result<(Self, Vec<String>), CommandError> {
        let Changes { live, mut restart } = config::changes(&self.config, &config);
        self.other_cores(&config, &mut restart);
        let places = self.places.of(&config, &self.servers)?;
        let needed = frames_needed(&config.switch, xdp::LEAST_CHUNK_BYTES);
        if needed > self.frames {
            restart.push(format!(
                "buffer: memory for {needed} frames (a frame a cell), as {} were set aside at the start",
                self.frames
            ));
        }
        if restart.is_empty() {
            config_file::log_warnings(&config);
            return Ok((Self { config, places, ..self.clone() }, live));
        }
        let message = format!(
            "nothing was changed: restart sluiced for these, or take them back and reload for the rest\n{}",
            restart.join("\n")
        );
        Err(CommandError { reason: ErrorKind::Precondition, message })
    }

    /// Ports that are there and are to be served by another core than the one that does.
    fn other_cores(&self, config: &Config, restart: &mut Vec<String>) {
        for (port, core) in config.switch.ports.iter().zip(&config.port_cores) {
            if let (Some(place), Some(core)) = (self.places.of_name(&port.name), core)
                && self.servers.core(place) != *core
            {
                restart.push(format!("port.{}: core {} → {core}", port.name, self.servers.core(place)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[buffer]\ntotal_cells = 16384\n[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n\
                        [port.a]\ninterface = \"veth0\"\nspeed = \"1G\"\n";

    /// A file that runs, and the folder it lies in.
    fn live(text: &str) -> (RunningConfig, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lab.toml");
        std::fs::write(&file, text).unwrap();
        (RunningConfig::new(config_file::read(&file).unwrap(), &file), folder)
    }

    fn refusal(live: &RunningConfig, text: &str) -> (ErrorKind, String) {
        std::fs::write(live.file(), text).unwrap();
        let CommandError { reason, message } = live.reloaded().unwrap_err();
        (reason, message)
    }

    #[test]
    fn a_file_that_says_something_else_is_taken_on() {
        let (live, _folder) = live(FILE);
        let (same, nothing) = live.reloaded().unwrap();
        assert_eq!((same.config(), nothing.len()), (live.config(), 0));

        std::fs::write(live.file(), FILE.replace("16384", "14336").replace("\"1G\"", "\"100M\"")).unwrap();
        let (next, changes) = live.reloaded().unwrap();
        assert_eq!(
            changes,
            [
                "buffer: total cells 16384 → 14336",
                "buffer: fixed cells 2048 → 1792",
                "port.a: speed 1000000000 bit/s → 100000000 bit/s"
            ]
        );
        assert_eq!(next.settings().switch.ports[0].speed_bps, Some(100_000_000));
        assert_eq!((live.settings().min_posted, next.settings().min_posted), (vec![8192], vec![1488]));
        // What was set aside at the start stays there: back again is no trouble.
        std::fs::write(live.file(), FILE).unwrap();
        assert_eq!(next.reloaded().unwrap().0.config(), live.config());
    }

    #[test]
    fn what_needs_a_restart_is_refused_and_named() {
        let (live, _folder) = live(FILE);
        let more = FILE.replace("16384", "20000").replace("veth0", "veth1").replace("1G", "2G");
        let (reason, message) = refusal(&live, &more);
        assert_eq!(reason, ErrorKind::Precondition);
        assert_eq!(
            message,
            "nothing was changed: restart sluiced for these, or take them back and reload for the rest\n\
             port.a: interface \"veth0\" → \"veth1\"\n\
             buffer: memory for 19705 frames (a frame a cell), as 16661 were set aside at the start"
        );
    }

    /// The first port is core 0's, the second core 1's; to say so is no change.
    #[test]
    fn a_port_keeps_its_core() {
        let text =
            "[dataplane]\ncores = [0, 1]\n[port.a]\ninterface = \"v0\"\n[port.b]\ninterface = \"v1\"\n";
        let (live, _folder) = live(text);
        std::fs::write(live.file(), text.to_owned() + "core = 1\n").unwrap();
        assert_eq!(live.reloaded().unwrap().1, Vec::<String>::new());
        let (reason, message) = refusal(&live, &(text.to_owned() + "core = 0\n"));
        assert_eq!(reason, ErrorKind::Precondition);
        assert!(message.ends_with("reload for the rest\nport.b: core 1 → 0"), "{message}");
    }

    #[test]
    fn a_file_that_is_wrong_or_gone_is_refused() {
        let (live, _folder) = live(FILE);
        let (reason, message) = refusal(&live, &FILE.replace("speed", "sped"));
        assert_eq!(reason, ErrorKind::Invalid);
        assert!(message.starts_with("nothing was changed: there are mistakes in the file\n"), "{message}");
        assert!(message.contains("lab.toml:8:1: port.a.sped: ") && message.contains("speed"), "{message}");

        std::fs::remove_file(live.file()).unwrap();
        let gone = live.reloaded().unwrap_err();
        assert_eq!(gone.reason, ErrorKind::Precondition);
        assert!(gone.message.contains("cannot read ") && gone.message.contains("No such file"), "{gone}");

        std::fs::create_dir(live.file()).unwrap();
        let folder = live.reloaded().unwrap_err();
        assert!(folder.message.contains("is no file that could be read again; restart sluiced"), "{folder}");
    }

    #[test]
    fn pfc_goes_off_and_comes_back_as_configured() {
        let (live, _folder) = live(FILE);
        let off = live.with_pfc(false);
        assert_eq!(off.settings().switch, live.settings().switch.without_pfc());
        assert_eq!(off.settings().min_posted, live.settings().min_posted);
        assert_eq!(off.with_pfc(true).settings(), live.settings());
        // A reload takes what the file says.
        let (next, changes) = off.reloaded().unwrap();
        assert_eq!(
            (changes, next.settings()),
            (vec!["pfc: on again on all ports".to_owned()], live.settings())
        );
    }
}
