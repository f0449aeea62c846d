//! The rules against their definitions, evaluated on whole series by brute force.

use std::collections::{BTreeMap, BTreeSet};

use esker_base::Stream;

use super::*;
use crate::model::resource::{Resource, ResourceId, ResourceKind, Role, Touch};
use crate::rules::schedule::for_each;

type Pairs = BTreeSet<(u32, u32)>;

fn resource(kind: ResourceKind, generation: u32, previous: Option<ResourceId>) -> Resource {
    Resource { kind, key: 0, generation, previous }
}

/// The edges of some rules, all of them or those that are kept.
fn edges(outline: &Outline, order: Order, only_kept: bool) -> Pairs {
    let mut found = Pairs::new();
    for_each(outline, order, |to, candidates| {
        let kept = candidates.iter().filter(|candidate| candidate.kept || !only_kept);
        found.extend(kept.map(|candidate| (candidate.edge.from, to)));
    });
    found
}

/// How a random trace is made.
struct Shape {
    actions: u32,
    threads: u32,
    names: usize,
    overlaps: bool,
}

/// A trace whose names are created, used and removed again and again, through all kinds of resources.
fn random(stream: &mut Stream, shape: &Shape) -> Outline {
    let kinds = ResourceKind::ALL;
    let mut resources: Vec<Resource> =
        (0..shape.names).map(|name| resource(kinds[name % kinds.len()], 1, None)).collect();
    let mut current: Vec<ResourceId> = (0..shape.names as u32).collect();
    let mut free = vec![0u64; shape.threads as usize];
    let (mut now, mut rows) = (0, Vec::new());
    for _ in 0..shape.actions {
        now += 1 + stream.below(20);
        let thread = stream.below(u64::from(shape.threads)) as u32;
        let enter = now.max(free[thread as usize]);
        now = enter;
        let leave = enter + if shape.overlaps { stream.below(60) } else { 0 };
        free[thread as usize] = leave + 1;
        let looks = Looks::from_bits_truncate(stream.below(4) as u8);
        let instant = Instant { thread, waits: stream.chance(0.1), looks, begins: false, enter, leave };
        rows.push((instant, random_touches(stream, &mut resources, &mut current)));
    }
    let mut outline = Outline::new(shape.threads as usize, resources);
    for (instant, touches) in rows {
        outline.push(instant, &touches);
    }
    outline
}

fn random_touches(stream: &mut Stream, resources: &mut Vec<Resource>, current: &mut [ResourceId]) -> Vec<Touch> {
    let mut touches: Vec<Touch> = Vec::new();
    for _ in 0..1 + stream.below(3) {
        let name = stream.below(current.len() as u64) as usize;
        let mut touch = |resource, role| {
            if touches.iter().all(|touch| touch.resource != resource) {
                touches.push(Touch { resource, role });
            }
        };
        match stream.below(10) {
            0 => {
                // One generation ends and the next begins.
                let old = current[name];
                touch(old, Role::Delete);
                let kind = resources[old as usize].kind;
                resources.push(resource(kind, resources[old as usize].generation + 1, Some(old)));
                current[name] = (resources.len() - 1) as u32;
                touch(current[name], Role::Create);
            }
            1 if resources[current[name] as usize].kind == ResourceKind::Path => touch(current[name], Role::Traverse),
            _ => touch(current[name], Role::Use),
        }
    }
    touches
}

/// The series of each resource, with roles.
fn series(outline: &Outline) -> BTreeMap<ResourceId, Vec<(u32, Role)>> {
    let mut series: BTreeMap<ResourceId, Vec<(u32, Role)>> = BTreeMap::new();
    let mut touches = Vec::new();
    for id in 0..outline.len() as u32 {
        outline.touches(id, &mut touches);
        for touch in &touches {
            series.entry(touch.resource).or_default().push((id, touch.role));
        }
    }
    series
}

/// What the definitions say.
struct Oracle<'a> {
    outline: &'a Outline,
    series: BTreeMap<ResourceId, Vec<(u32, Role)>>,
}

