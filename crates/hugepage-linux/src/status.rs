//! What a manager tells about itself. Numbers are since its start. Readers must pass over keys that they do not know.

use std::collections::BTreeMap;

use esker_base::Time;
use serde::{Deserialize, Serialize};

use esker_hugepage::manager::Manager;
use esker_hugepage::process::Counts;
use esker_hugepage::view::{Pid, Region};
use esker_hugepage::{REGION_BYTES, REGION_PAGES};

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// CPU time used, in seconds.
    pub cpu_s: f64,
    /// How fragmented free memory is, from 0 to 1.
    pub fragmentation: f64,
    /// Whether faults take huge pages at once.
    pub greedy: bool,
    /// How far from fair the division of huge pages is; 0 is fair.
    pub imbalance: f64,
    /// Requests that wait.
    pub waiting: u64,
    /// Looks through page tables.
    pub polls: u64,
    /// Seconds that they took.
    pub poll_s: f64,
    /// What was done in all processes, those that are gone included.
    pub done: Done,
    /// Sharing of equal pages, if the manager has to do with it.
    pub sharing: Option<Sharing>,
    /// Control groups of memory that processes are in, by path.
    pub groups: Vec<GroupStatus>,
    /// The processes, by number.
    pub processes: Vec<ProcessStatus>,
    /// Processes that are meant and could not be taken, with the reason.
    pub refused: BTreeMap<u32, String>,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Done {
    /// Regions that became huge.
    pub promotions: u64,
    /// Regions that became base pages.
    pub demotions: u64,
    /// Regions that the background scan looked at.
    pub looked: u64,
    /// Changes that were refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Regions that were left as they are, by reason.
    pub left: BTreeMap<String, u64>,
    /// Share of hot huge pages that turned out not to be in use, once any was checked.
    pub misprediction: Option<f64>,
    /// Hot huge pages whose access bit was cleared, and read at the end of the interval.
    pub hot_checked: u64,
    /// Those of them that had not been used.
    pub hot_missed: u64,
}

/// Sharing of equal pages on this machine, as the kernel counts it: that of programs that do so by themselves included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sharing {
    /// The policy.
    pub policy: String,
    /// Bytes that would be taken without it.
    pub saved_bytes: u64,
    /// The same without what the kernel keeps to find equal pages.
    pub profit_bytes: i64,
    /// How often the kernel has looked at all pages that may be shared.
    pub full_scans: u64,
    /// Connections of processes that are not managed.
    pub refused: u64,
}

/// A control group of memory, as the kernel counts it: all of its processes, managed or not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupStatus {
    /// From the root of its hierarchy.
    pub path: String,
    /// Managed processes in it.
    pub pids: Vec<u32>,
    /// Bytes of anonymous memory in huge pages.
    pub huge_bytes: u64,
    /// Bytes that are charged to it; nothing where that is not counted.
    pub used_bytes: Option<u64>,
    /// Bytes that it may hold: the least limit of its own and of the groups around it.
    pub limit_bytes: Option<u64>,
}

/// Sharing of equal pages in one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessSharing {
    /// Bytes that may be shared.
    pub mergeable_bytes: u64,
    /// Bytes that are.
    pub merged_bytes: u64,
    /// Bytes that it saves, without what the kernel keeps for it.
    pub profit_bytes: i64,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessStatus {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its shares.
    pub shares: u64,
    /// Bytes in memory, without those that it has freed inside huge pages: its groups are charged for these until the
    /// split.
    pub resident_bytes: u64,
    /// Bytes in huge pages.
    pub huge_bytes: u64,
    /// Share of its huge pages that is idle.
    pub idle: f64,
    /// Its claim to the next one.
    pub metric: f64,
    /// Regions in base pages by tenths of their use, the least used first.
    pub base_regions: [u64; 10],
    /// Seconds for which it is passed over yet.
    pub excluded_s: Option<f64>,
    /// What was done in it.
    pub done: Done,
    /// How it shares pages; nothing without the preloaded library.
    pub sharing: Option<ProcessSharing>,
    /// Its regions in the order of their addresses, one character for `map_regions` of them: `H` a hot huge page, `h`
    /// an idle one, `0` to `9` base pages by tenths of their use.
    pub map: String,
    /// See `map`.
    pub map_regions: u64,
}

/// Characters of a map at most.
const MAP_MAX: usize = 1024;

/// One region for a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Pages in use.
    pub used: u32,
    /// Whether it is huge, and then whether it is hot.
    pub huge: Option<bool>,
}

