//! `esker trace syscalls`: which system calls traces may hold.

use esker_trace_calls::Platform;
use esker_trace_calls::import::decode::{WITHOUT_FILES, known};
use serde_json::json;

use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};

/// The record.
pub const VERB: Verb = Verb::of::<Syscalls>(About {
    words: &["trace", "syscalls"],
    summary: "List the system calls that traces may hold",
    details: "Those that are understood, by platform, and with --ignored those that are known to have no bearing on files. Any \
              other call is kept by its name, counted, and replayed as nothing.",
    examples: &[Example { line: "esker trace syscalls", does: "lists them" }],
});

#[derive(clap::Args)]
struct Syscalls {
    /// Also calls without a bearing on files
    #[arg(long)]
    ignored: bool,
    /// JSON, for programs
    #[arg(long)]
    json: bool,
}

impl Run for Syscalls {
    const PACE: Option<Pace> = Some(Pace::AtOnce);

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let names = |platform: Option<Platform>| {
            let mut names: Vec<_> = known().filter(|call| call.platform == platform).map(|call| call.name).collect();
            names.sort_unstable();
            names
        };
        let mut groups = vec![("all platforms", names(None)), ("mac", names(Some(Platform::Mac)))];
        if self.ignored {
            groups.push(("without files", WITHOUT_FILES.to_vec()));
        }
        if self.json {
            let groups = groups.into_iter().map(|(name, calls)| (name.to_string(), json!(calls)));
            return terminal.say(&serde_json::Value::Object(groups.collect()).to_string());
        }
        for (name, calls) in groups {
            terminal.say(&format!("{name} ({})", calls.len()))?;
            calls.iter().try_for_each(|call| terminal.say(&format!("  {call}")))?;
        }
        Ok(())
    }
}
