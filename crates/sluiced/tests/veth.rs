//! The daemon on real veths: two or three ordinary hosts on one switch, each in a network namespace
//! of its own. Needs root.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use control::v1::{Event, Port, Snapshot};
use control::{BlockingClient, FrameBalance};

/// Fails a test that would otherwise wait indefinitely; no result depends on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A namespace for the switch and one for each host, removed on drop.
struct Lab {
    name: String,
    hosts: Vec<&'static str>,
    folder: tempfile::TempDir,
    daemon: Option<Child>,
}

impl Lab {
    /// Host i has the address 10.9.0.(i + 1) on `eth0`; the interface of its port is `port-HOST`.
    fn new(hosts: &[&'static str]) -> Self {
        static LABS: AtomicU32 = AtomicU32::new(0);
        let name = format!("sluiced-{}-{}", std::process::id(), LABS.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::tempdir().unwrap();
        let lab = Self { name, hosts: hosts.to_vec(), folder, daemon: None };
        ip(&format!("netns add {}", lab.space("switch")));
        for (number, host) in hosts.iter().enumerate() {
            let (space, switch) = (lab.space(host), lab.space("switch"));
            ip(&format!("netns add {space}"));
            lab.silence(host);
            ip(&format!("link add name port-{host} netns {switch} type veth peer name eth0 netns {space}"));
            ip(&format!("-n {switch} link set dev port-{host} up"));
            ip(&format!("-n {space} addr add 10.9.0.{}/24 dev eth0", number + 1));
            ip(&format!("-n {space} link set dev eth0 up"));
        }
        lab
    }

    /// Turns IPv6 off, with which a host speaks unasked: such a frame may be lost as its carrier
    /// goes.
    fn silence(&self, host: &str) {
        let off = "for of in all default; do echo 1 > /proc/sys/net/ipv6/conf/$of/disable_ipv6; done";
        assert!(self.inside(host, "sh").args(["-c", off]).status().unwrap().success());
    }

    fn space(&self, role: &str) -> String {
        format!("{}-{role}", self.name)
    }

    /// Returns a command that runs in a namespace.
    fn inside(&self, role: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(role), program]);
        command
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("lab.toml")
    }

    /// Reloads the file with this text at its end. Returns the changes, or why it was refused.
    fn reload_with(&self, more: &str) -> Result<Vec<String>, String> {
        let text = fs::read_to_string(self.file()).unwrap();
        fs::write(self.file(), text + more).unwrap();
        let mut client = BlockingClient::connect(&self.socket()).unwrap();
        client.execute(control::Command::Reload).map_err(|error| error.to_string())
    }

    /// Returns the messages of all events of this kind.
    fn messages(&self, kind: &str) -> Vec<String> {
        let events = self.events().into_iter().filter(|event| event.kind == kind);
        events.map(|event| event.message).collect()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    /// Starts the daemon on the ports of all hosts, with `more` in the table of each, and waits
    /// until it is ready.
    fn start(&mut self, more: &str) {
        self.start_with(more, "");
    }

    /// Does the same, with these tables besides.
    fn start_with(&mut self, more: &str, tables: &str) {
        let mut text =
            format!("[switch]\nname = \"lab\"\n[control]\nsocket = \"{}\"\n", self.socket().display());
        text += "[buffer]\ntotal_cells = 16384\nheadroom_cells = 1024\n";
        for host in &self.hosts {
            text += &format!("[port.{host}]\ninterface = \"port-{host}\"\n{more}\n");
        }
        let file = self.file();
        fs::write(&file, text + tables).unwrap();
        let log = |name: &str| fs::File::create(self.folder.path().join(name)).unwrap();
        let (out, err) = (log("out"), log("err"));
        let mut command = self.inside("switch", env!("CARGO_BIN_EXE_sluiced"));
        command
            .arg("--config")
            .arg(&file)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        self.daemon = Some(command.spawn().unwrap());
        self.until("the daemon is ready", |lab| lab.output("err").contains("sluiced is ready"));
    }

    /// Returns the output of the daemon.
    fn output(&self, file: &str) -> String {
        fs::read_to_string(self.folder.path().join(file)).unwrap()
    }

    fn snapshot(&self) -> Snapshot {
        BlockingClient::connect(&self.socket()).unwrap().snapshot().unwrap()
    }

    fn events(&self) -> Vec<Event> {
        BlockingClient::connect(&self.socket()).unwrap().events(0).unwrap()
    }

    /// Waits until a condition holds.
    fn until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !condition(self) {
            let ended = self.daemon.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "{what}: never\n{}", self.output("err"));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends SIGTERM and returns the exit code.
    fn terminate(&mut self) -> Option<i32> {
        let mut daemon = self.daemon.take().unwrap();
        assert!(Command::new("kill").arg(daemon.id().to_string()).status().unwrap().success());
        daemon.wait().unwrap().code()
    }

    fn ping(&self, from: &str, to: &str) {
        let to = self.hosts.iter().position(|host| *host == to).unwrap() + 1;
        let output = self
            .inside(from, "ping")
            .args(["-c", "3", "-i", "0.2", "-W", "10", &format!("10.9.0.{to}")])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}\n{}",
            String::from_utf8_lossy(&output.stdout),
            self.output("err")
        );
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for role in ["switch"].iter().chain(&self.hosts) {
            let _ = Command::new("ip").args(["netns", "del", &self.space(role)]).status();
        }
    }
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
    assert!(
        output.status.success(),
        "ip {arguments}: {}(this test needs root)",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn port<'a>(snapshot: &'a Snapshot, name: &str) -> &'a Port {
    snapshot.ports.iter().find(|port| port.name == name).unwrap()
}

