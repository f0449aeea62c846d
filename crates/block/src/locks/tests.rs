use esker_base::span;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};

use proptest::prelude::*;

use super::*;

#[test]
fn shared_claims_exclude_only_exclusive_ones() {
    let locks = RangeLocks::default();
    let [a, b] = [0, 4].map(|at| locks.enter([span(at, 8)], Mode::Shared));
    let c = locks.enter([span(11, 1), span(30, 1)], Mode::Exclusive);
    let d = locks.enter([span(30, 5)], Mode::Shared);
    assert_eq!([a, b, c, d].map(|t| locks.is_granted(t)), [true, true, false, false]);
    locks.leave(b);
    assert_eq!([a, c, d].map(|t| locks.is_granted(t)), [true, true, false]);
    locks.leave(c);
    assert!(locks.is_granted(d));
}

#[test]
fn an_early_claim_is_not_overtaken_by_a_late_one() {
    let locks = RangeLocks::default();
    let first = locks.enter([span(0, 4)], Mode::Shared);
    let waiting = locks.enter([span(0, 8)], Mode::Exclusive);
    let late = locks.enter([span(4, 4)], Mode::Shared);
    assert!(!locks.is_granted(late), "it would starve the one that waits");
    locks.leave(first);
    assert_eq!([waiting, late].map(|t| locks.is_granted(t)), [true, false]);
}

#[test]
fn a_claim_that_leaves_before_its_turn_frees_only_what_it_alone_kept_waiting() {
    let locks = RangeLocks::default();
    let first = locks.enter([span(0, 4)], Mode::Exclusive);
    let doomed = locks.enter([span(0, 8)], Mode::Exclusive);
    let [left, right] = [0, 4].map(|at| locks.enter([span(at, 4)], Mode::Shared));
    locks.leave(doomed);
    assert_eq!([left, right].map(|t| locks.is_granted(t)), [false, true]);
    let late = locks.enter([span(6, 1)], Mode::Shared);
    assert!(locks.is_granted(late), "nothing of the claim is left");
    locks.leave(first);
    assert!(locks.is_granted(left));
}

#[test]
fn claims_on_no_bytes_never_wait_and_claims_end_once() {
    let locks = RangeLocks::default();
    let all = locks.enter([span(0, u64::MAX)], Mode::Exclusive);
    let none = [locks.enter([], Mode::Exclusive), locks.enter([span(5, 0)], Mode::Exclusive)];
    let last = locks.enter([span(u64::MAX - 1, 1)], Mode::Shared);
    assert_eq!(none.map(|t| locks.is_granted(t)), [true, true]);
    assert!(!locks.is_granted(last));
    locks.leave(all);
    locks.leave(all);
    assert!(locks.is_granted(last) && locks.is_granted(all));
}

/// Notes its ticket when it is woken.
struct Bell {
    ticket: Ticket,
    rung: Arc<Mutex<Vec<Ticket>>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.lock().unwrap().push(self.ticket);
    }
}

/// The claims as a list, in the order of their tickets.
struct Model(Vec<(Ticket, Vec<ByteRange>, Mode)>);

impl Model {
    fn is_granted(&self, ticket: Ticket) -> bool {
        let (_, ranges, mode) = self.0.iter().find(|claim| claim.0 == ticket).unwrap();
        let mut earlier = self.0.iter().take_while(|claim| claim.0 < ticket);
        !earlier.any(|(_, others, other)| {
            let excludes = *mode == Mode::Exclusive || *other == Mode::Exclusive;
            excludes && ranges.iter().any(|a| others.iter().any(|b| a.overlaps(*b)))
        })
    }

    fn granted(&self) -> Vec<Ticket> {
        self.0.iter().map(|claim| claim.0).filter(|ticket| self.is_granted(*ticket)).collect()
    }
}

#[derive(Clone, Debug)]
enum Act {
    Enter(Vec<(u64, u64)>, bool),
    /// The n-th of the claims that live, granted or not.
    Leave(prop::sample::Index),
    /// The n-th of those that are granted, as all users do.
    End(prop::sample::Index),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let ranges = prop::collection::vec((0u64..40, 0u64..12), 1..4);
    let act = prop_oneof![
        6 => (ranges, any::<bool>()).prop_map(|(ranges, is_shared)| Act::Enter(ranges, is_shared)),
        2 => any::<prop::sample::Index>().prop_map(Act::Leave),
        3 => any::<prop::sample::Index>().prop_map(Act::End),
    ];
    prop::collection::vec(act, 1..120)
}

/// Beside the model: granted claims agree after each step, and exactly those are woken that a step grants, in order.
fn check_against_the_model(acts: Vec<Act>) {
    let (locks, mut model) = (RangeLocks::default(), Model(Vec::new()));
    let rung: Arc<Mutex<Vec<Ticket>>> = Arc::default();
    let leave = |model: &mut Model, ticket| {
        let before = model.granted();
        model.0.retain(|claim| claim.0 != ticket);
        locks.leave(ticket);
        let mut freed = model.granted();
        freed.retain(|ticket| !before.contains(ticket));
        assert_eq!(std::mem::take(&mut *rung.lock().unwrap()), freed);
    };
    for act in acts {
        match act {
            Act::Enter(spans, is_shared) => {
                let ranges: Vec<ByteRange> = spans.into_iter().map(|(at, len)| span(at, len)).collect();
                let mode = if is_shared { Mode::Shared } else { Mode::Exclusive };
                let ticket = locks.enter(ranges.clone(), mode);
                model.0.push((ticket, ranges, mode));
                let bell = Arc::new(Bell { ticket, rung: rung.clone() }).into();
                let polled = std::pin::pin!(locks.granted(ticket)).poll(&mut Context::from_waker(&bell));
                assert_eq!(polled.is_ready(), model.is_granted(ticket));
            }
            Act::Leave(which) if !model.0.is_empty() => {
                let ticket = which.get(&model.0).0;
                leave(&mut model, ticket);
            }
            Act::End(which) if !model.0.is_empty() => {
                let ticket = *which.get(&model.granted());
                leave(&mut model, ticket);
            }
            Act::Leave(_) | Act::End(_) => {}
        }
        for (ticket, ..) in &model.0 {
            assert_eq!(locks.is_granted(*ticket), model.is_granted(*ticket), "ticket {ticket}");
        }
        locks.0.borrow().check();
    }
    for ticket in model.0.iter().map(|claim| claim.0).collect::<Vec<_>>() {
        assert!(locks.is_granted(ticket), "the first is never kept waiting");
        locks.leave(ticket);
    }
    assert!(locks.0.borrow().is_empty(), "nothing is left behind");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn claims_are_granted_exactly_when_no_earlier_one_is_in_the_way(acts in acts()) {
        check_against_the_model(acts);
    }
}

