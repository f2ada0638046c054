//! Ports with a UMEM of their own, like zero-copy ports, beside others: their particular behavior.
//! Common behavior is tested with both kinds elsewhere.

use dataplane::Port;
use switch::{FrameId, FrameMemory, KernelCounters, RxDesc, TxDesc};
use xdp::{PortConfig, PortMode, Umem, XdpPort, ZeroCopy};

use crate::common::{Host, KINDS, Netns, all_leave, finish, frame, now, receive, setup_of, transmit, until};

const FRAMES: usize = 4096;

fn open(umem: &mut Umem, interface: &str, zero_copy: ZeroCopy) -> XdpPort {
    XdpPort::open(umem, interface, &setup_of(zero_copy)).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn what_is_posted_is_none_of_the_switchs() {
    let space = Netns::with_pairs(2);
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        let mut port = open(&mut umem, "p0", ZeroCopy::Emulate);
        assert_eq!((port.frames_held(), umem.free_frames()), (0, FRAMES));
        assert_eq!(port.port_mode(), PortMode { zero_copy: false, own_memory: true });
        let mut other = open(&mut umem, "p1", ZeroCopy::Auto);
        assert_eq!(
            other.port_mode(),
            PortMode { zero_copy: false, own_memory: false },
            "a veth has no zero-copy"
        );
        assert_eq!(umem.free_frames(), FRAMES - other.frames_held());

        (0..3).for_each(|number| transmit(&mut port, &mut umem, &frame(number, 100)));
        assert_eq!((port.outstanding(), port.frames_held(), umem.check().unwrap().transmit), (3, 3, 3));
        let mut unsent = Vec::new();
        port.close(&mut umem, &mut unsent);
        assert_eq!(unsent.len(), 3);
        unsent.into_iter().for_each(|frame| umem.free(frame));
        other.close(&mut umem, &mut Vec::new());
        assert_eq!(umem.check().unwrap().free, FRAMES);
    });
}

/// Frames for which the switch has no memory wait in the RX ring, where they count as ingress use,
/// and are not lost.
#[test]
fn without_memory_frames_wait_in_the_rx_ring() {
    let space = Netns::with_pairs(1);
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        let mut port = open(&mut umem, "p0", ZeroCopy::Emulate);
        let mut hoard: Vec<FrameId> = std::iter::from_fn(|| umem.alloc()).collect();
        assert_eq!(hoard.len(), FRAMES);
        let host = Host::new("h0");
        (0..200).for_each(|number| host.send(&frame(number, 100)));
        let mut received = Vec::new();
        until("all have come", || {
            port.receive(&mut umem, now(), 256, &mut received);
            port.rx_waiting() == 200
        });
        assert!(received.is_empty());
        hoard.drain(..70).for_each(|frame| umem.free(frame));
        port.receive(&mut umem, now(), 256, &mut received);
        assert_eq!((received.len(), port.rx_waiting(), umem.free_frames()), (70, 130, 0));
        hoard.drain(..).for_each(|frame| umem.free(frame));
        port.receive(&mut umem, now(), 256, &mut received);
        assert_eq!((received.len(), port.rx_waiting()), (200, 0));
        for (number, RxDesc { frame: it, len, .. }) in received.into_iter().enumerate() {
            assert_eq!(umem.bytes(&it, len.into()), frame(number as u32, 100));
            umem.free(it);
        }
        assert_eq!(port.kernel_counters(), KernelCounters::default());
        port.close(&mut umem, &mut Vec::new());
        assert_eq!(umem.check().unwrap().free, FRAMES);
    });
}

/// A long frame for which the switch has only part of the memory: that part is held, and the rest
/// follows.
#[test]
fn a_frame_comes_in_as_memory_does() {
    let space = Netns::with_pairs(1);
    ["p0", "h0"].into_iter().for_each(|name| space.ip(&format!("link set {name} mtu 9000")));
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        assert!(umem.is_multi_buffer(), "frames of several chunks need Linux 6.6");
        let mut port = open(&mut umem, "p0", ZeroCopy::Emulate);
        let mut hoard: Vec<FrameId> = std::iter::from_fn(|| umem.alloc()).collect();
        let host = Host::new("h0");
        host.send(&frame(5, 9000));
        let mut received = Vec::new();
        for have in 1..=6 {
            umem.free(hoard.pop().unwrap());
            until("the frame has come, one chunk more of it is taken", || {
                port.receive(&mut umem, now(), 256, &mut received);
                port.rx_waiting() == 6 - have && umem.free_frames() == 0
            });
            assert_eq!(port.frames_held(), if have < 6 { have as usize } else { 0 });
            assert_eq!(umem.check().unwrap().fill, port.frames_held());
        }
        hoard.into_iter().for_each(|frame| umem.free(frame));
        let it = received.pop().unwrap();
        assert_eq!(crate::common::bytes_of(&mut umem, &it.frame, it.len.into()), frame(5, 9000));
        umem.free(it.frame);
        port.close(&mut umem, &mut Vec::new());
        assert_eq!(umem.check().unwrap().free, FRAMES);
    });
}

