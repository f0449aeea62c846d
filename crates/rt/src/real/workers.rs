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
    is_idle: bool,
}

impl Workers {
    pub(super) fn new(name: &'static str, threads_max: usize) -> Workers {
        Workers { shared: Workers::shared(), name, threads_max, is_idle: false }
    }

    fn shared() -> Arc<Shared> {
        Arc::new(Shared { state: Mutex::default(), work: Condvar::new() })
    }

    /// Threads that run only when nothing else wants their CPU.
    pub(super) fn idle(name: &'static str, threads_max: usize) -> Workers {
        Workers { shared: Workers::shared(), name, threads_max, is_idle: true }
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
        let (shared, is_idle) = (self.shared.clone(), self.is_idle);
        let serving = move || {
            if is_idle {
                // Refused where a jail forbids the call: the work is done all the same.
                let _refused = esker_sys::idle::run_when_idle();
            }
            serve(&shared);
        };
        let started = thread::Builder::new().name(self.name.to_string()).spawn(serving);
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
