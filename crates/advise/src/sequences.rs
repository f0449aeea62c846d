//! Where a reorganised disk has pages: what the layer's own analyzer and planner make of the columns.

use std::collections::BTreeMap;

use esker_base::{ByteRange, Nanos, Time};
use esker_layer_reorg::{AccessRecord, Analyzer, Bounds, CHUNK, Slot, WEIGHT_MIN, assign, plan};

use crate::columns::{Columns, LINES, NEVER};

/// Requests of a process with a longer pause between them do not follow each other: the layer's default.
const FOLLOWS: Nanos = Nanos::secs(1);
/// All requests are those of one process: a graph for each stream takes five times as long.
const PROCESS: u32 = 1;

/// For each row the slot of its first page in the plan that is in force, or [`NEVER`], in the second of two passes. A
/// plan is made after each interval, in nanoseconds, and has fewer than `slots` pages.
pub(crate) fn planned_slots(columns: &Columns, interval_ns: u64, slots: Slot) -> Vec<u32> {
    let mut analyzer = Analyzer::new(FOLLOWS, Bounds::default());
    let mut planned: BTreeMap<u64, Slot> = BTreeMap::new();
    let mut of_rows = Vec::with_capacity(columns.len());
    for pass in 0..2 {
        of_rows.clear();
        for rows in columns.at.chunk_by(|a, b| a / interval_ns == b / interval_ns) {
            let begin = of_rows.len();
            let pages = columns.offset[begin..begin + rows.len()].iter().map(|offset| offset / LINES[0]);
            of_rows.extend(pages.map(|page| planned.get(&page).copied().unwrap_or(NEVER)));
            learn(&mut analyzer, columns, begin..of_rows.len(), pass * columns.span_ns());
            let chains = plan(&analyzer.master(), u64::from(slots.saturating_sub(1)), WEIGHT_MIN);
            analyzer.age();
            planned = assign(&chains, &planned, slots);
        }
    }
    of_rows
}

fn learn(analyzer: &mut Analyzer, columns: &Columns, rows: std::ops::Range<usize>, begun: u64) {
    let record = |row: usize| {
        let range = ByteRange::new(columns.offset[row], u64::from(columns.bytes[row])).expect("it is on the volume");
        AccessRecord::of(Time(begun + columns.at[row]), PROCESS, range, columns.is_write[row])
    };
    let records: Vec<AccessRecord> = rows.filter_map(record).collect();
    // The analyzer bounds its memory behind each chunk.
    records.chunks(CHUNK).for_each(|chunk| analyzer.learn(chunk));
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL_NS: u64 = 2_000_000_000;

    /// Reads of these pages, one each 100 ms.
    fn columns(pages: impl Iterator<Item = u64>) -> Columns {
        let offset: Vec<u64> = pages.map(|page| page * LINES[0]).collect();
        let at = (0..offset.len() as u64).map(|row| row * 100_000_000).collect();
        let (bytes, is_write) = (vec![LINES[0] as u32; offset.len()], vec![false; offset.len()]);
        Columns { at, offset, bytes, is_write, ..Columns::default() }
    }

    #[test]
    fn what_is_repeated_lies_in_its_order_and_the_rest_stays() {
        let round = [70, 30, 50, 10];
        let slots = planned_slots(&columns((0..80).map(|row| round[row % 4])), INTERVAL_NS, 100);
        assert!(slots.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count() >= 60, "{slots:?}");
        let slots = planned_slots(&columns((0..80).map(|row| row * 3)), INTERVAL_NS, 100);
        assert!(slots.iter().all(|slot| *slot == NEVER), "{slots:?}");
    }

    #[test]
    fn a_plan_has_no_more_pages_than_there_are_slots() {
        let mut slots = planned_slots(&columns((0..80).map(|row| row % 8 * 5)), INTERVAL_NS, 4);
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots, [0, 1, 2, NEVER]);
    }
}
