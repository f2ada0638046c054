//! A port whose peer is a virtio driver: `vhost_user` and `vhost` of a port. What they do:
//! docs/vhost-user.md.

use std::path::PathBuf;

use crate::read::diagnostics::Diagnostics;
use crate::read::table_reader::{Setting, TableReader};
use crate::spec::{TableSpec, boolean, choice, words};

/// Longest path of a socket: `sun_path` of the kernel less the terminating zero.
const SOCKET_BYTES: usize = 107;

/// Who listens on the socket of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VhostRole {
    /// The switch.
    Server,
    /// The front end.
    Client,
}

/// The roles, by their names.
const ROLES: [(&str, VhostRole); 2] = [("server", VhostRole::Server), ("client", VhostRole::Client)];

/// Whether the number of a queue pair is the priority, by the names.
const QUEUES: [(&str, bool); 2] = [("one", false), ("by-priority", true)];

/// The table `vhost` of a port.
pub(crate) const VHOST: TableSpec = &[
    choice("role", || words(&ROLES))
        .value("\"server\"", "Who listens on the socket: the switch, or its front end (client).")
        .restart()
        .of_one_port(),
    choice("queues", || words(&QUEUES))
        .value("\"one\"", "Queue pairs: one, or eight whose numbers are the priorities.")
        .restart()
        .of_one_port(),
    boolean("pfc_frames")
        .value("false", "Sends PFC frames to the guest, instead of not reading its queues.")
        .restart()
        .of_one_port(),
    boolean("allow_unsealed_memory")
        .value("false", "Accepts memory that a front end can shrink, which ends the switch.")
        .restart()
        .of_one_port(),
];

/// A port on a vhost-user socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VhostUserPort {
    /// The path of the socket.
    pub path: PathBuf,
    /// Who listens on it.
    pub role: VhostRole,
    /// There are eight queue pairs, whose numbers are the priorities.
    pub queue_is_priority: bool,
    /// The guest gets PFC frames, and its queues are always read.
    pub pfc_frames: bool,
    /// Memory is accepted that the front end can shrink.
    pub allow_unsealed_memory: bool,
}

/// The settings in the table of a port.
#[derive(Debug, Default)]
pub(crate) struct VhostTable {
    pub(crate) path: Option<Setting<String>>,
    role: Option<Setting<VhostRole>>,
    pub(crate) queue_is_priority: Option<Setting<bool>>,
    pub(crate) pfc_frames: Option<Setting<bool>>,
    allow_unsealed_memory: Option<Setting<bool>>,
}

impl VhostTable {
    /// Reads a port's settings of these names.
    pub(crate) fn read(port: &mut TableReader, report: &mut Diagnostics) -> Self {
        let path = port.string("vhost_user", report).and_then(|path| socket_path(path, report));
        let location = port.location_of("vhost");
        let mut table = Self { path, ..Self::default() };
        let Some(mut vhost) = port.section("vhost", report) else { return table };
        table.role = vhost.choice("role", &ROLES, report);
        table.queue_is_priority = vhost.choice("queues", &QUEUES, report);
        table.pfc_frames = vhost.boolean("pfc_frames", report);
        table.allow_unsealed_memory = vhost.boolean("allow_unsealed_memory", report);
        vhost.finish(report);
        if let (None, Some(location)) = (&table.path, location) {
            report.add(
                &location,
                "the port has no vhost_user socket",
                "write vhost_user, or leave vhost out",
            );
        }
        table
    }

    /// Returns the port's socket, if it has one.
    pub(crate) fn settings(&self) -> Option<VhostUserPort> {
        let is = |setting: &Option<Setting<bool>>| setting.as_ref().is_some_and(|it| it.value);
        Some(VhostUserPort {
            path: PathBuf::from(&self.path.as_ref()?.value),
            role: self.role.as_ref().map_or(VhostRole::Server, |role| role.value),
            queue_is_priority: is(&self.queue_is_priority),
            pfc_frames: is(&self.pfc_frames),
            allow_unsealed_memory: is(&self.allow_unsealed_memory),
        })
    }
}

fn socket_path(path: Setting<&str>, report: &mut Diagnostics) -> Option<Setting<String>> {
    if !path.value.starts_with('/') {
        let cure = "write a path that begins with /, as in \"/run/sluice/vm1.sock\"";
        report.add(&path.location, "not an absolute path", cure);
        return None;
    }
    if path.value.len() > SOCKET_BYTES {
        let what = format!("{} bytes are too many for the path of a socket", path.value.len());
        report.add(&path.location, what, format!("write one of at most {SOCKET_BYTES} bytes"));
        return None;
    }
    Some(Setting { value: path.value.to_owned(), location: path.location })
}
