//! Which block is overwritten next.

use esker_base::Stream;

/// How uneven overwrites are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Skew {
    /// All blocks alike.
    Uniform,
    /// `hot` of the blocks get `writes` of the overwrites.
    HotCold {
        /// Share of blocks.
        hot: f64,
        /// Share of overwrites.
        writes: f64,
    },
    /// The n-th block has the weight `n^-theta`.
    Zipf {
        /// Exponent.
        theta: f64,
    },
}

/// A tenth of the blocks gets nine tenths of the overwrites: what most studies use.
pub const TEN_NINETY: Skew = Skew::HotCold { hot: 0.1, writes: 0.9 };

/// Overwrites. Neither place nor time of the first write says which block is hot: addresses are shuffled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// How uneven.
    pub skew: Skew,
    /// Overwrites, in volumes, after which the hot blocks are others: the set moves on by its size, with Zipf's law by
    /// a tenth.
    pub drift: Option<f64>,
}

impl Load {
    /// The same blocks stay hot.
    pub fn steady(skew: Skew) -> Load {
        Load { skew, drift: None }
    }
}

/// A seeded sequence of blocks.
pub struct Draws {
    load: Load,
    /// Block of each rank; the hottest come first.
    order: Vec<u32>,
    /// Sums of weights by rank, for Zipf's law only.
    sums: Vec<f64>,
    /// Rank that is the hottest now.
    first: usize,
    drawn: u64,
    rng: Stream,
}

impl Draws {
    /// The sequence of a seed for a volume.
    pub fn new(load: Load, blocks: u32, seed: u64) -> Draws {
        let mut shuffle = Stream::named(seed, "cleaning-order");
        let mut order: Vec<u32> = (0..blocks).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, shuffle.below(at as u64 + 1) as usize);
        }
        let sums = match load.skew {
            Skew::Zipf { theta } => (1..=blocks)
                .scan(0.0, |sum, rank| {
                    *sum += f64::from(rank).powf(-theta);
                    Some(*sum)
                })
                .collect(),
            Skew::Uniform | Skew::HotCold { .. } => Vec::new(),
        };
        Draws { load, order, sums, first: 0, drawn: 0, rng: Stream::named(seed, "cleaning-load") }
    }

    /// The next block.
    pub fn draw(&mut self) -> u32 {
        self.drift();
        let rank = self.rank() + self.first;
        self.order[rank % self.order.len()]
    }

    fn drift(&mut self) {
        self.drawn += 1;
        let Some(drift) = self.load.drift else { return };
        let span = ((drift * self.order.len() as f64) as u64).max(1);
        if self.drawn.is_multiple_of(span) {
            self.first = (self.first + self.hot()) % self.order.len();
        }
    }

    /// Number of hot blocks.
    fn hot(&self) -> usize {
        let share = match self.load.skew {
            Skew::HotCold { hot, .. } => hot,
            Skew::Uniform | Skew::Zipf { .. } => 0.1,
        };
        ((self.order.len() as f64 * share) as usize).max(1)
    }

    fn rank(&mut self) -> usize {
        let (blocks, hot) = (self.order.len(), self.hot());
        match self.load.skew {
            Skew::Uniform => self.rng.below(blocks as u64) as usize,
            Skew::HotCold { writes, .. } if self.rng.chance(writes) => self.rng.below(hot as u64) as usize,
            Skew::HotCold { .. } => hot + self.rng.below((blocks - hot).max(1) as u64) as usize,
            Skew::Zipf { .. } => {
                let target = self.rng.unit() * self.sums.last().copied().unwrap_or(0.0);
                self.sums.partition_point(|sum| *sum <= target)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(load: Load, draws: u32) -> Vec<u32> {
        let mut source = Draws::new(load, 1_000, 3);
        let mut counts = vec![0; 1_000];
        (0..draws).for_each(|_| counts[source.draw() as usize] += 1);
        counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
        counts
    }

    fn share(counts: &[u32], of: usize) -> f64 {
        let sum = |part: &[u32]| f64::from(part.iter().sum::<u32>());
        sum(&counts[..of]) / sum(counts)
    }

    #[test]
    fn each_skew_gives_its_share() {
        let hot = share(&counts(Load::steady(TEN_NINETY), 200_000), 100);
        assert!((hot - 0.9).abs() < 0.005, "{hot}");
        let even = share(&counts(Load::steady(Skew::Uniform), 200_000), 100);
        assert!(even < 0.13, "{even}");
        let weight = |n: u32| (1..=n).map(|rank| f64::from(rank).recip()).sum::<f64>();
        let zipf = share(&counts(Load::steady(Skew::Zipf { theta: 1.0 }), 200_000), 100);
        assert!((zipf - weight(100) / weight(1_000)).abs() < 0.01, "{zipf}");
    }

    #[test]
    fn drift_makes_other_blocks_hot() {
        let drifting = Load { skew: TEN_NINETY, drift: Some(1.0) };
        let early = share(&counts(drifting, 900), 100);
        let all = share(&counts(drifting, 10_000), 100);
        assert!(early > 0.85 && all < 0.2, "{early} {all}");
    }

    #[test]
    fn a_seed_decides_the_sequence() {
        let first = |seed| {
            let mut draws = Draws::new(Load::steady(TEN_NINETY), 1_000, seed);
            [0; 8].map(|_| draws.draw())
        };
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }
}
