//! LLDP on veths: two daemons, a daemon between two others that forwards LLDP, a host that sends
//! malformed frames, tshark, lldpd and lldpad.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use control::BlockingClient;
use control::v1::{LldpNeighbor, LldpPort, LldpSystem};
use serde_json::Value;
use testbed::{Daemon, Endpoint, Namespace, Process, Testbed, binary, eventually, port};
use tests::Capture;
use wire::ethernet::{LLDP, write_header};
use wire::mac::MacAddr;
use xdp::PacketSocket;

/// A daemon with one port, on interface `p`, that sends each second.
fn config(name: &str, of_port: &str) -> String {
    format!(
        "[switch]\nname = \"{name}\"\n\n[lldp]\ntx_interval_s = 1\nhold = 2\n\
         management_addresses = [\"192.0.2.1\", \"fd00::1\"]\n\n[port.first]\ninterface = \"p\"\n\
         {of_port}\n"
    )
}

/// Two namespaces, and a cable between an interface `p` in each.
struct Pair {
    bed: Testbed,
    left: Namespace,
    right: Namespace,
}

impl Pair {
    fn new() -> Result<Self> {
        let bed = Testbed::new()?;
        let (left, right) = (bed.switch("left")?, bed.switch("right")?);
        bed.cable((&left, "p"), (&right, "p"))?;
        Ok(Self { bed, left, right })
    }
}

fn lldp(daemon: &Daemon) -> Result<LldpPort> {
    let ports = BlockingClient::connect(daemon.socket())?.lldp()?.ports;
    ports.into_iter().next().context("a port with an interface")
}

/// Waits until the daemon has this many neighbors.
fn neighbors(daemon: &Daemon, count: usize) -> Result<Vec<LldpNeighbor>> {
    let what = format!("{count} neighbors");
    eventually(&what, || Ok(Some(lldp(daemon)?.neighbors).filter(|neighbors| neighbors.len() == count)))
}

fn system(neighbor: &LldpNeighbor) -> Result<&LldpSystem> {
    neighbor.system.as_ref().context("what it advertises")
}

/// Returns the kinds of the daemon's events about LLDP.
fn events(daemon: &Daemon) -> Result<Vec<String>> {
    let events = BlockingClient::connect(daemon.socket())?.events(0)?;
    let kinds = events.into_iter().map(|event| event.kind);
    Ok(kinds.filter(|kind| kind.starts_with("lldp_")).collect())
}

