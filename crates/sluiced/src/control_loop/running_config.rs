//! The configuration of a running switch, and how it changes to another.
//!
//! Rule: a configuration is applied as a whole or not at all. The file is read again, checked
//! completely and compared with the running configuration. If a setting differs that takes a
//! restart to change, nothing is applied. Each port has a slot in the switch ([`PortSlots`]), which
//! it keeps until it is removed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{Changes, Config, Negotiated, PortDcbx};
use control::{CommandError, ErrorKind};
use dataplane::Settings;
use switch::{PortSettings, SwitchSettings, frames_needed};

use crate::capabilities::Capabilities;
use crate::config_file::{self, ConfigFileError};
use crate::ports::core_assignment::CoreAssignment;
use crate::ports::interface::Interface;
use crate::ports::open_ports;
use crate::ports::slots::{PortLink, PortSlots};

/// Memory that must be free for a reload: some ten times what a port takes. More than the 32 MiB up
/// to which glibc would keep what is given back (mallopt(3)).
const RELOAD_BYTES: usize = 48 << 20;

#[derive(Debug, Clone)]
pub struct RunningConfig {
    file: PathBuf,
    /// The text of the file when it was read.
    text: Arc<str>,
    config: Config,
    /// Frames of memory reserved for the switch at the start.
    frames: usize,
    slots: PortSlots,
    /// The core of each slot.
    core_assignment: CoreAssignment,
    /// What was agreed with the peers, by slot: a layer between the file and the switch.
    negotiated: Vec<Option<Negotiated>>,
    /// The ports that an operator has taken down (false) or up (true), by name: another layer.
    admin: BTreeMap<String, bool>,
    /// What the daemon gave up after its start.
    given_up: Capabilities,
}

impl RunningConfig {
    /// Creates the configuration of a switch that starts with `config`, read from `file`.
    pub fn new(config: Config, file: &Path) -> Self {
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
        let slots = PortSlots::new(&config);
        let servers = CoreAssignment::new(&config, &[]);
        let frames = open_ports::switch_frames(&config);
        Self {
            frames,
            text: Arc::from(""),
            file,
            config,
            slots,
            core_assignment: servers,
            negotiated: Vec::new(),
            admin: BTreeMap::new(),
            given_up: Capabilities::default(),
        }
    }

    /// Returns the same of a daemon that has given up these capabilities.
    pub fn with_given_up(self, given_up: Capabilities) -> Self {
        Self { given_up, ..self }
    }

    /// Returns the same where the ports have these numbers of RX queues.
    pub fn with_queues(self, queues: &[u32]) -> Self {
        Self { core_assignment: CoreAssignment::new(&self.config, queues), ..self }
    }

    /// The core of each slot.
    pub fn core_assignment(&self) -> &CoreAssignment {
        &self.core_assignment
    }

    pub fn slots(&self) -> &PortSlots {
        &self.slots
    }

    /// Sets the interface of the port in this slot.
    pub fn set_interface(&mut self, slot: usize, interface: &Interface) {
        let link = PortLink { speed_bps: interface.speed_bps, mtu_bytes: Some(interface.mtu) };
        self.slots.set_link(slot, link);
    }

    /// The file that a reload reads.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the same with the text of the file.
    pub fn with_text(self, text: &str) -> Self {
        Self { text: Arc::from(text), ..self }
    }

    /// The text of the file when it was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The configuration as it was read, except for the change made by [`RunningConfig::with_pfc`].
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The settings for the poll loop.
    pub fn settings(&self) -> Settings {
        let Config { switch, pfc_enabled, .. } = &self.config;
        let agreed = SwitchSettings { ports: self.agreed_ports(), ..switch.clone() };
        let settings = if *pfc_enabled { agreed } else { agreed.without_pfc() };
        Settings {
            // Also while PFC is off, so that it can be turned on at any time.
            min_posted: self
                .slots
                .arrange(&self.config.negotiable_ports())
                .iter()
                .map(open_ports::min_posted)
                .collect(),
            switch: SwitchSettings { ports: self.slots.arrange(&settings.ports), ..settings },
        }
    }

