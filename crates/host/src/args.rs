//! The command line of `sluice host`.

use crate::frame::{MAX_BYTES, MIN_BYTES, MIN_IP_BYTES};
use crate::units::{duration_ns, rate_bps};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use switch::Nanos;
use switch::settings::PRIORITIES;
use wire::MacAddr;

/// The most flows that one host sends.
const MAX_FLOWS: usize = 64;

/// A rate or speed that is supported: up to 1 Tbit/s, and from where the wire time of a byte is
/// representable ([`switch::token_bucket`]).
const RATES_BPS: RangeInclusive<u64> = 2..=1_000_000_000_000;

/// Send flows, honor PFC, and check what arrives
///
/// A host on one interface: it sends the flows given, stops a priority while a received PFC frame
/// says so, and reports what arrived of the flows of others: received, lost, duplicated, reordered,
/// corrupted, goodput and latency. Without a flow it is a receiver, and runs until it is stopped by
/// SIGINT or SIGTERM, which end any host with its report.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Interface to use; it belongs to the host alone while it runs
    #[arg(long, value_name = "IF", required_unless_present = "vhost", conflicts_with = "vhost")]
    pub interface: Option<String>,

    /// In place of an interface, the socket of a port of the switch (vhost_user): the host is its
    /// virtio driver, as a guest is
    ///
    /// A full queue holds back its flows, as a pause does: the switch does not read what it has
    /// paused. The host needs an address, by --mac.
    #[arg(long, value_name = "SOCKET", requires = "mac", conflicts_with = "dcbx")]
    pub vhost: Option<PathBuf>,

    /// Queues of the driver: as vhost.queues of the port
    #[arg(long, value_enum, value_name = "QUEUES", default_value = "by-priority", requires = "vhost")]
    pub vhost_queues: VhostQueues,

    /// A flow to send, such as "to=02:00:00:00:00:02,priority=3,size=1000,rate=600M"
    ///
    /// to=MAC: destination. rate=RATE: bits a second of frame bytes (without FCS). size=BYTES:
    /// frame length without FCS, with the tag, 64 to 9234 (1000). priority=0-7: 802.1p priority
    /// and egress queue (0). count=N: end after N frames, however long that takes within
    /// --duration. start=DURATION: wait before it begins (0). vid=0-4094: VLAN of the tag
    /// (0: priority tag). untagged: send without a tag. ecn=ect0|ect1|ce|not-ect: send IPv4/UDP
    /// packets (to port 4791, as RoCEv2) with this ECN field, size 100 at least; without it
    /// frames are no IP, and no switch can mark them. May be given more than once; the flows
    /// number from 0.
    #[arg(long = "flow", value_name = "FLOW", value_parser = parse_flow)]
    pub flows: Vec<FlowArgs>,

    /// Address of the host [default: the interface's]
    #[arg(long, value_name = "MAC", value_parser = parse_mac)]
    pub mac: Option<MacAddr>,

    /// The host's own line rate, such as 1G; also gives the length of a pause quantum, 512 bit
    /// times [default: no limit, quanta as at 10G]
    #[arg(long, value_name = "RATE", value_parser = parse_speed)]
    pub speed: Option<u64>,

    /// Priorities whose received pauses are honored
    #[arg(long, value_name = "PRIORITY", value_delimiter = ',', default_value = "3",
          value_parser = clap::value_parser!(u8).range(0..8))]
    pub no_drop: Vec<u8>,

    /// Honor no pause (pauses are counted anyway)
    #[arg(long)]
    pub no_pfc: bool,

    /// Negotiate by DCBX which pauses are honored, as the NIC of a server does
    ///
    /// The host asks for the priorities of --no-drop, in whichever version the peer speaks. The
    /// pauses of the priorities that both ends agree on are honored, and no others: a link has
    /// either PFC or PAUSE. The report has the outcome.
    #[arg(long, value_enum, value_name = "HOW", conflicts_with_all = ["no_pfc", "flow_control"])]
    pub dcbx: Option<DcbxArg>,

    /// Honor 802.3x PAUSE, which stops all priorities (a port of the switch with flow_control sends
    /// it)
    #[arg(long)]
    pub flow_control: bool,

    /// Send CNPs for frames that came marked (ECN), and slow down a flow when a CNP arrives: DCQCN
    ///
    /// To be given to both ends. As a receiver: answer a flow whose frames come marked with
    /// congestion notification packets (CNPs, priority 6), one a millisecond at most. As a
    /// sender: cut the rate of a flow with ecn= when a CNP comes for it, and let it recover, as
    /// in "Congestion control for large-scale RDMA deployments" (SIGCOMM 2015), with
    /// times for a software loop and steps for flows of about 1 Gbit/s.
    ///
    /// At the receiver: sluice host --interface eth0 --react-to-ecn
    ///
    /// At a sender: the same with --flow to=02:00:00:00:00:02,priority=3,rate=600M,ecn=ect0
    #[arg(long)]
    pub react_to_ecn: bool,

    /// Simulate a broken NIC: pause these priorities of the peer, by as many PFC frames as the
    /// interface takes
    ///
    /// From when the host begins until --duration (10s by default) is over. The last pause then
    /// ends by itself.
    #[arg(long, value_name = "PRIORITY", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..8))]
    pub storm: Vec<u8>,

    /// Time between reading a pause and stopping, such as 10us
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration_ns)]
    pub reaction_delay: Nanos,

    /// How long the flows last; with it a receiver, too, ends [default: 10s for a sender]
    #[arg(long, value_name = "DURATION", value_parser = duration_ns)]
    pub duration: Option<Nanos>,

    /// Time to wait for what still arrives once everything is sent
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration_ns)]
    pub linger: Nanos,

    /// Begin to send only when a line arrives on standard input, or SIGUSR1
    #[arg(long)]
    pub wait: bool,

    /// Time between progress reports; 0 for none
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration_ns)]
    pub interval: Nanos,

    /// Print JSON, an object a line
    #[arg(long)]
    pub json: bool,

    /// Run on this core alone
    #[arg(long, value_name = "CORE")]
    pub core: Option<usize>,
}

