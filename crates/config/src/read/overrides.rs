//! Look-up of a port's settings: **its own table wins, then `[port-defaults]`, then the value for
//! the whole switch**.
//!
//! Both tables have the same settings and are read into the same structs. A setting is looked up on
//! use, so that tables need not be merged by hand; the value for the whole switch, or a built-in
//! value, is passed as the default.

use crate::read::table_reader::Setting;

/// A table of a port and the same table of `[port-defaults]`.
#[derive(Debug)]
pub(crate) struct Overrides<'t, T> {
    port: &'t T,
    defaults: &'t T,
}

impl<T> Clone for Overrides<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Overrides<'_, T> {}

impl<'t, T> Overrides<'t, T> {
    /// Returns a port's table with that of the defaults as fallback.
    pub(crate) fn new(own: &'t T, defaults: &'t T) -> Self {
        Self { port: own, defaults }
    }

    /// Returns a table without defaults.
    pub(crate) fn alone(table: &'t T) -> Self {
        Self { port: table, defaults: table }
    }

    /// Returns what `find` finds in the port's own table, or else in the defaults.
    pub(crate) fn look_up<V>(self, find: impl Fn(&'t T) -> Option<V>) -> Option<V> {
        find(self.port).or_else(|| find(self.defaults))
    }

    /// Returns a setting, if one of the tables has it.
    pub(crate) fn setting<V: 't>(
        self,
        of: impl Fn(&'t T) -> &'t Option<Setting<V>>,
    ) -> Option<&'t Setting<V>> {
        self.look_up(|table| of(table).as_ref())
    }

    /// Returns the value of a setting; `default` is the value for the whole switch.
    pub(crate) fn value<V: Copy + 't>(self, of: impl Fn(&'t T) -> &'t Option<Setting<V>>, default: V) -> V {
        self.optional(of).unwrap_or(default)
    }

    /// Returns the value of a setting, if one of the tables has it.
    pub(crate) fn optional<V: Copy + 't>(self, of: impl Fn(&'t T) -> &'t Option<Setting<V>>) -> Option<V> {
        self.setting(of).map(|setting| setting.value)
    }

    /// Returns a table inside this one.
    pub(crate) fn part<P>(self, of: impl Fn(&'t T) -> &'t P) -> Overrides<'t, P> {
        Overrides { port: of(self.port), defaults: of(self.defaults) }
    }
}
