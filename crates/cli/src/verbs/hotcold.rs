//! `esker hotcold`: fills a file system with hot and cold files, round by round.

use std::path::PathBuf;
use std::process::Command;

use esker_base::{Errno, Progress};
use esker_fs_posix::script::at_once;
use esker_trace_nfs::{AccessPattern, FillReport, HotCold};
use serde_json::json;

use crate::changed_dir;
use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<HotColdArgs>(About {
    words: &["hotcold"],
    summary: "Fill a file system with hot and cold files, to try its cleaner",
    details: "Makes files of 4 KiB in DIR/hotcold until the file system is used up to --utilisation; those of an earlier \
              run count. Then overwrites them until there is no room, which ends the round well. Pattern hot-cold gives nine of ten writes to a \
              tenth of the files; with uniform every file is equally likely. Between two rounds the program of \
              --between runs, by `sh -c` with the number of the round in ESKER_ROUND: it lets the cleaner make room. If \
              it fails, the run ends.\n\n\
              A file system that overwrites in place, or cleans meanwhile, never gets full. Its rounds end when they \
              have overwritten as many bytes as it has, or --writes files.",
    examples: &[
        Example {
            line: "esker hotcold /mnt/lfs --pattern hot-cold --utilisation 75 --between 'clean-until-20-percent /mnt/lfs'",
            does: "fills and cleans 24 times",
        },
        Example { line: "esker hotcold /mnt --writes 100000", does: "makes one round of 100,000 writes" },
    ],
});

/// What is counted.
const FILES: &str = "files";
const ROUNDS: u32 = 24;

#[derive(clap::Args)]
struct HotColdArgs {
    /// Directory on the file system to fill
    dir: PathBuf,
    /// Which files are overwritten
    #[arg(long, value_enum, default_value_t = Pattern::HotCold)]
    pattern: Pattern,
    /// Used share of the file system up to which files are made, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 75, value_parser = clap::value_parser!(u64).range(1..=100))]
    utilisation: u64,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rounds [default: 24 with --between, otherwise 1]
    #[arg(long, requires = "between", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: Option<u32>,
    /// Program to run after each round but the last
    #[arg(long, value_name = "COMMAND")]
    between: Option<String>,
    /// Overwrites of a round at most [default: the bytes of the file system over 4 KiB]
    #[arg(long, value_name = "COUNT")]
    writes: Option<u64>,
    /// Writes between two syncs of the file system; 0 never syncs within a round
    #[arg(long, value_name = "COUNT", default_value_t = 4096)]
    sync_every: u64,
    /// The outcome as a JSON object on standard output
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Pattern {
    /// Every file is equally likely
    Uniform,
    /// Nine of ten writes go to a tenth of the files
    HotCold,
}

#[derive(Debug, thiserror::Error)]
enum HotColdError {
    #[error("{dir}: a write in round {round} failed with {error}; mend the file system, then start again")]
    Target { dir: String, round: u32, error: Errno },
    #[error("`{command}` behind round {round} ended with {status}; the file system stays as it is")]
    Between { command: String, round: u32, status: String },
}

impl Run for HotColdArgs {
    const PACE: Option<Pace> = Some(Pace::Shows("files of each round"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut target = changed_dir::open(&self.dir)?;
        let pattern = match self.pattern {
            Pattern::Uniform => AccessPattern::Uniform,
            Pattern::HotCold => AccessPattern::HotCold,
        };
        let mut simulator = HotCold::new(pattern, self.utilisation, self.sync_every, self.seed);
        let rounds = self.rounds.unwrap_or(if self.between.is_some() { ROUNDS } else { 1 });
        let watcher = terminal.watcher();
        let mut reports = Vec::new();
        for round in 1..=rounds {
            let mut look = |report: &FillReport| {
                let of_round = |what| format!("round {round} of {rounds}, {what}");
                let (what, done, all) = match report.overwritten {
                    0 => ("making", report.made, report.to_make),
                    done => ("overwriting", done, report.to_overwrite),
                };
                watcher.tell(Progress::of(&of_round(what), FILES, done, all));
                true
            };
            let filled = at_once(simulator.fill(&mut target, self.writes, &mut look));
            let dir = self.dir.display().to_string();
            watcher.clear();
            let report = filled.map_err(|error| HotColdError::Target { dir, round, error })?;
            if !self.json {
                terminal.say(&format!("round {round}: {}", text(&report)))?;
                terminal.finish()?;
            }
            reports.push(report);
            if round < rounds {
                self.run_between(round)?;
            }
        }
        if self.json {
            let object = json!({ "seed": self.seed, "files": simulator.files(), "rounds": reports });
            terminal.say(&object.to_string())?;
        }
        Ok(())
    }
}

impl HotColdArgs {
    fn run_between(&self, round: u32) -> Result<(), Failure> {
        let Some(command) = &self.between else { return Ok(()) };
        let ended = Command::new("sh").args(["-c", command]).env("ESKER_ROUND", round.to_string()).status()?;
        if ended.success() {
            return Ok(());
        }
        Err(HotColdError::Between { command: command.clone(), round, status: ended.to_string() }.into())
    }
}

fn text(report: &FillReport) -> String {
    let FillReport { made, overwritten, hot, is_full, .. } = report;
    let full = if *is_full { "; the file system is full" } else { "" };
    format!("{made} files made, {overwritten} overwritten, {hot} of these hot{full}")
}
