//! The TX ring of a socket, in memory that the kernel shares. Source: `linux/if_xdp.h`,
//! `net/xdp/xsk_queue.h`.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_void, xdp_desc, xdp_ring_offset};
use xsk_rs::FrameDesc;

/// A TX ring, on the side that produces.
pub(crate) struct TxRing {
    mapping: Mapping,
    /// Positions of the ring in the mapping, in bytes.
    offsets: xdp_ring_offset,
    entries: u32,
    /// Entries ever put into the ring; it wraps.
    produced: u32,
}

impl TxRing {
    /// Maps the TX ring of a socket, which has `entries` entries, a power of two.
    ///
    /// # Errors
    /// What the kernel reports.
    ///
    /// # Safety
    /// The offsets and the number of entries are those of this socket.
    pub(crate) unsafe fn map(fd: &OwnedFd, offsets: xdp_ring_offset, entries: u32) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let file = (fd.as_raw_fd(), libc::XDP_PGOFF_TX_RING);
        Ok(Self::new(Mapping::new(bytes(&offsets, entries), flags, file)?, offsets, entries))
    }

    /// Makes a ring that no socket has.
    #[cfg(test)]
    fn anonymous(offsets: xdp_ring_offset, entries: u32) -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        Self::new(Mapping::new(bytes(&offsets, entries), flags, (-1, 0)).unwrap(), offsets, entries)
    }

    fn new(mapping: Mapping, offsets: xdp_ring_offset, entries: u32) -> Self {
        debug_assert!(entries.is_power_of_two());
        Self { mapping, offsets, entries, produced: 0 }
    }

    /// Returns the number of free entries, as far as the kernel has come.
    pub(crate) fn free(&self) -> u32 {
        let consumed = self.position(self.offsets.consumer).load(Ordering::Acquire);
        self.entries - self.produced.wrapping_sub(consumed)
    }

    /// Puts all descriptors into the ring, or none if there are not enough free entries. Returns
    /// how many it has put.
    ///
    /// # Safety
    /// The descriptors are of the sockets' UMEM, and nothing else writes to their frames until they
    /// complete.
    pub(crate) unsafe fn produce(&mut self, descs: &[FrameDesc]) -> usize {
        if descs.len() > self.free() as usize {
            return 0;
        }
        for desc in descs {
            let slot = (self.produced & (self.entries - 1)) as usize;
            let entry = xdp_desc {
                addr: desc.addr() as u64,
                len: desc.lengths().data() as u32,
                options: desc.options(),
            };
            // SAFETY: the mapping has `entries` descriptors from this offset on, 8-byte aligned.
            // The kernel reads a free one only after the store of the producer's position below.
            unsafe { self.mapping.at::<xdp_desc>(self.offsets.desc).add(slot).write(entry) };
            self.produced = self.produced.wrapping_add(1);
        }
        self.position(self.offsets.producer).store(self.produced, Ordering::Release);
        descs.len()
    }

    /// Returns the position at this offset, of the producer or the consumer.
    fn position(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the mapping has an aligned u32 there for as long as it lives, as the ring's maker
        // promised. This process and the kernel access it atomically only.
        unsafe { AtomicU32::from_ptr(self.mapping.at(offset)) }
    }
}

/// Returns the bytes up to the last entry.
fn bytes(offsets: &xdp_ring_offset, entries: u32) -> usize {
    offsets.desc as usize + entries as usize * size_of::<xdp_desc>()
}