impl<'a> Oracle<'a> {
    fn new(outline: &'a Outline) -> Oracle<'a> {
        Oracle { outline, series: series(outline) }
    }

    fn instant(&self, id: u32) -> Instant {
        self.outline.instants()[id as usize]
    }

    fn is_apart(&self, from: u32, to: u32) -> bool {
        from < to && self.instant(from).leave <= self.instant(to).enter
    }

    /// Apart, or overlapping where the second one's result needs the first one.
    fn is_needed(&self, from: u32, to: u32) -> bool {
        from < to && (self.is_apart(from, to) || !self.instant(from).waits)
    }

    fn of_kind(&self, kind: ResourceKind) -> impl Iterator<Item = (ResourceId, &Vec<(u32, Role)>)> {
        let resources = self.outline.resources();
        self.series.iter().map(|(id, series)| (*id, series)).filter(move |(id, _)| resources[*id as usize].kind == kind)
    }

    fn between_threads(&self, pairs: Pairs) -> Pairs {
        pairs.into_iter().filter(|(a, b)| self.instant(*a).thread != self.instant(*b).thread).collect()
    }

    /// Each thread's last action of a series that must come before `to`.
    fn last_of_threads(&self, series: &[(u32, Role)], to: u32) -> Pairs {
        let mut last = BTreeMap::new();
        for (id, role) in series {
            if *role != Role::Traverse && self.is_needed(*id, to) {
                last.insert(self.instant(*id).thread, *id);
            }
        }
        last.into_values().map(|from| (from, to)).collect()
    }

    fn stage(&self, kind: ResourceKind) -> Pairs {
        let mut pairs = Pairs::new();
        for (_, series) in self.of_kind(kind) {
            if let Some((create, Role::Create)) = series.first().copied() {
                pairs.extend(series.iter().map(|(id, _)| (create, *id)).filter(|(a, b)| self.is_needed(*a, *b)));
            }
            for (delete, _) in series.iter().filter(|(_, role)| *role == Role::Delete) {
                pairs.extend(self.last_of_threads(series, *delete));
            }
        }
        self.between_threads(pairs)
    }

    /// Each end comes after all uses before it, and before all uses behind it.
    fn end(&self, kind: ResourceKind) -> Pairs {
        let mut pairs = Pairs::new();
        for (_, series) in self.of_kind(kind) {
            let mut ended = None;
            for (at, (id, role)) in series.iter().enumerate() {
                if *role == Role::Delete {
                    pairs.extend(self.last_of_threads(&series[..at], *id));
                    ended = Some(*id);
                } else {
                    pairs.extend(ended.filter(|end| self.is_needed(*end, *id)).map(|end| (end, *id)));
                }
            }
        }
        self.between_threads(pairs)
    }

    /// The transitive reduction of what is apart in each series.
    fn sequential(&self, kind: ResourceKind) -> Pairs {
        let mut pairs = Pairs::new();
        for (_, series) in self.of_kind(kind) {
            let ids: Vec<u32> = series.iter().filter(|(_, role)| *role != Role::Traverse).map(|(id, _)| *id).collect();
            for to in &ids {
                for from in ids.iter().filter(|from| self.is_apart(**from, *to)) {
                    let implied = ids.iter().any(|mid| self.is_apart(*from, *mid) && self.is_apart(*mid, *to));
                    if !implied {
                        pairs.insert((*from, *to));
                    }
                }
            }
        }
        self.between_threads(pairs)
    }

    /// Whether a touch changes nothing.
    fn only_looks(&self, (id, role): (u32, Role), looks: Looks) -> bool {
        role == Role::Use && self.instant(id).looks.contains(looks)
    }

    /// Of what is apart, all pairs but those that both look.
    fn readers_and_writers(&self, kind: ResourceKind, looks: Looks) -> Pairs {
        let mut pairs = Pairs::new();
        for (_, series) in self.of_kind(kind) {
            let series: Vec<(u32, Role)> = series.iter().copied().filter(|(_, role)| *role != Role::Traverse).collect();
            for to in &series {
                let changes = |one: &&(u32, Role)| !(self.only_looks(**one, looks) && self.only_looks(*to, looks));
                let before = series.iter().filter(|from| self.is_apart(from.0, to.0)).filter(changes);
                pairs.extend(before.map(|from| (from.0, to.0)));
            }
        }
        pairs
    }

    /// The same without what a change in between implies, and of a thread's looks the last.
    fn shared(&self, kind: ResourceKind, looks: Looks) -> Pairs {
        let mut pairs = Pairs::new();
        for (_, series) in self.of_kind(kind) {
            let used = || series.iter().copied().filter(|(_, role)| *role != Role::Traverse);
            let (lookers, changers): (Vec<_>, Vec<_>) = used().partition(|one| self.only_looks(*one, looks));
            let implied = |from: u32, to: u32| {
                changers.iter().any(|(mid, _)| self.is_apart(from, *mid) && self.is_apart(*mid, to))
            };
            for (to, role) in used() {
                let mut before: Vec<u32> = changers.iter().map(|(from, _)| *from).collect();
                if !self.only_looks((to, role), looks) {
                    let apart = lookers.iter().map(|(from, _)| *from).filter(|from| self.is_apart(*from, to));
                    let last: BTreeMap<u32, u32> = apart.map(|from| (self.instant(from).thread, from)).collect();
                    before.extend(last.into_values());
                }
                let kept = before.into_iter().filter(|from| self.is_apart(*from, to) && !implied(*from, to));
                pairs.extend(kept.map(|from| (from, to)));
            }
        }
        self.between_threads(pairs)
    }

    fn name(&self, kind: ResourceKind) -> Pairs {
        let mut pairs = Pairs::new();
        let none = Vec::new();
        for (id, series) in self.of_kind(kind) {
            let Some((create, Role::Create)) = series.first().copied() else { continue };
            let Some(previous) = self.outline.resources()[id as usize].previous else { continue };
            let before = self.series.get(&previous).unwrap_or(&none);
            match before.iter().find(|(last, role)| *role == Role::Delete && *last != create) {
                Some((delete, _)) if self.is_needed(*delete, create) => drop(pairs.insert((*delete, create))),
                Some(_) => (),
                None => pairs.extend(self.last_of_threads(before, create)),
            }
        }
        self.between_threads(pairs)
    }
}

#[test]
fn every_rule_gives_what_its_definition_says() {
    use ResourceKind::*;
    let mut stream = Stream::named(3, "brute force");
    for overlaps in [false, true] {
        let outline = random(&mut stream, &Shape { actions: 100_000, threads: 8, names: 4000, overlaps });
        let oracle = Oracle::new(&outline);
        let check = |rule: Rules, expected: Pairs| {
            let found = edges(&outline, Order::Root(rule), false);
            assert!(!expected.is_empty(), "the trace has something for {rule}");
            assert!(found == expected, "{rule}: {} edges, {} expected", found.len(), expected.len());
        };
        check(Rules::PATH_STAGE, &oracle.stage(Path) | &oracle.end(Directory));
        check(Rules::FD_STAGE, &(&oracle.stage(Descriptor) | &oracle.stage(Map)) | &oracle.end(Sync));
        check(Rules::AIO_STAGE, oracle.stage(Aio));
        check(Rules::FILE_STAGE, oracle.stage(File));
        check(Rules::PATH_NEGATIVE, oracle.stage(Absence));
        check(Rules::THREAD_STAGE, oracle.stage(Thread));
        check(Rules::WAKE_STAGE, oracle.stage(Wake));
        check(Rules::FILE_SEQ, oracle.sequential(File));
        check(Rules::FD_SEQ, oracle.sequential(Descriptor));
        check(Rules::FILE_RW, oracle.shared(File, Looks::FILES));
        check(Rules::FD_RW, oracle.shared(Descriptor, Looks::DESCRIPTORS));
        check(Rules::PATH_SEQ, oracle.sequential(Path));
        check(Rules::AIO_SEQ, oracle.sequential(Aio));
        check(Rules::DIR_SEQ, oracle.sequential(Directory));
        check(Rules::SYNC_SEQ, oracle.sequential(Sync));
        check(Rules::THREAD_SEQ, &oracle.stage(Sync) | &oracle.shared(Sync, Looks::empty()));
        check(Rules::PATH_NAME, oracle.name(Path));
        check(Rules::AIO_NAME, oracle.name(Aio));
    }
}

/// Which actions come before which, by edges and by the order within threads.
fn reachable(outline: &Outline, edges: &Pairs) -> Vec<BTreeSet<u32>> {
    let mut before: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); outline.len()];
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    for id in 0..outline.len() as u32 {
        let own = last.insert(outline.instants()[id as usize].thread, id);
        let others = edges.range(..).filter(|(_, to)| *to == id).map(|(from, _)| *from);
        let direct: Vec<u32> = own.into_iter().chain(others).collect();
        for from in direct {
            assert!(from < id, "an edge leads back: {from} to {id}");
            let known = before[from as usize].clone();
            before[id as usize].extend(known);
            before[id as usize].insert(from);
        }
    }
    before
}

