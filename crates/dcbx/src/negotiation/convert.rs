//! Groups and applications in the terms of each version.
//!
//! - IEEE has a traffic class for each group, with ETS, and one for strict priority: the highest
//!   that no group has. Strict classes of a peer become the strict group.
//! - CEE has the groups as they are.
//! - CIN has the groups, too, and strict priority on the link in place of the strict group. A
//!   group's share is split evenly over its priorities.
//! - CEE knows ethertypes and ports, CIN only FCoE. What a version cannot express is left out.

use crate::settings::Ets;
use wire::dcbx::cee::{self, STRICT_GROUP};
use wire::dcbx::cin::{self, Member};
use wire::dcbx::ieee::{Application, EtsTable, Selector, algorithm};

/// Ethertype of FCoE, the application of CIN.
pub const FCOE_ETHERTYPE: u16 = 0x8906;

/// Returns the groups as traffic classes.
pub fn to_table(ets: &Ets) -> EtsTable {
    let strict_class = ets.free_class().unwrap_or(7);
    let class = |group| if group == STRICT_GROUP { strict_class } else { group & 7 };
    let mut algorithms = [algorithm::STRICT; 8];
    for (group, algorithm) in (0..8).zip(&mut algorithms) {
        if ets.is_used(group) {
            *algorithm = algorithm::ETS;
        }
    }
    EtsTable { class_of_priority: ets.group_of_priority.map(class), percent: ets.percent, algorithms }
}

/// Returns traffic classes as groups; `None` if a class that has priorities uses an algorithm that
/// is unavailable here.
#[expect(clippy::indexing_slicing, reason = "a table of eight, by a number of three bits")]
pub fn from_table(table: &EtsTable) -> Option<Ets> {
    let mut ets = Ets::STRICT;
    for (group, class) in ets.group_of_priority.iter_mut().zip(table.class_of_priority) {
        match table.algorithms[usize::from(class & 7)] {
            algorithm::STRICT => {}
            algorithm::ETS => *group = class & 7,
            _ => return None,
        }
    }
    for (at, algorithm) in table.algorithms.into_iter().enumerate() {
        if algorithm == algorithm::ETS {
            ets.percent[at] = table.percent[at];
        }
    }
    Some(ets)
}

/// Returns the groups as CEE has them.
pub fn to_cee(ets: &Ets) -> cee::PriorityGroups {
    cee::PriorityGroups { group_of_priority: ets.group_of_priority, percent: ets.percent, classes: 8 }
}

/// Returns the groups of CEE.
pub fn from_cee(groups: &cee::PriorityGroups) -> Ets {
    Ets { group_of_priority: groups.group_of_priority, percent: groups.percent }
}

/// Returns the groups as CIN has them.
pub fn to_cin(ets: &Ets) -> cin::PriorityGroups {
    let strict_class = ets.free_class().unwrap_or(7);
    #[expect(clippy::indexing_slicing, reason = "tables of eight, in order")]
    let member = |at: usize| match ets.group_of_priority[at] {
        STRICT_GROUP => Member { group: strict_class, strict: Member::LINK_STRICT, percent_of_group: 0 },
        group => Member { group, strict: 0, percent_of_group: even_share(ets.members(group), at) },
    };
    cin::PriorityGroups { percent: ets.percent, priorities: core::array::from_fn(member) }
}

/// Splits 100 % evenly; the lowest priority has the remainder.
fn even_share(members: u8, priority: usize) -> u8 {
    let count = members.count_ones().max(1) as u8;
    let remainder = if members.trailing_zeros() as usize == priority { 100 % count } else { 0 };
    100 / count + remainder
}

/// Returns the groups of CIN.
pub fn from_cin(groups: &cin::PriorityGroups) -> Ets {
    Ets { group_of_priority: groups.group_of_priority(), percent: groups.percent }
}

/// Returns the applications as CEE has them: one entry for all priorities of a protocol.
pub fn applications_to_cee(list: &[Application]) -> Vec<cee::Application> {
    let mut entries: Vec<cee::Application> = Vec::new();
    for application in list {
        let is_port = match application.selector {
            Selector::Ethertype => false,
            Selector::TcpPort | Selector::UdpPort | Selector::Port => true,
            Selector::Dscp | Selector::Reserved(_) => continue,
        };
        let entry = cee::Application::new(application.protocol, is_port, 1 << (application.priority & 7));
        let is_same =
            |it: &&mut cee::Application| (it.protocol, it.selector) == (entry.protocol, entry.selector);
        match entries.iter_mut().find(is_same) {
            Some(known) => known.priorities |= entry.priorities,
            None => entries.push(entry),
        }
    }
    entries
}

