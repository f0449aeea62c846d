//! The translation layer of a drive: page-mapped, log-structured, with its own collector.
//!
//! A *unit* is what the map maps. A *page* holds some units and is programmed at once on one die; consecutive pages of
//! a block are on consecutive dies. The host writes into one open block, the collector into another (or the same). When
//! few blocks are free, the collector moves the live units of a block that it chooses. For each page that the host
//! writes it moves as many as it takes to have the block free in time. This page does not know time: it tells a
//! [`Flash`] what the flash does. No request allocates, except the first to touch a part of the map or a block.
//!
//! Reading order: [`map`], [`blocks`], this page, [`fill`](Ftl::fill).

mod blocks;
mod fill;
mod map;
#[cfg(test)]
mod tests;

pub use blocks::Cleaner;
pub use map::{PhysicalUnit, UnitState};

use blocks::Blocks;
use fill::Aged;
use map::Map;

/// How units lie on flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Logical units.
    pub units: u32,
    /// Blocks, each over all dies.
    pub blocks: u32,
    /// Pages of a block.
    pub pages: u32,
    /// Units of a page, a power of two.
    pub page_units: u32,
    /// Dies.
    pub dies: u32,
}

/// Where the collector writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// Into blocks of its own.
    Apart,
    /// Behind what the host wrote last.
    Mixed,
}

/// Whose page is programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writer {
    /// The host's, among which the collector's are with [`Moved::Mixed`].
    Host,
    /// The collector's.
    Collector,
}

/// What happens on flash, in the order in which it happens.
pub trait Flash {
    /// A page was filled and is programmed on `die`.
    fn program(&mut self, die: u32, writer: Writer);
    /// The collector takes one unit from `die`; `sense` if it is the first of its page.
    fn collect(&mut self, die: u32, sense: bool);
    /// A block is erased on all dies.
    fn erase(&mut self);
}

/// Counts only.
impl Flash for () {
    fn program(&mut self, _: u32, _: Writer) {}
    fn collect(&mut self, _: u32, _: bool) {}
    fn erase(&mut self) {}
}

/// What was done so far, in units unless it says otherwise.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Written by the host.
    pub host: u64,
    /// Of these, overwritten in the buffer's open page, so that they never took room on flash.
    pub absorbed: u64,
    /// Moved by the collector.
    pub moved: u64,
    /// Left empty because a page had to be programmed before it was full.
    pub padded: u64,
    /// Blocks erased.
    pub erased: u64,
}

impl Counts {
    /// Units programmed for each unit that the host wrote; 1 before the first.
    pub fn write_amplification(&self) -> f64 {
        match self.host {
            0 => 1.0,
            host => (host - self.absorbed + self.moved + self.padded) as f64 / host as f64,
        }
    }

    /// What was done since `earlier`.
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            host: self.host - earlier.host,
            absorbed: self.absorbed - earlier.absorbed,
            moved: self.moved - earlier.moved,
            padded: self.padded - earlier.padded,
            erased: self.erased - earlier.erased,
        }
    }
}

/// The collector works while no more blocks than these are free. In the long run, as much as these hold is unwritten:
/// free blocks and the rest of open ones.
pub const LOW: usize = 3;
/// The host opens a block only if the collector finds another one.
const HOST_NEEDS: usize = 2;
/// As many units from the host as it takes to have a victim free at once.
const DRAIN: u64 = 1 << 40;
/// Blocks that never hold data all at once: free ones, the open ones, and one for the collector's gain.
pub const RESERVE: u32 = LOW as u32 + 3;

/// An open block: what is written next.
#[derive(Clone, Copy)]
struct Point {
    block: u32,
    place: PhysicalUnit,
    end: PhysicalUnit,
    die: u32,
}

/// The place of a closed point is in no page.
const CLOSED: Point = Point { block: 0, place: PhysicalUnit::MAX, end: PhysicalUnit::MAX, die: 0 };

/// The block that is being cleaned.
#[derive(Clone, Copy)]
struct Victim {
    block: u32,
    next: PhysicalUnit,
    end: PhysicalUnit,
    /// Page whose units are taken, and its die.
    page: u32,
    die: u32,
    /// Live units when it was chosen, and units that the host may write until it must be free.
    live: u64,
    gain: u64,
    /// Units that the host has written since, and units moved.
    hosted: u64,
    moved: u64,
}

/// Number of the host's page in a block that the host does not write: older than all others.
const NOT_BUFFERED: i64 = i64::MIN / 2;

/// The translation layer's state.
pub struct Ftl {
    geometry: Geometry,
    page_shift: u32,
    map: Map,
    /// Where the units lie that were there before the first request and that the map does not know.
    aged: Option<Aged>,
    blocks: Blocks,
    host: Point,
    collector: Point,
    moved: Moved,
    cleaner: Cleaner,
    victim: Option<Victim>,
    /// Units of the host's since the collector last kept pace.
    unpaced: u32,
    /// Pages that the host's point has programmed, and the number of the first page of each block among them.
    pages: i64,
    first_page: Vec<i64>,
    counts: Counts,
}

