//! Requests that come and go through the gate allocate nothing once it is warm, also while a mover looks.

#![forbid(unsafe_code)]

use esker_base::span;
use esker_layer_kit::Gate;
use esker_rt::counting::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// Checks that requests allocate nothing. Other threads of the test program may allocate meanwhile, so one round
/// without an allocation is enough: what allocates does so in every round.
#[track_caller]
fn assert_none(what: &str, gate: &Gate) {
    let under_way = 100;
    let round = || {
        let before = ALLOCATOR.count();
        let tickets: [_; 100] = std::array::from_fn(|at| gate.enter(span(at as u64 * 512, 4096), at % 2 == 0));
        assert!(tickets.iter().all(|ticket| gate.may_go(*ticket)));
        tickets.into_iter().for_each(|ticket| gate.leave(ticket));
        ALLOCATOR.count() - before
    };
    round();
    assert_eq!((0..20).map(|_| round()).min(), Some(0), "{what}: allocations of {under_way} requests");
}

#[test]
fn a_warm_gate_allocates_nothing() {
    let gate = Gate::default();
    assert_none("no mover looks", &gate);
    let watch = gate.watch(span(0, 1 << 20), 4096);
    let bound = gate.home_bound(span(0, 4096));
    assert_none("a mover looks", &gate);
    assert!(watch.is_changed());
    drop(bound);
}
