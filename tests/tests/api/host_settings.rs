//! What the daemon changes on the interfaces of its ports, for as long as they are ports: the qdisc
//! of a veth, and IPv6 of the host's own stack (docs/behavior.md, "The host's own stack"). Whatever
//! ends the daemon, they are as before.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::{Daemon, Endpoint, Namespace, Testbed, eventually, port};
use tests::{flow, port_config, switch_config};

fn two_ports() -> String {
    switch_config("on") + &port_config("a", "1G") + &port_config("b", "1G")
}

/// A switch's namespace whose host has IPv6 on the interfaces of its ports.
fn with_ipv6(bed: &Testbed) -> Result<Namespace> {
    let switch = bed.switch("switch")?;
    for which in ["all", "default"] {
        switch.sysctl(&format!("net/ipv6/conf/{which}/disable_ipv6"), "0")?;
    }
    Ok(switch)
}

/// Returns the qdisc of an interface, its IPv6 addresses that are in use, and how it gets them.
fn settings(switch: &Namespace, interface: &str) -> Result<String> {
    let qdisc = switch.run(&format!("tc qdisc show dev {interface}"))?;
    let addresses = switch.ip(&format!("-6 -o addr show dev {interface} -tentative"))?;
    let mut addresses: Vec<&str> =
        addresses.lines().filter_map(|line| line.split_whitespace().nth(3)).collect();
    addresses.sort_unstable();
    let link = switch.ip(&format!("-d link show dev {interface}"))?;
    let mode = link.split_once("addrgenmode ").and_then(|(_, rest)| rest.split_whitespace().next());
    let off = switch.run(&format!("cat /proc/sys/net/ipv6/conf/{interface}/disable_ipv6"))?;
    Ok(format!("{qdisc}{addresses:?} {mode:?} {off}"))
}

fn of_both(switch: &Namespace) -> Result<[String; 2]> {
    Ok([settings(switch, "a")?, settings(switch, "b")?])
}

/// Waits until both interfaces have a link-local address, and returns their settings.
fn settled(switch: &Namespace) -> Result<[String; 2]> {
    eventually("both have an address", || {
        let both = of_both(switch)?;
        Ok(both.iter().all(|settings| settings.contains("fe80::")).then_some(both))
    })
}

fn are_again(switch: &Namespace, before: &[String; 2]) -> Result<()> {
    let mut now = before.clone();
    let as_before = || {
        now = of_both(switch)?;
        Ok((now == *before).then_some(()))
    };
    eventually("the settings are as before", as_before).with_context(|| format!("{now:#?}\n{before:#?}"))
}

fn are_changed(switch: &Namespace) -> Result<()> {
    for settings in of_both(switch)? {
        assert!(
            settings.contains("qdisc pfifo") && settings.contains("[]") && settings.ends_with("1\n"),
            "{settings}"
        );
    }
    Ok(())
}

/// Returns what lies in the folder of the daemon's control socket.
fn files(daemon: &Daemon) -> Result<Vec<PathBuf>> {
    let folder = daemon.socket().parent().context("a folder")?;
    Ok(std::fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect())
}

/// Returns the one process that a daemon has started.
fn restorer(daemon: &mut Daemon) -> Result<Pid> {
    let daemon = daemon.process().pid();
    let children = std::process::Command::new("pgrep").args(["-P", &daemon.to_string()]).output()?;
    Ok(Pid::from_raw(String::from_utf8(children.stdout)?.trim().parse()?))
}

/// By kill -9, as from a cgroup at its limit, and by SIGABRT, as when an allocation fails.
#[test]
fn a_killed_daemon_leaves_interfaces_as_they_were() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = with_ipv6(&bed)?;
    let hosts = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    settled(&switch)?;
    switch.ip("addr add fe80::77/64 dev a nodad")?;
    let before = of_both(&switch)?;
    [Signal::SIGKILL, Signal::SIGABRT]
        .into_iter()
        .try_for_each(|death| ends_by(death, &bed, &switch, &hosts, &before))
}

fn ends_by(
    death: Signal,
    bed: &Testbed,
    switch: &Namespace,
    (a, b): &(Endpoint, Endpoint),
    before: &[String; 2],
) -> Result<()> {
    let mut daemon = bed.daemon(switch, &two_ports())?;
    are_changed(switch)?;
    assert_eq!(files(&daemon)?.iter().filter(|file| file.to_string_lossy().ends_with(".restore")).count(), 1);
    let helper = restorer(&mut daemon)?;
    let receiver = bed.host(b, &[], &[])?;
    let mut sender = bed.host(a, &[flow(&b.mac(), 3, "50M")], &["--no-drop", "3", "--duration", "20s"])?;
    sender.start_sending()?;
    daemon.until("frames move", |now| (port(now, "b").ok()?.transmitted?.frames > 100).then_some(()))?;
    let record = daemon.socket().with_extension("sock.restore");
    daemon.process().signal(death)?;
    let status = daemon.process().wait(Duration::ZERO)?;
    ensure!(status.signal() == Some(death as i32), "it ended with {status}");
    are_again(switch, before)?;
    assert!(!record.exists());
    eventually("the restorer has ended", || Ok(kill(helper, None).err().map(drop)))?;
    drop((sender, receiver));
    Ok(())
}

