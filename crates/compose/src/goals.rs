//! What an administrator wants: goals in the order of their priority, for all volumes or for one, and the score of a
//! stack.

use std::collections::{BTreeMap, BTreeSet};

use crate::exact::ModelRun;
use crate::set::{ExtId, Member, VolId};
use crate::setting::Setting;

/// Goals that a list of priorities can have.
pub const GOALS_MAX: usize = 16;

/// Goals by priority, the first one above all others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Priorities {
    /// For all volumes without a list of their own.
    pub general: Vec<String>,
    /// For single volumes.
    pub of_volume: BTreeMap<VolId, Vec<String>>,
}

impl Priorities {
    /// One list for all volumes.
    pub fn general(goals: &[&str]) -> Priorities {
        Priorities { general: goals.iter().map(ToString::to_string).collect(), of_volume: BTreeMap::new() }
    }

    /// The list that holds for a volume.
    pub fn of(&self, volume: VolId) -> &[String] {
        self.of_volume.get(&volume).unwrap_or(&self.general)
    }

    /// How many ranks there are: the length of the longest list.
    pub fn ranks(&self) -> usize {
        self.of_volume.values().map(Vec::len).chain([self.general.len()]).max().unwrap_or(0)
    }

    /// All goals that are wanted anywhere, those of all volumes first.
    pub fn all(&self) -> Vec<&str> {
        let lists = std::iter::once(&self.general).chain(self.of_volume.values());
        let mut seen = BTreeSet::new();
        lists.flatten().map(String::as_str).filter(|goal| seen.insert(*goal)).collect()
    }

    /// What each extension adds to each rank if it is dominant on a volume: `table[volume][extension]` is a list of
    /// ranks and weights.
    pub(crate) fn table(&self, setting: &Setting) -> Vec<Vec<Vec<(usize, u32)>>> {
        let gains = |volume: VolId, id: ExtId| {
            let goals = setting.extension(id).goals();
            let ranks = self.of(volume).iter().enumerate().filter(|(_, goal)| goals.contains(goal));
            ranks.map(|(rank, _)| (rank, setting.volume(volume).weight)).collect()
        };
        let row = |volume| setting.ids().map(|id| gains(volume, id)).collect();
        setting.volume_ids().map(row).collect()
    }

    /// The score of a stack.
    pub fn score(&self, setting: &Setting, run: &ModelRun<'_>) -> Score {
        let mut score = Score { ranks: vec![0; self.ranks()], live: run.order().len() - run.starved().len() };
        let table = self.table(setting);
        for volume in setting.volume_ids() {
            if let Some(id) = run.handlers(volume).dominant() {
                score.add(&table[volume.index()][id.index()]);
            }
        }
        score
    }
}

/// How good a stack is; greater is better. Compared rank by rank: no gain at a lower rank makes up for a loss at a
/// higher one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Score {
    /// For each rank, the number of volumes (times their weights) that an extension dominates which serves the goal
    /// that this volume has at this rank.
    pub ranks: Vec<u32>,
    /// Extensions that see requests: decides between equals.
    pub live: usize,
}

impl Score {
    pub(crate) fn add(&mut self, gains: &[(usize, u32)]) {
        for (rank, weight) in gains {
            self.ranks[*rank] = self.ranks[*rank].saturating_add(*weight);
        }
    }
}
