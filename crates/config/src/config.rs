//! The configuration as a whole: the settings of the switch, its ports, and the constraints between
//! them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use dcbx::settings::PfcMode;
use switch::settings::{BridgeSettings, DownPortAction, MAX_PORTS};
use switch::{PortSettings, SwitchSettings};

use crate::lint::{lossless, short_pauses};
use crate::profiles::Profiles;
use crate::read::diagnostics::{ConfigErrors, Diagnostics, SettingSpan};
use crate::read::document::read_file;
use crate::read::parse::{NAME_CURE, is_name};
use crate::read::suggest::quoted;
use crate::read::table_reader::TableReader;
use crate::tables::alarm::AlarmTable;
use crate::tables::buffer::Buffer;
use crate::tables::congestion::Congestion;
use crate::tables::fixed_area;
use crate::tables::lldp::{self, Lldp};
use crate::tables::metrics::{self, Metrics};
use crate::tables::port::dcbx::PortDcbx;
use crate::tables::port::policy::Policies;
use crate::tables::port::watchdog::{EarlyWarningTable, WatchdogTable};
use crate::tables::port::zero_copy::ZeroCopy;
use crate::tables::ports::{CORES, Link, PFC_MODES, Port, PortTable};
use crate::tables::telemetry::{self, Telemetry};
use crate::validate::buffer;
use crate::validate::dcbx as dcbx_check;
use crate::validate::lldp as lldp_check;
use crate::validate::vlan;
use crate::validate::watchdog;

/// Longest path of a Unix socket: `sun_path` less the terminating zero.
const SOCKET_BYTES: usize = 107;

/// A complete configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The switch's name.
    pub name: String,
    /// Settings of the poll loops.
    pub dataplane: Dataplane,
    /// Settings of the switch; its ports are in the order of the file.
    pub switch: SwitchSettings,
    /// False if PFC is disabled; then [`SwitchSettings::without_pfc`] of `switch` applies.
    pub pfc_enabled: bool,
    /// Name of the buffer's preset.
    pub preset: Option<&'static str>,
    /// Network interface of each port, by port number.
    pub interfaces: Vec<String>,
    /// The configured core of each port, by port number; `None` for the least loaded core.
    pub port_cores: Vec<Option<usize>>,
    /// The cable of each port as configured, by port number: for advice about headroom only.
    pub links: Vec<Link>,
    /// LLDP of the switch and its ports.
    pub lldp: Lldp,
    /// The mode of PFC of each port, by port number.
    pub pfc_modes: Vec<PfcMode>,
    /// What each port negotiates, by port number; `None` if it does not.
    pub dcbx: Vec<Option<PortDcbx>>,
    /// The flight recorder.
    pub recorder: RecorderSettings,
    /// Path of the Unix socket that the control API listens on.
    pub control_socket: PathBuf,
    /// Subscriptions and their collectors.
    pub telemetry: Telemetry,
    /// Where metrics are served; `None` if they are off.
    pub metrics: Option<Metrics>,
    /// The profiles, and which port has which where.
    pub profiles: Profiles,
    /// Warnings about valid settings, such as thresholds that cannot be lossless. Often empty.
    pub warnings: ConfigErrors,
}

impl Config {
    /// Returns the ports of the file with all priorities no-drop that may become so by DCBX.
    pub fn negotiable_ports(&self) -> Vec<PortSettings> {
        let ports = self.switch.ports.iter().zip(&self.dcbx);
        let negotiable = |(port, dcbx): (&PortSettings, &Option<PortDcbx>)| {
            let mut port = port.clone();
            port.pfc.no_drop = dcbx.as_ref().map_or(port.pfc.no_drop, |dcbx| dcbx.negotiable_no_drop(&port));
            port
        };
        ports.map(negotiable).collect()
    }

