//! Frames that a NIC missed: it had no empty frame to put them in and no more room of its own, so
//! the kernel never saw them.
//!
//! Rule: it is what the interface counts as `rx_missed_errors` and `rx_fifo_errors` (of which
//! drivers use the one or the other), by how much that rises while a port is open on it. A driver
//! may have to ask its device, which takes time: so a thread asks that may wait
//! ([`crate::PortOpener`]), and the port's loop takes what is new.
//! Source: docs/kernel-behavior.md, "Zero-copy"; linux/if_link.h, `struct rtnl_link_stats64`.

/// How far the count of an interface had come when it was last looked at.
#[derive(Debug, Default)]
pub(crate) struct RxMissed {
    /// The interface's index, and its count.
    last: Option<(i32, u64)>,
}

impl RxMissed {
    /// The count of interface `index` is `frames` now: by how much it has risen. By nothing, as far
    /// as anyone knows, if it is looked at for the first time or was set back.
    pub(crate) fn rise(&mut self, index: i32, frames: u64) -> u64 {
        let before = self.last.replace((index, frames)).filter(|(last, _)| *last == index);
        before.map_or(0, |(_, before)| frames.saturating_sub(before))
    }

    /// What rises from now on is not the port's: it is closed.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_rises_while_the_port_is_open_counts() {
        let mut missed = RxMissed::default();
        let looks = [(2, 100), (2, 100), (2, 107), (2, 3), (2, 4), (5, 900), (5, 901)];
        assert_eq!(looks.map(|(index, frames)| missed.rise(index, frames)), [0, 0, 7, 0, 1, 0, 1]);
        missed.forget();
        assert_eq!([missed.rise(5, 950), missed.rise(5, 960)], [0, 10]);
    }
}
