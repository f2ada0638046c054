//! Forwarding rate between two guests, with the whole switch: a loop on one thread, and both
//! drivers on another, which send as much as their queues take.
//!
//! `cargo run --release -p virtio --example guests -- [BYTES] [RING] [SECONDS]` prints the frames
//! per second in both directions together, and what a frame costs the loop when both threads take
//! turns of 64 frames in each direction: the lower quartile, which a busy machine hardly changes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

#[path = "../../dataplane/tests/lab/loopback_port.rs"]
mod loopback_port;

use dataplane::{LoopCommand, LoopPort, PollLoop, PollLoopSettings, Reply, mailbox};
use switch::settings::{BridgeSettings, BufferSettings, SwitchSettings};
use switch::{HeapMemory, Switch};
use virtio::front_end::{FrontEnd, FrontEndSettings};
use virtio::{PortSettings, SocketRole, SocketSettings, UnsealedMemory, VhostUser, VirtioPort};
use wire::ethernet::{EXPERIMENTAL, write_header};
use wire::mac::MacAddr;

const FRAMES: usize = 16384;

fn main() {
    let argument = |n: usize, default: usize| {
        std::env::args().nth(n).map_or(default, |text| text.parse().expect("a number"))
    };
    let (bytes, ring, seconds) = (argument(1, 60), argument(2, 1024), argument(3, 3));
    let folder = tempfile::tempdir().expect("a folder");
    let mac = |n: usize| MacAddr([2, 0, 0, 0, 9, n as u8]);
    let (mut ports, mut sockets, mut paths) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..2 {
        let path = folder.path().join(n.to_string());
        let (role, unsealed) = (SocketRole::Server, UnsealedMemory::Refused);
        let socket = SocketSettings { path: path.clone(), role, unsealed };
        let port = PortSettings {
            speed_bps: 10_000_000_000,
            sends_pfc: false,
            queue_pairs: 1,
            cell_bytes: 256,
            batch_cells: 256,
        };
        let (socket, port): (_, VirtioPort<HeapMemory>) =
            VhostUser::open("guest", &socket, port, |_| ()).expect("a socket");
        ports.push(LoopPort::<loopback_port::LoopbackPort>::Other(Box::new(port)));
        sockets.push(socket);
        paths.push(path);
    }
    let of_ports = (0..2).map(|n| {
        let mut port = switch::PortSettings::new(format!("p{n}"), None);
        (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (true, true, 0b0000_1000);
        port
    });
    let settings = SwitchSettings {
        buffer: BufferSettings { total_cells: 8192, headroom_cells: 1024, ..BufferSettings::default() },
        usage_percent: 100,
        alarms: Default::default(),
        seed: 0,
        bridge: BridgeSettings::default(),
        ports: of_ports.collect(),
    };
    let switch = Switch::new(&settings, &[mac(100), mac(101)], FRAMES);
    let (mut handle, mailbox) = mailbox(Waker::noop().clone());
    let of_loop = PollLoopSettings {
        complete_checksums: vec![false; 2],
        watches_rings: true,
        ..PollLoopSettings::default()
    };
    let memory = HeapMemory::new(FRAMES, 2048);
    let mut core = PollLoop::new(switch, ports, memory, FRAMES, mailbox, of_loop);
    let begin = Instant::now();
    let clock = || switch::Instant(1_000_000 + begin.elapsed().as_nanos() as u64);
    core.iterate(clock());
    let driver = FrontEndSettings { ring_size: ring as u16, ..FrontEndSettings::default() };
    let drivers = [0, 1].map(|n| FrontEnd::connect(&paths[n], driver).expect("a driver"));
    for (port, socket) in sockets.iter().enumerate() {
        while !socket.is_linked() {
            thread::yield_now();
        }
        let up = LoopCommand::PortUp { port, mac: mac(100 + port), complete_checksums: false };
        handle.send(up).expect("room for a command");
        core.iterate(clock());
        while !matches!(handle.receive(), Some(Reply::PortUp(_, true))) {}
    }
    let frames = [0, 1].map(|n| {
        let mut frame = vec![0; bytes];
        write_header(&mut frame, mac(1 - n), mac(n), None, EXPERIMENTAL);
        frame
    });
    let mut hosts = Hosts { drivers, frames, buffer: Vec::new() };
    let mut iterate = || {
        core.iterate_with_clock(clock(), &clock);
        while handle.receive().is_some() {}
    };
    let costs = take_turns(&mut hosts, &mut iterate, Duration::from_secs(seconds as u64));
    let rate = run_freely(&mut hosts, &mut iterate, seconds as u64);
    println!("{bytes} bytes, rings of {ring}: {:.3} Mpps; a frame in turns: {costs:.1} ns", rate / 1e6);
}

const BATCH: usize = 64;

/// Both drivers, and the frames that they send.
struct Hosts {
    drivers: [FrontEnd; 2],
    frames: [Vec<u8>; 2],
    buffer: Vec<u8>,
}

impl Hosts {
    /// Sends up to a batch from each, and receives up to a batch at each. Returns how many were
    /// received.
    fn exchange(&mut self) -> usize {
        let mut received = 0;
        for (driver, frame) in self.drivers.iter_mut().zip(&self.frames) {
            let before = received;
            while received - before < BATCH && driver.receive(0, &mut self.buffer) {
                received += 1;
            }
            driver.repost(0);
            let room = driver.send_room(0).min(BATCH);
            (0..room).for_each(|_| assert!(driver.send(0, frame), "there was room"));
            driver.flush(0);
        }
        received
    }
}

fn pin(core: usize) {
    let mut cores = nix::sched::CpuSet::new();
    cores.set(core).expect("a core");
    let _ = nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cores); // where there are two
}

/// Has the loop forward what the hosts sent, then the hosts take it, and so on. Returns the
/// lower quartile of the loop's nanoseconds a frame.
fn take_turns(hosts: &mut Hosts, iterate: &mut impl FnMut(), time: Duration) -> f64 {
    let (is_of_loop, ends, received) = (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
    let mut costs = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            let began = Instant::now();
            while began.elapsed() < time {
                if is_of_loop.load(Ordering::Acquire) {
                    thread::yield_now();
                    continue;
                }
                received.store(hosts.exchange(), Ordering::Relaxed);
                is_of_loop.store(true, Ordering::Release);
            }
            ends.store(true, Ordering::Release);
        });
        pin(0);
        let mut took = 0.0;
        while !ends.load(Ordering::Acquire) {
            if !is_of_loop.load(Ordering::Acquire) {
                thread::yield_now();
                continue;
            }
            let frames = received.load(Ordering::Relaxed); // of the turn before
            costs.push(if frames > 0 { took / frames as f64 } else { f64::INFINITY });
            let began = Instant::now();
            iterate();
            took = began.elapsed().as_nanos() as f64;
            is_of_loop.store(false, Ordering::Release);
        }
    });
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 4]
}

/// Lets the hosts send as much as their queues take. Returns the frames a second.
fn run_freely(hosts: &mut Hosts, iterate: &mut impl FnMut(), seconds: u64) -> f64 {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let hosts = scope.spawn(|| {
            pin(1);
            let warm = Instant::now();
            while warm.elapsed() < Duration::from_secs(1) {
                hosts.exchange();
            }
            let (mut received, began) = (0, Instant::now());
            while began.elapsed() < Duration::from_secs(seconds) {
                received += hosts.exchange();
            }
            ends.store(true, Ordering::Relaxed);
            received as f64 / began.elapsed().as_secs_f64()
        });
        while !ends.load(Ordering::Relaxed) {
            iterate();
        }
        hosts.join().expect("the hosts")
    })
}
