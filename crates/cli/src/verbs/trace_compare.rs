//! `esker trace compare`: replays of one trace on several targets, beside each other.

use std::path::PathBuf;

use esker_trace_replay::Report;
use esker_trace_replay::report::compare::{Named, compare};

use crate::failure::Failure;
use crate::outputs::Output;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Compare>(About {
    words: &["trace", "compare"],
    summary: "Compare replays of a trace on several targets",
    details: "Reads reports that `esker trace replay --json` wrote, of one trace on different devices, file systems or in \
              different modes, and sets times, failures, outstanding calls, thread time by kind of call and latencies \
              beside each other. A time is not compared where more than 1 % of the calls came out otherwise.",
    examples: &[
        Example { line: "esker trace compare disk.json ssd.json", does: "prints a table" },
        Example { line: "esker trace compare ext4.json xfs.json btrfs.json --html if.html", does: "writes a page" },
    ],
});

#[derive(clap::Args)]
struct Compare {
    /// Reports; the first is what the others are compared with
    #[arg(value_name = "REPORT", required = true, num_args = 2..)]
    reports: Vec<PathBuf>,
    /// Writes a page with figures
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

const MARK: &str = "Written by esker trace compare";

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("{0}: cannot be read: {1}")]
    Unread(String, std::io::Error),
    #[error("{0}: {1}")]
    Report(String, esker_trace_replay::report::ReportError),
}

impl Run for Compare {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let page = self.html.clone().map(|path| Output::claim(path, &[MARK], false, "--html")).transpose()?;
        page.iter().try_for_each(Output::prepare)?;
        let reports = self.reports.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let comparison = compare(&reports)?;
        if let Some(page) = page {
            page.put(&comparison.page(&reports, MARK)?)?;
        }
        match self.json {
            true => terminal.say(&serde_json::to_string_pretty(&comparison)?),
            false => terminal.say(&comparison.text()),
        }
    }
}

fn read(path: &PathBuf) -> Result<Named, ReadError> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| ReadError::Unread(name.clone(), error))?;
    let report = Report::from_json(&text).map_err(|error| ReadError::Report(name.clone(), error))?;
    Ok(Named { name, report })
}
