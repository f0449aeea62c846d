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
#[error("{kind} keeps nothing on a device ({summary}): there is nothing to {task}")]
struct ImageError {
    kind: &'static str,
    summary: &'static str,
    task: &'static str,
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
        let kind = fs_kinds::find(&self.kind)?;
        match kind.name {
            lfs_image::KIND => LfsImage::on(self.on.as_deref()),
            name => Err(ImageError { kind: name, summary: kind.summary, task: task.word() }.into()),
        }
    }
}
