//! The resource manager: memory that survives, in named regions, and what each extension holds.
//!
//! A region is a piece of memory that its owner reads and writes at will; [`Region::commit`] is the point that a
//! restart, a crash or a power failure goes back to. The traits say what an extension may rely on; [`Area`] keeps them
//! with paired images on a part of a lower device, and persistent containers may take its place later.
//!
//! Reading order: this file, [`header`] and [`directory`] (the format, `docs/reference/formats/region-area.md`), `pair`
//! (one region on its medium), [`area`] (many).

pub mod area;
pub mod directory;
pub mod header;
mod pair;

use std::rc::Rc;

use esker_block::BioError;
use esker_block::step::LocalFuture;
use esker_framing::SuperblockError;

use crate::io::Io;

pub use area::Area;

/// Longest name of a region, in bytes.
pub const NAME_MAX: usize = 32;

/// Why memory could not be kept or found again.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RegionError {
    /// A name that cannot be stored.
    #[error("\"{0}\" cannot name a region; use 1 to {NAME_MAX} bytes without zeroes")]
    BadName(String),
    /// A size that cannot be kept.
    #[error("a region of {size} bytes cannot be kept here; use 1 to {max} bytes")]
    BadSize {
        /// What was asked for.
        size: u64,
        /// What can be.
        max: u64,
    },
    /// There is one of that name.
    #[error("there is a region \"{0}\" already; restore it, or free it first")]
    Exists(String),
    /// There is none.
    #[error("there is no region \"{0}\"")]
    Unknown(String),
    /// No room.
    #[error("a region of {size} bytes needs {needed} bytes of the medium in one piece, and at most {free} are free")]
    NoSpace {
        /// Size of the region.
        size: u64,
        /// Bytes of the medium.
        needed: u64,
        /// Largest free piece.
        free: u64,
    },
    /// The directory is full.
    #[error("there are {0} regions already, and the directory holds no more; free one")]
    TooMany(usize),
    /// The medium holds something else.
    #[error(
        "byte {at} and following hold no area of regions ({what}); if nothing there is needed, format it (`esker init` does, for a layer of a stack)"
    )]
    Foreign {
        /// Where the area should begin.
        at: u64,
        /// What does not fit.
        what: String,
    },
    /// A header of an image cannot be used.
    #[error("region \"{name}\": byte {at} of its lower device {error}")]
    Header {
        /// Region; empty for the directory.
        name: String,
        /// Where.
        at: u64,
        /// Why.
        error: SuperblockError,
    },
    /// What was committed is damaged.
    #[error("region \"{name}\" is damaged at byte {at} of its lower device: {what}; restore the medium from a copy")]
    Corrupt {
        /// Region; empty for the directory.
        name: String,
        /// Where.
        at: u64,
        /// What does not fit.
        what: String,
    },
    /// A part of a lower device that cannot hold an area.
    #[error("an area of {len} bytes at byte {start} does not fit: {what}")]
    BadPlace {
        /// First byte.
        start: u64,
        /// Bytes.
        len: u64,
        /// Why.
        what: String,
    },
    /// A commit failed earlier, so the state of the medium is unknown.
    #[error("region \"{name}\" takes no commits since one failed: {cause}")]
    Latched {
        /// Region.
        name: String,
        /// Why that one failed.
        cause: String,
    },
    /// The lower device failed.
    #[error(transparent)]
    Io(#[from] BioError),
}

/// The result of something that waits for the medium.
pub type RegionFuture<T> = LocalFuture<Result<T, RegionError>>;

/// Memory that survives.
pub trait Region {
    /// Its name.
    fn name(&self) -> &str;

    /// Bytes.
    fn len(&self) -> u64;

    /// Whether it has no byte; none is.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes from `at` on.
    ///
    /// # Panics
    /// If they leave the region: its owner knows its size. So does [`Region::write`].
    fn read(&self, at: u64, out: &mut [u8]);

    /// Replaces the bytes from `at` on, in memory.
    fn write(&self, at: u64, bytes: &[u8]);

    /// Makes what the memory holds now the state that a restart finds. All of it or nothing; durable when this ends.
    ///
    /// # Errors
    /// [`RegionError::Io`], and [`RegionError::Latched`] from then on.
    fn commit(self: Rc<Self>, io: &Io) -> RegionFuture<()>;
}

/// Where regions come from.
pub trait Regions {
    /// A new region of `size` zero bytes, durable when this ends.
    ///
    /// # Errors
    /// A name or size that cannot be, a name that is taken, no room, and what the lower device answers.
    fn malloc(&self, io: &Io, name: &str, size: u64) -> RegionFuture<Rc<dyn Region>>;

    /// The region of that name as it was last committed, or none if there is no such region. Asked twice, it gives the
    /// same region.
    ///
    /// # Errors
    /// [`RegionError::Corrupt`], and what the lower device answers.
    fn restore(&self, io: &Io, name: &str) -> RegionFuture<Option<Rc<dyn Region>>>;

    /// Gives a region's room back. A holder of the region must not commit it.
    ///
    /// # Errors
    /// [`RegionError::Unknown`], and what the lower device answers.
    fn free(&self, io: &Io, name: &str) -> RegionFuture<()>;

    /// What is held.
    fn usage(&self) -> Usage;
}

/// What one owner of regions holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Regions.
    pub regions: u64,
    /// Bytes of memory of those that were made or restored.
    pub memory: u64,
    /// Bytes of the medium that are taken, headers and second images included.
    pub disk: u64,
    /// Bytes of the medium that are free.
    pub disk_free: u64,
}

#[cfg(test)]
mod tests;
