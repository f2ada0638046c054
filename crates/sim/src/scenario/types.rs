//! A scenario as plain values. Nodes, links and traffic are identified by their index here; the
//! names of the file are kept for outputs.

use std::sync::Arc;

use config::{Config, ConfigErrors, PortDcbx};
use dcbx::settings::LldpSettings;
use endpoint::dcqcn::DcqcnSettings;
use endpoint::retransmission::Retransmission;
use endpoint::transport::TransportSettings;
use switch::{Nanos, SwitchSettings};

pub use super::traffic::sizes::SizeTable;
pub use super::traffic::trace::{FrameTrace, TraceRun};

/// All settings of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Title, by default the name of the file.
    pub title: String,
    /// Duration of the run.
    pub duration_ns: Nanos,
    /// Results are measured from this time on: throughput, fairness and messages.
    pub warmup_ns: Nanos,
    /// Start value of the random numbers.
    pub seed: u64,
    /// Time between two points of a series.
    pub sample_ns: Nanos,
    /// True if the latency of frames is measured.
    pub latency: bool,
    /// True if the time that queues have each length is measured.
    pub queue_lengths: bool,
    /// How switches know the ports of hosts.
    pub forwarding: Forwarding,
    /// Time from a cut or a repair until all switches have new routes; `None` if routes stay.
    pub convergence_ns: Option<Nanos>,
    /// Switches and hosts.
    pub nodes: Vec<Node>,
    /// Cables between ports.
    pub links: Vec<Link>,
    /// Traffic between hosts.
    pub traffic: Vec<Traffic>,
    /// Static FDB entries, which override those of `forwarding`.
    pub routes: Vec<Route>,
    /// Changes of the network, in the order of time.
    pub faults: Vec<Fault>,
    /// Required results.
    pub expectations: Vec<Expectation>,
    /// What `sluice sweep` varies; a single run ignores it.
    pub sweep: Sweep,
    /// Problems of a valid scenario: cables that are too long for a switch's headroom. Usually
    /// empty.
    pub warnings: ConfigErrors,
}

impl Scenario {
    /// Returns the name of a port: `h1`, or `leaf1.p3`.
    pub fn end_name(&self, end: LinkEnd) -> String {
        let node = &self.nodes[end.node];
        match &node.kind {
            NodeKind::Switch(device) => format!("{}.{}", node.name, device.settings.ports[end.port].name),
            NodeKind::Host(host) => host.end_name(&node.name, end.port),
        }
    }
}

/// How switches know the ports of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarding {
    /// Each switch has a static entry for each host, on a shortest path; of several paths, the
    /// host's number selects one.
    ShortestPath,
    /// Learning and flooding, as in the daemon; hosts announce themselves at the start. Not for
    /// networks with loops.
    Learning,
}

/// How a switch chooses among several shortest paths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Multipath {
    /// By the receiver's number.
    #[default]
    Receiver,
    /// By a hash of header fields (ECMP).
    Flow(FlowHash),
    /// Frame by frame, in turn.
    Spray,
    /// Frame by frame, the port with the shortest queues.
    Adaptive,
}

/// What ECMP hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowHash {
    /// Fields of the hash.
    pub fields: HashFields,
    /// Seed of the hash function, the same for all switches that have it; by default each switch
    /// has a function of its own, derived from the scenario's seed.
    pub seed: Option<u64>,
}

/// Header fields of a hash: bit n is set for field n of [`HASH_FIELDS`]. Source: the native hash
/// fields of SAI (`saihash.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashFields(pub u16);

/// Names of the fields, by their bits in [`HashFields`].
pub const HASH_FIELDS: [&str; 9] =
    ["src-ip", "dst-ip", "protocol", "src-port", "dst-port", "src-mac", "dst-mac", "vlan", "dst-qp"];

impl HashFields {
    /// IP addresses, protocol and UDP ports.
    pub const DEFAULT: Self = Self(0b1_1111);
}

/// A switch or a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Unique in the scenario.
    pub name: String,
    /// Switch or host.
    pub kind: NodeKind,
}

