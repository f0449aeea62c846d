//! Extended attributes of names that are not followed.

use std::ffi::CString;

use esker_trace_calls::{Platform, Xattr};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::content::Content;
use crate::root::{ParentDir, proc_path_in};

/// Name spaces of Linux.
const SPACES: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system."];
/// Name spaces whose attributes are the trace's business: all others come from the system.
const OURS: [&[u8]; 3] = [b"user.", b"trusted.", b"security.capability"];
/// Longest list of names, as the kernel has it.
const LIST_MAX: usize = 64 << 10;

/// The name on Linux: a Mac's names have no name space, so they go to the one that programs may use.
pub(crate) fn name(platform: Platform, traced: &[u8]) -> Vec<u8> {
    let known = SPACES.iter().any(|space| traced.starts_with(space));
    if platform == Platform::Mac || !known { [b"user.", traced].concat() } else { traced.to_vec() }
}

/// Gives a file the attributes `wanted` and no others; returns those that the file system refused.
///
/// # Errors
/// The kernel's, when the attributes there cannot be listed.
pub(crate) fn restore(
    place: &ParentDir,
    wanted: &[Xattr],
    content: &mut Content,
) -> Result<Vec<(String, Errno)>, Errno> {
    let path = proc_path_in(place);
    let there = list(&path)?;
    let mut refused = Vec::new();
    let wanted: Vec<(Vec<u8>, u32)> =
        wanted.iter().map(|xattr| (name(Platform::Linux, xattr.name.as_bytes()), xattr.len)).collect();
    for name in there.iter().filter(|name| OURS.iter().any(|space| name.starts_with(space))) {
        if wanted.iter().all(|(other, _)| other != name) {
            rustix::fs::lremovexattr(path.as_slice(), name.as_slice())?;
        }
    }
    for (name, len) in &wanted {
        let right =
            there.contains(name) && rustix::fs::lgetxattr_query(path.as_slice(), name.as_slice()) == Ok(*len as usize);
        if right {
            continue;
        }
        let value = content.next(u64::from(*len)).to_vec();
        if let Err(e) = rustix::fs::lsetxattr(path.as_slice(), name.as_slice(), &value, XattrFlags::empty()) {
            refused.push((String::from_utf8_lossy(name).into_owned(), e));
        }
    }
    Ok(refused)
}

/// Names of all attributes; none where the file system has none.
pub(crate) fn list(path: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = vec![0; LIST_MAX];
    let len = match rustix::fs::llistxattr(path, names.as_mut_slice()) {
        Ok(len) => len,
        Err(Errno::OPNOTSUPP) => 0,
        Err(e) => return Err(e),
    };
    let names = names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

/// A name as the kernel takes it.
///
/// # Errors
/// `INVAL` if it contains a zero byte.
pub(crate) fn c_name(platform: Platform, traced: &[u8]) -> Result<CString, Errno> {
    CString::new(name(platform, traced)).map_err(|_| Errno::INVAL)
}
