//! Calls that only a Mac has, or has in another form. They become pseudo-calls.

use super::args::{Args, field, int_of};
use super::{Bad, Known, mac_call};
use crate::call::{Call, Fd, Object};
use crate::import::lex::Arg;
use crate::name::Word;
use crate::words::{FallocFlags, Hint, Obscure, SyncKind};

pub(super) const CALLS: &[Known] = &[
    mac_call("getattrlist", |a| Ok(Call::GetAttrList { file: followed(a, 0, 4)?, len: a.u64(3)? })),
    mac_call("fgetattrlist", |a| Ok(Call::GetAttrList { file: Object::Fd(a.fd(0)?), len: a.u64(3)? })),
    mac_call("getattrlistat", |a| Ok(Call::GetAttrList { file: a.object_at(0, None, true)?, len: a.u64(4)? })),
    mac_call("setattrlist", |a| Ok(Call::SetAttrList { file: followed(a, 0, 4)?, len: a.u64(3)? })),
    mac_call("fsetattrlist", |a| Ok(Call::SetAttrList { file: Object::Fd(a.fd(0)?), len: a.u64(3)? })),
    mac_call("getattrlistbulk", |a| Ok(Call::GetDirEntriesAttr { fd: a.fd(0)?, len: a.u64(3)? })),
    mac_call("getdirentriesattr", |a| Ok(Call::GetDirEntriesAttr { fd: a.fd(0)?, len: a.u64(3)? })),
    mac_call("getdirentries", |a| Ok(Call::ReadDir { fd: a.fd(0)?, len: a.u64(2)? })),
    mac_call("getdirentries64", |a| Ok(Call::ReadDir { fd: a.fd(0)?, len: a.u64(2)? })),
    mac_call("searchfs", |a| Ok(Call::SearchFs { file: a.object(0, true)? })),
    mac_call("fsctl", |a| Ok(Call::FsControl { file: a.object(0, true)?, request: request(a) })),
    mac_call("ffsctl", |a| Ok(Call::FsControl { file: Object::Fd(a.fd(0)?), request: request(a) })),
    mac_call("exchangedata", |a| Ok(Call::ExchangeData { first: followed(a, 0, 2)?, second: followed(a, 1, 2)? })),
    mac_call("getxattr", |a| {
        let (file, name) = (followed(a, 0, 5)?, super::metadata::name(a, 1)?);
        Ok(Call::GetXattrAt { file, name, len: a.u64(3)?, position: a.u32(4)? })
    }),
    mac_call("setxattr", |a| {
        let (file, name) = (followed(a, 0, 5)?, super::metadata::name(a, 1)?);
        Ok(Call::SetXattrAt { file, name, len: a.u64(3)?, position: a.u32(4)?, flags: a.some_flags(5) })
    }),
    mac_call("clonefile", |a| Ok(Call::CloneFile { from: followed(a, 0, 2)?, to: a.cwd(1)? })),
    mac_call("clonefileat", |a| Ok(Call::CloneFile { from: a.object_at(0, None, true)?, to: a.at(2)? })),
    mac_call("fclonefileat", |a| Ok(Call::CloneFile { from: Object::Fd(a.fd(0)?), to: a.at(1)? })),
    mac_call("getfsstat", |a| Ok(Call::GetFsStat { len: a.u64(1)? })),
    mac_call("getfsstat64", |a| Ok(Call::GetFsStat { len: a.u64(1)? })),
    mac_call("fsgetpath", |a| Ok(Call::FsGetPath { seen: a.seen_path(0) })),
    mac_call("stat_extended", |a| obscure(a, Obscure::StatExtended)),
    mac_call("stat64_extended", |a| obscure(a, Obscure::StatExtended)),
    mac_call("access_extended", |a| obscure(a, Obscure::AccessExtended)),
    mac_call("chmod_extended", |a| obscure(a, Obscure::ChmodExtended)),
    mac_call("kqueue", |_| Ok(super::files::make_fd(crate::words::FdSource::Poll, false))),
    mac_call("lchmod", |a| Ok(Call::Chmod { file: a.object(0, false)?, mode: a.mode(1) })),
    mac_call("mkfifo", |a| {
        let (kind, mode) = (crate::words::FileKind::Fifo, a.mode(1));
        Ok(Call::Mknod { at: a.cwd(0)?, kind, mode, device: 0 })
    }),
];

/// A path that is followed unless the options at `options` say otherwise.
fn followed(a: &mut Args<'_>, place: usize, options: usize) -> Result<Object, Bad> {
    let not = ["FSOPT_NOFOLLOW", "XATTR_NOFOLLOW", "CLONE_NOFOLLOW"].into_iter().any(|word| a.has(options, word));
    a.object(place, !not)
}

fn request(a: &Args<'_>) -> Word {
    match a.get(1) {
        Some(Arg::Words { text, .. }) => Word::from(text),
        _ => Word::from(&format!("{:#x}", a.u64(1).unwrap_or(0))),
    }
}

fn obscure(a: &mut Args<'_>, kind: Obscure) -> Result<Call, Bad> {
    let is_path = matches!(a.get(0), Some(Arg::Text { .. }));
    let file = if is_path { a.object(0, true)? } else { Object::Fd(a.fd(0)?) };
    Ok(Call::Undocumented { file, kind })
}

/// The commands of `fcntl` that only a Mac has.
pub(super) fn fcntl(a: &Args<'_>, fd: Fd, command: &str) -> Result<Option<Call>, Bad> {
    let switch = |a: &Args<'_>, hint| Ok(Some(Call::Hinted { fd, hint, offset: 0, len: a.i64(2)? }));
    let part = |name| a.get(2).and_then(|value| field(value, name)).and_then(int_of).unwrap_or(0) as i64;
    Ok(match command {
        "F_FULLFSYNC" => Some(Call::Sync { fd, kind: SyncKind::Device }),
        "F_BARRIERFSYNC" => Some(Call::Sync { fd, kind: SyncKind::Barrier }),
        "F_RDAHEAD" => return switch(a, Hint::ReadAhead),
        "F_NOCACHE" => return switch(a, Hint::NoCache),
        "F_RDADVISE" => {
            Some(Call::Hinted { fd, hint: Hint::ReadAdvise, offset: part("ra_offset"), len: part("ra_count") })
        }
        "F_PREALLOCATE" => {
            let flags = a.get(2).and_then(|value| field(value, "fst_flags")).map(super::args::words_of);
            let flags = flags.unwrap_or_default().into_iter().filter_map(bitflags::Flags::from_name);
            let flags = flags.fold(FallocFlags::empty(), FallocFlags::union);
            Some(Call::Preallocate { fd, flags, offset: part("fst_offset"), len: part("fst_length") })
        }
        _ => None,
    })
}