/// Kind of a node, with its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeKind {
    /// A switch with as many ports as its configuration has.
    Switch(Box<SwitchNode>),
    /// A host with its settings.
    Host(HostNode),
}

/// Settings of a switch.
#[derive(Debug, Clone, PartialEq)]
pub struct SwitchNode {
    /// The settings of its configuration file, without PFC if the file turns it off.
    pub settings: SwitchSettings,
    /// Duration of one iteration of a software loop, the interval at which it polls its ports; 0
    /// for a chip, which acts at once.
    pub turn_ns: Nanos,
    /// How it chooses among several shortest paths.
    pub multipath: Multipath,
    /// What each port negotiates; `None` if it does not.
    pub dcbx: Vec<Option<PortDcbx>>,
    /// LLDP of each port.
    pub lldp: Vec<LldpSettings>,
    /// Path of its configuration, as the scenario has it; empty for one that was not read.
    pub file: String,
    /// The tables of its ports if `file` has none, as those of a generated network; else empty.
    pub added_ports: String,
    /// Interface of each port in its configuration; only a lab on real interfaces uses them.
    pub interfaces: Vec<String>,
}

impl SwitchNode {
    /// Makes a switch of its configuration. While PFC is off on all ports, none negotiates.
    pub fn new(config: Config, turn_ns: Nanos) -> Self {
        let Config { switch, dcbx, lldp, pfc_enabled, interfaces, .. } = config;
        let (settings, dcbx) = if pfc_enabled { (switch, dcbx) } else { (switch.without_pfc(), Vec::new()) };
        let lldp = lldp.ports.iter().map(|port| port.settings).collect();
        let multipath = Multipath::default();
        let (file, added_ports) = Default::default();
        Self { settings, turn_ns, multipath, dcbx, lldp, file, added_ports, interfaces }
    }
}

/// Which of a host's ports send, by the name of the mode of a Linux bond.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Bond {
    /// The first whose link is up.
    #[default]
    ActiveBackup,
    /// All whose links are up: a hash of the flow selects one.
    BalanceXor,
}

/// Settings of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostNode {
    /// Bit p is set if pauses of priority p are honored; if the host negotiates, these are the
    /// priorities that it asks for.
    pub no_drop: u8,
    /// `None` if the host does not negotiate; true if it takes over what its switch has.
    pub willing: Option<bool>,
    /// True if 802.3x PAUSE is honored, which pauses all priorities.
    pub honors_pause: bool,
    /// Number of ports, 1 or more. The host receives over all of them.
    pub ports: u8,
    /// Which of its ports send.
    pub bond: Bond,
    /// VID of the tag that its frames have, and those that it accepts; `None` for a priority only,
    /// and frames without VLAN.
    pub vlan: Option<u16>,
}

impl HostNode {
    /// One with all defaults.
    pub const DEFAULT: Self = Self {
        no_drop: 0xff,
        willing: None,
        honors_pause: true,
        ports: 1,
        bond: Bond::ActiveBackup,
        vlan: None,
    };

    /// The VID of the tag that its frames have, 0 without a VLAN.
    pub(crate) fn sent_vid(&self) -> u16 {
        self.vlan.unwrap_or(0)
    }

    /// Priorities whose pauses are honored before anything is agreed on.
    pub(crate) fn honored_at_first(&self) -> u8 {
        if self.willing.is_some() { 0 } else { self.no_drop }
    }

    /// Returns the name of a port of the host `name`: the host's name, or as in `h1.2` for the
    /// second of several ports.
    pub(crate) fn end_name(&self, name: &str, port: usize) -> String {
        if self.ports == 1 { name.to_owned() } else { format!("{name}.{}", port + 1) }
    }
}

/// A port of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkEnd {
    /// Index of the node.
    pub node: usize,
    /// Port of the node; 0 for a host with one.
    pub port: usize,
}

