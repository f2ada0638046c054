//! Rings over memory of this process: the driver's side and the device's, byte by byte. Under Miri
//! they show that no access leaves the pages of the regions, whatever the guest writes, and that
//! none of two threads is a race. Source: docs/reliability.md, "Pointers".

use std::sync::Arc;

use super::*;
use crate::front_end::driver_queue::DriverQueue;
use crate::memory::RegionSpec;

/// Flags of a descriptor.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// Descriptors of the ring.
const SIZE: u16 = 8;
/// Where the ring is in the front end.
const RING_AT: u64 = 0x7000_0000;
/// Where the buffers are in the guest, and their bytes. The end is the end of the region's mapping.
const BUFFERS_AT: u64 = 0x10_0000;
const BUFFERS_BYTES: u64 = 0x1000;
/// The base of the ring: its index wraps around soon.
const BASE: u16 = u16::MAX - 5;

/// Makes both sides of a ring in a guest's memory: one region with the ring, and one with buffers.
fn ring(event_index: bool) -> (DriverQueue, Queue, Arc<GuestMemory>) {
    let layout = DriverQueue::layout(SIZE, RING_AT);
    let config = RingConfig { base: BASE, event_index, indirect: true, ..layout };
    let specs = [
        // The parts of the ring end with the region.
        RegionSpec {
            guest_addr: 0,
            user_addr: RING_AT,
            len_bytes: config.used + 4 + u64::from(SIZE) * 8 + 2 - RING_AT,
            file_offset: 0,
        },
        RegionSpec {
            guest_addr: BUFFERS_AT,
            user_addr: RING_AT << 4,
            len_bytes: BUFFERS_BYTES,
            file_offset: 0x1000,
        },
    ];
    let memory = Arc::new(GuestMemory::anonymous(&specs));
    let driver = DriverQueue::new(&memory, &config).unwrap();
    // Both indices go on from before.
    driver.set_available_index(BASE);
    memory.ring_area(config.used, 4, 4).unwrap().store_u16(INDEX, BASE, Ordering::Relaxed);
    let queue = Queue::new(&memory, &config).unwrap();
    (driver, queue, memory)
}

/// Bytes that differ from each other and with `seed`.
fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at + seed * 7) as u8).collect()
}

/// The bytes of a buffer of the guest.
fn buffer(memory: &GuestMemory, offset: u64, len: u32) -> GuestBytes<'_> {
    memory.at_guest(BUFFERS_AT + offset, len).unwrap()
}

/// Segments of a frame: where they are among the buffers, and their lengths. The last ends with the
/// memory.
const SEGMENTS: [(u64, u32); 3] = [(0x10, 1), (0x101, 70), (BUFFERS_BYTES - 90, 90)];
const BYTES: usize = 161;

/// Makes the segments available as one chain, in the ring or in a table of their own.
fn push_segments(driver: &mut DriverQueue, memory: &GuestMemory, write: u16, is_indirect: bool) {
    let entry = |n: usize| {
        let (offset, len) = SEGMENTS[n];
        let is_last = n + 1 == SEGMENTS.len();
        let next = (n as u16 + 1) % SIZE;
        (BUFFERS_AT + offset, len, write | if is_last { 0 } else { NEXT }, next)
    };
    if is_indirect {
        let table = buffer(memory, 0x800, 48);
        for n in 0..SEGMENTS.len() {
            let (addr, len, flags, next) = entry(n);
            table.write(n * DESC_BYTES, &addr.to_le_bytes());
            let rest = u64::from(len) | u64::from(flags) << 32 | u64::from(next) << 48;
            table.write(n * DESC_BYTES + 8, &rest.to_le_bytes());
        }
        driver.write_descriptor(0, BUFFERS_AT + 0x800, (48, INDIRECT, 0));
    } else {
        for n in 0..SEGMENTS.len() {
            let (addr, len, flags, next) = entry(n);
            driver.write_descriptor(n as u16, addr, (len, flags, next));
        }
    }
    driver.push(0);
    driver.publish();
}

