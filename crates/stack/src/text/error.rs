//! What can be wrong with a stack text. Each message says what and how to mend it; [`TextError`] adds where.

use std::fmt;

use esker_block::kind::KindError;

use super::Location;
use super::check::DEPTH_MAX;

/// Something wrong, and where.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct TextError {
    /// Where.
    pub place: Location,
    /// What, and how to mend it.
    pub problem: Problem,
}

/// What can be wrong.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Problem {
    /// The text is not of its form.
    #[error("{what}; {fix}")]
    Syntax {
        /// What was found.
        what: String,
        /// What would be right.
        fix: String,
    },
    /// The TOML library's own finding.
    #[error("this is not TOML: {0}")]
    NotToml(String),
    /// A device, export or mount lacks a key.
    #[error("{what} has no `{key}`; write {example}")]
    NoKey {
        /// The device, export or mount.
        what: String,
        /// The key.
        key: &'static str,
        /// How it is written.
        example: &'static str,
    },
    /// A name that is none.
    #[error("\"{0}\" is no name; use letters, digits, _ and -, at most 64 of them, and do not begin with -")]
    UnsoundName(String),
    /// Two things of one name.
    #[error("{what} \"{name}\" is also at {first}; rename one of them")]
    Duplicate {
        /// `device`, `export`, `mount`, or `export or mount`.
        what: &'static str,
        /// The name.
        name: String,
        /// The one before.
        first: Location,
    },
    /// A kind that is not in the list.
    #[error("unknown kind \"{name}\"; {advice}")]
    UnknownKind {
        /// The word.
        name: String,
        /// The nearest kind, or all of them.
        advice: String,
    },
    /// A parameter that is unknown, missing or unreadable.
    #[error("device \"{device}\": {source}")]
    Param {
        /// The device.
        device: String,
        /// What the kind says.
        source: KindError,
    },
    /// A reference to nothing.
    #[error("{what} is on \"{reference}\", but there is no device \"{target}\"; {advice}")]
    Dangling {
        /// The device, export or mount that refers.
        what: String,
        /// The reference as written.
        reference: String,
        /// The device that is missing.
        target: String,
        /// The nearest name, or all of them.
        advice: String,
    },
    /// Devices that stand on each other.
    #[error("devices stand on each other: {0}; a chain must end at a device that is on nothing")]
    Cycle(String),
    /// More devices above each other than a stack may have.
    #[error("device \"{0}\" has more than {DEPTH_MAX} devices above each other, itself among them; leave layers out")]
    TooDeep(String),
    /// Too few or too many lower devices.
    #[error("device \"{device}\" is on {given}, but {kind} needs {needed}; {fix}")]
    LowerEnds {
        /// The device.
        device: String,
        /// How many were given.
        given: String,
        /// Its kind.
        kind: &'static str,
        /// How many it needs.
        needed: String,
        /// What to write.
        fix: String,
    },
    /// An address at which no server can listen.
    #[error("export \"{export}\": nbd = \"{text}\": {why}; write unix:PATH or tcp:HOST:PORT")]
    Address {
        /// The export.
        export: String,
        /// The address as written.
        text: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A directory that is none.
    #[error("mount \"{0}\": `at` names no directory; write at = \"/mnt/x\", or another one")]
    NoDirectory(String),
    /// A device under a mounted file system that something else may change.
    #[error("mount \"{mount}\": {other} may change \"{device}\" too, and a file system must be the only writer; {fix}")]
    SecondWriter {
        /// The mount.
        mount: String,
        /// The other writer.
        other: String,
        /// The device of the mount.
        device: String,
        /// What to write.
        fix: &'static str,
    },
    /// A device that no export reaches. A warning: the stack can be built.
    #[error("device \"{0}\" is used by nothing; export it, put a device on it, or remove it")]
    Unused(String),
}

impl Problem {
    pub(super) fn syntax(what: impl Into<String>, fix: impl Into<String>) -> Problem {
        Problem::Syntax { what: what.into(), fix: fix.into() }
    }

    pub(super) fn no_cache(word: &str) -> Problem {
        Problem::syntax(format!("\"{word}\" is no mode of a cache"), "write through, writeback or none")
    }

    pub(super) fn at(self, place: Location) -> TextError {
        TextError { place, problem: self }
    }
}

/// All that is wrong with a text, in its order; never empty. One line each.
#[derive(Clone, PartialEq, Debug)]
pub struct TextErrors(Vec<TextError>);

impl TextErrors {
    /// `Err` with everything that was found, in the order of the text, or `Ok` if that is nothing.
    pub(super) fn none(mut found: Vec<TextError>) -> Result<(), TextErrors> {
        found.sort_by_key(|error| error.place.line);
        if found.is_empty() { Ok(()) } else { Err(TextErrors(found)) }
    }

    /// The errors.
    pub fn list(&self) -> &[TextError] {
        &self.0
    }
}

impl fmt::Display for TextErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            let end = if at == 0 { "" } else { "\n" };
            write!(f, "{end}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for TextErrors {}
