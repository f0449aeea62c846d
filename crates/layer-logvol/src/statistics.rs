//! What pages say of the statistics.

use esker_block::StatInfo;

/// In the order in which they are told.
pub(crate) const ALL: &[StatInfo] = &[
    StatInfo::of("mappings", "Mappings of the map."),
    StatInfo::of("mapped_bytes", "Logical bytes that are mapped."),
    StatInfo::of("segments", "Segments."),
    StatInfo::of("segments_free", "Segments that are free."),
    StatInfo::of("segments_closed", "Segments that are full."),
    StatInfo::of("segments_of_map", "Segments with pages of the map."),
    StatInfo::of("used_ratio", "Share of the segments that are not free."),
    StatInfo::of(
        "write_amplification",
        "Bytes that went below for each byte of data: of the last writes, about as many as the medium has room for.",
    ),
    StatInfo::of("batches", "Batches that were written to the log."),
    StatInfo::of("records", "Records that were written."),
    StatInfo::of("record_bytes", "Bytes of blocks of records."),
    StatInfo::of("data_bytes", "Bytes of data blocks."),
    StatInfo::of("flushes", "Flushes of the device below."),
    StatInfo::of("checkpoints", "Checkpoints."),
    StatInfo::of("map_bytes", "Bytes of pages of the map that were written."),
    StatInfo::of("segments_freed", "Segments that became free."),
    StatInfo::of("segments_erased", "Free segments that were discarded below."),
    StatInfo::of("records_replayed", "Records that the start replayed."),
    StatInfo::LATCHED,
    StatInfo::of("gc_candidates", "Victims that wait for a pass through the map."),
    StatInfo::of("gc_ready", "Victims whose mappings are known."),
    StatInfo::of("segments_cleaning", "Victims that are cleaned now."),
    StatInfo::of("gc_remapping", "Victims whose mappings are changed now."),
    StatInfo::of("segments_cleaned", "Segments that were cleaned."),
    StatInfo::of("gc_remapped", "Segments of which every mapping was changed."),
    StatInfo::of("passes", "Passes through the map."),
    StatInfo::of("mappings_scanned", "Mappings that passes looked at."),
    StatInfo::of("moved_bytes", "Bytes of live blocks that were moved."),
    StatInfo::of("remapped_bytes", "Logical bytes whose mappings were changed to moved blocks."),
    StatInfo::of("gc_bytes_avoided", "Bytes of blocks that were dead before they were copied."),
    StatInfo::of("mappings_stale", "Mappings that changed before they pointed at a copy."),
    StatInfo::of("reverse_bytes", "Bytes of lists of mappings in memory."),
    StatInfo::of("reverse_bytes_peak", "Most bytes of such lists."),
    StatInfo::of("cleaner_share", "Share of the device that the collector has now."),
    StatInfo::of("writers_held", "Times that a writer waited for space."),
    StatInfo::of("segments_unreadable", "Segments that the collector could not read."),
];

/// Those of a layer with named volumes.
pub(crate) const NAMED: &[StatInfo] = &{
    let mut all = [StatInfo::of("volumes", "Named volumes and snapshots."); ALL.len() + 1];
    let mut at = 0;
    while at < ALL.len() {
        all[at] = ALL[at];
        at += 1;
    }
    all
};
