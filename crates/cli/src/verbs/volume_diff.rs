//! `esker volume diff`: tells where two volumes differ.

use esker_layer_thin::areas::{Difference, differences};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Thin, table};

/// The record.
pub const VERB: Verb = Verb::of::<Diff>(About {
    words: &["volume", "diff"],
    summary: "Show where two volumes differ, without reading them",
    details: "The map tells it: parts that lead to the same blocks are equal. Parts that lead to different blocks are \
              listed, although they may hold equal bytes, for example after both were written alike. Nothing else is \
              listed, so what is missing here is equal. A volume that is written meanwhile is looked at as it is then; \
              compare snapshots to be exact.",
    examples: &[
        Example { line: "esker volume diff db-monday db-tuesday", does: "shows what changed in a day" },
        Example { line: "esker volume diff db-monday db --json", does: "shows what changed since, as JSON" },
    ],
});

#[derive(clap::Args)]
struct Diff {
    #[command(flatten)]
    thin: Thin,
    /// A volume or snapshot
    #[arg(value_name = "FIRST")]
    first: String,
    /// The other one
    #[arg(value_name = "SECOND")]
    second: String,
    /// The answer as JSON
    #[arg(long)]
    json: bool,
}

impl Run for Diff {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let apart = self.thin.with(|manager| Ok(differences(manager, &self.first, &self.second)?))?;
        if self.json {
            return terminal.say(&apart.iter().map(as_json).collect::<Value>().to_string());
        }
        if apart.is_empty() {
            return terminal.say("no part differs");
        }
        terminal
            .say(&table(&["start", "length", &self.first, &self.second], &apart.iter().map(row).collect::<Vec<_>>()))?;
        let bytes = apart.iter().map(|one| one.bytes.end - one.bytes.start).sum();
        let bytes = esker_base::units::size_human(bytes);
        terminal.say(&format!("{bytes} differ in the map; parts of them may hold equal bytes"))
    }
}

fn word(is_data: bool) -> &'static str {
    if is_data { "data" } else { "hole" }
}

fn as_json(one: &Difference) -> Value {
    json!({
        "start": one.bytes.start,
        "length": one.bytes.end - one.bytes.start,
        "first": word(one.first),
        "second": word(one.second),
    })
}

fn row(one: &Difference) -> Vec<String> {
    let length = one.bytes.end - one.bytes.start;
    vec![one.bytes.start.to_string(), length.to_string(), word(one.first).to_string(), word(one.second).to_string()]
}
