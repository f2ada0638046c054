//! Guest memory: the memory that a front end shares with the switch.
//!
//! Rule: the guest may write any byte of it at any time, so nothing in it is trusted. Each access
//! goes through an address that was checked against one region, each number is read once, and the
//! bytes of a frame are copied before they are parsed. A region is mapped only if the front end
//! cannot shrink its file: an access beyond the end of a file ends the process (SIGBUS). Sealed
//! memfds (`F_SEAL_SHRINK`) guarantee that. Source: QEMU's vhost-user protocol, "Memory region
//! description"; docs/vhost-user.md, "Memory of the guest".

mod mapping;

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::error::MemoryError;
use crate::memory::mapping::Mapping;
pub use crate::memory::mapping::{GuestBytes, RegionSpec, UnsealedMemory};

/// The most regions of one guest, as QEMU's protocol has it.
pub const MAX_REGIONS: usize = 32;
/// The most bytes of all regions of one guest that are mapped: 1 TiB. A sealed file costs its owner
/// nothing, however large, but its mapping takes addresses of the switch.
pub const MAX_MAPPED_BYTES: u64 = 1 << 40;

/// Bytes of the longest virtio header, which a frame follows.
pub(crate) const LONGEST_HEADER: usize = 12;
/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// The memory of one guest.
#[derive(Debug, Default)]
pub struct GuestMemory {
    regions: Vec<Region>,
}

#[derive(Debug)]
struct Region {
    spec: RegionSpec,
    mapping: Mapping,
}

impl GuestMemory {
    /// Fetches the first cache lines of a buffer ahead of its use: the virtio header, and the
    /// headers of the frame. A line with no more than the virtio header is only fetched to be read,
    /// even if the buffer is to be filled: it seldom changes.
    #[inline]
    pub(crate) fn prefetch(&self, addr: u64, is_written: bool) {
        let Some(bytes) = self.at_guest(addr, 1) else { return };
        let (first, second) = (bytes.start(), bytes.start().wrapping_add(LINE_BYTES));
        let has_frame = first as usize % LINE_BYTES + LONGEST_HEADER < LINE_BYTES;
        if is_written && has_frame {
            prefetch_to_write(first)
        } else {
            prefetch(first)
        }
        if is_written { prefetch_to_write(second) } else { prefetch(second) }
    }

    /// Maps the regions of a guest.
    ///
    /// # Errors
    /// A region is empty, wraps around, overlaps another, lies beyond the end of its file, or its
    /// file can shrink and that is not allowed.
    pub fn map(regions: &[(RegionSpec, File)], unsealed: UnsealedMemory) -> Result<Self, MemoryError> {
        if regions.len() > MAX_REGIONS {
            return Err(MemoryError::TooManyRegions(regions.len()));
        }
        let mut mapped: Vec<Region> = Vec::with_capacity(regions.len());
        let mut mapped_bytes = 0_u64;
        for (spec, file) in regions {
            check_region(spec)?;
            // The file is mapped from its start on.
            mapped_bytes = mapped_bytes.saturating_add(spec.file_offset + spec.len_bytes);
            if mapped_bytes > MAX_MAPPED_BYTES {
                return Err(MemoryError::TooLarge(mapped_bytes));
            }
            let overlaps = |other: &Region| {
                overlap((spec.guest_addr, spec.len_bytes), (other.spec.guest_addr, other.spec.len_bytes))
                    || overlap((spec.user_addr, spec.len_bytes), (other.spec.user_addr, other.spec.len_bytes))
            };
            if mapped.iter().any(overlaps) {
                return Err(MemoryError::Overlap(spec.guest_addr));
            }
            mapped.push(Region { spec: *spec, mapping: Mapping::new(file, spec, unsealed)? });
        }
        Ok(Self { regions: mapped })
    }

    /// Makes regions that no guest shares, for tests of what is done with the addresses in them.
    #[cfg(test)]
    pub(crate) fn anonymous(specs: &[RegionSpec]) -> Self {
        let region = |&spec: &RegionSpec| Region { spec, mapping: Mapping::anonymous(&spec) };
        Self { regions: specs.iter().map(region).collect() }
    }

