//! `sluice nic attach` and `sluice nic detach`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use nic::{Interface, Replace, RootQdisc, Settings};
use serde_json::json;

use super::follow_dcbx;
use super::namespace::{Namespace, list, priorities};
use super::switch_port::{Device, PortFacts, port_facts};
use crate::exit::misuse;
use crate::output;

/// Make an interface honor PFC.
#[derive(Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Attach {
    /// The interface.
    device: String,
    #[command(flatten)]
    namespace: Namespace,
    /// Speed of the switch's port, as 10G or 500M: the pace of what is sent, and the length of a
    /// quantum [default: the port's, with --switch].
    #[arg(long, value_name = "RATE", value_parser = speed_bps, required_unless_present = "switch")]
    speed: Option<u64>,
    /// Priorities whose pauses are honored; with --dcbx those that it asks the switch for [default:
    /// those of the port, with --switch, or 3].
    #[arg(long, value_name = "PRIORITY", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..8))]
    no_drop: Vec<u8>,
    /// The field that gives a frame's priority; it must match the port [default: as there, with
    /// --switch, or dot1p].
    #[arg(long, value_enum)]
    trust: Option<Trust>,
    /// The priority of frames without the trusted field [default: as on the port, with --switch, or
    /// 0].
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(0..8))]
    port_priority: Option<u8>,
    /// Priorities of DSCPs, as 26=3,46=5 [default: as on the port, with --switch, or DSCP / 8].
    #[arg(long, value_name = "DSCP=PRIORITY", value_delimiter = ',', value_parser = dscp_to_dot1p)]
    dscp: Vec<(u8, u8)>,
    /// Which queue is served next.
    #[arg(long, value_enum, default_value_t = QueueOrder::Drr)]
    order: QueueOrder,
    /// Kernel memory that the frames of one priority may hold; more of them are dropped. To be more
    /// than the send buffers (SO_SNDBUF) of all sockets of that priority together.
    #[arg(long, value_name = "BYTES", default_value = "16M", value_parser = bytes)]
    limit: u64,
    /// Take speed, no-drop priorities, trust, the priorities of DSCPs and the port priority from
    /// this running switch: its name, or the path of its control socket.
    #[arg(long, value_name = "NAME")]
    switch: Option<String>,
    /// The port of the switch [default: the other end of the interface].
    #[arg(long, value_name = "NAME", requires = "switch")]
    port: Option<String>,
    /// Honor what is agreed with the switch by DCBX, and follow its changes, until SIGINT (Ctrl-C)
    /// or SIGTERM.
    #[arg(long)]
    dcbx: bool,
    /// Put it in the place of a root qdisc that somebody chose, or of one of ours. `sluice nic
    /// detach` restores the former.
    #[arg(long)]
    replace: bool,
    /// Replace also a root qdisc that cannot be restored.
    #[arg(long)]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Lines of at most 99 characters: clap would break longer ones at 100.
const AFTER_HELP: &str = "\
The interface's root qdisc becomes `sluice_nic`, with eight queues, one a priority, paced at the
speed of the switch's port: a veth has no speed of its own, and what was held back would overrun
the switch's headroom at once. A program at ingress receives the PFC frames. Frames that an
earlier qdisc held are dropped by the kernel when it is replaced, as ever. `sluice nic detach`
restores a qdisc that was replaced; one that it could not restore, with classes for example, is
replaced only with --force.

For containers, attach from outside, after the interface was moved: --netns PID.

With --dcbx the command stays. It advertises PFC by LLDP, willing to take over the switch's, in
the version of DCBX that the switch speaks, and prints each change of what is agreed. Without an
agreement no pause is honored. At its end it withdraws itself, and the qdisc stays without no-drop
priorities.

