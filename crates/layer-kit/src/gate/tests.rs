//! The gate against a model that keeps sets of bytes, and what each guard is for.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use esker_base::span;
use proptest::prelude::*;

use super::*;

const UNIT: u64 = 4;
const BYTES: u64 = 32;

type Wait<T> = Pin<Box<dyn Future<Output = T>>>;

fn poll<T>(wait: &mut Wait<T>) -> Poll<T> {
    wait.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn hold(gate: &Gate, range: ByteRange) -> Wait<Hold> {
    let gate = gate.clone();
    Box::pin(async move { gate.hold_range(range).await })
}

fn drained(gate: &Gate, range: ByteRange) -> Wait<()> {
    let gate = gate.clone();
    Box::pin(async move { gate.drained(range).await })
}

fn units(changed: &Changed) -> Vec<usize> {
    (0..1024).filter(|unit| changed.has(*unit)).map(|unit| unit as usize).collect()
}

#[test]
fn a_watch_of_a_whole_volume_takes_no_memory_for_its_units_and_misses_no_change() {
    let gate = Gate::default();
    let watch = gate.watch(span(0, 1 << 42), 4096);
    let change = |unit: u64| gate.leave(gate.enter(span(unit * 4096 + 5, 4096), true));
    change(900);
    let changed = watch.take();
    assert_eq!(units(&changed), [900, 901]);
    assert!(!watch.is_changed() && matches!(changed, Changed::Few(_)));
    (0..500).for_each(|number| change(number * 1_000_000));
    let changed = watch.take();
    assert!((0..500).all(|number| changed.has(number * 1_000_000)) && changed.has(7), "too many to be told apart");
    assert!(!watch.is_changed(), "they are forgotten");
}

#[test]
fn a_watch_counts_changes_when_they_begin_when_they_end_and_if_they_are_under_way() {
    let gate = Gate::default();
    let (early, read) = (gate.enter(span(0, 4), true), gate.enter(span(20, 4), false));
    let watch = gate.watch(span(0, 32), 4);
    assert_eq!(units(&watch.take()), [0], "under way when the watch began");
    assert!(!watch.is_changed());
    let late = gate.enter(span(6, 4), true);
    assert_eq!(units(&watch.take()), [1, 2], "at entry");
    gate.leave(late);
    assert_eq!(units(&watch.take()), [1, 2], "and again at leave");
    [early, read].into_iter().for_each(|ticket| gate.leave(ticket));
    assert_eq!(units(&watch.take()), [0], "reads change nothing");
}

#[test]
fn a_hold_waits_for_changes_under_way_and_stops_new_ones_but_no_read() {
    let gate = Gate::default();
    let (change, read) = (gate.enter(span(0, 8), true), gate.enter(span(0, 8), false));
    let mut wait = hold(&gate, span(4, 8));
    assert!(poll(&mut wait).is_pending());
    let (new, reader, beside) =
        (gate.enter(span(8, 1), true), gate.enter(span(4, 8), false), gate.enter(span(12, 1), true));
    assert_eq!([change, read, new, reader, beside].map(|ticket| gate.may_go(ticket)), [true, true, false, true, true]);
    gate.leave(change);
    let Poll::Ready(held) = poll(&mut wait) else { panic!("no change is under way") };
    assert_eq!((held.range(), gate.waiting()), (span(4, 8), 1));
    drop(held);
    assert!(gate.may_go(new));
}

#[test]
fn a_change_that_waits_is_marked_when_it_goes_and_not_before() {
    let gate = Gate::default();
    let watch = gate.watch(span(0, 16), UNIT);
    let Poll::Ready(held) = poll(&mut hold(&gate, span(0, 16))) else { panic!("nothing is under way") };
    let ticket = gate.enter(span(4, 4), true);
    assert!(!watch.is_changed());
    drop(held);
    assert_eq!(units(&watch.take()), [1]);
    gate.leave(ticket);
    assert_eq!(units(&watch.take()), [1]);
}

#[test]
fn a_hold_that_is_given_up_before_it_is_ready_lets_all_go() {
    let gate = Gate::default();
    let slow = gate.enter(span(0, 4), true);
    let mut wait = hold(&gate, span(0, 4));
    assert!(poll(&mut wait).is_pending());
    let (new, again) = (gate.enter(span(0, 4), true), gate.clone());
    let mut admitted: Wait<()> = Box::pin(async move { again.admitted(new).await });
    assert!(poll(&mut admitted).is_pending());
    drop(wait);
    assert!(poll(&mut admitted).is_ready() && gate.may_go(new));
    [slow, new].into_iter().for_each(|ticket| gate.leave(ticket));
}

#[test]
fn a_request_that_was_let_go_is_waited_for_by_the_next_hold() {
    let gate = Gate::default();
    let Poll::Ready(first) = poll(&mut hold(&gate, span(0, 4))) else { panic!("nothing is under way") };
    let ticket = gate.enter(span(0, 4), true);
    drop(first);
    let mut second = hold(&gate, span(0, 4));
    assert!(poll(&mut second).is_pending(), "it goes, so nothing stops it any more");
    assert!(gate.may_go(ticket));
    gate.leave(ticket);
    assert!(poll(&mut second).is_ready());
}

#[test]
fn a_drain_waits_for_reads_and_changes_under_way_and_for_no_later_one() {
    let gate = Gate::default();
    let (read, change, beside) =
        (gate.enter(span(0, 4), false), gate.enter(span(2, 4), true), gate.enter(span(8, 4), true));
    let mut wait = drained(&gate, span(0, 8));
    assert!(poll(&mut wait).is_pending());
    gate.leave(read);
    let in_its_place = gate.enter(span(0, 4), false);
    assert_eq!(in_its_place, read, "a later request has the ticket");
    gate.leave(in_its_place);
    assert!(poll(&mut wait).is_pending());
    gate.leave(change);
    assert!(poll(&mut wait).is_ready());
    gate.leave(beside);
}

#[test]
fn a_change_on_its_way_home_waits_for_a_write_back_and_others_do_not() {
    let gate = Gate::default();
    let (home, aside) = (gate.enter(span(0, 4), true), gate.enter(span(0, 4), true));
    let bound = gate.home_bound(span(2, 4));
    assert_eq!((gate.may_go(home), gate.may_go(aside), gate.may_go_home(home)), (true, true, false));
    let mut quiet = hold(&gate, span(0, 4));
    assert!(poll(&mut quiet).is_pending());
    let again = gate.clone();
    let mut admitted: Wait<()> = Box::pin(async move { again.admitted_home(home).await });
    assert!(poll(&mut admitted).is_pending());
    gate.leave(aside);
    let Poll::Ready(held) = poll(&mut quiet) else { panic!("a change that waits for home is nowhere below") };
    drop(bound);
    assert!(poll(&mut admitted).is_pending(), "it waits for the hold too");
    drop(held);
    assert!(poll(&mut admitted).is_ready() && gate.may_go_home(home));
}

#[test]
fn a_ticket_fits_half_a_scratch_word_and_is_never_nothing() {
    let gate = Gate::default();
    let ticket = gate.enter(span(0, 4), true);
    assert_ne!(ticket.word(), 0);
    assert_eq!((Ticket::of_word(ticket.word()), Ticket::of_word(0)), (Some(ticket), None));
}

#[test]
#[should_panic(expected = "has left before")]
fn a_request_leaves_once() {
    let gate = Gate::default();
    let ticket = gate.enter(span(0, 4), true);
    gate.leave(ticket);
    gate.leave(ticket);
}

/// A request of the model.
#[derive(Clone, Debug)]
struct Request {
    bytes: BTreeSet<u64>,
    changes: bool,
    goes: bool,
    /// It came back to wait for write-backs.
    homeward: bool,
}

/// A wish of the model: what it covers, and for holds and drains the requests that it waits for.
#[derive(Clone, Debug)]
enum Model {
    Watch(BTreeSet<u64>, BTreeSet<usize>),
    Hold(BTreeSet<u64>, BTreeSet<Ticket>),
    Drain(BTreeSet<Ticket>),
    HomeBound(BTreeSet<u64>),
}

/// The guards that stand in the gate.
enum Guard {
    Watch(Watch),
    Wait(Wait<Hold>),
    Hold(#[allow(dead_code, reason = "it stands until it is dropped")] Hold),
    Drain(Wait<()>),
    HomeBound(#[allow(dead_code, reason = "it stands until it is dropped")] HomeBound),
}

#[derive(Default)]
struct Pair {
    gate: Gate,
    requests: BTreeMap<Ticket, Request>,
    wishes: Vec<(Model, Guard)>,
}

fn bytes(range: ByteRange) -> BTreeSet<u64> {
    (range.start()..range.end()).collect()
}

impl Pair {
    fn stops(&self, request: &Request) -> bool {
        self.wishes.iter().any(|(model, _)| match model {
            Model::Hold(covered, _) => request.changes && !covered.is_disjoint(&request.bytes),
            Model::HomeBound(covered) => request.homeward && !covered.is_disjoint(&request.bytes),
            Model::Watch(..) | Model::Drain(_) => false,
        })
    }

    fn note(&mut self, changed: &BTreeSet<u64>) {
        for (model, _) in &mut self.wishes {
            if let Model::Watch(covered, units) = model {
                units.extend(covered.intersection(changed).map(|byte| (byte / UNIT) as usize));
            }
        }
    }

    fn under_way(&self, covered: &BTreeSet<u64>, reads: bool) -> BTreeSet<Ticket> {
        let is_it =
            |request: &Request| request.goes && (reads || request.changes) && !covered.is_disjoint(&request.bytes);
        self.requests.iter().filter(|(_, request)| is_it(request)).map(|(ticket, _)| *ticket).collect()
    }

    fn strike(&mut self, ticket: Ticket) {
        for (model, _) in &mut self.wishes {
            if let Model::Hold(_, awaited) | Model::Drain(awaited) = model {
                awaited.remove(&ticket);
            }
        }
    }

    fn enter(&mut self, range: ByteRange, changes: bool) {
        let ticket = self.gate.enter(range, changes);
        let mut request = Request { bytes: bytes(range), changes, goes: true, homeward: false };
        request.goes = !self.stops(&request);
        if request.goes && changes {
            self.note(&request.bytes.clone());
        }
        assert!(self.requests.insert(ticket, request).is_none(), "{ticket:?} has two requests");
    }

    fn leave(&mut self, which: usize) {
        let Some(ticket) = self.nth(which, |_| true) else { return };
        let request = self.requests.remove(&ticket).unwrap();
        self.gate.leave(ticket);
        if request.goes && request.changes {
            self.note(&request.bytes);
        }
        self.strike(ticket);
    }

    fn nth(&self, which: usize, is_it: impl Fn(&Request) -> bool) -> Option<Ticket> {
        let all: Vec<Ticket> = self.requests.iter().filter(|(_, r)| is_it(r)).map(|(ticket, _)| *ticket).collect();
        (!all.is_empty()).then(|| all[which % all.len()])
    }

    /// A change turns out to go home.
    fn go_home(&mut self, which: usize) {
        let Some(ticket) = self.nth(which, |request| request.goes && request.changes) else { return };
        let mut request = self.requests[&ticket].clone();
        request.homeward = true;
        let must_wait = self
            .wishes
            .iter()
            .any(|(model, _)| matches!(model, Model::HomeBound(covered) if !covered.is_disjoint(&request.bytes)));
        assert_eq!(self.gate.may_go_home(ticket), !must_wait);
        let gate = self.gate.clone();
        let mut wait: Wait<()> = Box::pin(async move { gate.admitted_home(ticket).await });
        assert_eq!(poll(&mut wait).is_pending(), must_wait);
        if must_wait {
            request.goes = false;
            self.requests.insert(ticket, request);
            self.strike(ticket);
        }
    }

    fn wish(&mut self, kind: u8, range: ByteRange) {
        let (covered, gate) = (bytes(range), &self.gate);
        let wish = match kind % 4 {
            0 => {
                let mut units = BTreeSet::new();
                for ticket in self.under_way(&covered, false) {
                    units
                        .extend(covered.intersection(&self.requests[&ticket].bytes).map(|byte| (byte / UNIT) as usize));
                }
                (Model::Watch(covered, units), Guard::Watch(gate.watch(range, UNIT)))
            }
            1 => (Model::Hold(covered.clone(), self.under_way(&covered, false)), Guard::Wait(hold(gate, range))),
            2 => (Model::Drain(self.under_way(&covered, true)), Guard::Drain(drained(gate, range))),
            _ => (Model::HomeBound(covered), Guard::HomeBound(gate.home_bound(range))),
        };
        self.wishes.push(wish);
        self.settle();
    }

    /// Polls what waits: each is ready exactly if its set is empty.
    fn settle(&mut self) {
        self.wishes.retain_mut(|(model, guard)| match (&*model, &mut *guard) {
            (Model::Hold(_, awaited), Guard::Wait(wait)) => {
                match poll(wait) {
                    Poll::Ready(held) => {
                        assert!(awaited.is_empty(), "the hold is ready, but {awaited:?} are under way");
                        *guard = Guard::Hold(held);
                    }
                    Poll::Pending => assert!(!awaited.is_empty(), "the hold waits for nothing"),
                }
                true
            }
            (Model::Drain(awaited), Guard::Drain(wait)) => {
                let is_over = poll(wait).is_ready();
                assert_eq!(is_over, awaited.is_empty());
                !is_over
            }
            _ => true,
        });
    }

    fn give_up(&mut self, which: usize) {
        if self.wishes.is_empty() {
            return;
        }
        drop(self.wishes.remove(which % self.wishes.len()));
        let free: Vec<Ticket> =
            self.requests.iter().filter(|(_, r)| !r.goes && !self.stops(r)).map(|(t, _)| *t).collect();
        for ticket in free {
            let request = self.requests.get_mut(&ticket).unwrap();
            request.goes = true;
            request.homeward = false;
            let changed = request.bytes.clone();
            self.note(&changed);
        }
    }

    fn take(&mut self, which: usize) {
        let watches: Vec<usize> =
            (0..self.wishes.len()).filter(|at| matches!(self.wishes[*at].0, Model::Watch(..))).collect();
        if watches.is_empty() {
            return;
        }
        let (Model::Watch(_, changed), Guard::Watch(watch)) = &mut self.wishes[watches[which % watches.len()]] else {
            return;
        };
        assert_eq!(watch.is_changed(), !changed.is_empty());
        assert_eq!(units(&watch.take()), std::mem::take(changed).into_iter().collect::<Vec<usize>>());
    }

    fn check(&mut self) {
        self.settle();
        for (ticket, request) in &self.requests {
            assert_eq!(self.gate.may_go(*ticket), request.goes, "{ticket:?} {request:?} of {:?}", self.requests);
        }
        assert_eq!(self.gate.waiting(), self.requests.values().filter(|request| !request.goes).count());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn the_gate_is_what_sets_of_bytes_say(steps in proptest::collection::vec((0u8..10, 0u64..BYTES / UNIT, 1u64..BYTES / 2, 0usize..9), 1..80)) {
        let mut pair = Pair::default();
        for (step, first, len, which) in steps {
            // Watches begin at a unit, so that the model's units are the gate's.
            let (aligned, any) = (span(0, first * UNIT + len), span(first * UNIT + len % UNIT, len));
            match step {
                0..=2 => pair.enter(any, step > 0),
                3 | 4 => pair.leave(which),
                5 => pair.wish(0, aligned),
                6 => pair.wish(1 + which as u8 % 3, any),
                7 => pair.give_up(which),
                8 => pair.take(which),
                _ => pair.go_home(which),
            }
            pair.check();
        }
    }
}
