//! Preconditioning: the state that long uniform random writes leave, without writing them.

use esker_base::Stream;

use super::{Ftl, LOW};

impl Ftl {
    /// Fills a new drive's units from 0 to before `filled` in random order and ages it, so that it stands where uniform
    /// random writes to those units end up.
    ///
    /// A block that was filled when a share `x` of all blocks was filled after it keeps `exp(-λx)` of its units: each
    /// write hits each live unit with the same chance. λ follows from the mean, which is the share of live units. This is
    /// exact for cleaning in order of age and the limit of greedy cleaning for large blocks (P. Desnoyers, *Analytic
    /// modeling of SSD write performance*, SYSTOR 2012).
    ///
    /// # Panics
    /// If the drive is not new.
    pub fn fill(&mut self, filled: u32, rng: &mut Stream) {
        assert!(self.counts == Default::default(), "a drive is filled before it is used");
        let filled = filled.min(self.geometry.units);
        let aged = self.geometry.blocks - LOW as u32;
        let room = f64::from(aged) * f64::from(self.geometry.block_units());
        let decay = decay_of(f64::from(filled) / room);
        let mut order = Shuffled::new(filled, rng);
        let mut placed = 0;
        for block in 0..aged {
            let younger = f64::from(aged - 1 - block) / f64::from(aged);
            // Live units in all blocks up to this one, which is the share between its age and the oldest.
            let share = if decay == 0.0 {
                1.0 - younger
            } else {
                ((-decay * younger).exp() - (-decay).exp()) / (1.0 - (-decay).exp())
            };
            let up_to = ((share * f64::from(filled)).round() as u32).min(placed + self.geometry.block_units());
            self.fill_block(up_to - placed, &mut order, rng);
            placed = up_to;
        }
    }

    /// Opens the next block, keeps `live` units of it at random places, and seals it.
    fn fill_block(&mut self, live: u32, order: &mut Shuffled, rng: &mut Stream) {
        let block = self.blocks.open().expect("a new drive's blocks are free");
        let (start, units) = (self.blocks.start(block), self.geometry.block_units());
        let mut left = live;
        for at in 0..units {
            if rng.below(u64::from(units - at)) < u64::from(left) {
                let unit = order.next();
                self.blocks.own(start + at, unit);
                self.map.put(unit, start + at);
                left -= 1;
            } else {
                self.blocks.kill(start + at);
            }
        }
        self.blocks.seal(block);
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

/// All numbers below a bound once each, in steps that are near the golden section of the bound and have no common factor
/// with it.
struct Shuffled {
    bound: u64,
    step: u64,
    at: u64,
}

impl Shuffled {
    fn new(bound: u32, rng: &mut Stream) -> Shuffled {
        let bound = u64::from(bound).max(1);
        let mut step = (bound as f64 * 0.618_033_988_749_895) as u64 | 1;
        while common_factor(step, bound) != 1 {
            step += 1;
        }
        Shuffled { bound, step: step % bound, at: rng.below(bound) }
    }

    fn next(&mut self) -> u32 {
        self.at += self.step;
        if self.at >= self.bound {
            self.at -= self.bound;
        }
        self.at as u32
    }
}

fn common_factor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_factor(b, a % b) }
}
