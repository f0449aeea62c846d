//! What can be built of the devices that can be bought.
//!
//! Devices that others beat in price, room and speed are left out first. So is what holds the data too little, or is
//! dearer than the budget.

use std::collections::BTreeSet;

use esker_base::units::{KIB, MIB, size_human};
use serde::Serialize;

use crate::catalogue::{Offer, OfferRole};
use crate::columns::LINES;
use crate::service::Service;

/// Times as many devices as the data need.
const TIMES: [u32; 3] = [1, 2, 4];
/// Numbers of lines that caches have, in [`LINES`].
const CACHE_LINES: [usize; 3] = [0, 2, 4];
/// Extents of tiers, in bytes.
const EXTENTS: [u64; 2] = [MIB, 16 * MIB];
/// A fast side is at least so many times as fast as the slow one, by random reads.
const FASTER: f64 = 3.0;
/// Room for maps and labels, in bytes.
pub(crate) const MAP_ROOM: u64 = 64 * MIB;
/// The line and the extent of what is a cache and a tier at once.
const BOTH: (usize, u64) = (2, 16 * MIB);

/// Devices of one type, striped if they are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct OfferedDevices {
    /// Which offer.
    pub offer: usize,
    /// How many.
    pub count: u32,
}

/// How a cache writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// To the copy alone.
    WriteBack,
    /// To both.
    WriteThrough,
}

impl Mode {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Mode::WriteBack => "write-back",
            Mode::WriteThrough => "write-through",
        }
    }
}

/// How devices are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case", tag = "use")]
pub enum Shape {
    /// Nothing but them.
    Plain(OfferedDevices),
    /// Copies on fast ones.
    Cache {
        /// Where the data are.
        home: OfferedDevices,
        /// Where the copies are.
        fast: OfferedDevices,
        /// A line, in [`LINES`].
        line: usize,
        /// How it writes.
        mode: Mode,
    },
    /// Each extent on one of both.
    Tier {
        /// What holds idle extents.
        home: OfferedDevices,
        /// What holds busy ones.
        fast: OfferedDevices,
        /// Bytes of an extent.
        extent: u64,
    },
    /// A cache on a part of the fast ones, before a tier of all others.
    Both {
        /// What holds idle extents.
        home: OfferedDevices,
        /// What holds copies and busy extents.
        fast: OfferedDevices,
        /// A line, in [`LINES`].
        line: usize,
        /// Bytes of an extent.
        extent: u64,
    },
    /// Disks that rest while fast ones have what is asked for.
    Resting {
        /// Where the data are.
        home: OfferedDevices,
        /// Where writes and copies are.
        fast: OfferedDevices,
    },
    /// Disks with an area that is laid out by what is asked for in turn.
    Reorganised(OfferedDevices),
}

/// What could be bought, and how it would be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// Short name.
    pub name: String,
    /// What it is, for people.
    pub what: String,
    /// How it is put together.
    pub shape: Shape,
    /// Price, US dollars.
    pub usd: f64,
}

/// What proposals are made for.
#[derive(Clone, Copy)]
pub struct Making<'a> {
    /// What can be bought.
    pub offers: &'a [Offer],
    /// How fast each is.
    pub services: &'a [Service],
    /// Bytes of the volume.
    pub volume: u64,
    /// Bytes of it that are used at all.
    pub footprint: u64,
    /// The most that may be paid, US dollars.
    pub budget: f64,
    /// How many times as fast as recorded the traces are played: times of layers are divided by it.
    pub speed: f64,
    /// From the first request to the last one as they are played, nanoseconds.
    pub span_ns: u64,
}

