//! `sluice show` against a running daemon: what a person and a script read is what the switch counted.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use testbed::{Bed, port};
use tests::{AMPLE_HEADROOM_CELLS, flow, frames, group_config, port_config, run, sluice, switch_config};

/// Every number in a JSON value.
fn numbers(value: &Value, found: &mut Vec<u64>) {
    match value {
        Value::Number(number) => found.extend(number.as_u64()),
        Value::Array(values) => values.iter().for_each(|value| numbers(value, found)),
        Value::Object(fields) => fields.values().for_each(|value| numbers(value, found)),
        _ => {}
    }
}

#[test]
fn show_says_what_the_switch_counted() -> Result<()> {
    let bed = Bed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.quiet_host(&switch, "a")?, bed.quiet_host(&switch, "b")?);
    let config = switch_config("on")
        + &port_config("a", "1G")
        + &group_config("a", AMPLE_HEADROOM_CELLS)
        + &port_config("b", "100M");
    let daemon = bed.daemon(&switch, &config)?;
    let receiver = bed.host(&b, &[], &["--speed", "100M", "--no-drop", "3"])?;
    let flows = [flow(&b.mac(), 3, "200M")];
    let sender = bed.host(&a, &flows, &["--speed", "1G", "--no-drop", "3", "--duration", "2s"])?;
    let run = run(&[&daemon], vec![sender], vec![receiver], Duration::from_secs(2))?;
    let (at_a, at_b) = (port(&run.snapshot, "a")?, port(&run.snapshot, "b")?);
    let sent = at_a.pfc_sent.clone().unwrap_or_default();
    assert!(sent.xoff_frames[3] > 0);
    let group = &at_a.groups[3];
    for (what, expected) in [
        ("ports", vec![frames(at_a.received), frames(at_b.transmitted)]),
        ("queues", vec![frames(at_b.queues[3].transmitted)]),
        ("buffers", vec![group.shared.unwrap_or_default().peak_cells.into()]),
        ("pfc", vec![sent.xoff_frames[3], sent.xon_frames[3]]),
    ] {
        let json: Value = serde_json::from_str(&sluice(&daemon, &["show", what, "--json"])?).context(what)?;
        let mut found = Vec::new();
        numbers(&json, &mut found);
        for number in expected {
            assert!(found.contains(&number), "show {what} --json has {number}: {json:#}");
        }
        let table = sluice(&daemon, &["show", what])?;
        assert!(table.contains('a') && table.lines().count() > 2, "{table}");
        println!("sluice show {what}\n{table}");
    }
    daemon.stop()?;
    Ok(())
}
