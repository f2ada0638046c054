//! The result of the run in sentences that need no knowledge of switches, each marked good or bad.

use host::units::grouped;
use std::time::Duration;

use crate::measurements::DemoResults;
use crate::text::percent;

/// One sentence of the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// True if the result is as expected.
    pub good: bool,
    /// The sentence.
    pub text: String,
}

/// Minimum part of its rate that the slow port must carry, in thousandths.
const CARRIED_AT_LEAST: u64 = 980;

/// The longest stall of the switch's loop that the headroom of the demo covers, with a reserve for
/// a simultaneous delay of a host.
const MAX_COVERED_STALL: Duration = Duration::from_millis(30);

/// Evaluates a run.
pub fn assess(outcome: &DemoResults) -> Vec<Finding> {
    let mut findings = vec![no_drop(outcome), order(outcome)];
    if outcome.pfc {
        findings.push(pauses(outcome));
    }
    findings.push(best_effort(outcome));
    findings.push(rate(outcome));
    findings.push(accounts(outcome));
    findings
}

fn no_drop(outcome: &DemoResults) -> Finding {
    let total = outcome.no_drop;
    let (lost, sent) = (grouped(total.lost()), grouped(total.sent));
    if outcome.pfc {
        let good = total.sent > 0 && total.lost() == 0 && total.dropped == 0;
        let mut text = format!("priority 3 (no-drop): {lost} of {sent} frames lost");
        if !good && outcome.worst_stall > MAX_COVERED_STALL {
            let stall_ms = outcome.worst_stall.as_millis();
            text += &format!(": this machine stalled for {stall_ms} ms, longer than headroom lasts");
        }
        return Finding { good, text };
    }
    let share = percent(total.lost(), total.sent);
    Finding {
        good: total.sent > 0 && all_counted(outcome),
        text: format!(
            "priority 3: {share} % lost ({lost} of {sent} frames): without flow control nothing protects it"
        ),
    }
}

fn order(outcome: &DemoResults) -> Finding {
    let disordered = outcome.no_drop.disordered + outcome.best_effort.disordered;
    let corrupted = outcome.no_drop.corrupted + outcome.best_effort.corrupted;
    let received = outcome.no_drop.received + outcome.best_effort.received;
    Finding {
        good: disordered == 0 && corrupted == 0 && received > 0,
        text: format!(
            "of {} frames that arrived, {} came out of order or twice, {} were damaged",
            grouped(received),
            grouped(disordered),
            grouped(corrupted)
        ),
    }
}

fn pauses(outcome: &DemoResults) -> Finding {
    let honored = match outcome.sent_while_paused {
        0 => "and they always honored them".to_string(),
        frames => format!("and yet {} frames left while paused", grouped(frames)),
    };
    Finding {
        good: outcome.pauses > 0 && outcome.xons > 0 && outcome.sent_while_paused == 0,
        text: format!(
            "the switch paused priority 3 of its hosts {} times ({:.1} s in all, both together), {honored}",
            grouped(outcome.pauses),
            outcome.paused.as_secs_f64()
        ),
    }
}

fn best_effort(outcome: &DemoResults) -> Finding {
    let total = outcome.best_effort;
    let share = percent(total.lost(), total.sent);
    let lost = grouped(total.lost());
    let account = match outcome.lost_by_kernels {
        _ if !all_counted(outcome) => {
            format!("but the switch counted {} as dropped", grouped(total.dropped))
        }
        0 => "exactly what the switch counted as dropped".to_string(),
        uncounted => format!(
            "all counted as dropped but {} that a kernel had no room for: this machine stalled too long",
            grouped(uncounted)
        ),
    };
    Finding {
        good: all_counted(outcome) && total.lost() > 0,
        text: format!("priority 0 (best effort): {share} % lost ({lost} frames in the whole run), {account}"),
    }
}

/// True if every missing frame was counted by the switch or, of any priority, by a kernel.
fn all_counted(outcome: &DemoResults) -> bool {
    let both = [outcome.no_drop, outcome.best_effort];
    let uncounted: Option<u64> = both.iter().map(|total| total.lost().checked_sub(total.dropped)).sum();
    uncounted == Some(outcome.lost_by_kernels)
}

