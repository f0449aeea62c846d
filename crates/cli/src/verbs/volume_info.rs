//! `esker volume info`: tells all that is known of one volume.

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::{Terminal, table};
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Thin, bytes, find, name};

/// The record.
pub const VERB: Verb = Verb::of::<Info>(About {
    words: &["volume", "info"],
    summary: "Tell what a volume takes, what it was made from, and its snapshots",
    details: "`mapped` is all its blocks, `exclusive` those that its deletion gives back, `shared` those that other \
              volumes use too. The origin is the volume that it was made from. Snapshots and clones are those made from \
              it. A held snapshot is not deleted before `esker volume release`.",
    examples: &[
        Example { line: "esker volume info db", does: "tells it of a volume of the served stack" },
        Example { line: "esker volume info db --json --stack stack.toml", does: "tells it as JSON, in bytes" },
    ],
});

#[derive(clap::Args)]
struct Info {
    #[command(flatten)]
    thin: Thin,
    /// The volume or snapshot
    #[arg(value_name = "NAME")]
    name: String,
    /// The answer as JSON
    #[arg(long)]
    json: bool,
}

impl Run for Info {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let (list, usage) = self.thin.with(|manager| {
            let list = manager.order(vec!["list".into()])?;
            find(&list, &self.name)?;
            Ok((list, manager.order(vec!["usage".into()])?))
        })?;
        let mut info = find(&list, &self.name)?.clone();
        let usage = find(&usage["volumes"], &self.name)?;
        for (to, from) in [
            ("mapped_bytes", "apparent_bytes"),
            ("exclusive_bytes", "exclusive_bytes"),
            ("shared_bytes", "shared_bytes"),
        ] {
            info[to] = usage[from].clone();
        }
        let made = |snapshot: bool| -> Value {
            let all = list.as_array().into_iter().flatten();
            let made = all.filter(|one| one["of"] == self.name.as_str() && one["snapshot"] == snapshot);
            made.map(|one| json!({ "name": one["name"], "bytes": one["bytes"], "held": one["held"] })).collect()
        };
        info["snapshots"] = made(true);
        info["clones"] = made(false);
        terminal.say(&if self.json { info.to_string() } else { render(&info) })
    }
}

fn render(info: &Value) -> String {
    let kind = match (info["snapshot"] == true, info["held"] == true) {
        (true, true) => "snapshot, held",
        (true, false) => "snapshot",
        (false, _) => "volume",
    };
    let of = |key: &str| {
        let named = |one: &Value| format!("{}{}", name(one), if one["held"] == true { " (held)" } else { "" });
        let names: Vec<String> = info[key].as_array().into_iter().flatten().map(named).collect();
        if names.is_empty() { "-".to_string() } else { names.join(", ") }
    };
    let port = if info["port_bytes"].is_u64() { bytes(info, "port_bytes") } else { "-".to_string() };
    let rows = [
        ("name", name(info).to_string()),
        ("kind", kind.to_string()),
        ("size", bytes(info, "bytes")),
        ("mapped", bytes(info, "mapped_bytes")),
        ("exclusive", bytes(info, "exclusive_bytes")),
        ("shared", bytes(info, "shared_bytes")),
        ("origin", info["of"].as_str().unwrap_or("-").to_string()),
        ("port", port),
        ("snapshots", of("snapshots")),
        ("clones", of("clones")),
    ];
    table(&[], &rows.map(|(what, value)| vec![what.to_string(), value]))
}
