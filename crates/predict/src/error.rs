//! Why a prediction could not be made.

use std::io;

use esker_base::Nanos;
use esker_block::KindError;
use esker_report::PlotError;
use esker_stack::BuildError;
use esker_trace_block::TraceError;

use crate::calibration::CalibrationError;

/// Why a prediction could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// A trace's bytes could not be had.
    #[error("{name}: cannot be opened: {source}")]
    Unopened {
        /// The trace.
        name: String,
        /// What refused.
        source: io::Error,
    },
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Nothing to play.
    #[error("there is no trace to play; name at least one")]
    NoTraces,
    /// A trace without a request, or a limit that leaves none.
    #[error("{0}: holds no request to play; choose another trace, or a longer --duration or --limit")]
    NoRequests(String),
    /// Nothing is left behind the warm-up.
    #[error(
        "the warm-up lasts {warm} and the traces end at {last}, so no request counts; choose a shorter --warm, or `once`"
    )]
    AllWarm {
        /// The warm-up.
        warm: Nanos,
        /// The time of the last request.
        last: Nanos,
    },
    /// A trace of more volumes than are played at once.
    #[error(
        "{name}: has requests to at least {volumes} volumes ({named}, ...), and at most {max} are played at once; choose \
         one with --volume NAME",
        max = crate::facts::VOLUMES_MAX
    )]
    TooManyVolumes {
        /// The trace.
        name: String,
        /// The volumes met.
        volumes: usize,
        /// The first ones.
        named: String,
    },
    /// A trace without times beside one with times.
    #[error(
        "{untimed}: the requests have no times, but those of {timed} have; play them apart, or all of them with --rate N or \
         --closed N"
    )]
    Untimed {
        /// The trace without times.
        untimed: String,
        /// One with times.
        timed: String,
    },
    /// A search for a speed where requests do not come at recorded times.
    #[error("{0}: the requests have no times, so no speed can be searched; leave --busy out, or give --rate N")]
    NoSpeed(String),
    /// A stack that is smaller than what the trace reaches.
    #[error(
        "{candidate}: export {export} has {size}, but {trace} reaches to {reach}; give a larger stack, or --wrap to move \
         requests beyond the end inside"
    )]
    TooSmall {
        /// The stack.
        candidate: String,
        /// The export.
        export: String,
        /// Its size.
        size: String,
        /// The trace.
        trace: String,
        /// The end of its last request.
        reach: String,
    },
    /// A trace that reaches further than any sensible number of drives.
    #[error(
        "{trace}: reaches to {reach}, which is more than {drives} drives hold ({largest} each); check its offsets with \
         `esker blktrace stat`, give a --stack of that size, or --wrap to move requests inside"
    )]
    TooFar {
        /// The trace.
        trace: String,
        /// The end of its last request.
        reach: String,
        /// Most drives of a candidate.
        drives: u64,
        /// What one holds.
        largest: String,
    },
    /// A stack with another number of exports than the traces have volumes.
    #[error(
        "{candidate}: exports {exports}, but the traces have {volumes} volumes ({named}); a candidate needs one export for \
         each volume, in this order; --volume NAME plays a single one"
    )]
    Exports {
        /// The stack.
        candidate: String,
        /// Its exports.
        exports: usize,
        /// The volumes.
        volumes: usize,
        /// Their names.
        named: String,
    },
    /// A stack with mounts, through which no block trace is played.
    #[error(
        "{0}: has mounts; block traces are played on exports, and calls of programs on file systems by `esker trace \
         replay --on`; remove the mounts"
    )]
    Mounts(String),
    /// Files of a measured disk that make none.
    #[error("{name}: {source}")]
    Disk {
        /// The folder.
        name: String,
        /// What is wrong.
        source: KindError,
    },
    /// A stack that cannot be built in virtual time.
    #[error("{candidate}: {source}")]
    Build {
        /// The stack.
        candidate: String,
        /// Why.
        source: BuildError,
    },
    /// A stack that never answered some request.
    #[error("{candidate}: some requests were never answered: {halt}; this is a bug in a device or layer")]
    Stuck {
        /// The stack.
        candidate: String,
        /// Where the world stood.
        halt: String,
    },
    /// Two runs of one plan differ.
    #[error(
        "{candidate}: two runs with seed {seed} differ (digests {first} and {second}); something that is not seeded \
         influences virtual time: this is a bug"
    )]
    Differs {
        /// The stack.
        candidate: String,
        /// The seed of both.
        seed: u64,
        /// Digest of the first run.
        first: String,
        /// Digest of the second.
        second: String,
    },
    /// A depth that is none.
    #[error("depth {0} is out of range; choose 1 to {max}", max = crate::load::DEPTH_MAX)]
    Depth(u32),
    /// A rate that is none.
    #[error("rate {0} is out of range; choose a number of requests a second above 0, up to 1000000000")]
    Rate(f64),
    /// A share of filled flash that is none.
    #[error("fill {0} is out of range; choose 0 (new drives) to 1 (drives that were written in full)")]
    Fill(f64),
    /// A calibration that is damaged, or does not hold what a candidate needs.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
    /// An older result that cannot be read.
    #[error("{file}: is no result of `esker try`: {what}; give the result.json of an earlier run")]
    Against {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// The real world could not be had.
    #[error(transparent)]
    Start(#[from] esker_rt::real::StartError),
    /// A speed that is none.
    #[error("speed {0} is out of range; choose a factor from 0.000001 to 1000000")]
    Speed(f64),
    /// A figure could not be drawn.
    #[error(transparent)]
    Figure(#[from] PlotError),
}
