//! Which ports have frames that the kernel does not copy. What that means: docs/kernel-behavior.md,
//! "Zero-copy".

/// Where drivers read and write memory themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZeroCopy {
    /// Where they can.
    Auto,
    /// Nowhere: the kernel copies each frame.
    Off,
    /// Nowhere, but all else is as if they did everywhere: each port has a memory of its own.
    Emulate,
}

impl ZeroCopy {
    /// By their names in the file.
    pub(crate) const CHOICES: [(&str, Self); 3] =
        [("auto", Self::Auto), ("off", Self::Off), ("emulate", Self::Emulate)];

    /// Its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Off => "off",
            Self::Emulate => "emulate",
        }
    }
}
