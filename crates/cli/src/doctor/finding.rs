//! What a check says.

use serde_json::{Value, json};

/// How a thing is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It works.
    Ok,
    /// A verb does less here, or does it only for root.
    Note,
    /// A verb needs it, and this machine lacks it.
    Missing,
}

impl State {
    /// Its word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Note => "note",
            State::Missing => "missing",
        }
    }
}

/// What a check is about.
pub struct Subject {
    /// Its name in the table.
    pub check: &'static str,
    /// The verbs for which it matters.
    pub verbs: &'static [&'static str],
}

/// What a check has found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The name of the check.
    pub check: &'static str,
    /// How the thing is.
    pub state: State,
    /// The path that was looked at, if the user named it.
    pub path: Option<String>,
    /// What was found.
    pub found: String,
    /// The command or setting that helps, unless all is well.
    pub advice: Option<String>,
    /// The verbs for which it matters.
    pub verbs: &'static [&'static str],
}

impl Subject {
    /// It works.
    pub fn ok(&self, found: impl Into<String>) -> Finding {
        self.finding(State::Ok, found.into(), None)
    }

    /// A verb does less without it, or does it only for root.
    pub fn note(&self, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        self.finding(State::Note, found.into(), Some(advice.into()))
    }

    /// A verb needs it.
    pub fn missing(&self, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        self.finding(State::Missing, found.into(), Some(advice.into()))
    }

    /// A file of the kernel cannot be read, as in a container that hides it.
    pub fn unread(&self, file: &str) -> Finding {
        self.note(format!("unknown: /{file} cannot be read"), "let this process see /proc and /sys of the machine")
    }

    fn finding(&self, state: State, found: String, advice: Option<String>) -> Finding {
        Finding { check: self.check, state, path: None, found, advice, verbs: self.verbs }
    }
}

impl Finding {
    /// The same, of a path.
    pub fn at(self, path: &str) -> Finding {
        Finding { path: Some(path.to_string()), ..self }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "check": self.check, "state": self.state.word(), "path": self.path, "found": self.found,
            "do": self.advice, "verbs": self.verbs,
        })
    }
}
