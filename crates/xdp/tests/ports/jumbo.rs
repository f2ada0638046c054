//! Frames that span several chunks: in memory, and through a port on a real veth in both
//! directions.
//!
//! On a kernel without multi-buffer frames (before 6.6) these tests fail and report that.

use dataplane::{Port, PortFault};
use switch::{FrameId, FrameMemory, LONGEST_BYTES, LONGEST_RECEIVED_BYTES, TxDesc};
use xdp::{FrameAccounting, MultiBuffer, PortConfig, Umem, XdpPort};

use crate::common::{
    Host, KINDS, Netns, bytes_of, cross_both_ways, finish, frame, frame_of, now, receive, setup_of, transmit,
    until,
};

const CHUNKS: usize = 16384;
/// Sizes of chunks, and the bytes of a frame in each.
const SIZES: [(usize, usize); 2] = [(2048, 1792), (4096, 3840)];

fn memory(frame_bytes: usize) -> Umem {
    let umem = Umem::new(CHUNKS, frame_bytes).unwrap();
    assert!(umem.is_multi_buffer(), "frames of several chunks need Linux 6.6");
    umem
}

/// Creates a namespace with a veth pair p0–h0 of this MTU. The host may send one tag more than its
/// own stack would.
fn space_of_mtu(mtu: u32) -> Netns {
    let space = Netns::with_pairs(1);
    space.ip(&format!("link set p0 mtu {mtu}"));
    space.ip(&format!("link set h0 mtu {}", mtu + 4));
    space
}

/// Returns lengths around each multiple of either chunk size, and around each MTU.
fn lengths() -> impl Iterator<Item = usize> {
    let around = |len: usize| len - 5..=len + 5;
    let borders = [1792, 2 * 1792, 5 * 1792, 3840, 2 * 3840].into_iter().flat_map(around);
    [60, 1514, 4000, 9000, 9014, 9018, 9229, 9230, 9234].into_iter().chain(borders)
}

#[test]
fn memory_hands_out_frames_of_as_many_chunks_as_they_need() {
    for (frame_bytes, chunk_bytes) in SIZES {
        let mut umem = memory(frame_bytes);
        for len in lengths().chain([LONGEST_RECEIVED_BYTES, LONGEST_BYTES]) {
            let chunks = len.div_ceil(chunk_bytes);
            let sent = frame(7, len);
            let a = frame_of(&mut umem, &sent);
            assert_eq!(
                (umem.free_frames(), umem.check().unwrap().user),
                (CHUNKS - chunks, chunks),
                "{len} bytes"
            );
            assert_eq!(umem.bytes(&a, len), &sent[..len.min(chunk_bytes)]);
            let b = umem.alloc_for(len).unwrap();
            umem.copy(&a, &b, len);
            assert_eq!(bytes_of(&mut umem, &b, len), sent);
            // Changes that are not declared are not written back.
            umem.whole(&a, len, |bytes| {
                bytes.fill(0xff);
                len <= chunk_bytes
            });
            assert_eq!(bytes_of(&mut umem, &b, len), sent, "a copy of its own");
            umem.free(a);
            umem.free(b);
            assert_eq!(umem.check().unwrap().free, CHUNKS);
        }
        assert!(umem.alloc_for(LONGEST_BYTES + 1).is_none());
    }
}

/// A pushed tag may need one more chunk.
#[test]
fn room_is_made_for_a_tag() {
    for (frame_bytes, chunk_bytes) in SIZES {
        let mut umem = memory(frame_bytes);
        for len in lengths() {
            let mut expected = frame(7, len);
            let a = frame_of(&mut umem, &expected);
            assert!(umem.make_room(&a, len + 4));
            let chunks = (len + 4).div_ceil(chunk_bytes);
            assert_eq!(umem.check().unwrap().user, chunks, "{len} bytes");
            assert!(umem.make_room(&a, len + 4), "and it is there now");
            umem.whole(&a, len + 4, |bytes| {
                bytes.copy_within(12..len, 16);
                bytes[12..16].copy_from_slice(&[1, 2, 3, 4]);
                true
            });
            expected.splice(12..12, [1, 2, 3, 4]);
            assert_eq!(bytes_of(&mut umem, &a, len + 4), expected);
            umem.free(a);
            assert_eq!(umem.check().unwrap().free, CHUNKS);
        }
        let longest = frame_of(&mut umem, &frame(7, LONGEST_BYTES));
        assert!(!umem.make_room(&longest, LONGEST_BYTES + 1));
    }
}

