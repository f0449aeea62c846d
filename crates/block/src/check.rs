//! How a kind checks media that no stack uses: its manifest carries a [`MediaCheck`], so that a new format registers
//! itself.

use std::error::Error;
use std::io;
use std::rc::Rc;

/// A medium that is only read.
pub trait ReadMedium {
    /// Bytes.
    fn size(&self) -> u64;

    /// Fills `out` with the bytes from `at` on.
    ///
    /// # Errors
    /// The medium cannot be read, or is shorter.
    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()>;
}

/// The media that are checked together.
pub type Media<'a> = &'a [Rc<dyn ReadMedium>];

/// The checker of one format.
#[derive(Clone, Copy)]
pub struct MediaCheck {
    /// What one medium or set holds, in one word.
    pub holds: &'static str,
    /// What a user calls such media.
    pub media: &'static str,
    /// The magic of each superblock that such a medium may have, and the one version that is read.
    pub formats: &'static [([u8; 8], u16)],
    /// Whether all of them that are named at once belong together.
    pub is_set: bool,
    /// Whether a medium bears the mark of the format, sound or damaged.
    pub is_marked: fn(&dyn ReadMedium) -> io::Result<bool>,
    /// Checks one medium, or all of a set. Errors are those of the format: why there is nothing to judge.
    pub check: fn(Media<'_>) -> Result<MediaVerdict, Box<dyn Error>>,
}

impl MediaCheck {
    /// The newest version of its formats that is read.
    pub fn version(&self) -> Option<u16> {
        self.formats.iter().map(|(_, version)| *version).max()
    }
}

/// What a checker found on media that it could read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MediaVerdict {
    /// Whether everything is as it must be.
    pub is_sound: bool,
    /// What there is to tell, in one line.
    pub text: String,
    /// The same for programs, by name.
    pub facts: Vec<(&'static str, Fact)>,
}

/// A value of a [`MediaVerdict`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fact {
    /// A number; none where it has no meaning.
    Count(Option<u64>),
    /// Several texts.
    Texts(Vec<String>),
}

impl From<u64> for Fact {
    fn from(count: u64) -> Fact {
        Fact::Count(Some(count))
    }
}
