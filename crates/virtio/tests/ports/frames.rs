//! Frames to and from a driver.

use dataplane::{Port, Sleeper};
use virtio::front_end::FrontEndSettings;
use virtio::ring::fault::RingFault;
use wire::mac::MacAddr;
use wire::pause::{FRAME_BYTES, Pfc};

use crate::common::{Bench, frame, settings};

fn pfc(priority: usize, quanta: u16) -> [u8; FRAME_BYTES] {
    let (mut of_priority, mut bytes) = ([0; 8], [0; FRAME_BYTES]);
    of_priority[priority] = quanta;
    Pfc { enable: 1 << priority, quanta: of_priority }.encode(MacAddr([2; 6]), &mut bytes);
    bytes
}

/// Rings of all kinds, several times around.
#[test]
fn frames_arrive_whole_and_in_order_in_both_directions() {
    for (event_index, mergeable, ring_size) in
        [(true, true, 256), (false, true, 64), (true, false, 32), (false, false, 1024)]
    {
        let mut bench = Bench::new(settings(1));
        let mut driver = bench.connect(FrontEndSettings {
            event_index,
            mergeable,
            ring_size,
            ..FrontEndSettings::default()
        });
        let mut buffer = Vec::new();
        for number in 0..3000 {
            let len = 60 + number as usize * 7 % 1455;
            assert!(driver.send(0, &frame(number, len)));
            driver.flush(0);
            assert_eq!(bench.receive(), [(None, frame(number, len))]);
            bench.send(0, &frame(number, len));
            assert_eq!(bench.complete(), (1, 0), "a sent frame completes at once");
            assert!(driver.receive(0, &mut buffer));
            assert_eq!(buffer, frame(number, len));
            driver.repost(0);
        }
        assert_eq!(bench.port.faults().total(), 0);
        bench.close();
    }
}

/// A jumbo frame takes several buffers of the guest, in both directions.
#[test]
fn jumbo_frames_are_spread_over_buffers() {
    let mut bench = Bench::new(settings(1));
    let mut driver = bench.connect(FrontEndSettings { ring_size: 64, ..FrontEndSettings::default() });
    let mut buffer = Vec::new();
    for (number, len) in [1514, 2036, 2037, 4084, 9018, 9238].into_iter().cycle().take(60).enumerate() {
        let sent = frame(number as u32, len);
        assert!(driver.send(0, &sent), "{len}");
        driver.flush(0);
        assert_eq!(bench.receive(), [(None, sent.clone())], "{len}");
        bench.send(0, &sent);
        assert_eq!(bench.complete(), (1, 0));
        assert!(driver.receive(0, &mut buffer));
        assert_eq!(buffer, sent);
        driver.repost(0);
    }
    bench.close();
}

/// A pause of priority 3 stops its queue with the next batch, and no other. Nothing is lost, and
/// the guest's queue holds what is sent meanwhile.
#[test]
fn a_paused_priority_stays_in_the_guest() {
    let mut bench = Bench::new(settings(8));
    let mut driver = bench.connect(FrontEndSettings { queue_pairs: 8, ..FrontEndSettings::default() });
    bench.send(0, &pfc(3, 65535));
    assert_eq!(bench.complete(), (1, 0));
    assert!(!driver.receive(0, &mut Vec::new()), "the guest sees no PFC frame");
    for number in 0..300 {
        let fits = driver.send(3, &frame(number, 60));
        assert_eq!(fits, number < 256, "its queue is full: the sender waits");
        assert!(driver.send(5, &frame(number, 60)));
        driver.flush(3);
        driver.flush(5);
        assert_eq!(bench.receive(), [(Some(5), frame(number, 60))]);
    }
    assert_eq!(bench.port.paused().into_iter().collect::<Vec<_>>(), [3]);
    bench.send(0, &pfc(3, 0));
    let mut received = Vec::new();
    while received.len() < 256 {
        received.extend(bench.receive());
    }
    assert!(received.iter().map(|(_, bytes)| bytes.clone()).eq((0..256).map(|n| frame(n, 60))));
    bench.close();
}

