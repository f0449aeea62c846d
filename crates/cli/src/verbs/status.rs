//! `esker status`: what a server tells about itself.

use esker_serve::Command;
use serde_json::Value;

use crate::control::Control;
use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Status>(About {
    words: &["status"],
    summary: "Show health, connections and statistics of a server",
    details: "Exit status 1 if the server's stack is dead, which it is after a layer broke the contract.",
    examples: &[
        Example { line: "esker status --control run/esker.ctl", does: "shows it for people" },
        Example { line: "esker status --json", does: "for programs, of the server with esker.ctl here" },
    ],
});

#[derive(clap::Args)]
struct Status {
    #[command(flatten)]
    control: Control,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("the stack is dead: {0}; restart the server")]
struct Dead(String);

impl Run for Status {
    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let status = self.control.ask(&Command::Status {})?;
        terminal.say(&if self.json { status.to_string() } else { page(&status) })?;
        match status["dead"].as_str() {
            Some(cause) => Err(Dead(cause.to_string()).into()),
            None => Ok(()),
        }
    }
}

/// The status for people.
fn page(status: &Value) -> String {
    let number = |key: &str| status[key].as_u64().unwrap_or_default();
    let mut text = format!(
        "up             {:.1} s, {}\nconnections    {}\nin flight      {}\nlive changes   {}\nbytes copied   {}",
        status["uptime_s"].as_f64().unwrap_or_default(),
        status["io"].as_str().unwrap_or("?"),
        number("connections"),
        number("inflight"),
        number("changes"),
        number("bounced_bytes"),
    );
    for export in status["exports"].as_array().into_iter().flatten() {
        let field = |key: &str| export[key].as_str().unwrap_or("?").to_string();
        text += &format!("\nexport {}: {} bytes at {}", field("name"), export["size"], field("uri"));
    }
    for part in status["parts"].as_array().into_iter().flatten() {
        text += &format!("\n{}", part_line(part));
    }
    text
}

fn part_line(part: &Value) -> String {
    let field = |key: &str| part[key].as_str().unwrap_or("?").to_string();
    let stats = part["stats"].as_object().into_iter().flatten().map(|(name, value)| format!(" {name}={value}"));
    let usage = part["usage"].as_object().into_iter().flatten().map(|(name, value)| format!(" {name}={value}"));
    let numbers: String = stats.chain(usage).collect();
    let violations = match part["violations"].as_u64() {
        Some(n @ 1..) => format!(" violations={n}"),
        _ => String::new(),
    };
    let modelled = if part["modelled"] == true { ", modelled: paced in real time" } else { "" };
    format!("{} ({}{modelled}){violations}{numbers}", field("name"), field("kind"))
}