/// Returns what `sluice show lldp …` prints of the daemon.
fn show(daemon: &Daemon, arguments: &str) -> Result<String> {
    let mut command = Command::new(binary("sluice")?);
    command.args(["show", "lldp"]).args(arguments.split_whitespace());
    let output = command.arg("--socket").arg(daemon.socket()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Each lists the other with all that it advertises; the kernel's counts agree with the daemon's.
/// When one stops, the other forgets it at once.
#[test]
fn two_switches_know_each_other_until_one_stops() -> Result<()> {
    let pair = Pair::new()?;
    let left = pair.bed.daemon(&pair.left, &config("left", "lldp = \"both\""))?;
    let right = pair.bed.daemon(&pair.right, &config("right", "lldp = \"both\""))?;
    let (of_left, of_right) = (neighbors(&left, 1)?, neighbors(&right, 1)?);
    let (seen, sent) = (system(&of_right[0])?, lldp(&left)?.local.context("what left advertises")?);
    ensure!(*seen == sent, "right sees {seen:?}, left sends {sent:?}");
    ensure!(seen.system_name.as_deref() == Some("left"), "{seen:?}");
    ensure!((seen.port_id.as_str(), seen.port_id_type.as_str()) == ("p", "ifname"), "{seen:?}");
    ensure!(seen.port_description.as_deref() == Some("first"), "{seen:?}");
    ensure!(seen.management_addresses == ["192.0.2.1", "fd00::1"], "{seen:?}");
    ensure!((seen.ttl_s, seen.max_frame_bytes, seen.port_vlan) == (3, Some(1522), Some(0)), "{seen:?}");
    ensure!(system(&of_left[0])?.system_name.as_deref() == Some("right"), "{of_left:?}");
    left.kernel_agrees()?;
    let text = show(&right, "neighbors")?;
    ensure!(text.contains("Interface:    first, via: LLDP") && text.contains("SysName:      left"), "{text}");
    let json: Value = serde_json::from_str(&show(&right, "neighbors --json --port first")?)?;
    let entry = &json["lldp"]["interface"][0]["first"];
    ensure!(entry["chassis"]["left"]["capability"][0]["type"] == "Bridge", "{json}");
    let table = show(&right, "")?;
    ensure!(table.contains("first") && table.contains("both"), "{table}");

    left.stop()?;
    neighbors(&right, 0)?;
    let state = lldp(&right)?.state.context("state")?;
    ensure!((state.neighbors_shut_down, state.neighbors_aged_out) == (1, 0), "{state:?}");
    ensure!(state.malformed_frames + state.malformed_tlvs + state.unrecognized_tlvs == 0, "{state:?}");
    let kinds = events(&right)?;
    ensure!(kinds == ["lldp_neighbor_added", "lldp_neighbor_lost"], "{kinds:?}");
    Ok(())
}

/// A neighbor that dies is gone after its time to live.
#[test]
fn a_neighbor_that_dies_expires() -> Result<()> {
    let pair = Pair::new()?;
    let left = pair.bed.daemon(&pair.left, &config("left", "lldp = \"both\""))?;
    let right = pair.bed.daemon(&pair.right, &config("right", "lldp = \"both\""))?;
    neighbors(&right, 1)?;
    left.kill9()?;
    neighbors(&right, 0)?;
    let state = lldp(&right)?.state.context("state")?;
    ensure!((state.neighbors_shut_down, state.neighbors_aged_out) == (0, 1), "{state:?}");
    Ok(())
}

/// A port without a carrier is open, as one of a NIC that settles is, and has no link to advertise
/// on: it sends nothing until the carrier is there.
#[test]
fn a_port_without_a_carrier_has_no_link() -> Result<()> {
    let bed = Testbed::new()?;
    let (switch, right) = (bed.switch("switch")?, bed.switch("right")?);
    bed.cable((&switch, "p"), (&right, "p"))?;
    bed.cable((&switch, "q"), (&right, "q"))?;
    right.ip("link set p down")?;
    let two = config("switch", "lldp = \"both\"\n[port.other]\ninterface = \"q\"\nlldp = \"both\"");
    let daemon = bed.daemon(&switch, &two)?;
    let sent = || -> Result<[u64; 2]> {
        let ports = BlockingClient::connect(daemon.socket())?.lldp()?.ports;
        let sent = |name: &str| {
            let state = ports.iter().find(|port| port.name == name).and_then(|port| port.state.clone());
            state.map_or(0, |state| state.sent_frames)
        };
        Ok([sent("first"), sent("other")])
    };
    let before = eventually("the other port sends", || Ok(Some(sent()?).filter(|sent| sent[1] > 1)))?;
    ensure!(before[0] == 0, "{before:?}");
    right.ip("link set p up")?;
    eventually("it sends with the carrier", || Ok((sent()?[0] > 0).then_some(())))
}

/// Only the selected TLVs are sent, in one direction only, and a reload changes both.
#[test]
fn a_reload_selects_tlvs_and_directions() -> Result<()> {
    let pair = Pair::new()?;
    let sends = "lldp = \"tx\"\nlldp_tlvs = [\"system-name\"]";
    let left = pair.bed.daemon(&pair.left, &config("left", sends))?;
    let right = pair.bed.daemon(&pair.right, &config("right", "lldp = \"both\""))?;
    let of_right = neighbors(&right, 1)?;
    let seen = system(&of_right[0])?;
    ensure!(seen.system_name.as_deref() == Some("left") && seen.port_description.is_none(), "{seen:?}");
    ensure!(seen.capabilities.is_empty() && seen.port_vlan.is_none(), "{seen:?}");
    let reserved = |daemon: &Daemon| {
        daemon.until("dropped LLDP", |snapshot| {
            let port = port(snapshot, "first").ok()?;
            (port.drops["reserved_address"].frames > 0).then_some(port.lldp_received_frames)
        })
    };
    ensure!(reserved(&left)? == 0 && lldp(&left)?.neighbors.is_empty(), "it does not receive");

    let text = std::fs::read_to_string(left.config())?.replace(sends, "lldp = \"rx\"");
    std::fs::write(left.config(), text)?;
    let changes = BlockingClient::connect(left.socket())?.execute(control::Command::Reload)?;
    ensure!(changes == ["port.first: lldp \"tx\" → \"rx\"", "port.first: lldp_tlvs"], "{changes:?}");
    neighbors(&left, 1)?;
    neighbors(&right, 0)?; // a shutdown frame: the port sends no more
    ensure!(lldp(&right)?.state.is_some_and(|state| state.neighbors_shut_down == 1), "by a shutdown frame");
    Ok(())
}

/// A switch that forwards LLDP is a wire: its neighbors see each other, and not the switch.
#[test]
fn a_switch_can_be_a_wire() -> Result<()> {
    let bed = Testbed::new()?;
    let (left, wire, right) = (bed.switch("left")?, bed.switch("wire")?, bed.switch("right")?);
    bed.cable((&left, "p"), (&wire, "a"))?;
    bed.cable((&wire, "b"), (&right, "p"))?;
    let between = "[port-defaults]\nlldp = \"forward\"\n[port.a]\ninterface = \"a\"\n[port.b]\n\
                   interface = \"b\"\n";
    let between = bed.daemon(&wire, between)?;
    let left = bed.daemon(&left, &config("left", "lldp = \"both\""))?;
    let right = bed.daemon(&right, &config("right", "lldp = \"both\""))?;
    for (daemon, other) in [(&left, "right"), (&right, "left")] {
        let seen = neighbors(daemon, 1)?;
        ensure!(system(&seen[0])?.system_name.as_deref() == Some(other), "{seen:?}");
    }
    let snapshot = between.snapshot()?;
    for name in ["a", "b"] {
        let port = port(&snapshot, name)?;
        let lldp = port.lldp.clone().context("LLDP of the port")?;
        ensure!(port.lldp_received_frames == 0 && lldp.sent_frames == 0, "{lldp:?}");
        ensure!(port.transmitted.is_some_and(|sent| sent.frames > 0), "{port:?}");
    }
    Ok(())
}

/// Malformed frames are counted, shown, and change nothing.
#[test]
fn malformed_frames_are_counted() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let host = bed.sluice_host(&switch, "p")?;
    let daemon = bed.daemon(&switch, &config("switch", "lldp = \"both\""))?;
    let socket = host.namespace.enter(|| PacketSocket::open(Endpoint::INTERFACE))??;
    for len in [14, 20, 60, 1514] {
        let mut frame = vec![0xff; len];
        write_header(&mut frame, MacAddr::NEAREST_BRIDGE, MacAddr([2, 0, 0, 0, 0, 9]), None, LLDP);
        socket.send(&frame)?;
    }
    let state = eventually("four malformed frames", || {
        Ok(lldp(&daemon)?.state.filter(|state| state.malformed_frames == 4))
    })?;
    ensure!((state.read_frames, state.neighbors, state.lost_frames) == (4, 0, 0), "{state:?}");
    ensure!(port(&daemon.snapshot()?, "first")?.lldp_received_frames == 4);
    let table = show(&daemon, "")?;
    ensure!(table.contains("first: last malformed: "), "{table}");
    Ok(())
}

/// The switch and lldpd list each other.
#[test]
fn lldpd_and_the_switch_know_each_other() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let host = bed.sluice_host(&switch, "p")?;
    let daemon = bed.daemon(&switch, &config("switch", "lldp = \"both\""))?;
    let socket = bed.dir().join("lldpd.sock").display().to_string();
    let mut command = host.namespace.command("lldpd");
    let interface = Endpoint::INTERFACE;
    command.args(["-d", "-u", &socket, "-I", interface, "-C", interface, "-S", "a Linux host"]);
    let _lldpd = Process::start("lldpd", &mut command)?;
    let of_switch = neighbors(&daemon, 1)?;
    let seen = system(&of_switch[0])?;
    ensure!((seen.chassis_id_type.as_str(), seen.chassis_id.clone()) == ("mac", host.mac()), "{seen:?}");
    ensure!(seen.system_description.as_deref() == Some("a Linux host"), "{seen:?}");

    let of_lldpd = eventually("lldpd's neighbor", || {
        let list = host.namespace.run(&format!("lldpcli -u {socket} -f json0 show neighbors details"))?;
        let list: Value = serde_json::from_str(&list)?;
        Ok(list.pointer("/lldp/0/interface/0").cloned())
    })?;
    let value = |pointer: &str| of_lldpd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    ensure!(value("/chassis/0/name/0/value") == "switch", "{of_lldpd}");
    ensure!(value("/port/0/id/0/value") == "p" && value("/port/0/mfs/0/value") == "1522", "{of_lldpd}");
    ensure!(value("/port/0/descr/0/value") == "first", "{of_lldpd}");
    ensure!(value("/chassis/0/mgmt-ip/0/value") == "192.0.2.1", "{of_lldpd}");
    let state = lldp(&daemon)?.state.context("state")?;
    ensure!(state.malformed_frames + state.malformed_tlvs == 0, "{state:?}");
    Ok(())
}

