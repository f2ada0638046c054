//! Network namespaces, created, entered and removed by `ip netns`, so that a person can inspect
//! them with the same tools while a test runs.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use xdp::{NAMED_NAMESPACES, in_namespace, named_namespace};

/// Name of a network namespace. Its creator removes it; a clone is only another handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Returns a handle of a namespace that exists, or did.
    pub fn existing(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    /// True if the namespace exists.
    pub fn is_there(&self) -> bool {
        Path::new(NAMED_NAMESPACES).join(&self.name).exists()
    }

    /// Kills the processes in the namespace.
    pub fn end_processes(&self) -> Result<()> {
        for pid in ip(&format!("netns pids {}", self.name))?.lines() {
            if let Ok(pid) = pid.trim().parse() {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL); // it may have ended by itself
            }
        }
        Ok(())
    }

    /// Creates a namespace with loopback up.
    pub fn create(name: String) -> Result<Self> {
        ip(&format!("netns add {name}"))?;
        let namespace = Self { name };
        namespace.ip("link set dev lo up")?;
        Ok(namespace)
    }

    /// Removes the namespace, with the interfaces in it and the other ends of its veths.
    pub fn remove(&self) -> Result<()> {
        ip(&format!("netns del {}", self.name)).map(drop)
    }

    /// Returns the name that `ip netns` uses.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a command that runs in the namespace and dies with the thread that starts it.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, "setpriv", "--pdeathsig", "KILL", "--"]);
        command.arg(program.as_ref());
        command
    }

    /// Runs a command line (words separated by blanks) in the namespace to its end. Returns its
    /// standard output, or an error with all its output.
    pub fn run(&self, line: &str) -> Result<String> {
        let mut words = line.split_whitespace();
        let program = words.next().context("an empty command line")?;
        output(self.command(program).args(words)).with_context(|| format!("in namespace {}", self.name))
    }

    /// Runs `ip …` in the namespace.
    pub fn ip(&self, arguments: &str) -> Result<String> {
        ip(&format!("-n {} {arguments}", self.name))
    }

    /// Sets a kernel parameter of this namespace, such as `net/ipv6/conf/all/disable_ipv6`.
    pub fn sysctl(&self, path: &str, value: &str) -> Result<()> {
        let file = Path::new("/proc/sys").join(path);
        self.enter(|| {
            std::fs::write(&file, value).with_context(|| format!("cannot write {}", file.display()))
        })?
    }

    /// Calls `inside` with this namespace as its network, in a separate thread. Sockets opened
    /// there stay in the namespace.
    pub fn enter<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> Result<T> {
        let file = named_namespace(&self.name).with_context(|| format!("namespace {} is gone", self.name))?;
        Ok(in_namespace(file, inside)?)
    }
}

/// Returns a clear error unless this process may create namespaces.
pub fn require_root() -> Result<()> {
    ensure!(
        Uid::effective().is_root(),
        "this needs root, to make network namespaces: run it as root or with `sudo env PATH=\"$PATH\"`"
    );
    Ok(())
}

/// Creates a veth pair, up at both ends: the namespace, the interface and more options of each.
pub fn veth(a: (&Namespace, &str, &str), b: (&Namespace, &str, &str)) -> Result<()> {
    for (_, interface, _) in [a, b] {
        ensure!(interface.len() <= 15, "an interface name has at most 15 bytes: {interface}");
    }
    let ((ns_a, if_a, more_a), (ns_b, if_b, more_b)) = (a, b);
    ip(&format!(
        "link add name {if_a} {more_a} netns {} type veth peer name {if_b} {more_b} netns {}",
        ns_a.name, ns_b.name
    ))?;
    ns_a.ip(&format!("link set dev {if_a} up"))?;
    ns_b.ip(&format!("link set dev {if_b} up")).map(drop)
}

/// Runs `ip` in the namespace of this process.
pub(crate) fn ip(arguments: &str) -> Result<String> {
    output(Command::new("ip").args(arguments.split_whitespace()))
}

/// Runs a command to its end. Returns its standard output, or an error with all its output.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        bail!("{command:?}: {}\n{}{}", output.status, stderr, stdout);
    }
    Ok(stdout.into_owned())
}

/// Removes what dead testbeds left: their namespaces, and the processes in them. Returns the names.
pub fn sweep() -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for name in ip("netns list")?.lines().filter_map(|line| line.split_whitespace().next()) {
        match owner(name) {
            Some(pid) if !Path::new(&format!("/proc/{pid}")).exists() => {}
            _ => continue,
        }
        let _ = Namespace::existing(name).end_processes();
        if ip(&format!("netns del {name}")).is_ok() {
            removed.push(name.to_string()); // else another bed swept it at the same time
        }
    }
    Ok(removed)
}

/// Returns the process that made a namespace, if the name is a testbed's: `sl<pid>-<n>-<role>`.
fn owner(name: &str) -> Option<u32> {
    let (pid, rest) = name.strip_prefix("sl")?.split_once('-')?;
    let (number, role) = rest.split_once('-')?;
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    (digits(pid) && digits(number) && !role.is_empty()).then(|| pid.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_have_an_owner() {
        for (name, pid) in [
            ("sl42-0-sw", Some(42)),
            ("sl42-17-sender-1", Some(42)),
            ("sl42-sw", None),
            ("sl-0-sw", None),
            ("slx2-0-sw", None),
            ("sl42-0-", None),
            ("sl42-a-sw", None),
            ("sl+42-0-sw", None),
            ("slave", None),
            ("other", None),
            ("sl99999999999999-0-sw", None),
        ] {
            assert_eq!(owner(name), pid, "{name}");
        }
    }
}
