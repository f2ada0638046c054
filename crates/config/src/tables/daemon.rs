//! `[switch]`, `[dataplane]`, `[control]` and `[recorder]`: the daemon beside the switch.

use std::collections::BTreeSet;
use std::path::PathBuf;

use switch::settings::MAX_PORTS;

use crate::read::diagnostics::Diagnostics;
use crate::read::parse::{NAME_CURE, is_name};
use crate::read::suggest::quoted;
use crate::read::table_reader::{TableReader, set};
use crate::spec::{TableSpec, ValueSpec, boolean, choice, list, number, text, words};
use crate::tables::port::zero_copy::ZeroCopy;

/// Longest path of a Unix socket: `sun_path` less the terminating zero.
const SOCKET_BYTES: usize = 107;

/// Highest number of a core.
pub(crate) const LAST_CORE: i64 = 1023;

pub(crate) const SWITCH: TableSpec =
    &[text("name", "lab").value("\"sluice\"", "Name of the switch, and of its control socket.")];

pub(crate) const DATAPLANE: TableSpec = &[
    list("cores", &ValueSpec::Number(0, LAST_CORE))
        .value("[0]", "The first core switches, all serve ports (docs/multi-core.md)."),
    boolean("switch_core_serves").value("true", "False: with several cores, the first one only switches."),
    choice("scheduling", || words(&SCHEDULING))
        .value("\"short-slices\"", "Scheduling of the loops' threads; \"fifo\" is real time."),
    choice("overload", || words(&OVERLOAD))
        .value("\"pause\"", "A loop that falls behind pauses its peers, or lets the kernel drop."),
    choice("pfc_test", || words(&PFC_TEST))
        .value("\"nics\"", "Ports that test whether PFC frames get out and in, once they are no-drop."),
    choice("zero_copy", || words(&ZeroCopy::CHOICES))
        .value("\"auto\"", "NICs whose drivers support it; off: the kernel copies; emulate: for tests."),
    number("spare_ports", 0, MAX_PORTS as i64)
        .value("2", "Ports that a reload may add, with one RX queue each; 32 MiB of memory each."),
];

pub(crate) const CONTROL: TableSpec = &[
    text("socket", "/run/sluice/lab.sock")
        .otherwise("`/run/sluice/` and the name of the switch", "Unix socket of the control API."),
    text("group", "sluice").otherwise(
        "that of the daemon",
        "Group of the socket: its members may read. Root and the user of the daemon may change, too.",
    ),
    text("owner", "sluice")
        .otherwise("the user of the daemon", "Owner of the socket, by name: may change the switch, too."),
    choice("mode", || words(&SOCKET_MODES)).value(
        "\"0660\"",
        "Mode of the socket; \"0666\": every user may read, \"0600\": only those who may change.",
    ),
];

pub(crate) const RECORDER: TableSpec = &[
    boolean("always").value("false", "Record all the time, and keep the most recent part."),
    boolean("freeze_on_loss").value("true", "With always: keep what led to a loss until it is fetched."),
    number("memory_mib", 128, 65_536).value("256", "Size of the kept part."),
];

pub(crate) const SCHEDULING: [(&str, Scheduling); 3] =
    [("normal", Scheduling::Normal), ("short-slices", Scheduling::ShortSlices), ("fifo", Scheduling::Fifo)];
pub(crate) const OVERLOAD: [(&str, bool); 2] = [("pause", true), ("drop", false)];
pub(crate) const PFC_TEST: [(&str, PfcTest); 3] =
    [("off", PfcTest::Off), ("nics", PfcTest::Nics), ("all", PfcTest::All)];

/// Modes of the control socket. To connect, and so to read, takes permission to write.
pub(crate) const SOCKET_MODES: [(&str, u32); 3] = [("0600", 0o600), ("0660", 0o660), ("0666", 0o666)];

/// Where clients reach the daemon, and who may connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlSocket {
    /// Where it is in the file system.
    pub path: PathBuf,
    /// Name of its group, whose members may read; `None` for that of the daemon.
    pub group: Option<String>,
    /// Name of its owner, who may change the switch; `None` for the user of the daemon.
    pub owner: Option<String>,
    /// Permission bits.
    pub mode: u32,
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

pub(crate) fn read_name(file: &mut TableReader, report: &mut Diagnostics) -> String {
    let default = || "sluice".to_owned();
    let Some(mut section) = file.section("switch", report) else { return default() };
    let name = section.string("name", report);
    section.finish(report);
    match name {
        Some(name) if is_name(name.value) => name.value.to_owned(),
        Some(name) => {
            report.add(&name.location, format!("{} is no name", quoted(name.value)), NAME_CURE);
            default()
        }
        None => default(),
    }
}

pub(crate) fn read_dataplane(file: &mut TableReader, report: &mut Diagnostics) -> Dataplane {
    let mut dataplane = Dataplane::default();
    let Some(mut section) = file.section("dataplane", report) else { return dataplane };
    let mistakes = report.count();
    if let Some(cores) = section.numbers("cores", report) {
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
    set(&mut dataplane.scheduling, section.choice("scheduling", &SCHEDULING, report));
    set(&mut dataplane.pauses_on_overload, section.choice("overload", &OVERLOAD, report));
    set(&mut dataplane.pfc_test, section.choice("pfc_test", &PFC_TEST, report));
    set(&mut dataplane.zero_copy, section.choice("zero_copy", &ZeroCopy::CHOICES, report));
    set(&mut dataplane.spare_ports, section.number("spare_ports", report));
    section.finish(report);
    dataplane
}

pub(crate) fn read_recorder(file: &mut TableReader, report: &mut Diagnostics) -> RecorderSettings {
    let mut recorder = RecorderSettings::default();
    let Some(mut section) = file.section("recorder", report) else { return recorder };
    set(&mut recorder.always, section.boolean("always", report));
    let freeze = section.boolean("freeze_on_loss", report);
    if let Some(mib) = section.number::<usize>("memory_mib", report) {
        recorder.memory_bytes = mib.value << 20;
    }
    section.finish(report);
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

pub(crate) fn read_control(file: &mut TableReader, name: &str, report: &mut Diagnostics) -> ControlSocket {
    let path = PathBuf::from(format!("/run/sluice/{name}.sock"));
    let mut control = ControlSocket { path, group: None, owner: None, mode: 0o660 };
    let Some(mut section) = file.section("control", report) else { return control };
    let socket = section.string("socket", report);
    let group = section.string("group", report);
    control.owner = section.string("owner", report).map(|owner| owner.value.to_owned());
    set(&mut control.mode, section.choice("mode", &SOCKET_MODES, report));
    section.finish(report);
    if let Some(group) = group {
        if control.mode == 0o600 {
            report.add(
                &group.location,
                "a group may not connect to a socket of mode 0600",
                "leave control.mode out, or control.group",
            );
        }
        control.group = Some(group.value.to_owned());
    }
    let Some(socket) = socket else { return control };
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
    control.path = PathBuf::from(socket.value);
    control
}
