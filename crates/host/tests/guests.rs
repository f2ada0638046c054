//! Hosts that are virtio drivers of a switch: what it pauses stays in their queues.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant as Wall};

#[path = "../../dataplane/tests/lab/loopback_port.rs"]
mod loopback_port;

use dataplane::{LoopCommand, LoopPort, PollLoop, PollLoopSettings, Reply, mailbox};
use host::args::FlowArgs;
use host::host::{Host, HostSettings};
use switch::settings::{BridgeSettings, BufferSettings, SwitchSettings, Threshold};
use switch::{HeapMemory, Instant, Switch};
use virtio::front_end::port::FrontEndPort;
use virtio::front_end::{FrontEnd, FrontEndSettings};
use virtio::{PortSettings, SocketRole, SocketSettings, UnsealedMemory, VhostUser, VirtioPort};
use wire::MacAddr;

const FRAMES: usize = 4096;
/// Frames of each flow of priority 3.
const COUNT: u64 = 3000;
/// Fails a test that would otherwise wait indefinitely; no result depends on it.
const PATIENCE: Duration = Duration::from_secs(60);

fn mac(n: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 9, n as u8])
}

/// Priority 3 is no-drop, and port 2 has 100 Mbit/s.
fn settings() -> SwitchSettings {
    let ports = (0..3).map(|n| {
        let mut port = switch::PortSettings::new(format!("p{n}"), (n == 2).then_some(100_000_000));
        (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (true, true, 0b0000_1000);
        port.classify.queue_is_priority = true;
        let group = &mut port.groups[3];
        (group.reserved_cells, group.headroom_cells, group.xon_offset_cells) = (0, 100, 2);
        group.xoff = Threshold::Static(40);
        port
    });
    SwitchSettings {
        buffer: BufferSettings {
            total_cells: 2048,
            fixed_cells: 0,
            headroom_cells: 300,
            ..Default::default()
        },
        usage_percent: 100,
        alarms: Default::default(),
        seed: 0,
        bridge: BridgeSettings::default(),
        ports: ports.collect(),
    }
}

fn flow(priority: u8, count: u64, rate_bps: u64) -> FlowArgs {
    FlowArgs {
        to: mac(2),
        priority,
        size_bytes: 1000,
        rate_bps,
        count: Some(count),
        start_ns: 0,
        vid: Some(0),
        ecn: None,
    }
}

/// Two hosts offer ten times what the port of the third takes. Nothing is lost; priority 5, of
/// which there is little, is not held back.
#[test]
fn what_is_paused_stays_in_the_queues_of_the_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let (mut ports, mut sockets) = (Vec::new(), Vec::new());
    for n in 0..3 {
        let (role, unsealed) = (SocketRole::Server, UnsealedMemory::Refused);
        let socket = SocketSettings { path: folder.path().join(n.to_string()), role, unsealed };
        let of_port = PortSettings {
            speed_bps: if n == 2 { 100_000_000 } else { 10_000_000_000 },
            sends_pfc: false,
            queue_pairs: 8,
            cell_bytes: 256,
            batch_cells: 64,
        };
        let (socket, port): (_, VirtioPort<HeapMemory>) =
            VhostUser::open("host", &socket, of_port, |_| ()).unwrap();
        ports.push(LoopPort::<loopback_port::LoopbackPort>::Other(Box::new(port)));
        sockets.push(socket);
    }
    let switch = Switch::new(&settings(), &[100, 101, 102].map(mac), FRAMES);
    let (mut handle, mailbox) = mailbox(Waker::noop().clone());
    let of_loop =
        PollLoopSettings { complete_checksums: vec![false; 3], watches_rings: true, ..Default::default() };
    let mut core = PollLoop::new(switch, ports, HeapMemory::new(FRAMES, 2048), FRAMES, mailbox, of_loop);
    let began = Wall::now();
    let clock = || Instant(1_000_000_000 + began.elapsed().as_nanos() as u64);
    core.iterate(clock());
    let driver = FrontEndSettings { queue_pairs: 8, ring_size: 64, ..FrontEndSettings::default() };
    let mut hosts: Vec<_> = (0..3)
        .map(|n| {
            let front_end = FrontEnd::connect(&folder.path().join(n.to_string()), driver).unwrap();
            let flows = vec![flow(3, COUNT, 1_000_000_000), flow(5, 30, 1_000_000)];
            let settings = HostSettings {
                interface: n.to_string(),
                mac: mac(n),
                flows: if n == 2 { Vec::new() } else { flows },
                speed_bps: None,
                honored: 0,
                dcbx: None,
                honors_pause: false,
                stormed: 0,
                reacts: false,
                reaction_delay_ns: 0,
                duration_ns: None,
                linger_ns: 60_000_000_000,
                run: 1,
            };
            let memory = HeapMemory::new(FRAMES, 2048);
            Host::new(settings, FrontEndPort::new(front_end), memory, FRAMES, clock()).with_queues_of_port()
        })
        .collect();
    for (port, socket) in sockets.iter().enumerate() {
        while !socket.is_linked() {
            thread::yield_now();
        }
        let up = LoopCommand::PortUp { port, mac: mac(100 + port), complete_checksums: false };
        handle.send(up).unwrap();
        core.iterate(clock());
        while !matches!(handle.receive(), Some(Reply::PortUp(_, true))) {}
    }
    let ends = AtomicBool::new(false);
    let reports = thread::scope(|scope| {
        let hosts = scope.spawn(|| {
            while hosts.iter().any(|host| !host.is_ready()) {
                turn(&mut hosts, &clock);
            }
            hosts.iter_mut().for_each(|host| host.begin(clock()));
            loop {
                turn(&mut hosts, &clock);
                let received = hosts[2].report(clock()).received;
                let arrived: u64 = received.iter().map(|flow| flow.received_frames).sum();
                if arrived == 2 * (COUNT + 30) || began.elapsed() > PATIENCE {
                    break;
                }
            }
            ends.store(true, Ordering::Release);
            hosts.iter().map(|host| host.report(clock())).collect::<Vec<_>>()
        });
        while !ends.load(Ordering::Acquire) {
            core.iterate_with_clock(clock(), &clock);
            while handle.receive().is_some() {}
        }
        hosts.join().unwrap()
    });
    assert_eq!(reports[2].received.len(), 4);
    for flow in &reports[2].received {
        let wanted = if flow.priority == 3 { COUNT } else { 30 };
        let wrong = [flow.lost_frames, flow.duplicated_frames, flow.reordered_frames, flow.corrupted_frames];
        assert_eq!((flow.received_frames, wrong), (wanted, [0; 4]), "{flow:?}");
    }
    // 6000 frames of priority 3 take half a second on that port, and were offered in 24 ms.
    let slowest = reports[2].received.iter().map(|flow| flow.latency_ns.max).max();
    assert!(slowest > Some(1_000_000), "they waited: {slowest:?}");
}

fn turn(hosts: &mut [Host<FrontEndPort<HeapMemory>>], clock: &impl Fn() -> Instant) {
    for host in hosts {
        let now = host.receive(clock);
        host.send(now);
    }
}
