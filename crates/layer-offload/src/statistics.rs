//! What pages say of the statistics.

use esker_block::StatInfo;

/// In the order in which they are told.
pub(crate) const ALL: &[StatInfo] = &[
    StatInfo::of("home_idle", "1 while home is left idle, else 0."),
    StatInfo::of("log_bytes", "Bytes of the log."),
    StatInfo::of("log_used_bytes", "Bytes of the log from its oldest record to its end."),
    StatInfo::of("log_newest_bytes", "Bytes whose newest content is in the log and not at home."),
    StatInfo::of("records", "Records in the log."),
    StatInfo::of("ranges", "Ranges whose newest content is in the log."),
    StatInfo::of("offloaded_bytes", "Bytes of changes that went into the log."),
    StatInfo::of("reclaimed_bytes", "Bytes that were written back to home."),
    StatInfo::of("home_reads", "Reads that home answered."),
    StatInfo::of("writes_in_place", "Changes of clients that went to home."),
    StatInfo::of("log_full_writes", "Changes that found no space in the log."),
    StatInfo::of("home_wakeups", "Times that home left its idle state."),
    StatInfo::of(
        "offload_disabled",
        "1 after a record could not be written: nothing is off-loaded until the next start; else 0.",
    ),
    StatInfo::LATCHED,
];
