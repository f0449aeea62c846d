//! `esker volume list`: shows all volumes.

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::{Volumes, bytes, name, table};

/// The record.
pub const VERB: Verb = Verb::of::<List>(About {
    words: &["volume", "list"],
    summary: "Show all volumes and snapshots",
    details: "Each with its size, what it was made from, and what its port offers. Space is told by `esker volume usage`.",
    examples: &[
        Example { line: "esker volume list", does: "shows those of the server at esker.ctl" },
        Example { line: "esker volume list --stack stack.toml --json", does: "those of a stack without a server" },
    ],
});

#[derive(clap::Args)]
struct List {
    #[command(flatten)]
    volumes: Volumes,
}

impl Run for List {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        self.volumes.ask(terminal, vec!["list".to_string()], render)
    }
}

fn render(answer: &serde_json::Value) -> String {
    let row = |volume: &serde_json::Value| {
        let kind = match (volume["snapshot"] == true, volume["received_bytes"].is_u64()) {
            (true, _) if volume["held"] == true => "snapshot, held".to_string(),
            (true, _) => "snapshot".to_string(),
            (false, true) => format!("received to {}", bytes(volume, "received_bytes")),
            (false, false) => "volume".to_string(),
        };
        let port = if volume["port_bytes"].is_u64() { bytes(volume, "port_bytes") } else { "-".to_string() };
        let of = volume["of"].as_str().unwrap_or("-").to_string();
        vec![name(volume).to_string(), kind, bytes(volume, "bytes"), of, port]
    };
    table(
        &["name", "kind", "size", "of", "port"],
        &answer.as_array().map_or_else(Vec::new, |all| all.iter().map(row).collect()),
    )
}
