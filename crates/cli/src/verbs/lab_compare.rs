//! `esker lab compare`: two reports side by side.

use std::fs;
use std::io;

use esker_lab_kit::compare::{Comparison, Measured, NamedValue, Pair, compare, read};
use esker_report::{rounded, wrapped};

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::{Terminal, table};
use crate::verb::{About, Example, Run, Verb};

/// Columns of the lists below the table.
const WIDTH: usize = 100;

/// The record.
pub const VERB: Verb = Verb::of::<Compare>(About {
    words: &["lab", "compare"],
    summary: "Put two reports side by side",
    details: "Takes two files of `esker lab run --json`, of `esker lab repeat --json` (its medians), or of fio's \
              --output-format=json, which their structure tells apart. Prints each value of both, their ratio B/A, \
              and the names that only one of them has. Values belong together if name and unit are equal. Of fio: \
              rates and completion latencies of each job's reads and writes.",
    examples: &[
        Example { line: "esker lab compare before.json after.json", does: "compares two runs of an experiment" },
        Example { line: "esker lab compare disk.json attached.json --json", does: "prints the same as JSON" },
    ],
});

#[derive(clap::Args)]
struct Compare {
    /// The first report
    #[arg(value_name = "A.json")]
    a: String,
    /// The second one
    #[arg(value_name = "B.json")]
    b: String,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

/// A report cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{file}: cannot be read: {source}")]
struct Unreadable {
    file: String,
    source: io::Error,
}

impl Run for Compare {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let comparison = compare(measured(&self.a)?, measured(&self.b)?)?;
        match self.json {
            true => terminal.say(&serde_json::to_string_pretty(&comparison)?),
            false => terminal.say(&text(&comparison)),
        }
    }
}

fn measured(file: &str) -> Result<Measured, Failure> {
    let text = fs::read_to_string(file).map_err(|source| Unreadable { file: file.to_string(), source })?;
    Ok(read(file, &text)?)
}

fn text(comparison: &Comparison) -> String {
    let Comparison { a, b, both, only_a, only_b } = comparison;
    let rows: Vec<Vec<String>> = both.iter().map(row).collect();
    let heads = [("A", a), ("B", b)].map(|(word, of)| format!("{word}  {}: {}", of.file, of.about));
    let lonely = [("A", only_a), ("B", only_b)].into_iter().filter_map(|(word, values)| only(word, values));
    let table = (!rows.is_empty()).then(|| table(&["name", "A", "B", "B/A", "unit"], &rows));
    let parts = [heads.join("\n")].into_iter().chain(table).chain(lonely);
    parts.collect::<Vec<_>>().join("\n\n")
}

fn row(pair: &Pair) -> Vec<String> {
    let ratio = pair.ratio.map_or_else(|| "-".to_string(), rounded);
    vec![pair.id.clone(), rounded(pair.a), rounded(pair.b), ratio, pair.unit.clone()]
}

/// The names that only one report has.
fn only(word: &str, values: &[NamedValue]) -> Option<String> {
    let names: Vec<&str> = values.iter().map(|value| value.id.as_str()).collect();
    let text = wrapped(&format!("Only in {word}: {}", names.join(", ")), WIDTH).join("\n  ");
    (!names.is_empty()).then_some(text)
}
