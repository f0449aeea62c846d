//! What a replay must not leave: for tests, fuzzers and users that look at a run directory.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::init::scan;
use crate::root::{ParentDir, is, proc_path_in};
use crate::xattrs;

/// Attributes that the system itself gives every file where it labels them.
const LABELS: [&[u8]; 3] = [b"security.selinux", b"security.SMACK64", b"security.ima"];

/// Everything below `dir` that grants rights: set-id bits, and attributes outside of `user.` and the system's own
/// labels.
///
/// # Errors
/// The kernel's.
pub fn privileges(dir: &Path) -> Result<Vec<String>, Errno> {
    let mut found = Vec::new();
    visit(&opened(dir)?, b"", &mut |place, path| {
        let stat = scan::look(&place.dir, &place.leaf)?;
        if stat.st_mode & 0o6000 != 0 {
            found.push(format!("{}: mode {:o}", path.escape_ascii(), stat.st_mode & 0o7777));
        }
        for name in xattrs::list(&proc_path_in(place))? {
            // Told anew: what was set must not be judged by the rule that set it.
            if !name.starts_with(b"user.") && !LABELS.contains(&name.as_slice()) {
                found.push(format!("{}: attribute {}", path.escape_ascii(), name.escape_ascii()));
            }
        }
        Ok(())
    })?;
    Ok(found)
}

/// Everything below `dir` as far as a change of it shows: a line for each entry, in the order of names.
///
/// # Errors
/// The kernel's.
#[allow(clippy::useless_conversion, reason = "the widths differ between processors")]
pub fn picture(dir: &Path) -> Result<Vec<String>, Errno> {
    let mut lines = Vec::new();
    visit(&opened(dir)?, b"", &mut |place, path| {
        let stat = scan::look(&place.dir, &place.leaf)?;
        let names = xattrs::list(&proc_path_in(place))?.len();
        let (changed_s, changed_ns): (i64, u64) = (stat.st_ctime.into(), stat.st_ctime_nsec.into());
        lines.push(format!(
            "{} {:o} {} {} {} {} {changed_s}.{changed_ns} {names}",
            path.escape_ascii(),
            stat.st_mode,
            stat.st_uid,
            stat.st_ino,
            stat.st_size,
            stat.st_nlink
        ));
        Ok(())
    })?;
    lines.sort();
    Ok(lines)
}

fn opened(dir: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// What is called with a place and the path to it.
type See<'a> = &'a mut dyn FnMut(&ParentDir, &[u8]) -> Result<(), Errno>;

/// Calls `see` for all entries below an open directory; links are not followed.
fn visit(dir: &OwnedFd, path: &[u8], see: See<'_>) -> Result<(), Errno> {
    for name in scan::names_of(dir)? {
        let here = [path, b"/", name.as_bytes()].concat();
        let place = ParentDir { dir: Rc::new(rustix::io::fcntl_dupfd_cloexec(dir.as_fd(), 0)?), leaf: name };
        see(&place, &here)?;
        if is_directory(dir, &place.leaf)? {
            visit(&scan::enter(dir, &place.leaf)?, &here, see)?;
        }
    }
    Ok(())
}

fn is_directory(dir: &OwnedFd, name: &CString) -> Result<bool, Errno> {
    Ok(is(&scan::look(dir, name)?, FileType::Directory))
}
