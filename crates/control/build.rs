//! Compiles the control API with a pure-Rust protobuf compiler, so that `protoc` need not be
//! installed. Also generates code for the messages that correspond to structs of `switch`: the
//! conversion, field by field of the same name, the list of all fields with their comments, and
//! access to numbers by name. `switch` generates the structs from the same file.

use std::fmt::Write;
use std::path::Path;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};

#[path = "../switch/build/structs.rs"]
mod structs;

use structs::{OF_THE_DAEMON, STRUCTS};

/// Lists that are rows of `sluice show --json`, instead of one list inside the other.
const ROWS: [&str; 9] = [
    "Snapshot.ports",
    "Snapshot.removed_ports",
    "Snapshot.ingress_pools",
    "Snapshot.egress_pools",
    "Snapshot.headroom",
    "Port.groups",
    "Port.storms",
    "Port.priorities",
    "Port.queues",
];

fn main() {
    let proto = "../../proto/sluice/v1/control.proto";
    println!("cargo::rerun-if-changed={proto}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../switch/build/structs.rs");
    let files = protox::compile([proto], ["../../proto"]).expect("control.proto compiles");

    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let write = |name: &str, text: String| {
        std::fs::write(Path::new(&out).join(name), text).expect("OUT_DIR can be written to");
    };
    let file = files.file.iter().find(|file| file.package() == "sluice.v1").expect("sluice.v1");
    let conversions = STRUCTS.iter().map(|found| conversion(file, found.message, found.of));
    write("from_switch.rs", conversions.chain([conversion_back(file, "Kernel", "KernelCounters")]).collect());
    write("fields.rs", fields(file));
    write("numbers.rs", numbers(file));
    write("numbered.rs", numbered(file));
    write("subtract.rs", subtract(file));

    let mut builder = tonic_prost_build::configure().btree_map(".");
    for message in &file.message_type {
        let path = format!(".sluice.v1.{}", message.name());
        builder = builder.type_attribute(path, "#[derive(serde::Serialize, schemars::JsonSchema)]");
    }
    for row in ROWS {
        builder = builder.field_attribute(format!(".sluice.v1.{row}"), "#[serde(skip)]");
    }
    builder.compile_fds(files).expect("control.proto generates");
}

/// Generates `impl From<&struct> for message`. The pattern names every field of the message, and
/// the compiler requires all fields of the struct.
fn conversion(file: &FileDescriptorProto, message: &str, of: &str) -> String {
    let message = file.message_type.iter().find(|found| found.name() == message).expect("a message");
    let reported = || message.field.iter().filter(|field| !OF_THE_DAEMON.contains(&field.name()));
    let names: String = reported().map(|field| format!("{}, ", field.name())).collect();
    let values: String = reported().map(|field| format!("{}: {}, ", field.name(), value(field))).collect();
    // Only a message with fields of the daemon has further fields to fill in.
    let rest = if reported().count() == message.field.len() { "" } else { "..Self::default()" };
    format!(
        "impl From<&switch::{of}> for {name} {{\n\
         \x20   fn from(from: &switch::{of}) -> Self {{\n\
         \x20       let switch::{of} {{ {names}}} = from;\n\
         \x20       Self {{ {values}{rest} }}\n\
         \x20   }}\n\
         }}\n",
        name = message.name()
    )
}

/// Generates `impl From<&message> for struct`, of a message that has numbers only.
fn conversion_back(file: &FileDescriptorProto, message: &str, of: &str) -> String {
    let message = file.message_type.iter().find(|found| found.name() == message).expect("a message");
    let values: String = message.field.iter().map(|field| format!("{0}: from.{0}, ", field.name())).collect();
    format!(
        "impl From<&{name}> for switch::{of} {{ fn from(from: &{name}) -> Self {{ Self {{ {values}}} }} }}\n",
        name = message.name()
    )
}

