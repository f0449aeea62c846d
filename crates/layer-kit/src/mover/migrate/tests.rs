//! How a migration goes about it. What clients see of it is judged by the races of `esker-testkit`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use esker_base::Time;
use esker_block::ext::Enter;
use esker_block::step::LocalFuture;
use esker_block::{BioError, Class, Device, Done, LayerHandle, Limits, Step, WorkPermit};
use esker_dev::{Defer, Media, MemoryDevice};
use esker_rt::Rt;
use esker_rt::mem::Pool;
use esker_rt::sim::{SimConfig, twice};

use super::super::nothing;
use super::*;

const UNIT: u64 = 1024;
const SIZE: u64 = 64 * UNIT;
const LATENCY: Nanos = Nanos::micros(10);

fn rules(grain: Grain) -> Rules {
    let (hold_max, tag) = (Nanos::millis(1), Tag::of(Class::Background));
    Rules { unit: UNIT, grain, passes: 2, hold_max, width: 2, tag, described: false }
}

/// Two devices, of which the first is filled.
struct Bed {
    io: Io,
    media: [Rc<Media>; 2],
    gate: Gate,
}

impl Bed {
    fn new(rt: &Rt) -> Bed {
        let media = [Media::new(SIZE), Media::new(SIZE)];
        media[0].write(0, &Buf::described(SIZE as usize, 7));
        let device = |media: &Rc<Media>| -> Rc<dyn Device> {
            Rc::new(MemoryDevice::over(rt, media.clone(), 512, Defer::Always(LATENCY)))
        };
        let io = Io::over(rt, &Pool::default(), media.iter().map(device).collect());
        Bed { io, media, gate: Gate::default() }
    }

    fn way(&self) -> Way {
        Way::Io(self.io.clone())
    }

    /// The first bytes of the first device, to another place of the second.
    fn transit(&self, len: u64) -> Move {
        let place = |lower, at| LowerAddress { lower, at };
        Move { upper: 10 * UNIT, from: place(0, 2 * UNIT), to: place(1, 5 * UNIT), len }
    }

    fn is_copied(&self, transit: Move) -> bool {
        let [from, to] = [transit.from, transit.to].map(|place| esker_base::span(place.at, transit.len));
        self.media[0].bytes(from) == self.media[1].bytes(to)
    }
}

/// Notes what is asked, and stops the mover after some pieces.
#[derive(Default)]
struct Noted {
    earned: RefCell<Vec<(Vec<usize>, u64)>>,
    took: RefCell<Vec<Nanos>>,
    left: Cell<usize>,
}

impl Noted {
    fn stopping_after(left: usize) -> Noted {
        Noted { left: Cell::new(left), ..Noted::default() }
    }
}

impl Pace for Noted {
    fn earn(&self, lowers: &[usize], bytes: u64) -> Step<Go> {
        let Some(left) = self.left.get().checked_sub(1) else { return Step::Now(Go::Stop) };
        self.left.set(left);
        self.earned.borrow_mut().push((lowers.to_vec(), bytes));
        Step::Now(Go::On)
    }

    fn took(&self, _: &[usize], time: Nanos) {
        self.took.borrow_mut().push(time);
    }
}

#[test]
fn a_range_is_copied_in_units_and_switched_by_one_record_or_by_one_for_each() {
    for (grain, records) in [(Grain::Whole, vec![2560]), (Grain::Unit, vec![1024, 1024, 512])] {
        let switched = twice(SimConfig::seeded(1), move |rt| async move {
            let (bed, pace, lens) = (Bed::new(&rt), Noted::stopping_after(9), RefCell::new(Vec::new()));
            let mover = Mover::migrating(bed.gate.clone(), rules(grain));
            let transit = bed.transit(2 * UNIT + 512);
            let record = |_: &Io, moves: &[Move]| {
                assert!(moves.iter().all(|one| bed.is_copied(*one)), "the record follows the copy");
                lens.borrow_mut().extend(moves.iter().map(|one| one.len));
                Step::Now(Ok(()))
            };
            let outcome = mover.migrate(&bed.way(), transit, &pace, &record).await;
            assert_eq!(outcome, Outcome::Moved { passes: 0, held: Nanos::ZERO });
            assert!(
                bed.is_copied(transit) && bed.media[1].bytes(esker_base::span(0, 5 * UNIT)).iter().all(|b| *b == 0)
            );
            assert!(pace.earned.borrow().iter().all(|(lowers, _)| *lowers == [0, 1]));
            assert!(pace.took.borrow().iter().all(|time| *time == LATENCY + LATENCY));
            assert_eq!(pace.took.borrow().len(), pace.earned.borrow().len());
            lens.take()
        });
        assert_eq!(switched, records);
    }
}

