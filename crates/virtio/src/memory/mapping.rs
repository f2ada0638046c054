//! The mapping of a region's file.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};

use crate::error::MemoryError;

/// Whether memory whose file the front end could shrink is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnsealedMemory {
    /// It is refused.
    #[default]
    Refused,
    /// It is accepted: the front end is trusted not to end the switch.
    Allowed,
}

/// The description of a region, as a front end sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionSpec {
    /// Address of its first byte in the guest.
    pub guest_addr: u64,
    /// Address of its first byte in the front end.
    pub user_addr: u64,
    /// Its length in bytes.
    pub len_bytes: u64,
    /// Offset of its first byte in the file.
    pub file_offset: u64,
}

/// Bytes of a guest, in one region. The guest may write them at any time.
#[derive(Debug, Clone, Copy)]
pub struct GuestBytes<'a> {
    start: *mut u8,
    len: usize,
    memory: PhantomData<&'a Mapping>,
}

impl GuestBytes<'_> {
    #[inline]
    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }

    /// Returns the number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies bytes from `offset` on out of the guest, as many as `to` takes and there are. Returns
    /// how many.
    #[inline]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> usize {
        let len = to.len().min(self.len.saturating_sub(offset));
        // SAFETY: the source is mapped for as long as `'a` (`Mapping::bytes` checked the length),
        // and `offset + len <= self.len`. The target is not guest memory, so they do not overlap.
        // The guest may write meanwhile; then any bytes are copied: bytes have no invalid value.
        unsafe { std::ptr::copy_nonoverlapping(self.start.wrapping_add(offset), to.as_mut_ptr(), len) };
        len
    }

    /// Returns the `N` bytes from `offset` on; `None` if there are fewer.
    #[inline]
    pub fn array<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let mut to = [0; N];
        if self.len.checked_sub(offset)? < N {
            return None;
        }
        // SAFETY: as in `read`; `offset + N <= self.len`.
        unsafe { std::ptr::copy_nonoverlapping(self.start.wrapping_add(offset), to.as_mut_ptr(), N) };
        Some(to)
    }

    /// Copies bytes to the guest from `offset` on, as many as there are and fit. Returns how many.
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) -> usize {
        let len = from.len().min(self.len.saturating_sub(offset));
        // SAFETY: as in `read`; Rust has no reference to guest memory.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.start.wrapping_add(offset), len) };
        len
    }
}

/// A mapped region.
#[derive(Debug)]
pub(super) struct Mapping {
    /// The start of the mapping, which is that of the file.
    base: NonNull<u8>,
    mapped_bytes: usize,
    /// Where the region begins in it.
    offset: usize,
    len: u64,
}

// SAFETY: the mapping is accessed by address from any thread; bytes have no owner, see
// `GuestBytes`.
unsafe impl Send for Mapping {}
// SAFETY: the same.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a region whose ends do not wrap around. The file is mapped from its start, as the
    /// offset of a region need not be aligned to a page of the file.
    pub(super) fn new(file: &File, spec: &RegionSpec, unsealed: UnsealedMemory) -> Result<Self, MemoryError> {
        let system = |what, error| MemoryError::System { what, error };
        if unsealed == UnsealedMemory::Refused && !keeps_its_pages(file) {
            return Err(MemoryError::CanShrink { guest_addr: spec.guest_addr });
        }
        let file_bytes = file.metadata().map_err(|error| system("fstat", error))?.len();
        let end = spec.file_offset + spec.len_bytes;
        if end > file_bytes {
            return Err(MemoryError::BeyondFile { guest_addr: spec.guest_addr, end, file_bytes });
        }
        let mapped_bytes = usize::try_from(end).map_err(|_| MemoryError::WrapsAround(spec.guest_addr))?;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        // SAFETY: a new mapping at an address of the kernel's choice, of an open file.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), mapped_bytes, protection, flags, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(system("mmap", io::Error::last_os_error()));
        }
        #[expect(clippy::expect_used, reason = "an address that the kernel chooses is never 0")]
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at 0");
        Ok(Self { base, mapped_bytes, offset: spec.file_offset as usize, len: spec.len_bytes })
    }

    /// Maps zeros in place of a file.
    #[cfg(test)]
    pub(super) fn anonymous(spec: &RegionSpec) -> Self {
        let mapped_bytes = (spec.file_offset + spec.len_bytes) as usize;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice, of no file.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), mapped_bytes, protection, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        let base = NonNull::new(base.cast()).unwrap();
        Self { base, mapped_bytes, offset: spec.file_offset as usize, len: spec.len_bytes }
    }

    /// Returns `len` bytes from `offset` in the region on, if they are in it.
    #[inline]
    pub(super) fn bytes(&self, offset: u64, len: u64) -> Option<GuestBytes<'_>> {
        let is_inside = offset <= self.len && len <= self.len - offset;
        is_inside.then(|| GuestBytes {
            start: self.base.as_ptr().wrapping_add(self.offset + offset as usize),
            len: len as usize,
            memory: PhantomData,
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, which nothing refers to any longer.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped_bytes) };
    }
}

/// True if an access to the file's pages cannot fail: it is a memfd that is sealed against
/// shrinking, and not of huge pages, of which there may be none left.
fn keeps_its_pages(file: &File) -> bool {
    const HUGETLBFS_MAGIC: i64 = 0x958458f6;
    let seals = fcntl(file, FcntlArg::F_GET_SEALS).map(SealFlag::from_bits_truncate);
    let is_sealed = seals.is_ok_and(|seals| seals.contains(SealFlag::F_SEAL_SHRINK));
    let of_huge_pages = || {
        let kind = nix::sys::statfs::fstatfs(file).map(|stat| stat.filesystem_type().0);
        kind.is_ok_and(|kind| kind == HUGETLBFS_MAGIC)
    };
    is_sealed && !of_huge_pages()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};

    /// Makes a memfd that can shrink.
    pub(in crate::memory) fn memfd(bytes: u64) -> File {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = File::from(memfd_create(c"guest", flags).unwrap());
        file.set_len(bytes).unwrap();
        file
    }

    /// Makes a memfd that cannot shrink.
    pub(in crate::memory) fn sealed(bytes: u64) -> File {
        let file = memfd(bytes);
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
        file
    }
}
