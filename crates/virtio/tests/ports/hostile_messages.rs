//! Front ends that break the protocol. A refused message changes nothing, a broken connection ends,
//! and the next front end finds the port as new.

use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;

use vhost::vhost_user::VhostUserFrontend;
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtio::Notice;
use virtio::front_end::{FrontEnd, FrontEndSettings};
use vmm_sys_util::eventfd::EventFd;

use crate::common::{Bench, frame, settings};

/// Connects a driver that has negotiated features and shared its memory, and started no ring.
fn half_started(bench: &Bench) -> FrontEnd {
    let stream = UnixStream::connect(&bench.path).unwrap();
    let mut driver = FrontEnd::prepare(stream, FrontEndSettings::default()).unwrap();
    driver.negotiate().unwrap();
    driver.share_memory().unwrap();
    driver
}

/// Checks that a driver can use the port after all.
fn works(bench: &mut Bench) {
    crate::common::until("the link is down", || !bench.socket.is_linked());
    let mut driver = bench.connect(FrontEndSettings::default());
    assert!(driver.send(0, &frame(1, 60)));
    driver.flush(0);
    assert_eq!(bench.receive().len(), 1);
    bench.close();
}

fn region(driver: &FrontEnd) -> VhostUserMemoryRegionInfo {
    VhostUserMemoryRegionInfo {
        guest_phys_addr: 0,
        memory_size: 4096,
        userspace_addr: 0,
        mmap_offset: 0,
        mmap_handle: driver.memory_file().as_raw_fd(),
    }
}

/// Returns a file in the place of an eventfd.
fn no_eventfd() -> EventFd {
    let file = tempfile::tempfile().unwrap();
    // SAFETY: an open descriptor that has no other owner.
    unsafe { EventFd::from_raw_fd(file.into_raw_fd()) }
}

type Case = (&'static str, &'static str, fn(&mut FrontEnd) -> bool);

/// What a front end asks for, a part of the reason in the log, and whether it received an error.
const REFUSED: [Case; 16] = [
    ("features that were not offered", "were not offered", |driver| {
        driver.protocol().set_features(1 << 60).is_err()
    }),
    ("a ring of 0", "0 descriptors", |driver| driver.protocol().set_vring_num(0, 0).is_err()),
    ("a ring of 3", "3 descriptors", |driver| driver.protocol().set_vring_num(0, 3).is_err()),
    ("a ring of 65535", "65535 descriptors", |driver| driver.protocol().set_vring_num(0, 65535).is_err()),
    ("a memory region of a file that shrinks", "could be shrunk", |driver| {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let region = VhostUserMemoryRegionInfo { mmap_handle: file.as_raw_fd(), ..region(driver) };
        driver.protocol().set_mem_table(&[region]).is_err()
    }),
    ("memory beyond the end of its file", "ends at byte", |driver| {
        let region = VhostUserMemoryRegionInfo { memory_size: 1 << 40, ..region(driver) };
        driver.protocol().set_mem_table(&[region]).is_err()
    }),
    ("overlapping memory", "overlaps", |driver| {
        let region = region(driver);
        driver.protocol().set_mem_table(&[region, region]).is_err()
    }),
    ("memory that is no file", "could be shrunk", |driver| {
        let event = EventFd::new(0).unwrap();
        let region = VhostUserMemoryRegionInfo { mmap_handle: event.as_raw_fd(), ..region(driver) };
        driver.protocol().set_mem_table(&[region]).is_err()
    }),
    ("kicks by a file", "no eventfd", |driver| {
        let file = no_eventfd();
        driver.protocol().set_vring_kick(0, &file).is_err()
    }),
    ("interrupts by a file", "no eventfd", |driver| {
        let file = no_eventfd();
        driver.protocol().set_vring_call(0, &file).is_err()
    }),
    ("a descriptor table outside of the memory", "descriptors", |driver| started_at(driver, 0, 64, 128)),
    ("a descriptor table that is not aligned", "descriptors", |driver| {
        started_at(driver, 0x7f00_0000_0008, 0x7f00_0000_4000, 0x7f00_0000_5000)
    }),
    ("available entries outside of the memory", "available entries", |driver| {
        started_at(driver, 0x7f00_0000_0000, 0x7f00_4000_0000, 0x7f00_0000_5000)
    }),
    ("used entries that are not aligned", "used entries", |driver| {
        started_at(driver, 0x7f00_0000_0000, 0x7f00_0000_4000, 0x7f00_0000_5002)
    }),
    ("a ring that wraps around", "descriptors", |driver| {
        started_at(driver, u64::MAX - 15, 0x7f00_0000_4000, 0x7f00_0000_5000)
    }),
    ("memory that cannot be written", "mmap", |driver| {
        use nix::fcntl::{FcntlArg, SealFlag, fcntl};
        use nix::sys::memfd::{MFdFlags, memfd_create};
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = std::fs::File::from(memfd_create(c"guest", flags).unwrap());
        file.set_len(4096).unwrap();
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_WRITE)).unwrap();
        let region = VhostUserMemoryRegionInfo { mmap_handle: file.as_raw_fd(), ..region(driver) };
        driver.protocol().set_mem_table(&[region]).is_err()
    }),
];