impl From<&Counts> for Done {
    fn from(counts: &Counts) -> Done {
        Done {
            promotions: counts.promotions,
            demotions: counts.demotions,
            looked: counts.looked,
            refused: counts.refused.iter().map(|(refusal, n)| (refusal.word().to_string(), *n)).collect(),
            left: counts.left.iter().map(|(reason, n)| (reason.word().to_string(), *n)).collect(),
            misprediction: counts.misprediction(),
            hot_checked: counts.hot_checked,
            hot_missed: counts.hot_missed,
        }
    }
}

impl Status {
    /// What a manager knows; what only its machine knows is left empty.
    pub fn of(manager: &Manager, now: Time) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION").to_string(),
            fragmentation: manager.fragmentation(),
            greedy: manager.is_greedy(),
            imbalance: manager.imbalance(),
            waiting: manager.waiting() as u64,
            done: Done::from(&manager.counts()),
            processes: manager.records().keys().map(|pid| ProcessStatus::of(manager, *pid, now)).collect(),
            ..Status::default()
        }
    }
}

impl ProcessStatus {
    fn of(manager: &Manager, pid: Pid, now: Time) -> ProcessStatus {
        let (record, policy) = (&manager.records()[&pid], manager.policy());
        let claim = record.claim(&policy.tracking);
        let until = record.excluded_until.filter(|until| *until > now);
        ProcessStatus {
            pid: pid.0,
            shares: record.shares,
            huge_bytes: claim.huge * REGION_BYTES,
            idle: claim.idle as f64 / claim.huge.max(1) as f64,
            metric: claim.metric(policy.tau),
            excluded_s: until.map(|until| until.since(now).as_secs_f64()),
            done: Done::from(&record.counts),
            ..ProcessStatus::default()
        }
    }

    /// Adds its map: the use of each region that holds memory.
    pub fn draw(&mut self, manager: &Manager, uses: impl Iterator<Item = (Region, u32, bool)>) {
        let (huge, tracking) = (manager.records().get(&Pid(self.pid)), &manager.policy().tracking);
        let is_hot =
            |region| huge.and_then(|record| record.huge.get(&region)).is_none_or(|access| access.is_hot(tracking));
        let cells: Vec<Cell> =
            uses.map(|(region, used, huge)| Cell { used, huge: huge.then(|| is_hot(region)) }).collect();
        self.base_regions = [0; 10];
        for cell in cells.iter().filter(|cell| cell.huge.is_none()) {
            self.base_regions[tenth(cell.used)] += 1;
        }
        (self.map, self.map_regions) = map(&cells, MAP_MAX);
    }
}

/// From 0 to 9.
fn tenth(used: u32) -> usize {
    (used * 10 / REGION_PAGES).min(9) as usize
}

/// Regions as at most so many characters, and how many each stands for.
fn map(cells: &[Cell], most: usize) -> (String, u64) {
    let each = cells.len().div_ceil(most).max(1);
    let shown = |group: &[Cell]| {
        let huge = group.iter().filter(|cell| cell.huge.is_some()).count();
        let hot = group.iter().filter(|cell| cell.huge == Some(true)).count();
        match (2 * huge >= group.len(), 2 * hot >= huge) {
            (true, true) => 'H',
            (true, false) => 'h',
            _ => {
                let used = group.iter().map(|cell| cell.used).sum::<u32>() / group.len() as u32;
                char::from(b'0' + tenth(used) as u8)
            }
        }
    };
    (cells.chunks(each).map(shown).collect(), each as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(used: u32) -> Cell {
        Cell { used, huge: None }
    }

    #[test]
    fn a_map_shows_each_region_or_the_most_of_some() {
        let cells =
            [base(1), base(511), base(512), Cell { used: 512, huge: Some(true) }, Cell { used: 9, huge: Some(false) }];
        assert_eq!(map(&cells, 10), ("099Hh".to_string(), 1));
        assert_eq!(map(&cells, 3), ("5Hh".to_string(), 2));
        assert_eq!(map(&[], 3), (String::new(), 1));
    }

    #[test]
    fn a_status_survives_json_and_tells_no_nonsense() {
        let mut policy = esker_hugepage::Policy::ingens();
        policy.budget = Some(1);
        let manager = Manager::new(policy, 1);
        let status = Status::of(&manager, Time(5));
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
        assert!(!text.contains("NaN"), "{text}");
    }
}
