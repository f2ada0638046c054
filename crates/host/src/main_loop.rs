//! The environment of a host: its interface, the clock, signals, standard input and output.

use crate::args::Args;
use crate::host::{Host, HostSettings};
use crate::report::{HostReport, ReportLine};
use crate::text_report;
use anyhow::{Context, anyhow, bail};
use dataplane::{Port, Sleeper};
use nix::sys::signal::{SigSet, Signal};
use nix::time::{ClockId, clock_gettime};
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Waker;
use switch::{HeapMemory, Instant, Nanos};
use virtio::front_end::port::FrontEndPort;
use virtio::front_end::{FrontEnd, FrontEndSettings};
use wire::MacAddr;
use xdp::{MAX_POSTED, PortConfig, Umem, Waiter, XdpPort};

/// Frames of a host's memory for each RX queue: a full fill ring, and as many in the RX ring.
const FRAMES_PER_QUEUE: usize = 2 * MAX_POSTED;
/// Bytes of the virtio header before each frame.
const VIRTIO_HEADER: u16 = 12;
/// Bytes of a driver's buffers: for frames of an ordinary length, or for all, as each is sent in
/// one.
const ORDINARY_BUFFER_BYTES: u32 = 2048;
const JUMBO_BUFFER_BYTES: u32 = 10_240;
/// Frames of a host's memory for transmission.
const OWN_FRAMES: usize = 4_096;
/// How long a sender sends by default.
const DEFAULT_DURATION_NS: Nanos = 10_000_000_000;
/// The longest sleep, since the port checks its interface when it is polled for frames.
const LONGEST_SLEEP_NS: Nanos = 100_000_000;
/// A shorter wait than this is not worth a system call.
const SHORTEST_SLEEP_NS: Nanos = 2_000;

/// Runs `sluice host`. Blocks SIGINT, SIGTERM and SIGUSR1 in the calling thread. A process that has
/// other threads starts them after this call, or blocks these signals there too.
///
/// # Errors
/// The options contradict each other, the interface cannot be used, or it disappears during the
/// run.
pub fn run(args: Args) -> anyhow::Result<()> {
    let waiter = Waiter::new().context("making the waiter")?;
    let orders = HostControl::new(args.wait, waiter.waker());
    orders.watch_signals()?;
    if args.wait {
        orders.watch_input();
    }
    run_with(&args, waiter, &orders, &mut std::io::stdout())
}

/// Runs a host on the calling thread and in its network namespace, controlled by `orders`, which
/// wake `waiter`. The report is written to `out`.
///
/// # Errors
/// Same as [`run`].
pub fn run_with(
    args: &Args,
    mut waiter: Waiter,
    orders: &HostControl,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    args.check().map_err(|problem| anyhow!(problem))?;
    if let Some(core) = args.core {
        xdp::set_affinity(core)
            .with_context(|| format!("--core {core}: `nproc` prints the number of cores; the first is 0"))?;
    }
    xdp::set_timer_slack(1).context("setting the timer slack")?;

    let output = Output { out, json: args.json, before: HostReport::default() };
    match &args.vhost {
        Some(socket) => on_socket(args, socket, (&mut waiter, orders), output),
        None => on_interface(args, (&mut waiter, orders), output),
    }
}

/// Runs a host on an interface.
fn on_interface(
    args: &Args,
    (waiter, orders): (&mut Waiter, &HostControl),
    output: Output,
) -> anyhow::Result<()> {
    let interface = args.name();
    let frame_bytes = xdp::frame_bytes_for([interface])?;
    let frames = xdp::queues_of(interface)? as usize * FRAMES_PER_QUEUE + OWN_FRAMES;
    let mut memory = Umem::new(frames, frame_bytes)?;
    // The host shares its core with other threads, so frames that arrive while it is not running
    // need posted chunks. PFC frames have a group address, which a NIC receives only in promiscuous
    // mode.
    let setup = PortConfig { min_posted: MAX_POSTED as u32, promiscuous: true, ..PortConfig::default() };
    let port = XdpPort::open(&mut memory, interface, &setup)?;
    let host = Host::new(settings(args)?, port, memory, frames, now());
    if !run_to_end(host, frames, (waiter, orders), output, args.interval)? {
        bail!("interface {interface} went down or away while the host ran; `ip link` shows its state");
    }
    Ok(())
}

