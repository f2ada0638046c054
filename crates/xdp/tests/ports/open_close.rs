//! The life cycle of a port: what opening sets and closing removes, and what happens when its
//! interface or its process dies.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use dataplane::{Port, Sleeper};
use switch::FrameMemory;
use xdp::{PortConfig, Umem, Waiter, XdpMode, XdpPort};

use crate::common::{Host, Netns, finish, frame, now, receive, transmit, until};

const FRAMES: usize = 8192;

fn open(umem: &mut Umem, interface: &str) -> XdpPort {
    XdpPort::open(umem, interface, &PortConfig::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns whether p0 has an XDP program, and its qdisc.
fn state(space: &Netns) -> (bool, &'static str) {
    let link = space.ip_output("link show dev p0");
    let qdisc = ["noqueue", "pfifo"].into_iter().find(|qdisc| link.contains(&format!("qdisc {qdisc} ")));
    (link.contains("prog/xdp"), qdisc.unwrap_or("another"))
}

#[test]
fn close_leaves_the_interface_as_it_was_and_it_opens_again() {
    let space = Netns::with_pairs(2);
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        // The other port stays open, so the UMEM always has a socket.
        let mut other = open(&mut umem, "p1");
        for round in 0..3 {
            let mut port = open(&mut umem, "p0");
            assert_eq!(state(&space), (true, "pfifo"));
            let host = Host::new("h0");
            host.send(&frame(round, 100));
            assert_eq!(receive(&mut port, &mut umem, 1), [frame(round, 100)]);
            let accounting = umem.check().unwrap();
            assert_eq!(
                (accounting.user, accounting.transmit, accounting.fill),
                (0, 0, port.frames_held() + other.frames_held())
            );

            port.close(&mut umem, &mut Vec::new());
            assert_eq!((state(&space), port.is_up(), port.frames_held()), ((false, "noqueue"), false, 0));
            assert_eq!(umem.free_frames(), FRAMES - other.frames_held());
        }
        other.close(&mut umem, &mut Vec::new());
        assert_eq!(umem.check().unwrap().free, FRAMES);
    });
}

#[test]
fn a_dropped_port_closes_too_and_its_frames_come_back() {
    let space = Netns::with_pairs(1);
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        let port = open(&mut umem, "p0");
        let held = port.frames_held();
        drop(port);
        assert_eq!(state(&space), (false, "noqueue"));
        assert_eq!(umem.free_frames(), FRAMES - held, "nobody gave the frames back yet");
        let mut port = open(&mut umem, "p0");
        assert_eq!(umem.free_frames(), FRAMES - port.frames_held());
        port.close(&mut umem, &mut Vec::new());
        assert_eq!(umem.check().unwrap().free, FRAMES);
    });
}

#[test]
fn close_returns_what_was_not_sent() {
    let space = Netns::with_pairs(1);
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        let mut port = open(&mut umem, "p0");
        (0..10).for_each(|i| transmit(&mut port, &mut umem, &frame(i, 100)));
        assert_eq!((port.outstanding(), umem.check().unwrap().transmit), (10, 10));
        let mut unsent = Vec::new();
        port.close(&mut umem, &mut unsent);
        assert_eq!((unsent.len(), umem.free_frames()), (10, FRAMES - 10));
        unsent.into_iter().for_each(|frame| umem.free(frame));
        assert_eq!(umem.check().unwrap().free, FRAMES);
    });
}

#[test]
fn a_qdisc_of_the_user_stays() {
    let space = Netns::with_pairs(1);
    space.tc("qdisc add dev p0 root pfifo limit 77");
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        open(&mut umem, "p0").close(&mut umem, &mut Vec::new());
    });
    assert_eq!(state(&space), (false, "pfifo"));
}

#[test]
fn a_port_whose_interface_is_deleted_goes_down_and_others_go_on() {
    let space = Netns::with_pairs(2);
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        let (mut gone, mut stays) = (open(&mut umem, "p0"), open(&mut umem, "p1"));
        transmit(&mut gone, &mut umem, &frame(0, 100));
        space.ip("link del p0");
        until("the port notices", || {
            gone.receive(&mut umem, now(), 64, &mut Vec::new());
            !gone.is_up()
        });
        assert_eq!(gone.transmit_room(), 0);
        gone.kick();
        let mut unsent = Vec::new();
        gone.close(&mut umem, &mut unsent);
        assert_eq!(unsent.len(), 1);
        unsent.into_iter().for_each(|frame| umem.free(frame));

        let host = Host::new("h1");
        host.send(&frame(1, 100));
        assert_eq!(receive(&mut stays, &mut umem, 1), [frame(1, 100)]);
        stays.close(&mut umem, &mut Vec::new());
        assert_eq!(umem.check().unwrap().free, FRAMES);
    });
}

