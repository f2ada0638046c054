//! The daemon with ports on vhost-user sockets, whose guests are drivers in this process, beside a
//! veth. Needs root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use control::BlockingClient;
use control::v1::{Port, Snapshot};
use virtio::front_end::{FrontEnd, FrontEndSettings};
use wire::ethernet::{EXPERIMENTAL, write_header};
use wire::mac::MacAddr;

/// The user without any rights.
const NOBODY: &str = "65534";
/// Fails a test that would otherwise wait indefinitely; no result depends on it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two guests with a queue for each priority, one with a slow port, and a host on a veth.
const PORTS: &str = r#"
[port.a]
vhost_user = "DIR/a.sock"
vhost = { queues = "by-priority" }
pfc = { mode = "on", no_drop = [3] }

[port.b]
vhost_user = "DIR/b.sock"
vhost = { queues = "by-priority" }
pfc = { mode = "on", no_drop = [3] }

[port.slow]
vhost_user = "DIR/slow.sock"
vhost = { queues = "by-priority" }
speed = "100M"
pfc = { mode = "on", no_drop = [3] }

[port.host]
interface = "port-host"
"#;

/// A namespace for the switch and one for the host, removed on drop.
struct Lab {
    name: String,
    folder: tempfile::TempDir,
    daemon: Option<Child>,
}

impl Lab {
    fn new() -> Self {
        static LABS: AtomicU32 = AtomicU32::new(0);
        let name = format!("vhost-{}-{}", std::process::id(), LABS.fetch_add(1, Ordering::Relaxed));
        let mut lab = Self { name, folder: tempfile::tempdir().unwrap(), daemon: None };
        let (switch, host) = (lab.space("switch"), lab.space("host"));
        ip(&format!("netns add {switch}"));
        ip(&format!("netns add {host}"));
        // Its kernel would send something by itself, at any time.
        for which in ["all", "default"] {
            ip(&format!("netns exec {host} sysctl -qw net.ipv6.conf.{which}.disable_ipv6=1"));
        }
        ip(&format!("link add name port-host netns {switch} type veth peer name eth0 netns {host}"));
        ip(&format!("-n {switch} link set dev port-host up"));
        ip(&format!("-n {host} addr add 10.9.0.1/24 dev eth0"));
        ip(&format!("-n {host} link set dev eth0 up"));
        let mut daemon = Command::new("ip");
        daemon.args(["netns", "exec", &switch, env!("CARGO_BIN_EXE_sluiced")]);
        lab.start(daemon, PORTS);
        lab
    }

    /// A daemon of an ordinary user, with the capabilities that the memory of frames takes.
    fn of_a_user(ports: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let program = folder.path().join("sluiced");
        fs::copy(env!("CARGO_BIN_EXE_sluiced"), &program).unwrap();
        let mut lab = Self { name: format!("vhost-{}-none", std::process::id()), folder, daemon: None };
        let mut daemon = Command::new("setpriv");
        daemon.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--no-new-privs"]);
        let capabilities = "-all,+net_raw,+ipc_lock";
        daemon.args(["--inh-caps", capabilities, "--ambient-caps", capabilities]).arg(program);
        lab.start(daemon, ports);
        lab
    }

    fn space(&self, role: &str) -> String {
        format!("{}-{role}", self.name)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn start(&mut self, mut daemon: Command, ports: &str) {
        let mut text = format!("[control]\nsocket = \"{}\"\n", self.path("control.sock").display());
        text += "[buffer]\ntotal_cells = 16384\nheadroom_cells = 1024\n";
        text += &ports.replace("DIR", &self.folder.path().display().to_string());
        fs::write(self.path("lab.toml"), text).unwrap();
        let log = |name: &str| fs::File::create(self.path(name)).unwrap();
        let daemon = daemon
            .arg("--config")
            .arg(self.path("lab.toml"))
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(log("out"))
            .stderr(log("err"))
            .spawn();
        self.daemon = Some(daemon.unwrap());
        self.until("the daemon is ready", |lab| lab.log().contains("sluiced is ready"));
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("err")).unwrap()
    }

