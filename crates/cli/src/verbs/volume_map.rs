//! `esker volume map`: tells which parts of a volume hold data.

use esker_layer_thin::areas::{Area, Held, map};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Thin, find, table};

/// The record.
pub const VERB: Verb = Verb::of::<Map>(About {
    words: &["volume", "map"],
    summary: "Show which parts of a volume hold data, without reading it",
    details: "A part is data, shared with the volume from which this one was made, or a hole, which reads as zeroes. \
              --json has the fields of `qemu-img map --output=json`: `depth` is 1 for shared parts, and 0 for others.",
    examples: &[
        Example { line: "esker volume map db", does: "shows them in the served stack" },
        Example { line: "esker volume map db-monday --json --stack stack.toml", does: "shows them as JSON" },
    ],
});

#[derive(clap::Args)]
struct Map {
    #[command(flatten)]
    thin: Thin,
    /// The volume or snapshot
    #[arg(value_name = "NAME")]
    name: String,
    /// The answer as JSON
    #[arg(long)]
    json: bool,
}

impl Run for Map {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let areas = self.thin.with(|manager| {
            let list = manager.order(vec!["list".into()])?;
            let origin = find(&list, &self.name)?["of"].as_str();
            Ok(map(manager, &self.name, origin)?)
        })?;
        let text = match self.json {
            true => areas.iter().map(as_json).collect::<Value>().to_string(),
            false => table(&["start", "length", "holds"], &areas.iter().map(row).collect::<Vec<_>>()),
        };
        terminal.say(&text)
    }
}

fn as_json(area: &Area) -> Value {
    let is_data = area.held != Held::Hole;
    json!({
        "start": area.bytes.start,
        "length": area.bytes.end - area.bytes.start,
        "depth": u32::from(area.held == Held::Shared),
        "present": is_data,
        "zero": !is_data,
        "data": is_data,
    })
}

fn row(area: &Area) -> Vec<String> {
    let holds = match area.held {
        Held::Data => "data",
        Held::Shared => "shared",
        Held::Hole => "hole",
    };
    vec![area.bytes.start.to_string(), (area.bytes.end - area.bytes.start).to_string(), holds.to_string()]
}
