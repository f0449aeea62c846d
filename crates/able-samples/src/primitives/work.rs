//! The extension profiler: how long each extension of a stack works, and how many requests it creates.
//!
//! The stack counts ([`esker_stack::Watching::work`]); counting can be switched on and off while it runs and costs
//! nothing while it is off. Requests that are created are counted always.

use esker_base::Nanos;
use esker_stack::{Stack, Watching, Work};

/// Starts or stops counting, and leaves what else is watched as it is.
pub fn count(stack: &Stack, on: bool) {
    let what = Watching { work: on, ..stack.watching() };
    stack.watch(what).expect("the arrangement stands already");
}

/// What an extension did, since counting began; none if there is no such layer.
pub fn of(stack: &Stack, name: &str) -> Option<Work> {
    stack.stats().into_iter().find(|part| part.name == name).map(|part| part.work)
}

/// Mean time that one request costs in an extension; none before the first.
pub fn mean_time(work: &Work) -> Option<Nanos> {
    work.time.0.checked_div(work.requests).map(Nanos)
}

/// Mean number of requests that an extension creates for one; none before the first.
pub fn mean_generated(work: &Work) -> Option<f64> {
    (work.requests > 0).then(|| work.generated as f64 / work.requests as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_totals_over_requests() {
        let work = Work { requests: 4, time: Nanos(100), generated: 6 };
        assert_eq!((mean_time(&work), mean_generated(&work)), (Some(Nanos(25)), Some(1.5)));
        assert_eq!((mean_time(&Work::default()), mean_generated(&Work::default())), (None, None));
    }
}
