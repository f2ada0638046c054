//! `sluice show congestion`: forwarded, marked and dropped frames of each queue, by reason; for
//! several queues of a port also the sum.

use control::v1::{ByDropLevel, Count, Port, Queue, Snapshot};

use crate::show::format::{self, earlier, elapsed_ns, frames, grouped, rate, volume, volume_unit};

/// Formats the queues that ever had frames. With an earlier snapshot, shows rates instead of MB.
pub fn table(now: &Snapshot, before: Option<&Snapshot>) -> String {
    let elapsed_ns = elapsed_ns(now, before);
    let sent_frames = if elapsed_ns == 0 { "Sent\nframes" } else { "Sent\nframes/s" };
    let mut table = format::table(
        &[
            "Port",
            "Queue",
            "Waiting\nframes",
            "Average\ncells",
            sent_frames,
            &format!("Sent\n{}", volume_unit(elapsed_ns)),
            "ECN\nmarked",
            "Tail\ndropped",
            "WRED dropped\ngreen",
            "\nyellow",
            "\nred",
        ],
        2,
    );
    for port in &now.ports {
        let earlier = earlier(before, &port.name);
        let used = || port.queues.iter().enumerate().filter(|(_, queue)| was_used(queue));
        let queues = used().map(|(number, queue)| {
            let before = earlier.and_then(|port| port.queues.get(number)?.transmitted);
            (number.to_string(), *queue, before)
        });
        let all = (used().count() > 1)
            .then(|| ("all".to_owned(), sum(port), earlier.and_then(|port| sum(port).transmitted)));
        for (name, queue, before) in queues.chain(all) {
            let wred = queue.wred_dropped.unwrap_or_default();
            table.add_row([
                port.name.clone(),
                name,
                grouped(queue.waiting_frames),
                queue.average_cells.map_or("–".to_owned(), |cells| grouped(cells.into())),
                rate(queue.transmitted, before, elapsed_ns),
                volume(queue.transmitted, before, elapsed_ns),
                frames(queue.marked),
                frames(queue.dropped),
                frames(wred.green),
                frames(wred.yellow),
                frames(wred.red),
            ]);
        }
    }
    if table.is_empty() { "No queue has seen a frame yet.".to_owned() } else { table.trim_fmt() }
}

/// Sums the columns of this table over all queues of a port. An average of averages would be
/// meaningless.
fn sum(port: &Port) -> Queue {
    let count = |of: fn(&Queue) -> Option<Count>| {
        let counts = port.queues.iter().filter_map(of);
        Some(counts.fold(Count::default(), |sum, count| Count {
            frames: sum.frames + count.frames,
            bytes: sum.bytes + count.bytes,
        }))
    };
    Queue {
        waiting_frames: port.queues.iter().map(|queue| queue.waiting_frames).sum(),
        transmitted: count(|queue| queue.transmitted),
        marked: count(|queue| queue.marked),
        dropped: count(|queue| queue.dropped),
        wred_dropped: Some(ByDropLevel {
            green: count(|queue| queue.wred_dropped?.green),
            yellow: count(|queue| queue.wred_dropped?.yellow),
            red: count(|queue| queue.wred_dropped?.red),
        }),
        ..Queue::default()
    }
}

fn was_used(queue: &Queue) -> bool {
    let wred = queue.wred_dropped.unwrap_or_default();
    let counts = [queue.transmitted, queue.dropped, wred.green, wred.yellow, wred.red];
    queue.waiting_frames > 0 || counts.iter().any(|count| count.unwrap_or_default().frames > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;

    #[test]
    fn table_of_totals() {
        insta::assert_snapshot!(table(&sample::snapshot(), None));
    }

    #[test]
    fn table_of_rates() {
        insta::assert_snapshot!(table(&sample::later(), Some(&sample::snapshot())));
    }

    #[test]
    fn table_of_nothing() {
        assert_eq!(table(&Snapshot::default(), None), "No queue has seen a frame yet.");
    }
}
