//! The mapping of a region's file.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};

use crate::error::MemoryError;
use crate::memory::{GuestBytes, RegionSpec, UnsealedMemory};

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
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at 0");
        Ok(Self { base, mapped_bytes, offset: spec.file_offset as usize, len: spec.len_bytes })
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
