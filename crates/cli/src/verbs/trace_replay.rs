//! `esker trace replay`: plays traces again and tells how long that took.

use std::path::PathBuf;

use esker_base::units::{UnitError, parse_span};
use esker_base::{Nanos, Progress};
use esker_rt::real::{Reactor, RealConfig};
use esker_trace_calls::Platform;
use esker_trace_order::rules::{NAMED, Order, Rules};
use esker_trace_replay::files::{SimulateOptions, simulate};
use esker_trace_replay::report::{html, text};
use esker_trace_replay::run::without_mask;
use esker_trace_replay::{
    ExchangeBy, FsyncMeans, InitMode, KernelOptions, ReplayOptions, Report, RunOptions, Speed, run,
};

use crate::failure::Failure;
use crate::outputs::Output;
use crate::progress::Pace;
use crate::replaying::{self, Jobs};
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::virtual_files::VirtualFiles;

/// The record.
pub const VERB: Verb = Verb::of::<Replay>(About {
    words: &["trace", "replay"],
    summary: "Replay what programs did, in an order that they could have had",
    details: "Makes the tree with which the traces begin below DIR/tree. Then plays the calls of each traced \
              thread on a thread of its own, each call after those on which it depends. Mode root keeps the order \
              of each file, name and descriptor, and mode temporal that of the whole trace. Mode single has one \
              call at a time, and mode unconstrained no order between threads. Reports where the time went, and \
              which calls had another result than traced. Nothing outside the directory is read or written, but \
              devices such as /dev/null. A foreign trace leaves no set-user-id file and no attribute that grants \
              rights (see --keep-modes). Results are compared by success, error, count of bytes, and, of files, \
              type and size. With --on in place of --dir the replay is simulated: on a file \
              system of ours in virtual time, with traced threads as tasks and the CPU time of each call charged. One \
              seed gives one report. The exit status is 4 if more calls than --max-failures had another result, or some \
              never ended.",
    examples: &[
        Example { line: "esker trace replay app.etrace --dir /mnt/target/run", does: "as fast as possible" },
        Example { line: "esker trace replay app.etrace --dir run --speed natural", does: "computes as long as traced" },
        Example {
            line: "esker trace replay app.etrace --dir run --mode temporal --json old.json",
            does: "keeps the trace's order, and writes the report for `esker trace compare`",
        },
        Example {
            line: "esker trace replay app.etrace --on ram --speed natural",
            does: "tells how long it takes on a file system in memory of ours, by simulation",
        },
        Example { line: "esker trace replay music.etrace photos.etrace --dir run", does: "two programs at once" },
    ],
});

#[derive(clap::Args)]
struct Replay {
    #[command(flatten)]
    jobs: Jobs,
    /// The run directory: empty, or one of an earlier replay
    #[arg(long, value_name = "DIR", required_unless_present = "on", conflicts_with = "on")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    files: VirtualFiles,
    /// Which orders are allowed: root, temporal, single or unconstrained
    #[arg(long, value_name = "MODE", default_value = "root")]
    mode: String,
    /// A rule to switch on or, with no- before its name, off; repeat it for more (mode root)
    #[arg(long = "rule", value_name = "RULE")]
    rules: Vec<String>,
    /// Computation between calls: afap (none), natural (as traced), or a multiple such as x0.5
    #[arg(long, value_name = "SPEED", default_value = "afap")]
    speed: Speed,
    /// What fsync means: durable, or device (it may be in the device's volatile cache)
    #[arg(long, value_name = "MEANING", value_parser = fsync, default_value = "durable")]
    fsync: FsyncMeans,
    /// How two files are exchanged: link (a link and two renames) or atomic
    #[arg(long, value_name = "WAY", value_parser = exchange, default_value = "link")]
    exchange: ExchangeBy,
    /// How the tree is made first: full, delta or none
    #[arg(long, value_name = "MODE", value_parser = replaying::init_mode, default_value = "full")]
    init: InitMode,
    /// Replays so often; the report is of the one in the middle
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeat: u32,
    /// Ends a replay in which nothing happens for so long, beyond what its calls took in the trace; six times that
    /// while a call waits for the target alone
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10s")]
    patience: Nanos,
    /// Percentage of calls that may come out otherwise
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    max_failures: f64,
    /// Writes the report as JSON; - is standard output, in place of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes the report as a page with figures
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// What the files that this verb writes have near their beginning.
const MARKS: [&str; 2] = ["Written by esker trace replay", "\"version\""];
const MARK: &str = "Written by esker trace replay";
/// Exit status of a replay with too many mismatches.
const DIFFERS: u8 = 4;

fn parse_time(text: &str) -> Result<Nanos, UnitError> {
    parse_span(text)
}

fn fsync(text: &str) -> Result<FsyncMeans, String> {
    match text {
        "durable" => Ok(FsyncMeans::Durable),
        "device" => Ok(FsyncMeans::Device),
        _ => Err("say durable or device".to_string()),
    }
}

fn exchange(text: &str) -> Result<ExchangeBy, String> {
    match text {
        "link" => Ok(ExchangeBy::Link),
        "atomic" => Ok(ExchangeBy::Rename),
        _ => Err("say link or atomic".to_string()),
    }
}

impl Run for Replay {
    const PACE: Option<Pace> = Some(Pace::Shows("bytes of the trace and of the tree, actions"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let options = self.options()?;
        let json = self.json.as_ref().filter(|path| path.as_os_str() != "-");
        let claim = |path: &PathBuf, option| Output::claim(path.clone(), &MARKS, false, option);
        let json = json.map(|path| claim(path, "--json")).transpose()?;
        let page = self.report.as_ref().map(|path| claim(path, "--report")).transpose()?;
        json.iter().chain(&page).try_for_each(Output::prepare)?;
        let reports = match &self.dir {
            Some(dir) => {
                self.files.refuse()?;
                let jobs = self.jobs.load(terminal)?;
                let reactor = Reactor::new(RealConfig::seeded(self.jobs.seed))?;
                reactor.rt().set_watch(Some(terminal.watcher().watch()));
                let play = |progress: &mut dyn FnMut(Progress<'_>)| {
                    without_mask(|| run(jobs, dir, options, &reactor, progress))
                };
                replaying::shown(terminal, play)?
            }
            None => self.simulated(options, terminal)?,
        };
        self.report(&reports, json.as_ref(), page.as_ref(), terminal)?;
        self.judge(&reports, terminal)
    }
}

impl Replay {
    /// Replays on a file system of ours in virtual time.
    fn simulated(&self, options: RunOptions, terminal: &mut Terminal) -> Result<Vec<Report>, Failure> {
        if self.repeat > 1 {
            return Err(Failure::Usage("--repeat has no meaning with --on: every run is the same".to_string()));
        }
        let choices = SimulateOptions {
            order: options.order,
            speed: options.speed,
            exchange: options.replay.kernel.exchange,
            max_bytes: options.init.max_bytes,
            costs: self.files.costs()?,
            cpus: self.files.cpus as usize,
        };
        let simulation = self.files.open(self.jobs.seed, terminal)?;
        simulation.sim.rt().set_watch(Some(terminal.watcher().watch()));
        let jobs = self.jobs.load(terminal)?;
        Ok(simulate(&simulation.sim, simulation.files, jobs, &choices)?)
    }

