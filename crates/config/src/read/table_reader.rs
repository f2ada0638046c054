//! Reads a TOML table setting by setting, with the position of every value. A value of the wrong
//! type, a value out of range and an unknown setting are noted as errors, and the reader continues,
//! so that one run finds all errors.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

use switch::settings::PRIORITIES;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::read::diagnostics::{Diagnostics, SettingSpan};
use crate::read::suggest::{did_you_mean, quoted, quoted_list, shortened};

/// A value of the file and its position.
#[derive(Debug, Clone)]
pub struct Setting<T> {
    /// What the file has for the setting.
    pub value: T,
    /// Position of the setting.
    pub location: SettingSpan,
}

/// Returns the value of a setting, or `default` where the file does not have it.
pub(crate) fn value_or<T: Copy>(setting: &Option<Setting<T>>, default: T) -> T {
    setting.as_ref().map_or(default, |setting| setting.value)
}

/// A value of the file that has not been read yet.
pub struct Item<'d> {
    value: &'d DeValue<'d>,
    /// Position of the value.
    pub location: SettingSpan,
}

/// A table whose settings are read by name; [`TableReader::finish`] then reports the remaining
/// ones.
pub struct TableReader<'d> {
    /// Start of the table.
    pub location: SettingSpan,
    entries: Vec<Entry<'d>>,
    /// The names of settings that were looked up.
    known: Vec<&'static str>,
}

struct Entry<'d> {
    name: &'d str,
    name_span: Range<usize>,
    value: &'d Spanned<DeValue<'d>>,
    taken: bool,
}

impl<'d> TableReader<'d> {
    /// Returns the table at `location`, whose `setting` is the table's full name, or empty for the
    /// whole file.
    pub(crate) fn new(table: &'d DeTable<'d>, location: SettingSpan) -> Self {
        let mut entries: Vec<Entry> = table
            .iter()
            .map(|(key, value)| Entry { name: key.get_ref(), name_span: key.span(), value, taken: false })
            .collect();
        // The parser sorts by name, but the order in the file gives the ports their numbers.
        entries.sort_by_key(|entry| entry.name_span.start);
        Self { location, entries, known: Vec::new() }
    }

    fn full_name(&self, name: &str) -> String {
        // A name that needs quotes in TOML is shown in quotes: it may contain anything, even line
        // breaks.
        let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let plain = name.len() <= 64 && !name.is_empty() && name.bytes().all(bare);
        let name = if plain { name.to_owned() } else { quoted(name) };
        if self.location.setting.is_empty() { name } else { format!("{}.{name}", self.location.setting) }
    }

    /// Returns the position of a setting's name, if the setting is present.
    pub fn location_of(&self, name: &str) -> Option<SettingSpan> {
        let entry = self.entries.iter().find(|entry| entry.name == name)?;
        Some(SettingSpan { setting: self.full_name(name), span: entry.name_span.clone() })
    }

