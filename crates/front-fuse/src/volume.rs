//! Requests about a file as requests to its device, and the device's answers as error numbers. No payload is copied.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use esker_base::{ByteRange, Errno};
use esker_block::{Bio, BioError, Buf, Device, Done, OpKind, RangeOp, Step, Support, Tag};
use esker_rt::mem::Pool;
use esker_rt::{Level, Rt};
use esker_vfs::{AllocateKind, Answer, refuse};

/// One file.
pub(crate) struct Volume {
    pub name: String,
    device: Rc<dyn Device>,
    pool: Pool,
    rt: Rt,
    /// The loop device over it, once there is one.
    pub path: RefCell<Option<PathBuf>>,
    /// Whether an error was told already.
    told: Cell<bool>,
}

impl Volume {
    pub(crate) fn new(rt: &Rt, pool: &Pool, name: &str, device: Rc<dyn Device>) -> Volume {
        Volume {
            name: name.to_string(),
            device,
            pool: pool.clone(),
            rt: rt.clone(),
            path: RefCell::default(),
            told: Cell::new(false),
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.device.size()
    }

    pub(crate) fn block(&self) -> u32 {
        self.device.limits().block
    }

    pub(crate) fn discard(&self) -> u32 {
        self.device.limits().discard.max(self.block())
    }

    pub(crate) fn transfer_max(&self) -> u32 {
        self.device.limits().transfer_max
    }

    pub(crate) fn is_read_only(&self) -> bool {
        !self.can(OpKind::Write)
    }

    fn can(&self, kind: OpKind) -> bool {
        self.device.limits().support(kind) != Support::No
    }

    /// The bytes of a range as far as the file has them. Ranges that are not whole blocks are read as whole ones.
    pub(crate) fn read(self: &Rc<Self>, offset: u64, size: usize, tag: Tag) -> Answer<Buf> {
        let len = (size as u64).min(self.size().saturating_sub(offset));
        let Some(asked) = ByteRange::new(offset, len) else { return refuse(Errno::EINVAL) };
        if asked.is_empty() {
            return Step::Now(Ok(Buf::empty()));
        }
        let Some(whole) = asked.align_out(u64::from(self.block())) else { return refuse(Errno::EINVAL) };
        let bio = Bio::read(whole.start(), Buf::unique(&self.pool, whole.len() as usize));
        self.submit("read", bio, tag).map(move |done| {
            let mut buf = done?.buf;
            if whole != asked {
                buf = buf.slice((asked.start() - whole.start()) as usize, asked.len() as usize);
            }
            Ok(buf)
        })
    }

    pub(crate) fn write(self: &Rc<Self>, offset: u64, buf: Buf, tag: Tag) -> Answer<()> {
        match self.whole_blocks(offset, buf.len() as u64) {
            Ok(_) => self.submit("write", Bio::write(offset, buf), tag).map(|done| done.map(drop)),
            Err(errno) => refuse(errno),
        }
    }

    pub(crate) fn flush(self: &Rc<Self>, tag: Tag) -> Answer<()> {
        self.submit("flush", Bio::flush(), tag).map(|done| done.map(drop))
    }

    /// `fallocate`. A punched hole must read as zeroes, so that it is more than the hint that `Discard` is: it becomes
    /// a `Zero` that may give the space back. Where the device takes no discards, or would write the zeroes out, the
    /// kernel is told that it cannot be done and falls back by itself: a hint is not worth writing a whole device.
    pub(crate) fn allocate(self: &Rc<Self>, kind: AllocateKind, range: ByteRange, tag: Tag) -> Answer<()> {
        let zeroes = self.device.limits().support(OpKind::Zero) == Support::Native;
        let no_unmap = match kind {
            AllocateKind::Punch if zeroes && self.can(OpKind::Discard) => false,
            AllocateKind::Zero if zeroes => true,
            AllocateKind::Reserve | AllocateKind::Punch | AllocateKind::Zero => return refuse(Errno::EOPNOTSUPP),
        };
        if let Err(errno) = self.whole_blocks(range.start(), range.len()) {
            return refuse(errno);
        }
        let mut bio = Bio::zero(range.start(), range.len());
        bio.flags.no_unmap = no_unmap;
        self.submit("zero", bio, tag).map(|done| done.map(drop))
    }

    /// Makes `to` read as `from` does, and tells what was changed. `EOPNOTSUPP` where the device cannot: then the
    /// kernel copies bytes.
    pub(crate) fn clone_range(self: &Rc<Self>, from: u64, to: u64, len: u64, tag: Tag) -> Answer<ByteRange> {
        let (Ok(src), Ok(dst)) = (self.whole_blocks(from, len), self.whole_blocks(to, len)) else {
            return refuse(Errno::EOPNOTSUPP);
        };
        let unit = u64::from(self.device.limits().remap);
        let is_whole = src.is_aligned(unit) && dst.is_aligned(unit);
        if !self.can(OpKind::Clone) || !is_whole || src.overlaps(dst) {
            return refuse(Errno::EOPNOTSUPP);
        }
        let op = RangeOp::Clone { src, dst: to };
        self.submit("clone", Bio::ranges(vec![op]), tag).map(move |done| done.map(|_| dst))
    }

    /// The range, if it is whole blocks of the file.
    fn whole_blocks(&self, offset: u64, len: u64) -> Result<ByteRange, Errno> {
        let range = ByteRange::new(offset, len).filter(|range| !range.is_empty() && range.end() <= self.size());
        range.filter(|range| range.is_aligned(u64::from(self.block()))).ok_or(Errno::EINVAL)
    }

    fn submit(self: &Rc<Self>, what: &'static str, bio: Bio, tag: Tag) -> Answer<Done> {
        let (volume, range) = (self.clone(), bio.range);
        self.device.submit(bio.tagged(tag)).map(move |done| match &done.result {
            Ok(_) => Ok(done),
            Err(error) => {
                // The kernel tells the caller; the first is enough for the log.
                let level = if volume.told.replace(true) { Level::Debug } else { Level::Warn };
                volume.rt.log(level, format_args!("\"{}\": {what} of {range} failed: {error}", volume.name));
                Err(errno(error))
            }
        })
    }
}

fn errno(error: &BioError) -> Errno {
    match error {
        BioError::NoSpace(_) => Errno::ENOSPC,
        BioError::ReadOnly(_) => Errno::EROFS,
        BioError::Unsupported(_) => Errno::EOPNOTSUPP,
        BioError::Invalid(_) => Errno::EINVAL,
        BioError::Io(_) | BioError::Corrupt(_) | BioError::Gone(_) | BioError::Latched(_) => Errno::EIO,
    }
}
