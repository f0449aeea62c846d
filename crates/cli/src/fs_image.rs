//! What the verbs share that are about the medium of a file system: none of the kinds so far has one.

use crate::failure::Failure;
use crate::fs_kinds;

/// The arguments of such verbs.
#[derive(clap::Args)]
pub struct Image {
    /// Kind of the file system
    #[arg(value_name = "KIND")]
    kind: String,
}

/// What is done with a medium.
#[derive(Clone, Copy)]
pub enum Task {
    /// An empty file system is made.
    Mkfs,
    /// The medium is checked.
    Check,
    /// Its structures are shown.
    Dump,
}

#[derive(Debug, thiserror::Error)]
enum ImageError {
    #[error("{kind} keeps nothing on a device ({summary}): there is nothing to {task}")]
    InMemory { kind: &'static str, summary: &'static str, task: &'static str },
    #[error("{0} cannot be used by this verb yet")]
    NotYet(&'static str),
}

impl Task {
    fn word(self) -> &'static str {
        match self {
            Task::Mkfs => "make",
            Task::Check => "check",
            Task::Dump => "dump",
        }
    }
}

impl Image {
    /// Does it.
    ///
    /// # Errors
    /// Always, as long as no kind lies on a device.
    pub fn run(&self, task: Task) -> Result<(), Failure> {
        let kind = fs_kinds::find(&self.kind)?;
        Err(match kind.needs_device {
            false => ImageError::InMemory { kind: kind.name, summary: kind.summary, task: task.word() },
            true => ImageError::NotYet(kind.name),
        }
        .into())
    }
}
