//! The life of a port's link: reconnection, reset, reboot, another front end, and roles.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use dataplane::Port;
use switch::HeapMemory;
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use virtio::front_end::{FrontEnd, FrontEndSettings};
use virtio::{Notice, SocketRole, SocketSettings, UnsealedMemory, VhostUser, VirtioPort};

use crate::common::{Bench, frame, settings, until};

/// A guest sends frame `number`, and the switch receives it.
fn exchange(bench: &mut Bench, driver: &mut FrontEnd, number: u32) {
    assert!(driver.send(0, &frame(number, 60)));
    driver.flush(0);
    assert_eq!(bench.receive(), [(None, frame(number, 60))]);
}

/// Runs the port's loop while `work` runs, which waits for it.
fn while_served<T: Send>(bench: &mut Bench, work: impl FnOnce() -> T + Send) -> T {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let result = work();
            is_done.store(true, Ordering::Release);
            result
        });
        while !is_done.load(Ordering::Acquire) {
            assert!(bench.receive().is_empty());
            thread::yield_now();
        }
        worker.join().unwrap()
    })
}

#[test]
fn a_driver_that_goes_is_followed_by_another() {
    let mut bench = Bench::new(settings(1));
    for number in 0..5 {
        let mut driver = bench.connect(FrontEndSettings::default());
        assert!(bench.port.is_up());
        exchange(&mut bench, &mut driver, number);
        drop(driver);
        // The loop serves the port until it sees that the link is down.
        while bench.port.is_up() {
            assert!(bench.receive().is_empty());
        }
        bench.close();
        assert_eq!(bench.port.reopen(&mut bench.memory), Some(false), "there is no driver");
    }
    let text = bench.notices.try_iter().collect::<Vec<_>>();
    assert_eq!(text.iter().filter(|notice| **notice == Notice::LinkUp(1)).count(), 5);
    assert_eq!(text.iter().filter(|notice| **notice == Notice::LinkDown).count(), 5);
}

/// A guest that reboots stops its rings and starts them again, on the same connection. The answer
/// to the stop says where the loop has stopped.
#[test]
fn a_guest_that_reboots() {
    let mut bench = Bench::new(settings(1));
    let mut driver = bench.connect(FrontEndSettings::default());
    (0..10).for_each(|number| exchange(&mut bench, &mut driver, number));
    let bases =
        while_served(&mut bench, || [0, 1].map(|ring| driver.protocol().get_vring_base(ring).unwrap()));
    assert_eq!(bases, [0, 10]);
    assert!(!bench.port.is_up(), "the guest's driver is gone");
    bench.close();
    // After the reboot.
    driver.protocol().reset_device().ok();
    let mut driver = {
        drop(driver);
        until("the link is down", || !bench.socket.is_linked());
        bench.connect(FrontEndSettings::default())
    };
    exchange(&mut bench, &mut driver, 0);
    bench.close();
}

/// A ring that is disabled is not read, and continues where it was.
#[test]
fn a_ring_that_is_disabled_and_enabled_again() {
    let mut bench = Bench::new(settings(8));
    let mut driver = bench.connect(FrontEndSettings { queue_pairs: 2, ..FrontEndSettings::default() });
    while_served(&mut bench, || driver.protocol().set_vring_enable(3, false).unwrap());
    assert!(driver.send(1, &frame(1, 60)) && driver.send(0, &frame(0, 60)));
    driver.flush(0);
    driver.flush(1);
    assert_eq!(bench.receive(), [(Some(0), frame(0, 60))]);
    assert!(bench.port.is_up(), "the link stays up");
    // The loop reads the ring once it is enabled.
    let is_done = AtomicBool::new(false);
    let mut received = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            driver.protocol().set_vring_enable(3, true).unwrap();
            is_done.store(true, Ordering::Release);
        });
        while received.is_empty() || !is_done.load(Ordering::Acquire) {
            received.extend(bench.receive());
        }
    });
    assert_eq!(received, [(Some(1), frame(1, 60))]);
    bench.close();
}