/// Wireshark's `tshark` decodes what the switch sends on the wire, in the versions of DCBX that it
/// knows, without a malformed mark.
#[test]
fn tshark_decodes_what_is_on_the_wire() -> Result<()> {
    for (version, dcbx_fields, expected) in [
        ("ieee", ["lldp.dcbx.ieee.pfc.numtcs", "lldp.ieee.802_1.subtype"], ["8", "0x0b"]),
        ("cee", ["lldp.dcbx.feature.enabled", "lldp.dcbx.type"], ["1", "3"]),
    ] {
        let bed = Testbed::new()?;
        let switch = bed.switch("switch")?;
        let host = bed.sluice_host(&switch, "p")?;
        let capture = Capture::start(&bed, &host, "ether proto 0x88cc")?;
        let port = format!(
            "lldp = \"both\"\npfc = {{ mode = \"auto\", no_drop = [3] }}\ndcbx = {{ version = \"{version}\", \
             willing = true, applications = [{{ udp = 4791, priority = 3 }}] }}\nschedule = {{ mode = \"ets\" }}"
        );
        let _daemon = bed.daemon(&switch, &config("switch", &port))?;
        let fields = ["lldp.tlv.system.name", "_ws.malformed", "lldp.dcbx.feature.pfc.prio3"];
        for frame in capture.wait_for("lldp", &[&fields[..], &dcbx_fields].concat(), 3)? {
            let [name, malformed, pfc, first, second] = &frame[..] else { bail!("{frame:?}") };
            ensure!((name.as_str(), malformed.as_str(), pfc.as_str()) == ("switch", "", "1"), "{frame:?}");
            ensure!(first.contains(expected[0]) && second.contains(expected[1]), "{frame:?}");
        }
    }
    Ok(())
}

