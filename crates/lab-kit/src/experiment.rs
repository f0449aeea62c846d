//! What an experiment is, and what it reports.

use std::cell::RefCell;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use esker_report::Figure as Plot;
use esker_rt::real::{Reactor, RealConfig};
use serde::Serialize;
use tempfile::TempDir;

use crate::machine::{HugePages, Machine};
use crate::papers::{Paper, Provenance};
use crate::scratch;

/// How an experiment is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The stated subset that ends in about a minute.
    pub quick: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// Where scratch files go; they are removed afterwards.
    pub scratch: PathBuf,
}

/// What an experiment is given: its options, and a place for lines of progress.
pub struct Lab<'a> {
    /// Whether only the stated subset is run.
    pub quick: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// Where scratch files go.
    pub scratch: &'a Path,
    progress: RefCell<&'a mut dyn FnMut(&str)>,
    plots: RefCell<Vec<Plot>>,
}

impl<'a> Lab<'a> {
    /// Lines of progress go to `progress`.
    pub fn new(options: &'a Options, progress: &'a mut dyn FnMut(&str)) -> Lab<'a> {
        let Options { quick, seed, ref scratch } = *options;
        Lab { quick, seed, scratch, progress: RefCell::new(progress), plots: RefCell::default() }
    }

    /// Adds a plot to the report.
    pub fn draw(&self, plot: Plot) {
        self.plots.borrow_mut().push(plot);
    }

    /// Prints one line of progress.
    pub fn say(&self, line: impl AsRef<str>) {
        (self.progress.borrow_mut())(line.as_ref());
    }

    /// The short form's value, or the full one's.
    pub fn scale<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The real world.
    ///
    /// # Errors
    /// [`LabError::Start`].
    pub fn reactor(&self) -> Result<Reactor, LabError> {
        Ok(Reactor::new(RealConfig::seeded(self.seed))?)
    }

    /// A scratch folder, removed when dropped.
    ///
    /// # Errors
    /// [`LabError::Scratch`].
    pub fn folder(&self) -> Result<TempDir, LabError> {
        scratch::folder(self.scratch)
    }
}

/// Measures the figures of an experiment.
pub type Measure = fn(&Lab<'_>) -> Result<Vec<Figure>, LabError>;

/// One experiment.
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Where it comes from. Each experiment of the lab says so.
    pub origin: Option<Provenance>,
    /// What sets its bars, and what else it follows.
    pub bars: &'static str,
    /// Whether time is virtual.
    pub simulated: bool,
    /// Rival programs that must be installed.
    pub rivals: &'static [&'static str],
    /// Measures its figures.
    pub run: Measure,
}

/// A rival's value in the same run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Peer {
    /// Program and how it was run.
    pub name: String,
    /// Its value in the figure's unit, or what the ratio was taken against.
    pub value: f64,
}

/// One measured number.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Name; stable across versions.
    pub id: String,
    /// Value.
    pub value: f64,
    /// Unit.
    pub unit: &'static str,
    /// The source's own figure, if it has one.
    pub paper: Option<f64>,
    /// The rival in the same run, if there is one.
    pub peer: Option<Peer>,
}

impl Figure {
    /// A figure without a rival.
    pub fn alone(id: impl Into<String>, value: f64, unit: &'static str) -> Figure {
        Figure { id: id.into(), value, unit, paper: None, peer: None }
    }

    /// Beside the source's own figure, if it has one.
    pub fn paper(self, paper: impl Into<Option<f64>>) -> Figure {
        Figure { paper: paper.into(), ..self }
    }

    /// Beside a rival of the same run.
    pub fn peer(self, name: impl Into<String>, value: f64) -> Figure {
        Figure { peer: Some(Peer { name: name.into(), value }), ..self }
    }
}

/// What `esker lab run NAME --json` prints.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Name of the experiment.
    pub experiment: &'static str,
    /// What it reproduces, and what sets its bars.
    pub source: String,
    /// Seed.
    pub seed: u64,
    /// Whether the stated subset was run.
    pub quick: bool,
    /// Where it ran.
    pub machine: Machine,
    /// How it served huge pages before and after the run; what is changed meanwhile is put back.
    pub huge_pages: [HugePages; 2],
    /// Whether time was virtual.
    pub simulated: bool,
    /// What was measured.
    pub figures: Vec<Figure>,
    /// What was drawn.
    #[serde(skip)]
    pub plots: Vec<Plot>,
    /// Why figures are absent, if some are, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