    fn until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !condition(self) {
            let ended = self.daemon.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "{what}: never\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Connects a guest to a port, and waits until the port is up.
    fn guest(&mut self, port: &str) -> FrontEnd {
        let settings = FrontEndSettings { queue_pairs: 8, ..FrontEndSettings::default() };
        let guest = FrontEnd::connect(&self.path(&format!("{port}.sock")), settings).unwrap();
        self.until("the port is up", |lab| lab.port(port).up);
        guest
    }

    /// Returns the daemon's threads whose names begin like this.
    fn threads(&self, name: &str) -> impl Iterator<Item = Thread> {
        let tasks = format!("/proc/{}/task", self.daemon.as_ref().unwrap().id());
        let threads: Vec<_> =
            fs::read_dir(tasks).unwrap().filter_map(|task| Thread::read(&task.unwrap().path())).collect();
        let name = name.to_owned();
        threads.into_iter().filter(move |thread| thread.name.starts_with(&name))
    }

    fn snapshot(&self) -> Snapshot {
        BlockingClient::connect(&self.path("control.sock")).unwrap().snapshot().unwrap()
    }

    fn port(&self, name: &str) -> Port {
        self.snapshot().ports.into_iter().find(|port| port.name == name).unwrap()
    }

    /// Sends SIGTERM, and checks that every frame is accounted for.
    fn terminate(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        assert!(Command::new("kill").arg(daemon.id().to_string()).status().unwrap().success());
        assert_eq!(daemon.wait().unwrap().code(), Some(0), "{}", self.log());
        assert!(!self.log().contains("frames are missing"), "{}", self.log());
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for role in ["switch", "host"] {
            let _ =
                Command::new("ip").args(["netns", "del", &self.space(role)]).stderr(Stdio::null()).status();
        }
    }
}

/// A thread as the kernel reports it.
struct Thread {
    name: String,
    sleeps: bool,
    /// The cores that it may run on, as the kernel lists them.
    cores: String,
}

impl Thread {
    /// Reads the folder of a thread; `None` if it has just ended.
    fn read(task: &std::path::Path) -> Option<Self> {
        let status = fs::read_to_string(task.join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().trim().to_owned()
        };
        let (name, state, cores) = (field("Name"), field("State"), field("Cpus_allowed_list"));
        Some(Self { name, sleeps: state.starts_with('S'), cores })
    }
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

fn mac(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 9, number])
}

