//! Writes sufficient headroom into a file.
//!
//! Each no-drop priority needs headroom for the frames that may still arrive after XOFF
//! ([`headroom::LinkParams`]), and for the delay of software ([`headroom::HostDelay`]). The
//! headroom pool needs the sum of all headroom. The whole buffer gets as many cells as keep the
//! shared area unchanged. Values that are sufficient already, comments and layout stay as they are.
//!
//! A value is raised where the file has it, so that a value of the defaults or of a profile is
//! raised to the most that any port with it needs. A new value goes to `[port-defaults]` if all
//! ports list the priority there and need the same, otherwise to each port's table.

use switch::buffer::cell::CellSize;
use switch::buffer::headroom::{self, HostDelay, worst_case_cells};
use switch::settings::{BufferSettings, PRIORITIES};
use switch::{PortSettings, SwitchSettings};
use toml_edit::{DocumentMut, InlineTable, Item, Key, Table, Value};
use wire::bitset::Set8;

use crate::config::{examine, parse};
use crate::lint::lossless::DEFAULT_MTU_BYTES;
use crate::read::diagnostics::{ConfigErrors, Diagnostics, SettingSpan};
use crate::read::table_reader::Setting;
use crate::spec::MAX_CELLS;
use crate::tables::buffer::Buffer;
use crate::tables::fixed_area;
use crate::tables::ports::Port;
use crate::validate::buffer::fixed_cells_needed;

/// A file with sufficient headroom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedFile {
    /// Text of the file.
    pub text: String,
    /// The changes, one readable line each, as `port.a.pfc.priority.3.headroom_cells: 100 by
    /// default → 4096`.
    pub changes: Vec<String>,
}

/// A setting and its new value.
struct Edit {
    /// Full name of the setting.
    setting: String,
    /// True if the file does not have it.
    is_new: bool,
    /// Its present value.
    before_cells: u32,
    cells: u32,
}

impl Edit {
    /// Converts cells to the number in the file, which counts cells or bytes.
    fn number(&self, cells: u32, cell_bytes: u32) -> i64 {
        let unit = if self.setting.ends_with("_bytes") { cell_bytes } else { 1 };
        i64::from(cells) * i64::from(unit)
    }
}

/// All edits, and the switch that results.
struct Plan {
    edits: Vec<Edit>,
    switch: SwitchSettings,
}

/// Writes headroom for loops, ours and the peers', that stall for at most `stall_ns`. Each peer is
/// assumed to be a Sluice with our default of frames in its kernel.
///
/// # Errors
/// The file is wrong, a port has no speed, the cells exceed the largest buffer, or the file's
/// layout is not supported.
pub fn fix(file_name: &str, text: &str, stall_ns: u64) -> Result<FixedFile, ConfigErrors> {
    let (config, plan) = examine(file_name, text, |buffer, ports, settings, report| {
        plan(buffer, ports, settings, stall_ns, report)
    })?;
    let cell_bytes = config.switch.buffer.cell_bytes;
    let beyond = || {
        let mut report = Diagnostics::default();
        let file = SettingSpan { setting: String::new(), span: 0..0 };
        let names: Vec<&str> = plan.edits.iter().map(|edit| edit.setting.as_str()).collect();
        let cure = format!("write these yourself: {}", names.join(", "));
        report.add(&file, "its layout cannot be kept with other values", cure);
        ConfigErrors::new(file_name, text, report)
    };
    let mut document: DocumentMut = text.parse().map_err(|_| beyond())?;
    let mut changes = Vec::new();
    for edit in &plan.edits {
        let [before, number] = [edit.before_cells, edit.cells].map(|cells| edit.number(cells, cell_bytes));
        set(&mut document, &edit.setting, number).ok_or_else(beyond)?;
        let by_default = if edit.is_new { " by default" } else { "" };
        changes.push(format!("{}: {before}{by_default} → {number}", edit.setting));
    }
    let text = if changes.is_empty() { text.to_owned() } else { document.to_string() };
    // The new text must give what was planned, and nothing else.
    match parse(file_name, &text) {
        Ok(config) if config.switch == plan.switch => Ok(FixedFile { text, changes }),
        _ => Err(beyond()),
    }
}

