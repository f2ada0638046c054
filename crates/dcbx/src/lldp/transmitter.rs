//! The transmitting half of an agent: both machines of transmission, their variables and timers.
//!
//! Source: IEEE 802.1AB-2016 9.2.5 (variables), 9.2.7 (procedures).
//!
//! Timers are deadlines, so that an idle port wakes its owner once an interval and not each second.
//! The credit that ticks have earned meanwhile is added when the machine runs.

use super::tx_machine::{TxConditions, TxState};
use super::tx_timer_machine::{TxTimerConditions, TxTimerState};
use crate::settings::LldpSettings;
use core::time::Duration;

/// Time between ticks, each of which adds a credit.
const TICK: Duration = Duration::from_secs(1);

/// Kind of a frame to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxFrame {
    /// What the port advertises.
    Info,
    /// Withdrawal of what it advertised.
    Shutdown,
}

/// Machines, variables and timers of transmission.
#[derive(Debug, Clone, Default)]
pub struct Transmitter {
    state: TxState,
    timer: TxTimerState,
    tx_now: bool,
    local_change: bool,
    new_neighbor: bool,
    /// Frames that may still be sent at once, `txCredit`.
    credit: u8,
    /// Frames that are still sent quickly, `txFast`.
    fast: u8,
    /// End of the interval, `txTTR`.
    interval_ends: Duration,
    /// Next tick.
    tick_at: Duration,
    /// End of the reinit delay, `txShutdownWhile`.
    reinit_ends: Duration,
}

impl Transmitter {
    /// Returns true if the port has advertised itself, and not withdrawn it.
    pub fn is_active(&self) -> bool {
        matches!(self.state, TxState::Idle | TxState::InfoFrame)
    }

    /// Reports that what the port advertises has changed.
    pub fn on_local_change(&mut self) {
        self.local_change = true;
    }

    /// Reports a new neighbor.
    pub fn on_new_neighbor(&mut self) {
        self.new_neighbor = true;
    }

    /// Runs both machines, and returns the frame that is to be sent now. An agent sends one frame
    /// at most each time it runs, as a second one would say the same.
    pub fn run(&mut self, now: Duration, link_up: bool, settings: &LldpSettings) -> Option<TxFrame> {
        let enabled = settings.admin.transmits();
        self.run_timer(now, link_up && enabled, settings);
        let mut frame = None;
        while let Some(next) = self.state.next(TxConditions {
            link_up,
            enabled,
            tx_now: self.tx_now,
            has_credit: self.credit > 0,
            reinit_over: now >= self.reinit_ends,
        }) {
            self.state = next;
            match next {
                TxState::InfoFrame => {
                    self.credit -= 1;
                    self.tx_now = false;
                    frame = Some(TxFrame::Info);
                }
                TxState::ShutdownFrame => {
                    self.reinit_ends = now + Duration::from_secs(settings.reinit_delay_s.into());
                    return Some(TxFrame::Shutdown);
                }
                TxState::Initialize | TxState::Idle => {}
            }
        }
        frame
    }

    fn run_timer(&mut self, now: Duration, enabled: bool, settings: &LldpSettings) {
        while let Some(next) = self.timer.next(TxTimerConditions {
            enabled,
            new_neighbor: self.new_neighbor,
            local_change: self.local_change,
            interval_over: now >= self.interval_ends,
            tick: now >= self.tick_at,
        }) {
            self.timer = next;
            self.enter(now, next, settings);
        }
    }

    fn enter(&mut self, now: Duration, state: TxTimerState, settings: &LldpSettings) {
        match state {
            TxTimerState::Initialize => {
                let (reinit_ends, state) = (self.reinit_ends, self.state);
                *self = Self { reinit_ends, state, ..Self::default() };
            }
            TxTimerState::Idle if self.tick_at == Duration::ZERO => {
                self.credit = settings.credit_max;
                (self.interval_ends, self.tick_at) = (now, now + TICK);
            }
            TxTimerState::Idle => {}
            TxTimerState::Expires => self.fast = self.fast.saturating_sub(1),
            TxTimerState::SignalTx => {
                let is_fast = self.fast > 0;
                let seconds = if is_fast { settings.fast_interval_s } else { settings.tx_interval_s };
                self.interval_ends = now + Duration::from_secs(seconds.max(1).into());
                (self.tx_now, self.local_change) = (true, false);
            }
            TxTimerState::Tick => {
                let ticks = 1 + now.saturating_sub(self.tick_at).as_secs();
                let credit = u64::from(self.credit).saturating_add(ticks);
                self.credit = credit.min(settings.credit_max.into()) as u8;
                self.tick_at += TICK * u32::try_from(ticks).unwrap_or(u32::MAX);
            }
            TxTimerState::FastStart => {
                self.new_neighbor = false;
                if self.fast == 0 {
                    self.fast = settings.fast_frames;
                }
            }
        }
    }

    /// Returns the time at which [`Transmitter::run`] has something to do without an event; `None`
    /// if never.
    pub fn deadline(&self) -> Option<Duration> {
        match self.state {
            TxState::Initialize => None,
            TxState::ShutdownFrame => Some(self.reinit_ends),
            _ if self.tx_now => Some(self.tick_at),
            _ => Some(self.interval_ends),
        }
    }
}
