//! Calls about mapped memory.

use super::args::{Args, words_of};
use super::{Bad, Known, call};
use crate::call::{Call, Fd};
use crate::words::{MapAdvice, MapFlags, MapSyncFlags};

pub(super) const CALLS: &[Known] = &[
    call("mmap", |a| {
        let offset = a.u64(5)?;
        map(a, offset)
    }),
    // The offset of this one is in pages, which strace shows in bytes.
    call("mmap2", |a| {
        let offset = a.u64(5)?;
        map(a, offset)
    }),
    call("munmap", |a| Ok(Call::Unmap { address: a.u64(0)?, len: a.u64(1)? })),
    call("mremap", |a| Ok(Call::Remap { address: a.u64(0)?, len: a.u64(1)?, new_len: a.u64(2)? })),
    call("msync", |a| {
        let flags: MapSyncFlags = a.flags(2);
        Ok(Call::MapSync { address: a.u64(0)?, len: a.u64(1)?, flags })
    }),
    call("madvise", |a| {
        let advice = a.words(2).into_iter().find_map(MapAdvice::from_name).unwrap_or(MapAdvice::Other);
        Ok(Call::MapAdvise { address: a.u64(0)?, len: a.u64(1)?, advice })
    }),
];

fn map(a: &mut Args<'_>, offset: u64) -> Result<Call, Bad> {
    let (protection, kind) = (a.some_flags::<MapFlags>(2), a.some_flags::<MapFlags>(3));
    let shared = a.get(3).map(words_of).unwrap_or_default().contains(&"MAP_SHARED_VALIDATE");
    let shared = if shared { MapFlags::MAP_SHARED } else { MapFlags::empty() };
    let flags = protection | kind | shared;
    let fd = if flags.contains(MapFlags::MAP_ANONYMOUS) { Fd(-1) } else { a.fd(4)? };
    Ok(Call::Map { fd, address: a.u64(0)?, len: a.u64(1)?, offset, flags })
}
