//! `esker try`: predicts which stack serves block traces best, says why, and writes that stack.

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use esker_advise::{AdviseError, trial};
use esker_base::Nanos;
use esker_base::units::{UnitError, parse_size, parse_span};
use esker_predict::calibration::FILE;
use esker_predict::deploy::stack_toml;
use esker_predict::plan::TARGET_BUSY;
use esker_predict::report::{Origin, page, text};
use esker_predict::{
    Calibration, Candidate, Comparison, ComparisonPlan, Limit, Load, Making, MeasuredDisk, Older, Prepared,
    SpeedChoice, Warm,
};
use esker_stack::Spec;
use esker_trace_block::Format;

use crate::block_trace::from_help;
use crate::failure::Failure;
use crate::outputs::{Output, OutputError};
use crate::playing::{Plays, command_line, threads_of};
use crate::progress::Pace;
use crate::stack_text::StackText;
use crate::terminal::Terminal;
use crate::verb::{self, About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Try>(About {
    words: &["try"],
    summary: "Predict which stack serves block traces best",
    details: "Plays the traces in virtual time against candidate stacks and compares latency, throughput, energy \
              and price. Names the best candidate and the reasons. Writes it as stack.toml, with an HTML report \
              and the result as JSON, to the folder of --out. Candidates are disks and SSDs by themselves, and put \
              together: `cached`, `tiered`, `reorganised` and `resting`, for which traces are played twice, because \
              these layers learn. Without traces the verb plays two built-in ones, an \
              hour of a MySQL server and an hour of a web server, at a speed at which they need more than one \
              disk. Given traces are played as recorded. A trace is a file, a folder or an archive; each volume in \
              it gets an export of its own. Requests come at their recorded times, with --rate evenly, or with \
              --closed each after the answer to an earlier one. One client plays a trace without times. A \
              candidate of your own needs an export for each volume, in their order, as large as the trace \
              reaches. The headroom of a candidate is the multiple of the load that it bears within the target. \
              Files that esker did not write are replaced only with --force.",
    examples: &[
        Example {
            line: "esker try",
            does: "plays the built-in traces against disks, SSDs, a cache, a tier, and disks that learn",
        },
        Example { line: "esker try db.iolog", does: "judges the load that `fio --write_iolog` recorded" },
        Example { line: "esker try app.vscsi --target-p99 5ms --speed 2", does: "plays a trace twice as fast" },
        Example { line: "esker try two-disks.blkparse --volume 8,0", does: "plays the requests to one disk" },
        Example {
            line: "esker try pages.lis --rate 2000",
            does: "plays a trace without times at 2000 requests a second",
        },
        Example { line: "esker try --stack a.toml --stack b.toml app.csv", does: "compares stacks of your own" },
        Example { line: "esker try --closed 8 --think 1ms app.csv", does: "eight clients that wait for answers" },
        Example {
            line: "esker try --stack cached.toml --warm 30min app.csv",
            does: "counts from half an hour on, when the cache is warm",
        },
        Example { line: "esker try --join *.csv", does: "lets all volumes share one export of each candidate" },
        Example { line: "esker try --disk atlas10k", does: "adds a measured disk that files in that folder describe" },
        Example { line: "esker try --against old/result.json", does: "tells what differs from an older result" },
        Example { line: "esker try --serve", does: "then serves the best stack over NBD, on sparse files" },
    ],
});

#[derive(clap::Args)]
struct Try {
    /// Files, folders or archives with traces [default: the two that are built in]
    #[arg(value_name = "TRACE")]
    traces: Vec<String>,
    #[arg(long, value_name = "FORMAT", requires = "traces", help = from_help())]
    from: Option<Format>,
    /// Only the requests to this volume of each trace
    #[arg(long, value_name = "NAME", requires = "traces")]
    volume: Option<String>,
    /// Stack to compare: a file, or the text itself; repeat it for more [default: nine built-in ones]
    #[arg(long = "stack", visible_alias = "candidate", value_name = "STACK")]
    stacks: Vec<String>,
    /// Leaves out the cache, the tier, the disk that is laid out anew and the one that rests
    #[arg(long, conflicts_with = "stacks")]
    plain: bool,
    /// Folder with a measured disk's files in DiskSim's formats, as a candidate beside the others; repeat it for more
    #[arg(long = "disk", value_name = "DIR")]
    disks: Vec<PathBuf>,
    /// How many times faster than recorded the traces are played [default: 1; for the built-in traces as with --busy
    /// 0.7]
    #[arg(long, value_name = "FACTOR", conflicts_with = "busy")]
    speed: Option<f64>,
    /// Searches for the speed at which the first stack's busiest device works this share of the time
    #[arg(long, value_name = "SHARE")]
    busy: Option<f64>,
    /// So many requests of each trace a second, evenly; recorded times do not matter
    #[arg(long, value_name = "N", conflicts_with_all = ["speed", "busy", "closed"])]
    rate: Option<f64>,
    /// Closed loop: so many requests of each trace in flight, the next one after an answer; recorded times do not
    /// matter
    #[arg(long, value_name = "N", conflicts_with_all = ["speed", "busy"])]
    closed: Option<u32>,
    /// In closed loop: what each client waits between an answer and its next request
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "closed", default_value = "0")]
    think: Nanos,
    /// CPU and device times that `esker calibrate` measured [default: esker-calibration.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Tells the differences from the result.json of an earlier run
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// The most that the 99th percentile of all requests may be
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "20ms")]
    target_p99: Nanos,
    /// Share of its flash that each solid-state drive has written before: 0 is a new drive, 1 one that was written in
    /// full
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    fill: f64,
    /// Moves requests beyond the end of a stack inside, instead of refusing the stack
    #[arg(long)]
    wrap: bool,
    /// Does not search how many times the load each candidate bears
    #[arg(long)]
    no_headroom: bool,
    /// Plays only this much of each trace, in recorded time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<Nanos>,
    /// Plays only so many requests of each trace
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Plays the first five minutes of each trace
    #[arg(long, conflicts_with = "duration")]
    quick: bool,
    /// Memory for the records of the traces; a trace that does not fit is decoded again for each run
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256MiB")]
    memory: u64,
    /// Leaves out requests that repeat range and operation of one less than this before
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    dedup_window: Option<Nanos>,
    /// One export holds all volumes, one behind the other; each begins at a multiple of 64 MiB
    #[arg(long)]
    join: bool,
    /// Plays this much of each trace, in recorded time, before counting begins; with `once`, all traces a first time
    #[arg(long, value_name = "TIME", value_parser = parse_warm)]
    warm: Option<Warm>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Plays every candidate twice and fails unless both runs are equal
    #[arg(long)]
    verify: bool,
    /// Candidates played at once; the result does not depend on it [default: the machine's CPUs]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// The result as JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Folder for stack.toml, report.html and result.json
    #[arg(long, value_name = "DIR", default_value = "esker-try")]
    out: PathBuf,
    /// The report elsewhere than in that folder
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Replaces files that esker did not write
    #[arg(long)]
    force: bool,
    /// Then serves the best stack, as `esker serve DIR/stack.toml` does
    #[arg(long, conflicts_with = "json")]
    serve: bool,
}

