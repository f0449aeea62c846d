//! `esker detach`: takes block devices away again.

use std::time::{Duration, Instant};

use esker_front_fuse::RegistryError;
use esker_front_fuse::registry::Entry;
use esker_serve::Command;

use crate::control;
use crate::failure::Failure;
use crate::progress::Pace;
use crate::terminal::Terminal;
use crate::verb::{About, Example, Run, Verb};
use crate::verbs::attach::RunDir;

/// The record.
pub const VERB: Verb = Verb::of::<Detach>(About {
    words: &["detach"],
    summary: "Take attached block devices away",
    details: "Ends the process that serves the devices, after everything was flushed, and waits for that. Refuses \
              while one of them is mounted or used in another way. If the process has died, it cleans up; devices that \
              are still mounted go when they are unmounted.",
    examples: &[
        Example { line: "esker detach vol", does: "ends the attachment of that name, with all its devices" },
        Example { line: "esker detach /dev/loop0", does: "ends the attachment of that device" },
    ],
});

/// How long an attachment may take to end once no program uses it: requests under way and flushes.
const END_MAX: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

#[derive(clap::Args)]
struct Detach {
    /// Name of the attachment, or one of its devices
    #[arg(value_name = "NAME|DEVICE")]
    what: String,
    #[command(flatten)]
    run_dir: RunDir,
}

#[derive(Debug, thiserror::Error)]
enum DetachError {
    #[error("not detached: {0}; unmount it first")]
    InUse(String),
    #[error("\"{0}\" is starting or stopping; try again when it is ready")]
    NotReady(String),
    #[error(
        "asked to stop, but \"{0}\" waits for a program that has one of its devices open; it ends when that program closes the device"
    )]
    Waiting(String),
}

impl Run for Detach {
    const PACE: Option<Pace> = Some(Pace::Waits("the end of the attachment"));

    fn run(self, terminal: &mut Terminal) -> Result<(), Failure> {
        let registry = self.run_dir.registry();
        let entry = registry.find(&self.what)?;
        let users = entry.users();
        match (entry.alive, &entry.record) {
            (false, _) => clean(&entry, &users, terminal),
            (true, None) => Err(DetachError::NotReady(entry.name).into()),
            (true, Some(_)) if !users.is_empty() => Err(DetachError::InUse(users.join("; ")).into()),
            (true, Some(record)) => {
                control::ask(&record.control, &Command::Stop { patience_ms: None })?;
                let start = Instant::now();
                while is_there(registry.find(&entry.name))? {
                    if start.elapsed() > END_MAX {
                        return Err(DetachError::Waiting(entry.name).into());
                    }
                    std::thread::sleep(PAUSE);
                }
                Ok(())
            }
        }
    }
}

/// Whether the process still lives. One that ended badly leaves something to clean up, but is gone.
fn is_there(found: Result<Entry, RegistryError>) -> Result<bool, RegistryError> {
    match found {
        Ok(entry) => Ok(entry.alive),
        Err(RegistryError::Unknown(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

fn clean(entry: &Entry, users: &[String], terminal: &mut Terminal) -> Result<(), Failure> {
    entry.clean()?;
    terminal.say(&format!("cleaned up what a dead process had left as \"{}\"", entry.name))?;
    users.iter().try_for_each(|user| terminal.say(&format!("{user}: unmount it, its requests fail")))
}
