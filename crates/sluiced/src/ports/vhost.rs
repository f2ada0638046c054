//! Ports on vhost-user sockets: their sockets, and what happens there.
//!
//! Rule: to the state machine of a port ([`crate::ports::fsm`]), such a port is an interface: a
//! guest's driver that has started its rings is a carrier, and its path is the name. The poll loop
//! itself gives the rings back, so there is nothing to open or to close. At most one message a
//! second is reported of each port, as a guest may cause any number. Source: docs/vhost-user.md,
//! "Life of a port".

use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use config::{Config, VhostRole, VhostUserPort};
use control::{PortDetails, v1};
use switch::{EventKind, EventRecord};
use tracing::info;
use virtio::{Notice, SocketRole, SocketSettings, UnsealedMemory, VhostLink, VhostUser, VirtioPort};
use wire::mac::MacAddr;
use xdp::Umem;

use crate::ports::fsm::LinkState;
use crate::ports::interface::{DeviceKind, Interface};

/// Messages of all sockets that wait; more are lost, as guests can cause any number.
const MAX_NOTICES: usize = 256;
/// The least time between two reports of a port.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// The longest frame to a guest, as its MTU is unknown to the switch.
const MTU_BYTES: u32 = 9216;

/// The ports for the poll loop, with their slots.
pub type LoopPorts = Vec<(usize, VirtioPort<Umem>)>;

/// The sockets of all ports that have one.
#[derive(Debug)]
pub struct VhostSockets {
    /// By slot.
    sockets: Vec<Option<Socket>>,
    notices: Receiver<(usize, Notice)>,
}

#[derive(Debug)]
struct Socket {
    path: String,
    vhost: VhostUser,
    was_linked: bool,
    reported_at: Option<Instant>,
}

impl VhostSockets {
    /// Opens the sockets of a configuration. Returns the ports for the poll loop, too.
    ///
    /// # Errors
    /// A socket cannot be opened.
    pub fn open(config: &Config) -> Result<(Self, LoopPorts)> {
        let (sender, notices) = sync_channel(MAX_NOTICES);
        let (mut sockets, mut ports) = (Vec::new(), Vec::new());
        for (slot, (settings, vhost)) in config.switch.ports.iter().zip(&config.vhost_user).enumerate() {
            let Some(port) = vhost else {
                sockets.push(None);
                continue;
            };
            let sender = sender.clone();
            let notify = move |notice| drop(sender.try_send((slot, notice)));
            let of_port = virtio::PortSettings {
                speed_bps: settings.pause_speed_bps(),
                sends_pfc: port.pfc_frames,
                cell_bytes: config.switch.buffer.cell_bytes,
                batch_cells: settings.guest_batch_cells(port.pfc_frames),
                queue_pairs: if port.queue_is_priority { virtio::MAX_PAIRS } else { 1 },
            };
            let (vhost, of_loop) =
                VhostUser::open(&settings.name, &socket_settings(port), of_port, notify)
                    .with_context(|| format!("port {}: vhost_user {}", settings.name, port.path.display()))?;
            let path = port.path.display().to_string();
            sockets.push(Some(Socket { path, vhost, was_linked: false, reported_at: None }));
            ports.push((slot, of_loop));
        }
        Ok((Self { sockets, notices }, ports))
    }

    /// The path and the link of each socket, by slot.
    pub fn links(&self) -> Vec<Option<(String, VhostLink)>> {
        let link = |socket: &Socket| (socket.path.clone(), socket.vhost.link());
        self.sockets.iter().map(|socket| socket.as_ref().map(link)).collect()
    }

    /// Returns the ports whose links have changed since the last call, as they are now.
    pub fn take_changed(&mut self) -> Vec<(usize, Interface)> {
        let mut changed = Vec::new();
        for (slot, socket) in self.sockets.iter_mut().enumerate() {
            let Some(socket) = socket else { continue };
            let is_linked = socket.vhost.link().is_linked();
            if std::mem::replace(&mut socket.was_linked, is_linked) != is_linked {
                changed.push((slot, interface(&socket.path, is_linked)));
            }
        }
        changed
    }

    /// Takes the events to report.
    pub fn events(&mut self) -> Vec<EventRecord> {
        let mut events = Vec::new();
        for (slot, notice) in self.notices.try_iter() {
            let Some(Some(socket)) = self.sockets.get_mut(slot) else { continue };
            let message = match notice {
                Notice::Connected => {
                    info!(socket = socket.path, "a front end is connected");
                    continue;
                }
                Notice::Disconnected(why) => {
                    info!(socket = socket.path, "the front end is gone: {why}");
                    continue;
                }
                Notice::LinkUp(pairs) => {
                    info!(socket = socket.path, queue_pairs = pairs, "the guest's driver has started");
                    continue;
                }
                Notice::LinkDown => continue,
                Notice::Refused(why) => format!("its front end was refused something: {why}"),
                Notice::RingFaults(count, name) => {
                    format!("its guest broke the rules of its rings {count} times, the last time: {name}")
                }
                Notice::SocketError(why) => format!("its socket takes no front end: {why}"),
            };
            let now = Instant::now();
            if socket.reported_at.is_none_or(|at| now >= at + REPORT_INTERVAL) {
                socket.reported_at = Some(now);
                let message = format!("the port on {}: {message}", socket.path);
                events.push(EventRecord::new(EventKind::VhostUserRefused, message).of_port(slot));
            }
        }
        events
    }
}

/// True if this name of an interface is the path of a socket.
pub fn is_socket(interface: &str) -> bool {
    interface.starts_with('/')
}

fn socket_settings(port: &VhostUserPort) -> SocketSettings {
    SocketSettings {
        path: port.path.clone(),
        role: match port.role {
            VhostRole::Server => SocketRole::Server,
            VhostRole::Client => SocketRole::Client,
        },
        unsealed: if port.allow_unsealed_memory { UnsealedMemory::Allowed } else { UnsealedMemory::Refused },
    }
}

/// Describes the link of a socket as an interface.
fn interface(path: &str, is_linked: bool) -> Interface {
    Interface {
        name: path.to_owned(),
        index: 0,
        mac: address(Path::new(path)),
        mtu: MTU_BYTES,
        kind: DeviceKind::VhostUser,
        speed_bps: None,
        state: if is_linked { LinkState::Carrier } else { LinkState::Gone },
    }
}

/// Returns the facts about a port on a socket, as reported to clients.
pub fn details(path: &str) -> PortDetails {
    PortDetails {
        interface: path.to_owned(),
        xdp_mode: "vhost-user".to_owned(),
        vlan_tags_restored: false,
        mtu_bytes: 0, // set from the interface
        link: v1::Link { kind: "vhost-user".to_owned(), ..v1::Link::default() },
    }
}

/// Returns the address of the switch on a socket: a local one, always the same for its path
/// (FNV-1a).
fn address(path: &Path) -> MacAddr {
    let bytes = path.as_os_str().as_encoded_bytes();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let [a, b, c, d, e, ..] = hash.to_be_bytes();
    MacAddr([0x02, a, b, c, d, e])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_local_and_differ() {
        let [a, b] = ["/run/a.sock", "/run/b.sock"].map(|path| address(Path::new(path)));
        assert!(a != b && a == address(Path::new("/run/a.sock")));
        assert_eq!(a.0[0], 0x02);
    }
}