/// Recorded time that `--quick` plays.
const QUICK: Nanos = Nanos::secs(300);

/// What the files that this verb writes have near their beginning.
const MARKS: [&str; 2] = ["Written by esker try", "\"written_by\": \"esker try\""];

fn parse_time(text: &str) -> Result<Nanos, UnitError> {
    parse_span(text)
}

fn parse_warm(text: &str) -> Result<Warm, UnitError> {
    if text == "once" { Ok(Warm::Once) } else { parse_span(text).map(Warm::Span) }
}

/// The files that will be written.
struct Outputs {
    stack: Output,
    report: Output,
    result: Output,
}

impl Run for Try {
    const PACE: Option<Pace> =
        Some(Pace::Shows("bytes of traces, probes of the search for a speed, requests of candidates"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        if let Some(busy) = self.busy.filter(|busy| !(*busy > 0.0 && *busy < 1.0)) {
            return Err(Failure::Usage(format!(
                "--busy {busy}: choose a share between 0 and 1, such as {TARGET_BUSY}"
            )));
        }
        if self.serve && !cfg!(feature = "full") {
            return Err(Failure::Usage(
                "--serve: this program only predicts; cargo install --path crates/cli installs one that serves".into(),
            ));
        }
        let plays = Plays::new(terminal.watcher());
        let plan = self.plan(&plays, terminal)?;
        let outputs = self.outputs()?;
        let prepared = self.prepare(plan, &plays)?;
        [&outputs.stack, &outputs.report, &outputs.result].into_iter().try_for_each(Output::prepare)?;
        let runs = plays.candidates(&prepared, threads_of(self.threads))?;
        let comparison = prepared.conclude(runs);
        self.write(&comparison, &outputs)?;
        match self.json {
            true => terminal.say(&comparison.to_json())?,
            false => self.report(&comparison, &outputs, terminal)?,
        }
        if self.serve { serve(outputs.stack.path(), terminal) } else { Ok(()) }
    }
}

impl Try {
    fn plan(&self, plays: &Plays, terminal: &mut Terminal) -> Result<ComparisonPlan, Failure> {
        let defaults = match self.traces.as_slice() {
            [] => ComparisonPlan::embedded(),
            paths => ComparisonPlan::of(plays.traces(paths, self.from, self.volume.as_deref())),
        };
        let mut candidates = Vec::new();
        for stack in &self.stacks {
            let stack = StackText::of(stack.clone());
            let (spec, _) = stack.load(terminal)?;
            candidates.push(candidate(&stack, spec, &candidates));
        }
        let speed = match (self.speed, self.busy) {
            (Some(factor), _) => SpeedChoice::Factor(factor),
            (_, Some(busy)) => SpeedChoice::Busy(busy),
            _ => defaults.speed,
        };
        let duration = self.duration.or(self.quick.then_some(QUICK));
        Ok(ComparisonPlan {
            candidates,
            disks: self.disks.iter().map(|folder| measured_disk(folder)).collect::<Result<_, _>>()?,
            seed: self.seed,
            load: self.load(),
            calibration: self.calibration()?,
            against: self.against.as_deref().map(older).transpose()?,
            speed,
            headroom: !self.no_headroom,
            making: Making { fill: self.fill, wraps: self.wrap },
            joined: self.join,
            limit: Limit { duration, requests: self.limit, dedup_window: self.dedup_window, warm: self.warm },
            memory: self.memory,
            target_p99: self.target_p99,
            verify: self.verify,
            ..defaults
        })
    }

