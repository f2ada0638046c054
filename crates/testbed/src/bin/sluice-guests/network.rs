//! The switch and its guests: two senders and a receiver behind a slow port, once on vhost-user
//! ports and once on veths. A veth's other end is in a bridge with the tap of the guest.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use testbed::{Daemon, Namespace, Testbed, port, veth};

use crate::guest::{Guest, Image, ipv4, mac};

/// Guests with the last parts of their addresses; the last one is behind the slow port.
pub const GUESTS: [(&str, u8); 3] = [("a", 1), ("b", 2), ("slow", 3)];
/// Number of the receiver.
pub const RECEIVER: u8 = 3;

/// Cells of priority 3 that a port holds before it pauses its sender.
pub const XOFF_CELLS: u32 = 200;

/// The whole network. Its fields are dropped in this order.
pub struct Network {
    pub guests: Vec<Guest>,
    /// None while it is restarted.
    daemon: Option<Daemon>,
    switch: Namespace,
    hosts: Namespace,
    image: Image,
    interrupted: Arc<AtomicBool>,
    config: String,
    bed: Testbed,
}

impl Network {
    /// Builds everything and boots the guests.
    pub fn new(image: &Image, speed: &str, interrupted: &Arc<AtomicBool>) -> Result<Self> {
        let bed = Testbed::new()?;
        let (switch, hosts) = (bed.switch("switch")?, bed.switch("hosts")?);
        for (name, _) in GUESTS {
            plug(&switch, &hosts, name)?;
        }
        let config = config(&bed, speed);
        let daemon = bed.daemon(&switch, &config)?;
        let (image, interrupted) = (image.clone(), Arc::clone(interrupted));
        let (guests, daemon) = (Vec::new(), Some(daemon));
        let mut network = Self { guests, daemon, switch, hosts, image, interrupted, config, bed };
        for of_guest in GUESTS {
            let guest = network.start(of_guest)?;
            network.guests.push(guest);
        }
        network.guests.iter_mut().try_for_each(until_usable)?;
        network.until_up()?;
        Ok(network)
    }

