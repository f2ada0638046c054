//! An egress queue: the cells that its frames hold, and when it is full.
//!
//! Rule: a frame of n cells is taken if max(0, u + n − guaranteed) is no more than the queue's shared maximum (static,
//! or alpha × the free cells of the pool); otherwise it is dropped at the tail. A queue without maximum takes all that
//! ingress let in. Cells count until the frame has left: frames with the kernel are still in the queue.
//! Source: design §3, "Egress queue"; seeds/h3c-rdma-technical-reference.txt, "Fixed area and shared area".

use crate::counters::{Count, Level};
use crate::held::List;
use crate::pool::Pool;
use crate::settings::Xoff;

/// One egress queue.
#[derive(Debug)]
pub struct Queue {
    /// Frames that wait, in order.
    pub waiting: List,
    guaranteed_cells: u32,
    /// Most shared cells; `None`: no limit.
    maximum: Option<Xoff>,
    level: Level,
    transmitted: Count,
    dropped: Count,
}

impl Queue {
    /// An empty queue.
    pub fn new(guaranteed_cells: u32, maximum: Option<Xoff>) -> Self {
        Self {
            waiting: List::default(),
            guaranteed_cells,
            maximum,
            level: Level::default(),
            transmitted: Count::default(),
            dropped: Count::default(),
        }
    }

    /// The most shared cells as it stands; `u32::MAX`: no limit.
    #[inline]
    pub fn threshold_cells(&self, pool: &Pool) -> u32 {
        match self.maximum {
            None => u32::MAX,
            Some(Xoff::Static(cells)) => cells,
            Some(Xoff::Dynamic(alpha)) => alpha.of(pool.free_cells()),
        }
    }

    /// A frame of `cells` fits.
    #[inline]
    pub fn has_room(&self, cells: u32, pool: &Pool) -> bool {
        (self.level.cells + cells).saturating_sub(self.guaranteed_cells) <= self.threshold_cells(pool)
    }

    /// Charges a frame that fits.
    #[inline]
    pub fn charge(&mut self, cells: u32, pool: &mut Pool) {
        let before = self.shared_cells();
        self.level.set(self.level.cells + cells);
        pool.take(self.shared_cells() - before);
    }

    /// A frame of `cells` has left the switch.
    #[inline]
    pub fn release(&mut self, cells: u32, pool: &mut Pool) {
        debug_assert!(cells <= self.level.cells, "released more cells than were charged");
        let before = self.shared_cells();
        self.level.cells -= cells;
        pool.give(before - self.shared_cells());
    }

    /// A frame left the port.
    #[inline]
    pub fn count_transmitted(&mut self, len: u16) {
        self.transmitted.add(len);
    }

    /// A frame found the queue full.
    #[inline]
    pub fn count_drop(&mut self, len: u16) {
        self.dropped.add(len);
    }

    /// Cells held, and the most there were.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Frames that left, and frames dropped because the queue was full.
    pub fn counts(&self) -> (Count, Count) {
        (self.transmitted, self.dropped)
    }

    #[inline]
    fn shared_cells(&self) -> u32 {
        self.level.cells.saturating_sub(self.guaranteed_cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Alpha;

    #[test]
    fn takes_exactly_what_guaranteed_and_shared_allow() {
        let mut pool = Pool::new(1000);
        for (maximum, cells) in [
            (Some(Xoff::Static(30)), 40),
            (Some(Xoff::Static(0)), 10),
            (Some(Xoff::Dynamic(Alpha::from_percent(20))), 10 + 200), // α/(1+α) = 1/5 of the pool
        ] {
            let mut queue = Queue::new(10, maximum);
            while queue.has_room(1, &pool) {
                queue.charge(1, &mut pool);
            }
            assert_eq!(queue.level().cells, cells, "{maximum:?}");
            queue.release(cells, &mut pool);
            assert_eq!(pool.level().cells, 0);
        }
        assert!(Queue::new(0, None).has_room(1_000_000, &pool), "without maximum there is always room");
    }
}
