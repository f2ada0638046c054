//! The errors of wrong files as the user sees them, in a table for review: each file, and its
//! errors.

use std::fmt::Write;

use miette::{GraphicalReportHandler, GraphicalTheme};

const PORT: &str = "[port.a]\ninterface = \"veth0\"\n";

/// Files of one port with these lines, and whole files.
const WRONG_PORTS: &[&str] = &[
    // names
    "sped = \"1G\"",
    "Speed = \"1G\"",
    "color = \"red\"",
    "pfc.prority.3.headroom_cells = 1",
    "pfc.priority.8.headroom_cells = 1",
    "pfc.priority.x.headroom_cells = 1",
    "\"two\\nlines\" = 1",
    "pfc = { mode = \"on\", no_drop = [3], priority.3.headroom = 5 }",
    "schedule.queue.1.wait = 3",
    "buffer.egress.queue.1.guaranteed = 3",
    // types
    "speed = true",
    "speed = 1.5",
    "trust = 1",
    "port_priority = \"3\"",
    "port_priority = 1.0",
    "pfc = \"on\"",
    "pfc.rx = \"yes\"",
    "pfc.no_drop = 3",
    "pfc.no_drop = [3, \"4\", 9]",
    "pfc.priority = 3",
    "pfc.priority.3 = 100",
    "pfc.priority.3.xoff = 100",
    "dot1p_to_queue = { 0 = 1 }",
    "schedule = [1]",
    "schedule.queue.1 = \"sp\"",
    // values
    "speed = \"1g\"",
    "speed = \"fast\"",
    "speed = \"0G\"",
    "speed = -5",
    "speed = 0",
    // bit/s, where Gbit/s were meant
    "speed = 10",
    "schedule.queue.1.rate = 999999",
    // an error is not also reported for the settings that depend on it
    "burst_bytes = 1000\nspeed = \"0\"",
    "wire_overhead = true\nspeed = \"1000000G\"",
    "schedule.queue.1 = { burst_bytes = 5, rate = \"0\" }",
    "pfc = { no_drop = [3], mode = \"of\", priority.3.headroom_cells = 100 }",
    "speed = \"801G\"",
    "speed = 800000000001",
    "trust = \"dotip\"",
    "trust = \"mac\"",
    "trust = \"non\"",
    "port_priority = 8",
    "port_priority = -1",
    "port_priority = 99999999999999999999",
    "in_flight_bytes = 100",
    "dot1p_to_queue = [0, 1, 2, 3]",
    "dot1p_to_queue = [0, 1, 2, 3, 4, 5, 6, 8]",
    "pfc.mode = \"enabled\"",
    "pfc.mode = \"of\"",
    "pfc.pause_time = 0",
    "pfc.pause_time = 65536",
    "pfc.pause_speed = \"fast\"",
    "pfc.pause_speed = \"0G\"",
    "pfc.pause_speed = \"801G\"",
    "pfc = { mode = \"on\", no_drop = [3], pause_time = 1, pause_speed = \"400G\" }",
    "speed = \"800G\"\npfc = { mode = \"on\", no_drop = [3], pause_time = 3 }",
    "schedule.queue.1.group = \"wr\"",
    "schedule.queue.1.weight = 0",
    "schedule.queue.1.weight = 256",
    "buffer.egress.queue.1.guaranteed_percent = 101",
    "buffer.egress.queue.1.shared_percent = 101",
    "pfc = { mode = \"on\", no_drop = [3], priority.3.xoff.dynamic_percent = 101 }",
    "pfc = { mode = \"on\", no_drop = [3], priority.3.xoff.static_cells = 0 }",
    "pfc = { mode = \"on\", no_drop = [3], priority.3.xoff = {} }",
    "pfc = { mode = \"on\", no_drop = [3], priority.3.xoff = { cells = 5 } }",
    // known, but not yet
    "lldp = \"on\"",
    "lldp_tlvs = [\"system-nam\", \"x\"]",
    "lldp_tlvs = \"all\"",
    "dcbx = { version = \"ceee\", willing = \"yes\" }",
    "dcbx.applications = [{ udp = 4791 }, { udp = 1, tcp = 2, priority = 3 }, { dscp = 64, priority = 3 }]",
    "dcbx = {}\nlldp = \"tx\"",
    "pfc.mode = \"auto\"",
    // watchdogs
    "pfc.watchdog.precision = \"high\"",
    "pfc = { mode = \"on\", no_drop = [3], watchdog.priority.5 = { interval = 5 } }",
    "pfc = { mode = \"on\", no_drop = [3], watchdog.priority.3 = { interval = 16, restore_delay = 0 } }",
    "pfc = { mode = \"on\", no_drop = [3], watchdog.priority.3 = { limit = { period_s = 1, count = 1 } } }",
    "pfc = { mode = \"on\", no_drop = [3], watchdog.priority.3 = { interval = 5, detection_ms = 99, restoration_ms = 5001 } }",
    "pfc = { mode = \"on\", no_drop = [3], watchdog.priority.3 = { detection_ms = 400 } }",
    "pfc = { mode = \"on\", no_drop = [3], watchdog.priority.3 = { detection_ms = 400, restoration_ms = 400, restore_delay = 3 } }",
    "pfc = { mode = \"on\", no_drop = [3], watchdog = { recovery = \"manual\", priority.3 = { interval = 5, restore_delay = 6 } } }",
    "pfc = { mode = \"on\", no_drop = [3], watchdog = { precision = \"high\", priority.3 = { detection_ms = 400, restoration_ms = 400 } } }",
    "pfc = { mode = \"on\", no_drop = [3], watchdog.priority.3 = { interval = 5, restore_delay = 6, pause_recover = true } }",
    "pfc = { mode = \"on\", no_drop = [3], watchdog = { precision = \"low\", action = \"discard\", recovery = \"hand\", enabled = 1, priority.3.interval = 5 } }",
    "pfc = { mode = \"on\", no_drop = [3], watchdog.priority.3 = { interval = 15, limit = { period_s = 1, count = 10 } } }",
    "pfc = { mode = \"on\", no_drop = [3], watchdog.priority.3 = { interval = 1, limit = { period_s = 61, count = 501 } } }",
    "pfc = { mode = \"on\", no_drop = [3], watchdog.priority.3 = { interval = 1, limit = { count = 5 } } }",
    "pfc = { mode = \"on\", no_drop = [3], rx = false, watchdog.priority.3.interval = 5 }",
    "pfc.watchdog.priority.3.interval = 5",
    "pfc.early-warning.priority.3 = { in_pps = 0 }",
    "pfc.early-warning.priority.3 = {}",
    "pfc.early-warning.priority.8.in_pps = 1",
    // classification
    "trust = \"dcsp\"",
    "dot1p_to_drop_level = [0, 0, 0, 0, 0, 0, 0, 3]",
    "dot1p_to_drop_level = [0]",
    "dei_drop_level = 3",
    "trust = \"dscp\"\ndscp_to_dot1p = [1, 2]",
    "trust = \"dscp\"\ndscp_to_dot1p = { \"46\" = 8, \"47\" = \"x\" }",
    "trust = \"dscp\"\ndscp_to_drop_level = { 46 = 3 }",
    "trust = \"dscp\"\ndscp_to_queue = { \"64\" = 1, 0-99999 = 1, \"99999999999999999999\" = 1 }",
    "trust = \"dscp\"\ndscp_to_queue = { af41 = 1, \"-1\" = 1, \"8-\" = 1, \"8 - 9\" = 1, \"\" = 1, \"1-2-3\" = 1 }",
    "trust = \"dscp\"\ndscp_to_dot1p = { 15-8 = 1 }",
    "trust = \"dscp\"\ndscp_to_dot1p = { 8-15 = 1, 10 = 2, 15-20 = 3, \"010\" = 4 }",
    "trust = \"dscp\"\ndscp_to_dot1p = { 8 = 1, \"8\" = 2 }",
    "policy = { dot1p = 5, local_precedence = 3 }",
    "policy = [5]",
    "policy = [{ dot1p = 8, local_precedence = 8 }]",
    "policy = [{ dot1p = 5 }, { local_precedence = 5 }, { dot1p = 3, local_precedence = 3, queue = 3 }]",
    "policy = [{ dot1p = 5, local_precedence = 3 }, { dot1p = 4, local_precedence = 3 }, { dot1p = 5, local_precedence = 3 }]",
    "rewrite = [0, 1, 2, 3, 4, 5, 6, 7]",
    "rewrite = { dot1p = [0, 1, 2, 3, 4, 5, 6], dscp = [0, 1, 2, 3, 4, 5, 6, 64], pcp = 3 }",
    "dscp_to_dot1p = { 46 = 5 }\ndscp_to_queue = { 46 = 5 }\ndscp_to_drop_level = { 46 = 1 }",
    "trust = \"none\"\ndot1p_to_drop_level = [0, 0, 0, 0, 0, 0, 0, 1]",
    // the cable
    "cable_m = 100001\nmtu = 63",
    "mtu = 9239\ncable_m = \"10m\"",
    // pools and profiles
    "buffer.egress.queue.1.pool = 4",
    "buffer.ingress.priority.1.pool = -1",
    "buffer.ingress.priority.8.pool = 1",
    "buffer.ingress.priority.1 = { pool = 0, headroom_cells = 5 }",
    "buffer.egress.queue.1.pool = 1",
    "buffer.ingress.priority.1.pool = 3",
    "buffer.egress.pool.1.shared_percent = 20",
    "buffer.ingress = { pool.1.shared_percent = 20, profile.a.shared.dynamic_th = 1 }",
    "buffer.ingress.priority.1.profile = \"lossless\"",
    "buffer.egress.queue.1.profile = 3",
    // thresholds
    "pfc.priority.3.xoff = { dynamic_th = 4 }",
    "pfc.priority.3.xoff = { dynamic_th = -8 }",
    "pfc.priority.3.xoff = { static_bytes = 0 }",
    "pfc.priority.3.xoff = { static_cells = 5, static_bytes = 5, dynamic_th = 1 }",
    "pfc.priority.3.reserved_bytes = 4294967297",
    "pfc = { mode = \"on\", no_drop = [3], priority.3 = { headroom_cells = 5, headroom_bytes = 1280 } }",
    "pfc = { mode = \"on\", no_drop = [3], priority.3 = { xoff.static_bytes = 2048, resume_bytes = 1793 } }",
    "pfc = { mode = \"on\", no_drop = [3], priority.3 = { headroom_bytes = 3145729 } }",
    // the line
    "burst_bytes = 1000",
    "speed = \"1G\"\nburst_bytes = 1073741825",
    "wire_overhead = true",
    "wire_overhead = false\nschedule.queue.1.weight = 3",
    "speed = \"1G\"\nwire_overhead = 24",
    // scheduling
    "schedule.mode = \"wrr\"",
    "schedule = { wrr = \"packets\", weight = 3 }",
    "schedule.queue.1 = { group = \"wrr3\", rate = \"fast\", burst_bytes = -1 }",
    "schedule.queue.1 = { group = \"wrr2\", burst_bytes = 5 }",
    "schedule.queue = { 8.weight = 1, 01.weight = 1, 1.weight = 1 }",
    "schedule.group.1 = { queues = [0, 1, 2, 3, 4, 5, 6, 7], bandwidth_percent = 100 }",
    "schedule = { mode = \"ets\", queue.1.group = \"sp\" }",
    "schedule = { mode = \"ets\", queue.6.weight = 3 }",
    "schedule = { mode = \"ets\", queue.2.weight = 3, group.1 = { queues = [0, 1, 2, 3, 4, 5, 6, 7], bandwidth_percent = 100, scheduling = \"sp\" } }",
    "schedule = { mode = \"ets\", wrr = \"byte-count\", group.15.queues = [0, 1, 2, 3, 4, 5, 6, 7] }",
    "schedule = { mode = \"ets\", group = 3 }",
    "schedule = { mode = \"ets\", group = { 1 = 3, 16 = {}, 015 = {}, a = {} } }",
    "schedule = { mode = \"ets\", group.1 = {}, group.2 = { queues = [], bandwidth_percent = 0 } }",
    "schedule = { mode = \"ets\", group.1 = { queues = [0, 8], bandwidth_percent = 101, scheduling = \"drr\", weight = 1 } }",
    "schedule = { mode = \"ets\", group.0 = { queues = [0, 1, 2, 3], bandwidth_percent = 60 }, group.1 = { queues = [3, 5, 5], bandwidth_percent = 50 } }",
    "schedule = { mode = \"ets\", group.0 = { queues = [0, 1, 2, 3, 4, 5, 6], bandwidth_percent = 99 } }",
    "schedule = { mode = \"ets\", group.0 = { queues = [0, 1, 2, 3, 4, 5, 6], bandwidth_percent = 100, burst_bytes = 9 }, group.15 = { queues = [7], bandwidth_percent = 5 } }",
    // WRED tables and queue profiles that are bound
    "wred = 3",
    "wred = \"table\"",
    "queue_profile = \"gentle\"",
    "queue_profile = { gentle = 3 }",
    // settings that contradict or require one another
    "pfc = { mode = \"on\", no_drop = [3], priority.3.xoff = { static_cells = 5, dynamic_percent = 5 } }",
    "buffer.egress.queue.1 = { shared_percent = 5, shared_cells = 5 }",
    "schedule.queue.1 = { group = \"sp\", weight = 3 }",
    "pfc.rx = true\npfc.tx = false",
    "pfc = { mode = \"off\", tx = true }",
    "pfc.no_drop = [3]",
    // a link has either PFC or PAUSE (row 288)
    "flow_control = \"tx\"",
    "flow_control = \"both\"\npfc = { mode = \"on\", no_drop = [3] }",
    "flow_control = \"receive\"\npfc.priority.3.headroom_cells = 10",
    "flow_control = \"send\"\nspeed = \"800G\"\npfc.pause_time = 1",
    "pfc = { mode = \"on\", no_drop = [3], priority.4 = { headroom_cells = 5, resume_cells = 1, xon_offset_cells = 2 } }",
    "pfc = { mode = \"on\", no_drop = [3], priority.3 = { xoff = { static_cells = 9 }, resume_cells = 9 } }",
    "pfc = { mode = \"on\", no_drop = [3], priority.3.headroom_cells = 12289 }",
    "pfc.priority.3.reserved_cells = 200000",
];

