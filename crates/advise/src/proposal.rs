//! What can be built of the devices that can be bought.
//!
//! Devices that others beat in price, room and speed are left out first. So is what holds the data too little, or is
//! dearer than the budget.

use std::collections::BTreeSet;

use esker_base::units::{GIB, KIB, MIB, size_human, size_text};
use esker_predict::Candidate;
use esker_predict::seats::JOINED;
use esker_stack::Spec;
use serde::Serialize;

use crate::catalogue::{Offer, Role};
use crate::columns::LINES;
use crate::error::AdviseError;
use crate::queue::CHUNK;
use crate::service::Service;

/// Times as many devices as the data need.
const TIMES: [u32; 3] = [1, 2, 4];
/// Numbers of lines that caches have, in [`LINES`].
const CACHE_LINES: [usize; 3] = [0, 2, 4];
/// Extents of tiers, in bytes.
const EXTENTS: [u64; 2] = [MIB, 16 * MIB];
/// A fast side is at least so many times as fast as the slow one, by random reads.
const FASTER: f64 = 3.0;
/// Room for maps and labels beside extents, in bytes, and in extents of each end.
const MAP_ROOM: u64 = 64 * MIB;
const SPARE_EXTENTS: u64 = 4;

/// Devices of one type, striped if they are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Ends {
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
    fn word(self) -> &'static str {
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
    Plain(Ends),
    /// Copies on fast ones.
    Cache {
        /// Where the data are.
        home: Ends,
        /// Where the copies are.
        fast: Ends,
        /// A line, in [`LINES`].
        line: usize,
        /// How it writes.
        mode: Mode,
    },
    /// Each extent on one of both.
    Tier {
        /// What holds idle extents.
        home: Ends,
        /// What holds busy ones.
        fast: Ends,
        /// Bytes of an extent.
        extent: u64,
    },
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
}

