//! `esker trace predict`: how long a program would take in a directory.

use std::path::PathBuf;

use esker_base::{Nanos, Progress};
use esker_rt::real::{Reactor, RealConfig};
use esker_trace_calls::{PathBytes, Platform};
use esker_trace_replay::report::text;
use esker_trace_replay::run::without_mask;
use esker_trace_replay::{ExchangeBy, FsyncMeans, InitMode, KernelOptions, PredictOptions, ReplayOptions, predict};

use crate::failure::Failure;
use crate::progress::Pace;
use crate::replaying::{self, Jobs};
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Predict>(About {
    words: &["trace", "predict"],
    summary: "Predict how long a recorded program takes on a file system",
    details: "Makes the tree with which the traces begin below DIR/tree. Takes the program's own files out of memory, and \
              reads all others, such as libraries. Then replays the calls by the rules that predict best, computing as \
              long as traced. Prints the predicted time with its stated error. The error is that of programs of the same class: \
              those that wait for syncs, for reads, or compute. Records nothing, and touches nothing outside of DIR. The \
              exit status is 4 where a replay predicts nothing, because calls had other results than traced, or because \
              the trace does not hold all I/O.",
    examples: &[
        Example { line: "esker trace predict app.etrace --dir /mnt/target/run", does: "prints the predicted time" },
        Example { line: "esker trace predict app.etrace --dir run --own /srv/db --repeat 3", does: "of three replays" },
        Example {
            line: "esker trace predict app.etrace --dir run --prepared --json",
            does: "on the tree that `esker trace prepare` made, with the caches that a new mount left, for scripts",
        },
    ],
});

/// Exit status where nothing is predicted.
const NOTHING: u8 = 4;
/// As `esker trace replay` has it where nothing is said.
const PATIENCE: Nanos = Nanos::secs(10);

#[derive(clap::Args)]
struct Predict {
    #[command(flatten)]
    jobs: Jobs,
    /// The run directory: empty, or one of an earlier replay
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// A directory of the trace with the program's own files; repeat it for more [default: all but those of the system]
    #[arg(long, value_name = "PATH")]
    own: Vec<PathBuf>,
    /// Uses the tree as `esker trace prepare` made it; own files are in memory or not, as they are now
    #[arg(long)]
    prepared: bool,
    /// Replays so often; the one in the middle counts
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeat: u32,
    /// JSON, for programs: the reports of `esker trace replay`
    #[arg(long)]
    json: bool,
}

impl Run for Predict {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of the trace and of the tree, actions"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let (jobs, options) = (self.jobs.load(terminal)?, self.options());
        let reactor = Reactor::new(RealConfig::seeded(self.jobs.seed))?;
        reactor.rt().set_watch(Some(terminal.watcher().watch()));
        let dir = &self.dir;
        let play =
            |progress: &mut dyn FnMut(Progress<'_>)| without_mask(|| predict(jobs, dir, &options, &reactor, progress));
        let reports = replaying::shown(terminal, play)?;
        if self.json {
            terminal.say(&replaying::as_json(&reports)?)?;
        } else {
            reports.iter().try_for_each(|report| terminal.say(text::prediction(report).trim_end()))?;
        }
        let is_nothing = reports.iter().any(|report| report.prediction.is_none());
        if is_nothing { Err(Failure::Passed(NOTHING)) } else { Ok(()) }
    }
}

impl Predict {
    fn options(&self) -> PredictOptions {
        let (keep_modes, seed) = (self.jobs.keep_modes, self.jobs.seed);
        let (fsync, exchange) = (FsyncMeans::Durable, ExchangeBy::Link);
        // Each trace's own platform counts; this one is replaced.
        let kernel = KernelOptions { fsync, exchange, platform: Platform::Linux, keep_modes, seed };
        PredictOptions {
            init: self.jobs.init(InitMode::Full),
            replay: ReplayOptions { kernel, patience: PATIENCE },
            prepared: self.prepared,
            own: self.own.iter().map(|dir| PathBytes::from(dir.as_os_str().as_encoded_bytes())).collect(),
            repeat: self.repeat,
        }
    }
}