/// A service manager kills the whole service: the next start restores, and a clean stop leaves
/// nothing.
#[test]
fn after_a_kill_of_both_the_next_start_restores() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = with_ipv6(&bed)?;
    let (_a, _b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let before = settled(&switch)?;
    let mut daemon = bed.daemon(&switch, &two_ports())?;
    let (config, socket) = (daemon.config().to_path_buf(), daemon.socket().to_path_buf());
    kill(restorer(&mut daemon)?, Signal::SIGKILL)?;
    daemon.kill9()?;
    are_changed(&switch)?;

    // The next one has another port.
    let text = std::fs::read_to_string(&config)?;
    std::fs::write(&config, text.replace("interface = \"b\"", "interface = \"c\""))?;
    let _c = bed.sluice_host(&switch, "c")?;
    let mut daemon = Daemon::on_file(&switch, &config, &socket)?.ready()?;
    let of_b = || Ok((settings(&switch, "b")? == before[1]).then_some(()));
    eventually("the interface that is no port is as before", of_b)?;
    let helper = restorer(&mut daemon)?;
    let log = daemon.stop()?;
    assert!(log.contains("a killed sluiced left"), "{log}");
    assert!(kill(helper, None).is_err(), "the restorer ends with the daemon");
    are_again(&switch, &before)?;
    let left: Vec<_> = std::fs::read_dir(bed.dir())?.flatten().map(|entry| entry.path()).collect();
    assert_eq!(left, [config]);
    Ok(())
}

/// Whatever a port's interface does, its peer gets no frame that the switch did not send.
#[test]
fn the_stack_of_the_host_is_silent_on_ports() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = with_ipv6(&bed)?;
    let (_a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    // Beside it, an interface that is no port shows when the stack has sent what it sends.
    bed.cable((&b.namespace, "other"), (&switch, "other"))?;
    let before = settled(&switch)?;
    let daemon = bed.daemon(&switch, &two_ports())?;
    let received = |interface: &str| -> Result<u64> {
        let file = format!("cat /sys/class/net/{interface}/statistics/rx_packets");
        Ok(b.namespace.run(&file)?.trim().parse()?)
    };
    // Frames on their way when the daemon started have arrived.
    let at_start = [received("eth0")?, received("other")?];
    for _ in 0..3 {
        for state in ["down", "up"] {
            for interface in ["eth0", "other"] {
                b.namespace.ip(&format!("link set dev {interface} {state}"))?;
            }
            let is_up = state == "up";
            daemon.until("the port follows", |now| (port(now, "b").ok()?.up == is_up).then_some(()))?;
        }
    }
    let more = at_start[1] + 6;
    eventually("the stack has sent", || Ok((received("other")? >= more).then_some(())))?;
    let snapshot = daemon.snapshot()?;
    let b_port = port(&snapshot, "b")?;
    let sent = b_port.transmitted.map_or(0, |count| count.frames) + testbed::pauses_sent(b_port);
    assert_eq!(received("eth0")? - at_start[0], sent, "{snapshot:#?}");
    are_changed(&switch)?;
    daemon.stop()?;
    are_again(&switch, &before)
}

/// Addresses that somebody gave the interface stay, and are reported with the cure. After the cure
/// IPv6 is off.
#[test]
fn addresses_stay_and_are_reported() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = with_ipv6(&bed)?;
    let (_a, _b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    settled(&switch)?;
    let daemon = bed.daemon(&switch, &two_ports())?;
    switch.ip("addr add 10.1.2.3/24 dev a")?;
    let reported = daemon
        .until("it is reported", |now| port(now, "a").ok()?.link.as_ref()?.cautions.first().cloned())?;
    assert_eq!((reported.setting.as_str(), reported.cure.as_str()), ("addresses", "`ip addr flush dev a`"));
    assert!(reported.harm.contains("(10.1.2.3/24)"), "{reported:?}");
    let log = daemon.stop()?;
    assert!(log.contains("10.1.2.3/24"), "{log}");

    switch.ip("addr flush dev a")?;
    switch.ip("addr add 2001:db8::1/64 dev a nodad")?;
    let daemon = bed.daemon(&switch, &two_ports())?;
    assert!(settings(&switch, "a")?.contains("2001:db8::1/64"));
    assert!(port(&daemon.snapshot()?, "a")?.link.as_ref().is_some_and(|link| link.cautions.len() == 1));
    switch.ip("addr flush dev a")?;
    daemon.until("it is cured", |now| {
        port(now, "a").ok()?.link.as_ref().is_some_and(|link| link.cautions.is_empty()).then_some(())
    })?;
    are_changed(&switch)?;
    daemon.stop()?;
    assert!(settings(&switch, "a")?.ends_with("0\n"));
    Ok(())
}
