//! The description of the file: every setting once, with its values, its default, what a reload
//! does and one sentence. The reader reads by it ([`crate::read::table_reader`]): a setting that is
//! not described cannot be read, and the range of a number is here only. docs/settings.md, the JSON
//! Schema and `sluice explain` follow from it.
//!
//! Each table is described beside its reader, in `tables/`.

use std::ops::RangeInclusive;

use crate::read::suggest::quoted;

/// Valid sizes of a cell.
pub const CELL_BYTES: RangeInclusive<u32> = 64..=9216;
/// Maximum cells of a buffer, or of a part of it. Each cell may need a frame of memory, and that
/// would be 64 GiB.
pub const MAX_CELLS: u32 = 1 << 24;

/// How bytes that fill no whole cell are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// Up, for what is needed.
    Up,
    /// Down, for what is available.
    Down,
}

/// A table of the file: its settings, in the order of the reference page.
pub type TableSpec = &'static [SettingSpec];

/// A setting of a table, or a table in it.
#[derive(Debug, Clone, Copy)]
pub struct SettingSpec {
    /// Its name in the file. A [`ValueSpec::Size`] has two names, with `_cells` and `_bytes`.
    pub name: &'static str,
    /// What it can be.
    pub values: ValueSpec,
    /// What applies where the file does not have it.
    pub default: DefaultSpec,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// Unit of a number whose name does not end with it; often empty.
    unit: &'static str,
    /// True if only a restart of the daemon applies a change, of a table to any of its settings.
    pub needs_restart: bool,
    /// True if it is part of `[port.NAME]` alone, not of `[port-defaults]`.
    pub is_of_one_port: bool,
}