    fn options(&self) -> Result<RunOptions, Failure> {
        let usage = |text: String| Failure::Usage(text);
        let order = match self.mode.as_str() {
            "root" => Order::Root(self.chosen_rules()?),
            "temporal" => Order::Temporal,
            "single" => Order::Single,
            "unconstrained" => Order::Unconstrained,
            other => return Err(usage(format!("--mode {other}: say root, temporal, single or unconstrained"))),
        };
        if !self.rules.is_empty() && self.mode != "root" {
            return Err(usage(format!("--rule has no meaning in mode {}", self.mode)));
        }
        let order = order.check().map_err(|error| usage(error.to_string()))?;
        // Each trace's own platform counts; this one is replaced.
        let platform = Platform::Linux;
        let (keep_modes, seed) = (self.jobs.keep_modes, self.jobs.seed);
        let kernel = KernelOptions { fsync: self.fsync, exchange: self.exchange, platform, keep_modes, seed };
        Ok(RunOptions {
            order,
            speed: self.speed,
            init: self.jobs.init(self.init),
            replay: ReplayOptions { kernel, patience: self.patience },
            repeat: self.repeat,
        })
    }

    fn chosen_rules(&self) -> Result<Rules, Failure> {
        let rules = self.rules.iter().try_fold(Rules::default(), |rules, rule| match rule.strip_prefix("no-") {
            Some(off) => rules.without(off),
            None => rules.with(rule),
        });
        rules.map_err(|error| {
            let known: Vec<&str> = NAMED.iter().map(|(name, _, _)| *name).collect();
            Failure::Usage(format!("--rule: {error} (rules: {})", known.join(", ")))
        })
    }

    fn report(
        &self,
        reports: &[Report],
        json: Option<&Output>,
        page: Option<&Output>,
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        match json {
            Some(output) => output.put(&replaying::as_json(reports)?)?,
            None if self.json.is_some() => terminal.say(&replaying::as_json(reports)?)?,
            None => {}
        }
        if let Some(output) = page {
            output.put(&html::page(reports, MARK)?)?;
        }
        if json.is_some() || self.json.is_none() {
            reports.iter().try_for_each(|report| terminal.say(&text::text(report)))?;
        }
        terminal.finish()
    }

    fn judge(&self, reports: &[Report], terminal: &mut Terminal) -> Result<(), Failure> {
        let allowed = self.max_failures / 100.0;
        let is_bad = |report: &&Report| {
            report.failure_share() > allowed || report.tree_differences.share() > allowed || report.stopped.is_some()
        };
        let Some(report) = reports.iter().find(is_bad) else { return Ok(()) };
        let tree = &report.tree_differences;
        let (count, of) = (report.mismatches.count, report.mismatches.compared);
        let why = match &report.stopped {
            Some(why) => format!("the replay was stopped, so its time predicts nothing: {why}"),
            None if report.failure_share() <= allowed => {
                format!("{} of {} names in the tree are not as the program left them", tree.count, tree.compared)
            }
            None => format!(
                "{count} of {of} calls came out otherwise than traced: its time predicts nothing, because a call that fails \
                 returns at once"
            ),
        };
        terminal.complain(&format!("{}: {why}", report.trace));
        Err(Failure::Passed(DIFFERS))
    }
}