/// Generates the value of a message's field from the reference to the struct's field.
fn value(field: &FieldDescriptorProto) -> String {
    let name = field.name();
    match (field.label(), field.r#type()) {
        _ if field.type_name().ends_with("Entry") => format!("super::by_reason({name})"),
        (Label::Repeated, Type::Message) => format!("{name}.iter().map(Into::into).collect()"),
        (Label::Repeated, _) => format!("{name}.to_vec()"),
        (_, Type::Message) => format!("Some({name}.into())"),
        (_, Type::String) => format!("{name}.clone()"),
        _ => format!("(*{name}).into()"),
    }
}

/// Generates a table of all fields in these messages, with their comments in the proto file.
fn fields(file: &FileDescriptorProto) -> String {
    let mut table = String::from("&[\n");
    for message in file.message_type.iter().filter(|message| is_counted(message)) {
        for field in &message.field {
            let of = field.type_name().rsplit('.').next().unwrap_or_default();
            let comment = comment(file, message, field);
            writeln!(table, "    ({:?}, {:?}, {of:?}, {comment:?}),", message.name(), field.name())
                .expect("a string takes all");
        }
    }
    table + "]\n"
}

/// Returns the comment of a field, in one line.
fn comment(file: &FileDescriptorProto, message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let info = file.source_code_info.as_ref().expect("comments are kept");
    let message_at = file.message_type.iter().position(|found| found.name() == message.name());
    let field_at = message.field.iter().position(|found| found.name() == field.name());
    // The numbers of `message_type` in a file and of `field` in a message: see descriptor.proto.
    let path = [4, message_at.unwrap_or(0) as i32, 2, field_at.unwrap_or(0) as i32];
    let location = info.location.iter().find(|location| location.path == path);
    let comment = location.map_or("", |location| location.leading_comments());
    comment.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Generates `impl Numbers` for each message of a snapshot: access to its numbers by path, and the
/// list of them.
fn numbers(file: &FileDescriptorProto) -> String {
    let mut text = String::new();
    for message in file.message_type.iter().filter(|message| has_numbers(message.name())) {
        let mut arms = String::new();
        for field in message.field.iter().filter(|field| field.label() != Label::Repeated) {
            let name = field.name();
            let of = field.type_name().rsplit('.').next().unwrap_or_default();
            let value = match field.r#type() {
                Type::Message if of == "Count" => format!("self.{name}.unwrap_or_default().number(rest)"),
                Type::Message if has_numbers(of) => format!("self.{name}.as_ref()?.number(rest)"),
                Type::Bool | Type::Uint32 | Type::Uint64 if field.proto3_optional() => {
                    format!("self.{name}.map(u64::from)")
                }
                Type::Bool | Type::Uint32 | Type::Uint64 => format!("Some(u64::from(self.{name}))"),
                _ => continue,
            };
            writeln!(arms, "            {name:?} => {value},").expect("a string takes all");
        }
        let list: String = paths(file, message).iter().map(|number| format!("        {number},\n")).collect();
        writeln!(
            text,
            "#[allow(clippy::useless_conversion, reason = \"generated: not all numbers are narrower\")]\n\
             impl Numbers for crate::v1::{0} {{\n    const MESSAGE: &'static str = {0:?};\n    const NUMBERS: &'static [Number] = &[\n{list}    ];\n\
             \x20   fn number(&self, path: &str) -> Option<u64> {{\n\
             \x20       #[allow(unused_variables, reason = \"generated: some have no parts\")]\n\
             \x20       let (first, rest) = path.split_once('.').unwrap_or((path, \"\"));\n\
             \x20       match first {{\n{arms}            _ => None,\n        }}\n    }}\n}}",
            message.name()
        )
        .expect("a string takes all");
    }
    text
}

