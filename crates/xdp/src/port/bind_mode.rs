//! How a port's sockets are bound: zero-copy, where the driver accesses the UMEM itself, or copy,
//! where the kernel copies each frame.
//!
//! Rule: zero-copy if it is requested, the driver supports it, and all frames that the interface
//! may receive fit. Otherwise, and if the driver rejects it, copy. A zero-copy driver is requested
//! to report when it needs a wakeup (`XDP_USE_NEED_WAKEUP`). In copy mode each call sends, so the
//! flag is not used there. Source: docs/kernel/af-xdp.md, "Zero-copy".

use xsk_rs::config::BindFlags;

/// Whether the kernel copies a port's frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ZeroCopy {
    /// The driver accesses a UMEM of the port where it supports that; otherwise the kernel copies.
    #[default]
    Auto,
    /// The kernel copies.
    Off,
    /// The kernel copies into and out of a UMEM of the port. Everything else is as with a zero-copy
    /// port, without a NIC that supports it.
    Emulate,
}

/// How the frames of a port reach the switch's memory and leave it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortMode {
    /// The driver accesses the UMEM itself; if false, the kernel copies each frame.
    pub zero_copy: bool,
    /// The UMEM belongs to the port, and each frame is copied between it and the switch's memory.
    pub own_memory: bool,
}

/// The mode of a port's sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    /// The driver accesses the UMEM. If false, the kernel copies.
    pub(crate) zero_copy: bool,
    /// The largest number of chunks of a frame.
    pub(crate) max_chunks: usize,
}

impl Mode {
    /// Returns the bind flags of the first socket on a UMEM; sockets that share it inherit them.
    pub(crate) fn bind_flags(self) -> BindFlags {
        let copies = if self.zero_copy {
            BindFlags::XDP_ZEROCOPY | BindFlags::XDP_USE_NEED_WAKEUP
        } else {
            BindFlags::XDP_COPY
        };
        if self.max_chunks > 1 { copies | BindFlags::XDP_USE_SG } else { copies }
    }
}

/// Returns the modes to try, the best first. Without copies, the driver supports frames of up to
/// `segments` chunks (0: no zero-copy). The interface may receive frames of up to `needed` chunks,
/// and the memory supports up to `most`.
pub(crate) fn modes(wanted: ZeroCopy, segments: usize, needed: usize, most: usize) -> Vec<Mode> {
    let zero_copy = |most_chunks| Mode { zero_copy: true, max_chunks: most_chunks };
    let mut modes = vec![zero_copy(segments.min(most)), zero_copy(1)];
    modes.retain(|mode| wanted == ZeroCopy::Auto && (needed..=segments).contains(&mode.max_chunks));
    modes.dedup();
    modes.push(Mode { zero_copy: false, max_chunks: most });
    modes
}

/// True if this error of a wakeup call means that the interface is down or does not exist. No frame
/// is lost by any of these errors.
pub(crate) fn is_down(errno: i32) -> bool {
    !matches!(errno, libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns each mode as (zero-copy, chunks).
    fn tried(wanted: ZeroCopy, segments: usize, needed: usize, most: usize) -> Vec<(bool, usize)> {
        modes(wanted, segments, needed, most)
            .into_iter()
            .map(|mode| (mode.zero_copy, mode.max_chunks))
            .collect()
    }

    #[test]
    fn zero_copy_is_tried_where_all_frames_fit() {
        // A veth, or zero-copy not requested.
        assert_eq!(tried(ZeroCopy::Auto, 0, 1, 3), [(false, 3)]);
        assert_eq!(tried(ZeroCopy::Off, 8, 1, 3), [(false, 3)]);
        assert_eq!(tried(ZeroCopy::Emulate, 8, 1, 3), [(false, 3)]);
        // A driver with one chunk per frame: an MTU of 1500, and one of 9000.
        assert_eq!(tried(ZeroCopy::Auto, 1, 1, 3), [(true, 1), (false, 3)]);
        assert_eq!(tried(ZeroCopy::Auto, 1, 3, 3), [(false, 3)]);
        // A driver with several chunks per frame. If it rejects that, one chunk may be enough.
        assert_eq!(tried(ZeroCopy::Auto, 8, 1, 3), [(true, 3), (true, 1), (false, 3)]);
        assert_eq!(tried(ZeroCopy::Auto, 8, 3, 3), [(true, 3), (false, 3)]);
        assert_eq!(tried(ZeroCopy::Auto, 2, 3, 3), [(false, 3)]);
        assert_eq!(tried(ZeroCopy::Auto, 5, 5, 6), [(true, 5), (false, 6)]);
        // A kernel without multi-buffer frames.
        assert_eq!(tried(ZeroCopy::Auto, 8, 1, 1), [(true, 1), (false, 1)]);
    }

    #[test]
    fn flags_are_as_the_kernel_wants_them() {
        let flags = |zero_copy, most_chunks| Mode { zero_copy, max_chunks: most_chunks }.bind_flags().bits();
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
