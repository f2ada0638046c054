//! Loads the XDP program (`bpf/sluice.bpf.c`) and attaches it to an interface by a BPF link. The
//! kernel removes the link with its last descriptor, so a process that dies leaves no program
//! behind.
//!
//! The best of three modes is used. The first is native with VLAN tags restored, where the driver
//! passes them (the program is then bound to the device). The second is native without them. The
//! third is generic mode, where the driver does not support XDP.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, ObjectBuilder, PrintLevel, libbpf_sys};

use crate::error::Error;
use crate::interface::generic_netlink::has_vlan_metadata;
use crate::interface::program_error;

/// The largest MTU of a veth whose peer runs XDP without multi-buffer support (`veth_xdp_set`): a
/// page without the headroom, the kernel's trailer and the Ethernet header.
const VETH_MAX_MTU: u32 = 4096 - 256 - 320 - 14;

static OBJECT: &[u8] = include_bytes!(env!("SLUICE_BPF"));
const PLAIN: &str = "sluice_xdp";
const WITH_VLAN: &str = "sluice_xdp_vlan";

/// The mode of an XDP program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before the kernel allocates its own packet buffer.
    Native,
    /// After that allocation: slower, for drivers without XDP support.
    Generic,
}

/// A program attached to an interface; dropping it detaches the program.
#[derive(Debug)]
pub(crate) struct Attached {
    _link: OwnedFd,
    /// The sockets by RX queue.
    sockets: MapHandle,
    pub(crate) mode: XdpMode,
    /// VLAN tags that the sender left out of band are restored.
    pub(crate) restores_vlan_tags: bool,
}

/// The reason why a mode failed.
enum AttachError {
    Load(libbpf_rs::Error),
    Attach(io::Error),
}

impl std::fmt::Display for AttachError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AttachError::Load(error) => write!(f, "loading the XDP program: {error}"),
            AttachError::Attach(error) => write!(f, "attaching the XDP program: {error}"),
        }
    }
}

impl Attached {
    /// Passes the frames of RX queue i to `sockets[i]` from now on.
    pub(crate) fn enable_rx(&self, sockets: &[RawFd]) -> libbpf_rs::Result<()> {
        fill(&self.sockets, sockets)
    }
}

/// Attaches the program to interface `index`, which has this number of RX queues. It then passes
/// the frames of RX queue i to `sockets[i]`, including multi-buffer frames if the sockets support
/// these, and drops those of queues without a socket.
#[expect(clippy::expect_used, reason = "the list of ways is not empty")]
pub(crate) fn attach(
    interface: &str,
    index: i32,
    sockets: (usize, &[RawFd]),
    multi_buffer: bool,
) -> Result<Attached, Error> {
    libbpf_rs::set_print(Some((PrintLevel::Debug, log_libbpf)));
    let ways = [(WITH_VLAN, XdpMode::Native), (PLAIN, XdpMode::Native), (PLAIN, XdpMode::Generic)];
    let with_vlan = has_vlan_metadata(index).unwrap_or(false); // error: no such query
    let mut reason = None;
    for (program, mode) in ways.into_iter().skip(usize::from(!with_vlan)) {
        match try_attach((program, mode), index, sockets, multi_buffer) {
            Ok(attached) => {
                warn_of_limitations(interface, &attached, reason.as_ref());
                return Ok(attached);
            }
            Err(refused) => match fatal_in_every_mode(interface, &refused) {
                Some(error) => return Err(error),
                None => reason = Some(refused),
            },
        }
    }
    Err(last_error(interface, &reason.expect("a way was tried")))
}

fn warn_of_limitations(interface: &str, attached: &Attached, reason: Option<&AttachError>) {
    let reason = reason.map(AttachError::to_string).unwrap_or_default();
    if attached.mode == XdpMode::Generic {
        tracing::warn!(interface, reason, "no native XDP: the port works in generic mode, which is slower");
    }
    if !attached.restores_vlan_tags {
        tracing::warn!(
            interface,
            reason,
            "a VLAN tag that the driver holds out of band is lost here (if this is not permitted: CAP_PERFMON)"
        );
    }
}