JSON: device, netns, speed_bps, no_drop[], trust, port_priority, order, limit_bytes, replaced (the
kind of a root qdisc that was there; null: the kernel's default). With --dcbx one line, and one
for each change: device, version, state, reason, local_no_drop[], peer_no_drop[], no_drop[]
(honored).";

/// Take everything of `sluice nic` off an interface, and restore its qdisc of before; what its
/// queues hold is dropped.
#[derive(Args)]
pub struct Detach {
    /// The interface.
    device: String,
    #[command(flatten)]
    namespace: Namespace,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Trust {
    /// The PCP of its VLAN tag.
    Dot1p,
    /// The DSCP of its IPv4 or IPv6 header.
    Dscp,
    /// The priority of its socket (SO_PRIORITY), 0 to 7.
    Priority,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QueueOrder {
    /// Deficit round robin, all priorities alike.
    Drr,
    /// The highest priority first.
    Strict,
}

impl Trust {
    pub(super) fn of(trust: nic::Trust) -> Self {
        match trust {
            nic::Trust::Dot1p => Trust::Dot1p,
            nic::Trust::Dscp => Trust::Dscp,
            nic::Trust::Priority => Trust::Priority,
        }
    }
}

impl QueueOrder {
    pub(super) fn of(order: nic::QdiscDiscipline) -> Self {
        match order {
            nic::QdiscDiscipline::Drr => QueueOrder::Drr,
            nic::QdiscDiscipline::Strict => QueueOrder::Strict,
        }
    }
}

/// Returns the word of the command line for a value.
pub(super) fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().expect("no value is hidden").get_name().to_owned()
}

impl Attach {
    pub(super) fn run(&self) -> Result<()> {
        let device = self.namespace.enter(|| {
            let interface = nic::RtNetlink::connect()?.find(&self.device)?;
            Ok(Device { interface, namespace: nic::netns::current()? })
        })?;
        let facts = self.switch.as_deref().map(|switch| self.query(switch, &device)).transpose()?;
        let mut settings = self.settings(facts.as_ref())?;
        let differences = facts.iter().flat_map(|facts| self.differences(facts));
        let warnings: Vec<String> = differences.chain(nic_warning(&device.interface)).collect();
        warnings.iter().for_each(|warning| eprintln!("sluice: warning: {warning}"));
        let replace = match (self.force, self.replace) {
            (true, _) => Replace::Any,
            (false, true) => Replace::Restorable,
            (false, false) => Replace::No,
        };
        let requested = settings.no_drop;
        if self.dcbx {
            settings.no_drop = 0; // until something is agreed
        }
        // From before the attachment, which is then not left half-way.
        let stop = if self.dcbx { Some(follow_dcbx::stop_signals()?) } else { None };
        let attached = self.namespace.enter(|| nic::attach(&self.device, &settings, replace))?;
        if let Some(why) = &attached.unrestorable {
            eprintln!(
                "sluice: warning: `sluice nic detach` will not restore the qdisc that was replaced: {why}"
            );
        }
        let replaced = match &attached.replaced {
            RootQdisc::Default => None,
            RootQdisc::Ours => Some(nic::KIND.to_owned()),
            RootQdisc::Foreign(kind) => Some(kind.clone()),
        };
        self.report(&settings, replaced)?;
        match stop {
            Some(stop) => follow_dcbx::run(
                (&self.device, attached.program),
                &self.namespace,
                requested,
                self.json,
                &stop,
            ),
            None => Ok(()),
        }
    }

    /// Prints what was attached, and the kind of the root qdisc that it replaces.
    fn report(&self, settings: &Settings, replaced: Option<String>) -> Result<()> {
        if self.json {
            let value = json!({
                "device": self.device,
                "netns": self.namespace.netns,
                "speed_bps": settings.speed_bps,
                "no_drop": list(settings.no_drop),
                "trust": word(Trust::of(settings.trust)),
                "port_priority": settings.port_priority,
                "order": word(self.order),
                "limit_bytes": settings.limit_bytes,
                "replaced": replaced,
            });
            return output::print(&output::json(&value, !self.dcbx)?);
        }
        let instead = replaced.map(|kind| format!(", instead of `{kind}`")).unwrap_or_default();
        let of_priorities = match self.dcbx {
            true => "as agreed with its switch".to_owned(),
            false => format!("for {}", priorities(settings.no_drop)),
        };
        output::print(&format!(
            "{}{} honors PFC {of_priorities} at {} (trust {}){instead}.",
            self.device,
            self.namespace.suffix(),
            config::spell_speed(settings.speed_bps),
            word(Trust::of(settings.trust)),
        ))
    }

    /// Asks the switch for the properties of the port.
    fn query(&self, switch: &str, device: &Device) -> Result<PortFacts> {
        let socket = if switch.contains('/') {
            PathBuf::from(switch)
        } else {
            PathBuf::from(format!("/run/sluice/{switch}.sock"))
        };
        port_facts(&socket, self.port.as_deref(), device)
    }

    /// Returns what the command line asks for that the port has otherwise, and that may be meant.
    fn differences(&self, facts: &PortFacts) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(speed) = self.speed.filter(|&speed| facts.speed_bps > 0 && speed > facts.speed_bps) {
            warnings.push(format!(
                "--speed {} is more than the {} of port {}: what is held back then overruns its headroom",
                config::spell_speed(speed),
                config::spell_speed(facts.speed_bps),
                facts.port
            ));
        }
        let no_drop = self.no_drop.iter().fold(0, |mask, p| mask | 1 << p);
        if !self.dcbx && no_drop != 0 && no_drop != facts.no_drop {
            warnings.push(format!(
                "--no-drop {} is not what port {} has ({}): pauses of the others are not honored, or never come",
                priorities(no_drop),
                facts.port,
                priorities(facts.no_drop)
            ));
        }
        if self.trust == Some(Trust::Priority) {
            warnings.push(format!(
                "the switch does not see the priority of a socket: frames need a tag or a DSCP that port {} maps to it",
                facts.port
            ));
        }
        warnings
    }

    /// Sets how the priority of a frame is found: as the port does, or as the command line message.
    /// Where both say something else, pauses would stop other frames than they are meant for.
    fn classify(&self, settings: &mut Settings, facts: Option<&PortFacts>) -> Result<()> {
        let of_port = facts.and_then(|facts| Some((facts, facts.classification.as_ref()?)));
        if let Some((_, port)) = of_port {
            settings.port_priority = port.port_priority as u8;
            for (priority, &of_port) in settings.dscp_to_dot1p.iter_mut().zip(&port.dscp_to_dot1p) {
                *priority = of_port as u8;
            }
            settings.trust = match port.trust.as_str() {
                "dscp" => nic::Trust::Dscp,
                "none" => {
                    // All frames have the port priority, whatever they contain.
                    settings.dscp_to_dot1p = [settings.port_priority; 64];
                    nic::Trust::Dscp
                }
                _ => nic::Trust::Dot1p,
            };
        }
        let before = settings.clone();
        match self.trust {
            Some(Trust::Dot1p) => settings.trust = nic::Trust::Dot1p,
            Some(Trust::Dscp) => settings.trust = nic::Trust::Dscp,
            Some(Trust::Priority) => settings.trust = nic::Trust::Priority,
            None => {}
        }
        if !self.dscp.is_empty() && settings.trust != nic::Trust::Dscp {
            return misuse("--dscp is for --trust dscp");
        }
        for (dscp, priority) in &self.dscp {
            settings.dscp_to_dot1p[usize::from(*dscp)] = *priority;
        }
        settings.port_priority = self.port_priority.unwrap_or(settings.port_priority);
        let Some((facts, port)) = of_port else { return Ok(()) };
        // A trusted socket priority is no field of the frame: a warning message what it takes.
        let is_other_trust = settings.trust != before.trust && settings.trust != nic::Trust::Priority;
        let differs = [
            (is_other_trust, "--trust", format!("trust {}", port.trust)),
            (
                settings.dscp_to_dot1p != before.dscp_to_dot1p,
                "--dscp",
                "other priorities of DSCPs".to_owned(),
            ),
            (
                settings.port_priority != before.port_priority,
                "--port-priority",
                format!("port priority {}", port.port_priority),
            ),
        ];
        match differs.into_iter().find(|(differs, ..)| *differs) {
            Some((_, option, has)) => bail!(
                "port {} of the switch has {has}: with another a pause would stop other frames than it is meant for; \
                 leave {option} out, or change the port",
                facts.port
            ),
            None => Ok(()),
        }
    }

    fn settings(&self, facts: Option<&PortFacts>) -> Result<Settings> {
        let speed_bps = match (self.speed, facts) {
            (Some(speed), _) => speed,
            (None, Some(PortFacts { speed_bps: 0, port, .. })) => bail!(
                "port {port} of the switch has no speed, so there is no pace and no length of a quantum: give it one \
                 (`speed` in the switch's configuration), or use --speed"
            ),
            (None, Some(facts)) => facts.speed_bps,
            (None, None) => return misuse("--speed is missing"),
        };
        let mut settings = Settings::new(speed_bps);
        if !self.no_drop.is_empty() {
            settings.no_drop = self.no_drop.iter().fold(0, |mask, p| mask | 1 << p);
        } else if let Some(facts) = facts {
            // With DCBX the port may have none as long as nothing is agreed.
            if facts.no_drop == 0 && !self.dcbx {
                bail!(
                    "port {} of the switch has no no-drop priority: there are no pauses to honor (pfc.no_drop in its \
                     configuration, or --no-drop here; --dcbx if it negotiates)",
                    facts.port
                );
            }
            if facts.no_drop != 0 {
                settings.no_drop = facts.no_drop;
            }
        }
        self.classify(&mut settings, facts)?;
        settings.order = match self.order {
            QueueOrder::Drr => nic::QdiscDiscipline::Drr,
            QueueOrder::Strict => nic::QdiscDiscipline::Strict,
        };
        settings.limit_bytes = self.limit;
        Ok(settings)
    }
}

impl Detach {
    pub(super) fn run(&self) -> Result<()> {
        let nic::Detached { before, unrestored } = self.namespace.enter(|| nic::detach(&self.device))?;
        let again = match (before, unrestored) {
            (Some(kind), None) => format!("; it has its `{kind}` again"),
            (Some(kind), Some(why)) => {
                eprintln!("sluice: warning: its `{kind}` could not be restored: {why}");
                String::new()
            }
            (None, _) => String::new(),
        };
        output::print(&format!("{}{} no longer honors PFC{again}.", self.device, self.namespace.suffix()))
    }
}

/// Returns a warning where pauses may never reach the kernel.
fn nic_warning(interface: &Interface) -> Option<String> {
    let warning = format!(
        "{} is a NIC: many consume PFC frames before the kernel sees them, and then no pause is honored; \
         `sluice nic show` counts those that come",
        interface.name
    );
    (!interface.is_virtual).then_some(warning)
}

fn speed_bps(text: &str) -> Result<u64, String> {
    config::parse_speed(text)
        .ok_or_else(|| "write a speed up to 800G with K, M or G, as 500M or 2.5G".to_owned())
}

fn dscp_to_dot1p(text: &str) -> Result<(u8, u8), String> {
    let parsed = || {
        let (dscp, priority) = text.split_once('=')?;
        let (dscp, priority) = (dscp.parse::<u8>().ok()?, priority.parse::<u8>().ok()?);
        (dscp < 64 && priority < 8).then_some((dscp, priority))
    };
    parsed().ok_or_else(|| "write DSCP=PRIORITY, as 26=3: DSCPs are 0 to 63, priorities 0 to 7".to_owned())
}

fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.strip_suffix(['K', 'k']) {
        Some(number) => (number, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(number) => (number, 1 << 20),
            None => (text, 1),
        },
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.with_context(|| "write bytes, or with K or M (of 1024), as 16M").map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        attach: Attach,
    }

    fn attach(line: &str) -> Result<Attach, String> {
        use clap::Parser;
        let parsed = Alone::try_parse_from(format!("attach {line}").split_whitespace());
        parsed.map(|alone| alone.attach).map_err(|error| error.to_string())
    }

    fn settings(line: &str, facts: Option<&PortFacts>) -> Result<Settings, String> {
        attach(line)?.settings(facts).map_err(|error| error.to_string())
    }

    #[test]
    fn nics_get_a_warning_and_veths_none() {
        let interface = |is_virtual| Interface {
            name: "eth0".into(),
            index: 2,
            peer: None,
            peer_namespace: None,
            is_virtual,
            is_up: true,
            mac: [0; 6],
        };
        assert_eq!(nic_warning(&interface(true)), None);
        let warning = nic_warning(&interface(false)).unwrap();
        assert!(warning.starts_with("eth0 is a NIC: many consume PFC frames"), "{warning}");
    }

    #[test]
    fn options_become_settings() {
        let given =
            settings("eth0 --speed 2.5G --no-drop 3,4 --trust dscp --dscp 26=4,46=7 --limit 1M", None);
        let given = given.unwrap();
        let mut expected = Settings::new(2_500_000_000);
        (expected.no_drop, expected.trust, expected.limit_bytes) = (0b1_1000, nic::Trust::Dscp, 1 << 20);
        (expected.dscp_to_dot1p[26], expected.dscp_to_dot1p[46]) = (4, 7);
        assert_eq!(given, expected);
        assert_eq!(settings("eth0 --speed 1G", None), Ok(Settings::new(1_000_000_000)));
    }

    #[test]
    fn the_switch_provides_what_the_command_line_omits() {
        let facts =
            PortFacts { port: "a".into(), speed_bps: 500_000_000, no_drop: 0b11_0000, classification: None };
        let of = |line| settings(line, Some(&facts)).map(|settings| (settings.speed_bps, settings.no_drop));
        assert_eq!(of("eth0 --switch lab"), Ok((500_000_000, 0b11_0000)));
        assert_eq!(of("eth0 --switch lab --speed 1G --no-drop 3"), Ok((1_000_000_000, 0b1000)));
        let slow = PortFacts { speed_bps: 0, ..facts.clone() };
        assert!(settings("eth0 --switch lab", Some(&slow)).unwrap_err().contains("has no speed"));
        let lossy = PortFacts { no_drop: 0, ..facts.clone() };
        let with_dcbx = |facts| settings("eth0 --switch lab --dcbx", Some(facts)).map(|it| it.no_drop);
        assert_eq!((with_dcbx(&lossy), with_dcbx(&facts)), (Ok(0b1000), Ok(0b11_0000)));
        assert!(settings("eth0 --switch lab", Some(&lossy)).unwrap_err().contains("no no-drop priority"));
    }

    /// A port that trusts DSCP with a map of its own, and one that trusts nothing.
    #[test]
    fn priorities_are_found_as_the_port_finds_them() {
        let mut map: Vec<u32> = (0..64).map(|dscp| dscp / 8).collect();
        map[26] = 4;
        let port = control::v1::Classification { trust: "dscp".into(), port_priority: 2, dscp_to_dot1p: map };
        let facts = |trust: &str| PortFacts {
            port: "a".into(),
            speed_bps: 1_000_000_000,
            no_drop: 0b1000,
            classification: Some(control::v1::Classification { trust: trust.into(), ..port.clone() }),
        };
        let taken = settings("eth0 --switch lab", Some(&facts("dscp"))).unwrap();
        assert_eq!((taken.trust, taken.port_priority, taken.dscp_to_dot1p[26]), (nic::Trust::Dscp, 2, 4));
        let same = "eth0 --switch lab --trust dscp --dscp 26=4 --port-priority 2";
        assert_eq!(settings(same, Some(&facts("dscp"))).unwrap(), taken);
        let none = settings("eth0 --switch lab", Some(&facts("none"))).unwrap();
        assert_eq!((none.trust, none.dscp_to_dot1p), (nic::Trust::Dscp, [2; 64]));
        for (more, expected) in [
            ("--trust dot1p", "port a of the switch has trust dscp"),
            ("--dscp 26=3", "other priorities of DSCPs"),
            ("--port-priority 1", "port priority 2"),
        ] {
            let message = settings(&format!("eth0 --switch lab {more}"), Some(&facts("dscp"))).unwrap_err();
            assert!(message.contains(expected) && message.contains("leave --"), "{more}: {message}");
        }
        let warned = |line| attach(line).unwrap().differences(&facts("dscp")).join("\n");
        assert_eq!(warned("eth0 --switch lab --speed 1G --no-drop 3"), "");
        assert_eq!(warned("eth0 --switch lab --no-drop 3,4 --dcbx"), "", "the switch decides");
        for (line, message) in [
            ("eth0 --switch lab --speed 2G", "overruns its headroom"),
            ("eth0 --switch lab --no-drop 3,4", "is not what port a has (3)"),
            ("eth0 --switch lab --trust priority", "does not see the priority of a socket"),
        ] {
            assert!(warned(line).contains(message), "{line}: {}", warned(line));
        }
    }

    #[test]
    fn wrong_options_are_reported_with_what_is_right() {
        for (line, word) in [
            ("eth0", "--speed"),
            ("eth0 --speed 5", "as 500M"),
            ("eth0 --speed 1G --no-drop 8", "0..8"),
            ("eth0 --speed 1G --trust dscp --dscp 64=1", "0 to 63"),
            ("eth0 --speed 1G --dscp 26=3", "--trust dscp"),
            ("eth0 --speed 1G --limit 1G", "as 16M"),
            ("eth0 --speed 1G --port a", "--switch"),
        ] {
            let message = settings(line, None).unwrap_err();
            assert!(message.contains(word), "{line}: {message}");
        }
    }
}
