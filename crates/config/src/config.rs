//! The configuration as a whole: the settings of the switch, its ports, and the constraints between
//! them.

use dcbx::settings::PfcMode;
use switch::settings::MAX_PORTS;
use switch::{PortSettings, SwitchSettings};

use crate::lint::{lossless, short_pauses};
use crate::profiles::Profiles;
use crate::read::diagnostics::{ConfigErrors, Diagnostics, SettingSpan};
use crate::read::parse::{NAME_CURE, is_name};
use crate::read::suggest::quoted;
use crate::read::table_reader::TableReader;
use crate::read::toml_document::read_file;
use crate::spec::{ValueSpec, word_of};
use crate::tables::FILE;
use crate::tables::alarm::AlarmTable;
use crate::tables::bridge;
use crate::tables::buffer::Buffer;
use crate::tables::congestion::Congestion;
use crate::tables::daemon::{self, ControlSocket, Dataplane, RecorderSettings};
use crate::tables::fixed_area;
use crate::tables::lldp::{self, Lldp};
use crate::tables::metrics::{self, Metrics};
use crate::tables::port::dcbx::PortDcbx;
use crate::tables::port::policy::Policies;
use crate::tables::port::vhost::VhostUserPort;
use crate::tables::port::watchdog::{EarlyWarningTable, WatchdogTable};
use crate::tables::ports::{Link, PFC_MODES, Port, PortTable, raise_guest_headroom};
use crate::tables::telemetry::{self, Telemetry};
use crate::validate::buffer;
use crate::validate::dcbx as dcbx_check;
use crate::validate::lldp as lldp_check;
use crate::validate::vhost;
use crate::validate::vlan;
use crate::validate::watchdog;

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
    /// The vhost-user sockets of the ports that have one; their paths are in `interfaces`.
    pub vhost_user: Vec<Option<VhostUserPort>>,
    /// The configured core of each port, by port number; `None` for the least loaded core.
    pub port_cores: Vec<Option<usize>>,
    /// Whether each port may carry frames, by port number; false for `admin = "down"`.
    pub admin_up: Vec<bool>,
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
    /// The Unix socket that the control API listens on.
    pub control: ControlSocket,
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

    /// Returns true if the port of this name may carry frames, as the file has it.
    pub fn is_admin_up(&self, port: &str) -> bool {
        let number = self.switch.ports.iter().position(|it| it.name == port);
        number.and_then(|number| self.admin_up.get(number)).is_none_or(|&up| up)
    }

    /// Returns the name of the mode of PFC of a port.
    pub fn pfc_mode(&self, port: &str) -> &'static str {
        let number = self.switch.ports.iter().position(|it| it.name == port);
        let mode = number.and_then(|number| self.pfc_modes.get(number));
        word_of(&PFC_MODES, mode.unwrap_or(&PfcMode::Off))
    }
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
    let read = read_file(file_name, text, Some(&ValueSpec::Table(FILE)), |file, report| {
        read(file_name, text, file, report, inspect)
    })?;
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
    let name = daemon::read_name(&mut file, report);
    let dataplane = daemon::read_dataplane(&mut file, report);
    let control = daemon::read_control(&mut file, &name, report);
    let recorder = daemon::read_recorder(&mut file, report);
    let mut buffer = Buffer::read(&mut file, report);
    let congestion = Congestion::read(&mut file, buffer.settings.cell_bytes, report);
    let policies = Policies::read(&mut file, report);
    let bridge = bridge::read(&mut file, report);
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
    file.finish(report);

    buffer::interfaces(&ports, report);
    buffer::static_addresses(&ports, bridge.max_entries, report);
    buffer::dependences(&defaults, &ports, report);
    vlan::check(&defaults, &ports, report);
    lldp_check::check(&ports, report);
    dcbx_check::check(&ports, report);
    vhost::check(&defaults, &ports, report);
    if buffer.fixed_cells.is_none() {
        let needed = u32::try_from(buffer::fixed_cells_needed(&ports)).unwrap_or(u32::MAX);
        buffer.settings.fixed_cells = (buffer.settings.total_cells / 8).max(needed);
    }
    for share in fixed_area::shares(&ports, buffer.settings.fixed_cells) {
        ports[share.port].settings.groups[share.priority].reserved_cells = share.cells;
    }
    raise_guest_headroom(&mut ports, &buffer.settings);
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

    let interface = |port: &Port| port.own.interface.as_ref().or(port.own.vhost.path.as_ref()).cloned();
    let interfaces = ports.iter().filter_map(|port| Some(interface(port)?.value)).collect();
    let vhost_user = ports.iter().map(|port| port.own.vhost.settings()).collect();
    let port_cores = ports.iter().map(|port| port.own.core.as_ref().map(|core| core.value)).collect();
    let admin_up = ports.iter().map(|port| port.tables().is_admin_up()).collect();
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
        vhost_user,
        port_cores,
        admin_up,
        links,
        lldp,
        pfc_modes,
        dcbx,
        recorder,
        control,
        telemetry,
        metrics,
        warnings,
    };
    (config, made)
}

/// Reads whether PFC is enabled, and the watchdog settings for all ports.
fn read_pfc(file: &mut TableReader, report: &mut Diagnostics) -> (bool, WatchdogTable, EarlyWarningTable) {
    let Some(mut section) = file.section("pfc", report) else {
        return (true, Default::default(), Default::default());
    };
    let enabled = section.boolean("enabled", report);
    let watchdog = WatchdogTable::read(&mut section, report);
    let early_warning = EarlyWarningTable::read(&mut section, report);
    section.finish(report);
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
    for setting in ["vhost_user", "vhost"] {
        if let Some(location) = section.location_of(setting) {
            report.add(&location, "a socket belongs to one port only", "move it to [port.NAME]");
        }
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
    match (section.has("interface"), section.has("vhost_user")) {
        (false, false) => report.add(
            &location,
            "no interface",
            "write interface = \"…\", the network interface that the port uses, or vhost_user = \"…\"",
        ),
        (true, true) => report.add(
            &location,
            "both an interface and a vhost_user socket",
            "leave out interface or vhost_user: a port is on one of them",
        ),
        _ => {}
    }
    let own = PortTable::read(section, buffer, congestion, policies, report);
    Port::new(name, location, own, defaults, buffer)
}
