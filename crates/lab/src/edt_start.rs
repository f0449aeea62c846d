//! Where extents lie when a played experiment begins. Source: the thesis on extending storage, section 6.3: dynamic
//! systems begin with whole volumes, placed so that the load is balanced. Static tiering begins in its final placement.

use std::rc::Rc;

use esker_base::Time;
use esker_lab_kit::LabError;
use esker_stack::Stack;
use esker_tiering::demand::{Counts, Transfers};
use esker_tiering::epoch::NOWHERE;
use esker_tiering::{Array, Classifier, Demand, Epoch, Est, History, Objective, Planner, Sheet, UsedExtent};
use esker_trace_block::Record;

use crate::edt_testbed::{EXTENT, all_moved, end_of, order};

/// Rounds of moves after which extents that are elsewhere stay there: plans may have moved some meanwhile.
const ROUNDS: usize = 4;

/// A load whose extents are placed.
pub(crate) struct Placed<'a> {
    pub records: &'a [Record],
    pub extents: usize,
    /// The first byte of each volume.
    pub bases: &'a [u64],
    /// Type of each end, a number of the thesis' sheets, and the extents for which the end has room. An end is one
    /// device.
    pub ends: Vec<(usize, usize)>,
    /// Length of an epoch at the speed of the records, and epochs.
    pub epoch_s: f64,
    pub epochs: usize,
}

impl Placed<'_> {
    /// Whole volumes, those with most requests first: each on the end that then serves the least part of what it can.
    /// One that fits on no end is cut.
    pub(crate) fn balanced(&self) -> Vec<usize> {
        let iops = Sheet::thesis().map(|sheet| sheet.iops);
        let mut rooms: Vec<usize> = self.ends.iter().map(|(_, room)| *room).collect();
        let (mut loads, mut ends) = (vec![0.0; rooms.len()], vec![0; self.extents]);
        for (first, last, requests) in self.volumes() {
            let share = |end: &usize| (loads[*end] + requests) / iops[self.ends[*end].0];
            let fit = (0..rooms.len()).filter(|end| rooms[*end] >= last - first);
            let whole = fit.min_by(|a, b| share(a).total_cmp(&share(b)));
            for extent in &mut ends[first..last] {
                let roomiest = || (0..rooms.len()).max_by_key(|end| rooms[*end]).expect("there is an end");
                *extent = whole.unwrap_or_else(roomiest);
                rooms[*extent] = rooms[*extent].saturating_sub(1);
                loads[*extent] += requests / (last - first) as f64;
            }
        }
        ends
    }

    /// Extents and requests of all volumes, those with most requests first. An extent belongs to the volume that has
    /// its first byte.
    fn volumes(&self) -> Vec<(usize, usize, f64)> {
        let mut requests = vec![0.0; self.extents];
        self.records.iter().for_each(|record| requests[(record.offset / EXTENT) as usize] += 1.0);
        let firsts = self.bases.iter().map(|base| base.div_ceil(EXTENT) as usize);
        let bounds: Vec<usize> = firsts.chain([self.extents]).collect();
        let parts = bounds.windows(2).filter(|bounds| bounds[0] < bounds[1]);
        let volume = |bounds: &[usize]| (bounds[0], bounds[1], requests[bounds[0]..bounds[1]].iter().sum());
        let mut volumes: Vec<(usize, usize, f64)> = parts.map(volume).collect();
        volumes.sort_by(|a, b| b.2.total_cmp(&a.2));
        volumes
    }

    /// The placement of static tiering, which knows all epochs.
    pub(crate) fn fixed(&self) -> Vec<usize> {
        let sheets = Sheet::thesis();
        let epochs = self.demands();
        let history = History::new(&sheets, EXTENT as f64, epochs.iter().map(Vec::as_slice));
        let idle = |id: u32| UsedExtent { id, at: NOWHERE, demand: Demand::default(), is_held: false };
        let extents: Vec<UsedExtent> = (0..self.extents as u32).map(idle).collect();
        let array = |(tier, room): &(usize, usize)| Array {
            tier: *tier,
            devices: 1,
            extents_max: *room as u32,
            idle: 0,
            is_powered: true,
        };
        let (arrays, extent_bytes): (Vec<Array>, f64) = (self.ends.iter().map(array).collect(), EXTENT as f64);
        let epoch = Epoch {
            sheets: &sheets,
            arrays: &arrays,
            extents: &extents,
            extent_bytes,
            idle_nowhere: 0,
            fill: 1.0,
            consolidates: true,
        };
        let placement = Est { objective: Objective::Cost, history }.plan(&epoch);
        placement.at.iter().map(|end| *end as usize).collect()
    }

    /// What extents ask in each epoch. A request counts for the extent in which it begins.
    fn demands(&self) -> Vec<Vec<(u32, Demand)>> {
        let mut heads: Vec<Classifier> = self.bases.iter().map(|_| Classifier::new(1)).collect();
        let mut epochs = vec![vec![Counts::default(); self.extents]; self.epochs];
        for record in self.records {
            let is_random = heads[record.volume as usize].is_random(record.offset);
            let epoch = (record.at.as_secs_f64() / self.epoch_s) as usize;
            let counts = &mut epochs[epoch.min(self.epochs - 1)][(record.offset / EXTENT) as usize];
            counts.count(record.len, is_random, Transfers::Sequential);
        }
        let demands = |counts: Vec<Counts>| {
            let used = counts.into_iter().enumerate().filter(|(_, counts)| !counts.is_empty());
            used.map(|(extent, counts)| (extent as u32, counts.over(self.epoch_s))).collect()
        };
        epochs.into_iter().map(demands).collect()
    }
}

