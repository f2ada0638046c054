//! Presets: the buffers of the switches in the vendor specifications by name, so that "as on that
//! switch" is one line, `preset = "h3c-s6850"` in `[buffer]`. Settings of the file win over their
//! preset.
//!
//! Rule: a preset sets the bytes of a cell, all cells, the headroom pool, and the cells that a
//! no-drop group reserves by default. The headroom of a group depends on the speed and is the same
//! on all of these switches ([`switch::settings::GroupSettings::default_for`]). Without a preset a
//! no-drop group reserves as many cells as on the chip with cells of the same size. Source:
//! docs/behavior.md, "Areas and pools"; docs/references.md, "H3C reference" (Cell resources: cells;
//! Setting PFC thresholds: totals, headroom pools, and table 7, R6616 and later).

/// The buffer of a vendor's switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name in the file.
    pub name: &'static str,
    /// Size of a cell in bytes.
    pub cell_bytes: u32,
    /// Number of cells of the buffer.
    pub total_cells: u32,
    /// Size of the headroom pool in cells.
    pub headroom_cells: u32,
    /// Cells that a no-drop group reserves.
    pub reserved_cells: u32,
}

/// The presets that a file can name.
pub const PRESETS: [Preset; 6] = [
    of_256("h3c-s6805"),
    of_256("h3c-s6825"),
    of_256("h3c-s6850"),
    of_256("h3c-s9850"),
    Preset {
        name: "h3c-s9820-64h",
        cell_bytes: 208,
        total_cells: 204 << 10,
        headroom_cells: 28_672,
        reserved_cells: 20,
    },
    Preset {
        name: "h3c-s9820-8c",
        cell_bytes: 254,
        total_cells: 258 << 10,
        headroom_cells: 12_288,
        reserved_cells: 20,
    },
];

/// Returns the preset of four series with the same buffer.
const fn of_256(name: &'static str) -> Preset {
    Preset { name, cell_bytes: 256, total_cells: 128 << 10, headroom_cells: 12_288, reserved_cells: 17 }
}

/// Returns the cells that a no-drop group reserves by default with cells of `cell_bytes`.
pub(crate) fn reserved_cells(cell_bytes: u32) -> u32 {
    let chip = PRESETS.iter().find(|preset| preset.cell_bytes == cell_bytes);
    chip.unwrap_or(&PRESETS[0]).reserved_cells
}
