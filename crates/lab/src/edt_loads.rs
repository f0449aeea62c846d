//! What experiments on tiering are sized by: what the extents of generated volumes ask, epoch by epoch.
//!
//! One pass over a generated trace serves several groups of its volumes. An extent's demand in an epoch is its mean
//! there: random requests, bytes of sequential ones, and all requests per second. A request is sequential within
//! 512 KiB of the one before on its volume, as in the thesis (one stream head).

use esker_tiering::demand::{Counts, Transfers};
use esker_tiering::sizing::Workload;
use esker_tiering::{Classifier, Demand};
use esker_trace_block::generate::{Generator, Profile};
use esker_trace_block::{Record, Source};

use esker_lab_kit::{Lab, LabError};

/// Bytes of an extent in the experiments of the thesis.
pub(crate) const EXTENT: u64 = 64_000_000;
/// Requests between two lines of progress.
const STRIDE: u64 = 20_000_000;

/// A generated trace.
#[derive(Clone, Copy)]
pub(crate) struct Generated {
    pub profile: &'static str,
    pub hours: f64,
    pub epoch_s: f64,
}

/// What a group of volumes asks.
pub(crate) struct ExtentLoad {
    /// The beginning of the names of its volumes.
    pub name: &'static str,
    /// Extents in all.
    extents: u64,
    epochs: Vec<Vec<(u32, Demand)>>,
}

impl ExtentLoad {
    /// To be sized.
    pub(crate) fn workload(&self) -> Workload<'_> {
        Workload { extent_bytes: EXTENT as f64, extents: self.extents, epochs: &self.epochs, growth: 1.0 }
    }

    /// Bytes of its volumes.
    pub(crate) fn bytes(&self) -> u64 {
        self.extents * EXTENT
    }
}

/// A group of volumes while its trace is read.
struct Group {
    load: ExtentLoad,
    /// The first extent of each volume of the trace that belongs to it.
    first: Vec<Option<u32>>,
    counts: Vec<Counts>,
}

impl Group {
    fn new(name: &'static str, profile: &Profile) -> Group {
        let (mut first, mut extents) = (Vec::new(), 0u64);
        for volume in &profile.volume {
            for _ in 0..volume.count {
                let belongs = volume.name.starts_with(name);
                first.push(belongs.then_some(extents as u32));
                extents += if belongs { volume.bytes.div_ceil(EXTENT) } else { 0 };
            }
        }
        let load = ExtentLoad { name, extents, epochs: Vec::new() };
        Group { load, first, counts: vec![Counts::default(); extents as usize] }
    }

    /// A request counts for the extent in which it begins.
    fn count(&mut self, record: &Record, is_random: bool) {
        let Some(first) = self.first[record.volume as usize] else { return };
        let extent = (u64::from(first) + record.offset / EXTENT) as usize;
        self.counts[extent].count(record.len, is_random, Transfers::Sequential);
    }

    fn end_epoch(&mut self, seconds: f64) {
        let used = self.counts.iter().enumerate().filter(|(_, counts)| !counts.is_empty());
        self.load.epochs.push(used.map(|(extent, counts)| (extent as u32, counts.over(seconds))).collect());
        self.counts.fill(Counts::default());
    }
}

/// Reads a generated trace once. A group has the volumes whose names begin with its name; "" has all.
pub(crate) fn collect(trace: Generated, groups: &[&'static str], lab: &Lab<'_>) -> Result<Vec<ExtentLoad>, LabError> {
    let profile = Profile::builtin(trace.profile).map_err(LabError::data)?;
    let mut source = Generator::new(trace.profile, &profile, lab.seed, trace.hours).map_err(LabError::data)?;
    let mut groups: Vec<Group> = groups.iter().map(|name| Group::new(name, &profile)).collect();
    let volumes: u32 = profile.volume.iter().map(|volume| volume.count).sum();
    let mut heads: Vec<Classifier> = (0..volumes).map(|_| Classifier::new(1)).collect();
    let (mut read, mut epoch) = (0u64, 1u32);
    while let Some(record) = source.next_record().map_err(LabError::data)? {
        while record.at.as_secs_f64() >= f64::from(epoch) * trace.epoch_s {
            groups.iter_mut().for_each(|group| group.end_epoch(trace.epoch_s));
            epoch += 1;
        }
        let is_random = heads[record.volume as usize].is_random(record.offset);
        groups.iter_mut().for_each(|group| group.count(&record, is_random));
        read += 1;
        if read.is_multiple_of(STRIDE) {
            let (hour, hours) = (record.at.as_secs_f64() / 3600.0, trace.hours);
            lab.say(format!("{}: {read} requests, hour {hour:.1} of {hours}", trace.profile));
        }
    }
    groups.iter_mut().for_each(|group| group.end_epoch(trace.epoch_s));
    Ok(groups.into_iter().map(|group| group.load).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Nanos;
    use esker_trace_block::Op;

    #[test]
    fn an_extent_asks_what_its_requests_ask_on_average() {
        let profile = Profile::builtin("msr-like").unwrap();
        let mut group = Group::new("data", &profile);
        assert_eq!(group.load.extents, 11 * 329_850_000_000_u64.div_ceil(EXTENT));
        let record = |volume, offset, len| Record { at: Nanos::ZERO, volume, op: Op::Read, offset, len, who: 0 };
        // Volumes 0 to 18 are those of `server`.
        group.count(&record(18, 0, 4096), true);
        group.count(&record(19, EXTENT, 4096), true);
        group.count(&record(19, EXTENT + 4096, 1_000_000), false);
        group.end_epoch(10.0);
        group.end_epoch(10.0);
        let expected = Demand { random: 0.1, mb_per_s: 0.1, iops: 0.2 };
        assert_eq!(group.load.epochs, [vec![(1, expected)], vec![]]);
    }
}
