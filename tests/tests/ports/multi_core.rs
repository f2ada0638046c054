//! A switch of several cores on real veths (docs/multi-core.md). Nothing is lost between the cores,
//! even while one stalls. Ports are added, removed and reconfigured as on one core. Idle loops
//! sleep.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::unistd::Pid;
use testbed::{Daemon, Endpoint, Testbed, conservation, drops, eventually, idle, port};
use tests::{
    AMPLE_HEADROOM_CELLS, PeriodicStops, TrafficRun, flow, group_config, port_config, run, slow_port_config,
    sluice, switch_config, thread_named,
};

/// Ports are assigned in turn: even ones to core 0, which switches, the others to core 1.
const CORES: &str = "[dataplane]\ncores = [0, 1]\n";

/// Two senders, 600 Mbit/s each on priority 3 and on priority 0, into a port of 500 Mbit/s, for 10
/// s: one sender is on core 0, like the receiver, and the other on core 1; or the other way round.
#[test]
fn an_incast_across_cores_loses_nothing() -> Result<()> {
    for receiver_first in [false, true] {
        let (run, log) = incast(receiver_first)?;
        let (no_drop, best_effort) = (run.total(3), run.total(0));
        let carried = run.carried_bps("receiver")?;
        println!("carried {:.1} Mbit/s; {no_drop:?}; {best_effort:?}", carried / 1e6);
        run.switch_lost_nothing(3)?;
        for total in [&no_drop, &best_effort] {
            assert_eq!((total.reordered, total.corrupted, total.duplicated), (0, 0, 0), "{total:?}");
        }
        let counted = drops(&run.snapshot, "ingress_lossy") + drops(&run.snapshot, "tail_drop");
        assert_eq!(best_effort.dropped, counted);
        let lost = best_effort.sent - best_effort.received;
        ensure!(lost > 0 && lost >= counted && lost - counted <= run.lost_by_kernels(), "{best_effort:?}");
        ensure!(carried <= 1.01 * 500e6, "the port carried {carried} bit/s");
        let sent = port(&run.snapshot, "sender1")?.pfc_sent.clone().unwrap_or_default();
        ensure!(sent.xoff_frames[3] > 0 && sent.xon_frames[3] > 0, "{sent:?}");
        ensure!(!log.contains("frames are missing"), "{log}");
    }
    Ok(())
}

fn incast(receiver_first: bool) -> Result<(TrafficRun, String)> {
    const SECONDS: u64 = 10;
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let senders = [bed.sluice_host(&switch, "sender1")?, bed.sluice_host(&switch, "sender2")?];
    let receiver = bed.sluice_host(&switch, "receiver")?;
    let slow = slow_port_config("receiver", 500);
    let of = |at: &Endpoint| port_config(&at.name, "2G") + &group_config(&at.name, AMPLE_HEADROOM_CELLS);
    let ports = match receiver_first {
        true => slow + &of(&senders[0]) + &of(&senders[1]),
        false => of(&senders[0]) + &of(&senders[1]) + &slow,
    };
    let daemon = bed.daemon(&switch, &(CORES.to_owned() + &switch_config("on") + &ports))?;
    let flows = [flow(&receiver.mac(), 3, "600M"), flow(&receiver.mac(), 0, "600M")];
    let lasts = format!("{SECONDS}s");
    let arguments = ["--speed", "2G", "--no-drop", "3", "--duration", &lasts];
    let sending = senders.iter().map(|at| bed.host(at, &flows, &arguments)).collect::<Result<_>>()?;
    let receiving = bed.host(&receiver, &[], &["--speed", "500M", "--no-drop", "3"])?;
    daemon.until_announced(3)?;
    let run = run(&[&daemon], sending, vec![receiving], Duration::from_secs(SECONDS))?;
    conservation(&run.snapshot, &run.hosts())?;
    Ok((run, daemon.stop()?))
}