    /// Returns the name of the mode of PFC of a port.
    pub fn pfc_mode(&self, port: &str) -> &'static str {
        let number = self.switch.ports.iter().position(|it| it.name == port);
        let mode = number.and_then(|number| self.pfc_modes.get(number));
        PFC_MODES.iter().find(|(_, it)| Some(it) == mode).map_or("off", |(name, _)| name)
    }
}

/// Settings of the poll loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataplane {
    /// CPU of each loop: the first switches, the others serve ports for it.
    pub cores: Vec<usize>,
    /// True if the first loop serves ports, too.
    pub switch_core_serves: bool,
    /// Scheduling policy of the loops' threads.
    pub scheduling: Scheduling,
    /// True if a loop that falls behind, or stalls, pauses its peers. If false, the kernel drops
    /// what the loop cannot take.
    pub pauses_on_overload: bool,
    /// Number of RX queues with reserved memory beyond those of the configured ports: for each, a
    /// port with one queue may be added without a restart.
    pub spare_ports: usize,
    /// Which ports test at startup whether PFC frames get out and in.
    pub pfc_test: PfcTest,
    /// Which drivers access the UMEM themselves.
    pub zero_copy: ZeroCopy,
}

/// Default number of slots for ports that are added later: 32 MiB each.
const SPARE_PORTS: usize = 2;

impl Default for Dataplane {
    fn default() -> Self {
        Self {
            cores: vec![0],
            switch_core_serves: true,
            scheduling: Scheduling::ShortSlices,
            pauses_on_overload: true,
            spare_ports: SPARE_PORTS,
            pfc_test: PfcTest::Nics,
            zero_copy: ZeroCopy::Auto,
        }
    }
}

/// The flight recorder (`docs/monitoring/recorder.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecorderSettings {
    /// True if the loop is recorded all the time, and the last part kept.
    pub always: bool,
    /// True if the kept recording is frozen when a no-drop frame is lost, or the kernel drops
    /// frames, until it is fetched.
    pub freeze_on_loss: bool,
    /// Maximum bytes of the kept recording.
    pub memory_bytes: usize,
}

impl Default for RecorderSettings {
    fn default() -> Self {
        Self { always: false, freeze_on_loss: true, memory_bytes: 256 << 20 }
    }
}

/// Which ports test at startup whether PFC frames get out and in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PfcTest {
    /// No ports.
    Off,
    /// Ports on NICs: some NICs consume such frames.
    Nics,
    /// All ports.
    All,
}

impl PfcTest {
    const ALL: [Self; 3] = [Self::Off, Self::Nics, Self::All];

    /// Returns its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Nics => "nics",
            Self::All => "all",
        }
    }
}

/// Scheduling policy of a loop's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// As any other thread.
    Normal,
    /// The highest weight of an ordinary thread, with short slices.
    ShortSlices,
    /// Real-time.
    Fifo,
}

impl Scheduling {
    const ALL: [Self; 3] = [Self::Normal, Self::ShortSlices, Self::Fifo];

    /// Returns its name in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::ShortSlices => "short-slices",
            Self::Fifo => "fifo",
        }
    }
}

/// Returns the name in the file of the behavior of a loop that falls behind.
pub(crate) fn overload_name(pauses: bool) -> &'static str {
    if pauses { "pause" } else { "drop" }
}

/// Reads a configuration. `file_name` is only used to name the file in errors.
///
/// # Errors
/// All errors that the text contains. If the text is not TOML, only that is reported. The sums over
/// the buffer, and WRED on no-drop queues, are only checked once every single setting is valid.
pub fn parse(file_name: &str, text: &str) -> Result<Config, ConfigErrors> {
    examine(file_name, text, |_, _, _, _| ()).map(|(config, ())| config)
}

/// Reads a configuration that a daemon is to run: as [`parse`], and its pauses are as long as a
/// loop in real time needs to keep them. A simulated loop does not stall.
///
/// # Errors
/// As [`parse`], and pause times that are too short.
pub fn parse_for_daemon(file_name: &str, text: &str) -> Result<Config, ConfigErrors> {
    examine(file_name, text, |_, ports, _, report| short_pauses::refuse(ports, report))
        .map(|(config, ())| config)
}

