//! Exclusion of tasks: one at a time has the turn, and it leaves with its guard.

use std::mem::ManuallyDrop;

use esker_rt::sync::{Credits, Notify};

/// Lets one task at a time in, in the order in which they came.
pub struct Turn {
    free: Credits,
    left: Notify,
}

impl Default for Turn {
    fn default() -> Turn {
        Turn { free: Credits::new(1), left: Notify::default() }
    }
}

/// The turn, until it is dropped.
#[must_use = "the turn ends when this is dropped"]
pub struct Taken<'a>(&'a Turn);

impl Turn {
    /// Waits for the turn.
    pub async fn take(&self) -> Taken<'_> {
        self.free.take(1).await;
        Taken(self)
    }

    /// Takes the turn if no task has it.
    pub fn try_take(&self) -> Option<Taken<'_>> {
        self.free.try_take(1).then(|| Taken(self))
    }

    /// Does `work` under the turn. Work that is dropped before its end keeps the turn for good, because what it leaves
    /// behind is unknown.
    pub async fn alone<T>(&self, work: impl Future<Output = T>) -> T {
        let turn = ManuallyDrop::new(self.take().await);
        let result = work.await;
        drop(ManuallyDrop::into_inner(turn));
        result
    }

    /// Waits until no task has the turn, and leaves it to others.
    pub async fn idle(&self) {
        self.left.wait_until(|| !self.is_taken()).await;
    }

    /// Waits until the task that has the turn leaves.
    pub async fn changed(&self) {
        self.left.wait().await;
    }

    /// Whether a task has the turn.
    pub fn is_taken(&self) -> bool {
        self.free.free() == 0
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.free.give(1);
        self.0.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use esker_base::Nanos;
    use esker_rt::sim::{SimConfig, twice};
    use esker_rt::sync::{Either, race};

    use super::*;

    #[test]
    fn work_that_is_dropped_keeps_the_turn_and_a_guard_gives_it_back() {
        twice(SimConfig::seeded(1), |rt| async move {
            let (turn, limit) = (Turn::default(), || rt.sleep(Nanos::micros(5)));
            let taken = turn.take().await;
            assert!(turn.is_taken() && turn.try_take().is_none());
            assert_eq!(race(turn.idle(), limit()).await, Either::Right(()));
            drop(taken);
            assert!(turn.alone(async { turn.is_taken() }).await);
            assert!(!turn.is_taken());
            assert_eq!(race(turn.alone(rt.sleep(Nanos::secs(1))), limit()).await, Either::Right(()));
            assert_eq!(race(turn.idle(), limit()).await, Either::Right(()), "nothing says what it left");
        });
    }

    #[test]
    fn turns_go_to_tasks_in_the_order_in_which_they_came() {
        twice(SimConfig::seeded(1), |rt| async move {
            let (turn, order) = (Rc::new(Turn::default()), Rc::new(Cell::new(0)));
            let tasks = (0..5).map(|number| {
                let (turn, order, rt) = (turn.clone(), order.clone(), rt.clone());
                async move {
                    let _turn = turn.take().await;
                    rt.sleep(Nanos::micros(1)).await;
                    assert_eq!(order.replace(number + 1), number);
                }
            });
            esker_rt::sync::join_all(tasks.collect::<Vec<_>>()).await;
            assert_eq!(order.get(), 5);
        });
    }
}