#[test]
fn memory_that_is_short_takes_nothing() {
    let mut umem = Umem::new(3, 2048).unwrap();
    assert!(umem.alloc_for(4 * 1792).is_none());
    assert_eq!(umem.check().unwrap().free, 3);
    let a = umem.alloc_for(3 * 1792).unwrap();
    assert!(!umem.make_room(&a, 3 * 1792 + 1) && umem.alloc().is_none());
    umem.free(a);
    assert_eq!(umem.check().unwrap().free, 3);
}

#[test]
fn frames_of_several_chunks_pass_unchanged_in_both_directions() {
    let space = space_of_mtu(9216);
    space.inside(|| {
        for zero_copy in KINDS {
            for (frame_bytes, _) in SIZES {
                let mut umem = memory(frame_bytes);
                let mut port = XdpPort::open(&mut umem, "p0", &setup_of(zero_copy)).unwrap();
                let host = Host::new("h0");
                for (number, len) in lengths().enumerate() {
                    let sent = frame(number as u32, len);
                    cross_both_ways(&host, &mut port, &mut umem, &sent);
                    umem.check().unwrap();
                }
                until("the last frame completes", || {
                    finish(&mut port, &mut umem);
                    port.outstanding() == 0
                });
                let kernel = port.kernel_counters();
                assert_eq!(
                    (kernel.rx_stray_frames, kernel.tx_stray_frames, kernel.rx_too_long_frames),
                    (0, 0, 0)
                );
                port.close(&mut umem, &mut Vec::new());
                assert_eq!(umem.check().unwrap().free, CHUNKS);
            }
        }
    });
}

/// A frame is received and transmitted in the same chunks, without a copy. One chunk more than the
/// frame needs does no harm.
#[test]
fn a_frame_leaves_as_it_came() {
    let space = space_of_mtu(9216);
    space.inside(|| {
        for zero_copy in KINDS {
            for (frame_bytes, _) in SIZES {
                let mut umem = memory(frame_bytes);
                let mut port = XdpPort::open(&mut umem, "p0", &setup_of(zero_copy)).unwrap();
                let host = Host::new("h0");
                for len in lengths() {
                    let sent = frame(7, len);
                    host.send(&sent);
                    let mut received = Vec::new();
                    until("the frame comes in", || {
                        port.receive(&mut umem, now(), 64, &mut received);
                        !received.is_empty()
                    });
                    let it = received.pop().unwrap();
                    assert!(umem.make_room(&it.frame, len + 4));
                    let outgoing = TxDesc::new(it.frame, it.len);
                    port.transmit(&mut umem, &mut vec![outgoing]);
                    let mut arrived = None;
                    until("the frame arrives at the host", || {
                        finish(&mut port, &mut umem);
                        arrived = host.receive();
                        arrived.is_some()
                    });
                    assert_eq!(arrived, Some(sent), "{len} bytes");
                }
                port.close(&mut umem, &mut Vec::new());
                assert_eq!(umem.check().unwrap().free, CHUNKS);
            }
        }
    });
}