/// More frames than the ring has entries, across the end of the index, in and beside the ring.
#[test]
fn a_frame_of_the_guest_is_read_byte_for_byte() {
    let (mut driver, mut queue, memory) = ring(true);
    for n in 0..20 {
        let frame = pattern(n, BYTES);
        let mut at = 0;
        for (offset, len) in SEGMENTS {
            at += buffer(&memory, offset, len).write(0, &frame[at..]);
        }
        push_segments(&mut driver, &memory, 0, n % 2 == 1);
        assert_eq!((queue.has_news(), queue.available()), (true, Ok(1)));
        assert_eq!(queue.pop(Direction::FromGuest), Ok(Some((0, BYTES as u32))));
        for skip in [0, 1, 30, 71, BYTES - 1] {
            let mut read = vec![0; BYTES - skip];
            queue.read(skip, &mut read).unwrap();
            assert_eq!(read, frame[skip..], "frame {n} from byte {skip}");
        }
        assert_eq!(queue.read(1, &mut [0; BYTES]), Err(RingFault::FrameTooShort));
        queue.push_used(0, n as u32);
        queue.publish();
        assert_eq!((driver.pop_used(), driver.pop_used()), (Some((0, n as u32)), None));
    }
}

/// Entries that are read ahead of their use come in order, once each, also where some are left of
/// those before, or given back.
#[test]
fn entries_are_read_ahead_in_order() {
    let (mut driver, mut queue, _memory) = ring(false);
    let heads = |queue: &mut Queue, count: usize| -> Vec<(u16, u32)> {
        (0..count).map_while(|_| queue.pop(Direction::ToGuest).unwrap()).collect()
    };
    // Buffer `n` has `n + 1` bytes.
    (0..SIZE).for_each(|n| driver.write_descriptor(n, BUFFERS_AT, (u32::from(n) + 1, WRITE, 0)));
    let mut push = |queue: &mut Queue, range: std::ops::Range<u16>| {
        range.for_each(|n| driver.push(n));
        driver.publish();
        queue.available().unwrap();
        queue.look_ahead(Direction::ToGuest);
    };
    push(&mut queue, 0..3);
    assert_eq!(heads(&mut queue, 1), [(0, 1)]);
    push(&mut queue, 3..7);
    assert_eq!(heads(&mut queue, 2), [(1, 2), (2, 3)]);
    queue.unpop(1);
    assert_eq!(heads(&mut queue, 3), [(2, 3), (3, 4), (4, 5)]);
    push(&mut queue, 7..8);
    queue.unpop(1); // of an entry that is no longer among those read ahead
    queue.look_ahead(Direction::ToGuest);
    assert_eq!(heads(&mut queue, 9), [(4, 5), (5, 6), (6, 7), (7, 8)]);
    assert_eq!((queue.seen(), queue.pop(Direction::ToGuest)), (0, Ok(None)));
}

#[test]
fn a_frame_for_the_guest_is_written_byte_for_byte() {
    let (mut driver, mut queue, memory) = ring(false);
    for n in 0..20 {
        let frame = pattern(n, BYTES + 10);
        push_segments(&mut driver, &memory, WRITE, n % 2 == 1);
        assert_eq!(queue.available(), Ok(1));
        assert_eq!(queue.pop(Direction::ToGuest), Ok(Some((0, BYTES as u32))));
        assert_eq!(queue.write(5, &frame), Ok(BYTES - 5), "as many as fit");
        assert_eq!(queue.write(0, &frame[..5]), Ok(5));
        let mut read = Vec::new();
        for (offset, len) in SEGMENTS {
            let mut segment = vec![0; len as usize];
            assert_eq!(buffer(&memory, offset, len).read(0, &mut segment), len as usize);
            read.extend(segment);
        }
        assert_eq!((&read[..5], &read[5..]), (&frame[..5], &frame[..BYTES - 5]), "frame {n}");
        queue.push_used(0, BYTES as u32);
        queue.publish();
        assert_eq!(driver.pop_used(), Some((0, BYTES as u32)));
    }
}