/// Either loop is stopped for 50 ms and for 500 ms, repeatedly, while two hosts send each other
/// 64-byte frames of a no-drop priority across the cores: the peers are paused, or the frames find
/// room; nothing is lost.
#[test]
fn a_core_that_stalls_is_covered() -> Result<()> {
    for name in ["line-1", "poll-0"] {
        for (stop, period) in [(50, 400), (500, 1500)] {
            let (stop, period) = (Duration::from_millis(stop), Duration::from_millis(period));
            let (run, stops) = small_frames(name, stop, period)?;
            let total = run.total(3);
            println!("{name}: {total:?}, {stops} stops of {stop:?}");
            ensure!(stops > 1, "{stops} stops");
            run.switch_lost_nothing(3)?;
            let sent = run.snapshot.ports.iter().map(|port| port.pfc_sent.clone().unwrap_or_default());
            ensure!(sent.map(|sent| sent.xoff_frames[3]).sum::<u64>() > 0, "peers were paused");
        }
    }
    Ok(())
}

fn small_frames(thread: &str, stop: Duration, period: Duration) -> Result<(TrafficRun, u32)> {
    const SECONDS: u64 = 6;
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let hosts = [bed.sluice_host(&switch, "host1")?, bed.sluice_host(&switch, "host2")?];
    // A port whose I/O loop stalls sends nothing: its frames wait in the switch until their senders
    // honor the pause.
    let ports = hosts
        .each_ref()
        .map(|host| port_config(&host.name, "1G") + &group_config(&host.name, AMPLE_HEADROOM_CELLS));
    let mut daemon = bed.daemon(&switch, &(CORES.to_owned() + &switch_config("on") + &ports.concat()))?;
    let thread = thread_named(&mut daemon, thread)?;
    let to = |other: &Endpoint| format!("to={},priority=3,size=64,rate=1G", other.mac());
    let lasts = format!("{SECONDS}s");
    let arguments = ["--speed", "1G", "--no-drop", "3", "--duration", &lasts];
    let sending = vec![
        bed.host(&hosts[0], &[to(&hosts[1])], &arguments)?,
        bed.host(&hosts[1], &[to(&hosts[0])], &arguments)?,
    ];
    daemon.until_announced(2)?;
    let stops = PeriodicStops::new(thread, stop, period, Duration::from_secs(SECONDS - 2));
    let run = run(&[&daemon], sending, vec![], Duration::from_secs(SECONDS))?;
    conservation(&run.snapshot, &[])?;
    let stops = stops.end()?;
    daemon.stop()?;
    Ok((run, stops))
}

/// A port of each core is removed and added, and its interface deleted and made again, while the
/// others carry frames; settings change. At the end all frames of the memory are accounted for.
#[test]
fn ports_of_every_core_come_and_go() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let stations = ["h1", "h2", "h3", "h4"].map(|name| bed.linux_host(&switch, name));
    let [a, b, c, d] = stations;
    let (a, b, c, d) = (a?, b?, c?, d?);
    let all = [&a, &b, &c, &d];
    let ports = all.map(|at| port_config(&at.name, "1G"));
    let daemon = bed.daemon(&switch, &(CORES.to_owned() + &switch_config("on") + &ports.concat()))?;
    let reach = |from: &Endpoint, to: &Endpoint| {
        eventually(&format!("{} reaches {}", from.name, to.name), || {
            Ok(from.namespace.run(&format!("ping -c 1 -W 1 {}", to.ipv4())).ok())
        })
    };
    assert_eq!(cores_of_ports(&daemon)?, [Some(0), Some(1), Some(0), Some(1)]);
    for (from, to) in [(&a, &b), (&c, &d), (&a, &c), (&b, &d)] {
        reach(from, to)?;
    }
    let is_up = |name: &str, up: bool| {
        daemon.until("the port is up or down", |now| (port(now, name).ok()?.up == up).then_some(()))
    };
    for (at, other, name) in [(&b, &a, "h2"), (&c, &b, "h3")] {
        switch.ip(&format!("link del {name}"))?;
        is_up(name, false)?;
        reach(&a, &d)?;
        bed.reconnect(at, &switch)?;
        is_up(name, true)?;
        reach(other, at)?;
    }
    let text = std::fs::read_to_string(daemon.config())?;
    for gone in [&c, &b] {
        let without = text.replace(&port_config(&gone.name, "1G"), "");
        std::fs::write(daemon.config(), &without)?;
        sluice(&daemon, &["reload"])?;
        reach(&a, &d)?;
        std::fs::write(daemon.config(), &text)?;
        sluice(&daemon, &["reload"])?;
        is_up(&gone.name, true)?;
        reach(&a, gone)?;
    }
    let at_rest = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
    conservation(&at_rest, &[])?;
    let log = daemon.stop()?;
    ensure!(!log.contains("frames are missing"), "{log}");
    Ok(())
}

