//! Graphs, plans and layouts without a device.

use std::collections::{BTreeMap, BTreeSet};

use esker_base::{ByteRange, Nanos, Time};
use proptest::prelude::*;

use crate::{
    AccessGraph, AccessRecord, Analyzer, Bounds, Heads, LONG_RUN, ONE, PAGE, PageRun, Plan, Slot, Vertex, assign, plan,
    steps,
};

const ASSOC: Nanos = Nanos::secs(1);

fn record(ms: u64, who: u32, page: u64, pages: u16) -> AccessRecord {
    AccessRecord { at: Time(ms * 1_000_000), page, who, pages, changes: false }
}

fn analyzer() -> Analyzer {
    Analyzer::new(ASSOC, Bounds::default())
}

type Shown = Vec<(u64, u64, u32)>;

/// Vertices as (first page, page behind the last, count), edges as (from, to, weight), in whole occurrences.
fn shown(graph: &AccessGraph) -> (Shown, Shown) {
    let vertices = graph.vertices().iter().map(|(first, Vertex { end, count })| (*first, *end, count / ONE));
    let edges = graph.edges().iter().map(|((from, to), weight)| (*from, *to, weight / ONE));
    (vertices.collect(), edges.collect())
}

/// Item 13.
#[test]
fn two_processes_give_the_expected_graphs_and_master_graph() {
    let mut analyzer = analyzer();
    analyzer.learn(&[
        // Process 1 twice reads 0-7, then 100-103.
        record(0, 1, 0, 8),
        record(5, 2, 50, 2),
        record(10, 1, 100, 4),
        record(20, 1, 0, 8),
        record(30, 1, 100, 4),
        // Process 2 reads a part of what process 1 reads as a whole.
        record(40, 2, 4, 4),
        // Process 1 cuts its own vertex 100-103, and goes on from the last part.
        record(50, 1, 102, 4),
        record(60, 1, 200, 1),
        // Too late to follow.
        record(1_061, 1, 0, 8),
    ]);
    let first = shown(analyzer.process(1).unwrap());
    assert_eq!(first.0, [(0, 8, 3), (100, 102, 2), (102, 104, 3), (104, 106, 1), (200, 201, 1)]);
    assert_eq!(
        first.1,
        [(0, 100, 2), (100, 102, 2), (102, 0, 1), (102, 102, 1), (102, 104, 1), (104, 200, 1)],
        "in-edges of a cut vertex go to its first part, out-edges leave from its last"
    );
    let second = shown(analyzer.process(2).unwrap());
    assert_eq!(second, (vec![(4, 8, 1), (50, 52, 1)], vec![(50, 4, 1)]));
    let master = shown(&analyzer.master());
    let parts = [(0, 4, 3), (4, 8, 4), (50, 52, 1), (100, 102, 2), (102, 104, 3), (104, 106, 1), (200, 201, 1)];
    assert_eq!(master.0, parts);
    let edges =
        [(0, 4, 3), (4, 100, 2), (50, 4, 1), (100, 102, 2), (102, 0, 1), (102, 102, 1), (102, 104, 1), (104, 200, 1)];
    assert_eq!(master.1, edges);
}

#[test]
fn weights_fade_and_light_ones_go_first() {
    let mut analyzer = Analyzer::new(ASSOC, Bounds { vertices: 4, edges: 100, processes: 2 });
    analyzer.learn(&[record(0, 1, 0, 1), record(1, 1, 10, 1), record(2, 1, 0, 1), record(3, 1, 10, 1)]);
    for _ in 0..5 {
        analyzer.age();
    }
    assert_eq!(analyzer.process(1).unwrap().vertices()[&0].count, 1, "two occurrences, halved five times");
    analyzer.age();
    assert!(analyzer.process(1).is_none());
    analyzer.learn(&[record(4, 1, 0, 1), record(5, 1, 0, 1)]);
    analyzer.learn(&(0..5).map(|page| record(6, 1, 10 + page, 1)).collect::<Vec<_>>());
    assert_eq!(shown(analyzer.process(1).unwrap()).0, [(0, 1, 2)]);
    analyzer.learn(&[record(7, 2, 5, 1), record(8, 3, 6, 1)]);
    assert!(analyzer.process(1).is_none(), "the process that was silent for longest");
}