#[test]
fn two_hosts_reach_each_other_and_the_daemon_accounts_for_it() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.start("");
    lab.ping("a", "b");

    let info = BlockingClient::connect(&lab.socket()).unwrap().info().unwrap();
    assert_eq!((info.name.as_str(), info.version.as_str()), ("lab", env!("CARGO_PKG_VERSION")));
    assert!(info.config.ends_with("lab.toml"), "{}", info.config);
    let snapshot = lab.snapshot();
    let a = port(&snapshot, "a");
    assert_eq!((a.interface.as_str(), a.xdp_mode.as_str(), a.up), ("port-a", "native", true));
    assert!(a.received.unwrap().frames >= 4, "an ARP request and three pings: {a:#?}");
    assert!(snapshot.bridge_entries >= 2);

    assert_eq!(lab.terminate(), Some(0));
    let totals = lab.output("out");
    assert!(totals.starts_with("Totals after "), "{totals}");
    assert!(totals.contains("every frame is accounted for"), "{totals}");
    let free = totals.lines().last().unwrap().strip_prefix("Memory: ").unwrap();
    let free: Vec<&str> = free.split(' ').collect();
    assert_eq!(free[0], free[2], "{totals}");
    assert!(!lab.socket().exists());
}

/// The queue is full and its port slow: the drain time is too short for all frames, and the rest is
/// counted.
#[test]
fn what_cannot_leave_when_the_daemon_stops_is_counted() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.start("speed = \"1M\"");
    lab.ping("a", "b"); // so that both hosts are learned, and nothing is flooded
    let flood = ["-c", "400", "-l", "400", "-s", "1400", "-W", "1", "10.9.0.2"];
    let mut ping = lab.inside("a", "ping").args(flood).stdout(Stdio::null()).spawn().unwrap();
    lab.until("the queue is long", |lab| port(&lab.snapshot(), "b").queues[2].waiting_frames > 200);

    assert_eq!(lab.terminate(), Some(0));
    let totals = lab.output("out");
    assert!(totals.contains("every frame is accounted for"), "{totals}");
    assert!(totals.contains("  b: port_down "), "{totals}");
    let _ = ping.kill();
    let _ = ping.wait();
}

/// When a host's interface goes down, its port goes down and the other ports continue. When it
/// comes back, the port does too.
#[test]
fn a_port_that_loses_its_carrier_goes_down_alone_and_comes_back() {
    let mut lab = Lab::new(&["a", "b", "c"]);
    lab.start("");
    lab.ping("a", "b");
    let host = lab.space("b");
    ip(&format!("-n {host} link set dev eth0 down"));
    lab.until("the port is down", |lab| !port(&lab.snapshot(), "b").up);
    assert!(lab.output("err").contains("the interface port-b has lost its carrier"), "{}", lab.output("err"));
    lab.ping("a", "c");
    lab.until("the events are there", |lab| lab.events().len() >= 2);
    let events = lab.events();
    let kinds: Vec<_> =
        events.iter().map(|event| (event.number, event.kind.as_str(), event.port.as_deref())).collect();
    assert_eq!(kinds, [(1, "interface_lost", Some("b")), (2, "port_down", Some("b"))]);
    assert!(events[0].at_ns > 0 && events[0].at_ns <= lab.snapshot().at_ns, "{events:?}");

    ip(&format!("-n {host} link set dev eth0 up"));
    lab.until("the port is up", |lab| port(&lab.snapshot(), "b").up);
    lab.ping("a", "b");
    lab.until("the events are there", |lab| lab.events().len() >= 4);
    let events = lab.events();
    let kinds: Vec<_> =
        events[2..].iter().map(|event| (event.kind.as_str(), event.port.as_deref())).collect();
    assert_eq!(kinds, [("interface_back", Some("b")), ("port_up", Some("b"))]);
    let snapshot = lab.snapshot();
    assert!(port(&snapshot, "a").up && port(&snapshot, "c").up);
    assert_eq!(lab.terminate(), Some(0));
    assert!(lab.output("out").contains("every frame is accounted for"), "{}", lab.output("out"));
}