/// Generates, for each message of a snapshot, a value in which every number differs, for tests.
fn numbered(file: &FileDescriptorProto) -> String {
    let mut text = String::new();
    for message in file.message_type.iter().filter(|message| is_counted(message) || message.name() == "Loop")
    {
        let mut fields = String::new();
        for field in &message.field {
            let of = field.type_name().rsplit('.').next().unwrap_or_default();
            let value = match (field.label(), field.r#type()) {
                _ if of.ends_with("Entry") => "super::all_reasons(next)".to_owned(),
                (Label::Repeated, Type::Message) => {
                    format!("(0..2).map(|_| crate::v1::{of}::numbered(next)).collect()")
                }
                (Label::Repeated, Type::String) => "vec![super::next::<u64>(next).to_string()]".to_owned(),
                (Label::Repeated, _) => "(0..8).map(|_| super::next(next)).collect()".to_owned(),
                (_, Type::Message) => format!("Some(crate::v1::{of}::numbered(next))"),
                (_, Type::Bool) if field.proto3_optional() => "Some(true)".to_owned(),
                (_, Type::Bool) => "true".to_owned(),
                (_, Type::String) if field.proto3_optional() => {
                    format!("Some(format!(\"{}-{{}}\", super::next::<u64>(next)))", field.name())
                }
                (_, Type::String) => format!("format!(\"{}-{{}}\", super::next::<u64>(next))", field.name()),
                _ if field.proto3_optional() => "Some(super::next(next))".to_owned(),
                _ => "super::next(next)".to_owned(),
            };
            write!(fields, "{}: {value}, ", field.name()).expect("a string takes all");
        }
        writeln!(
            text,
            "impl crate::v1::{} {{\n    /// Returns a value in which every number differs, from `next` on. For tests.\n\
             \x20   pub fn numbered(next: &mut u64) -> Self {{ Self {{ {fields}}} }}\n}}",
            message.name()
        )
        .expect("a string takes all");
    }
    text
}

/// Numbers of 64 bits that are levels, times or settings: they do not count up from the start.
const LEVELS: [&str; 18] = [
    "at_ns",
    "bridge_entries",
    "memory_frames",
    "memory_free_frames",
    "memory_in_rings_frames",
    "recordings_kept",
    "recordings_kept_bytes",
    "loop_worst_stall_ns",
    "worst_stall_ns",
    "speed_bps",
    "link_speed_bps",
    "in_flight_peak_bytes",
    "waiting_frames",
    "flooded_frames",
    "received_pps",
    "sent_pps",
    "ports",
    "neighbors",
];

/// Generates, for each message of a snapshot, the subtraction of an earlier one: counters are less
/// by what they were, all else stays.
fn subtract(file: &FileDescriptorProto) -> String {
    let has_counters = |of: &str| has_numbers(of) && of != "Storm" || of == "Loop";
    let mut text = String::new();
    for message in file.message_type.iter().filter(|message| has_counters(message.name())) {
        let mut lines = String::new();
        for field in message.field.iter().filter(|field| !LEVELS.contains(&field.name()) || is_list(field)) {
            let (name, of) = (field.name(), field.type_name().rsplit('.').next().unwrap_or_default());
            let line = match (field.label(), field.r#type()) {
                _ if of.ends_with("Entry") => format!(
                    "for (key, count) in &mut self.{name} {{ if let Some(before) = earlier.{name}.get(key) \
                     {{ count.subtract(before) }} }}"
                ),
                (Label::Repeated, Type::Message) if of == "Port" => format!(
                    "for port in &mut self.{name} {{ if let Some(before) = earlier.{name}.iter().find(|before| \
                     before.name == port.name) {{ port.subtract(before) }} }}"
                ),
                (Label::Repeated, Type::Message) if has_counters(of) => format!(
                    "self.{name}.iter_mut().zip(&earlier.{name}).for_each(|(now, before)| now.subtract(before));"
                ),
                (Label::Repeated, Type::Uint64) => format!(
                    "self.{name}.iter_mut().zip(&earlier.{name}).for_each(|(now, before)| *now = \
                     now.saturating_sub(*before));"
                ),
                (Label::Repeated, _) => continue,
                (_, Type::Message) if has_counters(of) => format!(
                    "if let (Some(now), Some(before)) = (&mut self.{name}, &earlier.{name}) {{ now.subtract(before) }}"
                ),
                (_, Type::Uint64) if !field.proto3_optional() => {
                    format!("self.{name} = self.{name}.saturating_sub(earlier.{name});")
                }
                _ => continue,
            };
            writeln!(lines, "        {line}").expect("a string takes all");
        }
        writeln!(
            text,
            "impl crate::v1::{} {{\n    /// Subtracts what the counters were; levels, states and settings stay.\n\
             \x20   #[allow(unused_variables, reason = \"generated: some have no counters\")]\n\
             \x20   pub fn subtract(&mut self, earlier: &Self) {{\n{lines}    }}\n}}",
            message.name()
        )
        .expect("a string takes all");
    }
    text
}