/// All requests of a process at once: every border cuts, and a weight is a number of requests.
fn brute(records: &[AccessRecord]) -> AccessGraph {
    let borders: BTreeSet<u64> = records.iter().flat_map(|r| [r.page, r.end()]).collect();
    let parts = |r: &AccessRecord| borders.range(r.page..r.end()).copied().collect::<Vec<_>>();
    let mut graph = AccessGraph::default();
    // Each border first becomes one by itself, so that no cut happens later.
    let mut last: BTreeMap<u32, (u64, Time)> = BTreeMap::new();
    for r in records {
        let before = last.get(&r.who).filter(|(_, at)| r.at.since(*at) <= ASSOC).map(|(last, _)| *last);
        let mut before = before;
        for part in parts(r) {
            let end = *borders.range(part + 1..).next().unwrap();
            graph.note(part, end, before);
            before = Some(part);
        }
        last.insert(r.who, (before.unwrap(), r.at));
    }
    graph
}

fn records() -> impl Strategy<Value = Vec<AccessRecord>> {
    let one = (1u32..4, 0u64..40, 1u16..9, prop_oneof![4 => 1u64..500, 1 => 900u64..1_200]);
    prop::collection::vec(one, 1..60).prop_map(|raw| {
        let mut ms = 0;
        raw.into_iter()
            .map(|(who, page, pages, gap)| {
                ms += gap;
                record(ms, who, page, pages)
            })
            .collect()
    })
}

/// The order of a plan, page by page.
fn order(plan: &Plan) -> Vec<u64> {
    plan.iter().flatten().flat_map(|run| run.page..run.page + run.pages).collect()
}

proptest! {
    #[test]
    fn graphs_are_those_of_all_requests_at_once(records in records()) {
        let mut analyzer = analyzer();
        records.chunks(7).for_each(|some| analyzer.learn(some));
        for who in 1..4 {
            let of_one: Vec<_> = records.iter().filter(|r| r.who == who).copied().collect();
            prop_assert_eq!(analyzer.process(who).map(shown), (!of_one.is_empty()).then(|| shown(&brute(&of_one))));
        }
        prop_assert_eq!(shown(&analyzer.master()), shown(&brute(&records)));
    }

    /// Item 14.
    #[test]
    fn plans_have_each_page_once_and_are_never_too_large(records in records(), pages_max in 0u64..60) {
        let mut analyzer = analyzer();
        analyzer.learn(&records);
        let master = analyzer.master();
        let planned = order(&plan(&master, pages_max, ONE));
        let once: BTreeSet<u64> = planned.iter().copied().collect();
        prop_assert_eq!(once.len(), planned.len());
        prop_assert!(planned.len() as u64 <= pages_max);
        prop_assert_eq!(planned, order(&brute_plan(&master, pages_max, ONE)));
    }

    #[test]
    fn steps_lead_from_any_layout_to_any_other(old in layout(), new in layout()) {
        const SPARE: Slot = 99;
        let steps = steps(&old, &new, SPARE, |_| true);
        let mut slots: BTreeMap<Slot, u64> = old.iter().map(|(page, slot)| (*slot, *page)).collect();
        for page in &steps.out {
            prop_assert_eq!(slots.remove(&old[page]), Some(*page));
        }
        for round in &steps.moves {
            for one in round {
                prop_assert_eq!(slots.get(&one.from), Some(&one.page));
                prop_assert!(!slots.contains_key(&one.to), "a round moves to slots that are free before it");
            }
            for one in round {
                slots.remove(&one.from);
                prop_assert_eq!(slots.insert(one.to, one.page), None);
            }
        }
        for (page, slot) in &steps.fetched {
            prop_assert_eq!(slots.insert(*slot, *page), None);
        }
        let reached: BTreeMap<u64, Slot> = slots.into_iter().map(|(slot, page)| (page, slot)).collect();
        prop_assert_eq!(reached, new);
    }

    #[test]
    fn slots_of_a_plan_are_apart_and_a_plan_that_stays_moves_nothing(records in records(), reads in 1u32..60) {
        let mut analyzer = analyzer();
        analyzer.learn(&records);
        let planned = plan(&analyzer.master(), u64::from(reads) - 1, ONE);
        let slots = assign(&planned, &BTreeMap::new(), reads);
        prop_assert_eq!(slots.keys().copied().collect::<BTreeSet<_>>(), order(&planned).into_iter().collect());
        let apart: BTreeSet<Slot> = slots.values().copied().collect();
        prop_assert!(apart.len() == slots.len() && apart.iter().all(|slot| *slot < reads - 1));
        prop_assert_eq!(assign(&planned, &slots, reads), slots);
    }
}

