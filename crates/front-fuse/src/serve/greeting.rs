//! What the kernel and the file system agree on.

use std::rc::Rc;

use esker_base::Errno;
use esker_rt::Level;
use esker_rt::mem::{Parts, Slice};

use super::{CacheMode, Session};
use crate::proto::abi::{
    FOPEN_DIRECT_IO, FOPEN_KEEP_CACHE, FOPEN_NOFLUSH, FOPEN_PARALLEL_DIRECT_WRITES, InitOut, MAJOR, MINOR, MINOR_MIN,
    init,
};
use crate::proto::reply;

/// Bytes of a page.
pub(crate) const PAGE: u32 = 4096;

/// Requests that the kernel hands out before older ones are answered. A loop device has up to 128 of its own.
const UNDER_WAY_MAX: u16 = 512;

/// What every file system asks for.
const ALWAYS: u64 = init::ASYNC_READ | init::BIG_WRITES | init::ASYNC_DIO | init::MAX_PAGES;

/// What those ask for that have directories and permissions of their own.
const FILES: u64 = ALWAYS
    | init::DO_READDIRPLUS
    | init::READDIRPLUS_AUTO
    | init::PARALLEL_DIROPS
    | init::CACHE_SYMLINKS
    | init::HANDLE_KILLPRIV_V2
    | init::INIT_EXT;

/// Abilities of the kernel that a mode asks for.
fn wanted(cache: CacheMode) -> u64 {
    let unopened = init::NO_OPEN_SUPPORT | init::NO_OPENDIR_SUPPORT;
    match cache {
        CacheMode::Through => FILES | unopened,
        CacheMode::WriteBack => FILES | unopened | init::WRITEBACK_CACHE,
        // Without the last a shared map is refused. With it the kernel gives up writes that overlap.
        CacheMode::None => FILES | init::DIRECT_IO_ALLOW_MMAP,
        CacheMode::Devices => ALWAYS,
    }
}

/// Flags of an open file. None: OPEN is refused once, and then the kernel opens and closes without a request.
pub(super) fn open_flags(cache: CacheMode) -> Option<u32> {
    match cache {
        CacheMode::Through | CacheMode::WriteBack => None,
        CacheMode::None => Some(FOPEN_DIRECT_IO),
        CacheMode::Devices => Some(FOPEN_DIRECT_IO | FOPEN_NOFLUSH | FOPEN_PARALLEL_DIRECT_WRITES),
    }
}

/// Flags of a file that was made without a name, which must be opened in every mode.
pub(super) fn tmpfile_flags(cache: CacheMode) -> u32 {
    open_flags(cache).unwrap_or(FOPEN_KEEP_CACHE)
}

impl Session {
    pub(super) fn greet(
        self: &Rc<Self>,
        unique: u64,
        version: (u32, u32),
        flags: u64,
        readahead: u32,
    ) -> Result<Parts, Errno> {
        if version.0 != MAJOR || version.1 < MINOR_MIN {
            let (major, minor) = version;
            let what = format_args!("fuse: this kernel speaks {major}.{minor}, and {MAJOR}.{MINOR_MIN} is needed");
            self.rt.log(Level::Error, what);
            return Err(Errno::EPROTO);
        }
        let transfer_max = self.config.transfer_max;
        let ring = if self.config.ring.is_some() { init::OVER_IO_URING } else { 0 };
        let agreed = flags & (wanted(self.config.cache) | ring);
        match self.config.ring {
            // The entries leave when this is answered: before, the kernel takes none.
            Some(shape) if agreed & init::OVER_IO_URING != 0 => self.start_ring(shape),
            Some(_) => self.rt.log(Level::Warn, format_args!("fuse: the kernel offers no ring; /dev/fuse serves")),
            None => {}
        }
        let grain = u32::try_from(self.fs.about().grain.0).unwrap_or(1).clamp(1, 1_000_000_000);
        Ok(Slice::heap(reply::with(
            unique,
            &InitOut {
                major: MAJOR,
                minor: MINOR,
                max_readahead: readahead,
                flags: agreed as u32,
                flags2: (agreed >> 32) as u32,
                max_background: UNDER_WAY_MAX,
                congestion_threshold: UNDER_WAY_MAX,
                max_write: transfer_max,
                time_gran: grain,
                max_pages: u16::try_from(transfer_max / PAGE).unwrap_or(u16::MAX),
                ..InitOut::zero()
            },
        ))
        .into())
    }
}
