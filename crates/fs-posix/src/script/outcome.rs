//! What a call of a script came to, as a line of text.

use std::fmt;

use esker_base::{Digest, Errno};
use esker_vfs::attr::mode;
use esker_vfs::{FileType, Stamp};

use super::parse::SECOND;
use super::{KINDS, Word, text_of};

/// Times from this second on are those of a clock, not of a script.
const CLOCK_FROM: i64 = 1_500_000_000;

/// What a call came to. Two players of one script agree if the texts are equal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Nothing but success.
    Done,
    /// Bytes, an offset, or a mask.
    Count(u64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Attributes.
    Facts(Facts),
    /// Entries of a directory.
    Entries(Vec<(Vec<u8>, FileType)>),
    /// Names of extended attributes, each with a NUL behind it.
    Names(Vec<u8>),
    /// A path.
    Path(Vec<u8>),
    /// A failure.
    Failed(Errno),
}

/// Attributes that all file systems agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Kind.
    pub kind: FileType,
    /// Permissions, with the three bits above them.
    pub mode: u16,
    /// Names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of a device.
    pub device: u64,
    /// Bytes. Directories have sizes that differ.
    pub size: u64,
    /// Last access.
    pub accessed: Stamp,
    /// Last change of bytes.
    pub modified: Stamp,
}

impl From<Result<Outcome, Errno>> for Outcome {
    fn from(result: Result<Outcome, Errno>) -> Outcome {
        result.unwrap_or_else(Outcome::Failed)
    }
}

/// A time: that of a script as its seconds, that of a clock as the word.
struct Time(Stamp);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.0.div_euclid(SECOND) {
            seconds if seconds < CLOCK_FROM => seconds.fmt(f),
            _ => f.write_str("clock"),
        }
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { kind, links, uid, gid, .. } = self;
        write!(f, "{} {:04o} links={links} owner={uid}:{gid}", text_of(&KINDS, kind), self.mode & mode::ALL)?;
        match kind {
            FileType::File | FileType::Symlink => write!(f, " size={}", self.size)?,
            FileType::CharDevice | FileType::BlockDevice => write!(f, " device={}", self.device)?,
            FileType::Directory | FileType::Fifo | FileType::Socket => {}
        }
        write!(f, " accessed={} modified={}", Time(self.accessed), Time(self.modified))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Done => f.write_str("ok"),
            Outcome::Count(count) => count.fmt(f),
            Outcome::Bytes(bytes) => {
                let mut digest = Digest::new();
                digest.bytes(bytes);
                write!(f, "{} bytes {:016x}", bytes.len(), digest.value())
            }
            Outcome::Facts(facts) => facts.fmt(f),
            Outcome::Entries(entries) => {
                let mut words: Vec<_> = entries.iter().map(|(name, kind)| (name, text_of(&KINDS, kind))).collect();
                words.sort_unstable();
                write!(f, "{} entries", words.len())?;
                words.into_iter().try_for_each(|(name, kind)| write!(f, " {}:{kind}", Word(name.clone())))
            }
            Outcome::Names(names) => {
                let mut names: Vec<_> = names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
                names.sort_unstable();
                write!(f, "{} names", names.len())?;
                names.into_iter().try_for_each(|name| write!(f, " {}", Word(name.to_vec())))
            }
            Outcome::Path(path) => Word(path.clone()).fmt(f),
            Outcome::Failed(errno) => match errno.name() {
                Some(name) => f.write_str(name),
                None => write!(f, "error {}", errno.0),
            },
        }
    }
}
