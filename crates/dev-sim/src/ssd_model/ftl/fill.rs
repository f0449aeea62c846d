//! Preconditioning: the state that long uniform random writes leave, without writing them.
//!
//! Where a unit lies is computed from its number until it is written, moved or trimmed, and a block is laid out in
//! memory when the collector takes it. So filling takes no longer for a large drive than for a small one, and its
//! memory is that of what changes afterwards.

use esker_base::Stream;

use super::map::PhysicalUnit;
use super::{Ftl, LOW, Moved, Point, Writer};

impl Ftl {
    /// Fills a new drive's units from 0 to before `filled` in random order and ages it, so that it stands where uniform
    /// random writes to those units end up.
    ///
    /// A block that was filled when a share `x` of all flash was filled after it keeps `exp(-λx)` of its units: each
    /// write hits each live unit with the same chance. λ follows from the mean, which is the share of live units. This
    /// is exact for cleaning in order of age and the limit of greedy cleaning for large blocks (P. Desnoyers, *Analytic
    /// modeling of SSD write performance*, SYSTOR 2012). Each writer goes on in a block that is half full and as many
    /// blocks are free as the collector wants when it chooses. So it neither hurries nor pauses: it is at its pace from
    /// the first write on.
    ///
    /// # Panics
    /// If the drive is not new.
    pub fn fill(&mut self, filled: u32, rng: &mut Stream) {
        assert!(self.counts == Default::default(), "a drive is filled before it is used");
        let filled = filled.min(self.geometry.units);
        let writers: &[Writer] = match self.moved {
            Moved::Apart => &[Writer::Collector, Writer::Host],
            Moved::Mixed => &[Writer::Host],
        };
        let (units, half) = (self.geometry.block_units(), self.geometry.pages / 2 * self.geometry.page_units);
        let sealed = self.geometry.blocks - LOW as u32 - writers.len() as u32;
        let room = u64::from(sealed) * u64::from(units) + u64::from(half) * writers.len() as u64;
        let mut ages = Ages::new(filled, room);
        let mut aged = Aged::new(Steps::new(filled, rng), Steps::new(units, rng), Steps::new(half.max(1), rng));
        for _ in 0..sealed {
            let end = ages.pass(units);
            let block = self.blocks.age(aged.push(end));
            self.blocks.seal(block);
        }
        aged.whole = sealed;
        let open: Vec<u32> =
            writers.iter().map(|_| self.blocks.age(aged.push(ages.pass(half)) + units - half)).collect();
        self.aged = Some(aged);
        for (writer, block) in writers.iter().zip(open) {
            self.go_on_in(*writer, block, half);
        }
    }

    /// Makes a block, whose first `written` units hold what is live of what was written there, the open one of a
    /// writer.
    fn go_on_in(&mut self, writer: Writer, block: u32, written: u32) {
        self.lay_out(block);
        let (pages, start) = (written / self.geometry.page_units, self.blocks.start(block));
        let (place, end) = (start + written, start + self.geometry.block_units());
        (place..end).for_each(|place| self.blocks.lay(place, 0));
        *self.point(writer) = Point { block, place, end, die: pages % self.geometry.dies };
        if writer == Writer::Host {
            (self.first_page[block as usize], self.pages) = (0, i64::from(pages));
        }
    }

    /// Puts into memory what an aged block still holds, if it is one: its units can then be walked.
    pub(super) fn lay_out(&mut self, block: u32) {
        let Some(aged) = &self.aged else { return };
        let Some(killed) = self.blocks.begin_layout(block) else { return };
        let start = self.blocks.start(block);
        for at in aged.range(block) {
            self.blocks.lay(start + aged.inside(block, at), aged.order.at(at));
        }
        killed.into_iter().for_each(|place| self.blocks.clear(place));
    }
}

/// How many units of each part of flash are live, from the oldest part to the youngest.
struct Ages {
    decay: f64,
    /// Units that are live in the end, and those that there is room for.
    filled: f64,
    room: f64,
    /// Units of flash behind the parts that were passed, and live units in these.
    younger: u64,
    placed: u32,
}

impl Ages {
    fn new(filled: u32, room: u64) -> Ages {
        let (filled, decay) = (f64::from(filled), decay_of(f64::from(filled) / room as f64));
        Ages { decay, filled, room: room as f64, younger: room, placed: 0 }
    }

    /// Passes a part of `units` units, and says how many are live up to its end.
    fn pass(&mut self, units: u32) -> u32 {
        self.younger -= u64::from(units);
        let (younger, decay) = (self.younger as f64 / self.room, self.decay);
        // The share of all live units whose age lies between here and the oldest.
        let share = if decay == 0.0 {
            1.0 - younger
        } else {
            ((-decay * younger).exp() - (-decay).exp()) / (1.0 - (-decay).exp())
        };
        self.placed = ((share * self.filled).round() as u32).min(self.placed + units);
        self.placed
    }
}

