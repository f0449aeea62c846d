//! The kinds of devices and layers that stack texts name.

pub use esker_block::Kind;
pub use esker_kinds::ALL;