#[test]
fn what_clients_change_is_copied_again_a_few_times_and_then_under_the_hold() {
    let (outcome, copies) = twice(SimConfig::seeded(1), |rt| async move {
        let bed = Bed::new(&rt);
        let mover = Mover::migrating(bed.gate.clone(), rules(Grain::Whole));
        // A client that changes one unit more often than it can be copied.
        let (gate, clock) = (bed.gate.clone(), rt.clone());
        rt.spawn_detached("client", async move {
            loop {
                let ticket = gate.enter(esker_base::span(11 * UNIT, 512), true);
                gate.admitted(ticket).await;
                gate.leave(ticket);
                clock.sleep(Nanos::micros(3)).await;
            }
        });
        let pace = Noted::stopping_after(99);
        let outcome = mover.migrate(&bed.way(), bed.transit(4 * UNIT), &pace, &nothing).await;
        (outcome, pace.earned.take().len())
    });
    assert_eq!(outcome, Outcome::Moved { passes: 2, held: LATENCY + LATENCY });
    assert_eq!(copies, 2 + 2, "two pieces at first, and two passes over one unit");
}

#[test]
fn a_range_that_is_too_hot_switches_unit_by_unit_up_to_the_hot_one() {
    twice(SimConfig::seeded(1), |rt| async move {
        let (bed, records) = (Bed::new(&rt), RefCell::new(Vec::new()));
        let mover = Mover::migrating(bed.gate.clone(), rules(Grain::Whole));
        let stuck = bed.gate.enter(esker_base::span(12 * UNIT, 512), true);
        let record = |_: &Io, moves: &[Move]| {
            records.borrow_mut().push((moves[0].upper / UNIT, moves[0].len / UNIT));
            Step::Now(Ok(()))
        };
        let pace = Noted::stopping_after(99);
        let outcome = mover.migrate(&bed.way(), bed.transit(4 * UNIT), &pace, &record).await;
        // The drain of what was switched does not wait for a client of another unit.
        assert_eq!(outcome, Outcome::Part { units: 2, why: Cause::Hot });
        assert_eq!(records.take(), [(10, 1), (11, 1)]);
        let held = 2 * HOLDS_MAX;
        let least = Time::ZERO + Nanos::millis(u64::from(held));
        assert!(rt.now() >= least && bed.gate.may_go(stuck) && bed.gate.waiting() == 0, "{:?}", rt.now());
        bed.gate.leave(stuck);
    });
}

/// A device that holds no bytes.
struct Hollow(Limits);

impl Device for Hollow {
    fn limits(&self) -> &Limits {
        &self.0
    }

    fn submit(&self, bio: Bio) -> Step<Done> {
        Step::Now(if bio.buf.is_described() { bio.ok() } else { bio.fail(BioError::invalid("bytes are carried")) })
    }
}

#[test]
fn copies_of_a_simulation_carry_no_bytes() {
    for (described, expected) in
        [(true, Outcome::Moved { passes: 0, held: Nanos::ZERO }), (false, Outcome::Abandoned(Cause::Read))]
    {
        twice(SimConfig::seeded(1), move |rt| async move {
            let device = || -> Rc<dyn Device> { Rc::new(Hollow(Limits::plain(SIZE, 512))) };
            let way = Way::Io(Io::over(&rt, &Pool::default(), vec![device(), device()]));
            let mover = Mover::migrating(Gate::default(), Rules { described, ..rules(Grain::Whole) });
            let transit = Bed::new(&rt).transit(8 * UNIT);
            assert_eq!(mover.migrate(&way, transit, &Noted::stopping_after(9), &nothing).await, expected);
        });
    }
}

#[test]
fn a_pace_that_stops_abandons_all_that_is_not_switched() {
    for (grain, expected) in [
        (Grain::Whole, Outcome::Abandoned(Cause::Cancelled)),
        (Grain::Unit, Outcome::Part { units: 1, why: Cause::Cancelled }),
    ] {
        twice(SimConfig::seeded(1), move |rt| async move {
            let bed = Bed::new(&rt);
            let mover = Mover::migrating(bed.gate.clone(), rules(grain));
            let outcome = mover.migrate(&bed.way(), bed.transit(8 * UNIT), &Noted::stopping_after(1), &nothing).await;
            assert_eq!(outcome, expected);
        });
    }
}

/// A place in a stack that ends after some pieces of work.
struct Ending {
    io: Io,
    left: Cell<u32>,
}

impl Enter for Ending {
    fn enter(self: Rc<Self>) -> LocalFuture<Option<WorkPermit>> {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        Box::pin(async move { (left > 0).then(|| WorkPermit::new(self.io.below().clone(), || {})) })
    }
}

#[test]
fn a_stack_that_ends_stops_a_migration_between_pieces_of_work() {
    twice(SimConfig::seeded(1), |rt| async move {
        let bed = Bed::new(&rt);
        let handle = LayerHandle::new(Rc::new(Ending { io: bed.io.clone(), left: Cell::new(3) }));
        let way = Way::Background(rt.clone(), Pool::default(), handle);
        let mover = Mover::migrating(bed.gate.clone(), rules(Grain::Unit));
        let outcome = mover.migrate(&way, bed.transit(8 * UNIT), &Noted::stopping_after(99), &nothing).await;
        assert_eq!(outcome, Outcome::Part { units: 1, why: Cause::Stopped }, "copy, switch, copy");
    });
}
