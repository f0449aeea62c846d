//! What a replay counts.

use serde::Serialize;

/// The counts of a replay.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
pub struct NfsReport {
    /// Lines that were read.
    pub lines: u64,
    /// Lines that are no packets, such as comments.
    pub skipped: u64,
    /// Packets before the begin that was asked for.
    pub early: u64,
    /// Lines that are damaged, and calls without what their operation needs.
    pub malformed: u64,
    /// Packets that the recorder had cut.
    pub cut: u64,
    /// Calls, also malformed ones.
    pub requests: u64,
    /// Replies.
    pub responses: u64,
    /// Replies without a request.
    pub orphans: u64,
    /// Replies that tell of an error of the server.
    pub refused: u64,
    /// Requests that were dropped: a newer one had their id, there was no memory, or the trace ended.
    pub dropped: u64,
    /// Requests that waited too long for their reply.
    pub timed_out: u64,
    /// Pairs, by operation.
    pub lookup: u64,
    /// Pairs of create and mkdir.
    pub create: u64,
    /// Pairs of remove and rmdir.
    pub remove: u64,
    /// Pairs of write.
    pub write: u64,
    /// Pairs of rename.
    pub rename: u64,
    /// Pairs of link.
    pub link: u64,
    /// Pairs of symlink.
    pub symlink: u64,
    /// Pairs of setattr.
    pub setattr: u64,
    /// Pairs of getattr and access.
    pub look: u64,
    /// Pairs of operations that are not replayed, such as read.
    pub other: u64,
    /// Calls on the target.
    pub calls: u64,
    /// Bytes written to the target.
    pub bytes_written: u64,
    /// Calls that the target refused, but for want of room.
    pub failed: u64,
    /// The first of them.
    pub first_failure: Option<String>,
    /// Calls that were given up for want of room.
    pub no_room: u64,
    /// Waits for room.
    pub waits: u64,
    /// Syncs of the target.
    pub syncs: u64,
    /// Directories that were not removed, because the trace has not told what left them.
    pub kept: u64,
    /// Moves and entries that would make the tree a circle or too deep, or give a file too many names.
    pub impossible: u64,
    /// Names in the image at its largest.
    pub names_max: u64,
    /// Names that the image forgot, of which the target knows nothing.
    pub forgotten: u64,
    /// Names that the image forgot although the target has them.
    pub abandoned: u64,
    /// Seconds of the trace from the first to the last packet.
    pub trace_seconds: u64,
}

impl NfsReport {
    /// All counts with their names.
    pub fn counts(&self) -> [(&'static str, u64); 34] {
        [
            ("lines", self.lines),
            ("skipped", self.skipped),
            ("early", self.early),
            ("malformed", self.malformed),
            ("cut", self.cut),
            ("requests", self.requests),
            ("responses", self.responses),
            ("orphans", self.orphans),
            ("refused", self.refused),
            ("dropped", self.dropped),
            ("timed_out", self.timed_out),
            ("lookup", self.lookup),
            ("create", self.create),
            ("remove", self.remove),
            ("write", self.write),
            ("rename", self.rename),
            ("link", self.link),
            ("symlink", self.symlink),
            ("setattr", self.setattr),
            ("look", self.look),
            ("other", self.other),
            ("calls", self.calls),
            ("bytes_written", self.bytes_written),
            ("failed", self.failed),
            ("no_room", self.no_room),
            ("waits", self.waits),
            ("syncs", self.syncs),
            ("kept", self.kept),
            ("impossible", self.impossible),
            ("names_max", self.names_max),
            ("forgotten", self.forgotten),
            ("abandoned", self.abandoned),
            ("trace_seconds", self.trace_seconds),
            ("pairs", self.pairs()),
        ]
    }

    /// Requests with a successful reply.
    pub fn pairs(&self) -> u64 {
        let names = self.lookup + self.create + self.remove + self.rename + self.link + self.symlink;
        names + self.write + self.setattr + self.look + self.other
    }
}
