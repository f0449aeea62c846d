//! What the verbs share that replay traces: traces that are compiled already or not, and the choices of a tree.

use std::path::{Path, PathBuf};

use esker_base::units::parse_size;
use esker_base::{Progress, Unit};
use esker_trace_calls::Trace;
use esker_trace_calls::import::OnBad;
use esker_trace_order::compiled::{CompiledError, Program};
use esker_trace_order::model::{CompileError, compile};
use esker_trace_replay::{InitMode, InitOptions, ReplayInput, Report};

use crate::failure::Failure;
use crate::progress::Watcher;
use crate::recording;
use crate::terminal::Terminal;

/// What a compiled trace begins with.
const COMPILED: &[u8] = b"ESKERCTR";

/// The arguments of verbs that make a tree.
#[derive(clap::Args)]
pub struct Jobs {
    /// Compiled traces, or recordings, which are compiled first; several of them share one tree
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// Uses the directory also if there are files of others, which stay as they are
    #[arg(long)]
    force: bool,
    /// Sets what a foreign trace does not get: set-user-id and set-group-id bits, and attributes outside of user.
    #[arg(long)]
    pub keep_modes: bool,
    /// Refuses traces whose tree and writes need more bytes [default: the tree must fit into what is free]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_bytes: Option<u64>,
    /// Makes the kernel forget its caches behind the initialisation (needs root)
    #[arg(long)]
    drop_caches: bool,
    /// Seed of what files are filled with and of what is written
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error("{0}: cannot be read: {1}")]
    Unread(String, std::io::Error),
    #[error("{0}: {1}")]
    Compiled(String, CompiledError),
    #[error("{0}: {1}")]
    Uncompiled(String, CompileError),
}

impl Jobs {
    /// Reads all traces.
    ///
    /// # Errors
    /// What is wrong with which.
    pub fn load(&self, terminal: &mut Terminal) -> Result<Vec<ReplayInput>, Failure> {
        self.traces.iter().map(|path| load(path, terminal)).collect()
    }

    /// How the tree is made.
    pub fn init(&self, mode: InitMode) -> InitOptions {
        InitOptions {
            mode,
            force: self.force,
            keep_modes: self.keep_modes,
            max_bytes: self.max_bytes,
            drop_caches: self.drop_caches,
            seed: self.seed,
        }
    }
}

/// Reads one trace, and compiles it unless it is compiled.
///
/// # Errors
/// What is wrong with it.
pub fn load(path: &Path, terminal: &mut Terminal) -> Result<ReplayInput, Failure> {
    let name = path.display().to_string();
    let head = head(path).map_err(|error| LoadError::Unread(name.clone(), error))?;
    if head == COMPILED {
        let bytes = std::fs::read(path).map_err(|error| LoadError::Unread(name.clone(), error))?;
        let program = Program::decode(&bytes).map_err(|error| LoadError::Compiled(name.clone(), error))?;
        return Ok(ReplayInput { name, program });
    }
    let trace = recording::import(path, None, OnBad::Skip, &terminal.watcher())?;
    recording::complain(&trace.warnings, terminal);
    recording::refuse_lost(&trace, &name)?;
    let program = compiled(trace, &terminal.watcher()).map_err(|error| LoadError::Uncompiled(name.clone(), error))?;
    Ok(ReplayInput { name, program })
}

/// Compiles a recording, and shows how many of its actions are done.
///
/// # Errors
/// Those of the compiler.
pub fn compiled(trace: Trace, watcher: &Watcher) -> Result<Program, CompileError> {
    let part = watcher.part("compiling", Unit::Of("actions"), Some(trace.actions.len() as u64));
    compile(trace, &mut |done| part.done(done))
}

/// The first bytes; none of a folder.
fn head(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut head = Vec::new();
    if !path.is_dir() {
        std::fs::File::open(path)?.take(COMPILED.len() as u64).read_to_end(&mut head)?;
    }
    Ok(head)
}

/// The report, or a list of several.
///
/// # Errors
/// None that reports have.
pub fn as_json(reports: &[Report]) -> serde_json::Result<String> {
    match reports {
        [one] => serde_json::to_string_pretty(one),
        more => serde_json::to_string_pretty(more),
    }
}

/// Calls `work` with what shows its progress.
pub fn shown<T>(terminal: &Terminal, work: impl FnOnce(&mut dyn FnMut(Progress<'_>)) -> T) -> T {
    let watcher = terminal.watcher();
    work(&mut |told| watcher.tell(told))
}

/// A mode of initialisation by its name.
///
/// # Errors
/// Names those that there are.
pub fn init_mode(text: &str) -> Result<InitMode, String> {
    match text {
        "full" => Ok(InitMode::Full),
        "delta" => Ok(InitMode::Delta),
        "none" => Ok(InitMode::None),
        _ => Err("say full, delta or none".to_string()),
    }
}
