//! Reading TOML: tables, values with a spelling of their own, and diagnostics with their place in
//! the file.
//!
//! No setting is known here.

pub(crate) mod diagnostics;
pub mod document;
pub(crate) mod overrides;
pub(crate) mod parse;
pub(crate) mod size;
pub(crate) mod suggest;
pub(crate) mod table_reader;
