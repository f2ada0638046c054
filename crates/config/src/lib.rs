//! Sluice's configuration language: reads TOML text into plain values, or reports every error with
//! its position and cure.
//!
//! ```toml
//! [switch]
//! name = "lab"                     # default: "sluice"; restart
//!
//! [dataplane]                      # restart, all of it
//! cores = [0, 1]                   # the first one switches, all serve ports (docs/multi-core.md); default: [0]
//! switch_core_serves = true        # false: with several cores, the first one only switches
//! scheduling = "short-slices"      # of the loop's thread: or "normal", "fifo" (real time)
//! overload = "pause"               # a loop that falls behind pauses its peers; or "drop": the kernel drops
//! spare_ports = 2                  # ports that a reload may add, with one RX queue each; 32 MiB of memory each
//! zero_copy = "auto"               # NICs whose drivers support it; or "off": the kernel copies; or "emulate": for tests
//! pfc_test = "nics"                # ports that test at startup whether PFC frames get out and in; or "all", "off"
//!
//! [control]
//! socket = "/run/sluice/lab.sock"  # the default; restart
//!
//! [recorder]                       # the flight recorder (docs/monitoring/recorder.md)
//! always = true                    # record all the time, and keep the most recent part; default: false
//! freeze_on_loss = true            # with always: keep what led to a loss until it is fetched
//! memory_mib = 256                 # size of the kept part; 128 to 65536
//!
//! [pfc]
//! enabled = true                   # false: PFC is off on all ports, whatever their settings
//!
//! [pfc.watchdog]                   # PFC deadlock detection (docs/watchdog.md) of all ports; below a port's pfc: of that port
//! enabled   = true                 # false: off, for all or for this port
//! precision = "normal"             # the unit of intervals: "normal", 100 ms, or "high", 10 ms
//! action    = "forward"            # during a storm; or "drop": the default with detection_ms
//! recovery  = "auto"               # or "manual": by `sluice pfc recover`
//! priority.3 = { interval = 5, restore_delay = 6, limit = { period_s = 1, count = 10 } }  # restored after 700 ms
//! priority.4 = { interval = 5, pause_recover = true }  # restored when no XOFF came for an interval
//! priority.5 = { detection_ms = 400, restoration_ms = 400 }  # restored once no XOFF has come for 400 ms
//!
//! [pfc.early-warning]              # PFC rate thresholds (received, sent) for events; also below a port's pfc
//! priority.3 = { in_pps = 10000, out_pps = 10000 }
//!
//! [alarm]
//! usage_percent = 100              # use of the limit above which a queue or group counts a violation; for a queue
//!                                  # without limit, such as a no-drop queue, the limit is its pool
//! ingress  = { enabled = true, percent = 100, interval_s = 5 }   # events (docs/monitoring/events.md); off unless enabled
//! egress   = { enabled = true, percent = 100, pool.1.percent = 90 }
//! headroom = { enabled = true, percent = 100 }
//! drop     = { enabled = true, interval_s = 5 }
//!
//! [buffer]                         # each _cells can be _bytes instead, rounded down to whole cells
//! preset         = "h3c-s6850"     # defaults of that switch for all of the following except fixed_cells; settings here override it
//! cell_bytes     = 256             # 64 to 9216; restart
//! total_cells    = 131072
//! fixed_cells    = 16384           # default: an eighth of the total, or the sum of reserved or guaranteed cells if that is more
//! headroom_cells = 12288
//!
//! [buffer.ingress.pool.1]          # service pools 0 to 3 of the shared area; pool 0 has the remainder
//! shared_percent = 20              # or size_cells, size_bytes
//! pause_threshold_cells = 5000     # or _bytes: use at which its no-drop groups are paused; default: none
//!
//! [buffer.egress.pool.1]
//! shared_percent = 20              # or a size, up to all cells of the buffer for all pools together
//!
//! [buffer.ingress.profile.lossless]  # defaults of a profile: 0, except for shared
//! reserved_bytes   = 2048          # or reserved_cells, and so on: bytes are rounded up to whole cells
//! shared           = { static_bytes = 19456 }  # as xoff below
//! xoff_bytes       = 196608        # headroom: for frames that arrive after XOFF
//! xon_bytes        = 15872         # as resume_cells below
//! xon_offset_bytes = 3584
//!
//! [buffer.egress.profile.lossy]
//! reserved_bytes = 0               # guaranteed to each queue
//! shared         = { dynamic_th = 1 }
//!
//! [wred.table5.queue.5]            # early drops and marks of a queue; a table has any of the queues 0 to 7
//! weighting_exponent = 9           # of the average length, 0 to 15; 0: the length of the instant
//! ecn          = true              # default: false: frames are dropped instead of marked
//! mark         = "enqueue"         # "enqueue" | "dequeue"
//! drop_not_ect = false             # true: on a no-drop queue, frames that cannot be marked are dropped
//! green  = { low_cells = 100, high_cells = 1000, probability_percent = 10 }  # the defaults of every level
//! yellow = { low_bytes = 20000, high_bytes = 200000 }  # rounded up to whole cells
//!
//! [queue-profile.gentle]           # the same mechanism, queue by queue
//! action = "ecn"                   # required: "ecn" | "wred" | "none": tail drop only
//! green  = { min_threshold_bytes = 0, max_threshold_bytes = 32058368, probability_percent = 100 }  # or _cells; defaults
//! weighting_exponent = 0           # the default
//!
//! [bridge]
//! max_entries          = 16384     # restart
//! max_entries_per_port = 8192      # learned on one port; default: half of max_entries
//! aging_s              = 300
//! unknown_unicast_to_queue = [0, 1, 1, 1, 2, 2, 6, 6]  # by priority; default: the queues of all other frames
//! multicast_to_queue       = [2, 0, 1, 3, 4, 5, 6, 7]  # of frames to group addresses
//! no_drop_to_down_port     = "drop"  # no-drop frames to an address learned on a port that is down; or "flood"
//!
//! [classifier.roce]                # for policies: frames with any of these priorities in their tag
//! description = "RoCE data and what answers it"
//! operator    = "or"               # "and" would match no frame that "or" does not
//! dot1p       = [5]
//!
//! [policy.rdma]                    # policy = "rdma" in a port is the same as these rules there
//! description = "RoCE has queue 3"
//! rules       = [{ classifier = "roce", local_precedence = 3 }]
//!
//! [port-defaults]                  # the same settings as a port, except interface
//! trust         = "dot1p"          # the default | "dscp" | "tunnel-dot1p": of the frame in VXLAN | "none": port_priority applies
//! port_priority = 0
//!
//! [port.server1]                   # at least one; the order of the file gives the numbers, from 0
//! interface       = "veth0"        # required; restart
//! core            = 1              # one of dataplane.cores; default: the one with the fewest RX queues; restart
//! speed           = "2.5G"         # or bit/s as a number; default: unlimited
//! burst_bytes     = 1250000        # burst after idle time; default: 4 ms at line rate
//! wire_overhead   = true           # adds 24 bytes per frame: preamble, FCS, gap; default: true where speed is set
//! cable_m         = 10             # for warnings only, as mtu
//! mtu             = 1536           # bytes of the longest frame, without FCS
//! in_flight_bytes = 65536
//! static_addresses = ["02:00:00:00:00:01"]  # always on this port, not learned or aged
//! broadcast_limit_pps = 1000       # received frames a second that are flooded, others are dropped; default: "off"
//! multicast_limit_pps = 5000       # to other group addresses
//! unknown_unicast_limit_pps = 1000 # to addresses that are not in the FDB
//! vlan            = { mode = "access", pvid = 10 }  # on all ports or none; none: one bridge for all tags
//! lldp            = "both"         # the default | "tx" | "rx" | "off" | "forward": as a wire, all ports or none
//! lldp_tlvs       = ["port-description", "system-name", "system-description", "capabilities", "management-address",
//!                    "port-vlan", "max-frame-size", "link-aggregation"]  # those that are sent; default: all
//! flow_control    = "off"          # 802.3x PAUSE, not together with PFC: "off" | "receive" | "send" | "both"
//! maps            = "h3c"          # dot1p_to_queue by name: "h3c", the default, or "huawei": one to one
//! dot1p_to_queue      = [2, 0, 1, 3, 4, 5, 6, 7]
//! dot1p_to_drop_level = [0, 0, 0, 0, 0, 0, 0, 0]  # 0 green, 1 yellow, 2 red
//! dei_drop_level  = 0              # of tagged frames with DEI, if higher than the map's
//! policy          = [{ dot1p = 5, local_precedence = 3 }]  # by the tag; overrides the maps
//! rewrite.dot1p   = [0, 1, 2, 3, 4, 5, 6, 7]      # by local precedence; default: unchanged
//! rewrite.dscp    = [0, 8, 16, 24, 32, 40, 48, 56]
//! wred            = "table5"
//! queue_profile   = { gentle = [0, 1, 2] }
//!
//! [port.server1.pfc]
//! mode       = "on"                # "on" | "off": off, no_drop and what PFC needs have no effect | "auto": as DCBX agrees
//! rx         = true                # default: as mode
//! tx         = true
//! no_drop    = [3, 4, 5]
//! pause_time = 65535               # quanta
//! pause_speed = "10G"              # speed that defines the quantum; default: `speed`, or the interface's
//!
//! [port.server1.dcbx]              # negotiates with the peer (docs/dcbx.md); without this table the port does not
//! enabled    = true                # the default; false: not on this port, though the defaults have the table
//! version    = "auto"              # the default | "ieee", "standard" | "cee", "rev101" | "cin", "rev100"
//! willing    = false               # the default; true: takes over the peer's configuration
//! precedence = "lower-address"     # whose PFC wins between two willing ends; or "higher-address", as lldpad has it
//! applications = [{ udp = 4791, priority = 3 }]  # advertised while pfc.mode is "auto": udp, tcp, port, ethertype or dscp
//!
//! [port.server1.pfc.priority.3]    # each _cells can be _bytes instead, rounded up
//! headroom_cells   = 100
//! xoff             = { dynamic_percent = 5 }  # or static_cells, static_bytes, dynamic_th: alpha = 2^n, n -7 to 3
//! xon_offset_cells = 12
//! resume_cells     = 0
//! reserved_cells   = 17           # 20 with cells of less than 256 bytes
//!
//! [port.server1.schedule]
//! mode = "sp-wrr"                  # "sp-wrr" | "ets"
//! wrr  = "byte-count"              # "byte-count" | "packet-count"
//! queue.3 = { group = "sp" }       # "sp" goes before "wrr1", or "wrr", and that before "wrr2"
//! queue.4 = { group = "wrr", weight = 5, rate = "1G", burst_bytes = 500000 }  # weights 1,2,3,4,5,9,13,15 by default
//!
//! [port.server1.buffer]
//! ingress.priority.3 = { pool = 1 }
//! ingress.priority.4 = { profile = "lossless" }  # instead of pfc.priority.4
//! egress.queue.3 = { pool = 1, guaranteed_percent = 13, shared_percent = 20 }  # or shared_cells; 20 % picks alpha 1/4
//! egress.queue.1 = { profile = "egress_lossy_profile" }  # a built-in profile
//!
//! [port.server2]
//! interface = "veth1"
//! vlan      = { mode = "trunk", allowed = "1-100,200" }  # tagged; default: all VLANs; pvid: the untagged one
//! static_addresses = [{ address = "02:00:00:00:00:02", vlan = 20 }]  # where it is not in the PVID's VLAN
//! trust     = "dscp"               # DSCPs not listed in a map keep their defaults:
//! dscp_to_dot1p      = { "46" = 5, "8-15" = 1 }  # DSCP / 8
//! dscp_to_queue      = { "48-63" = 7 }           # through the priority
//! dscp_to_drop_level = { "12" = 1, "14" = 2 }    # 0
//!
//! [port.server2.schedule]          # default without groups: those below, 0 and 1 with 50 % each, WRR inside group 1
//! mode = "ets"
//! group.0  = { queues = [0, 1, 2, 4, 5], bandwidth_percent = 60 }  # all groups except 15 add up to 100 %
//! group.1  = { queues = [3], bandwidth_percent = 40, scheduling = "sp", rate = "2G", burst_bytes = 1000000 }
//! group.15 = { queues = [6, 7] }   # before all others; its scheduling is "sp" by default, that of others "wrr"
//! queue.4  = { weight = 2, rate = "500M" }  # default weight: 1
//!
//! [telemetry.sensor-group.usage]   # docs/monitoring/telemetry.md; `sluice telemetry paths` lists the paths
//! paths = ["buffermonitor/bufferusages", "buffermonitor/pfcspeeds"]
//!
//! [telemetry.sensor-group.events]  # a group has periodic or event paths, not both
//! paths = ["sluice/events"]
//!
//! [telemetry.destination-group.collector1]
//! collectors       = ["192.168.2.1:50050", "[fd00::1]:50050", "collector.example"]  # default port: 50050
//! vpn_instance     = "management"  # a network namespace of `ip netns`; default: the daemon's own
//! service          = "/grpc_dialout.GRPCDialout/Dialout"  # the default; some serve "/grpc_dialout.gRPCDialout/Dialout"
//! backlog_messages = 1000          # backlog per collector; the defaults
//! backlog_kib      = 16384
//! message_kib      = 4096          # longer messages are sent in chunks
//! tls = { ca = "ca.pem", server_name = "collector.example", certificate = "switch.pem", key = "switch.key" }  # encrypted;
//!                                  # files beside this one; all optional, certificate and key together
//!
//! [telemetry.subscription.A]
//! sensors      = [{ group = "usage", interval_s = 10 }, { group = "events" }]  # or interval_ms, at least 100
//! destinations = ["collector1"]
//!
//! [lldp]                           # docs/dcbx.md; the defaults
//! tx_interval_s   = 30             # a frame each; 1 to 3600
//! hold            = 4              # intervals for which a receiver keeps what it got; 1 to 100
//! fast_interval_s = 1              # after a new neighbor, 1 to 3600
//! fast_frames     = 4              # as many frames, 1 to 8
//! credit_max      = 5              # frames at once, 1 to 10
//! reinit_delay_s  = 2              # from a shutdown frame to the next start, 1 to 10
//! max_neighbors   = 8              # of a port, 1 to 64
//! management_addresses = ["192.0.2.1"]  # where the switch is managed; none by default
//!
//! [metrics]                        # docs/monitoring/metrics.md
//! enabled = true                   # default: false
//! listen  = "127.0.0.1:9464"       # the default; anyone who can reach this address can read them
//! page    = true                   # also serve a live page for browsers; default: false
//! ```
//!
//! A port's own settings win over the defaults one by one, and the defaults over the settings of
//! the whole switch, in whatever order the file has them. A list is one setting, and so are the
//! policy and all groups of a schedule together. In a map by DSCP each DSCP is one, and in
//! `queue_profile` each queue. A buffer profile sets all thresholds of a priority or queue, so a
//! bound profile replaces all thresholds of the defaults.
//!
//! A queue has WRED from a table or from a queue profile, not from both. A table bound by a port
//! replaces the defaults' table and, for the queues in it, the defaults' profiles; the port's own
//! profiles win over both. On a no-drop queue WRED needs ECN to have any effect, and only there may
//! `drop_not_ect` be true.
//!
//! Presets are h3c-s6805, h3c-s6825, h3c-s6850 and h3c-s9850 (131072 cells of 256 bytes, a headroom
//! pool of 12288; the same as without a preset), h3c-s9820-64h (208896 of 208, 28672) and
//! h3c-s9820-8c (264192 of 254, 12288). A no-drop group reserves 17 cells by default, 20 on the
//! last two or where cells have as many bytes as theirs. Its headroom depends on the speed: 100
//! cells up to 10G, 125 up to 25G, 200 up to 40G, 491 up to 100G, 1000 above.
//!
//! A group that is not no-drop reserves an eighth of its port's even part of the fixed area and may
//! use all free shared cells of its pool, unless `reserved_cells` and `xoff` or a profile set other
//! limits. At its XOFF threshold its frames drop.
//!
//! A percentage of `xoff`, `shared` and `shared_percent` is no share of the area: it selects alpha,
//! and the limit is alpha × the free cells of the pool (docs/behavior.md, "Thresholds"). So a
//! single active queue with 20 % has 20 % of its pool, with 25 % 33.3 %, with 100 % 88.9 %. To set
//! a share, write cells. A lossy queue has 20 % by default; a no-drop queue has no limit, and so
//! keeps what ingress admitted, unless the file sets one. The deliberate differences from the
//! vendors' switches are in docs/conformance.md, "Differences that are meant".
//!
//! Built-in profiles are those of Inspur's switch: `AZURE_LOSSLESS` (queue profile: ECN from 104000
//! to 312000 bytes, 100 %); `ingress_lossless_profile` (reserved_bytes = 2048, shared.static_bytes
//! = 19456, xoff_bytes = 196608, xon_bytes = 15872, xon_offset_bytes = 3584),
//! `ingress_lossy_profile` (shared.dynamic_th = 3); `egress_lossless_profile` (shared.static_bytes
//! = 32058368), `egress_lossy_profile` (shared.dynamic_th = 1). A profile of the same name in the
//! file replaces the built-in one.
//!
//! Settings of later versions are refused as not working yet. Valid settings that cannot keep a
//! no-drop priority lossless are accepted with a warning ([`Config::warnings`]).
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod config;
mod diff;
mod headroom_fix;
mod lint;
mod profiles;
pub mod read;
mod tables;
mod validate;
pub use crate::config::{Config, Dataplane, PfcTest, RecorderSettings, Scheduling, parse, parse_for_daemon};
pub use crate::diff::{Changes, NEEDS_RESTART, changes};
pub use crate::headroom_fix::{FixedFile, fix};
pub use crate::lint::headroom_duration::{Headroom, headrooms, spell_time};
pub use crate::lint::lossless::{DEFAULT_MTU_BYTES, headroom_shortage};
pub use crate::lint::mtu::{headroom_mtu_warning, mtu_warning};
pub use crate::lint::short_pauses::short_pause_warning;
pub use crate::profiles::{Bindings, BufferProfile, IngressThresholds, Profiles, QueueProfile};
pub use crate::read::diagnostics::{ConfigError, ConfigErrors};
pub use crate::read::parse::{parse_speed, spell_speed};
pub use crate::read::size::{CELL_BYTES, MAX_CELLS};
pub use crate::tables::lldp::{Lldp, LldpMode, PortLldp};
pub use crate::tables::metrics::Metrics;
pub use crate::tables::port::dcbx::{Negotiated, PortDcbx};
pub use crate::tables::port::zero_copy::ZeroCopy;
pub use crate::tables::ports::{CABLE_M, Link, MTU_BYTES};
pub use crate::tables::preset::{PRESETS, Preset};
pub use crate::tables::sensor_path::SensorPath;
pub use crate::tables::telemetry::{Destination, Sensor, Subscription, Telemetry};
pub use crate::tables::tls::{Tls, TlsIdentity};
