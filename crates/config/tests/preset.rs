//! Presets: the buffers of the switches in the vendor specifications by name.

use config::{Config, PRESETS};
use switch::settings::{Alpha, Threshold};

fn parse(buffer: &str, speed: &str) -> Config {
    let text = format!(
        "[buffer]\n{buffer}\n[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n[port.a]\ninterface = \"veth0\"\nspeed = \
         \"{speed}\"\n"
    );
    config::parse("x.toml", &text).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes}"))
}

/// docs/references.md, "H3C reference" (Cell resources; Setting PFC thresholds, table 7): rows 12
/// and 33 of docs/conformance.md.
#[test]
fn as_on_those_switches() {
    for (name, cell_bytes, total_cells, pool_cells, reserved_cells, by_speed) in [
        (
            "h3c-s6805",
            256,
            131_072,
            12_288,
            17,
            &[("1G", 100), ("10G", 100), ("25G", 125), ("100G", 491)][..],
        ),
        ("h3c-s6825", 256, 131_072, 12_288, 17, &[("40G", 200)]),
        ("h3c-s6850", 256, 131_072, 12_288, 17, &[("25G", 125), ("40G", 200), ("100G", 491)]),
        ("h3c-s9850", 256, 131_072, 12_288, 17, &[("100G", 491)]),
        ("h3c-s9820-64h", 208, 208_896, 28_672, 20, &[("25G", 125), ("100G", 491)]),
        ("h3c-s9820-8c", 254, 264_192, 12_288, 20, &[("100G", 491), ("400G", 1000)]),
    ] {
        assert!(PRESETS.iter().any(|preset| preset.name == name));
        for (speed, headroom_cells) in by_speed {
            let config = parse(&format!("preset = \"{name}\""), speed);
            assert_eq!(config.preset, Some(name));
            let buffer = config.switch.buffer;
            let sizes = (buffer.cell_bytes, buffer.total_cells, buffer.headroom_cells, buffer.fixed_cells);
            assert_eq!(sizes, (cell_bytes, total_cells, pool_cells, total_cells / 8), "{name}");
            let group = config.switch.ports[0].groups[3];
            assert_eq!(
                (group.reserved_cells, group.headroom_cells),
                (reserved_cells, *headroom_cells),
                "{name} {speed}"
            );
            assert_eq!(
                (group.xoff, group.xon_offset_cells),
                (Threshold::Dynamic(Alpha::from_percent(5)), 12)
            );
            let lossy = config.switch.ports[0].groups[4];
            assert_eq!(lossy.reserved_cells, total_cells / 8 / 8, "its eighth of the fixed area (row 15)");
        }
    }
    assert_eq!(PRESETS.len(), 6);
}

/// Row 157 of docs/conformance.md: a group reserves 20 cells of 208 or 254 bytes, with or without
/// a preset.
#[test]
fn reserved_cells_follow_the_cell() {
    for (cell_bytes, reserved_cells) in [(208, 20), (254, 20), (256, 17), (64, 17)] {
        let config = parse(&format!("cell_bytes = {cell_bytes}"), "10G");
        assert_eq!(config.switch.ports[0].groups[3].reserved_cells, reserved_cells, "{cell_bytes}");
        assert_eq!(config.switch.buffer.total_cells, 131_072, "the rest is a preset's");
    }
}

#[test]
fn the_file_wins() {
    let text = "preset = \"h3c-s9820-64h\"\ncell_bytes = 256\ntotal_cells = 99999\nheadroom_bytes = 25600\nfixed_cells = 500\n\
        [port-defaults.pfc.priority.3]\nreserved_cells = 3\nheadroom_cells = 50";
    let config = parse(text, "100G");
    let buffer = config.switch.buffer;
    let sizes = (buffer.cell_bytes, buffer.total_cells, buffer.headroom_cells, buffer.fixed_cells);
    assert_eq!(sizes, (256, 99_999, 100, 500));
    let group = config.switch.ports[0].groups[3];
    assert_eq!((group.reserved_cells, group.headroom_cells), (3, 50));
    // The default of the preset, not that of its cells.
    let config = parse("preset = \"h3c-s9820-64h\"\ncell_bytes = 256", "100G");
    assert_eq!(config.switch.ports[0].groups[3].reserved_cells, 20);
}

#[test]
fn unknown_presets_are_refused() {
    let text = |name: &str| format!("[buffer]\npreset = {name}\n[port.a]\ninterface = \"veth0\"\n");
    for (name, message) in [
        (
            "\"h3c-s6851\"",
            "x.toml:2:10: buffer.preset: unknown value \"h3c-s6851\"; did you mean \"h3c-s6850\"?",
        ),
        (
            "\"tomahawk\"",
            "x.toml:2:10: buffer.preset: unknown value \"tomahawk\"; write \"h3c-s6805\" or \"h3c-s6825\" or \"h3c-s6850\" or \
             \"h3c-s9850\" or \"h3c-s9820-64h\" or \"h3c-s9820-8c\"",
        ),
    ] {
        assert_eq!(config::parse("x.toml", &text(name)).unwrap_err().to_string(), message);
    }
}