/// Two cells at 100G last for less time than any loop takes between two readings of the clock.
#[test]
fn the_start_compares_headroom_with_the_loop() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.start("speed = \"100G\"\npfc = { mode = \"on\", no_drop = [3], priority.3.headroom_cells = 2 }");
    let output = lab.output("err");
    for port in ["a", "b"] {
        let lasts = format!("port {port}, priority 3: 2 headroom cells last 10 ns at 100G");
        let of_port = output.lines().filter(|line| line.contains(&lasts)).collect::<Vec<_>>();
        let [plain, warned] = of_port[..] else { panic!("{output}") };
        assert!(plain.contains("INFO") && plain.ends_with(&lasts), "{output}");
        assert!(
            warned.contains("WARN") && warned.contains("shorter than the loop on core 0 stalled, "),
            "{output}"
        );
    }
    assert!(output.contains("in a trial of 100 ms, a loop on core 0 stalled for "), "{output}");
    assert_eq!(lab.terminate(), Some(0));
}

/// A host that comes up after the switch needs no restart.
#[test]
fn a_port_without_carrier_works_once_it_has_one() {
    let mut lab = Lab::new(&["a", "b"]);
    let host = lab.space("b");
    ip(&format!("-n {host} link set dev eth0 down"));
    lab.start("");
    assert!(lab.output("err").contains("no carrier yet"), "{}", lab.output("err"));
    ip(&format!("-n {host} link set dev eth0 up"));
    lab.until("the carrier is noticed", |lab| {
        lab.output("err").contains("the interface port-b has its carrier")
    });
    lab.ping("a", "b");
    let snapshot = lab.snapshot();
    assert!(port(&snapshot, "b").up, "{snapshot:#?}");
    assert_eq!(lab.terminate(), Some(0));
}

/// A bridge's own reports of its ports are not reports of a lost interface, and changes of other
/// interfaces are ignored.
#[test]
fn changes_of_other_interfaces_do_not_matter() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.start("");
    let switch = lab.space("switch");
    for arguments in [
        "link add name other type veth peer name other2",
        "link add name br type bridge",
        "link set dev port-b master br",
        "link set dev port-b nomaster",
        "link del dev other",
    ] {
        ip(&format!("-n {switch} {arguments}"));
    }
    lab.ping("a", "b");
    let snapshot = lab.snapshot();
    assert!(snapshot.ports.iter().all(|port| port.up), "{snapshot:#?}");
    assert!(!lab.output("err").contains("WARN"), "{}", lab.output("err"));
    assert_eq!(lab.terminate(), Some(0));
    assert_eq!(FrameBalance::of(&snapshot).dropped, 0, "{snapshot:#?}");
}

/// Adds a cable for one more host, whose port `port-NAME` may have other numbers of queues.
fn plug(lab: &Lab, host: &str, port_queues: &str, host_queues: &str) {
    let (space, switch) = (lab.space(host), lab.space("switch"));
    ip(&format!(
        "link add name port-{host} {port_queues} netns {switch} type veth peer name eth0 {host_queues} netns {space}"
    ));
    ip(&format!("-n {switch} link set dev port-{host} up"));
    ip(&format!("-n {space} link set dev eth0 up"));
}

