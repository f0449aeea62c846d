//! A file system of ours in virtual time, as verbs choose it: kind, stack, size, CPUs and costs of calls.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use esker_base::units::{GIB, parse_size, size_human};
use esker_block::{Device, Step};
use esker_predict::Calibration;
use esker_predict::calibration::FILE;
use esker_rt::mem::Pool;
use esker_rt::sim::{Sim, SimConfig};
use esker_stack::Stack;
use esker_trace_replay::files::CallCosts;
use esker_vfs::{FileSystem, FsKind, Opening, Stamp};

use crate::failure::Failure;
use crate::fs_kinds;
use crate::stack_text::StackText;
use crate::terminal::Terminal;

/// Bytes of a file system in memory, unless told otherwise: the same on every machine, so that results are.
const SIZE: u64 = 4 * GIB;
/// Memory that buffers keep for the next ones.
const POOL_BYTES_MAX: usize = 16 << 20;

/// The arguments of verbs that simulate a file system of ours.
#[derive(clap::Args)]
pub struct VirtualFiles {
    /// Replays on a file system of ours in virtual time, in place of a directory: ram, or lfs with --stack
    #[arg(long, value_name = "KIND")]
    pub on: Option<String>,
    /// The stack below the file system, with one export (with --on). For one in memory only its size counts. lfs is
    /// made anew on it: its devices hold bytes (content=memory of models)
    #[arg(long, value_name = "STACK", conflicts_with = "size")]
    stack: Option<String>,
    /// Size of a file system in memory (with --on) [default: 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Option<u64>,
    /// Simulated CPUs (with --on)
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub cpus: u32,
    /// CPU times of calls that `esker calibrate` measured (with --on) [default: esker-calibration.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
enum VirtualFilesError {
    #[error("{0}: cannot be read: {1}")]
    Unread(String, std::io::Error),
    #[error("{0}: has {1} exports; a file system lies on one")]
    Exports(String, usize),
    #[error("{file}: holds no times of calls on {kind}; measure them with `esker calibrate`")]
    NoCalls { file: String, kind: String },
}

/// A file system in a world of its own.
pub struct Simulation {
    /// The world.
    pub sim: Sim,
    /// The file system.
    pub files: Rc<dyn FileSystem>,
    /// What lies below it, which lives as long.
    _stack: Option<Rc<Stack>>,
}

impl VirtualFiles {
    /// The kind of the file system.
    ///
    /// # Errors
    /// An unknown one.
    pub fn kind(&self) -> Result<&'static FsKind, Failure> {
        fs_kinds::find(self.on.as_deref().unwrap_or_default())
    }

    /// Refuses what only a simulation takes.
    ///
    /// # Errors
    /// A usage error that names the option.
    pub fn refuse(&self) -> Result<(), Failure> {
        let given = [
            ("--stack", self.stack.is_some()),
            ("--size", self.size.is_some()),
            ("--calibration", self.calibration.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Failure::Usage(format!("{option} has no meaning without --on"))),
            None => Ok(()),
        }
    }

    /// Opens the file system in a new world.
    ///
    /// # Errors
    /// What is wrong with the kind or the stack.
    pub fn open(&self, seed: u64, terminal: &mut Terminal) -> Result<Simulation, Failure> {
        let kind = self.kind()?;
        let sim = Sim::new(SimConfig { seed, cpus: self.cpus as usize });
        let pool = Pool::new(POOL_BYTES_MAX);
        let stack = self.stack.clone().map(|source| built(&sim, &pool, source, terminal)).transpose()?;
        let bytes = match &stack {
            Some((_, device)) => device.size(),
            None => self.size.unwrap_or(SIZE),
        };
        if stack.is_some() && !kind.needs_device {
            let size = size_human(bytes);
            terminal.complain(&format!("{} lies in memory: of the stack only its size counts, {size}", kind.name));
        }
        let device = stack.as_ref().map(|(_, device)| device.clone()).filter(|_| kind.needs_device);
        let files = opened(kind, &sim, &pool, bytes, device)?;
        Ok(Simulation { sim, files, _stack: stack.map(|(stack, _)| stack) })
    }