impl Ftl {
    /// A new drive. `geometry` must satisfy [`Geometry::fault`].
    pub fn new(geometry: Geometry, cleaner: Cleaner, moved: Moved) -> Ftl {
        Ftl {
            geometry,
            page_shift: geometry.page_units.trailing_zeros(),
            map: Map::new(geometry.units),
            aged: None,
            blocks: Blocks::new(geometry.blocks, geometry.block_units()),
            host: CLOSED,
            collector: CLOSED,
            moved,
            cleaner,
            victim: None,
            unpaced: 0,
            pages: 0,
            first_page: vec![NOT_BUFFERED; geometry.blocks as usize],
            counts: Counts::default(),
        }
    }

    /// Its geometry.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// What was done so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Times that each block was erased.
    pub fn wear(&self) -> &[u32] {
        self.blocks.erases()
    }

    /// Where `unit` is.
    #[inline]
    pub fn locate(&self, unit: u32) -> UnitState {
        match (self.map.get(unit), &self.aged) {
            (UnitState::Never, Some(aged)) => match aged.find(unit) {
                Some((block, inside)) => UnitState::At(self.blocks.start(block) + inside),
                None => UnitState::Never,
            },
            (held, _) => held,
        }
    }

    /// The page of a place, by a number that no other page of the drive has.
    #[inline]
    pub fn page_of(&self, place: PhysicalUnit) -> u32 {
        place >> self.page_shift
    }

    /// The die of a place.
    #[inline]
    pub fn die_of(&self, place: PhysicalUnit) -> u32 {
        self.page_in_block(place) % self.geometry.dies
    }

    #[inline]
    fn page_in_block(&self, place: PhysicalUnit) -> u32 {
        (place - self.blocks.start(self.blocks.of(place))) >> self.page_shift
    }

    /// Pages that the host's writes have filled so far.
    #[inline]
    pub fn host_pages(&self) -> i64 {
        self.pages
    }

    /// The number of the host's page that holds `place`: at least [`Ftl::host_pages`] if it is not yet full, and below
    /// zero for what the collector wrote.
    #[inline]
    pub fn host_page(&self, place: PhysicalUnit) -> i64 {
        self.first_page[self.blocks.of(place) as usize] + i64::from(self.page_in_block(place))
    }

    /// Writes one unit. Returns whether it took room, which it does not if the open page holds the unit already.
    #[inline]
    pub fn write(&mut self, unit: u32, flash: &mut impl Flash) -> bool {
        self.counts.host += 1;
        if self.host.place == self.host.end {
            while self.blocks.free() < HOST_NEEDS {
                self.clean(DRAIN, flash);
            }
            self.open(Writer::Host);
        }
        let old = match self.locate(unit) {
            UnitState::At(old) if self.page_of(old) == self.page_of(self.host.place) => {
                self.counts.absorbed += 1;
                return false;
            }
            UnitState::At(old) => Some(old),
            UnitState::Never | UnitState::Trimmed => None,
        };
        self.append(Writer::Host, unit, old, flash);
        self.unpaced += 1;
        if self.host.place & (self.geometry.page_units - 1) == 0 || self.host.place == self.host.end {
            self.keep_pace(flash);
        }
        true
    }

    /// Programs the host's open page as it is, if it holds anything.
    pub fn pad(&mut self, flash: &mut impl Flash) {
        let in_page = self.host.place & (self.geometry.page_units - 1);
        if self.host.place == self.host.end || in_page == 0 {
            return;
        }
        let rest = self.geometry.page_units - in_page;
        for place in self.host.place..self.host.place + rest {
            self.blocks.kill(place);
        }
        self.host.place += rest;
        self.counts.padded += u64::from(rest);
        self.end_page(Writer::Host, flash);
        self.unpaced += rest;
        self.keep_pace(flash);
    }

    /// Forgets the units from `first` to before `end`.
    pub fn trim(&mut self, first: u32, end: u32) {
        // What the map does not know of must be in it to be forgotten.
        for unit in first..if self.aged.is_some() { end } else { first } {
            if self.map.get(unit) == UnitState::Never
                && let UnitState::At(place) = self.locate(unit)
            {
                self.map.put(unit, place);
            }
        }
        let blocks = &mut self.blocks;
        self.map.trim(first, end, |place| blocks.kill(place));
    }

    fn point(&mut self, writer: Writer) -> &mut Point {
        match writer {
            Writer::Host => &mut self.host,
            Writer::Collector => &mut self.collector,
        }
    }

    /// Opens a block. There is one: the host leaves one for the collector, and the collector has freed a block before
    /// it has filled one.
    fn open(&mut self, writer: Writer) {
        let block = self.blocks.open().expect("the collector frees blocks before they run out");
        let place = self.blocks.start(block);
        self.first_page[block as usize] = if writer == Writer::Host { self.pages } else { NOT_BUFFERED };
        *self.point(writer) = Point { block, place, end: place + self.geometry.block_units(), die: 0 };
    }

