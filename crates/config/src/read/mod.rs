//! Reading TOML: tables, values with a notation of their own, and diagnostics with their position
//! in the file.
//!
//! These modules know no particular setting.

pub(crate) mod diagnostics;
pub(crate) mod overrides;
pub(crate) mod parse;
pub(crate) mod size;
pub(crate) mod suggest;
pub(crate) mod table_reader;
pub mod toml_document;