/// λ such that the mean of `exp(-λx)` for x from 0 to 1 is `mean`.
fn decay_of(mean: f64) -> f64 {
    if mean >= 1.0 {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 1.0 / mean.max(1e-9));
    for _ in 0..64 {
        let middle: f64 = (low + high) / 2.0;
        // -expm1 keeps its digits where the drive is nearly full.
        let share = -(-middle).exp_m1() / middle;
        if share > mean { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Where the units of a filled drive lie that nothing has touched since.
pub(super) struct Aged {
    /// For each block from the first on: how many units of the filling order lie in it and those before it.
    ends: Vec<u32>,
    order: Steps,
    /// Blocks that were written as a whole; half of those behind them was.
    whole: u32,
    /// Where in a block its units lie, once they are spread over it; the same for half a block.
    inside: Steps,
    inside_half: Steps,
}

impl Aged {
    fn new(order: Steps, inside: Steps, inside_half: Steps) -> Aged {
        Aged { ends: Vec::new(), order, whole: u32::MAX, inside, inside_half }
    }

    /// Says up to which unit of the filling order the next block goes, and returns how many it holds.
    fn push(&mut self, end: u32) -> u32 {
        let before = self.ends.last().copied().unwrap_or(0);
        self.ends.push(end);
        end - before
    }

    /// Block of a unit, and its place in the block.
    pub(super) fn find(&self, unit: u32) -> Option<(u32, PhysicalUnit)> {
        let at = self.order.index_of(unit)?;
        let block = self.ends.partition_point(|end| *end <= at) as u32;
        ((block as usize) < self.ends.len()).then(|| (block, self.inside(block, at)))
    }

    /// What of the filling order lies in a block.
    fn range(&self, block: u32) -> std::ops::Range<u32> {
        let begin = block.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        begin..self.ends[block as usize]
    }

    /// The place in its block of what is number `at` of the filling order.
    fn inside(&self, block: u32, at: u32) -> PhysicalUnit {
        let (live, inside) = (self.range(block), if block < self.whole { &self.inside } else { &self.inside_half });
        let spread = u64::from(at - live.start) * inside.bound / u64::from(live.end - live.start);
        inside.at(spread as u32)
    }
}

/// All numbers below a bound once each, in steps that are near the golden section of the bound and have no common
/// factor with it.
struct Steps {
    bound: u64,
    step: u64,
    /// What undoes a step: step × back is 1, modulo the bound.
    back: u64,
    first: u64,
}

impl Steps {
    fn new(bound: u32, rng: &mut Stream) -> Steps {
        let bound = u64::from(bound).max(1);
        let mut step = (bound as f64 * 0.618_033_988_749_895) as u64 | 1;
        let back = loop {
            match inverse(step, bound) {
                Some(back) => break back,
                None => step += 1,
            }
        };
        Steps { bound, step: step % bound, back, first: rng.below(bound) }
    }

    /// The number at `index`, which is below the bound.
    fn at(&self, index: u32) -> u32 {
        ((self.first + u64::from(index) * self.step) % self.bound) as u32
    }

    /// Where a number is, if it is below the bound.
    fn index_of(&self, number: u32) -> Option<u32> {
        let steps = (u64::from(number) + self.bound - self.first) % self.bound;
        (u64::from(number) < self.bound).then_some((steps * self.back % self.bound) as u32)
    }
}

/// The number whose product with `a` is 1 modulo `bound`; `None` if they have a common factor.
fn inverse(a: u64, bound: u64) -> Option<u64> {
    let (mut old, mut new) = ((bound, 0), (a % bound, 1 % bound));
    while new.0 > 0 {
        let (times, rest) = (old.0 / new.0, old.0 % new.0);
        let factor = (old.1 + bound - times * new.1 % bound) % bound;
        (old, new) = (new, (rest, factor));
    }
    (old.0 == 1).then_some(old.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_visit_every_number_once_and_lead_back() {
        for bound in [1, 2, 3, 8, 97, 1000, 4096, 30_030] {
            let steps = Steps::new(bound, &mut Stream::seeded(u64::from(bound)));
            let mut seen = vec![false; bound as usize];
            for index in 0..bound {
                let number = steps.at(index);
                assert_eq!(steps.index_of(number), Some(index), "{bound}");
                assert!(!std::mem::replace(&mut seen[number as usize], true), "{bound}");
            }
            assert_eq!(steps.index_of(bound), None);
        }
        assert_eq!((inverse(4, 6), inverse(5, 6)), (None, Some(5)));
    }
}