    /// Puts a unit that was at `old` behind the last one of an open point.
    #[inline]
    fn append(&mut self, writer: Writer, unit: u32, old: Option<PhysicalUnit>, flash: &mut impl Flash) {
        let point = self.point(writer);
        let place = point.place;
        point.place += 1;
        self.blocks.own(place, unit);
        self.map.put(unit, place);
        if let Some(old) = old {
            self.blocks.kill(old);
        }
        if (place + 1) & (self.geometry.page_units - 1) == 0 {
            self.end_page(writer, flash);
        }
    }

    fn end_page(&mut self, writer: Writer, flash: &mut impl Flash) {
        let dies = self.geometry.dies;
        let point = self.point(writer);
        let die = point.die;
        point.die = if die + 1 == dies { 0 } else { die + 1 };
        if point.place == point.end {
            let block = point.block;
            *point = CLOSED;
            self.blocks.seal(block);
        }
        self.pages += i64::from(writer == Writer::Host);
        flash.program(die, writer);
    }

    /// Lets the collector keep pace with what the host wrote since the last time.
    #[inline]
    fn keep_pace(&mut self, flash: &mut impl Flash) {
        let hosted = std::mem::take(&mut self.unpaced);
        if self.victim.is_some() || self.blocks.free() <= LOW {
            self.clean(u64::from(hosted), flash);
            // The collector took the last block in the middle of a victim, whose rest fits into it.
            while self.blocks.free() == 0 {
                self.clean(DRAIN, flash);
            }
        }
    }

    /// Moves as many units of the victim as are due after `hosted` units more from the host; frees it in the end.
    fn clean(&mut self, hosted: u64, flash: &mut impl Flash) {
        let Some(mut victim) = self.victim.take().or_else(|| self.choose()) else { return };
        victim.hosted += hosted;
        while victim.moved * victim.gain <= victim.hosted.saturating_mul(victim.live) {
            if !self.move_next(&mut victim, flash) {
                self.blocks.erase(victim.block);
                self.counts.erased += 1;
                // What the host wrote beyond the victim's gain is due with the next one.
                if hosted != DRAIN {
                    self.unpaced += victim.hosted.saturating_sub(victim.gain) as u32;
                }
                return flash.erase();
            }
        }
        self.victim = Some(victim);
    }

    fn choose(&mut self) -> Option<Victim> {
        let block = self.blocks.choose(&mut self.cleaner)?;
        self.lay_out(block);
        let (next, units, live) = (self.blocks.start(block), self.geometry.block_units(), self.blocks.live(block));
        // A cycle at its own pace frees as many units as it takes; it goes faster where free blocks are missing.
        let hurry = LOW.saturating_sub(self.blocks.free());
        Some(Victim {
            block,
            next,
            end: next + units,
            page: u32::MAX,
            die: 0,
            live: u64::from(live),
            gain: u64::from((units - live) >> hurry),
            hosted: 0,
            moved: 0,
        })
    }

    /// Moves the next live unit; `false` if there is none.
    #[inline]
    fn move_next(&mut self, victim: &mut Victim, flash: &mut impl Flash) -> bool {
        let Some(place) = self.blocks.next_live(victim.next, victim.end) else { return false };
        let page = self.page_of(place);
        let sense = page != victim.page;
        if sense {
            (victim.page, victim.die) = (page, self.die_of(place));
        }
        flash.collect(victim.die, sense);
        let writer = if self.moved == Moved::Apart { Writer::Collector } else { Writer::Host };
        if self.point(writer).place == self.point(writer).end {
            self.open(writer);
        }
        self.append(writer, self.blocks.owner(place), Some(place), flash);
        victim.next = place + 1;
        victim.moved += 1;
        self.counts.moved += 1;
        true
    }
}

impl Geometry {
    /// Units of a block.
    pub fn block_units(&self) -> u32 {
        self.pages * self.page_units
    }

    /// What is wrong with it, if anything.
    pub fn fault(&self) -> Option<String> {
        let per_block = u64::from(self.pages) * u64::from(self.page_units);
        if self.units == 0 || self.dies == 0 || self.pages == 0 || !self.page_units.is_power_of_two() {
            return Some("units, dies and pages must be above 0, and units of a page a power of two".to_string());
        }
        // The last block's end and the closed point's page must be places, too.
        let stride = per_block.next_power_of_two().max(64);
        if stride * (u64::from(self.blocks) + 1) > u64::from(map::PLACE_MAX) {
            return Some(format!("{} blocks of {per_block} units are more than the map can name", self.blocks));
        }
        let needed = u64::from(self.units).div_ceil(per_block) + u64::from(RESERVE);
        (u64::from(self.blocks) < needed).then(|| {
            format!(
                "{} blocks of {per_block} units are too few for {} units: the collector needs {RESERVE} blocks beside \
                 those that the data fill",
                self.blocks, self.units
            )
        })
    }
}
