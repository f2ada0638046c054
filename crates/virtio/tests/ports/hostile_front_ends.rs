//! Front ends that break the protocol or the rings, beside guests that exchange frames meanwhile.
//! The others lose nothing, the loop never stalls, and the next front end finds the port as new.

use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;

use dataplane::{LoopCommand, Reply};
use nix::time::{ClockId, clock_gettime};
use switch::DropReason;
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use virtio::front_end::driver_queue::DriverQueue;
use virtio::front_end::{FrontEnd, FrontEndSettings};
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

use crate::common::until;
use crate::forwarding::{Lab, frame, mac};

/// The classes of the loop's own counter of iterations by their time that begin at 1.024 ms.
const STALLS: std::ops::RangeFrom<usize> = 11..;
/// How often an attack must stall the loop to be what does it: the machine may, too, but not each
/// time.
const TRIES: usize = 4;
/// Flags of a descriptor.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// Requests of the protocol, by their numbers.
mod request {
    pub const SET_FEATURES: u32 = 2;
    pub const SET_MEM_TABLE: u32 = 5;
    pub const SET_LOG_BASE: u32 = 6;
    pub const SET_VRING_NUM: u32 = 8;
    pub const SET_VRING_BASE: u32 = 10;
    pub const GET_VRING_BASE: u32 = 11;
    pub const SET_VRING_KICK: u32 = 12;
    pub const SET_VRING_CALL: u32 = 13;
    pub const SET_VRING_ENABLE: u32 = 18;
    pub const RESET_DEVICE: u32 = 34;
}

fn connect(path: &Path) -> UnixStream {
    UnixStream::connect(path).unwrap()
}

fn driver(path: &Path) -> FrontEnd {
    FrontEnd::connect(path, FrontEndSettings { queue_pairs: 8, ..FrontEndSettings::default() }).unwrap()
}

/// Sends a message as it is, right or wrong. The port may have ended the connection.
fn send(stream: &UnixStream, request: u32, body: &[u8], fds: &[RawFd]) {
    let header = [request, 1, body.len() as u32];
    let mut message: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    message.extend(body);
    let _ = match fds {
        [] => (&*stream).write_all(&message).is_ok(),
        _ => stream.send_with_fds(&[&message[..]], fds).is_ok(),
    };
}

/// Sends messages of 64-bit words without descriptors.
fn send_words(path: &Path, request: u32, bodies: &[&[u64]]) {
    for body in bodies {
        let bytes: Vec<u8> = body.iter().flat_map(|word| word.to_le_bytes()).collect();
        send(&connect(path), request, &bytes, &[]);
    }
}

