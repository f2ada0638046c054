//! What a running daemon may do (docs/reliability.md, "Privilege"): after its start it has the
//! capabilities that a reload may take, and no others in any set of any thread; with these it adds
//! ports, reopens them and reads its file again.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use testbed::{Daemon, Process, Testbed, eventually, port};
use tests::{port_config, sluice, switch_config};

/// Bits of capabilities(7).
const DAC_OVERRIDE: u64 = 1 << 1;
const DAC_READ_SEARCH: u64 = 1 << 2;
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
const IPC_LOCK: u64 = 1 << 14;
const SYS_ADMIN: u64 = 1 << 21;
const SYS_NICE: u64 = 1 << 23;
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;
/// What every daemon keeps.
const KEPT: u64 = DAC_READ_SEARCH | NET_ADMIN | NET_RAW | IPC_LOCK | SYS_NICE | PERFMON | BPF;

/// A user without a name.
const USER: u32 = 64_991;

/// Returns the capability sets in the text of a status file, by name.
fn sets(status: &str) -> BTreeMap<String, u64> {
    let of_line = |line: &str| {
        let (name, mask) = line.strip_prefix("Cap")?.split_once(':')?;
        Some((name.to_owned(), u64::from_str_radix(mask.trim(), 16).ok()?))
    };
    status.lines().filter_map(of_line).collect()
}

/// Returns which of these a daemon can have: what a container withholds from this process, which
/// starts it, it never had.
fn available(capabilities: u64) -> Result<u64> {
    Ok(capabilities & sets(&fs::read_to_string("/proc/self/status")?)["Bnd"])
}

/// Returns the status of a thread; `None` if it has ended meanwhile.
fn status_of(task: &Path) -> Result<Option<String>> {
    match fs::read_to_string(task.join("status")) {
        Ok(status) => Ok(Some(status)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::ESRCH as i32) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Checks the sets of all threads of a process: the log's thread has none, the others have `kept`.
fn has_only(process: u32, kept: u64) -> Result<()> {
    let mut kept = available(kept)?;
    if kept & BPF == 0 {
        kept |= available(SYS_ADMIN)?; // it loads programs without CAP_BPF
    }
    let (mut threads, mut of_log) = (0, 0);
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        let Some(status) = status_of(&task?.path())? else { continue };
        let is_log = status.lines().next() == Some("Name:\tlog");
        let expected = if is_log { 0 } else { kept };
        let sets = sets(&status);
        let all = ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| sets[set]);
        ensure!(all == [0, expected, expected, expected, 0], "{all:x?} is not {expected:x} in {status}");
        threads += 1;
        of_log += u32::from(is_log);
    }
    ensure!(threads >= 5 && of_log == 1, "{threads} threads, {of_log} of the log");
    Ok(())
}

fn reload_with(daemon: &Daemon, config: &str) -> Result<String> {
    fs::write(daemon.config(), config)?;
    sluice(daemon, &["reload"])
}

/// Pings from one Linux host to another until it is answered.
fn reaches(from: &testbed::Endpoint, to: &testbed::Endpoint) -> Result<()> {
    let ping = format!("ping -c 1 -W 1 {}", to.ipv4());
    eventually("a reply", || Ok(from.namespace.run(&ping).ok())).map(drop)
}

#[test]
fn a_running_daemon_keeps_only_what_a_reload_may_take() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.linux_host(&switch, "a")?, bed.linux_host(&switch, "b")?);
    let config = switch_config("on") + &port_config("a", "1G") + "\n[dataplane]\nspare_ports = 1\n";
    let mut daemon = bed.daemon(&switch, &config)?;
    let pid = daemon.process().pid();
    has_only(pid, KEPT)?;

    // A port is added, and opened again after its interface was gone.
    let text = fs::read_to_string(daemon.config())?;
    let with_b = text.clone() + &port_config("b", "1G");
    assert_eq!(reload_with(&daemon, &with_b)?, "port.b: added\n");
    reaches(&a, &b)?;
    switch.ip("link del dev b")?;
    daemon.until("the port is down", |now| (!port(now, "b").ok()?.up).then_some(()))?;
    bed.reconnect(&b, &switch)?;
    reaches(&a, &b)?;

    // A file that only its owner may read, in a folder that only its owner may enter.
    let (file, folder) = (daemon.config().to_path_buf(), bed.dir().to_path_buf());
    for (path, mode) in [(&file, 0o600), (&folder, 0o700)] {
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        chown(path, Some(USER), Some(USER))?;
    }
    assert_eq!(reload_with(&daemon, &text)?, "port.b: removed\n");
    has_only(pid, KEPT)?;

    // What takes more than that is refused as a whole, with the reason.
    let elsewhere = with_b
        + "\n[telemetry.sensor-group.events]\npaths = [\"sluice/events\"]\n\
           [telemetry.destination-group.far]\ncollectors = [\"127.0.0.1\"]\nvpn_instance = \"no-such\"\n\
           [telemetry.subscription.all]\nsensors = [{ group = \"events\" }]\ndestinations = [\"far\"]\n";
    let refused = reload_with(&daemon, &elsewhere).expect_err("it gave that up").to_string();
    let why = "telemetry.destination-group.far.vpn_instance: takes CAP_SYS_ADMIN, which sluiced gave up";
    ensure!(refused.contains("these settings need a restart") && refused.contains(why), "{refused}");
    ensure!(daemon.snapshot()?.ports.len() == 1, "nothing was changed");
    daemon.stop()?;
    Ok(())
}

