//! Attributes of inodes in the kernel's structures.

use std::rc::Rc;

use esker_base::Errno;
use esker_block::Step;
use esker_rt::mem::{Parts, Slice};
use esker_vfs::access::may_set;
use esker_vfs::{Answer, Call, Cred, Entry, FileType, Ino, SetAttr, Stamp, attr::mode};

use super::Session;
use super::numbers::Numbers;
use crate::proto::abi::{Attr, AttrOut, EntryOut, SetAttrIn, Statx, StatxOut, SxTime, fattr, kind};
use crate::proto::{Request, reply};

/// How long the kernel may remember what it alone changes, in seconds: for ever.
pub(super) const VALID_S: u64 = 1 << 40;

const NS: i64 = 1_000_000_000;

/// Fields of `statx` that every inode has, and the time of creation.
const STATX_BASIC: u32 = 0x7ff;
const STATX_BTIME: u32 = 0x800;

/// Bits of a mode for a kind.
pub(super) fn kind_bits(kind: FileType) -> u32 {
    match kind {
        FileType::File => kind::FILE,
        FileType::Directory => kind::DIRECTORY,
        FileType::Symlink => kind::SYMLINK,
        FileType::CharDevice => kind::CHAR,
        FileType::BlockDevice => kind::BLOCK,
        FileType::Fifo => kind::FIFO,
        FileType::Socket => kind::SOCKET,
    }
}

fn seconds(at: Stamp) -> (u64, u32) {
    (at.0.div_euclid(NS) as u64, at.0.rem_euclid(NS) as u32)
}

fn stamp(seconds: u64, nanoseconds: u32) -> Stamp {
    Stamp((seconds as i64).saturating_mul(NS).saturating_add(i64::from(nanoseconds)))
}

/// What the kernel learns of an inode. `block` is the unit of allocation in bytes.
pub(super) fn attr_of(ino: Ino, attr: &esker_vfs::Attr, block: u32) -> Attr {
    let (atime, atimensec) = seconds(attr.accessed);
    let (mtime, mtimensec) = seconds(attr.modified);
    let (ctime, ctimensec) = seconds(attr.changed);
    Attr {
        ino: ino.0,
        size: attr.size,
        blocks: attr.allocated.div_ceil(512),
        atime,
        mtime,
        ctime,
        atimensec,
        mtimensec,
        ctimensec,
        mode: kind_bits(attr.kind) | u32::from(attr.mode),
        nlink: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        // Up to 32 bits both have the same layout.
        rdev: attr.device as u32,
        blksize: block,
        flags: 0,
    }
}

fn statx_of(ino: Ino, attr: &esker_vfs::Attr, block: u32) -> Statx {
    let time = |at: Stamp| {
        let (seconds, nanoseconds) = seconds(at);
        SxTime { seconds, nanoseconds, reserved: 0 }
    };
    let device = attr.device as u32;
    Statx {
        mask: STATX_BASIC | if attr.born.is_some() { STATX_BTIME } else { 0 },
        blksize: block,
        nlink: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        mode: (kind_bits(attr.kind) | u32::from(attr.mode)) as u16,
        ino: ino.0,
        size: attr.size,
        blocks: attr.allocated.div_ceil(512),
        atime: time(attr.accessed),
        btime: time(attr.born.unwrap_or(Stamp(0))),
        ctime: time(attr.changed),
        mtime: time(attr.modified),
        rdev_major: device >> 8 & 0xfff,
        rdev_minor: device & 0xff | device >> 12 & 0xf_ff00,
        ..Statx::zero()
    }
}

/// What the kernel learns of an inode that is given out.
pub(super) fn entry_of(numbers: Numbers, entry: &Entry, block: u32) -> EntryOut {
    EntryOut {
        node: numbers.node(entry.ino),
        generation: entry.generation,
        entry_valid: VALID_S,
        attr_valid: VALID_S,
        attr: attr_of(entry.ino, &entry.attr, block),
        ..EntryOut::zero()
    }
}

/// What a request sets. `now` stands for the time of the call.
fn wanted(set: &SetAttrIn, now: Stamp) -> SetAttr {
    let has = |bit: u32| set.valid & bit != 0;
    let time = |bit, now_bit, at| has(bit).then(|| if has(now_bit) { now } else { at });
    SetAttr {
        mode: has(fattr::MODE).then_some(set.mode as u16 & mode::ALL),
        uid: has(fattr::UID).then_some(set.uid),
        gid: has(fattr::GID).then_some(set.gid),
        size: has(fattr::SIZE).then_some(set.size),
        accessed: time(fattr::ATIME, fattr::ATIME_NOW, stamp(set.atime, set.atimensec)),
        modified: time(fattr::MTIME, fattr::MTIME_NOW, stamp(set.mtime, set.mtimensec)),
        flags: None,
        kill_privileges: has(fattr::KILL_SUIDGID),
    }
}

