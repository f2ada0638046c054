//! The endpoint that a veth needs: no kernel host obeys PFC there, this one does.

pub mod report;
