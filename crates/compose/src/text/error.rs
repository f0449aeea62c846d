//! What can be wrong with a declaration. Each message says what and how to mend it; [`TextError`] adds where.

use std::fmt;

/// Something wrong, and where.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct TextError {
    /// The text's name.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// What, and how to mend it.
    pub problem: Problem,
}

/// What can be wrong.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Problem {
    /// More text than is read.
    #[error("the text has {bytes} bytes, and at most {max} are read; make it shorter")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// What is read.
        max: usize,
    },
    /// The TOML library's own finding, or a key or value that does not belong there.
    #[error("{0}; see `esker help stack compose` for the form")]
    Form(String),
    /// A name that is none.
    #[error("\"{0}\" is no name; use letters, digits, _, - and ., at most 64 of them, and do not begin with -")]
    UnsoundName(String),
    /// An undeclared volume.
    #[error("{what}: there is no volume \"{name}\"; {advice}")]
    UnknownVolume {
        /// What names it.
        what: String,
        /// The name.
        name: String,
        /// The nearest volume, or all of them.
        advice: String,
    },
    /// An undeclared extension.
    #[error("{what}: there is no extension \"{name}\"; {advice}")]
    UnknownExtension {
        /// What names it.
        what: String,
        /// The name.
        name: String,
        /// The nearest extension, or all of them.
        advice: String,
    },
    /// A property that does not exist.
    #[error("extension \"{extension}\": there is no property \"{name}\"; choose from accessor, mutator, generator")]
    UnknownProperty {
        /// The extension.
        extension: String,
        /// The word.
        name: String,
    },
    /// A goal that no extension serves.
    #[error("no extension serves the goal \"{name}\"; {advice}")]
    UnknownGoal {
        /// The goal.
        name: String,
        /// The nearest goal, or all of them.
        advice: String,
    },
    /// A domain without volumes.
    #[error("extension \"{extension}\": its {which} domain is empty; write {which} = [\"VOLUME\", ...]")]
    EmptyDomain {
        /// The extension.
        extension: String,
        /// Input or output.
        which: &'static str,
    },
    /// A map that the domains or properties deny.
    #[error("extension \"{extension}\": {what}; {fix}")]
    Route {
        /// The extension.
        extension: String,
        /// What is wrong.
        what: String,
        /// How to mend it.
        fix: String,
    },
    /// Something about a layer of the stack's text that follows from that text.
    #[error("extension \"{extension}\" is a layer of the stack here, from which its {key} follows; remove `{key}`")]
    Follows {
        /// The layer.
        extension: String,
        /// The key.
        key: &'static str,
    },
    /// The same thing twice in a list.
    #[error("{what} names \"{name}\" twice; remove one")]
    Twice {
        /// The list.
        what: String,
        /// What stands twice.
        name: String,
    },
    /// Something with a limit.
    #[error("{count} {what}, and at most {max} can be reasoned about; leave some out")]
    TooMany {
        /// What.
        what: &'static str,
        /// How many.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// Constraints that no order keeps.
    #[error("constraints: {what}; {fix}")]
    Contradiction {
        /// What contradicts what.
        what: String,
        /// How to mend it.
        fix: String,
    },
}

/// All that is wrong with a text, in its order; never empty. One line each.
#[derive(Clone, PartialEq, Debug)]
pub struct TextErrors(Vec<TextError>);

impl TextErrors {
    /// `Err` with everything that was found, in the order of the text, or `Ok` if that is nothing.
    pub(super) fn none(mut found: Vec<TextError>) -> Result<(), TextErrors> {
        found.sort_by_key(|error| error.line);
        if found.is_empty() { Ok(()) } else { Err(TextErrors(found)) }
    }

    pub(super) fn one(file: &str, line: usize, problem: Problem) -> TextErrors {
        TextErrors(vec![TextError { file: file.to_string(), line, problem }])
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
