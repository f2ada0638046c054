//! A storm of PFC frames: the cost of each for the receiving host, by the kernel's own BPF run
//! times, and that nothing else stops. The far end is an AF_XDP port, like a switch; with `--shift
//! -3` the one CPU carries a million frames a second, including sending and receiving them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dataplane::Port;
use switch::{FrameId, FrameMemory, RxDesc, TxDesc};
use testbed::{Endpoint, Namespace, PATIENCE};
use wire::MacAddr;
use wire::pause::{FRAME_BYTES, Pfc};
use xdp::{PortConfig, Umem, XdpPort};

use crate::cable::{Cable, FAR};
use crate::lab::{Full, NO_DROP_TOS, Sent, attach, nic, priorities, send, show};

/// A quarter of a second at a million a second.
const FRAMES: u64 = 250_000;
const APART_NS: u64 = 1_000;
/// How long the host sends meanwhile.
const SENDING: Duration = Duration::from_millis(200);

/// The far end of a cable: sends XOFF and XON of priority 3 alternately, and counts what it
/// receives.
struct FarEnd {
    umem: Umem,
    port: XdpPort,
    /// Free frames, in the order in which they are sent.
    idle: VecDeque<FrameId>,
    received: Vec<RxDesc>,
    sent: u64,
    /// Frames of these that the kernel lost.
    lost: u64,
    no_drop: u64,
    beside: u64,
}

impl FarEnd {
    fn new(at: &Namespace) -> Result<Self> {
        let mut umem = Umem::new(16_384, 2048)?;
        let (mut umem, port) = at.enter(move || {
            let port = XdpPort::open(&mut umem, Endpoint::INTERFACE, &PortConfig::default())?;
            Ok::<_, xdp::Error>((umem, port))
        })??;
        let mut idle = VecDeque::new();
        for number in 0..1024 {
            let mut quanta = [0; 8];
            quanta[3] = if number % 2 == 0 { u16::MAX } else { 0 };
            let frame = umem.alloc().context("memory")?;
            let bytes = umem.bytes_mut(&frame, FRAME_BYTES).first_chunk_mut().context("a frame")?;
            Pfc { enable: 1 << 3, quanta }.encode(MacAddr([2, 0, 0, 0, 0, 0x99]), bytes);
            idle.push_back(frame);
        }
        Ok(Self { umem, port, idle, received: Vec::new(), sent: 0, lost: 0, no_drop: 0, beside: 0 })
    }

    /// Sends what is due, and takes what has arrived.
    fn turn(&mut self, now: Instant, due: u64) {
        let mut completed = Vec::new();
        self.port.complete(&mut completed);
        let left = completed.len();
        self.port.take_lost(&mut completed);
        self.lost += (completed.len() - left) as u64;
        self.idle.extend(completed);
        let room = self.port.transmit_room().min(self.idle.len()).min(64);
        let count = (due - self.sent).min(room as u64) as usize;
        let len = FRAME_BYTES as u16;
        let mut outgoing = self.idle.drain(..count).map(|frame| TxDesc::new(frame, len)).collect();
        self.port.transmit(&mut self.umem, &mut outgoing);
        self.port.kick();
        self.sent += count as u64;
        let now = switch::Instant(now.elapsed().as_nanos() as u64);
        self.port.receive(&mut self.umem, now, 256, &mut self.received);
        for received in self.received.drain(..) {
            match self.umem.bytes_mut(&received.frame, 16) {
                [.., 0x08, 0x00, _, NO_DROP_TOS] => self.no_drop += 1,
                [.., 0x08, 0x00, _, _] => self.beside += 1,
                _ => {}
            }
            self.umem.free(received.frame);
        }
    }

    /// Runs the whole storm and returns how long it took.
    fn storm(&mut self) -> Duration {
        let start = Instant::now();
        while self.sent < FRAMES {
            let due = start.elapsed().as_nanos() as u64 / APART_NS;
            self.turn(start, due.clamp(self.sent, FRAMES));
        }
        start.elapsed()
    }

    /// Continues until everything sent to it has arrived.
    fn settle(&mut self, no_drop: u64, beside: u64) -> Result<()> {
        let start = Instant::now();
        while (self.no_drop, self.beside) != (no_drop, beside) || self.port.outstanding() > 0 {
            self.turn(start, self.sent);
            let (three, zero) = (self.no_drop, self.beside);
            ensure!(start.elapsed() < PATIENCE, "{three} of {no_drop} and {zero} of {beside} arrived");
        }
        Ok(())
    }
}

/// Returns the run times of our programs so far, in nanoseconds, and their run counts: the ingress
/// program with all that it triggers.
fn run_times() -> Result<Vec<(String, u64, u64)>> {
    let listed = std::process::Command::new("bpftool").args(["-j", "prog", "list"]).output()?;
    let programs: serde_json::Value = serde_json::from_slice(&listed.stdout)?;
    let timed = programs.as_array().context("a list")?.iter().filter_map(|program| {
        let name = program["name"].as_str()?.to_owned();
        Some((name, program["run_time_ns"].as_u64()?, program["run_cnt"].as_u64()?))
    });
    Ok(timed.filter(|(name, _, count)| name.starts_with("sluice_nic") && *count > 0).collect())
}

/// With no frames of the priority to send, and with a sender that sends as much of it as it may:
/// then each XON makes the qdisc run.
#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm --shift -3 storm"]
fn a_storm_stops_nothing_else() -> Result<()> {
    std::fs::write("/proc/sys/kernel/bpf_stats_enabled", "1")?;
    for is_sending in [false, true] {
        let cable = Cable::new(1)?;
        let near = &cable.near;
        attach(&near.namespace, "--speed 1G --trust dscp")?;
        let mut far = FarEnd::new(&cable.far)?;
        let (elapsed, no_drop, beside) = std::thread::scope(|scope| {
            let beside =
                scope.spawn(move || send(near, FAR, 0, Full::Block, SENDING, Duration::from_millis(1)));
            let no_drop = scope.spawn(move || match is_sending {
                true => send(near, FAR, NO_DROP_TOS, Full::Block, SENDING, Duration::ZERO),
                false => Ok(Sent::default()),
            });
            let elapsed = far.storm();
            (elapsed, no_drop.join().expect("a sender"), beside.join().expect("a sender"))
        });
        let (no_drop, beside) = (no_drop?.frames, beside?.frames);
        far.settle(no_drop, beside)?;
        let shown = show(&near.namespace)?;
        let rate = FRAMES as f64 / elapsed.as_secs_f64();
        println!(
            "    {FRAMES} PFC frames, {rate:.0} a second, {} of them lost; {}; arrived: {no_drop} of priority 3, {beside} beside",
            far.lost, shown["heard"]
        );
        for (name, ns, count) in run_times()? {
            let share = 100.0 * ns as f64 / elapsed.as_nanos() as f64;
            println!("    {name}: {} ns each, {count} times, {share:.1} % of the CPU", ns / count);
        }
        ensure!(beside > 100 && (no_drop > 100) == is_sending, "{no_drop} and {beside} were sent");
        assert_eq!(shown["heard"]["pfc_frames"], FRAMES - far.lost);
        assert_eq!(far.lost, 0);
        assert_eq!(priorities(&shown, "xon_frames")[3], FRAMES / 2);
        assert_eq!(priorities(&shown, "dropped_frames"), [0; 8]);
        nic(&format!("detach eth0 --netns {}", near.namespace.name()))?;
    }
    Ok(())
}