    /// Reads the traces, finds the speed, and adds what else is weighed beside plain devices.
    fn prepare(&self, plan: ComparisonPlan, plays: &Plays) -> Result<Prepared, AdviseError> {
        let mut prepared = plan.prepare(&plays.watch())?;
        if self.stacks.is_empty() && !self.plain {
            prepared.add(trial::candidates(&prepared, self.seed)?)?;
        }
        prepared.check_built()?;
        Ok(prepared)
    }

    fn load(&self) -> Load {
        match (self.closed, self.rate) {
            (Some(depth), _) => Load::Closed { depth, think: self.think },
            (_, Some(per_s)) => Load::Steady { per_s },
            _ => Load::Open,
        }
    }

    /// The calibration that was named, or the one in the current folder.
    fn calibration(&self) -> Result<Option<(String, Calibration)>, Failure> {
        let path = match &self.calibration {
            Some(path) => path.as_path(),
            None if Path::new(FILE).exists() => Path::new(FILE),
            None => return Ok(None),
        };
        let name = path.display().to_string();
        let calibration = Calibration::parse(&name, &input(path)?)?;
        Ok(Some((name, calibration)))
    }

    fn outputs(&self) -> Result<Outputs, OutputError> {
        let claim = |path: PathBuf, option| Output::claim(path, &MARKS, self.force, option);
        let report = self.report.clone().unwrap_or_else(|| self.out.join("report.html"));
        Ok(Outputs {
            stack: claim(self.out.join("stack.toml"), "--out")?,
            report: claim(report, if self.report.is_some() { "--report" } else { "--out" })?,
            result: claim(self.out.join("result.json"), "--out")?,
        })
    }

    fn write(&self, comparison: &Comparison, outputs: &Outputs) -> Result<(), Failure> {
        let stack = stack_toml(comparison, &self.out.display().to_string())?;
        let spec = Spec::parse(&outputs.stack.path().display().to_string(), &stack)?;
        spec.check(esker_kinds::ALL)?;
        let data = self.out.join("data");
        fs::create_dir_all(&data).map_err(|error| OutputError::Refused(data.display().to_string(), error, "--out"))?;
        let page = page(comparison, &Origin { command: command_line(), stack: stack.clone() })?;
        outputs.stack.put(&stack)?;
        outputs.report.put(&page)?;
        Ok(outputs.result.put(&comparison.to_json())?)
    }

