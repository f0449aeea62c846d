//! How requests come: at their recorded times, at a steady rate, or each after the answer to one before it.

use esker_base::Nanos;
use serde::{Serialize, Serializer};

use crate::error::PredictError;

/// Most clients of one trace in closed loop.
pub const DEPTH_MAX: u32 = 4096;

/// Most requests a second at a steady rate.
pub const RATE_MAX: f64 = 1e9;

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
pub enum Load {
    /// At their recorded times, divided by the speed, however slow the answers are.
    #[default]
    Open,
    /// Evenly, so many of each trace a second, however slow the answers are; recorded times do not matter.
    Steady {
        /// Requests of each trace a second.
        per_s: f64,
    },
    /// As many clients for each trace as `depth` says, each with one request at a time; recorded times do not matter.
    Closed {
        /// Requests in flight for each trace.
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
    /// One client, which sends each request after the answer to the one before.
    pub(crate) const ONE_CLIENT: Load = Load::Closed { depth: 1, think: Nanos::ZERO };

    /// Whether requests come however slow the answers are.
    pub fn is_open(&self) -> bool {
        !matches!(self, Load::Closed { .. })
    }

    /// # Errors
    /// A depth or rate that is none.
    pub(crate) fn check(&self) -> Result<(), PredictError> {
        match self {
            Load::Closed { depth, .. } if *depth == 0 || *depth > DEPTH_MAX => Err(PredictError::Depth(*depth)),
            Load::Steady { per_s } if !(*per_s > 0.0 && *per_s <= RATE_MAX) => Err(PredictError::Rate(*per_s)),
            Load::Open | Load::Steady { .. } | Load::Closed { .. } => Ok(()),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        match self {
            Load::Open => "open loop: requests come at their recorded times".to_string(),
            Load::Steady { per_s } => format!("open loop: {per_s} requests of each trace a second"),
            Load::Closed { depth: 1, think: Nanos::ZERO } => {
                "closed loop: each request is sent after the answer to the one before".to_string()
            }
            Load::Closed { depth, think: Nanos::ZERO } => {
                format!("closed loop: {depth} requests in flight for each trace")
            }
            Load::Closed { depth, think } => {
                format!("closed loop: {depth} clients for each trace, each waits {think} after an answer")
            }
        }
    }
}
