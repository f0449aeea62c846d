//! `esker lfs log`: what a cleaner did, from its log.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;

use esker_lab_kit::timing;
use esker_report::{Axis, Figure, PlotError, Series, html};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::progress::Pace;
use crate::target;
use crate::terminal::{Terminal, table};
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<LfsLog>(About {
    words: &["lfs", "log"],
    summary: "Sum up and draw what the log of a cleaner tells",
    details: "Reads the log of `esker lfs cleaner` or of a server, written with --log-format json. Prints the steps, the \
              segments that became clean or were left, the blocks that were copied, and the efficiency: the share of \
              the cleaned blocks that was not copied. Other lines are passed over.",
    examples: &[
        Example { line: "esker lfs log cleaner.log", does: "sums up" },
        Example {
            line: "esker lfs log cleaner.log --plots cleaner.html",
            does: "draws efficiency, clean segments and copied blocks over time, too",
        },
    ],
});

/// Bytes of a line that are read at most.
const LINE_MAX: usize = 1 << 20;

#[derive(clap::Args)]
struct LfsLog {
    /// File with the log
    file: PathBuf,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
    /// File that gets the plots as a page of HTML
    #[arg(long, value_name = "FILE")]
    plots: Option<String>,
    /// Replace the page if it exists
    #[arg(long, requires = "plots")]
    force: bool,
}

#[derive(Debug, thiserror::Error)]
enum LfsLogError {
    #[error("{0}: cannot be read: {1}")]
    Unread(String, std::io::Error),
    #[error("{0}: tells of no step of a cleaner; write the log with --log-format json")]
    NoSteps(String),
    #[error("the plots cannot be drawn: {0}")]
    Plot(#[from] PlotError),
}

/// A step as the log has it.
#[derive(Clone, PartialEq, Debug)]
struct LoggedStep {
    /// Seconds since the cleaner began.
    at: f64,
    end: String,
    segments: u64,
    deferred: u64,
    blocks: u64,
    copied: u64,
    clean_before: u64,
}

impl LoggedStep {
    /// `None`: the line tells of something else.
    fn of(line: &[u8]) -> Option<LoggedStep> {
        let line: Value = serde_json::from_slice(line).ok()?;
        if line["event"] != "lfs_cleaned" {
            return None;
        }
        let text = |name: &str| line[name].as_str().unwrap_or_default();
        let number = |name: &str| text(name).parse::<u64>().ok();
        let listed = |name: &str| text(name).split(',').filter(|number| !number.is_empty()).count() as u64;
        Some(LoggedStep {
            at: line["up_s"].as_f64()?,
            end: text("end").to_string(),
            segments: listed("segments"),
            deferred: listed("deferred"),
            blocks: number("blocks")?,
            copied: number("copied")?,
            clean_before: number("clean_before")?,
        })
    }

    fn has_cleaned(&self) -> bool {
        self.end == "cleaned"
    }

    /// Share of the cleaned blocks that was not copied.
    fn efficiency(&self) -> f64 {
        if self.blocks == 0 { 1.0 } else { 1.0 - self.copied as f64 / self.blocks as f64 }
    }
}

impl Run for LfsLog {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let steps = self.steps()?;
        if let Some(path) = &self.plots {
            target::write(path, self.force, |mut file| {
                let page = page(&self.file.display().to_string(), &steps).map_err(LfsLogError::Plot)?;
                Ok::<(), Failure>(file.write_all(page.as_bytes())?)
            })?;
        }
        let sums = sums(&steps);
        match self.json {
            true => terminal.say(&sums.to_string()),
            false => {
                let object = sums.as_object().expect("it is one");
                let rows: Vec<_> = object.iter().map(|(name, value)| vec![name.clone(), value.to_string()]).collect();
                terminal.say(&table(&[], &rows))
            }
        }
    }
}

impl LfsLog {
    fn steps(&self) -> Result<Vec<LoggedStep>, LfsLogError> {
        let path = self.file.display().to_string();
        let unread = |error| LfsLogError::Unread(path.clone(), error);
        let mut lines = BufReader::new(File::open(&self.file).map_err(unread)?);
        let (mut steps, mut line) = (Vec::new(), Vec::new());
        loop {
            line.clear();
            // A longer line is no step; its rest is passed over as lines of its own.
            let read = std::io::Read::take(&mut lines, LINE_MAX as u64).read_until(b'\n', &mut line).map_err(unread)?;
            if read == 0 {
                break;
            }
            steps.extend(LoggedStep::of(&line));
        }
        if steps.is_empty() { Err(LfsLogError::NoSteps(path)) } else { Ok(steps) }
    }
}