/// From each kind of port to each other, many more frames than any ring or memory holds.
#[test]
fn frames_go_from_one_kind_of_port_to_the_other() {
    const SENT: u32 = 18_000;
    let space = Netns::with_pairs(2);
    space.inside(|| {
        for (of_a, of_b) in KINDS.into_iter().flat_map(|a| KINDS.map(|b| (a, b))) {
            let mut umem = Umem::new(FRAMES, 2048).unwrap();
            let (mut a, mut b) = (open(&mut umem, "p0", of_a), open(&mut umem, "p1", of_b));
            let (from, to) = (Host::new("h0"), Host::new("h1"));
            let len = |number: u32| 60 + number as usize * 7 % 1455;
            let (mut arrived, mut received) = (0, Vec::new());
            // Fewer at a time than a veth's ring holds: losses at the hosts' own ends are not
            // tested here.
            for first in (0..SENT).step_by(200) {
                (first..first + 200).for_each(|number| from.send(&frame(number, len(number))));
                until("200 frames arrive", || {
                    finish(&mut b, &mut umem);
                    a.receive(&mut umem, now(), b.transmit_room().min(64), &mut received);
                    let outgoing =
                        received.drain(..).map(|RxDesc { frame, len, .. }| TxDesc::new(frame, len));
                    b.transmit(&mut umem, &mut outgoing.collect());
                    while let Some(bytes) = to.receive() {
                        assert_eq!(
                            bytes,
                            frame(arrived, len(arrived)),
                            "frame {arrived}, {of_a:?} to {of_b:?}"
                        );
                        arrived += 1;
                    }
                    arrived == first + 200
                });
            }
            all_leave(&a, &mut b, &mut umem);
            for port in [&mut a, &mut b] {
                port.close(&mut umem, &mut Vec::new());
            }
            assert_eq!(umem.check().unwrap().free, FRAMES);
        }
    });
}

/// Each queue has chunks of its own.
#[test]
fn every_queue_is_served() {
    let space = Netns::new();
    space.add_pair("p0", "h0", "numrxqueues 4 numtxqueues 4");
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        let setup = PortConfig { max_posted: 64, min_posted: 64, ..setup_of(ZeroCopy::Emulate) };
        let mut port = XdpPort::open(&mut umem, "p0", &setup).unwrap();
        assert_eq!(port.queues(), 4);
        let host = Host::new("h0");
        for number in 0..1000 {
            // The kernel spreads flows over the queues; these differ in their UDP port.
            let mut bytes = frame(0, 100 + number);
            bytes[12..34]
                .copy_from_slice(&[8, 0, 0x45, 0, 0, 86, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            bytes[34..36].copy_from_slice(&(number as u16).to_be_bytes());
            host.send(&bytes);
            assert_eq!(receive(&mut port, &mut umem, 1), [bytes]);
        }
        assert_eq!(port.kernel_counters(), KernelCounters::default());
        port.close(&mut umem, &mut Vec::new());
        assert_eq!(umem.check().unwrap().free, FRAMES);
    });
}

/// A veth is deleted, created again and opened again, with frames in all rings. No frame of either
/// memory is missing.
#[test]
fn a_port_with_a_memory_of_its_own_comes_and_goes() {
    let space = Netns::with_pairs(1);
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        let mut port = open(&mut umem, "p0", ZeroCopy::Emulate);
        let mut opener = port.opener();
        for round in 0..3 {
            let host = Host::new("h0");
            host.send(&frame(round, 100));
            assert_eq!(receive(&mut port, &mut umem, 1), [frame(round, 100)]);
            host.send(&frame(round, 200)); // never received
            transmit(&mut port, &mut umem, &frame(round, 300)); // it can no longer leave
            space.ip("link del p0");
            until("the port notices", || {
                port.kick();
                !port.is_up()
            });
            assert!(port.detach());
            assert_eq!(port.frames_held(), 1, "what was to leave");
            opener.close();
            let mut unsent = Vec::new();
            port.reclaim(&mut umem, &mut unsent);
            assert_eq!((unsent.len(), port.frames_held()), (1, 0));
            unsent.into_iter().for_each(|frame| umem.free(frame));
            assert_eq!(umem.check().unwrap().free, FRAMES);
            assert_eq!(port.kernel_counters().rx_closed_frames, u64::from(round) + 1);

            space.add_pair("p0", "h0", "");
            opener.open(1).unwrap();
            assert_eq!(port.reopen(&mut umem), Some(true));
            assert_eq!(opener.attach().unwrap().len(), 1);
            assert!(opener.port_mode().own_memory);
        }
        drop(opener);
        port.close(&mut umem, &mut Vec::new());
        assert_eq!(umem.check().unwrap().free, FRAMES);
    });
}
