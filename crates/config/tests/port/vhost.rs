//! Settings of a port on a vhost-user socket that would do nothing: each is refused with its line
//! and its cure.

const SOCKET: &str = "[port.a]\nvhost_user = \"/run/a.sock\"\n";
const BY_PRIORITY: &str = "[port.a]\nvhost_user = \"/run/a.sock\"\nvhost.queues = \"by-priority\"\n";
const INTERFACE: &str = "[port.b]\ninterface = \"veth0\"\n";

/// Returns the errors of a file, one a line.
fn errors(text: &str) -> String {
    config::parse("x.toml", text).map_or_else(|errors| errors.to_string(), |_| String::new())
}

/// Checks that a line in a port's table is refused for this reason, and that its port can do
/// without.
#[track_caller]
fn is_refused(table: &str, line: &str, wanted: &str) {
    assert_eq!(errors(table), "");
    let (name, _) = line.split_once(" = ").unwrap();
    let number = table.lines().count() + 1;
    let text = errors(&format!("{table}{line}\n"));
    assert!(text.starts_with(&format!("x.toml:{number}:")), "{text}");
    assert!(text.contains(&format!("port.a.{name}: ")) && text.contains(wanted), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert_eq!(errors(&format!("{INTERFACE}[port-defaults]\n{line}\n{table}")), "", "another port has it");
    let of_all = errors(&format!("[port-defaults]\n{line}\n{table}"));
    assert!(of_all.starts_with("x.toml:2:") && of_all.contains(wanted), "no port has it: {of_all}");
}

#[test]
fn what_describes_an_interface() {
    is_refused(SOCKET, "mtu = 1518", "no effect on a vhost_user port, which has no cable; leave it out");
    is_refused(SOCKET, "cable_m = 10", "no effect on a vhost_user port, which has no cable; leave it out");
}

#[test]
fn lldp() {
    for mode in ["both", "rx", "tx"] {
        let cure = "write \"off\" or \"forward\", or leave it out";
        is_refused(SOCKET, &format!("lldp = \"{mode}\""), cure);
    }
    is_refused(SOCKET, "lldp_tlvs = [\"system-name\"]", "no LLDP is sent on a vhost_user port; leave it out");
    for mode in ["off", "forward"] {
        assert_eq!(errors(&format!("{SOCKET}lldp = \"{mode}\"\n")), "");
    }
}

/// With one queue the headers have the priority, and all settings their effect.
#[test]
fn classification_where_the_queue_is_the_priority() {
    for line in [
        "trust = \"dscp\"",
        "port_priority = 3",
        "dot1p_to_drop_level = [0, 0, 0, 0, 0, 0, 0, 1]",
        "dei_drop_level = 2",
        "policy = [{ dot1p = 5, local_precedence = 3 }]",
    ] {
        is_refused(BY_PRIORITY, line, "the number of the guest's queue is the priority; leave it out, or");
        assert_eq!(errors(&format!("{SOCKET}{line}\n")), "");
    }
    for map in ["dscp_to_dot1p", "dscp_to_queue", "dscp_to_drop_level"] {
        let text = errors(&format!("{BY_PRIORITY}trust = \"dscp\"\n{map} = {{ 46 = 1 }}\n"));
        assert!(text.contains(&format!("port.a.{map}: has no effect where the number")), "{text}");
        assert_eq!(errors(&format!("{SOCKET}trust = \"dscp\"\n{map} = {{ 46 = 1 }}\n")), "");
    }
    for line in ["maps = \"huawei\"", "dot1p_to_queue = [0, 1, 2, 3, 4, 5, 6, 7]"] {
        assert_eq!(errors(&format!("{BY_PRIORITY}{line}\n")), "", "the queue of a priority");
    }
}

/// The default holds the largest batch that an iteration reads of a queue, or as much of it as all
/// guests can have of the pool at once. What holds less than the smallest batch is warned of.
#[test]
fn headroom_holds_a_batch() {
    let of = |cell_bytes: u32, line: &str| {
        let text = format!(
            "{BY_PRIORITY}{line}pfc = {{ mode = \"on\", no_drop = [3] }}\n[buffer]\ncell_bytes = {cell_bytes}\n"
        );
        config::parse("x.toml", &text).unwrap_or_else(|errors| panic!("{errors}"))
    };
    let headroom = |config: config::Config| config.switch.ports[0].groups[3].headroom_cells;
    assert_eq!([64, 100, 256, 9216].map(|cell| headroom(of(cell, ""))), [256; 4]);
    let of_pool = |pool: u32, ports: u32, cell_bytes: u32| {
        let mut text = format!("[buffer]\nheadroom_cells = {pool}\ncell_bytes = {cell_bytes}\n");
        for n in 0..ports {
            let port = format!(
                "[port.g{n}]\nvhost_user = \"/run/{n}.sock\"\npfc = {{ mode = \"on\", no_drop = [3] }}\n"
            );
            text += &port;
        }
        text += "[port.a]\ninterface = \"veth0\"\npfc = { mode = \"on\", no_drop = [3], \
                 priority.3.headroom_cells = 200 }\n";
        let config = config::parse("x.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
        let cells = config.switch.ports.iter().map(|port| port.groups[3].headroom_cells);
        cells.collect::<Vec<_>>()
    };
    assert_eq!(of_pool(12288, 47, 256), [[256; 47].as_slice(), &[200]].concat());
    assert_eq!(of_pool(12288, 60, 256), [[201; 60].as_slice(), &[200]].concat(), "(12288 - 200) / 60");
    assert_eq!(of_pool(500, 1, 256), [256, 200]);
    assert_eq!(of_pool(400, 1, 256), [200, 200]);
    assert_eq!(of_pool(220, 1, 256), [100, 200], "the default by speed");
    assert_eq!(of_pool(220, 1, 64), [145, 200], "the longest frame");
    assert_eq!(headroom(of(64, "speed = \"100G\"\n")), 491);
    let few = |cells: u32| {
        let text = format!(
            "{BY_PRIORITY}pfc = {{ mode = \"on\", no_drop = [3], priority.3.headroom_cells = {cells} }}\n"
        );
        let config = config::parse("x.toml", &text).unwrap();
        config.warnings.to_string().contains("after XOFF 64 cells may arrive")
    };
    assert_eq!([few(63), few(64)], [true, false]);
}

#[test]
fn pfc_frames_without_pfc() {
    let text = errors(&format!("{SOCKET}vhost.pfc_frames = true\n"));
    let wanted = "x.toml:3:20: port.a.vhost.pfc_frames: true while PFC is off; write pfc.mode = \"on\"";
    assert!(text.starts_with(wanted), "{text}");
    assert_eq!(
        errors(&format!("{SOCKET}vhost.pfc_frames = true\npfc.mode = \"on\"\npfc.no_drop = [3]\n")),
        ""
    );
}
