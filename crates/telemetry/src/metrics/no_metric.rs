//! Numbers of the proto file that are no metric, with the reasons.

use control::field_docs::Numbers;

/// Message (empty: any), number, and why it is no metric. A number that ends with a point is a
/// part with all its numbers; one that begins with a point is that number of any part.
pub(super) const REASONS: &[(&str, &str, &str)] = &[
    ("", ".bytes", "the table has a metric where the bytes are of interest"),
    ("", ".peak_clear_cells", "belongs to `sluice clear watermarks`; metrics have a peak of their own"),
    ("Snapshot", "headroom.", "has a row of its own: sluice_headroom_pool_…"),
    ("Snapshot", "loop_awake_ns", "the sum of the histogram sluice_loop_turn_seconds"),
    ("Port", "number", "the label `port` identifies it"),
    ("Port", "overhead_bytes", "a setting"),
    ("Port", "pvid", "a setting"),
    ("Port", "mtu_bytes", "a setting"),
    ("Port", "vlan_tags_restored", "a property of the interface, which does not change"),
    ("Port", "pfc_change_frames", "what refreshes, repeats and the guard leave of the PFC frames sent"),
    ("Group", "pool", "a setting"),
    ("Group", "is_dynamic", "a setting"),
    ("Group", "usage_percent", "a setting"),
    ("Queue", "pool", "a setting"),
    ("Queue", "is_dynamic", "a setting"),
    ("Queue", "usage_percent", "a setting"),
    ("Queue", "allowed_cells", "the sum of two other metrics"),
    ("Pool", "excess_cells", "excess_frames tell of the same"),
    ("Priority", "received_pps", "rate() of the frames is exact over any time"),
    ("Priority", "sent_pps", "rate() of the frames is exact over any time"),
    ("Priority", "local_precedence", "a setting"),
    ("Priority", "last_storm_traffic.", "part of the traffic of all storms"),
];

/// Returns why a number is no metric; `None` if it is one.
pub fn reason<T: Numbers>(path: &str) -> Option<&'static str> {
    let found = REASONS
        .iter()
        .find(|(message, of, _)| (message.is_empty() || *message == T::MESSAGE) && is_of(path, of));
    found.map(|&(_, _, reason)| reason)
}

/// Returns true if a row for `of` is about this number.
pub(super) fn is_of(path: &str, of: &str) -> bool {
    match (of.starts_with('.'), of.ends_with('.')) {
        (true, _) => path.ends_with(of),
        (false, true) => path.starts_with(of),
        (false, false) => path == of,
    }
}
