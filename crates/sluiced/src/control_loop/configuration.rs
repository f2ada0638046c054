//! Describes the configuration that runs, for clients: the file as it was read, the settings in
//! force, what they have beyond the file, and how the file differs now.

use config::{BufferProfile, Config, IngressThresholds, QueueProfile, WredTable};
use control::v1;
use switch::PortSettings;
use switch::settings::{
    ClassifySettings, EarlyWarningSettings, EcnMarkPoint, GroupSettings, PfcWdAction, Restoration, Threshold,
    Trust, WatchdogSettings, WredProfile, WredSettings,
};
use wire::bitset::Set8;

use crate::control_loop::running_config::RunningConfig;

pub fn describe(running: &RunningConfig) -> v1::Configuration {
    let config = running.config();
    let in_force = running.settings().switch;
    let by_slot = running.slots().in_config_order();
    let port = |(number, &slot): (usize, &usize)| {
        let bindings = config.profiles.bindings.get(number).cloned().unwrap_or_default();
        let interface = config.interfaces.get(number).cloned().unwrap_or_default();
        Some(port(in_force.ports.get(slot)?, interface, &bindings, config))
    };
    let (differences, needs_restart, invalid) = match running.differences() {
        Ok(changes) => (changes.live, changes.restart, None),
        Err(why) => (Vec::new(), Vec::new(), Some(why)),
    };
    let queues = |map: Option<[u8; 8]>| map.map_or(Vec::new(), |map| map.map(u32::from).to_vec());
    v1::Configuration {
        file: running.file().display().to_string(),
        text: running.text().to_owned(),
        differences,
        needs_restart,
        invalid,
        overrides: overrides(running),
        cell_bytes: in_force.buffer.cell_bytes,
        ports: by_slot.iter().enumerate().filter_map(port).collect(),
        buffer_profiles: config.profiles.buffer.iter().map(buffer_profile).collect(),
        queue_profiles: config.profiles.queue.iter().map(queue_profile).collect(),
        wred_tables: config.profiles.wred.iter().map(wred_table).collect(),
        unknown_unicast_to_queue: queues(in_force.bridge.unknown_unicast_to_queue),
        multicast_to_queue: queues(in_force.bridge.multicast_to_queue),
    }
}

/// Lists what is in force although the file does not say it.
fn overrides(running: &RunningConfig) -> Vec<String> {
    let mut lines = Vec::new();
    if !running.config().pfc_enabled {
        lines.push("PFC is off on all ports: `sluice pfc on` turns it on".to_owned());
    }
    for (name, up) in running.admin_overrides() {
        let (now, other) = if up { ("up", "down") } else { ("down", "up") };
        lines.push(format!("port.{name}: admin {now}, by command: `sluice port {other} {name}` undoes it"));
    }
    for (port, &slot) in running.config().switch.ports.iter().zip(running.slots().in_config_order()) {
        if let Some(agreed) = running.negotiated(slot) {
            let priorities = Set8::from_bits(agreed.no_drop);
            let priorities: Vec<String> =
                priorities.into_iter().map(|priority| priority.to_string()).collect();
            let list = if priorities.is_empty() { "none".to_owned() } else { priorities.join(", ") };
            lines.push(format!("port.{}: agreed by DCBX: no-drop priorities {list}", port.name));
        }
    }
    lines
}

fn port(
    settings: &PortSettings,
    interface: String,
    bindings: &config::Bindings,
    config: &Config,
) -> v1::PortConfiguration {
    let priorities = (0..8).map(|priority| {
        let EarlyWarningSettings { in_pps, out_pps } = settings.early_warning[priority];
        v1::PriorityConfiguration {
            no_drop: settings.pfc.no_drop & 1 << priority != 0,
            profile: bindings.ingress[priority].clone(),
            thresholds: Some(thresholds(&settings.groups[priority])),
            pool: settings.groups[priority].pool.into(),
            watchdog: settings.watchdog_of(priority).as_ref().map(watchdog),
            early_warning_in_pps: in_pps,
            early_warning_out_pps: out_pps,
        }
    });
    let queues = (0..8).map(|queue| v1::QueueConfiguration {
        profile: bindings.egress[queue].clone(),
        queue_profile: bindings.queue[queue].clone(),
        pool: settings.queues[queue].pool.into(),
    });
    v1::PortConfiguration {
        name: settings.name.clone(),
        interface,
        speed_bps: settings.speed_bps,
        pfc_mode: config.pfc_mode(&settings.name).to_owned(),
        pfc_rx: settings.pfc.rx,
        pfc_tx: settings.pfc.tx,
        pause_time_quanta: settings.pfc.pause_quanta.into(),
        flow_control: settings.flow_control.name().to_owned(),
        maps: Some(maps(settings)),
        wred_table: bindings.wred.clone(),
        priorities: priorities.collect(),
        queues: queues.collect(),
    }
}