/// Of three interfaces one is missing and one is set down; the daemon starts with the third.
#[test]
fn ports_come_up_after_the_start_with_their_interfaces() {
    let mut lab = Lab::new(&["a", "b", "c"]);
    let switch = lab.space("switch");
    ip(&format!("-n {switch} link del dev port-b"));
    ip(&format!("-n {switch} link set dev port-c down"));
    lab.start("");
    let up = |lab: &Lab, name: &str| port(&lab.snapshot(), name).up;
    lab.until("the ports are down", |lab| !up(lab, "b") && !up(lab, "c"));
    assert!(up(&lab, "a"));
    let missing = lab.messages("interface_lost");
    assert!(
        missing[0].contains("port-b is not there") && missing[1].contains("port-c is down"),
        "{missing:?}"
    );
    ip(&format!("-n {switch} link set dev port-c up"));
    lab.until("the port is up", |lab| up(lab, "c"));
    lab.ping("a", "c");
    plug(&lab, "b", "", "");
    ip(&format!("-n {} addr add 10.9.0.2/24 dev eth0", lab.space("b")));
    lab.until("the port is up", |lab| up(lab, "b"));
    lab.ping("a", "b");
    assert_eq!(lab.messages("carrier_came").len(), 2);
    assert_eq!(lab.terminate(), Some(0));
    assert!(lab.output("out").contains("every frame is accounted for"), "{}", lab.output("out"));
}

/// The port of a veth with fewer RX queues than its peer has TX queues: its sockets can be opened,
/// its program not be attached.
#[test]
fn a_reload_refuses_a_port_that_cannot_be_attached() {
    let mut lab = Lab::new(&["a", "b", "c"]);
    let switch = lab.space("switch");
    ip(&format!("-n {switch} link del dev port-c"));
    plug(&lab, "c", "numrxqueues 1 numtxqueues 1", "numrxqueues 4 numtxqueues 4");
    lab.hosts.pop();
    lab.start("");
    let refusal = lab.reload_with("[port.c]\ninterface = \"port-c\"\n").unwrap_err();
    let words =
        "nothing was changed: port.c: interface port-c has fewer RX queues than its peer has TX queues";
    assert!(refusal.contains(words), "{refusal}");
    assert_eq!(lab.snapshot().ports.len(), 2);
    // Its interface is as before, and its slot is free.
    ip(&format!("-n {switch} link del dev port-c"));
    plug(&lab, "c", "", "");
    ip(&format!("-n {} addr add 10.9.0.3/24 dev eth0", lab.space("c")));
    assert_eq!(lab.reload_with("").unwrap(), ["port.c: added"]);
    lab.hosts.push("c");
    lab.ping("a", "c");
    assert_eq!(lab.terminate(), Some(0));
}

#[test]
fn a_port_is_opened_again_when_its_rx_queues_change() {
    let mut lab = Lab::new(&["a", "b"]);
    let switch = lab.space("switch");
    ip(&format!("-n {switch} link del dev port-b"));
    plug(&lab, "b", "numrxqueues 4 numtxqueues 4", "numrxqueues 1 numtxqueues 1");
    ip(&format!("-n {} addr add 10.9.0.2/24 dev eth0", lab.space("b")));
    let set_queues = |lab: &Lab, number: u32| {
        let number = number.to_string();
        let set =
            lab.inside("switch", "ethtool").args(["-L", "port-b", "rx", &number, "tx", &number]).output();
        set.unwrap().status.success()
    };
    let queues = |lab: &Lab, number| assert!(set_queues(lab, number));
    queues(&lab, 1);
    lab.start_with("", "[dataplane]\nspare_ports = 1\n");
    let has = |lab: &Lab, queues| {
        let snapshot = lab.snapshot();
        let port = port(&snapshot, "b");
        port.up && port.link.as_ref().is_some_and(|link| link.rx_queues == queues)
    };
    let before = port(&lab.snapshot(), "b").link.clone().unwrap().rx_queues;
    queues(&lab, before + 1);
    lab.until("the port is open again", |lab| {
        lab.messages("rx_queues_changed").len() == 1 && has(lab, before + 1)
    });
    lab.ping("a", "b");
    // More than there is memory for: the port stays down, and an event says the number.
    queues(&lab, before + 2);
    lab.until("the port is refused", |lab| !lab.messages("port_unusable").is_empty());
    let refusal = lab.messages("port_unusable").remove(0);
    let words = format!("has {} RX queues, and memory was set aside for {}", before + 2, before + 1);
    assert!(refusal.contains(&words), "{refusal}");
    assert!(!port(&lab.snapshot(), "b").up);
    // The kernel frees the closed sockets' queues after a moment.
    lab.until("there are fewer queues", |lab| set_queues(lab, before));
    lab.until("the port is up", |lab| has(lab, before));
    lab.ping("a", "b");
    assert_eq!(lab.terminate(), Some(0));
    assert!(lab.output("out").contains("every frame is accounted for"), "{}", lab.output("out"));
}
