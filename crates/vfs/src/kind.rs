//! Kinds of file systems, as a list hands them on: names, options, and how one is opened.

use std::rc::Rc;

use esker_block::{Device, Step};
use esker_rt::Rt;
use esker_rt::mem::Pool;

use crate::system::FileSystem;
use crate::word::Stamp;

/// A kind of file system.
#[derive(Debug)]
pub struct FsKind {
    /// Its name on the command line and in stack texts.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Whether it lies on a device.
    pub needs_device: bool,
    /// Words of `-o` that it takes.
    pub options: &'static [&'static str],
    /// Makes an empty one on the device, for kinds that lie on one and can be made so.
    pub make: Option<fn(&Opening<'_>) -> FsMade>,
    /// Opens one. Called by [`FsKind::open`], behind its checks.
    pub open: fn(&Opening<'_>) -> FsOpened,
}

/// What opening a file system gives, now or later.
pub type FsOpened = Step<Result<Rc<dyn FileSystem>, FsKindError>>;

/// What making a file system gives, now or later.
pub type FsMade = Step<Result<(), FsKindError>>;

/// What a file system is opened with.
pub struct Opening<'a> {
    /// The world that it lives in.
    pub rt: &'a Rt,
    /// Memory for its answers.
    pub pool: &'a Pool,
    /// Words of `-o`, each with its value.
    pub options: &'a [(String, String)],
    /// User and group of this process.
    pub owner: (u32, u32),
    /// The time.
    pub now: Stamp,
    /// Bytes of a file system in memory, unless an option says.
    pub memory: u64,
    /// The device on which it lies, for kinds that lie on one: it is the only user.
    pub device: Option<Rc<dyn Device>>,
}

impl Opening<'_> {
    /// The value of an option; of several the last.
    pub fn value(&self, word: &str) -> Option<&str> {
        self.options.iter().rfind(|(known, _)| known == word).map(|(_, value)| &**value)
    }
}

/// Why a file system of a kind cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FsKindError {
    /// There is no such kind.
    #[error("there is no file system {name:?}; kinds: {known}")]
    Unknown {
        /// The word.
        name: String,
        /// All kinds.
        known: String,
    },
    /// An option that it does not take.
    #[error("-o {word} is no option of mounts, and none of {kind:?}, which takes {known}")]
    UnknownOption {
        /// The word.
        word: String,
        /// The kind.
        kind: &'static str,
        /// The words that it takes.
        known: String,
    },
    /// A value that its option does not take.
    #[error("-o {word}={value}: write {wanted}")]
    Value {
        /// The option.
        word: String,
        /// Its value.
        value: String,
        /// What would be right.
        wanted: String,
    },
    /// An option that does nothing beside another.
    #[error("-o {word} has no effect beside -o {beside}, {why}: leave it out")]
    Beside {
        /// The option that has no effect.
        word: &'static str,
        /// The one beside it.
        beside: &'static str,
        /// What the second one does.
        why: &'static str,
    },
    /// It lies on a device, and was given none.
    #[error("{0} lies on a device, and none is named")]
    NoDevice(&'static str),
    /// It lies on no device, and was given one.
    #[error("{kind} lies on no device ({summary})")]
    NeedsNoDevice {
        /// The kind.
        kind: &'static str,
        /// The line about the kind.
        summary: &'static str,
    },
    /// What is on its device cannot be used, in words that say what to do.
    #[error("{0}")]
    Unusable(String),
}

impl FsKind {
    /// The kind of that name.
    ///
    /// # Errors
    /// [`FsKindError::Unknown`], which names all kinds.
    pub fn find<'k>(kinds: &'k [FsKind], name: &str) -> Result<&'k FsKind, FsKindError> {
        let known = || kinds.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
        let found = kinds.iter().find(|kind| kind.name == name);
        found.ok_or_else(|| FsKindError::Unknown { name: name.to_string(), known: known() })
    }

    /// Whether it takes these options, and a device or none.
    ///
    /// # Errors
    /// The first that it does not take.
    pub fn check(&self, options: &[(String, String)], has_device: bool) -> Result<(), FsKindError> {
        if let Some((word, _)) = options.iter().find(|(word, _)| !self.options.contains(&&**word)) {
            let (word, kind, known) = (word.clone(), self.name, self.options.join(", "));
            return Err(FsKindError::UnknownOption { word, kind, known });
        }
        match (self.needs_device, has_device) {
            (true, false) => Err(FsKindError::NoDevice(self.name)),
            (false, true) => Err(FsKindError::NeedsNoDevice { kind: self.name, summary: self.summary }),
            _ => Ok(()),
        }
    }

    /// Opens a file system of this kind.
    ///
    /// # Errors
    /// What [`FsKind::check`] refuses, values of options, and a device that cannot be used.
    pub fn open(&self, opening: &Opening<'_>) -> FsOpened {
        match self.check(opening.options, opening.device.is_some()) {
            Ok(()) => (self.open)(opening),
            Err(error) => Step::Now(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(_: &Opening<'_>) -> FsOpened {
        Step::Now(Err(FsKindError::Unusable("its tests open none".to_string())))
    }

    const KINDS: &[FsKind] = &[
        FsKind {
            name: "low",
            summary: "lies on a device",
            needs_device: true,
            options: &["a", "b"],
            make: None,
            open: refuse,
        },
        FsKind { name: "high", summary: "lies in memory", needs_device: false, options: &[], make: None, open: refuse },
    ];

    #[test]
    fn a_kind_refuses_other_options_and_what_is_not_its_device() {
        let option = |word: &str| vec![(word.to_string(), "1".to_string())];
        let told = |name: &str, options: &[(String, String)], has_device| {
            let checked = FsKind::find(KINDS, name).and_then(|kind| kind.check(options, has_device));
            checked.map_or_else(|error| error.to_string(), |()| String::new())
        };
        assert_eq!(told("low", &option("b"), true), "");
        assert_eq!(told("high", &[], false), "");
        assert_eq!(
            told("low", &option("c"), true),
            "-o c is no option of mounts, and none of \"low\", which takes a, b"
        );
        assert_eq!(told("low", &[], false), "low lies on a device, and none is named");
        assert_eq!(told("high", &[], true), "high lies on no device (lies in memory)");
        assert_eq!(told("mid", &[], true), "there is no file system \"mid\"; kinds: low, high");
    }
}
