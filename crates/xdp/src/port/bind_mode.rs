//! Which way a port's sockets are bound: zero-copy, where the driver reads and writes memory
//! itself, or copy, where the kernel copies each frame.
//!
//! Rule: zero-copy where it is wanted, the driver has it, and all frames that the interface may
//! bring fit; otherwise, and should the driver refuse, copy. A driver that reads and writes memory
//! itself is asked to say when it wants to be woken (`XDP_USE_NEED_WAKEUP`); in copy mode each call
//! sends, so nothing is asked there. Source: docs/kernel-behavior.md, "Zero-copy".

use xsk_rs::config::BindFlags;

/// Whether a port's frames are copied by the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ZeroCopy {
    /// Where the driver can, it reads and writes a memory of the port's own; otherwise the kernel
    /// copies.
    #[default]
    Auto,
    /// The kernel copies.
    Off,
    /// The kernel copies, into and out of a memory of the port's own: all else is as with a
    /// zero-copy port, without a NIC that can be one.
    Emulate,
}

/// How the frames of a port get to the switch's memory and back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortMode {
    /// The driver reads and writes memory itself; if not, the kernel copies each frame.
    pub zero_copy: bool,
    /// That memory is the port's own, and each frame is copied between it and the switch's.
    pub own_memory: bool,
}

/// What the sockets of a port are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    /// The driver reads and writes the memory. If not, the kernel copies.
    pub(crate) zero_copy: bool,
    /// The most chunks that a frame may lie in.
    pub(crate) most_chunks: usize,
}

impl Mode {
    /// What the first socket on a memory is bound with; those that share it take that over.
    pub(crate) fn bind_flags(self) -> BindFlags {
        let copies = if self.zero_copy {
            BindFlags::XDP_ZEROCOPY | BindFlags::XDP_USE_NEED_WAKEUP
        } else {
            BindFlags::XDP_COPY
        };
        if self.most_chunks > 1 { copies | BindFlags::XDP_USE_SG } else { copies }
    }
}

/// The modes to try, the best first. The driver takes frames of up to `segments` chunks without
/// copying them (0: none), the interface brings ones of up to `needed`, and the memory has ones of
/// up to `most`.
pub(crate) fn modes(wanted: ZeroCopy, segments: usize, needed: usize, most: usize) -> Vec<Mode> {
    let zero_copy = |most_chunks| Mode { zero_copy: true, most_chunks };
    let mut modes = vec![zero_copy(segments.min(most)), zero_copy(1)];
    modes.retain(|mode| wanted == ZeroCopy::Auto && (needed..=segments).contains(&mode.most_chunks));
    modes.dedup();
    modes.push(Mode { zero_copy: false, most_chunks: most });
    modes
}

/// Whether an error of a call that wakes a driver says that the interface is down or gone. Whatever
/// it says, no frame is lost by it.
pub(crate) fn is_down(errno: i32) -> bool {
    !matches!(errno, libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each as (zero-copy, chunks).
    fn tried(wanted: ZeroCopy, segments: usize, needed: usize, most: usize) -> Vec<(bool, usize)> {
        modes(wanted, segments, needed, most)
            .into_iter()
            .map(|mode| (mode.zero_copy, mode.most_chunks))
            .collect()
    }

    #[test]
    fn zero_copy_is_tried_where_all_frames_fit() {
        // A veth, or zero-copy not wanted.
        assert_eq!(tried(ZeroCopy::Auto, 0, 1, 3), [(false, 3)]);
        assert_eq!(tried(ZeroCopy::Off, 8, 1, 3), [(false, 3)]);
        assert_eq!(tried(ZeroCopy::Emulate, 8, 1, 3), [(false, 3)]);
        // A driver of one chunk a frame: an MTU of 1500, and one of 9000.
        assert_eq!(tried(ZeroCopy::Auto, 1, 1, 3), [(true, 1), (false, 3)]);
        assert_eq!(tried(ZeroCopy::Auto, 1, 3, 3), [(false, 3)]);
        // One of several: should it refuse those, one may do.
        assert_eq!(tried(ZeroCopy::Auto, 8, 1, 3), [(true, 3), (true, 1), (false, 3)]);
        assert_eq!(tried(ZeroCopy::Auto, 8, 3, 3), [(true, 3), (false, 3)]);
        assert_eq!(tried(ZeroCopy::Auto, 2, 3, 3), [(false, 3)]);
        assert_eq!(tried(ZeroCopy::Auto, 5, 5, 6), [(true, 5), (false, 6)]);
        // A kernel without frames of several chunks.
        assert_eq!(tried(ZeroCopy::Auto, 8, 1, 1), [(true, 1), (false, 1)]);
    }

    #[test]
    fn flags_are_as_the_kernel_wants_them() {
        let flags = |zero_copy, most_chunks| Mode { zero_copy, most_chunks }.bind_flags().bits();
        let (copy, zero_copy) = (1 << 1, 1 << 2 | 1 << 3); // with need-wakeup
        assert_eq!([flags(false, 1), flags(false, 3)], [copy, copy | 1 << 4]);
        assert_eq!([flags(true, 1), flags(true, 3)], [zero_copy, zero_copy | 1 << 4]);
    }

    #[test]
    fn a_driver_that_is_busy_is_not_down() {
        assert!(
            [libc::EAGAIN, libc::EBUSY, libc::ENOBUFS, libc::EINTR].into_iter().all(|errno| !is_down(errno))
        );
        assert!([libc::ENETDOWN, libc::ENXIO, libc::EINVAL, libc::EBADF].into_iter().all(is_down));
    }
}
