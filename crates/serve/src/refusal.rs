//! Why a command was not done: what is wrong, where, and what to do, each in its place for programs.

use std::fmt;

use esker_block::BioError;
use esker_stack::{FlushError, LayerOrderError, LiveError, QuiesceError, ResizeError};
use serde::{Deserialize, Serialize};

use crate::command::CommandError;
use crate::lines::TooLong;

/// What an answer says about a command that was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct Refusal {
    /// For programs: one of the words in the documentation.
    pub code: String,
    /// What is wrong.
    pub what: String,
    /// Where: a name of the stack or a place in a text. None if it is the command as a whole.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What to do.
    #[serde(default, rename = "do", skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.what)?;
        // Behind whole sentences the advice is one more.
        let mark = if self.what.ends_with('.') { " Advice:" } else { ";" };
        self.advice.as_ref().map_or(Ok(()), |advice| write!(f, "{mark} {advice}"))
    }
}

impl Refusal {
    /// From a message as all of Esker writes them: what is wrong and, behind the first semicolon, what to do.
    pub fn new(code: &str, message: &str) -> Refusal {
        let (what, advice) = message.split_once("; ").map_or((message, None), |(what, advice)| (what, Some(advice)));
        Refusal { code: code.into(), what: what.into(), place: None, advice: advice.map(String::from) }
    }

    /// The same with other words, which are not cut.
    pub fn with_what(self, what: String) -> Refusal {
        Refusal { what, ..self }
    }

    /// The same; `place` says where.
    pub fn at(self, place: &str) -> Refusal {
        Refusal { place: Some(place.into()), ..self }
    }
}

impl From<LiveError> for Refusal {
    fn from(error: LiveError) -> Refusal {
        let code = match &error {
            LiveError::Unknown(_) => "unknown_name",
            LiveError::Build(build) => return Refusal::new("bad_layer", &build.what).at(&build.at.to_string()),
            LiveError::NotTransparent { .. } => "not_transparent",
            LiveError::NotAChain(_) => "not_a_chain",
            LiveError::NotSpared(..) => "not_spared",
            LiveError::NotMember(..) => "not_member",
            LiveError::Busy => "busy",
            LiveError::Unsettled(_) => "unsettled",
            LiveError::TimedOut { .. } => "timed_out",
        };
        Refusal::new(code, &error.to_string())
    }
}

impl From<LayerOrderError> for Refusal {
    fn from(error: LayerOrderError) -> Refusal {
        let code = match &error {
            LayerOrderError::Unknown(_) => "unknown_name",
            LayerOrderError::Unusable(_) => "unusable",
            LayerOrderError::Ended => "stopping",
            LayerOrderError::Refused(name, why) => return Refusal::new("refused", &why.to_string()).at(name),
        };
        Refusal::new(code, &error.to_string())
    }
}

impl From<ResizeError> for Refusal {
    fn from(error: ResizeError) -> Refusal {
        match error {
            ResizeError::Live(error) => error.into(),
            ResizeError::Refused(BioError::Invalid(why)) => Refusal::new("refused", &why),
            ResizeError::Refused(error) => error.into(),
            ResizeError::Used(_) => Refusal::new("refused", &error.to_string()),
            ResizeError::Ended => Refusal::new("stopping", &error.to_string()),
        }
    }
}

impl From<FlushError> for Refusal {
    fn from(error: FlushError) -> Refusal {
        let advice = "what was written since its last successful flush may be lost; see the log for the cause";
        let what = format!("could not be flushed: {}", error.error);
        Refusal { advice: Some(advice.into()), ..Refusal::new("flush_failed", &what) }.at(&error.device)
    }
}

impl From<QuiesceError> for Refusal {
    fn from(error: QuiesceError) -> Refusal {
        match error {
            QuiesceError::Flush(error) => error.into(),
            QuiesceError::Busy => Refusal::new("busy", &error.to_string()),
            QuiesceError::TimedOut { .. } => {
                let advice = "requests go on; try again under less load, or with a longer patience";
                Refusal { advice: Some(advice.into()), ..Refusal::new("timed_out", &error.to_string()) }
            }
        }
    }
}

impl From<CommandError> for Refusal {
    fn from(error: CommandError) -> Refusal {
        let code = match &error {
            CommandError::NotACommand(_) | CommandError::Renamed { .. } => "bad_command",
            CommandError::Text(_) | CommandError::NotOne { .. } | CommandError::SaysOn(_) => "bad_layer",
        };
        Refusal::new(code, &error.to_string())
    }
}

impl From<TooLong> for Refusal {
    fn from(error: TooLong) -> Refusal {
        Refusal::new("too_long", &error.to_string())
    }
}

impl From<BioError> for Refusal {
    fn from(error: BioError) -> Refusal {
        let code = match &error {
            BioError::Unsupported(_) => "unsupported",
            BioError::ReadOnly(_) => "read_only",
            BioError::NoSpace(_) => "no_space",
            BioError::Invalid(_) => "bad_range",
            BioError::Latched(_) => "latched",
            BioError::Io(_) | BioError::Corrupt(_) | BioError::Gone(_) => "failed",
        };
        Refusal::new(code, &error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_reads_like_the_message_that_it_was_made_from() {
        let unknown = Refusal::from(LiveError::Unknown("x".into()));
        assert_eq!((unknown.code.as_str(), unknown.what.as_str()), ("unknown_name", "there is no \"x\" in this stack"));
        assert_eq!(unknown.advice.as_deref(), Some("`esker stack dump` shows its names"));
        assert_eq!(unknown.to_string(), LiveError::Unknown("x".into()).to_string());
        let placed = Refusal::new("read_only", "no changes").at("vol");
        assert_eq!(placed.to_string(), "vol: no changes");
        let text = serde_json::to_string(&placed).unwrap();
        assert_eq!(text, r#"{"code":"read_only","what":"no changes","where":"vol"}"#);
        assert_eq!(serde_json::from_str::<Refusal>(&text).unwrap(), placed);
    }
}
