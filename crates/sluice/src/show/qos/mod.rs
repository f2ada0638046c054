//! Views of a queue, a priority group and PFC.

pub mod buffers;
pub mod congestion;
pub mod pfc;
pub mod pfc_matrix;
pub mod queues;
