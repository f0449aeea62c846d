//! Requests about a file as requests to its device, and the device's answers as error numbers. No payload is copied.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use esker_base::ByteRange;
use esker_block::{Bio, BioError, Buf, Device, Done, OpKind, RangeOp, Support, Tag};
use esker_rt::mem::{Parts, Pool};
use esker_rt::{Level, Rt};
use rustix::io::Errno;

use crate::proto::abi::{KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE};

/// One file.
pub(crate) struct Volume {
    pub name: String,
    device: Rc<dyn Device>,
    pool: Pool,
    rt: Rt,
    /// How often it is open.
    pub opens: Cell<u64>,
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
            opens: Cell::new(0),
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
    pub(crate) async fn read(&self, offset: u64, size: u32, tag: Tag) -> Result<Parts, Errno> {
        let len = u64::from(size).min(self.size().saturating_sub(offset));
        let asked = ByteRange::new(offset, len).ok_or(Errno::INVAL)?;
        if asked.is_empty() {
            return Ok(Parts::new());
        }
        let whole = asked.align_out(u64::from(self.block())).ok_or(Errno::INVAL)?;
        let bio = Bio::read(whole.start(), Buf::unique(&self.pool, whole.len() as usize));
        let mut buf = self.submit("read", bio, tag).await?.buf;
        if buf.is_described() {
            // Bytes that a simulated device only described are made here, for the first time.
            buf = buf.into_unique(&self.pool);
        }
        if whole != asked {
            buf = buf.slice((asked.start() - whole.start()) as usize, asked.len() as usize);
        }
        Ok(buf.into_parts())
    }

    pub(crate) async fn write(&self, offset: u64, payload: Parts, tag: Tag) -> Result<(), Errno> {
        let buf = Buf::from_parts(payload);
        self.whole_blocks(offset, buf.len() as u64)?;
        self.submit("write", Bio::write(offset, buf), tag).await.map(drop)
    }

    pub(crate) async fn flush(&self, tag: Tag) -> Result<(), Errno> {
        self.submit("flush", Bio::flush(), tag).await.map(drop)
    }

    /// `fallocate`. A punched hole must read as zeroes, so that it is more than the hint that `Discard` is: it becomes
    /// a `Zero` that may give the space back. Where the device takes no discards, or would write the zeroes out, the
    /// kernel is told that it cannot be done and falls back by itself: a hint is not worth writing a whole device.
    pub(crate) async fn allocate(&self, mode: u32, offset: u64, len: u64, tag: Tag) -> Result<(), Errno> {
        let zeroes = self.device.limits().support(OpKind::Zero) == Support::Native;
        let no_unmap = match mode & !KEEP_SIZE {
            PUNCH_HOLE if zeroes && self.can(OpKind::Discard) => false,
            ZERO_RANGE if zeroes => true,
            _ => return Err(Errno::OPNOTSUPP),
        };
        self.whole_blocks(offset, len)?;
        let mut bio = Bio::zero(offset, len);
        bio.flags.no_unmap = no_unmap;
        self.submit("zero", bio, tag).await.map(drop)
    }

    /// Makes `to` read as `from` does, and tells what was changed. `OPNOTSUPP` where the device cannot: then the kernel
    /// copies bytes.
    pub(crate) async fn clone_range(&self, from: u64, to: u64, len: u64, tag: Tag) -> Result<ByteRange, Errno> {
        let (Ok(src), Ok(dst)) = (self.whole_blocks(from, len), self.whole_blocks(to, len)) else {
            return Err(Errno::OPNOTSUPP);
        };
        let unit = u64::from(self.device.limits().remap);
        let is_whole = src.is_aligned(unit) && dst.is_aligned(unit);
        if !self.can(OpKind::Clone) || !is_whole || src.overlaps(dst) {
            return Err(Errno::OPNOTSUPP);
        }
        let op = RangeOp::Clone { src, dst: to };
        self.submit("clone", Bio::ranges(vec![op]), tag).await.map(|_| dst)
    }

    /// The range, if it is whole blocks of the file.
    fn whole_blocks(&self, offset: u64, len: u64) -> Result<ByteRange, Errno> {
        let range = ByteRange::new(offset, len).filter(|range| !range.is_empty() && range.end() <= self.size());
        range.filter(|range| range.is_aligned(u64::from(self.block()))).ok_or(Errno::INVAL)
    }

    async fn submit(&self, what: &str, bio: Bio, tag: Tag) -> Result<Done, Errno> {
        let range = bio.range;
        let done = self.device.submit(bio.tagged(tag)).await;
        match &done.result {
            Ok(_) => Ok(done),
            Err(error) => {
                // The kernel tells the caller; the first is enough for the log.
                let level = if self.told.replace(true) { Level::Debug } else { Level::Warn };
                self.rt.log(level, format_args!("\"{}\": {what} of {range} failed: {error}", self.name));
                Err(errno(error))
            }
        }
    }
}

fn errno(error: &BioError) -> Errno {
    match error {
        BioError::NoSpace(_) => Errno::NOSPC,
        BioError::ReadOnly(_) => Errno::ROFS,
        BioError::Unsupported(_) => Errno::OPNOTSUPP,
        BioError::Invalid(_) => Errno::INVAL,
        BioError::Io(_) | BioError::Corrupt(_) | BioError::Gone(_) | BioError::Latched(_) => Errno::IO,
    }
}
