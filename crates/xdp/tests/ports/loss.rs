//! Every frame is accounted for: none is lost where there is room, and otherwise the counters have
//! the exact number.

use dataplane::Port;
use switch::{FrameMemory, KernelCounters, RxDesc, TxDesc};
use xdp::{PortConfig, RxWatcher, Umem, XdpPort};

use crate::common::{Host, Netns, all_leave, finish, frame, now, transmit, until};

fn open(umem: &mut Umem, interface: &str) -> XdpPort {
    XdpPort::open(umem, interface, &PortConfig::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Moves received frames of one port to the other, and sends them.
fn forward(from: &mut XdpPort, to: &mut XdpPort, umem: &mut Umem) {
    let (mut received, mut done) = (Vec::new(), Vec::new());
    to.complete(&mut done);
    to.take_lost(&mut done);
    done.drain(..).for_each(|frame| umem.free(frame));
    from.receive(umem, now(), to.transmit_room().min(64), &mut received);
    let mut outgoing =
        received.into_iter().map(|RxDesc { frame, len, .. }| TxDesc::new(frame, len)).collect::<Vec<_>>();
    to.transmit(umem, &mut outgoing);
    to.kick();
}

#[test]
fn a_forwarder_loses_nothing_and_keeps_the_order() {
    const FRAMES: u32 = 20_000;
    let space = Netns::with_pairs(2);
    space.inside(|| {
        let mut umem = Umem::new(16384, 2048).unwrap();
        let (mut a, mut b) = (open(&mut umem, "p0"), open(&mut umem, "p1"));
        let (from, to) = (Host::new("h0"), Host::new("h1"));
        let mut arrived = 0;
        // Fewer at a time than a veth's ring holds: losses at the hosts' own ends are not tested
        // here.
        for first in (0..FRAMES).step_by(200) {
            (first..first + 200).for_each(|number| from.send(&frame(number, 60 + number as usize % 1455)));
            until("200 frames arrive", || {
                forward(&mut a, &mut b, &mut umem);
                while let Some(bytes) = to.receive() {
                    assert_eq!(bytes, frame(arrived, 60 + arrived as usize % 1455), "frame {arrived}");
                    arrived += 1;
                }
                arrived == first + 200
            });
        }
        all_leave(&a, &mut b, &mut umem);
    });
}

/// The guard waits on the sockets of a loop that may be about to send. A frame that its wait sent
/// would be lost unseen if the interface rejected it.
#[test]
fn a_wait_on_the_sockets_sends_nothing() {
    let space = Netns::with_pairs(1);
    space.inside(|| {
        let mut umem = Umem::new(4096, 2048).unwrap();
        let (mut port, host) = (open(&mut umem, "p0"), Host::new("h0"));
        let mut sockets = Vec::new();
        port.poll_fds(&mut sockets);
        let mut watcher = RxWatcher::new().unwrap();
        watcher.watch([(0, &sockets[..])]);
        transmit(&mut port, &mut umem, &frame(1, 100));
        watcher.wait(1);
        let statistics = space.ip_output("-s link show dev p0");
        let sent = statistics.lines().last().unwrap().split_whitespace().next();
        assert_eq!(sent, Some("0"), "bytes: {statistics}");
        port.kick();
        until("the frame arrives", || host.receive() == Some(frame(1, 100)));
    });
}

/// No NIC here misses frames, so the test writes what the [`xdp::PortOpener`] would have read.
#[test]
fn what_a_nic_missed_is_counted_and_reported_once() {
    let space = Netns::with_pairs(1);
    space.inside(|| {
        let mut umem = Umem::new(4096, 2048).unwrap();
        let mut port = open(&mut umem, "p0");
        let mut opener = port.opener();
        for missed in [5, 0, 2] {
            opener.poll(); // a veth misses none
            opener.handoff().add_missed(missed);
            let mut reported = None;
            until("the port has looked", || {
                port.receive(&mut umem, now(), 64, &mut Vec::new());
                reported = port.take_kernel_drops();
                reported.is_some()
            });
            assert_eq!(reported, Some(missed));
        }
        assert_eq!(
            port.kernel_counters(),
            KernelCounters { rx_missed_frames: 7, ..KernelCounters::default() }
        );
        drop(opener);
        port.close(&mut umem, &mut Vec::new());
    });
}

#[test]
fn frames_that_find_the_fill_ring_empty_are_counted() {
    let space = Netns::with_pairs(1);
    space.inside(|| {
        let mut umem = Umem::new(4096, 2048).unwrap();
        let mut port = open(&mut umem, "p0");
        let posted = port.frames_held() as u64;
        assert_eq!(posted, 512, "an eighth of the memory");
        let host = Host::new("h0");
        (0..700).for_each(|number| host.send(&frame(number, 100)));
        until("the last 188 are dropped", || {
            port.kernel_counters().rx_fill_ring_empty_frames >= 700 - posted
        });
        let expected =
            KernelCounters { rx_fill_ring_empty_frames: 700 - posted, ..KernelCounters::default() };
        assert_eq!(port.kernel_counters(), expected);

        let mut received = Vec::new();
        port.receive(&mut umem, now(), 4096, &mut received);
        let numbers: Vec<Vec<u8>> =
            received.iter().map(|r| umem.bytes(&r.frame, r.len.into()).to_vec()).collect();
        assert_eq!(numbers, (0..512).map(|number| frame(number, 100)).collect::<Vec<_>>());
        assert_eq!(port.frames_held(), 512, "they were replaced before they were taken");
        // The counters outlive the sockets.
        port.close(&mut umem, &mut Vec::new());
        assert_eq!(port.kernel_counters(), expected);
    });
}

#[test]
fn without_memory_frames_still_come_a_few_at_a_time() {
    let space = Netns::with_pairs(1);
    space.inside(|| {
        let mut umem = Umem::new(1024, 2048).unwrap();
        let mut port = open(&mut umem, "p0");
        let hoard: Vec<_> = std::iter::from_fn(|| umem.alloc()).collect();
        assert_eq!((hoard.len(), port.frames_held()), (1024 - 128, 128));
        let host = Host::new("h0");
        (0..100).for_each(|number| host.send(&frame(number, 100)));
        let (mut received, mut calls) = (Vec::new(), Vec::new());
        until("100 frames come", || {
            let before = received.len();
            port.receive(&mut umem, now(), 64, &mut received);
            calls.push(received.len() - before);
            received.len() == 100
        });
        assert!(calls.iter().all(|&taken| taken <= 32), "{calls:?}");
        assert_eq!(port.frames_held(), 28);
        hoard.into_iter().for_each(|frame| umem.free(frame));
        port.receive(&mut umem, now(), 64, &mut received);
        assert_eq!(port.frames_held(), 128, "posted again as soon as there is memory");
    });
}

/// Every third frame is too long for the peer, in one chunk or in several.
#[test]
fn frames_that_the_kernel_takes_and_loses_are_distinguished() {
    for (mtu, too_long) in [(1500, 600), (9000, 5000)] {
        let space = Netns::with_pairs(1);
        space.ip(&format!("link set p0 mtu {mtu}"));
        space.ip("link set h0 mtu 500");
        space.inside(|| {
            let mut umem = Umem::new(4096, 2048).unwrap();
            let mut port = open(&mut umem, "p0");
            let host = Host::new("h0");
            let sent = |number| frame(number, if number % 3 == 0 { too_long } else { 100 });
            (0..30).for_each(|number| transmit(&mut port, &mut umem, &sent(number)));
            let mut lost = Vec::new();
            until("all complete", || {
                lost.append(&mut finish(&mut port, &mut umem));
                port.outstanding() == 0
            });
            let counters = port.kernel_counters();
            assert_eq!((counters.tx_busy, counters.tx_down, counters.tx_no_buffers), (10, 0, 0));
            let begins: Vec<_> =
                (0..30).filter(|n| n % 3 == 0).map(|number| sent(number)[..18].to_vec()).collect();
            assert_eq!(lost, begins, "these, and no others");
            let mut arrived = Vec::new();
            until("20 frames arrive", || {
                arrived.extend(host.receive());
                arrived.len() == 20
            });
            assert_eq!(arrived, (0..30).filter(|n| n % 3 != 0).map(sent).collect::<Vec<_>>());
            assert_eq!(umem.check().unwrap().user, 0, "lost frames complete like others");
        });
    }
}

#[test]
fn every_queue_of_an_interface_is_served() {
    const FRAMES: u16 = 256;
    let space = Netns::new();
    space.add_pair("p0", "h0", "numrxqueues 4 numtxqueues 4");
    space.inside(|| {
        let mut umem = Umem::new(16384, 2048).unwrap();
        let mut port = open(&mut umem, "p0");
        assert_eq!(port.queues(), 4);
        let host = Host::new("h0");
        // The kernel spreads flows over the queues; these differ in their UDP port.
        let udp = |port: u16| {
            let mut bytes = frame(0, 100);
            bytes[12..34]
                .copy_from_slice(&[8, 0, 0x45, 0, 0, 86, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            bytes[34..36].copy_from_slice(&port.to_be_bytes());
            bytes
        };
        (0..FRAMES).for_each(|port| host.send(&udp(port)));
        let mut seen = vec![false; FRAMES.into()];
        until("all frames come", || {
            let mut received = Vec::new();
            port.receive(&mut umem, now(), 64, &mut received);
            for RxDesc { frame, len, .. } in received {
                let bytes = umem.bytes(&frame, len.into());
                let number = u16::from_be_bytes([bytes[34], bytes[35]]);
                assert_eq!(bytes, udp(number));
                assert!(!std::mem::replace(&mut seen[usize::from(number)], true), "{number} came twice");
                umem.free(frame);
            }
            seen.iter().all(|&seen| seen)
        });
        assert_eq!(port.kernel_counters(), KernelCounters::default());
        port.close(&mut umem, &mut Vec::new());
        assert_eq!(umem.check().unwrap().free, 16384);
    });
}