/// Starts a ring at these addresses. Returns true. The port finds what is wrong when it starts the
/// ring.
fn started_at(driver: &mut FrontEnd, descriptors: u64, available: u64, used: u64) -> bool {
    let data = VringConfigData {
        queue_max_size: 256,
        queue_size: 256,
        flags: 0,
        desc_table_addr: descriptors,
        used_ring_addr: used,
        avail_ring_addr: available,
        log_addr: None,
    };
    let event = EventFd::new(0).unwrap();
    let front_end = driver.protocol();
    front_end.set_vring_num(0, 256).unwrap();
    // The crate refuses some addresses itself, and ends the connection.
    let _ = front_end.set_vring_addr(0, &data);
    let _ = front_end.set_vring_kick(0, &event);
    let _ = front_end.set_vring_enable(0, true);
    true // the port refuses the ring, not the message
}

#[test]
fn refused_messages() {
    for (what, reason, request) in REFUSED {
        let mut bench = Bench::new(settings(1));
        let mut driver = half_started(&bench);
        assert!(request(&mut driver), "{what}: the front end gets an error");
        let notice =
            bench.notice(what, |notice| matches!(notice, Notice::Refused(_) | Notice::Disconnected(_)));
        match notice {
            Notice::Refused(text) => assert!(text.contains(reason), "{what}: {text}"),
            _ => assert!(reason.contains("descriptors") || reason.contains("entries"), "{what}: {notice:?}"),
        }
        drop(driver);
        works(&mut bench);
    }
}

/// Bytes that are no message, of all lengths, and the beginning of one.
#[test]
fn garbage_ends_the_connection_only() {
    let mut bench = Bench::new(settings(1));
    let mut random = fastrand::Rng::with_seed(1);
    for len in [1, 11, 12, 13, 100, 5000] {
        let mut stream = UnixStream::connect(&bench.path).unwrap();
        let bytes: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
        let _ = stream.write_all(&bytes);
        drop(stream);
        bench.notice("the end of the connection", |notice| matches!(notice, Notice::Disconnected(_)));
    }
    // Half of a header, from a front end that stays: it keeps the port to itself, and no one else
    // waits for it. The port can still be closed.
    let mut stream = UnixStream::connect(&bench.path).unwrap();
    stream.write_all(&[1, 0, 0]).unwrap();
    bench.notice("the connection", |notice| *notice == Notice::Connected);
    assert!(bench.receive().is_empty());
    drop(stream);
    works(&mut bench);
    // A message of more bytes than any has.
    let mut stream = UnixStream::connect(&bench.path).unwrap();
    let header: Vec<u8> = [1_u32, 1, u32::MAX].iter().flat_map(|word| word.to_le_bytes()).collect();
    stream.write_all(&header).unwrap();
    bench.notice("the end of the connection", |notice| matches!(notice, Notice::Disconnected(_)));
    works(&mut bench);
}

/// Random messages with valid headers, each with random bodies.
#[test]
fn random_messages() {
    let mut bench = Bench::new(settings(8));
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut stream = UnixStream::connect(&bench.path).unwrap();
        for _ in 0..50 {
            let size = *random.choice(&[0_u32, 8, 12, 40, 8]).unwrap();
            let header = [random.u32(1..45), 1 | u32::from(random.bool()) << 3, size];
            let mut message: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
            message.extend((0..size).map(|at| if at % 8 < 2 { random.u8(..20) } else { 0 }));
            if stream.write_all(&message).is_err() {
                break;
            }
        }
        drop(stream);
        bench.notice("the end of the connection", |notice| matches!(notice, Notice::Disconnected(_)));
        assert!(!bench.socket.is_linked());
    }
    works(&mut bench);
}
