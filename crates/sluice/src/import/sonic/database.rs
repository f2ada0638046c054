//! The tables of a CONFIG_DB, and which of their fields have been used.
//!
//! Source: docs/references.md, "SONiC". Numbers are text; a reference to another table is
//! a name, or `[TABLE|name]` in old files; a key may name several ports and a range:
//! `Ethernet0,Ethernet4|3-4`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use serde::Serialize;
use serde_json::{Map, Value};

/// Something that was not carried over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Note {
    /// Name of the table in the CONFIG_DB.
    pub table: String,
    /// Its key; empty for the whole table.
    pub key: String,
    /// Its field; empty for the whole entry.
    pub field: String,
    /// The reason.
    pub why: String,
}

/// The largest number that is read: a value in any unit, with which can be computed.
const LARGEST: i64 = 1_000_000_000_000;

/// Tables without a counterpart, and why.
const FOREIGN: [(&str, &str); 5] = [
    ("DEVICE_METADATA", "describes the device"),
    (
        "LOSSLESS_TRAFFIC_PATTERN",
        "is for headroom computed on the device: `sluice headroom` computes it here",
    ),
    (
        "DEFAULT_LOSSLESS_BUFFER_PARAMETER",
        "is for headroom computed on the device: `sluice headroom` computes it here",
    ),
    ("VLAN_INTERFACE", "is about routing: Sluice is a bridge"),
    ("INTERFACE", "is about routing: Sluice is a bridge"),
];

/// Fields of PORT that belong to the Linux interface.
const OF_INTERFACE: [&str; 10] =
    ["alias", "autoneg", "adv_speeds", "description", "fec", "index", "lanes", "subport", "tpid", "role"];

/// A port: its name in both worlds, and its lines `key = value`.
pub struct Port<'j> {
    pub name: &'j str,
    pub interface: String,
    pub lines: Vec<String>,
    /// Priorities that are no-drop.
    pub no_drop: Vec<usize>,
    /// The queue of each priority.
    pub queues: [usize; 8],
}

impl Port<'_> {
    /// True if a queue carries a no-drop priority.
    pub fn is_no_drop(&self, queue: usize) -> bool {
        self.no_drop.iter().any(|priority| self.queues[*priority] == queue)
    }
}

/// A CONFIG_DB.
pub struct Database<'j> {
    tables: &'j Map<String, Value>,
    used: RefCell<BTreeSet<[String; 3]>>,
    notes: RefCell<Vec<Note>>,
}

impl<'j> Database<'j> {
    pub fn new(tables: &'j Map<String, Value>) -> Self {
        Self { tables, used: RefCell::default(), notes: RefCell::default() }
    }