fn frame(dst: MacAddr, src: u8, number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let at = write_header(&mut bytes, dst, mac(src), None, EXPERIMENTAL);
    bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Takes what a guest received, by queue.
fn receive(guest: &mut FrontEnd, mut take: impl FnMut(usize, &[u8])) {
    let mut buffer = Vec::new();
    for pair in 0..guest.queue_pairs() {
        while guest.receive(pair, &mut buffer) {
            take(pair, &buffer);
        }
        guest.repost(pair);
    }
}

/// Two guests send priority 3, as fast as their queues take it, and some of priority 5, to a guest
/// on a slow port. Their senders know nothing of pauses. Nothing is lost and all is in order.
#[test]
fn an_incast_of_guests_into_a_slow_port() {
    const FRAMES: u32 = 4000;
    let mut lab = Lab::new();
    let mut slow = lab.guest("slow");
    let mut guests = [lab.guest("a"), lab.guest("b")];
    slow.send(0, &frame(MacAddr::BROADCAST, 3, 0, 60)); // so that its address is known
    slow.flush(0);
    lab.until("the address is known", |lab| lab.port("slow").received.unwrap_or_default().frames > 0);
    let (mut next, mut held, mut arrived) = ([[0_u32; 8]; 2], 0_u64, [[0_u32; 8]; 2]);
    let began = Instant::now();
    while arrived.iter().any(|of_guest| of_guest[3] < FRAMES || of_guest[5] < FRAMES / 10) {
        assert!(began.elapsed() < PATIENCE, "{arrived:?} of {next:?}\n{}", lab.log());
        for (n, guest) in guests.iter_mut().enumerate() {
            for _ in 0..32 {
                if next[n][3] == FRAMES {
                    break;
                }
                if !guest.send(3, &frame(mac(3), n as u8, next[n][3], 1000)) {
                    held += 1;
                    break;
                }
                next[n][3] += 1;
            }
            // A tenth of the frames, which is below the share of priority 5.
            if next[n][5] * 10 < next[n][3] && next[n][5] < FRAMES / 10 {
                assert!(guest.send(5, &frame(mac(3), n as u8, next[n][5], 1000)), "priority 5 is held back");
                next[n][5] += 1;
            }
            guest.flush(3);
            guest.flush(5);
            receive(guest, |_, _| ());
        }
        receive(&mut slow, |pair, bytes| {
            let (from, number) = (bytes[11], u32::from_be_bytes(bytes[14..18].try_into().unwrap()));
            if bytes[..6] == mac(3).0 {
                assert_eq!(number, arrived[usize::from(from)][pair], "guest {from}, priority {pair}");
                arrived[usize::from(from)][pair] += 1;
            }
        });
    }
    assert!(held > 0, "their queues were full");
    let snapshot = lab.snapshot();
    for port in &snapshot.ports {
        // The host on the veth may have sent something for a guest that was not there yet.
        let drops = port.drops.iter().filter(|(reason, _)| *reason != "port_down");
        let drops: u64 = drops.map(|(_, count)| count.frames).sum();
        assert_eq!((drops, port.kernel_lost_frames), (0, 0), "{}: {:?}", port.name, port.drops);
    }
    assert!(
        snapshot
            .ports
            .iter()
            .filter(|port| ["a", "b"].contains(&port.name.as_str()))
            .all(|port| { port.pfc_sent.as_ref().is_some_and(|pfc| pfc.frames > 0) })
    );
    drop((slow, guests));
    lab.terminate();
}

/// Guests and a host on a veth reach each other; a guest that goes and comes again finds its port.
#[test]
fn guests_a_veth_and_reconnection() {
    let mut lab = Lab::new();
    for _ in 0..3 {
        let mut a = lab.guest("a");
        let mut b = lab.guest("b");
        let host = lab.space("host");
        let received = || {
            let file = "/sys/class/net/eth0/statistics/rx_packets";
            let out = Command::new("ip").args(["netns", "exec", &host, "cat", file]).output().unwrap();
            String::from_utf8(out.stdout).unwrap().trim().parse::<u64>().unwrap()
        };
        let before = received();
        for number in 0..100 {
            assert!(a.send(0, &frame(MacAddr::BROADCAST, 1, number, 100)));
        }
        a.flush(0);
        let (mut of_guest, mut of_host) = (0, 0);
        let began = Instant::now();
        let mut ping = Command::new("ip")
            .args(["netns", "exec", &host, "ping", "-i", "0.2", "10.9.0.77"]) // until it is killed
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while of_guest < 100 || of_host == 0 || received() < before + 100 {
            assert!(began.elapsed() < PATIENCE, "{of_guest} {of_host}\n{}", lab.log());
            receive(&mut b, |_, bytes| match bytes[6..12] == mac(1).0 {
                true => of_guest += 1,
                false => of_host += u32::from(bytes[12..14] == [8, 6]),
            });
            receive(&mut a, |_, _| ());
        }
        let _ = ping.kill();
        let _ = ping.wait();
        assert_eq!(of_guest, 100);
        drop((a, b));
        lab.until("the ports are down", |lab| !lab.port("a").up && !lab.port("b").up);
    }
    // The loop sleeps, and a guest that sends wakes it.
    let (mut a, mut b) = (lab.guest("a"), lab.guest("b"));
    for number in 0..20 {
        lab.until("the loop sleeps", |lab| lab.threads("poll-").all(|thread| thread.sleeps));
        assert!(a.send(0, &frame(MacAddr::BROADCAST, 1, number, 100)));
        a.flush(0);
        let (began, mut is_there) = (Instant::now(), false);
        while !is_there {
            assert!(began.elapsed() < PATIENCE, "{}", lab.log());
            receive(&mut b, |_, bytes| is_there |= bytes[6..12] == mac(1).0);
        }
    }
    drop((a, b));
    lab.terminate();
}

/// The threads of the sockets are kept off the loop's core, where there is another one.
#[test]
fn the_threads_of_sockets_leave_the_core_to_the_loop() {
    let mut lab = Lab::new();
    if std::thread::available_parallelism().unwrap().get() > 1 {
        let of_loop: Vec<_> = lab.threads("poll-").map(|thread| thread.cores).collect();
        assert_eq!(of_loop.len(), 1);
        for name in ["vhost-", "irq-"] {
            let others: Vec<_> = lab.threads(name).map(|thread| thread.cores).collect();
            assert_eq!(others.len(), 3, "one for each port with a socket");
            assert!(
                others.iter().all(|cores| !lists(cores, of_loop[0].parse().unwrap())),
                "{name}: {others:?}"
            );
        }
    }
    lab.terminate();
}

/// True if a list of the kernel, as "0-2,5", has a core.
fn lists(cores: &str, core: usize) -> bool {
    cores.split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        (first.parse().unwrap()..=last.parse().unwrap()).contains(&core)
    })
}

