//! What experiments on caches play: recorded traces, a generated week of servers, and Zipf's law.

use std::fs::File;
use std::path::Path;

use esker_base::Stream;
use esker_base::digest::mix;
use esker_caching::curve::spread;
use esker_caching::ids::Ids;
use esker_caching::{LineUse, lines_in};
use esker_trace_block::generate::{Generator, Profile};
use esker_trace_block::{Record, Source, TraceReader};

use esker_lab_kit::{Lab, LabError};

/// The traces of the project, and those that may lie beside it.
const FOLDERS: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../data"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces/cloudphysics"),
];

/// The word for it in names of figures, and the file.
const RECORDED: [(&str, &str); 4] = [
    ("mysql", "linux-mysql.load.gz"),
    ("web", "linux-webserver-2.load.gz"),
    ("cloudphysics", "cloudPhysicsIO.vscsi.zst"),
    ("w106", "w106.trace.xz"),
];

/// Uses of a recorded trace in the short form.
const SHORT_USES: usize = 1_500_000;

/// The profile of the generated trace, the word for it, and the share of its volumes and requests.
const PROFILE: &str = "msr-like";
const WEEK: &str = "msr_like";
pub(crate) const WEEK_SCALE: f64 = 0.01;

/// Uses of lines of one trace.
pub(crate) struct CacheLoad {
    pub name: &'static str,
    pub uses: Vec<LineUse>,
    /// Lines that are used.
    pub footprint: u64,
}

impl CacheLoad {
    fn new(name: &'static str, uses: Vec<LineUse>) -> CacheLoad {
        let mut ids = Ids::new();
        for line in &uses {
            ids.of(line.key);
        }
        CacheLoad { name, footprint: ids.bound().into(), uses }
    }

    /// `count` sizes from a thousandth of all lines to all.
    pub(crate) fn sizes(&self, count: u32) -> Vec<u64> {
        spread(self.footprint, count)
    }
}

/// The recorded traces that are there, in lines of so many bytes. The short form has the beginning of long ones.
pub(crate) fn recorded(line: u32, lab: &Lab<'_>) -> Result<Vec<CacheLoad>, LabError> {
    let most = lab.scale(SHORT_USES, usize::MAX);
    let mut loads = Vec::new();
    for (name, file) in RECORDED {
        let mut places = FOLDERS.iter().map(|folder| File::open(Path::new(folder).join(file)));
        let Some(bytes) = places.find_map(Result::ok) else {
            lab.say(format!("{file} is not there, so {name} has no figures"));
            continue;
        };
        let mut reader = TraceReader::open(file, Box::new(bytes), None).map_err(LabError::data)?;
        let mut uses = Vec::new();
        while let Some(record) = reader.next_record().map_err(LabError::data)? {
            uses.extend(uses_of(&record, line));
            if uses.len() >= most {
                break;
            }
        }
        loads.push(CacheLoad::new(name, uses));
    }
    Ok(loads)
}

/// So many hours of the generated week, in lines of so many bytes.
pub(crate) fn week(hours: f64, line: u32, lab: &Lab<'_>) -> Result<CacheLoad, LabError> {
    let mut uses = Vec::new();
    for_each_record(hours, lab, |record| uses.extend(uses_of(record, line)))?;
    Ok(CacheLoad::new(WEEK, uses))
}

/// Hands out the records of the generated week.
pub(crate) fn for_each_record(hours: f64, lab: &Lab<'_>, mut take: impl FnMut(&Record)) -> Result<(), LabError> {
    let profile = Profile::builtin(PROFILE).map_err(LabError::data)?.scaled(WEEK_SCALE);
    let mut trace = Generator::new(PROFILE, &profile, lab.seed, hours).map_err(LabError::data)?;
    while let Some(record) = trace.next_record().map_err(LabError::data)? {
        take(&record);
    }
    Ok(())
}

/// The lines of a read or write.
pub(crate) fn uses_of(record: &Record, line: u32) -> impl Iterator<Item = LineUse> {
    lines_in(record.volume, record.offset, if record.op.is_transfer() { record.len } else { 0 }, line)
}

/// Keys whose numbers of uses follow Zipf's law with exponent 1, all over the space of keys.
pub(crate) fn zipf_keys(seed: u64, keys: u32, count: usize) -> Vec<u64> {
    let mut random = Stream::named(seed, "cache loads");
    let mut sum = 0.0;
    let mut add = |rank: u32| {
        sum += 1.0 / f64::from(rank + 1);
        sum
    };
    let sums: Vec<f64> = (0..keys).map(&mut add).collect();
    let rank = |_| {
        let at = random.unit() * sum;
        sums.partition_point(|up_to| *up_to <= at) as u64
    };
    (0..count).map(rank).map(mix).collect()
}

/// The same as requests for a line each.
pub(crate) fn zipf(seed: u64, keys: u32, count: usize) -> CacheLoad {
    let uses = zipf_keys(seed, keys, count).into_iter().map(|key| LineUse { key, bytes: 4096, is_last: true });
    CacheLoad::new("zipf", uses.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_used_as_often_as_its_rank_says() {
        let keys = zipf_keys(1, 1_000, 100_000);
        let share = |rank| keys.iter().filter(|key| **key == mix(rank)).count() as f64 / 1e5;
        // The sum of the first thousand inverses is 7.4855.
        for (rank, expected) in [(0, 1.0 / 7.4855), (1, 0.5 / 7.4855), (9, 0.1 / 7.4855)] {
            assert!((share(rank) / expected - 1.0).abs() < 0.08, "{rank}: {}", share(rank));
        }
    }

    #[test]
    fn sizes_end_at_the_footprint() {
        let load = zipf(1, 20_000, 50_000);
        let sizes = load.sizes(10);
        assert_eq!((sizes.len(), sizes[9]), (10, load.footprint));
        assert_eq!(sizes[0], (load.footprint as f64 / 1e3).round() as u64);
    }
}
