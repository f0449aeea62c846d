//! `esker lab run`: measures the figures of one experiment.

use std::io::Write;
use std::path::Path;

use esker_lab::{ALL, times};
use esker_lab_kit::{Experiment, Figure, LabError, Report};
use esker_report::{html, rounded};
use esker_stack::text::check;

use crate::failure::Failure;
use crate::lab::{LabArgs, world};
use crate::progress::Pace;
use crate::target;
use crate::terminal::{Terminal, table};
use crate::verb::{About, Example, Run, Verb};
use crate::verbs::lab_repeat::repeat;

/// The record.
pub const VERB: Verb = Verb::of::<LabRun>(About {
    words: &["lab", "run"],
    summary: "Measure the figures of an experiment",
    details: "Figures of virtual time repeat exactly under one seed; figures of real time are medians of interleaved \
              runs, beside a rival in the same run. A rival that is not installed makes the run fail; where other \
              figures need none, they are printed first. --plot draws the first plot of the experiment. An \
              experiment without plots gets a chart of its figures, with the values of its source beside them. \
              Tables and charts print whole numbers in full and others in four digits; JSON and CSV hold all digits.",
    examples: &[
        Example { line: "esker lab run rt-throughput --quick", does: "prints a table after about a minute" },
        Example { line: "esker lab run file-vs-fio --quick --json", does: "prints one JSON object for scripts" },
        Example { line: "esker lab run lfs-bimodal --plots lfs.html", does: "draws what was measured, too" },
        Example {
            line: "esker lab run edt-table --quick --csv edt.csv --plot edt.svg",
            does: "writes the figures as a table for programs and as a chart beside the thesis' values",
        },
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
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["plots", "plot", "csv"],
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    seeds: Option<u32>,
    /// File that gets the plots of the experiment, or the chart of its figures, as a page of HTML
    #[arg(long, value_name = "FILE")]
    plots: Option<String>,
    /// File that gets the main plot, or the chart of the figures, as SVG; its name ends with .svg
    #[arg(long, value_name = "FILE", value_parser = drawable)]
    plot: Option<String>,
    /// File that gets a row for each figure: id, value, unit, the source's value, rival and its value
    #[arg(long, value_name = "FILE")]
    csv: Option<String>,
    /// Replace these files if they exist
    #[arg(long)]
    force: bool,
}

/// What is written of a report into a file of its own.
type Render = fn(&Report) -> Result<String, Failure>;

impl Run for LabRun {
    const PACE: Option<Pace> = Some(Pace::Shows("seconds of those that the experiment took before"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        if let Some(seeds) = self.seeds {
            return repeat(&[self.name], seeds, None, &self.lab, terminal);
        }
        let experiment = find(&self.name)?;
        let all: [(&Option<String>, Render); 3] =
            [(&self.csv, |report| Ok(report.csv())), (&self.plot, plot), (&self.plots, page)];
        let files: Vec<(&str, Render)> =
            all.into_iter().filter_map(|(file, render)| Some((file.as_deref()?, render))).collect();
        Ok(self.written(experiment, &files, terminal)?.complete()?)
    }
}

impl LabRun {
    /// Measures and writes all files, which are made sure of before.
    fn written(
        &self,
        experiment: &Experiment,
        files: &[(&str, Render)],
        terminal: &mut Terminal,
    ) -> Result<Report, Failure> {
        let [(path, render), others @ ..] = files else { return self.measure(experiment, terminal) };
        target::write(path, self.force, |mut file| {
            let report = self.written(experiment, others, terminal)?;
            file.write_all(render(&report)?.as_bytes())?;
            Ok(report)
        })
    }

    fn measure(&self, experiment: &Experiment, terminal: &mut Terminal) -> Result<Report, Failure> {
        let watcher = terminal.watcher();
        let [quick, full] = times::of(experiment.name);
        let options = self.lab.options();
        let seconds = if options.quick { quick } else { full };
        let part = watcher.takes(experiment.name, seconds.map(u64::from));
        let report = experiment.report(&options, &mut watcher.lines())?;
        drop(part);
        match self.lab.json {
            true => terminal.say(&serde_json::to_string_pretty(&report)?)?,
            false => terminal.say(&text(&report))?,
        }
        Ok(report)
    }
}

/// The name of a file that can be drawn into.
fn drawable(path: &str) -> Result<String, String> {
    match Path::new(path).extension().and_then(|suffix| suffix.to_str()) {
        Some("svg") => Ok(path.to_string()),
        Some("png") => {
            let stem = path.trim_end_matches(".png");
            Err(format!("PNG is not drawn; give {stem}.svg, and convert it: rsvg-convert -o {path} {stem}.svg"))
        }
        _ => Err("plots are drawn as SVG; give a name that ends with .svg".to_string()),
    }
}

fn plot(report: &Report) -> Result<String, Failure> {
    Ok(report.plot("esker lab run").map_err(LabError::data)?)
}

fn page(report: &Report) -> Result<String, Failure> {
    let title = format!("{}, seed {}, {}", report.experiment, report.seed, world(report.simulated));
    let figures = match report.plots.is_empty() {
        true => html::figures([&report.chart()]),
        false => html::figures(&report.plots),
    };
    let figures = figures.map_err(LabError::data)?;
    Ok(html::page(&title, "esker lab run", &figures))
}

fn find(name: &str) -> Result<&'static Experiment, Failure> {
    ALL.iter().find(|e| e.name == name).ok_or_else(|| {
        let advice = check::advice(name, "`esker lab list` names them all", ALL.iter().map(|e| e.name));
        Failure::Usage(format!("there is no experiment \"{name}\"\ntip: {advice}"))
    })
}

fn text(report: &Report) -> String {
    let head = format!(
        "{}  seed {}  {}{}\n{}\n{}\n",
        report.experiment,
        report.seed,
        world(report.simulated),
        if report.quick { "  quick subset" } else { "" },
        report.source,
        report.machine,
    );
    let rows: Vec<Vec<String>> = report.figures.iter().map(row).collect();
    head + &table(&["figure", "value", "unit", "source", "beside", "which"], &rows)
}

fn row(figure: &Figure) -> Vec<String> {
    let paper = figure.paper.map_or("-".to_string(), rounded);
    let (value, name) =
        figure.peer.as_ref().map_or(("-".to_string(), "-"), |peer| (rounded(peer.value), peer.name.as_str()));
    vec![figure.id.clone(), rounded(figure.value), figure.unit.to_string(), paper, value, name.to_string()]
}
