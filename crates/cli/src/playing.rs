//! What verbs share that play block traces against candidate stacks.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use esker_predict::input::Bytes;
use esker_predict::{CandidateRun, PredictError, Prepared, Trace, Watch};
use esker_trace_block::Format;
use indicatif::ProgressBar;

use crate::trace_files;

/// Traces in files, folders or archives, or one volume of each.
pub fn traces(paths: &[String], from: Option<Format>, volume: Option<&str>) -> Vec<Trace> {
    let trace = |path: &String| {
        let file = path.clone();
        let open = move || {
            let part = |(name, file): trace_files::NamedFile| (name, Box::new(file) as Bytes);
            Ok(trace_files::open(&file)?.into_iter().map(part).collect())
        };
        Trace::new(path, from, Arc::new(open)).only(volume)
    };
    paths.iter().map(trace).collect()
}

/// Shows on a bar what is being played.
pub fn watch(bar: &ProgressBar) -> Watch {
    let bar = bar.clone();
    Arc::new(move |what, more| {
        bar.set_message(what.to_string());
        bar.inc(more);
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

/// Plays all candidates, side by side.
///
/// # Errors
/// The first that cannot be played.
pub fn play_all(prepared: &Prepared, threads: usize, watch: &Watch) -> Result<Vec<CandidateRun>, PredictError> {
    side_by_side(prepared.candidates().len(), threads, |at| prepared.run(at, watch)).into_iter().collect()
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
