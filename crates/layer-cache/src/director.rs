//! Which lines stay: a policy, and streams that pass by.

use esker_caching::policy::MakePolicy;
use esker_caching::streams::Streams;
use esker_caching::{Lines, Policy, Recall, Slot};
use esker_layer_aside::{Access, Director, Fill, Put};

/// Streams that are told apart.
const HEADS: usize = 32;

/// A policy behind a detector of streams.
pub struct PolicyDirector {
    make: MakePolicy,
    policy: Option<Box<dyn Policy>>,
    streams: Streams,
    fill: Fill,
    /// Bytes after which a stream passes by; 0: never.
    bypass: u64,
}

impl PolicyDirector {
    /// With a policy that is made when the number of lines is known.
    pub fn new(make: MakePolicy, fill: Fill, bypass: u64) -> PolicyDirector {
        PolicyDirector { make, policy: None, streams: Streams::new(HEADS), fill, bypass }
    }

    /// Takes another policy, which gets these lines, the coldest first.
    pub fn change(&mut self, mut policy: Box<dyn Policy>, lines: &[(u64, Slot)]) {
        for (unit, slot) in lines {
            policy.insert(*slot, *unit, Recall::default());
        }
        self.policy = Some(policy);
    }

    fn passes_by(&mut self, of: Access) -> bool {
        let run = self.streams.note(of.range.start()..of.range.end());
        self.bypass > 0 && run > self.bypass
    }
}

impl Director for PolicyDirector {
    fn begin(&mut self, slots: u32) {
        self.policy = Some((self.make)(slots));
    }

    #[inline]
    fn hit(&mut self, slot: Slot, of: Access) {
        if self.bypass > 0 {
            self.streams.note(of.range.start()..of.range.end());
        }
        self.policy().hit(slot);
    }

    fn read_miss(&mut self, _: u64, of: Access) -> Fill {
        if self.passes_by(of) { Fill::No } else { self.fill }
    }

    fn write_miss(&mut self, _: u64, of: Access) -> Put {
        if self.passes_by(of) { Put::Home } else { Put::Aside }
    }

    fn victim(&mut self, lines: &dyn Lines) -> Option<Slot> {
        self.policy().evict(Recall::default(), lines)
    }

    fn placed(&mut self, unit: u64, slot: Slot) {
        let recall = self.policy().miss(unit);
        self.policy().insert(slot, unit, recall);
    }

    fn removed(&mut self, slot: Slot) {
        self.policy().remove(slot);
    }

    fn coldest(&self, coldest: &mut Vec<Slot>, most: usize) {
        if let Some(policy) = &self.policy {
            policy.order(coldest, most);
        }
    }

    fn bytes(&self) -> usize {
        self.policy.as_ref().map_or(0, |policy| policy.bytes())
    }
}

impl PolicyDirector {
    fn policy(&mut self) -> &mut dyn Policy {
        self.policy.as_deref_mut().expect("the engine begins before it asks")
    }
}
