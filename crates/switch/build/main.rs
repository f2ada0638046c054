//! Generates the structs of a snapshot from the messages of the control API, so that a counter is
//! described in one place, `proto/sluice/v1/control.proto`: its name, its type, and its comment.

mod structs;

use std::fmt::Write;
use std::path::Path;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{FieldDescriptorProto, FileDescriptorProto};
use structs::{OF_THE_DAEMON, STRUCTS};

/// Fields whose type is narrower than in the API, or has a fixed size.
const TYPES: [(&str, &str); 17] = [
    ("Snapshot.ingress_pools", "[PoolSnapshot; POOLS]"),
    ("Snapshot.egress_pools", "[PoolSnapshot; POOLS]"),
    ("Snapshot.loop_turns_by_time", "[u64; ITERATION_TIME_CLASSES]"),
    ("RemovedPorts.drops", "[FrameCount; DropReason::ALL.len()]"),
    ("Port.drops", "[FrameCount; DropReason::ALL.len()]"),
    ("Port.number", "u16"),
    ("Port.overhead_bytes", "u16"),
    ("Port.priorities", "[PrioritySnapshot; PRIORITIES]"),
    ("Port.groups", "[GroupSnapshot; PRIORITIES]"),
    ("Port.queues", "[QueueSnapshot; PRIORITIES]"),
    ("Group.pool", "u8"),
    ("Group.usage_percent", "u8"),
    ("Queue.pool", "u8"),
    ("Queue.usage_percent", "u8"),
    ("Queue.wred_dropped", "[FrameCount; 3]"),
    ("Priority.local_precedence", "u8"),
    ("Storm.priority", "u8"),
];

/// Fields that the JSON of the simulator has in another form, or elsewhere.
const ATTRIBUTES: [(&str, &str); 7] = [
    ("Port.drops", "#[serde(serialize_with = \"by_reason\")] #[schemars(with = \"Counts\")]"),
    ("Port.storms", "#[serde(skip)]"),
    ("Port.priorities", "#[serde(skip)]"),
    ("Port.groups", "#[serde(skip)]"),
    ("Port.queues", "#[serde(skip)]"),
    ("Port.kernel", "#[serde(skip)]"),
    ("Queue.wred_dropped", "#[serde(serialize_with = \"by_drop_level\")] #[schemars(with = \"Counts\")]"),
];

fn main() {
    let proto = "../../proto/sluice/v1/control.proto";
    println!("cargo::rerun-if-changed={proto}");
    println!("cargo::rerun-if-changed=build");
    let files = protox::compile([proto], ["../../proto"]).expect("control.proto compiles");
    let file = files.file.iter().find(|file| file.package() == "sluice.v1").expect("sluice.v1");
    let mut text = String::new();
    for found in &STRUCTS {
        if let Some(derives) = found.derives {
            write_struct(&mut text, file, found.message, name_of(found.of), derives);
        }
    }
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("snapshot.rs"), text).expect("OUT_DIR can be written to");
}

/// Writes a struct with the fields of a message, in their order.
fn write_struct(text: &mut String, file: &FileDescriptorProto, message: &str, name: &str, derives: &str) {
    let (number, fields) = file
        .message_type
        .iter()
        .enumerate()
        .find(|(_, found)| found.name() == message)
        .map(|(number, found)| (number as i32, &found.field))
        .expect("a message");
    // The numbers of `message_type` in a file and of `field` in a message: see descriptor.proto.
    let about = comment(file, &[4, number]);
    let about = if about.is_empty() { format!("Counters and state: `{message}` of the API.") } else { about };
    let _ = write!(text, "/// {about}\n#[derive({derives})]\npub struct {name} {{\n");
    for (index, field) in
        fields.iter().enumerate().filter(|(_, field)| !OF_THE_DAEMON.contains(&field.name()))
    {
        let path = format!("{message}.{}", field.name());
        let attribute = ATTRIBUTES.iter().find(|(of, _)| *of == path).map_or("", |(_, attribute)| attribute);
        let comment = comment(file, &[4, number, 2, index as i32]);
        let ty = type_of(&path, field);
        let _ = write!(text, "    /// {comment}\n    {attribute}\n    pub {}: {ty},\n", field.name());
    }
    text.push_str("}\n");
    let numbers: Vec<_> = fields.iter().filter(|field| field.r#type() == Type::Uint64).collect();
    if numbers.len() == fields.len() {
        let sums = numbers.iter().map(|field| format!("self.{0} += other.{0};", field.name()));
        let sums: Vec<_> = sums.collect();
        let _ = writeln!(
            text,
            "impl std::ops::AddAssign for {name} {{ fn add_assign(&mut self, other: Self) {{ {} }} }}",
            sums.join(" ")
        );
    }
}

/// Returns the comment before an element of the file, in one line.
fn comment(file: &FileDescriptorProto, path: &[i32]) -> String {
    let info = file.source_code_info.as_ref().expect("comments are kept");
    let location = info.location.iter().find(|location| location.path == path);
    let comment = location.map_or("", |location| location.leading_comments());
    comment.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the type of a field.
fn type_of(path: &str, field: &FieldDescriptorProto) -> String {
    if let Some((_, ty)) = TYPES.iter().find(|(of, _)| *of == path) {
        return (*ty).to_owned();
    }
    let ty = match field.r#type() {
        Type::Bool => "bool",
        Type::Uint32 => "u32",
        Type::Uint64 => "u64",
        Type::String => "String",
        Type::Message => {
            let message = field.type_name().rsplit('.').next().unwrap_or_default();
            let of = STRUCTS.iter().find(|found| found.message == message);
            name_of(of.unwrap_or_else(|| panic!("{path}: no struct of the switch")).of)
        }
        other => panic!("{path}: {other:?} has no type of the switch"),
    };
    match field.label() {
        Label::Repeated => format!("Vec<{ty}>"),
        _ if field.proto3_optional() => format!("Option<{ty}>"),
        _ => ty.to_owned(),
    }
}

fn name_of(path: &'static str) -> &'static str {
    path.rsplit("::").next().unwrap_or(path)
}
