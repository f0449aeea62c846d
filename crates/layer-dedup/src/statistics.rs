//! What pages say of the statistics.

use esker_block::StatInfo;

/// In the order in which they are told.
pub(crate) const ALL: &[StatInfo] = &[
    StatInfo::of("logical_blocks", "Blocks of the volume with a data block."),
    StatInfo::of("physical_blocks", "Data blocks in use."),
    StatInfo::of("ratio", "Logical blocks for each physical one."),
    StatInfo::of("free_blocks", "Data blocks that are free."),
    StatInfo::of("hits", "Written blocks with a known fingerprint."),
    StatInfo::of("fresh", "Written blocks with a new fingerprint."),
    StatInfo::of("zero_blocks", "Written blocks of zeroes."),
    StatInfo::of("mismatches", "Written blocks with the fingerprint of other bytes."),
    StatInfo::of("full", "Writes that found no free data block."),
    StatInfo::of("table_reads", "Pages of tables that were read."),
    StatInfo::of("index_reads", "Pages of the index among those."),
    StatInfo::of("index_buckets_lost", "Buckets of the index that were damaged."),
    StatInfo::of("cached_pages", "Pages in memory."),
    StatInfo::of("changed_pages", "Pages in memory that were changed since the last checkpoint."),
    StatInfo::of("commits", "Commits of the journal."),
    StatInfo::of("checkpoints", "Checkpoints."),
    StatInfo::of("replayed_records", "Records that the start replayed."),
    StatInfo::LATCHED,
];