#[test]
fn edges_lead_forward_and_reduction_keeps_what_they_reach() {
    let mut stream = Stream::named(5, "reduction");
    let mut dropped = 0;
    for trace in 0..1000 {
        let shape = Shape { actions: 50, threads: 2 + trace % 5, names: 6, overlaps: trace % 2 == 0 };
        let outline = random(&mut stream, &shape);
        let rules = Rules::from_bits_truncate(stream.next_u64() as u32) - Rules::TRACE_ORDER;
        for order in [Order::Root(rules), Order::Root(Rules::default()), Order::Temporal] {
            let (all, kept) = (edges(&outline, order, false), edges(&outline, order, true));
            dropped += all.len() - kept.len();
            assert!(kept.is_subset(&all));
            if order != Order::Temporal {
                assert_eq!(reachable(&outline, &all), reachable(&outline, &kept), "trace {trace}, {order:?}");
            }
        }
    }
    assert!(dropped > 1000, "the reduction had something to do: {dropped}");
}

/// Beside the order within threads, all that is apart is ordered but two that both look, and nothing else.
#[test]
fn readers_wait_for_writers_and_writers_for_all() {
    let mut stream = Stream::named(11, "readers and writers");
    let mut between_looks = 0;
    for trace in 0..300 {
        let shape = Shape { actions: 60, threads: 2 + trace % 5, names: 6, overlaps: trace % 2 == 0 };
        let outline = random(&mut stream, &shape);
        let oracle = Oracle::new(&outline);
        let of = |rules| edges(&outline, Order::Root(rules), false);
        let all = [(ResourceKind::File, Looks::FILES, Rules::FILE_RW, Rules::FILE_SEQ)];
        let all = all.into_iter().chain([(ResourceKind::Descriptor, Looks::DESCRIPTORS, Rules::FD_RW, Rules::FD_SEQ)]);
        for (kind, looks, shared, sequential) in all {
            let found = reachable(&outline, &of(shared));
            assert_eq!(found, reachable(&outline, &oracle.readers_and_writers(kind, looks)), "trace {trace}, {shared}");
            let seq = reachable(&outline, &of(sequential));
            assert!(found.iter().zip(&seq).all(|(found, seq)| found.is_subset(seq)));
            between_looks += usize::from(found != seq);
        }
    }
    assert!(between_looks > 300, "the rules differ on most traces: {between_looks}");
}

