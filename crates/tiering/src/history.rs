//! Sums over epochs, extent by extent: what static placement needs.

use std::collections::BTreeMap;

use crate::demand::Demand;
use crate::model::consumption;
use crate::sheet::Sheet;

/// Extents that were in use in an epoch, by number, with their demands. All others were idle.
pub type InUse = [(u32, Demand)];

/// What was seen of an extent.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Sum over all epochs of its share of a device, by type.
    pub shares: Vec<f64>,
    /// Its mean demand.
    pub mean: Demand,
}

/// Sums of one extent over the epochs in which it was in use.
#[derive(Debug, Clone)]
struct Sums {
    epochs: u32,
    shares: Vec<f64>,
    /// Random requests, MB and requests.
    demand: [f64; 3],
}

/// Sums over epochs. An extent that was never in use takes no memory.
#[derive(Debug, Clone, Default)]
pub struct History {
    epochs: u32,
    idle: Vec<f64>,
    rows: BTreeMap<u32, Sums>,
}

impl History {
    /// Over these epochs.
    pub fn new<'a>(sheets: &[Sheet], extent_bytes: f64, epochs: impl IntoIterator<Item = &'a InUse>) -> History {
        let idle = sheets.iter().map(|sheet| sheet.capacity(extent_bytes)).collect();
        let mut history = History { epochs: 0, idle, rows: BTreeMap::new() };
        for epoch in epochs {
            history.add(sheets, extent_bytes, epoch);
        }
        history
    }

    /// Adds an epoch. The types and the size of extents are the same in all epochs.
    pub fn add(&mut self, sheets: &[Sheet], extent_bytes: f64, epoch: &InUse) {
        self.epochs += 1;
        for (extent, demand) in epoch {
            let none = || Sums { epochs: 0, shares: vec![0.0; sheets.len()], demand: [0.0; 3] };
            let row = self.rows.entry(*extent).or_insert_with(none);
            row.epochs += 1;
            for (share, sheet) in row.shares.iter_mut().zip(sheets) {
                *share += consumption(demand, extent_bytes, sheet);
            }
            let values = [demand.random, demand.mb_per_s, demand.iops];
            row.demand.iter_mut().zip(values).for_each(|(sum, value)| *sum += f64::from(value));
        }
    }

    /// Epochs that were added.
    pub fn epochs(&self) -> u32 {
        self.epochs
    }

    /// What was seen of an extent. `None`: it was always idle.
    pub fn of(&self, extent: u32) -> Option<Seen> {
        let row = self.rows.get(&extent)?;
        let idle = f64::from(self.epochs - row.epochs);
        let shares = row.shares.iter().zip(&self.idle).map(|(sum, one)| sum + idle * one).collect();
        let [random, mb_per_s, iops] = row.demand.map(|sum| (sum / f64::from(self.epochs)) as f32);
        Some(Seen { shares, mean: Demand { random, mb_per_s, iops } })
    }

    /// Extents that were ever in use, by number.
    pub fn extents(&self) -> impl Iterator<Item = u32> + '_ {
        self.rows.keys().copied()
    }
}