    /// Returns true if a setting is present, whatever its value.
    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == name)
    }

    /// Returns true if the table is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes a setting without reading its value.
    pub fn item(&mut self, name: &'static str) -> Option<Item<'d>> {
        self.known.push(name);
        let setting = self.full_name(name);
        let entry = self.entries.iter_mut().find(|entry| entry.name == name)?;
        entry.taken = true;
        Some(Item {
            value: entry.value.get_ref(),
            location: SettingSpan { setting, span: entry.value.span() },
        })
    }

    /// Takes a whole number.
    pub fn number<T>(
        &mut self,
        name: &'static str,
        range: RangeInclusive<T>,
        report: &mut Diagnostics,
    ) -> Option<Setting<T>>
    where
        T: Clone + TryFrom<i64> + PartialOrd + Display,
    {
        self.item(name)?.number(range, report)
    }

    /// Takes true or false.
    pub fn boolean(&mut self, name: &'static str, report: &mut Diagnostics) -> Option<Setting<bool>> {
        let item = self.item(name)?;
        match item.value {
            DeValue::Boolean(value) => Some(Setting { value: *value, location: item.location }),
            _ => item.wrong_type("write true or false", report),
        }
    }

    /// Takes a string.
    pub fn string(
        &mut self,
        name: &'static str,
        example: &str,
        report: &mut Diagnostics,
    ) -> Option<Setting<&'d str>> {
        let item = self.item(name)?;
        match item.value {
            DeValue::String(text) => Some(Setting { value: text.as_ref(), location: item.location }),
            _ => item.wrong_type(&format!("write a string, as in \"{example}\""), report),
        }
    }

    /// Takes one of a few words; words in `later` are known but do not work yet.
    pub fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        words: &[(&str, T)],
        later: &[&str],
        report: &mut Diagnostics,
    ) -> Option<Setting<T>> {
        let item = self.item(name)?;
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let cure = format!("write {}", quoted_list(&names, " or "));
        let DeValue::String(text) = item.value else { return item.wrong_type(&cure, report) };
        if let Some((_, value)) = words.iter().find(|(word, _)| word == text) {
            return Some(Setting { value: *value, location: item.location });
        }
        if later.contains(&text.as_ref()) {
            report.add(&item.location, format!("{} is not working yet", quoted(text)), cure);
        } else {
            let cure = did_you_mean(text, &names).unwrap_or(cure);
            report.add(&item.location, format!("unknown value {}", quoted(text)), cure);
        }
        None
    }

    /// Takes a list of whole numbers.
    pub fn numbers<T>(
        &mut self,
        name: &'static str,
        range: RangeInclusive<T>,
        report: &mut Diagnostics,
    ) -> Option<Setting<Vec<T>>>
    where
        T: Clone + TryFrom<i64> + PartialOrd + Display,
    {
        self.item(name)?.numbers(range, report)
    }

    /// Takes a list of eight whole numbers, one for each `index` from 0 to 7.
    pub(crate) fn eight_numbers(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u8>,
        index: &str,
        report: &mut Diagnostics,
    ) -> Option<Setting<[u8; PRIORITIES]>> {
        let list = self.numbers(name, range, report)?;
        match <[u8; PRIORITIES]>::try_from(list.value.as_slice()) {
            Ok(value) => Some(Setting { value, location: list.location }),
            Err(_) => {
                let what = format!("found a list of {}", list.value.len());
                report.add(
                    &list.location,
                    what,
                    format!("write 8 numbers, one for each {index} from 0 to 7"),
                );
                None
            }
        }
    }

    /// Takes a list of tables; `cure` says what to write instead of any other value.
    pub fn list_of_sections(
        &mut self,
        name: &'static str,
        cure: &str,
        report: &mut Diagnostics,
    ) -> Option<Setting<Vec<TableReader<'d>>>> {
        self.item(name)?.sections(cure, report)
    }

    /// Takes a table.
    pub fn section(&mut self, name: &'static str, report: &mut Diagnostics) -> Option<TableReader<'d>> {
        // A table is shown by its name, since its body may be anywhere.
        let item = self.item(name)?;
        let location = self.location_of(name)?;
        let cure = format!("write a table, as in [{}]", location.setting);
        item.section(location, &cure, report)
    }

    /// Takes all settings, whatever their names, in the order of the file: name, position of the
    /// name, value.
    pub(crate) fn entries(&mut self) -> Vec<(&'d str, SettingSpan, Item<'d>)> {
        self.entries.iter_mut().for_each(|entry| entry.taken = true);
        let placed = |entry: &Entry<'d>| {
            let setting = self.full_name(entry.name);
            let location = SettingSpan { setting: setting.clone(), span: entry.name_span.clone() };
            let item = Item {
                value: entry.value.get_ref(),
                location: SettingSpan { setting, span: entry.value.span() },
            };
            (entry.name, location, item)
        };
        self.entries.iter().map(placed).collect()
    }

    /// Takes all tables below this one, in the order of the file, with their names.
    pub fn sections(&mut self, report: &mut Diagnostics) -> Vec<(&'d str, TableReader<'d>)> {
        let mut sections = Vec::new();
        for (name, location, item) in self.entries() {
            let cure = format!("write a table, as in [{}]", location.setting);
            sections.extend(item.section(location, &cure, report).map(|section| (name, section)));
        }
        sections
    }

    /// Takes a table whose entries are tables numbered 0 to `last`.
    pub(crate) fn numbered(
        &mut self,
        name: &'static str,
        last: usize,
        report: &mut Diagnostics,
    ) -> Vec<(usize, TableReader<'d>)> {
        let Some(mut table) = self.section(name, report) else { return Vec::new() };
        let mut numbered = Vec::new();
        for (text, section) in table.sections(report) {
            // Only the canonical notation is accepted, so that no number occurs twice.
            match (0..=last).find(|number| number.to_string() == text) {
                Some(number) => numbered.push((number, section)),
                None => report.add(
                    &section.location,
                    format!("there is no {name} {text}"),
                    format!("write a number from 0 to {last}"),
                ),
            }
        }
        numbered
    }

    /// Reports an error if several of `names` are present, which are alternatives of one setting.
    pub fn at_most_one(&self, names: &[&str], report: &mut Diagnostics) {
        let there: Vec<&str> = names.iter().copied().filter(|name| self.has(name)).collect();
        if let [first @ .., last] = &there[..]
            && let Some(location) = first.first().and_then(|name| self.location_of(name))
        {
            let what = format!("{} and {last} contradict each other", first.join(", "));
            report.add(
                &location,
                what,
                if first.len() == 1 { "leave one of them out" } else { "leave one only" },
            );
        }
    }

    /// Takes a setting that belongs elsewhere; `cure` says where.
    pub(crate) fn misplaced(&mut self, name: &str, cure: &str, report: &mut Diagnostics) {
        let Some(location) = self.location_of(name) else { return };
        report.add(&location, "does not belong here", cure);
        self.entries.iter_mut().filter(|entry| entry.name == name).for_each(|entry| entry.taken = true);
    }

    /// Reports the settings that were not taken. Settings in `later` are known but do not work yet.
    pub fn finish(self, later: &[&str], report: &mut Diagnostics) {
        for entry in self.entries.iter().filter(|entry| !entry.taken) {
            let location = SettingSpan { setting: self.full_name(entry.name), span: entry.name_span.clone() };
            if later.contains(&entry.name) {
                report.add(&location, "not working yet", "leave it out");
                continue;
            }
            report.add_lazily(&location, || {
                let cure = did_you_mean(entry.name, &self.known)
                    .unwrap_or_else(|| format!("known here: {}", self.known.join(", ")));
                ("unknown setting".to_owned(), cure)
            });
        }
    }
}

