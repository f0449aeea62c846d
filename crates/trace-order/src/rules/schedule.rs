//! What each action waits for in a mode of replay, and how long it thought before it was issued.

use esker_base::Nanos;
use serde::Serialize;

use super::derive::{Deriver, Edge};
use super::outline::Outline;
use super::reduce::{Reducer, Wait, completed, issued};
use super::{RuleError, Rules};

/// Which orders a replay allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Those that the rules allow.
    Root(Rules),
    /// Calls are issued in the order of the trace, each after those that had returned before it was entered, and after
    /// those overlapping ones whose effect its result needs.
    Temporal,
    /// One thread plays all actions in the order of the trace.
    Single,
    /// Each thread for itself.
    Unconstrained,
}

impl Order {
    /// Refuses rules that no replay can keep.
    ///
    /// # Errors
    /// Says which.
    pub fn check(self) -> Result<Order, RuleError> {
        if let Order::Root(rules) = self {
            rules.check()?;
        }
        Ok(self)
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Order::Root(_) => "root",
            Order::Temporal => "temporal",
            Order::Single => "single",
            Order::Unconstrained => "unconstrained",
        }
    }
}

/// An edge, the wait that it means, and whether other waits imply it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The edge.
    pub edge: Edge,
    /// The wait.
    pub wait: Wait,
    /// Whether the replay must wait: nothing else implies it.
    pub kept: bool,
}

/// How many edges a rule asks for, and how long they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleCount {
    /// Edges between threads.
    pub edges: u64,
    /// Sum of their lengths in the trace, in ns: from the return of the first call to the entry of the second.
    pub length_ns: u128,
    /// Of these, edges that no others imply.
    pub kept: u64,
    /// Sum of their lengths.
    pub kept_length_ns: u128,
}

impl RuleCount {
    fn add(&mut self, length: u64, kept: bool) {
        self.edges += 1;
        self.length_ns += u128::from(length);
        if kept {
            self.kept += 1;
            self.kept_length_ns += u128::from(length);
        }
    }
}

/// Mean of a sum of lengths; 0 of none.
pub fn mean_length(sum: u128, count: u64) -> Nanos {
    Nanos(sum.checked_div(u128::from(count)).unwrap_or(0) as u64)
}

/// What each action waits for.
#[derive(Debug, Clone)]
pub struct Schedule {
    order: Order,
    ends: Vec<u32>,
    waits: Vec<Wait>,
    /// From the moment at which nothing held an action back any more to its issue, in ns; less than 0 if it was issued
    /// before.
    leads: Vec<i64>,
    total: RuleCount,
    rules: Vec<(Rules, RuleCount)>,
}

/// What a schedule costs and holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// Waits in all.
    pub waits: u64,
    /// Bytes of dependency state per action.
    pub bytes_per_action: f64,
}

impl Schedule {
    /// Derives and reduces the edges of an order.
    pub fn new(outline: &Outline, order: Order) -> Schedule {
        let len = outline.len();
        let mut schedule = Schedule {
            order,
            ends: Vec::with_capacity(len),
            waits: Vec::new(),
            leads: vec![0; len],
            total: RuleCount::default(),
            rules: Vec::new(),
        };
        schedule.ends.resize(len, 0);
        let mut spans: Vec<(u32, u32)> = vec![(0, 0); len];
        let mut pace = Pace::new(outline, order);
        for_each(outline, order, |id, candidates| {
            let start = schedule.waits.len() as u32;
            for candidate in candidates {
                schedule.count(outline, id, candidate);
                if candidate.kept {
                    schedule.waits.push(candidate.wait);
                }
            }
            spans[id as usize] = (start, schedule.waits.len() as u32);
            schedule.leads[id as usize] = pace.action(id, candidates);
        });
        schedule.sort_waits(&spans);
        schedule
    }

    /// The same for one thread that plays all actions in this order, in which those that wait may come behind others
    /// that were entered after them: what was computed between these is not a part of the wait.
    pub fn in_a_row(mut self, outline: &Outline, row: &[u32]) -> Schedule {
        let mut pace = Pace::new(outline, Order::Single);
        row.iter().for_each(|id| self.leads[*id as usize] = pace.action(*id, &[]));
        self
    }

    /// Brings the waits into the order of the actions' numbers, if they were found in another one.
    fn sort_waits(&mut self, spans: &[(u32, u32)]) {
        let ordered = spans.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        if ordered {
            self.ends = spans.iter().map(|span| span.1).collect();
            return;
        }
        let found = std::mem::take(&mut self.waits);
        for (end, (from, to)) in self.ends.iter_mut().zip(spans) {
            self.waits.extend_from_slice(&found[*from as usize..*to as usize]);
            *end = self.waits.len() as u32;
        }
    }

    fn count(&mut self, outline: &Outline, id: u32, candidate: &Candidate) {
        let (first, then) = (outline.instants()[candidate.edge.from as usize], outline.instants()[id as usize]);
        let since = if candidate.edge.rules == Rules::TRACE_ORDER { first.enter } else { first.leave };
        let length = then.enter.saturating_sub(since);
        self.total.add(length, candidate.kept);
        for rule in candidate.edge.rules.iter() {
            let at = match self.rules.iter().position(|(known, _)| *known == rule) {
                Some(at) => at,
                None => {
                    self.rules.push((rule, RuleCount::default()));
                    self.rules.len() - 1
                }
            };
            self.rules[at].1.add(length, candidate.kept);
        }
    }

    /// The order that it keeps.
    pub fn order(&self) -> Order {
        self.order
    }

