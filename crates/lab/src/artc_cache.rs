//! `artc-cache`: two threads that read random blocks of a file each, through the page cache; the first one has read
//! its whole file before. Where the cache holds that file, its reads are hits; where it does not, they are misses
//! beside those of the other thread. What was traced with each cache is replayed with each; the small one is a
//! control group around program and replay. `--quick` has fewer reads of smaller files.

use esker_trace_order::compiled::Program;

use crate::artc::mounted::{ModelDevice, Mounted};
use crate::artc::readers::{Crossed, Readers, Way};
use crate::artc::{How, replayed};
use esker_lab_kit::{Figure, Lab, LabError, cgroup::Limited};

pub(crate) fn run(lab: &Lab<'_>) -> Result<Vec<Figure>, LabError> {
    let mounted = Mounted::ext4(lab, ModelDevice::FastStriped)?;
    let (reads, bytes) = lab.scale((1000, 48 << 20), (4000, 128 << 20));
    let readers = Readers { threads: 2, reads, bytes, way: Way::Cached, seed: lab.seed };
    readers.prepare(&mounted.run_dir())?;
    // All of the memory that this machine has; less than the file that is read first, more than a replay itself needs.
    let caches = [None, Some(bytes / 2)];
    let limited = |cache: usize| {
        mounted.forget()?;
        caches[cache].map(Limited::to).transpose()
    };
    let crossed = Crossed {
        names: ["large", "small"],
        run: |cache: usize| {
            let _limited = limited(cache)?;
            readers.run(&mounted.run_dir())
        },
        replay: |cache: usize, program: &Program, how: How| {
            let _limited = limited(cache)?;
            replayed(program, &mounted.run_dir(), how)
        },
        told: |elapsed_ns, _, target| target.error(elapsed_ns),
        unit: "share, too long if positive",
    };
    let (small_over_large, figures) = crossed.measure(lab, |_| Ok(()))?;
    let ratio = Figure::alone("small_cache_time_ratio", small_over_large, "ratio of the program's own times");
    let is_in_source = |id: &str| ["large_to_small_temporal", "large_to_small_single"].contains(&id);
    let figures = figures.into_iter().map(|figure| {
        let paper = is_in_source(&figure.id).then_some(0.33);
        figure.paper(paper)
    });
    Ok([ratio].into_iter().chain(figures).collect())
}
