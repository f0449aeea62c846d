//! How requests come: at their recorded times, or each after the answer to one before it.

use esker_base::Nanos;
use serde::{Serialize, Serializer};

use crate::error::PredictError;

/// Most clients of one volume in closed loop.
pub const DEPTH_MAX: u32 = 4096;

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
pub enum Load {
    /// At their recorded times, divided by the speed, however slow the answers are.
    #[default]
    Open,
    /// As many clients on each volume as `depth` says, each with one request at a time; recorded times do not matter.
    Closed {
        /// Requests in flight on each volume.
        depth: u32,
        /// What a client waits between an answer and its next request.
        #[serde(rename = "think_ns", serialize_with = "as_nanos")]
        think: Nanos,
    },
}

fn as_nanos<S: Serializer>(span: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    span.0.serialize(serializer)
}

impl Load {
    /// # Errors
    /// A depth that is none.
    pub(crate) fn check(&self) -> Result<(), PredictError> {
        match self {
            Load::Closed { depth, .. } if *depth == 0 || *depth > DEPTH_MAX => Err(PredictError::Depth(*depth)),
            _ => Ok(()),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        match self {
            Load::Open => "open loop: requests come at their recorded times".to_string(),
            Load::Closed { depth, think: Nanos::ZERO } => {
                format!("closed loop: {depth} requests in flight on each volume")
            }
            Load::Closed { depth, think } => {
                format!("closed loop: {depth} clients on each volume, each waits {think} after an answer")
            }
        }
    }
}
