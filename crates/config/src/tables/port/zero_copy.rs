//! Use of zero-copy. What it means: docs/kernel/af-xdp.md, "Zero-copy".

use crate::spec::word_of;

/// Which drivers access the UMEM themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZeroCopy {
    /// All drivers that can.
    Auto,
    /// None: the kernel copies each frame.
    Off,
    /// None, but everything else is as in zero-copy mode: each port has a UMEM of its own.
    Emulate,
}

impl ZeroCopy {
    /// The names in the file.
    pub(crate) const CHOICES: [(&str, Self); 3] =
        [("auto", Self::Auto), ("off", Self::Off), ("emulate", Self::Emulate)];

    /// Returns its name in the file.
    pub fn name(self) -> &'static str {
        word_of(&Self::CHOICES, &self)
    }
}
