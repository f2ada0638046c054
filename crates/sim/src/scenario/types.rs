//! What a scenario is: plain values. Nodes, links and traffic are numbered by their place here; the
//! file's names are kept for outputs.

use config::ConfigErrors;
use switch::{Nanos, SwitchSettings};

/// All of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// What it is called; the file's name unless it has a title.
    pub title: String,
    /// How long it runs.
    pub duration_ns: Nanos,
    /// Where random numbers begin.
    pub seed: u64,
    /// Time between two points of a series.
    pub sample_ns: Nanos,
    /// How switches come to know where hosts are.
    pub forwarding: Forwarding,
    /// Switches and hosts.
    pub nodes: Vec<Node>,
    /// Cables.
    pub links: Vec<Link>,
    /// What is sent.
    pub traffic: Vec<Traffic>,
    /// Static entries of bridge tables, beside those of `forwarding`; they win over them.
    pub routes: Vec<Route>,
    /// What happens to the network, in the order of time.
    pub faults: Vec<Fault>,
    /// What must come of it.
    pub expectations: Vec<Expectation>,
    /// What the file may say but should not: cables that a switch's headroom is too short for.
    /// Often there is nothing.
    pub warnings: ConfigErrors,
}

impl Scenario {
    /// How a port is called: `h1`, or `leaf1.p3`.
    pub fn end_name(&self, end: End) -> String {
        let node = &self.nodes[end.node];
        match &node.kind {
            NodeKind::Switch(device) => format!("{}.{}", node.name, device.settings.ports[end.port].name),
            NodeKind::Host(host) => host.end_name(&node.name, end.port),
        }
    }
}

/// How switches come to know where hosts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarding {
    /// Each switch has a static entry for each host, towards it by a shortest path; of several, the
    /// host's number picks one.
    ShortestPath,
    /// By learning and flooding, as the daemon; hosts announce themselves at the start. Not for
    /// networks with loops.
    Learning,
}

/// A switch or a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeKind {
    /// A switch with as many ports as its configuration has.
    Switch(Box<SwitchNode>),
    /// A host.
    Host(HostNode),
}

/// A switch.
#[derive(Debug, Clone, PartialEq)]
pub struct SwitchNode {
    /// What its configuration file says, with PFC taken out if the file turns it off.
    pub settings: SwitchSettings,
    /// Time of one turn of a software loop, which then looks at its ports only so often; 0: a chip,
    /// which acts at once.
    pub turn_ns: Nanos,
}

/// A host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostNode {
    /// Bit p: it obeys pauses of priority p.
    pub no_drop: u8,
    /// It obeys 802.3x PAUSE, which stops all priorities.
    pub obeys_pause: bool,
    /// How many ports it has, 1 or more. It receives over all of them and sends over the first
    /// whose link is up, as a bond of Linux in active-backup mode.
    pub ports: u8,
}

impl HostNode {
    /// How a port of the host `name` is called: by the host's name, or as in `h1.2`, the second of
    /// several.
    pub(crate) fn end_name(&self, name: &str, port: usize) -> String {
        if self.ports == 1 { name.to_owned() } else { format!("{name}.{}", port + 1) }
    }
}

/// A port of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct End {
    /// The node.
    pub node: usize,
    /// Its port; 0 for a host with one.
    pub port: usize,
}

/// A cable between two ports, the same in both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Its name, made of its ends': `h1–leaf1.p3`.
    pub name: String,
    /// What it connects.
    pub ends: [End; 2],
    /// Bit/s.
    pub speed_bps: u64,
    /// Metres.
    pub cable_m: u32,
    /// Time that a bit takes from end to end.
    pub propagation_ns: Nanos,
    /// Longest frame in bytes, without FCS.
    pub mtu_bytes: u16,
    /// Time from the end of a PFC frame's arrival until the node obeys it.
    pub response_ns: Nanos,
    /// Bytes of line that a frame takes beyond its own: 24 on Ethernet.
    pub overhead_bytes: u16,
}