    /// Returns the keys of a table, in natural order.
    pub fn keys(&self, table: &str) -> Vec<&'j str> {
        let entries = self.tables.get(table).and_then(Value::as_object);
        let mut keys: Vec<_> = entries.into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        keys.sort_by_key(|key| natural(key));
        keys
    }

    /// Returns a field, which counts as used from now on.
    pub fn field(&self, table: &str, key: &str, field: &str) -> Option<&'j str> {
        let found = self.tables.get(table)?.get(key)?.get(field)?;
        self.used.borrow_mut().insert([table, key, field].map(str::to_owned));
        let text = found.as_str();
        if text.is_none() {
            self.note(table, key, field, "it is no text");
        }
        text
    }

    /// Returns a field that is a number, 0 or more.
    pub fn number(&self, table: &str, key: &str, field: &str) -> Option<i64> {
        self.number_in(table, key, field, 0..=LARGEST)
    }

    /// Returns a field that is a number, which may be negative.
    pub fn signed(&self, table: &str, key: &str, field: &str) -> Option<i64> {
        self.number_in(table, key, field, -LARGEST..=LARGEST)
    }

    fn number_in(&self, table: &str, key: &str, field: &str, range: RangeInclusive<i64>) -> Option<i64> {
        let text = self.field(table, key, field)?;
        let Ok(number) = text.parse::<i64>() else {
            self.note(table, key, field, &format!("`{text}` is no number"));
            return None;
        };
        if !range.contains(&number) {
            let why = format!("{number} is not in {} to {}", range.start(), range.end());
            self.note(table, key, field, &why);
            return None;
        }
        Some(number)
    }

    /// Returns the name in a field that refers to an entry of another table.
    pub fn name(&self, table: &str, key: &str, field: &str) -> Option<&'j str> {
        let text = self.field(table, key, field)?;
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        Some(inner.map_or(text, |inner| inner.rsplit('|').next().unwrap_or(inner)))
    }

    /// Returns the entry of a map from number to number: `{"3": "3"}`.
    pub fn map(&self, table: &str, key: &str, of: usize) -> Option<usize> {
        usize::try_from(self.number(table, key, &of.to_string())?).ok()
    }

    /// True if there is such an entry.
    pub fn has(&self, table: &str, key: &str) -> bool {
        self.tables.get(table).is_some_and(|table| table.get(key).is_some())
    }

    /// Returns the keys of entries by port, each with the numbers of its range, as of BUFFER_PG.
    pub fn ranges(&self, table: &str, port: &str) -> Vec<(&'j str, Vec<usize>)> {
        let of_port =
            |key: &&str| key.split_once('|').is_some_and(|(ports, _)| ports.split(',').any(|p| p == port));
        let range = |key: &'j str| Some((key, numbers(key.split_once('|')?.1)?));
        self.keys(table).into_iter().filter(of_port).filter_map(range).collect()
    }

    pub fn note(&self, table: &str, key: &str, field: &str, why: &str) {
        let [table, key, field, why] = [table, key, field, why].map(str::to_owned);
        let note = Note { table, key, field, why };
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Returns all notes, with one for each table, entry and field that was not used.
    pub fn into_notes(self) -> Vec<Note> {
        let used = self.used.take();
        for (table, entries) in self.tables {
            let is_used = |key: &str| used.iter().any(|[t, k, _]| t == table && k == key);
            let noted =
                |key: &str| self.notes.borrow().iter().any(|note| note.table == *table && note.key == key);
            let Some(entries) = entries.as_object() else {
                self.note(table, "", "", "it is no table");
                continue;
            };
            if !entries.keys().any(|key| is_used(key) || noted(key)) {
                let why = FOREIGN.iter().find(|(name, _)| name == table).map(|(_, why)| *why);
                self.note(table, "", "", why.unwrap_or("Sluice has no counterpart of this table"));
                continue;
            }
            for (key, fields) in entries {
                if noted(key) && !is_used(key) {
                    continue;
                }
                for field in fields.as_object().into_iter().flatten().map(|(field, _)| field) {
                    let path = [table, key, field].map(String::clone);
                    let has_note = self
                        .notes
                        .borrow()
                        .iter()
                        .any(|n| [&n.table, &n.key, &n.field] == [table, key, field]);
                    if !used.contains(&path) && !has_note {
                        self.note(table, key, field, why(table, field));
                    }
                }
            }
        }
        let mut notes = self.notes.into_inner();
        notes.sort_by(|a, b| {
            (&a.table, natural(&a.key), &a.field).cmp(&(&b.table, natural(&b.key), &b.field))
        });
        notes
    }
}

/// Returns why a field was not used.
fn why(table: &str, field: &str) -> &'static str {
    match table {
        "PORT" if OF_INTERFACE.contains(&field) => "belongs to the Linux interface (ip link, ethtool)",
        "PORT_QOS_MAP" | "QUEUE" | "BUFFER_PG" | "BUFFER_QUEUE" | "PFC_WD" | "CABLE_LENGTH"
        | "VLAN_MEMBER" => "of a port that is not imported, or Sluice has no such setting",
        "BUFFER_PROFILE"
        | "WRED_PROFILE"
        | "SCHEDULER"
        | "DSCP_TO_TC_MAP"
        | "TC_TO_QUEUE_MAP"
        | "TC_TO_PRIORITY_GROUP_MAP"
        | "MAP_PFC_PRIORITY_TO_QUEUE" => "no imported port uses it, or Sluice has no such setting",
        _ => "Sluice has no such setting",
    }
}

/// Returns the numbers of a range, as `3-4` or `5`.
fn numbers(range: &str) -> Option<Vec<usize>> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
    (last < 64).then(|| (first..=last).collect())
}

/// Returns a key by which names sort as people count: Ethernet4 before Ethernet12.
fn natural(name: &str) -> (String, u64, String) {
    let end = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let (word, rest) = name.split_at(end);
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    (word.to_owned(), rest[..digits].parse().unwrap_or(0), rest[digits..].to_owned())
}