    fn start(&self, (name, number): (&'static str, u8)) -> Result<Guest> {
        let socket = self.bed.dir().join(format!("{name}.sock"));
        let nics = (socket.as_path(), &*format!("tap-{name}"));
        Guest::start(&self.hosts, &self.image, (name, number), nics, Arc::clone(&self.interrupted))
    }

    /// Kills the receiver's QEMU, and boots the guest again at the same socket.
    pub fn replace_receiver(&mut self) -> Result<()> {
        let of_guest = GUESTS[GUESTS.len() - 1];
        drop(self.guests.pop());
        self.daemon()?.until("the port of the killed guest is down", |seen| {
            port(seen, of_guest.0).ok().filter(|port| !port.up).map(drop)
        })?;
        let mut guest = self.start(of_guest)?;
        until_usable(&mut guest)?;
        self.guests.push(guest);
        self.until_up()
    }

    fn until_up(&self) -> Result<()> {
        self.daemon()?.until("all ports are up", |seen| {
            GUESTS.iter().all(|(name, _)| port(seen, name).is_ok_and(|port| port.up)).then_some(())
        })
    }

    /// Returns the daemon; an error if its restart failed.
    pub fn daemon(&self) -> Result<&Daemon> {
        self.daemon.as_ref().context("the daemon ended, and no other started")
    }

    /// Stops the daemon, and starts another one at the same sockets.
    pub fn restart(&mut self) -> Result<()> {
        if let Some(daemon) = self.daemon.take() {
            daemon.stop()?;
        }
        self.daemon = Some(self.bed.daemon(&self.switch, &self.config)?);
        self.until_up()
    }

    /// Returns the no-drop frames that the switch has lost on the guests' ports of a kind: 0 on
    /// vhost-user sockets, 1 on veths.
    pub fn no_drop_lost_frames(&self, nic: u8) -> Result<u64> {
        let snapshot = self.daemon()?.snapshot()?;
        let prefix = ["", "veth-"][usize::from(nic)];
        let mut lost = 0;
        for (name, _) in GUESTS {
            let port = port(&snapshot, &format!("{prefix}{name}"))?;
            lost += port.priorities.iter().map(|priority| priority.no_drop_lost_frames).sum::<u64>();
        }
        Ok(lost)
    }

    /// Returns the guests: both senders, and the receiver.
    pub fn split(&mut self) -> (&mut [Guest], &mut Guest) {
        let (receiver, senders) = self.guests.split_last_mut().expect("there are three");
        (senders, receiver)
    }
}

/// Waits until a guest has booted, and sets it up.
fn until_usable(guest: &mut Guest) -> Result<()> {
    guest.until_ready()?;
    set_up(guest).with_context(|| format!("the set-up of guest {}", guest.name))
}

/// Makes the tap of a guest, and its way to a port of the switch.
fn plug(switch: &Namespace, hosts: &Namespace, name: &str) -> Result<()> {
    let (tap, end, bridge) = (format!("tap-{name}"), format!("end-{name}"), format!("br-{name}"));
    veth((switch, &format!("veth-{name}"), ""), (hosts, &end, ""))?;
    hosts.ip(&format!("tuntap add dev {tap} mode tap"))?;
    hosts.ip(&format!("link add {bridge} type bridge"))?;
    for interface in [&tap, &end] {
        hosts.ip(&format!("link set dev {interface} master {bridge}"))?;
    }
    [&tap, &end, &bridge].iter().try_for_each(|it| hosts.ip(&format!("link set dev {it} up")).map(drop))
}

/// Both kinds of port have the same thresholds and the same priority without loss. Frames of RoCE
/// are known by DSCP on veths; on the others, their queue has the number of the priority.
fn config(bed: &Testbed, speed: &str) -> String {
    let defaults = format!(
        "[port-defaults]\nlldp = \"off\"\n[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n\n\
         [port-defaults.pfc.priority.3]\nxoff = {{ static_cells = {XOFF_CELLS} }}\n\n"
    );
    let port = |(name, number): (&str, u8)| {
        let slow = if number == RECEIVER { format!("speed = \"{speed}\"\n") } else { String::new() };
        let socket = bed.dir().join(format!("{name}.sock"));
        format!(
            "[port.{name}]\nvhost_user = \"{}\"\nvhost = {{ queues = \"by-priority\" }}\n{slow}\n\
             [port.veth-{name}]\ninterface = \"veth-{name}\"\ntrust = \"dscp\"\n{slow}\n",
            socket.display()
        )
    };
    defaults + &GUESTS.map(port).concat()
}

/// Sets up both NICs of a guest. On the first one, the priority of a socket is the number of the
/// queue; frames of RoCE have priority 3 there, and those of ICMP priority 5. Debian's default,
/// `fq_codel`, drops what has waited, and so what a pause makes wait.
fn set_up(guest: &mut Guest) -> Result<()> {
    let queues: Vec<String> = (0..8).map(|queue| format!("1@{queue}")).collect();
    guest.run("echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6")?;
    guest.run("echo pfifo_fast > /proc/sys/net/core/default_qdisc")?;
    for (nic, name) in [(0, "vhost0"), (1, "veth0")] {
        let number = guest.number;
        guest.run(&format!(
            "name=$(grep -l {} /sys/class/net/*/address | busybox cut -d/ -f5); ip link set $name name {name}",
            mac(nic, number)
        ))?;
        guest.run(&format!("ip addr add {}/24 dev {name} && ip link set {name} up", ipv4(nic, number)))?;
        for (_, other) in GUESTS.into_iter().filter(|&(_, other)| other != number) {
            let (address, mac) = (ipv4(nic, other), mac(nic, other));
            guest.run(&format!("ip neigh add {address} lladdr {mac} dev {name} nud permanent"))?;
        }
    }
    guest.run("ethtool -L vhost0 combined 8")?;
    guest.run(&format!(
        "tc qdisc add dev vhost0 root mqprio num_tc 8 map 0 1 2 3 4 5 6 7 0 0 0 0 0 0 0 0 queues {} hw 0",
        queues.join(" ")
    ))?;
    guest.run("tc qdisc add dev vhost0 clsact")?;
    for (matches, priority) in
        [("ip protocol 17 0xff match ip dport 4791 0xffff", 3), ("ip protocol 1 0xff", 5)]
    {
        guest.run(&format!(
            "tc filter add dev vhost0 egress protocol ip u32 match {matches} action skbedit priority {priority}"
        ))?;
    }
    Ok(())
}
