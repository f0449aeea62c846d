use std::cell::RefCell;
use std::rc::Rc;

use esker_block::ext::Submit;
use esker_block::step::LocalFuture;
use esker_block::{Below, Bio, Done, Enter, Step, VolumeId};
use esker_rt::sim::{SimConfig, twice};

use super::*;

/// A place in a stack that lets work in until it is gone.
struct Place {
    gone: Cell<bool>,
    inside: Rc<Cell<u32>>,
}

impl Submit for Place {
    fn submit_below(self: Rc<Self>, _: u16, bio: Bio) -> Step<Done> {
        Step::Now(bio.ok())
    }

    fn lowers_of(&self, _: u16) -> &[VolumeId] {
        &[]
    }
}

impl Enter for Place {
    fn enter(self: Rc<Self>) -> LocalFuture<Option<WorkPermit>> {
        Box::pin(async move {
            let inside = self.inside.clone();
            inside.set(inside.get() + 1);
            let leave = move || inside.set(inside.get() - 1);
            (!self.gone.get()).then(|| WorkPermit::new(Below::new(self, 0), leave))
        })
    }
}

/// A layer whose task works off a list of pieces, each with the pause before it and what it does after.
struct Layer {
    rt: Rt,
    latch: Latch,
    background: Background,
    place: Rc<Place>,
    pieces: RefCell<Vec<(u64, Then)>>,
    /// When each piece was done, in microseconds.
    done: RefCell<Vec<u64>>,
}

impl Layer {
    fn begin(rt: &Rt, pieces: &[(u64, Then)]) -> Rc<Layer> {
        let layer = Rc::new(Layer {
            rt: rt.clone(),
            latch: Latch::new("m"),
            background: Background::default(),
            place: Rc::new(Place { gone: Cell::new(false), inside: Rc::default() }),
            pieces: RefCell::new(pieces.iter().rev().copied().collect()),
            done: RefCell::default(),
        });
        rt.spawn("task", layer.clone().run()).detach();
        layer
    }

    async fn run(self: Rc<Self>) {
        let due = || self.pieces.borrow_mut().pop().map(|(pause, then)| (Nanos::micros(pause), then));
        let work = async |job: WorkPermit, then| {
            assert_eq!(self.place.inside.get(), 1);
            self.done.borrow_mut().push(self.rt.now().0 / 1000);
            drop(job);
            then
        };
        self.background.run((&self.rt, Some(&self.latch)), &LayerHandle::new(self.place.clone()), due, work).await;
        self.done.borrow_mut().push(u64::MAX);
    }

    /// When pieces were done until now; the last one if the task has ended.
    async fn done_after(&self, micros: u64) -> Vec<u64> {
        self.rt.sleep(Nanos::micros(micros)).await;
        self.done.borrow().clone()
    }
}

const ENDED: u64 = u64::MAX;

#[test]
fn pieces_wait_before_and_after_as_they_say() {
    let run = |rt: Rt| async move {
        let pieces = [(0, Then::Again), (5, Then::After(Nanos::micros(7))), (0, Then::Woken), (0, Then::Again)];
        let layer = Layer::begin(&rt, &pieces);
        assert_eq!(layer.done_after(50).await, [0, 5, 12]);
        layer.background.wake();
        assert_eq!(layer.done_after(1).await, [0, 5, 12, 50]);
        layer.pieces.borrow_mut().push((1, Then::Again));
        layer.background.wake();
        assert_eq!(layer.done_after(9).await, [0, 5, 12, 50, 52]);
    };
    twice(SimConfig::seeded(1), run);
}

#[test]
fn a_task_ends_on_close_on_a_latch_and_outside_the_stack() {
    let run = |rt: Rt| async move {
        let pieces = [(0, Then::Again), (5, Then::Again)];
        let ends: [fn(&Layer); 3] = [
            |layer| layer.background.close(),
            |layer| layer.latch.set(&layer.rt, "a write failed", "Repair m."),
            |layer| layer.place.gone.set(true),
        ];
        for end in ends {
            let begun = rt.now().0 / 1000;
            let layer = Layer::begin(&rt, &pieces);
            assert_eq!(layer.done_after(3).await, [begun]);
            // It ends instead of the piece for which it pauses.
            end(&layer);
            assert_eq!(layer.done_after(9).await, [begun, ENDED]);
        }
    };
    twice(SimConfig::seeded(1), run);
}