#[test]
fn the_order_of_the_program_allows_only_what_every_rule_allows() {
    let mut stream = Stream::named(7, "subsumption");
    for _ in 0..50 {
        let outline = random(&mut stream, &Shape { actions: 60, threads: 4, names: 5, overlaps: false });
        let reach = |rules| reachable(&outline, &edges(&outline, Order::Root(rules), false));
        let holds = |strong: Rules, weak: Rules| {
            let (strong, weak) = (reach(strong), reach(weak));
            strong.iter().zip(&weak).all(|(strong, weak)| weak.is_subset(strong))
        };
        for (_, rules, _) in NAMED {
            assert!(holds(Rules::PROGRAM_SEQ, *rules), "program_seq and {rules}");
        }
        assert!(holds(Rules::FD_SEQ, Rules::FD_STAGE));
        assert!(holds(Rules::FILE_SEQ, Rules::FILE_STAGE));
        assert!(holds(Rules::AIO_SEQ, Rules::AIO_STAGE));
        assert!(holds(Rules::FILE_SEQ, Rules::FILE_RW) && holds(Rules::FD_SEQ, Rules::FD_RW));
    }
}

/// Figure 2.4: eight actions of eight threads, two generations of a name.
#[test]
fn a_replay_that_breaks_the_rules_is_told_which() {
    let kinds = [resource(ResourceKind::Path, 1, None), resource(ResourceKind::Path, 2, Some(0))];
    let mut outline = Outline::new(8, kinds.to_vec());
    let roles = [Role::Create, Role::Use, Role::Use, Role::Delete];
    for at in 0..8u32 {
        let instant = Instant {
            thread: at,
            waits: false,
            looks: Looks::empty(),
            begins: false,
            enter: u64::from(at),
            leave: u64::from(at),
        };
        outline.push(instant, &[Touch { resource: at / 4, role: roles[at as usize % 4] }]);
    }
    let names = ["A1", "A2", "A3", "A4", "B1", "B2", "B3", "B4"];
    let replayed = ["A1", "A3", "A2", "B1", "A4", "B2", "B4", "B3"];
    let stamp = |name: &&str| {
        let at = replayed.iter().position(|other| other == name).expect("all were replayed") as u64;
        (at, at)
    };
    let stamps: Vec<(u64, u64)> = names.iter().map(stamp).collect();
    let broken = |rules| -> Vec<String> {
        let found = violations(&outline, Order::Root(rules), &stamps);
        found.iter().map(|one| format!("{}<{}", names[one.to as usize], names[one.from as usize])).collect()
    };
    assert_eq!(broken(Rules::PATH_STAGE), ["B4<B3"]);
    assert_eq!(broken(Rules::PATH_SEQ), ["A3<A2", "B4<B3"]);
    assert_eq!(broken(Rules::PATH_NAME), ["B1<A4"]);
}

