//! The store: versions in slots of segments, maps that refer to versions, and the cleaner.

use std::collections::VecDeque;

use esker_base::Stream;

use super::{Placement, SimulationPlan, Victims};
use crate::{Class, Selection, Separator, Situation, Summary, sampled};

/// No version, or no slot.
const NONE: u32 = u32::MAX;

/// One content of a block.
#[derive(Clone, Copy)]
struct Version {
    slot: u32,
    /// Maps that refer to it. 0: free.
    maps: u32,
    /// When it was new.
    written: u64,
    /// Whether it is the volume's content, or was a clone's own.
    is_current: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Clean,
    Open,
    Full,
}

#[derive(Clone, Copy)]
struct Segment {
    state: State,
    class: Class,
    filled: u32,
    live: u32,
    mappings: u64,
    first: u64,
    last: u64,
    died: u64,
}

const CLEAN: Segment = Segment {
    state: State::Clean,
    class: Class::NEW_LONG,
    filled: 0,
    live: 0,
    mappings: 0,
    first: 0,
    last: 0,
    died: 0,
};

/// What was done so far.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub new: u64,
    pub moved: u64,
    pub cleaned: u64,
    pub deferred: u64,
}

pub(super) struct Store<'a> {
    plan: &'a SimulationPlan<'a>,
    segments: Vec<Segment>,
    clean: VecDeque<u32>,
    open: [Option<u32>; Class::COUNT],
    /// What was written to each slot. It is live as long as the version lies there.
    slots: Vec<u32>,
    versions: Vec<Version>,
    unused: Vec<u32>,
    live: u64,
    /// Versions by block: the volume, then its copies from the oldest on.
    maps: VecDeque<Vec<u32>>,
    separator: Separator,
    counts: Counts,
    rng: Stream,
}