/// What a setting takes stays; and so does what the folder of the control socket takes where it
/// belongs to another user.
#[test]
fn what_the_configuration_takes_stays() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    bed.sluice_host(&switch, "a")?;
    let config = switch_config("on")
        + &port_config("a", "1G")
        + "\n[telemetry.sensor-group.events]\npaths = [\"sluice/events\"]\n\
           [telemetry.destination-group.far]\ncollectors = [\"127.0.0.1\"]\n"
        + &format!("vpn_instance = \"{}\"\n", switch.name())
        + "[telemetry.subscription.all]\nsensors = [{ group = \"events\" }]\ndestinations = [\"far\"]\n";
    chown(bed.dir(), Some(USER), Some(USER))?;
    let mut daemon = bed.daemon(&switch, &config)?;
    has_only(daemon.process().pid(), KEPT | SYS_ADMIN | DAC_OVERRIDE)?;
    let socket = daemon.socket().to_path_buf();
    daemon.stop()?;
    ensure!(!socket.exists(), "it may remove its socket");
    ensure!(!socket.with_extension("sock.restore").exists(), "and the record of changed settings");
    Ok(())
}

/// The restorer outlives the daemon, and so it may do even less.
#[test]
fn the_restorer_may_change_interfaces_and_its_file() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    bed.sluice_host(&switch, "a")?;
    let mut daemon = bed.daemon(&switch, &(switch_config("on") + &port_config("a", "1G")))?;
    let pid = daemon.process().pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let restorer: u32 = children.trim().parse().with_context(|| format!("one child: {children}"))?;
    let kept = available(NET_ADMIN | DAC_OVERRIDE)?;
    eventually("the restorer has given up the rest", || {
        let sets = sets(&fs::read_to_string(format!("/proc/{restorer}/status"))?);
        let all = ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| sets[set]);
        Ok((all == [0, kept, kept, kept, 0]).then_some(()))
    })?;
    daemon.stop()?;
    Ok(())
}

/// A symbolic link in place of the control socket, or of the file beside it, as anybody could put
/// it into a shared folder: the start is refused, and what it leads to is as it was.
#[test]
fn no_symbolic_link_is_followed() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    bed.sluice_host(&switch, "a")?;
    let shared = bed.dir().join("shared");
    fs::create_dir(&shared)?;
    fs::set_permissions(&shared, Permissions::from_mode(0o1777))?;
    let (precious, socket) = (bed.dir().join("precious"), shared.join("s.sock"));
    fs::write(&precious, "data")?;
    fs::set_permissions(&precious, Permissions::from_mode(0o644))?;
    let file = bed.dir().join("s.toml");
    let control = format!("\n[control]\nsocket = {:?}\n", socket.display().to_string());
    fs::write(&file, switch_config("on") + &port_config("a", "1G") + &control)?;
    for name in ["s.sock", "s.sock.restore"] {
        let link = shared.join(name);
        std::os::unix::fs::symlink(&precious, &link)?;
        let output = Daemon::on_file(&switch, &file, &socket)?.failure()?;
        ensure!(output.contains(&link.display().to_string()) && !output.contains("panicked"), "{output}");
        ensure!(fs::read_to_string(&precious)? == "data" && fs::symlink_metadata(&link)?.is_symlink());
        ensure!(fs::metadata(&precious)?.permissions().mode() & 0o777 == 0o644);
        fs::remove_file(&link)?;
    }
    let mut daemon = Daemon::on_file(&switch, &file, &socket)?.ready()?;
    let capture = shared.join("a.pcapng");
    std::os::unix::fs::symlink(&precious, &capture)?;
    let mut command = Command::new(testbed::binary("sluice")?);
    command.arg("capture").arg("--write").arg(&capture).args(["--duration", "100ms", "--socket"]);
    let mut client = Process::start("capture", command.arg(&socket))?;
    ensure!(client.wait(Duration::ZERO)?.success(), "{}", client.log());
    ensure!(fs::read_to_string(&precious)? == "data", "a capture replaces the link");
    ensure!(fs::symlink_metadata(&capture)?.is_file());
    daemon.process().signal(Signal::SIGTERM)?;
    ensure!(daemon.process().wait(Duration::ZERO)?.success(), "{}", daemon.process().log());
    Ok(())
}
