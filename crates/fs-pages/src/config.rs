//! Sizes and limits of a page cache.

use esker_base::units::MIB;
use esker_caching::{Clock, policy::MakePolicy};
use thiserror::Error;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Most pages of a frame.
pub const FRAME_PAGES_MAX: u32 = 16;
/// Dirty bytes above which writers wait, at most, where a configuration follows the memory.
const DIRTY_BYTES_MAX: u64 = 256 * MIB;

/// Which frames leave before which others. 0 stays longest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FrameClass(pub u8);

/// How classes of frames share the memory. Inside a class, the policy chooses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Between {
    /// So many classes. Frames of the highest number leave first. A clean frame never takes the place of one of a lower
    /// number.
    Strict(u8),
    /// Shares of the classes in frames. A class above its share gives frames up first, so one class may use what
    /// another one leaves.
    Caps(Vec<u32>),
}

impl Between {
    /// How many classes there are.
    pub fn classes(&self) -> usize {
        match self {
            Between::Strict(classes) => usize::from(*classes),
            Between::Caps(caps) => caps.len(),
        }
    }
}

/// Configuration of a page cache.
#[derive(Clone)]
pub struct PageCacheConfig {
    /// Pages of a frame, 1 to [`FRAME_PAGES_MAX`], a power of two.
    pub frame_pages: u32,
    /// Bytes of all frames.
    pub memory_bytes: u64,
    /// Bytes of dirty frames above which writers wait: at most half of `memory_bytes`, so that clean frames find room.
    pub dirty_bytes_max: u64,
    /// Most bytes that are read ahead of a sequential reader.
    pub ahead_bytes_max: u64,
    /// Order of the frames of a class.
    pub policy: MakePolicy,
    /// Order of the classes.
    pub between: Between,
}

/// A configuration that makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PageCacheError {
    /// Pages of a frame.
    #[error("a frame of {0} pages; it has 1, 2, 4, 8 or 16")]
    FramePages(u32),
    /// Memory for too few or too many frames.
    #[error("memory for {0} frames; a cache has 4 to {max}", max = u32::MAX)]
    Frames(u64),
    /// Dirty frames.
    #[error("{dirty} dirty frames at most, of {all}; it must be 1 to half of them")]
    Dirty {
        /// Frames that may be dirty.
        dirty: u64,
        /// All frames.
        all: u64,
    },
    /// No class.
    #[error("a cache has at least one class of frames")]
    Classes,
}

impl PageCacheConfig {
    /// Frames of one page in `memory_bytes`: a tenth of it dirty, at most 256 MiB; up to 512 KiB read ahead; CLOCK; one
    /// class.
    pub fn of(memory_bytes: u64) -> PageCacheConfig {
        PageCacheConfig {
            frame_pages: 1,
            memory_bytes,
            dirty_bytes_max: (memory_bytes / 10).clamp(PAGE as u64, DIRTY_BYTES_MAX),
            ahead_bytes_max: MIB / 2,
            policy: |lines| Box::new(Clock::new(lines)),
            between: Between::Strict(1),
        }
    }

    /// Bytes of a frame.
    pub fn frame_len(&self) -> usize {
        self.frame_pages as usize * PAGE
    }

    /// How many frames there are.
    pub(crate) fn frames(&self) -> u64 {
        self.memory_bytes / self.frame_len() as u64
    }

    /// How many frames may be dirty.
    pub(crate) fn dirty_frames(&self) -> u64 {
        self.dirty_bytes_max / self.frame_len() as u64
    }

    pub(crate) fn check(&self) -> Result<(), PageCacheError> {
        if !self.frame_pages.is_power_of_two() || self.frame_pages > FRAME_PAGES_MAX {
            return Err(PageCacheError::FramePages(self.frame_pages));
        }
        let (all, dirty) = (self.frames(), self.dirty_frames());
        if all < 4 || u32::try_from(all).is_err() {
            return Err(PageCacheError::Frames(all));
        }
        if dirty == 0 || dirty > all / 2 {
            return Err(PageCacheError::Dirty { dirty, all });
        }
        if self.between.classes() == 0 {
            return Err(PageCacheError::Classes);
        }
        Ok(())
    }
}