/// The values of a setting.
#[derive(Debug, Clone, Copy)]
pub enum ValueSpec {
    /// True or false.
    Boolean,
    /// A whole number from the first to the last, both included.
    Number(i64, i64),
    /// A speed such as "2.5G", or bit/s as a number.
    Speed,
    /// A string; an example of one.
    Text(&'static str),
    /// One of these words.
    Choice(fn() -> Vec<&'static str>),
    /// Cells of the buffer, or bytes, by two names of which one can be written.
    Size {
        /// The least number of cells.
        min_cells: u32,
        /// How bytes that fill no whole cell are rounded.
        rounding: Rounding,
    },
    /// A list of values.
    List(&'static ValueSpec),
    /// A list of eight numbers from 0 to `last`, one for each `index`.
    Eight {
        /// The largest number.
        last: u8,
        /// What the place of a number in the list stands for.
        index: &'static str,
    },
    /// A table of settings.
    Table(TableSpec),
    /// A table whose entries are alike, and which names they can have.
    Map(KeySpec, &'static ValueSpec),
    /// Any of several kinds of values.
    Either(&'static [ValueSpec]),
}

/// The names of the entries of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySpec {
    /// Names that the user chooses.
    Name,
    /// Numbers from 0 to this one.
    Number(usize),
    /// DSCPs and ranges of them: "46", "8-15".
    Dscp,
}

/// What applies where the file does not have a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultSpec {
    /// Nothing: what the setting does is not done.
    Nothing,
    /// A value in TOML: to write it changes nothing.
    Value(&'static str),
    /// A value that depends on others, in words.
    Words(&'static str),
    /// The file must have the setting.
    Required,
}

const fn setting(name: &'static str, values: ValueSpec) -> SettingSpec {
    SettingSpec {
        name,
        values,
        default: DefaultSpec::Nothing,
        about: "",
        unit: "",
        needs_restart: false,
        is_of_one_port: false,
    }
}

pub(crate) const fn boolean(name: &'static str) -> SettingSpec {
    setting(name, ValueSpec::Boolean)
}

pub(crate) const fn number(name: &'static str, first: i64, last: i64) -> SettingSpec {
    setting(name, ValueSpec::Number(first, last))
}

pub(crate) const fn speed(name: &'static str) -> SettingSpec {
    setting(name, ValueSpec::Speed)
}

pub(crate) const fn text(name: &'static str, example: &'static str) -> SettingSpec {
    setting(name, ValueSpec::Text(example))
}

pub(crate) const fn choice(name: &'static str, words: fn() -> Vec<&'static str>) -> SettingSpec {
    setting(name, ValueSpec::Choice(words))
}

/// A part of what there is: from `min_cells`, with bytes rounded down.
pub(crate) const fn area(name: &'static str, min_cells: u32) -> SettingSpec {
    setting(name, ValueSpec::Size { min_cells, rounding: Rounding::Down })
}

/// What a port or a profile needs: with bytes rounded up.
pub(crate) const fn needed(name: &'static str, min_cells: u32) -> SettingSpec {
    setting(name, ValueSpec::Size { min_cells, rounding: Rounding::Up })
}

pub(crate) const fn list(name: &'static str, of: &'static ValueSpec) -> SettingSpec {
    setting(name, ValueSpec::List(of))
}

pub(crate) const fn eight(name: &'static str, last: u8, index: &'static str) -> SettingSpec {
    setting(name, ValueSpec::Eight { last, index })
}

pub(crate) const fn table(name: &'static str, table: TableSpec) -> SettingSpec {
    setting(name, ValueSpec::Table(table))
}

/// A table of values by name, by number or by DSCP.
pub(crate) const fn map(name: &'static str, keys: KeySpec, of: &'static ValueSpec) -> SettingSpec {
    setting(name, ValueSpec::Map(keys, of))
}

pub(crate) const fn either(name: &'static str, kinds: &'static [ValueSpec]) -> SettingSpec {
    setting(name, ValueSpec::Either(kinds))
}

pub(crate) fn words<T>(choices: &[(&'static str, T)]) -> Vec<&'static str> {
    choices.iter().map(|(word, _)| *word).collect()
}

pub(crate) fn word_of<T: PartialEq>(choices: &[(&'static str, T)], value: &T) -> &'static str {
    choices.iter().find(|(_, it)| it == value).map_or("", |(word, _)| word)
}

impl SettingSpec {
    pub(crate) const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    pub(crate) const fn value(self, default: &'static str, about: &'static str) -> Self {
        Self { default: DefaultSpec::Value(default), about, ..self }
    }

    pub(crate) const fn otherwise(self, default: &'static str, about: &'static str) -> Self {
        Self { default: DefaultSpec::Words(default), about, ..self }
    }

    pub(crate) const fn required(self, about: &'static str) -> Self {
        Self { default: DefaultSpec::Required, about, ..self }
    }

    pub(crate) const fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    pub(crate) const fn restart(self) -> Self {
        Self { needs_restart: true, ..self }
    }

    pub(crate) const fn of_one_port(self) -> Self {
        Self { is_of_one_port: true, ..self }
    }

    /// Returns true if a file can have the setting by this name.
    pub fn has_name(&self, name: &str) -> bool {
        match self.values {
            ValueSpec::Size { .. } => {
                let unit = name.strip_prefix(self.name);
                matches!(unit, Some("_cells" | "_bytes"))
            }
            _ => name == self.name,
        }
    }

    /// Returns the setting by each of its names, with the numbers that it can have by that name.
    pub fn by_name(&self) -> Vec<(String, SettingSpec)> {
        let ValueSpec::Size { min_cells, rounding } = self.values else {
            return vec![(self.name.to_owned(), *self)];
        };
        let cells = ValueSpec::Number(min_cells.into(), MAX_CELLS.into());
        let (first, last) = bytes_of_cells(min_cells, rounding, *CELL_BYTES.start(), *CELL_BYTES.end());
        let bytes = ValueSpec::Number(first, last);
        let of_bytes = match rounding {
            Rounding::Up => "The same in bytes, rounded up to whole cells.",
            Rounding::Down => "The same in bytes, rounded down to whole cells.",
        };
        vec![
            (format!("{}_cells", self.name), Self { values: cells, ..*self }),
            (
                format!("{}_bytes", self.name),
                Self { values: bytes, default: DefaultSpec::Nothing, about: of_bytes, ..*self },
            ),
        ]
    }

    /// Returns the unit of a number called `name`; empty if it has none.
    pub fn unit_of(&self, name: &str) -> &'static str {
        const UNITS: [(&str, &str); 10] = [
            ("_bytes", "bytes"),
            ("_cells", "cells"),
            ("_percent", "%"),
            ("_pps", "frames/s"),
            ("_ms", "ms"),
            ("_s", "s"),
            ("_m", "m"),
            ("_mib", "MiB"),
            ("_kib", "KiB"),
            ("percent", "%"),
        ];
        let by_name = UNITS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, unit)| *unit);
        if self.unit.is_empty() { by_name.unwrap_or_default() } else { self.unit }
    }

    /// Returns a value in TOML that the setting can have, if possible not its default; `None` for
    /// tables.
    pub fn example_value(&self) -> Option<String> {
        self.values.example(match self.default {
            DefaultSpec::Value(default) => default,
            _ => "",
        })
    }
}

/// Returns the least and the most bytes of a size whose cells have from `least` to `most` bytes.
pub(crate) fn bytes_of_cells(min_cells: u32, rounding: Rounding, least: u32, most: u32) -> (i64, i64) {
    let first = match rounding {
        Rounding::Up => i64::from(min_cells.min(1)),
        Rounding::Down => i64::from(min_cells) * i64::from(least),
    };
    (first, i64::from(MAX_CELLS) * i64::from(most))
}

impl ValueSpec {
    fn example(self, default: &str) -> Option<String> {
        let other = |values: &[String]| values.iter().find(|value| *value != default).cloned();
        match self {
            Self::Boolean => other(&[true, false].map(|value| value.to_string())),
            Self::Number(first, _) => other(&[first, first + 1].map(|number| number.to_string())),
            Self::Speed => Some("\"10G\"".to_owned()),
            Self::Text(example) => Some(quoted(example)),
            Self::Choice(words) => other(&words().into_iter().map(quoted).collect::<Vec<_>>()),
            Self::List(of) => Some(format!("[{}]", of.example("")?)),
            Self::Eight { .. } => other(&[0, 1].map(|number| format!("{:?}", [number; 8]))),
            Self::Map(KeySpec::Dscp, of) => Some(format!("{{ \"46\" = {} }}", of.example("")?)),
            Self::Map(_, of) => Some(format!("{{ a = {} }}", of.example("")?)),
            Self::Table(table) => {
                let required = |it: &&SettingSpec| it.default == DefaultSpec::Required;
                let settings = table.iter().filter(required);
                let of = |it: &SettingSpec| Some(format!("{} = {}", it.name, it.example_value()?));
                Some(format!("{{ {} }}", settings.map(of).collect::<Option<Vec<_>>>()?.join(", ")))
            }
            Self::Either(kinds) => kinds.iter().find_map(|kind| kind.example(default)),
            Self::Size { .. } => None,
        }
    }

    /// Returns the settings of the table that this is, or that its elements are.
    pub fn table(&self) -> Option<TableSpec> {
        match self {
            Self::Table(table) => Some(table),
            Self::List(of) => of.table(),
            Self::Either(kinds) => kinds.iter().find_map(Self::table),
            _ => None,
        }
    }

    /// Returns what `find` finds in this one, or in the first of several kinds that has it.
    pub(crate) fn find<T>(&'static self, find: impl Fn(&'static Self) -> Option<T>) -> Option<T> {
        match self {
            Self::Either(kinds) => kinds.iter().find_map(find),
            _ => find(self),
        }
    }
}

/// Returns the setting of this name in a table.
pub fn setting_of(table: TableSpec, name: &str) -> Option<&'static SettingSpec> {
    table.iter().find(|setting| setting.has_name(name))
}

/// Returns the names of all settings of a table.
pub fn names_of(table: TableSpec) -> Vec<String> {
    table.iter().flat_map(SettingSpec::by_name).map(|(name, _)| name).collect()
}

impl KeySpec {
    /// Returns what stands for the key in the name of a setting.
    pub fn placeholder(self) -> &'static str {
        match self {
            Self::Name => "NAME",
            Self::Number(_) => "N",
            Self::Dscp => "DSCP",
        }
    }
}