/// Queues of a host that is a virtio driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum VhostQueues {
    /// One pair, for all priorities.
    One,
    /// A pair for each priority, which is its number.
    ByPriority,
}

impl VhostQueues {
    /// Returns its name, here and in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            VhostQueues::One => "one",
            VhostQueues::ByPriority => "by-priority",
        }
    }
}

/// How a host negotiates PFC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DcbxArg {
    /// Takes over the priorities of the peer.
    Willing,
    /// Keeps its own: a willing peer takes these over.
    Unwilling,
}

/// One `--flow` option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowArgs {
    /// Destination MAC address.
    pub to: MacAddr,
    /// 802.1p priority and egress queue.
    pub priority: u8,
    /// Frame length in bytes, without FCS.
    pub size_bytes: u16,
    /// Bits of frame bytes a second.
    pub rate_bps: u64,
    /// Frames after which the flow ends.
    pub count: Option<u64>,
    /// Delay before the flow begins.
    pub start_ns: Nanos,
    /// VLAN of the tag; `None` for untagged frames.
    pub vid: Option<u16>,
    /// ECN field of the IPv4 packets; `None` if the frames are not IP.
    pub ecn: Option<u8>,
}

impl Args {
    /// Checks combinations of options.
    ///
    /// # Errors
    /// The message names the option, the value and the remedy.
    pub fn check(&self) -> Result<(), String> {
        if self.flows.len() > MAX_FLOWS {
            return Err(format!(
                "--flow was given {} times; a host sends at most {MAX_FLOWS} flows",
                self.flows.len()
            ));
        }
        Ok(())
    }

    /// Returns the interface, or the path of the socket.
    pub fn name(&self) -> &str {
        let socket = self.vhost.as_ref().and_then(|path| path.to_str());
        self.interface.as_deref().or(socket).unwrap_or_default()
    }

    /// Returns the queue pairs of a virtio driver.
    pub fn queue_pairs(&self) -> usize {
        if self.vhost_queues == VhostQueues::One { 1 } else { PRIORITIES }
    }

    /// Mask of the priorities of the peer that are paused without interruption.
    pub fn stormed(&self) -> u8 {
        self.storm.iter().fold(0, |mask, priority| mask | 1 << priority)
    }