    /// Returns the ports of the file with what was agreed with their peers.
    pub fn agreed_ports(&self) -> Vec<PortSettings> {
        let ports = self.config.switch.ports.iter().zip(&self.config.dcbx);
        let ports = ports.zip(self.slots.in_config_order());
        let agreed = |((port, dcbx), &slot): ((&PortSettings, &Option<PortDcbx>), &usize)| match dcbx {
            Some(dcbx) => dcbx.apply(port, self.negotiated(slot)),
            None => port.clone(),
        };
        ports.map(agreed).collect()
    }

    /// What was agreed with the peer of the port in this slot.
    pub fn negotiated(&self, slot: usize) -> Option<&Negotiated> {
        self.negotiated.get(slot)?.as_ref()
    }

    /// Returns the same with what was agreed with the peer of the port in a slot.
    pub fn with_negotiated(mut self, slot: usize, negotiated: Option<Negotiated>) -> Self {
        self.negotiated.resize(self.negotiated.len().max(slot + 1), None);
        self.negotiated[slot] = negotiated;
        self
    }

    /// True if the port in this slot may carry frames: as the last command says, otherwise as the
    /// file.
    pub fn is_admin_up(&self, slot: usize) -> bool {
        let Some(name) = self.slots.name(slot) else { return true };
        self.admin.get(name).copied().unwrap_or_else(|| self.config.is_admin_up(name))
    }

    /// Returns what an operator has commanded that the file does not say, by the names of the
    /// ports: true for up.
    pub fn admin_overrides(&self) -> impl Iterator<Item = (&str, bool)> {
        let all = self.admin.iter().map(|(name, up)| (name.as_str(), *up));
        all.filter(|(name, up)| *up != self.config.is_admin_up(name))
    }

    /// Returns the same after an operator has taken a port down, or up.
    pub fn with_admin(&self, port: &str, up: bool) -> Self {
        let mut live = self.clone();
        live.admin.insert(port.to_owned(), up);
        live
    }

    /// Returns the commands of operators that outlast a reload: of ports that stay, and whose
    /// `admin` the file does not change.
    fn admin_after(&self, config: &Config) -> BTreeMap<String, bool> {
        let stays = |name: &String| {
            config.switch.ports.iter().any(|port| port.name == *name)
                && config.is_admin_up(name) == self.config.is_admin_up(name)
        };
        self.admin.iter().filter(|(name, _)| stays(name)).map(|(name, up)| (name.clone(), *up)).collect()
    }

    /// Returns the same with PFC as configured, or off on all ports.
    pub fn with_pfc(&self, enabled: bool) -> Self {
        let mut live = self.clone();
        live.config.pfc_enabled = enabled;
        live
    }

    /// Reads the file again. Returns the configuration and its differences from this one.
    pub fn reloaded(&self) -> Result<(Self, Vec<String>), CommandError> {
        if !has_memory(RELOAD_BYTES) {
            let what = format!(
                "nothing was changed: a reload may need {} MiB of memory, and this process gets no more; raise its \
                 limit (`ulimit -v`, LimitAS=; without CAP_IPC_LOCK also `ulimit -l`, LimitMEMLOCK=)",
                RELOAD_BYTES >> 20
            );
            return Err(CommandError { reason: ErrorKind::Precondition, message: what });
        }
        let (config, text) = self.read_again()?;
        let (next, changes) = self.changed_to(config)?;
        Ok((next.with_text(&text), changes))
    }

    /// Compares the file as it is now with this configuration.
    ///
    /// # Errors
    /// Why the file cannot be read, or its mistakes.
    pub fn differences(&self) -> Result<Changes, String> {
        let (config, _) = self
            .read_again()
            .map_err(|refusal| refusal.message.trim_start_matches("nothing was changed: ").to_owned())?;
        self.slots.of(&config, &self.core_assignment).map_err(|refusal| refusal.message)?;
        Ok(self.compare(&config))
    }