#[test]
fn a_port_that_sends_on_a_deleted_interface_goes_down_at_once() {
    let space = Netns::with_pairs(1);
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        let mut port = open(&mut umem, "p0");
        transmit(&mut port, &mut umem, &frame(0, 100));
        space.ip("link del p0");
        port.kick();
        assert_eq!((port.is_up(), port.kernel_counters().tx_down), (false, 1));
    });
}

/// A switch's port receives frames for hosts behind other ports, as long as it is open. Any other
/// port does not.
#[test]
fn a_port_is_promiscuous_while_it_is_open_if_that_is_wanted() {
    let space = Netns::with_pairs(2);
    let promiscuity = |name: &str| {
        let link = space.ip_output(&format!("-d link show {name}"));
        link.split("promiscuity ").nth(1).and_then(|rest| rest.split(' ').next()).map(str::to_owned)
    };
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        let setup = PortConfig { promiscuous: true, ..PortConfig::default() };
        let mut port = XdpPort::open(&mut umem, "p0", &setup).unwrap_or_else(|error| panic!("{error}"));
        let mut other = open(&mut umem, "p1");
        assert_eq!((promiscuity("p0"), promiscuity("p1")), (Some("1".into()), Some("0".into())));
        port.close(&mut umem, &mut Vec::new());
        other.close(&mut umem, &mut Vec::new());
    });
    assert_eq!(promiscuity("p0"), Some("0".into()));
}

/// A macvlan with exclusive use of its interface receives frames for others, and so can be a
/// switch's port.
#[test]
fn a_macvlan_carries_what_is_for_others() {
    let space = Netns::with_pairs(1);
    space.ip("link add m0 link p0 type macvlan mode passthru nopromisc");
    space.ip("link set m0 up");
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        let setup = PortConfig { promiscuous: true, ..PortConfig::default() };
        let mut port = XdpPort::open(&mut umem, "m0", &setup).unwrap_or_else(|error| panic!("{error}"));
        let host = Host::new("h0");
        host.send(&frame(9, 100)); // to an address that no interface has
        assert_eq!(receive(&mut port, &mut umem, 1), [frame(9, 100)]);
        transmit(&mut port, &mut umem, &frame(7, 200));
        finish(&mut port, &mut umem);
        until("it arrives", || host.receive().is_some_and(|received| received == frame(7, 200)));
        port.close(&mut umem, &mut Vec::new());
    });
}

/// An interface is deleted, created again under the same name and opened again, while its loop only
/// detaches and takes sockets. The memory is recovered each time, and the other port carries frames
/// throughout.
#[test]
fn an_opener_closes_and_opens_a_port_while_another_goes_on() {
    let space = Netns::with_pairs(2);
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        let (mut port, mut other) = (open(&mut umem, "p0"), open(&mut umem, "p1"));
        let other_host = Host::new("h1");
        let mut opener = port.opener();
        let handoff = opener.handoff();
        for round in 0..3 {
            let host = Host::new("h0");
            host.send(&frame(round, 100));
            assert_eq!(receive(&mut port, &mut umem, 1), [frame(round, 100)]);
            // One more frame arrives that is never received, and one can no longer leave.
            host.send(&frame(round, 200));
            transmit(&mut port, &mut umem, &frame(round, 300));
            space.ip("link del p0");
            until("the port notices", || {
                let mut received = Vec::new();
                other.receive(&mut umem, now(), 64, &mut received);
                port.kick();
                !port.is_up()
            });
            let held = port.frames_held();
            assert!(port.detach() && handoff.has_detached());
            assert_eq!((port.outstanding(), port.frames_held()), (0, held), "until they are closed");
            opener.close();
            assert!(!handoff.has_detached());
            let mut unsent = Vec::new();
            port.reclaim(&mut umem, &mut unsent);
            assert_eq!((unsent.len(), port.frames_held()), (1, 0));
            unsent.into_iter().for_each(|frame| umem.free(frame));
            assert_eq!(umem.free_frames(), FRAMES - other.frames_held());
            assert_eq!(port.kernel_counters().rx_closed_frames, u64::from(round) + 1);

            assert_eq!(port.reopen(&mut umem), Some(false), "there is nothing to take");
            let missing = opener.open(1).unwrap_err().to_string();
            assert!(missing.contains("there is no such interface"), "{missing}");
            space.add_pair("p0", "h0", "");
            opener.open(1).unwrap();
            assert_eq!(port.reopen(&mut umem), Some(true));
            assert!(port.is_up() && port.frames_held() > 0);
            assert_eq!(state(&space), (false, "noqueue"), "nothing comes in yet");
            assert_eq!(opener.attach().unwrap().len(), port.queues());
            assert_eq!((state(&space), opener.vlan_tags_restored()), ((true, "pfifo"), true));
            other_host.send(&frame(round, 400));
            assert_eq!(receive(&mut other, &mut umem, 1), [frame(round, 400)]);
        }
        drop(opener);
        assert_eq!(state(&space), (false, "noqueue"));
        port.close(&mut umem, &mut Vec::new());
        other.close(&mut umem, &mut Vec::new());
        assert_eq!(umem.check().unwrap().free, FRAMES);
    });
}