/// Reads a configuration, and what `inspect` returns for a valid file: it gets the buffer, the
/// ports, and the settings of the switch.
///
/// # Errors
/// As [`parse`], and the errors that `inspect` has noted.
pub(crate) fn examine<T>(
    file_name: &str,
    text: &str,
    inspect: impl FnOnce(&Buffer, &[Port], &SwitchSettings, &mut Diagnostics) -> T,
) -> Result<(Config, T), ConfigErrors> {
    let read = read_file(file_name, text, |file, report| read(file_name, text, file, report, inspect))?;
    let (config, made) = read;
    Ok((config, made.expect("a file without mistakes is looked at")))
}

/// Reads the whole file. An invalid setting is noted, and its default used instead.
fn read<T>(
    file_name: &str,
    text: &str,
    mut file: TableReader,
    report: &mut Diagnostics,
    inspect: impl FnOnce(&Buffer, &[Port], &SwitchSettings, &mut Diagnostics) -> T,
) -> (Config, Option<T>) {
    let name = read_name(&mut file, report);
    let dataplane = read_dataplane(&mut file, report);
    let control_socket = read_control(&mut file, &name, report);
    let recorder = read_recorder(&mut file, report);
    let mut buffer = Buffer::read(&mut file, report);
    let congestion = Congestion::read(&mut file, buffer.settings.cell_bytes, report);
    let policies = Policies::read(&mut file, report);
    let bridge = read_bridge(&mut file, report);
    let (pfc_enabled, watchdog, early_warning) = read_pfc(&mut file, report);
    let alarm = AlarmTable::read(&mut file, report);
    let (lldp_timing, management) = lldp::read(&mut file, report);
    let mut defaults = read_port_defaults(&mut file, &buffer, &congestion, &policies, report);
    defaults.pfc.watchdog = std::mem::take(&mut defaults.pfc.watchdog).with_fallback(watchdog);
    defaults.pfc.early_warning = std::mem::take(&mut defaults.pfc.early_warning).over(early_warning);
    let mut ports = read_ports(&mut file, &buffer, &congestion, &policies, &defaults, report);
    for port in &mut ports {
        port.settings.alarms = alarm.of_port(port.tables().alarm());
    }
    let mut idle = telemetry::UnusedItems::default();
    let telemetry = Telemetry::read(&mut file, &mut idle, report);
    let mut open = None;
    let metrics = metrics::read(&mut file, &mut open, report);
    let location = file.location.clone();
    file.finish(&[], report);

    buffer::interfaces(&ports, report);
    buffer::static_addresses(&ports, bridge.max_entries, report);
    buffer::dependences(&defaults, &ports, report);
    vlan::check(&defaults, &ports, report);
    lldp_check::check(&ports, report);
    dcbx_check::check(&ports, report);
    if buffer.fixed_cells.is_none() {
        let needed = u32::try_from(buffer::fixed_cells_needed(&ports)).unwrap_or(u32::MAX);
        buffer.settings.fixed_cells = (buffer.settings.total_cells / 8).max(needed);
    }
    for share in fixed_area::shares(&ports, buffer.settings.fixed_cells) {
        ports[share.port].settings.groups[share.priority].reserved_cells = share.cells;
    }
    // A check across several settings, one of which could not be read, would report the wrong
    // position.
    if report.is_empty() {
        buffer::no_drop_queues(&ports, &bridge, report);
        buffer::pause_times(&ports, report);
        buffer::one_flow_control(&ports, report);
        watchdog::limits(&ports, report);
        buffer::cores(&ports, (&dataplane.cores, dataplane.switch_core_serves), report);
        buffer::buffer(&buffer, &ports, &location, report);
    }

    let interfaces =
        ports.iter().filter_map(|port| Some(port.own.interface.as_ref()?.value.clone())).collect();
    let port_cores = ports.iter().map(|port| port.own.core.as_ref().map(|core| core.value)).collect();
    let links = ports.iter().map(|port| port.tables().link()).collect();
    let settings = ports.iter().map(|port| port.settings.clone()).collect();
    let pfc_modes = ports.iter().map(|port| port.tables().pfc().mode()).collect();
    let dcbx = ports.iter().map(|port| port.dcbx.clone()).collect();
    let of_ports = ports.iter().map(|port| port.tables().lldp().settings(lldp_timing)).collect();
    let lldp = Lldp { management, ports: of_ports };
    let switch = SwitchSettings {
        buffer: buffer.settings,
        bridge,
        usage_percent: alarm.usage_percent.as_ref().map_or(100, |percent| percent.value),
        alarms: alarm.settings.clone(),
        seed: 0,
        ports: settings,
    };
    let mut warnings = Diagnostics::default();
    let mut made = None;
    if report.is_empty() {
        lossless::lint(&buffer, &ports, &switch, &mut warnings);
        let tables = ports.iter().map(|port| &port.own.alarm).chain([&defaults.alarm]);
        alarm.warn_unused(tables, &mut warnings);
        telemetry::warn_unused(&idle, alarm.is_on(), alarm.reports_drops(), &mut warnings);
        metrics::warn_of_open(open, &mut warnings);
        vlan::warn_isolated_vlan(&ports, &mut warnings);
        made = Some(inspect(&buffer, &ports, &switch, report));
    }
    let warnings = ConfigErrors::warnings(file_name, text, warnings);
    let preset = buffer.preset.map(|preset| preset.name);
    let profiles = Profiles::of(&buffer, &congestion, &ports, &location);
    let config = Config {
        profiles,
        name,
        dataplane,
        switch,
        pfc_enabled,
        preset,
        interfaces,
        port_cores,
        links,
        lldp,
        pfc_modes,
        dcbx,
        recorder,
        control_socket,
        telemetry,
        metrics,
        warnings,
    };
    (config, made)
}