fn layout() -> impl Strategy<Value = BTreeMap<u64, Slot>> {
    (prop::collection::btree_set(0u64..14, 0..12), Just((0..14).collect::<Vec<Slot>>()).prop_shuffle())
        .prop_map(|(pages, slots)| pages.into_iter().zip(slots).collect())
}

/// The greedy chain, without any bookkeeping.
fn brute_plan(graph: &AccessGraph, pages_max: u64, least: u32) -> Plan {
    let mut free: BTreeMap<u64, u64> = graph.vertices().iter().map(|(first, v)| (*first, v.end - first)).collect();
    let weight = |a: u64, b: u64| if a == b { 0 } else { graph.edges().get(&(a, b)).copied().unwrap_or(0) };
    let all: Vec<u64> = free.keys().copied().collect();
    let traffic = |v: u64| all.iter().map(|other| u64::from(weight(v, *other) + weight(*other, v))).sum::<u64>();
    let (mut chains, mut left) = (Vec::new(), pages_max);
    loop {
        let seed = free.keys().copied().min_by_key(|v| (std::cmp::Reverse(traffic(*v)), *v));
        let Some(seed) = seed.filter(|seed| left > 0 && traffic(*seed) >= u64::from(least)) else { break };
        let mut next = Some((seed, true));
        let (mut chain, mut starts, mut sum) = (Vec::new(), Vec::new(), 0);
        while let Some((v, at_tail)) = next {
            let pages = free.remove(&v).unwrap().min(left);
            left -= pages;
            sum += traffic(v);
            chain.insert(if at_tail { chain.len() } else { 0 }, PageRun { page: v, pages });
            starts.push(v);
            let behind = |v: u64| starts.iter().map(|c| weight(*c, v)).sum::<u32>();
            let before = |v: u64| starts.iter().map(|c| weight(v, *c)).sum::<u32>();
            next = free
                .keys()
                .map(|v| (behind(*v) + before(*v), *v))
                .filter(|(bound, _)| *bound >= least && left > 0)
                .min_by_key(|(bound, v)| (std::cmp::Reverse(*bound), *v))
                .map(|(_, v)| (v, behind(v) >= before(v)));
        }
        chains.push((sum, chain));
    }
    chains.sort_by_key(|(sum, _)| std::cmp::Reverse(*sum));
    chains.into_iter().map(|(_, chain)| chain).collect()
}

/// Item 14.
#[test]
fn a_repeated_run_is_planned_in_the_order_in_which_it_is_asked_for() {
    let run = [900, 10, 500, 44, 700, 3];
    let mut analyzer = analyzer();
    for round in 0..5 {
        let at = |i: usize| round * 10_000 + i as u64 * 3;
        analyzer.learn(&run.iter().enumerate().map(|(i, page)| record(at(i), 1, *page, 2)).collect::<Vec<_>>());
        analyzer.learn(&[record(round * 10_000 + 5_000, 2, 2_000 + round * 10, 4)]);
    }
    let planned = plan(&analyzer.master(), 1_000, ONE);
    assert_eq!(planned, [run.map(|page| PageRun { page, pages: 2 }).to_vec()]);
    assert_eq!(order(&plan(&analyzer.master(), 5, ONE)).len(), 5, "the last vertex is cut to fit");
}

#[test]
fn long_runs_stay_at_home() {
    let mut analyzer = analyzer();
    for round in 0..3 {
        let requests = (0..LONG_RUN / 16).map(|i| record(round * 10_000 + i, 1, i * 16, 16));
        analyzer.learn(&requests.collect::<Vec<_>>());
        analyzer.learn(&[record(round * 10_000 + 700, 1, 5_000, 1), record(round * 10_000 + 710, 1, 9_000, 1)]);
    }
    let planned = plan(&analyzer.master(), 10_000, ONE);
    assert_eq!(order(&planned), [5_000, 9_000]);
}

#[test]
fn streams_stand_for_processes_and_jumps_follow_the_last_request() {
    let mut heads = Heads::new(4);
    let mut of = |page: u64| heads.of(ByteRange::new(page * PAGE, 2 * PAGE).unwrap());
    let first = of(0);
    assert_eq!(of(100), first, "a jump");
    let second = of(2);
    assert_ne!(second, first, "goes on where the first one was");
    assert_eq!([of(102), of(4), of(6), of(104)], [first, second, second, first]);
    assert_eq!(of(500), first, "a jump follows the last request of all");
}
