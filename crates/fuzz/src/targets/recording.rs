//! A recording of the flight recorder, after its decompression and without its title line, which
//! names the version.
//!
//! Rule: whatever is in the file, a replay ends with a result or an error, and with bounded memory.
//! The switch may panic only if the state of a checkpoint is forged.

use std::cell::Cell;
use std::io::{Cursor, Read};
use std::sync::{LazyLock, Once};
use std::task::Waker;

use dataplane::flight_recorder::error::Error;
use dataplane::flight_recorder::recorder::title;
use dataplane::flight_recorder::segments::STATE;
use dataplane::{
    ChunkPool, LoopCommand, PollLoop, PollLoopSettings, Recorder, Replay, Reply, Segments, mailbox,
};
use switch::settings::{BridgeSettings, BufferSettings, PortSettings, SwitchSettings, Threshold};
use switch::{HeapMemory, Instant, Switch};
use wire::MacAddr;
use wire::ethernet::{EXPERIMENTAL, Tag, write_header};
use wire::pause::{FRAME_BYTES, Pfc};

use crate::loopback_port::LoopbackPort;

const PORTS: usize = 2;
const FRAMES: usize = 24;

/// Replays a recording to its end, and looks at the switch.
pub fn run(bytes: &[u8]) {
    let title = title();
    let source = Cursor::new(title.as_bytes()).chain(bytes);
    let Ok(mut replay) = Replay::new(source) else { panic!("the title is that of this version") };
    let ended = quietly(|| replay.run_until(Instant::NEVER, &mut |_, _| ()));
    match ended {
        Ok(()) => drop(replay.snapshot()),
        Err(Error::Panicked(message)) => assert!(!has_genuine_state(bytes), "{message}"),
        Err(_) => {}
    }
}

/// True if the chunks of state in a recording are those of a seed.
fn has_genuine_state(bytes: &[u8]) -> bool {
    static GENUINE: LazyLock<Vec<Vec<u8>>> =
        LazyLock::new(|| seeds().iter().map(|seed| states(seed)).collect());
    GENUINE.contains(&states(bytes))
}

/// Returns the chunks of state in a recording.
fn states(mut rest: &[u8]) -> Vec<u8> {
    let mut states = Vec::new();
    while let Some((&[kind, len @ ..], after)) = rest.split_first_chunk::<5>() {
        let len = after.len().min(u32::from_le_bytes(len) as usize);
        if kind == STATE {
            states.extend(&after[..len]);
        }
        rest = &after[len..];
    }
    states
}

thread_local! {
    /// Panics of this thread are caught, and not reported.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a replay, which catches what panics in it. The hook would report each, and libFuzzer's
/// would end the process.
fn quietly<T>(replay: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_QUIET.get() {
                before(panic);
            }
        }));
    });
    IS_QUIET.set(true);
    let result = replay();
    IS_QUIET.set(false);
    result
}

/// Recordings of a small switch: an incast with a pause, and nothing at all.
pub fn seeds() -> Vec<Vec<u8>> {
    vec![recording(0), recording(12)]
}

fn mac(port: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 9, port as u8])
}

fn settings() -> SwitchSettings {
    let ports = (0..PORTS).map(|number| {
        let mut port = PortSettings::new(format!("p{number}"), Some(1_000_000_000));
        (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (true, true, 8);
        let group = &mut port.groups[3];
        (group.reserved_cells, group.headroom_cells, group.xoff) = (0, 4, Threshold::Static(2));
        port
    });
    SwitchSettings {
        buffer: BufferSettings { total_cells: 24, fixed_cells: 0, headroom_cells: 8, ..Default::default() },
        bridge: BridgeSettings { max_entries: 4, max_entries_per_port: 4, ..Default::default() },
        usage_percent: 70,
        alarms: Default::default(),
        seed: 0,
        ports: ports.collect(),
    }
}

/// Records a loop while `frames` frames cross it.
fn recording(frames: usize) -> Vec<u8> {
    let switch = Switch::new(&settings(), &[mac(10), mac(11)], FRAMES);
    let (ports, wires): (Vec<_>, Vec<_>) = (0..PORTS).map(|_| LoopbackPort::new()).unzip();
    let (mut handle, mailbox) = mailbox(Waker::noop().clone());
    let loop_settings =
        PollLoopSettings { complete_checksums: vec![true; PORTS], ..PollLoopSettings::default() };
    let memory = HeapMemory::new(FRAMES, 2048);
    let mut core = PollLoop::new(switch, ports, memory, FRAMES, mailbox, loop_settings);
    let pool = ChunkPool::new(4);
    let mut now = Instant(5_000_000);
    let mut iterate = |iterations: usize| {
        for _ in 0..iterations {
            now = now + 1_000;
            core.iterate_with_clock(now, &|| now);
        }
    };
    let recorder = Recorder::new(pool.clone(), PORTS);
    handle.send(LoopCommand::Record(Some(Box::new(recorder)))).expect("room for a command");
    iterate(2);
    for frame in 0..frames {
        let mut bytes = vec![0; 300];
        write_header(
            &mut bytes,
            mac((frame + 1) % PORTS),
            mac(frame % PORTS),
            Some(Tag::priority(3)),
            EXPERIMENTAL,
        );
        wires[frame % PORTS].inject(bytes);
        let mut pfc = [0; FRAME_BYTES];
        Pfc { enable: 8, quanta: [100 * (frame as u16 % 2); 8] }.encode(mac(0), &mut pfc);
        wires[0].inject(pfc);
        iterate(3);
    }
    handle.send(LoopCommand::Record(None)).expect("room for a command");
    iterate(20);
    let ended =
        std::iter::from_fn(|| handle.receive()).any(|reply| matches!(reply, Reply::Recorded(Some(_))));
    assert!(ended, "the recording has ended");
    let mut segments = Segments::default();
    while let Some(chunk) = pool.pop_full() {
        segments.push(&chunk);
    }
    segments.recording().concat()[title().len()..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seeds are recordings that a replay accepts to the end.
    #[test]
    fn the_seeds_are_replayed() {
        for (seed, received) in seeds().into_iter().zip([0, 24]) {
            let bytes = [title().into_bytes(), seed].concat();
            let mut replay = Replay::new(&bytes[..]).expect("a recording");
            replay.run_until(Instant::NEVER, &mut |_, _| ()).expect("no difference");
            assert_eq!(replay.totals().received_frames, received);
        }
    }
}
