//! Kind `file`: a regular file through the reactor.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use esker_block::{Created, Device, Kind, KindError, Make, Param, ParamType, Worlds};
use esker_rt::real::{File, Kernel, OpenMode};
use esker_sys::loop_device::{self, Over};

use crate::disk::{self, Came, Disk, Opened};
use crate::memory::check_geometry;

const PARAMS: &[Param] = &[
    Param::required("path", ParamType::Text, "The file."),
    Param::optional(
        "size",
        ParamType::Size,
        "Size of the file. A missing file is created, sparse; an existing one must have this size.",
    ),
    Param::with_default(
        "create",
        ParamType::Choice(&["if-new", "never", "always"]),
        "if-new",
        "When a missing file is created: beside other new media only, never, or always.",
    ),
    Param::with_default(
        "allocate",
        ParamType::Flag,
        "false",
        "Reserves the space of the whole file for good: a discard does nothing, zeroes are written in place.",
    ),
    Param::with_default("direct", ParamType::Flag, "true", "Bypasses the page cache (O_DIRECT)."),
    Param::with_default("read_only", ParamType::Flag, "false", "Refuses every change."),
    DEPTH,
];

/// The manifest.
pub static KIND: Kind = Kind {
    stats: crate::disk::STATS,
    needs_bytes: true,
    worlds: Worlds::RealOnly,
    ..Kind::device("file", "A regular file, read and written through io_uring.", PARAMS, build)
};

/// How many requests the kernel gets at once.
pub(crate) const DEPTH: Param =
    Param::with_default("depth", ParamType::Count, "128", "Requests given to the kernel at once, 1 to 4096.");

/// Block without direct I/O, and the least with it, in bytes.
const BLOCK_MIN: u32 = 512;
/// Block with direct I/O where the file system does not tell what it needs, in bytes.
const BLOCK_UNKNOWN: u32 = 4096;

fn build(make: &Make<'_>) -> Result<Rc<dyn Device>, KindError> {
    let (depth, wanted) = (depth(make)?, Wanted::of(make));
    let kernel = make.rt.kernel().map_err(|e| outside(&wanted.path, e))?;
    let made = wanted.find_or_create(make.created)?;
    let opened = wanted.open(&kernel, depth)?;
    let came = Came { made, always: make.args.text("create") == "always", path: wanted.path };
    Ok(Rc::new(Disk::new(make.rt, make.pool, opened, came)))
}

/// A file as it is found.
pub(crate) enum ExistingFile {
    /// It is there.
    Opened(Opened),
    /// It would be created.
    Absent {
        /// Bytes.
        size: u64,
        /// Its block.
        block: u32,
    },
}

/// Opens the file that the arguments name, only to read it, or checks what would be created.
pub(crate) fn open_reading(make: &Make<'_>) -> Result<ExistingFile, KindError> {
    let (depth, wanted) = (depth(make)?, Wanted::of(make));
    let kernel = make.rt.kernel().map_err(|e| outside(&wanted.path, e))?;
    match wanted.find()? {
        None => Ok(ExistingFile::Opened(Wanted { read_only: true, ..wanted }.open(&kernel, depth)?)),
        Some(size) => {
            check_geometry(size, u64::from(BLOCK_MIN)).map_err(|e| outside(&wanted.path, e))?;
            Ok(ExistingFile::Absent { size, block: BLOCK_MIN })
        }
    }
}

/// The depth of a device's queue.
pub(crate) fn depth(make: &Make<'_>) -> Result<u32, KindError> {
    let depth = make.args.int("depth");
    let fits = u32::try_from(depth).ok().filter(|d| (1..=4096).contains(d));
    fits.ok_or_else(|| KindError::Unfit(format!("depth = {depth} is not from 1 to 4096")))
}

/// An error about a path: what happened, and what to do.
pub(crate) fn outside(path: &Path, text: impl std::fmt::Display) -> KindError {
    KindError::Outside(format!("{}: {text}", path.display()))
}

/// Why a file is not locked: by the words of the lock if another program holds it.
#[allow(clippy::wildcard_enum_match_arm, reason = "the errors of the system grow")]
pub(crate) fn explain_lock(path: &Path, error: &io::Error) -> KindError {
    match error.kind() {
        io::ErrorKind::WouldBlock => outside(path, error),
        _ => outside(path, format!("cannot be locked: {error}")),
    }
}

struct Wanted {
    path: PathBuf,
    size: Option<u64>,
    direct: bool,
    read_only: bool,
    may_create: bool,
    allocate: bool,
}

impl Wanted {
    fn of(make: &Make<'_>) -> Wanted {
        Wanted {
            path: PathBuf::from(make.args.text("path")),
            size: make.args.int_opt("size"),
            direct: make.args.flag("direct"),
            read_only: make.args.flag("read_only"),
            may_create: make.args.text("create") != "never",
            allocate: make.args.flag("allocate"),
        }
    }

    /// Whether the file had to be created.
    fn find_or_create(&self, created: &Created) -> Result<bool, KindError> {
        match self.find()? {
            None => Ok(false),
            Some(size) => create(&self.path, size, created).map(|()| true),
        }
    }

