//! `sluice show profiles`: the queue profiles, WRED tables and buffer profiles, and what they are
//! bound to: Inspur's "show qos queue-profile", "show qos buffer-profile" and "show interface
//! service-policy" (Inspur ECN and PFC white paper, 6-1 to 6-4, 6-6, 6-9); H3C's "display qos wred
//! table". Conformance rows 346, 347, 349 and 352.

use control::v1::{BufferProfile, Configuration, QueueProfile, QueueProfileColor, WredTable};
use schemars::JsonSchema;
use serde::Serialize;

use crate::show::format::{self, grouped};

/// The profiles and bindings in JSON.
#[derive(Serialize, JsonSchema)]
pub struct Document<'a> {
    cell_bytes: u32,
    queue_profiles: &'a [QueueProfile],
    wred_tables: &'a [WredTable],
    buffer_profiles: &'a [BufferProfile],
    bindings: Vec<ProfileBinding<'a>>,
}

/// What of a port a profile is bound to.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct ProfileBinding<'a> {
    port: &'a str,
    /// A word: queue, ingress, egress, or wred for a WRED table.
    kind: &'static str,
    /// Priorities of an ingress profile, queues of the others: all of a WRED table.
    numbers: Vec<usize>,
    profile: &'a str,
}

/// Returns the JSON.
pub fn document(configuration: &Configuration) -> Document<'_> {
    Document {
        cell_bytes: configuration.cell_bytes,
        queue_profiles: &configuration.queue_profiles,
        wred_tables: &configuration.wred_tables,
        buffer_profiles: &configuration.buffer_profiles,
        bindings: bindings(configuration),
    }
}

/// Returns the bindings, those of a port to the same profile together.
fn bindings(configuration: &Configuration) -> Vec<ProfileBinding<'_>> {
    let mut found: Vec<ProfileBinding> = Vec::new();
    for port in &configuration.ports {
        let queues = port.queues.iter().map(|queue| ("queue", queue.queue_profile.as_deref()));
        let ingress = port.priorities.iter().map(|priority| ("ingress", priority.profile.as_deref()));
        let egress = port.queues.iter().map(|queue| ("egress", queue.profile.as_deref()));
        let all = queues.enumerate().chain(ingress.enumerate()).chain(egress.enumerate());
        for (number, (kind, profile)) in all {
            let Some(profile) = profile else { continue };
            let port = port.name.as_str();
            match found.iter_mut().find(|it| (it.port, it.kind, it.profile) == (port, kind, profile)) {
                Some(binding) => binding.numbers.push(number),
                None => found.push(ProfileBinding { port, kind, numbers: vec![number], profile }),
            }
        }
        if let Some(profile) = port.wred_table.as_deref() {
            let (port, numbers) = (port.name.as_str(), (0..port.queues.len()).collect());
            found.push(ProfileBinding { port, kind: "wred", numbers, profile });
        }
    }
    found
}

/// Formats the profiles and their bindings; sizes in bytes.
pub fn text(configuration: &Configuration) -> String {
    let bytes = |cells: u32| grouped(u64::from(cells) * u64::from(configuration.cell_bytes));
    let mut parts: Vec<String> =
        configuration.queue_profiles.iter().map(|profile| queue_profile(profile, &bytes)).collect();
    parts.extend(configuration.wred_tables.iter().map(|table| wred_table(table, &bytes)));
    parts.push(buffer_profiles(configuration, &bytes));
    parts.push(format!("Sizes are whole cells of {} bytes.", configuration.cell_bytes));
    let bindings = bindings(configuration);
    if bindings.is_empty() {
        parts.push("No profile is bound to a port.".to_owned());
    } else {
        let mut table = format::table(&["Port", "Profile", "Of", "Priorities or queues"], 4);
        for ProfileBinding { port, kind, numbers, profile } in bindings {
            let of = match kind {
                "queue" => "queue".to_owned(),
                "wred" => "WRED table".to_owned(),
                _ => format!("buffer, {kind}"),
            };
            let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
            let numbers = if kind == "wred" { "all".to_owned() } else { numbers.join(",") };
            table.add_row([port.to_owned(), profile.to_owned(), of, numbers]);
        }
        parts.push(table.trim_fmt());
    }
    parts.join("\n\n")
}