/// Works with any number of descriptors taken at a time, and any `sendto` budget.
#[test]
fn rings_may_be_read_in_the_middle_of_a_frame() {
    let space = space_of_mtu(9000);
    space.inside(|| {
        for zero_copy in KINDS {
            let mut umem = memory(2048);
            let setup = PortConfig { tx_budget: 4, ..setup_of(zero_copy) };
            let mut port = XdpPort::open(&mut umem, "p0", &setup).unwrap();
            let host = Host::new("h0");
            let sent: Vec<_> = (0..20).map(|number| frame(number, 60 + 450 * number as usize)).collect();
            sent.iter().for_each(|frame| host.send(frame));
            let mut received = Vec::new();
            until("all frames come in", || {
                port.receive(&mut umem, now(), 1, &mut received);
                umem.check().unwrap();
                received.len() == sent.len()
            });
            let mut outgoing: Vec<TxDesc> =
                received.into_iter().map(|it| TxDesc::new(it.frame, it.len)).collect();
            let before = umem.check().unwrap();
            assert_eq!(before.user, sent.iter().map(|frame| frame.len().div_ceil(1792)).sum::<usize>());
            port.transmit(&mut umem, &mut outgoing);
            assert_eq!((port.outstanding(), umem.check().unwrap().transmit), (before.user, before.user));
            let mut arrived = Vec::new();
            until("all arrive", || {
                assert!(finish(&mut port, &mut umem).is_empty());
                arrived.extend(std::iter::from_fn(|| host.receive()));
                arrived.len() == sent.len() && port.outstanding() == 0
            });
            assert_eq!(arrived, sent);
            port.close(&mut umem, &mut Vec::new());
            assert_eq!(umem.check().unwrap().free, CHUNKS);
        }
    });
}

/// As many frames as there is room for, repeatedly: the rings wrap around, in the middle of frames.
#[test]
fn thousands_of_frames_keep_their_order_and_their_bytes() {
    const FRAMES: u32 = 3000;
    let space = space_of_mtu(9000);
    space.inside(|| {
        for zero_copy in KINDS {
            let mut umem = memory(4096);
            let mut port = XdpPort::open(&mut umem, "p0", &setup_of(zero_copy)).unwrap();
            let host = Host::new("h0");
            let len = |number: u32| 60 + (number as usize * 7919) % 8940;
            let (mut next, mut expected) = (0, 0);
            until("all arrive", || {
                for _ in 0..port.transmit_room().min(16) {
                    if next < FRAMES {
                        transmit(&mut port, &mut umem, &frame(next, len(next)));
                        next += 1;
                    }
                }
                assert!(finish(&mut port, &mut umem).is_empty());
                while let Some(arrived) = host.receive() {
                    assert!(
                        arrived == frame(expected, len(expected)),
                        "frame {expected} of {} bytes",
                        len(expected)
                    );
                    expected += 1;
                }
                expected == FRAMES && port.outstanding() == 0
            });
            port.close(&mut umem, &mut Vec::new());
            assert_eq!(umem.check().unwrap().free, CHUNKS);
        }
    });
}

/// With frames in all rings, some partially taken, closing returns every chunk.
#[test]
fn a_port_closes_with_frames_of_several_chunks_in_its_rings() {
    let space = space_of_mtu(9000);
    space.inside(|| {
        for zero_copy in KINDS {
            let mut umem = memory(2048);
            let mut port = XdpPort::open(&mut umem, "p0", &setup_of(zero_copy)).unwrap();
            let host = Host::new("h0");
            (0..10).for_each(|number| host.send(&frame(number, 9000)));
            let mut received = Vec::new();
            until("two frames and half of a third come in", || {
                let max = usize::from(received.len() < 2);
                port.receive(&mut umem, now(), max, &mut received);
                received.len() == 2
            });
            port.receive(&mut umem, now(), 3, &mut received);
            assert_eq!(received.len(), 2, "three chunks of six");
            (0..5).for_each(|number| transmit(&mut port, &mut umem, &frame(number, 9000)));
            umem.check().unwrap();
            let mut unsent: Vec<FrameId> = Vec::new();
            port.close(&mut umem, &mut unsent);
            assert_eq!(unsent.len(), 5);
            let lost = port.kernel_counters();
            assert_eq!((lost.rx_closed_frames, lost.rx_stray_frames), (8, 0));
            let accounting = umem.check().unwrap();
            assert_eq!(
                accounting,
                FrameAccounting { free: CHUNKS - 7 * 6, user: 7 * 6, fill: 0, transmit: 0 }
            );
            for frame in unsent {
                let mut bytes = Vec::new();
                umem.whole(&frame, 9000, |whole| {
                    bytes = whole.to_vec();
                    false
                });
                assert_eq!(bytes.len(), 9000);
                umem.free(frame);
            }
            received.into_iter().for_each(|it| umem.free(it.frame));
            assert_eq!(umem.check().unwrap().free, CHUNKS);
        }
    });
}