    /// Returns the bytes from a guest address on. `None` if they are not in one region.
    #[inline]
    pub fn at_guest(&self, addr: u64, len: u32) -> Option<GuestBytes<'_>> {
        for Region { spec, mapping } in &self.regions {
            let offset = addr.wrapping_sub(spec.guest_addr);
            if offset < spec.len_bytes {
                return mapping.bytes(offset, len.into());
            }
        }
        None
    }

    /// Returns an area of a ring at an address of the front end. `None` if it is not in one region,
    /// or not aligned to `align`.
    pub(crate) fn ring_area(self: &Arc<Self>, user_addr: u64, len: usize, align: u64) -> Option<RingArea> {
        if !user_addr.is_multiple_of(align) {
            return None;
        }
        let (index, offset) = self.regions.iter().enumerate().find_map(|(index, region)| {
            let offset = user_addr.wrapping_sub(region.spec.user_addr);
            (offset < region.spec.len_bytes).then_some((index, offset))
        })?;
        #[expect(clippy::indexing_slicing, reason = "its index was just found")]
        let bytes = self.regions[index].mapping.bytes(offset, len as u64)?;
        // The front end's address is aligned, but its region may not be mapped as it is there.
        let start = bytes.start();
        (start as u64).is_multiple_of(align).then(|| RingArea { start, len, memory: Arc::clone(self) })
    }
}

fn check_region(spec: &RegionSpec) -> Result<(), MemoryError> {
    let RegionSpec { guest_addr, user_addr, len_bytes, file_offset } = *spec;
    let ends = [guest_addr, user_addr, file_offset].map(|start| start.checked_add(len_bytes));
    if len_bytes == 0 {
        return Err(MemoryError::EmptyRegion(guest_addr));
    }
    if ends.contains(&None) {
        return Err(MemoryError::WrapsAround(guest_addr));
    }
    Ok(())
}

fn overlap((a, a_len): (u64, u64), (b, b_len): (u64, u64)) -> bool {
    a < b + b_len && b < a + a_len
}

/// An area of a ring: descriptors, available entries, or used entries. It is aligned to at least
/// two bytes.
#[derive(Debug)]
pub(crate) struct RingArea {
    start: *mut u8,
    len: usize,
    memory: Arc<GuestMemory>,
}

// SAFETY: the pointer is into a mapping that `memory` keeps, and every access is atomic.
unsafe impl Send for RingArea {}

impl RingArea {
    /// Returns the memory that the area is in.
    #[inline]
    pub(crate) fn memory(&self) -> &GuestMemory {
        &self.memory
    }

    #[inline]
    fn atomic_u16(&self, offset: usize) -> &AtomicU16 {
        assert!(offset + 2 <= self.len && offset.is_multiple_of(2), "an offset in the ring");
        // SAFETY: in the area, which stays mapped as long as `memory`; aligned, as the start is.
        unsafe { &*self.start.wrapping_add(offset).cast::<AtomicU16>() }
    }

    /// Returns a half of a used entry, which is aligned to four bytes only.
    #[inline]
    fn atomic_u32(&self, offset: usize) -> &AtomicU32 {
        assert!(offset + 4 <= self.len && offset.is_multiple_of(4), "an offset in the ring");
        let start = self.start.wrapping_add(offset);
        debug_assert!((start as usize).is_multiple_of(4), "used entries are aligned");
        // SAFETY: in the area, which stays mapped as long as `memory`; used entries are aligned to
        // four bytes.
        unsafe { &*start.cast::<AtomicU32>() }
    }

    /// Reads a number of two bytes.
    #[inline]
    pub(crate) fn load_u16(&self, offset: usize, order: Ordering) -> u16 {
        u16::from_le(self.atomic_u16(offset).load(order))
    }

    /// Writes a number of two bytes.
    #[inline]
    pub(crate) fn store_u16(&self, offset: usize, value: u16, order: Ordering) {
        self.atomic_u16(offset).store(value.to_le(), order);
    }

    /// Reads a number of eight bytes, of a descriptor.
    #[inline]
    pub(crate) fn load_u64(&self, offset: usize) -> u64 {
        assert!(offset + 8 <= self.len && offset.is_multiple_of(8), "an offset in the ring");
        let start = self.start.wrapping_add(offset);
        debug_assert!((start as usize).is_multiple_of(8), "descriptors are aligned");
        // SAFETY: in the area; a table of descriptors is aligned to 16 bytes.
        u64::from_le(unsafe { &*start.cast::<AtomicU64>() }.load(Ordering::Relaxed))
    }