/// Runs a host that is the virtio driver of a port of the switch.
fn on_socket(
    args: &Args,
    socket: &Path,
    (waiter, orders): (&mut Waiter, &HostControl),
    output: Output,
) -> anyhow::Result<()> {
    let longest = args.flows.iter().map(|flow| flow.size_bytes).max().unwrap_or_default();
    let buffer_bytes = if longest > ORDINARY_BUFFER_BYTES as u16 - VIRTIO_HEADER {
        JUMBO_BUFFER_BYTES
    } else {
        ORDINARY_BUFFER_BYTES
    };
    let driver =
        FrontEndSettings { queue_pairs: args.queue_pairs(), buffer_bytes, ..FrontEndSettings::default() };
    let front_end = FrontEnd::connect(socket, driver).with_context(|| {
        format!(
            "--vhost {}: is it the socket of a port, with vhost.queues = \"{}\" (--vhost-queues)?",
            socket.display(),
            args.vhost_queues.name()
        )
    })?;
    let frames = driver.queue_pairs * usize::from(driver.ring_size) + OWN_FRAMES;
    let memory = HeapMemory::new(frames, JUMBO_BUFFER_BYTES as usize);
    let host = Host::new(settings(args)?, FrontEndPort::new(front_end), memory, frames, now());
    if !run_to_end(host.with_queues_of_port(), frames, (waiter, orders), output, args.interval)? {
        bail!("the switch closed the socket {} while the host ran", socket.display());
    }
    Ok(())
}

/// Runs a host, whose memory has this number of frames, until it is done, and prints its report.
/// Returns true if its port is still up.
fn run_to_end<P: Port>(
    mut host: Host<P>,
    frames: usize,
    (waiter, orders): (&mut Waiter, &HostControl),
    mut output: Output,
    interval_ns: Nanos,
) -> anyhow::Result<bool> {
    waiter.watch([host.port()]);
    let is_up = run_loop(&mut host, waiter, orders, &mut output, interval_ns)?;
    let at = now();
    host.close();
    output.print(ReportLine::Final(host.report(at)))?;
    if host.free_frames() != frames {
        bail!("{} of {frames} frames came back: a bug", host.free_frames());
    }
    Ok(is_up)
}

fn settings(args: &Args) -> anyhow::Result<HostSettings> {
    let mac = match args.mac {
        Some(mac) => mac,
        None => interface_mac(args.name())?,
    };
    if args.flows.iter().any(|flow| flow.to == mac) {
        bail!(
            "--flow to={mac}: this is the host's own address; name another host's, or give this one another by --mac"
        );
    }
    let sends = !args.flows.is_empty() || !args.storm.is_empty();
    Ok(HostSettings {
        interface: args.name().to_owned(),
        mac,
        flows: args.flows.clone(),
        speed_bps: args.speed,
        honored: args.honored(),
        dcbx: args.dcbx,
        honors_pause: args.flow_control,
        stormed: args.stormed(),
        reacts: args.react_to_ecn,
        reaction_delay_ns: args.reaction_delay,
        duration_ns: args.duration.or(sends.then_some(DEFAULT_DURATION_NS)),
        linger_ns: args.linger,
        run: std::process::id() ^ now().0 as u32,
    })
}

/// Runs the loop: iterations with sleep in between, until the host is done. Returns true if its
/// interface is still up.
fn run_loop<P: Port>(
    host: &mut Host<P>,
    waiter: &mut Waiter,
    orders: &HostControl,
    output: &mut Output,
    interval_ns: Nanos,
) -> anyhow::Result<bool> {
    let mut report_at = Instant::NEVER;
    let mut announced = false;
    while !host.is_done() {
        let at = host.receive(now);
        host.send(at);

        if !announced && host.is_ready() {
            announced = true;
            output.print(ReportLine::Ready { mac: host.report(at).mac })?;
        }
        if host.is_waiting() && announced && orders.may_begin() {
            host.begin(at);
            report_at = if interval_ns == 0 { Instant::NEVER } else { at + interval_ns };
        }
        if at >= report_at {
            output.print(ReportLine::Progress(host.report(at)))?;
            report_at = report_at + interval_ns;
        }
        if orders.must_stop() || !host.is_up() {
            host.stop(at);
        }
        sleep(host, waiter, host.next_turn(at).min(report_at))?;
    }
    Ok(host.is_up())
}