/// Returns true for a repeated field.
fn is_list(field: &FieldDescriptorProto) -> bool {
    field.label() == Label::Repeated
}

/// Returns the numbers of a message and of its parts: path, metric, whether it only grows, comment.
fn paths(file: &FileDescriptorProto, message: &DescriptorProto) -> Vec<String> {
    let owner = match message.name() {
        "Snapshot" => "sluice".to_owned(),
        name => format!("sluice_{}", name.to_lowercase()),
    };
    let number = |path: &str, field: &FieldDescriptorProto, comment: &str| {
        let metric = format!("{owner}_{}", path.replace('.', "_"));
        let metric = metric.strip_suffix("_ns").map_or(metric.clone(), |of| format!("{of}_seconds"));
        let grows = field.r#type() == Type::Uint64 && !LEVELS.contains(&field.name());
        format!("Number {{ path: {path:?}, metric: {metric:?}, grows: {grows}, comment: {comment:?} }}")
    };
    let mut found = Vec::new();
    for field in message.field.iter().filter(|field| field.label() != Label::Repeated) {
        let about = comment(file, message, field);
        match field.r#type() {
            Type::Bool | Type::Uint32 | Type::Uint64 => found.push(number(field.name(), field, &about)),
            Type::Message => {
                let of = field.type_name().rsplit('.').next().unwrap_or_default();
                let Some(part) = file.message_type.iter().find(|part| has_numbers(of) && part.name() == of)
                else {
                    continue;
                };
                found.extend(parts(file, part).into_iter().map(|(path, part, of_part)| {
                    number(&format!("{}.{path}", field.name()), part, &format!("{about} {of_part}"))
                }));
            }
            _ => {}
        }
    }
    found
}

/// Returns the numbers in a message that is part of another: path, field, comment.
fn parts<'f>(
    file: &'f FileDescriptorProto,
    message: &'f DescriptorProto,
) -> Vec<(String, &'f FieldDescriptorProto, String)> {
    let mut found = Vec::new();
    for field in message.field.iter().filter(|field| field.label() != Label::Repeated) {
        let of = field.type_name().rsplit('.').next().unwrap_or_default();
        if let Some(part) = file.message_type.iter().find(|part| has_numbers(of) && part.name() == of) {
            let inner = parts(file, part).into_iter();
            found.extend(
                inner.map(|(path, field_of, text)| (format!("{}.{path}", field.name()), field_of, text)),
            );
        } else if matches!(field.r#type(), Type::Bool | Type::Uint32 | Type::Uint64) {
            found.push((field.name().to_owned(), field, comment(file, message, field)));
        }
    }
    found
}

/// Returns true if numbers of the message can be read by path.
fn has_numbers(message: &str) -> bool {
    ["ByDropLevel", "TelemetryDestination", "Lldp"].contains(&message)
        || STRUCTS.iter().any(|found| found.message == message)
}

/// Returns true if the message is part of a snapshot.
fn is_counted(message: &DescriptorProto) -> bool {
    let others = ["ByDropLevel", "Link", "Caution", "Classification", "Lldp", "Dcbx", "DcbxFeature"];
    STRUCTS.iter().any(|found| found.message == message.name()) || others.contains(&message.name())
}
