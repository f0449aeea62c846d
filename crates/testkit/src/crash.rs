//! The states that a crash can leave on a recorded device.

use esker_base::Stream;
use esker_block::store::SparseStore;

use crate::log::Value;
use crate::recorder::Recorder;

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

/// Calls `each` with every crash point of `leaf` and, for each, the images that a crash there can leave: every prefix of
/// its events, and of what is not yet durable every choice per atomic unit (loss, reordering, tearing), up to `bound`.
///
/// # Errors
/// The first error of `each`.
pub fn for_each_state<E>(
    leaf: &Recorder,
    bound: Bound,
    mut each: impl FnMut(u64, SparseStore) -> Result<(), E>,
) -> Result<Count, E> {
    let (log, before) = (leaf.log(), leaf.before());
    let mut count = Count::default();
    for point in 0..=leaf.points() {
        let choices = Choices::new(log.candidates(point), u64::from(esker_block::Device::limits(leaf).block));
        let picks = choices.picks(bound, point);
        count.points += 1;
        count.exhaustive += u64::from(choices.states() <= bound.states_max);
        for pick in picks {
            count.states += 1;
            each(point, choices.image(&before, &pick))?;
        }
    }
    Ok(count)
}

/// The units of one crash point that can hold more than what was there before.
struct Choices {
    unit: u64,
    units: Vec<(u64, Vec<Option<Value>>)>,
}

impl Choices {
    fn new(candidates: std::collections::BTreeMap<u64, Vec<Option<Value>>>, unit: u64) -> Choices {
        Choices { unit, units: candidates.into_iter().collect() }
    }

    fn states(&self) -> u64 {
        self.units.iter().map(|(_, values)| values.len() as u64).fold(1, u64::saturating_mul)
    }

    /// One number per unit and state: all states, or the extremes and a seeded draw.
    fn picks(&self, bound: Bound, point: u64) -> Vec<Vec<usize>> {
        let states = self.states();
        if states <= bound.states_max {
            return (0..states).map(|state| self.decode(state)).collect();
        }
        let mut rng = Stream::named(bound.seed, &format!("crash before event {point}"));
        let newest: Vec<usize> = self.units.iter().map(|(_, values)| values.len() - 1).collect();
        let mut out = vec![vec![0; self.units.len()], newest.clone()];
        for unit in (0..self.units.len()).filter(|unit| newest[*unit] > 0) {
            let mut alone = vec![0; self.units.len()];
            let mut missing = newest.clone();
            (alone[unit], missing[unit]) = (newest[unit], 0);
            out.extend([alone, missing]);
        }
        out.truncate(bound.states_max as usize);
        while (out.len() as u64) < bound.states_max {
            out.push(self.units.iter().map(|(_, values)| rng.below(values.len() as u64) as usize).collect());
        }
        out
    }

    fn decode(&self, mut state: u64) -> Vec<usize> {
        let digit = |(_, values): &(u64, Vec<Option<Value>>)| {
            let base = values.len() as u64;
            let digit = state % base;
            state /= base;
            digit as usize
        };
        self.units.iter().map(digit).collect()
    }

    fn image(&self, before: &SparseStore, pick: &[usize]) -> SparseStore {
        let mut image = before.clone();
        for ((unit, values), choice) in self.units.iter().zip(pick) {
            match &values[*choice] {
                Some(Value::Bytes(bytes)) => image.write(unit * self.unit, bytes),
                // A discard that reached the medium: the leaf's memory zeroes.
                Some(Value::Anything) => image.write(unit * self.unit, &vec![0; self.unit as usize]),
                None => {}
            }
        }
        image
    }
}