fn plan(
    buffer: &Buffer,
    ports: &[Port],
    settings: &SwitchSettings,
    stall_ns: u64,
    report: &mut Diagnostics,
) -> Plan {
    let mut edits = Vec::new();
    let mut needs = Vec::new();
    for (number, port) in ports.iter().enumerate().filter(|(_, port)| port.settings.pfc.tx) {
        for priority in Set8::from_bits(port.settings.pfc.no_drop) {
            let Some(cells) = needed(port, priority, settings, stall_ns, report) else { continue };
            if port.settings.groups[priority].headroom_cells >= cells {
                continue;
            }
            match of_group(port, priority) {
                Some(setting) => raise(&mut edits, setting, cells),
                None => needs.push((number, priority, cells)),
            }
        }
    }
    add_new(&mut edits, &needs, ports);
    let mut switch = settings.clone();
    for (port, new) in ports.iter().zip(&mut switch.ports) {
        for priority in Set8::from_bits(port.settings.pfc.no_drop) {
            let name = name_of(port, priority, &edits);
            if let Some(edit) = edits.iter().find(|edit| Some(&edit.setting) == name.as_ref()) {
                new.groups[priority].headroom_cells = edit.cells;
            }
        }
    }
    enlarge_buffer(&mut edits, &mut switch, buffer, ports, report);
    Plan { edits, switch }
}

/// Returns the cells that a group needs.
fn needed(
    port: &Port,
    priority: usize,
    settings: &SwitchSettings,
    stall_ns: u64,
    report: &mut Diagnostics,
) -> Option<u32> {
    let Some(speed_bps) = port.settings.speed_bps else {
        let what = "without a speed, how much may still arrive after XOFF is unknown";
        report.add(&port.location, what, "write speed, that of the link, as in speed = \"10G\"");
        return None;
    };
    let link = headroom::LinkParams {
        speed_bps,
        cable_m: u64::from(port.tables().value(|table| &table.cable_m, 0)),
        mtu_bytes: u64::from(port.tables().value(|table| &table.mtu_bytes, DEFAULT_MTU_BYTES)),
    };
    let in_flight_bytes = u64::from(PortSettings::new("", None).in_flight_bytes);
    let software = HostDelay::new(speed_bps, stall_ns, stall_ns, in_flight_bytes);
    let bytes = link.in_transit().total_bytes().saturating_add(software.total_bytes());
    let cells = worst_case_cells(bytes, CellSize::new(settings.buffer.cell_bytes));
    let cells = u32::try_from(cells).ok().filter(|cells| *cells < MAX_CELLS);
    if cells.is_none() {
        let what =
            format!("priority {priority} needs headroom for {bytes} bytes: more cells than any buffer has");
        report.add(&port.location, what, "lower the speed, or make stalls of the loops shorter");
    }
    cells
}

/// Returns the setting of a group's headroom, if the file has one.
fn of_group<'p>(port: &'p Port, priority: usize) -> Option<&'p Setting<u32>> {
    port.tables().group(priority).setting(|table| &table.headroom_cells)
}

/// Returns the full name of a headroom setting.
fn full_name(setting: &Setting<u32>) -> String {
    let name = &setting.location.setting;
    // A profile without a headroom setting has none: the span is then the profile's.
    if name.ends_with("_cells") || name.ends_with("_bytes") {
        name.clone()
    } else {
        format!("{name}.xoff_cells")
    }
}

/// Raises a setting, which earlier edits may have raised already.
fn raise(edits: &mut Vec<Edit>, setting: &Setting<u32>, cells: u32) {
    let name = full_name(setting);
    match edits.iter_mut().find(|edit| edit.setting == name) {
        Some(edit) => edit.cells = edit.cells.max(cells),
        None => edits.push(Edit { setting: name, is_new: false, before_cells: setting.value, cells }),
    }
}

const DEFAULTS: &str = "port-defaults";

fn new_name(table: &str, priority: usize) -> String {
    format!("{table}.pfc.priority.{priority}.headroom_cells")
}

/// Returns the name under which a group's headroom is set once these edits are made.
fn name_of(port: &Port, priority: usize, edits: &[Edit]) -> Option<String> {
    if let Some(setting) = of_group(port, priority) {
        return Some(full_name(setting));
    }
    let names = [&port.location.setting, DEFAULTS].map(|table| new_name(table, priority));
    names.into_iter().find(|name| edits.iter().any(|edit| edit.setting == *name))
}