/// The memory is replaced while the loop runs; it never sees the old memory after the answer.
#[test]
fn memory_is_replaced_while_the_loop_runs() {
    let mut bench = Bench::new(settings(1));
    let mut driver = bench.connect(FrontEndSettings::default());
    for number in 0..20 {
        exchange(&mut bench, &mut driver, number);
        while_served(&mut bench, || driver.share_memory().unwrap());
        assert!(bench.port.is_up());
    }
    bench.close();
}

/// A second front end on the same socket waits for the first one to go.
#[test]
fn a_second_front_end_waits() {
    let mut bench = Bench::new(settings(1));
    let mut first = bench.connect(FrontEndSettings::default());
    let stream = UnixStream::connect(&bench.path).unwrap();
    let first_is_gone = Arc::new(AtomicBool::new(false));
    let is_gone = Arc::clone(&first_is_gone);
    let second = thread::spawn(move || {
        let second = FrontEnd::start(stream, FrontEndSettings::default()).unwrap();
        assert!(is_gone.load(Ordering::Acquire), "it starts once the first one is gone");
        second
    });
    exchange(&mut bench, &mut first, 1);
    first_is_gone.store(true, Ordering::Release);
    drop(first);
    // The second one may be there before the loop has seen that the first is gone.
    while bench.port.is_up() && !second.is_finished() {
        bench.receive();
    }
    bench.close();
    let mut second = second.join().unwrap();
    bench.open();
    exchange(&mut bench, &mut second, 2);
    bench.close();
}

/// The front end listens, and the switch connects, also to one that comes later or again.
#[test]
fn a_switch_that_connects() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("front-end");
    let socket =
        SocketSettings { path: path.clone(), role: SocketRole::Client, unsealed: UnsealedMemory::Refused };
    let (sender, notices) = channel();
    let (vhost, port): (VhostUser, VirtioPort<HeapMemory>) =
        VhostUser::open("client", &socket, settings(1), move |notice| drop(sender.send(notice))).unwrap();
    for _ in 0..2 {
        let listener = UnixListener::bind(&path).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let driver = FrontEnd::start(stream, FrontEndSettings::default()).unwrap();
        until("the link is up", || vhost.is_linked());
        drop((driver, listener));
        std::fs::remove_file(&path).unwrap();
        until("the link is down", || !vhost.is_linked());
    }
    drop(port);
    drop(vhost);
    assert!(notices.iter().any(|notice| notice == Notice::Connected));
}

/// A socket that a killed switch left is replaced; one on which a process listens is not.
#[test]
fn sockets_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("port");
    let socket =
        SocketSettings { path: path.clone(), role: SocketRole::Server, unsealed: UnsealedMemory::Refused };
    drop(UnixListener::bind(&path).unwrap());
    let open = || VhostUser::open::<HeapMemory>("a", &socket, settings(1), |_| ());
    let (first, port) = open().unwrap();
    assert_eq!(open().err().unwrap().kind(), std::io::ErrorKind::AddrInUse);
    drop((port, first));
    assert!(!path.exists(), "the socket goes with its port");
    std::fs::write(&path, "a file").unwrap();
    assert!(open().is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"a file");
}

/// A port that goes leaves the socket that another switch has put in the place of its own.
#[test]
fn a_socket_of_another_switch_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("port");
    let socket =
        SocketSettings { path: path.clone(), role: SocketRole::Server, unsealed: UnsealedMemory::Refused };
    let open = || VhostUser::open::<HeapMemory>("a", &socket, settings(1), |_| ()).unwrap();
    let first = open();
    std::fs::remove_file(&path).unwrap();
    let second = open();
    drop(first);
    assert!(UnixStream::connect(&path).is_ok(), "front ends reach the second switch");
    drop(second);
    assert!(!path.exists(), "the socket goes with its port");
}

