//! Warnings about files that are valid but cannot guarantee a no-drop priority, with numbers and a
//! cure.

pub(crate) mod agreement;
pub(crate) mod headroom_duration;
pub(crate) mod lossless;
pub(crate) mod mtu;
pub(crate) mod short_pauses;
pub(crate) mod worst_case_fill;
