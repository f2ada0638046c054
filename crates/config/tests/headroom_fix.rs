//! Sufficient headroom written into files: what is changed, what stays, and what is refused.

use config::fix;
use config::{FixedFile, parse};
use switch::settings::PRIORITIES;

/// Duration of the assumed loop stall: 100 µs.
const STALL_NS: u64 = 100_000;

fn fixed(text: &str) -> FixedFile {
    parse("x.toml", text).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes}"));
    let fixed = fix("x.toml", text, STALL_NS).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes}"));
    let (before, after) = (parse("x.toml", text).unwrap(), parse("x.toml", &fixed.text).unwrap());
    // Nothing is lowered, the shared area is as large as before, and all groups can use their
    // headroom at once.
    assert!(after.switch.buffer.shared_cells() >= before.switch.buffer.shared_cells());
    let cells: u32 = (0..PRIORITIES)
        .flat_map(|p| after.switch.ports.iter().map(move |port| port.groups[p].headroom_cells))
        .sum();
    assert!(cells <= after.switch.buffer.headroom_cells);
    for (before, after) in before.switch.ports.iter().zip(&after.switch.ports) {
        for (before, after) in before.groups.iter().zip(&after.groups) {
            assert!(after.headroom_cells >= before.headroom_cells);
        }
    }
    assert!(!after.warnings.to_string().contains("headroom"), "{}", after.warnings);
    // A second run changes nothing.
    assert_eq!(
        fix("x.toml", &fixed.text, STALL_NS).unwrap(),
        FixedFile { text: fixed.text.clone(), changes: vec![] }
    );
    fixed
}

/// Cells for 9216 + 1518 + 3840 bytes in transit, the bytes on the cable, the bytes that arrive
/// while both loops stall, and 65536 in the peer's kernel, in frames of 64 bytes.
fn cells(cable_bytes: u32, stall_bytes: u32) -> u32 {
    (9216 + 1518 + 3840 + cable_bytes + 2 * stall_bytes + 65_536).div_ceil(64)
}

#[test]
fn a_value_of_the_file_is_raised_where_it_stands() {
    let text = r#"# My switch.
[switch]
name = "lab"   # the lab's

[port-defaults.pfc]
mode    = "on"
no_drop = [ 3 ]

[port.a]       # two spaces follow  
interface = "sw-a"
speed     = "1G"
cable_m   = 10

[port.a.pfc.priority.3]
headroom_cells = 0x64   # too few
xoff           = { static_cells = 1024 }

[port.b]
interface = 'sw-b'
speed = "200M"
pfc.priority.3 = { headroom_bytes = 25_600 } # in bytes
"#;
    let FixedFile { text: new, changes } = fixed(text);
    let (cells_a, cells_b) = (cells(13, 12_500), cells(0, 2_500));
    assert_eq!(
        changes,
        [
            format!("port.a.pfc.priority.3.headroom_cells: 100 → {cells_a}"),
            format!("port.b.pfc.priority.3.headroom_bytes: 25600 → {}", cells_b * 256),
        ]
    );
    let expected =
        text.replace("0x64 ", &format!("{cells_a} ")).replace("25_600", &(cells_b * 256).to_string());
    assert_eq!(new, expected, "comments and layout stay");
}

#[test]
fn what_all_ports_have_by_default_becomes_a_default() {
    let ports = |speeds: &[&str]| -> String {
        let port = |(n, speed): (usize, &&str)| {
            format!("\n[port.p{n}]\ninterface = \"v{n}\"\nspeed = \"{speed}\"\n")
        };
        speeds.iter().enumerate().map(port).collect()
    };
    let head = "[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n";
    let text = format!("{head}{}", ports(&["1G", "1G"]));
    let cells = cells(0, 12_500);
    let FixedFile { text: new, changes } = fixed(&text);
    assert_eq!(changes, [format!("port-defaults.pfc.priority.3.headroom_cells: 100 by default → {cells}")]);
    assert_eq!(
        new,
        format!("{head}\n[port-defaults.pfc.priority.3]\nheadroom_cells = {cells}\n{}", ports(&["1G", "1G"]))
    );

    // With different needs each port has its own value.
    let FixedFile { text: new, changes } = fixed(&format!("{head}{}", ports(&["1G", "100M"])));
    assert_eq!(changes.len(), 2);
    assert!(
        new.contains("[port.p0.pfc.priority.3]\nheadroom_cells = ")
            && new.contains("[port.p1.pfc.priority.3]"),
        "{new}"
    );
}

