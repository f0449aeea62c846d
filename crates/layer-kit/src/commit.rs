//! Group commit: callers that need their changes durable share one commit.
//!
//! Changes have ascending numbers. A commit makes all changes up to one number durable. A caller whose change came
//! during a commit waits for the next one, which serves all callers that wait.

use std::cell::Cell;

use esker_block::{BioError, Latch};

use crate::turn::Turn;

/// How far changes go, and how far they are durable.
#[derive(Default)]
pub struct GroupCommit {
    asked: Cell<u64>,
    durable: Cell<u64>,
    turn: Turn,
}

impl GroupCommit {
    /// A medium on which the changes up to number `durable` are.
    pub fn new(durable: u64) -> GroupCommit {
        GroupCommit { asked: Cell::new(durable), durable: Cell::new(durable), turn: Turn::default() }
    }

    /// Counts one more change, for layers whose changes have no numbers of their own.
    pub fn ask(&self) {
        self.asked.set(self.asked.get() + 1);
    }

    /// The number of the last change that was counted.
    pub fn asked(&self) -> u64 {
        self.asked.get()
    }

    /// The number up to which changes are durable.
    pub fn durable(&self) -> u64 {
        self.durable.get()
    }

    /// Notes that the changes up to `number` are durable.
    pub fn advance(&self, number: u64) {
        self.durable.set(self.durable.get().max(number));
    }

    /// Does `work` while no commit runs, as [`Turn::alone`].
    pub async fn alone<T>(&self, work: impl Future<Output = T>) -> T {
        self.turn.alone(work).await
    }

    /// Makes the changes up to `goal` durable. `commit` gives the number up to which it made them durable; it runs
    /// again as long as that is too low. A caller that is dropped during its commit leaves the work to the next one.
    ///
    /// # Errors
    /// What `commit` answers, to its own caller. The others try by themselves, unless the failure has set the latch.
    pub async fn reach(
        &self,
        goal: u64,
        latch: &Latch,
        commit: impl AsyncFn() -> Result<u64, BioError>,
    ) -> Result<(), BioError> {
        loop {
            // After a failure nothing says what the medium holds: no commit may follow it and seem to succeed.
            latch.check()?;
            if self.durable.get() >= goal {
                return Ok(());
            }
            let Some(turn) = self.turn.try_take() else {
                self.turn.changed().await;
                continue;
            };
            let reached = commit().await;
            drop(turn);
            self.advance(reached?);
        }
    }
}

#[cfg(test)]
mod tests;
