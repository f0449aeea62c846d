//! `esker lab list`: the experiments that can be run.

use esker_lab::{ALL, times};
use esker_lab_kit::Experiment;
use esker_lab_kit::papers::{self, OWN, PAPERS, Provenance};
use esker_report::{table, wrapped};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// Columns of a line.
const WIDTH: usize = 100;
/// Columns before the text of an experiment.
const INDENT: &str = "    ";

/// The record.
pub const VERB: Verb = Verb::of::<List>(About {
    words: &["lab", "list"],
    summary: "List the experiments, by the paper that they measure again",
    details: "Every figure in the documents comes from one of these. Each has its place in its paper, virtual or real \
              time, what it measures and the programs that it needs. The columns `quick` and `full` tell roughly how \
              long it takes with and without --quick. The key `own` is that of the project's own questions.",
    examples: &[
        Example { line: "esker lab list", does: "prints all experiments" },
        Example { line: "esker lab list --paper artc", does: "prints those that measure figures of ARTC again" },
    ],
});

#[derive(clap::Args)]
struct List {
    /// Only the experiments of this paper; an unknown key is told all keys
    #[arg(long, value_name = "KEY")]
    paper: Option<String>,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

impl Run for List {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let keys = match &self.paper {
            Some(key) => vec![papers::known(key).map_err(|unknown| Failure::Usage(unknown.to_string()))?],
            None => papers::keys(),
        };
        if self.json {
            let all: Vec<Value> = keys.iter().flat_map(|key| of(key)).map(json).collect();
            return terminal.say(&serde_json::to_string_pretty(&all)?);
        }
        let parts: Vec<String> = keys.iter().map(|key| part(key)).collect();
        terminal.say(&parts.join("\n\n"))
    }
}

/// The experiments of a key.
fn of(key: &str) -> impl Iterator<Item = &'static Experiment> {
    ALL.iter().filter(move |experiment| experiment.origin.unwrap_or(Provenance::Own).key() == key)
}

/// The experiments of a paper under its title. Each has a row, with its summary below.
fn part(key: &str) -> String {
    let paper = PAPERS.into_iter().find(|paper| paper.key == key);
    let head = paper.map_or_else(
        || format!("{OWN}  The project's own questions."),
        |paper| format!("{key}  {}\n{}", paper.title, indented(&paper.citation())),
    );
    let rows: Vec<Vec<String>> = of(key).map(row).collect();
    let table = table(&["name", "quick", "full", "time", "place"], &rows, None);
    let mut lines = table.lines();
    let names = lines.next().unwrap_or_default();
    let experiments = lines.zip(of(key)).map(|(row, experiment)| format!("{row}\n{}", below(experiment)));
    [head, names.to_string()].into_iter().chain(experiments).collect::<Vec<_>>().join("\n")
}

fn row(experiment: &Experiment) -> Vec<String> {
    let [quick, full] = times::of(experiment.name).map(|seconds| seconds.map_or("not measured".to_string(), about));
    let place = experiment.origin.map_or("", Provenance::place);
    vec![experiment.name.to_string(), quick, full, time(experiment).to_string(), place.to_string()]
}

fn time(experiment: &Experiment) -> &'static str {
    if experiment.simulated { "virtual" } else { "real" }
}

fn below(experiment: &Experiment) -> String {
    let needs = match experiment.rivals {
        [] => String::new(),
        rivals => format!(". Needs {}", rivals.join(", ")),
    };
    indented(&format!("{}{needs}.", experiment.summary))
}

fn indented(text: &str) -> String {
    let lines = wrapped(text, WIDTH - INDENT.len());
    lines.iter().map(|line| format!("{INDENT}{line}")).collect::<Vec<_>>().join("\n")
}

/// A rough time, in seconds or in minutes.
fn about(seconds: u32) -> String {
    match seconds {
        0..100 => format!("{seconds} s"),
        _ => format!("{} min", (seconds + 30) / 60),
    }
}

fn json(experiment: &Experiment) -> Value {
    let [quick, full] = times::of(experiment.name);
    let (paper, place) = match experiment.origin {
        Some(Provenance::Paper(paper, place)) => (Some(paper), Some(place)),
        Some(Provenance::Own) | None => (None, None),
    };
    json!({
        "name": experiment.name,
        "measures": experiment.summary,
        "paper": paper,
        "place": place,
        "bars": experiment.bars,
        "quick_seconds": quick,
        "full_seconds": full,
        "time": time(experiment),
        "needs": experiment.rivals,
    })
}