#[test]
fn the_usual_rules_are_those_of_the_source() {
    assert_eq!(
        Rules::default().to_string(),
        "thread_seq file_seq path_stage+ fd_stage fd_seq aio_stage path_negative wake_stage"
    );
    assert!(!Rules::default().contains(Rules::PROGRAM_SEQ));
}

#[test]
fn of_two_rules_for_the_same_the_one_chosen_last_holds() {
    let rw = Rules::default().with("file_rw").and_then(|rules| rules.with("fd_rw")).expect("they are rules");
    assert_eq!(rw.to_string(), "thread_seq path_stage+ fd_stage aio_stage path_negative wake_stage file_rw fd_rw");
    assert_eq!(rw.with("file_seq").and_then(|rules| rules.with("fd_seq")), Ok(Rules::default()));
}

#[test]
fn rules_that_cannot_be_are_refused() {
    let rules = Rules::default();
    let refused = |result: Result<Rules, RuleError>| result.expect_err("refused").to_string();
    assert_eq!(
        refused(rules.without("thread_seq")),
        "thread_seq cannot be switched off: no trace shows another order of the actions of one thread"
    );
    for half in ["path_stage", "path_name"] {
        assert!(refused(rules.without(half)).contains("only together, as \"path_stage+\""));
        assert!(refused(rules.with(half)).contains(half));
    }
    assert!(
        refused(rules.with("file_sec")).starts_with("there is no rule \"file_sec\"; rules are program_seq, thread_seq")
    );
    assert!((rules - Rules::PATH_NAME).check().is_err());
    assert!((rules - Rules::THREAD_SEQ).check().is_err());
    assert_eq!(rules.without("path_stage+").and_then(Rules::check), Ok(rules - Rules::PATH_STAGE - Rules::PATH_NAME));
}

