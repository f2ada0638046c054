//! The daemon as systemd runs it: not as root, with the capabilities of its unit, with readiness,
//! watchdog and priorities of the journal. `cargo xtask dist --check` does the same with the
//! package.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use control::{BlockingClient, Command};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, chown};
use testbed::{Process, Testbed, binary, conservation_beside_announcements, eventually, idle};

/// A user and a group without a name.
const USER: u32 = 64_990;

const CONFIG: &str = "
[switch]
name = \"service\"

[port-defaults]
speed = \"1G\"
lldp = \"off\"

[port-defaults.pfc]
mode = \"on\"
no_drop = [3]

[port-defaults.pfc.priority.3]
xoff = { static_cells = 1024 }
headroom_cells = 5120

[port.a]
interface = \"a\"

[port.b]
interface = \"b\"
speed = \"100M\"
";

/// Returns a setting of the unit.
fn of_unit(name: &str) -> Result<String> {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/sluiced.service");
    let unit = fs::read_to_string(unit)?;
    let value = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    Ok(value.with_context(|| format!("{name} of the unit"))?.to_owned())
}

/// Returns the capabilities of the unit for setpriv.
fn capabilities() -> Result<String> {
    let all = of_unit("AmbientCapabilities")?;
    ensure!(all == of_unit("CapabilityBoundingSet")?);
    let each = all.split(' ').map(|name| format!(",+{}", name.trim_start_matches("CAP_").to_lowercase()));
    Ok(format!("-all{}", each.collect::<String>()))
}

#[test]
fn the_daemon_forwards_without_loss_as_an_ordinary_user() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    fs::set_permissions(bed.dir(), fs::Permissions::from_mode(0o755))?;
    let run = bed.dir().join("run");
    fs::create_dir(&run)?;
    chown(&run, Some(Uid::from_raw(USER)), Some(Gid::from_raw(USER)))?;
    let (socket, file, program) = (run.join("s.sock"), bed.dir().join("s.toml"), bed.dir().join("sluiced"));
    fs::copy(binary("sluiced")?, &program)?;
    fs::write(&file, format!("{CONFIG}[control]\nsocket = {:?}\n", socket.display().to_string()))?;
    let log = bed.dir().join("log");
    let stream = fs::File::create(&log)?.metadata()?;
    let messages = UnixDatagram::bind(bed.dir().join("notify"))?;
    fs::set_permissions(bed.dir().join("notify"), fs::Permissions::from_mode(0o777))?;
    messages.set_read_timeout(Some(testbed::PATIENCE))?;

    let capabilities = capabilities()?;
    let mut command = switch.command("setpriv");
    command.args([
        "--reuid",
        &USER.to_string(),
        "--regid",
        &USER.to_string(),
        "--clear-groups",
        "--no-new-privs",
    ]);
    command.args([
        "--inh-caps",
        &capabilities,
        "--ambient-caps",
        &capabilities,
        "--bounding-set",
        &capabilities,
    ]);
    let script = format!("exec {} --config {} 2>>{}", program.display(), file.display(), log.display());
    fs::set_permissions(&log, fs::Permissions::from_mode(0o666))?;
    command.args(["--", "sh", "-c", &script]);
    command.env("JOURNAL_STREAM", format!("{}:{}", stream.dev(), stream.ino()));
    command.env("NOTIFY_SOCKET", bed.dir().join("notify")).env("WATCHDOG_USEC", "400000");
    let mut daemon = Process::start("sluiced", &mut command)?;
    let text = || fs::read_to_string(&log).unwrap_or_default();

    let next = || -> Result<String> {
        let mut message = [0; 500];
        let bytes = messages.recv(&mut message).with_context(|| format!("no message\n{}", text()))?;
        Ok(String::from_utf8_lossy(&message[..bytes]).into_owned())
    };
    let ready = next()?;
    ensure!(
        ready.contains("READY=1") && ready.contains("STATUS=switch service forwards on 2 ports"),
        "{ready}"
    );
    for _ in 0..5 {
        assert_eq!(next()?.trim(), "WATCHDOG=1");
    }
    let has_veth_metadata = text().contains("vlan_tags=\"restored\"");
    ensure!(has_veth_metadata, "the XDP program may not read VLAN tags (CAP_PERFMON): {}", text());
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid()))?;
    ensure!(status.contains(&format!("Uid:\t{USER}\t{USER}")), "{status}");

    // More than port b takes: the daemon pauses the sender, and loses nothing.
    let receiver = bed.host(&b, &[], &["--speed", "100M"])?;
    let flow = format!("to={},priority=3,size=1000,rate=300M", b.mac());
    let mut sender = bed.host(&a, &[flow], &["--speed", "1G", "--duration", "2s"])?;
    sender.start_sending()?;
    eventually("everything is sent", || Ok(sender.has_sent_all()?.then_some(())))?;
    let snapshot = || -> Result<testbed::Snapshot> { Ok(BlockingClient::connect(&socket)?.snapshot()?) };
    let at_rest = || {
        eventually("the switch is at rest", || {
            let now = snapshot()?;
            Ok(idle(&now).then_some(now))
        })
    };
    at_rest()?;
    let (sent, received) = (sender.stop()?, receiver.stop()?);
    let now = at_rest()?;
    conservation_beside_announcements(&now, &[("a", &sent), ("b", &received)])?;
    ensure!(sent.pauses.iter().any(|pause| pause.xoff > 0), "it was never paused");
    assert_eq!(received.received[0].received_frames, sent.sent[0].sent_frames);

    // Root may change the switch; the log has who did.
    BlockingClient::connect(&socket)?.execute(Command::SetPfc { enabled: false })?;
    let change = eventually("the change is logged", || {
        Ok(text().lines().find(|line| line.contains("PFC is off on all ports")).map(str::to_owned))
    })?;
    ensure!(change.starts_with("<4>sluiced") && change.contains("uid 0, pid "), "{change}");
    daemon.signal(Signal::SIGTERM)?;
    ensure!(daemon.wait(Duration::ZERO)?.success(), "{}\n{}", daemon.log(), text());
    for line in text().lines() {
        ensure!(line.starts_with('<') && line[2..].starts_with('>'), "{line}");
    }
    ensure!(!text().contains("<3>"), "{}", text());
    Ok(())
}

/// Root of a container often lacks some. The start says which, and leaves nothing behind.
#[test]
fn root_without_a_capability_that_is_needed_is_refused() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let _hosts = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let (socket, file) = (bed.dir().join("s.sock"), bed.dir().join("s.toml"));
    let control = format!("[control]\nsocket = {:?}\n", socket.display().to_string());
    for (dropped, more, words) in [
        ("-net_raw", "", "this process lacks CAP_NET_RAW (AF_XDP and packet sockets): run sluiced as root"),
        ("-bpf,-sys_admin", "", "this process lacks CAP_BPF (loading the XDP program)"),
        (
            "-sys_nice",
            "[dataplane]\nscheduling = \"fifo\"\n",
            "lacks CAP_SYS_NICE (dataplane.scheduling = \"fifo\")",
        ),
        ("-chown", "group = \"daemon\"\n", "without CAP_CHOWN may not give its socket to \"daemon\""),
    ] {
        fs::write(&file, format!("{CONFIG}{control}{more}"))?;
        let mut command = switch.command("setpriv");
        command.args(["--bounding-set", dropped, "--"]).arg(binary("sluiced")?).arg("--config").arg(&file);
        let output = command.output()?;
        let log = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && log.contains(words), "{dropped}: {log}");
        ensure!(!socket.exists() && !log.contains("memory for frames"), "{dropped}: {log}");
    }
    Ok(())
}
