//! What the verbs share that are about the medium of a file system.

use crate::failure::Failure;
use crate::fs_kinds;
use crate::lfs_image::{self, LfsImage};

/// The arguments of such verbs.
#[derive(clap::Args)]
pub struct Image {
    /// Kind of the file system
    #[arg(value_name = "KIND")]
    kind: String,
    /// The stack on whose one export the file system lies
    #[arg(long, value_name = "STACK")]
    on: Option<String>,
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
    /// The image of the one kind that lies on a device.
    ///
    /// # Errors
    /// Another kind, or no stack.
    pub fn of(&self, task: Task) -> Result<LfsImage, Failure> {
        if self.kind == lfs_image::KIND {
            return LfsImage::on(self.on.as_deref());
        }
        let kind = fs_kinds::find(&self.kind)?;
        Err(match kind.needs_device {
            false => ImageError::InMemory { kind: kind.name, summary: kind.summary, task: task.word() },
            true => ImageError::NotYet(kind.name),
        }
        .into())
    }
}