impl Making<'_> {
    /// All proposals that hold the data and can be paid, the cheapest first, at most `most`. If there are more, those of
    /// each kind stay that are cheapest.
    pub fn all(&self, most: usize) -> Vec<Proposal> {
        let homes = self.best(Role::Home);
        let mut plain = Vec::new();
        for offer in &homes {
            let needed = self.needed(*offer);
            let counts: BTreeSet<u32> = TIMES.iter().filter_map(|times| needed.checked_mul(*times)).collect();
            let fits = |count: &u32| *count <= self.offers[*offer].count_max;
            plain.extend(counts.into_iter().filter(fits).map(|count| Ends { offer: *offer, count }));
        }
        let mut shapes = [plain.iter().map(|ends| Shape::Plain(*ends)).collect(), Vec::new(), Vec::new()];
        for fast in self.best(Role::Fast) {
            for home in plain.iter().filter(|home| self.is_faster(fast, home.offer)) {
                let fast = Ends { offer: fast, count: 1 };
                shapes[1].extend(CACHE_LINES.iter().flat_map(|line| {
                    let (home, line) = (*home, *line);
                    [Mode::WriteBack, Mode::WriteThrough].map(|mode| Shape::Cache { home, fast, line, mode })
                }));
                shapes[2].extend(EXTENTS.map(|extent| Shape::Tier { home: *home, fast, extent }));
            }
        }
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
        let homes = self.offers.iter().filter(|offer| offer.role != Role::Fast);
        self.volume.saturating_sub(homes.map(most).max().unwrap_or(0))
    }

    /// The least price that holds the data, if there is one.
    pub fn least_usd(&self) -> Option<f64> {
        let price = |offer: &usize| {
            let needed = self.needed(*offer);
            (needed <= self.offers[*offer].count_max).then(|| self.offers[*offer].usd * f64::from(needed))
        };
        self.best(Role::Home).iter().filter_map(price).min_by(f64::total_cmp)
    }

    /// Offers of a role that no other one beats.
    fn best(&self, role: Role) -> Vec<usize> {
        let fits = |at: &usize| [Role::Any, role].contains(&self.offers[*at].role);
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
    fn needed(&self, offer: usize) -> u32 {
        let usable = (self.offers[offer].bytes / MIB * MIB).saturating_sub(MAP_ROOM).max(MIB);
        u32::try_from(self.volume.div_ceil(usable).max(1)).unwrap_or(u32::MAX)
    }

    fn proposal(&self, shape: Shape) -> Proposal {
        let text = |ends: &Ends| match ends.count {
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
        };
        let usd = shape.ends().iter().map(|ends| self.offers[ends.offer].usd * f64::from(ends.count)).sum();
        Proposal { name: name.replace(' ', "x"), what, shape, usd }
    }

    /// Bytes of a fast side that are used: what lies beyond the data is never reached.
    pub fn fast_bytes(&self, fast: &Ends) -> u64 {
        let room = self.offers[fast.offer].bytes.saturating_mul(u64::from(fast.count)) / MIB * MIB;
        let wanted = (2 * self.footprint + GIB).next_multiple_of(MIB);
        room.min(wanted)
    }

    /// The stack that is played.
    ///
    /// # Errors
    /// A text of ours that does not read back.
    pub fn candidate(&self, proposal: &Proposal) -> Result<Candidate, AdviseError> {
        let volume = self.volume.next_multiple_of(MIB);
        let mut lines = Vec::new();
        match &proposal.shape {
            Shape::Plain(ends) => {
                let top = self.devices(&mut lines, "disk", ends, volume);
                lines.push(format!("store = pass on {top}"));
            }
            Shape::Cache { home, fast, line, mode } => {
                let home = self.devices(&mut lines, "home", home, volume);
                let fast = self.devices(&mut lines, "fast", fast, self.fast_bytes(fast));
                let (line, mode) = (size_text(LINES[*line]), mode.word());
                lines.push(format!("store = cache line={line} mode={mode} on {home}, {fast}"));
            }
            Shape::Tier { home, fast, extent } => {
                let sheets = [fast, home].map(|ends| self.sheet(ends)).join("; ");
                // The volume has whole extents.
                let size = volume.next_multiple_of(*extent);
                let room = MAP_ROOM + SPARE_EXTENTS * extent;
                let fast = self.devices(&mut lines, "fast", fast, self.fast_bytes(fast).max(room));
                let home = self.devices(&mut lines, "home", home, size + room);
                let [epoch, look] = [30.0 * 60.0, 60.0].map(|seconds| format!("{}ms", self.milliseconds(seconds)));
                lines.push(format!(
                    "store = tier devices=\"{sheets}\" extent={} size={} epoch={epoch} look={look} on {fast}, {home}",
                    size_text(*extent),
                    size_text(size)
                ));
            }
        }
        lines.push("blocks = align block=512 on store".to_string());
        lines.push(format!("volume = offset start=0 size={} on blocks", size_text(volume)));
        lines.push(format!("export {JOINED} = volume"));
        let spec = Spec::parse(&proposal.name, &lines.join("\n"))?;
        Ok(Candidate { name: proposal.name.clone(), what: proposal.what.clone(), spec })
    }

    /// Times of layers at the speed of the traces.
    fn milliseconds(&self, seconds: f64) -> u64 {
        (seconds * 1e3 / self.speed).ceil().max(1.0) as u64
    }

    /// Adds devices, and a stripe if they are several. Answers the name of what holds `bytes`.
    fn devices(&self, lines: &mut Vec<String>, name: &str, ends: &Ends, bytes: u64) -> String {
        let (offer, count) = (&self.offers[ends.offer], u64::from(ends.count));
        let each = bytes.div_ceil(count).next_multiple_of(MIB);
        let names: Vec<String> = (0..count).map(|at| format!("{name}{at}")).collect();
        for name in &names {
            let price = format!("price_usd={}", offer.usd);
            lines.push(format!("{name} = {} profile={} size={} {price}", offer.kind, offer.profile, size_text(each)));
        }
        match names.as_slice() {
            [one] => one.clone(),
            _ => {
                lines.push(format!("{name} = stripe chunk={} on {}", size_text(CHUNK), names.join(", ")));
                name.to_string()
            }
        }
    }

    fn sheet(&self, ends: &Ends) -> String {
        let (offer, service) = (&self.offers[ends.offer], &self.services[ends.offer]);
        let sheet = service.sheet(offer);
        let nanos = |seconds: f64| format!("{}ns", (seconds * 1e9).ceil().max(1.0));
        format!(
            "{}(usd={}, bytes={}, idle_w={}, active_w={}, rtime={}, rtime_write={}, xtime={}, iops={:.0}) x{}",
            offer.name,
            offer.usd,
            size_text(offer.bytes),
            offer.idle_w,
            offer.active_w,
            nanos(sheet.rtime_s),
            nanos(sheet.rtime_write_s),
            nanos(sheet.xtime_s_per_mb),
            sheet.iops.max(1.0),
            ends.count
        )
    }
}

impl Shape {
    /// All devices of it.
    pub fn ends(&self) -> Vec<Ends> {
        match self {
            Shape::Plain(ends) => vec![*ends],
            Shape::Cache { home, fast, .. } | Shape::Tier { home, fast, .. } => vec![*fast, *home],
        }
    }

    /// Whether it learns what is asked for.
    pub fn learns(&self) -> bool {
        !matches!(self, Shape::Plain(_))
    }
}