    /// The costs of calls: measured ones, or those that are built in.
    ///
    /// # Errors
    /// An unusable file.
    pub fn costs(&self) -> Result<CallCosts, Failure> {
        let path = match &self.calibration {
            Some(path) => path.as_path(),
            None if Path::new(FILE).exists() => Path::new(FILE),
            None => return Ok(CallCosts::built_in()),
        };
        let (file, kind) = (path.display().to_string(), self.kind()?.name);
        let text = std::fs::read_to_string(path).map_err(|error| VirtualFilesError::Unread(file.clone(), error))?;
        let calibration = Calibration::parse(&file, &text)?;
        let calls: Vec<_> = calibration.calls.iter().filter(|call| call.file_system == kind).collect();
        match (calls.is_empty(), &self.calibration) {
            (true, None) => Ok(CallCosts::built_in()),
            (true, Some(_)) => Err(VirtualFilesError::NoCalls { file, kind: kind.to_string() }.into()),
            (false, _) => {
                let source = format!("{file}: measured on {}", calibration.machine);
                Ok(CallCosts::measured(&source, calls.iter().map(|call| (&*call.name, call.ns, call.ns_per_kib))))
            }
        }
    }
}

/// A new file system of that kind and size, of the superuser.
///
/// # Errors
/// What the kind refuses.
pub fn opened(
    kind: &FsKind,
    sim: &Sim,
    pool: &Pool,
    bytes: u64,
    device: Option<Rc<dyn Device>>,
) -> Result<Rc<dyn FileSystem>, Failure> {
    // What is not made anew is there once, and in this world.
    if !kind.needs_device && !kind.options.contains(&"size") {
        let text = format!("{} is not simulated ({}): use --dir DIR where the verb takes it", kind.name, kind.summary);
        return Err(Failure::Usage(text));
    }
    let rt = sim.rt();
    let now = Stamp(rt.wall());
    let opening = Opening { rt: &rt, pool, options: &[], owner: (0, 0), now, memory: bytes, device };
    if let Some(make) = kind.make.filter(|_| opening.device.is_some()) {
        waited(sim, make(&opening))?.map_err(fs_kinds::refused)?;
    }
    waited(sim, kind.open(&opening))?.map_err(fs_kinds::refused)
}

/// What a step gives, for which the world may have to turn.
fn waited<T: Unpin + 'static>(sim: &Sim, step: Step<T>) -> Result<T, Failure> {
    match step {
        Step::Now(value) => Ok(value),
        later => Ok(sim.try_block_on(async move { later.await })?),
    }
}

/// A new file system of that kind, of a size that is the same on every machine, in a world of its own.
///
/// # Errors
/// What the kind refuses.
pub fn plain(kind: &FsKind, seed: u64) -> Result<Simulation, Failure> {
    let sim = Sim::new(SimConfig::seeded(seed));
    let files = opened(kind, &sim, &Pool::new(POOL_BYTES_MAX), SIZE, None)?;
    Ok(Simulation { sim, files, _stack: None })
}

/// A stack, and the device that is its one export.
type Built = (Rc<Stack>, Rc<dyn Device>);

/// The stack in the world.
fn built(sim: &Sim, pool: &Pool, source: String, terminal: &mut Terminal) -> Result<Built, Failure> {
    let text = StackText::of(source);
    let (spec, _) = text.load(terminal)?;
    let [export] = spec.exports.as_slice() else {
        return Err(VirtualFilesError::Exports(text.name().to_string(), spec.exports.len()).into());
    };
    let stack = Stack::build(&sim.rt(), pool, esker_kinds::ALL, &spec)?;
    let device = stack.export(&export.name).expect("the stack has the exports of its text");
    Ok((stack, Rc::new(device)))
}
