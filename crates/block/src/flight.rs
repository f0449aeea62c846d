//! Many requests on behalf of one: started in order, bounded in number, answered in order.

use std::collections::VecDeque;

use esker_rt::{JoinHandle, Rt};

use crate::Step;

enum Part<T> {
    Here(T),
    Coming(JoinHandle<T>),
}

/// Requests of one caller that are under way at once: the parts of a split one, or a batch of a layer's own.
pub const WIDTH: usize = 128;

/// Takes steps from `steps` and gives their results to `each`, in order, with at most `width` steps under way. Starts
/// no more of them once `each` says `false`, but waits for all that were started.
///
/// A step that waits becomes a task of its own, so that one wake-up costs one poll however many parts there are.
pub async fn windowed<T: Unpin + 'static>(
    rt: &Rt,
    width: usize,
    mut steps: impl Iterator<Item = Step<T>>,
    mut each: impl FnMut(T) -> bool,
) {
    let mut window = VecDeque::new();
    let mut go_on = true;
    loop {
        while go_on && window.len() < width {
            match steps.next() {
                Some(Step::Now(value)) => window.push_back(Part::Here(value)),
                Some(step) => window.push_back(Part::Coming(rt.spawn("part", step.into_future()))),
                None => break,
            }
        }
        let value = match window.pop_front() {
            Some(Part::Here(value)) => value,
            Some(Part::Coming(task)) => task.await,
            None => return,
        };
        go_on &= each(value);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use esker_base::Nanos;
    use esker_rt::sim::{SimConfig, twice};

    use super::*;

    /// Runs steps of which every third is there at once and the others end in reverse order; `stop` ends them early.
    fn check(width: usize, stop: u64, expected: std::ops::Range<u64>, started: u64) {
        twice(SimConfig::seeded(1), move |rt| {
            let expected = expected.clone();
            async move {
                let (under_way, most, begun) = (Rc::new(Cell::new(0)), Cell::new(0), Cell::new(0));
                let steps = (0..20u64).map(|i| {
                    begun.set(begun.get() + 1);
                    let sleep = rt.sleep(Nanos(100 - i));
                    let under_way = under_way.clone();
                    under_way.set(under_way.get() + 1);
                    most.set(under_way.get().max(most.get()));
                    let end = move || {
                        under_way.set(under_way.get() - 1);
                        i
                    };
                    if i % 3 == 0 {
                        return Step::Now(end());
                    }
                    Step::later(async move {
                        sleep.await;
                        end()
                    })
                });
                let seen = RefCell::new(Vec::new());
                windowed(&rt, width, steps, |i| {
                    seen.borrow_mut().push(i);
                    i != stop
                })
                .await;
                assert_eq!(*seen.borrow(), expected.collect::<Vec<_>>(), "in order, and all that were started");
                assert!(most.get() <= width && under_way.get() == 0 && begun.get() == started);
            }
        });
    }

    #[test]
    fn results_come_in_order_and_no_more_than_the_window_is_under_way() {
        check(4, 99, 0..20, 20);
        check(1, 99, 0..20, 20);
        check(100, 99, 0..20, 20);
    }

    #[test]
    fn nothing_is_started_after_a_stop_but_what_runs_is_waited_for() {
        check(4, 5, 0..9, 9);
        check(1, 5, 0..6, 6);
    }
}
