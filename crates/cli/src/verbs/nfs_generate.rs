//! `esker nfs generate`: makes the text trace of an NFS server.

use std::io::{self, Read};

use esker_base::{Nanos, Unit};
use esker_trace_nfs::{NfsGenerator, NfsShape};

use crate::failure::Failure;
use crate::progress::{Pace, Part};
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Generate>(About {
    words: &["nfs", "generate"],
    summary: "Make the trace of an NFS server with the statistics of lair62",
    details: "Writes text to standard output. It has 188 users whose activity follows Zipf's law, and files with a median \
              of 3.7 KB and a mean of 249 KB. Lookups, writes, removes, creates, renames and links have the ratios of \
              that trace of 2001. Half of the blocks are written again at once, most files are removed within a day, and \
              few stay. Packets get lost, and removed files leave their handles to new ones. One seed and shape give \
              the same text. Memory does not grow with the length.",
    examples: &[
        Example {
            line: "esker nfs generate --seed 7 --hours 24 --scale 0.05 > day.txt",
            does: "writes a day of homes with a twentieth of the files",
        },
        Example { line: "esker nfs generate --operations 100000", does: "writes the text of 100,000 operations" },
    ],
});

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("length").required(true).multiple(true)))]
struct Generate {
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Length of the trace in hours
    #[arg(long, group = "length", value_parser = hours)]
    hours: Option<f64>,
    /// Length of the trace in operations that a replay plays
    #[arg(long, group = "length")]
    operations: Option<u64>,
    /// Users, each with a home directory
    #[arg(long, default_value_t = 188, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    users: u32,
    /// Files of a home, as a share of what lair62 had (0.000001 to 100)
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = scale)]
    scale: f64,
    /// Operations in an hour of the trace [default: 106000, as in lair62]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Share of the packets that are lost (0 to 1)
    #[arg(long, value_name = "SHARE", default_value = "0.01", value_parser = share)]
    loss: f64,
    /// Share of new files that get the handle of a removed one (0 to 1)
    #[arg(long, value_name = "SHARE", default_value = "0.3", value_parser = share)]
    reuse: f64,
}

fn hours(text: &str) -> Result<f64, String> {
    within(text, 0.0, 1e6, "0 to 1000000")
}

fn scale(text: &str) -> Result<f64, String> {
    within(text, 1e-6, 100.0, "0.000001 to 100")
}

fn share(text: &str) -> Result<f64, String> {
    within(text, 0.0, 1.0, "0 to 1")
}

fn within(text: &str, least: f64, most: f64, range: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("expected a number from {range}"))
}

impl Generate {
    /// Operations that the trace will have, about.
    fn expected(&self, per_hour: f64) -> u64 {
        let per_hour = self.rate.map_or(per_hour, f64::from);
        let in_time = self.hours.map(|hours| (hours * per_hour) as u64);
        in_time.into_iter().chain(self.operations).min().unwrap_or(0)
    }
}

/// The text of a trace, whose operations are shown while it is read.
struct Told<'a> {
    trace: &'a mut NfsGenerator,
    part: &'a Part,
}

impl Read for Told<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.trace.read(out)?;
        self.part.done(self.trace.generated().operations);
        Ok(read)
    }
}

impl Run for Generate {
    const PACE: Option<Pace> = Some(Pace::Shows("operations"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let usual = NfsShape::lair62(self.seed);
        let mut trace = NfsGenerator::new(NfsShape {
            users: self.users,
            scale: self.scale,
            operations_per_hour: self.rate.map_or(usual.operations_per_hour, f64::from),
            loss: self.loss,
            reuse: self.reuse,
            length: self.hours.map(|hours| Nanos::from_secs_f64(hours * 3_600.0)),
            operations: self.operations,
            ..usual
        });
        let part =
            terminal.watcher().part("trace", Unit::Of("operations"), Some(self.expected(usual.operations_per_hour)));
        let mut text = Told { trace: &mut trace, part: &part };
        io::copy(&mut text, terminal.output())?;
        drop(part);
        let made = trace.generated();
        let (lines, operations, lost) = (made.lines, made.operations, made.lost);
        terminal
            .complain(&format!("seed {}: {operations} operations in {lines} lines; {lost} packets lost", self.seed));
        Ok(())
    }
}
