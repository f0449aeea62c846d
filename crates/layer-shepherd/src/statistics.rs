//! What pages say of the statistics.

use esker_block::StatInfo;

/// In the order in which they are told.
pub(crate) const ALL: &[StatInfo] = &[
    StatInfo::of("moved_blocks", "Blocks that lie on spares."),
    StatInfo::of("spares_left", "Spares that are free."),
    StatInfo::of("spares_bad", "Spares that could not be written."),
    StatInfo::of("retries", "Retries of failed requests."),
    StatInfo::of("recovered", "Requests that a retry saved."),
    StatInfo::of("blocks_lost", "Requests that failed for good."),
    StatInfo::of("refreshed_bytes", "Bytes that were written again after a read had failed at first."),
    StatInfo::of("scrubbed_bytes", "Bytes that the scrub read."),
];