impl Session {
    pub(super) fn attr(&self, request: &Request<'_>) -> Answer<Parts> {
        let (ino, call) = (self.ino(request), self.call(request));
        self.told(request.unique, ino, self.fs.attr(call, ino))
    }

    pub(super) fn set_attr(self: &Rc<Self>, request: &Request<'_>, set: &SetAttrIn) -> Answer<Parts> {
        let (ino, call) = (self.ino(request), self.call(request));
        let set = wanted(set, call.now);
        if set.uid.is_none() && set.gid.is_none() {
            return self.told(request.unique, ino, self.fs.set_attr(call, ino, set));
        }
        // The kernel has checked the caller, and leaves it to us what a new owner costs an inode.
        let session = self.clone();
        let owned = self.with_attr(call, ino, move |attr| match may_set(&Cred::root(), &attr, set) {
            Ok(set) => session.fs.set_attr(call, ino, set),
            Err(errno) => Step::Now(Err(errno)),
        });
        self.told(request.unique, ino, owned)
    }

    fn told(&self, unique: u64, ino: Ino, answer: Answer<esker_vfs::Attr>) -> Answer<Parts> {
        let block = self.fs.about().block;
        answer.map(move |answer| {
            let attr = attr_of(ino, &answer?, block);
            Ok(Slice::heap(reply::with(unique, &AttrOut { valid: VALID_S, attr, ..AttrOut::zero() })).into())
        })
    }

    pub(super) fn statx(&self, request: &Request<'_>) -> Answer<Parts> {
        let (ino, call, unique) = (self.ino(request), self.call(request), request.unique);
        let block = self.fs.about().block;
        self.fs.attr(call, ino).map(move |answer| {
            let stat = statx_of(ino, &answer?, block);
            Ok(Slice::heap(reply::with(unique, &StatxOut { attr_valid: VALID_S, stat, ..StatxOut::zero() })).into())
        })
    }

    /// An inode that is given out to the kernel.
    pub(super) fn given(&self, entry: &Entry) -> EntryOut {
        self.pins.give(entry.ino);
        entry_of(self.numbers, entry, self.fs.about().block)
    }

    /// The attributes of an inode, then something that needs them.
    pub(super) fn with_attr<T: Unpin + 'static>(
        &self,
        call: Call,
        ino: Ino,
        then: impl FnOnce(esker_vfs::Attr) -> Answer<T> + 'static,
    ) -> Answer<T> {
        match self.fs.attr(call, ino) {
            Step::Now(Ok(attr)) => then(attr),
            Step::Now(Err(errno)) => Step::Now(Err(errno)),
            later => Step::later(async move { then(later.await?).await }),
        }
    }
}

/// A failure, at once.
pub(super) fn refused(errno: Errno) -> Answer<Parts> {
    Step::Now(Err(errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_and_at_the_ends_go_both_ways() {
        for at in [0, 1, -1, NS, -NS, 1_700_000_000 * NS + 5, -1_500_000_001] {
            let (seconds, nanoseconds) = seconds(Stamp(at));
            assert!(nanoseconds < NS as u32);
            assert_eq!(stamp(seconds, nanoseconds), Stamp(at));
        }
        assert_eq!(stamp(i64::MAX as u64, 5), Stamp(i64::MAX));
        assert_eq!(stamp(i64::MIN as u64, 0), Stamp(i64::MIN));
    }

    #[test]
    fn only_what_is_valid_is_set() {
        let set = SetAttrIn { mode: 0o104_755, uid: 5, size: 9, atime: 3, ..SetAttrIn::zero() };
        assert_eq!(wanted(&set, Stamp(7)), SetAttr::default());
        let mode = SetAttrIn { valid: fattr::MODE, ..set };
        assert_eq!(wanted(&mode, Stamp(7)), SetAttr { mode: Some(0o4755), ..SetAttr::default() });
        let times = SetAttrIn { valid: fattr::ATIME | fattr::MTIME | fattr::MTIME_NOW, ..set };
        let expected = SetAttr { accessed: Some(Stamp(3 * NS)), modified: Some(Stamp(7)), ..SetAttr::default() };
        assert_eq!(wanted(&times, Stamp(7)), expected);
        let owner = SetAttrIn { valid: fattr::UID, ..set };
        assert_eq!(wanted(&owner, Stamp(7)), SetAttr { uid: Some(5), ..SetAttr::default() });
        let cut = SetAttrIn { valid: fattr::SIZE | fattr::KILL_SUIDGID, ..set };
        let expected = SetAttr { size: Some(9), kill_privileges: true, ..SetAttr::default() };
        assert_eq!(wanted(&cut, Stamp(7)), expected);
    }
}