/// Sleeps until `until`, a frame, or a command.
fn sleep<P: Port>(host: &mut Host<P>, waiter: &mut Waiter, until: Instant) -> anyhow::Result<()> {
    let left_ns = until.since(now()).min(LONGEST_SLEEP_NS);
    if left_ns < SHORTEST_SLEEP_NS {
        return Ok(());
    }
    let waited = if host.prepare_sleep() { waiter.wait(left_ns).map(drop) } else { Ok(()) };
    host.cancel_sleep();
    waited.context("waiting for frames")
}

/// Returns CLOCK_MONOTONIC, which all processes of the machine share, so that hosts can compare
/// timestamps.
fn now() -> Instant {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    Instant(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Commands of the user to a running host. Clones control the same host.
#[derive(Debug, Clone)]
pub struct HostControl {
    begin: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    waker: Waker,
}

impl HostControl {
    /// Creates the commands to the host that sleeps in the waiter of `waker`. The host may begin,
    /// unless it is to `wait`.
    pub fn new(wait: bool, waker: Waker) -> Self {
        Self { begin: Arc::new(AtomicBool::new(!wait)), stop: Arc::new(AtomicBool::new(false)), waker }
    }

    /// Begins to send.
    pub fn begin(&self) {
        self.begin.store(true, Relaxed);
        self.waker.wake_by_ref();
    }

    /// Stops sending, reports and ends.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
        self.waker.wake_by_ref();
    }

    fn may_begin(&self) -> bool {
        self.begin.load(Relaxed)
    }

    fn must_stop(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Handles signals: SIGUSR1 begins, SIGINT and SIGTERM stop. A thread takes them, so that no
    /// handler interrupts the loop.
    fn watch_signals(&self) -> anyhow::Result<()> {
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1] {
            signals.add(signal);
        }
        signals.thread_block().context("blocking signals")?;
        let orders = self.clone();
        std::thread::spawn(move || {
            while let Ok(signal) = signals.wait() {
                if signal == Signal::SIGUSR1 { orders.begin() } else { orders.stop() }
            }
        });
        Ok(())
    }

    /// Begins on a line on standard input. After its end without a line, only SIGUSR1 begins.
    fn watch_input(&self) {
        let orders = self.clone();
        std::thread::spawn(move || {
            let mut line = String::new();
            if std::io::stdin().lock().read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                orders.begin();
            }
        });
    }
}

/// Destination and format of the report.
struct Output<'a> {
    out: &'a mut dyn Write,
    json: bool,
    /// The previous report, for the changes since.
    before: HostReport,
}

impl Output<'_> {
    fn print(&mut self, line: ReportLine) -> anyhow::Result<()> {
        let mut text = if self.json { serde_json::to_string(&line)? } else { self.text_form(&line) };
        text.push('\n');
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).context("writing the report")?;
        if let ReportLine::Progress(report) = line {
            self.before = report;
        }
        Ok(())
    }

    fn text_form(&self, line: &ReportLine) -> String {
        match line {
            ReportLine::Ready { mac } => format!("ready as {mac}"),
            ReportLine::Progress(report) => text_report::progress(&self.before, report),
            ReportLine::Final(report) => text_report::report(report).trim_end().into(),
        }
    }
}

/// Returns the MAC address of `interface` in this network namespace.
fn interface_mac(interface: &str) -> anyhow::Result<MacAddr> {
    let addresses = nix::ifaddrs::getifaddrs().context("listing the interfaces")?;
    addresses
        .filter(|address| address.interface_name == interface)
        .find_map(|address| Some(MacAddr(address.address?.as_link_addr()?.addr()?)))
        .filter(|mac| !mac.is_zero())
        .with_context(|| {
            format!(
                "interface {interface} has no MAC address; give the host one, such as --mac 02:00:00:00:00:01"
            )
        })
}