fn queue_profile(profile: &QueueProfile, bytes: &impl Fn(u32) -> String) -> String {
    let from = if profile.built_in { " (there by default)" } else { "" };
    let head = format!("Queue profile {}{from}, action {}", profile.name, profile.action);
    if profile.colors.is_empty() {
        return head;
    }
    let headings = ["Color", "Min-threshold\nbytes", "Max-threshold\nbytes", "Probability\n%"];
    let mut table = format::table(&headings, 1);
    for color in &profile.colors {
        table.add_row([
            color.color.clone(),
            bytes(color.min_threshold_cells),
            bytes(color.max_threshold_cells),
            color.probability_percent.to_string(),
        ]);
    }
    format!("{head}\n{}", table.trim_fmt())
}

/// Formats a WRED table; colors with the same curve are one row.
fn wred_table(table: &WredTable, bytes: &impl Fn(u32) -> String) -> String {
    let headings = ["Queue", "Action", "Color", "Exponent", "Low\nbytes", "High\nbytes", "Probability\n%"];
    let mut rows = format::table(&headings, 3);
    for queue in &table.queues {
        let action = match (queue.ecn, queue.mark.as_str(), queue.drop_not_ect) {
            (false, ..) => "wred".to_owned(),
            (true, mark, drops) => format!("ecn at {mark}{}", if drops { ", drops not-ECT" } else { "" }),
        };
        let curve = |color: &QueueProfileColor| {
            (color.min_threshold_cells, color.max_threshold_cells, color.probability_percent)
        };
        for same in queue.colors.chunk_by(|a, b| curve(a) == curve(b)) {
            let names: Vec<&str> = same.iter().map(|color| color.color.as_str()).collect();
            let (low, high, percent) = curve(&same[0]);
            rows.add_row([
                queue.queue.to_string(),
                action.clone(),
                if names.len() == 3 { "all".to_owned() } else { names.join(", ") },
                queue.weighting_exponent.to_string(),
                bytes(low),
                bytes(high),
                percent.to_string(),
            ]);
        }
    }
    let head = format!("WRED table {}; other queues have the defaults of WRED", table.name);
    if rows.is_empty() { head } else { format!("{head}\n{}", rows.trim_fmt()) }
}

fn buffer_profiles(configuration: &Configuration, bytes: &impl Fn(u32) -> String) -> String {
    let headings = [
        "Buffer profile",
        "Of",
        "Mode",
        "Reserved\nbytes",
        "Shared bytes,\nalpha: 2^n",
        "xoff\nbytes",
        "xon\nbytes",
        "xon_offset\nbytes",
    ];
    let mut table = format::table(&headings, 3);
    for profile in &configuration.buffer_profiles {
        let or_none = |cells: Option<u32>| cells.map_or("–".to_owned(), bytes);
        let shared = profile.dynamic_th.map_or_else(|| or_none(profile.shared_cells), |n| n.to_string());
        table.add_row([
            profile.name.clone(),
            profile.direction.clone(),
            profile.mode.clone(),
            bytes(profile.reserved_cells),
            shared,
            or_none(profile.xoff_cells),
            or_none(profile.xon_cells),
            or_none(profile.xon_offset_cells),
        ]);
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::super::configuration_sample as sample;
    use super::*;

    /// Rows 346, 347, 349 and 352.
    #[test]
    fn profiles_and_their_bindings() {
        insta::assert_snapshot!(text(&sample()));
        let json = serde_json::to_value(document(&sample())).unwrap();
        assert_eq!(json["bindings"][0]["numbers"], serde_json::json!([3, 4]));
    }
}
