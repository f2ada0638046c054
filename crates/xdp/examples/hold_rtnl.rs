//! Holds RTNL, the kernel's lock of the network configuration, which each query of an interface
//! needs, as other programs do by accident. Tests show with it what waits for that lock. There is
//! one for the whole machine, so nothing else on it should be in a hurry.
//!
//! `hold_rtnl` prints `held`, and holds the lock until it reads a line, or its standard input ends.
//! It needs root, in the first user namespace.
//!
//! How: `ETHTOOL_GPERMADDR` reads its command from the end of one page before it takes the lock,
//! and the rest from the next page with the lock held. That page is missing, and userfaultfd(2) has
//! the kernel wait until somebody provides it. Nobody does: the end of the process ends the wait.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

// linux/userfaultfd.h
const UFFD_API: u64 = 0xaa;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;
const MESSAGE_BYTES: usize = 32;
// linux/ethtool.h, linux/sockios.h
const ETHTOOL_GPERMADDR: u32 = 0x20;
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// `struct uffdio_api`.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Register {
    start: u64,
    bytes: u64,
    mode: u64,
    ioctls: u64,
}

fn main() -> io::Result<()> {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?.expect("pages have a size") as usize;
    // SAFETY: two new pages, which nothing else refers to.
    let pages = unsafe {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        libc::mmap(std::ptr::null_mut(), 2 * page, protection, flags, -1, 0)
    };
    if pages == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let missing = pages as usize + page;
    let command = missing - size_of::<u32>();
    // SAFETY: the last four bytes of the first page.
    unsafe { (command as *mut u32).write(ETHTOOL_GPERMADDR) };
    let mut faults = report_faults(missing, page)?;

    std::thread::spawn(move || {
        eprintln!("hold_rtnl: the query of `lo` did not wait: {}", query(command));
        std::process::exit(1);
    });
    faults.read_exact(&mut [0; MESSAGE_BYTES])?; // the kernel waits for the page
    println!("held");
    io::stdin().read_line(&mut String::new()).map(drop)
}

/// Has the kernel wait at the first access to a page, and report it to the file.
fn report_faults(start: usize, bytes: usize) -> io::Result<File> {
    // SAFETY: the call takes flags alone and returns a new descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) } as i32;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut api = Api { api: UFFD_API, features: 0, ioctls: 0 };
    // SAFETY: the argument is the structure that the request is for.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), UFFDIO_API, &raw mut api) })?;
    let (start, bytes) = (start as u64, bytes as u64);
    let mut register = Register { start, bytes, mode: UFFDIO_REGISTER_MODE_MISSING, ioctls: 0 };
    // SAFETY: the same. The process itself never reads or writes the page.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), UFFDIO_REGISTER, &raw mut register) })?;
    Ok(fd.into())
}

/// Queries `lo` by the command at this address. Returns why it ended.
fn query(command: usize) -> io::Error {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
    let socket = socket.expect("a socket");
    // SAFETY: all zeros are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_data = command as *mut libc::c_char;
    // SAFETY: the request points to memory of the process that is at least as long as the command.
    match check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) }) {
        Ok(()) => io::Error::other("it succeeded"),
        Err(error) => error,
    }
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
