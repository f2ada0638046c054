//! Names and descriptions of the fields of a snapshot, from the proto file, for help texts.

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
        assert!(
            of("Port").any(|field| field
                .comment
                .ends_with("tail_drop, wred, destination_down, no_copy, port_down."))
        );
        assert_eq!(of("GetInfoRequest").count(), 0);
    }

    #[test]
    fn every_field_has_a_comment() {
        for (message, name, _, comment) in FIELDS {
            assert!(!comment.is_empty(), "{message}.{name} in control.proto");
        }
    }
}
