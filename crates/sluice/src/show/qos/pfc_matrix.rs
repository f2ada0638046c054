//! `sluice show pfc --style sonic`: PFC frames by port and priority, as SONiC's `show pfc counters`
//! and Inspur's "show interface priority-flow-control priority statistic" (Inspur ECN and PFC white
//! paper, 6-8) lay them out: those received, then those sent. A frame counts for each priority that
//! it pauses or releases.

use control::v1::{PfcCount, Port, Snapshot};

use crate::show::format::{self, earlier, elapsed_ns, grouped, per_second};

/// Formats the two matrices; with an earlier snapshot, frames a second.
pub fn table(now: &Snapshot, before: Option<&Snapshot>) -> String {
    let received = matrix("Port Rx", now, before, |port| &port.pfc_received);
    format!("{received}\n\n{}", matrix("Port Tx", now, before, |port| &port.pfc_sent))
}

fn matrix(
    heading: &str,
    now: &Snapshot,
    before: Option<&Snapshot>,
    of: fn(&Port) -> &Option<PfcCount>,
) -> String {
    let elapsed = elapsed_ns(now, before);
    let names: Vec<String> = (0..8).map(|priority| format!("PFC{priority}")).collect();
    let headings: Vec<&str> = std::iter::once(heading).chain(names.iter().map(String::as_str)).collect();
    let mut table = format::table(&headings, 1);
    for port in &now.ports {
        let before = earlier(before, &port.name);
        let cells = (0..8).map(|priority| {
            let now = frames(of(port), priority);
            let before = before.map_or(0, |port| frames(of(port), priority));
            grouped(per_second(now, before, elapsed).unwrap_or(now))
        });
        table.add_row(std::iter::once(port.name.clone()).chain(cells));
    }
    table.trim_fmt()
}

fn frames(count: &Option<PfcCount>, priority: usize) -> u64 {
    let Some(count) = count else { return 0 };
    let of = |list: &[u64]| list.get(priority).copied().unwrap_or(0);
    of(&count.xoff_frames) + of(&count.xon_frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;

    #[test]
    fn frames_by_port_and_priority() {
        insta::assert_snapshot!(table(&sample::snapshot(), None));
    }
}
