//! Requests that are played against one stack: as `esker try` does it, or one by one.

use std::rc::Rc;
use std::sync::Arc;

use esker_base::{Nanos, Time};
use esker_block::{Bio, Buf, Tag};
use esker_lab_kit::rig;
use esker_predict::{Candidate, ComparisonPlan, Load, SpeedChoice, Trace, Watch};
use esker_rt::Rt;
use esker_stack::{Export, Stack};
use esker_trace_block::{Op, Record};

/// Plays the requests on `stack`, at the speed that they have.
pub(crate) fn plan(stack: &str, seed: u64, load: Load, records: Vec<Record>) -> ComparisonPlan {
    let candidate = Candidate::of("vol", stack, rig::spec(stack));
    ComparisonPlan {
        candidates: vec![candidate],
        seed,
        load,
        speed: SpeedChoice::Factor(1.0),
        ..ComparisonPlan::of(vec![Trace::from_records("requests", records)])
    }
}

/// Sends a read or write to an export at its time. Answers how long it waited for its answer.
///
/// # Panics
/// If it fails: an experiment then counts nothing.
pub(crate) async fn asked(vol: &Export, rt: &Rt, record: &Record) -> Nanos {
    rt.sleep_until(Time(record.at.0)).await;
    let begun = rt.now();
    let buf = Buf::described(record.len as usize, 1);
    let bio = if record.op == Op::Read { Bio::read(record.offset, buf) } else { Bio::write(record.offset, buf) };
    let done = vol.request(bio.tagged(Tag { pid: record.who, ..Tag::default() })).await;
    assert!(done.result.is_ok(), "a request of the experiment failed: {:?}", done.result);
    rt.now().since(begun)
}

/// A statistic of a part of the stack.
///
/// # Panics
/// If there is none of that name.
pub(crate) fn stat(stack: &Rc<Stack>, part: &str, name: &str) -> f64 {
    let stats = stack.stats();
    let of_part = stats.iter().find(|found| found.name == part);
    let found = of_part.and_then(|found| found.stats.iter().find(|stat| stat.name == name));
    found.map_or_else(|| panic!("{part} has no {name}"), |stat| stat.value)
}

/// Shows nothing of the progress.
pub(crate) fn silent() -> Watch {
    Arc::new(|_| {})
}
