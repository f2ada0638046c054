//! What can go wrong when memory or a port is set up: each says what is wrong, where, and what
//! helps.

use std::io;

/// Why a UMEM or a port could not be set up. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No interface of this name in the current network namespace.
    #[error("interface {interface}: there is no such interface here; `ip link` lists those there are")]
    NoInterface {
        /// Its name.
        interface: String,
    },
    /// The interface is administratively down.
    #[error("interface {interface} is down; `ip link set dev {interface} up` brings it up")]
    Down {
        /// Its name.
        interface: String,
    },
    /// The interface runs somebody else's XDP program.
    #[error(
        "interface {interface} already has XDP program {program_id}: stop whatever put it there, or remove it \
         with `ip link set dev {interface} xdp off` if it is stale"
    )]
    HasProgram {
        /// Its name.
        interface: String,
        /// The program's id, as `bpftool prog` shows it.
        program_id: u32,
    },
    /// Another AF_XDP socket is bound to an RX queue of the interface.
    #[error(
        "interface {interface}, queue {queue}: another AF_XDP socket is bound to it; stop the program that \
         uses this interface"
    )]
    QueueBusy {
        /// Its name.
        interface: String,
        /// The RX queue.
        queue: u32,
    },
    /// Frames of the interface's MTU would not fit.
    #[error(
        "interface {interface}: an MTU of {mtu} is too large, {max_mtu} is the most here{because}; \
         `ip link set dev {interface} mtu {max_mtu}` lowers it (on a veth, at both ends)"
    )]
    MtuTooLarge {
        /// Its name.
        interface: String,
        /// Its MTU in bytes.
        mtu: u32,
        /// The largest MTU whose frames, with two 802.1Q tags, fit a frame of the memory.
        max_mtu: u32,
        /// What would allow more, as a part of the sentence; empty if nothing would.
        because: &'static str,
    },
    /// The peer of a veth may send frames that do not fit a page.
    #[error(
        "interface {interface}: the MTU of its peer is too large for XDP; \
         `ip link set dev PEER mtu {max_mtu}` lowers it"
    )]
    PeerMtuTooLarge {
        /// The interface's name.
        interface: String,
        /// The largest MTU that the peer can have.
        max_mtu: u32,
    },
    /// A veth has fewer RX queues than its peer has TX queues.
    #[error(
        "interface {interface} has fewer RX queues than its peer has TX queues; \
         `ethtool -L {interface} rx N` gives it more, `ethtool -L PEER tx N` the peer fewer"
    )]
    TooFewQueues {
        /// Its name.
        interface: String,
    },
    /// An interface that was made again has more queues than the one before.
    #[error(
        "interface {interface} has {queues} RX queues, and memory was set aside for {most}; \
         `ethtool -L {interface} rx {most}` gives it fewer, or restart for more"
    )]
    MoreQueues {
        /// Its name.
        interface: String,
        /// The queues that it has.
        queues: u32,
        /// Those that there is memory for.
        most: u32,
    },
    /// Zero-copy sockets were opened, and the program that feeds them cannot run in the driver.
    #[error(
        "interface {interface}: zero-copy needs native XDP, which its driver refuses; next the kernel copies each frame"
    )]
    NoNativeXdp {
        /// Its name.
        interface: String,
    },
    /// The process lacks a capability.
    #[error(
        "{action}: not permitted; run as root, or with CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_SYS_ADMIN"
    )]
    NotPermitted {
        /// What was tried.
        action: String,
    },
    /// Not enough memory for the frames.
    #[error(
        "no memory for {frames} frames of {frame_bytes} bytes ({} MiB): {reason}; configure fewer cells or \
         larger ones, or give the machine more memory", (*frames as u64 * *frame_bytes as u64) >> 20
    )]
    NoMemory {
        /// Frames asked for.
        frames: usize,
        /// Bytes of each.
        frame_bytes: usize,
        /// What stood in the way.
        reason: String,
    },
    /// The memory cannot have this shape.
    #[error("{frames} frames of {frame_bytes} bytes: {reason}")]
    BadShape {
        /// Frames asked for.
        frames: usize,
        /// Bytes of each.
        frame_bytes: usize,
        /// The rule that is broken.
        reason: &'static str,
    },
    /// A [`crate::PortConfig`] that cannot be.
    #[error("interface {interface}: {reason}")]
    BadSetup {
        /// The interface's name.
        interface: String,
        /// The rule that is broken.
        reason: &'static str,
    },
    /// Anything else that the kernel refused.
    #[error("{action}: {source}")]
    Kernel {
        /// What was tried, with the interface where there is one.
        action: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Error {
    /// The error of a call that the kernel refused: lacking permission has its own name.
    pub(crate) fn kernel(action: impl Into<String>, source: io::Error) -> Error {
        let action = action.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Error::NotPermitted { action },
            _ => Error::Kernel { action, source },
        }
    }
}