    /// Writes a number of eight bytes, of a descriptor.
    pub(crate) fn store_u64(&self, offset: usize, value: u64) {
        assert!(offset + 8 <= self.len && offset.is_multiple_of(8), "an offset in the ring");
        let start = self.start.wrapping_add(offset);
        // SAFETY: in the area; a table of descriptors is aligned to 16 bytes.
        unsafe { &*start.cast::<AtomicU64>() }.store(value.to_le(), Ordering::Relaxed);
    }

    /// Reads a used entry: its identifier and length.
    pub(crate) fn load_used(&self, offset: usize) -> (u32, u32) {
        let half = |at| u32::from_le(self.atomic_u32(at).load(Ordering::Relaxed));
        (half(offset), half(offset + 4))
    }

    /// Writes a used entry, whose fields have four bytes each.
    #[inline]
    pub(crate) fn store_used(&self, offset: usize, id: u32, len: u32) {
        self.atomic_u32(offset).store(id.to_le(), Ordering::Relaxed);
        self.atomic_u32(offset + 4).store(len.to_le(), Ordering::Relaxed);
    }

    /// Fetches an entry into the cache ahead of its use.
    #[inline]
    pub(crate) fn prefetch(&self, offset: usize) {
        prefetch(self.start.wrapping_add(offset));
    }

    /// Fetches an entry into the cache ahead of a write to it.
    #[inline]
    pub(crate) fn prefetch_to_write(&self, offset: usize) {
        prefetch_to_write(self.start.wrapping_add(offset));
    }
}

