//! The words for what is measured.

use esker_serve::command::Measured;

/// Which parts of a stack are measured, beside exports, which always are.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum What {
    /// None
    Off,
    /// The devices at the bottom
    Devices,
    /// Devices and layers
    All,
}

impl What {
    /// As the control socket takes it.
    pub fn measured(self) -> Measured {
        match self {
            What::Off => Measured::Off,
            What::Devices => Measured::Devices,
            What::All => Measured::All,
        }
    }
}