#[test]
fn the_order_of_the_trace_lets_calls_overlap_that_did() {
    let mut outline = Outline::new(3, Vec::new());
    for (thread, enter, leave) in [(0, 0, 10), (1, 5, 20), (2, 12, 30), (0, 40, 50)] {
        outline.push(Instant { thread, waits: false, looks: Looks::empty(), begins: false, enter, leave }, &[]);
    }
    let schedule = Schedule::new(&outline, Order::Temporal);
    let wait = |thread, until| Wait { thread, until };
    assert_eq!(schedule.waits(1), [wait(0, reduce::issued(0))]);
    // Entered after the first had returned, and while the second was running.
    let mut third = schedule.waits(2).to_vec();
    third.sort_unstable();
    assert_eq!(third, [wait(0, reduce::completed(0)), wait(1, reduce::issued(0))]);
    let mut fourth = schedule.waits(3).to_vec();
    fourth.sort_unstable();
    assert_eq!(fourth, [wait(1, reduce::completed(0)), wait(2, reduce::completed(0))]);
}

#[test]
fn in_the_order_of_the_trace_a_file_is_made_when_who_did_not_find_it_is_done() {
    let mut outline = Outline::new(3, vec![resource(ResourceKind::Absence, 1, None)]);
    let touch = |role| [Touch { resource: 0, role }];
    // Both looked for it while the call ran that made it, which took effect behind them.
    outline.push(
        Instant { thread: 0, waits: false, looks: Looks::empty(), begins: false, enter: 5, leave: 8 },
        &touch(Role::Use),
    );
    outline.push(
        Instant { thread: 1, waits: false, looks: Looks::empty(), begins: false, enter: 20, leave: 30 },
        &touch(Role::Use),
    );
    outline.push(
        Instant { thread: 2, waits: false, looks: Looks::empty(), begins: false, enter: 10, leave: 90 },
        &touch(Role::Delete),
    );
    let schedule = Schedule::new(&outline, Order::Temporal);
    let mut waits = schedule.waits(2).to_vec();
    waits.sort_unstable();
    let wait = |thread, until| Wait { thread, until };
    assert_eq!(waits, [wait(1, reduce::completed(0))], "the other one was done before that was issued");
    assert_eq!(schedule.waits(1), [wait(0, reduce::completed(0))]);
    let lengths: Vec<_> = schedule.rules().iter().map(|(rule, count)| (*rule, count.edges)).collect();
    assert_eq!(lengths, [(Rules::PROGRAM_SEQ, 2), (Rules::PATH_NEGATIVE, 1)]);
}

#[test]
fn thinking_begins_when_nothing_holds_an_action_back() {
    let mut outline = Outline::new(2, vec![resource(ResourceKind::File, 1, None)]);
    for (thread, enter, leave) in [(0, 0, 100), (1, 10, 20), (1, 130, 140)] {
        let touches = [Touch { resource: 0, role: Role::Use }];
        let touches = if enter == 10 { &[][..] } else { &touches };
        outline.push(Instant { thread, waits: false, looks: Looks::empty(), begins: false, enter, leave }, touches);
    }
    let predelay = |order, id| Schedule::new(&outline, order).predelay(id).0;
    let root = Order::Root(Rules::default());
    assert_eq!((predelay(root, 1), predelay(root, 2)), (10, 30));
    assert_eq!(predelay(Order::Unconstrained, 2), 110);
    assert_eq!(predelay(Order::Single, 2), 30);
}