/// With one queue a pause of any priority stops it. A guest that speaks PFC gets the frame instead.
#[test]
fn one_queue_and_guests_that_speak_pfc() {
    let mut bench = Bench::new(settings(1));
    let mut driver = bench.connect(FrontEndSettings::default());
    bench.send(0, &pfc(3, 65535));
    assert!(driver.send(0, &frame(1, 60)));
    driver.flush(0);
    assert!(bench.receive().is_empty());
    bench.close();

    let mut bench = Bench::new(virtio::PortSettings { sends_pfc: true, ..settings(1) });
    let mut driver = bench.connect(FrontEndSettings::default());
    bench.send(0, &pfc(3, 65535));
    assert!(driver.send(0, &frame(1, 60)));
    driver.flush(0);
    assert_eq!(bench.receive().len(), 1);
    let mut buffer = Vec::new();
    assert!(driver.receive(0, &mut buffer));
    assert_eq!(buffer, pfc(3, 65535));
    bench.close();
}

/// The guest takes nothing from its queue 3. The switch's queue 3 is blocked, and no other; nothing
/// is lost.
#[test]
fn a_full_queue_of_the_guest_blocks_its_queue_only() {
    let mut bench = Bench::new(settings(8));
    let mut driver = bench.connect(FrontEndSettings { queue_pairs: 8, ..FrontEndSettings::default() });
    bench.receive();
    assert!(bench.port.blocked_queues().is_empty());
    let mut sent = 0;
    while !bench.port.blocked_queues().contains(3) {
        bench.send(3, &frame(sent, 60));
        sent += 1;
        assert!(sent <= 256);
    }
    assert_eq!(bench.port.blocked_queues().into_iter().collect::<Vec<_>>(), [3]);
    assert!(bench.port.transmit_room() > 16, "the others have room");
    let mut buffer = Vec::new();
    for number in 0..1000 {
        bench.send(5, &frame(number, 60));
        assert!(driver.receive(5, &mut buffer));
        driver.repost(5);
    }
    // More than the guest has room for: a loop would not send it, and the port keeps it.
    for number in sent..sent + 100 {
        bench.send(3, &frame(number, 60));
    }
    assert_eq!(bench.complete().1, 0);
    let mut number = 0;
    while number < sent + 100 {
        bench.receive();
        while driver.receive(3, &mut buffer) {
            assert_eq!(buffer, frame(number, 60), "in order");
            number += 1;
        }
        driver.repost(3);
    }
    bench.receive();
    assert!(bench.port.blocked_queues().is_empty());
    assert_eq!(bench.complete().1, 0);
    bench.close();
}

/// Buffers too short for a frame, one for all of it or all for it: only that frame is lost.
#[test]
fn a_frame_that_does_not_fit_is_lost_alone() {
    for (mergeable, ring_size, buffer_bytes) in [(false, 256, 1530), (true, 32, 128), (true, 1024, 128)] {
        let mut bench = Bench::new(settings(1));
        let mut driver = bench.connect(FrontEndSettings {
            mergeable,
            ring_size,
            buffer_bytes,
            ..FrontEndSettings::default()
        });
        for number in 0..100 {
            bench.receive();
            bench.send(0, &frame(number, 9000));
            assert_eq!(bench.complete(), (0, 1), "{ring_size}");
            let len = if mergeable { 60 } else { 1518 };
            bench.send(0, &frame(number, len));
            assert_eq!(bench.complete(), (1, 0), "{ring_size}");
            let mut buffer = Vec::new();
            assert!(driver.receive(0, &mut buffer));
            assert_eq!(buffer, frame(number, len));
            driver.repost(0);
        }
        assert_eq!(bench.port.faults().of(RingFault::FrameDoesNotFit), 100);
        assert_eq!(bench.port.faults().total(), 100);
        bench.close();
    }
}

/// A guest that keeps 8 of 256 buffers posted, or one, gets its frames.
#[test]
fn a_guest_with_few_buffers_gets_frames() {
    for posted in [1_u16, 2, 8] {
        let mut bench = Bench::new(settings(1));
        let mut driver = bench.connect(FrontEndSettings { posted, ..FrontEndSettings::default() });
        let mut buffer = Vec::new();
        for number in 0..3 * posted {
            bench.receive();
            assert!(!bench.port.blocked_queues().contains(0), "{number} of {posted}");
            bench.send(0, &frame(number.into(), 60));
            assert_eq!(bench.complete(), (1, 0));
            assert!(driver.receive(0, &mut buffer), "frame {number}");
            driver.repost(0);
        }
        bench.close();
    }
}