    /// What action number `action` waits for.
    pub fn waits(&self, action: u32) -> &[Wait] {
        let start = action.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.waits[start as usize..self.ends[action as usize] as usize]
    }

    /// What is left, in the trace, between the moment at which nothing held the action back any more and its issue.
    pub fn predelay(&self, action: u32) -> Nanos {
        Nanos(u64::try_from(self.leads[action as usize]).unwrap_or(0))
    }

    /// How long the action was held back, in the trace, after it was issued: a wait for the end of a process, until
    /// that ended, or for another thread, until that woke it.
    pub fn held(&self, action: u32) -> Nanos {
        Nanos(self.leads[action as usize].checked_neg().and_then(|held| u64::try_from(held).ok()).unwrap_or(0))
    }

    /// All edges together; an edge that several rules ask for counts once.
    pub fn total(&self) -> RuleCount {
        self.total
    }

    /// The edges of each rule that asked for any.
    pub fn rules(&self) -> &[(Rules, RuleCount)] {
        &self.rules
    }

    /// What it costs to keep.
    pub fn cost(&self) -> Cost {
        let bytes = self.waits.len() * size_of::<Wait>() + self.ends.len() * size_of::<u32>();
        Cost { waits: self.waits.len() as u64, bytes_per_action: bytes as f64 / self.ends.len().max(1) as f64 }
    }
}

/// What the results of overlapping calls need also in the order of the trace: a call that found no file was done before
/// another call made it, though that one may have been entered first. So was a wait before the call that woke it.
const NEEDED: Rules = Rules::PATH_STAGE
    .union(Rules::PATH_NAME)
    .union(Rules::PATH_NEGATIVE)
    .union(Rules::FD_STAGE)
    .union(Rules::AIO_STAGE)
    .union(Rules::AIO_NAME)
    .union(Rules::WAKE_STAGE);

/// Tells for each action which edges lead to it, in an order that all edges follow.
pub fn for_each(outline: &Outline, order: Order, mut tell: impl FnMut(u32, &[Candidate])) {
    let ids = 0..outline.len() as u32;
    match order {
        Order::Root(rules) => ordered(outline, rules, ids, false, tell),
        Order::Temporal => ordered(outline, Rules::PROGRAM_SEQ | NEEDED, ids, true, tell),
        Order::Single | Order::Unconstrained => ids.for_each(|id| tell(id, &[])),
    }
}

fn ordered(
    outline: &Outline,
    rules: Rules,
    ids: impl Iterator<Item = u32>,
    issue_in_order: bool,
    mut tell: impl FnMut(u32, &[Candidate]),
) {
    let mut deriver = Deriver::new(rules, outline.instants(), outline.resources());
    let mut reducer = Reducer::new(outline.threads());
    let by_touch = !(rules - Rules::PROGRAM_SEQ).is_empty();
    let (mut touches, mut candidates, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    let mut before = None;
    for id in ids {
        if by_touch {
            outline.touches(id, &mut touches);
        }
        candidates.clear();
        waits.clear();
        let thread = outline.instants()[id as usize].thread;
        let wait_for = |from: u32, mark: fn(u32) -> u32| Wait {
            thread: outline.instants()[from as usize].thread,
            until: mark(outline.local(from)),
        };
        for edge in deriver.action(id, &touches) {
            let apart = outline.instants()[edge.from as usize].is_before(&outline.instants()[id as usize]);
            let edge = match (issue_in_order, apart) {
                // That is in the order of the trace anyway.
                (true, true) if !edge.rules.contains(Rules::PROGRAM_SEQ) => continue,
                (true, true) => Edge { rules: Rules::PROGRAM_SEQ, ..*edge },
                _ => *edge,
            };
            candidates.push(Candidate { edge, wait: wait_for(edge.from, completed), kept: false });
        }
        let known = |from: u32| candidates.iter().any(|candidate| candidate.edge.from == from);
        let other = |from: u32| outline.instants()[from as usize].thread != thread;
        if let Some(from) = before.filter(|from| other(*from) && !known(*from)) {
            let edge = Edge { from, rules: Rules::TRACE_ORDER };
            candidates.push(Candidate { edge, wait: wait_for(from, issued), kept: false });
        }
        waits.extend(candidates.iter().map(|candidate| candidate.wait));
        reducer.action(thread, outline.local(id), &waits, |at| candidates[at].kept = true);
        tell(id, &candidates);
        before = issue_in_order.then_some(id);
    }
}

/// Finds predelays: when the thread itself, or whatever an action depends on, was done.
struct Pace<'a> {
    outline: &'a Outline,
    /// By thread; in single-threaded replay there is one.
    free: Vec<u64>,
    single: bool,
}

impl<'a> Pace<'a> {
    fn new(outline: &'a Outline, order: Order) -> Pace<'a> {
        Pace { outline, free: vec![0; outline.threads().max(1)], single: order == Order::Single }
    }

    fn action(&mut self, id: u32, candidates: &[Candidate]) -> i64 {
        let instants = self.outline.instants();
        let now = instants[id as usize];
        let player = if self.single { 0 } else { now.thread as usize };
        let done = candidates.iter().map(|candidate| {
            let first = instants[candidate.edge.from as usize];
            let at_once = first.begins || candidate.edge.rules == Rules::TRACE_ORDER;
            if at_once { first.enter } else { first.leave }
        });
        let ready = done.fold(self.free[player], u64::max);
        self.free[player] = self.free[player].max(now.leave);
        let lead = i128::from(now.enter) - i128::from(ready);
        lead.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}
