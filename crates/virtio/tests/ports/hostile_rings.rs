//! Guests that break the rules of the rings. Each violation has its counter, costs bounded work,
//! stops at most its own ring, and loses no frame of the switch.

use dataplane::Port;
use switch::FrameMemory;
use virtio::front_end::{FrontEnd, FrontEndSettings};
use virtio::ring::fault::RingFault;

use crate::common::{Bench, FRAMES, frame, settings};

/// Flags of a descriptor.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
/// Memory of the driver, in the guest.
const MEMORY: u64 = 0x4000_0000;

/// Makes one chain available whose first descriptor is this.
fn send_descriptor(driver: &mut FrontEnd, addr: u64, rest: (u32, u16, u16)) {
    let [_, tx] = driver.rings(0);
    tx.write_descriptor(7, addr, rest);
    tx.push(7);
    tx.publish();
}

/// Posts one buffer, in the place of all others.
fn post_descriptor(driver: &mut FrontEnd, addr: u64, rest: (u32, u16, u16)) {
    let [rx, _] = driver.rings(0);
    (0..64).for_each(|index| rx.write_descriptor(index, addr, rest));
}

/// What a guest sends, and the fault that it is.
type Case = (&'static str, RingFault, fn(&mut FrontEnd));

const SENT: [Case; 21] = [
    ("an index far ahead", RingFault::IndexJump, |driver| driver.rings(0)[1].set_available_index(1000)),
    ("an index behind", RingFault::IndexJump, |driver| driver.rings(0)[1].set_available_index(u16::MAX)),
    ("a head beyond the ring", RingFault::HeadOutOfRange, |driver| {
        let [_, tx] = driver.rings(0);
        tx.push(64);
        tx.publish();
    }),
    ("the last head", RingFault::HeadOutOfRange, |driver| {
        let [_, tx] = driver.rings(0);
        tx.push(u16::MAX);
        tx.publish();
    }),
    ("a successor beyond the ring", RingFault::NextOutOfRange, |driver| {
        send_descriptor(driver, MEMORY, (64, NEXT, 64));
    }),
    ("a chain that is its own successor", RingFault::ChainTooLong, |driver| {
        send_descriptor(driver, MEMORY, (64, NEXT, 7));
    }),
    ("a loop of two", RingFault::ChainTooLong, |driver| {
        driver.rings(0)[1].write_descriptor(8, MEMORY, (64, NEXT, 7));
        send_descriptor(driver, MEMORY, (64, NEXT, 8));
    }),
    ("an address below the memory", RingFault::BadAddress, |driver| {
        send_descriptor(driver, MEMORY - 64, (128, 0, 0));
    }),
    ("an address above the memory", RingFault::BadAddress, |driver| {
        send_descriptor(driver, MEMORY << 20, (128, 0, 0));
    }),
    ("an address at the end of all", RingFault::BadAddress, |driver| {
        send_descriptor(driver, u64::MAX - 10, (128, 0, 0));
    }),
    ("bytes across the end of the memory", RingFault::BadAddress, |driver| {
        let end = MEMORY + std::os::unix::fs::MetadataExt::size(&driver.memory_file().metadata().unwrap());
        send_descriptor(driver, end - 100, (128, 0, 0));
    }),
    ("no bytes", RingFault::EmptyDescriptor, |driver| send_descriptor(driver, MEMORY, (0, 0, 0))),
    ("4 GiB", RingFault::FrameTooLong, |driver| send_descriptor(driver, MEMORY, (u32::MAX, 0, 0))),
    ("8 GiB in two parts", RingFault::FrameTooLong, |driver| {
        driver.rings(0)[1].write_descriptor(8, MEMORY, (u32::MAX, 0, 0));
        send_descriptor(driver, MEMORY, (u32::MAX, NEXT, 8));
    }),
    ("only a header", RingFault::FrameTooShort, |driver| send_descriptor(driver, MEMORY, (12, 0, 0))),
    ("less than a header", RingFault::FrameTooShort, |driver| send_descriptor(driver, MEMORY, (1, 0, 0))),
    ("a buffer to be written", RingFault::WritableSent, |driver| {
        send_descriptor(driver, MEMORY, (128, WRITE, 0));
    }),
    ("a table that was not negotiated", RingFault::IndirectNotNegotiated, |driver| {
        send_descriptor(driver, MEMORY, (64, INDIRECT, 0));
    }),
    ("a table as a successor", RingFault::IndirectNested, |driver| {
        driver.rings(0)[1].write_descriptor(8, MEMORY, (64, INDIRECT, 0));
        send_descriptor(driver, MEMORY, (64, NEXT, 8));
    }),
    ("a checksum left open", RingFault::OffloadNotNegotiated, |driver| {
        assert!(driver.send(0, &frame(1, 60)));
        // The header is in the first buffer of the ring, which is the last free one.
        driver.write_buffer(0, 0, &[1]);
        driver.flush(0);
    }),
    ("a segmentation left open", RingFault::OffloadNotNegotiated, |driver| {
        assert!(driver.send(0, &frame(1, 60)));
        driver.write_buffer(0, 0, &[0, 1]);
        driver.flush(0);
    }),
];

const POSTED: [Case; 4] = [
    ("a buffer that is not to be written", RingFault::ReadOnlyPosted, |driver| {
        post_descriptor(driver, MEMORY, (2048, 0, 0));
    }),
    ("a buffer without room for the header", RingFault::BufferTooSmall, |driver| {
        post_descriptor(driver, MEMORY, (11, WRITE, 0));
    }),
    ("a buffer outside of the memory", RingFault::BadAddress, |driver| {
        post_descriptor(driver, 0, (2048, WRITE, 0));
    }),
    ("an index far ahead", RingFault::IndexJump, |driver| {
        driver.rings(0)[0].set_available_index(5000);
    }),
];

fn small() -> FrontEndSettings {
    FrontEndSettings { ring_size: 64, ..FrontEndSettings::default() }
}

/// The guest can still receive after it was refused as a sender, and the next guest finds a port as
/// new.
#[test]
fn what_a_guest_sends() {
    for (what, fault, hostile) in SENT {
        let mut bench = Bench::new(settings(1));
        let mut driver = bench.connect(small());
        hostile(&mut driver);
        for _ in 0..10 {
            assert!(bench.receive().is_empty(), "{what}");
        }
        let is_frame = fault != RingFault::IndexJump; // the others name one frame
        assert_eq!(bench.refused(), u32::from(is_frame), "{what}: a frame that is refused counts");
        assert_eq!((bench.port.faults().of(fault), bench.port.faults().total()), (1, 1), "{what}");
        bench.send(0, &frame(1, 60));
        assert_eq!(bench.complete(), (1, 0), "{what}");
        assert!(driver.receive(0, &mut Vec::new()), "{what}");
        assert_eq!(bench.memory.free_frames(), FRAMES, "{what}");
        bench.close();
        drop(driver);
        until_down(&bench);
        let mut next = bench.connect(small());
        assert!(next.send(0, &frame(2, 60)));
        next.flush(0);
        assert_eq!(bench.receive().len(), 1, "{what}");
        bench.close();
    }
}

/// A descriptor is read once: what the guest writes there after the switch has read ahead is not
/// seen, not even of a chain that was given back at the end of a batch.
#[test]
fn a_descriptor_is_read_once() {
    let mut bench = Bench::new(virtio::PortSettings { cell_bytes: 256, ..settings(1) });
    let mut driver = bench.connect(small());
    (0..30).for_each(|number| assert!(driver.send(0, &frame(number, 1514))));
    driver.flush(0);
    assert_eq!(bench.receive().len(), 10);
    let [_, tx] = driver.rings(0);
    (0..64).for_each(|index| tx.write_descriptor(index, 0, (2048, 0, 0)));
    for first in [10, 20] {
        let frames: Vec<_> = bench.receive().into_iter().map(|received| received.1).collect();
        let sent: Vec<_> = (first..first + 10).map(|number| frame(number, 1514)).collect();
        assert!(frames == sent, "from frame {first} on");
    }
    assert_eq!(bench.port.faults().total(), 0);
    bench.close();
}

fn until_down(bench: &Bench) {
    crate::common::until("the link is down", || !bench.socket.is_linked());
}

/// The switch has read the descriptors of the first 64 buffers ahead, before the guest changes
/// them. It reads them again when they are posted again.
#[test]
fn what_a_guest_posts() {
    for (what, fault, hostile) in POSTED {
        let mut bench = Bench::new(settings(1));
        let mut driver = bench.connect(small());
        hostile(&mut driver);
        let mut lost = 0;
        for number in 0..100 {
            bench.receive();
            bench.send(0, &frame(number, 1514));
            lost += bench.complete().1;
            driver.receive(0, &mut Vec::new());
            driver.repost(0);
        }
        assert_eq!((bench.port.faults().of(fault), bench.port.faults().total()), (1, 1), "{what}");
        let before = if fault == RingFault::IndexJump { 0 } else { 64 };
        assert_eq!(lost, 100 - before, "{what}: frames to a broken ring count as lost");
        assert!(driver.send(0, &frame(1, 60)));
        driver.flush(0);
        assert_eq!(bench.receive().len(), 1, "{what}: the other ring goes on");
        bench.close();
    }
}

/// A table of descriptors, where it was negotiated, and what is wrong with others.
#[test]
fn tables_of_descriptors() {
    type Table = (&'static str, Option<RingFault>, (u32, u16), (u32, u16));
    let cases: [Table; 6] = [
        ("one", None, (16, INDIRECT), (72, 0)),
        ("no entry", Some(RingFault::IndirectBadLength), (0, INDIRECT), (72, 0)),
        ("part of an entry", Some(RingFault::IndirectBadLength), (24, INDIRECT), (72, 0)),
        ("4 GiB of entries", Some(RingFault::IndirectBadLength), (u32::MAX - 15, INDIRECT), (72, 0)),
        ("a successor", Some(RingFault::IndirectWithNext), (16, INDIRECT | NEXT), (72, 0)),
        ("a table in a table", Some(RingFault::IndirectNested), (16, INDIRECT), (72, INDIRECT)),
    ];
    for (what, fault, (len, flags), (inner_len, inner_flags)) in cases {
        let mut bench = Bench::new(settings(1));
        let mut driver = bench.connect(FrontEndSettings { indirect: true, ..small() });
        // The last buffer holds the table, and the one before it the frame.
        let (table, data) = (driver.buffer_addr(1, 63), driver.buffer_addr(1, 62));
        let mut entry = [0; 16];
        entry[..8].copy_from_slice(&data.to_le_bytes());
        entry[8..12].copy_from_slice(&inner_len.to_le_bytes());
        entry[12..14].copy_from_slice(&inner_flags.to_le_bytes());
        driver.write_buffer(0, 63, &entry);
        driver.write_buffer(0, 62, &[&[0; 12][..], &frame(9, 60)].concat());
        send_descriptor(&mut driver, table, (len, flags, 1));
        let received = bench.receive();
        assert_eq!(received.len(), usize::from(fault.is_none()), "{what}");
        if let Some(fault) = fault {
            assert_eq!((bench.port.faults().of(fault), bench.port.faults().total()), (1, 1), "{what}");
        } else {
            assert_eq!(received, [(None, frame(9, 60))]);
        }
        bench.close();
    }
}

/// Random descriptors, indices and lengths: no crash, at most a batch at a time, and every frame
/// has one owner. `SLUICE_FUZZ_SECONDS` runs other rings each time, for that long.
#[test]
fn random_rings() {
    let seconds = std::env::var("SLUICE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let begin = std::time::Instant::now();
    let mut seed = 0;
    while seed < 60 || seconds.is_some_and(|seconds: u64| begin.elapsed().as_secs() < seconds) {
        let mut random = match seconds {
            Some(_) => fastrand::Rng::new(),
            None => fastrand::Rng::with_seed(seed),
        };
        seed += 1;
        random_ring(&mut random);
    }
}

fn random_ring(random: &mut fastrand::Rng) {
    let mut bench = Bench::new(settings(8));
    let pairs = 2;
    let mut driver =
        bench.connect(FrontEndSettings { queue_pairs: pairs, indirect: random.bool(), ..small() });
    for number in 0..200 {
        for pair in 0..pairs {
            let (memory, table) = (driver.buffer_addr(random.usize(..4), 0), random.u16(..64));
            for (direction, ring) in driver.rings(pair).into_iter().enumerate() {
                let flags = match random.u8(..8) {
                    0 => random.u16(..),
                    1 => INDIRECT,
                    2..4 => NEXT | (WRITE * (1 - direction as u16)),
                    _ => WRITE * (1 - direction as u16),
                };
                let addr = match random.u8(..6) {
                    0 => random.u64(..),
                    _ => memory + random.u64(..130_000),
                };
                let len = if random.u8(..8) == 0 { random.u32(..) } else { random.u32(..3000) };
                ring.write_descriptor(table, addr, (len, flags, random.u16(..66)));
                if random.bool() {
                    ring.push(random.u16(..65));
                }
                match random.u8(..40) {
                    0 => ring.set_available_index(random.u16(..)),
                    _ => drop(ring.publish()),
                }
            }
        }
        bench.receive();
        bench.send(random.u8(..8), &frame(number, 60 + random.usize(..4000)));
        bench.complete();
        bench.port.prepare_sleep();
        bench.port.has_pending();
        bench.port.cancel_sleep();
    }
    bench.close();
}

/// However much a guest makes available, the work of an iteration is bounded: two looks at each
/// queue, each of at most a batch, and a chain has at most 64 descriptors. Here all frames are
/// refused, and none of them counts against the batch.
#[test]
fn an_iteration_takes_a_bounded_number_of_frames() {
    const BATCH: usize = 64;
    let mut bench = Bench::new(settings(8));
    let size = 1024;
    let mut driver =
        bench.connect(FrontEndSettings { queue_pairs: 8, ring_size: size, ..FrontEndSettings::default() });
    for pair in 0..8 {
        let data = driver.buffer_addr(2 * pair + 1, 0);
        let [_, tx] = driver.rings(pair);
        tx.write_descriptor(0, data, (13, 0, 0)); // less than both headers
        (0..size).for_each(|_| tx.push(0));
        tx.publish();
    }
    let (mut total, mut iterations) = (0, 0);
    while total < 8 * usize::from(size) {
        assert!(bench.receive().is_empty());
        let mut taken = 0;
        for pair in 0..8 {
            while driver.rings(pair)[1].pop_used().is_some() {
                taken += 1;
            }
        }
        assert!(taken > 0 && taken <= 2 * 8 * BATCH, "{taken} in an iteration");
        (total, iterations) = (total + taken, iterations + 1);
    }
    assert_eq!((total, bench.refused() as usize), (8 * usize::from(size), total));
    assert!(iterations >= 8);
    bench.close();
}