/// Not a test by itself: the process that the next test kills. It opens p0 of the namespace named
/// in its environment, reports that, and serves it indefinitely.
#[test]
#[ignore = "only as a child of the next test"]
fn child_serves_a_port() {
    let Ok(name) = std::env::var("XDP_TEST_SPACE") else { return };
    let space = std::mem::ManuallyDrop::new(Netns { name });
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        let mut port = open(&mut umem, "p0");
        println!("\nserving");
        let mut received = Vec::new();
        loop {
            port.receive(&mut umem, now(), 64, &mut received);
            received.drain(..).for_each(|received| umem.free(received.frame));
        }
    });
}

#[test]
fn a_killed_process_leaves_no_program_and_its_interface_opens_again() {
    let space = Netns::with_pairs(1);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "open_close::child_serves_a_port", "--ignored", "--nocapture"])
        .env("XDP_TEST_SPACE", &space.name)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let serving = BufReader::new(child.stdout.take().unwrap()).lines().any(|line| line.unwrap() == "serving");
    let state_while_serving = state(&space);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((serving, state_while_serving), (true, (true, "pfifo")));
    assert_eq!(state(&space), (false, "pfifo"), "the qdisc does no harm");

    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        let mut port = open(&mut umem, "p0");
        Host::new("h0").send(&frame(1, 100));
        assert_eq!(receive(&mut port, &mut umem, 1), [frame(1, 100)]);
    });
}

#[test]
fn without_native_support_a_port_works_in_generic_mode() {
    let space = Netns::new();
    space.ip("link set lo mtu 1500");
    space.ip("link set lo up");
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        let mut port = open(&mut umem, "lo");
        assert_eq!((port.xdp_mode(), port.vlan_tags_restored()), (XdpMode::Generic, false));
        // Frames sent on the loopback interface are received on it.
        transmit(&mut port, &mut umem, &frame(5, 300));
        finish(&mut port, &mut umem);
        assert_eq!(receive(&mut port, &mut umem, 1), [frame(5, 300)]);
    });
}

#[test]
fn a_tap_is_served_natively_but_has_no_tags_to_put_back() {
    let space = Netns::new();
    space.ip("tuntap add dev t0 mode tap");
    space.ip("link set t0 up");
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        let port = open(&mut umem, "t0");
        assert_eq!((port.xdp_mode(), port.vlan_tags_restored(), port.queues()), (XdpMode::Native, false, 1));
    });
}

/// Checks that threads can own these types.
const fn assert_send<T: Send>() {}
const _: () = {
    assert_send::<Umem>();
    assert_send::<XdpPort>();
    assert_send::<Waiter>();
};

#[test]
fn a_frame_wakes_who_waits() {
    let space = Netns::with_pairs(2);
    space.inside(|| {
        let mut umem = Umem::new(FRAMES, 2048).unwrap();
        let mut ports = [open(&mut umem, "p0"), open(&mut umem, "p1")];
        let mut waiter = Waiter::new().unwrap();
        waiter.watch(&ports);
        assert!(!waiter.wait(1_000_000).unwrap(), "nothing has come");
        let host = Host::new("h1");
        std::thread::scope(|scope| {
            scope.spawn(|| host.send(&frame(1, 100)));
            assert!(waiter.wait(60_000_000_000).unwrap());
        });
        assert_eq!(receive(&mut ports[1], &mut umem, 1), [frame(1, 100)]);
    });
}
