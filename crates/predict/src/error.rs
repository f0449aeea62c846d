//! Why a prediction could not be made.

use std::io;

use esker_blktrace::TraceError;
use esker_block::KindError;
use esker_plot::PlotError;
use esker_stack::BuildError;

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
    /// A trace of several volumes.
    #[error(
        "{name}: has requests to several volumes ({volumes}); write each to a trace of its own with `esker blktrace \
         convert --volume NAME`"
    )]
    SeveralVolumes {
        /// The trace.
        name: String,
        /// The volumes met so far.
        volumes: String,
    },
    /// A stack with another number of exports than traces.
    #[error(
        "{candidate}: exports {exports}, but there are {traces} traces; a candidate needs one export for each trace, \
         in the order of the traces"
    )]
    Exports {
        /// The stack.
        candidate: String,
        /// Its exports.
        exports: usize,
        /// The traces.
        traces: usize,
    },
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
