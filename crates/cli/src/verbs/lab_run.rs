//! `esker lab run`: measures the figures of one experiment.

use std::io::Write;
use std::path::Path;

use esker_lab::{ALL, times};
use esker_lab_kit::{Experiment, Figure, LabError, Report};
use esker_stack::text::check;

use crate::failure::Failure;
use crate::lab::{LabArgs, world};
use crate::png;
use crate::progress::Pace;
use crate::target;
use crate::terminal::{Terminal, table};
use crate::verb::{About, Example, Run, Verb};
use crate::verbs::lab_repeat::repeat;
use esker_report::{DotChart, html, rounded};

/// The record.
pub const VERB: Verb = Verb::of::<LabRun>(About {
    words: &["lab", "run"],
    summary: "Measure the figures of an experiment",
    details: "Figures of virtual time repeat exactly under one seed; figures of real time are medians of interleaved \
              runs, beside a rival in the same run. A rival that is not installed makes the run fail; where other \
              figures need none, they are printed first. --plot draws the first plot of the experiment. An \
              experiment without plots gets a chart of its figures, with the values of its source beside them. A PNG \
              file takes the program rsvg-convert (Debian: librsvg2-bin). \
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
    /// File that gets the main plot, or the chart of the figures; a name with .svg or .png at its end
    #[arg(long, value_name = "FILE", value_parser = drawable)]
    plot: Option<String>,
    /// File that gets a row for each figure: id, value, unit, the source's value, rival and its value
    #[arg(long, value_name = "FILE")]
    csv: Option<String>,
    /// Replace these files if they exist
    #[arg(long)]
    force: bool,
}

/// The program's name in the comment of a page or plot.
const MARK: &str = "esker lab run";

/// What is written of a report into a file of its own.
type Render = fn(&Report) -> Result<Vec<u8>, Failure>;

impl Run for LabRun {
    const PACE: Option<Pace> = Some(Pace::Shows("seconds of those that the experiment took before"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        if let Some(seeds) = self.seeds {
            return repeat(&[self.name], seeds, None, &self.lab, terminal);
        }
        let experiment = find(&self.name)?;
        let is_png = self.plot.as_deref().is_some_and(png::is_name);
        let plot: Render = if is_png { as_png } else { as_svg };
        if is_png {
            png::demand()?;
        }
        let all: [(&Option<String>, Render); 3] =
            [(&self.csv, |report| Ok(report.csv().into_bytes())), (&self.plot, plot), (&self.plots, page)];
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
            file.write_all(&render(&report)?)?;
            Ok(report)
        })
    }

    fn measure(&self, experiment: &Experiment, terminal: &mut Terminal) -> Result<Report, Failure> {
        let watcher = terminal.watcher();
        let [quick, full] = times::of(experiment.name);
        let options = self.lab.options()?;
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
        Some("svg" | "png") => Ok(path.to_string()),
        _ => Err("plots are drawn as SVG or PNG; give a name that ends with .svg or .png".to_string()),
    }
}

fn as_svg(report: &Report) -> Result<Vec<u8>, Failure> {
    Ok(report.plot(MARK).map_err(LabError::data)?.into_bytes())
}

fn as_png(report: &Report) -> Result<Vec<u8>, Failure> {
    Ok(png::of_svg(&as_svg(report)?)?)
}

fn page(report: &Report) -> Result<Vec<u8>, Failure> {
    let title = format!("{}, seed {}, {}", report.experiment, report.seed, world(report.simulated));
    let has_source = report.figures.iter().any(|figure| figure.paper.is_some());
    let chart = (report.plots.is_empty() || has_source).then(|| DotChart {
        title: "All figures".to_string(),
        says: "Our values, and those that the source prints.".to_string(),
        ..report.chart()
    });
    let (plots, chart) = (html::figures(&report.plots), html::figures(&chart));
    let run = html::list(&[report.source.clone(), report.machine.to_string()]);
    let parts = [plots.map_err(LabError::data)?, chart.map_err(LabError::data)?, html::section("The run", &run)];
    Ok(html::page(&title, MARK, &html::together(&parts)).into_bytes())
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

#[cfg(test)]
mod tests {
    use esker_lab_kit::Options;
    use esker_report::{Axis, Figure as Plot, Series};

    use super::*;

    fn shown(name: &str, experiment: &Experiment) {
        let options = Options { quick: true, seed: 1, scratch: ".".into() };
        let report = experiment.report(&options, &mut |_| {}).unwrap();
        esker_testkit::browser::check(name, &String::from_utf8(page(&report).unwrap()).unwrap());
    }

    /// Long names and texts, values of every size, and units that have nothing in common.
    const WIDE: Experiment = Experiment::real("wide", |_| {
        let of = |(at, unit): (usize, &&'static str)| {
            let value = [0.000_012, -3.5, 1.0, 12_345_678.9, f64::NAN][at % 5];
            let id = format!("a_name_of_a_figure_that_is_longer_than_most_of_them_{at}");
            Figure::alone(id, value, unit).paper((at % 2 == 0).then_some(value * 1.25))
        };
        let units = ["ratio", "% of I/O time added", "s, slowest instance", "of 30 pairs"];
        Ok(units.iter().cycle().take(24).enumerate().map(of).collect())
    })
    .about("shows a page with a chart")
    .after("the thesis: allocation & reclamation in balance; issue 6 of this project: p99 <= 5 times that without it");

    /// As many series as an experiment has arms, on axes of both sorts.
    const DRAWN: Experiment = Experiment::simulated("drawn", |lab| {
        let plot = |title: &str, x, y| Plot {
            title: title.to_string(),
            says: "Shares of the segments & blocks < 1, by policy.".to_string(),
            x,
            y,
            series: (0..7u32).map(series).collect(),
        };
        lab.draw(plot("A plot with equal distances", Axis::linear("share of the trace"), Axis::linear("efficiency")));
        lab.draw(plot("A plot with equal ratios", Axis::logarithmic("live data, MiB"), Axis::logarithmic("seconds")));
        Ok(Vec::new())
    });

    fn series(arm: u32) -> Series {
        let point = |at: u32| (f64::from(at) / 512.0, f64::from((at * (arm + 3)) % 97) / 97.0);
        Series::line(&format!("cost-benefit with arm {arm}"), (1..512).map(point).collect())
    }

    #[test]
    fn a_browser_shows_the_page_of_an_experiment_with_a_chart_and_with_plots() {
        shown("lab-edt-table", find("edt-table").unwrap());
        shown("lab-wide", &WIDE);
        shown("lab-drawn", &DRAWN);
    }
}