    /// Compares a configuration with this one. What needs a restart includes memory that was not
    /// set aside, and ports on other cores.
    fn compare(&self, config: &Config) -> Changes {
        let mut changes = config::changes(&self.config, config);
        self.moved_cores(config, &mut changes.restart);
        changes.restart.extend(self.given_up.needs(config));
        let needed = frames_needed(&config.switch, xdp::MIN_CHUNK_BYTES);
        if needed > self.frames {
            changes.restart.push(format!(
                "buffer: memory for {needed} frames (a frame a cell), as {} were set aside at the start; \
                 dataplane.spare_ports sets aside more for ports that are added",
                self.frames
            ));
        }
        changes
    }

    fn read_again(&self) -> Result<(Config, String), CommandError> {
        let file = self.file.display();
        // Opening anything but a regular file could block.
        if self.file.metadata().is_ok_and(|found| !found.is_file()) {
            let what =
                format!("nothing was changed: {file} is no file that could be read again; restart sluiced");
            return Err(CommandError { reason: ErrorKind::Precondition, message: what });
        }
        config_file::read(&self.file).map_err(|wrong| CommandError {
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
        })
    }

    fn changed_to(&self, config: Config) -> Result<(Self, Vec<String>), CommandError> {
        let Changes { live, restart } = self.compare(&config);
        let slots = self.slots.of(&config, &self.core_assignment)?;
        if restart.is_empty() {
            config_file::log_warnings(&config);
            let admin = self.admin_after(&config);
            return Ok((Self { config, slots, admin, ..self.clone() }, live));
        }
        let message = format!(
            "nothing was changed: these settings need a restart. Revert them to apply the rest:\n{}",
            restart.join("\n")
        );
        Err(CommandError { reason: ErrorKind::Precondition, message })
    }

    /// Adds the ports that exist and that the file moves to another core to the settings which need
    /// a restart.
    fn moved_cores(&self, config: &Config, restart: &mut Vec<String>) {
        for (port, core) in config.switch.ports.iter().zip(&config.port_cores) {
            if let (Some(slot), Some(core)) = (self.slots.of_name(&port.name), core)
                && self.core_assignment.core(slot) != *core
            {
                restart.push(format!(
                    "port.{}: core {} → {core}",
                    port.name,
                    self.core_assignment.core(slot)
                ));
            }
        }
    }
}