/// A word of a descriptor that is likely to be at the edge of something.
fn hostile_word(random: &mut fastrand::Rng) -> (u64, (u32, u16, u16)) {
    let edges = [0, RING_AT, BUFFERS_AT - 1, BUFFERS_AT, BUFFERS_AT + BUFFERS_BYTES - 16, u64::MAX - 8];
    let addr = edges[random.usize(..edges.len())].wrapping_add(random.u64(..20));
    let lens = [0, 1, 16, 48, BUFFERS_BYTES as u32, u32::MAX];
    let len = lens[random.usize(..lens.len())].wrapping_add(random.u32(..3));
    (addr, (len, random.u16(..8), random.u16(..SIZE + 2)))
}

/// The guest writes descriptors, tables, heads and indices at random, and the device does all it
/// can with each. Every access is within the regions; every loop ends.
#[test]
fn whatever_the_guest_writes_the_device_stays_in_its_memory() {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut popped, mut faults) = (0, 0);
    let rounds = if cfg!(miri) { 100 } else { 20_000 };
    for _ in 0..rounds {
        let (mut driver, mut queue, memory) = ring(random.bool());
        let table: Vec<u8> = (0..8)
            .flat_map(|_| {
                let (addr, (len, flags, next)) = hostile_word(&mut random);
                let rest = u64::from(len) | u64::from(flags) << 32 | u64::from(next) << 48;
                [addr.to_le_bytes(), rest.to_le_bytes()].concat()
            })
            .collect();
        buffer(&memory, 0, 128).write(0, &table);
        for index in 0..SIZE {
            let (addr, rest) = hostile_word(&mut random);
            driver.write_descriptor(index, addr, rest);
        }
        (0..SIZE).for_each(|_| driver.push(random.u16(..SIZE + 1)));
        driver.publish();
        if random.u8(..8) == 0 {
            driver.set_available_index(random.u16(..));
        }
        let direction = if random.bool() { Direction::FromGuest } else { Direction::ToGuest };
        for _ in 0..3 {
            let of_round = serve(&mut queue, direction);
            (popped, faults) = (popped + of_round.0, faults + of_round.1);
            // Fewer or more than were read ahead.
            driver.set_available_index(queue.base().wrapping_add(random.u16(..SIZE + 2)));
        }
    }
    assert!(popped > rounds / 10 && faults > rounds / 10, "{popped} chains, {faults} faults: too few");
}

/// Pops, reads or writes, and gives back what is available, until the guest breaks a rule, as a
/// port does. Returns how many chains, and how many faults.
fn serve(queue: &mut Queue, direction: Direction) -> (usize, usize) {
    let mut bytes = [0xa5; 300];
    let Ok(count) = queue.available() else { return (0, 1) };
    let (mut popped, mut faults) = (0, 0);
    // Some are left, of which the port has read ahead.
    for _ in 0..count.div_ceil(2) {
        let Ok(Some((head, len))) = queue.pop(direction) else {
            faults += 1;
            break;
        };
        popped += 1;
        if popped % 4 == 3 {
            queue.unpop(1);
            assert_eq!(queue.pop(direction), Ok(Some((head, len))));
        }
        let len = bytes.len().min(len as usize);
        let copied = match direction {
            Direction::FromGuest => queue.read(0, &mut bytes[..len]),
            Direction::ToGuest => queue.write(0, &bytes[..len]).map(drop),
        };
        faults += usize::from(copied.is_err());
        if let Ok(Some(only)) = queue.single() {
            let mut last = [0];
            assert_eq!((only.read(only.len() - 1, &mut last), only.read(only.len(), &mut last)), (1, 0));
            assert_eq!(only.array::<12>(0).is_some(), only.len() >= 12);
        }
        queue.push_used(head, 0);
    }
    queue.keep_disarmed();
    queue.look_ahead(direction);
    queue.publish();
    (popped, faults)
}

/// Each side on a thread of its own, as a guest and a loop are.
mod threads {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// How long a side waits for the other before the test fails, in place of hanging.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Frames of a run: more than the ring has entries, and more than until its index wraps.
    const FRAMES: usize = 24;
    /// Bytes of a buffer. Descriptor `n` has the `n`th.
    const OF_A_BUFFER: usize = 48;

    /// Sleeps until the other side wakes this one.
    fn sleep() {
        let began = Instant::now();
        thread::park_timeout(PATIENCE);
        assert!(began.elapsed() < PATIENCE, "the other side wakes no one");
    }