/// A value that several ports share is raised to the most that one of them needs: a default, a
/// profile, and a profile without headroom.
#[test]
fn shared_values_are_raised_to_what_the_fastest_needs() {
    let ports = "[port.a]\ninterface = \"a\"\nspeed = \"1G\"\n[port.b]\ninterface = \"b\"\nspeed = \"10G\"\n";
    let cells = cells(0, 125_000);
    let text = format!(
        "[port-defaults]\npfc = {{ mode = \"on\", no_drop = [3], priority.3.headroom_cells = 7 }} # all\n{ports}"
    );
    let FixedFile { text: new, changes } = fixed(&text);
    assert_eq!(changes, [format!("port-defaults.pfc.priority.3.headroom_cells: 7 → {cells}")]);
    assert_eq!(new, text.replace("= 7 ", &format!("= {cells} ")));

    for (line, name, before) in [
        ("xoff_bytes = 256\n", "xoff_bytes", 256),
        ("xoff_cells = 1\n", "xoff_cells", 1),
        ("", "xoff_cells", 0),
    ] {
        let text = format!(
            "[buffer.ingress.profile.lossless]\n{line}shared.dynamic_th = 1\n[port-defaults]\npfc = {{ mode = \"on\", no_drop \
             = [3] }}\nbuffer.ingress.priority.3.profile = \"lossless\"\n{ports}"
        );
        let unit = if name.ends_with("bytes") { 256 } else { 1 };
        let FixedFile { changes, .. } = fixed(&text);
        assert_eq!(changes, [format!("buffer.ingress.profile.lossless.{name}: {before} → {}", cells * unit)]);
    }
}

/// The pool grows to the sum of all headroom, and the memory so that the shared area does not
/// shrink.
#[test]
fn the_buffer_grows_with_the_headroom() {
    let ports: String =
        (0..4).map(|n| format!("[port.p{n}]\ninterface = \"v{n}\"\nspeed = \"10G\"\n")).collect();
    let pfc = "[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3, 4]\n";
    let FixedFile { text, changes } = fixed(&format!("{pfc}{ports}"));
    let cells = cells(0, 125_000);
    let after = parse("x.toml", &text).unwrap().switch.buffer;
    assert_eq!(after.headroom_cells, 8 * cells);
    assert_eq!(after.shared_cells(), 131_072 - 16_384 - 12_288);
    assert_eq!(changes.len(), 4, "{changes:?}");
    assert_eq!(changes[2], format!("buffer.headroom_cells: 12288 by default → {}", 8 * cells));
    assert!(changes[3].starts_with("buffer.total_cells: 131072 by default → "), "{changes:?}");

    // A fixed area of the file stays, and sizes in bytes stay in bytes.
    let buffer =
        "[buffer]\ntotal_bytes = 33554432 # 32 MiB\nfixed_bytes = 4194304\nheadroom_bytes = 1048576\n";
    let FixedFile { text, .. } = fixed(&format!("{buffer}{pfc}{ports}"));
    let after = parse("x.toml", &text).unwrap().switch.buffer;
    assert_eq!((after.fixed_cells, after.headroom_cells), (16_384, 8 * cells));
    assert_eq!(after.total_cells, 131_072 - 4096 + 8 * cells);
    assert!(
        text.starts_with(&format!("[buffer]\ntotal_bytes = {} # 32 MiB\n", after.total_cells * 256)),
        "{text}"
    );
}

#[test]
fn what_holds_is_left_alone() {
    for text in [
        "# nothing is no-drop\n[port.a]\ninterface = \"a\"\n",
        "[port.a]\ninterface = \"a\"\npfc = { mode = \"off\", no_drop = [3] }\n",
        // No PFC is sent, so no headroom is needed, and no speed either.
        "[port.a]\ninterface = \"a\"\npfc = { mode = \"on\", no_drop = [3], tx = false }\n",
        "[port.a]\ninterface = \"a\"\nspeed = \"1G\"\npfc = { mode = \"on\", no_drop = [3], priority.3.headroom_cells = 4096 }\n",
    ] {
        assert_eq!(
            fix("x.toml", text, STALL_NS).unwrap(),
            FixedFile { text: text.to_owned(), changes: vec![] }
        );
    }
}

#[test]
fn what_cannot_be_done_is_refused() {
    let pfc = "pfc = { mode = \"on\", no_drop = [3] }\n";
    for (text, stall_ns, message) in [
        (
            format!("[port.a]\ninterface = \"a\"\n{pfc}"),
            STALL_NS,
            "x.toml:1:7: port.a: without a speed, how much may still arrive after XOFF is unknown; write speed, that of the \
             link, as in speed = \"10G\"",
        ),
        (
            format!("[port.a]\ninterface = \"a\"\nspeed = \"100G\"\n{pfc}"),
            1_000_000_000,
            "x.toml:1:7: port.a: priority 3 needs headroom for 25000080110 bytes: more cells than any buffer has; lower \
             the speed, or make stalls of the loops shorter",
        ),
        (format!("[port.a]\nsped = 1\n{pfc}"), STALL_NS, "x.toml:1:7: port.a: no interface; "),
    ] {
        let refused = fix("x.toml", &text, stall_ns).unwrap_err().to_string();
        assert!(refused.starts_with(message), "{refused}");
    }
    // Each fits, but not all together.
    let ports: String =
        (0..64).map(|n| format!("[port.p{n}]\ninterface = \"v{n}\"\nspeed = \"10G\"\n")).collect();
    let text = format!("[port-defaults.pfc]\nmode = \"on\"\nno_drop = [0, 1, 2, 3, 4, 5, 6, 7]\n{ports}");
    let refused = fix("x.toml", &text, 10_000_000).unwrap_err().to_string();
    assert!(refused.contains("headroom that holds for all groups takes"), "{refused}");
}