/// Why an experiment could not be run.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A rival is not installed.
    #[error("{program} is not installed, so its figures cannot be measured; run `cargo xtask peers` to install it")]
    NoRival {
        /// Program.
        program: String,
    },
    /// A rival of some figures is not installed; the others were measured.
    #[error("{why}")]
    Absent {
        /// What was measured.
        figures: Vec<Figure>,
        /// Which program and figures are missing, and how to get them.
        why: String,
    },
    /// A rival ran and failed.
    #[error("{program} failed: {what}")]
    Rival {
        /// Program.
        program: String,
        /// Its words.
        what: String,
    },
    /// A stack could not be built.
    #[error(transparent)]
    Build(#[from] esker_stack::BuildError),
    /// The reactor could not start.
    #[error(transparent)]
    Start(#[from] esker_rt::real::StartError),
    /// A comparison of stacks.
    #[error(transparent)]
    Predict(#[from] esker_predict::PredictError),
    /// There is no folder for scratch files.
    #[error(
        "{dir}: {what}, so there is no place for scratch files; make this folder, or name another one with --scratch"
    )]
    NoScratch {
        /// What was named.
        dir: PathBuf,
        /// How it is.
        what: &'static str,
    },
    /// A scratch file or folder cannot be made, read or written.
    #[error("{at}: {}", scratch::told(.why))]
    Scratch {
        /// File or folder.
        at: PathBuf,
        /// What the kernel says.
        why: io::Error,
    },
    /// What the experiment reads is damaged.
    #[error("{0}")]
    Data(String),
    /// A request of the experiment failed.
    #[error("a request of the experiment failed: {0}")]
    Request(#[from] esker_block::BioError),
}

impl LabError {
    /// What the experiment reads or writes is wrong.
    pub fn data(why: impl Display) -> LabError {
        LabError::Data(why.to_string())
    }

    /// What the kernel says about a file or folder of the experiment.
    pub fn scratch<P: AsRef<Path> + ?Sized>(at: &P) -> impl Fn(io::Error) -> LabError + Copy {
        |why| LabError::Scratch { at: at.as_ref().to_path_buf(), why }
    }
}

impl Experiment {
    /// One in real time, without rivals.
    pub const fn real(name: &'static str, run: Measure) -> Experiment {
        Experiment { name, summary: "", origin: None, bars: "", simulated: false, rivals: &[], run }
    }

    /// One in virtual time, without rivals.
    pub const fn simulated(name: &'static str, run: Measure) -> Experiment {
        Experiment { simulated: true, ..Experiment::real(name, run) }
    }

    /// The same, described by one sentence.
    pub const fn about(self, summary: &'static str) -> Experiment {
        Experiment { summary, ..self }
    }

    /// The same, which measures this place of a paper again: a figure, a table or a named part.
    pub const fn of(self, paper: &'static Paper, place: &'static str) -> Experiment {
        Experiment { origin: Some(Provenance::Paper(paper, place)), ..self }
    }

    /// The same, whose question is the project's own.
    pub const fn own(self) -> Experiment {
        Experiment { origin: Some(Provenance::Own), ..self }
    }

    /// The same, with what sets its bars.
    pub const fn after(self, bars: &'static str) -> Experiment {
        Experiment { bars, ..self }
    }

    /// The same, which needs these rival programs.
    pub const fn beside(self, rivals: &'static [&'static str]) -> Experiment {
        Experiment { rivals, ..self }
    }

    /// What it reproduces, and what sets its bars, in words.
    pub fn source(&self) -> String {
        let parts = [self.origin.and_then(Provenance::citation), Some(self.bars.to_string())];
        parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// Checks that all rivals are installed, runs, and reports. Figures that are absent because a rival is not there
    /// are a failure of the run: [`Report::complete`].
    ///
    /// # Errors
    /// [`LabError`] says what is missing or went wrong.
    pub fn report(&self, options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report, LabError> {
        self.rivals.iter().try_for_each(|program| crate::peer::demand(program))?;
        let before = HugePages::now();
        let lab = Lab::new(options, progress);
        let (figures, absent) = match (self.run)(&lab) {
            Err(LabError::Absent { figures, why }) => (figures, Some(why)),
            measured => (measured?, None),
        };
        Ok(Report {
            experiment: self.name,
            source: self.source(),
            seed: options.seed,
            quick: options.quick,
            machine: Machine::here(),
            huge_pages: [before, HugePages::now()],
            simulated: self.simulated,
            figures,
            plots: lab.plots.take(),
            absent,
        })
    }
}

impl Report {
    /// Whether all figures are there.
    ///
    /// # Errors
    /// Why some are not, and what to do.
    pub fn complete(&self) -> Result<(), LabError> {
        self.absent.as_ref().map_or(Ok(()), |why| Err(LabError::Data(why.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Experiment = Experiment::simulated("half", |_| {
        let figures = vec![Figure::alone("own", 2.0, "times")];
        Err(LabError::Absent { figures, why: "no rival; install it".to_string() })
    })
    .after("a test");

    fn options() -> Options {
        Options { quick: true, seed: 1, scratch: ".".into() }
    }

    #[test]
    fn figures_are_reported_beside_those_whose_rival_is_missing() {
        let report = HALF.report(&options(), &mut |_| {}).unwrap();
        assert_eq!(report.figures, [Figure::alone("own", 2.0, "times")]);
        assert_eq!(report.complete().unwrap_err().to_string(), "no rival; install it");
        assert_eq!(serde_json::to_value(&report).unwrap()["absent"], "no rival; install it");
    }

    #[test]
    fn a_report_with_all_figures_is_complete_and_a_failure_is_no_report() {
        let whole = Experiment { run: |_| Ok(Vec::new()), ..HALF };
        let report = whole.report(&options(), &mut |_| {}).unwrap();
        assert!(report.complete().is_ok() && serde_json::to_value(&report).unwrap().get("absent").is_none());
        let failed = Experiment { run: |_| Err(LabError::Data("broken".to_string())), ..HALF };
        assert_eq!(failed.report(&options(), &mut |_| {}).unwrap_err().to_string(), "broken");
    }

    #[test]
    fn a_source_is_the_place_of_a_paper_and_the_bars() {
        assert_eq!(HALF.source(), "a test");
        assert_eq!(Experiment { ..HALF }.own().source(), "a test");
        let both = Experiment { ..HALF }.of(&crate::papers::ABLE, "figure 5.9").source();
        assert!(both.ends_with(", chapter 5, figure 5.9; a test"), "{both}");
    }
}
