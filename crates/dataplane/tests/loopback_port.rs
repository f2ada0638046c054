//! The port in memory with which the loops are tested.

#[path = "lab/loopback_port.rs"]
mod loopback_port;

use dataplane::Port;
use loopback_port::LoopbackPort;
use switch::{FrameMemory, HeapMemory, Instant, RxDesc, TxDesc};

const NOW: Instant = Instant(0);

fn receive(port: &mut LoopbackPort, memory: &mut HeapMemory, max: usize) -> Vec<RxDesc> {
    let mut out = Vec::new();
    port.receive(memory, NOW, max, &mut out);
    out
}

fn outgoing(received: Vec<RxDesc>) -> Vec<TxDesc> {
    received.into_iter().map(|RxDesc { frame, len, .. }| TxDesc::new(frame, len)).collect()
}

fn completed(port: &mut LoopbackPort) -> usize {
    let mut out = Vec::new();
    port.complete(&mut out);
    out.len()
}

#[test]
fn frames_go_through_unchanged_and_in_order() {
    let mut memory = HeapMemory::new(4, 100);
    let (mut port, wire) = LoopbackPort::new();
    wire.inject([1; 60]);
    wire.inject([2; 100]);
    wire.inject([3; 101]); // too long for this memory
    let mut frames = outgoing(receive(&mut port, &mut memory, 8));
    assert_eq!((frames.len(), port.kernel_counters().rx_dropped_frames, memory.free_frames()), (2, 1, 2));
    port.transmit(&mut memory, &mut frames);
    port.kick();
    assert_eq!((completed(&mut port), port.outstanding()), (0, 2));
    assert!(receive(&mut port, &mut memory, 8).is_empty());
    assert_eq!(wire.take_sent(), [vec![1; 60], vec![2; 100]]);
    assert_eq!((completed(&mut port), port.outstanding()), (2, 0));
}

#[test]
fn takes_no_more_than_memory_and_max_allow() {
    let mut memory = HeapMemory::new(3, 100);
    let (mut port, wire) = LoopbackPort::new();
    (0..5).for_each(|_| wire.inject([0; 60]));
    assert_eq!(receive(&mut port, &mut memory, 2).len(), 2);
    assert_eq!((receive(&mut port, &mut memory, 2).len(), wire.waiting()), (1, 2));
}

#[test]
fn injects_faults() {
    let mut memory = HeapMemory::new(4, 100);
    let (mut port, wire) = LoopbackPort::new();
    (0..4).for_each(|i| wire.inject([i; 60]));
    let mut frames = outgoing(receive(&mut port, &mut memory, 4));
    wire.set_transmit_room(5);
    assert_eq!(port.transmit_room(), 5);
    port.transmit(&mut memory, &mut frames);
    assert_eq!(port.transmit_room(), 1);

    wire.block(true);
    port.kick();
    assert_eq!(port.kernel_counters().tx_again, 1);
    wire.block(false);
    wire.lose(1);
    wire.hold_completions(true);
    port.kick();
    assert_eq!(port.kernel_counters().tx_busy, 1);
    receive(&mut port, &mut memory, 4);
    assert_eq!((completed(&mut port), port.outstanding()), (0, 4));
    wire.hold_completions(false);
    let mut lost = Vec::new();
    assert_eq!(completed(&mut port), 3);
    port.take_lost(&mut lost);
    assert_eq!((lost.len(), port.outstanding()), (1, 0));
    assert_eq!(wire.take_sent(), [[1; 60], [2; 60], [3; 60]]);

    wire.go_down();
    assert_eq!((port.is_up(), port.transmit_room()), (false, 0));
}

#[test]
fn close_gives_every_frame_back() {
    let mut memory = HeapMemory::new(4, 100);
    let (mut port, wire) = LoopbackPort::new();
    (0..3).for_each(|i| wire.inject([i; 60]));
    let mut frames = outgoing(receive(&mut port, &mut memory, 4));
    let mut later = frames.split_off(2);
    port.transmit(&mut memory, &mut frames);
    port.kick();
    port.transmit(&mut memory, &mut later);
    let mut unsent = Vec::new();
    port.close(&mut memory, &mut unsent);
    assert_eq!((unsent.len(), port.frames_held(), port.is_up()), (3, 0, false));
    assert_eq!(wire.take_sent(), [[0; 60], [1; 60]], "what was kicked has left");
}
