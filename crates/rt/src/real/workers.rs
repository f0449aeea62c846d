//! OS threads for blocking calls and CPU-heavy work: started on demand, kept while the world lives, bounded.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
    closed: bool,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

/// A pool of threads. Jobs beyond the bound wait in order.
pub(crate) struct Workers {
    shared: Arc<Shared>,
    name: &'static str,
    threads_max: usize,
}

impl Workers {
    pub(super) fn new(name: &'static str, threads_max: usize) -> Workers {
        let shared = Arc::new(Shared { state: Mutex::default(), work: Condvar::new() });
        Workers { shared, name, threads_max }
    }

    /// Runs `job` on some thread.
    pub(super) fn run(&self, job: Job) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() || state.threads >= self.threads_max {
            drop(state);
            self.shared.work.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let shared = self.shared.clone();
        let started = thread::Builder::new().name(self.name.to_string()).spawn(move || serve(&shared));
        if started.is_err() {
            self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).threads -= 1;
        }
    }
}

fn serve(shared: &Shared) {
    let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            job();
            state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        } else if state.closed {
            return;
        } else {
            state.idle += 1;
            state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.shared.work.notify_all();
    }
}
