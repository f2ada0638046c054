//! The testbed itself: names, cables, and their removal.

use crate::endpoint::Endpoint;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use nix::fcntl::{Flock, FlockArg};
use tempfile::TempDir;

use crate::daemon::Daemon;
use crate::host::Host;
use crate::netns::{Namespace, require_root, sweep, veth};
use crate::process::Process;
use crate::wait::eventually;

/// Number of testbeds made by this process, for their names.
static TESTBEDS: AtomicU32 = AtomicU32::new(0);

/// A set of namespaces and the cables between them.
///
/// Only one testbed of tests exists on a machine at a time: a lock in the temporary directory makes
/// a second one wait. Tests that share cores with other tests would measure those. So a test makes
/// exactly one testbed.
#[derive(Debug)]
pub struct Testbed {
    prefix: String,
    namespaces: RefCell<Vec<Namespace>>,
    endpoints: Cell<u8>,
    /// RX and TX queues of new cables, if not the kernel's default.
    queues: Cell<Option<u32>>,
    dir: TempDir,
    _lock: Option<Flock<File>>,
}

impl Testbed {
    /// Creates an empty testbed. Waits for the lock, and removes what dead testbeds left behind.
    pub fn new() -> Result<Self> {
        require_root()?;
        Self::with_lock(Some(lock_machine()?))
    }

    /// Creates an empty testbed, for what may last hours, beside those of tests.
    pub fn beside_others() -> Result<Self> {
        require_root()?;
        Self::with_lock(None)
    }

    fn with_lock(lock: Option<Flock<File>>) -> Result<Self> {
        sweep()?;
        let number = TESTBEDS.fetch_add(1, Ordering::Relaxed);
        let dir = tempfile::Builder::new().prefix("sluice-bed-").tempdir()?;
        Ok(Self {
            prefix: format!("sl{}-{number}-", std::process::id()),
            namespaces: RefCell::new(Vec::new()),
            endpoints: Cell::new(0),
            queues: Cell::new(None),
            dir,
            _lock: lock,
        })
    }

    /// Returns a directory for files of this testbed, removed with it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Creates a namespace whose kernel does not use IPv6.
    ///
    /// With IPv6, the kernel sends router solicitations, neighbor discovery and multicast reports
    /// on its own as soon as an interface is up. On a switch's end these frames would bypass the
    /// switch, on a host's end they would pass through it; either way more frames would arrive than
    /// the test sent.
    fn quiet_namespace(&self, role: &str) -> Result<Namespace> {
        let namespace = self.namespace(role)?;
        for which in ["all", "default"] {
            namespace.sysctl(&format!("net/ipv6/conf/{which}/disable_ipv6"), "1")?;
        }
        Ok(namespace)
    }

    fn namespace(&self, role: &str) -> Result<Namespace> {
        let namespace = Namespace::create(format!("{}{role}", self.prefix))?;
        self.namespaces.borrow_mut().push(namespace.clone());
        Ok(namespace)
    }

    /// Creates a namespace for a switch; the cable ends in it are the switch's ports.
    pub fn switch(&self, role: &str) -> Result<Namespace> {
        self.quiet_namespace(role)
    }

    /// Creates a host whose kernel stays silent, for `sluice host`, plugged into `switch`.
    pub fn sluice_host(&self, switch: &Namespace, name: &str) -> Result<Endpoint> {
        let station = self.endpoint(self.quiet_namespace(name)?, name);
        self.plug(&station, switch)?;
        Ok(station)
    }

    /// Creates an ordinary Linux host with an IPv4 and an IPv6 address, plugged into `switch`;
    /// everything else has the kernel's defaults.
    pub fn linux_host(&self, switch: &Namespace, name: &str) -> Result<Endpoint> {
        let station = self.linux_host_without_addresses(switch, name)?;
        station.set_addresses()?;
        Ok(station)
    }

    /// Reconnects a plain host whose cable was removed: a new veth with the old names and
    /// addresses.
    pub fn reconnect(&self, station: &Endpoint, switch: &Namespace) -> Result<()> {
        self.plug(station, switch)?;
        station.set_addresses()
    }

    /// Creates an ordinary Linux host with only its link-local address.
    pub fn linux_host_without_addresses(&self, switch: &Namespace, name: &str) -> Result<Endpoint> {
        let station = self.endpoint(self.namespace(name)?, name);
        for which in ["all", "default"] {
            // Duplicate address detection delays an address for a second, and there are no
            // duplicates here.
            station.namespace.sysctl(&format!("net/ipv6/conf/{which}/accept_dad"), "0")?;
        }
        self.plug(&station, switch)?;
        Ok(station)
    }

    fn endpoint(&self, namespace: Namespace, name: &str) -> Endpoint {
        let number = self.endpoints.get() + 1;
        self.endpoints.set(number);
        Endpoint { namespace, name: name.to_string(), number }
    }

    /// Creates a silent host behind a macvlan, in mode `passthru`, on the switch's end of its
    /// cable, which is called `low-NAME`; the macvlan is the port.
    pub fn macvlan_host(&self, switch: &Namespace, name: &str) -> Result<Endpoint> {
        let station = self.endpoint(self.quiet_namespace(name)?, name);
        let (address, low) = (format!("address {}", station.mac()), format!("low-{name}"));
        self.connect((&station.namespace, Endpoint::INTERFACE), &address, (switch, &low))?;
        switch.ip(&format!("link add link {low} name {name} type macvlan mode passthru"))?;
        switch.ip(&format!("link set dev {name} up"))?;
        Ok(station)
    }

