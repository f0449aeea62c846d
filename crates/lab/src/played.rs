//! Requests that are played against one stack, as `esker try` does it.

use std::sync::Arc;

use esker_lab_kit::rig;
use esker_predict::{Candidate, ComparisonPlan, Load, SpeedChoice, Trace, Watch};
use esker_trace_block::Record;

/// Plays the requests on `stack`, at the speed that they have.
pub(crate) fn plan(stack: &str, seed: u64, load: Load, records: Vec<Record>) -> ComparisonPlan {
    let candidate = Candidate { name: "vol".to_string(), what: stack.to_string(), spec: rig::spec(stack) };
    ComparisonPlan {
        candidates: vec![candidate],
        seed,
        load,
        speed: SpeedChoice::Factor(1.0),
        ..ComparisonPlan::of(vec![Trace::from_records("requests", records)])
    }
}

/// Shows nothing of the progress.
pub(crate) fn silent() -> Watch {
    Arc::new(|_, _| {})
}
