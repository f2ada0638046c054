//! The shell around a host: its interface, the clock, signals, standard input and output.

use crate::args::Args;
use crate::host::{Host, HostSettings};
use crate::report::{Line, Report};
use crate::table;
use anyhow::{Context, anyhow, bail};
use nix::sys::signal::{SigSet, Signal};
use nix::time::{ClockId, clock_gettime};
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use switch::{Instant, Nanos};
use wire::MacAddr;
use xdp::{PortIo, PortSetup, Umem, Waiter, Waker, XdpPort};

/// Frames of a host's memory: a full fill ring (8192), as much again in the RX ring, and what is on its way out.
const FRAMES: usize = 20_480;
/// How long a sender sends unless told otherwise.
const DEFAULT_DURATION_NS: Nanos = 10_000_000_000;
/// The longest sleep: the port looks after its interface when it is asked for frames.
const LONGEST_SLEEP_NS: Nanos = 100_000_000;
/// A shorter wait than this is not worth a system call.
const SHORTEST_SLEEP_NS: Nanos = 2_000;

/// Runs `sluice host`. Blocks SIGINT, SIGTERM and SIGUSR1 in the calling thread; a process that has other threads
/// starts them after this, or blocks these signals there, too.
///
/// # Errors
/// The options contradict each other, the interface cannot be used, or it goes while the host runs.
pub fn run(args: Args) -> anyhow::Result<()> {
    args.check().map_err(|problem| anyhow!(problem))?;
    let mut waiter = Waiter::new().context("making the waiter")?;
    let orders = Orders::watch(args.wait, waiter.waker())?;
    if let Some(core) = args.core {
        xdp::set_affinity(core)
            .with_context(|| format!("--core {core}: `nproc` says how many cores there are, from 0"))?;
    }
    xdp::set_timer_slack(1).context("setting the timer slack")?;

    let frame_bytes = xdp::frame_bytes_for([args.interface.as_str()])?;
    let mut memory = Umem::new(FRAMES, frame_bytes)?;
    let port = XdpPort::open(&mut memory, &args.interface, &PortSetup::default())?;
    let settings = settings(&args)?;
    let mut host = Host::new(settings, port, memory, FRAMES, now());
    waiter.watch([host.port()]);
    let output = Output { json: args.json, before: Report::default() };
    let result = drive(&mut host, &mut waiter, &orders, output, args.interval);
    host.close();
    result
}

fn settings(args: &Args) -> anyhow::Result<HostSettings> {
    let mac = match args.mac {
        Some(mac) => mac,
        None => interface_mac(&args.interface)?,
    };
    let sends = !args.flows.is_empty();
    Ok(HostSettings {
        interface: args.interface.clone(),
        mac,
        flows: args.flows.clone(),
        speed_bps: args.speed,
        obeyed: args.obeyed(),
        reaction_delay_ns: args.reaction_delay,
        duration_ns: args.duration.or(sends.then_some(DEFAULT_DURATION_NS)),
        linger_ns: args.linger,
        run: std::process::id() ^ now().0 as u32,
    })
}

/// The loop: turn after turn, asleep in between, until the host is done.
fn drive(
    host: &mut Host<XdpPort>,
    waiter: &mut Waiter,
    orders: &Orders,
    mut output: Output,
    interval_ns: Nanos,
) -> anyhow::Result<()> {
    let mut report_at = Instant::NEVER;
    let mut announced = false;
    while !host.is_done() {
        host.collect(now());
        let at = now();
        host.judge(at);
        host.send(at);

        if !announced && host.is_ready() {
            announced = true;
            output.print(Line::Ready { mac: host.report(at).mac })?;
        }
        if host.is_waiting() && announced && orders.may_begin() {
            host.begin(at);
            report_at = if interval_ns == 0 { Instant::NEVER } else { at + interval_ns };
        }
        if at >= report_at {
            output.print(Line::Progress(host.report(at)))?;
            report_at = report_at + interval_ns;
        }
        if orders.must_stop() || !host.is_up() {
            host.stop(at);
        }
        sleep(host, waiter, host.next_turn(at).min(report_at))?;
    }
    let is_up = host.is_up();
    let at = now();
    host.close();
    let report = host.report(at);
    let interface = report.interface.clone();
    output.print(Line::Final(report))?;
    if !is_up {
        bail!("interface {interface} went down or away while the host ran; `ip link` shows its state");
    }
    Ok(())
}

/// Sleeps until `until`, a frame, or an order.
fn sleep(host: &Host<XdpPort>, waiter: &mut Waiter, until: Instant) -> anyhow::Result<()> {
    let left_ns = until.since(now()).min(LONGEST_SLEEP_NS);
    if left_ns < SHORTEST_SLEEP_NS {
        return Ok(());
    }
    if host.port().outstanding() > 0 {
        // Polling would send frames behind the port's back; this is short, and rare.
        std::thread::sleep(Duration::from_nanos(left_ns));
    } else {
        waiter.wait(left_ns).context("waiting for frames")?;
    }
    Ok(())
}

/// CLOCK_MONOTONIC, the same for all processes of the machine, so that one host's timestamp means something to another.
fn now() -> Instant {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    Instant(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// What the user tells a running host.
#[derive(Debug)]
struct Orders {
    begin: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl Orders {
    /// Watches signals and, if the host is to `wait` for it, standard input. Threads started later do not get these
    /// signals.
    fn watch(wait: bool, waker: Waker) -> anyhow::Result<Self> {
        let orders = Self { begin: Arc::new(AtomicBool::new(!wait)), stop: Arc::new(AtomicBool::new(false)) };
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1] {
            signals.add(signal);
        }
        signals.thread_block().context("blocking signals")?;
        if wait {
            let (begin, waker) = (Arc::clone(&orders.begin), waker.clone());
            std::thread::spawn(move || {
                let mut line = String::new();
                // At the end of the input without a line, only SIGUSR1 is left.
                if std::io::stdin().lock().read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                    begin.store(true, Relaxed);
                    waker.wake();
                }
            });
        }
        let (begin, stop) = (Arc::clone(&orders.begin), Arc::clone(&orders.stop));
        std::thread::spawn(move || {
            while let Ok(signal) = signals.wait() {
                let order = if signal == Signal::SIGUSR1 { &begin } else { &stop };
                order.store(true, Relaxed);
                waker.wake();
            }
        });
        Ok(orders)
    }

    fn may_begin(&self) -> bool {
        self.begin.load(Relaxed)
    }

    fn must_stop(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

/// Standard output.
#[derive(Debug)]
struct Output {
    json: bool,
    before: Report,
}

impl Output {
    fn print(&mut self, line: Line) -> anyhow::Result<()> {
        let mut text = if self.json { serde_json::to_string(&line)? } else { self.for_people(&line) };
        text.push('\n');
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("writing the report")?;
        if let Line::Progress(report) = line {
            self.before = report;
        }
        Ok(())
    }

    fn for_people(&self, line: &Line) -> String {
        match line {
            Line::Ready { mac } => format!("ready as {mac}"),
            Line::Progress(report) => table::progress(&self.before, report),
            Line::Final(report) => table::report(report).trim_end().into(),
        }
    }
}

/// The address of `interface` in this network namespace.
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