/// Adds the settings that the file does not have. `needs`: port, priority and cells.
fn add_new(edits: &mut Vec<Edit>, needs: &[(usize, usize, u32)], ports: &[Port]) {
    for priority in 0..PRIORITIES {
        let of_priority: Vec<_> = needs.iter().filter(|(_, p, _)| *p == priority).collect();
        let Some((first, _, cells)) = of_priority.first() else { continue };
        let new = |table: &str, port: &Port, cells: u32| Edit {
            setting: new_name(table, priority),
            is_new: true,
            before_cells: port.settings.groups[priority].headroom_cells,
            cells,
        };
        let lists = |port: &&Port| port.settings.pfc.no_drop & 1 << priority != 0;
        let by_default = |port: &Port| {
            let list = port.tables().pfc().setting(|table| &table.no_drop);
            list.is_some_and(|list| list.location.setting.starts_with(DEFAULTS))
        };
        let all_alike = of_priority.iter().all(|(_, _, other)| other == cells)
            && of_priority.len() == ports.iter().filter(lists).count()
            && ports.iter().filter(lists).all(by_default);
        if all_alike && of_priority.len() > 1 {
            edits.push(new(DEFAULTS, &ports[*first], *cells));
            continue;
        }
        for (number, _, cells) in of_priority {
            let port = &ports[*number];
            edits.push(new(&port.location.setting, port, *cells));
        }
    }
}

/// Raises the headroom pool to the sum of all headroom; the shared area keeps its size.
fn enlarge_buffer(
    edits: &mut Vec<Edit>,
    switch: &mut SwitchSettings,
    buffer: &Buffer,
    ports: &[Port],
    report: &mut Diagnostics,
) {
    let groups = switch.ports.iter().flat_map(|port| &port.groups);
    let together: u64 = groups.map(|group| u64::from(group.headroom_cells)).sum();
    let BufferSettings { total_cells, fixed_cells, headroom_cells, .. } = switch.buffer;
    if together <= u64::from(headroom_cells) {
        return;
    }
    let shared = u64::from(switch.buffer.shared_cells());
    // A fixed area without a setting in the file grows with the buffer.
    let fixed = |total: u64| match &buffer.fixed_cells {
        Some(_) => u64::from(fixed_cells),
        None => (total / 8).max(fixed_cells_needed(ports)),
    };
    let mut total = u64::from(total_cells) + together - u64::from(headroom_cells);
    while total < fixed(total) + together + shared {
        total += fixed(total) + together + shared - total;
    }
    let (Ok(new_total), Ok(new_headroom), true) =
        (u32::try_from(total), u32::try_from(together), total <= u64::from(MAX_CELLS))
    else {
        let location = buffer
            .headroom_cells
            .as_ref()
            .map(|cells| &cells.location)
            .or(ports.first().map(|it| &it.location));
        let what = format!("headroom that holds for all groups takes {together} cells, and {total} in all");
        let cure = format!(
            "{MAX_CELLS} are the most: lower speeds, list fewer no-drop priorities, or make stalls of the \
            loops shorter"
        );
        report.add(location.unwrap_or(&SettingSpan { setting: String::new(), span: 0..0 }), what, cure);
        return;
    };
    for (setting, name, before_cells, cells) in [
        (&buffer.headroom_cells, "buffer.headroom_cells", headroom_cells, new_headroom),
        (&buffer.total_cells, "buffer.total_cells", total_cells, new_total),
    ] {
        let is_new = setting.is_none();
        let setting = setting.as_ref().map_or(name, |setting| &setting.location.setting).to_owned();
        edits.push(Edit { setting, is_new, before_cells, cells });
    }
    switch.buffer.headroom_cells = new_headroom;
    switch.buffer.total_cells = new_total;
    switch.buffer.fixed_cells = fixed(total) as u32;
    for share in fixed_area::shares(ports, switch.buffer.fixed_cells) {
        switch.ports[share.port].groups[share.priority].reserved_cells = share.cells;
    }
}

/// Sets a number where the setting is, or in its table, which is created if there is none; `None`
/// if the file's layout has no room for it.
fn set(document: &mut DocumentMut, name: &str, number: i64) -> Option<()> {
    let path = Key::parse(name).ok()?;
    let (last, tables) = path.split_last()?;
    let mut item = document.as_item_mut();
    for key in tables {
        let is_inline = item.is_inline_table();
        let is_dotted = item.as_table().is_some_and(Table::is_dotted);
        let table = item.as_table_like_mut()?;
        if !table.contains_key(key.get()) {
            let mut new = Table::new();
            new.set_implicit(true);
            new.set_dotted(is_dotted);
            let new = if is_inline { Item::Value(InlineTable::new().into()) } else { Item::Table(new) };
            table.insert(key.get(), new);
        }
        item = table.get_mut(key.get())?;
    }
    let table = item.as_table_like_mut()?;
    match table.get_mut(last.get()) {
        Some(Item::Value(value)) => {
            let decor = value.decor().clone();
            *value = Value::from(number);
            *value.decor_mut() = decor;
        }
        Some(_) => return None,
        None => drop(table.insert(last.get(), toml_edit::value(number))),
    }
    Some(())
}