/// What happens to a guest is named as such, not as an interface.
#[test]
fn events_name_the_guest() {
    let mut lab = Lab::new();
    drop(lab.guest("a"));
    lab.until("the events", |lab| {
        let events = BlockingClient::connect(&lab.path("control.sock")).unwrap().events(0).unwrap();
        let has = |kind: &str, text: &str| {
            events.iter().any(|event| event.kind == kind && event.message.contains(text))
        };
        assert!(!events.iter().any(|event| event.message.contains("the interface /")), "{events:?}");
        has("interface_lost", "the guest on /") && has("interface_lost", "has stopped its driver")
    });
    lab.terminate();
}

/// Ports on sockets alone need no capability for interfaces: frames pass from guest to guest.
#[test]
fn sockets_alone_need_no_capability_for_interfaces() {
    let ports = PORTS.split("[port.host]").next().unwrap();
    let mut lab = Lab::of_a_user(ports);
    let (mut a, mut b) = (lab.guest("a"), lab.guest("b"));
    for number in 0..100 {
        assert!(a.send(3, &frame(MacAddr::BROADCAST, 1, number, 100)));
    }
    a.flush(3);
    let (began, mut arrived) = (Instant::now(), 0);
    while arrived < 100 {
        assert!(began.elapsed() < PATIENCE, "{arrived}\n{}", lab.log());
        receive(&mut b, |_, bytes| arrived += u32::from(bytes[6..12] == mac(1).0));
    }
    drop((a, b));
    lab.terminate();
}

/// What a front end is refused is an event, and the port works with the next one.
#[test]
fn refusals_are_events() {
    let mut lab = Lab::new();
    let settings = FrontEndSettings { sealed: false, ..FrontEndSettings::default() };
    assert!(FrontEnd::connect(&lab.path("a.sock"), settings).is_err());
    lab.until("the event", |lab| {
        let events = BlockingClient::connect(&lab.path("control.sock")).unwrap().events(0).unwrap();
        events.iter().any(|event| {
            event.kind == "vhost_user_refused" && event.message.contains("allow_unsealed_memory")
        })
    });
    drop(lab.guest("a"));
    lab.terminate();
}