fn rate(outcome: &DemoResults) -> Finding {
    Finding {
        good: outcome.carried_bps * 1000 >= outcome.speed_bps * CARRIED_AT_LEAST,
        text: format!(
            "the {} Mbit/s port was {} % busy all the time",
            grouped(outcome.speed_bps / 1_000_000),
            percent(outcome.carried_bps, outcome.speed_bps)
        ),
    }
}

fn accounts(outcome: &DemoResults) -> Finding {
    match &outcome.imbalance {
        None => Finding {
            good: true,
            text: "every frame is accounted for, by hosts, switch and kernel, and every buffer cell was given back"
                .to_string(),
        },
        Some(imbalance) => Finding { good: false, text: format!("the accounts do not balance: {imbalance}") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::Total;

    fn good_run() -> DemoResults {
        DemoResults {
            pfc: true,
            no_drop: Total { sent: 2_345_678, received: 2_345_678, ..Total::default() },
            best_effort: Total { sent: 1000, received: 390, dropped: 610, ..Total::default() },
            pauses: 812,
            xons: 812,
            carried_bps: 499_000_000,
            speed_bps: 500_000_000,
            ..DemoResults::default()
        }
    }

    fn is_good(outcome: &DemoResults) -> bool {
        assess(outcome).iter().all(|finding| finding.good)
    }

    #[test]
    fn a_good_run_reads_well() {
        let findings = assess(&good_run());
        assert!(findings.iter().all(|finding| finding.good), "{findings:?}");
        assert_eq!(findings[0].text, "priority 3 (no-drop): 0 of 2,345,678 frames lost");
        assert_eq!(
            findings[3].text,
            "priority 0 (best effort): 61 % lost (610 frames in the whole run), exactly what the switch counted as dropped"
        );
    }

    #[test]
    fn each_thing_that_goes_wrong_makes_it_bad() {
        let spoil: [fn(&mut DemoResults); 11] = [
            |o| o.no_drop.received -= 1,
            |o| o.no_drop = Total::default(),
            |o| o.no_drop.dropped = 1,
            |o| o.no_drop.disordered = 1,
            |o| o.best_effort.corrupted = 1,
            |o| o.best_effort.dropped -= 1,
            |o| o.pauses = 0,
            |o| o.xons = 0,
            |o| o.sent_while_paused = 1,
            |o| o.carried_bps = 480_000_000,
            |o| o.imbalance = Some("one frame".to_string()),
        ];
        for (number, spoil) in spoil.iter().enumerate() {
            let mut outcome = good_run();
            spoil(&mut outcome);
            assert!(!is_good(&outcome), "number {number}: {outcome:?}");
        }
    }

    #[test]
    fn a_machine_that_stalled_is_named() {
        let mut outcome = DemoResults { worst_stall: Duration::from_millis(83), ..good_run() };
        assert!(is_good(&outcome));
        outcome.no_drop.received -= 1;
        assert_eq!(
            assess(&outcome)[0].text,
            "priority 3 (no-drop): 1 of 2,345,678 frames lost: this machine stalled for 83 ms, longer than headroom \
             lasts"
        );
    }

    #[test]
    fn kernel_losses_are_reported() {
        let mut outcome = good_run();
        outcome.best_effort.dropped = 600;
        outcome.lost_by_kernels = 10;
        assert!(is_good(&outcome));
        assert_eq!(
            assess(&outcome)[3].text,
            "priority 0 (best effort): 61 % lost (610 frames in the whole run), all counted as dropped but 10 that a kernel had no room \
             for: this machine stalled too long"
        );
        outcome.lost_by_kernels = 11;
        assert!(!is_good(&outcome));
    }

    #[test]
    fn without_pfc_losses_are_expected_but_must_be_counted() {
        let mut outcome = DemoResults { pfc: false, pauses: 0, xons: 0, ..good_run() };
        outcome.no_drop = Total { sent: 100, received: 40, dropped: 60, ..Total::default() };
        assert!(is_good(&outcome), "{:?}", assess(&outcome));
        outcome.no_drop.dropped = 59;
        assert!(!is_good(&outcome));
    }
}
