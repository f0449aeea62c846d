//! `esker lab repeat`: several experiments, several times, unattended.

use std::time::Duration;

use esker_base::units::parse_span;
use esker_base::{Nanos, Progress};
use esker_lab::ALL;
use esker_lab_kit::{Evaluated, Evaluation, Experiment, LabError, Spread, evaluate};
use esker_report::rounded;

use crate::failure::Failure;
use crate::lab::{LabArgs, world};
use crate::progress::Pace;
use crate::terminal::{Terminal, table};
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Repeat>(About {
    words: &["lab", "repeat"],
    summary: "Run several experiments several times, and tell how far their figures spread",
    details: "Runs every experiment whose name begins with one of the PREFIXes once, then all again, with the next \
              seed each time. Prints the median, mean, least and largest value of each figure with the machine and \
              the seeds. An experiment that fails does not stop the others; the exit status tells. With --budget no \
              run begins that would probably end later.",
    examples: &[
        Example {
            line: "esker lab repeat artc- --quick --repeat 3",
            does: "runs all experiments of replays three times",
        },
        Example { line: "esker lab repeat --budget 3h --json", does: "runs all of the lab for at most three hours" },
    ],
});

#[derive(clap::Args)]
struct Repeat {
    /// Beginnings of names; `esker lab list` shows the names [default: all experiments]
    #[arg(value_name = "PREFIX")]
    prefixes: Vec<String>,
    /// Runs of each experiment
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Time for all of it: 90s, 30m, 2h [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    budget: Option<Nanos>,
    #[command(flatten)]
    lab: LabArgs,
}

impl Run for Repeat {
    const PACE: Option<Pace> = Some(Pace::Shows("runs of experiments"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        repeat(&self.prefixes, self.repeat, self.budget, &self.lab, terminal)
    }
}

/// Runs all experiments whose names begin with one of the prefixes, and prints how far figures spread.
pub fn repeat(
    prefixes: &[String],
    times: u32,
    budget: Option<Nanos>,
    lab: &LabArgs,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let experiments = chosen(prefixes)?;
    let budget = budget.map(|budget| Duration::from_nanos(budget.0));
    let watcher = terminal.watcher();
    let watch = |told: Progress<'_>| watcher.tell(told);
    let evaluation = evaluate(&experiments, &lab.options()?, times, budget, &mut watcher.lines(), &watch);
    watcher.clear();
    match lab.json {
        true => terminal.say(&serde_json::to_string_pretty(&evaluation)?)?,
        false => terminal.say(&text(&evaluation))?,
    }
    let failed = evaluation.experiments.iter().filter(|one| !one.failures.is_empty()).map(|one| one.experiment);
    match failed.collect::<Vec<_>>() {
        failed if failed.is_empty() => Ok(()),
        failed => Err(LabError::Data(format!("runs failed of {}", failed.join(", "))).into()),
    }
}

fn chosen(prefixes: &[String]) -> Result<Vec<&'static Experiment>, Failure> {
    let matches = |prefix: &String, name: &str| name.starts_with(prefix.as_str());
    if let Some(prefix) = prefixes.iter().find(|prefix| !ALL.iter().any(|one| matches(prefix, one.name))) {
        return Err(Failure::Usage(format!("no experiment's name begins with \"{prefix}\"; see `esker lab list`")));
    }
    let is_chosen = |one: &&Experiment| prefixes.is_empty() || prefixes.iter().any(|prefix| matches(prefix, one.name));
    Ok(ALL.iter().filter(is_chosen).collect())
}

fn text(evaluation: &Evaluation) -> String {
    let head = format!(
        "{}{}{}",
        evaluation.machine,
        if evaluation.quick { "; quick subsets" } else { "" },
        match evaluation.left_out {
            0 => String::new(),
            runs => format!("; no time was left for {runs} runs"),
        },
    );
    let parts = evaluation.experiments.iter().map(part);
    [head].into_iter().chain(parts).collect::<Vec<_>>().join("\n\n")
}

fn part(one: &Evaluated) -> String {
    let seeds: Vec<String> = one.seeds.iter().map(u64::to_string).collect();
    let (seeds, world) = (seeds.join(" "), world(one.simulated));
    let head = format!("{}  seeds {seeds}  {world}  {:.0} s\n{}", one.experiment, one.seconds, one.source);
    let failures = one.failures.iter().map(|why| format!("FAILED {why}"));
    let rows: Vec<Vec<String>> = one.figures.iter().map(row).collect();
    let figures = table(&["figure", "median", "mean", "least", "most", "unit"], &rows);
    [head, figures].into_iter().chain(failures).collect::<Vec<_>>().join("\n")
}

fn row(spread: &Spread) -> Vec<String> {
    let numbers = [spread.median, spread.mean, spread.least, spread.most].map(rounded);
    [spread.id.clone()].into_iter().chain(numbers).chain([spread.unit.to_string()]).collect()
}
