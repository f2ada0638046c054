//! What may meet on an egress queue, and what the queue may hold.
//!
//! Rule: of all ports but the queue's own, each no-drop group whose frames may go to the queue may fill it with its reserved
//! cells, those up to its XOFF threshold, and its headroom, before all senders have stopped. A limit of the file below that sum
//! drops what ingress has admitted.
//! Source: docs/law.md, "What cannot be lossless".

use switch::SwitchSettings;
use switch::limits::EgressLimits;
use switch::queue::Limits;
use switch::settings::{GroupSettings, POOLS, PRIORITIES, Threshold};

use crate::mistakes::Place;
use crate::ports::Port;

/// For each limit of the file that what meets may exceed the worst such queue.
pub(crate) fn excesses<'p>(ports: &'p [Port], settings: &SwitchSettings) -> Vec<Excess<'p>> {
    let limits: Vec<EgressLimits> = EgressLimits::of(settings).collect();
    let mut excesses: Vec<Excess> = Vec::new();
    for (number, port) in ports.iter().enumerate() {
        for (queue, queue_limits) in limits[number].queues.iter().enumerate() {
            let shared = port.tables().queue(queue).setting(|table| &table.shared);
            let Some(shared) = shared else { continue };
            let Some(limit) = Limit::of(queue_limits, settings) else { continue };
            let meeting = Meeting::on(number, queue, &limits, settings);
            let by = meeting.cells().saturating_sub(limit.cells());
            match excesses.iter_mut().find(|other| other.place.span == shared.place.span) {
                _ if by == 0 => {}
                Some(other) => other.add(port, queue, meeting, limit),
                None => {
                    let (place, ports) = (&shared.place, vec![port]);
                    excesses.push(Excess { place, ports, queue, meeting, limit });
                }
            }
        }
    }
    excesses
}

/// Cells of the no-drop groups that may all wait in one egress queue.
struct Meeting {
    groups: u32,
    reserved_cells: u64,
    xoff_cells: u64,
    headroom_cells: u64,
}

impl Meeting {
    /// Of all ports but the queue's own: a frame never leaves by the port that it came in by.
    fn on(egress: usize, queue: usize, limits: &[EgressLimits], settings: &SwitchSettings) -> Self {
        let mut groups: Vec<GroupSettings> = Vec::new();
        for (number, port) in settings.ports.iter().enumerate().filter(|(number, _)| *number != egress) {
            let queues = limits[number].queues_of_priorities;
            let meets = |&p: &usize| port.pfc.no_drop & 1 << p != 0 && queues[p].contains(queue);
            let there = (0..PRIORITIES).filter(meets);
            groups.extend(there.map(|priority| port.groups[priority]));
        }
        let pools = settings.buffer.pool_cells(settings.buffer.ingress_pool_percent);
        let mut in_pool = [0; POOLS];
        groups.iter().for_each(|group| in_pool[usize::from(group.pool)] += 1);
        let xoff_cells = |group: &GroupSettings| {
            let pool = usize::from(group.pool);
            match group.xoff {
                Threshold::Static(cells) => cells,
                Threshold::Dynamic(alpha) => alpha.settles_at(pools[pool], in_pool[pool]),
            }
        };
        let sum =
            |cells: &dyn Fn(&GroupSettings) -> u32| groups.iter().map(|group| u64::from(cells(group))).sum();
        Self {
            groups: groups.len() as u32,
            reserved_cells: sum(&|group| group.reserved_cells),
            xoff_cells: sum(&xoff_cells),
            headroom_cells: sum(&|group| group.headroom_cells),
        }
    }

    fn cells(&self) -> u64 {
        self.reserved_cells + self.xoff_cells + self.headroom_cells
    }
}

/// What an egress queue may hold while no other queue uses its pool.
struct Limit {
    guaranteed_cells: u64,
    shared_cells: u64,
}

impl Limit {
    /// `None`: there is no limit.
    fn of(limits: &Limits, settings: &SwitchSettings) -> Option<Self> {
        let pools = settings.buffer.pool_cells(settings.buffer.egress_pool_percent);
        let shared_cells = match limits.maximum? {
            Threshold::Static(cells) => cells,
            Threshold::Dynamic(alpha) => alpha.settles_at(pools[usize::from(limits.pool)], 1),
        };
        Some(Self {
            guaranteed_cells: u64::from(limits.guaranteed_cells),
            shared_cells: u64::from(shared_cells),
        })
    }

    fn cells(&self) -> u64 {
        self.guaranteed_cells + self.shared_cells
    }
}

/// A limit of the file that what meets exceeds, on these ports; the numbers are the worst.
pub(crate) struct Excess<'p> {
    pub(crate) place: &'p Place,
    pub(crate) ports: Vec<&'p Port<'p>>,
    queue: usize,
    meeting: Meeting,
    limit: Limit,
}

impl<'p> Excess<'p> {
    fn add(&mut self, port: &'p Port, queue: usize, meeting: Meeting, limit: Limit) {
        self.ports.push(port);
        if meeting.cells() + self.limit.cells() > self.meeting.cells() + limit.cells() {
            (self.queue, self.meeting, self.limit) = (queue, meeting, limit);
        }
    }

    pub(crate) fn what(&self) -> String {
        let Self { queue, meeting, limit, .. } = self;
        let groups = if meeting.groups == 1 { "group" } else { "groups" };
        format!(
            "queue {queue} holds {} cells ({} guaranteed + {} shared), but {} no-drop {groups} may fill it with {} before \
             all senders have stopped ({} reserved + {} XOFF + {} headroom)",
            limit.cells(),
            limit.guaranteed_cells,
            limit.shared_cells,
            meeting.groups,
            meeting.cells(),
            meeting.reserved_cells,
            meeting.xoff_cells,
            meeting.headroom_cells
        )
    }

    pub(crate) fn cure(&self) -> String {
        let shared_cells = self.meeting.cells().saturating_sub(self.limit.guaranteed_cells);
        let raise = format!("let it share {shared_cells} cells or lower the groups' XOFF and headroom");
        // A profile must have a limit.
        if self.place.setting.starts_with("buffer.") {
            raise
        } else {
            format!("{raise}; left out, a no-drop queue has no limit")
        }
    }
}
