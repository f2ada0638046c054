//! Compiles the control API with a pure-Rust protobuf compiler, so that `protoc` need not be
//! installed. Also generates code for the messages that correspond to structs of `switch`: the
//! conversion, field by field of the same name, and the list of all fields with their comments. So
//! a counter is named only in its struct and in the proto file, and a field that only one of them
//! has does not compile.

use std::fmt::Write;
use std::path::Path;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};

/// The messages, and the structs that they are converted from.
const STRUCTS: [(&str, &str); 13] = [
    ("Snapshot", "Snapshot"),
    ("RemovedPorts", "monitor::counters::RemovedPorts"),
    ("Port", "monitor::counters::PortSnapshot"),
    ("Group", "monitor::counters::GroupSnapshot"),
    ("Queue", "monitor::counters::QueueSnapshot"),
    ("Pool", "monitor::counters::PoolSnapshot"),
    ("Level", "Occupancy"),
    ("Count", "monitor::counters::FrameCount"),
    ("PfcCount", "monitor::counters::PfcCount"),
    ("Storm", "monitor::counters::StormSnapshot"),
    ("StormTraffic", "monitor::counters::StormTraffic"),
    ("Priority", "monitor::counters::PrioritySnapshot"),
    ("Kernel", "KernelCounters"),
];

/// Fields that the daemon fills in, because the switch knows nothing of the interface below.
const OF_THE_DAEMON: [&str; 14] = [
    "pfc_enabled",
    "log_lines_lost",
    "log_lines_left_out",
    "recordings_kept",
    "recordings_kept_bytes",
    "recordings_frozen",
    "recordings_not_kept",
    "loops",
    "interface",
    "xdp_mode",
    "vlan_tags_restored",
    "mtu_bytes",
    "link",
    "classification",
];

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
    let files = protox::compile([proto], ["../../proto"]).expect("control.proto compiles");

    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let write = |name: &str, text: String| {
        std::fs::write(Path::new(&out).join(name), text).expect("OUT_DIR can be written to");
    };
    let file = files.file.iter().find(|file| file.package() == "sluice.v1").expect("sluice.v1");
    let conversions = STRUCTS.iter().map(|names| conversion(file, names));
    write("from_switch.rs", conversions.chain([conversion_back(file, "Kernel", "KernelCounters")]).collect());
    write("fields.rs", fields(file));

    let mut builder = tonic_prost_build::configure().btree_map(".");
    for message in &file.message_type {
        let path = format!(".sluice.v1.{}", message.name());
        builder = builder.type_attribute(path, "#[derive(serde::Serialize)]");
    }
    for row in ROWS {
        builder = builder.field_attribute(format!(".sluice.v1.{row}"), "#[serde(skip)]");
    }
    builder.compile_fds(files).expect("control.proto generates");
}

/// Generates `impl From<&struct> for message`. The pattern names every field of the message, and
/// the compiler requires all fields of the struct.
fn conversion(file: &FileDescriptorProto, (message, of): &(&str, &str)) -> String {
    let message = file.message_type.iter().find(|found| found.name() == *message).expect("a message");
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
    let info = file.source_code_info.as_ref().expect("comments are kept");
    let comment = |message: usize, field: usize| {
        // The numbers of `message_type` in a file and of `field` in a message: see
        // descriptor.proto.
        let path = [4, message as i32, 2, field as i32];
        let location = info.location.iter().find(|location| location.path == path);
        location
            .map_or("", |location| location.leading_comments())
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut table = String::from("&[\n");
    for (number, message) in file.message_type.iter().enumerate().filter(|(_, message)| is_counted(message)) {
        for (place, field) in message.field.iter().enumerate() {
            let of = field.type_name().rsplit('.').next().unwrap_or_default();
            let comment = comment(number, place);
            writeln!(table, "    ({:?}, {:?}, {of:?}, {comment:?}),", message.name(), field.name())
                .expect("a string takes all");
        }
    }
    table + "]\n"
}

/// Returns true if the message is part of a snapshot.
fn is_counted(message: &DescriptorProto) -> bool {
    let others = ["ByDropLevel", "Link", "Caution", "Classification"];
    STRUCTS.iter().any(|(name, _)| *name == message.name()) || others.contains(&message.name())
}
