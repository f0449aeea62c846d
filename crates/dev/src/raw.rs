//! Kind `raw`: a block device through the reactor.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::rc::Rc;

use esker_block::{Device, Kind, KindError, Make, Param, ParamType, Worlds};
use esker_rt::real::{File, Kernel, OpenMode};
use esker_sys::loop_device;

use crate::disk::{self, Came, Disk, Opened};
use crate::file::{DEPTH, depth, explain_lock, outside};
use crate::memory::check_geometry;

const PARAMS: &[Param] = &[
    Param::required("path", ParamType::Text, "The block device. It must not be mounted."),
    Param::with_default("read_only", ParamType::Flag, "false", "Refuse every change."),
    DEPTH,
];

/// The manifest.
pub static KIND: Kind = Kind {
    stats: crate::disk::STATS,
    needs_bytes: true,
    worlds: Worlds::RealOnly,
    ..Kind::device("raw", "A block device, held exclusively, past the page cache.", PARAMS, build)
};

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let opened = open_device(make, make.args.flag("read_only"))?;
    Ok(Rc::new(Disk::new(make.rt, make.pool, opened, Came::found(make))))
}

/// Opens the device that the arguments name.
pub(crate) fn open_device(make: &Make<'_>, read_only: bool) -> Result<Opened, KindError> {
    let path = Path::new(make.args.text("path"));
    let depth = depth(make)?;
    let kernel = make.rt.kernel().map_err(|e| outside(path, e))?;
    check_type(path)?;
    open(&kernel, path, read_only, depth)
}

fn check_type(path: &Path) -> Result<(), KindError> {
    let kind = fs::metadata(path).map_err(|e| outside(path, e))?.file_type();
    match kind {
        _ if kind.is_block_device() => Ok(()),
        _ if kind.is_file() => Err(outside(path, "is a regular file; use kind = \"file\" for it")),
        _ => Err(outside(path, "is not a block device")),
    }
}

fn open(kernel: &Kernel, path: &Path, read_only: bool, depth: u32) -> Result<Opened, KindError> {
    let mode = OpenMode { read_only, direct: true, create_new: false, exclusive: true };
    let file = File::open(kernel, path, mode).map_err(|e| explain_open(path, &e, read_only))?;
    file.lock_device(!read_only).map_err(|e| explain_lock(path, &e))?;
    let beneath = lock_beneath(kernel, path, read_only)?;
    let size = file.size().map_err(|e| outside(path, e))?;
    if size == 0 {
        return Err(outside(path, "has no medium: its size is 0"));
    }
    let block = block(&file).map_err(|e| outside(path, format!("does not tell its block: {e}")))?;
    check_geometry(size, u64::from(block)).map_err(|e| outside(path, e))?;
    let limits = disk::limits(size, block, read_only);
    Ok(Opened {
        name: path.display().to_string(),
        file,
        beneath,
        limits,
        depth,
        holes: false,
        forces: true,
        resizable: false,
        allocated: false,
    })
}

/// Locks the file below a loop device as [`file`](crate::file) would, because the kernel does not. A file that cannot
/// be opened from here cannot be asked.
fn lock_beneath(kernel: &Kernel, device: &Path, read_only: bool) -> Result<Option<File>, KindError> {
    let Some(path) = loop_device::file_below(device).map_err(|e| outside(device, e))? else { return Ok(None) };
    let mode = OpenMode { read_only: true, direct: false, create_new: false, exclusive: false };
    let Ok(file) = File::open(kernel, &path, mode) else { return Ok(None) };
    let locked = file.lock(!read_only).map_err(|e| explain_lock(&path, &e));
    locked.map_err(|why| outside(device, format!("is a loop device over a file: {why}")))?;
    Ok(Some(file))
}

/// The device's logical block, or more where direct I/O needs memory that is aligned to more.
fn block(file: &File) -> io::Result<u32> {
    let needed = file.direct_alignment()?.unwrap_or(0);
    Ok(file.logical_block()?.max(needed.next_power_of_two()))
}

#[allow(clippy::wildcard_enum_match_arm, reason = "the errors of the system grow")]
fn explain_open(path: &Path, error: &io::Error, read_only: bool) -> KindError {
    let advice = match error.kind() {
        io::ErrorKind::ResourceBusy => "; it is mounted, or another program holds it: unmount it or stop that program",
        io::ErrorKind::PermissionDenied => "; run as a user that may open it",
        io::ErrorKind::ReadOnlyFilesystem if !read_only => "; set read_only = true to serve it without writing",
        _ => "",
    };
    outside(path, format!("cannot be opened: {error}{advice}"))
}