/// Returns the word of a setting for the trusted field.
pub fn trust(trust: Trust) -> &'static str {
    match trust {
        Trust::Dot1p => "dot1p",
        Trust::Dscp => "dscp",
        Trust::TunnelDot1p => "tunnel-dot1p",
        Trust::None => "none",
    }
}

fn maps(settings: &PortSettings) -> v1::Maps {
    let ClassifySettings {
        trust: trusted,
        port_priority,
        dot1p_to_queue,
        dscp_to_dot1p,
        dscp_to_queue,
        dot1p_to_drop_level,
        dscp_to_drop_level,
        dei_drop_level,
        queue_is_priority,
        policy,
    } = &settings.classify;
    let numbers = |map: &[u8]| map.iter().map(|&to| to.into()).collect();
    let by_dscp = dscp_to_queue.iter().zip(dscp_to_dot1p).map(|(queue, &priority)| {
        queue.unwrap_or_else(|| dot1p_to_queue.get(usize::from(priority)).copied().unwrap_or(0)).into()
    });
    let policy = policy.iter().enumerate();
    v1::Maps {
        trust: if *queue_is_priority { "queue" } else { trust(*trusted) }.to_owned(),
        port_priority: (*port_priority).into(),
        dot1p_to_queue: numbers(dot1p_to_queue),
        dot1p_to_drop_level: dot1p_to_drop_level.iter().map(|&level| level as u32).collect(),
        dscp_to_dot1p: numbers(dscp_to_dot1p),
        dscp_to_queue: by_dscp.collect(),
        dscp_to_drop_level: dscp_to_drop_level.iter().map(|&level| level as u32).collect(),
        dei_drop_level: *dei_drop_level as u32,
        policy: policy.filter_map(|(priority, queue)| Some((priority as u32, (*queue)?.into()))).collect(),
        rewrite_dot1p: settings.rewrite.dot1p.map_or(Vec::new(), |map| numbers(&map)),
        rewrite_dscp: settings.rewrite.dscp.map_or(Vec::new(), |map| numbers(&map)),
    }
}

fn watchdog(settings: &WatchdogSettings) -> v1::WatchdogConfiguration {
    let (restoration, restoration_ns) = match settings.restore {
        Restoration::After(time) => ("after", Some(time)),
        Restoration::QuietInterval => ("quiet-interval", None),
        Restoration::Quiet(time) => ("quiet", Some(time)),
        Restoration::Manual => ("manual", None),
    };
    v1::WatchdogConfiguration {
        detection_ns: settings.detection_ns,
        action: match settings.action {
            PfcWdAction::Forward => "forward",
            PfcWdAction::Drop => "drop",
        }
        .to_owned(),
        restoration: restoration.to_owned(),
        restoration_ns,
        limit_storms: settings.limit.map(|limit| limit.count.into()),
        limit_period_ns: settings.limit.map(|limit| limit.period_ns),
    }
}

/// Returns the words and numbers of a limit of shared cells: mode, cells, ratio.
fn shared(shared: Threshold) -> (String, Option<u32>, Option<i32>) {
    match shared {
        Threshold::Static(cells) => ("static_th".to_owned(), Some(cells), None),
        Threshold::Dynamic(alpha) => ("dynamic_th".to_owned(), None, Some(alpha.exponent().into())),
    }
}

fn thresholds(group: &GroupSettings) -> v1::BufferProfile {
    let (mode, shared_cells, dynamic_th) = shared(group.xoff);
    v1::BufferProfile {
        name: String::new(),
        direction: "ingress".to_owned(),
        built_in: false,
        reserved_cells: group.reserved_cells,
        mode,
        shared_cells,
        dynamic_th,
        xoff_cells: Some(group.headroom_cells),
        xon_cells: Some(group.resume_cells),
        xon_offset_cells: Some(group.xon_offset_cells),
    }
}

fn buffer_profile(profile: &BufferProfile) -> v1::BufferProfile {
    let (mode, shared_cells, dynamic_th) = shared(profile.shared);
    let ingress = |of: fn(&IngressThresholds) -> u32| profile.ingress.as_ref().map(of);
    v1::BufferProfile {
        name: profile.name.clone(),
        direction: if profile.ingress.is_some() { "ingress" } else { "egress" }.to_owned(),
        built_in: profile.is_built_in,
        reserved_cells: profile.reserved_cells,
        mode,
        shared_cells,
        dynamic_th,
        xoff_cells: ingress(|of| of.xoff_cells),
        xon_cells: ingress(|of| of.xon_cells),
        xon_offset_cells: ingress(|of| of.xon_offset_cells),
    }
}

