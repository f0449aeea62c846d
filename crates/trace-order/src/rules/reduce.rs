//! Transitive reduction by vector clocks: an action need not wait for what its thread, or what it waits for, has waited
//! for.
//!
//! A *mark* is how far a thread has come: `2 n` once its first `n` actions are complete, one more once the next is
//! issued.

/// Words of remembered clocks at most. Beyond it old ones are forgotten; then some edges stay although others imply
/// them.
const WORDS_MAX: usize = 1 << 25;

/// The mark at which action number `local` of a thread is issued.
pub fn issued(local: u32) -> u32 {
    2 * local + 1
}

/// The mark at which action number `local` of a thread is complete.
pub fn completed(local: u32) -> u32 {
    2 * local + 2
}

/// A wait for a thread to reach a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wait {
    /// The thread.
    pub thread: u32,
    /// The mark.
    pub until: u32,
}

/// What a thread knew of the others since some action of its own.
#[derive(Debug, Default)]
struct History {
    since: Vec<u32>,
    clocks: Vec<u32>,
}

/// Which marks each thread is known to have seen.
#[derive(Debug)]
pub struct Reducer {
    threads: usize,
    /// By thread; empty as long as a thread has not waited.
    known: Vec<Vec<u32>>,
    histories: Vec<History>,
    words: usize,
    words_max: usize,
}

impl Reducer {
    /// Nothing is known yet.
    pub fn new(threads: usize) -> Reducer {
        Reducer::bounded(threads, WORDS_MAX)
    }

    fn bounded(threads: usize, words_max: usize) -> Reducer {
        Reducer {
            threads,
            known: vec![Vec::new(); threads],
            histories: (0..threads).map(|_| History::default()).collect(),
            words: 0,
            words_max,
        }
    }

    /// Calls `keep` with the positions of those of `waits` that action `local` of `thread` needs. They must be sorted
    /// by the actions that they are for, latest last; actions are told in an order that all edges follow.
    pub fn action(&mut self, thread: u32, local: u32, waits: &[Wait], mut keep: impl FnMut(usize)) {
        if waits.is_empty() {
            return;
        }
        let mut row = std::mem::take(&mut self.known[thread as usize]);
        row.resize(self.threads, 0);
        let mut learnt = false;
        for (at, wait) in waits.iter().enumerate().rev() {
            if row[wait.thread as usize] >= wait.until {
                continue;
            }
            learnt = true;
            keep(at);
            self.learn(&mut row, wait);
            let known = &mut row[wait.thread as usize];
            *known = (*known).max(wait.until);
        }
        if learnt {
            self.remember(thread, local, &row);
        }
        self.known[thread as usize] = row;
    }

    /// What the thread that is waited for knew when it issued that action.
    fn learn(&self, row: &mut [u32], wait: &Wait) {
        let history = &self.histories[wait.thread as usize];
        let local = (wait.until - 1) / 2;
        let at = history.since.partition_point(|since| *since <= local);
        let Some(at) = at.checked_sub(1) else { return };
        let clock = &history.clocks[at * self.threads..(at + 1) * self.threads];
        for (mine, theirs) in row.iter_mut().zip(clock) {
            *mine = (*mine).max(*theirs);
        }
    }

    fn remember(&mut self, thread: u32, local: u32, row: &[u32]) {
        if self.words + self.threads > self.words_max {
            self.histories.iter_mut().for_each(|history| *history = History::default());
            self.words = 0;
        }
        if self.threads > self.words_max {
            return;
        }
        let history = &mut self.histories[thread as usize];
        history.since.push(local);
        history.clocks.extend_from_slice(row);
        self.words += self.threads;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three threads in a chain, each action waiting for the one before, and the third also for the first.
    fn kept(words_max: usize) -> Vec<Wait> {
        let done = |thread| Wait { thread, until: completed(0) };
        let mut reducer = Reducer::bounded(3, words_max);
        let mut kept = Vec::new();
        for (thread, waits) in [(0, vec![]), (1, vec![done(0)]), (2, vec![done(0), done(1)])] {
            reducer.action(thread, 0, &waits, |at| kept.push(waits[at]));
        }
        kept
    }

    #[test]
    fn what_another_wait_implies_goes() {
        let done = |thread| Wait { thread, until: completed(0) };
        assert_eq!(kept(1000), [done(0), done(1)]);
    }

    #[test]
    fn forgotten_clocks_cost_edges_but_lose_none() {
        let done = |thread| Wait { thread, until: completed(0) };
        assert_eq!(kept(0), [done(0), done(1), done(0)]);
    }

    #[test]
    fn issuing_is_less_than_completing() {
        let mut reducer = Reducer::new(2);
        let mut kept = 0;
        let waits = [Wait { thread: 0, until: issued(4) }, Wait { thread: 0, until: completed(4) }];
        reducer.action(1, 0, &waits[..1], |_| kept += 1);
        reducer.action(1, 1, &waits[1..], |_| kept += 1);
        reducer.action(1, 2, &waits, |_| kept += 1);
        assert_eq!(kept, 2);
    }
}
