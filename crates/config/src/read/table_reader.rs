//! Reads a TOML table setting by setting, with the position of every value. A value of the wrong
//! type, a value out of range and an unknown setting are noted as errors, and the reader continues,
//! so that one run finds all errors.
//!
//! A table that is described ([`crate::spec`]) is read by its description, which has the type, the
//! range and the words of each setting. A simulator's scenario is not, and states them on reading.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

use switch::settings::PRIORITIES;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::aliases::alias;
use crate::read::diagnostics::{Diagnostics, SettingSpan};
use crate::read::suggest::{did_you_mean, quoted, quoted_list, shortened};
use crate::spec::{KeySpec, ValueSpec, names_of, setting_of};

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

/// Sets `value` if the file has the setting.
pub(crate) fn set<T>(value: &mut T, setting: Option<Setting<T>>) {
    if let Some(setting) = setting {
        *value = setting.value;
    }
}

/// A value of the file that has not been read yet.
pub struct Item<'d> {
    value: &'d DeValue<'d>,
    /// What it can be, if it is described.
    spec: Option<&'static ValueSpec>,
    /// Position of the value.
    pub location: SettingSpan,
}

/// A table whose settings are read by name; [`TableReader::finish`] then reports the remaining
/// ones.
pub struct TableReader<'d> {
    /// Start of the table.
    pub location: SettingSpan,
    entries: Vec<Entry<'d>>,
    /// Its description, if it has one.
    spec: Option<&'static ValueSpec>,
    /// The names of settings that were looked up, if the table is not described.
    known: Vec<String>,
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
    pub(crate) fn new(
        table: &'d DeTable<'d>,
        location: SettingSpan,
        spec: Option<&'static ValueSpec>,
    ) -> Self {
        let mut entries: Vec<Entry> = table
            .iter()
            .map(|(key, value)| Entry { name: key.get_ref(), name_span: key.span(), value, taken: false })
            .collect();
        // The parser sorts by name, but the order in the file gives the ports their numbers.
        entries.sort_by_key(|entry| entry.name_span.start);
        Self { location, entries, spec, known: Vec::new() }
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

    /// Returns what a setting can be.
    ///
    /// # Panics
    /// If it is not described.
    pub(crate) fn spec_of(&self, name: &str) -> &'static ValueSpec {
        match self.spec.and_then(ValueSpec::table).and_then(|table| setting_of(table, name)) {
            Some(setting) => &setting.values,
            None => panic!("{} is read and not described", self.full_name(name)),
        }
    }

    /// Takes a setting without reading its value.
    ///
    /// # Panics
    /// If the table is described, and the setting is not.
    pub fn item(&mut self, name: &str) -> Option<Item<'d>> {
        let spec = self.spec.map(|_| self.spec_of(name));
        if spec.is_none() {
            self.known.push(name.to_owned());
        }
        let setting = self.full_name(name);
        let entry = self.entries.iter_mut().find(|entry| entry.name == name)?;
        entry.taken = true;
        let location = SettingSpan { setting, span: entry.value.span() };
        Some(Item { value: entry.value.get_ref(), spec, location })
    }

    /// Takes a whole number of the described range.
    pub(crate) fn number<T: TryFrom<i64>>(
        &mut self,
        name: &str,
        report: &mut Diagnostics,
    ) -> Option<Setting<T>> {
        self.item(name)?.number(report)
    }

    /// Takes a whole number of `range`.
    pub fn number_in<T>(
        &mut self,
        name: &str,
        range: RangeInclusive<T>,
        report: &mut Diagnostics,
    ) -> Option<Setting<T>>
    where
        T: Clone + TryFrom<i64> + PartialOrd + Display,
    {
        self.item(name)?.number_in(range, report)
    }

    /// Takes true or false.
    pub fn boolean(&mut self, name: &str, report: &mut Diagnostics) -> Option<Setting<bool>> {
        let item = self.item(name)?;
        match item.value {
            DeValue::Boolean(value) => Some(Setting { value: *value, location: item.location }),
            _ => item.wrong_type("write true or false", report),
        }
    }

    /// Takes a string.
    pub(crate) fn string(&mut self, name: &str, report: &mut Diagnostics) -> Option<Setting<&'d str>> {
        self.item(name)?.string(report)
    }

    /// Takes a string of a table that is not described.
    pub fn string_like(
        &mut self,
        name: &str,
        example: &str,
        report: &mut Diagnostics,
    ) -> Option<Setting<&'d str>> {
        self.item(name)?.string_or(&format!("write a string, as in \"{example}\""), report)
    }

    /// Takes one of a few words.
    pub fn choice<T: Copy>(
        &mut self,
        name: &str,
        words: &[(&'static str, T)],
        report: &mut Diagnostics,
    ) -> Option<Setting<T>> {
        self.choice_or_later(name, words, &[], report)
    }

    /// Takes one of a few words; words in `later` are known but do not work yet.
    pub(crate) fn choice_or_later<T: Copy>(
        &mut self,
        name: &str,
        words: &[(&'static str, T)],
        later: &[&str],
        report: &mut Diagnostics,
    ) -> Option<Setting<T>> {
        let item = self.item(name)?;
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        if let Some(ValueSpec::Choice(described)) = item.spec {
            debug_assert_eq!(described(), names, "the words of {name}");
        }
        let cure = format!("write {}", quoted_list(&names, " or "));
        let text = item.string_or(&cure, report)?;
        let choice = words.iter().find(|(word, _)| *word == text.value);
        if choice.is_none() && later.contains(&text.value) {
            report.add(&text.location, format!("{} is not working yet", quoted(text.value)), cure);
        } else if choice.is_none() {
            let cure = did_you_mean(text.value, &names).unwrap_or(cure);
            report.add(&text.location, format!("unknown value {}", quoted(text.value)), cure);
        }
        choice.map(|(_, value)| Setting { value: *value, location: text.location })
    }

    /// Takes a list of whole numbers of the described range.
    pub(crate) fn numbers<T: TryFrom<i64>>(
        &mut self,
        name: &str,
        report: &mut Diagnostics,
    ) -> Option<Setting<Vec<T>>> {
        self.item(name)?.numbers(report)
    }

    /// Takes a list of whole numbers of `range`.
    pub fn numbers_in<T>(
        &mut self,
        name: &str,
        range: RangeInclusive<T>,
        report: &mut Diagnostics,
    ) -> Option<Setting<Vec<T>>>
    where
        T: Clone + TryFrom<i64> + PartialOrd + Display,
    {
        self.item(name)?.numbers_in(range, report)
    }

    /// Takes a list of eight whole numbers.
    pub(crate) fn eight_numbers(
        &mut self,
        name: &str,
        report: &mut Diagnostics,
    ) -> Option<Setting<[u8; PRIORITIES]>> {
        let ValueSpec::Eight { last, index } = *self.spec_of(name) else { panic!("{name} is no such list") };
        let list = self.numbers_in(name, 0..=last, report)?;
        match <[u8; PRIORITIES]>::try_from(list.value.as_slice()) {
            Ok(value) => Some(Setting { value, location: list.location }),
            Err(_) => {
                let what = format!("found a list of {}", list.value.len());
                let cure = format!("write 8 numbers, one for each {index} from 0 to 7");
                report.add(&list.location, what, cure);
                None
            }
        }
    }

    /// Takes a list of tables; `cure` says what to write instead of any other value.
    pub fn list_of_sections(
        &mut self,
        name: &str,
        cure: &str,
        report: &mut Diagnostics,
    ) -> Option<Setting<Vec<TableReader<'d>>>> {
        self.item(name)?.sections(cure, report)
    }

    /// Takes a table.
    pub fn section(&mut self, name: &str, report: &mut Diagnostics) -> Option<TableReader<'d>> {
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
            let spec = match self.spec {
                Some(ValueSpec::Map(_, of)) => Some(*of),
                _ => None,
            };
            let location_of_value = SettingSpan { setting, span: entry.value.span() };
            let item = Item { value: entry.value.get_ref(), spec, location: location_of_value };
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

    /// Takes a table whose entries are numbered tables.
    pub(crate) fn numbered(&mut self, name: &str, report: &mut Diagnostics) -> Vec<(usize, TableReader<'d>)> {
        let ValueSpec::Map(KeySpec::Number(last), _) = *self.spec_of(name) else {
            panic!("{name} is not numbered")
        };
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

    /// Reports the settings that were not taken.
    pub fn finish(self, report: &mut Diagnostics) {
        for entry in self.entries.iter().filter(|entry| !entry.taken) {
            let location = SettingSpan { setting: self.full_name(entry.name), span: entry.name_span.clone() };
            report.add_lazily(&location, || {
                let known = match self.spec.and_then(ValueSpec::table) {
                    Some(table) => names_of(table),
                    None => self.known.clone(),
                };
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let alias = alias(entry.name).filter(|_| self.spec.is_some());
                let alias = alias.map(|it| format!("{} of {} is {} here", entry.name, it.of, it.setting));
                let cure = alias
                    .or_else(|| did_you_mean(entry.name, &known))
                    .unwrap_or_else(|| format!("known here: {}", known.join(", ")));
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
        let of = |spec: &'static ValueSpec| match spec {
            ValueSpec::List(of) => Some(*of),
            _ => None,
        };
        let spec = self.spec.and_then(|spec| spec.find(of));
        let item = |element: &'d Spanned<DeValue<'d>>| {
            let location = SettingSpan { setting: self.location.setting.clone(), span: element.span() };
            Item { value: element.get_ref(), spec, location }
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

    /// Returns the value as a string; `cure` says what to write instead of any other value.
    pub fn string_or(self, cure: &str, report: &mut Diagnostics) -> Option<Setting<&'d str>> {
        match self.value {
            DeValue::String(text) => Some(Setting { value: text.as_ref(), location: self.location }),
            _ => self.wrong_type(cure, report),
        }
    }

    /// Returns the value as a string.
    pub(crate) fn string(self, report: &mut Diagnostics) -> Option<Setting<&'d str>> {
        let Some(ValueSpec::Text(example)) = self.spec else { self.not_described("a string") };
        self.string_or(&format!("write a string, as in \"{example}\""), report)
    }

    /// Returns the value as a whole number of the described range.
    pub(crate) fn number<T: TryFrom<i64>>(self, report: &mut Diagnostics) -> Option<Setting<T>> {
        let range = |spec: &'static ValueSpec| match *spec {
            ValueSpec::Number(first, last) => Some(first..=last),
            _ => None,
        };
        let range = self.spec.and_then(|spec| spec.find(range));
        let Some(range) = range else { self.not_described("a number") };
        let Setting { value, location } = self.number_in(range, report)?;
        let value = T::try_from(value).ok().expect("a number of the described range fits its type");
        Some(Setting { value, location })
    }

    fn not_described(&self, what: &str) -> ! {
        panic!("{} is read as {what}, and not described as one", self.location.setting)
    }

    /// Returns the value as a whole number of `range`.
    pub fn number_in<T>(self, range: RangeInclusive<T>, report: &mut Diagnostics) -> Option<Setting<T>>
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

    /// Returns the value as a list of whole numbers of the described range.
    pub(crate) fn numbers<T: TryFrom<i64>>(self, report: &mut Diagnostics) -> Option<Setting<Vec<T>>> {
        let Some(&ValueSpec::List(&ValueSpec::Number(first, last))) = self.spec else {
            self.not_described("a list of numbers")
        };
        let Setting { value, location } = self.numbers_in(first..=last, report)?;
        let fit = |number| T::try_from(number).ok().expect("a number of the described range fits its type");
        Some(Setting { value: value.into_iter().map(fit).collect(), location })
    }

    /// Returns the value as a list of whole numbers of `range`.
    pub fn numbers_in<T>(self, range: RangeInclusive<T>, report: &mut Diagnostics) -> Option<Setting<Vec<T>>>
    where
        T: Clone + TryFrom<i64> + PartialOrd + Display,
    {
        let Some(elements) = self.list() else {
            let cure = format!("write a list of whole numbers from {} to {}", range.start(), range.end());
            return self.wrong_type(&cure, report);
        };
        let numbers: Vec<_> =
            elements.into_iter().map(|element| element.number_in(range.clone(), report)).collect();
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
        let is_table = |spec: &'static ValueSpec| {
            matches!(spec, ValueSpec::Table(_) | ValueSpec::Map(..)).then_some(spec)
        };
        let spec = self.spec.map(|spec| spec.find(is_table).unwrap_or_else(|| self.not_described("a table")));
        match self.value {
            DeValue::Table(table) => Some(TableReader::new(table, name_location, spec)),
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

#[cfg(test)]
mod tests {
    use toml::de::DeTable;

    use super::TableReader;
    use crate::read::diagnostics::{Diagnostics, SettingSpan};
    use crate::spec::ValueSpec;
    use crate::tables::FILE;

    #[test]
    #[should_panic(expected = "bridge.ageing is read and not described")]
    fn a_setting_that_is_not_described_cannot_be_read() {
        let file = DeTable::parse("bridge.ageing = 5").unwrap();
        let location = SettingSpan { setting: String::new(), span: 0..0 };
        let mut file = TableReader::new(file.get_ref(), location, Some(&ValueSpec::Table(FILE)));
        let mut report = Diagnostics::default();
        let mut bridge = file.section("bridge", &mut report).unwrap();
        bridge.number::<u64>("ageing", &mut report);
    }
}