    fn report(&self, comparison: &Comparison, outputs: &Outputs, terminal: &mut Terminal) -> Result<(), Failure> {
        let [stack, report, result] =
            [&outputs.stack, &outputs.report, &outputs.result].map(|output| output.path().display());
        terminal.say(&text(comparison))?;
        terminal.say(&format!("\nreport   {report}\nresult   {result}\nstack    {stack}"))?;
        match self.serve {
            true => terminal.finish(),
            false => terminal.say(&format!("\nServe it on sparse files: esker serve {stack}")),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}: cannot be read: {1}")]
struct Unreadable(String, io::Error);

fn input(path: &Path) -> Result<String, Unreadable> {
    fs::read_to_string(path).map_err(|error| Unreadable(path.display().to_string(), error))
}

fn older(path: &Path) -> Result<Older, Failure> {
    Ok(Older::parse(&path.display().to_string(), &input(path)?)?)
}

/// What DiskSim's files of one disk end in.
const DISK_FILES: [&str; 4] = [".diskspecs", ".model", ".seek", ".parv"];

/// The files of a measured disk, by name.
fn measured_disk(folder: &Path) -> Result<MeasuredDisk, Failure> {
    let name = folder.display().to_string();
    let unread = |error| Unreadable(name.clone(), error);
    let entries: Result<Vec<_>, _> = fs::read_dir(folder).map_err(unread)?.collect();
    let mut names: Vec<String> = entries
        .map_err(unread)?
        .into_iter()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| DISK_FILES.iter().any(|ending| name.ends_with(ending)))
        .collect();
    names.sort();
    let read = |name: String| Ok((name.clone(), input(&folder.join(&name))?));
    let files: Result<Vec<_>, Unreadable> = names.into_iter().map(read).collect();
    Ok(MeasuredDisk {
        name: folder.file_name().map_or(name, |last| last.to_string_lossy().into_owned()),
        files: files?,
    })
}

/// A candidate of the user: named like its file, or like what a text on the command line exports.
fn candidate(source: &StackText, spec: Spec, others: &[Candidate]) -> Candidate {
    let stem = match source.file() {
        Some(file) => file.file_stem().map(|stem| stem.to_string_lossy().into_owned()),
        None => spec.exports.first().map(|export| export.name.clone()),
    };
    let stem = stem.unwrap_or_else(|| source.name().to_string());
    let is_taken = |name: &str| others.iter().any(|other| other.name == name);
    let numbered = (2..).map(|number| format!("{stem}-{number}"));
    let name = std::iter::once(stem.clone()).chain(numbered).find(|name| !is_taken(name)).expect("numbers do not end");
    let what = source.file().map_or("given as text".to_string(), |file| file.display().to_string());
    Candidate::of(&name, &what, spec)
}

/// Serves the stack that was written, by the verb that serves any.
fn serve(stack: &Path, terminal: &mut Terminal) -> Result<(), Failure> {
    let line = ["esker".as_ref(), "serve".as_ref(), stack.as_os_str()];
    let matches = verb::command().try_get_matches_from(line).expect("a command line of ours");
    let (verb, matches) = crate::chosen(&matches);
    (verb.run)(matches, terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_named_like_their_files_or_exports_and_differ() {
        let mut candidates: Vec<Candidate> = Vec::new();
        for source in ["a/x.toml", "b/x.toml", "y.toml", "mine = memory size=1MiB @", "mine = memory size=2MiB @"] {
            let is_text = source.contains('=');
            let spec = if is_text { Spec::parse("text", source).unwrap() } else { Spec::default() };
            candidates.push(candidate(&StackText::of(source.to_string()), spec, &candidates));
        }
        let names: Vec<&str> = candidates.iter().map(|candidate| candidate.name.as_str()).collect();
        assert_eq!(names, ["x", "x-2", "y", "mine", "mine-2"]);
    }

    #[test]
    fn the_default_target_and_memory_are_the_library_s() {
        assert_eq!(parse_time("20ms"), Ok(esker_predict::plan::TARGET_P99));
        assert_eq!(parse_size("256MiB"), Ok(esker_predict::plan::MEMORY));
    }
}
