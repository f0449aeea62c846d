//! The SUFILE: what each segment is used for.

use super::layout::layout;

layout! {
    /// The beginning of the SUFILE.
    pub struct SufileHeader: 24 {
        /// Clean segments.
        clean: u64,
        /// Dirty segments.
        dirty: u64,
        /// The segment that was taken last.
        last: u64,
    }
}

layout! {
    /// What every entry holds.
    pub struct UsageHead: 16 {
        /// When the last log was written there, in seconds since 1970.
        changed: u64,
        /// Blocks that its logs take.
        blocks: u32,
        /// Bits of [`flag`].
        flags: u32,
    }
}

layout! {
    /// What entries of 32 bytes hold beside: advice for the cleaner, never the truth.
    pub struct LiveCounters: 16 {
        /// Live blocks.
        live: u32,
        /// Blocks that a snapshot protected when the cleaner last looked.
        snapshot: u32,
        /// When `live` changed, in seconds since 1970.
        changed: u64,
    }
}

/// Flags of segments. A segment without any is clean.
pub mod flag {
    /// In use by the writer. Drivers set it in memory; `mkfs.nilfs2` leaves it on the medium.
    pub const ACTIVE: u32 = 1;
    /// Holds logs, or is taken for the next ones.
    pub const DIRTY: u32 = 2;
    /// Must not be written.
    pub const ERROR: u32 = 4;
}

/// The usage of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentUsage {
    /// What every entry holds.
    pub head: UsageHead,
    /// What entries of 32 bytes hold beside.
    pub live: Option<LiveCounters>,
}

impl SegmentUsage {
    /// Reads it from all bytes of an entry.
    ///
    /// # Errors
    /// They are too few.
    pub fn read(bytes: &[u8]) -> Result<SegmentUsage, esker_base::codec::Short> {
        let head = UsageHead::read(bytes)?;
        Ok(SegmentUsage { head, live: LiveCounters::read(&bytes[UsageHead::BYTES..]).ok() })
    }

    /// Writes it.
    ///
    /// # Panics
    /// If `out` is too short.
    pub fn write(&self, out: &mut [u8]) {
        self.head.write(out);
        if let Some(live) = &self.live {
            live.write(&mut out[UsageHead::BYTES..]);
        }
    }

    /// Whether nothing lies there.
    pub fn is_clean(&self) -> bool {
        self.head.flags == 0
    }

    /// Whether it must not be written.
    pub fn has_error(&self) -> bool {
        self.head.flags & flag::ERROR != 0
    }

    /// Whether logs lie there.
    pub fn is_dirty(&self) -> bool {
        self.head.flags & flag::DIRTY != 0
    }
}
