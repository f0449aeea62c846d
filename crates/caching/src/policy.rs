//! The trait of policies, and their names.

use crate::policies::{Arc, Clock, Lirs, Lru, Mq, S3Fifo, Sieve, TinyLfu, TwoQ};

/// Number of a line of a cache, dense from 0.
pub type Slot = u32;

/// What a policy remembers of a key that left. A cache hands it from [`Policy::miss`] to [`Policy::evict`] and
/// [`Policy::insert`] unseen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recall(pub(crate) u8);

/// What a policy may ask about the lines of its cache.
pub trait Lines {
    /// The key of a line.
    fn key(&self, slot: Slot) -> u64;

    /// Whether the line cannot leave now: it is dirty, or in use.
    fn is_held(&self, slot: Slot) -> bool;
}

/// An order of the lines of a cache, from the line that leaves next to the one that stays longest.
pub trait Policy {
    /// A line is used again.
    fn hit(&mut self, slot: Slot);

    /// No line has the key. Answers what is remembered of it, and forgets that.
    fn miss(&mut self, key: u64) -> Recall;

    /// Chooses the line that makes room for a key with this `recall`, and takes it out of the order. `None` if all are
    /// held.
    fn evict(&mut self, recall: Recall, lines: &dyn Lines) -> Option<Slot>;

    /// A line that is not in the order takes a key.
    fn insert(&mut self, slot: Slot, key: u64, recall: Recall);

    /// A line leaves without a choice: its key was discarded, or its medium failed. Nothing of it is remembered. A line
    /// that is not in the order is left alone.
    fn remove(&mut self, slot: Slot);

    /// Adds up to `most` lines to `coldest`, the next to leave first: what cleaning ahead and a change of policy need.
    fn order(&self, coldest: &mut Vec<Slot>, most: usize);

    /// Memory in bytes.
    fn bytes(&self) -> usize;
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn hit(&mut self, slot: Slot) {
        (**self).hit(slot);
    }

    fn miss(&mut self, key: u64) -> Recall {
        (**self).miss(key)
    }

    fn evict(&mut self, recall: Recall, lines: &dyn Lines) -> Option<Slot> {
        (**self).evict(recall, lines)
    }

    fn insert(&mut self, slot: Slot, key: u64, recall: Recall) {
        (**self).insert(slot, key, recall);
    }

    fn remove(&mut self, slot: Slot) {
        (**self).remove(slot);
    }

    fn order(&self, coldest: &mut Vec<Slot>, most: usize) {
        (**self).order(coldest, most);
    }

    fn bytes(&self) -> usize {
        (**self).bytes()
    }
}

/// Makes a policy for a cache of so many lines.
pub type MakePolicy = fn(lines: u32) -> Box<dyn Policy>;

/// All policies by name.
pub const NAMED: &[(&str, MakePolicy)] = &[
    ("lru", |lines| Box::new(Lru::new(lines))),
    ("clock", |lines| Box::new(Clock::new(lines))),
    ("2q", |lines| Box::new(TwoQ::new(lines))),
    ("mq", |lines| Box::new(Mq::new(lines))),
    ("arc", |lines| Box::new(Arc::new(lines))),
    ("lirs", |lines| Box::new(Lirs::new(lines))),
    ("w-tinylfu", |lines| Box::new(TinyLfu::new(lines))),
    ("s3-fifo", |lines| Box::new(S3Fifo::new(lines))),
    ("sieve", |lines| Box::new(Sieve::new(lines))),
];

/// The policy of a name.
pub fn by_name(name: &str) -> Option<MakePolicy> {
    NAMED.iter().find(|(known, _)| *known == name).map(|(_, make)| *make)
}

/// The policy of a name for a cache that is in memory for long: ghosts may take less memory and be wrong now and then.
pub fn compact_by_name(name: &str) -> Option<MakePolicy> {
    match name {
        "s3-fifo" => Some(|lines| Box::new(S3Fifo::compact(lines))),
        _ => by_name(name),
    }
}
