//! The parts of a run as one network again, for its results: every node, link direction and flow
//! comes from the part that it belongs to.

use crate::simulation::{NodeIndex, Simulation};
use crate::time::Picos;

/// Joins parts at the end of a run.
pub(super) fn join<'s>(mut parts: Vec<Simulation<'s>>, part_of: &[usize], end: Picos) -> Simulation<'s> {
    parts.iter_mut().filter_map(|part| part.links.latency.as_mut()).for_each(|log| log.end_window());
    let latest = parts.iter().map(|part| part.links.now).max().unwrap_or(end);
    let mut parts = parts.into_iter().enumerate();
    let (_, mut whole) = parts.next().expect("a partition has at least one part");
    for (number, mut part) in parts {
        absorb(&mut whole, &mut part, &|node| part_of[node] == number);
    }
    whole.links.now = if whole.is_without_memory() { latest } else { end };
    whole
}

fn absorb(whole: &mut Simulation, part: &mut Simulation, is_theirs: &dyn Fn(usize) -> bool) {
    for (node, index) in whole.node_indices.iter().enumerate().filter(|(node, _)| is_theirs(*node)) {
        debug_assert!(part.parts.owns(node));
        match *index {
            NodeIndex::Switch(device) => {
                std::mem::swap(&mut whole.devices[device], &mut part.devices[device]);
                whole.devices[device].move_frames(&part.links.frames, &mut whole.links.frames);
                whole.baseline.take_switch(&mut part.baseline, device);
            }
            NodeIndex::Host(host) => {
                std::mem::swap(&mut whole.hosts[host], &mut part.hosts[host]);
                whole.baseline.take_host(&mut part.baseline, host);
            }
        }
    }
    for line in 0..whole.links.directions.len() {
        let [from, to] = [whole.links.directions[line].from, whole.links.directions[line].to];
        // A part has lost only what it held.
        whole.links.directions[line].counts.cut += part.links.directions[line].counts.cut;
        if is_theirs(from.node) {
            whole.links.take_sender(line, &part.links);
            whole.baseline.take_direction(&mut part.baseline, line);
        }
        if is_theirs(to.node) {
            whole.links.take_receiver(line, &mut part.links);
        }
    }
    for (flow, other) in whole.flows.iter_mut().zip(&mut part.flows) {
        if is_theirs(flow.headers.from) {
            std::mem::swap(&mut flow.sender, &mut other.sender);
        }
        if is_theirs(flow.headers.to) {
            std::mem::swap(&mut flow.receiver, &mut other.receiver);
        }
    }
    whole.links.frames.absorb_refusal(&part.links.frames);
    let directions = &whole.links.directions;
    for (end, other) in whole.negotiation.ends.iter_mut().zip(&mut part.negotiation.ends) {
        if is_theirs(directions[end.line].from.node) {
            std::mem::swap(end, other);
        }
    }
    whole.record.absorb(&mut part.record, &|line| is_theirs(directions[line].to.node));
    if let (Some(log), Some(theirs)) = (&mut whole.links.latency, &part.links.latency) {
        log.absorb(theirs);
    }
    // Each part has counted the events of the whole network.
    whole.events += part.events - part.global_events;
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use crate::packet::frame_store::FrameStore;
    use crate::parts::Partition;
    use crate::scenario::parse;

    /// Results are invalid as a whole if one part had no memory left.
    #[test]
    fn a_part_without_memory_makes_the_whole_invalid() {
        let text = "duration = \"1us\"\n[network]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 1\n\
            hosts_per_leaf = 1\n[[traffic]]\nname = \"t\"\nfrom = \"h1\"\nto = \"h2\"\n";
        let scenario = parse("x.toml", text, &mut |file| Err(file.to_owned())).expect("a scenario");
        let partition = Partition::new(&scenario, 2);
        assert_eq!(partition.count(), 2);
        for without in [None, Some(0), Some(1)] {
            let parts = (0..2).map(|number| {
                let mut part = partition.part(number);
                let refused = FrameStore::without_memory();
                part.0.links.frames = if without == Some(number) { refused } else { Box::default() };
                part
            });
            let whole = partition.join(parts.collect());
            assert_eq!(whole.is_without_memory(), without.is_some(), "{without:?}");
        }
    }

    /// A refusal is known without a switch, too, and no switch is named that holds little.
    #[test]
    fn a_cable_without_memory_makes_the_run_invalid() {
        let text = "duration = \"1us\"\n[host.\"h[1-2]\"]\n[[link]]\nends = [\"h1\", \"h2\"]\nspeed = \"100G\"\n\
            [[traffic]]\nname = \"t\"\nfrom = \"h1\"\nto = \"h2\"\n";
        let scenario = parse("x.toml", text, &mut |file| Err(file.to_owned())).expect("a scenario");
        let mut run = Simulation::new(&scenario);
        assert!(!run.is_without_memory());
        run.links.frames = FrameStore::without_memory();
        assert!(run.is_without_memory());
        assert_eq!(run.largest_holder(), None);
    }
}
