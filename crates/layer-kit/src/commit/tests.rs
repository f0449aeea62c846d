use std::rc::Rc;

use esker_base::Nanos;
use esker_rt::Rt;
use esker_rt::sim::{SimConfig, twice};
use esker_rt::sync::{Either, join_all, race};

use super::*;

/// A medium whose commits take 10 us.
struct Medium {
    rt: Rt,
    latch: Latch,
    commits: GroupCommit,
    begun: Cell<u64>,
    /// The commit that fails.
    fails: u64,
}

impl Medium {
    fn new(rt: &Rt, fails: u64) -> Rc<Medium> {
        let commits = GroupCommit::default();
        Rc::new(Medium { rt: rt.clone(), latch: Latch::new("m"), commits, begun: Cell::new(0), fails })
    }

    /// Changes something, and makes it durable.
    async fn change(&self) -> Result<u64, BioError> {
        self.commits.ask();
        let goal = self.commits.asked();
        let commit = async || {
            self.begun.set(self.begun.get() + 1);
            let (asked, number) = (self.commits.asked(), self.begun.get());
            self.rt.sleep(Nanos::micros(10)).await;
            match number == self.fails {
                true => Err(BioError::io("the medium does not answer")),
                false => Ok(asked),
            }
        };
        let result = self.commits.reach(goal, &self.latch, commit).await;
        result.inspect_err(|error| self.latch.set_after(&self.rt, "a commit failed", error, "Repair m."))?;
        assert!(self.commits.durable() >= goal);
        Ok(goal)
    }
}

/// Makes changes at these times in microseconds.
async fn changes(medium: &Rc<Medium>, at: &[u64]) -> Vec<Result<u64, BioError>> {
    let changes = at.iter().map(|at| async {
        medium.rt.sleep(Nanos::micros(*at)).await;
        medium.change().await
    });
    join_all(changes.collect::<Vec<_>>()).await
}

#[test]
fn callers_that_come_together_share_a_commit() {
    let run = |rt: Rt| async move {
        let medium = Medium::new(&rt, 0);
        // The first commit begins before the others come; the second serves all of them.
        assert_eq!(changes(&medium, &[0, 1, 2, 3, 9]).await, [Ok(1), Ok(2), Ok(3), Ok(4), Ok(5)]);
        assert_eq!((medium.begun.get(), rt.now().0), (2, Nanos::micros(20).0));
        assert_eq!(medium.commits.reach(5, &medium.latch, async || unreachable!("it is durable")).await, Ok(()));
    };
    twice(SimConfig::seeded(1), run);
}

#[test]
fn a_caller_that_goes_away_leaves_its_commit_to_the_next() {
    let run = |rt: Rt| async move {
        let medium = Medium::new(&rt, 0);
        let (gone, stays) = (medium.clone(), medium.clone());
        let leaving = rt.spawn("gone", async move {
            let (rt, gone) = (gone.rt.clone(), gone);
            race(gone.change(), rt.sleep(Nanos::micros(4))).await
        });
        let staying = rt.spawn("stays", async move { changes(&stays, &[1, 2]).await });
        assert!(matches!(leaving.await, Either::Right(())));
        assert_eq!(staying.await, [Ok(2), Ok(3)]);
        // One of the two that waited took over at once.
        assert_eq!((medium.begun.get(), rt.now().0), (2, Nanos::micros(14).0));
    };
    twice(SimConfig::seeded(1), run);
}

#[test]
fn no_commit_follows_one_that_latched() {
    let run = |rt: Rt| async move {
        let medium = Medium::new(&rt, 2);
        let results = changes(&medium, &[0, 1, 2, 3, 30]).await;
        assert_eq!(results[0], Ok(1));
        // The second caller's own commit fails; the others are refused by the latch.
        assert!(matches!(results[1], Err(BioError::Io(_))), "{results:?}");
        assert!(results[2..].iter().all(|result| matches!(result, Err(BioError::Latched(_)))), "{results:?}");
        assert_eq!((medium.begun.get(), medium.commits.durable()), (2, 1));
    };
    twice(SimConfig::seeded(1), run);
}

#[test]
fn a_commit_that_reached_too_little_is_followed_by_another() {
    let run = |rt: Rt| async move {
        let (commits, latch, begun) = (GroupCommit::new(3), Latch::new("m"), Cell::new(3));
        let commit = async || {
            rt.sleep(Nanos::micros(1)).await;
            begun.set(begun.get() + 1);
            Ok(begun.get())
        };
        assert_eq!(commits.reach(3, &latch, &commit).await, Ok(()));
        assert_eq!(begun.get(), 3, "it was durable");
        assert_eq!(commits.reach(6, &latch, &commit).await, Ok(()));
        assert_eq!((begun.get(), commits.durable()), (6, 6));
    };
    twice(SimConfig::seeded(1), run);
}

#[test]
fn work_that_is_to_be_alone_keeps_commits_away() {
    let run = |rt: Rt| async move {
        let (medium, changed) = (Medium::new(&rt, 0), Rc::new(Cell::new(false)));
        let alone = async {
            let (other, changed) = (medium.clone(), changed.clone());
            let change = async move { changed.set(other.change().await == Ok(1)) };
            rt.spawn("changes", change).detach();
            rt.sleep(Nanos::micros(50)).await;
            assert_eq!(medium.begun.get(), 0);
        };
        medium.commits.alone(alone).await;
        rt.sleep(Nanos::micros(11)).await;
        assert!(changed.get() && medium.begun.get() == 1);
    };
    twice(SimConfig::seeded(1), run);
}
