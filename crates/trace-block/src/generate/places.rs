//! How flows choose the places of their requests: one module for each kind.

mod grains;
mod hot;
mod reuse;
mod streams;
mod visits;

use super::flaw::ProfileFlaw;
use super::permutation::Permutation;
use super::zipf::Zipf;
use crate::record::Op;
use esker_base::{Nanos, Stream};
use grains::Grains;
pub(super) use reuse::BLOCKS_PER_LEAF;
use serde::Deserialize;

/// Requests that continue no other begin at multiples of this.
pub(super) const ALIGN: u64 = 4096;

/// A request that needs a place.
#[derive(Clone, Copy)]
pub(super) struct Ask {
    pub at: Nanos,
    pub op: Op,
    pub len: u64,
}

/// Chooses places on one volume.
pub(super) trait Places {
    /// Whether the next request begins something new, so that its operation is drawn anew.
    fn moves_on(&mut self, _draw: &mut Stream) -> bool {
        true
    }

    /// The offset of the request, in whole sectors if its length is; its end is on the volume.
    fn offset(&mut self, ask: &Ask, draw: &mut Stream) -> u64;
}

/// The kinds of choice, as profiles name them. Parts are between 0 and 1.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Kind {
    /// Every place is as likely as any other.
    Uniform {},
    /// Grains by Zipf's law, scattered over the volume; inside a grain, any place.
    Zipf {
        /// The exponent: 0 is uniform.
        exponent: f64,
        /// Size of a grain in bytes.
        grain: u64,
    },
    /// A hot part of the volume, scattered in grains, that moves on.
    HotCold {
        /// Size of a grain in bytes.
        grain: u64,
        /// Part of the grains that is hot.
        hot_space: f64,
        /// Part of the requests that goes to the hot grains.
        hot_share: f64,
        /// So many seconds after the last time, a part of the hot grains is replaced.
        renew_s: f64,
        /// That part.
        renew_part: f64,
    },
    /// Sequential streams; each request continues one of them.
    Streams {
        /// How many at a time.
        count: u32,
        /// Streams begin from this part of the volume ...
        from: f64,
        /// ... to this part.
        to: f64,
        /// Length of a stream as a part of the volume.
        run: f64,
    },
    /// Visits to grains of uneven popularity; a visit is a number of requests near each other.
    Visits {
        /// Size of a grain in bytes.
        grain: u64,
        /// Part of the grains that is ever visited.
        reach: f64,
        /// Pairs of a part of those grains, most popular first, and the part of the requests that falls on it. Those
        /// behind the last pair are all alike.
        curve: Vec<(f64, f64)>,
        /// Exponent of the popularity inside the first part: the part of requests grows as its power.
        head: f64,
        /// Part of the requests that stays in the grain of the request before.
        near: f64,
        /// Part of the requests that continues exactly where the one before ended.
        next: f64,
    },
    /// The hierarchical reuse random walk of SPC-1.
    Reuse {
        /// Where the hot spot begins, as a part of the volume.
        from: f64,
        /// Its size, as a part of the volume.
        space: f64,
        /// How many walk over it.
        walkers: u32,
    },
}

fn check_part(name: &'static str, part: f64) -> Result<(), ProfileFlaw> {
    ProfileFlaw::Part { name, part }.unless((0.0..=1.0).contains(&part))
}

impl Kind {
    /// Places on a volume of `bytes` for requests of at most `longest` bytes; `layout` decides what is hot, which all
    /// flows of a volume share, and `draw` everything else.
    pub(super) fn build(
        &self,
        bytes: u64,
        longest: u64,
        layout: &mut Stream,
        draw: &mut Stream,
    ) -> Result<Box<dyn Places>, ProfileFlaw> {
        ProfileFlaw::OverVolume { longest, bytes }.unless(longest <= bytes)?;
        Ok(match self {
            Kind::Uniform {} => Box::new(Uniform { bytes }),
            Kind::Zipf { exponent, grain } => {
                let grains = Grains::new(bytes, *grain, longest, layout)?;
                ProfileFlaw::Exponent(*exponent).unless((0.0..=8.0).contains(exponent))?;
                Box::new(ByRank { law: Zipf::new(grains.count(), *exponent), grains })
            }
            Kind::HotCold { grain, hot_space, hot_share, renew_s, renew_part } => {
                let grains = Grains::new(bytes, *grain, longest, layout)?;
                Box::new(hot::Hot::new(grains, *hot_space, *hot_share, *renew_s, *renew_part)?)
            }
            Kind::Streams { count, from, to, run } => {
                Box::new(streams::Streams::new(bytes, longest, *count, [*from, *to], *run, draw)?)
            }
            Kind::Visits { grain, reach, curve, head, near, next } => {
                let grains = Grains::new(bytes, *grain, longest, layout)?;
                Box::new(visits::Visits::new(grains, *reach, curve, *head, *near, *next)?)
            }
            Kind::Reuse { from, space, walkers } => {
                ProfileFlaw::WalkSize(longest).unless(longest <= ALIGN)?;
                Box::new(reuse::Reuse::new(bytes, *from, *space, *walkers, draw)?)
            }
        })
    }
}

/// A random multiple of [`ALIGN`] from which `len` bytes fit into `bytes`.
fn anywhere(bytes: u64, len: u64, draw: &mut Stream) -> u64 {
    draw.below((bytes - len) / ALIGN + 1) * ALIGN
}

struct Uniform {
    bytes: u64,
}

impl Places for Uniform {
    fn offset(&mut self, ask: &Ask, draw: &mut Stream) -> u64 {
        anywhere(self.bytes, ask.len, draw)
    }
}

struct ByRank {
    law: Zipf,
    grains: Grains,
}

impl Places for ByRank {
    fn offset(&mut self, ask: &Ask, draw: &mut Stream) -> u64 {
        let rank = self.law.draw(draw);
        self.grains.start(rank) + anywhere(self.grains.size, ask.len, draw)
    }
}

#[cfg(test)]
mod tests;