/// Has the extents of `vol` moved to their ends, slow ends first, and waits for the begin of an epoch. Answers that
/// time, and how many lie elsewhere.
pub(crate) async fn begin(stack: &Rc<Stack>, ends: &[usize], epoch_ns: u64) -> Result<(Time, usize), LabError> {
    let mut elsewhere = elsewhere(stack, ends).await?;
    for _ in 0..ROUNDS {
        if elsewhere.is_empty() {
            break;
        }
        for extent in &elsewhere {
            order(stack, &format!("place {extent} {}", ends[*extent])).await?;
        }
        all_moved(stack).await;
        elsewhere = self::elsewhere(stack, ends).await?;
    }
    let begun = Time(stack.rt().now().0.next_multiple_of(epoch_ns));
    stack.rt().sleep_until(begun).await;
    Ok((begun, elsewhere.len()))
}

async fn elsewhere(stack: &Rc<Stack>, ends: &[usize]) -> Result<Vec<usize>, LabError> {
    let mut found = Vec::new();
    for (extent, end) in ends.iter().enumerate() {
        if end_of(stack, extent as u64).await? != *end {
            found.push(extent);
        }
    }
    found.sort_by_key(|extent| std::cmp::Reverse(ends[*extent]));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Nanos;
    use esker_trace_block::Op;

    /// So many requests a second to the first block of each extent, for ten epochs of a second.
    fn placed(rates: &[u64], bases: &[u64], rooms: [usize; 3]) -> [Vec<usize>; 2] {
        let mut records = Vec::new();
        for (extent, rate) in rates.iter().enumerate() {
            let volume = bases.iter().rposition(|base| *base <= extent as u64).unwrap() as u32;
            let record = |number: u64| Record {
                at: Nanos(number * 1_000_000_000 / rate.max(&1)),
                volume,
                op: Op::Read,
                offset: extent as u64 * EXTENT + number % 2 * EXTENT / 2,
                len: 4096,
                who: 0,
            };
            records.extend((0..rate * 10).map(record));
        }
        records.sort_by_key(|record| record.at);
        let bases: Vec<u64> = bases.iter().map(|extent| extent * EXTENT).collect();
        let ends = (0..).zip(rooms).collect();
        let placed = Placed { records: &records, extents: rates.len(), bases: &bases, ends, epoch_s: 1.0, epochs: 10 };
        [placed.balanced(), placed.fixed()]
    }

    #[test]
    fn whole_volumes_share_the_load_and_room_bounds_them() {
        let [balanced, _] = placed(&[50, 50, 9, 9, 1, 1], &[0, 2, 4], [2, 2, 6]);
        assert_eq!(balanced, [0, 0, 1, 1, 2, 2], "100 on SSD, 18 on SAS, 2 on SATA");
        let [cut, _] = placed(&[50, 50, 50, 50], &[0], [1, 1, 2]);
        let mut ends = cut;
        ends.sort_unstable();
        assert_eq!(ends, [0, 1, 2, 2]);
    }

    #[test]
    fn static_tiering_places_each_extent_by_what_it_asks() {
        let [_, fixed] = placed(&[0, 50, 0, 0, 20, 0], &[0], [2, 2, 6]);
        assert_eq!(fixed, [2, 0, 2, 2, 0, 2]);
    }
}