fn read_name(file: &mut TableReader, report: &mut Diagnostics) -> String {
    let default = || "sluice".to_owned();
    let Some(mut section) = file.section("switch", report) else { return default() };
    let name = section.string("name", "lab", report);
    section.finish(&[], report);
    match name {
        Some(name) if is_name(name.value) => name.value.to_owned(),
        Some(name) => {
            report.add(&name.location, format!("{} is no name", quoted(name.value)), NAME_CURE);
            default()
        }
        None => default(),
    }
}

fn read_dataplane(file: &mut TableReader, report: &mut Diagnostics) -> Dataplane {
    let mut dataplane = Dataplane::default();
    let Some(mut section) = file.section("dataplane", report) else { return dataplane };
    let mistakes = report.count();
    if let Some(cores) = section.numbers("cores", CORES, report) {
        match cores.value.len() {
            0 => report.add(&cores.location, "no core", "name one, as in cores = [0]"),
            count if cores.value.iter().collect::<BTreeSet<_>>().len() < count => {
                report.add(
                    &cores.location,
                    "a core is named twice",
                    "name each once: a loop keeps its core busy",
                );
            }
            count if count > MAX_PORTS => {
                report.add(
                    &cores.location,
                    format!("{count} cores"),
                    format!("at most {MAX_PORTS}: one a port"),
                );
            }
            _ => dataplane.cores = cores.value,
        }
    }
    let has_lines = dataplane.cores.len() > 1 || report.count() > mistakes;
    if let Some(serves) = section.boolean("switch_core_serves", report) {
        dataplane.switch_core_serves = serves.value;
        if !has_lines {
            report.add(
                &serves.location,
                "there is no other core that could serve ports",
                "leave it out, or name more in cores",
            );
        }
    }
    let scheduling = Scheduling::ALL.map(|scheduling| (scheduling.name(), scheduling));
    if let Some(scheduling) = section.choice("scheduling", &scheduling, &[], report) {
        dataplane.scheduling = scheduling.value;
    }
    let overload = [true, false].map(|pauses| (overload_name(pauses), pauses));
    if let Some(pauses) = section.choice("overload", &overload, &[], report) {
        dataplane.pauses_on_overload = pauses.value;
    }
    let tests = PfcTest::ALL.map(|test| (test.name(), test));
    if let Some(test) = section.choice("pfc_test", &tests, &[], report) {
        dataplane.pfc_test = test.value;
    }
    if let Some(zero_copy) = section.choice("zero_copy", &ZeroCopy::CHOICES, &[], report) {
        dataplane.zero_copy = zero_copy.value;
    }
    if let Some(ports) = section.number("spare_ports", 0..=MAX_PORTS, report) {
        dataplane.spare_ports = ports.value;
    }
    section.finish(&[], report);
    dataplane
}