    fn at(memory: &GuestMemory, head: u16) -> GuestBytes<'_> {
        memory.at_guest(BUFFERS_AT + u64::from(head) * OF_A_BUFFER as u64, OF_A_BUFFER as u32).unwrap()
    }

    /// Describes every buffer, for the device to read or to write.
    fn describe(driver: &DriverQueue, flags: u16) {
        for head in 0..SIZE {
            let addr = BUFFERS_AT + u64::from(head) * OF_A_BUFFER as u64;
            driver.write_descriptor(head, addr, (OF_A_BUFFER as u32, flags, 0));
        }
    }

    /// Serves the ring until all chains are used, and sleeps when there is none. `each` has the
    /// popped chain, and its number.
    fn device(mut queue: Queue, direction: Direction, guest: &thread::Thread, each: impl Fn(&Queue, usize)) {
        let mut done = 0;
        while done < FRAMES {
            if queue.available().unwrap() == 0 {
                queue.arm();
                if !queue.has_news() {
                    sleep();
                }
                queue.disarm();
                continue;
            }
            while let Some((head, bytes)) = queue.pop(direction).unwrap() {
                assert_eq!(bytes as usize, OF_A_BUFFER);
                each(&queue, done);
                queue.push_used(head, bytes);
                done += 1;
            }
            queue.keep_disarmed();
            if queue.publish() {
                guest.unpark();
            }
        }
    }

    /// Waits for a used chain, asleep until the device interrupts. Returns its head.
    fn next_used(driver: &mut DriverQueue) -> u16 {
        loop {
            if let Some((head, bytes)) = driver.pop_used() {
                assert_eq!(bytes as usize, OF_A_BUFFER);
                return head as u16;
            }
            driver.set_interrupts(true);
            if !driver.has_used() {
                sleep();
            }
            driver.set_interrupts(false);
        }
    }

    /// Frames of the guest arrive in order with their bytes, and no side sleeps beside work: it
    /// would do so for good, as nothing else wakes it.
    fn guest_sends(event_index: bool) {
        let (mut driver, queue, memory) = ring(event_index);
        describe(&driver, 0);
        let guest = thread::current();
        let of_device = thread::spawn(move || {
            device(queue, Direction::FromGuest, &guest, |queue, n| {
                let mut frame = [0; OF_A_BUFFER];
                queue.read(0, &mut frame).unwrap();
                assert_eq!(frame[..], pattern(n, OF_A_BUFFER), "frame {n}");
            });
        });
        for n in 0..FRAMES {
            let head = if n < SIZE.into() { n as u16 } else { next_used(&mut driver) };
            at(&memory, head).write(0, &pattern(n, OF_A_BUFFER));
            driver.push(head);
            if driver.publish() {
                of_device.thread().unpark();
            }
        }
        of_device.join().unwrap();
    }

    /// Frames reach the guest in order with their bytes.
    fn guest_receives(event_index: bool) {
        let (mut driver, queue, memory) = ring(event_index);
        describe(&driver, WRITE);
        (0..SIZE).for_each(|head| driver.push(head));
        let guest = thread::current();
        let of_device = thread::spawn(move || {
            device(queue, Direction::ToGuest, &guest, |queue, n| {
                assert_eq!(queue.write(0, &pattern(n, OF_A_BUFFER)), Ok(OF_A_BUFFER));
            });
        });
        if driver.publish() {
            of_device.thread().unpark();
        }
        for n in 0..FRAMES {
            let head = next_used(&mut driver);
            let mut frame = [0; OF_A_BUFFER];
            at(&memory, head).read(0, &mut frame);
            assert_eq!(frame[..], pattern(n, OF_A_BUFFER), "frame {n}");
            driver.push(head);
            if driver.publish() {
                of_device.thread().unpark();
            }
        }
        of_device.join().unwrap();
    }

    #[test]
    fn a_guest_sends() {
        [false, true].into_iter().for_each(guest_sends);
    }

    #[test]
    fn a_guest_receives() {
        [false, true].into_iter().for_each(guest_receives);
    }
}
