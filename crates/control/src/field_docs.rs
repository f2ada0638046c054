//! Names and descriptions of the fields of a snapshot, from the proto file, for help texts.

use std::collections::BTreeMap;

use switch::DropReason;

use crate::v1;

/// A field of a message in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name of the field, in JSON too.
    pub name: &'static str,
    /// Message type of the field; empty for numbers, text and flags.
    pub of: &'static str,
    /// Description of the field.
    pub comment: &'static str,
}

/// Returns the fields of a message, in the order of the proto file.
pub fn of(message: &str) -> impl Iterator<Item = Field> {
    let fields = FIELDS.iter().filter(move |(found, ..)| *found == message);
    fields.map(|&(_, name, of, comment)| Field { name, of, comment })
}

/// A number of a message, or of a part of it.
#[derive(Debug, Clone, Copy)]
pub struct Number {
    /// Field names, with a point before that of a part: `received.frames`.
    pub path: &'static str,
    /// Name of its metric, unless that has a name by hand.
    pub metric: &'static str,
    /// True for a count, false for a level or a state.
    pub grows: bool,
    /// Description in the proto file.
    pub comment: &'static str,
}

/// A message whose numbers are read by path.
pub trait Numbers {
    /// Name of the message.
    const MESSAGE: &'static str;

    /// All numbers, in the order of the proto file.
    const NUMBERS: &'static [Number];

    /// Returns a number; `None` if there is none of this path now.
    fn number(&self, path: &str) -> Option<u64>;
}

include!(concat!(env!("OUT_DIR"), "/numbers.rs"));

/// Values of all messages of a snapshot for tests.
mod numbered {
    include!(concat!(env!("OUT_DIR"), "/numbered.rs"));
}

/// Returns the next number, for a value in which every number differs.
fn next<T: TryFrom<u64>>(next: &mut u64) -> T {
    *next += 1;
    T::try_from(*next).ok().expect("a few hundred numbers")
}

/// Returns a count for each drop reason.
fn all_reasons(next: &mut u64) -> BTreeMap<String, v1::Count> {
    DropReason::ALL.map(|reason| (reason.name().to_owned(), v1::Count::numbered(next))).into()
}

/// Message, field name, message type of the field, comment.
const FIELDS: &[(&str, &str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/fields.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_comments_of_the_proto_file() {
        let found: Vec<_> = of("Level").collect();
        let names: Vec<_> = found.iter().map(|field| field.name).collect();
        assert_eq!(names, ["cells", "peak_read_cells", "peak_clear_cells", "peak_cells"]);
        assert_eq!(found[1].comment, "Peak since the last read.");
        let level = of("Pool").find(|field| field.of == "Level").unwrap();
        assert_eq!((level.name, level.comment), ("level", "Cells in use."));
        assert!(of("Port").any(|field| {
            field.comment.ends_with("tail_drop, wred, destination_down, no_copy, port_down, refused.")
        }));
        assert_eq!(of("GetInfoRequest").count(), 0);
    }

    #[test]
    fn every_field_has_a_comment() {
        for (message, name, _, comment) in FIELDS {
            assert!(!comment.is_empty(), "{message}.{name} in control.proto");
        }
    }
}