/// A cable between two ports, equal in both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Composed of the names of its ends: `h1–leaf1.p3`.
    pub name: String,
    /// The two ports.
    pub ends: [LinkEnd; 2],
    /// Speed in bit/s.
    pub speed_bps: u64,
    /// Length in meters.
    pub cable_m: u32,
    /// Propagation delay from end to end.
    pub propagation_ns: Nanos,
    /// Longest frame in bytes, without FCS.
    pub mtu_bytes: u16,
    /// Time from the end of a PFC frame's arrival until the node honors it.
    pub response_ns: Nanos,
    /// Bytes on the wire in addition to the frame: 24 on Ethernet.
    pub overhead_bytes: u16,
}

/// Frames of the same kind between some hosts: a flow for each pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Unique in the scenario.
    pub name: String,
    /// Sender and receiver of each flow, as nodes.
    pub flows: Vec<(usize, usize)>,
    /// The hosts of a collective, by rank.
    pub ranks: Vec<usize>,
    /// 802.1p priority in the frames' tags.
    pub priority: u8,
    /// DSCP in the frames' IP headers.
    pub dscp: u8,
    /// Length of the frames without FCS, at least 64.
    pub frame_bytes: u16,
    /// The most bit/s on the wire of each flow, overhead included; the speed of the host's link
    /// limits it further.
    pub rate_bps: u64,
    /// When frames are ready to be sent.
    pub pattern: Pattern,
    /// Sizes of Poisson messages, if they vary.
    pub sizes: Option<Arc<SizeTable>>,
    /// Frames of a trace, if the pattern is that.
    pub trace: Option<Arc<FrameTrace>>,
    /// When the traffic begins.
    pub start: Start,
    /// No frame is due at or after this. For Poisson and incast traffic, no message is ready at or
    /// after this, and earlier ones are sent completely.
    pub stop_ns: Nanos,
    /// True if frames are ECT(0), so that switches may mark them.
    pub ecn: bool,
    /// How the sender reduces its rate when marks are reported to it (CNPs), if it does.
    pub dcqcn: Option<DcqcnSettings>,
    /// The same of senders whose hosts have parameters of their own, by node in ascending order.
    pub host_dcqcn: Vec<(usize, DcqcnSettings)>,
    /// What senders make of acknowledgments; `None` if frames are not acknowledged.
    pub acks: Option<AckSettings>,
}

impl Traffic {
    /// Returns how a sender, a node, reduces its rate when marks are reported to it.
    pub(crate) fn dcqcn_of(&self, node: usize) -> Option<DcqcnSettings> {
        let own = self.host_dcqcn.binary_search_by_key(&node, |(sender, _)| *sender);
        own.ok().and_then(|index| self.host_dcqcn.get(index)).map(|(_, settings)| *settings).or(self.dcqcn)
    }
}

/// Acknowledgments of a traffic's frames, and what its senders make of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AckSettings {
    /// 802.1p priority of the acknowledgments.
    pub priority: u8,
    /// DSCP of the acknowledgments.
    pub dscp: u8,
    /// Which frames are sent again after a loss.
    pub retransmission: Retransmission,
    /// Time without a new acknowledgment after which all that was sent is taken to be lost.
    pub timeout_ns: Nanos,
    /// The congestion control, if it works by acknowledgments.
    pub transport: Option<TransportSettings>,
}

/// When frames of a flow are ready to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// At all times.
    Constant,
    /// Alternately on and off.
    OnOff {
        /// Duration with frames.
        on_ns: Nanos,
        /// Duration without frames.
        off_ns: Nanos,
    },
    /// One message of `bytes` bytes, whose completion time is recorded.
    Finite {
        /// Bytes of frames, rounded up to whole frames.
        bytes: u64,
    },
    /// Messages at random times (exponentially distributed intervals) with the mean rate; each is
    /// sent as fast as the link allows.
    Poisson {
        /// Bytes of a message.
        bytes: u64,
    },
    /// A message from all senders at once, repeatedly.
    Incast {
        /// Bytes of a message.
        bytes: u64,
        /// Time from one message to the next.
        every_ns: Nanos,
    },
    /// One collective of all senders.
    Collective {
        /// Bytes that are reduced, or sent by each rank to each other.
        bytes: u64,
        /// Kind and algorithm.
        collective: Collective,
    },
    /// Each frame at the time, and with the length, that a file has.
    Trace,
}

