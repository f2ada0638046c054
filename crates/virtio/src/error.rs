//! Errors of memory, rings and sockets, each with its cure where there is one.

use std::io;

/// Memory of a guest that is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// More regions than the protocol has.
    #[error("{0} memory regions, more than 32")]
    TooManyRegions(usize),
    /// A region of no bytes.
    #[error("the memory region at guest address {0:#x} is empty")]
    EmptyRegion(u64),
    /// A region beyond the end of the addresses.
    #[error("the memory region at guest address {0:#x} wraps around")]
    WrapsAround(u64),
    /// A region that overlaps another.
    #[error("the memory region at guest address {0:#x} overlaps another")]
    Overlap(u64),
    /// More memory than is mapped for a guest.
    #[error("{0} bytes of memory to map, more than 1 TiB")]
    TooLarge(u64),
    /// A region beyond the end of its file.
    #[error(
        "the memory region at guest address {guest_addr:#x} ends at byte {end} of a file of {file_bytes}"
    )]
    BeyondFile {
        /// Where the region begins.
        guest_addr: u64,
        /// Where it would end in the file.
        end: u64,
        /// The length of the file.
        file_bytes: u64,
    },
    /// A region whose file can shrink.
    #[error(
        "the memory region at guest address {guest_addr:#x} could be shrunk by its front end, which would end the \
         switch: use a memfd that is sealed (QEMU: memory-backend-memfd,share=on), or set \
         allow_unsealed_memory = true for a front end that you trust"
    )]
    CanShrink {
        /// Where the region begins.
        guest_addr: u64,
    },
    /// A system call failed.
    #[error("{what} of guest memory: {error}")]
    System {
        /// The system call.
        what: &'static str,
        /// Its error.
        error: io::Error,
    },
}