/// The switch and lldpad list each other, and lldpad reads the PFC that the switch advertises. It
/// sends no DCBX itself: it refuses that on a device whose driver has no DCB, as a veth.
#[test]
fn lldpad_and_the_switch_know_each_other() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let host = bed.sluice_host(&switch, "p")?;
    let port = "lldp = \"both\"\npfc = { mode = \"auto\", no_drop = [3] }\ndcbx = { version = \"ieee\" }";
    let daemon = bed.daemon(&switch, &config("switch", port))?;
    // It keeps its process id in shared memory and below /run: both are to be its own.
    let mut command = host.namespace.command("unshare");
    let run = "mount -t tmpfs none /run && exec lldpad -f /run/lldpad.conf";
    let lldpad = Process::start("lldpad", command.args(["--mount", "--ipc", "sh", "-c", run]))?;
    let lldptool = |arguments: &str| {
        let mut command = Command::new("nsenter");
        command.args(["-t", &lldpad.pid().to_string(), "--mount", "--ipc", "--net", "lldptool"]);
        let output = command.args(arguments.split_whitespace()).output()?;
        Ok::<_, anyhow::Error>(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let interface = Endpoint::INTERFACE;
    eventually("lldpad answers", || {
        let answer = lldptool(&format!("-L -i {interface} adminStatus=rxtx"))?;
        Ok(answer.contains("adminStatus = rxtx").then_some(()))
    })?;
    lldptool(&format!("-T -i {interface} -V portDesc enableTx=yes"))?;
    let of_switch = neighbors(&daemon, 1)?;
    let seen = system(&of_switch[0])?;
    ensure!((seen.port_id_type.as_str(), seen.port_id.clone()) == ("mac", host.mac()), "{seen:?}");
    let list = eventually("lldpad's neighbor", || {
        let list = lldptool(&format!("-t -n -i {interface}"))?;
        Ok(list.contains("System Name TLV").then_some(list))
    })?;
    for expected in [
        "Ifname: p",
        "IEEE 8021QAZ PFC TLV",
        "PFC enabled: 3",
        "Maximum Frame Size TLV\n\t1522",
        "IPv4: 192.0.2.1",
        "Port Description TLV\n\tfirst",
        "System Name TLV\n\tswitch",
    ] {
        ensure!(list.contains(expected), "{expected} is missing in {list}");
    }
    let refused = lldptool(&format!("-T -i {interface} -V PFC enableTx=yes"))?;
    ensure!(refused.contains("Device not capable"), "{refused}");
    let state = lldp(&daemon)?.state.context("state")?;
    ensure!(state.malformed_frames + state.malformed_tlvs == 0, "{state:?}");
    Ok(())
}