/// True if this much more address space can be had. It is given back at once. A reload that began
/// without it would end the process where an allocation fails.
fn has_memory(bytes: usize) -> bool {
    let mut memory = Vec::<u8>::new();
    let is_there = memory.try_reserve_exact(bytes).is_ok();
    std::hint::black_box(&memory); // or the compiler removes an allocation that nothing uses
    is_there
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[buffer]\ntotal_cells = 16384\n[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n\
                        [port.a]\ninterface = \"veth0\"\nspeed = \"1G\"\n";

    /// Returns a running configuration, and the folder of its file.
    fn live(text: &str) -> (RunningConfig, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lab.toml");
        std::fs::write(&file, text).unwrap();
        (RunningConfig::new(config_file::read(&file).unwrap().0, &file), folder)
    }

    fn refusal(live: &RunningConfig, text: &str) -> (ErrorKind, String) {
        std::fs::write(live.file(), text).unwrap();
        let CommandError { reason, message } = live.reloaded().unwrap_err();
        (reason, message)
    }

    #[test]
    fn a_changed_file_is_applied() {
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
        // The memory reserved at the start remains, so a change back needs no restart.
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
            "nothing was changed: these settings need a restart. Revert them to apply the rest:\n\
             port.a: interface \"veth0\" → \"veth1\"\n\
             buffer: memory for 19961 frames (a frame a cell), as 17437 were set aside at the start; \
             dataplane.spare_ports sets aside more for ports that are added"
        );
    }

    /// The memory that was set aside holds what the added ports need: their own frames, and copies
    /// of flooded frames that they send.
    #[test]
    fn spare_ports_have_memory() {
        let (live, _folder) = live(FILE);
        let more = "[port.b]\ninterface = \"veth1\"\nspeed = \"1G\"\n\
                    [port.c]\ninterface = \"veth2\"\nspeed = \"1G\"\n";
        std::fs::write(live.file(), FILE.to_owned() + more).unwrap();
        let (next, changes) = live.reloaded().unwrap();
        assert_eq!(next.config().switch.ports.len(), 3);
        assert!(changes.iter().any(|change| change.contains("port.b")), "{changes:?}");
    }

    /// The first port is on core 0, the second on core 1; naming these cores is no change.
    #[test]
    fn a_port_keeps_its_core() {
        let text =
            "[dataplane]\ncores = [0, 1]\n[port.a]\ninterface = \"v0\"\n[port.b]\ninterface = \"v1\"\n";
        let (live, _folder) = live(text);
        std::fs::write(live.file(), text.to_owned() + "core = 1\n").unwrap();
        assert_eq!(live.reloaded().unwrap().1, Vec::<String>::new());
        let (reason, message) = refusal(&live, &(text.to_owned() + "core = 0\n"));
        assert_eq!(reason, ErrorKind::Precondition);
        assert!(message.ends_with("Revert them to apply the rest:\nport.b: core 1 → 0"), "{message}");
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
        // A reload applies what the file contains.
        let (next, changes) = off.reloaded().unwrap();
        assert_eq!(
            (changes, next.settings()),
            (vec!["pfc: on again on all ports".to_owned()], live.settings())
        );
    }

    /// What was agreed is between the file and the switch: nothing is no-drop without an agreement,
    /// memory and reservations stay as they are, and it goes as it came.
    #[test]
    fn what_was_agreed_is_a_layer_of_its_own() {
        let auto = FILE.replace("\"on\"", "\"auto\"") + "dcbx = { willing = true }\n";
        let (live, _folder) = live(&auto);
        let port = |live: &RunningConfig| live.settings().switch.ports[0].clone();
        let alone = port(&live);
        assert_eq!(alone.pfc.no_drop, 0);
        let negotiated = Negotiated { no_drop: 1 << 3 | 1 << 4, ..Negotiated::default() };
        let agreed = live.clone().with_negotiated(0, Some(negotiated.clone()));
        let now = port(&agreed);
        assert_eq!((now.pfc.no_drop, now.pfc.rx, now.pfc.tx), (0b1_1000, true, true));
        let headroom: Vec<u32> = now.groups.iter().map(|group| group.headroom_cells).collect();
        assert_eq!(headroom, [0, 0, 0, 100, 100, 0, 0, 0]);
        let reserved = |port: &PortSettings| port.groups.map(|group| group.reserved_cells);
        assert_eq!(reserved(&now), reserved(&alone));
        assert_eq!(agreed.settings().min_posted, live.settings().min_posted);
        let at_first = FILE.replace("\"on\"\nno_drop = [3]\n", "\"auto\"\n") + "dcbx = { willing = true }\n";
        assert!(!at_first.contains("no_drop"), "{at_first}");
        let (without_list, _folder) = self::live(&at_first);
        assert_eq!(
            without_list.settings().min_posted,
            agreed.settings().min_posted,
            "it may be no-drop later"
        );
        assert_eq!(agreed.with_pfc(false).settings().switch.ports[0].pfc.no_drop, 0);
        // What clients are shown of the classification is that in force.
        let (trusting, _folder) = self::live(&format!("{auto}trust = \"dscp\"\n"));
        let with_dscp = Negotiated { dscp: vec![(26, 5)], ..Negotiated::default() };
        let of_dscp = |live: &RunningConfig| live.agreed_ports()[0].classify.dscp_to_dot1p[26];
        assert_eq!(
            (of_dscp(&trusting), of_dscp(&trusting.clone().with_negotiated(0, Some(with_dscp)))),
            (3, 5)
        );
        // A reload keeps it, and what it changes comes on top.
        std::fs::write(live.file(), auto.replace("\"1G\"", "\"2G\"")).unwrap();
        let live = live.with_negotiated(0, Some(negotiated)).reloaded().unwrap().0;
        assert_eq!((port(&live).pfc.no_drop, port(&live).speed_bps), (0b1_1000, Some(2_000_000_000)));
        assert_eq!(port(&live.with_negotiated(0, None)).pfc.no_drop, 0);
    }
}