/// A port of MTU 9216 whose peer's MTU is larger: frames longer than any port accepts are returned
/// to memory, counted and reported.
#[test]
fn what_is_longer_than_any_port_takes_in_is_counted_and_reported() {
    let space = space_of_mtu(9216);
    space.inside(|| {
        let mut umem = memory(2048);
        let mut port = XdpPort::open(&mut umem, "p0", &PortConfig::default()).unwrap();
        // The MTU rises while the port is open.
        space.ip("link set p0 mtu 20000");
        space.ip("link set h0 mtu 20000");
        let host = Host::new("h0");
        let free = umem.check().unwrap();
        for len in
            [LONGEST_RECEIVED_BYTES, LONGEST_RECEIVED_BYTES + 1, 12_000, 20_014, LONGEST_RECEIVED_BYTES]
        {
            host.send(&frame(9, len));
        }
        let frames = receive(&mut port, &mut umem, 2);
        assert_eq!(frames, [frame(9, LONGEST_RECEIVED_BYTES), frame(9, LONGEST_RECEIVED_BYTES)]);
        assert_eq!(
            (port.kernel_counters().rx_too_long_frames, port.kernel_counters().rx_stray_frames),
            (3, 0)
        );
        let (mut reported, mut longest) = (0, 0);
        until("the port has reported all, at once or one after the other", || {
            port.receive(&mut umem, now(), 64, &mut Vec::new());
            if let Some(PortFault::TooLong { frames, longest_bytes }) = port.pop_fault() {
                (reported, longest) = (reported + frames, longest.max(longest_bytes));
            }
            reported >= 3
        });
        assert_eq!((reported, longest), (3, 20_014));
        let accounting = umem.check().unwrap();
        assert_eq!((accounting.user, accounting.free + accounting.fill), (0, free.free + free.fill));
        port.close(&mut umem, &mut Vec::new());
        assert_eq!(umem.check().unwrap().free, CHUNKS);
    });
}

/// Where memory is short, all of a frame is dropped or none, and it is counted like any other frame
/// without a posted chunk.
#[test]
fn a_frame_that_finds_too_few_chunks_is_counted_once() {
    let space = space_of_mtu(9000);
    space.inside(|| {
        let mut umem = Umem::new(64, 2048).unwrap();
        let setup = PortConfig { max_posted: 8, min_posted: 8, ..PortConfig::default() };
        let mut port = XdpPort::open(&mut umem, "p0", &setup).unwrap();
        let host = Host::new("h0");
        let posted = umem.check().unwrap().fill;
        assert_eq!(posted, 8);
        // Six chunks are used; then two are left for a frame of six.
        (0..2).for_each(|number| host.send(&frame(number, 9000)));
        assert_eq!(receive(&mut port, &mut umem, 1), [frame(0, 9000)]);
        let kernel = port.kernel_counters();
        assert_eq!((kernel.rx_fill_ring_empty_frames, kernel.rx_dropped_frames), (1, 0));
        host.send(&frame(2, 9000));
        assert_eq!(receive(&mut port, &mut umem, 1), [frame(2, 9000)]);
    });
}

#[test]
fn a_kernel_without_such_frames_has_the_limits_that_it_had() {
    let space = space_of_mtu(1500);
    space.inside(|| {
        let mut umem = Umem::with(CHUNKS, 2048, MultiBuffer::Never).unwrap();
        assert!(!umem.is_multi_buffer());
        assert_eq!((umem.max_len(), umem.chunk_bytes()), (1792, 1792));
        assert!(umem.alloc_for(1793).is_none());
        let full = umem.alloc_for(1792).unwrap();
        assert!(!umem.make_room(&full, 1793));
        umem.free(full);
        let mut port = XdpPort::open(&mut umem, "p0", &PortConfig::default()).unwrap();
        let host = Host::new("h0");
        host.send(&frame(1, 1514));
        assert_eq!(receive(&mut port, &mut umem, 1), [frame(1, 1514)]);
        port.close(&mut umem, &mut Vec::new());
        assert_eq!(umem.check().unwrap().free, CHUNKS);
    });
}