fn read_recorder(file: &mut TableReader, report: &mut Diagnostics) -> RecorderSettings {
    let mut recorder = RecorderSettings::default();
    let Some(mut section) = file.section("recorder", report) else { return recorder };
    if let Some(always) = section.boolean("always", report) {
        recorder.always = always.value;
    }
    let freeze = section.boolean("freeze_on_loss", report);
    if let Some(mib) = section.number("memory_mib", 128..=65_536u64, report) {
        recorder.memory_bytes = (mib.value as usize) << 20;
    }
    section.finish(&[], report);
    if let Some(freeze) = freeze {
        recorder.freeze_on_loss = freeze.value;
        if !recorder.always {
            report.add(
                &freeze.location,
                "nothing is kept that a loss could freeze",
                "write always = true, too",
            );
        }
    }
    recorder
}

fn read_control(file: &mut TableReader, name: &str, report: &mut Diagnostics) -> PathBuf {
    let default = PathBuf::from(format!("/run/sluice/{name}.sock"));
    let Some(mut section) = file.section("control", report) else { return default };
    let socket = section.string("socket", "/run/sluice/lab.sock", report);
    section.finish(&[], report);
    let Some(socket) = socket else { return default };
    if !socket.value.starts_with('/') || socket.value.contains('\0') {
        report.add(
            &socket.location,
            "not an absolute path",
            "begin it with /, as in \"/run/sluice/lab.sock\"",
        );
    } else if socket.value.len() > SOCKET_BYTES {
        let what = format!("{} bytes are too many for the path of a socket", socket.value.len());
        report.add(&socket.location, what, format!("the kernel takes {SOCKET_BYTES}"));
    }
    PathBuf::from(socket.value)
}

fn read_bridge(file: &mut TableReader, report: &mut Diagnostics) -> BridgeSettings {
    let mut bridge = BridgeSettings::default();
    let Some(mut section) = file.section("bridge", report) else { return bridge };
    if let Some(entries) = section.number("max_entries", 1..=1 << 20, report) {
        bridge.max_entries = entries.value;
        bridge.max_entries_per_port = BridgeSettings::default_port_quota(entries.value);
    }
    if let Some(entries) = section.number("max_entries_per_port", 1..=1 << 20, report) {
        bridge.max_entries_per_port = entries.value;
        if entries.value > bridge.max_entries {
            let what = format!("more than the {} entries of the whole table", bridge.max_entries);
            let cure = format!("write {} at most, or a larger max_entries", bridge.max_entries);
            report.add(&entries.location, what, cure);
        }
    }
    // The standard's range begins at 10 s (IEEE 802.1Q-2022 table 8-6); a lab may want shorter
    // times.
    if let Some(aging_s) = section.number("aging_s", 1..=1_000_000u64, report) {
        bridge.aging_ns = aging_s.value * 1_000_000_000;
    }
    let maps = ["unknown_unicast_to_queue", "multicast_to_queue"]
        .map(|name| section.eight_numbers(name, 0..=7, "priority", report).map(|map| map.value));
    let actions = [DownPortAction::Drop, DownPortAction::Flood].map(|action| (action.name(), action));
    if let Some(action) = section.choice("no_drop_to_down_port", &actions, &[], report) {
        bridge.no_drop_to_down_port = action.value;
    }
    section.finish(&[], report);
    [bridge.unknown_unicast_to_queue, bridge.multicast_to_queue] = maps;
    bridge
}

