//! A replay whose time is a prediction: by the rules that predict best, at natural speed, with caches as the program
//! finds them. The program's own files are not in memory; all others, such as its libraries, are.

use std::os::fd::OwnedFd;
use std::path::Path;

use esker_base::Progress;
use esker_base::units::MIB;
use esker_rt::real::Reactor;
use esker_trace_calls::{EntryKind, PathBytes, Snapshot};
use esker_trace_order::rules::{Order, Rules};
use rustix::fs::{Advice, Mode, OFlags, fadvise};
use rustix::io::Errno;

use crate::init::{InitError, InitMode, InitOptions, initialise};
use crate::replay::ReplayOptions;
use crate::report::{Initialised, Report};
use crate::root::{Base, Root};
use crate::run::{self, ReplayInput, RunError, RunOptions, choose, run};
use crate::script::Speed;

/// Directories with the files of the system, which are in memory where programs run often.
const SYSTEM: [&str; 9] = ["/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/etc", "/opt"];

/// The choices of a prediction.
#[derive(Clone, Debug)]
pub struct PredictOptions {
    /// How the tree is made, if it is made.
    pub init: InitOptions,
    /// Those of each replay.
    pub replay: ReplayOptions,
    /// Whether the tree is there already, and its files are in memory or not as they shall be. For the first replay;
    /// later ones put the tree right.
    pub prepared: bool,
    /// Directories of the trace with the program's own files. Of none: all but those of the system are its own.
    pub own: Vec<PathBytes>,
    /// How many replays, at least one; the middle one counts.
    pub repeat: u32,
}

impl PredictOptions {
    fn is_own(&self, path: &PathBytes) -> bool {
        let below = |dir: &[u8]| path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
        match self.own.as_slice() {
            [] => !SYSTEM.iter().any(|dir| below(dir.as_bytes())),
            own => own.iter().any(|dir| below(dir)),
        }
    }
}

/// The order whose replays predict best.
pub fn order() -> Order {
    let rules = Rules::default() | Rules::THREAD_STAGE | Rules::FILE_RW | Rules::FD_RW;
    Order::Root(rules - Rules::FILE_SEQ - Rules::FD_SEQ)
}

/// Makes the tree of `jobs` in the run directory `dir` and predicts from it how long they take there, all at once.
///
/// # Errors
/// [`RunError`]; a replay that predicts nothing is no error, and its report says why.
pub fn predict(
    jobs: Vec<ReplayInput>,
    dir: &Path,
    options: &PredictOptions,
    reactor: &Reactor,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Vec<Report>, RunError> {
    let (snapshot, _) = run::tree(&jobs)?;
    let init = InitOptions { mode: InitMode::None, drop_caches: false, ..options.init };
    let replay = RunOptions { order: order(), speed: Speed::Scaled(1.0), init, replay: options.replay, repeat: 1 };
    let mut rounds: Vec<Vec<Report>> = jobs.iter().map(|_| Vec::new()).collect();
    for round in 0..options.repeat.max(1) {
        let made = prepare(dir, &snapshot, options, round, progress)?;
        for (reports, mut report) in rounds.iter_mut().zip(run(jobs.clone(), dir, replay, reactor, progress)?) {
            report.init = Some(made.clone());
            reports.push(report);
        }
    }
    Ok(rounds.into_iter().map(choose).collect())
}

/// Makes the tree, or puts it right, and brings caches into the state in which the program finds them.
fn prepare(
    dir: &Path,
    snapshot: &Snapshot,
    options: &PredictOptions,
    round: u32,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Initialised, InitError> {
    let mode = match round {
        0 if options.prepared => InitMode::None,
        0 => InitMode::Full,
        _ => InitMode::Delta,
    };
    let (root, made) = initialise(dir, snapshot, InitOptions { mode, ..options.init }, progress)?;
    let files = snapshot.entries.iter().filter(|(_, entry)| matches!(entry.kind, EntryKind::File { .. }));
    let (files, mut buffer) = (files.collect::<Vec<_>>(), vec![0; MIB as usize]);
    for (at, (path, _)) in (1u64..).zip(&files) {
        progress(Progress::of("caches of the program", "files", at, files.len() as u64));
        let failed = |what, source| InitError::Kernel { dir: dir.to_path_buf(), path: path.to_string(), what, source };
        let is_own = options.is_own(path);
        if is_own && mode == InitMode::None {
            continue;
        }
        match open(&root, path).map_err(|source| failed("opening", source))? {
            Some(file) if is_own => forget(&file).map_err(|source| failed("forgetting", source))?,
            Some(file) => read(&file, &mut buffer).map_err(|source| failed("reading", source))?,
            None => {}
        }
    }
    Ok(made)
}

/// A file of the tree; `None` if its mode lets this user not read it, because then the program did not either.
fn open(root: &Root, path: &PathBytes) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match root.open_at(Base::Root, path, flags, Mode::empty()) {
        Err(Errno::ACCESS) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Takes a file whose content is on the device out of memory.
fn forget(file: &OwnedFd) -> Result<(), Errno> {
    fadvise(file, 0, None, Advice::DontNeed)
}

fn read(file: &OwnedFd, buffer: &mut [u8]) -> Result<(), Errno> {
    while rustix::io::read(file, &mut *buffer)? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests;