/// Memory of one region: number of regions, padding, then address, length, address, offset.
fn regions(count: u32, region: [u64; 4]) -> Vec<u8> {
    let mut body: Vec<u8> = [count, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    (0..count.min(40)).for_each(|_| body.extend(region.iter().flat_map(|word| word.to_le_bytes())));
    body
}

/// Sends the same chain again and again, from all queues. `data` is an address of zeros, which are
/// no frame that a bridge forwards.
fn flood(path: &Path, write: impl Fn(&mut DriverQueue, u64)) -> FrontEnd {
    let mut driver = driver(path);
    for pair in 0..8 {
        let data = driver.buffer_addr(2 * pair + 1, 100);
        write(driver.rings(pair)[1], data);
        for _ in 0..256 {
            driver.rings(pair)[1].push(0);
        }
        driver.flush(pair);
    }
    driver
}

/// What a front end does, by its name.
type Attack = (&'static str, fn(&Path));

const ATTACKS: &[Attack] = &[
    ("nothing", |path| drop(connect(path))),
    ("half of a header", |path| {
        let mut stream = connect(path);
        stream.write_all(&[1, 0, 0]).unwrap();
        thread::yield_now();
    }),
    ("a header without its body", |path| {
        let header: Vec<u8> = [request::SET_FEATURES, 1, 8].iter().flat_map(|it| it.to_le_bytes()).collect();
        connect(path).write_all(&header).unwrap();
    }),
    ("a body of 4 GiB", |path| {
        let header: Vec<u8> = [5, 1, u32::MAX].iter().flat_map(|it| it.to_le_bytes()).collect();
        let _ = connect(path).write_all(&header);
    }),
    ("another version", |path| {
        let header: Vec<u8> = [1_u32, 2, 0].iter().flat_map(|it| it.to_le_bytes()).collect();
        let _ = connect(path).write_all(&header);
    }),
    ("requests that do not exist", |path| {
        for number in [0, 45, 1000, u32::MAX] {
            send(&connect(path), number, &[0; 8], &[]);
        }
    }),
    ("messages of wrong sizes", |path| {
        for number in 0..45 {
            for bytes in [1, 7, 9, 300] {
                send(&connect(path), number, &vec![0xff; bytes], &[]);
            }
        }
    }),
    ("features that were not offered", |path| send_words(path, request::SET_FEATURES, &[&[u64::MAX]])),
    ("memory without descriptors", |path| {
        send(&connect(path), request::SET_MEM_TABLE, &regions(1, [0, 4096, 0, 0]), &[]);
    }),
    ("more regions than there are", |path| {
        for count in [0, 33, 1000, u32::MAX] {
            send(&connect(path), request::SET_MEM_TABLE, &regions(count, [0, 4096, 0, 0]), &[]);
        }
    }),
    ("descriptors where none belong", |path| {
        let event = EventFd::new(0).unwrap();
        let fds = [event.as_raw_fd(); 8];
        for number in 1..20 {
            send(&connect(path), number, &[0; 8], &fds);
        }
    }),
    ("memory that is no file, or can shrink", |path| {
        let (event, file) = (EventFd::new(0).unwrap(), tempfile::tempfile().unwrap());
        file.set_len(1 << 42).unwrap();
        for fd in [event.as_raw_fd(), file.as_raw_fd()] {
            for region in
                [[0, 4096, 0, 0], [0, 1 << 42, 0, 0], [u64::MAX, 4096, 0, 0], [0, 4096, 0, u64::MAX]]
            {
                send(&connect(path), request::SET_MEM_TABLE, &regions(1, region), &[fd]);
            }
        }
    }),
    ("rings that do not exist", |path| {
        for number in [request::SET_VRING_NUM, request::SET_VRING_BASE, request::GET_VRING_BASE] {
            send_words(path, number, &[&[99], &[u64::MAX], &[16]]);
        }
        send_words(path, request::SET_VRING_ENABLE, &[&[99], &[u64::MAX]]);
    }),
    ("rings of all sizes", |path| {
        let sizes = [0_u64, 3, 65_535, 65_536, u32::MAX.into()].map(|size| [size << 32]);
        send_words(path, request::SET_VRING_NUM, &sizes.each_ref().map(|size| &size[..]));
        send_words(path, request::SET_VRING_BASE, &sizes.each_ref().map(|size| &size[..]));
    }),
    ("kicks and interrupts without descriptors, or by a file", |path| {
        let file = tempfile::tempfile().unwrap();
        for number in [request::SET_VRING_KICK, request::SET_VRING_CALL] {
            send(&connect(path), number, &0_u64.to_le_bytes(), &[]);
            send(&connect(path), number, &0_u64.to_le_bytes(), &[file.as_raw_fd()]);
            send(&connect(path), number, &255_u64.to_le_bytes(), &[file.as_raw_fd()]);
        }
    }),
    ("a log of dirty pages", |path| send_words(path, request::SET_LOG_BASE, &[&[4096, 0], &[u64::MAX; 2]])),
    ("a start that ends anywhere", |path| {
        for steps in 0..4 {
            let mut driver = FrontEnd::prepare(connect(path), FrontEndSettings::default()).unwrap();
            if steps > 0 {
                driver.negotiate().unwrap();
            }
            if steps > 1 {
                driver.share_memory().unwrap();
            }
            if steps > 2 {
                driver.start_pair(0).unwrap();
            }
        }
    }),
    ("reconnection without end", |path| (0..50).for_each(|_| drop(driver(path)))),
    ("frames that are left behind", |path| {
        for _ in 0..10 {
            let mut driver = driver(path);
            for pair in 0..8 {
                while driver.send(pair, &frame(mac(0), 0, 3, 1500)) {}
                driver.flush(pair);
            }
        }
    }),
    ("stops and starts while frames come", |path| {
        let mut driver = driver(path);
        for _ in 0..50 {
            for ring in 0..16 {
                let _ = driver.protocol().set_vring_enable(ring, false);
                let _ = driver.protocol().set_vring_enable(ring, true);
            }
            driver.send(3, &frame(mac(0), 0, 3, 200));
            driver.flush(3);
        }
    }),
    ("other memory while frames come", |path| {
        let mut driver = driver(path);
        for _ in 0..50 {
            driver.send(3, &frame(mac(0), 0, 3, 200));
            driver.flush(3);
            let _ = driver.share_memory();
        }
    }),
    ("questions where a ring is, which stop it", |path| {
        let mut driver = driver(path);
        for ring in (0..16).cycle().take(200) {
            let _ = driver.protocol().get_vring_base(ring);
        }
    }),
    ("resets without end", |path| {
        let stream = connect(path);
        (0..200).for_each(|_| send(&stream, request::RESET_DEVICE, &[], &[]));
    }),
    ("two at once", |path| {
        let first = driver(path);
        let second = connect(path);
        send(&second, request::RESET_DEVICE, &[], &[]);
        drop(first);
    }),
    ("interrupts that block", |path| {
        let mut driver = driver(path);
        driver.set_interrupts(true);
        driver.fill_interrupts();
        driver.send(0, &frame(mac(0), 0, 0, 200));
        driver.flush(0);
        (0..1000).for_each(|_| thread::yield_now());
    }),
    ("kicks without end", |path| {
        let driver = driver(path);
        for _ in 0..5000 {
            driver.kick(3);
        }
    }),
    ("indices that jump", |path| {
        let mut driver = driver(path);
        for index in [u16::MAX, 300, 32_768] {
            for pair in 0..8 {
                driver.rings(pair).into_iter().for_each(|ring| ring.set_available_index(index));
            }
            thread::yield_now();
        }
    }),
    ("chains that are loops", |path| {
        drop(flood(path, |tx, data| tx.write_descriptor(0, data, (1, NEXT, 0))));
    }),
    ("chains of the most descriptors", |path| {
        drop(flood(path, |tx, data| {
            for index in 0..64 {
                let flags = if index < 63 { NEXT } else { 0 };
                tx.write_descriptor(index, data, (2, flags, index + 1));
            }
        }));
    }),
    ("the longest frames", |path| {
        drop(flood(path, |tx, data| tx.write_descriptor(0, data, (9250, 0, 0))));
    }),
    ("frames that are too long", |path| {
        let mut driver = flood(path, |tx, data| tx.write_descriptor(0, data, (u32::MAX, 0, 0)));
        until("they are refused", || driver.rings(0)[1].has_used());
    }),
    ("addresses outside", |path| {
        drop(flood(path, |tx, _| tx.write_descriptor(0, u64::MAX - 5, (64, 0, 0))));
    }),
    ("tables that were not agreed", |path| {
        drop(flood(path, |tx, data| {
            tx.write_descriptor(0, data, (u32::MAX, INDIRECT | NEXT | WRITE, 0));
        }));
    }),
    ("rings that change at random", |path| {
        let (mut random, mut driver) = (fastrand::Rng::with_seed(9), driver(path));
        let data = driver.buffer_addr(1, 100);
        for _ in 0..3000 {
            for ring in driver.rings(random.usize(..8)) {
                let rest = (random.u32(..3000), random.u16(..8), random.u16(..300));
                ring.write_descriptor(random.u16(..256), data + random.u64(..200_000), rest);
                ring.push(random.u16(..257));
                ring.publish();
            }
        }
    }),
];

/// A guest and a wire that exchange frames, and what arrived of them.
struct Others {
    lab: Lab,
    guest: FrontEnd,
    sent: [u32; 2],
    arrived: [u32; 2],
    /// Port 0 is closed until a driver is there.
    is_closed: bool,
    /// Iterations so far that took more than 1 ms.
    stalls: u64,
    buffer: Vec<u8>,
}

/// The CPU time of this thread in nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

impl Others {
    /// Makes a lab whose port 0 has no guest any more.
    fn new() -> Self {
        let mut lab = Lab::new(8);
        let guest = lab.drivers.remove(1);
        drop(lab.drivers.remove(0));
        Self { lab, guest, sent: [0; 2], arrived: [0; 2], is_closed: false, stalls: 0, buffer: Vec::new() }
    }

    /// Runs an iteration, in which both send a frame unless many are on their way.
    fn turn(&mut self) {
        if self.sent[0] - self.arrived[0] < 64 {
            let priority = 3 + 2 * (self.sent[0] % 2) as u8;
            assert!(self.guest.send(priority.into(), &frame(mac(2), 1, priority, 200)));
            self.guest.flush(priority.into());
            self.sent[0] += 1;
        }
        if self.sent[1] - self.arrived[1] < 64 {
            self.lab.wire.inject(frame(mac(1), 2, 5, 200));
            self.sent[1] += 1;
        }
        self.iterate();
    }

    /// Runs an iteration and takes what arrived. Opens port 0 once a driver is there, as the daemon
    /// does. The loop's clock is the CPU time of its iterations, whatever else the test and the
    /// machine do.
    fn iterate(&mut self) {
        let link = self.lab.sockets[0].link();
        if link.has_detached() {
            link.clear_detached();
            self.is_closed = true;
        }
        if self.is_closed && link.is_linked() {
            let up = LoopCommand::PortUp { port: 0, mac: mac(100), complete_checksums: false };
            self.lab.handle.send(up).expect("room for a command");
            self.is_closed = false;
        }
        let (began, cpu_began) = (self.lab.now, cpu_ns());
        let clock = || began + (cpu_ns() - cpu_began);
        self.lab.core.iterate_with_clock(clock(), &clock);
        self.lab.now = clock();
        while let Some(reply) = self.lab.handle.receive() {
            self.is_closed |= matches!(reply, Reply::PortUp(0, false));
        }
        let from_guest = |bytes: &&Vec<u8>| bytes[6..12] == mac(1).0;
        self.arrived[0] += self.lab.wire.take_sent().iter().filter(from_guest).count() as u32;
        while self.guest.receive(5, &mut self.buffer) {
            self.arrived[1] += u32::from(self.buffer[6..12] == mac(2).0);
        }
        self.guest.repost(5);
    }

    /// Lets all arrive that was sent, and checks that nothing of it was lost. Returns true if the
    /// loop has stalled since the last call.
    fn lost_nothing(&mut self, what: &str) -> bool {
        for _ in 0..1000 {
            if self.arrived != self.sent {
                self.iterate();
            }
        }
        assert_eq!(self.arrived, self.sent, "{what}");
        let snapshot = self.lab.snapshot();
        for port in &snapshot.ports[1..] {
            assert!(port.drops.iter().all(|count| count.frames == 0), "{what}: {:?}", port.drops);
        }
        let stalls: u64 = snapshot.loop_turns_by_time[STALLS].iter().sum();
        std::mem::replace(&mut self.stalls, stalls) != stalls
    }
}

/// Runs attacks, and returns those in which an iteration of the loop took more than 1 ms.
fn attack(others: &mut Others, attacks: &[Attack]) -> Vec<Attack> {
    let path: PathBuf = others.lab.paths[0].clone();
    let (path, mut stalled) = (path.as_path(), Vec::new());
    thread::scope(|scope| {
        for &(what, work) in attacks {
            let attacker = scope.spawn(move || work(path));
            while !attacker.is_finished() {
                others.turn();
            }
            attacker.join().unwrap_or_else(|_| panic!("{what} did not work"));
            if others.lost_nothing(what) {
                stalled.push((what, work));
            }
        }
    });
    stalled
}

#[test]
fn others_lose_nothing_and_the_loop_does_not_stall() {
    let mut others = Others::new();
    let mut stalled = ATTACKS.to_vec();
    for _ in 0..TRIES {
        stalled = attack(&mut others, &stalled);
    }
    assert!(stalled.is_empty(), "{:?}", stalled.iter().map(|(what, _)| what).collect::<Vec<_>>());
    assert!(others.sent.iter().all(|&frames| frames > 1000), "{:?}", others.sent);
    let attacked = others.lab.snapshot().ports[0].clone();
    assert!(attacked.drops[DropReason::Refused as usize].frames > 0, "their frames are refused");
    works_as_new(&mut others);
}

/// Checks that port 0 is as new to a driver that keeps the rules.
fn works_as_new(others: &mut Others) {
    let path: PathBuf = others.lab.paths[0].clone();
    thread::scope(|scope| {
        let last = scope.spawn(|| driver(&path));
        while !last.is_finished() {
            others.turn();
        }
        let mut last = last.join().unwrap();
        let filtered = |others: &mut Others| {
            others.turn();
            others.lab.snapshot().ports[0].drops[DropReason::Filtered as usize].frames
        };
        let before = filtered(others);
        assert!(last.send(5, &frame(mac(0), 0, 5, 200)));
        last.flush(5);
        until("its frame arrives", || filtered(others) > before);
    });
    others.lost_nothing("the end");
}
