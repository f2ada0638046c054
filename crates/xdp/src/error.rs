//! Errors of setting up memory or a port. Each message states the problem, the place and a remedy.

use std::io;

/// The reason why a UMEM or a port could not be set up. No resources are left behind.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No interface of this name in the current network namespace.
    #[error("interface {interface}: there is no such interface here; `ip link` lists those there are")]
    NoInterface {
        /// Name of the interface.
        interface: String,
    },
    /// The interface is administratively down.
    #[error("interface {interface} is down; `ip link set dev {interface} up` brings it up")]
    Down {
        /// Name of the interface.
        interface: String,
    },
    /// The interface runs the XDP program of another process.
    #[error(
        "interface {interface} already has XDP program {program_id}: stop the program that attached it, or remove it \
         with `ip link set dev {interface} xdp off` if it is stale"
    )]
    HasProgram {
        /// Name of the interface.
        interface: String,
        /// The program's id, as `bpftool prog` shows it.
        program_id: u32,
    },
    /// Another AF_XDP socket is bound to an RX queue of the interface.
    #[error(
        "interface {interface}, queue {queue}: another AF_XDP socket is bound to it; stop the program that \
         uses this interface. If there is none, try again: a busy kernel releases the queue of a closed socket late"
    )]
    QueueBusy {
        /// Name of the interface.
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
        /// Name of the interface.
        interface: String,
        /// MTU of the interface in bytes.
        mtu: u32,
        /// The largest MTU whose frames, with two 802.1Q tags, fit a frame of the memory.
        max_mtu: u32,
        /// What would allow a larger MTU, as a part of the sentence; empty if nothing would.
        because: &'static str,
    },
    /// The peer of a veth may send frames that do not fit a page.
    #[error(
        "interface {interface}: the MTU of its peer is too large for XDP; \
         `ip link set dev PEER mtu {max_mtu}` lowers it"
    )]
    PeerMtuTooLarge {
        /// Name of the interface.
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
        /// Name of the interface.
        interface: String,
    },
    /// An interface that was created again has more queues than its predecessor.
    #[error(
        "interface {interface} has {queues} RX queues, and memory was set aside for {most}; \
         `ethtool -L {interface} rx {most}` gives it fewer; dataplane.spare_ports sets aside more at the next start"
    )]
    MoreQueues {
        /// Name of the interface.
        interface: String,
        /// Its queues.
        queues: u32,
        /// The queues that memory is set aside for.
        most: u32,
    },
    /// Zero-copy sockets were opened, but the program that feeds them cannot run in the driver.
    #[error(
        "interface {interface}: zero-copy needs native XDP, which its driver rejected; falling back to copy mode"
    )]
    NoNativeXdp {
        /// Name of the interface.
        interface: String,
    },
    /// The process lacks a capability.
    #[error(
        "{action}: not permitted; run as root, or with CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF; in a container, its seccomp \
         profile may refuse bpf(2) even so"
    )]
    NotPermitted {
        /// The action that was not permitted.
        action: String,
    },
    /// There is not enough memory for the frames.
    #[error(
        "no memory for {frames} frames of {frame_bytes} bytes ({} MiB): {reason}; configure fewer cells or \
         larger ones, or give the machine more memory", (*frames as u64 * *frame_bytes as u64) >> 20
    )]
    NoMemory {
        /// The requested frames.
        frames: usize,
        /// Bytes of each frame.
        frame_bytes: usize,
        /// The cause.
        reason: String,
    },
    /// The requested shape of the memory is not supported.
    #[error("{frames} frames of {frame_bytes} bytes: {reason}")]
    InvalidUmemSize {
        /// The requested frames.
        frames: usize,
        /// Bytes of each frame.
        frame_bytes: usize,
        /// The rule that is violated.
        reason: &'static str,
    },
    /// An invalid [`crate::PortConfig`].
    #[error("interface {interface}: {reason}")]
    InvalidPortConfig {
        /// Name of the interface.
        interface: String,
        /// The rule that is violated.
        reason: &'static str,
    },
    /// Any other error of the kernel.
    #[error("{action}: {source}")]
    Kernel {
        /// The action that failed, with the interface where there is one.
        action: String,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Error {
    /// Returns the error of a failed system call. A lack of permission has its own variant.
    pub(crate) fn kernel(action: impl Into<String>, source: io::Error) -> Error {
        let action = action.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Error::NotPermitted { action },
            _ => Error::Kernel { action, source },
        }
    }
}
