//! `esker volume rotate`: a schedule of snapshots, one step of which a timer calls.

use std::time::SystemTime;

use esker_layer_thin::retention::{Keep, rotate};
use serde_json::json;

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::volumes::Thin;

/// The record.
pub const VERB: Verb = Verb::of::<Rotate>(About {
    words: &["volume", "rotate"],
    summary: "Make snapshots named by the instant, and delete those that a schedule does not keep",
    details: "Call it from a timer; the units esker-rotate@.timer and .service do. The snapshot of db is called db-20260301T120000Z, in UTC. A rule such as daily=7 keeps \
              the newest snapshot of each of the last seven days that have one; there are last, hourly, daily, weekly, \
              monthly and yearly. What one rule keeps, no other deletes. Only snapshots with such names are deleted, and \
              none that is held.",
    examples: &[
        Example {
            line: "esker volume rotate db --keep hourly=24,daily=7",
            does: "keeps a day of hours and a week of days",
        },
        Example { line: "esker volume rotate db home --keep last=3", does: "keeps three snapshots of each" },
    ],
});

#[derive(clap::Args)]
struct Rotate {
    #[command(flatten)]
    thin: Thin,
    /// The volumes
    #[arg(value_name = "VOLUME", required = true)]
    volumes: Vec<String>,
    /// Rules, separated by commas
    #[arg(long, value_name = "RULES")]
    keep: Keep,
    /// The answer as JSON
    #[arg(long)]
    json: bool,
}

impl Run for Rotate {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        let now = i64::try_from(now)?;
        let (mut made, mut deleted, mut held) = (Vec::new(), Vec::new(), Vec::new());
        self.thin.with(|manager| {
            for volume in &self.volumes {
                let done = rotate(manager, volume, &self.keep, now)?;
                made.push(done.made);
                deleted.extend(done.deleted);
                held.extend(done.held);
            }
            Ok(())
        })?;
        if self.json {
            return terminal.say(&json!({ "made": made, "deleted": deleted, "held": held }).to_string());
        }
        let lines = [("made", &made), ("deleted", &deleted), ("held, not deleted", &held)];
        let lines = lines.iter().flat_map(|(what, names)| names.iter().map(move |name| format!("{what}: {name}")));
        terminal.say(&lines.collect::<Vec<_>>().join("\n"))
    }
}
