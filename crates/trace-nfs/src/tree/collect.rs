//! Garbage collection of the image: what was not used for long goes, by time of the trace. Under a limit of memory the
//! oldest goes, also what the target has: then a file stays there for ever, and its handle gets a new one.

use std::mem::size_of;

use esker_base::Nanos;

use super::{NodeId, ROOT, ServerNode, ServerTree};

const HOUR: Nanos = Nanos::secs(3600);

/// Estimated memory of a node beside its name, in bytes: itself (three times while the table grows), its row in its
/// directory and in the map of handles, and what the allocator adds.
const NODE_BYTES: u64 = 3 * size_of::<ServerNode>() as u64 + 160;

/// When nodes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeLimits {
    /// Memory of the image at most, in bytes.
    pub bytes_max: u64,
    /// From so many nodes on, old ones go now and then.
    pub many: u64,
    /// How often.
    pub interval: Nanos,
    /// What counts as old then.
    pub age: Nanos,
    /// From so many nodes on, old ones go at once.
    pub too_many: u64,
    /// What counts as old then.
    pub age_of_too_many: Nanos,
}

/// What the collections removed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TreeLosses {
    /// Collections.
    pub collections: u64,
    /// Nodes that the target does not have.
    pub learnt: u64,
    /// Nodes that the target has.
    pub on_target: u64,
}

impl TreeLimits {
    /// The numbers of the public tool, and a limit of memory.
    pub fn usual(bytes_max: u64) -> TreeLimits {
        TreeLimits {
            bytes_max,
            many: 1 << 20,
            interval: Nanos(12 * HOUR.0),
            age: Nanos(24 * HOUR.0),
            too_many: 4 << 20,
            age_of_too_many: Nanos::secs(300),
        }
    }

    /// Limits that tests reach.
    pub fn tiny() -> TreeLimits {
        TreeLimits {
            bytes_max: 64 << 10,
            many: 16,
            interval: Nanos::secs(60),
            age: Nanos::secs(120),
            too_many: 64,
            age_of_too_many: Nanos::secs(5),
        }
    }
}

impl ServerTree {
    /// Estimated memory, in bytes.
    pub fn bytes(&self) -> u64 {
        self.count * NODE_BYTES + self.name_bytes
    }

    /// What was removed for want of memory or for its age.
    pub fn losses(&self) -> TreeLosses {
        self.losses
    }

    /// Removes old nodes if there are many. Ids from before may be gone.
    pub fn collect(&mut self, now: Nanos) {
        let limits = self.limits;
        // A damaged line may have told a time that is far ahead.
        self.collected = self.collected.map(|last| last.min(now));
        let since = self.collected.map(|last| now.saturating_sub(last));
        let is_due = |interval| since.is_none_or(|since| since >= interval);
        if self.count > limits.too_many && is_due(limits.age_of_too_many) {
            self.forget(now, |node| !node.on_target && now.saturating_sub(node.seen) > limits.age_of_too_many);
        } else if self.count > limits.many && is_due(limits.interval) {
            self.forget(now, |node| !node.on_target && now.saturating_sub(node.seen) > limits.age);
        }
        if self.bytes() > limits.bytes_max {
            let old = self.median_time();
            self.forget(now, |node| !node.on_target && node.seen <= old);
            // A quarter stays free, or the next collection would come at once.
            while self.bytes() > limits.bytes_max / 4 * 3 {
                let old = self.median_time();
                self.forget(now, |node| node.seen <= old);
            }
        }
    }

    /// The time before which half of the nodes were last seen.
    fn median_time(&self) -> Nanos {
        let mut times: Vec<u64> = self.nodes.iter().skip(1).flatten().map(|node| node.seen.0).collect();
        let middle = times.len() / 2;
        if times.is_empty() { Nanos::ZERO } else { Nanos(*times.select_nth_unstable(middle).1) }
    }

    /// Removes what `may_go` and has nothing below it that stays.
    fn forget(&mut self, now: Nanos, may_go: impl Fn(&ServerNode) -> bool) {
        self.collected = Some(now);
        self.losses.collections += 1;
        for number in 1..self.nodes.len() {
            let mut at = NodeId(number as u32);
            while at != ROOT
                && let Some(node) = &self.nodes[at.0 as usize]
                && node.children.is_empty()
                && may_go(node)
            {
                let (parent, on_target) = (node.parent, node.on_target);
                self.losses.on_target += u64::from(on_target);
                self.losses.learnt += u64::from(!on_target);
                self.remove(at);
                at = parent;
            }
        }
    }
}