/// Each of eight queues gets an equal part of the batches.
#[test]
fn queues_are_read_in_equal_parts() {
    let mut bench = Bench::new(settings(8));
    let mut driver = bench.connect(FrontEndSettings { queue_pairs: 8, ..FrontEndSettings::default() });
    for pair in 0..8 {
        (0..200).for_each(|number| assert!(driver.send(pair, &frame(number, 60))));
        driver.flush(pair);
    }
    let mut counts = [0; 8];
    for _ in 0..10 {
        bench.receive().into_iter().for_each(|(priority, _)| counts[usize::from(priority.unwrap())] += 1);
    }
    assert_eq!(counts, [80; 8]);
    bench.close();
}

/// What may arrive after XOFF is bounded in cells, whatever the length of frames and the size of
/// cells. A frame of more is read alone.
#[test]
fn a_queue_gives_a_bounded_number_of_cells_a_batch() {
    for (batch_cells, cell_bytes, len, frames) in [
        (64, 256, 60, 64),
        (64, 256, 256, 64),
        (64, 256, 257, 32),
        (64, 256, 1514, 10),
        (64, 256, 2000, 8),
        (64, 208, 256, 32),
        (64, 208, 1514, 8),
        (64, 80, 1514, 3),
        (64, 64, 60, 64),
        (64, 64, 65, 32),
        (64, 9216, 2000, 64),
        (64, 16, 1514, 1),
        (100, 256, 1514, 16),
        (256, 256, 1514, 42),
        (256, 208, 1514, 32),
        (256, 256, 257, 64),
    ] {
        let mut bench = Bench::new(virtio::PortSettings { cell_bytes, batch_cells, ..settings(1) });
        let mut driver = bench.connect(FrontEndSettings::default());
        (0..100).for_each(|number| assert!(driver.send(0, &frame(number, len))));
        driver.flush(0);
        assert_eq!(bench.receive().len(), frames, "{len} bytes in cells of {cell_bytes}");
        assert_eq!(bench.receive()[0].1, frame(frames as u32, len), "the next one is the next");
        bench.close();
    }
}

/// A switch without memory leaves the frames in the guest.
#[test]
fn without_memory_frames_stay_in_the_guest() {
    let mut bench = Bench::new(settings(1));
    let mut driver = bench.connect(FrontEndSettings::default());
    (0..10).for_each(|number| assert!(driver.send(0, &frame(number, 60))));
    driver.flush(0);
    let (whole, mut received) =
        (std::mem::replace(&mut bench.memory, switch::HeapMemory::new(4, 9300)), vec![]);
    bench.port.receive(&mut bench.memory, bench.now, 64, &mut received);
    assert_eq!(received.len(), 4);
    bench.memory = whole;
    assert_eq!(bench.receive().len(), 6);
    bench.close();
}

/// While the loop is awake the guest does not kick; once it is armed, the first frame does.
#[test]
fn kicks_come_only_before_a_sleep() {
    for event_index in [true, false] {
        let mut bench = Bench::new(settings(1));
        let mut driver = bench.connect(FrontEndSettings { event_index, ..FrontEndSettings::default() });
        bench.receive();
        bench.port.cancel_sleep(); // takes the events of the start
        let mut waiter = xdp::Waiter::new().unwrap();
        waiter.watch([&bench.port]);
        for number in 0..100 {
            assert!(driver.send(0, &frame(number, 60)));
            driver.flush(0);
            assert_eq!(bench.receive().len(), 1);
        }
        assert!(!waiter.wait(0).unwrap(), "no kick while the loop is awake");
        for number in 0..100 {
            bench.port.prepare_sleep();
            assert!(!bench.port.has_pending());
            assert!(driver.send(0, &frame(number, 60)));
            driver.flush(0);
            assert!(waiter.wait(20_000_000_000).unwrap(), "the kick ends the sleep");
            bench.port.cancel_sleep();
            assert!(!waiter.wait(0).unwrap(), "and does so once");
            assert_eq!(bench.receive().len(), 1);
        }
        bench.close();
    }
}
