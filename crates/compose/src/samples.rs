//! Declarations of the thesis, as texts.

/// The six sample extensions (figure 5.4).
pub const SIX: &str = include_str!("../samples/six.toml");
/// Off-loading and deduplication under versioning (5.4.1).
pub const OFFLOAD_DEDUP: &str = include_str!("../samples/offload-dedup.toml");
