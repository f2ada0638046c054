//! The forwarders that are measured, and how each is started on a core of its own between the
//! interfaces s-in and s-out.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use testbed::{Namespace, Process, binary, eventually};

/// The core of the forwarder; generator, sink and hosts have the other.
pub const FORWARDER_CORE: &str = "0";
pub const HOST_CORE: &str = "1";
/// A program, or the kernel, that forwards between two interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarder {
    /// Moves each frame to the other port and does nothing else: the example `forwarder` of `xdp`.
    BareLoop,
    Sluice,
    /// Open vSwitch with its userspace datapath on AF_XDP.
    OpenVSwitch,
    /// DPDK's testpmd with AF_XDP ports.
    Dpdk,
    LinuxBridge,
}

impl Forwarder {
    pub const ALL: [Self; 5] =
        [Self::BareLoop, Self::Sluice, Self::OpenVSwitch, Self::Dpdk, Self::LinuxBridge];

    pub fn name(self) -> &'static str {
        match self {
            Self::BareLoop => "bare AF_XDP loop",
            Self::Sluice => "Sluice",
            Self::OpenVSwitch => "Open vSwitch (AF_XDP)",
            Self::Dpdk => "DPDK testpmd (AF_XDP)",
            Self::LinuxBridge => "Linux bridge",
        }
    }

    /// Returns the Debian packages that it needs.
    pub fn packages(self) -> &'static str {
        match self {
            Self::OpenVSwitch => "openvswitch-switch",
            Self::Dpdk => "dpdk-dev librte-net-af-xdp23",
            Self::BareLoop | Self::Sluice | Self::LinuxBridge => "nothing",
        }
    }

    /// True if it is measured as a comparison only.
    pub fn is_peer(self) -> bool {
        !matches!(self, Self::BareLoop | Self::Sluice)
    }

    pub fn is_installed(self) -> bool {
        let program = match self {
            Self::OpenVSwitch => "ovs-vswitchd",
            Self::Dpdk => "dpdk-testpmd",
            Self::BareLoop | Self::Sluice | Self::LinuxBridge => return true,
        };
        ["/usr/sbin", "/usr/bin", "/usr/local/bin"]
            .iter()
            .any(|folder| Path::new(folder).join(program).is_file())
    }
}

/// A no-drop priority with PFC and watchdog, WRED with ECN on both generators' queues (queue 2
/// has untagged frames, queue 3 those of priority 3), weighted scheduling and alarms. The link is
/// faster than any of the forwarders, so only bursts of the generator build up a queue.
pub const QOS: &str = r#"
[port-defaults]
speed    = "40G"
trust    = "dot1p"
pfc      = { mode = "on", no_drop = [3] }
wred     = "all"
lldp     = "off"

[port-defaults.schedule]
mode    = "ets"
group.0 = { queues = [0, 1, 2, 4, 5, 6, 7], bandwidth_percent = 50 }
group.1 = { queues = [3], bandwidth_percent = 50 }

[pfc.watchdog]
priority.3.interval = 1

[alarm]
usage_percent = 90
headroom      = { enabled = true }
drop          = { enabled = true }

[wred.all.queue.2]
ecn   = true
green = { low_cells = 4000, high_cells = 8000, probability_percent = 20 }

[wred.all.queue.3]
ecn   = true
green = { low_cells = 4000, high_cells = 8000, probability_percent = 20 }
"#;

/// Starts a forwarder and waits until it forwards. Returns its processes, the last one first to
/// end.
pub fn start(forwarder: Forwarder, switch: &Namespace, dir: &Path) -> Result<Vec<Process>> {
    match forwarder {
        Forwarder::BareLoop => start_bare_loop(switch),
        Forwarder::Sluice => start_sluice(switch, dir),
        Forwarder::OpenVSwitch => start_open_vswitch(switch, dir),
        Forwarder::Dpdk => start_dpdk(switch),
        Forwarder::LinuxBridge => start_bridge(switch),
    }
}

fn start_bare_loop(switch: &Namespace) -> Result<Vec<Process>> {
    let mut command = switch.command(example("forwarder")?);
    command.args(["--interface", "s-in", "--interface", "s-out", "--core", FORWARDER_CORE]);
    command.args(["--posted", "512", "--seconds", "3600"]);
    let process = Process::start("forwarder", &mut command)?;
    until_attached(switch)?;
    Ok(vec![process])
}

