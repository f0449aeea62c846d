//! What may be wrong with the numbers of a profile.

use super::clock::DAY;
use super::places::{ALIGN, BLOCKS_PER_LEAF};
use esker_base::units::SECTOR;

/// A number of a profile that makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the numbers are")]
pub enum ProfileFlaw {
    /// No trace has this length.
    #[error("{0} hours; it must be above 0 and at most 876600")]
    Hours(f64),
    /// Two volumes have one name, or one has the name of all.
    #[error("the name is taken")]
    NameTaken,
    /// No volume, or too many of them.
    #[error("there are {0}; 1 to 65536 are possible")]
    Volumes(u64),
    /// A flow or target names a volume that the profile lacks.
    #[error("no such volume")]
    NoVolume,
    /// A rate of requests per second.
    #[error("rate is {0}; it must be above 0 and at most 1e9")]
    Rate(f64),
    /// A share of reads.
    #[error("reads is {0}; it must be a part from 0 to 1")]
    Reads(f64),
    /// The relative rates of a day.
    #[error("day has {0} rates; it must have {DAY}, not all 0")]
    Day(usize),
    /// A burst without requests, or one that lasts too long.
    #[error("burst has {requests} requests within {within_s} s; it must have one at least, within 0 to 86400 s")]
    Burst { requests: u32, within_s: f64 },
    /// A flow without sizes of requests.
    #[error("sizes is empty; there must be one")]
    NoSizes,
    /// A size of requests, or its frequency.
    #[error("size {bytes} with frequency {weight}: sizes are multiples of {SECTOR}, frequencies above 0")]
    Size { bytes: u64, weight: f64 },
    /// A part of a whole.
    #[error("{name} is {part}; it must be a part from 0 to 1")]
    Part { name: &'static str, part: f64 },
    /// The largest request is larger than the volume.
    #[error("requests of {longest} bytes do not fit on a volume of {bytes}")]
    OverVolume { longest: u64, bytes: u64 },
    /// The largest request is larger than a grain.
    #[error("requests of {longest} bytes do not fit into a grain of {grain}")]
    OverGrain { longest: u64, grain: u64 },
    /// A size of grains.
    #[error("grain is {0}; it must be a multiple of {ALIGN} bytes")]
    Grain(u64),
    /// A volume of fewer than two grains.
    #[error("a volume of {bytes} bytes does not hold two grains of {grain}")]
    FewGrains { bytes: u64, grain: u64 },
    /// The exponent of a Zipf law.
    #[error("exponent is {0}; it must be from 0 to 8")]
    Exponent(f64),
    /// Seconds between two renewals of a hot set.
    #[error("renew_s is {0}; it must be above 0")]
    Renewal(f64),
    /// The steps of a script.
    #[error("steps is {0}; it must be from 1 to 65536")]
    Steps(u32),
    /// The pause between requests of a run.
    #[error("gap_ms is {0}; it must be from 0 to 3600000")]
    Gap(f64),
    /// No stream.
    #[error("count is 0; there must be a stream")]
    NoStreams,
    /// Streams that end behind the volume, or nowhere.
    #[error("streams from {from} to {to} of length {run} leave the volume")]
    Streams { from: f64, to: f64, run: f64 },
    /// The largest request is larger than a stream.
    #[error("a stream of {run} bytes does not hold a request of {longest}")]
    OverStream { run: u64, longest: u64 },
    /// A point of a curve of popularity is not above and behind the one before.
    #[error("curve: ({space}, {share}) does not continue it")]
    Curve { space: f64, share: f64 },
    /// A curve of popularity grows where it should fall.
    #[error("curve: places before {before:?} are more popular than those before them")]
    Popularity { before: (f64, f64) },
    /// A part that is larger than the part which contains it.
    #[error("next ({next}) is part of near ({near}) and cannot be larger")]
    Next { next: f64, near: f64 },
    /// The slope at the head of a curve of popularity.
    #[error("head is {0}; it must be above 0 and at most 1")]
    Head(f64),
    /// No walker.
    #[error("walkers is 0; use at least 1")]
    NoWalkers,
    /// A hot spot with too few leaves for a walk.
    #[error("a hot spot of {leaves} leaves is too small; it needs {least} leaves of {BLOCKS_PER_LEAF} blocks")]
    HotSpot { leaves: u64, least: u64 },
    /// A walk takes requests of one size only.
    #[error("requests of a reuse walk are {ALIGN} bytes, not {0}")]
    WalkSize(u64),
}

impl ProfileFlaw {
    /// This flaw, unless all is right.
    pub(super) fn unless(self, is_right: bool) -> Result<(), ProfileFlaw> {
        if is_right { Ok(()) } else { Err(self) }
    }
}