/// Frames of the same kind between some hosts: a flow for each pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Its name.
    pub name: String,
    /// Sender and receiver of each flow, as nodes.
    pub flows: Vec<(usize, usize)>,
    /// 802.1p priority in the frames' tags.
    pub priority: u8,
    /// Their DSCP.
    pub dscp: u8,
    /// Their length without FCS, at least 64.
    pub frame_bytes: u16,
    /// Most that each flow sends, in bit/s of the line, overhead included; the host's line holds it
    /// back further.
    pub rate_bps: u64,
    /// When frames are there to be sent.
    pub pattern: Pattern,
    /// When it begins.
    pub start: Start,
    /// No frame is due at or after this; of Poisson and incast traffic no message, and those before
    /// it are sent whole.
    pub stop_ns: Nanos,
    /// Frames say that marks are understood: ECT(0).
    pub ecn: bool,
    /// Marks are told to the sender (CNPs), which slows down.
    pub dcqcn: bool,
}

/// When frames of a flow are there to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Always.
    Constant,
    /// For a time, then for a time not.
    OnOff {
        /// Time with frames.
        on_ns: Nanos,
        /// Time without.
        off_ns: Nanos,
    },
    /// One message of so many bytes, whose completion time is noted.
    Finite {
        /// Bytes of frames, rounded up to whole frames.
        bytes: u64,
    },
    /// Messages at random times (exponentially distributed intervals), as many as make up the rate;
    /// each is sent as fast as the line takes it.
    Poisson {
        /// Bytes of a message.
        bytes: u64,
    },
    /// A message from all senders at once, again and again.
    Incast {
        /// Bytes of a message.
        bytes: u64,
        /// Time from one to the next.
        every_ns: Nanos,
    },
}

/// When traffic begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At a time.
    At(Nanos),
    /// When other traffic, which is finite, has arrived whole.
    After(usize),
}

/// A static entry of a switch's bridge table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The switch's node.
    pub switch: usize,
    /// The host's node.
    pub host: usize,
    /// Port of the switch.
    pub port: usize,
}

/// Something that happens to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// When.
    pub at_ns: Nanos,
    /// What.
    pub kind: FaultKind,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A cable is cut: what is on it is lost.
    LinkDown {
        /// The link.
        link: usize,
    },
    /// … and mended.
    LinkUp {
        /// The link.
        link: usize,
    },
    /// A host pauses a priority of its peer without end, whatever it receives, as a broken NIC
    /// does.
    Storm {
        /// The host's node.
        host: usize,
        /// Bit p: priority p.
        priorities: u8,
        /// How long; then it lets go.
        duration_ns: Nanos,
    },
    /// A forwarding change.
    Route(Route),
}

/// Something that must come of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// Line in the scenario file.
    pub line: usize,
    /// What it is about.
    pub scope: Scope,
    /// What is measured.
    pub metric: Metric,
    /// Not less …
    pub at_least: Option<f64>,
    /// … and not more.
    pub at_most: Option<f64>,
}

/// What an expectation is about.
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
    Port(End),
}

/// What is measured. Frames and times are of the scope's traffic, or, for switches and ports, what
/// they counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Frames sent, not received, and not in the network either.
    Lost,
    /// Of these, frames of no-drop groups: broken promises.
    NoDropLost,
    /// Frames sent.
    Sent,
    /// Frames received.
    Received,
    /// Frames received after one that was sent later.
    Reordered,
    /// Frames received with a mark (CE).
    Marked,
    /// Bit/s of the line that arrived, overhead included, between the traffic's start and its stop
    /// (or the end of the run).
    Throughput,
    /// Messages that arrived whole.
    Completed,
    /// Longest completion time of a message, in ns.
    SlowestCompletionNs,
    /// Times that groups went into XOFF.
    XoffEpisodes,
    /// Times that a peer's pause began, at switches and at hosts.
    Pauses,
    /// Storms that watchdogs of switches found.
    Storms,
    /// Storms that ended.
    StormsRestored,
    /// Frames that watchdogs dropped.
    StormDropped,
    /// Most cells of headroom that a group used.
    HeadroomPeakCells,
    /// Time from the last arrival of a frame at any host to the end of the run.
    StuckNs,
    /// Frames still in the network at the end.
    InNetwork,
}