/// Connects a driver that sets the state of the rings before it accepts features, and not once
/// more. All of its messages are answered when it returns.
fn early(bench: &Bench, states: &[u32]) -> FrontEnd {
    let mut stream = UnixStream::connect(&bench.path).unwrap();
    for state in states {
        for ring in [0, 1] {
            let set_vring_enable = [18_u32, 1, 8, ring, *state];
            stream.write_all(&set_vring_enable.map(u32::to_le_bytes).concat()).unwrap();
        }
    }
    let mut driver = FrontEnd::prepare(stream, FrontEndSettings::default()).unwrap();
    driver.negotiate().unwrap();
    driver.share_memory().unwrap();
    driver.start_pair(0).unwrap();
    driver.protocol().get_features().unwrap();
    driver
}

/// QEMU that connects again enables the rings before it accepts features, and not once more.
#[test]
fn rings_that_are_enabled_before_features_are_accepted() {
    let mut bench = Bench::new(settings(1));
    let mut driver = early(&bench, &[1]);
    bench.open();
    exchange(&mut bench, &mut driver, 0);
    bench.close();
}

/// The last state counts, and only 0 and 1 are states: another one neither enables a ring nor
/// disables it, nor does it end the connection.
#[test]
fn early_states_of_rings() {
    for (states, is_enabled) in [(&[2][..], false), (&[1, 0], false), (&[1, 2], true), (&[u32::MAX], false)] {
        let mut bench = Bench::new(settings(1));
        let mut driver = early(&bench, states);
        assert_eq!(bench.socket.is_linked(), is_enabled, "{states:?}");
        for ring in [0, 1] {
            driver.protocol().set_vring_enable(ring, true).unwrap();
        }
        bench.open();
        exchange(&mut bench, &mut driver, 0);
        bench.close();
    }
}

/// The daemon restarts while a guest goes on; its front end connects again with the same memory.
/// What the first switch has read is not read again, and what it has not read is not lost.
#[test]
fn a_switch_that_is_restarted_under_a_guest() {
    let mut bench = Bench::new(settings(1));
    let mut driver = bench.connect(FrontEndSettings { ring_size: 64, ..FrontEndSettings::default() });
    let mut buffer = Vec::new();
    for restart in 0..3 {
        for number in 0..100 {
            exchange(&mut bench, &mut driver, number);
            bench.send(0, &frame(number, 60));
            assert!(driver.receive(0, &mut buffer) && buffer == frame(number, 60));
            driver.repost(0);
        }
        bench.send(0, &frame(1, 200)); // it lies there while there is no switch
        (0..20).for_each(|number| assert!(driver.send(0, &frame(number, 60))));
        driver.flush(0);
        bench = bench.restarted(settings(1));
        assert!(!driver.is_connected(), "restart {restart}");
        driver.reconnect(&bench.path).unwrap();
        bench.open();
        let received = bench.receive();
        assert_eq!(received, Vec::from_iter((0..20).map(|number| (None, frame(number, 60)))));
        bench.send(0, &frame(2, 200));
        for number in [1, 2] {
            assert!(driver.receive(0, &mut buffer) && buffer == frame(number, 200));
        }
        driver.repost(0);
    }
    bench.close();
}

/// A guest that wants an interrupt gets it, and one whose descriptor blocks its writer delays no
/// one else.
#[test]
fn interrupts() {
    let mut bench = Bench::new(settings(1));
    let mut driver = bench.connect(FrontEndSettings::default());
    driver.set_interrupts(true);
    bench.send(0, &frame(1, 60));
    let mut fds = Vec::new();
    driver.poll_fds(&mut fds);
    until("the interrupt", || driver.take_interrupts() > 0);
    // Its counter is full: the next write blocks the port's thread, and the loop goes on.
    driver.fill_interrupts();
    for number in 0..200 {
        let mut buffer = Vec::new();
        driver.set_interrupts(true);
        while driver.receive(0, &mut buffer) {}
        driver.repost(0);
        bench.send(0, &frame(number, 60));
        bench.receive();
    }
    bench.close();
    // The next guest has its interrupts again.
    drop(driver);
    until("the link is down", || !bench.socket.is_linked());
    let mut driver = bench.connect(FrontEndSettings::default());
    driver.set_interrupts(true);
    driver.take_interrupts();
    bench.send(0, &frame(1, 60));
    until("the interrupt", || driver.take_interrupts() > 0);
    bench.close();
}
