//! The unit under a real systemd: `systemd-nspawn` boots the clean root, in a network namespace of
//! its own, and a script in it starts the service, pings through it, reloads it, stalls it until
//! systemd's watchdog restarts it, and stops it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::run::{check, log};

/// How long the machine may take to boot, run the script and power off: the watchdog alone takes
/// ten seconds.
const BOOT_PATIENCE: Duration = Duration::from_secs(240);

/// What runs inside. Its output and its last line, the verdict, are in a file of the root.
const SCRIPT: &str = r#"set -ex
for n in 1 2; do
    ip netns add h$n
    ip link add p$n type veth peer name eth0 netns h$n
    ip link set p$n up
    ip -n h$n link set eth0 up
    ip -n h$n addr add 10.99.0.$n/24 dev eth0
done
crosses() { ip netns exec h1 ping -c 3 -W 5 10.99.0.2; }
journal() { journalctl --unit sluiced --output cat --no-pager; }
systemctl start sluiced # waits for READY=1
[ "$(systemctl show --property StatusText --value sluiced)" = "switch dist forwards on 2 ports" ]
crosses
sluice show version
journal | grep 'vlan_tags="restored"'
echo 'speed = "1G"' >>/etc/sluice/sluice.toml # of the last port
systemctl reload sluiced
for n in $(seq 100); do journal | grep 'reload: port.p2: ' && break; sleep 0.1; done
journal | grep 'reload: port.p2: '
kill -STOP "$(systemctl show --property MainPID --value sluiced)"
for n in $(seq 60); do [ "$(systemctl show --property NRestarts --value sluiced)" = 1 ] && break; sleep 1; done
journalctl --unit sluiced --no-pager | grep 'Watchdog timeout'
for n in $(seq 60); do systemctl is-active sluiced && break; sleep 1; done
crosses
systemctl stop sluiced
[ "$(systemctl show --property Result --value sluiced)" = success ]
journal | grep 'every frame is accounted for'
echo "the unit works"
"#;

/// Runs the script, then powers off, whatever its outcome.
const UNIT: &str = "[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh /root/check.sh
StandardOutput=file:/root/check.log
StandardError=inherit
ExecStopPost=/bin/systemctl --no-block poweroff
";

/// Boots the root in which the package is installed.
pub fn run(root: &Path, patience: Duration) -> Result<()> {
    log("booting it with systemd");
    let packages = "DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends systemd systemd-sysv dbus iproute2 \
                    iputils-ping >/dev/null";
    let mut install = Command::new("chroot");
    install.arg(root).args(["sh", "-ec", packages]).stdout(Stdio::null());
    check(install.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C"))?;
    let config = "[switch]\nname = \"dist\"\n[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n\
                  [port.p1]\ninterface = \"p1\"\n[port.p2]\ninterface = \"p2\"\n";
    let units = root.join("etc/systemd/system");
    let wants = units.join("default.target.wants");
    fs::create_dir_all(&wants)?;
    let verdict = root.join("root/check.log");
    for (file, text) in [
        (root.join("etc/sluice/sluice.toml"), config),
        (root.join("root/check.sh"), SCRIPT),
        (units.join("check.service"), UNIT),
        (verdict.clone(), ""),
    ] {
        fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    std::os::unix::fs::symlink("../check.service", wants.join("check.service"))?;

    // The machine mounts its own: with /proc of this one its journal would know no unit.
    for folder in ["proc", "sys"] {
        check(Command::new("umount").arg(root.join(folder)))?;
    }
    let mut machine = Command::new("systemd-nspawn");
    machine.args(["--quiet", "--boot", "--register=no", "--keep-unit", "--private-network"]);
    machine.args(["--capability=all", "--system-call-filter=bpf perf_event_open", "--directory"]).arg(root);
    let out = fs::File::create(root.join("root/boot.log"))?;
    let mut machine = machine
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .spawn()
        .context("systemd-nspawn (package systemd-container)")?;
    let end = Instant::now() + BOOT_PATIENCE.max(patience);
    while machine.try_wait()?.is_none() {
        if Instant::now() >= end {
            machine.kill()?;
            machine.wait()?;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let printed = fs::read_to_string(&verdict)?;
    let boot = || fs::read_to_string(root.join("root/boot.log")).unwrap_or_default();
    ensure!(printed.ends_with("the unit works\n"), "{printed}\n{}", boot());
    Ok(())
}