/// Kind and algorithm of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collective {
    /// All-reduce by a ring.
    Ring,
    /// All-reduce by a binomial tree, up and down.
    Tree,
    /// All-reduce by recursive halving and doubling.
    HalvingDoubling,
    /// Each rank to each other, in phases.
    AllToAll,
}

/// When traffic begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// At a time.
    At(Nanos),
    /// When all of other traffic that ends has arrived completely.
    After(Vec<usize>),
}

/// A static entry of a switch's FDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The switch's node.
    pub switch: usize,
    /// The host's node.
    pub host: usize,
    /// Port of the switch.
    pub port: usize,
}

/// A change of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Time of the change.
    pub at_ns: Nanos,
    /// Kind of the change.
    pub kind: FaultKind,
}

/// Kind of a change of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A cable is cut: the frames on it are lost.
    LinkDown {
        /// Index of the link.
        link: usize,
    },
    /// A cable is repaired.
    LinkUp {
        /// Index of the link.
        link: usize,
    },
    /// A host pauses a priority of its peer without interruption, regardless of what it receives,
    /// as a broken NIC does.
    Storm {
        /// The host's node.
        host: usize,
        /// Bit p is set for priority p.
        priorities: u8,
        /// Duration, after which the priorities are resumed.
        duration_ns: Nanos,
    },
    /// A static entry is replaced.
    Route(Route),
}

/// The points of a sweep: each combination of values, with each seed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Start values of the random numbers.
    pub seeds: Vec<u64>,
    /// The varied settings; the first changes slowest.
    pub vary: Vec<Vary>,
}

/// A varied setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vary {
    /// The setting, as a KEY of `sluice sim --set`.
    pub key: String,
    /// Its values, as TOML.
    pub values: Vec<String>,
}

/// A required result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// Line in the scenario file.
    pub line: usize,
    /// Part of the network or traffic.
    pub scope: Scope,
    /// The measured quantity.
    pub metric: Metric,
    /// Lower limit.
    pub at_least: Option<f64>,
    /// Upper limit.
    pub at_most: Option<f64>,
}

/// Part of the network or traffic that an expectation covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The whole network.
    All,
    /// One traffic.
    Traffic(usize),
    /// All traffic of one priority.
    Priority(u8),
    /// One switch.
    Switch(usize),
    /// One port of a switch.
    Port(LinkEnd),
}

/// A measured quantity. Frames and times are those of the scope's traffic, or, for switches and
/// ports, their counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Frames sent, not received, and not in the network either.
    Lost,
    /// Lost frames of no-drop priorities, for whatever reason: the guarantee is violated. In a lab
    /// also frames of any priority that a kernel lost on receipt at ports that protect it.
    NoDropLost,
    /// Frames sent.
    Sent,
    /// Frames received.
    Received,
    /// Frames received after one that was sent later.
    Reordered,
    /// Frames received with a mark (CE).
    Marked,
    /// Received bit/s on the wire, overhead included, between the traffic's start and its stop (or
    /// the end of the run).
    Throughput,
    /// Messages that arrived completely.
    Completed,
    /// Longest completion time of a message, in ns.
    SlowestCompletionNs,
    /// Number of transitions of groups to XOFF.
    XoffEpisodes,
    /// Number of pauses by peers that began, at switches and at hosts.
    Pauses,
    /// Storms detected by watchdogs of switches.
    Storms,
    /// Storms that ended.
    StormsRestored,
    /// Frames that watchdogs dropped.
    StormDropped,
    /// The most headroom cells that a group used.
    HeadroomPeakCells,
    /// Time from the last arrival of a frame at any host to the end of the run.
    StuckNs,
    /// Frames still in the network at the end.
    InNetwork,
}