/// Returns the applications of CEE: one entry for each priority. Other organizations' protocols are
/// left out.
pub fn applications_from_cee(entries: &[cee::Application]) -> Vec<Application> {
    let is_known =
        |it: &&cee::Application| *it == &cee::Application::new(it.protocol, it.selector == 1, it.priorities);
    entries
        .iter()
        .filter(is_known)
        .flat_map(|it| {
            let selector = if it.selector == 1 { Selector::Port } else { Selector::Ethertype };
            each_priority(selector, it.protocol, it.priorities)
        })
        .collect()
}

/// Returns the priorities of FCoE, the application of CIN.
pub fn fcoe_to_cin(list: &[Application]) -> u8 {
    let of_fcoe = |it: &&Application| (it.selector, it.protocol) == (Selector::Ethertype, FCOE_ETHERTYPE);
    list.iter().filter(of_fcoe).fold(0, |mask, it| mask | 1 << (it.priority & 7))
}

/// Returns the application of CIN.
pub fn fcoe_from_cin(priorities: u8) -> Vec<Application> {
    each_priority(Selector::Ethertype, FCOE_ETHERTYPE, priorities)
}

fn each_priority(selector: Selector, protocol: u16, mask: u8) -> Vec<Application> {
    let set = (0..8).filter(|at| mask >> at & 1 != 0);
    set.map(|priority| Application { selector, protocol, priority }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Groups that pass the check.
    fn valid() -> impl Strategy<Value = Ets> {
        let group = prop_oneof![0..8_u8, Just(STRICT_GROUP)];
        (prop::array::uniform8(group), 0..8_usize, 0..=100_u8).prop_map(
            |(group_of_priority, other, share)| {
                let mut ets = Ets { group_of_priority, percent: [0; 8] };
                if let Some(first) = group_of_priority.into_iter().find(|group| *group < 8) {
                    ets.percent[usize::from(first)] += 100 - share;
                    ets.percent[other] += share;
                }
                ets
            },
        )
    }

    proptest! {
        #[test]
        fn groups_come_back_from_every_version(ets in valid()) {
            prop_assume!(ets.check().is_ok());
            prop_assert_eq!(from_table(&to_table(&ets)), Some(ets));
            prop_assert_eq!(from_cee(&to_cee(&ets)), ets);
            prop_assert_eq!(from_cin(&to_cin(&ets)), ets);
            for group in 0..8 {
                let members = to_cin(&ets).priorities.into_iter();
                let of_group = members.filter(|it| it.group == group && it.strict == 0);
                let shares: Vec<u8> = of_group.map(|it| it.percent_of_group).collect();
                prop_assert!(shares.is_empty() || shares.iter().sum::<u8>() == 100, "{shares:?}");
            }
        }
    }

    #[test]
    fn a_class_with_another_algorithm_is_unavailable() {
        let mut table = to_table(&Ets::SINGLE_GROUP);
        table.algorithms[3] = algorithm::CREDIT_BASED;
        assert_eq!(from_table(&table), Some(Ets::SINGLE_GROUP), "no priority is in the class");
        table.class_of_priority[5] = 3;
        assert_eq!(from_table(&table), None);
        table.algorithms[3] = algorithm::VENDOR;
        assert_eq!(from_table(&table), None);
    }

    #[test]
    fn applications_of_cee_and_cin() {
        let application = |selector, protocol, priority| Application { selector, protocol, priority };
        let list = [
            application(Selector::Ethertype, FCOE_ETHERTYPE, 3),
            application(Selector::UdpPort, 4791, 5),
            application(Selector::Ethertype, FCOE_ETHERTYPE, 4),
            application(Selector::Dscp, 26, 5),
        ];
        let cee = applications_to_cee(&list);
        assert_eq!(
            cee,
            [cee::Application::new(0x8906, false, 0b11000), cee::Application::new(4791, true, 0b100000)]
        );
        let back = [list[0], list[2], application(Selector::Port, 4791, 5)];
        assert_eq!(applications_from_cee(&cee), back);
        let foreign = cee::Application { oui_low: [1, 2], ..cee[0] };
        assert_eq!(applications_from_cee(&[foreign]), []);
        assert_eq!(fcoe_to_cin(&list), 0b11000);
        assert_eq!(fcoe_from_cin(0b11000), [list[0], list[2]]);
    }

    /// TCP and UDP are one selector in CEE, so one priority may come from two entries.
    #[test]
    fn a_priority_that_is_listed_twice_counts_once() {
        let of = |selector, protocol| Application { selector, protocol, priority: 5 };
        let list = [of(Selector::TcpPort, 4791), of(Selector::UdpPort, 4791)];
        assert_eq!(applications_to_cee(&list), [cee::Application::new(4791, true, 1 << 5)]);
        assert_eq!(fcoe_to_cin(&[of(Selector::Ethertype, FCOE_ETHERTYPE); 2]), 1 << 5);
    }
}