/// Memory that is mapped.
struct Mapping {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: a mapping belongs to no thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(len: usize, flags: i32, (fd, offset): (RawFd, libc::off_t)) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, wherever the kernel puts it.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd, offset) };
        match NonNull::new(start).filter(|_| start != libc::MAP_FAILED) {
            Some(start) => Ok(Self { start, len }),
            None => Err(io::Error::last_os_error()),
        }
    }

    /// Returns what is at this offset.
    ///
    /// # Safety
    /// The offset is within the mapping.
    unsafe fn at<T>(&self, offset: u64) -> *mut T {
        // SAFETY: the caller's promise.
        unsafe { self.start.byte_add(offset as usize).cast().as_ptr() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, to which nothing refers any more.
        unsafe { libc::munmap(self.start.as_ptr(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const ENTRIES: u32 = 4;
    /// Where Linux 6 has them.
    const OFFSETS: xdp_ring_offset = xdp_ring_offset { producer: 0, consumer: 64, desc: 320, flags: 128 };

    /// Returns descriptors with these numbers as options: frames are of a UMEM, and there is none.
    fn descs(numbers: std::ops::Range<u32>) -> Vec<FrameDesc> {
        let desc = |number| {
            let mut desc = FrameDesc::default();
            desc.set_options(number);
            desc
        };
        numbers.map(desc).collect()
    }

    /// The kernel's side of a ring.
    struct Consumer {
        start: *mut c_void,
        consumed: u32,
    }

    // SAFETY: the ring outlives the thread, which has a scope, and belongs to none.
    unsafe impl Send for Consumer {}

    impl Consumer {
        fn new(ring: &TxRing) -> Self {
            Self { start: ring.mapping.start.as_ptr(), consumed: ring.produced }
        }

        fn position(&self, offset: u64) -> &AtomicU32 {
            // SAFETY: as on the other side.
            unsafe { AtomicU32::from_ptr(self.start.byte_add(offset as usize).cast()) }
        }

        /// Takes at most `max` entries, and returns their options.
        fn consume(&mut self, max: u32) -> Vec<u32> {
            let produced = self.position(OFFSETS.producer).load(Ordering::Acquire);
            let count = produced.wrapping_sub(self.consumed).min(max);
            let entry = |n| {
                let slot = self.consumed.wrapping_add(n) % ENTRIES;
                // SAFETY: an entry that the producer has put.
                unsafe { self.start.byte_add(320).cast::<xdp_desc>().add(slot as usize).read().options }
            };
            let options = (0..count).map(entry).collect();
            self.consumed = self.consumed.wrapping_add(count);
            self.position(OFFSETS.consumer).store(self.consumed, Ordering::Release);
            options
        }
    }

    /// Makes a ring through which almost 2^32 entries have passed.
    fn ring() -> (TxRing, Consumer) {
        let mut ring = TxRing::anonymous(OFFSETS, ENTRIES);
        ring.produced = u32::MAX - 5;
        for offset in [OFFSETS.producer, OFFSETS.consumer] {
            ring.position(offset).store(ring.produced, Ordering::Relaxed);
        }
        let kernel = Consumer::new(&ring);
        (ring, kernel)
    }

    /// Puts descriptors with these numbers into the ring.
    fn produce(ring: &mut TxRing, numbers: std::ops::Range<u32>) -> usize {
        // SAFETY: no kernel reads this ring.
        unsafe { ring.produce(&descs(numbers)) }
    }

    #[test]
    fn what_does_not_fit_as_a_whole_stays_out() {
        let (mut ring, mut kernel) = ring();
        assert_eq!((ring.free(), produce(&mut ring, 0..5), produce(&mut ring, 0..3)), (4, 0, 3));
        assert_eq!((ring.free(), produce(&mut ring, 3..5), produce(&mut ring, 3..4)), (1, 0, 1));
        assert_eq!((kernel.consume(3), ring.free()), (vec![0, 1, 2], 3));
        assert_eq!((produce(&mut ring, 4..7), ring.free()), (3, 0));
        assert_eq!((kernel.consume(9), kernel.consume(9), ring.free()), (vec![3, 4, 5, 6], vec![], 4));
    }

    /// The position wraps around meanwhile.
    #[test]
    fn another_thread_finds_each_entry_as_it_was_put() {
        let (mut ring, mut kernel) = ring();
        thread::scope(|scope| {
            let consumer = scope.spawn(|| {
                let mut taken = Vec::new();
                while taken.len() < 30 {
                    taken.extend(kernel.consume(2));
                    thread::yield_now();
                }
                taken
            });
            let mut next = 0;
            while next < 30 {
                let count = (30 - next).min(1 + next % 3);
                next += produce(&mut ring, next..next + count) as u32;
                thread::yield_now();
            }
            assert!(consumer.join().unwrap().into_iter().eq(0..30));
        });
        assert_eq!(ring.free(), ENTRIES);
    }
}
