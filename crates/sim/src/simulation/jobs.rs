//! Collectives while they run: which steps have arrived, and which may begin.

use std::collections::HashMap;

use crate::scenario::traffic::collective::{Step, steps};
use crate::scenario::{Pattern, Traffic};

/// The collective of one traffic.
#[derive(Debug)]
pub(crate) struct Job {
    steps: Vec<JobStep>,
    /// By flow of the traffic: the steps that need nothing, until the flow begins.
    first: Vec<Vec<usize>>,
    /// By flow of the traffic: the steps that were begun, in their order.
    begun: Vec<Vec<usize>>,
}

#[derive(Debug)]
struct JobStep {
    /// Index among the flows of the traffic.
    flow: usize,
    bytes: u64,
    /// Steps that must arrive before this begins.
    lacking: usize,
    /// The steps that need this one.
    then: Vec<usize>,
}

impl Job {
    /// Creates the collective of a traffic, if it is one.
    pub(crate) fn new(traffic: &Traffic) -> Option<Self> {
        let Pattern::Collective { bytes, collective } = traffic.pattern else { return None };
        let ranks = &traffic.ranks;
        let list = steps(collective, ranks.len(), bytes);
        let numbers: HashMap<(usize, usize), usize> = traffic.flows.iter().copied().zip(0..).collect();
        let flow_of = |step: &Step| {
            let pair = (ranks[step.from], ranks[step.to]);
            numbers[&pair]
        };
        let step = |step: &Step| JobStep {
            flow: flow_of(step),
            bytes: step.bytes,
            lacking: step.needs.len(),
            then: Vec::new(),
        };
        let none = vec![Vec::new(); traffic.flows.len()];
        let mut job = Self { steps: list.iter().map(step).collect(), first: none.clone(), begun: none };
        for (number, step) in list.iter().enumerate() {
            if step.needs.is_empty() {
                job.first[job.steps[number].flow].push(number);
            }
            step.needs.iter().for_each(|&before| job.steps[before].then.push(number));
        }
        Some(job)
    }

    /// The number of messages.
    pub(crate) fn step_count(&self) -> usize {
        self.steps.len()
    }

    /// Begins the steps of a flow that need nothing. Returns the bytes of each message.
    pub(crate) fn begin(&mut self, flow: usize) -> Vec<u64> {
        let first = std::mem::take(&mut self.first[flow]);
        self.begun[flow].extend(&first);
        first.iter().map(|&number| self.steps[number].bytes).collect()
    }

    /// Handles the arrival of a message of a flow. Returns flow and bytes of the messages that may
    /// be sent now.
    pub(crate) fn arrived(&mut self, flow: usize, message: u64) -> Vec<(usize, u64)> {
        let number = self.begun[flow][message as usize];
        let mut ready = Vec::new();
        for next in std::mem::take(&mut self.steps[number].then) {
            let step = &mut self.steps[next];
            step.lacking -= 1;
            if step.lacking == 0 {
                self.begun[step.flow].push(next);
                ready.push((step.flow, step.bytes));
            }
        }
        ready
    }
}
