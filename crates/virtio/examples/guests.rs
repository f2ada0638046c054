//! Forwarding rate between two guests, with the whole switch: a loop on one thread, and both
//! drivers on another, which send as much as their queues take.
//!
//! `cargo run --release -p virtio --example guests -- [BYTES] [RING] [SECONDS]` prints the frames
//! per second in both directions together.

use std::sync::atomic::{AtomicBool, Ordering};
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
        let port =
            PortSettings { speed_bps: 10_000_000_000, sends_pfc: false, queue_pairs: 1, cell_bytes: 256 };
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
    let mut drivers = [0, 1].map(|n| FrontEnd::connect(&paths[n], driver).expect("a driver"));
    for (port, socket) in sockets.iter().enumerate() {
        while !socket.is_linked() {
            thread::yield_now();
        }
        let up = LoopCommand::PortUp { port, mac: mac(100 + port), complete_checksums: false };
        handle.send(up).expect("room for a command");
        core.iterate(clock());
        while !matches!(handle.receive(), Some(Reply::PortUp(_, true))) {}
    }
    let ends = AtomicBool::new(false);
    let frames = [0, 1].map(|n| {
        let mut frame = vec![0; bytes];
        write_header(&mut frame, mac(1 - n), mac(n), None, EXPERIMENTAL);
        frame
    });
    let received = thread::scope(|scope| {
        let hosts = scope.spawn(|| {
            let (mut received, mut buffer, mut began) = (0_u64, Vec::new(), Instant::now());
            let mut is_warm = false;
            while began.elapsed() < Duration::from_secs(if is_warm { seconds as u64 } else { 1 }) || !is_warm
            {
                if !is_warm && began.elapsed() >= Duration::from_secs(1) {
                    (is_warm, received, began) = (true, 0, Instant::now());
                }
                for (driver, frame) in drivers.iter_mut().zip(&frames) {
                    let room = driver.send_room(0).min(64);
                    (0..room).for_each(|_| assert!(driver.send(0, frame), "there was room"));
                    driver.flush(0);
                    let mut batch = 0;
                    while batch < 64 && driver.receive(0, &mut buffer) {
                        batch += 1;
                    }
                    driver.repost(0);
                    received += batch;
                }
            }
            ends.store(true, Ordering::Relaxed);
            received as f64 / began.elapsed().as_secs_f64()
        });
        while !ends.load(Ordering::Relaxed) {
            core.iterate_with_clock(clock(), &clock);
            while handle.receive().is_some() {}
        }
        hosts.join().expect("the hosts")
    });
    println!("{bytes} bytes, rings of {ring}: {:.3} Mpps", received / 1e6);
}
