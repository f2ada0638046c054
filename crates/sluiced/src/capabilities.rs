//! Capabilities of the daemon, as the kernel reports them.
//!
//! Rule: a start that lacks a capability which its configuration needs is refused before anything
//! is changed, with the name of each one and what takes it. Being root says nothing: a container's
//! root often lacks some. Once the control socket is there, and before any guest, client or frame
//! is served, the daemon gives up what nothing needs any more, for good: a fault in what reads
//! their bytes gains nothing else. Source: capabilities(7); docs/service.md, "The unit";
//! docs/reliability.md, "Privilege".

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use caps::{CapSet, Capability, CapsHashSet};
use config::{Config, Scheduling};
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};
use tracing::info;

/// A capability that is needed, and what for.
type Need = (Capability, &'static str);

const CHOWN: Need = (Capability::CAP_CHOWN, "giving the control socket to others");
const NET_ADMIN: Need = (Capability::CAP_NET_ADMIN, "settings of interfaces, XDP and AF_XDP");
const NET_RAW: Need = (Capability::CAP_NET_RAW, "AF_XDP and packet sockets");
const SYS_ADMIN: Need = (Capability::CAP_SYS_ADMIN, "loading the XDP program before Linux 5.8");
const SYS_NICE: Need = (Capability::CAP_SYS_NICE, "dataplane.scheduling = \"fifo\"");
const BPF: Need = (Capability::CAP_BPF, "loading the XDP program");

/// What any running daemon may still need: a reload adds ports, and interfaces come back, which
/// takes what the first ports took; loops change their weight; a reload reads files of any owner.
const NEEDED_LATER: [Capability; 7] = [
    Capability::CAP_NET_ADMIN,
    Capability::CAP_NET_RAW,
    Capability::CAP_BPF,
    Capability::CAP_PERFMON,
    Capability::CAP_SYS_NICE,
    Capability::CAP_IPC_LOCK,
    Capability::CAP_DAC_READ_SEARCH,
];

/// What the process that restores interfaces needs: their settings, and a file in the folder of the
/// control socket, of any owner.
pub const OF_RESTORER: [Capability; 2] = [Capability::CAP_NET_ADMIN, Capability::CAP_DAC_OVERRIDE];

/// The capabilities of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities(CapsHashSet);

impl Capabilities {
    /// Returns the effective ones of this thread: all where the kernel does not report them.
    pub fn effective() -> Self {
        Self(caps::read(None, CapSet::Effective).unwrap_or_else(|_| caps::all()))
    }

    fn has(&self, (capability, _): Need) -> bool {
        self.0.contains(&capability)
    }

    /// True if the process may give its files to any user and group.
    pub fn may_chown(&self) -> bool {
        self.has(CHOWN)
    }

    /// Returns what a daemon of this configuration lacks.
    fn missing(&self, config: &Config) -> Vec<Need> {
        let mut needed = vec![NET_RAW]; // also the memory of frames is that of an AF_XDP socket
        // A vhost-user socket takes no more. A port that a reload adds may, and says so then.
        if config.vhost_user.iter().any(Option::is_none) {
            needed.push(NET_ADMIN);
            needed.extend(Some(BPF).filter(|_| !self.has(SYS_ADMIN)));
        }
        // Other scheduling is tried, with a warning where the kernel refuses it.
        if config.dataplane.scheduling == Scheduling::Fifo {
            needed.push(SYS_NICE);
        }
        needed.into_iter().filter(|&need| !self.has(need)).collect()
    }

    /// Fails if a daemon of this configuration lacks a capability.
    pub fn must_suffice(&self, config: &Config) -> Result<()> {
        let missing = self.missing(config);
        if missing.is_empty() {
            return Ok(());
        }
        let each = missing.iter().map(|(capability, needed_for)| format!("{capability} ({needed_for})"));
        let names: Vec<String> = missing.iter().map(|(capability, _)| capability.to_string()).collect();
        bail!(
            "this process lacks {}: run sluiced as root (in a container also with `--cap-add`), or with AmbientCapabilities={} \
             in its unit",
            each.collect::<Vec<_>>().join(", "),
            names.join(" ")
        )
    }

    /// Returns the settings of a configuration that take what these capabilities, which were given
    /// up, would allow: a restart is needed.
    pub fn needs(&self, config: &Config) -> Vec<String> {
        self.needs_where(config, first_unprivileged_port())
    }

    fn needs_where(&self, config: &Config, first_unprivileged: u32) -> Vec<String> {
        let needed = settings_that_need(config, first_unprivileged).into_iter();
        let refused = needed.filter(|(needed, _)| self.0.contains(needed));
        let line = |(needed, setting): (Capability, String)| {
            format!("{setting}: takes {needed}, which sluiced gave up after its start, as nothing needed it")
        };
        refused.map(line).collect()
    }
}

/// Returns the first TCP port of this network namespace that any process may listen on.
fn first_unprivileged_port() -> u32 {
    let setting = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").ok();
    setting.and_then(|text| text.trim().parse().ok()).unwrap_or(1024)
}

/// Returns the settings that take a capability of their own, where TCP ports below
/// `first_unprivileged` take one.
fn settings_that_need(config: &Config, first_unprivileged: u32) -> Vec<(Capability, String)> {
    let mut needed = Vec::new();
    for destination in &config.telemetry.destinations {
        if destination.vpn_instance.is_some() {
            let setting = format!("telemetry.destination-group.{}.vpn_instance", destination.group);
            needed.push((Capability::CAP_SYS_ADMIN, setting));
        }
    }
    let is_privileged = |port: u16| (1..first_unprivileged).contains(&u32::from(port));
    if config.metrics.as_ref().is_some_and(|metrics| is_privileged(metrics.listen.port())) {
        needed.push((Capability::CAP_NET_BIND_SERVICE, "metrics.listen".to_owned()));
    }
    needed
}

/// Returns what a running daemon of this configuration may still need. A process that has no
/// CAP_BPF loads programs with CAP_SYS_ADMIN.
fn needed_later(config: &Config, has_bpf: bool, first_unprivileged: u32) -> CapsHashSet {
    let mut needed: CapsHashSet = NEEDED_LATER.into_iter().collect();
    let settings = settings_that_need(config, first_unprivileged);
    needed.extend(settings.into_iter().map(|(capability, _)| capability));
    if !has_bpf {
        needed.insert(Capability::CAP_SYS_ADMIN);
    }
    // Sockets of guests belong to the users that run the guests.
    if config.vhost_user.iter().any(Option::is_some) {
        needed.insert(Capability::CAP_DAC_OVERRIDE);
    }
    needed
}

/// Gives up what a daemon of this configuration does not need any more, in this thread and in all
/// that it starts from now on. Returns what that was.
///
/// # Errors
/// The kernel refuses.
pub fn give_up_unneeded(config: &Config) -> Result<Capabilities> {
    let before = Capabilities::effective();
    let mut kept = needed_later(config, before.has(BPF), first_unprivileged_port());
    let folder = config.control.path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if before.0.contains(&Capability::CAP_DAC_OVERRIDE)
        && !may_write_without_override(folder.unwrap_or(Path::new(".")))?
    {
        kept.insert(Capability::CAP_DAC_OVERRIDE);
    }
    keep_only(&kept).context("giving up capabilities")?;
    let after = Capabilities::effective();
    let given_up: CapsHashSet = before.0.difference(&after.0).copied().collect();
    let mut names: Vec<String> = after.0.iter().map(ToString::to_string).collect();
    names.sort();
    info!(kept = names.join(" "), given_up = given_up.len(), "capabilities that nothing needs are given up");
    Ok(Capabilities(given_up))
}

/// True if this thread may write to a folder as its user alone: the record of changed settings and
/// the control socket are in one.
fn may_write_without_override(folder: &Path) -> Result<bool> {
    caps::drop(None, CapSet::Effective, Capability::CAP_DAC_OVERRIDE)?;
    // Not eaccess(3), which takes a root without capabilities for one with all.
    let may = faccessat(AT_FDCWD, folder, AccessFlags::W_OK | AccessFlags::X_OK, AtFlags::AT_EACCESS).is_ok();
    caps::raise(None, CapSet::Effective, Capability::CAP_DAC_OVERRIDE)?;
    Ok(may)
}

/// Gives up all capabilities of this thread but these, in every set: also what a program could gain
/// that it starts.
pub fn keep_only(kept: &CapsHashSet) -> Result<()> {
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)? {
        for capability in caps::read(None, CapSet::Bounding)?.difference(kept) {
            caps::drop(None, CapSet::Bounding, *capability)?;
        }
    }
    caps::clear(None, CapSet::Inheritable)?; // and so the ambient ones
    let permitted = caps::read(None, CapSet::Permitted)?;
    let still: CapsHashSet = permitted.intersection(kept).copied().collect();
    caps::set(None, CapSet::Effective, &still)?;
    Ok(caps::set(None, CapSet::Permitted, &still)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(more: &str) -> Config {
        config::parse("x.toml", &format!("{more}[port.a]\ninterface = \"veth0\"\n")).unwrap()
    }

    fn with(all: &[Need]) -> Capabilities {
        Capabilities(all.iter().map(|(capability, _)| *capability).collect())
    }

    #[test]
    fn what_a_configuration_needs_is_named() {
        let plain = config("");
        assert!(with(&[NET_ADMIN, NET_RAW, BPF]).must_suffice(&plain).is_ok());
        assert!(with(&[NET_ADMIN, NET_RAW, SYS_ADMIN]).must_suffice(&plain).is_ok(), "of an older kernel");
        let fifo = config("[dataplane]\nscheduling = \"fifo\"\n");
        assert_eq!(with(&[NET_ADMIN, NET_RAW, BPF]).missing(&fifo), [SYS_NICE]);
        let error = with(&[NET_ADMIN]).must_suffice(&plain).unwrap_err().to_string();
        let expected = "this process lacks CAP_NET_RAW (AF_XDP and packet sockets), CAP_BPF (loading the XDP program): run ";
        assert!(error.starts_with(expected), "{error}");
        assert!(error.ends_with("AmbientCapabilities=CAP_NET_RAW CAP_BPF in its unit"), "{error}");
        let guests = "[port.a]\nvhost_user = \"/run/a.sock\"\n[port.b]\nvhost_user = \"/run/b.sock\"\n";
        let guests = |more: &str| config::parse("x.toml", &format!("{more}{guests}")).unwrap();
        assert!(with(&[NET_RAW]).must_suffice(&guests("")).is_ok(), "sockets only");
        assert_eq!(with(&[]).missing(&guests("[port.c]\ninterface = \"veth0\"\n")).len(), 3);
        let fifo = guests("[dataplane]\nscheduling = \"fifo\"\n");
        assert_eq!(with(&[]).missing(&fifo), [NET_RAW, SYS_NICE]);
        assert!(with(&[CHOWN]).may_chown() && !with(&[NET_ADMIN]).may_chown());
    }

    const LOW_PORT: &str = "[metrics]\nenabled = true\nlisten = \"127.0.0.1:99\"\n";

    #[test]
    fn which_ports_take_a_capability_is_a_setting_of_the_kernel() {
        let high = LOW_PORT.replace(":99", ":2000");
        let needs = |text: &str, first| settings_that_need(&config(text), first).len();
        assert_eq!([needs(LOW_PORT, 1024), needs(LOW_PORT, 99), needs(LOW_PORT, 0)], [1, 0, 0]);
        assert_eq!([needs(&high, 1024), needs(&high, 2001)], [0, 1]);
        assert!(first_unprivileged_port() <= 65_536);
    }

    #[test]
    fn a_setting_keeps_what_it_takes() {
        let of = |more: &str, has_bpf| needed_later(&config(more), has_bpf, 1024).len() - NEEDED_LATER.len();
        assert_eq!((of("", true), of("", false), of(LOW_PORT, true)), (0, 1, 1));
        let given_up = with(&[(Capability::CAP_NET_BIND_SERVICE, "")]);
        assert_eq!(given_up.needs(&config("")), [""; 0]);
        assert_eq!(given_up.needs_where(&config(LOW_PORT), 0), [""; 0]);
        let [refused] = &given_up.needs_where(&config(LOW_PORT), 1024)[..] else { panic!("one setting") };
        assert!(refused.starts_with("metrics.listen: takes CAP_NET_BIND_SERVICE, which"), "{refused}");
        assert!(Capabilities::default().needs(&config(LOW_PORT)).is_empty(), "nothing was given up");
    }

    /// Capabilities are those of a thread, so that the test harms no other.
    #[test]
    fn what_is_given_up_is_gone_from_every_set() {
        let kept: CapsHashSet = [Capability::CAP_NET_RAW].into_iter().collect();
        let given_up = std::thread::spawn(move || {
            let had = caps::read(None, CapSet::Permitted).unwrap();
            keep_only(&kept).unwrap();
            let left: CapsHashSet = had.intersection(&kept).copied().collect();
            for set in [CapSet::Effective, CapSet::Permitted] {
                assert_eq!(caps::read(None, set).unwrap(), left, "{set:?}");
            }
            assert!(caps::read(None, CapSet::Inheritable).unwrap().is_empty());
            if had.contains(&Capability::CAP_SETPCAP) {
                assert!(caps::read(None, CapSet::Bounding).unwrap().is_subset(&kept));
            }
        });
        given_up.join().unwrap();
    }
}
