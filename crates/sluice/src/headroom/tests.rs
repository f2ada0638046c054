use super::*;

const SERVER: LinkParams = LinkParams { speed_bps: 25_000_000_000, cable_m: 10, mtu_bytes: 1536 };

fn report(link: LinkParams, cell_bytes: u32, stall: Option<Stall>) -> HeadroomReport {
    HeadroomReport::new(link, CellSize::new(cell_bytes), stall.as_ref())
}

fn by_daemon() -> Option<Stall> {
    Some(Stall { ns: 213_400, source: Source::Daemon(PathBuf::from("/run/sluice/lab.sock")) })
}

#[test]
fn for_a_switch_chip() {
    insta::assert_snapshot!(report(SERVER, 256, None).text());
}

/// Rows 134 to 138 of the table of vendor specifications: the figure is printed beside that of the
/// formula, with a note that the two contradict each other.
#[test]
fn the_figures_of_the_h3c_reference() {
    for (gbps, cable_m, message) in [
        (
            100,
            300,
            "recommends 491 cells for 300 m, and its formula, the sum above, needs\n838: it contradicts itself.",
        ),
        (100, 1000, "recommends 9984 cells for 1000 m: they hold the sum above."),
        (
            100,
            10_000,
            "9984 cells for 10000 m, and its formula, the sum above, needs\n20541: it contradicts itself.",
        ),
        (100, 20_000, "recommends no figure for 20000 m at this speed."),
        (
            10,
            20_000,
            "100 cells for 20000 m, and its formula, the sum above, needs\n4291: it contradicts itself.",
        ),
        (10, 40_000, "recommends 9984 cells for 40000 m: they hold the sum above."),
    ] {
        let text =
            report(LinkParams { speed_bps: gbps * 1_000_000_000, cable_m, mtu_bytes: 1536 }, 256, None)
                .text();
        assert!(text.contains(message), "{message}\n{text}");
    }
}

#[test]
fn for_software() {
    let measured = Stall { ns: 1_500_000, source: Source::Spin(Duration::from_secs(2)) };
    let given = Stall { ns: 1000, source: Source::Option };
    let too_much = Stall { ns: 2_000_000_000, source: Source::Option };
    let slow = LinkParams { speed_bps: 500_000_000, cable_m: 0, mtu_bytes: 1518 };
    let texts = [
        report(SERVER, 256, by_daemon()),
        report(slow, 208, Some(measured)),
        report(slow, 64, Some(given)),
        report(SERVER, 256, Some(too_much)),
    ];
    insta::assert_snapshot!(texts.map(|report| report.text()).join("----\n"));
}

#[test]
fn as_json() {
    let reports = [report(SERVER, 256, None), report(SERVER, 256, by_daemon())];
    insta::assert_snapshot!(serde_json::to_string_pretty(&reports).unwrap());
}

/// The printed configuration is valid and matches the options, and the check reports nothing for
/// it.
#[test]
fn the_lines_to_paste_are_configuration() {
    for (stall, cell_bytes) in [(None, 256), (None, 208), (by_daemon(), 256), (by_daemon(), 254)] {
        let report = report(SERVER, cell_bytes, stall);
        let lines = report.configuration().replace("NAME", "a").replace(".N]", ".3]");
        let text = lines.replacen("[port.a]\n", "[port.a]\ninterface = \"veth0\"\n", 1)
            + "[port.a.pfc]\nmode = \"on\"\nno_drop = [3]\n";
        let config = config::parse("pasted.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(config.warnings.to_string(), "", "{text}");
        let group = config.switch.ports[0].groups[3];
        assert_eq!(u64::from(group.headroom_cells), report.needed_cells());
        assert_eq!(u64::from(group.reserved_cells), report.reserved_cells);
        assert_eq!(u64::from(group.xon_offset_cells), report.xon_offset_cells);
        assert_eq!(config.switch.ports[0].speed_bps, Some(SERVER.speed_bps));
    }
}

#[test]
fn lengths() {
    for (text, expected) in [
        ("10m", Some(10)),
        ("2km", Some(2000)),
        ("10", Some(10)),
        ("0", Some(0)),
        ("100km", Some(100_000)),
        ("100001", None),
        ("101km", None),
        ("4294968km", None),
        ("1.5m", None),
        ("-1m", None),
        ("10 m", None),
        ("10cm", None),
        ("km", None),
        ("", None),
    ] {
        assert_eq!(meters(text).ok(), expected, "{text}");
    }
}

#[test]
fn no_line_of_the_help_is_wrapped() {
    assert!(AFTER_HELP.lines().all(|line| line.chars().count() <= 99), "wrapped lines are hard to read");
}
