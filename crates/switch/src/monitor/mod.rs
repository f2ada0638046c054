//! Counters, events, alarms and watermarks for operators.
//!
//! This module does not decide what happens to a frame.

pub mod alarm;
pub mod counters;
pub mod event;
pub mod event_text;
pub mod kernel_tx_loss;
pub mod no_drop_loss;
pub mod usage_violation;
pub mod watermark;