impl Making<'_> {
    /// All proposals that hold the data and can be paid, the cheapest first, at most `most`. If there are more, those
    /// of each kind stay that are cheapest.
    pub fn all(&self, most: usize) -> Vec<Proposal> {
        let homes = self.best(OfferRole::Home);
        let mut plain = Vec::new();
        for offer in &homes {
            let needed = self.needed(*offer);
            let counts: BTreeSet<u32> = TIMES.iter().filter_map(|times| needed.checked_mul(*times)).collect();
            let fits = |count: &u32| *count <= self.offers[*offer].count_max;
            plain.extend(counts.into_iter().filter(fits).map(|count| OfferedDevices { offer: *offer, count }));
        }
        let has_platters = |ends: &&OfferedDevices| self.offers[ends.offer].rest.is_some();
        let has_area =
            |ends: &&OfferedDevices| self.needed_for(ends.offer, self.volume + self.area_bytes()) <= ends.count;
        let [mut caches, mut tiers, mut both, mut resting] = [const { Vec::new() }; 4];
        for fast in self.best(OfferRole::Fast) {
            for home in plain.iter().filter(|home| self.is_faster(fast, home.offer)) {
                let (home, fast) = (*home, OfferedDevices { offer: fast, count: 1 });
                caches.extend(CACHE_LINES.iter().flat_map(|line| {
                    let line = *line;
                    [Mode::WriteBack, Mode::WriteThrough].map(|mode| Shape::Cache { home, fast, line, mode })
                }));
                tiers.extend(EXTENTS.map(|extent| Shape::Tier { home, fast, extent }));
                both.push(Shape::Both { home, fast, line: BOTH.0, extent: BOTH.1 });
                resting.extend(Some(&home).filter(has_platters).map(|home| Shape::Resting { home: *home, fast }));
            }
        }
        let disks = plain.iter().filter(has_platters).filter(has_area);
        let reorganised = disks.map(|ends| Shape::Reorganised(*ends)).collect();
        let plain = plain.iter().map(|ends| Shape::Plain(*ends)).collect();
        let shapes = [plain, caches, tiers, both, resting, reorganised];
        let mut kinds = shapes.map(|shapes: Vec<Shape>| {
            let mut made: Vec<Proposal> = shapes.into_iter().map(|shape| self.proposal(shape)).collect();
            made.retain(|proposal| proposal.usd <= self.budget);
            made.sort_by(|a, b| a.usd.total_cmp(&b.usd).then(a.shape.cmp(&b.shape)));
            made.into_iter()
        });
        let mut all: Vec<Proposal> = Vec::new();
        while all.len() < most {
            let before = all.len();
            all.extend(kinds.iter_mut().filter_map(Iterator::next));
            if all.len() == before {
                break;
            }
        }
        all.truncate(most);
        all.sort_by(|a, b| a.usd.total_cmp(&b.usd).then(a.shape.cmp(&b.shape)));
        all
    }

    /// The least room that no proposal offers, in bytes, if none is large enough.
    pub fn lacking_bytes(&self) -> u64 {
        let most = |offer: &Offer| offer.bytes.saturating_mul(u64::from(offer.count_max));
        let homes = self.offers.iter().filter(|offer| offer.role != OfferRole::Fast);
        self.volume.saturating_sub(homes.map(most).max().unwrap_or(0))
    }

    /// The least price that holds the data, if there is one.
    pub fn least_usd(&self) -> Option<f64> {
        let price = |offer: &usize| {
            let needed = self.needed(*offer);
            (needed <= self.offers[*offer].count_max).then(|| self.offers[*offer].usd * f64::from(needed))
        };
        self.best(OfferRole::Home).iter().filter_map(price).min_by(f64::total_cmp)
    }

    /// Offers of a role that no other one beats.
    fn best(&self, role: OfferRole) -> Vec<usize> {
        let fits = |at: &usize| [OfferRole::Any, role].contains(&self.offers[*at].role);
        let all = || (0..self.offers.len()).filter(fits);
        all().filter(|at| !all().any(|other| self.beats(other, *at))).collect()
    }

    /// Whether an offer is at least as good in all that counts, and better in something.
    fn beats(&self, one: usize, other: usize) -> bool {
        let figures = |at: usize| {
            let (offer, service) = (&self.offers[at], &self.services[at]);
            let usd = offer.usd * f64::from(self.needed(at));
            [usd, offer.usd, service.random_read_ns(), service.drain_ns(u64::MAX, 4 * KIB), service.drain_ns(0, MIB)]
        };
        let (ours, theirs) = (figures(one), figures(other));
        let is_count_enough = self.offers[one].count_max >= self.needed(one);
        let pairs = || ours.iter().zip(theirs.iter());
        is_count_enough && pairs().all(|(a, b)| a <= b) && (pairs().any(|(a, b)| a < b) || one < other)
    }

    fn is_faster(&self, fast: usize, home: usize) -> bool {
        self.services[fast].random_read_ns() * FASTER <= self.services[home].random_read_ns()
    }

    /// Devices that hold the volume, with the room of maps.
    pub(crate) fn needed(&self, offer: usize) -> u32 {
        self.needed_for(offer, self.volume)
    }

    fn needed_for(&self, offer: usize, bytes: u64) -> u32 {
        let usable = (self.offers[offer].bytes / MIB * MIB).saturating_sub(MAP_ROOM).max(MIB);
        u32::try_from(bytes.div_ceil(usable).max(1)).unwrap_or(u32::MAX)
    }

    pub(crate) fn proposal(&self, shape: Shape) -> Proposal {
        let text = |ends: &OfferedDevices| match ends.count {
            1 => self.offers[ends.offer].name.clone(),
            count => format!("{count} {}", self.offers[ends.offer].name),
        };
        let (name, what) = match &shape {
            Shape::Plain(ends) => (text(ends).replace(' ', "x"), format!("{} alone", text(ends))),
            Shape::Cache { home, fast, line, mode } => {
                let line = size_human(LINES[*line]);
                let what = format!("{} as a {} cache of {line} lines over {}", text(fast), mode.word(), text(home));
                let short = if *mode == Mode::WriteBack { "wb" } else { "wt" };
                (format!("cache-{short}-{}-{}-{}", line.replace(' ', ""), text(fast), text(home)), what)
            }
            Shape::Tier { home, fast, extent } => {
                let extent = size_human(*extent);
                let what = format!("{} and {} as a tier of {extent} extents", text(fast), text(home));
                (format!("tier-{}-{}-{}", extent.replace(' ', ""), text(fast), text(home)), what)
            }
            Shape::Both { home, fast, line, extent } => {
                let (line, extent) = (size_human(LINES[*line]), size_human(*extent));
                let (fast, home) = (text(fast), text(home));
                let what = format!("{fast} as a cache of {line} lines and, with {home}, as a tier of {extent} extents");
                (format!("both-{fast}-{home}"), what)
            }
            Shape::Resting { home, fast } => {
                let what = format!("{} that lets {} rest", text(fast), text(home));
                (format!("resting-{}-{}", text(fast), text(home)), what)
            }
            Shape::Reorganised(ends) => {
                (format!("reorganised-{}", text(ends)), format!("{} laid out by what is asked for in turn", text(ends)))
            }
        };
        let usd = shape.ends().iter().map(|ends| self.offers[ends.offer].usd * f64::from(ends.count)).sum();
        Proposal { name: name.replace(' ', "x"), what, shape, usd }
    }
}

impl Shape {
    /// All devices of it, the fast ones first.
    pub fn ends(&self) -> Vec<OfferedDevices> {
        match self {
            Shape::Plain(ends) | Shape::Reorganised(ends) => vec![*ends],
            Shape::Cache { home, fast, .. }
            | Shape::Tier { home, fast, .. }
            | Shape::Both { home, fast, .. }
            | Shape::Resting { home, fast } => vec![*fast, *home],
        }
    }

    /// Whether it learns what is asked for.
    pub fn learns(&self) -> bool {
        !matches!(self, Shape::Plain(_))
    }
}
