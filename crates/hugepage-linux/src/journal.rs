//! Every decision with its reason as one line of JSON.

use std::io::{self, Write};

use esker_base::Time;
use serde_json::{Map, Value, json};

use esker_hugepage::manager::{Asker, Decision};
use esker_hugepage::view::RegionAddress;

/// Writes decisions.
pub struct Journal<W> {
    out: W,
    /// Nanoseconds from 1970 to the instant 0.
    start_ns: i128,
}

impl<W: Write> Journal<W> {
    /// For instants since `start_ns` nanoseconds after 1970.
    pub fn new(out: W, start_ns: i128) -> Journal<W> {
        Journal { out, start_ns }
    }

    /// Writes one.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&mut self, at: Time, decision: &Decision) -> io::Result<()> {
        let mut line = Map::new();
        let unix_s = (self.start_ns + i128::from(at.0)) as f64 / 1e9;
        line.insert("unix_s".to_string(), json!(unix_s));
        line.extend(fields(decision));
        writeln!(self.out, "{}", Value::Object(line))?;
        self.out.flush()
    }
}

/// A decision as a line of the log: what was done, then its fields.
pub(crate) fn text(decision: &Decision) -> String {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    let mut fields = fields(decision);
    let done = fields.remove("do").map(|done| shown(&done)).unwrap_or_default();
    let told = fields.iter().filter(|(_, value)| !value.is_null());
    told.fold(done, |text, (key, value)| format!("{text} {key}={}", shown(value)))
}

/// What a decision is and why, as fields.
fn fields(decision: &Decision) -> Map<String, Value> {
    let seconds = |time: &Time| time.0 as f64 / 1e9;
    let at = |place: &RegionAddress| format!("{:#x}", place.region.0 * esker_hugepage::REGION_BYTES);
    let value = match decision {
        Decision::Met(pid) => json!({ "do": "manage", "pid": pid.0 }),
        Decision::Lost(pid) => json!({ "do": "let_go", "pid": pid.0 }),
        Decision::Changed { place, promoted, used, asker, took } => json!({
            "do": if *promoted { "promote" } else { "demote" },
            "pid": place.pid.0, "address": at(place), "used_pages": used, "took_us": took.0 as f64 / 1e3,
            "because": match asker { Asker::Signal => "use_crossed_a_threshold", Asker::Scan => "background_scan" },
        }),
        Decision::Refused { place, refusal, again } => json!({
            "do": "nothing", "pid": place.pid.0, "address": at(place), "because": refusal.word(),
            "again_up_s": again.as_ref().map(seconds),
        }),
        Decision::Left { place, used, reason } => json!({
            "do": "nothing", "pid": place.pid.0, "address": at(place), "used_pages": used, "because": reason.word(),
        }),
        Decision::Sharing { pid, from, count, mergeable } => json!({
            "do": if *mergeable { "share" } else { "stop_sharing" }, "pid": pid.0,
            "address": at(&RegionAddress { pid: *pid, region: *from }), "regions": count,
            "because": if *mergeable { "not_hot" } else { "hot_or_to_be_promoted" },
        }),
        Decision::Excluded { pid, until } => json!({
            "do": "pass_over", "pid": pid.0, "until_up_s": seconds(until), "because": "nothing_to_promote_or_group_full",
        }),
        Decision::Greedy { greedy, fragmentation } => json!({
            "do": if *greedy { "huge_faults" } else { "base_faults" }, "fragmentation": fragmentation,
            "because": "fragmentation",
        }),
        Decision::Compacted { bytes, fragmentation } => json!({
            "do": "compact", "moved_bytes": bytes, "fragmentation": fragmentation, "because": "fragmentation",
        }),
        Decision::Resting { until, took } => json!({
            "do": "rest", "until_up_s": seconds(until), "because": "slow_promotion", "took_us": took.0 as f64 / 1e3,
        }),
        Decision::Starved { until, blocks } => json!({
            "do": "rest", "until_up_s": seconds(until), "because": "no_contiguity", "free_blocks": blocks,
        }),
    };
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("each decision is an object"),
    }
}

#[cfg(test)]
mod tests {
    use esker_base::Nanos;

    use super::*;
    use esker_hugepage::policy::Reason;
    use esker_hugepage::view::{ChangeError, Pid, Region};

    #[test]
    fn a_line_of_the_log_says_what_was_done_and_to_which_process() {
        assert_eq!(text(&Decision::Met(Pid(7))), "manage pid=7");
        let compacted = Decision::Compacted { bytes: 4096, fragmentation: 0.5 };
        assert_eq!(text(&compacted), "compact because=fragmentation fragmentation=0.5 moved_bytes=4096");
    }

    #[test]
    fn every_decision_is_one_line_with_what_and_why() {
        let place = RegionAddress { pid: Pid(7), region: Region(3) };
        let decisions = [
            Decision::Changed { place, promoted: true, used: 461, asker: Asker::Signal, took: Nanos::micros(500) },
            Decision::Refused { place, refusal: ChangeError::Pinned, again: Some(Time(1_500_000_000)) },
            Decision::Left { place, used: 9, reason: Reason::Sparse },
            Decision::Excluded { pid: Pid(7), until: Time(2_000_000_000) },
        ];
        let mut out = Vec::new();
        let mut journal = Journal::new(&mut out, 1_000_000_000_000);
        decisions.iter().for_each(|decision| journal.write(Time(500_000_000), decision).unwrap());
        let lines: Vec<Value> =
            String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let told = |at: usize, key: &str| lines[at][key].clone();
        assert_eq!(
            (told(0, "unix_s"), told(0, "do"), told(0, "address")),
            (json!(1000.5), json!("promote"), json!("0x600000"))
        );
        assert_eq!((told(1, "because"), told(1, "again_up_s")), (json!("pinned"), json!(1.5)));
        assert_eq!((told(2, "because"), told(2, "used_pages")), (json!("sparse"), json!(9)));
        assert_eq!((lines.len(), told(3, "do")), (4, json!("pass_over")));
    }
}