    /// Mask of the priorities whose pauses are honored.
    pub fn honored(&self) -> u8 {
        if self.no_pfc { 0 } else { self.no_drop.iter().fold(0, |mask, priority| mask | 1 << priority) }
    }
}

fn parse_mac(text: &str) -> Result<MacAddr, String> {
    let mac: MacAddr = text.parse().map_err(|error: wire::mac::ParseMacError| error.to_string())?;
    if mac.is_group() || mac.is_zero() {
        return Err("a host's address is neither zero nor a group address; use one such as \
                    02:00:00:00:00:01"
            .into());
    }
    Ok(mac)
}

fn parse_speed(text: &str) -> Result<u64, String> {
    let speed = rate_bps(text)?;
    if !RATES_BPS.contains(&speed) {
        return Err("a speed lies between 2 bit/s and 1000G".into());
    }
    Ok(speed)
}

fn parse_flow(text: &str) -> Result<FlowArgs, String> {
    let (mut to, mut rate, mut vid, mut untagged) = (None, None, None, None);
    let (mut priority, mut size, mut count, mut start, mut ecn) = (None, None, None, None, None);
    for item in text.split(',') {
        let (key, value) = item.split_once('=').unwrap_or((item, ""));
        let again = match key {
            "to" => to.replace(destination(value)?).is_some(),
            "rate" => rate.replace(flow_rate(value)?).is_some(),
            "priority" => priority.replace(number(key, value, 0..=7)? as u8).is_some(),
            "size" => {
                let sizes = u64::from(MIN_BYTES)..=u64::from(MAX_BYTES);
                size.replace(number(key, value, sizes)? as u16).is_some()
            }
            "count" => count.replace(number(key, value, 1..=u64::MAX)?).is_some(),
            "start" => start.replace(duration_ns(value).map_err(|e| format!("start: {e}"))?).is_some(),
            "vid" => vid.replace(number(key, value, 0..=4094)? as u16).is_some(),
            "ecn" => ecn.replace(ecn_field(value)?).is_some(),
            "untagged" if item == "untagged" => untagged.replace(()).is_some(),
            _ => {
                return Err(format!(
                    "'{item}' is no part of a flow; parts are to=, rate=, size=, priority=, count=, start=, \
                     vid=, ecn= and untagged"
                ));
            }
        };
        if again {
            return Err(format!("'{key}' is given twice; give it once"));
        }
    }
    if ecn.is_some() && size.is_some_and(|size| size < MIN_IP_BYTES) {
        return Err(format!("a packet with 'ecn' has a size of {MIN_IP_BYTES} at least"));
    }
    if untagged.is_some() && vid.is_some() {
        return Err("a flow cannot be 'untagged' and have a 'vid'; leave one out".into());
    }
    Ok(FlowArgs {
        to: to.ok_or("'to' is missing; add the destination, such as to=02:00:00:00:00:02")?,
        rate_bps: rate.ok_or("'rate' is missing; add it, such as rate=600M")?,
        priority: priority.unwrap_or(0),
        size_bytes: size.unwrap_or(1000),
        count,
        start_ns: start.unwrap_or(0),
        vid: if untagged.is_some() { None } else { Some(vid.unwrap_or(0)) },
        ecn,
    })
}

fn ecn_field(value: &str) -> Result<u8, String> {
    match value {
        "not-ect" => Ok(0b00),
        "ect1" => Ok(0b01),
        "ect0" => Ok(0b10),
        "ce" => Ok(0b11),
        _ => Err(format!("ecn={value}: write ect0, ect1, ce or not-ect")),
    }
}

fn destination(value: &str) -> Result<MacAddr, String> {
    let mac: MacAddr =
        value.parse().map_err(|error: wire::mac::ParseMacError| format!("to={value}: {error}"))?;
    if mac.is_zero() || mac.is_link_local() {
        return Err(format!("to={value}: no switch forwards to this address; use that of a host"));
    }
    Ok(mac)
}

fn flow_rate(value: &str) -> Result<u64, String> {
    let rate = rate_bps(value).map_err(|error| format!("rate: {error}"))?;
    if !RATES_BPS.contains(&rate) {
        return Err(format!("rate={value}: a rate lies between 2 bit/s and 1000G"));
    }
    Ok(rate)
}

