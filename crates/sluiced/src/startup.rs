//! The daemon from its start to its totals.
//!
//! Order of the start: first all checks that touch no interface; then memory, ports, control
//! socket; then an end of all privileges that nothing needs later; then guests, threads, loop. Each
//! step is undone when a later one fails.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use config::Config;
use control::Journal;
use control::server::{self, DaemonInfo, MAX_REQUESTS};
use dataplane::{Heartbeat, LoopPort, PollLoop, PollLoopSettings, Port, PuntRings, mailbox};
use switch::Switch;
use switch::settings::MAX_PORTS;
use telemetry::{Device, Settings, Sources, Telemetry};
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info, warn};
use xdp::{Umem, Waiter, XdpPort};

use crate::capabilities::{self, Capabilities};
use crate::control_loop::running_config::RunningConfig;
use crate::control_loop::{self, ControlLoop, Signals};
use crate::control_socket::{self, Permissions};
use crate::event_log::Events;
use crate::host_settings::ChangedSettings;
use crate::lldp::Lldp;
use crate::log::Log;
use crate::loop_threads::{LoopThreads, check_core, guard_cores};
use crate::pfc_probe;
use crate::ports::core_assignment::{AssignedPorts, assign, watched};
use crate::ports::interface::look_up;
use crate::ports::link_monitor::LinkMonitor;
use crate::ports::open_ports::{self, OpenPorts};
use crate::ports::supervisor::{PortSupervisor, StartedPort};
use crate::ports::vhost::VhostSockets;
use crate::ports::worker::PortWorker;
use crate::service::ServiceManager;
use crate::stall_check::Stalls;
use crate::stall_guard::{Guard, PortTap};
use crate::telemetry_events::TelemetryEvents;
use crate::totals;

/// The most time that clients have to receive the end of the switch.
const API_PATIENCE: Duration = Duration::from_millis(500);

/// How the daemon ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaemonEnd {
    /// Stopped by a signal, with its totals printed.
    Stopped,
    /// A second signal forced the end.
    Forced,
}

/// Runs a switch until a signal stops it, and prints its totals. A `strict` start fails if an
/// interface is missing or down.
///
/// # Errors
/// The switch could not start, or could not continue; nothing is left behind.
pub fn run((config, text): (Config, &str), file: &Path, strict: bool, log: &Log) -> Result<DaemonEnd> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(run_live(RunningConfig::new(config, file).with_text(text), strict, log));
    runtime.shutdown_background();
    done
}

