//! Policies: how good a victim a segment is. A new one is an implementation of [`Policy`] and a line in [`NAMED`].
//!
//! Greedy takes what frees most now. Cost-benefit (M. Rosenblum and J. Ousterhout, *The design and implementation of a
//! log-structured file system*, 1992) waits for segments whose blocks still die, and pays for those that rest. When
//! which of them wins, and by how much, is measured in [`crate::model`] and told in the documents.

use crate::{Summary, Worth};

/// What a policy knows of the store as a whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Situation {
    /// The log's clock.
    pub now: u64,
    /// Share of the dead blocks that is left when this pass of the cleaner has reached its target, 0 to 1: the freedom
    /// to choose. See [`Situation::of_pass`].
    pub slack: f64,
}

impl Situation {
    /// The situation in a pass that gains `gain` blocks in all, seen from its beginning, in a store with `dead` dead
    /// blocks in full segments. It must stay the same during the pass: near its end little is left to gain, whatever
    /// the pass is like.
    pub fn of_pass(now: u64, dead: u64, gain: u64) -> Situation {
        let slack = if dead == 0 { 0.0 } else { 1.0 - gain as f64 / dead as f64 };
        Situation { now, slack: slack.max(0.0) }
    }
}

/// An order among victims.
pub trait Policy {
    /// How good a victim the segment is; [`Worth::NONE`] if it must not be one.
    fn worth(&self, segment: &Summary, situation: &Situation) -> Worth;
}

/// Oldest first, as in a ring buffer: blind to live blocks, but checkpoints vanish in order, and nothing need be
/// counted.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp;

impl Policy for Timestamp {
    fn worth(&self, segment: &Summary, _: &Situation) -> Worth {
        Worth::new(u128::from(u64::MAX - segment.last) + 1, 1)
    }
}

/// Most dead blocks first.
#[derive(Debug, Clone, Copy)]
pub struct Greedy;

impl Policy for Greedy {
    fn worth(&self, segment: &Summary, _: &Situation) -> Worth {
        Worth::new(segment.dead().into(), 1)
    }
}

/// What cleaning a segment with the share `u` live costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// `1 + u`: all of it is read, the live part written. As printed for Sprite-LFS and in the thesis on NILFS2.
    Printed,
    /// `2u`: only the live part is read and written (A. Kawaguchi et al., *A flash-memory based file system*, 1995). As
    /// in the tools published with the thesis on NILFS2, but exact where they round to thousandths.
    Published,
}

/// Dead share times age over cost, greatest first.
#[derive(Debug, Clone, Copy)]
pub struct CostBenefit {
    /// The denominator.
    pub cost: Cost,
    /// What it costs to change one mapping, in 256ths of what it costs to read or write a block; 0 where moves change
    /// no mapping. Blocks that many share are dearer to move by that.
    pub per_mapping: u32,
}

impl CostBenefit {
    /// Without a price for mappings.
    pub const fn new(cost: Cost) -> CostBenefit {
        CostBenefit { cost, per_mapping: 0 }
    }
}

impl Policy for CostBenefit {
    fn worth(&self, segment: &Summary, situation: &Situation) -> Worth {
        let (blocks, live) = (u128::from(segment.blocks), u128::from(segment.live));
        let copies = match self.cost {
            Cost::Printed => blocks + live,
            Cost::Published => 2 * live,
        };
        let mappings = u128::from(segment.mappings) * u128::from(self.per_mapping);
        let benefit = u128::from(segment.dead()) * u128::from(segment.age(situation.now));
        Worth::new(256 * benefit, 256 * copies.max(1) + mappings)
    }
}

/// Greedy where a pass must compact nearly everything, cost-benefit (2u) elsewhere.
///
/// The thesis on NILFS2 proposes to switch by utilisation, and did not build it. Utilisation alone does not tell: at 75
/// % live data, greedy wins if each pass must bring a fifth of all segments, and loses by a third if passes are short.
/// What tells is the slack: how much of the dead space is left after a pass. Without slack age is noise, since all is
/// cleaned anyway.
#[derive(Debug, Clone, Copy)]
pub struct Adaptive {
    /// Slack below which greedy is used.
    pub least: f64,
}

/// As calibrated with the simulator.
pub const ADAPTIVE: Adaptive = Adaptive { least: 0.3 };

impl Policy for Adaptive {
    fn worth(&self, segment: &Summary, situation: &Situation) -> Worth {
        if situation.slack < self.least {
            Greedy.worth(segment, situation)
        } else {
            CostBenefit::new(Cost::Published).worth(segment, situation)
        }
    }
}

/// Leaves segments alone in which a block died at `since` or later: what just died may still be protected, so that a
/// visit would free less than the counters say.
#[derive(Debug, Clone, Copy)]
pub struct Settled<P> {
    /// The order among the others.
    pub policy: P,
    /// Start of the protected time, on the log's clock.
    pub since: u64,
}

impl<P: Policy> Policy for Settled<P> {
    fn worth(&self, segment: &Summary, situation: &Situation) -> Worth {
        match segment.died {
            Some(died) if died >= self.since => Worth::NONE,
            _ => self.policy.worth(segment, situation),
        }
    }
}

/// The policies that configurations and experiments can name.
pub const NAMED: &[(&str, &dyn Policy)] = &[
    ("timestamp", &Timestamp),
    ("greedy", &Greedy),
    ("cost-benefit", &CostBenefit::new(Cost::Printed)),
    ("cost-benefit-2u", &CostBenefit::new(Cost::Published)),
    ("adaptive", &ADAPTIVE),
];

/// The policy of a name.
pub fn named(name: &str) -> Option<&'static dyn Policy> {
    NAMED.iter().find(|(known, _)| *known == name).map(|(_, policy)| *policy)
}

#[cfg(test)]
mod tests;
