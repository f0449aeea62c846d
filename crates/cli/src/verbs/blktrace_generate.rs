//! `esker blktrace generate`: makes block traces from profiles.

use std::{fs, io};

use esker_base::{Nanos, Unit};
use esker_trace_block::generate::profile::BUILTIN;
use esker_trace_block::generate::{Calibration, Generator, Profile, calibrate};
use esker_trace_block::{Format, RecordSink, Written, convert};
use serde_json::json;

use crate::block_trace::{Shown, target_format, to_help, written_format};
use crate::failure::Failure;
use crate::progress::Pace;
use crate::target;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Generate>(About {
    words: &["blktrace", "generate"],
    summary: "Make a block trace from a profile",
    details: "Profiles are uniform, zipf, hot-cold, streams, spc1-like, msr-like, msr-shift, fiu-like, borg-office, \
              borg-developer, borg-svn, borg-web, bltk-like, postmark-like, adversarial-uniform and \
              adversarial-hot-set, or a TOML file of your own; --show prints one, with the source of each number. One \
              profile, seed and length give the same requests again. Without --to the name of the target decides the format; \
              if it decides none, that is fio3. --calibrate prints target and measured figures of a \
              generated trace; a wrong one makes the exit status 1. Memory does not grow with the length.",
    examples: &[
        Example {
            line: "esker blktrace generate msr-like day.csv --to msr --hours 24 --scale 0.01 --seed 7",
            does: "writes a day of a hundredth of the volumes with a hundredth of the requests",
        },
        Example {
            line: "esker blktrace generate spc1-like --calibrate --seed 7",
            does: "compares the trace with the figures of its profile",
        },
        Example { line: "esker blktrace generate zipf --show > mine.toml", does: "begins a profile of your own" },
    ],
});

#[derive(clap::Args)]
struct Generate {
    /// Name of a profile, or a file whose name ends in .toml
    profile: String,
    /// File to write, or - for standard output
    #[arg(required_unless_present_any = ["calibrate", "show"])]
    target: Option<String>,
    #[arg(long, value_name = "FORMAT", help = to_help("as the name of the target ends, or fio3"), value_parser = written_format)]
    to: Option<Format>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Length of the trace in hours [default: as the profile says]
    #[arg(long)]
    hours: Option<f64>,
    /// Volumes of so many times the size, with so many times the requests (0.000001 to 1000)
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    scale: f64,
    /// Print target and measured figures instead of writing a trace
    #[arg(long, conflicts_with_all = ["target", "show"])]
    calibrate: bool,
    /// Print the profile instead of writing a trace
    #[arg(long, conflicts_with = "target")]
    show: bool,
    /// Replace the target if it exists
    #[arg(long)]
    force: bool,
    /// The outcome as a JSON object on standard output
    #[arg(long, conflicts_with = "show")]
    json: bool,
}

/// What is counted: the length of a trace.
const SECONDS: &str = "seconds of the trace";

fn seconds(hours: f64) -> u64 {
    (hours * 3_600.0).ceil() as u64
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (1e-6..=1e3).contains(factor));
    factor.ok_or_else(|| "expected a number from 0.000001 to 1000".to_string())
}

/// Why nothing was generated, or not what the profile says.
#[derive(Debug, thiserror::Error)]
enum GenerateError {
    #[error("{path}: cannot be read: {source}")]
    Unread { path: String, source: io::Error },
    #[error("{0}: the trace is not what the profile says")]
    Wrong(String),
}

impl Run for Generate {
    const PACE: Option<Pace> = Some(Pace::Shows("seconds of the trace"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        if self.target.as_deref() == Some("-") && self.json {
            return Err(Failure::Usage("--json and the trace both want standard output; name a target file".into()));
        }
        let text = self.text()?;
        let profile = Profile::parse(&self.profile, &text)?.scaled(self.scale);
        let hours = self.hours.unwrap_or(profile.hours);
        match &self.target {
            None if self.calibrate => self.calibrate(&profile, hours, terminal),
            None => terminal.say(text.trim_end()),
            Some(target) => self.write(target, &profile, hours, terminal),
        }
    }
}

impl Generate {
    /// The profile's TOML.
    fn text(&self) -> Result<String, Failure> {
        if let Some(builtin) = BUILTIN.iter().find(|builtin| builtin.name == self.profile) {
            return Ok(builtin.text.to_string());
        }
        if !self.profile.ends_with(".toml") {
            // The library words the error.
            Profile::builtin(&self.profile)?;
        }
        let unread = |source| GenerateError::Unread { path: self.profile.clone(), source };
        Ok(fs::read_to_string(&self.profile).map_err(unread)?)
    }

    fn calibrate(&self, profile: &Profile, hours: f64, terminal: &mut Terminal) -> Result<(), Failure> {
        let part = terminal.watcher().part(&self.profile, Unit::Of(SECONDS), Some(seconds(hours)));
        let progress = |share: f64| part.done((share * seconds(hours) as f64) as u64);
        let calibration: Calibration = calibrate(&self.profile, profile, self.seed, hours, progress)?;
        drop(part);
        let header = format!("{}: seed {}, {hours} h, scale {}", self.profile, self.seed, self.scale);
        terminal.say(&match self.json {
            true => json!({
                "profile": self.profile, "seed": self.seed, "hours": hours, "scale": self.scale,
                "right": calibration.is_right(), "calibration": calibration,
            })
            .to_string(),
            false => format!("{header}\n{calibration}"),
        })?;
        if calibration.is_right() { Ok(()) } else { Err(GenerateError::Wrong(header).into()) }
    }

    fn write(&self, target: &str, profile: &Profile, hours: f64, terminal: &mut Terminal) -> Result<(), Failure> {
        let to = target_format(target, self.to, Some(Format::Fio3))?;
        let part = terminal.watcher().part(target, Unit::Of(SECONDS), Some(seconds(hours)));
        let generator = Generator::new(&self.profile, profile, self.seed, hours)?;
        let mut trace = Shown::new(generator, |_, record| part.done(record.at.0 / Nanos::secs(1).0));
        let written = match target {
            "-" => convert(&mut trace, RecordSink::new(to, Box::new(io::stdout()))?)?,
            path => target::write(path, self.force, |file| {
                Ok(convert(&mut trace, RecordSink::to_file(to, Box::new(file))?)?)
            })?,
        };
        drop(part);
        self.report(target, to, &written, terminal)
    }

    fn report(&self, target: &str, to: Format, written: &Written, terminal: &mut Terminal) -> Result<(), Failure> {
        let Written { records, losses, .. } = written;
        if self.json {
            let object = json!({
                "profile": self.profile, "seed": self.seed, "scale": self.scale, "target": target,
                "to": to.name(), "written": records, "dropped": losses.dropped(), "losses": losses.to_string(),
            });
            return terminal.say(&object.to_string());
        }
        terminal.complain(&format!("{target}: {records} records written; {losses}"));
        Ok(())
    }
}
