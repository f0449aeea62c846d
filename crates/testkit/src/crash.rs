//! The states that a crash can leave on recorded devices.

use std::sync::Arc;

use esker_base::{Digest, Stream};
use esker_block::store::SparseStore;

use crate::log::{Candidates, Log, Value};
use crate::recorder::Journal;

/// How many states are tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// States of one crash point; where there are more, some are drawn.
    pub states_max: u64,
    /// Seed of the draw.
    pub seed: u64,
}

/// How many states were tried.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Count {
    /// Crash points.
    pub points: u64,
    /// Points of which every state was tried.
    pub exhaustive: u64,
    /// States in all.
    pub states: u64,
}

impl Count {
    /// Adds what another search tried.
    pub fn add(&mut self, other: Count) {
        self.points += other.points;
        self.exhaustive += other.exhaustive;
        self.states += other.states;
    }
}

/// What a crash left of one device: its units that differ from what was there before the log, or may.
#[derive(Clone, Default, Debug)]
pub struct Image(Vec<(u64, Arc<[u8]>)>);

impl Image {
    /// The whole content, if the device held `before` when the log began.
    pub fn over(&self, before: &SparseStore) -> SparseStore {
        let mut store = before.clone();
        self.0.iter().for_each(|(at, bytes)| store.write(*at, bytes));
        store
    }

    /// A number for it: images of one number are equal.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest::new();
        for (at, bytes) in &self.0 {
            digest.word(*at);
            digest.bytes(bytes);
        }
        digest.value()
    }
}

/// Calls `each` with every crash point of the devices in `journal` and, for each, the images that a crash there can
/// leave of all of them: every prefix of their events, and of what is not yet durable every choice per atomic unit
/// (loss, reordering, tearing), up to `bound`.
///
/// # Errors
/// The first error of `each`.
pub fn for_each_state<E>(
    journal: &Journal,
    bound: Bound,
    each: impl FnMut(u64, &[Image]) -> Result<(), E>,
) -> Result<Count, E> {
    for_each_state_at(journal, 0..=journal.points(), bound, each)
}

/// The same for some crash points, for checks that take long.
///
/// # Errors
/// The first error of `each`.
pub fn for_each_state_at<E>(
    journal: &Journal,
    points: impl IntoIterator<Item = u64>,
    bound: Bound,
    mut each: impl FnMut(u64, &[Image]) -> Result<(), E>,
) -> Result<Count, E> {
    let leaves = journal.leaves();
    let mut count = Count::default();
    for point in points {
        let choices = Choices::new(&leaves, point);
        let picks = choices.picks(bound, point);
        count.points += 1;
        count.exhaustive += u64::from(choices.states() <= bound.states_max);
        for pick in picks {
            count.states += 1;
            each(point, &choices.images(&pick))?;
        }
    }
    Ok(count)
}

/// What the devices in `journal` hold if nothing is lost: a process that is killed leaves it.
pub fn newest(journal: &Journal) -> Vec<Image> {
    let of_leaf = |log: &Log| {
        let written = log.newest_values().into_iter().map(|(unit, value)| (log.range_of(unit), value));
        Image(written.map(|(range, value)| (range.start(), bytes(&value, range.len() as usize))).collect())
    };
    journal.leaves().iter().map(of_leaf).collect()
}

/// What a unit then holds. A discard leaves zeroes on a memory device.
fn bytes(value: &Value, len: usize) -> Arc<[u8]> {
    match value {
        Value::Bytes(bytes) => bytes.clone(),
        Value::Anything => vec![0; len].into(),
    }
}

/// A unit that may hold something else than before.
struct Unit {
    leaf: usize,
    at: u64,
    len: usize,
    values: Candidates,
}

/// The units of one crash point, over all devices.
struct Choices {
    leaves: usize,
    units: Vec<Unit>,
}

impl Choices {
    fn new(leaves: &[Log], point: u64) -> Choices {
        let units = leaves.iter().enumerate().flat_map(|(leaf, log)| {
            log.candidates(point).into_iter().map(move |(unit, values)| {
                let range = log.range_of(unit);
                Unit { leaf, at: range.start(), len: range.len() as usize, values }
            })
        });
        Choices { leaves: leaves.len(), units: units.collect() }
    }

    fn states(&self) -> u64 {
        self.units.iter().map(|unit| unit.values.len() as u64).fold(1, u64::saturating_mul)
    }

    /// One number per unit and state: all states, or the extremes, some of their neighbours and a seeded draw.
    fn picks(&self, bound: Bound, point: u64) -> Vec<Vec<usize>> {
        let states = self.states();
        if states <= bound.states_max {
            return (0..states).map(|state| self.decode(state)).collect();
        }
        let mut rng = Stream::named(bound.seed, &format!("crash before event {point}"));
        let newest: Vec<usize> = self.units.iter().map(|unit| unit.values.len() - 1).collect();
        let oldest = vec![0; self.units.len()];
        let mut out = vec![oldest.clone(), newest.clone()];
        let mut open: Vec<usize> = (0..self.units.len()).filter(|unit| newest[*unit] > 0).collect();
        // Up to half of the states are those in which one unit differs from all others.
        while !open.is_empty() && (out.len() as u64) < bound.states_max / 2 {
            let unit = open.swap_remove(rng.below(open.len() as u64) as usize);
            let (mut alone, mut missing) = (oldest.clone(), newest.clone());
            (alone[unit], missing[unit]) = (newest[unit], 0);
            out.extend([alone, missing]);
        }
        out.truncate(bound.states_max as usize);
        while (out.len() as u64) < bound.states_max {
            out.push(self.units.iter().map(|unit| rng.below(unit.values.len() as u64) as usize).collect());
        }
        out
    }

    fn decode(&self, mut state: u64) -> Vec<usize> {
        let digit = |unit: &Unit| {
            let base = unit.values.len() as u64;
            let digit = state % base;
            state /= base;
            digit as usize
        };
        self.units.iter().map(digit).collect()
    }

    fn images(&self, pick: &[usize]) -> Vec<Image> {
        let mut images = vec![Image::default(); self.leaves];
        for (unit, choice) in self.units.iter().zip(pick) {
            if let Some(value) = &unit.values[*choice] {
                images[unit.leaf].0.push((unit.at, bytes(value, unit.len)));
            }
        }
        images
    }
}
