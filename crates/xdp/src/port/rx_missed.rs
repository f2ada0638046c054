//! Frames that a NIC missed: it had no posted chunk for them and no more room of its own, so the
//! kernel never saw them.
//!
//! Rule: the count is the increase of the interface's `rx_missed_errors` and `rx_fifo_errors` (a
//! driver uses one or the other) while a port is open on it. A driver may have to query its device,
//! which takes time. So a thread that may wait reads the counters ([`crate::PortOpener`]), and the
//! port's loop takes the increase. Source: docs/kernel/af-xdp.md, "Zero-copy"; linux/if_link.h,
//! `struct rtnl_link_stats64`.

/// The missed-frame counter of an interface at the last check.
#[derive(Debug, Default)]
pub(crate) struct RxMissed {
    /// The interface's index and its counter.
    last: Option<(i32, u64)>,
}

impl RxMissed {
    /// Records that the counter of interface `index` is `frames` now, and returns the increase. The
    /// increase is 0 on the first check, or if the counter was reset.
    pub(crate) fn rise(&mut self, index: i32, frames: u64) -> u64 {
        let before = self.last.replace((index, frames)).filter(|(last, _)| *last == index);
        before.map_or(0, |(_, before)| frames.saturating_sub(before))
    }

    /// Resets the state when the port closes: later increases do not belong to it.
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