/// Fetches the cache line of an address ahead of its use.
#[inline]
pub(crate) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch accesses nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Fetches the cache line of an address ahead of a write to it. Otherwise the line would be fetched
/// twice, the second time to own it. The compiler has this instruction only for newer CPUs; others
/// do nothing there.
#[inline]
pub(crate) fn prefetch_to_write(at: *const u8) {
    // Miri has no instructions of one architecture.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch accesses nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    use crate::memory::mapping::tests::{memfd, sealed};

    fn spec(guest_addr: u64, user_addr: u64, len_bytes: u64, file_offset: u64) -> RegionSpec {
        RegionSpec { guest_addr, user_addr, len_bytes, file_offset }
    }

    fn map(specs: &[RegionSpec], file_bytes: u64) -> Result<GuestMemory, MemoryError> {
        let regions: Vec<_> = specs.iter().map(|&spec| (spec, sealed(file_bytes))).collect();
        GuestMemory::map(&regions, UnsealedMemory::Refused)
    }

    /// The mapping of a file has its bytes.
    #[test]
    #[cfg_attr(miri, ignore = "memfds, which Miri does not have")]
    fn a_region_begins_at_its_offset_in_the_file() {
        let file = sealed(0x3000);
        file.write_all_at(b"abc", 0x1234).unwrap();
        let region = (spec(0x10, 0, 0x1000, 0x1230), file.try_clone().unwrap());
        let memory = GuestMemory::map(&[region], UnsealedMemory::Refused).unwrap();
        assert_eq!(memory.at_guest(0x14, 3).unwrap().array(0), Some(*b"abc"));
        assert_eq!(memory.at_guest(0x100f, 1).unwrap().write(0, b"z"), 1);
        let mut last = [0];
        file.read_exact_at(&mut last, 0x222f).unwrap();
        assert_eq!(last, *b"z");
    }

    #[test]
    fn bytes_are_found_by_guest_address_in_one_region_only() {
        let memory =
            GuestMemory::anonymous(&[spec(0x1000, 0, 0x1000, 0), spec(0x2000, 0x8000, 0x1000, 0x1000)]);
        assert_eq!(memory.at_guest(0x1ff0, 16).map(|bytes| bytes.len()), Some(16));
        assert_eq!(memory.at_guest(0x2000, 0x1000).map(|bytes| bytes.len()), Some(0x1000));
        for (addr, len) in [(0x1ff0, 17), (0xfff, 1), (0x3000, 1), (u64::MAX, 1), (0x1000, u32::MAX)] {
            assert!(memory.at_guest(addr, len).is_none(), "{addr:#x} {len}");
        }
    }

    #[test]
    fn what_is_written_is_read_within_the_bytes() {
        let memory = GuestMemory::anonymous(&[spec(0, 0, 0x1000, 0)]);
        let bytes = memory.at_guest(0x10, 4).unwrap();
        assert_eq!((bytes.write(1, b"abcdef"), bytes.write(5, b"x")), (3, 0));
        let mut read = [0; 8];
        assert_eq!((bytes.read(0, &mut read), &read), (4, b"\0abc\0\0\0\0"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "memfds, which Miri does not have")]
    fn regions_that_cannot_be_are_refused() {
        let one = spec(0x1000, 0x1000, 0x1000, 0);
        let is = |specs: &[RegionSpec]| map(specs, 0x1000).unwrap_err();
        assert!(matches!(is(&[spec(0, 0, 0, 0)]), MemoryError::EmptyRegion(0)));
        assert!(matches!(is(&[spec(u64::MAX, 0, 0x1000, 0)]), MemoryError::WrapsAround(_)));
        assert!(matches!(is(&[spec(0, u64::MAX, 0x1000, 0)]), MemoryError::WrapsAround(_)));
        assert!(matches!(is(&[spec(0, 0, 0x1000, u64::MAX)]), MemoryError::WrapsAround(_)));
        assert!(matches!(is(&[one, spec(0x1fff, 0x9000, 1, 0)]), MemoryError::Overlap(0x1fff)));
        assert!(matches!(is(&[one, spec(0x9000, 0x1000, 1, 0)]), MemoryError::Overlap(0x9000)));
        assert!(matches!(is(&[spec(0, 0, 0x1001, 0)]), MemoryError::BeyondFile { .. }));
        assert!(matches!(is(&[spec(0, 0, 1, 0x1000)]), MemoryError::BeyondFile { .. }));
        let many = Vec::from_iter((0..33).map(|n| spec(n, n, 1, 0)));
        assert!(matches!(is(&many), MemoryError::TooManyRegions(33)));
    }

    /// Of one region, and of all together.
    #[test]
    #[cfg_attr(miri, ignore = "memfds, which Miri does not have")]
    fn memory_has_a_most() {
        let quarter = MAX_MAPPED_BYTES / 4;
        let all = Vec::from_iter((0..4).map(|n| spec(n * quarter, n * quarter, quarter, 0)));
        assert!(map(&all, quarter).is_ok());
        let more = spec(4 * quarter, 4 * quarter, 1, 0);
        let refused = |specs: &[RegionSpec]| matches!(map(specs, 1 << 42), Err(MemoryError::TooLarge(_)));
        assert!(refused(&[&all[..], &[more]].concat()));
        assert!(refused(&[spec(0, 0, MAX_MAPPED_BYTES + 1, 0)]));
        assert!(refused(&[spec(0, 0, 1, MAX_MAPPED_BYTES)]), "what is before the region is mapped, too");
    }

    /// A file that can shrink would end the process with a signal.
    #[test]
    #[cfg_attr(miri, ignore = "memfds, which Miri does not have")]
    fn a_file_that_can_shrink_is_refused_unless_allowed() {
        let region = || [(spec(0, 0, 0x1000, 0), memfd(0x1000))];
        assert!(matches!(
            GuestMemory::map(&region(), UnsealedMemory::Refused),
            Err(MemoryError::CanShrink { .. })
        ));
        assert!(GuestMemory::map(&region(), UnsealedMemory::Allowed).is_ok());
        let file = tempfile::tempfile().unwrap();
        file.set_len(0x1000).unwrap();
        assert!(matches!(
            GuestMemory::map(&[(spec(0, 0, 0x1000, 0), file)], UnsealedMemory::Refused),
            Err(MemoryError::CanShrink { .. })
        ));
    }

    #[test]
    fn areas_of_rings_are_aligned_and_in_one_region() {
        let memory = Arc::new(GuestMemory::anonymous(&[spec(0, 0x7000_0000, 0x1000, 0)]));
        assert!(memory.ring_area(0x7000_0010, 0xff0, 16).is_some());
        for (addr, len, align) in [(0x7000_0008, 16, 16), (0x7000_0010, 0xff1, 16), (0x6fff_fff0, 32, 16)] {
            assert!(memory.ring_area(addr, len, align).is_none(), "{addr:#x}");
        }
    }
}
