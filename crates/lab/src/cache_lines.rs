//! What long and short lines of the kind `cache` cost, for `cache-modes`. Source: item 49 of the specification of
//! extensions.
//!
//! The load is the generated week of servers, which is calibrated to the printed nearness of requests: half of a day
//! warms the cache, and the other half counts. Each volume sends its requests in order, none before its time. A small
//! cache has a thirtieth of the bytes that are used: there are a hundred lines of 1 MiB. A large cache has room for all
//! of them in short lines, and for few of the long ones around them. Times are simulated.

use std::collections::BTreeMap;
use std::rc::Rc;

use esker_base::Nanos;
use esker_base::units::{GIB, KIB, MIB};
use esker_lab_kit::rig::{Rig, vol};
use esker_lab_kit::{Lab, LabError};
use esker_rt::sync::join_all;
use esker_stack::Stack;
use esker_trace_block::Record;

use crate::cache_loads::for_each_record;
use crate::played::asked;

/// Length of the load, and the part of it that warms.
const HOURS: f64 = 24.0;
const WARMED: Nanos = Nanos::secs(12 * 3_600);
/// Room for the map of a cache, beside its slots: 20 bytes of two images and a journal for each slot of 4 KiB.
const MAP_PART: u64 = 200;

/// Requests by volume, and the bytes that they use.
pub(crate) struct LineLoad {
    volumes: Vec<Rc<Vec<Record>>>,
    home: u64,
    used: u64,
}

impl LineLoad {
    /// The load of a seed, with volumes one behind the other.
    pub(crate) fn new(lab: &Lab<'_>) -> Result<LineLoad, LabError> {
        let mut volumes: BTreeMap<u32, Vec<Record>> = BTreeMap::new();
        let mut pages: Vec<u64> = Vec::new();
        for_each_record(HOURS, lab, |record| {
            if record.op.is_transfer() {
                volumes.entry(record.volume).or_default().push(*record);
            }
        })?;
        let mut base = 0;
        for records in volumes.values_mut() {
            records.iter_mut().for_each(|record| record.offset += base);
            let ranges = || records.iter().map(Record::range);
            base = ranges().map(|range| range.end()).max().unwrap_or(base).next_multiple_of(MIB);
            pages.extend(ranges().flat_map(|range| range.start() / (4 * KIB)..range.end().div_ceil(4 * KIB)));
        }
        pages.sort_unstable();
        pages.dedup();
        let volumes = volumes.into_values().map(Rc::new).collect();
        Ok(LineLoad { volumes, home: base, used: pages.len() as u64 * 4 * KIB })
    }

    /// Bytes of a small and of a large cache.
    pub(crate) fn sizes(&self) -> [u64; 2] {
        [self.used / 30, self.used + self.used / 16]
    }

    /// Mean time of an answer behind the warmth, in milliseconds.
    pub(crate) fn mean_ms(&self, seed: u64, fast: u64, line: &str) -> Result<f64, LabError> {
        let fast = (fast + fast / MAP_PART).next_multiple_of(MIB);
        let text = format!(
            "h = disk-model size={home}; s = ssd-model capacity={flash} erase_block=1MiB; \
             f = offset start=0 size={fast} on s; vol = cache bypass=0 line={line} on h, f",
            home = self.home,
            flash = 2 * self.used.max(4 * GIB),
        );
        let Rig { world, stack } = Rig::simulated(seed, &text)?;
        let split = |records: &Rc<Vec<Record>>| records.partition_point(|record| record.at < WARMED);
        let parts: Vec<(Rc<Vec<Record>>, usize)> =
            self.volumes.iter().map(|records| (records.clone(), split(records))).collect();
        let counted: usize = parts.iter().map(|(records, split)| records.len() - split).sum();
        let waited = world.block_on(async move { played(&stack, parts).await });
        Ok(waited.as_secs_f64() * 1e3 / counted as f64)
    }
}

/// How long all requests behind the first ones of each volume wait.
async fn played(stack: &Rc<Stack>, parts: Vec<(Rc<Vec<Record>>, usize)>) -> Nanos {
    let rt = stack.rt();
    let send = |(records, split): (Rc<Vec<Record>>, usize)| {
        let (vol, rt) = (vol(stack), rt.clone());
        rt.clone().spawn("volume", async move {
            let mut waited = Nanos::ZERO;
            for (number, record) in records.iter().enumerate() {
                let took = asked(&vol, &rt, record).await;
                waited += if number < split { Nanos::ZERO } else { took };
            }
            waited
        })
    };
    let tasks: Vec<_> = parts.into_iter().map(send).collect();
    join_all(tasks).await.into_iter().fold(Nanos::ZERO, |sum, waited| sum + waited)
}