    /// Creates a silent host on a NIC of this machine that a cable connects to another NIC, which
    /// becomes the switch's end: the pair that `cargo xtask vm --cables` has for an endpoint of
    /// this number. As in docs/behavior.md, "What an interface does to frames", the switch's end
    /// leaves tags and PAUSE unchanged. After [`Testbed::set_queues`] it has that number of queues,
    /// and flows are spread over them.
    pub fn nic_host(&self, switch: &Namespace, name: &str) -> Result<Endpoint> {
        let station = self.endpoint(self.quiet_namespace(name)?, name);
        let of_port = format!("52:54:00:00:00:{:02x}", station.number);
        let ends = [(of_port, switch, name), (station.mac(), &station.namespace, Endpoint::INTERFACE)];
        for (address, namespace, interface) in ends {
            // The kernel returns the NIC some time after the previous namespace was removed.
            let found = eventually("the NIC is here", || interface_of(&address))?;
            crate::netns::ip(&format!("link set dev {found} netns {}", namespace.name()))?;
            namespace.ip(&format!("link set dev {found} name {interface}"))?;
            namespace.ip(&format!("link set dev {interface} up"))?;
        }
        for cure in ["-K {} rxvlan off", "-A {} autoneg off rx off tx off"] {
            let _ = switch.run(&format!("ethtool {}", cure.replace("{}", name))); // a driver need not have that
        }
        if let Some(queues) = self.queues.get() {
            switch.run(&format!("ethtool -L {name} combined {queues}"))?;
            switch.run(&format!("ethtool -N {name} rx-flow-hash udp4 sdfn"))?; // by addresses and ports
        }
        Ok(station)
    }

    /// Creates a silent host behind a tap: the host's own interface is another one, and a process
    /// forwards frames between the two.
    pub fn tap_host(&self, switch: &Namespace, name: &str) -> Result<(Endpoint, Process)> {
        let station = self.endpoint(self.quiet_namespace(name)?, name);
        let far = format!("far-{name}");
        let tap = |name: &str| format!("TUN,tun-type=tap,iff-no-pi,tun-name={name}");
        let mut command = switch.command("socat");
        // A block is a frame.
        let cable = Process::start("socat", command.args(["-b", "65536", &tap(name), &tap(&far)]))?;
        for tap in [name, &far] {
            eventually("socat has made a tap", || Ok(switch.ip(&format!("link show dev {tap}")).ok()))?;
        }
        switch.ip(&format!("link set dev {far} netns {}", station.namespace.name()))?;
        let (interface, mac) = (Endpoint::INTERFACE, station.mac());
        station.namespace.ip(&format!("link set dev {far} name {interface}"))?;
        station.namespace.ip(&format!("link set dev {interface} address {mac}"))?;
        station.namespace.ip(&format!("link set dev {interface} up"))?;
        switch.ip(&format!("link set dev {name} up"))?;
        Ok((station, cable))
    }

    /// Connects a host that has no cable, with its MAC address and no other.
    pub fn plug(&self, station: &Endpoint, switch: &Namespace) -> Result<()> {
        let address = format!("address {}", station.mac());
        self.connect((&station.namespace, Endpoint::INTERFACE), &address, (switch, &station.name))
    }

    /// Creates a veth pair between two namespaces, up at both ends.
    pub fn cable(&self, a: (&Namespace, &str), b: (&Namespace, &str)) -> Result<()> {
        self.connect(a, "", b)
    }

    /// Sets the number of RX and TX queues, at both ends, of cables that are made from now on.
    pub fn set_queues(&self, queues: u32) {
        self.queues.set(Some(queues));
    }

    /// Creates a veth pair, with the options `more` for the first end.
    fn connect(&self, a: (&Namespace, &str), more: &str, b: (&Namespace, &str)) -> Result<()> {
        let queues = self.queues.get().map_or(String::new(), |n| format!("numtxqueues {n} numrxqueues {n}"));
        veth((a.0, a.1, &format!("{more} {queues}")), (b.0, b.1, &queues))
    }

    /// Starts `sluiced` in `namespace` and waits until it forwards. `config` lacks only the
    /// `[control]` table, which is appended.
    pub fn daemon(&self, namespace: &Namespace, config: &str) -> Result<Daemon> {
        Daemon::launch(namespace, self.dir(), &[], config)?.ready()
    }

    /// Starts `sluice host` at an endpoint with these flows (`to=…,priority=…`) and other
    /// arguments, and waits until it is ready. It sends after [`Host::go`].
    pub fn host(&self, station: &Endpoint, flows: &[String], arguments: &[&str]) -> Result<Host> {
        Host::start(station, flows, arguments)
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        for namespace in self.namespaces.get_mut() {
            if let Err(error) = namespace.remove() {
                eprintln!("cannot remove {}: {error:#}", namespace.name());
            }
        }
    }
}

/// Returns the interface of this namespace with a hardware address.
fn interface_of(address: &str) -> Result<Option<String>> {
    for entry in std::fs::read_dir("/sys/class/net")? {
        let entry = entry?;
        if std::fs::read_to_string(entry.path().join("address")).is_ok_and(|found| found.trim() == address) {
            return Ok(Some(entry.file_name().to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

/// Takes the lock that allows one testbed at a time.
fn lock_machine() -> Result<Flock<File>> {
    let path = std::env::temp_dir().join("sluice-testbed.lock");
    let open = || {
        File::options().create(true).append(true).open(&path).with_context(|| format!("{}", path.display()))
    };
    match Flock::lock(open()?, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(lock),
        Err(_) => {
            eprintln!("another test bed is in use; waiting for it ({})", path.display());
            Flock::lock(open()?, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
        }
    }
}