fn start_sluice(switch: &Namespace, dir: &Path) -> Result<Vec<Process>> {
    let config = format!(
        "[control]\nsocket = \"{}\"\n\n[dataplane]\ncores = [{FORWARDER_CORE}]\n{QOS}\n[port.in]\n\
         interface = \"s-in\"\n\n[port.out]\ninterface = \"s-out\"\n",
        dir.join("control.sock").display()
    );
    let file = dir.join("sluice.toml");
    std::fs::write(&file, config)?;
    let mut process =
        Process::start("sluiced", switch.command(binary("sluiced")?).arg("--config").arg(file))?;
    process.wait_for("ready", |line| line.contains("sluiced is ready").then_some(()))?;
    Ok(vec![process])
}

fn start_open_vswitch(switch: &Namespace, dir: &Path) -> Result<Vec<Process>> {
    let folder = dir.display();
    let (socket, control) = (format!("unix:{folder}/db.sock"), format!("{folder}/vswitchd.ctl"));
    let with_folders = |program: &str| {
        let mut command = switch.command(program);
        command.env("OVS_RUNDIR", dir).env("OVS_DBDIR", dir).env("OVS_LOGDIR", dir);
        command
    };
    let schema = "/usr/share/openvswitch/vswitch.ovsschema";
    output(with_folders("ovsdb-tool").args(["create", &format!("{folder}/conf.db"), schema]))?;
    let mut server = with_folders("ovsdb-server");
    server.args([&format!("{folder}/conf.db"), &format!("--remote=p{socket}")]);
    let server = Process::start("ovsdb-server", &mut server)?;
    eventually("the database listens", || Ok(dir.join("db.sock").exists().then_some(())))?;
    let database = format!("--db={socket}");
    output(with_folders("ovs-vsctl").args([
        "--no-wait",
        &database,
        "init",
        "--",
        "set",
        "Open_vSwitch",
        ".",
        "other_config:pmd-cpu-mask=1",
    ]))?;
    let mut daemon = with_folders("ovs-vswitchd");
    daemon.args([&socket, "--no-chdir", &format!("--unixctl={control}")]);
    let daemon = Process::start("ovs-vswitchd", &mut daemon)?;
    let mut add = with_folders("ovs-vsctl");
    add.args([
        "--timeout=20",
        &database,
        "add-br",
        "bench",
        "--",
        "set",
        "bridge",
        "bench",
        "datapath_type=netdev",
    ]);
    for port in ["s-in", "s-out"] {
        add.args(["--", "add-port", "bench", port, "--", "set", "interface", port, "type=afxdp"]);
    }
    output(&mut add)?;
    until_attached(switch)?;
    Ok(vec![daemon, server])
}

fn start_dpdk(switch: &Namespace) -> Result<Vec<Process>> {
    let mut command = switch.command("dpdk-testpmd");
    // The command line of testpmd waits on the hosts' core; it does nothing meanwhile.
    command.arg(format!("--lcores=0@{HOST_CORE},1@{FORWARDER_CORE}"));
    command.args(["--main-lcore=0", "--no-huge", "-m", "512", "--no-pci", "--no-telemetry"]);
    command.arg(format!("--file-prefix={}", switch.name()));
    command.args(["--vdev=net_af_xdp0,iface=s-in", "--vdev=net_af_xdp1,iface=s-out", "--"]);
    command.args(["--forward-mode=io", "--nb-cores=1", "--total-num-mbufs=16384"]);
    let mut process = Process::start("testpmd", &mut command)?;
    // What it prints after that stays in its buffer.
    process.wait_for("ports", |line| line.contains("Checking link statuses").then_some(()))?;
    until_attached(switch)?;
    Ok(vec![process])
}

fn start_bridge(switch: &Namespace) -> Result<Vec<Process>> {
    switch.ip("link add bridge type bridge")?;
    for port in ["s-in", "s-out"] {
        switch.ip(&format!("link set dev {port} master bridge"))?;
    }
    switch.ip("link set dev bridge up")?;
    Ok(Vec::new())
}

/// Waits until both interfaces have an XDP program.
fn until_attached(switch: &Namespace) -> Result<()> {
    eventually("both interfaces have an XDP program", || {
        Ok((switch.ip("link show")?.matches("prog/xdp").count() == 2).then_some(()))
    })
}

/// Returns the path of an example program, which `cargo build --examples` puts beside the programs.
pub fn example(name: &str) -> Result<PathBuf> {
    let programs = binary("sluiced")?;
    let path = programs.parent().context("a program is in a folder")?.join("examples").join(name);
    ensure!(path.is_file(), "{} is missing: cargo build --release --examples", path.display());
    Ok(path)
}

/// Runs a command to its end and returns its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(text)
}