fn queue_profile(profile: &QueueProfile) -> v1::QueueProfile {
    v1::QueueProfile {
        name: profile.name.clone(),
        built_in: profile.is_built_in,
        action: match &profile.wred {
            Some(wred) if wred.ecn => "ecn",
            Some(_) => "wred",
            None => "none",
        }
        .to_owned(),
        colors: profile.wred.as_ref().map_or_else(Vec::new, colors),
    }
}

fn colors(wred: &WredSettings) -> Vec<v1::QueueProfileColor> {
    let curves = wred.curves.iter().zip(["green", "yellow", "red"]);
    let color = |(curve, color): (&WredProfile, &str)| v1::QueueProfileColor {
        color: color.to_owned(),
        min_threshold_cells: curve.low_cells,
        max_threshold_cells: curve.high_cells,
        probability_percent: curve.probability_percent.into(),
    };
    curves.map(color).collect()
}

fn wred_table(table: &WredTable) -> v1::WredTable {
    let queue = |&(number, wred): &(usize, WredSettings)| v1::WredQueue {
        queue: number as u32,
        weighting_exponent: wred.exponent.into(),
        ecn: wred.ecn,
        mark: match wred.mark_at {
            EcnMarkPoint::Enqueue => "enqueue",
            EcnMarkPoint::Dequeue => "dequeue",
        }
        .to_owned(),
        drop_not_ect: wred.drop_not_ect,
        colors: colors(&wred),
    };
    v1::WredTable { name: table.name.clone(), queues: table.queues.iter().map(queue).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn everything_that_is_in_force() {
        let text = "[buffer.ingress.profile.mine]\nreserved_cells = 8\nshared = { static_cells = 76 }\nxoff_cells = 768\n\
            [port.a]\ninterface = \"veth0\"\ntrust = \"dscp\"\ndscp_to_queue = { \"46\" = 5 }\n\
            policy = [{ dot1p = 5, local_precedence = 3 }]\nqueue_profile = { AZURE_LOSSLESS = [3] }\n\
            pfc = { mode = \"on\", no_drop = [3] }\nbuffer.ingress.priority.3 = { profile = \"mine\" }\n\
            wred = \"early\"\n[wred.early.queue.6]\necn = true\nmark = \"dequeue\"\n\
            [pfc.watchdog]\npriority.3 = { detection_ms = 400, restoration_ms = 500 }\n\
            [port.b]\ninterface = \"veth1\"\n";
        let running =
            RunningConfig::new(config::parse("lab.toml", text).unwrap(), Path::new("/nowhere/lab.toml"));
        let running = running.with_text(text).with_pfc(true);
        let described = describe(&running);
        assert_eq!((described.text.as_str(), described.overrides.len()), (text, 0));
        assert!(described.invalid.unwrap().contains("/nowhere/lab.toml"));
        let [a, b] = described.ports.as_slice() else { panic!("{:?}", described.ports) };
        let three = &a.priorities[3];
        assert_eq!((three.no_drop, three.profile.as_deref()), (true, Some("mine")));
        let thresholds = three.thresholds.as_ref().unwrap();
        assert_eq!((thresholds.shared_cells, thresholds.xoff_cells), (Some(76), Some(768)));
        let watchdog = three.watchdog.as_ref().unwrap();
        assert_eq!((watchdog.detection_ns, watchdog.action.as_str()), (400_000_000, "drop"));
        assert!(b.priorities.iter().all(|priority| priority.watchdog.is_none()));
        let maps = a.maps.as_ref().unwrap();
        assert_eq!((maps.trust.as_str(), maps.dscp_to_queue[46], maps.policy[&5]), ("dscp", 5, 3));
        assert_eq!(a.queues[3].queue_profile.as_deref(), Some("AZURE_LOSSLESS"));
        assert_eq!((a.wred_table.as_deref(), b.wred_table.as_deref()), (Some("early"), None));
        let six = &described.wred_tables[0].queues[0];
        assert_eq!((six.queue, six.ecn, six.mark.as_str(), six.weighting_exponent), (6, true, "dequeue", 9));
        let off = describe(&running.with_pfc(false));
        assert_eq!(off.overrides, ["PFC is off on all ports: `sluice pfc on` turns it on"]);
        assert!(!off.ports[0].priorities[3].no_drop);
    }
}