fn number(key: &str, value: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    match value.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => {
            let (from, to) = range.into_inner();
            let bounds = if to == u64::MAX { format!("from {from}") } else { format!("from {from} to {to}") };
            Err(format!("{key}={value}: write a whole number {bounds}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    /// Parses the host's arguments; the error is the message as the user sees it.
    fn parse(words: &[&str]) -> Result<Args, String> {
        let words = ["host", "--interface", "veth0"].iter().chain(words);
        let args = Command::try_parse_from(words).map_err(|error| error.to_string())?.args;
        args.check().map(|()| args)
    }

    #[test]
    fn a_receiver_has_defaults_for_all_but_its_interface() {
        let args = parse(&[]).unwrap();
        assert_eq!((args.name(), args.flows.len(), args.mac), ("veth0", 0, None));
        assert_eq!((args.speed, args.honored(), args.reaction_delay), (None, 1 << 3, 0));
        assert_eq!((args.duration, args.linger, args.interval), (None, 500_000_000, 1_000_000_000));
        assert_eq!((args.wait, args.json, args.core), (false, false, None));
    }

    #[test]
    fn a_virtio_driver_has_a_socket_and_an_address() {
        let parse = |words: &[&str]| {
            let words = ["host"].iter().chain(words);
            Command::try_parse_from(words).map(|command| command.args).map_err(|error| error.to_string())
        };
        let args = parse(&["--vhost", "/run/a.sock", "--mac", "02:00:00:00:00:01"]).unwrap();
        assert_eq!((args.name(), args.queue_pairs()), ("/run/a.sock", 8));
        let one = ["--vhost", "/a", "--mac", "02:00:00:00:00:01", "--vhost-queues", "one"];
        assert_eq!(parse(&one).unwrap().queue_pairs(), 1);
        for (words, expected) in [
            (&["--vhost", "/a"][..], "--mac <MAC>"),
            (&["--vhost", "/a", "--interface", "b", "--mac", "02:00:00:00:00:01"], "cannot be used with"),
            (&["--interface", "b", "--vhost-queues", "one"], "--vhost <SOCKET>"),
            (&["--vhost", "/a", "--mac", "02:00:00:00:00:01", "--dcbx", "willing"], "cannot be used with"),
            (&[], "--interface <IF>"),
        ] {
            let message = parse(words).unwrap_err();
            assert!(message.contains(expected), "{words:?}: {message}");
        }
    }

    #[test]
    fn a_flow_is_read_from_its_parts() {
        let to = MacAddr([2, 0, 0, 0, 0, 2]);
        let plain = FlowArgs {
            to,
            priority: 0,
            size_bytes: 1000,
            rate_bps: 600_000_000,
            count: None,
            start_ns: 0,
            vid: Some(0),
            ecn: None,
        };
        for (text, flow) in [
            ("to=02:00:00:00:00:02,rate=600M", plain.clone()),
            (
                "rate=1.5G,start=1s,count=100000,size=64,priority=7,to=02:00:00:00:00:02,vid=100",
                FlowArgs {
                    priority: 7,
                    size_bytes: 64,
                    rate_bps: 1_500_000_000,
                    count: Some(100_000),
                    start_ns: 1_000_000_000,
                    vid: Some(100),
                    ..plain.clone()
                },
            ),
            ("to=02:00:00:00:00:02,rate=600M,untagged", FlowArgs { vid: None, ..plain.clone() }),
            ("to=02:00:00:00:00:02,rate=600M,ecn=ect0", FlowArgs { ecn: Some(2), ..plain.clone() }),
        ] {
            assert_eq!(parse(&["--flow", text]).unwrap().flows, [flow], "{text}");
        }
    }

    #[test]
    fn no_drop_and_no_pfc_set_the_honored_priorities() {
        for (words, mask) in [
            (&["--no-drop", "3,4"][..], 0b0001_1000),
            (&["--no-drop", "0", "--no-drop", "7"], 0b1000_0001),
            (&["--no-pfc"], 0),
            (&[], 0b0000_1000),
        ] {
            assert_eq!(parse(words).unwrap().honored(), mask, "{words:?}");
        }
    }

    /// Every message names the option, the value and the remedy.
    #[test]
    fn mistakes_are_explained() {
        for (words, expected) in [
            (&["--flow", "rate=600M"][..], "'to' is missing; add the destination"),
            (&["--flow", "to=02:00:00:00:00:02"], "'rate' is missing; add it, such as rate=600M"),
            (&["--flow", "to=2,rate=1M"], "to=2: not a MAC address; write six pairs"),
            (&["--flow", "to=00:00:00:00:00:00,rate=1M"], "use that of a host"),
            (&["--flow", "to=01:80:c2:00:00:01,rate=1M"], "no switch forwards to this address"),
            (&["--flow", "to=02:00:00:00:00:02,rate=fast"], "rate: 'fast' is no rate; write a number"),
            (&["--flow", "to=02:00:00:00:00:02,rate=0"], "rate=0: a rate lies between 2 bit/s and 1000G"),
            (
                &["--flow", "to=02:00:00:00:00:02,rate=1M,size=63"],
                "size=63: write a whole number from 64 to 9234",
            ),
            (&["--flow", "to=02:00:00:00:00:02,rate=1M,size=9235"], "from 64 to 9234"),
            (
                &["--flow", "to=02:00:00:00:00:02,rate=1M,priority=8"],
                "priority=8: write a whole number from 0 to 7",
            ),
            (&["--flow", "to=02:00:00:00:00:02,rate=1M,count=0"], "count=0: write a whole number from 1"),
            (&["--flow", "to=02:00:00:00:00:02,rate=1M,vid=4095"], "from 0 to 4094"),
            (&["--flow", "to=02:00:00:00:00:02,rate=1M,start=5"], "start: '5' is no duration"),
            (&["--flow", "to=02:00:00:00:00:02,rate=1M,rate=2M"], "'rate' is given twice"),
            (&["--flow", "to=02:00:00:00:00:02,rate=1M,vid=1,untagged"], "leave one out"),
            (&["--flow", "to=02:00:00:00:00:02,rate=1M,untagged=1"], "'untagged=1' is no part of a flow"),
            (&["--flow", "to=02:00:00:00:00:02,rate=1M,prio=3"], "'prio=3' is no part of a flow; parts are"),
            (&["--flow", ""], "'' is no part of a flow"),
            (&["--flow", "to=02:00:00:00:00:02,rate=1M,ecn=1"], "ecn=1: write ect0, ect1, ce or not-ect"),
            (&["--flow", "to=02:00:00:00:00:02,rate=1M,ecn=ce,size=99"], "a size of 100 at least"),
            (&["--mac", "ff:ff:ff:ff:ff:ff"], "'ff:ff:ff:ff:ff:ff' for '--mac <MAC>'"),
            (&["--dcbx", "yes"], "[possible values: willing, unwilling]"),
            (&["--dcbx", "willing", "--no-pfc"], "'--dcbx <HOW>' cannot be used with '--no-pfc'"),
            (&["--dcbx", "willing", "--flow-control"], "cannot be used with '--flow-control'"),
            (&["--mac", "1"], "'--mac <MAC>': not a MAC address"),
            (&["--flow", "to=02:00:00:00:00:02,rate=1"], "rate=1: a rate lies between 2 bit/s and 1000G"),
            (&["--speed", "1"], "'--speed <RATE>': a speed lies between 2 bit/s and 1000G"),
            (&["--speed", "0"], "'--speed <RATE>': a speed lies between 2 bit/s and 1000G"),
            (&["--speed", "1X"], "'1X' is no rate"),
            (&["--no-drop", "8"], "'8' for '--no-drop <PRIORITY>': 8 is not in 0..8"),
            (&["--duration", "10"], "'--duration <DURATION>': '10' is no duration"),
            (&["--reaction-delay", "x"], "'x' is no duration; write a number with ns, us, ms or s"),
        ] {
            let message = parse(words).unwrap_err();
            assert!(message.contains(expected), "{words:?}: {message}");
        }
        let many = vec!["--flow=to=02:00:00:00:00:02,rate=1M"; MAX_FLOWS + 1];
        assert_eq!(parse(&many).unwrap_err(), "--flow was given 65 times; a host sends at most 64 flows");
    }
}