const WRONG_FILES: &[&str] = &[
    "[port.\"порт\"]\ninterface = \"veth0\"",
    "[port-defaults]\nburst_bytes = 1000\n[port.a]\ninterface = \"veth0\"\nspeed = \"0\"",
    "",
    "[port]",
    "port = 3",
    "[[port]]\ninterface = \"veth0\"",
    "[port.a]\nspeed = \"1G\"",
    "[port.a]\n[port.b]",
    "[port.\"a b\"]\ninterface = \"veth0\"",
    "[port.a]\ninterface = \"a-very-long-name\"",
    "[port.a]\ninterface = \"\"",
    "[port.a]\ninterface = \"veth0\"\nstatic_addresses = \"02:00:00:00:00:01\"",
    "[port.a]\ninterface = \"veth0\"\nstatic_addresses = [\"02:00:00:00:00\", 7, \"01:00:5e:00:00:01\"]",
    "[port.a]\ninterface = \"veth0\"\nstatic_addresses = [\"02:00:00:00:00:01\"]\n[port.b]\ninterface = \"veth1\"\nstatic_addresses = [\"02:00:00:00:00:01\"]",
    "[bridge]\nmax_entries = 1\n[port.a]\ninterface = \"veth0\"\nstatic_addresses = [\"02:00:00:00:00:01\", \"02:00:00:00:00:02\"]",
    "[port-defaults]\nstatic_addresses = [\"02:00:00:00:00:01\"]\n[port.a]\ninterface = \"veth0\"",
    "[port.a]\ninterface = \"veth0\"\nbroadcast_limit_pps = 0\nmulticast_limit_pps = \"none\"\nunknown_unicast_limit_pps = true\nbroadcast_limit = 5",
    // VLANs: invalid values, and contradictions.
    "[port.a]\ninterface = \"veth0\"\nvlan = { mode = \"hybrid\", pvid = 4095, allowed = \"1-5,9-7\", native = 1 }",
    "[port.a]\ninterface = \"veth0\"\nvlan = { mode = \"trunk\", allowed = \"1-5,5\" }",
    "[port.a]\ninterface = \"veth0\"\nvlan = { mode = \"trunk\", allowed = \"1,x\" }\n[port.b]\ninterface = \"veth1\"\nvlan.allowed = [5]",
    "[port.a]\ninterface = \"veth0\"\nvlan.pvid = 5\nvlan.allowed = \"5\"",
    "[port-defaults]\nvlan.pvid = 5\n[port.a]\ninterface = \"veth0\"",
    "[port.a]\ninterface = \"veth0\"\nvlan.mode = \"access\"\n[port.b]\ninterface = \"veth1\"",
    "[port-defaults]\nvlan = { mode = \"access\", allowed = \"7\" }\n[port.a]\ninterface = \"veth0\"\nvlan = { pvid = 7, allowed = \"7\" }",
    "[port.a]\ninterface = \"veth0\"\nvlan = { mode = \"trunk\", pvid = 9, allowed = \"1-5,7\" }",
    "[port.a]\ninterface = \"veth0\"\nvlan = { mode = \"trunk\", allowed = \"1-5\" }\n\
     static_addresses = [\"02:00:00:00:00:01\", { address = \"02:00:00:00:00:01\", vlan = 6 }, { vlan = 5 }, { address = 5 }]",
    "[port.a]\ninterface = \"veth0\"\nvlan = { mode = \"trunk\", allowed = \"1-5\" }\n\
     static_addresses = [\"02:00:00:00:00:01\", { address = \"02:00:00:00:00:01\", vlan = 6 }]",
    "[port.a]\ninterface = \"veth0\"\nstatic_addresses = [{ address = \"02:00:00:00:00:01\", vlan = 6 }]",
    "[port-defaults]\nvlan = { mode = \"access\", pvid = 5 }\n\
     [port.a]\ninterface = \"veth0\"\nstatic_addresses = [\"02:00:00:00:00:01\"]\n\
     [port.b]\ninterface = \"veth1\"\nstatic_addresses = [{ address = \"02:00:00:00:00:01\", vlan = 5 }]",
    "[port.a]\ninterface = 5",
    "[port.a]\ninterface = \"a/b\"",
    "[port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"\n[port.c]\ninterface = \"veth0\"",
    "[port-default]\nspeed = \"1G\"\n[port.a]\ninterface = \"veth0\"",
    "[port-defaults]\ninterface = \"veth1\"\n[port.a]\ninterface = \"veth0\"",
    // Reported once, not once per port; and defaults that have an effect on one port are valid.
    "[port-defaults]\npfc.rx = true\nschedule.queue.1 = { group = \"sp\", weight = 3 }\npfc.priority.3.resume_cells = 9\n\
     [port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"",
    "[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n[port-defaults.pfc.priority.3]\nheadroom_cells = 13000\n\
     [port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"",
    "[alarm]\ningress = { enabled = 1, percent = 0, interval_s = 0, queue.3 = {} }\n\
     egress = { queue.8.percent = 3, pool.4 = {}, pool.1.size = 3 }\nheadroom = { pool.1 = {} }\n\
     drop = { percent = 90, interval_s = 3601 }\nports = 3\n[port-defaults.alarm]\negress.priority.3.percent = 9\n\
     ingress.enabled = true\nheadroom.interval_s = 3\ndrop.percent = 3\n[port.a]\ninterface = \"veth0\"",
    "[pfc.watchdog]\nprecision = \"high\"\n\
     [telemetry.sensor-group.a]\npaths = []\n[port.a]\ninterface = \"veth0\"",
    "[port.a]\ninterface = \"veth0\"\n[swich]\nname = \"x\"",
    "[port.a]\ninterface = \"veth0\"\n[switch]\nname = \"a/b\"",
    "[port.a]\ninterface = \"veth0\"\n[switch]\nname = 7",
    "[port.a]\ninterface = \"veth0\"\n[dataplane]\ncores = [0, 1, 0]",
    "[port.a]\ninterface = \"veth0\"\n[dataplane]\ncores = []",
    "[port.a]\ninterface = \"veth0\"\n[dataplane]\ncores = 1",
    "[port.a]\ninterface = \"veth0\"\ncore = 0",
    "[port.a]\ninterface = \"veth0\"\ncore = 5\n[port.b]\ninterface = \"veth1\"\ncore = 2\n[dataplane]\ncores = [2, 0, 1]\n\
     switch_core_serves = false",
    "[port.a]\ninterface = \"veth0\"\ncore = \"1\"\n[port-defaults]\ncore = 1\n[dataplane]\ncores = [0, 1]",
    "[port.a]\ninterface = \"veth0\"\n[dataplane]\nswitch_core_serves = false",
    "[port.a]\ninterface = \"veth0\"\n[dataplane]\nscheduling = \"short_slices\"\noverload = \"drops\"\ncore = 1",
    "[port.a]\ninterface = \"veth0\"\n[dataplane]\nscheduling = true\noverload = \"\"\nzero_copy = true",
    "[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\npause_time = 1\n\
     [port.a]\ninterface = \"veth0\"\nspeed = \"800G\"\n[port.b]\ninterface = \"veth1\"\nspeed = \"400G\"",
    "[port.a]\ninterface = \"veth0\"\n[recorder]\nfreeze_on_loss = true\nmemory_mib = 64\nseconds = 5",
    "[port.a]\ninterface = \"veth0\"\n[control]\nsocket = \"here.sock\"\npath = 1",
    "[port.a]\ninterface = \"veth0\"\n[control]\nmode = \"0600\"\ngroup = \"netops\"",
    "[port.a]\ninterface = \"veth0\"\n[bridge]\nmax_entries = 0\naging_s = 0",
    "[port.a]\ninterface = \"veth0\"\n[bridge]\nmax_entries = 100\nmax_entries_per_port = 101",
    "[port.a]\ninterface = \"veth0\"\n[buffer]\ncell_bytes = 63\ntotal_cells = \"many\"\nheadroom_cells = 20000000",
    "[port.a]\ninterface = \"veth0\"\n[buffer]\ntotal_cells = 1000",
    "[port.a]\ninterface = \"veth0\"\n[buffer]\nfixed_cells = 118784",
    "[port.a]\ninterface = \"veth0\"\n[buffer]\nheadroom_cells = 200000",
    "[port.a]\ninterface = \"veth0\"\npfc.priority.1.reserved_cells = 6\npfc.priority.2.reserved_cells = 5\n\
     [buffer]\nfixed_cells = 10",
    "[port.a]\ninterface = \"veth0\"\npfc = { mode = \"on\", no_drop = [3] }\n[buffer]\nheadroom_cells = 99",
    "[port.a]\ninterface = \"veth0\"\n[alarm]\nusage_percent = 101\nusage = 3",
    "[port.a]\ninterface = \"veth0\"\n[alarm]\nusage_percent = 0",
    "[port.a]\ninterface = \"veth0\"\n[pfc]\nenabled = \"off\"",
    "[port.a]\ninterface = \"veth0\"\n[pfc]\nmode = \"off\"",
    "[port.a]\ninterface = \"veth0\"\n[bridge]\nunknown_unicast_to_queue = [0, 1]",
    "[port.a]\ninterface = \"veth0\"\n[bridge]\nunknown_unicast_to_queue = [0, 1, 1, 1, 2, 2, 6, 8]",
    "[port.a]\ninterface = \"veth0\"\n[buffer]\ntotal_cells = 9\ntotal_bytes = 9\nfixed_cells = 1\nfixed_bytes = 256\nheadroom_bytes = 4294967297",
    "[port.a]\ninterface = \"veth0\"\n[buffer]\ntotal_bytes = 255",
    "[port.a]\ninterface = \"veth0\"\n[buffer]\nheadroom_bytes = 33000000\ntotal_bytes = 32058368",
    "[port.a]\ninterface = \"veth0\"\n[buffer.egress.pool.4]\nshared_percent = 20",
    "[port.a]\ninterface = \"veth0\"\n[buffer.egress.pool.1]\nshared_percent = 101\nshared_cells = 5",
    "[port.a]\ninterface = \"veth0\"\n[buffer.ingress.pool]\n1.shared_percent = 60\n2.shared_percent = 40\n0.shared_percent = 20",
    "[port.a]\ninterface = \"veth0\"\n[buffer.egress.queue.5]\nguaranteed_percent = 20",
    "[port.a]\ninterface = \"veth0\"\n[buffer.ingress.priority.5]\npool = 1",
    // pools without cells
    "[port.a]\ninterface = \"veth0\"\n[port-defaults]\nbuffer.egress.queue.5.pool = 2\n[buffer.egress.pool.1]\nshared_percent = 20",
    "[port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"\n[buffer.egress.pool.1]\nshared_percent = 100",
    "[port.a]\ninterface = \"veth0\"\n[buffer.ingress]\npool.0.shared_percent = 0\npool.1.shared_percent = 50",
    "[port.a]\ninterface = \"veth0\"\nbuffer.egress.queue.5.pool = 1\n[buffer]\ntotal_cells = 12400\nheadroom_cells = 12288\n\
     fixed_cells = 32\negress.pool.1.shared_percent = 1",
    // profiles
    "[port.a]\ninterface = \"veth0\"\nbuffer.ingress.priority.3.profile = \"loss-less\"\n\
     buffer.ingress.priority.4.profile = \"gold\"\nbuffer.egress.queue.3.profile = \"lossless\"\n\
     [buffer.ingress.profile.lossless]\nshared.dynamic_th = 1\n[buffer.ingress.profile.lossy]\nshared.dynamic_th = 1",
    "[port.a]\ninterface = \"veth0\"\npfc.priority.3.xoff.static_cells = 5\npfc.priority.3.reserved_cells = 5\n\
     buffer.ingress.priority.3.profile = \"p\"\nbuffer.egress.queue.3 = { profile = \"p\", guaranteed_percent = 5, shared_cells = 5 }\n\
     [buffer.ingress.profile.p]\nshared.dynamic_th = 1\n[buffer.egress.profile.p]\nshared.dynamic_th = 1",
    "[port.a]\ninterface = \"veth0\"\n[buffer.ingress.profile.p]\nreserved_cells = 1\nreserved_bytes = 256\n\
     shared = { static_cells = 5, dynamic_percent = 5 }\nheadroom_cells = 5\n[buffer.ingress.profile.\"a b\"]\n\
     shared = 5\n[buffer.egress.profile.q]\nxoff_cells = 5\n[buffer.egress.profile.r]\nshared = {}",
    "[port.a]\ninterface = \"veth0\"\n[buffer.ingress.profile.unused]\nshared = { static_bytes = 19456 }\nxon_bytes = 19456",
    // XOFF of the defaults' profile, resume of the port.
    "[port-defaults]\nbuffer.ingress.priority.3.profile = \"p\"\n[buffer.ingress.profile.p]\nshared.static_cells = 50\n\
     [port.a]\ninterface = \"veth0\"\npfc = { mode = \"on\", no_drop = [3], priority.3.resume_cells = 50 }",
    "[port.a]\ninterface = \"veth0\"\npfc = { mode = \"on\", no_drop = [3] }\nbuffer.ingress.priority.3.profile = \"p\"\n\
     [buffer]\nheadroom_bytes = 196607\n[buffer.ingress.profile.p]\nshared.dynamic_th = 1\nxoff_bytes = 196608",
    "[port.a]\ninterface = \"veth0\"\nbuffer.egress.queue.3.profile = \"p\"\nbuffer.egress.queue.4.profile = \"p\"\n\
     [port.b]\ninterface = \"veth1\"\nbuffer.egress.queue.3.profile = \"p\"\n\
     [buffer]\nfixed_cells = 29\n[buffer.egress.profile.p]\nreserved_cells = 10\nshared.dynamic_th = 1",
    "[port.a]\ninterface = \"veth0\"\nbuffer.egress.queue.3.profile = \"p\"\n\
     [buffer.egress.profile.p]\nreserved_cells = 200000\nshared.dynamic_th = 1",
    // WRED tables
    "[port.a]\ninterface = \"veth0\"\n[wred]\nt = 3\n\"a b\".queue.1 = {}\nnone = {}\n\
     u = { queue.8 = {}, queue.1 = 5, queues = [1] }\nv.queue = [1]",
    "[port.a]\ninterface = \"veth0\"\n[wred.t.queue.5]\nweighting_exponent = 16\necn = \"yes\"\nmark = \"deq\"\n\
     drop_not_ect = 1\ngreen = 3\nyelow = {}\nred = { low = 5, high_cells = -1, probability_percent = 101 }",
    "[port.a]\ninterface = \"veth0\"\n[wred.t.queue.5]\ngreen = { low_cells = 1, low_bytes = 1, high_cells = 2, high_bytes = 2 }\n\
     yellow = { low_cells = 101, high_bytes = 25600 }\nred.low_cells = 1001\n[wred.t.queue.6.green]\nhigh_bytes = 100\n\
     [wred.t.queue.7.red]\nlow_bytes = 4294967297",
    "[port.a]\ninterface = \"veth0\"\n[wred.t.queue.5]\nmark = \"enqueue\"\ndrop_not_ect = true\n[wred.t.queue.6]\n\
     ecn = false\nmark = \"dequeue\"\ndrop_not_ect = false\n[wred.t.queue.7]\necn = 1\nmark = \"dequeue\"",
    // queue profiles
    "[port.a]\ninterface = \"veth0\"\n[queue-profile]\np = 3\n\"a/b\".action = \"ecn\"\nq = {}\nr = { action = \"drop\", ecn = true }\n\
     s = { action = true, weighting_exponent = -1 }",
    "[port.a]\ninterface = \"veth0\"\n[queue-profile.p]\naction = \"none\"\ngreen = { min_threshold_bytes = 32058369 }\n\
     yellow = { low_cells = 1, max_threshold_bytes = 1, max_threshold_cells = 1 }\nred = { min_threshold_cells = 2, max_threshold_cells = 1 }",
    // the bindings of ports
    "[wred.first.queue.5]\necn = true\n[wred.second.queue.5]\necn = true\n[queue-profile.gentle]\naction = \"ecn\"\n\
     [port.a]\ninterface = \"veth0\"\nwred = \"frist\"\nqueue_profile = { gentel = [1], first = [2], gentle = [8, \"x\"] }\n\
     [port.b]\ninterface = \"veth1\"\nwred = \"gentle\"",
    "[wred.t.queue.5]\necn = true\n[queue-profile.p]\naction = \"ecn\"\n[queue-profile.q]\naction = \"none\"\n\
     [port.a]\ninterface = \"veth0\"\nwred = \"t\"\nqueue_profile = { p = [1, 2, 2], q = [2, 5] }",
    // WRED on no-drop queues; one port's no-drop priority counts for all, through its map.
    "[wred.t]\nqueue.5 = { ecn = true, drop_not_ect = true }\nqueue.6 = { weighting_exponent = 0 }\n\
     [queue-profile.p]\naction = \"wred\"\n[port-defaults]\nwred = \"t\"\nqueue_profile = { p = [0, 1] }\n\
     [port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"\ndot1p_to_queue = [6, 1, 2, 3, 4, 5, 6, 7]\n\
     pfc = { mode = \"on\", no_drop = [0, 1] }",
    // scheduling of the defaults must have an effect on one port
    "[port-defaults]\nburst_bytes = 5\nwire_overhead = true\nschedule.queue.1 = { group = \"sp\", weight = 1, burst_bytes = 1 }\n\
     schedule.group.0 = { queues = [0, 1, 2, 3, 4, 5, 6, 7], bandwidth_percent = 100 }\n\
     [port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"",
    "[port-defaults]\nschedule.queue.1 = { group = \"sp\", weight = 1 }\n\
     [port.a]\ninterface = \"veth0\"\nschedule.mode = \"ets\"\nschedule.queue.6.weight = 1\n[port.b]\ninterface = \"veth1\"\nspeed = 0",
    // maps of the defaults must have an effect on one port
    "[port-defaults]\ndscp_to_queue = { 46 = 5 }\ndot1p_to_drop_level = [0, 0, 0, 0, 0, 0, 0, 1]\n\
     [port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"",
    "[port-defaults]\ntrust = \"none\"\ndscp_to_queue = { 46 = 5 }\ndot1p_to_drop_level = [0, 0, 0, 0, 0, 0, 0, 1]\n\
     [port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"\ntrust = \"dscp\"",
    // not TOML
    "[port.a\ninterface = \"veth0\"",
    "[port.a]\ninterface = \"veth0",
    "[port.a]\ninterface = veth0",
    "[port.a]\ninterface = \"veth0\"\ninterface = \"veth1\"",
    "[port.a]\ninterface = \"veth0\"\n[port.a]\nspeed = \"1G\"",
    "[port.a]\n= 3\nspeed = = 4",
    // the column counts characters
    "[port.a]\ninterface = \"veth0\"\npfc = { \"ü\" = 1, mode = \"of\" }",
];

#[test]
fn wrong_files() {
    let mut table = String::new();
    for lines in WRONG_PORTS {
        explain(&mut table, lines, &format!("{PORT}{lines}"));
    }
    for text in WRONG_FILES {
        explain(&mut table, text, text);
    }
    insta::assert_snapshot!(table);
}

/// Adds the errors of `text` to the table, where it appears as `shown`.
fn explain(table: &mut String, shown: &str, text: &str) {
    let mistakes = match config::parse("x.toml", text) {
        Ok(config) => panic!("accepted:\n{text}\n{config:#?}"),
        Err(mistakes) => mistakes,
    };
    for line in shown.lines() {
        writeln!(table, "    {line}").unwrap();
    }
    writeln!(table, "{mistakes}\n").unwrap();
}

#[test]
fn too_many_ports() {
    let text: String = (0..66).map(|n| format!("[port.p{n}]\ninterface = \"veth{n}\"\n")).collect();
    let mistakes = config::parse("x.toml", &text).unwrap_err();
    let expected =
        "x.toml:129:7: port.p64: this is the first of 2 ports too many; a switch has at most 64 ports";
    assert_eq!(mistakes.to_string(), expected);
}

/// All errors are found in one run, in the order of the file, and each is pointed at.
#[test]
fn the_picture() {
    let text =
        "[port.a]\ninterface = \"veth0\"\nsped = \"1G\"\npfc.mode = \"auto\"\n\n[bufer]\ncell_bytes = 5\n";
    let mistakes = config::parse("x.toml", text).unwrap_err();
    let mut picture = String::new();
    GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
        .with_width(110)
        .render_report(&mut picture, &mistakes)
        .unwrap();
    insta::assert_snapshot!(picture);
}
