//! The order of transmission in an iteration: PFC before data, and fairness between ports.

#[path = "lab/loopback_port.rs"]
mod loopback_port;

use std::task::Waker;

use dataplane::{PollLoop, PollLoopSettings, mailbox};
use loopback_port::{LoopbackPort, TxLog, Wire};
use switch::settings::{BridgeSettings, BufferSettings, PortSettings, SwitchSettings, Threshold};
use switch::{HeapMemory, Instant, Switch};
use wire::ethernet::{EXPERIMENTAL, Tag, write_header};
use wire::mac::MacAddr;
use wire::pause::{Control, decode};

const FRAMES: usize = 4096;

fn mac(n: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 7, n as u8])
}

fn frame(to: usize, from: usize, priority: u8) -> Vec<u8> {
    let mut frame = vec![0; 64];
    write_header(&mut frame, mac(to), mac(from), Some(Tag::priority(priority)), EXPERIMENTAL);
    frame
}

/// Creates a loop over ports in memory; every host's address is known.
fn lab(ports: Vec<PortSettings>) -> (PollLoop<LoopbackPort>, Vec<Wire>, Instant) {
    let count = ports.len();
    let settings = SwitchSettings {
        buffer: BufferSettings {
            total_cells: 4000,
            fixed_cells: 0,
            headroom_cells: 1000,
            ..BufferSettings::default()
        },
        bridge: BridgeSettings::default(),
        usage_percent: 100,
        alarms: Default::default(),
        seed: 0,
        ports,
    };
    let macs: Vec<_> = (100..100 + count).map(mac).collect();
    let switch = Switch::new(&settings, &macs, FRAMES);
    let (ports, wires): (Vec<_>, Vec<_>) = (0..count).map(|_| LoopbackPort::new()).unzip();
    let (handle, mailbox) = mailbox(Waker::noop().clone());
    std::mem::forget(handle); // no commands are sent
    let core_settings =
        PollLoopSettings { complete_checksums: vec![false; count], ..PollLoopSettings::default() };
    let mut core =
        PollLoop::new(switch, ports, HeapMemory::new(FRAMES, 2048), FRAMES, mailbox, core_settings);
    let mut now = Instant(1_000_000);
    for (n, wire) in wires.iter().enumerate() {
        wire.inject(frame(n, n, 0)); // to itself: the FDB learns it
    }
    for _ in 0..3 {
        now = now + 1000;
        core.iterate(now);
    }
    (core, wires, now)
}

/// All ports have data to send, and the last one's group has just reached XOFF. Its PFC frame
/// reaches the kernel before any data of that iteration, whichever port is first.
#[test]
fn xoff_leaves_before_the_data_of_any_port() {
    const PORTS: usize = 16;
    for last in [0, PORTS - 1] {
        let ports = (0..PORTS).map(|n| {
            let mut port = PortSettings::new(format!("p{n}"), None);
            (port.pfc.tx, port.pfc.no_drop) = (true, 1 << 3);
            port.groups[3].xoff = Threshold::Static(1);
            port
        });
        let (mut core, wires, now) = lab(ports.collect());
        let calls = TxLog::default();
        wires.iter().enumerate().for_each(|(n, wire)| wire.log_transmissions(&calls, n));
        // Every port gets data to send; one peer's frames are no-drop and reach XOFF.
        for (n, wire) in wires.iter().enumerate() {
            let priority = if n == last { 3 } else { 0 };
            (0..40).for_each(|_| wire.inject(frame((n + 1) % PORTS, n, priority)));
        }
        core.iterate(now + 1000);
        let order = calls.taken();
        let (port, is_control) = order[0];
        assert_eq!((port, is_control), (last, true), "{order:?}");
        assert_eq!(order.iter().filter(|(_, is_control)| *is_control).count(), 1);
        assert_eq!(order.len(), PORTS + 1, "then the data, a batch a port");
    }
}

/// A port whose TX ring is full of data has an entry left for PFC.
#[test]
fn a_full_tx_ring_has_room_for_pfc() {
    let ports = (0..3).map(|n| {
        let mut port = PortSettings::new(format!("p{n}"), None);
        (port.pfc.tx, port.pfc.no_drop) = (true, 1 << 3);
        port.groups[3].xoff = Threshold::Static(5);
        port
    });
    let (mut core, wires, mut now) = lab(ports.collect());
    wires[0].set_transmit_room(8);
    wires[0].hold_completions(true);
    let mut turn = |core: &mut PollLoop<LoopbackPort>| {
        now = now + 1000;
        core.iterate(now);
    };
    (0..30).for_each(|_| wires[1].inject(frame(0, 1, 0))); // more than the ring has room for
    turn(&mut core);
    wires[2].set_transmit_room(0);
    (0..30).for_each(|_| wires[0].inject(frame(2, 0, 3))); // XOFF for the peer of the full port
    turn(&mut core);
    turn(&mut core);
    let left = wires[0].take_sent();
    let pfc = left.iter().filter(|bytes| matches!(decode(bytes), Ok(Control::Pfc(_)))).count();
    assert_eq!((left.len(), pfc), (8, 1));
}

/// Senders at equal rates to a port of half their total rate get equal shares, whatever their
/// order.
#[test]
fn equal_senders_get_equal_shares() {
    for receiver in [0, 2] {
        let ports = (0..3).map(|n| {
            let mut port = PortSettings::new(format!("p{n}"), None);
            port.queues[2].shared = Some(Threshold::Static(60));
            port
        });
        let (mut core, wires, mut now) = lab(ports.collect());
        wires[receiver].set_transmit_room(40);
        let senders: Vec<usize> = (0..3).filter(|&n| n != receiver).collect();
        let mut shares = [0_u64; 3];
        for _ in 0..20_000 {
            for &n in &senders {
                (0..40).for_each(|_| wires[n].inject(frame(receiver, n, 0)));
            }
            now = now + 10_000;
            core.iterate(now);
            for bytes in wires[receiver].take_sent() {
                shares[usize::from(bytes[11])] += 1;
            }
        }
        let [a, b] = [senders[0], senders[1]].map(|n| shares[n]);
        assert!(a.min(b) * 100 >= a.max(b) * 98, "{a} and {b} frames, receiver {receiver}");
        assert!(a + b > 200_000, "and the port was busy: {}", a + b);
    }
}