fn last_error(interface: &str, refused: &AttachError) -> Error {
    let action = format!("interface {interface}: {refused}");
    match refused {
        AttachError::Load(error) if error.kind() == libbpf_rs::ErrorKind::PermissionDenied => {
            Error::NotPermitted { action }
        }
        _ => Error::Kernel {
            action: format!("interface {interface}: XDP"),
            source: io::Error::other(refused.to_string()),
        },
    }
}

/// Returns the error of an attachment that would fail in every mode; `None` if another mode may
/// work.
fn fatal_in_every_mode(interface: &str, refused: &AttachError) -> Option<Error> {
    let AttachError::Attach(error) = refused else { return None };
    let interface = interface.to_owned();
    match error.raw_os_error()? {
        libc::EPERM | libc::EACCES => {
            Some(Error::NotPermitted { action: format!("interface {interface}: {refused}") })
        }
        libc::EBUSY | libc::EEXIST => Some(program_error(&interface)),
        libc::ERANGE => Some(Error::PeerMtuTooLarge { interface, max_mtu: VETH_MAX_MTU }),
        libc::ENOSPC => Some(Error::TooFewQueues { interface }),
        libc::ENODEV => Some(Error::NoInterface { interface }),
        _ => None,
    }
}

#[expect(clippy::expect_used, reason = "our own BPF object")]
fn try_attach(
    (name, mode): (&str, XdpMode),
    index: i32,
    (queues, sockets): (usize, &[RawFd]),
    multi_buffer: bool,
) -> Result<Attached, AttachError> {
    let restores_vlan_tags = name == WITH_VLAN;
    let mut object = ObjectBuilder::default().open_memory(OBJECT).map_err(AttachError::Load)?;
    for mut program in object.progs_mut() {
        let chosen = program.name() == name;
        program.set_autoload(chosen);
        let mut flags = if multi_buffer { libbpf_sys::BPF_F_XDP_HAS_FRAGS } else { 0 };
        if chosen && restores_vlan_tags {
            program.set_ifindex(index as u32);
            flags |= libbpf_sys::BPF_F_XDP_DEV_BOUND_ONLY;
        }
        program.set_flags(flags);
    }
    for mut map in object.maps_mut() {
        map.set_max_entries(queues as u32).map_err(AttachError::Load)?;
    }
    let object = object.load().map_err(AttachError::Load)?;
    let map = object.maps().next().expect("the sockets are in the object");
    let map = MapHandle::try_from(&map).map_err(AttachError::Load)?;
    fill(&map, sockets).map_err(AttachError::Load)?;
    let program = object.progs().find(|program| program.name() == name).expect("it is in the object");
    let link = create_link(program.as_fd(), index, mode).map_err(AttachError::Attach)?;
    Ok(Attached { _link: link, sockets: map, mode, restores_vlan_tags })
}

fn fill(map: &MapHandle, sockets: &[RawFd]) -> libbpf_rs::Result<()> {
    for (queue, socket) in sockets.iter().enumerate() {
        map.update(&(queue as u32).to_ne_bytes(), &socket.to_ne_bytes(), MapFlags::ANY)?;
    }
    Ok(())
}

/// Attaches by a BPF link in exactly this mode.
fn create_link(program: BorrowedFd<'_>, index: i32, mode: XdpMode) -> io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        flags: match mode {
            XdpMode::Native => libbpf_sys::XDP_FLAGS_DRV_MODE,
            XdpMode::Generic => libbpf_sys::XDP_FLAGS_SKB_MODE,
        },
        ..Default::default()
    };
    // SAFETY: the options outlive the call and state their size.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), index, libbpf_sys::BPF_XDP, &raw const options)
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn log_libbpf(_level: PrintLevel, message: String) {
    tracing::debug!(target: "libbpf", "{}", message.trim_end());
}
