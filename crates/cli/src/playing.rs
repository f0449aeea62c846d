//! What verbs share that play block traces against candidate stacks.

use std::fs;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use esker_base::{Progress, Unit};
use esker_predict::input::Bytes;
use esker_predict::{CandidateRun, PredictError, Prepared, Trace, Watch};
use esker_trace_block::Format;

use crate::progress::{Part, Watcher};
use crate::trace_files;

/// What shows how far the traces and the plays of a verb are.
#[derive(Clone)]
pub struct Plays {
    watcher: Watcher,
    /// The bytes of all traces, until the first play begins.
    reading: Arc<Mutex<Option<Part>>>,
}

impl Plays {
    /// Nothing is shown yet.
    pub fn new(watcher: Watcher) -> Plays {
        Plays { watcher, reading: Arc::default() }
    }

    /// Traces in files, folders or archives, or one volume of each. The bytes of each are shown while they are read for
    /// the first time.
    pub fn traces(&self, paths: &[String], from: Option<Format>, volume: Option<&str>) -> Vec<Trace> {
        let bytes = |path: &String| fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|meta| meta.len());
        let all = paths.iter().map(bytes).sum::<Option<u64>>().filter(|all| *all > 0);
        *self.reading() = Some(self.watcher.part("reading traces", Unit::Bytes, all));
        let trace = |path: &String| {
            let (file, own) = (path.clone(), self.clone());
            let open = move || {
                let part = |(name, file): trace_files::NamedFile| (name, own.read(file));
                Ok(trace_files::open(&file)?.into_iter().map(part).collect())
            };
            Trace::new(path, from, Arc::new(open)).only(volume)
        };
        paths.iter().map(trace).collect()
    }

    fn read(&self, file: fs::File) -> Bytes {
        match &*self.reading() {
            Some(part) => Box::new(part.reading(file)),
            None => Box::new(file),
        }
    }

    fn reading(&self) -> std::sync::MutexGuard<'_, Option<Part>> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All traces were read.
    pub fn read_all(&self) {
        drop(self.reading().take());
    }

    /// Shows each part that is told: probes of a search, and measurements.
    pub fn watch(&self) -> Watch {
        let own = self.clone();
        Arc::new(move |told| {
            own.read_all();
            own.watcher.tell(told);
        })
    }

    /// Plays all candidates, side by side, and shows their requests as one part.
    ///
    /// # Errors
    /// The first that cannot be played.
    pub fn candidates(&self, prepared: &Prepared, threads: usize) -> Result<Vec<CandidateRun>, PredictError> {
        self.read_all();
        let count = prepared.candidates().len();
        let part = Arc::new(self.watcher.part("candidates", Unit::Of("requests"), Some(prepared.requests())));
        let ended = AtomicUsize::new(0);
        part.at(&format!("candidates 0 of {count}"));
        let run = |at| {
            let run = prepared.run(at, &of_one(&part));
            let ended = ended.fetch_add(1, Ordering::Relaxed) + 1;
            part.at(&format!("candidates {ended} of {count}"));
            run
        };
        side_by_side(count, threads, run).into_iter().collect()
    }
}

/// Adds the requests of one candidate to those of all.
fn of_one(part: &Arc<Part>) -> Watch {
    let (part, before) = (part.clone(), AtomicU64::new(0));
    Arc::new(move |told: Progress<'_>| {
        part.more(told.done.saturating_sub(before.swap(told.done, Ordering::Relaxed)));
    })
}

/// The threads that were asked for, or one for each CPU.
pub fn threads_of(asked: Option<NonZeroUsize>) -> usize {
    asked.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
}

/// Does work number 0 to `count` - 1 on threads. The results are in the order of the numbers.
pub fn side_by_side<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < count);
    let worker = || std::iter::from_fn(take).map(|at| (at, work(at))).collect::<Vec<_>>();
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(count)).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The command line as it can be typed again.
pub fn command_line() -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    let quoted = |word: String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    std::iter::once("esker".to_string()).chain(words).collect::<Vec<_>>().join(" ")
}