/// The order in which claims leave.
type End = fn(Vec<Ticket>) -> Vec<Ticket>;

fn in_order(tickets: Vec<Ticket>) -> Vec<Ticket> {
    tickets
}

/// All but the last leave while they wait.
fn backwards(mut tickets: Vec<Ticket>) -> Vec<Ticket> {
    tickets.reverse();
    tickets
}

/// Claims leave from the midst of the queue.
fn odd_ones_first(tickets: Vec<Ticket>) -> Vec<Ticket> {
    let (odd, even): (Vec<Ticket>, Vec<Ticket>) = tickets.into_iter().partition(|ticket| ticket % 2 == 1);
    [odd, even].concat()
}

const ANY: [End; 3] = [in_order, backwards, odd_ones_first];

/// What so many claims cost, from the first `enter` to the last `leave`, in segments and claims looked at.
fn cost(claims: u64, claim: impl Fn(u64) -> (ByteRange, Mode), end: End) -> usize {
    let locks = RangeLocks::default();
    let enter = |i| {
        let (range, mode) = claim(i);
        locks.enter([range], mode)
    };
    end((0..claims).map(enter).collect()).into_iter().for_each(|ticket| locks.leave(ticket));
    assert!(locks.0.borrow().is_empty());
    let looked_at = locks.0.borrow().looked_at();
    assert!(looked_at >= claims as usize, "it counts");
    looked_at
}

/// Each claim costs at most `each` looks, whatever the number of claims.
fn check_linear(each: usize, ends: &[End], claim: impl Fn(u64) -> (ByteRange, Mode) + Copy) {
    for claims in [100, 1000, 10_000] {
        for end in ends {
            let cost = cost(claims, claim, *end);
            assert!(cost <= each * claims as usize, "{cost} looks for {claims} claims");
        }
    }
}

#[test]
fn a_queue_for_the_same_bytes_costs_each_claim_the_same() {
    check_linear(10, &ANY, |_| (span(4096, 4096), Mode::Exclusive));
    check_linear(4, &ANY, |_| (span(4096, 4096), Mode::Shared));
    check_linear(12, &ANY, |i| (span(4096, 4096), if i % 3 == 0 { Mode::Exclusive } else { Mode::Shared }));
}

#[test]
fn exclusive_claims_that_overlap_in_part_cost_each_the_same() {
    check_linear(24, &ANY, |i| (span(i * 7919 % 64 * 512, (1 + i * 31 % 40) * 512), Mode::Exclusive));
    check_linear(24, &ANY, |i| (span(i % 2 * 2048, 4096), Mode::Exclusive));
}

#[test]
fn claims_apart_from_each_other_cost_each_the_same() {
    check_linear(4, &ANY, |i| {
        (span(i * 7919 % 10_007 * 4096, 4096), if i % 3 == 0 { Mode::Exclusive } else { Mode::Shared })
    });
}

#[test]
fn a_claim_on_everything_amid_small_ones_costs_no_more_than_they_are() {
    let everything = |i| i % 10 == 0;
    check_linear(24, &[in_order, backwards], |i| match everything(i) {
        true => (span(0, 1 << 40), Mode::Exclusive),
        false => (span(i * 7919 % 10_007 * 4096, 4096), Mode::Shared),
    });
}

/// At each instant a shared claim on everything lives, while small ones come and go: the cuts that these leave behind
/// go too.
#[test]
fn claims_that_have_gone_leave_no_cuts_behind() {
    let locks = RangeLocks::default();
    let everything = || locks.enter([span(0, 1 << 40)], Mode::Shared);
    let mut last = everything();
    for i in 0..1000 {
        let small = locks.enter([span(i * 8192, 4096)], Mode::Shared);
        let next = everything();
        locks.leave(last);
        locks.leave(small);
        last = next;
    }
    assert_eq!(locks.0.borrow().segments(), 1, "for one claim");
}

#[test]
fn a_task_is_woken_once_and_only_when_its_claim_is_granted() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let locks = RangeLocks::default();
    let held: Vec<Ticket> = (0..10).map(|_| locks.enter([span(0, 8)], Mode::Shared)).collect();
    let waiting = locks.enter([span(0, 8)], Mode::Exclusive);
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = count.clone().into();
    let mut granted = Box::pin(locks.granted(waiting));
    assert!(granted.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let woken = held.into_iter().map(|ticket| {
        locks.leave(ticket);
        count.0.load(Ordering::Relaxed)
    });
    assert_eq!(woken.collect::<Vec<_>>(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert!(granted.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
}