fn sums(steps: &[LoggedStep]) -> Value {
    let of = |end: &str| steps.iter().filter(|step| step.end == end).count();
    let cleaned = || steps.iter().filter(|step| step.has_cleaned());
    let sum = |part: fn(&LoggedStep) -> u64| cleaned().map(part).sum::<u64>();
    let (blocks, copied) = (sum(|step| step.blocks), sum(|step| step.copied));
    let efficiencies: Vec<f64> = cleaned().map(LoggedStep::efficiency).collect();
    let rounded = |share: f64| (share * 1e4).round() / 1e4;
    let median = (!efficiencies.is_empty()).then(|| rounded(timing::median(efficiencies)));
    json!({
        "steps": steps.len(),
        "steps_cleaned": of("cleaned"),
        "steps_deferred": of("deferred"),
        "steps_without_victims": of("nothing"),
        "steps_without_room": of("noroom"),
        "segments_cleaned": sum(|step| step.segments),
        "segments_left": steps.iter().map(|step| step.deferred).sum::<u64>(),
        "blocks": blocks,
        "blocks_copied": copied,
        "efficiency": (blocks > 0).then(|| rounded(1.0 - copied as f64 / blocks as f64)),
        "efficiency_median": median,
        "seconds": steps.last().map_or(0.0, |last| last.at) - steps[0].at,
    })
}

/// The plots under the name of the log, and the sums.
fn page(log: &str, steps: &[LoggedStep]) -> Result<String, PlotError> {
    let sums = sums(steps);
    let rows = sums.as_object().expect("it is one").iter().map(|(name, value)| vec![name.clone(), value.to_string()]);
    let table = html::table(&[("name", "What is counted"), ("value", "Of all steps")], &rows.collect::<Vec<_>>(), None);
    let title = format!("What the cleaner of {log} did");
    let parts = [html::figures(&plots(steps))?, html::section("Sums", &table)];
    Ok(html::page(&title, "esker lfs log", &html::together(&parts)))
}

fn plots(steps: &[LoggedStep]) -> [Figure; 3] {
    let cleaned = || steps.iter().filter(|step| step.has_cleaned());
    let mut copied = 0;
    let copied = cleaned().map(|step| {
        copied += step.copied;
        (step.at, copied as f64)
    });
    let plot = |title: &str, says: &str, y: &str, series| Figure {
        title: title.to_string(),
        says: says.to_string(),
        x: Axis::linear("seconds since the cleaner began"),
        y: Axis::linear(y),
        series: vec![series],
    };
    [
        plot(
            "Efficiency of each step",
            "Share of the cleaned blocks that was not copied.",
            "efficiency",
            Series::marks("step", cleaned().map(|step| (step.at, step.efficiency())).collect()),
        ),
        plot(
            "Clean segments",
            "Segments that were clean when a step began.",
            "segments",
            Series::line("clean", steps.iter().map(|step| (step.at, step.clean_before as f64)).collect()),
        ),
        plot(
            "Copied blocks",
            "Blocks that the cleaner has written again up to then.",
            "blocks",
            Series::line("copied", copied.collect()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"time":"2026-11-27T00:00:00Z","up_s":1.5,"level":"info","event":"lfs_cleaned","end":"cleaned","segments":"3,4","deferred":"9","blocks":"1000","copied":"250","freed":"700","efficiency":"75.00","clean_before":"7","pressed":"false","text":"x"}"#;

    #[test]
    fn a_line_of_a_step_is_read_and_others_are_passed_over() {
        let step = LoggedStep::of(LINE.as_bytes()).unwrap();
        assert_eq!((step.segments, step.deferred, step.blocks, step.copied, step.clean_before), (2, 1, 1000, 250, 7));
        assert_eq!((step.at, step.efficiency(), step.has_cleaned()), (1.5, 0.75, true));
        for other in ["", "{}", "1.0 info cleaner: cleaned", r#"{"event":"configured"}"#, r#"{"event":"lfs_cleaned"}"#]
        {
            assert_eq!(LoggedStep::of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn steps_that_were_left_copy_nothing() {
        let step = LoggedStep::of(LINE.as_bytes()).unwrap();
        let left = LoggedStep { end: "deferred".to_string(), segments: 0, deferred: 2, at: 4.0, ..step.clone() };
        let told = sums(&[step.clone(), left.clone()]);
        let of = |name: &str| told[name].as_f64().unwrap();
        assert_eq!([of("steps"), of("segments_cleaned"), of("segments_left")], [2.0, 2.0, 3.0]);
        assert_eq!([of("blocks_copied"), of("efficiency"), of("seconds")], [250.0, 0.75, 2.5]);
        assert_eq!(sums(std::slice::from_ref(&left))["efficiency_median"], Value::Null);
    }

    #[test]
    fn a_browser_shows_the_page_of_a_long_log_and_of_one_step() {
        let first = LoggedStep::of(LINE.as_bytes()).unwrap();
        let step = |number: u64| LoggedStep {
            at: number as f64 * 21.7,
            end: if number % 9 == 4 { "deferred" } else { "cleaned" }.to_string(),
            copied: 20_000 + number * 7_919 % 60_000,
            blocks: 100_000,
            clean_before: 4_000 + number * 37 % 900,
            ..first.clone()
        };
        let long: Vec<LoggedStep> = (0..400).map(step).collect();
        for (name, log, steps) in [
            ("lfs-log", "/var/lib/esker/one/with a long name/cleaner <1>.log", &long[..]),
            ("lfs-log-of-one-step", "cleaner.log", std::slice::from_ref(&first)),
        ] {
            esker_testkit::browser::check(name, &page(log, steps).unwrap());
        }
    }
}