/// Returns the cores of the ports, in the order of the file.
fn cores_of_ports(daemon: &Daemon) -> Result<Vec<Option<u32>>> {
    Ok(daemon.snapshot()?.ports.iter().map(|port| port.link.as_ref().map(|link| link.core)).collect())
}

/// The file assigns ports to cores, including a port that a reload adds; a port keeps its core; and
/// the first core may be reserved for switching.
#[test]
fn ports_have_the_cores_that_the_file_gives_them() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b, c) =
        (bed.linux_host(&switch, "h1")?, bed.linux_host(&switch, "h2")?, bed.linux_host(&switch, "h3")?);
    let reach = |from: &Endpoint, to: &Endpoint| {
        eventually(&format!("{} reaches {}", from.name, to.name), || {
            Ok(from.namespace.run(&format!("ping -c 1 -W 1 {}", to.ipv4())).ok())
        })
    };
    let on = |at: &Endpoint, core: &str| port_config(&at.name, "1G") + core;
    let head = CORES.to_owned() + &switch_config("on");
    let daemon = bed.daemon(&switch, &(head + &on(&a, "core = 1\n") + &on(&b, "")))?;
    assert_eq!(cores_of_ports(&daemon)?, [Some(1), Some(0)]);
    let text = std::fs::read_to_string(daemon.config())?;
    std::fs::write(daemon.config(), text.replace("core = 1\n", "core = 0\n"))?;
    let refused = sluice(&daemon, &["reload"]).expect_err("a port keeps its core").to_string();
    ensure!(refused.contains("port.h1: core 1 → 0"), "{refused}");
    std::fs::write(daemon.config(), text + &on(&c, "core = 1\n"))?;
    sluice(&daemon, &["reload"])?;
    assert_eq!(cores_of_ports(&daemon)?, [Some(1), Some(0), Some(1)]);
    for (from, to) in [(&a, &b), (&a, &c), (&b, &c)] {
        reach(from, to)?;
    }
    let turns = sluice(&daemon, &["show", "loop"])?;
    ensure!(turns.contains("Loop on core"), "{turns}");
    daemon.stop()?;

    let head = CORES.to_owned() + "switch_core_serves = false\n" + &switch_config("on");
    let daemon = bed.daemon(&switch, &(head + &on(&a, "") + &on(&b, "")))?;
    assert_eq!(cores_of_ports(&daemon)?, [Some(1), Some(1)]);
    reach(&a, &b)?;
    let log = daemon.stop()?;
    ensure!(log.contains("every frame is accounted for"), "{log}");
    Ok(())
}

/// Returns the CPU time of a thread, in ticks of 10 ms.
fn cpu_ticks(thread: Pid) -> Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{thread}/task/{thread}/stat"))?;
    let fields: Vec<&str> = stat.rsplit_once(')').context("a name")?.1.split_whitespace().collect();
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}

/// When idle, the loops together take less than 1 % of a core. The first frame after that arrives.
#[test]
fn loops_with_nothing_to_do_sleep() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let hosts = [bed.linux_host(&switch, "h1")?, bed.linux_host(&switch, "h2")?];
    let ports = hosts.each_ref().map(|host| port_config(&host.name, "1G"));
    let mut daemon = bed.daemon(&switch, &(CORES.to_owned() + &switch_config("on") + &ports.concat()))?;
    let ping = || hosts[0].namespace.run(&format!("ping -c 3 -i 0.2 -W 5 {}", hosts[1].ipv4()));
    ping()?;
    let threads = [thread_named(&mut daemon, "poll-0")?, thread_named(&mut daemon, "line-1")?];
    const SECONDS: u64 = 10;
    // Retries cover occasional work of the machine, such as neighbor discovery.
    eventually("ten seconds with nothing to do", || {
        let used = || threads.iter().map(|&thread| cpu_ticks(thread)).sum::<Result<u64>>();
        let before = used()?;
        std::thread::sleep(Duration::from_secs(SECONDS));
        let used = used()? - before;
        println!("{used} ticks in {SECONDS} s");
        Ok((used < SECONDS).then_some(())) // a hundred ticks are a second of a core
    })?;
    println!("{}", ping()?);
    Ok(())
}