async fn run_live(live: RunningConfig, strict: bool, log: &Log) -> Result<DaemonEnd> {
    let started = Instant::now();
    let config = &live.config().clone();
    let cores = &config.dataplane.cores;
    let core = cores.first().copied().context("dataplane.cores names no core")?;
    cores.iter().try_for_each(|&core| check_core(core))?;
    Capabilities::effective().must_suffice(config)?;
    control_socket::must_be_free(&config.control.path)?;
    let permissions = Permissions::look_up(&config.control)
        .map_err(|unknown| anyhow::anyhow!("{}: {}", unknown.setting, unknown.what))?;
    let interfaces = look_up(&config.interfaces)?;
    let mut live = live;
    for (slot, interface) in interfaces.iter().enumerate() {
        interface.iter().for_each(|interface| live.set_interface(slot, interface));
    }
    let heartbeats: Vec<_> = cores.iter().map(|_| Arc::new(Heartbeat::default())).collect();
    let loops = cores.iter().copied().zip(heartbeats.iter().cloned()).collect();
    let dataplane = &config.dataplane;
    let (scheduling, has_guard) = (dataplane.scheduling, dataplane.pauses_on_overload);
    let stalls = Stalls::measure_cores(&live.settings().switch, loops, scheduling, has_guard)?;

    // From here on there is something to undo, so a signal waits until the loop can be stopped.
    let mut signals = Signals::new()?;
    let queues_set_aside = open_ports::queues_set_aside(config, &interfaces);
    let mut changed = ChangedSettings::new(&config.control.path)?;
    let mut open = OpenPorts::open(config, &interfaces, strict, &mut changed)?;
    let ports_at_start = open.started(config, interfaces.clone());
    let queues: Vec<u32> = ports_at_start.iter().map(|port| port.queues).collect();
    let live = live.with_queues(&queues);
    let (listener, socket_file) = control_socket::bind(&config.control.path, permissions)?;
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    // After the memory, whose first socket takes CAP_SYS_ADMIN for a namespace of its own: on the
    // `lo` of this one there may be another daemon's. Before any thread but the log's.
    let live = live.with_given_up(capabilities::give_up_unneeded(config)?);

    let waiter = Waiter::new().context("a way to sleep")?;
    let (handle, core_mailbox) = mailbox(waiter.waker());
    if let Err(error) = xdp::lock_memory() {
        warn!(%error, "memory is not locked: the loop stalls when the kernel swaps it out");
    }
    let clock = move || switch::Instant(started.elapsed().as_nanos() as u64);
    let taps = taps(&live, &ports_at_start, &open)?;
    let posts = guard_cores(cores)?;
    for &core in cores {
        xdp::exclude_core(core).context("keeping other threads off the loops' cores")?;
    }
    // After it, as these have threads.
    let mut links = LinkMonitor::start(config.dataplane.scheduling != config::Scheduling::Normal)?;
    for (slot, (name, interface)) in config.interfaces.iter().zip(&interfaces).enumerate() {
        links.add(slot, name, interface.as_ref());
    }
    let (vhost, vhost_ports) = VhostSockets::open(config)?;
    let worker = PortWorker::start(&mut open.ports, changed, vhost.links())?;
    let AssignedPorts { ports, io_loops: lines, bell } =
        assign((open.ports, vhost_ports), &open.memory, live.core_assignment(), &heartbeats, waiter.waker())?;
    let guard = match taps {
        Some(taps) => {
            let (watched, settings) =
                (watched(live.core_assignment(), &heartbeats, &ports), live.settings().switch);
            let guard =
                Guard::start((watched, waiter.waker()), &settings, Vec::new(), (&posts, cores), clock)?;
            taps.into_iter().for_each(|(slot, tap)| guard.add_port(slot, tap, &settings));
            Some(guard)
        }
        None => None,
    };
    let punts = Arc::new(PuntRings::new(MAX_PORTS));
    let is_virtual =
        |port: &StartedPort| port.interface.as_ref().is_some_and(|interface| interface.kind.is_virtual());
    let of_core = PollLoopSettings {
        complete_checksums: ports_at_start.iter().map(is_virtual).collect(),
        watches_rings: config.dataplane.pauses_on_overload,
        heartbeat: Arc::clone(&heartbeats[0]),
        io_heartbeats: heartbeats[1..].to_vec(),
        bell,
        punts: Arc::clone(&punts),
    };
    let loop_of_core = assemble(&live, &ports_at_start, (ports, open.memory), core_mailbox, of_core)?;
    let machine = LoopThreads::start(loop_of_core, waiter, core, lines, config.dataplane.scheduling, clock)?;
    cores.iter().for_each(|&core| log.leave_core(core));

    let (requests, requested) = mpsc::channel(MAX_REQUESTS);
    let (end_api, api_ends) = oneshot::channel::<()>();
    let journal = Journal::default();
    let names: Vec<String> = config.switch.ports.iter().map(|port| port.name.clone()).collect();
    let device = Device { name: config.name.clone(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let sources = Sources { device, requests: requests.clone(), journal: journal.clone() };
    let telemetry = Telemetry::start(&Settings::of(config, live.file()), sources).context("telemetry")?;
    let (about, status, noted) =
        (daemon_info(&live, started, permissions.admins()), telemetry.status(), journal.clone());
    let api = tokio::spawn(server::serve(listener, about, requests, noted, status, async {
        let _ = api_ends.await;
    }));
    let events = Events::new(journal, names, started);

    open_ports::log(config, live.core_assignment(), &ports_at_start);
    if !config.pfc_enabled {
        warn!("PFC is off on all ports, as configured; `sluice pfc on` turns it on");
    }
    info!(
        switch = config.name,
        ports = config.interfaces.len(),
        ?cores,
        socket = %config.control.path.display(),
        "sluiced is ready"
    );
    let mut service = ServiceManager::new(&heartbeats);
    service.ready(&config.name, config.interfaces.len());

    let open: Vec<_> = ports_at_start.iter().map(StartedPort::open_interface).collect();
    let pfc_test = pfc_probe::PfcProbe::new(config.dataplane.pfc_test, &live.settings().switch, &open);
    let settings = live.settings().switch;
    let supervisor = PortSupervisor::new(
        (worker, vhost, guard),
        live.core_assignment(),
        queues_set_aside,
        ports_at_start,
        &settings,
    );
    let reports = TelemetryEvents::new(telemetry);
    let lldp = Lldp::new(punts, started);
    let end = ControlLoop::new(
        handle,
        live,
        (supervisor, links),
        log.clone(),
        (stalls, pfc_test, reports, lldp),
        events,
    )
    .run(requested, &machine, &mut signals, &mut service)
    .await;
    drop(socket_file);
    drop(end_api);
    let _ = tokio::time::timeout(API_PATIENCE, api).await;
    let end = match end {
        Ok(control_loop::LoopEnd::Stopped(totals)) => {
            machine.join()?;
            if !totals::is_clean(&totals) {
                error!("frames are missing from the totals: this is a fault of sluiced, please report it");
            }
            print(totals::totals(&totals), &mut signals).await
        }
        Ok(control_loop::LoopEnd::Forced) => DaemonEnd::Forced,
        Err(error) if machine.has_ended() => {
            machine.join()?;
            return Err(error);
        }
        Err(error) => return Err(error), // the thread still runs; it ends with the process
    };
    if end == DaemonEnd::Forced {
        warn!("second signal: ending at once");
    }
    Ok(end)
}

/// Prints the totals until they are written or a signal arrives: standard output may be a pipe that
/// nobody reads.
async fn print(totals: String, signals: &mut Signals) -> DaemonEnd {
    let print = tokio::task::spawn_blocking(move || {
        // A reader that has closed the pipe wants no totals.
        let _ = writeln!(std::io::stdout(), "{totals}");
    });
    tokio::select! {
        _ = print => DaemonEnd::Stopped,
        () = signals.stop() => DaemonEnd::Forced,
    }
}

/// Assembles the poll loop with all that it owns.
fn assemble(
    live: &RunningConfig,
    started: &[StartedPort],
    (ports, memory): (Vec<LoopPort<XdpPort>>, Umem),
    mailbox: dataplane::Mailbox,
    of_core: PollLoopSettings,
) -> Result<PollLoop<LoopPort<XdpPort>>> {
    let mac = |port: &StartedPort| port.interface.as_ref().map(|interface| interface.mac).unwrap_or_default();
    let macs: Vec<_> = started.iter().map(mac).collect();
    let memory_frames = memory.frames();
    let mut settings = live.settings().switch;
    settings.bridge.key = getrandom::u64().context("a key for the bridge table")?;
    let switch = Switch::new(&settings, &macs, memory_frames);
    Ok(PollLoop::new(switch, ports, memory, memory_frames, mailbox, of_core))
}

/// Returns the sockets of the open ports, by slot, for a guard over their loops. `None` if the
/// configuration leaves overload to the kernel.
fn taps(
    live: &RunningConfig,
    started: &[StartedPort],
    open: &OpenPorts,
) -> Result<Option<Vec<(usize, PortTap)>>> {
    if !live.config().dataplane.pauses_on_overload {
        warn!("overload = \"drop\": a loop that falls behind loses frames of every priority in the kernel");
        return Ok(None);
    }
    let mut taps = Vec::new();
    for (slot, (port, started)) in open.ports.iter().zip(started).enumerate() {
        let Some(interface) = started.open_interface() else { continue };
        let mut fds = Vec::new();
        port.poll_fds(&mut fds);
        taps.push((slot, interface.tap(fds)));
    }
    Ok(Some(taps))
}

fn daemon_info(live: &RunningConfig, started: Instant, admins: Vec<u32>) -> DaemonInfo {
    DaemonInfo {
        name: live.config().name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        config: live.file().to_path_buf(),
        started,
        admins,
    }
}
