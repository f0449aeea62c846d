//! What a replayed program spends its time with. Predictions have their known errors by it, because a wait for a disk,
//! a wait for durable data and a computation are predicted with different errors.

use std::fmt;

use esker_trace_calls::call::Category;
use serde::{Deserialize, Serialize};

use super::measure::Span;
use super::text::percent;

/// What takes the largest part of a program's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitClass {
    /// Calls that make data durable.
    Syncs,
    /// Calls that read data or metadata.
    Reads,
    /// All else: computation, and calls that leave the device alone.
    Computes,
}

impl WaitClass {
    /// All classes.
    pub const ALL: [WaitClass; 3] = [WaitClass::Syncs, WaitClass::Reads, WaitClass::Computes];

    /// The name in reports and in the table of known errors.
    pub fn name(self) -> &'static str {
        match self {
            WaitClass::Syncs => "syncs",
            WaitClass::Reads => "reads",
            WaitClass::Computes => "computes",
        }
    }
}

/// Shares of the elapsed time of a replay; they sum to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Behaviour {
    /// At least one call is under way that makes data durable.
    pub syncs: f64,
    /// None of those, but one that reads data or metadata and waits for no other thread.
    pub reads: f64,
    /// None of both.
    pub computes: f64,
}

impl Behaviour {
    /// Of calls within an elapsed time, in nanoseconds. A time without calls is computation.
    pub(crate) fn of(spans: &[Span], elapsed_ns: u64) -> Behaviour {
        let mut events: Vec<(u64, WaitClass, i64)> = Vec::new();
        for (span, class) in spans.iter().filter_map(|span| Some((span, class_of(span)?))) {
            events.extend([(span.issue_ns, class, 1), (span.done_ns, class, -1)]);
        }
        events.sort_unstable();
        let (mut syncing, mut reading, mut since) = (0, 0, 0);
        let (mut syncs_ns, mut reads_ns) = (0, 0);
        for (at, class, change) in events {
            match (syncing, reading) {
                (0, 0) => {}
                (0, _) => reads_ns += at - since,
                (_, _) => syncs_ns += at - since,
            }
            since = at;
            *(if class == WaitClass::Syncs { &mut syncing } else { &mut reading }) += change;
        }
        let [syncs, reads] = [syncs_ns, reads_ns].map(|ns: u64| ns as f64 / elapsed_ns.max(1) as f64);
        Behaviour { syncs, reads, computes: 1.0 - syncs - reads }
    }

    /// The largest share.
    pub fn class(&self) -> WaitClass {
        let shares = [self.syncs, self.reads, self.computes].into_iter().zip(WaitClass::ALL);
        shares.max_by(|one, other| one.0.total_cmp(&other.0)).expect("there are classes").1
    }
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [syncs, reads, computes] = [self.syncs, self.reads, self.computes].map(percent);
        write!(
            f,
            "waits for syncs {syncs}, reads {reads}, computes {computes} of the time: class {}",
            self.class().name()
        )
    }
}

/// Whether a call waits for durable data or for data; `None` of others, and of those that wait for threads.
fn class_of(span: &Span) -> Option<WaitClass> {
    match span.category {
        _ if span.waits => None,
        Category::Sync => Some(WaitClass::Syncs),
        Category::Read
        | Category::Copy
        | Category::Stat
        | Category::Open
        | Category::Directory
        | Category::Attributes => Some(WaitClass::Reads),
        Category::Write
        | Category::Close
        | Category::Names
        | Category::Asynchronous
        | Category::Allocation
        | Category::Hints
        | Category::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(category: Category, issue_ns: u64, done_ns: u64) -> Span {
        Span { call: "call", category, waits: false, issue_ns, done_ns, traced_ns: 1 }
    }

    #[test]
    fn each_instant_has_one_class_and_syncs_come_first() {
        let spans = [
            span(Category::Sync, 100, 300),
            span(Category::Read, 200, 600),
            span(Category::Open, 250, 400),
            span(Category::Write, 600, 900),
            Span { waits: true, ..span(Category::Read, 0, 1000) },
        ];
        let behaviour = Behaviour::of(&spans, 1000);
        assert_eq!(behaviour, Behaviour { syncs: 0.2, reads: 0.3, computes: 0.5 });
        assert_eq!(behaviour.class(), WaitClass::Computes);
        assert_eq!(Behaviour::of(&spans[..3], 600).class(), WaitClass::Reads);
        assert_eq!(Behaviour::of(&spans[..1], 300).class(), WaitClass::Syncs);
        assert_eq!(Behaviour::of(&[], 0).class(), WaitClass::Computes);
    }
}
