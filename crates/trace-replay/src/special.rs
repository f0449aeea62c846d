//! Files that are no data: FIFOs, sockets and devices.
//!
//! A device of the trace becomes the same device where the system lets us make it, otherwise a link to it. A replay
//! never opens any device but those that are harmless everywhere, and `/dev/random` is `/dev/urandom`, which never
//! blocks.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use esker_trace_calls::{EntryKind, Snapshot};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// What a replay may open outside its tree: major and minor number of a character device, and the device for it.
const HARMLESS: [((u32, u32), &CStr); 5] = [
    ((1, 3), c"/dev/null"),
    ((1, 5), c"/dev/zero"),
    ((1, 7), c"/dev/full"),
    ((1, 8), c"/dev/urandom"),
    ((1, 9), c"/dev/urandom"),
];
/// For all others.
const NOTHING: &CStr = c"/dev/null";
const URANDOM: (u32, u32) = (1, 9);

/// The devices of a trace, by their paths.
pub(crate) struct Specials(BTreeMap<Vec<u8>, &'static CStr>);

impl Specials {
    /// Those of a snapshot.
    pub(crate) fn of(snapshot: &Snapshot) -> Specials {
        let device = |kind: &EntryKind| match kind {
            EntryKind::Device { block: false, major, minor } => Some(for_device(*major, *minor)),
            EntryKind::Device { .. } => Some(NOTHING),
            _ => None,
        };
        let named = |(path, entry): (&esker_trace_calls::PathBytes, &esker_trace_calls::Entry)| {
            device(&entry.kind).map(|device| (path.as_bytes().to_vec(), device))
        };
        Specials(snapshot.entries.iter().filter_map(named).collect())
    }

    /// The system's own device for the traced `path`, if that is one.
    pub(crate) fn find(&self, path: &[u8]) -> Option<&'static CStr> {
        self.0.get(path).copied()
    }

    /// Opens a device that [`Specials::find`] gave.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn open(device: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
        let kept = OFlags::ACCMODE | OFlags::PATH | OFlags::NONBLOCK;
        rustix::fs::open(device, (flags & kept) | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
    }
}

fn for_device(major: u32, minor: u32) -> &'static CStr {
    HARMLESS.iter().find(|(number, _)| *number == (major, minor)).map_or(NOTHING, |(_, device)| device)
}

/// Makes `leaf` in `dir`; says how it differs from what was asked, if it does.
///
/// # Errors
/// The kernel's.
pub(crate) fn make(dir: &impl AsFd, leaf: &CString, kind: &EntryKind) -> Result<Option<String>, Errno> {
    let mode = Mode::RUSR | Mode::WUSR;
    match kind {
        EntryKind::Fifo => rustix::fs::mknodat(dir, leaf, FileType::Fifo, mode, 0).map(|()| None),
        EntryKind::Socket => rustix::fs::mknodat(dir, leaf, FileType::Socket, mode, 0).map(|()| None),
        EntryKind::Device { block: false, major, minor } => {
            let (major, minor) = if (*major, *minor) == (1, 8) { URANDOM } else { (*major, *minor) };
            let harmless = HARMLESS.iter().any(|(number, _)| *number == (major, minor));
            let number = rustix::fs::makedev(major, minor);
            if harmless && rustix::fs::mknodat(dir, leaf, FileType::CharacterDevice, mode, number).is_ok() {
                return Ok(None);
            }
            link(dir, leaf, for_device(major, minor))
        }
        _ => link(dir, leaf, NOTHING),
    }
}

fn link(dir: &impl AsFd, leaf: &CString, device: &CStr) -> Result<Option<String>, Errno> {
    rustix::fs::symlinkat(device, dir, leaf)?;
    Ok(Some(format!("is a link to {} in place of a device", device.to_string_lossy())))
}

/// Whether what is there can become what is wanted without being removed.
pub(crate) fn fits(kind: &EntryKind, stat: &Stat) -> bool {
    let there = FileType::from_raw_mode(stat.st_mode);
    match kind {
        EntryKind::File { .. } => there == FileType::RegularFile,
        EntryKind::Directory => there == FileType::Directory,
        EntryKind::Symlink { .. } => there == FileType::Symlink,
        EntryKind::Fifo => there == FileType::Fifo,
        EntryKind::Socket => there == FileType::Socket,
        EntryKind::Device { .. } => there == FileType::CharacterDevice || there == FileType::Symlink,
    }
}

/// Whether a device is a link here: its permissions are not ours to change.
pub(crate) fn is_link(kind: &EntryKind, dir: &impl AsFd, leaf: &CString) -> bool {
    let stat = rustix::fs::statat(dir, leaf, AtFlags::SYMLINK_NOFOLLOW);
    matches!(kind, EntryKind::Device { .. }) && stat.is_ok_and(|stat| crate::root::is(&stat, FileType::Symlink))
}