impl<'a> Store<'a> {
    pub(super) fn new(plan: &'a SimulationPlan<'a>) -> Store<'a> {
        let slots = plan.shape.segments as usize * plan.shape.blocks as usize;
        Store {
            plan,
            segments: vec![CLEAN; plan.shape.segments as usize],
            clean: (0..plan.shape.segments).collect(),
            open: [None; Class::COUNT],
            slots: vec![NONE; slots],
            versions: Vec::with_capacity(slots),
            unused: Vec::new(),
            live: 0,
            maps: VecDeque::from([vec![NONE; plan.shape.volume() as usize]]),
            separator: Separator::new(),
            counts: Counts { new: 0, moved: 0, cleaned: 0, deferred: 0 },
            rng: Stream::named(plan.seed, "cleaning-sample"),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn maps(&self) -> usize {
        self.maps.len()
    }

    pub(super) fn live_share(&self) -> f64 {
        self.live as f64 / self.slots.len() as f64
    }

    /// Live blocks of each full segment.
    pub(super) fn live_of_full(&self) -> Vec<u32> {
        let full = self.segments.iter().filter(|segment| segment.state == State::Full);
        full.map(|segment| segment.live).collect()
    }

    /// Full segments by their live share.
    pub(super) fn histogram(&self) -> [f64; 10] {
        let full = self.live_of_full();
        let mut tenths = [0.0; 10];
        for live in &full {
            let tenth = (live * 10 / self.plan.shape.blocks).min(9);
            tenths[tenth as usize] += 1.0 / full.len() as f64;
        }
        tenths
    }

    /// Whether the next write lets the cleaner start.
    pub(super) fn is_full(&self) -> bool {
        self.clean.len() <= self.plan.cleaner.low as usize
    }

    /// Overwrites a block of a map.
    pub(super) fn write(&mut self, map: usize, block: u32) {
        if self.is_full() {
            self.clean();
        }
        self.counts.new += 1;
        let old = self.maps[map][block as usize];
        let lifetime = (old != NONE).then(|| self.counts.new - self.versions[old as usize].written);
        if old != NONE {
            // A clone that overwrites what it shares does not take it from the volume.
            self.versions[old as usize].is_current &= map != 0;
            self.release(old);
        }
        let version = self.version();
        self.maps[map][block as usize] = version;
        self.append(version, self.class_of_new(lifetime));
    }

    /// Makes a copy of the volume and drops the oldest ones beyond `keep`.
    pub(super) fn copy(&mut self, keep: usize) {
        let copy = self.maps[0].clone();
        for version in copy.iter().filter(|version| **version != NONE) {
            let version = &mut self.versions[*version as usize];
            version.maps += 1;
            self.segments[(version.slot / self.plan.shape.blocks) as usize].mappings += 1;
        }
        self.maps.push_back(copy);
        while self.maps.len() > 1 + keep {
            let oldest = self.maps.remove(1).unwrap_or_default();
            oldest.into_iter().filter(|version| *version != NONE).for_each(|version| self.release(version));
        }
    }

    fn version(&mut self) -> u32 {
        let fresh = Version { slot: NONE, maps: 1, written: self.counts.new, is_current: true };
        self.live += 1;
        match self.unused.pop() {
            Some(version) => {
                self.versions[version as usize] = fresh;
                version
            }
            None => {
                self.versions.push(fresh);
                (self.versions.len() - 1) as u32
            }
        }
    }

    /// A map no longer refers to the version.
    fn release(&mut self, at: u32) {
        let version = &mut self.versions[at as usize];
        let segment = &mut self.segments[(version.slot / self.plan.shape.blocks) as usize];
        version.maps -= 1;
        segment.mappings -= 1;
        if version.maps == 0 {
            version.slot = NONE;
            segment.live -= 1;
            segment.died = self.counts.new;
            self.live -= 1;
            self.unused.push(at);
        }
    }

    fn class_of_new(&self, lifetime: Option<u64>) -> Class {
        match self.plan.placement {
            Placement::Lifetime | Placement::LifetimeUnaware => self.separator.place_new(lifetime),
            Placement::OneLog | Placement::OneLogSorted | Placement::MovedApart | Placement::MovedApartSorted => {
                Class::NEW_LONG
            }
        }
    }

    fn class_of_moved(&self, version: u32) -> Class {
        let version = self.versions[version as usize];
        let from = self.segments[(version.slot / self.plan.shape.blocks) as usize].class;
        let age = self.counts.new - version.written;
        match self.plan.placement {
            Placement::OneLog | Placement::OneLogSorted => Class::NEW_LONG,
            Placement::MovedApart | Placement::MovedApartSorted => Class::MOVED_ONCE,
            Placement::Lifetime => self.separator.place_moved(from, age, !version.is_current),
            Placement::LifetimeUnaware => self.separator.place_moved(from, age, false),
        }
    }

    /// Puts a version at the head of a log.
    fn append(&mut self, at: u32, class: Class) {
        let blocks = self.plan.shape.blocks;
        let number = self.head(class);
        let segment = &mut self.segments[number as usize];
        let version = &mut self.versions[at as usize];
        version.slot = number * blocks + segment.filled;
        self.slots[version.slot as usize] = at;
        segment.filled += 1;
        segment.live += 1;
        segment.mappings += u64::from(version.maps);
        segment.last = self.counts.new;
        if segment.filled == blocks {
            segment.state = State::Full;
            self.open[class.index()] = None;
        }
    }

    /// The open segment of a class.
    fn head(&mut self, class: Class) -> u32 {
        if let Some(number) = self.open[class.index()] {
            return number;
        }
        let number = self.clean.pop_front().expect("the plan leaves the cleaner room");
        self.segments[number as usize] = Segment { state: State::Open, class, first: self.counts.new, ..CLEAN };
        self.open[class.index()] = Some(number);
        number
    }

    /// One pass of the cleaner.
    pub(super) fn clean(&mut self) {
        let (low, high) = (self.plan.cleaner.low as usize, self.plan.cleaner.high as usize);
        let room = (self.segments.len() - self.clean.len()) as u64 * u64::from(self.plan.shape.blocks);
        let gain = high.saturating_sub(self.clean.len()) as u64 * u64::from(self.plan.shape.blocks);
        let situation = Situation::of_pass(self.counts.new, room - self.live, gain);
        let (mut steps, mut deferred) = (0, 0);
        while self.clean.len() <= low || self.clean.len() < high {
            let victims = self.victims(&situation);
            // Once each segment was deferred, waiting for better ones is in vain.
            if deferred < self.segments.len() && self.are_too_live(&victims) {
                deferred += victims.len();
                self.defer(&victims);
            } else {
                self.step(victims);
            }
            steps += 1;
            assert!(steps < 100 * self.segments.len(), "the plan leaves the cleaner no room");
        }
    }

    fn are_too_live(&self, victims: &[u32]) -> bool {
        let all = victims.len() as u64 * u64::from(self.plan.shape.blocks);
        let live: u64 = victims.iter().map(|victim| u64::from(self.segments[*victim as usize].live)).sum();
        ((all - live) as f64) < self.plan.cleaner.least * all as f64
    }

    /// Takes victims for young, so that they are not chosen again soon.
    fn defer(&mut self, victims: &[u32]) {
        victims.iter().for_each(|victim| self.segments[*victim as usize].last = self.counts.new);
        self.counts.deferred += victims.len() as u64;
    }

    /// Copies what is live in some victims, and frees them. At least one, and no more than clean segments can take.
    fn step(&mut self, victims: Vec<u32>) {
        let blocks = self.plan.shape.blocks;
        let room = self.clean.len().saturating_sub(1) as u32 * blocks;
        let mut moved: Vec<u32> = Vec::new();
        let mut freed = Vec::new();
        for victim in victims {
            if !freed.is_empty() && moved.len() as u32 + self.segments[victim as usize].live > room {
                break;
            }
            moved.extend((victim * blocks..(victim + 1) * blocks).filter_map(|slot| {
                let version = self.slots[slot as usize];
                (self.versions[version as usize].slot == slot).then_some(version)
            }));
            freed.push(victim);
        }
        if matches!(self.plan.placement, Placement::OneLogSorted | Placement::MovedApartSorted) {
            moved.sort_by_key(|version| self.versions[*version as usize].written);
        }
        moved.into_iter().for_each(|version| self.relocate(version));
        freed.into_iter().for_each(|victim| self.free(victim));
    }

    fn relocate(&mut self, at: u32) {
        let class = self.class_of_moved(at);
        let version = self.versions[at as usize];
        let from = &mut self.segments[(version.slot / self.plan.shape.blocks) as usize];
        from.live -= 1;
        from.mappings -= u64::from(version.maps);
        self.append(at, class);
        self.counts.moved += 1;
    }

    fn free(&mut self, victim: u32) {
        let segment = self.segments[victim as usize];
        assert!(segment.live == 0 && segment.mappings == 0, "a cleaned segment holds nothing");
        self.separator.reclaimed(segment.class, self.counts.new - segment.first);
        self.segments[victim as usize] = CLEAN;
        self.clean.push_back(victim);
        self.counts.cleaned += 1;
    }

    fn victims(&mut self, situation: &Situation) -> Vec<u32> {
        let count = self.plan.cleaner.victims;
        let (segments, blocks) = (&self.segments, self.plan.shape.blocks);
        let look = |at: u32| segments.get(at as usize).and_then(|segment| summary(segment, blocks));
        let all = segments.len() as u32;
        match self.plan.victims {
            Victims::Best(policy) => {
                let mut selection = Selection::new(policy, *situation, count);
                (0..all).for_each(|at| look(at).iter().for_each(|summary| selection.offer(at, summary)));
                selection.finish()
            }
            Victims::Sampled(policy, choices) => {
                sampled(policy, situation, all, &look, (choices, count), &mut self.rng)
            }
        }
    }
}

/// What is known of a segment that may be cleaned.
fn summary(segment: &Segment, blocks: u32) -> Option<Summary> {
    (segment.state == State::Full).then_some(Summary {
        blocks,
        live: segment.live,
        mappings: segment.mappings,
        first: segment.first,
        last: segment.last,
        died: Some(segment.died),
    })
}
