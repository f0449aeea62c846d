//! `esker lab run`: measures the figures of one experiment.

use std::io::Write;

use esker_lab::ALL;
use esker_lab_kit::{Experiment, Figure, LabError, Report};
use esker_report::html;

use crate::failure::Failure;
use crate::lab::{LabArgs, world};
use crate::target;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::verbs::lab_repeat::repeat;

/// The record.
pub const VERB: Verb = Verb::of::<LabRun>(About {
    words: &["lab", "run"],
    summary: "Measure the figures of an experiment",
    details: "Figures of virtual time repeat exactly under one seed; figures of real time are medians of interleaved \
              runs, beside a rival in the same run. A rival that is not installed makes the run fail; where other \
              figures need none, they are printed first.",
    examples: &[
        Example { line: "esker lab run rt-throughput --quick", does: "prints a table after about a minute" },
        Example { line: "esker lab run file-vs-fio --quick --json", does: "prints one JSON object for scripts" },
        Example { line: "esker lab run lfs-bimodal --plots lfs.html", does: "draws what was measured, too" },
        Example {
            line: "esker lab run lfs --seeds 3 --quick",
            does: "runs all experiments whose names begin with lfs three times: tables with mean and spread",
        },
    ],
});

#[derive(clap::Args)]
struct LabRun {
    /// The experiment; `esker lab list` names them
    name: String,
    #[command(flatten)]
    lab: LabArgs,
    /// Run all experiments whose names begin with NAME, by this many seeds, as `esker lab repeat` does
    #[arg(long, value_name = "N", conflicts_with = "plots", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: Option<u32>,
    /// File that gets the plots of the experiment as a page of HTML
    #[arg(long, value_name = "FILE")]
    plots: Option<String>,
    /// Replace the page if it exists
    #[arg(long, requires = "plots")]
    force: bool,
}

impl Run for LabRun {
    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        if let Some(seeds) = self.seeds {
            return repeat(&[self.name], seeds, None, &self.lab, terminal);
        }
        let report = match &self.plots {
            None => self.measure(terminal)?,
            Some(path) => target::write(path, self.force, |mut file| {
                let report = self.measure(terminal)?;
                file.write_all(page(&report)?.as_bytes())?;
                Ok(report)
            })?,
        };
        Ok(report.complete()?)
    }
}

impl LabRun {
    fn measure(&self, terminal: &mut Terminal) -> Result<Report, Failure> {
        let experiment = find(&self.name)?;
        let mut progress = terminal.lines();
        let report = experiment.report(&self.lab.options(), &mut progress)?;
        drop(progress);
        match self.lab.json {
            true => terminal.say(&serde_json::to_string_pretty(&report)?)?,
            false => terminal.say(&table(&report))?,
        }
        Ok(report)
    }
}

fn page(report: &Report) -> Result<String, Failure> {
    if report.plots.is_empty() {
        return Err(LabError::data(format!("{} draws no plots; leave out --plots", report.experiment)).into());
    }
    let title = format!("{}, seed {}, {}", report.experiment, report.seed, world(report.simulated));
    let figures = html::figures(&report.plots).map_err(LabError::data)?;
    Ok(html::page(&title, "esker lab run", &figures))
}

fn find(name: &str) -> Result<&'static Experiment, Failure> {
    ALL.iter().find(|e| e.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|e| e.name).collect();
        Failure::Usage(format!("there is no experiment \"{name}\"; there are: {}", names.join(", ")))
    })
}

fn table(report: &Report) -> String {
    let head = format!(
        "{}  seed {}  {}{}\n{}\n{}\n",
        report.experiment,
        report.seed,
        world(report.simulated),
        if report.quick { "  quick subset" } else { "" },
        report.source,
        report.machine,
    );
    head + &report.figures.iter().map(row).collect::<Vec<_>>().join("\n")
}

fn row(figure: &Figure) -> String {
    let paper = figure.paper.map_or(String::new(), |value| format!("  paper: {value}"));
    let peer = figure.peer.as_ref().map_or(String::new(), |peer| format!("  beside {:.1} {}", peer.value, peer.name));
    format!("{:<26} {:>12.4} {}{paper}{peer}", figure.id, figure.value, figure.unit)
}
