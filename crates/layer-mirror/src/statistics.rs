//! What pages say of the statistics.

use esker_block::StatInfo;

/// In the order in which they are told.
pub(crate) const ALL: &[StatInfo] = &[
    StatInfo::of("members_in_sync", "Members that are equal."),
    StatInfo::of("members_resyncing", "Members to which a resync copies."),
    StatInfo::of("members_offline", "Members that are not used."),
    StatInfo::of("dirty_regions", "Regions that were written lately."),
    StatInfo::of("suspect_regions", "Regions in which members may differ since a crash."),
    StatInfo::of("generation", "Generation of the superblocks."),
    StatInfo::of("retries", "Retries of failed writes."),
    StatInfo::of("reads_redirected", "Failed reads that another member answered."),
    StatInfo::of("member_failures", "Times that a member went offline."),
    StatInfo::of("superblocks_written", "Superblocks that were written."),
    StatInfo::of("resync_bytes", "Bytes that resyncs copied."),
    StatInfo::of("zeroed_bytes", "Bytes that resyncs zeroed instead of copying holes."),
    StatInfo::of("repaired_bytes", "Bytes that were written again where a read had failed."),
    StatInfo::LATCHED,
];
