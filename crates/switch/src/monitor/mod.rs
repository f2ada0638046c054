//! Counters, events, alarms and watermarks for operators.
//!
//! This module does not decide what happens to a frame.

pub mod alarm;
pub mod counters;
pub mod event;
pub mod event_kind;
pub mod event_list;
pub mod event_text;
pub(crate) mod kernel_tx_loss;
pub(crate) mod no_drop_loss;
pub mod throttle;
pub(crate) mod usage_violation;
pub(crate) mod watermark;
