//! Helpers that metrics of several families use to read a snapshot.

use control::{frames, v1};

/// The priorities or queues, as labels.
pub(super) const INDEX_LABELS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];

/// Returns the indices of the priorities that any port protects. Their frames can be lost at every
/// port: where they leave, a port without PFC drops them.
pub(super) fn no_drop_priorities(ports: &[v1::Port]) -> Vec<usize> {
    let protects =
        |index: &usize| ports.iter().any(|port| port.groups.get(*index).is_some_and(|group| group.no_drop));
    (0..INDEX_LABELS.len()).filter(protects).collect()
}

/// Returns the indices of a port's priorities that have anything to report, given the no-drop ones
/// of the switch: a counter that appeared with the first loss would hide it from increase().
pub(super) fn used_priorities(port: &v1::Port, no_drop: &[usize]) -> impl Iterator<Item = usize> {
    let named = |count: &Option<v1::PfcCount>, index: usize| {
        count.as_ref().is_some_and(|count| {
            [&count.xoff_frames, &count.xon_frames]
                .iter()
                .any(|frames| frames.get(index).is_some_and(|&n| n > 0))
        })
    };
    let is_used = move |index: &usize| {
        let group = port.groups.get(*index).is_some_and(|group| {
            let seen = [group.received, group.dropped, group.storm_dropped].map(frames);
            seen.iter().any(|&frames| frames > 0)
        });
        let priority = port.priorities.get(*index);
        group
            || no_drop.contains(index)
            || priority.is_some_and(|of| of.watched || of.storms > 0 || of.no_drop_lost_frames > 0)
            || named(&port.pfc_sent, *index)
            || named(&port.pfc_received, *index)
    };
    (0..INDEX_LABELS.len()).filter(is_used)
}

/// Returns the indices of a port's queues that have anything to report, given the no-drop
/// priorities of the switch: from the start where their frames are queued.
pub(super) fn used_queues(port: &v1::Port, no_drop: &[usize]) -> impl Iterator<Item = usize> {
    let is_no_drop = |index: usize| {
        let mut priorities = no_drop.iter().filter_map(|&priority| port.priorities.get(priority));
        priorities.any(|of| of.local_precedence as usize == index)
    };
    let is_used = move |index: &usize| {
        is_no_drop(*index)
            || port.queues.get(*index).is_some_and(|queue| {
                let dropped = queue.wred_dropped.unwrap_or_default();
                let counts = [queue.transmitted, queue.dropped, queue.kernel_lost, queue.storm_dropped];
                let wred = [dropped.green, dropped.yellow, dropped.red];
                let counted = counts.iter().chain(&wred).any(|&count| frames(count) > 0);
                counted || queue.pauses > 0 || queue.level.is_some_and(|level| level.peak_cells > 0)
            })
    };
    (0..INDEX_LABELS.len()).filter(is_used)
}
