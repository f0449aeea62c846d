//! How flows choose the places of their requests: one module for each kind.

mod grains;
mod hot;
mod reuse;
mod scripts;
mod streams;
mod visits;

use super::flaw::ProfileFlaw;
use super::permutation::Permutation;
use super::zipf::Zipf;
use crate::record::Op;
use esker_base::units::GIB;
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

    /// Numbers from 0 to 1 that decide operation and size of the next request, where they belong to its place. `at` is
    /// in seconds.
    fn given(&mut self, _at: f64, _draw: &mut Stream) -> Option<[f64; 2]> {
        None
    }

    /// Whether the run of requests of which the last one is a part has more of them.
    fn goes_on(&self) -> bool {
        false
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
        /// The popularity of grains changes, or stays without it.
        #[serde(default)]
        renew: Option<Renewal>,
    },
    /// Scripts: orders of places that are gone through again. Each request is a step of a run of one.
    Scripts {
        /// Size of a grain in bytes. A step lies in one.
        grain: u64,
        /// Part of the grains to which scripts jump.
        reach: f64,
        /// Scripts for each GiB of the volume.
        per_gib: f64,
        /// Steps of a script.
        steps: u32,
        /// Exponent of Zipf's law of the scripts' popularity.
        exponent: f64,
        /// Part of the runs that go through steps of any scripts instead, without order.
        stray: f64,
        /// Part of the steps that begin where the one before ends.
        next: f64,
        /// Part of the others that stay within 32 MiB.
        near: f64,
        /// In so many seconds ...
        renew_s: f64,
        /// ... this part of the scripts gets other steps.
        renew_part: f64,
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

/// How the most popular grains change.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renewal {
    /// So many seconds after the last time ...
    pub every_s: f64,
    /// ... this part of the grains of the curve's first pair becomes the least popular, and others move up.
    pub part: f64,
}

fn check_part(name: &'static str, part: f64) -> Result<(), ProfileFlaw> {
    ProfileFlaw::Part { name, part }.unless((0.0..=1.0).contains(&part))
}

impl Kind {
    /// Requests of a run.
    pub(super) fn run(&self) -> u32 {
        if let Kind::Scripts { steps, .. } = self { *steps } else { 1 }
    }

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
            Kind::Visits { grain, reach, curve, head, near, next, renew } => {
                let grains = Grains::new(bytes, *grain, longest, layout)?;
                Box::new(visits::Visits::new(grains, *reach, curve, *head, *near, *next, *renew)?)
            }
            Kind::Scripts { grain, reach, per_gib, steps, exponent, stray, next, near, renew_s, renew_part } => {
                let grains = Grains::new(bytes, *grain, longest, layout)?;
                let rules = scripts::ScriptRules {
                    reach: *reach,
                    scripts: ((bytes as f64 / GIB as f64 * per_gib).round() as u64).max(1),
                    steps: *steps,
                    exponent: *exponent,
                    stray: *stray,
                    next: *next,
                    near: *near,
                    renew_s: *renew_s,
                    renew_part: *renew_part,
                };
                Box::new(scripts::Scripts::new(grains, rules, draw)?)
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