    /// None if the file is there; else the size with which it is to be created.
    fn find(&self) -> Result<Option<u64>, KindError> {
        match fs::metadata(&self.path).map(|m| m.file_type()) {
            Ok(kind) if kind.is_file() => Ok(None),
            Ok(kind) if kind.is_dir() => Err(outside(&self.path, "is a directory; name a file in it")),
            Ok(kind) if kind.is_block_device() => {
                Err(outside(&self.path, "is a block device; use kind = \"raw\" for it"))
            }
            Ok(_) => Err(outside(&self.path, "is not a regular file")),
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(outside(&self.path, e)),
            Err(_) if self.read_only => {
                Err(outside(&self.path, "does not exist, and read_only = true creates nothing"))
            }
            Err(_) if !self.may_create => {
                let advice = "bring the file back, or leave create = \"never\" out if it is to be new";
                Err(outside(&self.path, format!("does not exist, and create = \"never\" creates nothing; {advice}")))
            }
            Err(_) => match self.size {
                None => Err(outside(&self.path, "does not exist; give size to create it")),
                size => Ok(size),
            },
        }
    }

    fn open(&self, kernel: &Kernel, depth: u32) -> Result<Opened, KindError> {
        let mode = OpenMode { read_only: self.read_only, direct: self.direct, create_new: false, exclusive: false };
        let file = File::open(kernel, &self.path, mode).map_err(|e| self.explain_open(&e))?;
        file.lock(!self.read_only).map_err(|e| explain_lock(&self.path, &e))?;
        self.check_loops()?;
        let size = file.size().map_err(|e| outside(&self.path, e))?;
        let block = self.block(&file)?;
        self.check_size(size, block)?;
        let allocated = self.allocate && !self.read_only;
        if allocated {
            file.allocate(size)
                .map_err(|e| outside(&self.path, format!("its {size} bytes cannot be reserved: {e}")))?;
        }
        let limits = disk::limits(size, block, self.read_only);
        let resizable = self.size.is_none() && !self.read_only && !allocated;
        Ok(Opened {
            name: self.path.display().to_string(),
            file,
            beneath: None,
            limits,
            depth,
            holes: true,
            forces: false,
            resizable,
            allocated,
        })
    }

    /// The kernel takes no lock for a loop device, so they are asked for.
    fn check_loops(&self) -> Result<(), KindError> {
        let over = loop_device::over(&self.path).map_err(|e| outside(&self.path, e))?;
        match over.iter().find(|over| !(over.read_only && self.read_only)) {
            None => Ok(()),
            Some(Over { device, .. }) => {
                let device = device.display();
                let advice = format!("serve that with kind = \"raw\", or detach it (losetup --detach {device})");
                Err(outside(&self.path, format!("is the file of the loop device {device}; {advice}")))
            }
        }
    }

    /// Large enough that every window of a request is aligned for direct I/O, in the file and in memory.
    fn block(&self, file: &File) -> Result<u32, KindError> {
        if !self.direct {
            return Ok(BLOCK_MIN);
        }
        let told = file.direct_alignment().map_err(|e| outside(&self.path, e))?;
        Ok(told.map_or(BLOCK_UNKNOWN, |alignment| alignment.next_power_of_two().max(BLOCK_MIN)))
    }

    fn check_size(&self, size: u64, block: u32) -> Result<(), KindError> {
        match self.size {
            Some(given) if given != size => {
                let advice = "leave size out to take the file as it is, or name another file";
                Err(outside(&self.path, format!("has {size} bytes, not size = {given}; {advice}")))
            }
            _ if size == 0 => Err(outside(&self.path, "is empty; remove it and give size to create it")),
            _ => check_geometry(size, u64::from(block)).map_err(|e| outside(&self.path, e)),
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "the errors of the system grow")]
    fn explain_open(&self, error: &io::Error) -> KindError {
        let advice = match error.kind() {
            io::ErrorKind::InvalidInput if self.direct => {
                "; its file system does no direct I/O: set direct = false, or use another file system"
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem if !self.read_only => {
                "; set read_only = true to serve it without writing"
            }
            _ => "",
        };
        outside(&self.path, format!("cannot be opened: {error}{advice}"))
    }
}

/// Makes the file and its name durable, so that a flush of the device is all that its data needs.
fn create(path: &Path, size: u64, created: &Created) -> Result<(), KindError> {
    // What is stored is for its owner and group.
    let file = fs::File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o640)
        .open(path)
        .map_err(|e| outside(path, format!("cannot be created: {e}")))?;
    let made = path.to_path_buf();
    created.note(move || {
        // What cannot be removed stays, empty; the error that is on its way says what went wrong.
        let _stays = fs::remove_file(made);
    });
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = file.set_len(size).and_then(|()| file.sync_all());
    made.and_then(|()| fs::File::open(folder)?.sync_all())
        .map_err(|e| outside(path, format!("cannot be given size = {size}: {e}")))
}

#[cfg(test)]
mod tests;