impl<'d> Item<'d> {
    /// Notes that the value is of the wrong type.
    pub fn wrong_type<T>(&self, cure: &str, report: &mut Diagnostics) -> Option<T> {
        report.add(&self.location, format!("found {}", describe(self.value)), cure);
        None
    }

    /// Returns the raw value for the caller to interpret.
    pub fn value(&self) -> &'d DeValue<'d> {
        self.value
    }

    /// Returns the elements, if it is a list. They have its name.
    pub fn list(&self) -> Option<Vec<Item<'d>>> {
        let DeValue::Array(list) = self.value else { return None };
        let item = |element: &'d Spanned<DeValue<'d>>| {
            let location = SettingSpan { setting: self.location.setting.clone(), span: element.span() };
            Item { value: element.get_ref(), location }
        };
        Some(list.iter().map(item).collect())
    }

    /// Returns the elements as tables; `cure` says what to write instead of any other value.
    pub(crate) fn sections(
        self,
        cure: &str,
        report: &mut Diagnostics,
    ) -> Option<Setting<Vec<TableReader<'d>>>> {
        let Some(elements) = self.list() else { return self.wrong_type(cure, report) };
        let mut sections = Vec::new();
        for element in elements {
            let location = element.location.clone();
            sections.extend(element.section(location, cure, report));
        }
        Some(Setting { value: sections, location: self.location })
    }

    /// Returns the value as a whole number.
    pub fn number<T>(self, range: RangeInclusive<T>, report: &mut Diagnostics) -> Option<Setting<T>>
    where
        T: Clone + TryFrom<i64> + PartialOrd + Display,
    {
        let cure = format!("write a whole number from {} to {}", range.start(), range.end());
        let DeValue::Integer(digits) = self.value else { return self.wrong_type(&cure, report) };
        let number = i64::from_str_radix(digits.as_str(), digits.radix()).ok();
        match number.and_then(|number| T::try_from(number).ok()).filter(|number| range.contains(number)) {
            Some(value) => Some(Setting { value, location: self.location }),
            None => {
                report.add(&self.location, format!("{} is out of range", describe(self.value)), cure);
                None
            }
        }
    }

    /// Returns the value as a list of whole numbers.
    pub fn numbers<T>(self, range: RangeInclusive<T>, report: &mut Diagnostics) -> Option<Setting<Vec<T>>>
    where
        T: Clone + TryFrom<i64> + PartialOrd + Display,
    {
        let Some(elements) = self.list() else {
            let cure = format!("write a list of whole numbers from {} to {}", range.start(), range.end());
            return self.wrong_type(&cure, report);
        };
        let numbers: Vec<_> =
            elements.into_iter().map(|element| element.number(range.clone(), report)).collect();
        let value = numbers.into_iter().map(|number| Some(number?.value)).collect::<Option<Vec<T>>>()?;
        Some(Setting { value, location: self.location })
    }

    /// Returns the value as a table that is shown at `name_location`.
    pub fn section(
        self,
        name_location: SettingSpan,
        cure: &str,
        report: &mut Diagnostics,
    ) -> Option<TableReader<'d>> {
        match self.value {
            DeValue::Table(table) => Some(TableReader::new(table, name_location)),
            _ => self.wrong_type(cure, report),
        }
    }
}

/// Describes a value of the file in words.
pub(crate) fn describe(value: &DeValue) -> String {
    match value {
        DeValue::String(text) => format!("the string {}", quoted(text)),
        DeValue::Integer(number) => format!("the number {}", shortened(&number.to_string())),
        DeValue::Float(number) => format!("the number {}", shortened(number.as_str())),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