/// Reads whether PFC is enabled, and the watchdog settings for all ports.
fn read_pfc(file: &mut TableReader, report: &mut Diagnostics) -> (bool, WatchdogTable, EarlyWarningTable) {
    let Some(mut section) = file.section("pfc", report) else {
        return (true, Default::default(), Default::default());
    };
    let enabled = section.boolean("enabled", report);
    let watchdog = WatchdogTable::read(&mut section, report);
    let early_warning = EarlyWarningTable::read(&mut section, report);
    section.finish(&[], report);
    (enabled.is_none_or(|enabled| enabled.value), watchdog, early_warning)
}

fn read_port_defaults(
    file: &mut TableReader,
    buffer: &Buffer,
    congestion: &Congestion,
    policies: &Policies,
    report: &mut Diagnostics,
) -> PortTable {
    let Some(section) = file.section("port-defaults", report) else { return PortTable::default() };
    if let Some(location) = section.location_of("interface") {
        report.add(&location, "an interface belongs to one port only", "move it to [port.NAME]");
    }
    if let Some(location) = section.location_of("static_addresses") {
        report.add(&location, "an address is behind one port only", "move it to [port.NAME]");
    }
    if let Some(location) = section.location_of("core") {
        report.add(&location, "ports are given to cores one by one", "move it to [port.NAME]");
    }
    PortTable::read(section, buffer, congestion, policies, report)
}

fn read_ports<'f>(
    file: &mut TableReader,
    buffer: &Buffer,
    congestion: &Congestion,
    policies: &Policies,
    defaults: &'f PortTable,
    report: &mut Diagnostics,
) -> Vec<Port<'f>> {
    let example = "write [port.NAME] with an interface for each port";
    let Some(mut sections) = file.section("port", report) else {
        let location = SettingSpan { setting: "port".to_owned(), span: 0..0 };
        if !file.has("port") {
            report.add(&location, "no port", example);
        }
        return Vec::new();
    };
    let location = sections.location.clone();
    let mut ports = Vec::new();
    let sections = sections.sections(report);
    let (count, first_too_many) =
        (sections.len(), sections.get(MAX_PORTS).map(|(_, port)| port.location.clone()));
    for (name, section) in sections.into_iter().take(MAX_PORTS) {
        ports.push(read_port(name, section, buffer, congestion, policies, defaults, report));
    }
    if ports.is_empty() {
        report.add(&location, "no port", example);
    } else if let Some(first) = first_too_many {
        let what = format!("this is the first of {} ports too many", count - MAX_PORTS);
        report.add(&first, what, format!("a switch has at most {MAX_PORTS} ports"));
    }
    ports
}

fn read_port<'f>(
    name: &str,
    section: TableReader,
    buffer: &Buffer,
    congestion: &Congestion,
    policies: &Policies,
    defaults: &'f PortTable,
    report: &mut Diagnostics,
) -> Port<'f> {
    let location = section.location.clone();
    if !is_name(name) {
        report.add(&location, format!("{} is no name", quoted(name)), NAME_CURE);
    }
    if !section.has("interface") {
        report.add(
            &location,
            "no interface",
            "write interface = \"…\", the network interface that the port uses",
        );
    }
    let own = PortTable::read(section, buffer, congestion, policies, report);
    Port::new(name, location, own, defaults, buffer)
}
